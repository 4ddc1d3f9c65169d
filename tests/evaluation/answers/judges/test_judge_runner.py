"""A scripted judge asked over HTTP: everything once, nothing twice, within a ceiling."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from config.settings import PROMPTS
from evaluation.answers.client.budget import Budget
from evaluation.answers.client.sender import Outcome
from evaluation.answers.judges.judge_runner import Judge, JudgeRunner, judge_run, left_of, spend
from evaluation.answers.judges.judge_tasks import JudgeTask, read_prompts, tasks
from evaluation.answers.judges.judgement_files import attempts, file, said_by
from evaluation.answers.records import BenchError, Variant
from evaluation.answers.reports.report import report
from evaluation.answers.reports.view import failures
from evaluation.answers.run_folder import Run
from proxy.access.prices import Price
from tests.evaluation.answers import made
from tests.evaluation.answers.made import DOCS, RAW
from tests.evaluation.answers.run.test_runner import NOW, Answer, asking
from tests.support.completions import asked_of, cut_short, question_of, refusal, streamed
from tests.support.upstream_servers import Received

PRICE = Price(1e-6, 2e-6, 1e-6, 2e-6)
JUDGE = Judge(Variant("judge j", "j", "raw", None, {"max_tokens": 100}), PRICE, 100, 2, 1)


def run_of(folder: Path, count: int = 2) -> tuple[Run, list[JudgeTask]]:
    run = Run.read(made.folder(folder, made.only_with_the_passage, count=count))
    asked = {one.id: one for one in run.questions}
    return run, list(tasks(asked, run.replies().values(), {DOCS.name: RAW.name}, read_prompts(PROMPTS)))


async def judged(
    run: Run, todo: list[JudgeTask], answer: Answer, *, budget: Budget | None = None, judge: Judge = JUDGE
) -> tuple[Outcome, list[Received]]:
    """How far a judge came that answers like this, and the requests it got."""
    async with asking(answer) as (gateway, requests):
        judging = JudgeRunner(judge, gateway, budget or Budget(None, None), progress=lambda _done, _total, _more: None)
        return await judge_run(judging, run.folder, todo, lambda _model: PRICE), requests


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
    outcome, requests = await judged(run, todo, fair)
    assert (outcome, len(requests)) == (Outcome(14, 14, ""), 14)
    assert {request.header(b"x-rag") for request in requests} == {b"off"}
    assert {asked_of(request)["max_tokens"] for request in requests} == {100}
    found = said_by("j", attempts(run.folder))
    assert Counter((one.kind, one.score) for one in found) == {
        ("relevance", 1.0): 4,
        ("correctness", None): 4,
        ("faithfulness", 1.0): 2,
        ("preference", 1.0): 4,
    }
    assert {(one.model, one.usage and one.usage.prompt) for one in found} == {("j", 100)}
    used = spend(run.folder, lambda _model: PRICE)
    assert (round(used.cost.usd, 9), used.cost.tokens, used.cut_off) == (round(14 * 120e-6, 9), 14 * 110, 0)
    assert left_of(todo, found, "j") == []
    assert len(left_of(todo, found, "another")) == 14
    assert await judged(run, todo, fair) == (Outcome(14, 14, ""), [])


async def test_a_judgement_has_its_request_and_what_was_said(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=1)
    await judged(run, todo, fair)
    rows = [json.loads(line) for line in file(run.folder).read_text("utf-8").splitlines()]
    asked = {row["request"]["messages"][0]["content"] for row in rows}
    assert asked == {task.prompt for task in todo}
    assert {row["reply"] for row in rows if row["kind"] == "correctness"} == {"Five!"}


async def test_what_the_judge_said_is_in_the_report(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run")
    await judged(run, todo, fair)
    found = report(run.manifest, run.questions, list(run.replies().values()), list(attempts(run.folder)))
    assert found.judge is not None
    assert found.judge.faults["correctness"] == {"unreadable": 4}
    assert (found.judge.swapped, found.judge.swayed) == (2, 0)
    assert found.leading[0].scores["preference"].change.mean == 1.0


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ([streamed("I'm sorry, but I can't help with that.")], "refused"), ([streamed("", finish="stop")], "empty"),
        ([streamed('{"score"', finish="length")], "cut"), ([streamed("", finish="content_filter")], "refused"),
        ([streamed("Well!")], "unreadable"),
    ],
)  # fmt: skip
async def test_a_judgement_without_a_score_says_why_and_is_counted(
    answer: list[bytes], fault: str, tmp_path: Path
) -> None:
    run, todo = run_of(tmp_path / "run")
    await judged(run, todo, lambda _received, _nth: answer)
    found = report(run.manifest, run.questions, list(run.replies().values()), list(attempts(run.folder)))
    assert found.judge is not None
    assert [dict(each) for each in found.judge.faults.values()] == [
        {fault: times} for times in found.judge.asked.values()
    ]
    assert found.judge.failures == 14
    assert found.many_failures
    assert any("14 of 14 judgements have no score (14 " in line for line in failures(found))


async def test_another_prompt_is_asked_anew(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=1)
    await judged(run, todo, fair)
    other = [replace(task, prompt=task.prompt + "Be kind.") if task.key.kind == "relevance" else task for task in todo]
    assert {task.key.kind for task in left_of(other, attempts(run.folder), "j")} == {"relevance"}


async def test_what_failed_is_asked_by_the_next_and_what_was_said_is_not(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=1)
    assert (await judged(run, todo[:3], fair))[0] == Outcome(3, 3, "")
    outcome, requests = await judged(run, todo, lambda _received, _nth: [refusal(400, "no")])
    assert (outcome, len(requests)) == (Outcome(3, 7, ""), 4)
    assert (await judged(run, todo, fair))[0] == Outcome(7, 7, "")
    assert len(said_by("j", attempts(run.folder))) == 7


async def test_what_may_pass_is_asked_again(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=1)
    outcome, requests = await judged(
        run, todo, lambda received, nth: [refusal(429, "slow", NOW)] if nth == 1 else fair(received, nth)
    )
    assert (outcome, len(requests)) == (Outcome(7, 7, ""), 14)


async def test_an_upstream_that_refuses_to_tell_usage_is_not_asked_for_it(tmp_path: Path) -> None:
    def answer(received: Received, nth: int) -> list[bytes]:
        if "stream_options" in asked_of(received):
            return [refusal(400, "Unknown parameter: stream_options")]
        return fair(received, nth)

    run, todo = run_of(tmp_path / "run", count=1)
    assert (await judged(run, todo, answer))[0] == Outcome(7, 7, "")


async def test_a_judge_that_never_answers_ends_it(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=4)
    outcome, requests = await judged(run, todo, lambda _received, _nth: [refusal(404, "no such model")])
    assert (outcome.done, outcome.stopped) == (0, "judge j: 404: no such model")
    assert len(requests) <= 2
    outcome, requests = await judged(run, todo, lambda _received, _nth: [refusal(400, "no such setting")])
    assert (outcome.done, outcome.stopped) == (0, "5 in a row got no answer, the last: 400: no such setting")
    assert len(requests) <= 7


async def test_the_ceiling_is_not_passed_over_several_attempts(tmp_path: Path) -> None:
    run, todo = run_of(tmp_path / "run", count=4)
    done = 0
    for tokens in (2_000, 2_000, 2_600):
        budget = Budget(None, tokens)
        outcome, _ = await judged(run, todo, fair, budget=budget)
        assert "ceiling" in outcome.stopped
        assert outcome.done > done if tokens > 2_000 or not done else outcome.done >= done
        assert outcome.done < len(todo)
        assert budget.spent.tokens <= tokens
        done = outcome.done


async def test_what_was_cut_off_or_broke_off_counts_at_its_worst(tmp_path: Path) -> None:
    """Killed in flight, nobody knows whether a request was paid: the line before it is there, and no other."""
    run, todo = run_of(tmp_path / "run", count=1)
    arrived = asyncio.Event()

    def answer(_received: Received, _nth: int) -> list[bytes]:
        arrived.set()
        return []

    going = asyncio.create_task(judged(run, todo[:1], answer))
    await arrived.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    used = spend(run.folder, lambda _model: PRICE)
    max_cost = JUDGE.request(todo[0], usage=True).max_cost
    assert (used.cut_off, used.cost.usd, used.warnings != []) == (1, max_cost.usd, True)
    await judged(run, todo[:1], lambda _received, _nth: [cut_short("ha")], judge=replace(JUDGE, retries=0))
    used = spend(run.folder, lambda _model: PRICE)
    assert (used.cut_off, used.cost.tokens) == (1, 2 * (max_cost.prompt_tokens + 100))
    outcome, requests = await judged(run, todo[:1], fair, budget=Budget(None, used.cost.tokens + 100))
    assert (outcome.done, requests) == (0, [])


def test_the_estimate_tells_requests_tokens_and_dollars(tmp_path: Path) -> None:
    _, todo = run_of(tmp_path / "run", count=1)
    told = JUDGE.describe(todo)
    assert told.startswith("j is asked 7 times (2 of relevance, 2 of correctness, 1 of faithfulness, 2 of preference)")
    assert "700 out; $0.00" in told
    assert "at most" in told


def test_a_row_that_is_no_judgement_is_refused_by_name(tmp_path: Path) -> None:
    file(tmp_path).write_text('{"question": "q"}\n')
    with pytest.raises(BenchError, match=r"judgements\.jsonl has a row that is not a judgement"):
        list(attempts(tmp_path))
    assert list(attempts(tmp_path / "nowhere")) == []
