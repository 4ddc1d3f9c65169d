"""The gain of local rewriting for follow-up questions, and the loss for questions that change the subject.

    python benchmarks/retrieval/rewriting.py DIR [DIR…] [--data DIR] [--cache DIR] [--limit N]

Each DIR is a judged set in BEIR's form, as for `ragway eval`. In a set with `history` and `rewrite`, follow-up
questions are asked unchanged, rewritten, and in a person's rewrite. In every set, first questions are placed after the
history of another set's conversation; the results should equal the results of the question alone. Rewriting alone is
measured: what an answer said before keeps its place (stages.py has its figures). The tables go to standard output as
Markdown; the intervals are paired bootstraps.
"""

import asyncio
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import parser_of
from benchmarks.common.output import say, table
from cli.assembly.index import plan
from config.settings import load
from evaluation.retrieval.judged import JudgedSet, read
from evaluation.retrieval.measure import MeasureOptions, measure
from evaluation.retrieval.results import RungResult, SetResult, compared

MEASURES = ("ndcg@10", "recall@10")
_FOLLOWING = ("hybrid", "rewriting", "human")
_CHANGING = ("hybrid", "rewriting")


def following(judged: JudgedSet) -> JudgedSet:
    """The follow-up questions of a set."""
    questions = tuple(question for question in judged.questions if len(question.turns) > 1)
    return replace(judged, questions=questions, unanswerable=())


def changing(judged: JudgedSet, others: Sequence[JudgedSet], *, limit: int) -> JudgedSet:
    """At most `limit` first questions, each after the history of another set's conversation."""
    draw = random.Random(judged.name)
    histories = [
        question.turns[:-1] for other in others if other is not judged for question in following(other).questions
    ]
    first = [question for question in judged.questions if len(question.turns) == 1]
    if not histories:
        return replace(judged, questions=(), unanswerable=())
    drawn = draw.sample(first, min(limit, len(first)))
    questions = tuple(replace(one, turns=(*draw.choice(histories), *one.turns)) for one in drawn)
    return replace(judged, questions=questions, unanswerable=())


def gains(results: Sequence[SetResult]) -> str:
    """The table of follow-up questions, with a row for all sets together."""
    rows, sums = [], dict.fromkeys(MEASURES, (0.0, 0.0))
    for result in results:
        last, local, person = (_rung(result, name) for name in _FOLLOWING)
        for metric in MEASURES:
            gain, gap = _mean(local, metric) - _mean(last, metric), _mean(person, metric) - _mean(last, metric)
            sums[metric] = (sums[metric][0] + gain, sums[metric][1] + gap)
            means = [f"{_mean(rung, metric):.3f}" for rung in (last, local, person)]
            cells = [*means, _change(last, local, metric), _share(gain, gap)]
            rows.append([result.name, f"{result.questions}", metric, *cells])
    for metric, (gain, gap) in sums.items():
        rows.append(["all sets", f"{sum(one.questions for one in results)}", metric, "", "", "", "", _share(gain, gap)])
    return table(("set", "questions", "", "last message", "local", "person", "gain of local", "of the gap"), rows)


def losses(results: Sequence[SetResult]) -> str:
    """The table of questions that change the subject."""
    rows = []
    for result in results:
        alone, behind = (_rung(result, name) for name in _CHANGING)
        leaning = sum(one.reason.startswith("leans") for one in behind.outcomes) / len(behind.outcomes)
        cells = [_change(alone, behind, metric) for metric in MEASURES]
        rows.append([result.name, f"{result.questions}", *cells, f"{leaning:.0%}"])
    return table(("questions from", "questions", *MEASURES, "taken to lean"), rows)


def reasons(results: Sequence[SetResult]) -> str:
    """How the search interpreted the follow-up questions."""
    rows = []
    for result in results:
        said = [one.reason.partition(",")[0] for one in _rung(result, "rewriting").outcomes]
        shares = [f"{said.count(reason) / len(said):.0%}" for reason in _REASONS]
        rows.append([result.name, *shares])
    return table(("set", *_REASONS), rows)


_REASONS = ("found as asked", "leans on the conversation", "stands alone", "first question")


def _rung(result: SetResult, name: str) -> RungResult:
    found = result.rung(name)
    assert found is not None  # the rung was requested
    return found


def _mean(rung: RungResult, metric: str) -> float:
    return rung.mean(metric) or 0.0


def _change(before: RungResult, after: RungResult, metric: str) -> str:
    change = compared(before, after, metric, seed=0)
    return f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]" if change else ""


def _share(gain: float, gap: float) -> str:
    return f"{gain / gap:.0%}" if gap > 0 else ""


async def measured(sets: Sequence[JudgedSet], how: MeasureOptions) -> list[SetResult]:
    """The results of the sets with questions, one set after the other."""
    results = []
    for one in sets:
        if one.questions:
            say(f"{one.name}: {len(one.questions)} questions")
            results.append(await measure(one, how, lambda doing, unit: lambda *_: None))
    return results


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--limit", type=int, default=100, help="questions of a set that change the subject")
    given = parser.parse_args()
    sets = [read(folder) for folder in given.folders]
    base = plan(load(flags={"data": str(given.data)}))
    how = MeasureOptions(base, given.cache.absolute(), timed=False, rungs=_FOLLOWING)
    change = [changing(one, sets, limit=given.limit) for one in sets]
    with patch("retrieval.search.retriever._unsaid_first", lambda packed, turns, k: packed):
        follow = asyncio.run(measured([following(one) for one in sets if one.rewritten], how))
        changed = asyncio.run(measured(change, replace(how, rungs=_CHANGING)))
    for title, text in (
        ("Following", gains(follow)),
        ("Understood as", reasons(follow)),
        ("Changing", losses(changed)),
    ):
        print(f"## {title}\n\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
