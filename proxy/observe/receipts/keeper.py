"""Receipts that are not written yet: a request leaves its own here, and a thread writes them twice a second.

Where nothing can be written they wait, as many as there is room for, and are tried again; a request notices nothing.
What a crash loses is the last half second. A receipt can be read at once in the process that made it, and by the
others once it is written. `Keeper` does the same for whatever is kept of chats.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import orjson

from proxy.observe.receipts.receipt import Receipt, Versions, kept
from proxy.observe.receipts.shelf import Shelf
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
EVERY_S = 0.5  # from the first receipt that waits until all that do are written
_AGAIN_S = 10.0  # the same where they could not be: each time takes half a millisecond a receipt
_PRUNE_S = 600.0
_MOST = 1000  # not written yet; beyond it the new ones are lost, and counted


class OfAChat(Protocol):
    """What is kept of one."""

    @property
    def id(self) -> str: ...
    @property
    def at_s(self) -> float: ...


class Count(Protocol):
    """Is told how many there are."""

    def __call__(self, *, written: int = 0, lost: int = 0) -> None: ...


class Counts(Protocol):
    """What is told how many receipts there are."""

    def receipts(self, *, written: int = 0, lost: int = 0) -> None: ...


One = TypeVar("One", bound=OfAChat)


class Keeper(Generic[One]):
    """What this process has not written yet."""

    def __init__(self, shelf: Shelf, content: Callable[[One], bytes], count: Count) -> None:
        """content: what is kept of one, as JSON; it is called off the event loop."""
        self._shelf = shelf
        self._content = content
        self._count = count
        self._waiting: dict[str, One] = {}
        self._writing: dict[str, One] = {}
        self._wake, self._left = asyncio.Event(), asyncio.Event()
        self._trouble = ""

    def add(self, one: One) -> None:
        """Keep this one."""
        if len(self._waiting) >= _MOST:
            self._count(lost=1)
            return
        self._waiting[one.id] = one
        self._wake.set()

    def warm(self) -> None:
        """Import what writing takes: 200 ms that no request should wait for."""
        self._shelf.warm()

    async def keep(self) -> None:
        """Write what there is, again and again, until `leave`; then all that is left."""
        await self._done(self._shelf.prune)
        while not self._left.is_set():
            await _within(_PRUNE_S, self._wake)
            if self._waiting:
                await _within(_AGAIN_S if self._trouble else EVERY_S, self._left)
                await self._write()
            else:
                await self._done(self._shelf.prune)
        await self._write()
        self._shelf.close()

    def leave(self) -> None:
        """Let `keep` end."""
        self._left.set()
        self._wake.set()

    async def _write(self) -> None:
        self._wake.clear()
        self._waiting, self._writing = {}, self._waiting
        if self._writing and await self._done(self._put):
            self._count(written=len(self._writing))
        elif self._writing:  # again later
            both = [*self._writing.items(), *self._waiting.items()]
            self._count(lost=len(both[_MOST:]))
            self._waiting = dict(both[:_MOST])
            self._wake.set()
        self._writing = {}

    def _put(self) -> None:
        self._shelf.put((one.id, one.at_s, self._content(one)) for one in self._writing.values())

    async def _done(self, work: Callable[[], None]) -> bool:
        """Whether the database did it; what it refuses is said once."""
        try:
            await asyncio.to_thread(work)
        except RetrievalError as error:
            if str(error) != self._trouble:
                log.error("%s are not written: %s", self._shelf.what, error)
            self._trouble = str(error)
            return False
        self._trouble = ""
        return True


class Receipts(Keeper[Receipt]):
    """The unwritten receipts of this process, and the way to all others."""

    def __init__(self, shelf: Shelf, versions: Versions, metrics: "Counts") -> None:
        super().__init__(shelf, lambda one: kept(one, versions), metrics.receipts)

    async def find(self, id: str) -> dict[str, Any] | None:
        """A receipt, as `kept` made it. Raises RetrievalError."""
        receipt = self._waiting.get(id) or self._writing.get(id)
        content = self._content(receipt) if receipt else await asyncio.to_thread(self._shelf.read, id)
        found: dict[str, Any] | None = None if content is None else orjson.loads(content)
        return found


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Return once the event is set, or so much later."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
