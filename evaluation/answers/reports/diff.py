"""Compares two runs question by question: the same variants before and after a change."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.answers.judges.judge_tasks import asked_text
from evaluation.answers.reports.report import MAIN, RULES, Measured
from evaluation.answers.reports.view import COMPARED
from evaluation.answers.scoring.costs import QUANTITIES, change_form, extra
from evaluation.answers.scoring.faults import describe_faults
from evaluation.answers.scoring.scored_replies import JUDGED
from evaluation.answers.scoring.verdict import ScoreComparison, Values, compared, only
from evaluation.stats.significance import Difference, interval
from evaluation.text_tables import first_of, number, table

_MOST_NAMED = 40  # questions in a line
_MOST_CHARS = 80  # of a question
_HALF = 0.5
_TURNS: Mapping[str, Sequence[tuple[bool | None, bool | None]]] = {
    "right before, wrong after": [(True, False)], "wrong before, right after": [(False, True)],
    "an answer before, none or a failure after": [(True, None), (False, None)],
    "none or a failure before, an answer after": [(None, True), (None, False)],
}  # fmt: skip
_SAYS_NOTHING = ("id", "object")  # members of a collection's row that say nothing
_COMPARED_OF_MANIFEST = ("questions_file", "base_url", "repeats", "seed", "left_out", "gateway")


@dataclass(frozen=True, slots=True)
class ChangedOutcome:
    """A question whose result changed. None: no answer, or a failure."""

    id: str
    asked: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Diff:
    """One variant in both runs, over common questions."""

    variant: str
    main: ScoreComparison | None  # for the score that decides verdicts
    scores: Mapping[str, ScoreComparison]
    more: Mapping[str, Difference]
    score: str  # tells right (above one half) from wrong; ""
    turned: Mapping[str, tuple[ChangedOutcome, ...]]  # kind of change -> questions


@dataclass(frozen=True, slots=True)
class Diffs:
    """All variants in two runs. only_*: names and ids missing in the other one."""

    before: str
    after: str
    variants: tuple[Diff, ...]
    settings: tuple[str, ...]  # how settings differ
    failures: tuple[str, ...]  # each run's, in words
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    changed_questions: tuple[str, ...]  # same id, other row: left out
    judges: tuple[str, ...]  # before and after, if they differ: judged scores are left out


def diff(before: Measured, after: Measured) -> Diffs:
    """Changes between two runs. Variants match by name, questions by their whole row."""
    same = {id for id, question in after.questions.items() if before.questions.get(id) == question}
    judges = [_judge(run) for run in (before, after)]
    common = [variant.name for variant in after.manifest.variants if variant.name in before.values]
    return Diffs(
        before.manifest.id,
        after.manifest.id,
        tuple(_diff(name, before, after, same) for name in common),
        settings=_settings(before, after),
        failures=(*_failures("before", before), *_failures("after", after)),
        only_before=_missing(before, after),
        only_after=_missing(after, before),
        changed_questions=tuple(id for id in after.questions if id in before.questions and id not in same),
        judges=tuple(judges) if "" not in judges and len(set(judges)) > 1 else (),
    )


def as_json(found: Diffs) -> dict[str, Any]:
    """Differences as plain values."""
    return {"ragway_bench_diff": 1, **asdict(found)}


def text(found: Diffs, *, markdown: bool = False) -> str:
    """Changes as tables and lists, for a terminal."""
    columns = COMPARED[:6]
    rows = [
        [f"{variant.variant}: {each.score}", each.word, *(cell(each) for _, cell in columns)]
        for variant in found.variants
        for each in variant.scores.values()
    ]
    rows += [
        [f"{variant.variant}: {QUANTITIES[name]}", *[""] * 3, interval(change, change_form(name, 1)), *[""] * 3]
        for variant in found.variants
        for name, change in variant.more.items()
    ]
    head = ["score or cost", "verdict", *(name for name, _ in columns)]
    below = [f"differs: {line}" for line in found.settings]
    below += [] if found.settings else ["settings: no difference in what the runs keep of them"]
    below += [line for variant in found.variants for line in (*_turned(variant), *_questions(variant))]
    for name, ids in (
        ("only before", found.only_before),
        ("only after", found.only_after),
        ("changed between the runs and left out", found.changed_questions),
    ):
        below += [f"{name}: {', '.join(ids)}"] if ids else []
    below += [f"the judges differ, so no judged score is compared: {', '.join(found.judges)}"] if found.judges else []
    if not rows:
        below.append("nothing to compare: no variant and question in common")
    first = "".join(f"{line}\n\n" if markdown else f"{line}\n" for line in found.failures)
    return first + table(f"before: {found.before}; after: {found.after}", head, rows, below, markdown=markdown)


def _diff(name: str, before: Measured, after: Measured, same: set[str]) -> Diff:
    old, new = before.values[name], after.values[name]
    kept = {score: only(values, same) for score, values in new.items()}
    judged = JUDGED if _judge(before) == _judge(after) else ()
    scores = {
        score: one
        for score in (*RULES, *judged)
        if score != "preference"
        and score in old
        and score in kept
        and not before.missing
        and not after.missing
        and (
            one := compared(
                score,
                old[score],
                kept[score],
                seed=after.manifest.seed,
                groups=after.groups,
                wrong=[(before.wrong[name][score], only(after.wrong[name][score], same))],
            )
        )
        is not None
    }
    rows = [
        [
            (answer.reply.question, answer.costs)
            for answer in run.scored
            if answer.reply.variant == name and answer.reply.question in same
        ]
        for run in (before, after)
    ]
    main = next((scores[score] for score in MAIN if score in scores), None)
    told_by = next((score for score in MAIN if score != "preference" and (score in old or score in new)), "")
    turned = _changes(old.get(told_by, {}), new.get(told_by, {}), after, same)
    return Diff(name, main, scores, extra(*rows, seed=after.manifest.seed, groups=after.groups), told_by, turned)


def _changes(old: Values, new: Values, after: Measured, same: Set[str]) -> dict[str, tuple[ChangedOutcome, ...]]:
    """Right to wrong, back, and to and from failures, in question order."""
    found: dict[str, list[ChangedOutcome]] = {name: [] for name in _TURNS}
    for id in (id for id in after.questions if id in same):
        states = tuple(None if value is None else value > _HALF for value in (old.get(id), new.get(id)))
        for name, turn in _TURNS.items():
            if states in turn:
                found[name].append(ChangedOutcome(id, asked_text(after.questions[id]), old.get(id), new.get(id)))
    return {name: tuple(rows) for name, rows in found.items() if rows}


def _settings(before: Measured, after: Measured) -> tuple[str, ...]:
    """How manifests differ, without ids and times."""
    old, new = (
        _flat("", {name: value for name, value in asdict(run.manifest).items() if name in _COMPARED_OF_MANIFEST})
        for run in (before, after)
    )
    return tuple(
        f"{name}: {old.get(name, 'not known')} before, {new.get(name, 'not known')} after"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )


def _flat(name: str, value: Any) -> dict[str, str]:
    """Nested values by dotted names; list rows by id."""
    if isinstance(value, list):
        value = {str(row.get("id", at)) if isinstance(row, dict) else str(at): row for at, row in enumerate(value)}
    if not isinstance(value, dict):
        return {name: "none" if value is None else str(value)}
    found: dict[str, str] = {}
    for key, each in value.items():
        if key in _SAYS_NOTHING:
            continue
        found |= _flat(f"{name}.{key}" if name else str(key), each)
    return found


def _failures(when: str, run: Measured) -> list[str]:
    lines = [f"{when}: {run.missing} replies are missing, so there is no verdict"] if run.missing else []
    return lines + [f"{when}: {name}: {describe_faults(faults)}" for name, faults in run.faults.items() if faults]


def _judge(run: Measured) -> str:
    """The model whose judgements count. Two judges' scores cannot be compared."""
    return run.judges[-1] if run.judges else ""


