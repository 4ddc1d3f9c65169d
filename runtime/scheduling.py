"""Which process gets a busy core first: one that answers requests, before one that does bulk work.

    python -m runtime.scheduling MODULE    calls the module's `main` in its own process group

Linux shares a core fairly: a thread that wakes up waits until the running one has used its slice, measured by a clock
with 4 ms ticks. Niceness alone does not help, and with automatic groups (sched(7)) it counts only within a session:
all sessions get equal shares of a core, and a thread waits for its session's turn. So all processes of a gateway share
a session, bulk work gets its own, and the answering thread asks for the shortest slice, which lets it run without
waiting for other slices. The index process must not be nicer than the gateway, because it answers searches.
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
    """Let the calling thread preempt others as soon as it wakes up (Linux 6.12 or later).

    Does nothing on other systems or without permission.
    """
    number = _SCHED_SETATTR.get(platform.machine()) if sys.platform == "linux" else None
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, _SLICE_NS, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, wanted, 0)


def in_the_background(nice: int) -> None:
    """Move this process to its own session, with this niceness. nice: 1 to 19; 19 runs last.

    Call before it starts threads, because these keep the old niceness.
    """
    os.nice(nice)
    with contextlib.suppress(OSError):  # it leads a group already, or the system is not Linux
        os.setsid()
        Path("/proc/self/autogroup").write_text(str(nice))


def this_process() -> str:
    """This process's name for people, for example `process 7 (ragway serve)`."""
    program, *words = sys.argv[:2]
    name = "ragway" if Path(program).name == "__main__.py" else Path(program).name
    return f"process {os.getpid()} ({' '.join([name, *words])})"


def child_command(module: str, *words: str) -> list[str]:
    """The command for a child process that runs a module's `main`; Ctrl-C in the terminal does not reach it.

    words: arguments for the module, in sys.argv from index 2.

    It stays in this session but moves to its own process group. asyncio can only start a child in a new session.
    """
    return [sys.executable, "-m", "runtime.scheduling", module, *words]


def main() -> int:
    os.setpgrp()
    code: int = importlib.import_module(sys.argv[1]).main()
    return code


if __name__ == "__main__":
    sys.exit(main())
