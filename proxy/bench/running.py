"""The requests of a run, in random order, so many at once, until all are answered or something stops it.

Every attempt stands in the folder before the next step: what it may cost before it is sent, its reply as soon as it
is there. So whatever stops a run, the same run goes on where it was.
"""

import asyncio
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.bench.asking import Call, Gateway, Heard
from proxy.bench.matrix import headers_of, request_of
from proxy.bench.records import Asked, Question, Variant
from proxy.bench.runs import Lines, Run
from proxy.bench.spending import NOTHING, PriceOf, Purse, answer_cap, at_worst, charge_of, worst_of
from proxy.prices import Size

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_MOST_IN_A_ROW = 5  # questions given up one after the other: nothing works
_PASSES = (0, 200, 408, 409, 425, 429)  # 200: it broke off; and all from 500
_HOPELESS = (401, 402, 403, 404, 405)  # no other request would fare better until somebody mends something
_USED_UP = ("insufficient_quota", "billing_hard_limit_reached")


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far a run came."""

    done: int  # of all that is to be asked; errors that stand included
    total: int
    stopped: str  # why it stopped before its end; ""


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


class Runner:
    """Asks what a run has not asked yet."""

    def __init__(
        self, run: Run, gateway: Gateway, purse: Purse, terms: Terms, *, progress: Callable[[int, int, int], None]
    ) -> None:
        self._run = run
        self._gateway = gateway
        self._purse = purse
        self._terms = terms
        self._progress = progress
        self._questions = {question.id: question for question in run.questions}
        self._variants = {variant.name: variant for variant in run.head.variants}
        self._without_usage: set[str] = set()  # models whose upstream refuses to be asked for it
        self._in_a_row = 0
        self._stopping = asyncio.Event()
        self._stopped = ""
        self._done = self._total = 0

    @property
    def outcome(self) -> Outcome:
        """How far it has come."""
        return Outcome(self._done, self._total, self._stopped)

    @property
    def stopping(self) -> bool:
        """Whether it begins nothing more."""
        return self._stopping.is_set()

    def stop(self, why: str) -> None:
        """Begin nothing more; what is in flight may end."""
        self._stopped = self._stopped or why
        self._stopping.set()

    async def go(self) -> Outcome:
        """Ask until all is answered or something stops it. Raises BenchError: another process has the run; OSError."""
        head = self._run.head
        with Lines(self._run.asked_file()) as asked, Lines(self._run.replies_file()) as replies:
            self._asked, self._replies = Writing(asked), Writing(replies)
            order = order_of(self._run.questions, head.variants, head.repeats, head.seed)
            done = self._run.done()
            self._left = deque(one for one in order if one not in done)
            self._total, self._done = len(order), len(order) - len(self._left)
            self._progress(self._done, self._total, 0)
            workers = [asyncio.create_task(self._work()) for _ in range(min(self._terms.concurrency, len(self._left)))]
            ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return self.outcome

    async def _work(self) -> None:
        try:
            while self._left and not self.stopping:
                await self._ask(self._left.popleft())
        except BaseException:  # a full disk: the others write what they have in flight, if they can
            self.stop("it failed")
            raise

    async def _ask(self, asked: Asked) -> None:
        """One question until it is answered, given up, or the run stops."""
        tries, pause_s = 0, _FIRST_PAUSE_S
        while not self.stopping:
            heard = await self._attempt(asked)
            if heard is None:
                return
            if heard.reply.done:
                self._in_a_row = 0
                self._done += 1
                self._progress(self._done, self._total, 0)
                return
            if heard.reply.refuses_usage:
                self._without_usage.add(self._variants[asked[1]].model)
                continue
            tries += 1
            wait_s = pause_s if heard.wait_s is None else heard.wait_s
            if self._give_up(heard, tries, wait_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            await self._pause(wait_s)

    def _give_up(self, heard: Heard, tries: int, wait_s: float) -> bool:
        """Whether it is of no use to try again now; stops the run where that holds for all others, too."""
        reply = heard.reply
        passes = reply.status in _PASSES or reply.status >= 500
        if reply.status in _HOPELESS or heard.code in _USED_UP:
            self.stop(f"{reply.variant}: {reply.error}")
        elif passes and wait_s > _LONGEST_PAUSE_S:
            self.stop(f"{reply.variant}: {reply.error} (asked to wait {wait_s:.0f} s)")
        elif passes and tries <= self._terms.retries:
            return False
        else:
            self._in_a_row += 1
            if self._in_a_row >= _MOST_IN_A_ROW:
                self.stop(f"{self._in_a_row} questions in a row got no answer, the last: {reply.error}")
        return True

    async def _attempt(self, asked: Asked) -> Heard | None:
        """What comes of one request, once it stands in the folder; None: there is no money for it."""
        variant, terms = self._variants[asked[1]], self._terms
        whole = terms.wholes.get(variant.name)
        body = body_of(
            self._questions[asked[0]], variant, whole, usage=variant.model not in self._without_usage
        )  # fmt: skip
        price, cap = terms.price_of(variant.model), answer_cap(variant.settings, terms.size_of(variant.model))
        worst = worst_of(body, variant, budget_tokens=terms.budget_tokens, cap=cap, price=price)
        if not await self._purse.take(worst):
            self.stop("the ceiling does not allow for another request")
            return None
        charge = at_worst(worst)  # unless it comes to an end
        try:
            if self.stopping:  # while it waited for others
                charge = NOTHING
                return None
            at_s = time.time()
            await self._asked.append(self._run.sent_row(asked, at_s, worst))
            heard = await self._gateway.ask(Call(asked, at_s, body, headers_of(variant), _kept(body, whole), price))
            await self._replies.append(heard.reply)
            charge = charge_of(heard.reply, worst, price)
            return heard
        finally:
            await self._purse.settle(worst, charge)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the stop of the run."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


def _kept(body: Mapping[str, Any], whole: Whole | None) -> Mapping[str, Any]:
    """The body as the run keeps it: of a whole collection the name of its file, not its text in every row."""
    if whole is None:
        return body
    return {**body, "messages": [{"role": "system", "content": {"file": whole.file}}, *body["messages"][1:]]}


class Writing:
    """A file of the run, written off the event loop, a row at a time: no reply's clock shall wait for a disk."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._one = asyncio.Lock()

    async def append(self, row: object) -> None:
        async with self._one:
            writing = asyncio.ensure_future(asyncio.to_thread(self._lines.append, row))
            try:
                await asyncio.shield(writing)
            finally:  # to its end also when the run is cancelled: the file is closed behind it
                await asyncio.wait({writing})
