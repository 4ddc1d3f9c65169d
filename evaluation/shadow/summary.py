"""From shadow comparisons to results, by group: lift and harm as a judge sees both answers, refusals, cost, latency.

Live questions have no reference, so no rule can check an answer. The verdict comes from a judge's preference between
two answers, shown in both orders: the share preferred with passages minus the share preferred raw, from -1 to 1.
Without a judge, there is no verdict. Refusals are found by words and show how often a model answered at all.
Comparisons with the same first message count once, with their mean: they are one conversation or one question.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.answers.judges.judge_tasks import Judgement, in_both_orders
from evaluation.answers.records import Question, Rag, Reply
from evaluation.answers.scoring.costs import extra, quantities
from evaluation.answers.scoring.groups import groups_of
from evaluation.answers.scoring.refusals import refuses
from evaluation.answers.scoring.verdict import Pair, ScoreComparison, Values, compared
from evaluation.answers.thoughts import without_thoughts
from evaluation.stats.significance import Difference
from proxy.observe.shadow.comparison import Comparison, Side

RAG, RAW = "with passages", "raw"
ALL = ("all", "")
Name = tuple[str, str]  # of a group: kind and value


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """A group of comparisons with its results. None: no data."""

    of: str  # all, sample, collection, key, model
    name: str
    comparisons: int
    both: int  # with two answers; every later field covers only these
    only_rag: int  # the raw request brought none
    only_raw: int  # passages cost the answer
    preference: ScoreComparison | None
    refusals: ScoreComparison | None  # 1: a refusal
    more: Mapping[str, Difference]  # quantity -> extra cost of a chat with passages
    estimated: int  # of `both`: those with estimated token counts


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """All comparisons in a period."""

    groups: Sequence[ComparisonGroup]  # the first one holds all comparisons
    judge: str | None
    judged: int  # by this judge, in both orders
    unreadable: int  # judge replies without a preference
    swayed: int  # pairs whose order changed the preference
    raw_usd: float  # the cost of raw requests with a known price
    judge_usd: float
    unpriced: int


def answered(comparison: Comparison) -> bool:
    """Whether both replies brought an answer in words."""
    return _answers(comparison.rag) and _answers(comparison.raw)


def pair_of(comparison: Comparison) -> tuple[Question, Reply, Reply]:
    """What the judge gets: the question, the reply with passages, the raw reply."""
    question = Question(comparison.id, [{"role": turn.role, "content": turn.text} for turn in comparison.turns])
    return question, _reply(comparison, RAG, comparison.rag), _reply(comparison, RAW, comparison.raw)


def shadow_report(
    found: Sequence[Comparison], said: Sequence[Judgement], judge: str | None, keys: Mapping[str, str], *, seed: int
) -> ShadowReport:
    """said: this judge's judgements; keys: id -> name for readers."""
    ids = {item.id for item in found if answered(item)}
    pairs = {id: scores for (id, *_), scores in in_both_orders(said).items() if id in ids}
    known = {id: statistics.fmean(scores) for id, scores in pairs.items()}
    groups: dict[Name, list[Comparison]] = {}
    for one in found:
        for name in _names(one, keys):
            groups.setdefault(name, []).append(one)
    begun = groups_of(Question(item.id, _opening(item)) for item in found)
    return ShadowReport(
        [_group(name, groups[name], known, begun, seed=seed) for name in _distinct(groups)],
        judge,
        len(known),
        sum(judgement.score is None for judgement in said),
        sum(first != second for first, second in pairs.values()),
        sum(item.raw.cost_usd or 0.0 for item in found),
        sum(judgement.cost_usd or 0.0 for judgement in said),
        sum(item.raw.cost_usd is None for item in found),
    )


def as_json(report: ShadowReport) -> dict[str, Any]:
    """As plain values."""
    row = asdict(report)
    for group, told in zip(report.groups, row["groups"], strict=True):
        told["sentence"] = None if group.preference is None else group.preference.sentence()
    return {"ragway_bench_live": 1, **row}


def _names(comparison: Comparison, keys: Mapping[str, str]) -> Iterable[Name]:
    yield ALL
    yield "sample", "asked for" if comparison.asked else "drawn"
    yield "collection", ", ".join(comparison.collections) or "(none that the key may read)"
    yield "key", keys.get(comparison.key, comparison.key) or "(no key)"
    yield "model", comparison.model


def _distinct(groups: Mapping[Name, Sequence[Comparison]]) -> list[Name]:
    """Groups in order, without kinds that have a single value."""
    kinds = ("all", "sample", "collection", "key", "model")
    alone = {of for of in ("sample", "model") if sum(name[0] == of for name in groups) == 1}
    return sorted((name for name in groups if name[0] not in alone), key=lambda name: (kinds.index(name[0]), name[1]))


def _opening(comparison: Comparison) -> list[dict[str, str]]:
    """A user's first message, by which chats in one conversation are known."""
    return [{"role": "user", "content": turn.text} for turn in comparison.turns if turn.role == "user"][:1]


def _group(
    name: Name, found: Sequence[Comparison], known: Mapping[str, float], groups: Mapping[str, str], *, seed: int
) -> ComparisonGroup:
    both = [item for item in found if answered(item)]
    after = {item.id: known[item.id] for item in both if item.id in known}
    refused = [
        {item.id: float(refuses(without_thoughts(item.raw.answer or ""))) for item in both},
        {item.id: float(refuses(without_thoughts(item.rag.answer or ""))) for item in both},
    ]
    return ComparisonGroup(
        *name,
        len(found),
        len(both),
        sum(_answers(item.rag) and not _answers(item.raw) for item in found),
        sum(_answers(item.raw) and not _answers(item.rag) for item in found),
        compared("preference", *_both(after), seed=seed, groups=groups, wrong=_with_failures(found, after)),
        compared("refusal", *refused, seed=seed, groups=groups),
        extra(
            [(item.id, quantities(_reply(item, RAW, item.raw))) for item in both],
            [(item.id, quantities(_reply(item, RAG, item.rag))) for item in both],
            seed=seed,
            groups=groups,
        ),
        sum(item.rag.tokens.estimated or item.raw.tokens.estimated for item in both),
    )


def _both(after: Values) -> Pair:
    """Preferred raw, preferred with passages."""
    return {id: 1 - score for id, score in after.items()}, after


def _with_failures(found: Iterable[Comparison], known: Values) -> list[Pair]:
    """Preferences with failures: a single answer wins; a pair without a judgement is lost, then won."""
    readings = []
    for unjudged in (0.0, 1.0):
        after = {}
        for one in found:
            rag, raw = _answers(one.rag), _answers(one.raw)
            if rag and raw:
                after[one.id] = known.get(one.id, unjudged)
            elif rag or raw:
                after[one.id] = float(rag)
        readings.append(_both(after))
    return readings


def _answers(side: Side) -> bool:
    return side.error is None and bool(without_thoughts(side.answer or "").strip())


def _reply(comparison: Comparison, variant: str, side: Side) -> Reply:
    return Reply(
        comparison.id,
        variant,
        0,
        comparison.at_s,
        side.status,
        side.answer,
        side.finish_reason,
        side.error,
        Rag(injected_tokens=comparison.injected_tokens if variant == RAG else 0),
        side.tokens,
        side.cost_usd,
        side.first_ms,
        side.total_ms,
    )
