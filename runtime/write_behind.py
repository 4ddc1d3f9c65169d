"""A queue of unwritten records: requests add them, and a thread writes it twice a second.

If the database cannot be written, a bounded number of records waits for the next attempt; requests notice nothing. A
crash loses the last half second. The process that made a record can read it at once, others after the write.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import orjson

from runtime.errors import RetrievalError
from runtime.record_store import RecordStore

log = logging.getLogger("ragway")
EVERY_S = 0.5  # from the first waiting receipt to the write
# Of records for the next request: a client that runs a tool asks again within milliseconds. A write takes 1.5 ms.
NEXT_REQUEST_EVERY_S = 0.05
_LOOK_AGAIN_S = 0.1  # another worker may be about to write
_AGAIN_S = 10.0  # after a failed write: an attempt takes half a millisecond per receipt
_PRUNE_S = 600.0
_MOST = 1000  # unwritten
_MOST_BYTES = 64 << 20  # unwritten; a larger record waits alone


class OfAChat(Protocol):
    """A record of one chat."""

    @property
    def id(self) -> str: ...
    @property
    def at_s(self) -> float: ...
    @property
    def size_bytes(self) -> int: ...  # of memory; 0: little


Value = TypeVar("Value")


@dataclass(slots=True)
class Record(Generic[Value]):
    """A record of one chat that is just a value."""

    id: str
    at_s: float
    value: Value
    size_bytes: int = 0  # of memory; 0: little


def record_id(**names: Any) -> str:
    """A record's id: a digest of these names, one of which is the key, so that no other key finds it."""
    try:
        text = orjson.dumps(names)
    except orjson.JSONEncodeError:  # half of a surrogate pair
        text = json.dumps(names).encode("ascii")
    return hashlib.sha256(text).hexdigest()


class Count(Protocol):
    """Counts written and lost records."""

    def __call__(self, *, written: int = 0, lost: int = 0) -> None: ...


One = TypeVar("One", bound=OfAChat)


class WriteBehindQueue(Generic[One]):
    """This process's unwritten records."""

    def __init__(
        self,
        store: RecordStore,
        content: Callable[[One], bytes],
        count: Count,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        """content: a record's JSON; called in a thread. every_s: from the first waiting record to the write.

        Records beyond the limits on number and bytes are lost, and counted.
        """
        self._store = store
        self._every_s = every_s
        self._unwritten_bytes = 0
        self._content = content
        self._count = count
        self._waiting: dict[str, One] = {}
        self._writing: dict[str, One] = {}
        self._wake, self._left = asyncio.Event(), asyncio.Event()
        self.trouble = ""  # why records cannot be written now

    def add(self, one: One) -> bool:
        """Add a record to the queue; returns whether there was room."""
        before = self._waiting.get(one.id)
        added_bytes = one.size_bytes - (0 if before is None else before.size_bytes)
        full = self._unwritten_bytes and self._unwritten_bytes + added_bytes > _MOST_BYTES
        if full or len(self._waiting) >= _MOST:
            self._count(lost=1)
            return False
        self._unwritten_bytes += added_bytes
        self._waiting[one.id] = one
        self._wake.set()
        return True

    def unwritten(self, id: str) -> One | None:
        """A record in the queue or being written; None: written, or no record."""
        return self._waiting.get(id) or self._writing.get(id)

    async def find_record(self, id: str, *, again: bool = False) -> One | bytes | None:
        """A record in the queue, or a stored record's JSON; None: no record. Raises RetrievalError.

        again: look a second time if the first finds no record.
        """
        if (known := self.unwritten(id)) is not None:
            return known
        content = await self._read(id)
        if content is None and again:
            await asyncio.sleep(_LOOK_AGAIN_S)
            return await self.find_record(id)
        return content

    def _read(self, id: str) -> Awaitable[bytes | None]:
        """A stored record's JSON, read in a thread."""
        return asyncio.to_thread(self._store.read, id)

    def warm(self) -> None:
        """Import database modules, which takes 200 ms, before the first request."""
        self._store.warm()

    async def run(self) -> None:
        """Write the queue again and again until `stop`; then write the rest."""
        await self._done(self._store.prune)
        while not self._left.is_set():
            await _within(_PRUNE_S, self._wake)
            if self._waiting:
                await _within(_AGAIN_S if self.trouble else self._every_s, self._left)
                await self._write()
            else:
                await self._done(self._store.prune)
        await self._write()
        self._store.close()

    def stop(self) -> None:
        """End `run`."""
        self._left.set()
        self._wake.set()

    async def _write(self) -> None:
        self._wake.clear()
        self._waiting, self._writing = {}, self._waiting
        given = len(self._writing)
        done = not given or await self._done(self._put)
        if lost := given - len(self._writing):
            self._count(lost=lost)
        if done and self._writing:
            self._count(written=len(self._writing))
        elif self._writing:  # again later
            both = [*self._writing.items(), *self._waiting.items()]
            self._count(lost=len(both[_MOST:]))
            self._waiting = dict(both[:_MOST])
            self._wake.set()
        self._writing = {}
        self._unwritten_bytes = sum(one.size_bytes for one in self._waiting.values())

    def _put(self) -> None:
        rows = []
        for one in list(self._writing.values()):
            try:
                rows.append((one.id, one.at_s, self._content(one)))
            except (TypeError, ValueError) as error:  # such as half of a surrogate pair; the other records are written
                del self._writing[one.id]
                log.error("one of the %s is lost, JSON cannot hold the record: %s", self._store.kind, error)
        if rows:
            self._store.put(rows)

    async def _done(self, work: Callable[[], None]) -> bool:
        """Whether the database did the work; each fault is logged once."""
        try:
            await asyncio.to_thread(work)
        except RetrievalError as error:
            if str(error) != self.trouble:
                log.error("%s are not written: %s", self._store.kind, error)
            self.trouble = str(error)
            return False
        self.trouble = ""
        return True


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for an event, at most this many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
