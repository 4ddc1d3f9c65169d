"""Writes jobs, document by document, while searches and other writers continue.

One collection's jobs are written in order of arrival, and collections do not wait for each other. While a job reads a
document, ingests, deletions and puts in its collection continue. A cancelled job stops at once, and nothing of a
started document remains.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

from retrieval.catalog.job_store import Jobs, JobTask
from retrieval.errors import Busy, IndexDown, RetrievalError
from retrieval.records.jobs import DocumentInput, Job, WriteResult

log = logging.getLogger("ragway")
_RETRY_S = 5.0  # between two attempts while store or database is down, or a disk is full
_ABANDONED_S = 60.0  # without progress in another process's job

Put = Callable[[str, DocumentInput, Callable[[], bool]], Awaitable[WriteResult | None]]
Turn = Callable[[Literal["jobs"], str], AbstractAsyncContextManager[None]]


class JobRunner:
    """Writes jobs while any is unfinished."""

    def __init__(self, jobs: Jobs, turn: Turn, put: Put) -> None:
        """turn: keeps other processes' runners off a collection.

        put: writes one document to a collection; None if it is no longer wanted when the write begins.
        """
        self._jobs = jobs
        self._turn = turn
        self._put = put
        self._runs: dict[str, asyncio.Task[None]] = {}  # by collection
        self._writing: dict[str, asyncio.Task[WriteResult | None]] = {}  # documents being written, by job
        self._take_over_task: asyncio.Task[None] | None = None
        self._waiters: dict[str, asyncio.Event] = {}  # waiting callers, by job

    def take_over(self) -> None:
        """Also write other processes' unfinished jobs from now on.

        Two processes with one job take turns per document.
        """
        self._take_over_task = asyncio.create_task(self._take_over_abandoned())

    async def _take_over_abandoned(self) -> None:
        while True:
            await asyncio.sleep(_ABANDONED_S / 2)
            with contextlib.suppress(RetrievalError):  # the database is down: try again next time
                for collection in await asyncio.to_thread(self._jobs.idle, _ABANDONED_S):
                    self.schedule(collection)

    def schedule(self, collection: str) -> None:
        """Start writing a collection's jobs, unless already running."""
        if collection not in self._runs:
            self._runs[collection] = run = asyncio.create_task(self._run(collection))
            run.add_done_callback(lambda run: self._on_run_end(collection, run))

    async def wait_until_finished(self, id: str) -> Job:
        """Wait until a job is over and return it. Raises UnknownJob if it was deleted."""
        while not (job := self._jobs.read(id, None)).over:
            await self._waiters.setdefault(id, asyncio.Event()).wait()
        return job

    def notify_finished(self, *ids: str) -> None:
        """Wake those who wait for finished or deleted jobs; without ids: for any job."""
        for id in ids or list(self._waiters):
            if (waiter := self._waiters.pop(id, None)) is not None:
                waiter.set()

    def cancel(self, id: str) -> None:
        """Stop reading and embedding a cancelled job's document."""
        if (writing := self._writing.get(id)) is not None:
            writing.cancel()
        self.notify_finished(id)

    async def close(self) -> None:
        """Stop; the next process writes unfinished jobs."""
        runs = [*self._runs.values(), *([] if self._take_over_task is None else [self._take_over_task])]
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
            self.notify_finished(id)

    async def _write(self, id: str, collection: str) -> None:
        """Write a job's waiting documents."""
        while True:
            async with self._turn("jobs", collection):
                task = await asyncio.to_thread(self._jobs.take, id)
                if task is None:
                    self._jobs.finish(id)
                    return
                self._writing[id] = writing = asyncio.create_task(self._write_document(id, task, collection))
                try:
                    if (result := await writing) is None:
                        self._jobs.put_back(id)
                    else:
                        self._jobs.done(id, task.place, result)
                except (RetrievalError, asyncio.CancelledError) as error:
                    with contextlib.suppress(RetrievalError):
                        self._jobs.put_back(id)
                    if isinstance(error, asyncio.CancelledError) and not _stopping():
                        return  # only the job was cancelled
                    raise
                finally:
                    del self._writing[id]

    async def _write_document(self, id: str, task: JobTask, collection: str) -> WriteResult | None:
        if task.obstacle:
            return WriteResult(task.given.key, "failed", reason=task.obstacle)
        return await self._put(collection, task.given, lambda: self._jobs.waits(id, task.place))

    async def _pause(self, id: str, error: RetrievalError) -> None:
        with contextlib.suppress(RetrievalError):
            self._jobs.postpone(id, f"ragway retries every {_RETRY_S:g} s: {error}")
        await asyncio.sleep(_RETRY_S)

    def _on_run_end(self, collection: str, run: asyncio.Task[None]) -> None:
        del self._runs[collection]
        error = None if run.cancelled() else run.exception()
        if error is None:
            return
        log.error("a job of the collection %r failed", collection, exc_info=error)
        with contextlib.suppress(RetrievalError):
            if (id := self._jobs.next(collection)) is not None:
                self._jobs.finish(id, "failed", f"the index failed ({type(error).__name__}): see its log")
                self.notify_finished(id)
                self.schedule(collection)


def _stopping() -> bool:
    """Whether the running task itself was cancelled, not only the one it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
