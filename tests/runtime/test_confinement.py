"""What a process that reads foreign documents can no longer do, tried in the real sandbox."""

import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.confinement import lacking
from runtime.sandbox import Answers, Sandbox, SandboxJob

pytestmark = pytest.mark.skipif(bool(lacking()), reason=f"this system cannot forbid {lacking()}")

_TOLD = "tried in the real sandbox"

Try = tuple[str, str]  # what, and with what
Trying = Callable[..., Awaitable[object]]


class Refused(Exception):
    pass


def _worker() -> Callable[[Try], object]:
    return _tried


def _tried(item: Try) -> object:
    """Return what came of it, or the error's name."""
    name, argument = item
    try:
        return _TRIES[name](argument)
    except OSError as error:
        return type(error).__name__


def _connected(port: str) -> str:
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5):
        return "connected"


def _in_thread(_: str) -> list[str]:
    done: list[str] = []
    thread = threading.Thread(target=done.append, args=("ran",))
    thread.start()
    thread.join()
    return done


_TRIES: dict[str, Callable[[str], Any]] = {
    "read": lambda path: Path(path).read_text("utf-8"),
    "list": os.listdir,
    "write": lambda path: Path(path).write_text("x", "utf-8"),
    "append": lambda path: Path(path).open("ab").close(),
    "cut": lambda path: os.truncate(path, 0),
    "delete": lambda path: Path(path).unlink(),
    "rename": lambda path: os.rename(path, path + "2"),  # noqa: PTH104
    "rights": lambda path: Path(path).chmod(0o777),
    "times": lambda path: os.utime(path, (0, 0)),
    "make folder": lambda path: Path(path).mkdir(),
    "make link": lambda path: Path(path).symlink_to("/etc/passwd"),
    "connect": _connected,
    "datagram": lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "unix socket": lambda _: socket.socket(socket.AF_UNIX).close(),
    "run": lambda program: subprocess.run([program], check=False).returncode,
    "spawn": lambda program: os.posix_spawn(program, [program], {}),
    "fork": lambda _: os.fork(),
    "become": lambda program: os.execv(program, [program]),
    "end": lambda pid: os.kill(int(pid), signal.SIGTERM),
    "limit": lambda pid: resource.prlimit(int(pid), resource.RLIMIT_NOFILE, (64, 64)),
    "thread": _in_thread,
    "code": lambda name: __import__(name).__name__,
    "call": lambda _: _Call(),
    "long": lambda length: "x" * int(length),
}


class _Call:
    """Would run a function in the process that unpickles it."""

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return os.getcwdb, ()  # type: ignore[return-value]


@pytest.fixture
async def trying() -> AsyncIterator[Trying]:
    job = SandboxJob(_worker, Refused, "too slow", "died", attempts=1, confined=True, answer_mb=1)
    sandbox = Sandbox(job, processes=1, idle=1)

    async def run(name: str, argument: object = "") -> object:
        return await sandbox.run((name, str(argument)))

    yield run
    await sandbox.close()


@pytest.fixture
def there(tmp_path: Path) -> Path:
    file = tmp_path / "there.txt"
    file.write_text("secret", "utf-8")
    return file


def _seen(file: Path) -> tuple[str, int, float, list[Path]]:
    status = file.stat()
    return file.read_text("utf-8"), status.st_mode, status.st_mtime, list(file.parent.iterdir())


async def test_files_cannot_be_read_changed_or_made(trying: Trying, there: Path) -> None:
    before = _seen(there)
    for name in ("read", "write", "append", "cut", "delete", "rename", "rights", "times"):
        assert await trying(name, there) == "PermissionError", name
    for name in ("write", "make folder", "make link"):
        assert await trying(name, there.with_name("new")) == "PermissionError", name
    assert await trying("list", there.parent) == "PermissionError"
    assert await trying("read", "/etc/passwd") == "PermissionError"
    assert await trying("read", "/proc/self/environ") == "PermissionError"
    assert _seen(there) == before


async def test_no_connection_is_made(trying: Trying) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await trying("connect", server.getsockname()[1]) == "PermissionError"
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert await trying("datagram") == "PermissionError"
    assert await trying("unix socket") == "PermissionError"


async def test_no_process_is_started_or_touched(trying: Trying) -> None:
    for name in ("run", "spawn", "become"):
        assert await trying(name, sys.executable) == "PermissionError", name
    assert await trying("fork") == "PermissionError"
    assert await trying("end", os.getpid()) == "PermissionError"
    assert await trying("end", 0) == "PermissionError"  # its group, which is ours
    assert await trying("limit", os.getpid()) == "PermissionError"


async def test_what_parsers_need_goes_on(trying: Trying) -> None:
    assert await trying("thread") == ["ran"]
    assert await trying("code", "bs4") == "bs4"  # imported on first use
    assert _TOLD in str(await trying("read", __file__))  # a module beside one that is loaded


async def test_an_answer_that_would_call_something_is_refused(trying: Trying) -> None:
    with pytest.raises(Refused, match="died"):
        await trying("call")
    assert await trying("thread") == ["ran"]


async def test_an_answer_without_measure_is_refused(trying: Trying) -> None:
    with pytest.raises(Refused, match="more than 1 MB"):
        await trying("long", 2**20)
    assert await trying("thread") == ["ran"]


def test_only_values_are_unpickled() -> None:
    for bad in (os.system, subprocess.Popen, Path, print, Sandbox):
        with pytest.raises(pickle.UnpicklingError, match="no value"):
            Answers(pickle.dumps(bad)).load()
    assert Answers(pickle.dumps(Refused("no"))).load().args == ("no",)
