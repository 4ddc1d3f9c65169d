"""Writes jobs, document by document, while searches and other writers go on.

Each collection's jobs are written in the order they came, whatever is written to others meanwhile; with an ingest, a
deletion and a put of the same collection they take turns at every document. A cancelled job stops at once: nothing is
left of the document that was begun.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from retrieval.catalog.jobs import Jobs, JobTask
from retrieval.errors import Busy, IndexDown, RetrievalError
from retrieval.records.jobs import DocumentInput, Job, WriteResult

log = logging.getLogger("ragway")
_AGAIN_S = 5.0  # between two tries while the store or the database is away, or a disk is full
_ADOPTED_S = 60.0  # a job of another process that wrote nothing of it for so long

Put = Callable[[str, DocumentInput], Awaitable[WriteResult]]


class Background:
    """Runs while there is something to write."""

    def __init__(self, jobs: Jobs, alone: Callable[[str], AbstractAsyncContextManager[None]], put: Put) -> None:
        """put: writes one document to a collection, while that is had `alone`."""
        self._jobs = jobs
        self._alone = alone
        self._put = put
        self._runs: dict[str, asyncio.Task[None]] = {}  # by collection
        self._placing: dict[str, asyncio.Task[WriteResult]] = {}  # what is being written now, by job
        self._adopting: asyncio.Task[None] | None = None
        self._over: dict[str, asyncio.Event] = {}  # by job, where somebody waits

    def adopt(self) -> None:
        """From now on write also what other processes left: who writes the same takes turns at every document."""
        self._adopting = asyncio.create_task(self._adopt())

    async def _adopt(self) -> None:
        while True:
            await asyncio.sleep(_ADOPTED_S / 2)
            with contextlib.suppress(RetrievalError):  # the database is away: the next time
                for collection in await asyncio.to_thread(self._jobs.idle, _ADOPTED_S):
                    self.wake(collection)

    def wake(self, collection: str) -> None:
        """See to it that the collection's jobs are written."""
        if collection not in self._runs:
            self._runs[collection] = run = asyncio.create_task(self._run(collection))
            run.add_done_callback(lambda run: self._ended(collection, run))

    async def over(self, id: str) -> Job:
        """The job once it is over. Raises UnknownJob where it is gone by then."""
        while not (job := self._jobs.read(id, None)).over:
            await self._over.setdefault(id, asyncio.Event()).wait()
        return job

    def ended(self, *ids: str) -> None:
        """To be called for jobs that are over, or gone; without any: for all that may be."""
        for id in ids or list(self._over):
            if (over := self._over.pop(id, None)) is not None:
                over.set()

    def cancel(self, id: str) -> None:
        """To be called for a job that was cancelled: nobody reads or embeds its document any more."""
        if (placing := self._placing.get(id)) is not None:
            placing.cancel()
        self.ended(id)

    async def close(self) -> None:
        """Stop; what was not finished is for the next process."""
        runs = [*self._runs.values(), *([] if self._adopting is None else [self._adopting])]
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait(runs)
            with contextlib.suppress(RetrievalError):
                self._jobs.requeue_all()

    async def _run(self, collection: str) -> None:
        while (id := self._jobs.next(collection)) is not None:
            try:
                await self._write(id, collection)
            except (IndexDown, Busy) as error:
                await self._pause(id, error)
            except RetrievalError as error:
                try:
                    self._jobs.finish(id, "failed", str(error))
                except RetrievalError as refusal:  # a full disk
                    await self._pause(id, refusal)
            self.ended(id)

    async def _write(self, id: str, collection: str) -> None:
        """The documents of a job that wait."""
        while True:
            async with self._alone(collection):
                task = await asyncio.to_thread(self._jobs.take, id)
                if task is None:
                    self._jobs.finish(id)
                    return
                self._placing[id] = placing = asyncio.create_task(self._placed(task, collection))
                try:
                    self._jobs.done(id, task.place, await placing)
                except (RetrievalError, asyncio.CancelledError) as error:
                    with contextlib.suppress(RetrievalError):
                        self._jobs.put_back(id)
                    if isinstance(error, asyncio.CancelledError) and not _stopping():
                        return  # the job alone was cancelled
                    raise
                finally:
                    del self._placing[id]

    async def _placed(self, task: JobTask, collection: str) -> WriteResult:
        if task.obstacle:
            return WriteResult(task.given.key, "failed", reason=task.obstacle)
        return await self._put(collection, task.given)

    async def _pause(self, id: str, error: RetrievalError) -> None:
        with contextlib.suppress(RetrievalError):
            self._jobs.postpone(id, f"tried again every {_AGAIN_S:g} s: {error}")
        await asyncio.sleep(_AGAIN_S)

    def _ended(self, collection: str, run: asyncio.Task[None]) -> None:
        del self._runs[collection]
        fault = None if run.cancelled() else run.exception()
        if fault is None:
            return
        log.error("a job of the collection %r failed", collection, exc_info=fault)
        with contextlib.suppress(RetrievalError):
            if (id := self._jobs.next(collection)) is not None:
                self._jobs.finish(id, "failed", f"the index failed ({type(fault).__name__}): its log has more")
                self.ended(id)
                self.wake(collection)


def _stopping() -> bool:
    """Whether the running task itself was cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
