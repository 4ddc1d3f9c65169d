"""Sends a run's requests in random order, until each has a final reply or the run stops."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.answers.client.budget import (
    Budget,
    Operations,
    PriceOf,
    Rewriting,
    answer_cap,
    max_cost_of,
    spend,
)
from evaluation.answers.client.gateway_client import BenchRequest, GatewayClient
from evaluation.answers.client.request_bodies import BODIES
from evaluation.answers.client.sender import OnReply, Outcome, Progress, Sender
from evaluation.answers.records import MaxCost, Question, Reply, RequestKey, Variant
from evaluation.answers.run.matrix import headers_of, request_of
from evaluation.answers.run_folder import JsonLinesFile, Run
from proxy.access.prices import Size


@dataclass(frozen=True, slots=True)
class WholeText:
    """The text of whole collections, placed before a conversation, and its file in the run's folder."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options for a run's requests."""

    concurrency: int
    retries: int
    budget_tokens: int  # for the gateway's passages
    price_of: PriceOf
    size_of: Callable[[str], Size]
    wholes: Mapping[str, WholeText]  # variant name -> text before the conversation
    operations: Operations | None = None  # None: none are offered
    rewriting: Rewriting | None = None  # None: no model rewrites
    rewrite_price_of: PriceOf | None = None  # by the model that the gateway names; None: as `price_of`

    def lead_of(self, variant: Variant) -> str | None:
        """The text before a variant's conversations."""
        whole = self.wholes.get(variant.name)
        return None if whole is None else whole.text


def order_of(questions: Sequence[Question], variants: Sequence[Variant], repeats: int, seed: int) -> list[RequestKey]:
    """All requests in random order, so that slow changes during a run affect all variants equally."""
    listed = itertools.product(questions, variants, range(repeats))
    order = [(question.id, variant.name, repeat) for question, variant, repeat in listed]
    random.Random(seed).shuffle(order)
    return order


def body_of(question: Question, variant: Variant, lead: object, *, usage: bool) -> dict[str, Any]:
    """The request body for a question and a variant. Raises BenchError, like `request_of`.

    lead: a system message before the conversation; None: no message.
    """
    leads = [] if lead is None else [{"role": "system", "content": lead}]
    return request_of(variant, [*leads, *question.messages], usage=usage)


def max_cost_for(question: Question, variant: Variant, body: Mapping[str, Any], options: RunOptions) -> MaxCost:
    """The maximum cost of asking a variant a question."""
    return max_cost_of(
        body,
        variant,
        budget_tokens=options.budget_tokens,
        cap=answer_cap(variant.settings, options.size_of(variant.model)),
        price=options.price_of(variant.model),
        operations=options.operations,
        rewriting=options.rewriting if len(question.messages) > 1 else None,
    )


def _operation_headers(variant: Variant, max_cost: MaxCost, options: RunOptions) -> Mapping[str, str]:
    """Without passages, a variant keeps its operations; the gateway makes no model call beyond the maximum."""
    if options.operations is None:
        return {}
    most = {"x-rag-max-tokens": str(max_cost.prompt_tokens + max_cost.answer_tokens)} if max_cost.answer_tokens else {}
    return most if variant.mode == "rag" else {"x-rag-actions": "on", **most}


class Runner(Sender[RequestKey]):
    """Sends a run's remaining requests."""

    def __init__(
        self,
        run: Run,
        gateway: GatewayClient,
        budget: Budget,
        options: RunOptions,
        *,
        progress: Progress,
        answered: OnReply | None = None,
    ) -> None:
        super().__init__(
            gateway,
            budget,
            concurrency=options.concurrency,
            retries=options.retries,
            progress=progress,
            answered=answered,
        )
        self._run = run
        self._options = options
        self._questions = {question.id: question for question in run.questions}
        self._variants = {variant.name: variant for variant in run.manifest.variants}

    async def go(self) -> Outcome:
        """Send until all requests have a final reply or the run stops.

        Raises BenchError: another process holds the run; OSError.
        """
        run, manifest = self._run, self._run.manifest
        with JsonLinesFile(run.sent_path()) as before, JsonLinesFile(run.replies_path()) as after:
            order = order_of(run.questions, manifest.variants, manifest.repeats, manifest.seed)
            done = run.done()
            left = [asked for asked in order if asked not in done]
            used = spend(run, self._options.price_of).cost
            return await self.send_all(left, total=len(order), used=used, before=before, after=after)

    def _request(self, request_key: RequestKey) -> BenchRequest:
        question, variant, options = self._questions[request_key[0]], self._variants[request_key[1]], self._options
        whole = options.wholes.get(variant.name)
        usage = variant.model not in self._without_usage
        body = body_of(question, variant, options.lead_of(variant), usage=usage)
        # In the folder, a file name stands for a whole collection's text.
        stored_body = body if whole is None else body_of(question, variant, {"file": whole.file}, usage=usage)
        price = options.price_of(variant.model)
        max_cost = max_cost_for(question, variant, body, options)
        key = {"question": request_key[0], "variant": request_key[1], "repeat": request_key[2]}
        return BenchRequest(
            request_key,
            key,
            variant.model,
            body,
            stored_body,
            max_cost,
            price,
            {**headers_of(variant), **_operation_headers(variant, max_cost, options)},
            BODIES[variant.dialect],
            options.rewrite_price_of or options.price_of,
        )

    def _row(self, request_key: RequestKey, reply: Reply) -> Reply:
        return reply

    def _is_final(self, reply: Reply) -> bool:
        return reply.done
