"""How reliable a judge is: missing scores, preferences that depend on order, agreement with rules."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.answers.judges.judge_tasks import KINDS, Judgement, JudgementKey, in_both_orders
from evaluation.answers.judges.judgement_files import said_by
from evaluation.answers.records import RequestKey
from evaluation.answers.scoring.faults import Fault, counted
from evaluation.answers.scoring.scored_replies import ScoredReply
from evaluation.answers.scoring.verdict import SAME

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Agreement:
    """One kind of judgement, compared with rule-based scores of the same answers. tau: Kendall's tau-b, from -1 to 1.

    of: answers whose scores both differ from one half; same: those where both are on the same side of it. For
    preferences: pairs for which both prefer an answer, and those for which they prefer the same one.
    """

    of: int
    same: int
    tau: float | None  # None: fewer than two pairs, or one side's scores are all equal


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """A judge's work, by kind of judgement."""

    model: str
    asked: Mapping[str, int]
    faults: Mapping[str, Mapping[Fault, int]]  # kind -> failure -> judgements without a score
    tokens_in: int
    tokens_out: int
    cost_usd: float
    cost_unknown: int  # replies without a known price
    swapped: int  # pairs of answers shown in both orders
    swayed: int  # pairs whose order changed the preference
    agreement: Mapping[str, Agreement]

    @property
    def failures(self) -> int:
        """Judgements without a score."""
        return sum(sum(found.values()) for found in self.faults.values())


def judge_report(model: str, attempts: Iterable[Judgement], found: Iterable[ScoredReply]) -> JudgeReport:
    """A report about one judge. Its cost includes failed and repeated requests."""
    attempts = [attempt for attempt in attempts if attempt.model == model]
    judgements = said_by(model, attempts)
    by_rule = {item.reply.asked: score for item in found if (score := item.scores["score"]) is not None}
    usages = [attempt.usage for attempt in attempts if attempt.usage is not None]
    latest: dict[str, dict[JudgementKey, Judgement]] = {}  # by kind: the judgement, else the last failed attempt
    for attempt in (*attempts, *judgements):
        latest.setdefault(attempt.kind, {})[attempt.key] = attempt
    pairs = in_both_orders(judgements).values()
    return JudgeReport(
        model=model,
        asked={kind: len(latest[kind]) for kind in KINDS if kind in latest},
        faults={kind: counted(map(_fault, latest[kind].values())) for kind in KINDS if kind in latest},
        tokens_in=sum(usage.prompt for usage in usages),
        tokens_out=sum(usage.completion for usage in usages),
        cost_usd=sum(attempt.cost_usd or 0.0 for attempt in attempts),
        cost_unknown=sum(attempt.cost_usd is None for attempt in attempts),
        swapped=len(pairs),
        swayed=sum(first != second for first, second in pairs),
        agreement={
            kind: _agreement(kind, judgements, by_rule) for kind in KINDS if kind in latest and kind != "relevance"
        },
    )


def _fault(judgement: Judgement) -> Fault | None:
    """Why a judgement has no verdict; an earlier version did not store this."""
    if judgement.error is not None:
        return "failed"
    return None if judgement.verdict is not None else judgement.fault or "unreadable"


def _agreement(kind: str, judgements: Sequence[Judgement], by_rule: Mapping[RequestKey, float]) -> Agreement:
    pairs = _preferred(judgements, by_rule) if kind == "preference" else _scored(kind, judgements, by_rule)
    sides = [(x, y) for x, y in pairs if _HALF not in (x, y)]
    return Agreement(len(sides), sum((x > _HALF) == (y > _HALF) for x, y in sides), _tau(pairs))


def _scored(
    kind: str, judgements: Iterable[Judgement], by_rule: Mapping[RequestKey, float]
) -> list[tuple[float, float]]:
    """(judged score, rule-based score) of each answer that has both."""
    return [
        (judgement.score, rule)
        for judgement in judgements
        if judgement.kind == kind
        and judgement.score is not None
        and (rule := by_rule.get((judgement.question, judgement.variant, judgement.repeat))) is not None
    ]


def _preferred(judgements: Iterable[Judgement], by_rule: Mapping[RequestKey, float]) -> list[tuple[float, float]]:
    """(judged, rule-based) of each pair of answers: 1 if the first is better, 0 if the second, else one half."""
    found = []
    for (question, variant, against, repeat, *_), scores in in_both_orders(judgements).items():
        first, second = by_rule.get((question, variant, repeat)), by_rule.get((question, against or "", repeat))
        if first is not None and second is not None:
            change = first - second
            rule = _HALF if abs(change) <= SAME else float(change > 0)
            found.append((statistics.fmean(scores), rule))
    return found


def _tau(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Kendall's tau-b."""
    from scipy.stats import kendalltau

    if any(len({pair[side] for pair in pairs}) < 2 for side in (0, 1)):
        return None
    return float(kendalltau(*zip(*pairs, strict=True)).statistic)
