"""From a run's replies and judgements to scores: each reply's score and cost, and each question's mean."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.answers.judges.judge_tasks import Judgement, in_both_orders
from evaluation.answers.records import Question, Reply, RequestKey, Variant
from evaluation.answers.scoring.costs import Quantities, quantities
from evaluation.answers.scoring.faults import Fault, fault_of
from evaluation.answers.scoring.scores import Scores, answer_scores, found_scores
from evaluation.answers.scoring.verdict import Pair, Values, means

JUDGED = ("correctness", "relevance", "faithfulness", "preference")


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """A reply with an answer, scores and costs."""

    reply: Reply
    scores: Scores
    costs: Quantities

    @property
    def fault(self) -> Fault | None:
        return fault_of(self.reply)


def scored(questions: Mapping[str, Question], replies: Iterable[Reply]) -> list[ScoredReply]:
    """Score every reply without an error. One with another failure counts for costs but not for scores."""
    return [
        ScoredReply(reply, _scores(questions[reply.question], reply), quantities(reply))
        for reply in replies
        if reply.error is None and reply.question in questions
    ]


def values_of(found: Iterable[ScoredReply], variant: str, score: str) -> Values:
    """Question -> mean score in a variant, without failures."""
    its = (item for item in found if item.reply.variant == variant and item.fault is None)
    return means((item.reply.question, item.scores.get(score)) for item in its)


def wrong_values(
    questions: Mapping[str, Question], found: Iterable[ScoredReply], replies: Iterable[Reply], variant: str, score: str
) -> Values:
    """Like `values_of`, with failures as wrong answers: score 0, if an empty answer would have that score."""
    known = {item.reply.asked: item.scores.get(score) for item in found if item.fault is None}
    its = (reply for reply in replies if reply.variant == variant and reply.question in questions)
    return means(
        (item.question, known[item.asked] if item.asked in known else _lowest(questions[item.question], score))
        for item in its
    )


def judged_values(
    judgements: Iterable[Judgement], variant: str, kind: str, *, faulty: Iterable[RequestKey] = ()
) -> Values:
    """Question -> mean judged score in a variant; preferences count only for pairs judged in both orders.

    faulty: failed answers, whose judgements do not count.
    """
    without = set(faulty)
    its = [
        judgement
        for judgement in judgements
        if (judgement.variant, judgement.kind) == (variant, kind) and not without & set(_judged(judgement))
    ]
    if kind == "preference":
        return means((key[0], score) for key, scores in in_both_orders(its).items() for score in scores)
    return means((item.question, item.score) for item in its)


def wrong_judged_values(
    judgements: Iterable[Judgement], asked: Iterable[Judgement], variant: str, kind: str, faulty: Iterable[RequestKey]
) -> Values:
    """Like `judged_values` for kinds other than preference, with 0 for a missing score.

    asked: all the judge's attempts.
    """
    without = set(faulty)
    scores = {
        judgement.key: judgement.score
        for judgement in judgements
        if judgement.score is not None or judgement.verdict is not None
    }
    keys = {one.key for one in asked if (one.variant, one.kind) == (variant, kind)}
    rows = [(key[0], 0.0 if (key[0], variant, key[3]) in without else scores.get(key, 0.0)) for key in sorted(keys)]
    judged = {(key[0], variant, key[3]) for key in keys}
    rows += [(id, 0.0) for id, name, repeat in sorted(without - judged) if name == variant and keys]
    return means(rows)


def wrong_preferences(
    judgements: Iterable[Judgement], replies: Iterable[Reply], variant: str, against: str
) -> list[Pair]:
    """(before, after) for preferences with failures: a single failed answer loses, two are a tie.

    A pair without a readable judgement counts as lost in the first result and as won in the second.
    """
    its = [
        judgement
        for judgement in judgements
        if (judgement.variant, judgement.against, judgement.kind) == (variant, against, "preference")
    ]
    known = {(key[0], key[3]): statistics.fmean(scores) for key, scores in in_both_orders(its).items()}
    sound = {reply.asked: fault_of(reply) is None for reply in replies}
    both = [(id, repeat) for id, name, repeat in sound if name == variant and (id, against, repeat) in sound]
    found: list[Pair] = []
    for unjudged in (0.0, 1.0):
        rows = []
        for id, repeat in both:
            one, other = sound[id, variant, repeat], sound[id, against, repeat]
            rows.append((id, known.get((id, repeat), unjudged) if one and other else 0.5 + (one - other) / 2))
        after = means(rows)
        found.append(({id: 1 - score for id, score in after.items()}, after))
    return found


def baselines(variants: Sequence[Variant]) -> dict[str, str]:
    """Variant -> its baseline, the variant to compare with.

    That is the same model's raw variant with the same settings and dialect, else its first raw variant. A model's first
    raw variant has no baseline; its other raw variants are compared with the first.
    """
    raw: dict[str, list[Variant]] = {}
    for one in variants:
        if one.mode == "raw":
            raw.setdefault(one.model, []).append(one)
    found = {}
    for one in variants:
        like = [
            other
            for other in raw.get(one.model, ())
            if other.name != one.name and one.mode != "raw" and _of_the_model(other) == _of_the_model(one)
        ]
        against = (like or raw.get(one.model) or [one])[0]
        if against.name != one.name:
            found[one.name] = against.name
    return found


def _of_the_model(variant: Variant) -> dict[str, Any]:
    """Dialect and model settings; `k` is a retrieval setting."""
    settings = {name: value for name, value in variant.settings.items() if name != "k"}
    return {"dialect": variant.dialect, **settings}


def across(variants: Sequence[Variant]) -> list[tuple[str, str]]:
    """(variant, raw variant of another model): does a small model with passages equal a large one without?

    In a run without raw variants: every variant with the first one.
    """
    raw = [variant for variant in variants if variant.mode == "raw"]
    if not raw:
        return [(variant.name, variants[0].name) for variant in variants[1:]]
    return [
        (variant.name, other.name)
        for variant in variants
        for other in raw
        if variant.mode != "raw" and variant.model != other.model
    ]


def _judged(judgement: Judgement) -> list[RequestKey]:
    """Answers that a judgement compares."""
    return [
        (judgement.question, name, judgement.repeat)
        for name in (judgement.variant, judgement.against)
        if name is not None
    ]


def _lowest(question: Question, score: str) -> float | None:
    """The score of a missing answer; None if every answer lacks it."""
    return None if _rule_scores(question, "").get(score) is None else 0.0


def _rule_scores(question: Question, answer: str) -> Scores:
    facts = {"must": question.must, "must_not": question.must_not}
    return answer_scores(answer, reference=question.reference, answerable=question.answerable, **facts)


def _scores(question: Question, reply: Reply) -> Scores:
    answer, passages = reply.said, reply.rag.passages
    sources = [passage.source for passage in passages] if passages is not None else list(reply.rag.sources)
    return _rule_scores(question, answer) | found_scores(
        answer,
        sources=sources,
        documents=[one.document for one in passages or ()],
        gold=question.gold if reply.rag.status not in ("", "off") else (),
    )
