"""Which process gets a busy core first: a process that answers requests, before a process of bulk work.

    python -m runtime.scheduling MODULE    calls the module's `main` in a process group of its own

Linux shares a core fairly: a thread that wakes up waits until the running thread has used its slice, measured by a
clock with ticks of 4 ms. Niceness alone does not help, and with automatic groups (sched(7)) niceness counts only within
a session: all sessions get equal shares of a core, and a thread waits for the turn of the thread's session. So all
processes of a gateway share a session, bulk work gets its own session, and the answering thread asks for the shortest
slice, which lets the thread run without waiting for other slices. The index process must not be nicer than the gateway,
because it answers searches.
"""

import contextlib
import ctypes
import importlib
import os
import platform
import struct
import sys
from pathlib import Path

_SLICE_NS = 100_000  # the shortest slice that Linux allows
# system call numbers; libc has no function before 2.41
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # sched_attr of sched_setattr(2); the slice is its `runtime`
_RESET_ON_FORK = 1  # child threads and processes get the default slice


def prefer_low_latency() -> None:
    """Let the calling thread preempt other threads as soon as the thread wakes up (Linux 6.12 or later).

    Does nothing on other systems or without permission.
    """
    number = _SCHED_SETATTR.get(platform.machine()) if sys.platform == "linux" else None
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, _SLICE_NS, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, wanted, 0)


def in_the_background(nice: int) -> None:
    """Move this process to a session of its own, with this niceness. nice: 1 to 19; 19 runs last.

    Call before the process starts threads, because threads keep the old niceness.
    """
    os.nice(nice)
    with contextlib.suppress(OSError):  # the process leads a group already, or the system is not Linux
        os.setsid()
        Path("/proc/self/autogroup").write_text(str(nice))


def this_process() -> str:
    """A name of this process for people, for example `process 7 (ragway serve)`."""
    program, *words = sys.argv[:2]
    name = "ragway" if Path(program).name == "__main__.py" else Path(program).name
    return f"process {os.getpid()} ({' '.join([name, *words])})"


def child_command(module: str, *words: str) -> list[str]:
    """The command for a child process that runs `main` of a module; Ctrl-C in the terminal does not reach the child.

    words: arguments for the module, in sys.argv from index 2.

    The child stays in this session but moves to its own process group. asyncio can only start a child in a new session.
    """
    return [sys.executable, "-m", "runtime.scheduling", module, *words]


def main() -> int:
    os.setpgrp()
    code: int = importlib.import_module(sys.argv[1]).main()
    return code


if __name__ == "__main__":
    sys.exit(main())
