"""A run's replies to its judgements, through a gateway that knows the judge.

What a judge said stands in the folder and is not asked again, also where it could not be read. What failed is left for
the next time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from evaluation.answers.client.budget import (
    NOTHING,
    PriceOf,
    Purse,
    Spent,
    at_worst,
    spent_of,
    worst_of,
)
from evaluation.answers.client.gateway_client import Gateway
from evaluation.answers.client.sender import Outcome, Progress, Sender, Sent
from evaluation.answers.judges.judge_tasks import Judgement, Said, Task, read_reply
from evaluation.answers.judges.judgement_files import (
    asked_file,
    attempts,
    file,
    prompt_hash,
    said_by,
    sent,
)
from evaluation.answers.records import Reply, Variant
from evaluation.answers.run.matrix import headers_of, request_of
from evaluation.answers.run_folder import Lines
from evaluation.answers.scoring.faults import Fault, fault_of
from evaluation.answers.scoring.scores import refuses
from proxy.access.prices import Price
from proxy.dialects.token_counts import Tokens, estimated_tokens

ANSWER_TOKENS = 100  # of an ordinary judgement: an assumption, which the estimate says


@dataclass(frozen=True, slots=True)
class Judge:
    """Which model is asked, and how."""

    variant: Variant  # raw: a judge gets no passages but those it is shown
    price: Price | None
    answer_tokens: int | None  # the most that it can write
    concurrency: int
    retries: int

    def sent(self, task: Task, *, usage: bool) -> Sent:
        """The request that asks it."""
        body = request_of(self.variant, [{"role": "user", "content": task.prompt}], usage=usage)
        worst = worst_of(body, self.variant, budget_tokens=0, cap=self.answer_tokens, price=self.price)
        question, variant, against, repeat, kind, order = task.key
        key = {
            "question": question,
            "variant": variant,
            "against": against,
            "repeat": repeat,
            "kind": kind,
            "order": order,
            "model": self.variant.model,
        }
        return Sent(
            (question, self.variant.name, repeat),
            key,
            self.variant.model,
            body,
            body,
            worst,
            self.price,
            headers_of(self.variant),
        )

    def told(self, todo: Sequence[Task]) -> str:
        """What is about to be asked, and what it will use, about and at most."""
        kinds = Counter(task.kind for task in todo)
        asked = ", ".join(f"{number} of {kind}" for kind, number in kinds.items())
        about, most = self._estimate(todo)
        tokens = f"{about.prompt:,} tokens in and {about.completion:,} out"
        money = "the price is not known (--price MODEL=IN,OUT)"
        if self.price is not None:
            limit = "" if self.answer_tokens is None else f", ${most:,.4f} at most"
            money = f"${self.price.of(about):,.4f}{limit}"
        return f"{self.variant.model} is asked {len(todo)} times ({asked}): about {tokens}; {money}"

    def _estimate(self, todo: Sequence[Task]) -> tuple[Tokens, float]:
        """Tokens, about, and dollars, at most."""
        answer = ANSWER_TOKENS if self.answer_tokens is None else min(ANSWER_TOKENS, self.answer_tokens)
        prompt, most = 0, NOTHING
        for task in todo:
            one = self.sent(task, usage=True)
            prompt += estimated_tokens(orjson.dumps(one.body["messages"]))
            most += at_worst(one.worst)
        return Tokens(prompt, answer * len(todo)), most.usd


class Judging(Sender[Task]):
    """Asks a judge what it has not said yet."""

    def __init__(
        self, folder: Path, judge: Judge, gateway: Gateway, purse: Purse, price_of: PriceOf, *, progress: Progress
    ) -> None:
        super().__init__(gateway, purse, concurrency=judge.concurrency, retries=judge.retries, progress=progress)
        self._folder = folder
        self._judge = judge
        self._price_of = price_of

    async def go(self, tasks: Sequence[Task]) -> Outcome:
        """Ask it all, or until something stops it. Raises BenchError: another process has the folder; OSError."""
        with Lines(asked_file(self._folder)) as before, Lines(file(self._folder)) as after:
            left = left_of(tasks, attempts(self._folder), self._judge.variant.model)
            used = spent(self._folder, self._price_of).charged
            return await self._all(left, total=len(tasks), used=used, before=before, after=after)

    def _sent(self, one: Task) -> Sent:
        return self._judge.sent(one, usage=self._judge.variant.model not in self._without_usage)

    def _row(self, one: Task, reply: Reply) -> Mapping[str, Any]:
        return {
            **asdict(judgement_of(one, reply, self._judge.variant.model)),
            "request": reply.request,
            "reply": reply.answer if reply.error is None else reply.reply,
        }

    def _ended(self, reply: Reply) -> bool:
        return reply.error is None


def left_of(tasks: Iterable[Task], attempts: Iterable[Judgement], model: str) -> list[Task]:
    """What this judge has not said yet of these prompts."""
    said = {one.key: one.prompt for one in said_by(model, attempts)}
    return [task for task in tasks if said.get(task.key) != prompt_hash(task.prompt)]


def spent(folder: Path, price_of: PriceOf) -> Spent:
    """The sum of all that judges were asked in a run's folder."""
    asked = (((key, model, at_s), worst, price_of(model)) for key, model, at_s, worst in sent(folder))
    return spent_of(asked, {(one.key, one.model, one.at_s): one for one in attempts(folder)})


def judgement_of(task: Task, reply: Reply, model: str) -> Judgement:
    """What a judge said of a task, or why it said nothing."""
    said, fault = Said(None, None, ""), fault_of(reply)
    if reply.error is None:
        said = read_reply(task.kind, reply.answer or "", task.order)
        unread: Fault = "refused" if refuses(reply.answer or "") else "unreadable"
        fault = (fault or unread) if said.verdict is None else None
    return Judgement(
        *task.key,
        said.score,
        said.verdict,
        said.reason,
        reply.usage,
        reply.cost_usd,
        model,
        reply.at_s,
        reply.error,
        prompt_hash(task.prompt),
        fault,
    )
