"""Sends many requests to a gateway: a fixed number at once, with retries, within a budget, until all end or it stops.

Every attempt is written to the folder: its maximum cost before the request, its result as soon as a reply is there. So
an interrupted run can continue.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

from evaluation.answers.client.budget import NO_COST, Budget, Cost, cost_at_max, cost_of
from evaluation.answers.client.gateway_client import AttemptResult, BenchRequest, GatewayClient
from evaluation.answers.records import Reply

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_MAX_CONSECUTIVE_FAILURES = 5  # given up in a row: gateway or upstream does not work
_TEMPORARY = (0, 200, 408, 409, 425, 429)  # 200: the reply broke off; any status from 500 counts, too
_PERMANENT = (401, 402, 403, 404, 405)  # all others would fail, too
_QUOTA_CODES = ("insufficient_quota", "billing_hard_limit_reached")

T = TypeVar("T")
Progress = Callable[[int, int, int], None]  # done, all, 0
OnReply = Callable[[Reply], None]


class Rows(Protocol):
    """Takes rows: a `JsonLinesFile` or another object. `append` runs in a thread."""

    def append(self, row: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far the work came."""

    done: int  # including final errors
    total: int
    stopped: str  # why work stopped early; ""


class Sender(ABC, Generic[T]):
    """Sends the remaining items. A subclass defines the request, its row in the folder, and which replies are final."""

    def __init__(
        self,
        gateway: GatewayClient,
        budget: Budget,
        *,
        concurrency: int,
        retries: int,
        progress: Progress,
        answered: OnReply | None = None,
    ) -> None:
        """answered: called with each final reply, once it is in the folder."""
        self._gateway = gateway
        self._budget = budget
        self._concurrency = concurrency
        self._retries = retries
        self._progress = progress
        self._answered = answered
        self._without_usage: set[str] = set()  # models whose upstream refuses `stream_options`
        self._consecutive_failures = 0
        self._stopping = asyncio.Event()
        self._stopped = ""
        self._done = self._total = 0

    @abstractmethod
    def _request(self, item: T) -> BenchRequest: ...

    @abstractmethod
    def _row(self, item: T, reply: Reply) -> object: ...

    @abstractmethod
    def _is_final(self, reply: Reply) -> bool: ...

    @property
    def outcome(self) -> Outcome:
        """How far the work has come."""
        return Outcome(self._done, self._total, self._stopped)

    @property
    def stopping(self) -> bool:
        """Whether no more requests are started."""
        return self._stopping.is_set()

    def stop(self, why: str) -> None:
        """Start no more requests; requests in flight may end."""
        self._stopped = self._stopped or why
        self._stopping.set()

    async def send_all(self, remaining: Sequence[T], *, total: int, used: Cost, before: Rows, after: Rows) -> Outcome:
        """Send what remains of `total` items. used: what earlier attempts in the folder cost. Raises OSError."""
        self._budget.spent = used
        self._before, self._after = _RowWriter(before), _RowWriter(after)
        self._remaining = deque(remaining)
        self._total, self._done = total, total - len(remaining)
        self._progress(self._done, total, 0)
        workers = [asyncio.create_task(self._work()) for _ in range(min(self._concurrency, len(remaining)))]
        ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return self.outcome

    async def _work(self) -> None:
        try:
            while self._remaining and not self.stopping:
                await self._send_item(self._remaining.popleft())
        except BaseException:  # a full disk, for example: others still write their replies if they can
            self.stop("it failed")
            raise

    async def _send_item(self, item: T) -> None:
        """Send one item until its reply is final, its retries are used up, or the sender stops."""
        tries, pause_s = 0, _FIRST_PAUSE_S
        while not self.stopping:
            request = self._request(item)
            result = await self._attempt(item, request)
            if result is None:
                return
            if result.reply.refuses_usage:
                self._without_usage.add(request.model)
                continue
            if self._is_final(result.reply):
                self._consecutive_failures = 0
                self._done += 1
                if self._answered is not None:
                    self._answered(result.reply)
                self._progress(self._done, self._total, 0)
                return
            tries += 1
            wait_s = pause_s if result.wait_s is None else result.wait_s
            if self._stops_retrying(result, tries, wait_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            await self._pause(wait_s)

    def _stops_retrying(self, result: AttemptResult, tries: int, wait_s: float) -> bool:
        """Whether a retry is useless; stop the sender if it is useless for every item."""
        reply = result.reply
        temporary = reply.status in _TEMPORARY or reply.status >= 500
        if reply.status in _PERMANENT or result.code in _QUOTA_CODES:
            self.stop(f"{reply.variant}: {reply.error}")
        elif temporary and wait_s > _LONGEST_PAUSE_S:
            self.stop(f"{reply.variant}: {reply.error} (asked to wait {wait_s:.0f} s)")
        elif temporary and tries <= self._retries:
            return False
        else:
            self._consecutive_failures += 1
            if self._consecutive_failures >= _MAX_CONSECUTIVE_FAILURES:
                self.stop(f"{self._consecutive_failures} in a row got no answer, the last: {reply.error}")
        return True

    async def _attempt(self, item: T, request: BenchRequest) -> AttemptResult | None:
        """Send one request and write its result to the folder. None: it was not sent."""
        if not await self._budget.reserve(request.max_cost):
            self.stop(self._budget.refusal(request.max_cost))
            return None
        cost = cost_at_max(request.max_cost)  # in case the attempt does not end
        try:
            if self.stopping:  # stopped while waiting for the budget
                cost = NO_COST
                return None
            at_s = time.time()
            await self._before.append({**request.row, "at_s": at_s, **asdict(request.max_cost)})
            result = await self._gateway.ask(request, at_s)
            await self._after.append(self._row(item, result.reply))
            cost = cost_of(result.reply, request.max_cost, request.price)
            return result
        finally:
            await self._budget.charge(request.max_cost, cost)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


class _RowWriter:
    """Writes rows to a file in a thread, so that no reply's clock waits for the disk."""

    def __init__(self, lines: Rows) -> None:
        self._lines = lines
        self._lock = asyncio.Lock()

    async def append(self, row: object) -> None:
        async with self._lock:
            writing = asyncio.ensure_future(asyncio.to_thread(self._lines.append, row))
            try:
                await asyncio.shield(writing)
            finally:  # finish writing even when cancelled: the caller closes the file next
                await asyncio.wait({writing})
