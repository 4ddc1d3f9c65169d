"""Sends a run's answers to a judge, through a gateway that knows the judge's model.

A judgement is written to the folder and not repeated, even if the reply could not be read. The next command repeats
failed requests.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from evaluation.answers.client.budget import (
    NO_COST,
    Budget,
    PriceOf,
    Spend,
    cost_at_max,
    max_cost_of,
    spend_of,
)
from evaluation.answers.client.gateway_client import BenchRequest, GatewayClient
from evaluation.answers.client.sender import Outcome, Progress, Sender
from evaluation.answers.judges.judge_tasks import Judgement, JudgeReply, JudgeTask, read_reply
from evaluation.answers.judges.judgement_files import (
    asked_file,
    attempts,
    file,
    prompt_hash,
    said_by,
    sent_requests,
)
from evaluation.answers.records import Reply, Variant
from evaluation.answers.run.matrix import headers_of, request_of
from evaluation.answers.run_folder import JsonLinesFile
from evaluation.answers.scoring.faults import Fault, fault_of
from evaluation.answers.scoring.refusals import refuses
from proxy.access.prices import Price
from proxy.dialects.replies import Tokens, estimated_tokens

ANSWER_TOKENS = 100  # for an ordinary judgement: an assumption, which the estimate says


@dataclass(frozen=True, slots=True)
class Judge:
    """Which model is asked, and how."""

    variant: Variant  # always raw: a judge gets only passages in the prompt
    price: Price | None
    answer_tokens: int | None  # its longest answer
    concurrency: int
    retries: int

    def request(self, task: JudgeTask, *, usage: bool) -> BenchRequest:
        """A task's request."""
        body = request_of(self.variant, [{"role": "user", "content": task.prompt}], usage=usage)
        max_cost = max_cost_of(body, self.variant, budget_tokens=0, cap=self.answer_tokens, price=self.price)
        return BenchRequest(
            (task.key.question, self.variant.name, task.key.repeat),
            {**task.key._asdict(), "model": self.variant.model},
            self.variant.model,
            body,
            body,
            max_cost,
            self.price,
            headers_of(self.variant),
        )

    def describe(self, todo: Sequence[JudgeTask]) -> str:
        """Planned requests, with their expected and maximum cost, as text."""
        kinds = Counter(task.key.kind for task in todo)
        asked = ", ".join(f"{number} of {kind}" for kind, number in kinds.items())
        about, most = self._estimate(todo)
        tokens = f"{about.prompt:,} tokens in and {about.completion:,} out"
        money = "the price is not known (--price MODEL=IN,OUT)"
        if self.price is not None:
            limit = "" if self.answer_tokens is None else f", ${most:,.4f} at most"
            money = f"${self.price.of(about):,.4f}{limit}"
        return f"{self.variant.model} is asked {len(todo)} times ({asked}): about {tokens}; {money}"

    def _estimate(self, todo: Sequence[JudgeTask]) -> tuple[Tokens, float]:
        """Tokens, about, and dollars, at most."""
        answer = ANSWER_TOKENS if self.answer_tokens is None else min(ANSWER_TOKENS, self.answer_tokens)
        prompt, most = 0, NO_COST
        for task in todo:
            one = self.request(task, usage=True)
            prompt += estimated_tokens(orjson.dumps(one.bodies.prompt_of(one.body)))
            most += cost_at_max(one.max_cost)
        return Tokens(prompt, answer * len(todo)), most.usd


class JudgeRunner(Sender[JudgeTask]):
    """Sends remaining tasks to a judge."""

    def __init__(self, judge: Judge, gateway: GatewayClient, budget: Budget, *, progress: Progress) -> None:
        super().__init__(gateway, budget, concurrency=judge.concurrency, retries=judge.retries, progress=progress)
        self.model = judge.variant.model
        self._judge = judge

    def _request(self, judge_task: JudgeTask) -> BenchRequest:
        return self._judge.request(judge_task, usage=self.model not in self._without_usage)

    def _row(self, judge_task: JudgeTask, reply: Reply) -> Mapping[str, Any]:
        return {
            **asdict(judgement_of(judge_task, reply, self.model)),
            "request": reply.request,
            "reply": reply.answer if reply.error is None else reply.reply,
        }

    def _is_final(self, reply: Reply) -> bool:
        return reply.error is None


async def judge_run(runner: JudgeRunner, folder: Path, tasks: Sequence[JudgeTask], price_of: PriceOf) -> Outcome:
    """Judge a run's answers until all are judged or the runner stops.

    Raises BenchError: another process holds the folder; OSError.
    """
    with JsonLinesFile(asked_file(folder)) as before, JsonLinesFile(file(folder)) as after:
        left = left_of(tasks, attempts(folder), runner.model)
        used = spend(folder, price_of).cost
        return await runner.send_all(left, total=len(tasks), used=used, before=before, after=after)


def left_of(tasks: Iterable[JudgeTask], attempts: Iterable[Judgement], model: str) -> list[JudgeTask]:
    """Tasks that have no judgement for the current prompt."""
    said = {one.key: one.prompt for one in said_by(model, attempts)}
    return [task for task in tasks if said.get(task.key) != prompt_hash(task.prompt)]


def spend(folder: Path, price_of: PriceOf) -> Spend:
    """What all requests to judges in a run's folder have cost."""
    asked = (((key, model, at_s), max_cost, price_of(model)) for key, model, at_s, max_cost in sent_requests(folder))
    return spend_of(asked, {(attempt.key, attempt.model, attempt.at_s): attempt for attempt in attempts(folder)})


def judgement_of(task: JudgeTask, reply: Reply, model: str) -> Judgement:
    """The judgement in a judge's reply, or why there is none."""
    said, fault = JudgeReply(None, None, ""), fault_of(reply)
    if reply.error is None:
        said = read_reply(task.key.kind, reply.said, task.key.order)
        unread: Fault = "refused" if refuses(reply.said) else "unreadable"
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
