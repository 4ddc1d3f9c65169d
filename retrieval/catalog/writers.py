"""Who may write to a collection: one at a time, of all processes over a catalog.

Others wait, in the order in which they came; those of another process not for ever, since an ingest may take hours.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from retrieval.catalog.catalog import Catalog
from retrieval.errors import Busy, RetrievalError
from retrieval.index.replicas import Replicas
from runtime import locks

_PATIENCE_S = 30.0  # with a writer of another process
_HOME_PATIENCE_S = 5.0  # a process that was killed may hold it for a moment
_MOST_WAITING = 8  # collections that other processes write to


class Writers:
    """The writers of this process, among those of others."""

    def __init__(self, catalog: Catalog, replicas: Replicas) -> None:
        self._catalog = catalog
        self._replicas = replicas
        self._here: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by collection
        self._waiting = ThreadPoolExecutor(_MOST_WAITING, "locks")
        self._releasing = ThreadPoolExecutor(1, "unlocks")
        self._home: Connection | None = None

    def settle(self, *, shared: bool) -> None:
        """Say where this process's index is: on a server that others share, or in its own data folder.

        Raises RetrievalError where that of another process over this catalog is elsewhere.
        """
        if not self._catalog.shared:
            return
        try:
            self._home = locks.take(self._catalog.lockable, "index", patience_s=_HOME_PATIENCE_S, shared=shared)
        except Busy as error:
            raise RetrievalError(
                "another gateway uses the database of catalog.url, and one of the two has its index in its data "
                "folder: give both the same qdrant.url, or each a database"
            ) from error

    @contextlib.asynccontextmanager
    async def alone(self, collection: str, *, patience_s: float = _PATIENCE_S) -> AsyncIterator[None]:
        """Nobody else writes to this collection meanwhile.

        What others wrote before is known then. Raises Busy, IndexDown.
        """
        here = self._here.setdefault(collection, asyncio.Lock())
        async with here, self._locked(collection, patience_s):
            yield

    @contextlib.asynccontextmanager
    async def _locked(self, collection: str, patience_s: float) -> AsyncIterator[None]:
        if not self._catalog.shared:
            yield
            return
        held = await self._take(collection, patience_s)
        try:
            await self._replicas.look()
            with locks.holding(held):
                yield
        finally:
            self._releasing.submit(locks.release, held)

    async def _take(self, collection: str, patience_s: float) -> Connection:
        engine, waits = self._catalog.lockable, list[int]()
        taking = self._waiting.submit(
            locks.take, engine, f"collection {collection}", patience_s=patience_s, waits=waits.append
        )
        try:
            return await asyncio.wrap_future(taking)
        except Busy as error:
            message = f"the collection {collection!r} is being written by another gateway: try again later"
            raise Busy(message) from error
        except asyncio.CancelledError:  # the thread goes on: what it gets is nobody's
            taking.add_done_callback(_unwanted)
            for pid in waits:
                self._releasing.submit(locks.interrupt, engine, pid)
            raise

    def close(self) -> None:
        """Let go of what is held. Nobody writes any more."""
        self._releasing.shutdown()
        self._waiting.shutdown(wait=False, cancel_futures=True)
        if self._home is not None:
            locks.release(self._home)


def _unwanted(taking: "Future[Connection]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        locks.drop(taking.result())
