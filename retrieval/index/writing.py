"""`Writing` over an index's vector spaces and catalog."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from retrieval.catalog.file_store import UploadedFiles
from retrieval.catalog.job_store import Jobs
from retrieval.catalog.writers import Writers
from retrieval.errors import Invalid
from retrieval.index import calibrating, spool
from retrieval.index.syncing import Syncing
from retrieval.index.vector_spaces import VectorSpaces
from retrieval.ingest.job_runner import JobRunner
from retrieval.ingest.removal import Removal
from retrieval.ingest.sources.folder import Folder
from retrieval.knowledge import EmbedderChoice, Plan, Progress
from retrieval.records.documents import Document, Groups, is_reserved
from retrieval.records.files import UploadedFile
from retrieval.records.ingest import EnrichmentPlan, IngestReport, PendingDocument
from retrieval.records.jobs import DocumentInput, Job, WriteResult
from retrieval.records.search import Calibration
from retrieval.records.sync import SourceReport, SourceSpec

_T = TypeVar("_T")


class IndexWriting:
    """Implements `Writing`."""

    def __init__(self, plan: Plan, catalog: Catalog, spaces: VectorSpaces, writers: Writers, removal: Removal) -> None:
        self.jobs = Jobs(catalog)
        self.job_runner = JobRunner(self.jobs, writers.turn, self._put_one)
        self._syncing = Syncing(plan, catalog, spaces, writers, removal)
        self.source_states = self._syncing.states
        self._plan = plan
        self._folder = partial(Folder, max_bytes=plan.max_file_bytes, follow_links=plan.ingest.follow_links)
        self._catalog = catalog
        self._spaces = spaces
        self._writers = writers
        self._removal = removal
        self._finishing: set[asyncio.Task[Any]] = set()  # writes to finish, also after the caller left

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        source = self._folder(paths, exclude)
        self._check(collection)
        with self._changing(collection):
            return await self._spaces.of(collection).ingester.ingest(source, collection, progress)

    async def sync(
        self,
        collection: str,
        source: SourceSpec,
        progress: Progress,
        *,
        dry_run: bool = False,
        allow_empty: bool = False,
        due_after_s: float | None = None,
    ) -> SourceReport:
        self._check(collection)
        with self._changing(collection):
            return await self._syncing.sync(
                collection, source, progress, dry_run=dry_run, allow_empty=allow_empty, due_after_s=due_after_s
            )

    async def remove_undeclared(
        self, collection: str, declared: Sequence[SourceSpec], *, dry_run: bool = False
    ) -> list[SourceReport]:
        self._check(collection)
        with self._changing(collection):
            return await self._syncing.remove_undeclared(collection, declared, dry_run=dry_run)

    def _check(self, collection: str) -> None:
        if is_reserved(collection):
            raise Invalid(f"{collection} is the gateway's own collection: choose another name")

    async def pending_documents(
        self, paths: Sequence[Path], collection: str, exclude: Sequence[str] = ()
    ) -> tuple[PendingDocument, ...]:
        source = self._folder(paths, exclude) if paths else None
        return await self._spaces.of(collection).ingester.pending_documents(source, collection)

    async def enrichment_plan(self, pending: PendingDocument, collection: str) -> EnrichmentPlan:
        return await self._spaces.of(collection).ingester.enrichment_plan(self._folder(()), pending, collection)

    async def learn(self, documents: Sequence[Document], collection: str, progress: Progress) -> IngestReport:
        """Make a collection of documents without files. Raises RetrievalError for an existing collection."""
        return await self._spaces.of(collection).ingester.add_documents(documents, collection, progress)

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        before = self._spaces.of(collection)
        self._catalog.collection(collection)  # raises for an unknown name, before a model is loaded
        space = self._spaces.configured if embedder is None else await self._spaces.open(embedder)
        with self._changing(collection):
            return await space.ingester.rebuild(
                collection,
                progress,
                pinned="" if space is self._spaces.configured else space.key,
                replaced=before.store,
                switched=lambda: self._spaces.pin(collection, space),
            )

    async def calibrate(self, progress: Progress, *, reset: bool = False) -> list[Calibration]:
        data = Path(self._plan.data)
        if reset:
            await calibrating.reset(data, self._spaces)
            return []
        return await calibrating.calibrate(data, self._catalog, self._spaces, progress)

    async def create_collection(self, name: str, language: str | None) -> None:
        self._spaces.configured.ingester.create(name, language)

    async def put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        split = asyncio.Event()
        put = self.go_on(self._put(collection, given, split=split))
        try:
            return tuple(await asyncio.shield(put))
        except asyncio.CancelledError:  # the caller left
            if not split.is_set():
                put.cancel()
            raise

    async def _put_one(self, collection: str, given: DocumentInput, wanted: Callable[[], bool]) -> WriteResult | None:
        results = await self._put(collection, [given], wanted=wanted)
        return results[0] if results else None

    async def _put(
        self,
        collection: str,
        given: Sequence[DocumentInput],
        *,
        wanted: Callable[[], bool] = lambda: True,
        split: asyncio.Event | None = None,
    ) -> list[WriteResult]:
        """Read documents, then write them under the lock; [] if they are no longer `wanted`.

        split: as in `DocumentWriter.read`.
        """
        async with self._writers.documents(collection, [document.key for document in given]):
            while True:
                writer = self._spaces.of(collection).document_writer
                read = await writer.read(given, collection, split=split)
                async with self._writers.exclusive(collection):
                    if not wanted():
                        return []
                    if writer is not self._spaces.of(collection).document_writer:  # rebuilt with another embedder
                        continue
                    with self._changing(collection):
                        results = await writer.write(read)
                    if results is not None:
                        return results

    async def start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str] = ()) -> Job:
        return await self._finish(self._start_job(collection, given, spooled))

    async def _start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str]) -> Job:
        id = self.jobs.begin(collection, given[0].writer if given else ())
        try:
            for place, one in enumerate(given):  # in turn: all contents together may exceed memory
                name = spooled[place] if spooled else None
                await asyncio.to_thread(self._add_to_job, id, place, one, name)
        except BaseException:
            self.jobs.discard(id)
            raise
        self.jobs.queue(id)
        self.job_runner.schedule(collection)
        return self.jobs.read(id, None)

    def _add_to_job(self, id: str, place: int, given: DocumentInput, spooled: str | None) -> None:
        self.jobs.add(id, place, given, None if spooled is None else self._spooled(spooled))

    def _spooled(self, name: str) -> bytes:
        return spool.read(Path(self._plan.data), name, max_bytes=self._plan.max_file_bytes)

    async def cancel_job(self, id: str) -> Job:
        self.jobs.finish(id, "cancelled")
        self.job_runner.cancel(id)
        return self.jobs.read(id, None)

    async def detach(self, collection: str, keys: Sequence[str], groups: Groups = ()) -> int:
        documents = DocumentReader(self._catalog)
        async with self._writers.exclusive(collection):  # meanwhile no job writes them
            existing, readable = (documents.ids(collection, keys, reader) for reader in (None, groups))
            hidden = existing.keys() - readable.keys()
            waiting = self.jobs.forget(collection, [key for key in keys if key not in hidden], groups)
        with self._changing():
            await self._removal.documents(collection, list(readable.values()), groups)
        return len(waiting | readable.keys())

    async def add_file(self, owner: str, name: str, purpose: str, spooled: str) -> UploadedFile:
        def add() -> UploadedFile:
            return UploadedFiles(self._catalog).add(owner, name, purpose, self._spooled(spooled))

        return await self._finish(asyncio.to_thread(add))

    async def delete_file(self, id: str, owner: str) -> None:
        UploadedFiles(self._catalog).delete(id, owner)

    async def delete_document(self, id: str, groups: Groups = ()) -> None:
        with self._changing():
            await self._removal.document(id, groups)

    async def delete_collection(self, name: str, groups: Groups = ()) -> None:
        try:
            with self._changing(name):
                await self._removal.collection(name, groups)
                self._spaces.unpin(name)
        finally:
            self.job_runner.notify_finished()

    @contextlib.contextmanager
    def _changing(self, collection: str | None = None) -> Iterator[None]:
        try:
            yield
        finally:
            self._spaces.collections_changed(collection)

    async def _finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The work's result; it goes on even if the caller leaves."""
        return await asyncio.shield(self.go_on(work))

    def go_on(self, work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
        """Run the work as a task; `close` cancels it."""
        task = asyncio.create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return task

    async def close(self) -> None:
        await self.job_runner.close()
        for task in self._finishing:
            task.cancel()
        if self._finishing:
            await asyncio.wait(self._finishing)
        self.source_states.close()
