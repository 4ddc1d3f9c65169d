"""What a run found out: of every question, of every rung, of every set, and of several sets together."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evaluation.retrieval.ladder import Rung
from evaluation.stats.significance import Difference, difference, mean_difference

VERSION = 1  # of the JSON
MAIN = "ndcg@10"  # the metric that rungs are compared by


@dataclass(frozen=True, slots=True)
class Found:
    """A document of a ranking, with the score of its first passage there."""

    id: str
    score: float
    ranks: Mapping[str, int]  # arm -> rank of that passage
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question at one rung."""

    id: str
    answerable: bool
    asked: str
    rewritten: str
    reason: str  # for the rewriting
    found: tuple[Found, ...]
    injected: tuple[str, ...]  # the document of each passage, in order
    expected: Mapping[str, int]
    scores: Mapping[str, float | None]  # empty for an unanswerable question
    ms: float
    stages_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RungResult:
    """All questions at one rung. `against` names the rung that `change` compares nDCG@10 with; "" for the first."""

    name: str
    label: str
    reference: bool
    outcomes: tuple[Outcome, ...]
    against: str
    change: Difference | None

    @property
    def answerable(self) -> list[Outcome]:
        return [one for one in self.outcomes if one.answerable]

    @property
    def unanswerable(self) -> list[Outcome]:
        return [one for one in self.outcomes if not one.answerable]

    def values(self, metric: str) -> dict[str, float]:
        """Question -> its score; without those that have none (precision where nothing was injected)."""
        return {one.id: score for one in self.answerable if (score := one.scores.get(metric)) is not None}

    def mean(self, metric: str) -> float | None:
        values = self.values(metric)
        return sum(values.values()) / len(values) if values else None

    def ms(self, percent: float) -> float:
        """A percentile of the milliseconds that a question takes."""
        return float(np.percentile([one.ms for one in self.outcomes], percent))


@dataclass(frozen=True, slots=True)
class SetResult:
    """One set with one embedder, from the bottom rung to the top."""

    name: str
    origin: str  # corpus.jsonl, docs/ or the name of a collection
    embedder: str
    documents: int
    chunks: int
    questions: int
    k: int
    timed: bool  # False: vectors of questions were kept, and the times say nothing
    load: tuple[float, float]  # of the machine, before and after
    notes: tuple[str, ...]
    rungs: tuple[RungResult, ...]

    def rung(self, name: str) -> RungResult | None:
        return next((rung for rung in self.rungs if rung.name == name), None)


@dataclass(frozen=True, slots=True)
class Average:
    """One rung over the sets that have it, each set counting the same; `change` over those that have both rungs."""

    name: str
    label: str
    reference: bool
    sets: int
    means: Mapping[str, float | None]
    p50_ms: float
    p95_ms: float
    change: Difference | None


def rung_results(
    rungs: Sequence[Rung], outcomes: Mapping[str, Sequence[Outcome]], *, seed: int
) -> tuple[RungResult, ...]:
    """Every rung beside the one before it: a reference rung is compared, and passed over by the next one."""
    results: list[RungResult] = []
    before: RungResult | None = None
    for rung in rungs:
        result = RungResult(rung.name, rung.label, rung.reference, tuple(outcomes[rung.name]), "", None)
        if before is not None:
            change = compared(before, result, MAIN, seed=seed)
            result = RungResult(rung.name, rung.label, rung.reference, result.outcomes, before.name, change)
        results.append(result)
        before = before if rung.reference else result
    return tuple(results)


def compared(before: RungResult, after: RungResult, metric: str, *, seed: int) -> Difference | None:
    """The paired difference over the questions that both have a score for; None where there are none."""
    old, new = before.values(metric), after.values(metric)
    both = [id for id in new if id in old]
    return difference([old[id] for id in both], [new[id] for id in both], seed=seed) if both else None


def averages(sets: Sequence[SetResult], *, seed: int) -> list[Average]:
    """Every rung that any of the sets has, in the ladder's order."""
    fullest = max(sets, key=lambda one: len(one.rungs))
    found = []
    for rung in fullest.rungs:
        there = [(one, other) for one in sets if (other := one.rung(rung.name)) is not None]
        pairs = []
        for one, other in there:
            before = one.rung(other.against)
            if before is not None:
                old, new = before.values(MAIN), other.values(MAIN)
                pairs.append(([old[id] for id in new], list(new.values())))
        ms = [outcome.ms for _, other in there for outcome in other.outcomes]
        found.append(
            Average(
                rung.name,
                rung.label,
                rung.reference,
                len(there),
                {metric: _mean([other.mean(metric) for _, other in there]) for metric in metrics_of(rung)},
                float(np.percentile(ms, 50)),
                float(np.percentile(ms, 95)),
                mean_difference(pairs, seed=seed) if pairs else None,
            )
        )
    return found


def metrics_of(rung: RungResult) -> list[str]:
    return list(rung.answerable[0].scores)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def as_json(runs: Sequence[Sequence[SetResult]], *, seed: int) -> dict[str, Any]:
    """A run as plain values: means, times, and of every question its scores, so that another run can be compared.

    runs: the sets of each embedder.
    """
    return {
        "ragway_eval": VERSION,
        "seed": seed,
        "sets": [_set_json(one) for sets in runs for one in sets],
        "average": [
            {"embedder": sets[0].embedder, **asdict(one)} for sets in runs for one in averages(sets, seed=seed)
        ],
    }


def _set_json(one: SetResult) -> dict[str, Any]:
    return {
        "name": one.name,
        "origin": one.origin,
        "embedder": one.embedder,
        "documents": one.documents,
        "chunks": one.chunks,
        "questions": one.questions,
        "k": one.k,
        "timed": one.timed,
        "load": one.load,
        "notes": one.notes,
        "rungs": [_rung_json(rung) for rung in one.rungs],
    }


def _rung_json(rung: RungResult) -> dict[str, Any]:
    stages = rung.outcomes[0].stages_ms
    return {
        "name": rung.name,
        "label": rung.label,
        "reference": rung.reference,
        "metrics": {metric: rung.mean(metric) for metric in metrics_of(rung)},
        "ms": {
            "p50": rung.ms(50),
            "p95": rung.ms(95),
            "stages_p50": {
                stage: float(np.median([one.stages_ms.get(stage, 0.0) for one in rung.outcomes])) for stage in stages
            },
        },
        "against": rung.against,
        "change": asdict(rung.change) if rung.change else None,
        "nothing_injected": {
            "answerable": {"questions": len(rung.answerable), "nothing": nothing(rung.answerable)},
            "unanswerable": {"questions": len(rung.unanswerable), "nothing": nothing(rung.unanswerable)},
        },
        "scores": {one.id: dict(one.scores) for one in rung.answerable},
    }


def nothing(outcomes: Sequence[Outcome]) -> int:
    """How many questions got no passage at all."""
    return sum(not one.injected for one in outcomes)


def per_query(sets: Sequence[SetResult]) -> list[dict[str, Any]]:
    """One row for every question at every rung: what was asked, rewritten, found, expected, and every metric."""
    return [
        {"set": one.name, "embedder": one.embedder, "rung": rung.name, **asdict(outcome)}
        for one in sets
        for rung in one.rungs
        for outcome in rung.outcomes
    ]
