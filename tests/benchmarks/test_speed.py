"""What the measurement of reading counts for a command."""

import sys
from pathlib import Path

from benchmarks.documents.speed import drawn, used


def test_time_and_memory_of_a_commands_processes_count() -> None:
    child = "import time; held = b'x' * 70_000_000; time.sleep(1.5); print(len(input()))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    use = used([sys.executable, "-c", parent], "twelve signs")
    assert use.out == "12\n"
    assert use.megabytes > 60
    assert use.seconds > 1.5
    assert 0 < use.cpu_s < use.seconds + 1


def test_the_same_files_are_drawn_again() -> None:
    files = [Path(f"{number}.md") for number in range(99)]
    assert drawn(files, 9) == drawn(files, 9)
    assert len(set(drawn(files, 9))) == 9
    assert drawn(files, None) == files
