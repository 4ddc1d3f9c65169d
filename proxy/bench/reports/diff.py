"""Two runs question by question: the same variants asked before and after something was changed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from proxy.bench.reports.report import MAIN, RULES, Measured
from proxy.bench.reports.view import number
from proxy.bench.scoring.costs import QUANTITIES, extra
from proxy.bench.scoring.scored import JUDGED
from proxy.bench.scoring.verdict import Compared, compared
from retrieval.evaluate.significance import Difference, interval
from retrieval.evaluate.tables import table

_MOST_NAMED = 40  # questions in a line


@dataclass(frozen=True, slots=True)
class Diff:
    """One variant in both runs, over the questions that both have."""

    variant: str
    main: Compared | None  # of the score that verdicts are made of
    scores: Mapping[str, Compared]
    more: Mapping[str, Difference]


@dataclass(frozen=True, slots=True)
class Diffs:
    """All variants of two runs. only_*: names and ids that the other run lacks."""

    before: str
    after: str
    variants: tuple[Diff, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    changed_questions: tuple[str, ...]  # same id, other row: left out
    judges: tuple[str, ...]  # before, after, where they differ: judged scores are left out


def diff(before: Measured, after: Measured) -> Diffs:
    """What changed between two runs. A variant is the same by its name, a question by its whole row."""
    same = {id for id, question in after.questions.items() if before.questions.get(id) == question}
    judges = [_judge(run) for run in (before, after)]
    common = [one.name for one in after.head.variants if one.name in before.values]
    return Diffs(
        before.head.id, after.head.id, tuple(_diff(name, before, after, same) for name in common),
        only_before=_missing(before, after), only_after=_missing(after, before),
        changed_questions=tuple(id for id in after.questions if id in before.questions and id not in same),
        judges=tuple(judges) if "" not in judges and len(set(judges)) > 1 else (),
    )  # fmt: skip


def as_json(found: Diffs) -> dict[str, Any]:
    """The differences as plain values."""
    return {"ragway_bench_diff": 1, **asdict(found)}


def text(found: Diffs, *, markdown: bool = False) -> str:
    """What changed, as tables and lists for a terminal."""
    rows = [
        [f"{one.variant}: {each.score}", each.word, number(each.before), number(each.after), interval(each.change),
         str(len(each.harmed)), str(len(each.unchanged)), str(len(each.helped))]
        for one in found.variants for each in one.scores.values()
    ]  # fmt: skip
    rows += [
        [f"{one.variant}: {QUANTITIES[name]}", "", "", "", interval(change, "+.6f" if name == "cost_usd" else "+,.1f"),
         "", "", ""]
        for one in found.variants for name, change in one.more.items()
    ]  # fmt: skip
    head = ["score or cost", "verdict", "before", "after", "difference [95 %]", "harmed", "unchanged", "helped"]
    below = [line for one in found.variants for line in _questions(one)]
    for name, ids in (("only before", found.only_before), ("only after", found.only_after),
                      ("changed between the runs and left out", found.changed_questions)):  # fmt: skip
        below += [f"{name}: {', '.join(ids)}"] if ids else []
    below += [f"the judges differ, so no judged score is compared: {', '.join(found.judges)}"] if found.judges else []
    if not rows:
        below.append("nothing to compare: no variant and question in common")
    return table(f"before: {found.before}; after: {found.after}", head, rows, below, markdown=markdown)


def _diff(name: str, before: Measured, after: Measured, same: set[str]) -> Diff:
    old, new = before.values[name], after.values[name]
    kept = {score: {id: value for id, value in values.items() if id in same} for score, values in new.items()}
    judged = JUDGED if _judge(before) == _judge(after) else ()
    scores = {
        score: one
        for score in (*RULES, *judged)
        if score != "preference" and score in old and score in kept
        and (one := compared(score, old[score], kept[score], seed=after.head.seed)) is not None
    }  # fmt: skip
    rows = [
        [(one.reply.question, one.costs) for one in run.scored
         if one.reply.variant == name and one.reply.question in same]
        for run in (before, after)
    ]  # fmt: skip
    main = next((scores[score] for score in MAIN if score in scores), None)
    return Diff(name, main, scores, extra(*rows, seed=after.head.seed))


def _judge(run: Measured) -> str:
    """The model whose judgements count; scores of two judges are no change of answers."""
    return run.judges[-1] if run.judges else ""


def _missing(one: Measured, other: Measured) -> tuple[str, ...]:
    names = [each.name for each in one.head.variants if each.name not in other.values]
    return (*names, *(id for id in one.questions if id not in other.questions))


def _questions(one: Diff) -> list[str]:
    """The questions that came out otherwise, the worst first."""
    if one.main is None:
        return []
    named = [("harmed", one.main.harmed), ("helped", one.main.helped)]
    return [
        f"{one.variant}: {what} ({one.main.score}): "
        + ", ".join(f"{id} {one.main.changes[id]:+.2f}" for id in ids[:_MOST_NAMED])
        + (f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else "")
        for what, ids in named
        if ids
    ]
