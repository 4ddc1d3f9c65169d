"""Receipts that are not written yet: a request leaves its own here, and a thread writes them twice a second.

Where nothing can be written they wait, as many as there is room for, and are tried again; a request notices nothing.
What a crash loses is the last half second. A receipt can be read at once in the process that made it, and by the
others once it is written.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Protocol

import orjson

from proxy.receipts.receipt import Receipt, Versions, kept
from proxy.receipts.shelf import Shelf
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
EVERY_S = 0.5  # from the first receipt that waits until all that do are written
_AGAIN_S = 10.0  # the same where they could not be: each time takes half a millisecond a receipt
_PRUNE_S = 600.0
_MOST = 1000  # not written yet; beyond it the new ones are lost, and counted


class Counts(Protocol):
    """What is told how many receipts there are."""

    def receipts(self, *, written: int = 0, lost: int = 0) -> None: ...


class Receipts:
    """The unwritten receipts of this process, and the way to all others."""

    def __init__(self, shelf: Shelf, versions: Versions, metrics: "Counts") -> None:
        self._shelf = shelf
        self._versions = versions
        self._metrics = metrics
        self._waiting: dict[str, Receipt] = {}
        self._writing: dict[str, Receipt] = {}
        self._wake, self._left = asyncio.Event(), asyncio.Event()
        self._trouble = ""

    def add(self, receipt: Receipt) -> None:
        """Keep this one."""
        if len(self._waiting) >= _MOST:
            self._metrics.receipts(lost=1)
            return
        self._waiting[receipt.id] = receipt
        self._wake.set()

    async def find(self, id: str) -> dict[str, Any] | None:
        """A receipt, as `kept` made it. Raises RetrievalError."""
        receipt = self._waiting.get(id) or self._writing.get(id)
        content = kept(receipt, self._versions) if receipt else await asyncio.to_thread(self._shelf.read, id)
        found: dict[str, Any] | None = None if content is None else orjson.loads(content)
        return found

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
            self._metrics.receipts(written=len(self._writing))
        elif self._writing:  # again later
            both = [*self._writing.items(), *self._waiting.items()]
            self._metrics.receipts(lost=len(both[_MOST:]))
            self._waiting = dict(both[:_MOST])
            self._wake.set()
        self._writing = {}

    def _put(self) -> None:
        rows = ((one.id, one.at_s, kept(one, self._versions)) for one in self._writing.values())
        self._shelf.put(rows)

    async def _done(self, work: Callable[[], None]) -> bool:
        """Whether the database did it; what it refuses is said once."""
        try:
            await asyncio.to_thread(work)
        except RetrievalError as error:
            if str(error) != self._trouble:
                log.error("receipts are not written: %s", error)
            self._trouble = str(error)
            return False
        self._trouble = ""
        return True


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Return once the event is set, or so much later."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
