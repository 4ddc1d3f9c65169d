"""Locks on collections, for all processes that share a catalog: three kinds, taken in this order.

`turn`: one sync, one ingest, and one job, per collection at a time; held while documents are read, perhaps for hours.
`documents`: puts of one document follow each other in order of arrival (in one process).
`exclusive`: one writer per collection at a time; held only while finished points are written, so that a put never
waits while another document is read.

Waiting callers get a lock in order of arrival. They wait for another process only a limited time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Literal
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.replicas import Replicas
from retrieval.errors import Busy, RetrievalError
from runtime import locks

_WAIT_S = 30.0  # wait for another process's writer
_INDEX_WAIT_S = 5.0  # a killed process may hold the lock for a moment
_MAX_WAITING = 8  # collections that other processes write to

Work = Literal["sync", "ingest", "jobs"]  # ingest: also a rebuild, and deleting the collection

_turn: ContextVar[Connection | None] = ContextVar("turn", default=None)  # the connection that holds the task's turn


class Writers:
    """Write locks for all processes."""

    def __init__(self, catalog: Catalog, replicas: Replicas) -> None:
        self._catalog = catalog
        self._replicas = replicas
        self._local_locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()
        self._takers = ThreadPoolExecutor(_MAX_WAITING, "locks")
        self._releasers = ThreadPoolExecutor(1, "unlocks")
        self._index_lock: Connection | None = None

    def declare_index(self, *, shared: bool) -> None:
        """Declare where this process keeps its index: on a shared server, or in its own data folder.

        Raises RetrievalError if another process with this catalog keeps it elsewhere.
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
        """Hold a collection's write lock; other processes' earlier writes are known by then.

        Raises Busy, IndexDown.
        """
        async with self._locked("collection", collection, patience_s) as lock:
            if lock is None:
                yield
                return
            await self._replicas.look()
            turn = _turn.get()
            if turn is not None and not turn.closed:  # without the turn, documents read may be out of date
                await asyncio.to_thread(locks.check, turn)
            with locks.holding(lock):
                yield

    @contextlib.asynccontextmanager
    async def turn(self, work: Work, collection: str) -> AsyncIterator[None]:
        """Keep other work of this kind off the collection; writes also need `exclusive`. Raises Busy, IndexDown."""
        async with self._locked(work, collection, _WAIT_S) as lock:
            token = _turn.set(lock)
            try:
                yield
            finally:
                _turn.reset(token)

    @contextlib.asynccontextmanager
    async def documents(self, collection: str, keys: Sequence[str]) -> AsyncIterator[None]:
        """Keep other puts of these documents waiting, in this process."""
        async with contextlib.AsyncExitStack() as held:
            for key in sorted(set(keys)):  # in the same order everywhere, against deadlocks
                await held.enter_async_context(self._local_lock("document", collection, key))
            yield

    def _local_lock(self, *name: str) -> asyncio.Lock:
        return self._local_locks.setdefault(name, asyncio.Lock())

    @contextlib.asynccontextmanager
    async def _locked(self, kind: str, collection: str, patience_s: float) -> AsyncIterator[Connection | None]:
        """Hold a lock, in all processes; yield its connection, or None if this process is alone."""
        async with self._local_lock(kind, collection):
            if not self._catalog.shared:
                yield None
                return
            lock = await self._take(kind, collection, patience_s)
            try:
                yield lock
            finally:
                self._releasers.submit(locks.release, lock)

    async def _take(self, kind: str, collection: str, patience_s: float) -> Connection:
        engine, waits = self._catalog.lockable, list[int]()
        taking = self._takers.submit(
            locks.take, engine, f"{kind} {collection}", patience_s=patience_s, waits=waits.append
        )
        try:
            return await asyncio.wrap_future(taking)
        except Busy as error:
            message = f"another gateway is writing to the collection {collection!r}: try again later"
            raise Busy(message) from error
        except asyncio.CancelledError:  # the thread continues: release the lock that it gets
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
