"""Which process has a core: read from what the kernel says of each."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runtime.scheduling import child_command, prefer_low_latency

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux is asked")


def _slice_ns() -> int | None:
    """Of the calling thread; None where this kernel does not tell, or has one for all."""
    said = Path(f"/proc/self/task/{threading.get_native_id()}/sched")
    found = re.search(r"^se\.slice\s*:\s*(\d+)", said.read_text() if said.exists() else "", re.MULTILINE)
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    return int(found[1]) if found is not None and release >= (6, 12) else None


def test_a_thread_that_answers_has_the_shortest_slice_and_what_it_starts_the_usual() -> None:
    seen: dict[str, int | None] = {}

    def started() -> None:
        seen["started"] = _slice_ns()

    def answers() -> None:
        seen["before"] = _slice_ns()
        prefer_low_latency()
        seen["after"] = _slice_ns()
        thread = threading.Thread(target=started)
        thread.start()
        thread.join()

    thread = threading.Thread(target=answers)
    thread.start()
    thread.join()
    if seen["before"] is None:
        pytest.skip("this kernel has one slice for all, or does not tell")
    assert seen["after"] == 100_000 < seen["before"]
    assert seen["started"] == seen["before"]


def test_bulk_work_has_a_session_of_its_own_and_the_niceness_of_it() -> None:
    code = """if True:
        import os
        from pathlib import Path
        from runtime.scheduling import in_the_background
        in_the_background(10)
        group = Path("/proc/self/autogroup")
        print(os.getpriority(os.PRIO_PROCESS, 0), os.getsid(0) == os.getpid())
        print(group.read_text() if group.exists() else "")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    told, group = done.stdout.split("\n", 1)
    assert told == f"{os.getpriority(os.PRIO_PROCESS, 0) + 10} True"
    assert group.strip() == "" or group.endswith(" nice 10\n\n")


def test_where_it_leads_a_group_it_leaves_those_of_its_session_alone() -> None:
    code = """if True:
        import os
        from pathlib import Path
        from runtime.scheduling import in_the_background
        os.setpgrp()
        group = Path("/proc/self/autogroup")
        before = group.read_text() if group.exists() else ""
        in_the_background(10)
        assert os.getsid(0) != os.getpid()
        assert before == (group.read_text() if group.exists() else "")
    """
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_process_beside_is_of_this_session_and_of_a_group_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text("import os\ndef main():\n    print(os.getsid(0), os.getpgrp() == os.getpid())\n")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    done = subprocess.run(child_command("told"), capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.split() == [str(os.getsid(0)), "True"]
