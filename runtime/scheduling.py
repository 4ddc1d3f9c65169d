"""Which of the processes that want a core has it: those that somebody waits for, before those that can take their time.

    python -m runtime.scheduling MODULE    calls the module's `main` in a process group of its own

Linux shares a core fairly: a thread that wakes waits until the one that runs has had its slice, as seen by a clock that
ticks every 4 ms. Niceness alone does not change that, and with automatic groups (sched(7)) it counts only within a
session: each session has the same share of a core, and within a core's share a thread waits for its session's turn. So
the processes of a gateway are of one session, those of bulk work each of their own, and the thread that answers has a
slice so short that it never waits for another's. What that gains: docs/scaling.md.
"""

import contextlib
import ctypes
import importlib
import os
import platform
import sys
from pathlib import Path

_SLICE_NS = 100_000  # the shortest that there is
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}  # the number of the system call; libc had it in 2.41
_RESET_ON_FORK = 1  # what the thread starts has the usual slice


class _Attributes(ctypes.Structure):
    """struct sched_attr, as sched_setattr(2) has it."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def at_once() -> None:
    """Let the calling thread run as soon as it has something to do, where the system knows how (Linux 6.12).

    Elsewhere, and where it may not, nothing happens.
    """
    number = _SCHED_SETATTR.get(platform.machine()) if sys.platform == "linux" else None
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    wanted = _Attributes(
        size=ctypes.sizeof(_Attributes),
        policy=os.SCHED_OTHER,
        flags=_RESET_ON_FORK,
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        runtime=_SLICE_NS,
    )
    ctypes.CDLL(None).syscall(number, 0, ctypes.byref(wanted), 0)


def in_the_background(nice: int) -> None:
    """Let this process stand behind others: a session of its own, so nice. nice: 1 to 19, the last of all.

    It has no threads yet, since each would keep its niceness.
    """
    os.nice(nice)
    with contextlib.suppress(OSError):  # it leads a group already; or this is no Linux
        os.setsid()
        Path("/proc/self/autogroup").write_text(str(nice))


def this_process() -> str:
    """This process as a person knows it, such as `process 7 (ragway serve)`."""
    program, *words = sys.argv[:2]
    name = "ragway" if Path(program).name == "__main__.py" else Path(program).name
    return f"process {os.getpid()} ({' '.join([name, *words])})"


def beside(module: str, *words: str) -> list[str]:
    """The command of a process of this session that Ctrl-C in its terminal does not reach; `main` of the module is it.

    words: the module finds them in sys.argv from 2 on.

    It is in a process group of its own as soon as Python runs. Event loops only know how to give it a session.
    """
    return [sys.executable, "-m", "runtime.scheduling", module, *words]


def main() -> int:
    os.setpgrp()
    code: int = importlib.import_module(sys.argv[1]).main()
    return code


if __name__ == "__main__":
    sys.exit(main())
