"""A run's replies to its judgements, through a gateway that knows the judge: so many at once, within a ceiling.

What a judge said stands in the folder before its slot asks on, and is not asked again, also where it could not be read.
What failed for a reason that may pass is left for the next time.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.bench.asking import Call, Gateway
from proxy.bench.judge import Judgement, Key, Task, read_reply
from proxy.bench.matrix import headers_of, request_of
from proxy.bench.records import Reply, Variant, Worst
from proxy.bench.running import Writing
from proxy.bench.runs import Lines
from proxy.bench.spending import NOTHING, Charge, Purse, at_worst, charge_of, worst_of
from proxy.prices import Price

_MOST_IN_A_ROW = 5  # that got no answer: nothing works
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Judge:
    """Which model is asked, and how."""

    variant: Variant  # raw: a judge gets no passages but those it is shown
    price: Price | None
    answer_tokens: int | None  # the most that it can write
    concurrency: int
    retries: int

    def body_of(self, task: Task, *, usage: bool) -> dict[str, Any]:
        """The request."""
        return request_of(self.variant, [{"role": "user", "content": task.prompt}], usage=usage)

    def worst_of(self, body: Mapping[str, Any]) -> Worst:
        """The most that a request may use."""
        return worst_of(body, self.variant, budget_tokens=0, cap=self.answer_tokens, price=self.price)

    def told(self, todo: Sequence[Task]) -> str:
        """What is about to be asked, and the most that it can use."""
        total = NOTHING
        for task in todo:
            total += at_worst(self.worst_of(self.body_of(task, usage=True)))
        money = "the price is not known (--price MODEL=IN,OUT)" if self.price is None else f"${total.usd:.4f}"
        kinds = Counter(task.kind for task in todo)
        asked = ", ".join(f"{number} of {kind}" for kind, number in kinds.items())
        return f"{self.variant.model} is asked {len(todo)} times ({asked}): at most {total.tokens:,} tokens, {money}"


@dataclass(frozen=True, slots=True)
class Judged:
    """How far it came."""

    asked: int
    left: int
    stopped: str  # why it stopped before its end; ""


def spent(judgements: Iterable[Judgement]) -> Charge:
    """What all judgements of a folder cost so far."""
    total = NOTHING
    for one in judgements:
        tokens = 0 if one.usage is None else one.usage.prompt + one.usage.completion
        total += Charge(one.cost_usd or 0.0, tokens)
    return total


class Judging:
    """Asks a judge what it has not been asked yet."""

    def __init__(
        self, judge: Judge, gateway: Gateway, purse: Purse, *, progress: Callable[[int, int, int], None]
    ) -> None:
        self._judge = judge
        self._gateway = gateway
        self._purse = purse
        self._progress = progress
        self._usage = True  # whether the upstream may be asked for the tokens
        self._stopping = asyncio.Event()
        self._stopped = ""
        self._in_a_row = 0
        self._done = self._total = 0

    @property
    def outcome(self) -> Judged:
        """How far it has come."""
        return Judged(self._done, self._total - self._done, self._stopped)

    @property
    def stopping(self) -> bool:
        """Whether it begins nothing more."""
        return self._stopping.is_set()

    def stop(self, why: str) -> None:
        """Begin nothing more; what is in flight may end."""
        self._stopped = self._stopped or why
        self._stopping.set()

    async def go(self, todo: Sequence[Task], lines: Lines) -> None:
        """Ask it all, or until something stops it. Raises OSError."""
        self._left, self._total, self._lines = deque(todo), len(todo), Writing(lines)
        self._progress(0, self._total, 0)
        workers = [asyncio.create_task(self._work()) for _ in range(min(self._judge.concurrency, len(todo)))]
        ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def _work(self) -> None:
        try:
            while self._left and not self.stopping:
                await self._ask(self._left.popleft())
        except BaseException:
            self.stop("it failed")
            raise

    async def _ask(self, task: Task) -> None:
        """One thing until it is judged, given up, or all stops."""
        pause_s = _FIRST_PAUSE_S
        for tries in range(self._judge.retries + 1):
            if tries:
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            reply = await self._attempt(task)
            if reply is None:
                return
            if reply.refuses_usage and self._usage:
                self._usage = False
                reply = await self._attempt(task)
            if reply is None or reply.error is None:
                self._in_a_row = 0
                return
            if reply.status in range(400, 500) and reply.status not in (408, 409, 425, 429):
                break
        self._in_a_row += 1
        if self._in_a_row >= _MOST_IN_A_ROW and reply is not None:
            self.stop(f"{self._in_a_row} in a row got no answer, the last: {reply.error}")

    async def _attempt(self, task: Task) -> Reply | None:
        """The judge's reply, which is in the folder where it is one; None: nothing was asked."""
        judge = self._judge
        body = judge.body_of(task, usage=self._usage)
        worst = judge.worst_of(body)
        if self.stopping or not await self._purse.take(worst):
            self.stop("the ceiling does not allow for another request")
            return None
        charge = at_worst(worst)
        try:
            asked = (task.question, judge.variant.name, task.repeat)
            call = Call(asked, time.time(), body, headers_of(judge.variant), {}, judge.price)
            reply = (await self._gateway.ask(call)).reply
            if reply.error is None:
                await self._lines.append(_judgement(task, reply, judge.variant.model))
                self._done += 1
                self._progress(self._done, self._total, 0)
            charge = charge_of(reply, worst, judge.price)
            return reply
        finally:
            await self._purse.settle(worst, charge)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


def left_of(tasks: Iterable[Task], done: Mapping[Key, Judgement], model: str) -> list[Task]:
    """What this judge has not said yet."""
    return [task for task in tasks if (one := done.get(task.key)) is None or one.model != model]


def _judgement(task: Task, reply: Reply, model: str) -> Judgement:
    said = read_reply(task.kind, reply.answer or "", task.order)
    return Judgement(
        task.question, task.variant, task.against, task.repeat, task.kind, task.order, said.score, said.verdict,
        said.reason, reply.usage, reply.cost_usd, model,
    )  # fmt: skip
