"""The machine: which cores the figures are taken on, and whether it has anything else to do."""

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
    """Who runs where: a server may not take time from those who measure it, nor they from it."""

    server: frozenset[int]  # one core
    edge: frozenset[int]  # load generator and mock upstream: the others
    every: frozenset[int]

    @property
    def together(self) -> "Cores":
        """Everybody on the server's core, for what happens one after the other.

        With one request at a time nothing is won by a second core, and each of the four hand-overs would wait until an
        idle one has woken up: of a virtual machine that costs more than what is measured.
        """
        return Cores(self.server, self.server, self.every)

    @staticmethod
    def of(usable: Iterable[int]) -> "Cores":
        """The last core for the server; where there is but one, all share it."""
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
    """Those this process may use."""
    return frozenset(os.sched_getaffinity(0))


def pin(pids: Iterable[int], cores: frozenset[int]) -> None:
    """Keep processes, with all threads they have and will have, on these cores."""
    for pid in pids:
        try:
            threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:  # it has ended
            continue
        for thread in threads:
            try:
                os.sched_setaffinity(thread, cores)
            except ProcessLookupError:
                continue


def refusal(load: float, cores: int) -> str:
    """Why nothing should be measured at this load average of the last minute; "" where it may be."""
    if load <= _MOST_LOAD * cores:
        return ""
    return (
        f"the machine is busy: load average {load:.2f}, expected at most {_MOST_LOAD * cores:.2f} on {cores} cores. "
        "Wait a minute, or stop what runs; --anyway measures all the same and marks the tables"
    )


class Watch:
    """How much of the machine's CPU time went elsewhere since it was made."""

    def __init__(self) -> None:
        self._begin, self._spent, self._own = time.monotonic(), _spent_s(), _own_s()

    def elsewhere(self) -> "Elsewhere":
        """Call it when all servers have ended: a process' time is ours once it was waited for."""
        offered_s = (time.monotonic() - self._begin) * (os.cpu_count() or 1)
        (busy, stolen), (busy_before, stolen_before) = _spent_s(), self._spent
        # The kernel counts the busy seconds in ticks, ours exactly.
        others_s = max(0.0, busy - busy_before - (_own_s() - self._own))
        return Elsewhere(others_s / offered_s, (stolen - stolen_before) / offered_s)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The shares, 0 to 1, of the machine's CPU time that a measurement did not have."""

    others: float  # other processes of this machine
    stolen: float  # what a virtual machine's host gave to others

    @property
    def disturbing(self) -> bool:
        """Whether that is too much for figures to be quoted."""
        return self.others + self.stolen > _MOST_ELSEWHERE


def conditions() -> dict[str, object]:
    """What the tables were taken on."""
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
    """Seconds that the host of a virtual machine has taken since its start, in the kernel's ticks."""
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
