"""Requests to a gateway: so many at once, what may pass tried again, within a ceiling, until all ended or it stops.

Every attempt stands in a folder before the next step: the most that it may cost before it is sent, what came of it as
soon as it is there. So whatever stops the work, the next goes on where it was.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from evaluation.answers.client.budget import NOTHING, Charge, Purse, at_worst, charge_of
from evaluation.answers.client.gateway_client import Call, Gateway, Heard
from evaluation.answers.records import Asked, Reply, Worst
from proxy.access.prices import Price

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_MOST_IN_A_ROW = 5  # given up one after the other: nothing works
_PASSES = (0, 200, 408, 409, 425, 429)  # 200: it broke off; and all from 500
_HOPELESS = (401, 402, 403, 404, 405)  # no other request would fare better until somebody mends something
_USED_UP = ("insufficient_quota", "billing_hard_limit_reached")

One = TypeVar("One")
Progress = Callable[[int, int, int], None]  # done, all, 0
Heed = Callable[[Reply], None]


def pass_over(_reply: Reply) -> None:
    """Heeds no reply."""


class Rows(Protocol):
    """What rows are appended to, off the event loop: `runs.Lines`, or another place."""

    def append(self, row: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far it came."""

    done: int  # of all that is to be asked; errors that stand included
    total: int
    stopped: str  # why it stopped before its end; ""


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent for one thing that is asked."""

    asked: Asked
    key: Mapping[str, Any]  # names it in the folder
    model: str
    body: Mapping[str, Any]
    kept: Mapping[str, Any]  # the body as the folder keeps it
    worst: Worst
    price: Price | None
    headers: Mapping[str, str] = field(default_factory=dict)


class Sender(ABC, Generic[One]):
    """Sends what is left. A subclass says what is sent for one, what the folder has of its end, and what an end is."""

    def __init__(
        self,
        gateway: Gateway,
        purse: Purse,
        *,
        concurrency: int,
        retries: int,
        progress: Progress,
        answered: Heed = pass_over,
    ) -> None:
        """answered: called with each end, once it stands in the folder."""
        self._gateway = gateway
        self._purse = purse
        self._concurrency = concurrency
        self._retries = retries
        self._progress = progress
        self._answered = answered
        self._without_usage: set[str] = set()  # models whose upstream refuses to be asked for it
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

    async def _all(self, left: Sequence[One], *, total: int, used: Charge, before: Rows, after: Rows) -> Outcome:
        """Send what is left of `total`. used: what the folder's earlier attempts cost. Raises OSError."""
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
        except BaseException:  # a full disk: the others write what they have in flight, if they can
            self.stop("it failed")
            raise

    async def _ask(self, one: One) -> None:
        """One of them until it ended, is given up, or all stops."""
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

    def _give_up(self, heard: Heard, tries: int, wait_s: float) -> bool:
        """Whether it is of no use to try again now; stops all where that holds for the others, too."""
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

    async def _attempt(self, one: One, sent: Sent) -> Heard | None:
        """What comes of one request, once it stands in the folder; None: nothing was sent."""
        if not await self._purse.take(sent.worst):
            self.stop(self._purse.refusal(sent.worst))
            return None
        charge = at_worst(sent.worst)  # unless it comes to an end
        try:
            if self.stopping:  # while it waited for others
                charge = NOTHING
                return None
            at_s = time.time()
            await self._before.append({**sent.key, "at_s": at_s, **asdict(sent.worst)})
            call = Call(sent.asked, at_s, sent.body, sent.headers, sent.kept, sent.price)
            heard = await self._gateway.ask(call)
            await self._after.append(self._row(one, heard.reply))
            charge = charge_of(heard.reply, sent.worst, sent.price)
            return heard
        finally:
            await self._purse.settle(sent.worst, charge)

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
            finally:  # to its end also when the work is cancelled: the file is closed behind it
                await asyncio.wait({writing})
