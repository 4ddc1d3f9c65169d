"""Write locks of collections: of all processes that share a catalog, one writer per collection at a time.

Other writers wait in order of arrival. A writer waits for another process only a limited time, because an ingest may
take hours.
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

_WAIT_S = 30.0  # wait for a writer of another process
_INDEX_WAIT_S = 5.0  # a killed process may hold the lock for a moment
_MAX_WAITING = 8  # collections that other processes write to


class Writers:
    """The write locks of this process and of the other processes."""

    def __init__(self, catalog: Catalog, replicas: Replicas) -> None:
        self._catalog = catalog
        self._replicas = replicas
        self._local_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by collection
        self._takers = ThreadPoolExecutor(_MAX_WAITING, "locks")
        self._releasers = ThreadPoolExecutor(1, "unlocks")
        self._index_lock: Connection | None = None

    def declare_index(self, *, shared: bool) -> None:
        """Declare where this process keeps the index: on a shared server, or in the process's own data folder.

        Raises RetrievalError if another process with this catalog keeps the index elsewhere.
        """
        if not self._catalog.shared:
            return
        try:
            self._index_lock = locks.take(self._catalog.lockable, "index", patience_s=_INDEX_WAIT_S, shared=shared)
        except Busy as error:
            raise RetrievalError(
                "another gateway uses the database of catalog.url, and one of the two keeps the index in a data "
                "folder: set the same qdrant.url for both gateways, or a database for each gateway"
            ) from error

    @contextlib.asynccontextmanager
    async def exclusive(self, collection: str, *, patience_s: float = _WAIT_S) -> AsyncIterator[None]:
        """Hold the collection's write lock; the earlier writes of other processes are known then.

        Raises Busy, IndexDown.
        """
        local_lock = self._local_locks.setdefault(collection, asyncio.Lock())
        async with local_lock, self._locked(collection, patience_s):
            yield

    @contextlib.asynccontextmanager
    async def _locked(self, collection: str, patience_s: float) -> AsyncIterator[None]:
        if not self._catalog.shared:
            yield
            return
        lock = await self._take(collection, patience_s)
        try:
            await self._replicas.look()
            with locks.holding(lock):
                yield
        finally:
            self._releasers.submit(locks.release, lock)

    async def _take(self, collection: str, patience_s: float) -> Connection:
        engine, waits = self._catalog.lockable, list[int]()
        taking = self._takers.submit(
            locks.take, engine, f"collection {collection}", patience_s=patience_s, waits=waits.append
        )
        try:
            return await asyncio.wrap_future(taking)
        except Busy as error:
            message = f"another gateway is writing to the collection {collection!r}: try again later"
            raise Busy(message) from error
        except asyncio.CancelledError:  # the thread continues: release the lock that the thread gets
            taking.add_done_callback(_drop_lock)
            for pid in waits:
                self._releasers.submit(locks.interrupt, engine, pid)
            raise

    def close(self) -> None:
        """Release all locks, after the last write."""
        self._releasers.shutdown()
        self._takers.shutdown(wait=False, cancel_futures=True)
        if self._index_lock is not None:
            locks.release(self._index_lock)


def _drop_lock(taking: "Future[Connection]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        locks.drop(taking.result())
