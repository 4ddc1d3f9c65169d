"""Find the processes of a test run by a mark in the environment of each process. Needs /proc."""

import contextlib
import os
import signal
from pathlib import Path

_MARK = "STARTED_BY_TEST_RUN"


def mark() -> None:
    """Mark the processes that the test run starts from now on, and the children of those processes."""
    os.environ[_MARK] = str(os.getpid())


def kill_marked() -> None:
    """Kill the marked processes of the test run."""
    mine = f"{_MARK}={os.getpid()}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            if int(folder.name) != os.getpid() and mine in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
