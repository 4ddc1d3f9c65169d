"""A run's replies and judgements to scores: what each reply scored and cost, and what each question came to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.bench.judges.judge import Judgement, in_both_orders
from proxy.bench.records import Question, Reply, Variant
from proxy.bench.scoring.costs import Quantities
from proxy.bench.scoring.scores import Scores, answer_scores, found_scores
from proxy.bench.scoring.verdict import Values, means

JUDGED = ("correctness", "relevance", "faithfulness", "preference")


@dataclass(frozen=True, slots=True)
class Scored:
    """One reply that brought an answer."""

    reply: Reply
    scores: Scores
    costs: Quantities


def scored(questions: Mapping[str, Question], replies: Iterable[Reply]) -> list[Scored]:
    """Every reply with an answer, scored; the others have no score and are counted by `failures`."""
    return [
        Scored(reply, _scores(questions[reply.question], reply), _costs(reply))
        for reply in replies
        if reply.error is None and reply.question in questions
    ]


def values_of(found: Iterable[Scored], variant: str, score: str) -> Values:
    """Question -> its mean score in a variant."""
    return means((one.reply.question, one.scores.get(score)) for one in found if one.reply.variant == variant)


def judged_values(judgements: Iterable[Judgement], variant: str, kind: str) -> Values:
    """Question -> its mean judged score in a variant; of a preference, of pairs judged in both orders."""
    its = [one for one in judgements if (one.variant, one.kind) == (variant, kind)]
    if kind == "preference":
        return means((key[0], score) for key, scores in in_both_orders(its).items() for score in scores)
    return means((one.question, one.score) for one in its)


def baselines(variants: Sequence[Variant]) -> dict[str, str]:
    """Variant -> what it is compared with: the raw variant of its model with its settings, else the model's first one.

    A model's first raw variant has none; its other raw ones are compared with it.
    """
    raw: dict[str, list[Variant]] = {}
    for one in variants:
        if one.mode == "raw":
            raw.setdefault(one.model, []).append(one)
    found = {}
    for one in variants:
        like = [other for other in raw.get(one.model, ()) if other.name != one.name and one.mode != "raw"
                and _of_the_model(other) == _of_the_model(one)]  # fmt: skip
        against = (like or raw.get(one.model) or [one])[0]
        if against.name != one.name:
            found[one.name] = against.name
    return found


def _of_the_model(variant: Variant) -> dict[str, Any]:
    """The settings that the model is asked with; `k` is retrieval's."""
    return {name: value for name, value in variant.settings.items() if name != "k"}


def across(variants: Sequence[Variant]) -> list[tuple[str, str]]:
    """(variant, raw variant of another model): whether a small model with passages does as well as a large one raw.

    Where the run has no raw variant at all, every variant and the first one.
    """
    raw = [one for one in variants if one.mode == "raw"]
    if not raw:
        return [(one.name, variants[0].name) for one in variants[1:]]
    return [
        (one.name, other.name) for one in variants for other in raw if one.mode != "raw" and one.model != other.model
    ]


def _scores(question: Question, reply: Reply) -> Scores:
    answer, passages = reply.answer or "", reply.rag.passages
    sources = [one.source for one in passages] if passages is not None else list(reply.rag.sources)
    return answer_scores(
        answer, reference=question.reference, must=question.must, must_not=question.must_not,
        answerable=question.answerable,
    ) | found_scores(
        answer, sources=sources, documents=[one.document for one in passages or ()],
        gold=question.gold if reply.rag.status not in ("", "off") else (),
    )  # fmt: skip


def _costs(reply: Reply) -> Quantities:
    usage = reply.usage
    tokens: Quantities = {
        name: None if usage is None else getattr(usage, name)
        for name in ("prompt", "completion", "cached", "reasoning")
    }
    return {
        "first_ms": reply.first_ms, "total_ms": reply.total_ms, **tokens,
        "injected": 0 if reply.rag.status == "off" else reply.rag.injected_tokens, "cost_usd": reply.cost_usd,
    }  # fmt: skip
