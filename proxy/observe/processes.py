"""Memory, processor time and open files of our processes, and free space on the data folder's disk.

Read from /proc at each scrape; without /proc (not Linux), only free space.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

_PROC = Path("/proc")
_KINDS = {b"retrieval.rpc.server": "index", b"cli.worker": "worker"}  # modules that `ragway serve` starts
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Processes:
    """A prometheus_client collector. Workers add up."""

    def __init__(self, data: Path | None) -> None:
        self._data = data

    def collect(self) -> Iterator[Metric]:
        if self._data is not None:
            with contextlib.suppress(OSError):
                free = shutil.disk_usage(self._data).free
                yield GaugeMetricFamily("ragway_data_free_bytes", "Free space of the data folder's disk.", free)
        memory = GaugeMetricFamily("ragway_process_memory_bytes", "Memory in use.", labels=["process"])
        files = GaugeMetricFamily("ragway_process_open_files", "Open files and connections.", labels=["process"])
        seconds = CounterMetricFamily("ragway_process_cpu_seconds", "Time of the processor.", labels=["process"])
        sums: dict[str, list[float]] = {}
        for kind, pid in _processes():
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
                found = _figures(_PROC / str(pid))
                sums[kind] = [one + more for one, more in zip(sums.get(kind, (0, 0, 0)), found, strict=True)]
        for kind, (used, opened, took) in sums.items():
            memory.add_metric([kind], used)
            files.add_metric([kind], opened)
            seconds.add_metric([kind], took)
        yield from (memory, files, seconds)


def _processes() -> Iterator[tuple[str, int]]:
    """Kind and id of the first process and its children. Runs in a worker, which is one of those."""
    first = os.getppid()
    try:
        children = (_PROC / str(first) / "task" / str(first) / "children").read_text("ascii").split()
    except OSError:
        yield "worker", os.getpid()
        return
    if str(os.getpid()) not in children:  # not started by `ragway serve`
        return
    yield "serve", first
    for child in map(int, children):
        with contextlib.suppress(OSError):
            words = (_PROC / str(child) / "cmdline").read_bytes().split(b"\0")
            kind = next((_KINDS[word] for word in words if word in _KINDS), None)
            if kind is not None:
                yield kind, child


def _figures(folder: Path) -> tuple[float, float, float]:
    """Memory in bytes, open files, processor time in seconds. Raises OSError, ValueError, IndexError."""
    pages = int((folder / "statm").read_text("ascii").split()[1])
    fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / _TICKS  # utime and stime, see proc(5)
    return float(pages * _PAGE_BYTES), float(len(list((folder / "fd").iterdir()))), seconds
