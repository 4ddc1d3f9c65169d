"""A run's results: per question, per rung, per set, and over several sets."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from evaluation.retrieval.ladder import Rung
from evaluation.retrieval.metrics import calibration_error
from evaluation.stats.significance import Difference, difference, mean_difference

VERSION = 1  # of its JSON
MAIN = "ndcg@10"  # the metric that compares rungs

Kind = Literal["documents", "operations"]


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document in a ranking, with its first passage's score."""

    id: str
    score: float
    ranks: Mapping[str, int]  # retriever -> that passage's rank
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """One question on one rung."""

    id: str
    answerable: bool
    asked: str
    rewritten: str
    reason: str  # for the rewriting
    found: tuple[RankedDocument, ...]
    injected: tuple[str, ...]  # each passage's document, in order
    expected: Mapping[str, int]
    scores: Mapping[str, float | None]  # empty for an unanswerable question
    ms: float
    stages_ms: Mapping[str, float]
    relevance: float | None


@dataclass(frozen=True, slots=True)
class RungResult:
    """All questions on one rung. `change` compares nDCG@10 with rung `against`, which is "" for the first."""

    name: str
    label: str
    reference: bool
    outcomes: tuple[QuestionResult, ...]
    against: str
    change: Difference | None
    foreign: tuple[float, ...] = ()  # probabilities of relevance of other sets' questions

    @property
    def answerable(self) -> list[QuestionResult]:
        return [outcome for outcome in self.outcomes if outcome.answerable]

    @property
    def unanswerable(self) -> list[QuestionResult]:
        return [outcome for outcome in self.outcomes if not outcome.answerable]

    def values(self, metric: str) -> dict[str, float]:
        """Question -> score, without missing ones (precision without injected passages, for example)."""
        return {result.id: score for result in self.answerable if (score := result.scores.get(metric)) is not None}

    def mean(self, metric: str) -> float | None:
        values = self.values(metric)
        return sum(values.values()) / len(values) if values else None

    @property
    def calibration_error(self) -> float | None:
        """How far the probability of relevance is from the truth; None without questions that have no answer here."""
        none = [one.relevance for one in self.unanswerable if one.relevance is not None]
        own = [one.relevance for one in self.answerable if one.relevance is not None]
        return calibration_error(own, [*none, *self.foreign])

    def ms(self, percent: float) -> float:
        """A percentile of milliseconds per question."""
        return float(np.percentile([outcome.ms for outcome in self.outcomes], percent))


@dataclass(frozen=True, slots=True)
class SetResult:
    """One set with one embedder, from the lowest rung to the highest."""

    name: str
    origin: str  # corpus.jsonl, docs/, or names of a collection, action sets or OpenAPI documents
    embedder: str
    documents: int  # or operations
    chunks: int
    questions: int
    k: int
    timed: bool  # False: question vectors were cached, so times mean nothing
    load: tuple[float, float]  # the machine's, before and after
    notes: tuple[str, ...]
    rungs: tuple[RungResult, ...]
    kind: Kind = "documents"  # searched

    def rung(self, name: str) -> RungResult | None:
        return next((rung for rung in self.rungs if rung.name == name), None)


@dataclass(frozen=True, slots=True)
class Average:
    """One rung over several sets with equal weights; `change` covers sets that have both rungs."""

    name: str
    label: str
    reference: bool
    sets: int
    means: Mapping[str, float | None]
    p50_ms: float
    p95_ms: float
    change: Difference | None
    calibration_error: float | None


def rung_results(
    rungs: Sequence[Rung],
    outcomes: Mapping[str, Sequence[QuestionResult]],
    foreign: Mapping[str, Sequence[float]],
    *,
    seed: int,
) -> tuple[RungResult, ...]:
    """Compare every rung with the one before it, which is never a reference rung."""
    results: list[RungResult] = []
    before: RungResult | None = None
    for rung in rungs:
        asked, others = tuple(outcomes[rung.name]), tuple(foreign[rung.name])
        result = RungResult(rung.name, rung.label, rung.reference, asked, "", None, others)
        if before is not None:
            result = replace(result, against=before.name, change=compared(before, result, MAIN, seed=seed))
        results.append(result)
        before = before if rung.reference else result
    return tuple(results)


def compared(before: RungResult, after: RungResult, metric: str, *, seed: int) -> Difference | None:
    """The paired difference over common questions; None if there are none."""
    old, new = before.values(metric), after.values(metric)
    both = [id for id in new if id in old]
    return difference([old[id] for id in both], [new[id] for id in both], seed=seed) if both else None


def averages(sets: Sequence[SetResult], *, seed: int) -> list[Average]:
    """Every rung in any set, in ladder order."""
    fullest = max(sets, key=lambda one: len(one.rungs))
    found = []
    for rung in fullest.rungs:
        there = [(result_set, other) for result_set in sets if (other := result_set.rung(rung.name)) is not None]
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
                _mean([other.calibration_error for _, other in there]),
            )
        )
    return found


def metrics_of(rung: RungResult) -> list[str]:
    return list(rung.answerable[0].scores)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def as_json(runs: Sequence[Sequence[SetResult]], *, seed: int) -> dict[str, Any]:
    """A run as plain values: means, times, and every question's scores for later comparisons.

    runs: each embedder's sets.
    """
    return {
        "ragway_eval": VERSION,
        "seed": seed,
        "sets": [_set_json(result_set) for sets in runs for result_set in sets],
        "average": [
            {"embedder": sets[0].embedder, **asdict(one)} for sets in runs for one in averages(sets, seed=seed)
        ],
    }


def _set_json(set_result: SetResult) -> dict[str, Any]:
    values = {one.name: getattr(set_result, one.name) for one in fields(set_result)}
    first = {"name": set_result.name, "kind": set_result.kind}
    return {**first, **values, "rungs": [_rung_json(rung) for rung in set_result.rungs]}


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
                stage: float(np.median([outcome.stages_ms.get(stage, 0.0) for outcome in rung.outcomes]))
                for stage in stages
            },
        },
        "calibration_error": rung.calibration_error,
        "against": rung.against,
        "change": asdict(rung.change) if rung.change else None,
        "nothing_injected": {
            "answerable": {"questions": len(rung.answerable), "nothing": nothing(rung.answerable)},
            "unanswerable": {"questions": len(rung.unanswerable), "nothing": nothing(rung.unanswerable)},
        },
        "scores": {result.id: dict(result.scores) for result in rung.answerable},
    }


def nothing(outcomes: Sequence[QuestionResult]) -> int:
    """How many questions got no passage at all."""
    return sum(not outcome.injected for outcome in outcomes)


def per_query(sets: Sequence[SetResult]) -> list[dict[str, Any]]:
    """A row per question and rung: question, rewrite, found and expected documents, and every metric."""
    return [
        {"set": result_set.name, "embedder": result_set.embedder, "rung": rung.name, **asdict(outcome)}
        for result_set in sets
        for rung in result_set.rungs
        for outcome in rung.outcomes
    ]
