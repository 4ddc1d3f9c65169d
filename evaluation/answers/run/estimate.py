"""A run's expected and maximum tokens and dollars, printed before it starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import orjson

from evaluation.answers.client.budget import answer_cap
from evaluation.answers.client.request_bodies import BODIES
from evaluation.answers.records import MaxCost, Question, RequestKey, Variant
from evaluation.answers.run.runner import RunOptions, body_of, max_cost_for
from evaluation.text_tables import aligned
from proxy.dialects.replies import BYTES_PER_TOKEN, Tokens, estimated_tokens

_REWRITE_TOKENS = 30  # for an ordinary rewritten question
ANSWER_TOKENS = 300  # for an ordinary answer: an assumption, which the table says


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected and maximum cost of a variant's requests."""

    variant: str
    requests: int
    prompt_tokens: int
    answer_tokens: int
    usd: float | None  # None: price not known
    most_usd: float | None  # None: price or longest answer not known
    most_tokens: int | None = 0  # in and out; None: longest answer not known

    def __add__(self, other: "Estimate") -> "Estimate":
        sums: dict[str, Any] = {}
        for name in (one.name for one in fields(self) if one.name != "variant"):
            pair = (getattr(self, name), getattr(other, name))
            sums[name] = None if None in pair else sum(pair)
        return Estimate(self.variant, **sums)


def estimates(
    remaining: Iterable[RequestKey], questions: Sequence[Question], variants: Sequence[Variant], options: RunOptions
) -> list[Estimate]:
    """Each variant's estimate for its remaining requests, in variant order."""
    questions_by_id = {question.id: question for question in questions}
    totals = {variant.name: Estimate(variant.name, 0, 0, 0, 0.0, 0.0) for variant in variants}
    variants_by_name = {variant.name: variant for variant in variants}
    estimates_by_request: dict[tuple[str, str], Estimate] = {}
    for id, name, _ in remaining:
        if (id, name) not in estimates_by_request:
            estimates_by_request[id, name] = _estimate(questions_by_id[id], variants_by_name[name], options)
        totals[name] += estimates_by_request[id, name]
    return list(totals.values())


def largest(
    remaining: Iterable[RequestKey], questions: Sequence[Question], variants: Sequence[Variant], options: RunOptions
) -> tuple[MaxCost, str] | None:
    """The most expensive remaining request's maximum cost, and its variant; None: none remains."""
    questions_by_id = {question.id: question for question in questions}
    variants_by_name = {variant.name: variant for variant in variants}
    totals = [
        (_max_cost(questions_by_id[id], variants_by_name[name], options), name)
        for id, name in {one[:2] for one in remaining}
    ]
    return max(totals, key=lambda one: (one[0].usd or 0.0, one[0].prompt_tokens), default=None)


def _max_cost(question: Question, variant: Variant, options: RunOptions) -> MaxCost:
    body = body_of(question, variant, options.lead_of(variant), usage=True)
    return max_cost_for(question, variant, body, options)


def _estimate(question: Question, variant: Variant, options: RunOptions) -> Estimate:
    body = body_of(question, variant, options.lead_of(variant), usage=True)
    price, cap = options.price_of(variant.model), answer_cap(variant.settings, options.size_of(variant.model))
    conversation = orjson.dumps(BODIES[variant.dialect].prompt_of(body))
    prompt_of_question = estimated_tokens(conversation)
    prompt = prompt_of_question + (options.budget_tokens if variant.mode == "rag" else 0)
    answer = ANSWER_TOKENS if cap is None else min(ANSWER_TOKENS, cap)
    usd = None if price is None else price.of(Tokens(prompt, answer))
    if options.rewriting is not None and variant.mode == "rag" and len(question.messages) > 1:
        rewrite = Tokens(options.rewriting.prompt_bytes // BYTES_PER_TOKEN + prompt_of_question, _REWRITE_TOKENS)
        prompt, answer = prompt + rewrite.prompt, answer + rewrite.completion
        known = usd is not None and options.rewriting.price is not None
        usd = (usd or 0.0) + options.rewriting.price.of(rewrite) if known and options.rewriting.price else None
    max_cost = max_cost_for(question, variant, body, options)
    most = None if max_cost.answer_tokens is None else max_cost.prompt_tokens + max_cost.answer_tokens
    return Estimate(variant.name, 1, prompt, answer, usd, max_cost.usd, most)


def table(rows: Sequence[Estimate]) -> str:
    """Estimates as lines of text, with a sum."""
    total = Estimate("all", 0, 0, 0, 0.0, 0.0)
    for row in rows:
        total += row
    lines = [["variant", "requests", "tokens in", "tokens out", "dollars", "at most"]]
    for row in [*rows, total] if len(rows) > 1 else rows:
        numbers = [f"{each:,}" for each in (row.requests, row.prompt_tokens, row.answer_tokens)]
        lines.append([row.variant, *numbers, _dollars(row.usd), _dollars(row.most_usd)])
    return "\n".join(aligned(lines))


def about_operations(rows: Sequence[Estimate], options: RunOptions) -> str:
    """What the table leaves out if chats may call operations; "" if not."""
    if options.operations is None:
        return ""
    most = [row.most_tokens for row in rows]
    tokens = (
        "" if None in most else f"; at most {sum(each or 0 for each in most):,} tokens if every answer takes all calls"
    )
    return (
        f"chats may call operations of APIs: an answer may take {options.operations.rounds + 1} calls of the model, "
        "each with the prompt and the results so far. Tokens and dollars of the table are those of a single call"
        f"{tokens}"
    )


def unknown_prices(variants: Sequence[Variant], options: RunOptions) -> list[str]:
    """Models whose price is not known."""
    return [model for model in dict.fromkeys(variant.model for variant in variants) if options.price_of(model) is None]


def unknown_caps(variants: Sequence[Variant], options: RunOptions) -> list[str]:
    """Models whose longest answer is not known."""
    uncapped = (one.model for one in variants if answer_cap(one.settings, options.size_of(one.model)) is None)
    return list(dict.fromkeys(uncapped))


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4f}"
