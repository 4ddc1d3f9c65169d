"""The index process as `serve` starts it: what goes wrong is named, what may pass is tried again, a hang has an end."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from proxy.server.index_process import IndexProcess
from retrieval.errors import RetrievalError
from retrieval.rpc.client import SOCKET
from tests.support.plans import plan_for

Script = Callable[[str], None]


@pytest.fixture
def instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Has every Python that is started from now on run this first."""

    def write(code: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(code, "utf-8")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


@contextlib.asynccontextmanager
async def index_on(data: Path, *, start_s: float = 60, hang_s: float = 60) -> AsyncIterator[IndexProcess]:
    index = IndexProcess(plan_for(data), start_s=start_s, hang_s=hang_s)
    try:
        yield index
    finally:
        await index.stop()
    assert index.pid is None


async def until(index: IndexProcess, true: Callable[[], bool]) -> None:
    """Return when it is; looks whenever the index's trouble changes."""
    changed = asyncio.Event()
    index.on_change = lambda _reason: changed.set()
    async with asyncio.timeout(60):
        while not true():
            changed.clear()
            await changed.wait()


# What ends the first start


async def test_an_index_that_says_something_else_than_ready_is_ended(tmp_path: Path, instead: Script) -> None:
    instead("print('hello', flush=True)")
    async with index_on(tmp_path / "data") as index:
        with pytest.raises(RetrievalError, match="hello"):
            await index.start()
        assert index.pid is None
        assert not index.ready


async def test_an_index_that_ends_without_a_word_is_named(tmp_path: Path, instead: Script) -> None:
    instead("import os; os._exit(3)")
    async with index_on(tmp_path / "data") as index:
        with pytest.raises(RetrievalError, match="ended with status 3"):
            await index.start()


async def test_an_index_that_cannot_be_started_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    async with index_on(tmp_path / "data") as index:
        with pytest.raises(RetrievalError, match="cannot be started: No such file"):
            await index.start()


async def test_what_the_index_refuses_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("", "utf-8")
    async with index_on(tmp_path / "data") as index:
        with pytest.raises(RetrievalError, match="cannot use the data folder"):
            await index.start()


# What is tried again


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('error IndexDown Qdrant is away', flush=True); os._exit(1)", "Qdrant is away"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "status -9"),
        ("time.sleep(1000)", "no sign of life for 0.5 s"),
        ("print('step', flush=True); time.sleep(1000)", "no sign of life for 0.5 s"),
    ],
)
async def test_what_may_pass_is_told_and_tried_again(data: Path, instead: Script, code: str, reason: str) -> None:
    gate = data / "open"
    instead(f"import os, signal, time\nif not os.path.exists({str(gate)!r}):\n    {code}\n")
    silent = "no sign of life" in reason
    async with index_on(data, start_s=0.5 if silent else 60) as index:
        await index.start()
        assert not index.ready
        assert reason in index.unavailable_reason
        gate.touch()
        index._start_s = 60  # the real one takes its time
        await until(index, lambda: index.ready)
        assert index.pid is not None


async def test_signs_of_life_count_as_progress(tmp_path: Path, instead: Script) -> None:
    """Twice the limit in all, and never so long without a word."""
    instead(
        "import sys, time\nfor _ in range(20):\n    print('step', flush=True)\n    time.sleep(0.1)\n"
        "print('ready', flush=True)\nsys.stdin.read()\n"
    )
    async with index_on(tmp_path / "data", start_s=1) as index:
        await index.start()
        assert index.ready


# What hangs


@pytest.mark.models
async def test_an_index_that_hangs_is_killed_and_started_again(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with index_on(data, hang_s=2) as index:
        await index.start()
        hung = index.pid
        assert hung is not None
        os.kill(hung, signal.SIGSTOP)
        await until(index, lambda: index.unavailable_reason == "index does not answer")
        await until(index, lambda: index.ready)
        assert index.pid != hung
    assert "did not answer for 2 s: ragway kills the process" in caplog.text


@pytest.mark.models
async def test_an_index_that_goes_on_in_time_is_kept(data: Path) -> None:
    async with index_on(data, hang_s=10) as index:
        await index.start()
        hung = index.pid
        assert hung is not None
        os.kill(hung, signal.SIGSTOP)
        try:
            await until(index, lambda: index.unavailable_reason == "index does not answer")
        finally:
            os.kill(hung, signal.SIGCONT)
        await until(index, lambda: index.ready)
        assert index.pid == hung


@pytest.mark.models
async def test_an_index_that_nobody_can_reach_is_started_again(data: Path) -> None:
    async with index_on(data, hang_s=2) as index:
        await index.start()
        lost = index.pid
        (data / SOCKET).unlink()
        await until(index, lambda: index.pid != lost and index.ready)
        assert (data / SOCKET).exists()
