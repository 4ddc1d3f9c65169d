"""The machine: the cores for each role, and whether other work disturbs the measurement."""

import importlib.metadata
import os
import platform
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_MOST_LOAD = 0.5  # of the cores, at the start
_MOST_ELSEWHERE = 0.05  # of the machine's CPU time, during the run
PACKAGES = ("ragway", "litellm", "uvicorn", "uvloop", "httpx", "httpx2", "aiohttp", "qdrant-edge-py", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Cores:
    """Which process runs on which cores: a server and the load generator must not take time from each other."""

    server: frozenset[int]  # a single core
    edge: frozenset[int]  # load generator and mock upstream: the others
    every: frozenset[int]

    @property
    def together(self) -> "Cores":
        """All roles on the server's core, for requests one at a time.

        With one request at a time a second core helps nothing, and each of the four hand-overs would wait for an idle
        core to wake up. On a virtual machine the wake-ups cost more than the measured work.
        """
        return Cores(self.server, self.server, self.every)

    @staticmethod
    def of(usable: Iterable[int]) -> "Cores":
        """The last core for the server; with a single core, all roles share the core."""
        every = frozenset(usable)
        server = frozenset({max(every)})
        return Cores(server, every - server or every, every)

    @property
    def told(self) -> str:
        """For the reader of the tables."""
        if self.edge == self.every:
            return "nothing"
        return f"server on core {_listed(self.server)}, load generator and upstream on {_listed(self.edge)}"


def usable_cores() -> frozenset[int]:
    """The cores that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def pin(pids: Iterable[int], cores: frozenset[int]) -> None:
    """Pin processes, with all current and future threads, to cores."""
    for pid in pids:
        try:
            threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:  # the process has ended
            continue
        for thread in threads:
            try:
                os.sched_setaffinity(thread, cores)
            except ProcessLookupError:
                continue


def refusal(load: float, cores: int) -> str:
    """Why the load average of the last minute forbids a measurement; "" if a measurement is fine."""
    if load <= _MOST_LOAD * cores:
        return ""
    return (
        f"the machine is busy: load average {load:.2f}, expected at most {_MOST_LOAD * cores:.2f} on {cores} cores. "
        "Wait a minute, or stop what runs; --anyway measures all the same and marks the tables"
    )


class Watch:
    """Measures how much of the machine's CPU time went to other work since creation."""

    def __init__(self) -> None:
        self._begin, self._spent, self._own = time.monotonic(), _spent_s(), _own_s()

    def elsewhere(self) -> "Elsewhere":
        """The shares of other work.

        Call after all servers have ended, because the kernel adds a child's time at the end.
        """
        offered_s = (time.monotonic() - self._begin) * (os.cpu_count() or 1)
        (busy, stolen), (busy_before, stolen_before) = _spent_s(), self._spent
        # The kernel counts the busy seconds in ticks, ours exactly.
        others_s = max(0.0, busy - busy_before - (_own_s() - self._own))
        return Elsewhere(others_s / offered_s, (stolen - stolen_before) / offered_s)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The shares (0 to 1) of the machine's CPU time that the measurement did not get."""

    others: float  # used by other processes of this machine
    stolen: float  # taken by the host of the virtual machine

    @property
    def disturbing(self) -> bool:
        """Whether the shares are too large for quotable figures."""
        return self.others + self.stolen > _MOST_ELSEWHERE


def conditions() -> dict[str, object]:
    """The machine and the versions, for the tables."""
    return {
        "CPU": _cpu_model(),
        "cores": len(usable_cores()),
        "Linux": platform.release(),
        "Python": platform.python_version(),
        **_versions(),
    }


def load() -> str:
    """The load averages as text."""
    return "/".join(f"{value:.1f}" for value in os.getloadavg())


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def stolen_s() -> float:
    """Seconds taken by the host of a virtual machine since boot, in kernel ticks."""
    return _spent_s()[1]


def _spent_s() -> tuple[float, float]:
    """Seconds of CPU time of all processes (user, nice and system), and seconds stolen, since the machine's start."""
    ticks = [int(ticks) for ticks in Path("/proc/stat").read_text("utf-8").split("\n", 1)[0].split()[1:]]
    return sum(ticks[:3]) * _TICK_S, ticks[7] * _TICK_S


def _own_s() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _listed(cores: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(cores)))