def _missing(measured: Measured, other: Measured) -> tuple[str, ...]:
    names = [variant.name for variant in measured.manifest.variants if variant.name not in other.values]
    return (*names, *(id for id in measured.questions if id not in other.questions))


def _turned(diff: Diff) -> list[str]:
    """Questions whose result changed, one per line."""
    lines = []
    for name, rows in diff.turned.items():
        lines.append(f"{diff.variant}: {name} ({len(rows)}, {diff.score}):")
        lines += [
            f"    {row.id} {number(row.before, '.2f')} -> {number(row.after, '.2f')}  {_short(row.asked)}"
            for row in rows[:_MOST_NAMED]
        ]
        lines += [f"    and {len(rows) - _MOST_NAMED} more"] if len(rows) > _MOST_NAMED else []
    return lines


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_CHARS else plain[: _MOST_CHARS - 1] + "…"


def _questions(diff: Diff) -> list[str]:
    """Helped and harmed questions, largest change first."""
    if diff.main is None:
        return []
    named = [("harmed", diff.main.harmed), ("helped", diff.main.helped)]
    return [
        f"{diff.variant}: {what} ({diff.main.score}): "
        + first_of([f"{id} {diff.main.changes[id]:+z.2f}" for id in ids], _MOST_NAMED)
        for what, ids in named
        if ids
    ]
