"""Turns results into tables."""

import os
from collections.abc import Mapping, Sequence

from evaluation.retrieval.compare import MetricChange
from evaluation.retrieval.results import MAIN, Average, Kind, RungResult, SetResult, compared, nothing
from evaluation.stats.significance import Difference, interval
from evaluation.text_tables import NONE, number, table

_RANKING = {"nDCG@5": "ndcg@5", "nDCG@10": "ndcg@10", "R@5": "recall@5", "R@10": "recall@10"}
_COLUMNS: Mapping[Kind, Mapping[str, str]] = {
    "documents": {**_RANKING, "ctx P": "context_precision", "ctx R": "context_recall", "MRR": "mrr", "MAP": "map"},
    "operations": {
        **_RANKING, "hit@5": "hit@5", "offer P": "context_precision", "offer R": "context_recall", "MRR": "mrr",
        "MAP": "map",
    },
}  # fmt: skip


def set_table(result: SetResult, *, markdown: bool, seed: int) -> str:
    """A set's ladder: documents or operations above, notes below."""
    rows = [
        [
            rung.label,
            *(number(rung.mean(metric)) for metric in _COLUMNS[result.kind].values()),
            *([number(rung.calibration_error)] if result.kind == "documents" else []),
            *(number(rung.ms(percent) if result.timed else None, ".1f") for percent in (50, 95)),
            _change(rung.change),
        ]
        for rung in result.rungs
    ]
    chunks = f" in {result.chunks} chunks" if result.kind == "documents" else ""
    of = f"{result.questions} questions, {result.documents} {result.kind}{chunks} ({result.origin})"
    title = f"{result.name}: {of}; {result.embedder}; k = {result.k}"
    below = [*_better_arm(result, seed=seed), *_injected(result), *(f"note: {note}" for note in result.notes)]
    return table(title, _head(result.kind), rows, below, markdown=markdown)


def average_table(averages: Sequence[Average], sets: Sequence[SetResult], *, markdown: bool) -> str:
    """The ladder over several sets, each with equal weight."""
    rows = [
        [
            average.label if average.sets == len(sets) else f"{average.label} ({average.sets} of {len(sets)} sets)",
            *(number(average.means[metric]) for metric in _COLUMNS[sets[0].kind].values()),
            *([number(average.calibration_error)] if sets[0].kind == "documents" else []),
            *(f"{ms:.1f}" if sets[0].timed else NONE for ms in (average.p50_ms, average.p95_ms)),
            _change(average.change),
        ]
        for average in averages
    ]
    title = f"Average of {len(sets)} sets: {', '.join(result_set.name for result_set in sets)}; {sets[0].embedder}"
    return table(title, _head(sets[0].kind), rows, [], markdown=markdown)


def _head(kind: Kind) -> list[str]:
    reliability = ["ECE"] if kind == "documents" else []
    return ["rung", *_COLUMNS[kind], *reliability, "p50 ms", "p95 ms", "nDCG@10 to the rung before [95 %]"]


def comparison_table(title: str, rows: Sequence[MetricChange], *, markdown: bool) -> str:
    """Two runs, or two embedders, side by side."""
    head = ["set", "rung", "metric", "before", "after", "difference [95 %]", "better", "worse", "questions"]
    cells = [
        [
            row.set,
            row.rung,
            row.metric,
            number(row.before),
            number(row.after),
            _change(row.change),
            str(row.better),
            str(row.worse),
            str(row.change.questions),
        ]
        for row in rows
    ]
    return table(
        title, head, cells, [] if rows else ["nothing to compare: no set and rung in common"], markdown=markdown
    )


def load_line(sets: Sequence[SetResult]) -> str:
    """The machine's load, for those who read times."""
    if not all(result_set.timed for result_set in sets):
        return "no times: the vectors of the questions were kept (--untimed)"
    highest, cores = max(load for result_set in sets for load in result_set.load), os.cpu_count() or 1
    busy = "; the machine was busy with other work, so the times are too long" if highest > cores else ""
    return f"load average at most {highest:.1f} on {cores} cores{busy}"


def _better_arm(result: SetResult, *, seed: int) -> list[str]:
    """What fusion gains over the better retriever, below which it must not fall."""
    hybrid, arms = result.rung("hybrid"), [arm for name in ("bm25", "dense") if (arm := result.rung(name))]
    if hybrid is None or len(arms) < 2:
        return []
    better: RungResult = max(arms, key=lambda arm: arm.mean(MAIN) or 0.0)
    return [f"hybrid to its better arm ({better.label}): {_change(compared(better, hybrid, MAIN, seed=seed))}"]


def _injected(result: SetResult) -> list[str]:
    """How often nothing is injected or offered. Only the top rung decides that."""
    top = result.rung("configured")
    if top is None:
        return []
    of = [("answerable", top.answerable), ("unanswerable", top.unanswerable)]
    shares = [f"{nothing(rows)} of {len(rows)} {kind} ({nothing(rows) / len(rows):.1%})" for kind, rows in of if rows]
    injected = "injected" if result.kind == "documents" else "offered"
    return [f"nothing {injected} ({top.label}): {', '.join(shares)}"]


def _change(change: Difference | None) -> str:
    return NONE if change is None else interval(change)
