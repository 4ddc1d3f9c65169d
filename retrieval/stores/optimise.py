"""A copy of a shard, optimised by a process of its own: the engine would hold its own process' GIL for minutes.

    python -m retrieval.stores.optimise SOURCE TARGET DIMENSION POINTS

It copies the shard, prints "copied", optimises the copy, in parts where it is large, and ends. Nobody may write to the
source until "copied"; nobody has the target open meanwhile. It has the lowest priority, and ends when its standard
input does.
"""

import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from retrieval.errors import RetrievalError
from retrieval.stores import shard
from runtime.scheduling import in_the_background

_PIECE_BYTES = 2**24
_MOST_TOLD = 300  # characters of what it says of a fault


def start(source: Path, target: Path, dimension: int, *, points: int) -> "subprocess.Popen[bytes]":
    """The process, once it has made its copy. points: how many the shard has. Raises RetrievalError."""
    process = subprocess.Popen(
        [sys.executable, "-m", "retrieval.stores.optimise", str(source), str(target), str(dimension), str(points)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    if process.stdout.readline() != b"copied\n":
        raise RetrievalError(f"optimising the index failed: {outcome(process)}")
    return process


def outcome(process: "subprocess.Popen[bytes]") -> str:
    """Waits for the end; "" if it is done, else what went wrong."""
    assert process.stderr is not None
    said = process.stderr.read()
    with process:  # waits, and closes its input last: that is how it knows that we are alive
        process.wait()
    if process.returncode == 0:
        return ""
    return f"{said.decode('utf-8', 'replace').strip()[-_MOST_TOLD:]} (exit {process.returncode})".strip()


def copy(source: Path, target: Path) -> None:
    """Copy a shard's files, holes as holes: the engine makes files of many megabytes and fills little of them."""
    for file in shard.files(source):
        there = target / file.relative_to(source)
        there.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as read, there.open("wb") as write:
            size = os.fstat(read.fileno()).st_size
            for begin, end in _filled(read.fileno(), size):
                read.seek(begin)
                write.seek(begin)
                for at in range(begin, end, _PIECE_BYTES):
                    write.write(read.read(min(_PIECE_BYTES, end - at)))
            write.truncate(size)


def _filled(file: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes; all of it where the system cannot tell."""
    if not hasattr(os, "SEEK_DATA"):
        yield 0, size
        return
    at = 0
    while at < size:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        end = os.lseek(file, at, os.SEEK_HOLE)
        yield at, end
        at = end


def main() -> int:
    in_the_background(19)
    source, target, dimension, points = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    shutil.rmtree(target, ignore_errors=True)
    copy(source, target)
    sys.stdout.write("copied\n")
    sys.stdout.flush()
    # The engine lets no thread of ours run while it works, so only the copy can be given up early.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    opened = shard.open_shard(target, dimension, points=points)
    with shard.engine("optimise the index"):
        shard.index_tenants_anew(opened)
        if shard.parts(points) > 1 and shard.scanned(opened) > shard.SEGMENT:
            opened.close()
            opened = shard.divided(target, dimension, points=points)
        opened.optimize()
        opened.close()
    return 0


def _end_with_parent() -> None:
    select.select([sys.stdin], [], [])
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
