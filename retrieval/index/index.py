"""Index: everything that holds the data folder, in one object, with the interface `Knowledge`.

The index process serves one (`service`); a command that finds no index process opens its own.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from retrieval.catalog.builds import Builds
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.changes import Change
from retrieval.catalog.documents import DocumentReader
from retrieval.catalog.files import UploadedFiles
from retrieval.catalog.jobs import Jobs
from retrieval.catalog.writers import Writers
from retrieval.embedding.embed import check_same_model, label, probe
from retrieval.errors import RetrievalError, UnknownDocument
from retrieval.index import spool
from retrieval.index.audit import Points, audited, cleared
from retrieval.index.data_folder import hold, remove_unused_shards, shard_name, with_okapi
from retrieval.index.pairing import Pairing
from retrieval.index.replicas import Replicas
from retrieval.index.vector_spaces import Lane, Opener, as_text, choice_of, found_in, from_text
from retrieval.ingest.job_runner import JobRunner
from retrieval.knowledge import EmbedderChoice, Lookup, Plan, Progress, SearchOptions
from retrieval.records.documents import (
    CollectionInfo,
    Document,
    DocumentInfo,
    DocumentLocation,
    FullDocument,
    Groups,
    Passage,
)
from retrieval.records.files import UploadedFile
from retrieval.records.ingest import EnrichmentPlan, IngestReport, PendingDocument
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult
from retrieval.records.search import PUBLIC, Retrieved, Turn, View
from retrieval.search.pipeline import Retriever
from retrieval.search.rerank import open_reranker

log = logging.getLogger("ragway")
_T = TypeVar("_T")
_CHECKED = "check"  # a text to embed, and a tenant that no collection has (theirs have an @)


class Index:
    """The index in this process."""

    def __init__(
        self,
        lock: IO[str],
        plan: Plan,
        catalog: Catalog,
        replicas: Replicas,
        writers: Writers,
        opener: Opener,
        configured: Lane,
    ) -> None:
        self._lock = lock
        self._plan = plan
        self._catalog = catalog
        self._pairing: Pairing | None = None  # where the catalog is a file beside the index
        self._replicas, self._writers = replicas, writers
        self._opener = opener
        self._configured = configured
        self._lanes = {configured.key: configured}
        self._opening = asyncio.Lock()
        self._pinned: dict[str, Lane] = {}  # collection -> its lane, where that is not the configured one
        self._finishing: set[asyncio.Task[Any]] = set()  # what is written, also where nobody waits for it any more
        self._jobs = Jobs(catalog)
        self._job_runner = JobRunner(self._jobs, opener.shared.exclusive, self._put_one)

    @staticmethod
    async def open(plan: Plan, *, serving: bool, scratch: Path | None = None, holder: str | None = None) -> "Index":
        """Take the data folder and load everything. serving: files are read and embedded in a child process.

        holder: the process that others are told has the folder (default: this one).
        scratch: what is made need not outlive this process, and vectors are kept in that folder for the next one.
        Raises DataInUse if another process holds the folder, RetrievalError if something in it cannot be used.
        """
        data = Path(plan.data)
        lock = hold(data, holder)
        with contextlib.ExitStack() as undone:
            undone.callback(lock.close)
            url = plan.catalog_url if scratch is None else ""  # what does not last never leaves the data folder
            pairing = None if url or scratch is not None else Pairing(data)
            catalog = Catalog.connect(url) if url else Catalog.open(data / "catalog.sqlite", durable=scratch is None)
            undone.callback(catalog.close)
            if pairing is not None:
                pairing.settle(catalog)
            replicas = Replicas(catalog)
            writers = Writers(catalog, replicas)
            undone.callback(writers.close)
            writers.declare_index(shared=bool(plan.qdrant_url))
            reranker = await open_reranker(plan.search.rerank_model)
            opener = Opener(plan, catalog, writers, reranker, serving=serving, scratch=scratch)
            configured = await opener.open(choice_of(plan))
            index = Index(lock, plan, catalog, replicas, writers, opener, configured)
            index._pairing = pairing
            await index._open_pinned()
            index._remove_unused(data / "index")
            undone.pop_all()
        await opener.removal.recover_all()
        spool.sweep(data)
        alone = not (catalog.shared and plan.qdrant_url)
        for collection in index._jobs.recover(only_process=alone) if serving else ():
            index._job_runner.schedule(collection)
        if serving and not alone:
            index._job_runner.take_over()
        replicas.watch(index._heed)
        return index

    async def _open_pinned(self) -> None:
        """Have the lanes of collections that do not take the configured embedder."""
        for collection, choice in Builds(self._catalog).embedders().items():
            try:
                await self._lane(from_text(choice))
            except RetrievalError as error:  # the others can be searched all the same
                log.error("collection %r cannot be searched: %s", collection, error)
        needed = {
            collection: as_text(from_text(choice)) for collection, choice in Builds(self._catalog).embedders().items()
        }
        self._pinned = {collection: self._lanes[key] for collection, key in needed.items() if key in self._lanes}

    async def _lane(self, choice: EmbedderChoice) -> Lane:
        key = as_text(choice)
        async with self._opening:
            if key not in self._lanes:
                self._lanes[key] = await self._opener.open(choice)
        return self._lanes[key]

    def _heed(self, changes: Sequence[Change]) -> None:
        """Another process changed something; the catalog knows."""
        self._collections_changed()
        if any(change.what != "document" for change in changes):
            self._go_on(self._open_pinned())

    def _remove_unused(self, folder: Path) -> None:
        """Delete the stores that no collection needs; an unfinished build may need any."""
        if Builds(self._catalog).unfinished():
            return
        used = {shard_name(row.embedder, row.probes.shape[1]) for row in self._catalog.collections()}
        embedder = self._configured.embedder
        remove_unused_shards(folder, {shard_name(label(embedder), embedder.dimension), *used})

    def _lane_of(self, collection: str) -> Lane:
        return self._pinned.get(collection, self._configured)

    async def retrieve(
        self,
        turns: Sequence[Turn],
        collections: Sequence[str],
        *,
        k: int | None,
        budget_tokens: int | None = None,
        view: View = PUBLIC,
        lookup: Lookup | None = None,
        traced: bool = False,
    ) -> Retrieved:
        k = k or self._plan.search.k
        budget_tokens = self._plan.search.budget_tokens if budget_tokens is None else budget_tokens
        while True:
            generations = self._generations(collections)
            try:
                found = await found_in(
                    self._lanes_of(collections),
                    turns,
                    k=k,
                    budget_tokens=budget_tokens,
                    view=view,
                    lookup=lookup,
                    traced=traced,
                )
            except RetrievalError:
                if self._generations(collections) == generations:
                    raise
            else:  # a generation that was replaced meanwhile may have been emptied under the search: once more, then
                if self._generations(collections) == generations:
                    return found

    def _generations(self, collections: Sequence[str]) -> list[int]:
        return [self._catalog.collection(name).generation for name in collections]

    def _lanes_of(self, collections: Sequence[str]) -> list[tuple[Lane, list[str]]]:
        """Each lane with those of the collections that are in it."""
        lanes: dict[str, tuple[Lane, list[str]]] = {}
        for name in collections:
            lane = self._lane_of(name)
            lanes.setdefault(lane.key, (lane, []))[1].append(name)
        return list(lanes.values()) or [(self._configured, [])]

    async def points(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        there = {row.name for row in self._catalog.collections()}
        lanes = self._lanes_of([name for name in collections if name in there])
        found = await asyncio.gather(*(lane.retriever.read(ids) for lane, _ in lanes))
        return {id: passage for passages in found for id, passage in passages.items()}

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        try:
            return await self._lane_of(collection).ingester.ingest(paths, collection, progress, exclude)
        finally:
            self._collections_changed(collection)

    async def changes(
        self, paths: Sequence[Path], collection: str, exclude: Sequence[str] = ()
    ) -> tuple[PendingDocument, ...]:
        return await self._lane_of(collection).ingester.pending_documents(paths, collection, exclude)

    async def outline(self, changed: PendingDocument, collection: str) -> EnrichmentPlan:
        return await self._lane_of(collection).ingester.enrichment_plan(changed, collection)

    async def learn(self, documents: Sequence[Document], collection: str, progress: Progress) -> IngestReport:
        """Make a collection of documents that are no files. Raises RetrievalError if there is one of that name."""
        return await self._lane_of(collection).ingester.add_documents(documents, collection, progress)

    async def create_collection(self, name: str, language: str | None) -> None:
        self._configured.ingester.create(name, language)

    async def put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        return await self._finish(self._put(collection, given))

    async def _put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        async with self._opener.shared.exclusive(collection):
            return tuple(await self._write(collection, given))

    async def _put_one(self, collection: str, given: DocumentInput) -> WriteResult:
        (placed,) = await self._write(collection, [given])
        return placed

    async def _write(self, collection: str, given: Sequence[DocumentInput]) -> list[WriteResult]:
        try:
            placed, _ = await self._lane_of(collection).document_writer.put(given, collection)
        finally:
            self._collections_changed(collection)
        return placed

    async def start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str] = ()) -> Job:
        return await self._finish(self._start_job(collection, given, spooled))

    async def _start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str]) -> Job:
        id = self._jobs.begin(collection, given[0].writer if given else ())
        try:
            for place, one in enumerate(given):  # one at a time: together they may be larger than the memory
                name = spooled[place] if spooled else None
                await asyncio.to_thread(self._keep, id, place, one, name)
        except BaseException:
            self._jobs.discard(id)
            raise
        self._jobs.queue(id)
        self._job_runner.schedule(collection)
        return self._jobs.read(id, None)

    def _keep(self, id: str, place: int, given: DocumentInput, spooled: str | None) -> None:
        self._jobs.add(id, place, given, None if spooled is None else self._spooled(spooled))

    def _spooled(self, name: str) -> bytes:
        return spool.read(Path(self._plan.data), name, max_bytes=self._plan.max_file_bytes)

    async def job(self, id: str, groups: Groups = ()) -> Job:
        return self._jobs.read(id, groups)

    async def finished_job(self, id: str) -> Job:
        return await self._job_runner.wait_until_finished(id)

    async def jobs(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        return self._jobs.page(collections, before=before, limit=limit, groups=groups)

    async def cancel_job(self, id: str) -> Job:
        self._jobs.finish(id, "cancelled")
        self._job_runner.cancel(id)
        return self._jobs.read(id, None)

    async def attached(self, collections: Sequence[str], groups: Groups = ()) -> list[UnfinishedAttachment]:
        return self._jobs.unfinished_attachments(collections, groups)

    async def detach(self, collection: str, key: str, groups: Groups = ()) -> bool:
        async with self._opener.shared.exclusive(collection):  # so that it is not just being written
            if DocumentReader(self._catalog).is_hidden(collection, key, groups):
                return False
            found = self._jobs.forget(collection, key, groups)
        try:
            await self.delete_document(await self.find_document(collection, key, groups), groups)
        except UnknownDocument:
            return found
        return True

    async def holders(self, key: str) -> list[str]:
        return self._jobs.collections_with(key)

    async def document_keys(self, ids: Sequence[str]) -> dict[str, str]:
        return DocumentReader(self._catalog).keys(ids)

    async def add_file(self, owner: str, name: str, purpose: str, spooled: str) -> UploadedFile:
        def add() -> UploadedFile:
            return UploadedFiles(self._catalog).add(owner, name, purpose, self._spooled(spooled))

        return await self._finish(asyncio.to_thread(add))

    async def find_files(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        return UploadedFiles(self._catalog).find(ids, owner)

    async def files(
        self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool
    ) -> list[UploadedFile]:
        return UploadedFiles(self._catalog).page(owner, purpose, after=after, limit=limit, newest_first=newest_first)

    async def file_part(self, id: str, owner: str, start: int, length: int) -> bytes:
        return await asyncio.to_thread(UploadedFiles(self._catalog).part, id, owner, start, length)

    async def delete_file(self, id: str, owner: str) -> None:
        UploadedFiles(self._catalog).delete(id, owner)

    async def _finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What it returns; it goes on where the caller leaves."""
        return await asyncio.shield(self._go_on(work))

    def _go_on(self, work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
        task = asyncio.create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return task

    def searching(self, options: SearchOptions, *, okapi: bool = False, questions: Path | None = None) -> Retriever:
        """Another retriever over the same collections that has nothing in memory; okapi: with rank-bm25's scores."""
        lane = self._configured
        return lane.retriever.searching(options, with_okapi(lane.store) if okapi else None, questions)

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        before = self._lane_of(collection)
        self._catalog.collection(collection)  # or a model would be loaded for a name that is none
        lane = self._configured if embedder is None else await self._lane(embedder)
        pinned = "" if lane is self._configured else lane.key
        try:
            return await lane.ingester.rebuild(
                collection, progress, pinned=pinned, replaced=before.store, switched=lambda: self._pin(collection, lane)
            )
        finally:
            self._collections_changed(collection)

    def _pin(self, collection: str, lane: Lane) -> None:
        self._pinned.pop(collection, None)
        if lane is not self._configured:
            self._pinned[collection] = lane

    def _collections_changed(self, collection: str | None = None) -> None:
        for lane in self._lanes.values():
            lane.retriever.collections_changed(collection)
        if self._pairing is not None:
            self._pairing.note(self._catalog)

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        return DocumentReader(self._catalog).collections(groups)

    async def documents(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        return DocumentReader(self._catalog).page(collection, after=after, limit=limit, groups=groups)

    async def document(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        return await asyncio.to_thread(DocumentReader(self._catalog).read, id, groups, collections)

    async def standing(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        return await asyncio.to_thread(DocumentReader(self._catalog).locations, ids, groups)

    async def find_document(self, collection: str, key: str, groups: Groups = ()) -> str:
        return await asyncio.to_thread(DocumentReader(self._catalog).find, collection, key, groups)

    async def delete_document(self, id: str, groups: Groups = ()) -> None:
        try:
            await self._opener.removal.document(id, groups)
        finally:
            self._collections_changed()

    async def delete_collection(self, name: str, groups: Groups = ()) -> None:
        try:
            await self._opener.removal.collection(name, groups)
            self._pinned.pop(name, None)
        finally:
            self._job_runner.notify_finished()
            self._collections_changed(name)

    async def audit(self, name: str) -> Points:
        """What is wrong with a collection's points. Raises UnknownCollection, WrongEmbedder."""
        row, lane = self._catalog.collection(name), self._lane_of(name)
        probes = await asyncio.to_thread(probe, lane.embedder)
        check_same_model(name, row.embedder, row.probes, probes, label(lane.embedder))
        return await audited(self._catalog, lane.store, row, unfinished=name in Builds(self._catalog).unfinished())

    async def clear(self, name: str, points: Points) -> None:
        """Delete the points that an audit found to belong to no document."""
        await cleared(self._lane_of(name).store, self._catalog.collection(name), points)

    def choice(self, name: str) -> EmbedderChoice | None:
        """The embedder of the build that goes on, or else of the one in use; None: the configured one."""
        choice = Builds(self._catalog).embedder(name)
        return from_text(choice) if choice else None

    async def check(self) -> None:
        for lane in {id(lane): lane for lane in (self._configured, *self._pinned.values())}.values():
            vector = (await asyncio.to_thread(lane.embedder.embed_query, [_CHECKED]))[0]
            await lane.store.search([_CHECKED], vector, [], k=1)

    async def close(self) -> None:
        """Close the stores and give the data folder back."""
        await self._replicas.close()
        await self._job_runner.close()
        for task in self._finishing:
            task.cancel()
        if self._finishing:
            await asyncio.wait(self._finishing)
        await self._configured.retriever.close()
        for lane in self._lanes.values():
            await lane.close()
        self._writers.close()
        self._catalog.close()
        self._lock.close()
