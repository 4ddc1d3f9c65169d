"""The index process as `serve` starts it: what goes wrong at its start is named, and nothing is waited for in vain."""

import sys
from pathlib import Path

import pytest

from proxy.supervise import IndexProcess
from retrieval.errors import RetrievalError
from tests.plans import plan_for


async def test_an_index_that_says_something_else_than_ready_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello', flush=True)", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    index = IndexProcess(plan_for(tmp_path / "data"))
    with pytest.raises(RetrievalError, match="hello"):
        await index.start()
    assert index.pid is None
    assert not index.ready
    await index.stop()


async def test_an_index_that_cannot_be_started_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    index = IndexProcess(plan_for(tmp_path / "data"))
    with pytest.raises(RetrievalError, match="cannot be started: No such file"):
        await index.start()
    await index.stop()


async def test_what_the_index_refuses_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("", "utf-8")
    index = IndexProcess(plan_for(tmp_path / "data"))
    with pytest.raises(RetrievalError, match="cannot use the data folder"):
        await index.start()
    await index.stop()
