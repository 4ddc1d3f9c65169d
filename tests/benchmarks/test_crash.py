"""The crash trials: their oracle sees what is lost or half there, and a handful of kills lose nothing."""

import argparse
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from benchmarks.crash import crash
from benchmarks.crash.crash import Told, run_trials
from benchmarks.crash.oracle import Act, Oracle, Seen, look
from retrieval.embedding.export import DEFAULT_MODEL
from retrieval.index.index import Index
from tests.support.plans import plan_for, silent


def oracle(begun: Act | None = None) -> Oracle:
    """One that knows two documents of alpha."""
    return Oracle(Random(1), {"alpha": {"d0": "old", "d1": "kept"}}, {}, begun)


def test_of_an_act_under_way_each_document_may_be_the_old_or_the_new_one() -> None:
    put = Act("put", "alpha", {"d0": "new", "d2": "more"})
    for seen in ({"d0": "old", "d1": "kept"}, {"d0": "new", "d1": "kept"}, {"d0": "old", "d1": "kept", "d2": "more"}):
        assert oracle(put).judge({"alpha": seen}) == []
    for wrong in ({"d0": "other", "d1": "kept"}, {"d1": "kept"}, {"d0": "new"}, {"d0": "old", "d1": "kept", "d3": "?"}):
        assert len(oracle(put).judge({"alpha": wrong})) == 1
    assert len(oracle(put).judge({})) == 1


def test_what_is_acknowledged_must_be_there() -> None:
    known = oracle(Act("put", "alpha", {"d0": "new", "d1": None}))
    known.done()
    assert known.judge({"alpha": {"d0": "new"}}) == []
    known.begin(Act("rebuild", "alpha"))
    assert len(known.judge({"alpha": {"d0": "old"}})) == 1


def test_a_collection_goes_at_once() -> None:
    gone = Act("delete collection", "alpha", {"d0": None, "d1": None})
    states: list[Seen] = [{}, {"alpha": {}}, {"alpha": {"d0": "old", "d1": "kept"}}]
    for seen in states:
        assert oracle(gone).judge(seen) == []
    assert len(oracle(gone).judge({"alpha": {"d0": "old"}})) == 1
    assert len(oracle().judge({"alpha": {"d0": "old", "d1": "kept"}, "beta": {}})) == 1


@pytest.mark.models
async def test_a_search_that_misses_a_passage_is_seen(data_with_model: Path) -> None:
    plan = plan_for(data_with_model, {"ingest.chunk_tokens": 40, "ingest.context_tokens": 16}, model=DEFAULT_MODEL)
    index = await Index.open(plan, serving=False)
    act = Oracle(Random(1)).ingest("alpha")
    folder = data_with_model.with_name("files")
    folder.mkdir()
    for key, text in act.texts.items():
        (folder / key.removeprefix("file ")).write_text(text or "", "utf-8")
    await index.writing.ingest([folder], "alpha", silent)
    seen, wrong = await look(index)
    assert (seen, wrong) == ({"alpha": act.texts}, [])
    store = index._spaces.configured.store
    ((id, _), *_) = await store.passages(index._catalog.collection("alpha").tenant)
    await store.delete(index._catalog.collection("alpha").tenant, [id])
    _, wrong = await look(index)
    assert wrong
    await index.close()


@pytest.mark.models
@pytest.mark.parametrize(("gateway", "trials"), [(False, 6), (True, 2)])
async def test_a_kill_at_a_random_moment_loses_nothing(data: Path, gateway: bool, trials: int) -> None:
    told = Told()
    await run_trials(data, told, trials=trials, random=Random(trials), gateway=gateway)
    assert told.wrong == []
    assert told.killed.total() >= trials - 1  # one may come too late for what is under way
    assert told.documents > 0


def _traces() -> bool:
    """Whether strace is there, and may trace."""
    strace = shutil.which("strace")
    return strace is not None and not subprocess.run([strace, "-o", "/dev/null", "true"], check=False).returncode


@pytest.mark.skipif(not _traces(), reason="strace is not installed, or may not trace here")
@pytest.mark.models
async def test_a_kill_at_a_system_call_loses_nothing(
    tmp_path: Path, models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash, "CALLS", ("fdatasync", "rename,renameat,renameat2"))
    monkeypatch.setattr(crash, "_ACTS_OF_A_WALK", 6)
    told = Told()
    await crash.walk(tmp_path, told, argparse.Namespace(most=2, seed=1, models=models))
    assert told.wrong == []
    assert told.killed.total() >= 2
    assert "kills over" in capsys.readouterr().out
