"""The requests of a run, in random order, until all are answered or something stops it."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.answers.client.budget import PriceOf, Purse, answer_cap, spent, worst_of
from evaluation.answers.client.gateway_client import Gateway
from evaluation.answers.client.sender import Heed, Outcome, Progress, Sender, Sent, pass_over
from evaluation.answers.records import Asked, Question, Reply, Variant
from evaluation.answers.run.matrix import headers_of, request_of
from evaluation.answers.run_folder import Lines, Run
from proxy.access.prices import Size


@dataclass(frozen=True, slots=True)
class Whole:
    """The text of collections that stands in front of a conversation, and the file of the run that has it."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class Terms:
    """What the requests of a run follow."""

    concurrency: int
    retries: int
    budget_tokens: int  # of the gateway's passages
    price_of: PriceOf
    size_of: Callable[[str], Size]
    wholes: Mapping[str, Whole]  # name of a variant -> what it puts in front


def order_of(questions: Sequence[Question], variants: Sequence[Variant], repeats: int, seed: int) -> list[Asked]:
    """All that is to be asked, shuffled: what drifts while a run lasts befalls all variants alike."""
    listed = itertools.product(questions, variants, range(repeats))
    order = [(question.id, variant.name, repeat) for question, variant, repeat in listed]
    random.Random(seed).shuffle(order)
    return order


def body_of(question: Question, variant: Variant, whole: Whole | None, *, usage: bool) -> dict[str, Any]:
    """The request that asks a question of a variant."""
    lead = [] if whole is None else [{"role": "system", "content": whole.text}]
    return request_of(variant, [*lead, *question.messages], usage=usage)


class Runner(Sender[Asked]):
    """Asks what a run has not asked yet."""

    def __init__(
        self, run: Run, gateway: Gateway, purse: Purse, terms: Terms, *, progress: Progress, answered: Heed = pass_over
    ) -> None:
        super().__init__(
            gateway, purse, concurrency=terms.concurrency, retries=terms.retries, progress=progress, answered=answered
        )
        self._run = run
        self._terms = terms
        self._questions = {question.id: question for question in run.questions}
        self._variants = {variant.name: variant for variant in run.head.variants}

    async def go(self) -> Outcome:
        """Ask until all is answered or something stops it. Raises BenchError: another process has the run; OSError."""
        run, head = self._run, self._run.head
        with Lines(run.asked_file()) as before, Lines(run.replies_file()) as after:
            order = order_of(run.questions, head.variants, head.repeats, head.seed)
            done = run.done()
            left = [asked for asked in order if asked not in done]
            used = spent(run, self._terms.price_of).charged
            return await self._all(left, total=len(order), used=used, before=before, after=after)

    def _sent(self, one: Asked) -> Sent:
        question, variant, terms = self._questions[one[0]], self._variants[one[1]], self._terms
        whole = terms.wholes.get(variant.name)
        body = body_of(question, variant, whole, usage=variant.model not in self._without_usage)
        price, cap = terms.price_of(variant.model), answer_cap(variant.settings, terms.size_of(variant.model))
        worst = worst_of(body, variant, budget_tokens=terms.budget_tokens, cap=cap, price=price)
        key = {"question": one[0], "variant": one[1], "repeat": one[2]}
        return Sent(one, key, variant.model, body, _kept(body, whole), worst, price, headers_of(variant))

    def _row(self, one: Asked, reply: Reply) -> Reply:
        return reply

    def _ended(self, reply: Reply) -> bool:
        return reply.done


def _kept(body: Mapping[str, Any], whole: Whole | None) -> Mapping[str, Any]:
    """The body as the run keeps it: of a whole collection the name of its file, not its text in every row."""
    if whole is None:
        return body
    return {**body, "messages": [{"role": "system", "content": {"file": whole.file}}, *body["messages"][1:]]}
