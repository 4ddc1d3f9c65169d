"""Optimise a copy of a shard in a separate process: the engine would hold the caller's GIL for minutes.

        python -m retrieval.stores.edge_optimise SOURCE TARGET VECTORS POINTS

It copies the shard, prints "copied", optimises the copy (a large one segment by segment), and ends. Nobody may write
to the source before "copied", or open the target before the end. The process has the lowest priority, and ends when
its standard input closes.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from retrieval.errors import RetrievalError
from retrieval.stores import edge_shard
from retrieval.stores.schema import Vectors
from runtime.scheduling import in_the_background

_COPY_BYTES = 2**24
_MAX_ERROR_CHARS = 300  # of error output


def start(source: Path, target: Path, vectors: Vectors, *, points: int) -> "subprocess.Popen[bytes]":
    """Start the process and return when the copy is made. points: in the shard. Raises RetrievalError."""
    process = subprocess.Popen(
        [sys.executable, "-m", "retrieval.stores.edge_optimise", source, target, json.dumps(vectors), str(points)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    if process.stdout.readline() != b"copied\n":
        raise RetrievalError(f"optimising the index failed: {wait_for_end(process)}")
    return process


def wait_for_end(process: "subprocess.Popen[bytes]") -> str:
    """Wait for the process to end. Return "" after success, or its error."""
    assert process.stderr is not None
    output = process.stderr.read()
    with process:  # closes standard input last: while it is open, the process knows that its parent lives
        process.wait()
    if process.returncode == 0:
        return ""
    return f"{output.decode('utf-8', 'replace').strip()[-_MAX_ERROR_CHARS:]} (exit {process.returncode})".strip()


def copy(source: Path, target: Path) -> None:
    """Copy a shard's files and keep holes: the engine makes files of many megabytes and fills only a small part."""
    for file in edge_shard.files(source):
        copied = target / file.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as read, copied.open("wb") as write:
            size = os.fstat(read.fileno()).st_size
            for begin, end in _data_ranges(read.fileno(), size):
                read.seek(begin)
                write.seek(begin)
                for position in range(begin, end, _COPY_BYTES):
                    write.write(read.read(min(_COPY_BYTES, end - position)))
            write.truncate(size)


def _data_ranges(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a file that are not holes; the whole file if the system does not report any."""
    if not hasattr(os, "SEEK_DATA"):
        yield 0, size
        return
    position = 0
    while position < size:
        try:
            position = os.lseek(file, position, os.SEEK_DATA)
        except OSError:  # only a hole is left
            return
        end = os.lseek(file, position, os.SEEK_HOLE)
        yield position, end
        position = end


def main() -> int:
    in_the_background(19)
    source, target, vectors, points = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
    shutil.rmtree(target, ignore_errors=True)
    copy(source, target)
    sys.stdout.write("copied\n")
    sys.stdout.flush()
    # The engine lets no other thread run while it works, so a parent's death ends only the copying early.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    opened = edge_shard.open_shard(target, vectors, points=points)
    with edge_shard.engine("optimise the index"):
        edge_shard.recreate_tenant_index(opened)
        if edge_shard.segment_count(points) > 1 and edge_shard.without_graph(opened) > edge_shard.SEGMENT:
            opened.close()
            opened = edge_shard.rewrite_in_segments(target, vectors, points=points)
        opened.optimize()
        opened.close()
    return 0


def _end_with_parent() -> None:
    select.select([sys.stdin], [], [])
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
