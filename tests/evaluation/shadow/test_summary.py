"""Shadow comparisons whose truth is known, judged by scripted judges over HTTP: verdicts, groups, costs."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli import ragway
from config.settings import PROMPTS
from evaluation.answers.client.budget import Budget
from evaluation.answers.client.sender import Outcome
from evaluation.answers.judges.judge_runner import Judge, JudgeRunner
from evaluation.answers.judges.judge_tasks import read_prompts
from evaluation.answers.judges.judgement_files import said_by
from evaluation.answers.records import Variant
from evaluation.shadow.preferences import judge_comparisons, judgements, left, tasks_of
from evaluation.shadow.summary import ShadowReport, as_json, shadow_report
from evaluation.shadow.text import comparison_text, text
from proxy.access.prices import Price
from proxy.access.sql import SqlAccounts
from proxy.caller import EVERYTHING
from proxy.dialects.replies import Tokens
from proxy.observe.shadow.comparison import Comparison, Side, comparison_from, serialize_comparison
from retrieval.records.search import Turn
from runtime.record_store import RecordStore
from tests.evaluation.answers.run.test_runner import Answer, asking
from tests.support.completions import question_of, streamed
from tests.support.kept_logging import kept_logging
from tests.support.upstream_servers import Received

PRICE = Price(1e-6, 2e-6, 1e-6, 2e-6)
JUDGE = Judge(Variant("judge j", "j", "raw", None, {"max_tokens": 100}), PRICE, 100, 2, 1)
NOON_S = 1_700_000_000.0
_ANSWERS = re.compile(r"It is (right|wrong)")


def side(answer: str | None, *, error: str | None = None, ms: float = 100.0, prompt: int = 50) -> Side:
    return Side(200, answer, "stop", error, Tokens(prompt, 10), prompt * 1e-6, ms, 2 * ms)


def one(number: int, rag: Side, raw: Side, *, key: str = "key-1", collection: str = "docs") -> Comparison:
    turns = [Turn("user", f"What is {number}?")]
    return Comparison(
        f"rag-{number:024x}", NOON_S + number, number % 2 == 0, key, "m", [collection], turns, ["a.md"], 40, rag, raw
    )


def traffic(count: int = 12) -> list[Comparison]:
    """Passages help in `docs` and harm in `old`, where another key asks."""
    good, bad = side("It is right.", ms=150.0, prompt=120), side("It is wrong.", ms=150.0, prompt=120)
    helped = [one(n, good, side("I do not know. It is wrong.")) for n in range(count)]
    harmed = [one(count + n, bad, side("It is right."), key="key-2", collection="old") for n in range(count // 2)]
    return [*helped, *harmed]


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[RecordStore]:
    made = RecordStore(tmp_path / "data", keep_s=1e9, max_bytes=1 << 30, kind="comparisons")
    yield made
    made.close()


def put(shelf: RecordStore, rows: Sequence[Comparison]) -> None:
    shelf.put((row.id, row.at_s, serialize_comparison(row)) for row in rows)


def read(shelf: RecordStore) -> list[Comparison]:
    return [comparison_from(content) for content in shelf.every()]


def fair(received: Received, _: int) -> list[bytes]:
    """Prefers the right answer wherever it stands."""
    better = "first" if _ANSWERS.findall(question_of(received))[0] == "right" else "second"
    return [streamed(json.dumps({"better": better, "reason": "it is right"}))]


def for_the_place(_received: Received, _: int) -> list[bytes]:
    return [streamed('{"better": "first"}')]


def unreadable(_received: Received, _: int) -> list[bytes]:
    return [streamed("I like both.")]


async def judged(shelf: RecordStore, answer: Answer, *, budget: Budget | None = None) -> tuple[Outcome, int]:
    """How far a judge came, and how often it was asked."""
    found = read(shelf)
    todo = left(found, tasks_of(found, read_prompts(PROMPTS)), "j")
    async with asking(answer) as (gateway, requests):
        judging = JudgeRunner(JUDGE, gateway, budget or Budget(None, None), progress=lambda _done, _total, _more: None)
        return await judge_comparisons(judging, shelf, todo), len(requests)


def told(found: Sequence[Comparison], judge: str | None = "j") -> ShadowReport:
    said = [each for row in found for each in judgements(row)]
    return shadow_report(found, said_by(judge or "", said), judge, {"key-1": "app (key-1)"}, seed=0)


def words(made: ShadowReport) -> dict[tuple[str, str], str | None]:
    return {
        (group.of, group.name): None if group.preference is None else group.preference.word for group in made.groups
    }


async def test_the_verdict_is_the_judges_in_both_orders_by_collection_and_key(shelf: RecordStore) -> None:
    put(shelf, traffic())
    assert await judged(shelf, fair) == (Outcome(36, 36, ""), 36)
    assert await judged(shelf, fair) == (Outcome(0, 0, ""), 0), "nothing is asked twice"
    made = told(read(shelf))
    assert words(made) == {
        ("all", ""): "undecided",
        ("sample", "asked for"): "undecided",
        ("sample", "drawn"): "undecided",
        ("collection", "docs"): "better",
        ("collection", "old"): "worse",
        ("key", "app (key-1)"): "better",
        ("key", "key-2"): "worse",
    }
    whole = made.groups[0]
    assert whole.preference is not None
    assert (len(whole.preference.helped), len(whole.preference.harmed)) == (12, 6)
    assert (made.judged, made.swayed, made.unreadable) == (18, 0, 0)
    assert made.judge_usd == pytest.approx(36 * 120e-6)
    assert made.raw_usd == pytest.approx(18 * 50e-6)
    assert whole.refusals is not None
    assert [whole.refusals.before, whole.refusals.after] == pytest.approx([12 / 18, 0])
    assert {name: round(change.mean, 6) for name, change in whole.more.items()} == {
        "first_ms": 50.0,
        "total_ms": 100.0,
        "prompt": 70.0,
        "completion": 0.0,
        "injected": 40.0,
        "cost_usd": 70e-6,
    }


async def test_a_judge_that_prefers_a_place_decides_nothing(shelf: RecordStore) -> None:
    put(shelf, traffic())
    await judged(shelf, for_the_place)
    made = told(read(shelf))
    assert made.swayed == 18
    assert set(words(made).values()) == {"undecided"}
    assert made.groups[0].preference is not None
    assert made.groups[0].preference.needed == 72, "18 pairs that are all alike are too few"
    assert made.groups[0].preference.harmed == ()


async def test_chats_of_one_conversation_count_once(shelf: RecordStore) -> None:
    first = traffic(1)[0]
    more = [Turn("assistant", "Yes."), Turn("user", "And then?")]
    rows = [replace(first, id=f"rag-{at:024x}", turns=[*first.turns, *more * at]) for at in range(4)]
    put(shelf, [*rows, one(9, side("It is right."), side("It is wrong."))])
    await judged(shelf, fair)
    whole = told(read(shelf)).groups[0]
    assert whole.preference is not None
    assert (whole.both, whole.preference.change.questions, len(whole.preference.helped)) == (5, 2, 5)
    assert {change.questions for change in whole.more.values()} == {2}


async def test_without_a_judge_or_with_half_a_judgement_there_is_no_verdict(shelf: RecordStore) -> None:
    rows = traffic()
    assert set(words(told(rows, None)).values()) == {None}
    assert "no verdict" in text(told(rows, None), markdown=False)
    put(shelf, rows[:1])
    max_cost = JUDGE.request(tasks_of(rows[:1], read_prompts(PROMPTS))[0], usage=True).max_cost
    outcome, _ = await judged(shelf, fair, budget=Budget(None, max_cost.prompt_tokens + 150))
    assert outcome.done == 1, "the ceiling ends it"
    assert told(read(shelf)).groups[0].preference is None
    await judged(shelf, fair)
    assert told(read(shelf)).judged == 1


async def test_what_a_judge_says_unreadably_is_counted_and_not_asked_again(shelf: RecordStore) -> None:
    put(shelf, traffic(2))
    await judged(shelf, unreadable)
    assert await judged(shelf, fair) == (Outcome(0, 0, ""), 0)
    made = told(read(shelf))
    assert (made.judged, made.unreadable) == (0, 6)
    assert "6 replies of the judge could not be read" in text(made, markdown=False)
    assert "no verdict: no pair was judged in both orders" in text(made, markdown=False)


async def test_a_verdict_holds_only_where_answers_that_passages_cost_count_as_lost(shelf: RecordStore) -> None:
    helped = [row for row in traffic(40) if row.key == "key-1"]
    none = side(None, error="400: too long")
    put(shelf, [*helped, *(one(100 + n, none, side("It is right.")) for n in range(2))])
    await judged(shelf, fair)
    assert words(told(read(shelf)))["all", ""] == "better"
    put(shelf, [one(200 + n, none, side("It is right.")) for n in range(30)])
    made = told(read(shelf))
    assert words(made)["all", ""] == "depends"
    assert "it depends on the failures" in text(made, markdown=False)


def test_what_only_one_of_both_answered_is_counted_and_not_judged() -> None:
    fine, none = side("It is right."), side(None, error="too many tokens")
    rows = [one(0, fine, fine), one(1, none, fine), one(2, none, fine), one(3, fine, none), one(4, none, none)]
    assert len(tasks_of(rows, read_prompts(PROMPTS))) == 2
    whole = told(rows, None).groups[0]
    assert (whole.comparisons, whole.both, whole.only_rag, whole.only_raw) == (5, 1, 1, 2)


async def test_judgements_end_with_their_comparison(shelf: RecordStore, tmp_path: Path) -> None:
    put(shelf, traffic(2))
    await judged(shelf, fair)
    short = RecordStore(tmp_path / "data", keep_s=1.0, max_bytes=1 << 30, kind="comparisons")
    short.prune()
    assert read(shelf) == []
    short.change(traffic(2)[0].id, lambda content: content)
    assert read(shelf) == [], "what is gone is not made again"
    short.close()


async def test_a_reader_sees_both_answers_and_no_escape_sequence(shelf: RecordStore) -> None:
    put(shelf, [one(7, side("It is right. \x1b[2J"), side("It is wrong."))])
    await judged(shelf, fair)
    (row,) = read(shelf)
    page = comparison_text(row, "app (key-1)")
    assert "What is 7?" in page
    assert "It is right. ?[2J" in page
    assert page.index("with passages") < page.index("It is right.") < page.index("It is wrong.")
    assert "j, order 1: 1.0 (it is right)" in page


def test_the_report_is_json_and_markdown_too() -> None:
    made = told(traffic(), None)
    row = json.loads(json.dumps(as_json(made)))
    assert [group["name"] for group in row["groups"] if group["of"] == "collection"] == ["docs", "old"]
    assert "| collection docs |" in text(made, markdown=True)


def test_the_command_reads_the_data_folder(shelf: RecordStore, tmp_path: Path) -> None:
    def live(*arguments: str) -> Result:
        with kept_logging():
            return CliRunner().invoke(ragway, ["bench", "live", "--data", str(tmp_path / "data"), *arguments])

    (tmp_path / "data").mkdir(exist_ok=True)
    none = live()
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no comparisons are kept" in none.stderr
    assert json.loads(live("--json").stdout)["groups"] == []
    key, _ = SqlAccounts(tmp_path / "data").create("app", EVERYTHING)
    put(shelf, [replace(one(7, side("It is right."), side("It is wrong."), key=key.id), at_s=time.time())])
    done = live()
    assert done.exit_code == 0, done.stderr
    assert f"key app ({key.id})" in done.stdout
    assert "no verdict" in done.stdout
    assert "It is right." in live(read(shelf)[0].id).stdout
    refused = live("rag-0")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: there is no comparison 'rag-0'")
