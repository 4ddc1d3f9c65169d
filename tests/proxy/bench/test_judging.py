"""A scripted judge asked over HTTP: everything once, nothing twice, within a ceiling."""

from collections import Counter
from pathlib import Path

import pytest

from config.settings import PROMPTS
from proxy.bench.judge import Prompts, Task, tasks
from proxy.bench.judgements import FILE, judgements_of
from proxy.bench.judging import Judge, Judged, Judging, left_of, spent
from proxy.bench.records import BenchError, Variant
from proxy.bench.report import report
from proxy.bench.runs import Lines, Run
from proxy.bench.spending import Purse
from proxy.prices import Price
from tests.completions import asked_of, question_of, refusal, streamed
from tests.proxy.bench import made
from tests.proxy.bench.made import DOCS, RAW
from tests.proxy.bench.test_running import Answer, asking
from tests.upstream_servers import Received

PRICE = Price(1e-6, 2e-6, 1e-6, 2e-6)


def run_of(folder: Path, count: int = 2) -> tuple[Run, list[Task]]:
    run = Run.read(made.folder(folder, made.only_with_the_passage, count=count))
    asked = {one.id: one for one in run.questions}
    return run, list(tasks(asked, run.replies().values(), {DOCS.name: RAW.name}, Prompts.read(PROMPTS)))


async def judged(run: Run, todo: list[Task], answer: Answer, *, purse: Purse | None = None) -> tuple[Judged, int]:
    """How far a judge came that answers like this, and how many requests it got."""
    async with asking(answer) as (gateway, requests):
        judge = Judge(Variant("judge", "j", "raw", None, {"max_tokens": 100}), PRICE, 100, 2, 1)
        judging = Judging(judge, gateway, purse or Purse(None, None), progress=lambda _done, _total, _more: None)
        with Lines(run.folder / FILE) as lines:
            await judging.go(todo, lines)
        return judging.outcome, len(requests)


def fair(received: Received, _: int) -> list[bytes]:
    """Prefers who names the port, and never understands what correctness is."""
    prompt = question_of(received)
    if '"better"' in prompt:
        first = prompt.index("It is 50") < prompt.index("I do not know")
        return [streamed('{"better": "first"}' if first else '{"better": "second"}')]
    if '"claims"' in prompt:
        return [streamed('{"claims": [{"claim": "It is.", "supported": true}]}')]
    return [streamed('{"score": 5}' if "<reference>" not in prompt else "Five!")]


async def test_everything_is_judged_once_and_kept_also_what_cannot_be_read(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run")
    assert await judged(run, todo, fair) == (Judged(14, 0, ""), 14)
    found = judgements_of(run.folder)
    assert Counter((one.kind, one.score) for one in found) == {
        ("relevance", 1.0): 4, ("correctness", None): 4, ("faithfulness", 1.0): 2, ("preference", 1.0): 4,
    }  # fmt: skip
    assert {(one.model, one.usage and one.usage.prompt) for one in found} == {("j", 100)}
    used = spent(found)
    assert (round(used.usd, 9), used.tokens) == (round(14 * 120e-6, 9), 14 * 110)
    assert left_of(todo, {one.key: one for one in found}, "j") == []
    assert len(left_of(todo, {one.key: one for one in found}, "another")) == 14


async def test_a_judge_gets_no_passages_of_its_own(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=1)
    async with asking(fair) as (gateway, requests):
        judge = Judge(Variant("judge", "j", "raw", None, {"temperature": 0}), None, None, 1, 0)
        with Lines(run.folder / FILE) as lines:
            await Judging(judge, gateway, Purse(None, None), progress=lambda *_: None).go(todo, lines)
    assert {request.header(b"x-rag") for request in requests} == {b"off"}
    assert {asked_of(request)["temperature"] for request in requests} == {0}


async def test_what_the_judge_said_is_in_the_report(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run")
    await judged(run, todo, fair)
    found = report(run.head, run.questions, list(run.replies().values()), judgements_of(run.folder))
    assert found.judge is not None
    assert found.judge.unreadable["correctness"] == 4
    assert (found.judge.swapped, found.judge.swayed) == (2, 0)
    assert found.verdicts[0].scores["preference"].change.mean == 1.0


async def test_what_failed_is_asked_by_the_next_and_what_was_said_is_not(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=1)
    some = todo[:3]
    assert (await judged(run, some, fair))[0].left == 0
    left = left_of(todo, {one.key: one for one in judgements_of(run.folder)}, "j")
    outcome, asked = await judged(run, left, lambda _received, _nth: [refusal(400, "no")])
    assert (outcome.asked, outcome.left, asked) == (0, 4, 4)
    assert (await judged(run, left, fair))[0] == Judged(4, 0, "")
    assert len(judgements_of(run.folder)) == 7


async def test_a_judge_that_never_answers_ends_it(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=4)
    outcome, asked = await judged(run, todo, lambda _received, _nth: [refusal(404, "no such model")])
    assert outcome.asked == 0
    assert "5 in a row got no answer" in outcome.stopped
    assert asked <= 7


async def test_the_ceiling_is_not_passed(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=4)
    purse = Purse(None, 3_000)
    outcome, _ = await judged(run, todo, fair, purse=purse)
    assert "ceiling" in outcome.stopped
    assert 0 < outcome.asked < len(todo)
    assert purse.spent.tokens <= 3_000


def test_a_row_that_is_no_judgement_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"question": "q"}\n')
    with pytest.raises(BenchError, match=r"judgements\.jsonl has a row that is no judgement"):
        judgements_of(tmp_path)
    assert judgements_of(tmp_path / "nowhere") == []
