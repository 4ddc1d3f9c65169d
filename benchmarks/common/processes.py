"""A server as a child process: start, CPU time and memory (Linux: /proc), pinning, stop."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import machine

ROOT = Path(__file__).resolve().parents[2]
_START_S = 180.0  # for a server to be ready, the first preparation of the embedder included
_STOP_S = 20.0
_FOREIGN = ("RAGWAY_", "OPENAI_", "QDRANT_", "LITELLM_")


class Unmeasurable(Exception):
    """The benchmark cannot run, for example because a server does not start."""


def refusal(*, anyway: bool) -> str:
    """Why the figures must not be quoted, or "". Raises Unmeasurable on a busy machine, unless `anyway`."""
    busy = machine.refusal(os.getloadavg()[0], len(machine.usable_cores()))
    if busy and not anyway:
        raise Unmeasurable(busy)
    return busy


@dataclass(slots=True)
class Running:
    """A running server."""

    process: subprocess.Popen[str]
    port: int
    ready_s: float  # since the start of the process

    def processes(self) -> dict[str, list[int]]:
        """Process ids: of the server with workers, and of the index process."""
        pids = [self.process.pid, *_descendants(self.process.pid)]
        index = [pid for pid in pids if b"retrieval." in _command_line(pid)]
        return {"server": [pid for pid in pids if pid not in index]} | ({"index": index} if index else {})

    def cpu_s(self) -> dict[str, float]:
        """CPU time used so far, user and system, of all threads, by role."""
        return {role: sum(map(_cpu_s, pids)) for role, pids in self.processes().items()}

    def cpu_by_process_s(self) -> dict[int, float]:
        """The same of each process."""
        return {pid: _cpu_s(pid) for pids in self.processes().values() for pid in pids}

    def rss_mb(self) -> dict[str, float]:
        """Resident memory."""
        return {role: sum(_memory_mb(pid, "VmRSS") for pid in pids) for role, pids in self.processes().items()}

    def own_mb(self) -> float:
        """Resident memory outside of files: memory that the system cannot drop and read again."""
        return sum(_memory_mb(pid, "RssAnon") for pids in self.processes().values() for pid in pids)

    def pin(self, cores: frozenset[int]) -> None:
        """Pin the HTTP processes to cores. The index process stays free, because embedding may use idle cores."""
        machine.pin(self.processes()["server"], cores)

    def stop(self) -> None:
        """Stop the server."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_S)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


PortOf = Callable[["subprocess.Popen[str]"], int]


def start(command: Sequence[str], folder: Path, name: str, extra: Mapping[str, str], port_of: PortOf) -> Running:
    """Start a server and wait until the server is ready. Raises Unmeasurable if the server ends or is too slow."""
    log = folder / f"{name}.log"
    begin = time.perf_counter()
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if port_of is printed_port else errors,
            stderr=errors,
            text=True,
            cwd=folder,
            env=environment(extra),
        )
    running = Running(process, 0, 0.0)
    overdue = threading.Timer(_START_S, process.kill)
    overdue.start()
    try:
        running.port = port_of(process)
        running.ready_s = time.perf_counter() - begin
    except BaseException:
        running.stop()
        raise
    finally:
        overdue.cancel()
    if not running.port:
        running.stop()
        raise Unmeasurable(f"{name} does not start: {log.read_text('utf-8', 'replace')[-2000:].strip()}")
    return running


def printed_port(process: "subprocess.Popen[str]") -> int:
    """The port in a server's ready line (a port alone or a curl line); 0 if the server ended."""
    assert process.stdout is not None
    found = re.search(r"^(?:curl http://127\.0\.0\.1:)?(\d+)", process.stdout.readline())
    return int(found[1]) if found else 0


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This environment without settings of the systems under test and without HTTP proxies for loopback."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN) and not k.lower().endswith("_proxy")}
    return {**kept, **extra}


def _descendants(pid: int) -> list[int]:
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
    except OSError:  # the process has ended
        return 0


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _cpu_s(pid: int) -> float:
    # The kernel's CPU clock of another process, in nanoseconds; utime and stime of /proc count whole hundredths of a
    # second. The number is MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of Linux' posix-timers.h.
    return time.clock_gettime((~pid << 3) | 2)


def _memory_mb(pid: int, kind: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = re.search(rf"^{kind}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
