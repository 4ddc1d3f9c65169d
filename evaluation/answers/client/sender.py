"""Send many requests to a gateway: a fixed number at once, with retries, within the budget, until all end or a stop.

Every attempt is written to the folder: the maximum cost before the request, the result as soon as the reply is there.
So an interrupted run can continue.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from evaluation.answers.client.budget import NO_COST, Budget, Cost, cost_at_max, cost_of
from evaluation.answers.client.gateway_client import AttemptResult, Call, GatewayClient
from evaluation.answers.records import MaxCost, Reply, RequestKey
from proxy.access.prices import Price

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_MOST_IN_A_ROW = 5  # consecutive requests given up: the gateway or the upstream does not work
_PASSES = (0, 200, 408, 409, 425, 429)  # temporary errors; 200: the reply broke off; also every status from 500
_HOPELESS = (401, 402, 403, 404, 405)  # every other request would fail, too
_USED_UP = ("insufficient_quota", "billing_hard_limit_reached")

One = TypeVar("One")
Progress = Callable[[int, int, int], None]  # done, all, 0
OnReply = Callable[[Reply], None]


def ignore_reply(_reply: Reply) -> None:
    """Heeds no reply."""


class Rows(Protocol):
    """A target for rows: `JsonLinesFile` or another object. `append` runs in a thread."""

    def append(self, row: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far the work came."""

    done: int  # of all requests, including final errors
    total: int
    stopped: str  # why the work stopped early; ""


@dataclass(frozen=True, slots=True)
class Sent:
    """The request for one item."""

    asked: RequestKey
    key: Mapping[str, Any]  # identifies the request in the folder
    model: str
    body: Mapping[str, Any]
    kept: Mapping[str, Any]  # the body as written to the folder
    max_cost: MaxCost
    price: Price | None
    headers: Mapping[str, str] = field(default_factory=dict)


class Sender(ABC, Generic[One]):
    """Sends the remaining items. A subclass defines the request, the row in the folder, and which replies are final."""

    def __init__(
        self,
        gateway: GatewayClient,
        budget: Budget,
        *,
        concurrency: int,
        retries: int,
        progress: Progress,
        answered: OnReply = ignore_reply,
    ) -> None:
        """answered: called with each final reply, after the reply is written to the folder."""
        self._gateway = gateway
        self._purse = budget
        self._concurrency = concurrency
        self._retries = retries
        self._progress = progress
        self._answered = answered
        self._without_usage: set[str] = set()  # models whose upstream refuses `stream_options`
        self._in_a_row = 0
        self._stopping = asyncio.Event()
        self._stopped = ""
        self._done = self._total = 0

    @abstractmethod
    def _sent(self, one: One) -> Sent: ...

    @abstractmethod
    def _row(self, one: One, reply: Reply) -> object: ...

    @abstractmethod
    def _ended(self, reply: Reply) -> bool: ...

    @property
    def outcome(self) -> Outcome:
        """How far the work has come."""
        return Outcome(self._done, self._total, self._stopped)

    @property
    def stopping(self) -> bool:
        """Whether the sender starts no more requests."""
        return self._stopping.is_set()

    def stop(self, why: str) -> None:
        """Start no more requests; requests in flight may end."""
        self._stopped = self._stopped or why
        self._stopping.set()

    async def _all(self, left: Sequence[One], *, total: int, used: Cost, before: Rows, after: Rows) -> Outcome:
        """Send the remaining items of `total`. used: the cost of earlier attempts in the folder. Raises OSError."""
        self._purse.spent = used
        self._before, self._after = _Writing(before), _Writing(after)
        self._left = deque(left)
        self._total, self._done = total, total - len(left)
        self._progress(self._done, total, 0)
        workers = [asyncio.create_task(self._work()) for _ in range(min(self._concurrency, len(left)))]
        ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return self.outcome

    async def _work(self) -> None:
        try:
            while self._left and not self.stopping:
                await self._ask(self._left.popleft())
        except BaseException:  # for example a full disk: the other workers still write their replies if possible
            self.stop("it failed")
            raise

    async def _ask(self, one: One) -> None:
        """Send one item until the reply is final, the retries are used up, or the sender stops."""
        tries, pause_s = 0, _FIRST_PAUSE_S
        while not self.stopping:
            sent = self._sent(one)
            heard = await self._attempt(one, sent)
            if heard is None:
                return
            if heard.reply.refuses_usage:
                self._without_usage.add(sent.model)
                continue
            if self._ended(heard.reply):
                self._in_a_row = 0
                self._done += 1
                self._answered(heard.reply)
                self._progress(self._done, self._total, 0)
                return
            tries += 1
            wait_s = pause_s if heard.wait_s is None else heard.wait_s
            if self._give_up(heard, tries, wait_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            await self._pause(wait_s)

    def _give_up(self, heard: AttemptResult, tries: int, wait_s: float) -> bool:
        """Whether a retry is useless; stop the sender if a retry is useless for every item."""
        reply = heard.reply
        passes = reply.status in _PASSES or reply.status >= 500
        if reply.status in _HOPELESS or heard.code in _USED_UP:
            self.stop(f"{reply.variant}: {reply.error}")
        elif passes and wait_s > _LONGEST_PAUSE_S:
            self.stop(f"{reply.variant}: {reply.error} (asked to wait {wait_s:.0f} s)")
        elif passes and tries <= self._retries:
            return False
        else:
            self._in_a_row += 1
            if self._in_a_row >= _MOST_IN_A_ROW:
                self.stop(f"{self._in_a_row} in a row got no answer, the last: {reply.error}")
        return True

    async def _attempt(self, one: One, sent: Sent) -> AttemptResult | None:
        """Send one request and write the result to the folder. None: the request was not sent."""
        if not await self._purse.take(sent.max_cost):
            self.stop(self._purse.refusal(sent.max_cost))
            return None
        cost = cost_at_max(sent.max_cost)  # if the attempt does not end
        try:
            if self.stopping:  # stopped while the request waited for the budget
                cost = NO_COST
                return None
            at_s = time.time()
            await self._before.append({**sent.key, "at_s": at_s, **asdict(sent.max_cost)})
            call = Call(sent.asked, at_s, sent.body, sent.headers, sent.kept, sent.price)
            heard = await self._gateway.ask(call)
            await self._after.append(self._row(one, heard.reply))
            cost = cost_of(heard.reply, sent.max_cost, sent.price)
            return heard
        finally:
            await self._purse.settle(sent.max_cost, cost)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


class _Writing:
    """A file of the folder, written off the event loop, a row at a time: no reply's clock shall wait for a disk."""

    def __init__(self, lines: Rows) -> None:
        self._lines = lines
        self._one = asyncio.Lock()

    async def append(self, row: object) -> None:
        async with self._one:
            writing = asyncio.ensure_future(asyncio.to_thread(self._lines.append, row))
            try:
                await asyncio.shield(writing)
            finally:  # finish the write also after a cancellation: the caller closes the file next
                await asyncio.wait({writing})
