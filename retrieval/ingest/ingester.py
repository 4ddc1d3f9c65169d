"""Ingester: source -> documents -> chunks -> vectors -> store, skipping unchanged documents.

Each document is committed on its own (see `catalog`). So an interrupted ingest keeps finished documents, and the next
one continues. One bad file never stops an ingest.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Literal, TypeVar

import orjson

from retrieval.catalog.builds import Builds
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.changes import PROPAGATION_S
from retrieval.catalog.revisions import Collection, Revision, RevisionRecord, point_id
from retrieval.catalog.writers import Writers
from retrieval.embedding.embed import Matrix, check_same_model
from retrieval.embedding.export import advice
from retrieval.errors import (
    CollectionExists,
    HoldsSecrets,
    Invalid,
    RetrievalError,
    UnknownCollection,
    Unreadable,
    UnreadableRights,
)
from retrieval.ingest.containers import container_of
from retrieval.ingest.contents import ChangedDocument, FileOpening, Opened
from retrieval.ingest.load import MOST_UNREAD, FileCandidate, FoundFiles, printable_path
from retrieval.ingest.prepare import ChunkTexts, Preparation
from retrieval.ingest.removal import Removal
from retrieval.ingest.sources.source import Known, LeftOut, Marks, Source, Unchanged
from retrieval.ingest.splitting import Recipe, SourceFile, SplitDocument
from retrieval.knowledge import DETECTED, Progress
from retrieval.lexical.terms import LANGUAGES, detect
from retrieval.records.documents import Chunk, Document, Passage, indexed_text, is_reserved, lexical_text
from retrieval.records.ingest import (
    DocumentChange,
    EnrichmentPlan,
    Failure,
    IngestReport,
    MissingEnrichment,
    Note,
    PendingDocument,
    Secret,
)
from retrieval.records.points import Point, Sparse, Vector
from retrieval.stores.base import Store
from retrieval.stores.schema import DENSE

# Chunks embedded together: enough to batch texts of similar length, few enough to show progress.
_SLICE = 96
_SPLIT_AT_ONCE = 2  # documents: the processes that a sandbox keeps
_SAMPLE_DOCUMENTS = 20  # documents that vote on a collection's language
MOST_SECRETS = 1_000  # named in a report
_SAMPLE_MEMBERS = 3  # of a container among these

_T = TypeVar("_T")

Row = tuple[Vector, Sparse]  # a chunk's dense and sparse vector

# recipe suffix: a model has not written about all chunks yet; the next ingest checks again
_INCOMPLETE = ", incomplete"


@dataclass(slots=True)
class Tally:
    """An ingest's counts so far."""

    total: int
    progress: Progress
    named: bool = False  # whether `changes` are wanted
    done: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0
    source: str = ""  # of the present document
    failures: list[Failure] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # key -> reason
    gone: set[str] = field(default_factory=set)  # keys of what containers no longer hold
    skipped: Counter[str] = field(default_factory=Counter)  # by reason
    unread: list[str] = field(default_factory=list)  # sources
    notes: list[Note] = field(default_factory=list)
    secrets: list[Secret] = field(default_factory=list)
    changes: list[DocumentChange] = field(default_factory=list)
    kept: int = 0
    repeated: int = 0

    def count(self, what: Literal["added", "changed", "removed"], source: str, content: str) -> None:
        """Count a document that was written or removed."""
        setattr(self, what, getattr(self, what) + 1)
        if self.named:
            self.changes.append(DocumentChange(what, source, content))

    def pass_over(self, candidate: FileCandidate, reason: Unchanged | LeftOut | Unreadable) -> None:
        """Count a document that is not written."""
        if isinstance(reason, Unchanged):
            self.unchanged += 1
        elif isinstance(reason, LeftOut):
            self.left_out[candidate.key] = str(reason)
        else:
            self.failures.append(Failure(candidate.key, str(reason)))
        self.tick()

    def add(self, opened: Opened) -> None:
        """Count what a file holds, but for documents to write."""
        self.total += len(opened.changed) + opened.unchanged - 1
        self.unchanged += opened.unchanged
        self.gone.update(opened.gone)
        self.failures += opened.failures
        self.skipped.update(opened.skipped)
        self.unread += opened.unread
        self.tick(opened.unchanged)

    def tick(self, documents: int = 1) -> None:
        self.done += documents
        self.progress(self.done, self.total, self.chunks, self.source)

    def work_on(self, source: str) -> None:
        """Name the document being read or embedded."""
        self.source = source
        self.tick(0)

    def expected_chunks(self, documents: int, chunks: int) -> int:
        """Estimate how many chunks follow after these documents, from the average so far."""
        seen = self.done + documents
        return (self.total - seen) * (self.chunks + chunks) // max(1, seen)


@dataclass(frozen=True, slots=True)
class Pending:
    """A split document that waits for vectors."""

    key: str
    content_hash: str
    split: SplitDocument
    known: bool
    mark: str = ""  # as in `FileCandidate`


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """Embedder for new points."""

    name: str  # the embedder's label
    probes: Matrix
    made_with: str  # the embedder's settings, as text


class Ingester:
    """Writes collections; all writes to them go through this class."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        preparation: Preparation,
        *,
        model: EmbedderIdentity,
        recipe: Recipe,
        writers: Writers,
        removal: Removal,
    ) -> None:
        self._catalog = catalog
        self._builds = Builds(catalog)
        self._store = store
        self._removal = removal
        self._preparation = preparation
        self._model = model
        self._embedder, self._probes = model.name, model.probes
        self._recipe, self._language_of = recipe.text, recipe.language_of
        self._exclusive, self._turn = writers.exclusive, writers.turn

    async def ingest(
        self,
        source: Source,
        name: str,
        progress: Progress,
        *,
        marks: Marks | None = None,
        allow_empty: bool = True,
        named: bool = False,
    ) -> IngestReport:
        """Bring a collection up to date with a source.

        New and changed documents are indexed, unchanged ones are skipped, and those that the source no longer has are
        removed.

        marks: of what is known; changed with each document, so that an interrupted ingest leaves the marks so far.
        allow_empty: False: a source without any readable document removes nothing.
        named: whether the report names each change; of a large collection, that is too much for one message.

        Raises WrongEmbedder if it was built with another embedder; Unreachable.
        """
        marks = {} if marks is None else marks
        async with self._turn("ingest", name):
            files, known = await source.list(), self._catalog.current_revisions(name)
            removed, tally = self._begun(source, files, known, progress, named=named)
            if not files.candidates and not known:
                return _report(name, tally, files)
            language = await self._main_language(name, [] if self._language_known(name) else files.candidates, source)
            async with self._exclusive(name):
                self._catalog.create(name, embedder=self._embedder, probes=self._probes, language=language)
                collection = self.with_language(await self.prepare_for_writing(name), language)
                if await self._store.count(collection.tenant) < self._catalog.chunks(name):
                    tally.chunks += await self._rebuild(collection, progress)
                    collection = self._catalog.collection(name)
            small_first = sorted(files.candidates, key=lambda candidate: candidate.size_bytes)
            staying = {key: record for key, record in known.items() if key not in removed}
            opened = self._opened(source, small_first, name, staying, tally, marks)
            changed = self._changed(opened, name, staying, tally)
            async with aclosing(_ahead(_batches(changed, long_alone=True))) as batches:
                async for batch in batches:
                    await self._write(collection, batch, tally)
                    marks.update((pending.key, (pending.mark, pending.content_hash)) for pending in batch)
            for key in sorted(self._removable(removed, known, tally, allow_empty)):
                await self._remove(name, known[key], tally)
                marks.pop(key, None)
            tally.repeated = await asyncio.to_thread(self._catalog.repeated, name)
            if not known and tally.added and (said := advice(self._embedder, collection.language)):
                tally.notes.append(Note(name, said))
            return _report(name, tally, files)

    async def preview(
        self, source: Source, name: str, progress: Progress, *, marks: Marks, allow_empty: bool
    ) -> IngestReport:
        """Return what `ingest` would do. Nothing is parsed: what cannot be parsed counts as added or changed."""
        files, known, marks = await source.list(), self._catalog.current_revisions(name), dict(marks)
        removed, tally = self._begun(source, files, known, progress, named=True)
        staying = {key: record for key, record in known.items() if key not in removed}
        opening = self._opening(source, staying, marks)
        for candidate in files.candidates:
            try:
                opened = await opening.open(candidate)
            except (Unchanged, LeftOut, Unreadable) as error:
                tally.pass_over(candidate, error)
                continue
            tally.add(opened)
            for one in opened.changed:
                what: Literal["changed", "added"] = "changed" if one.candidate.key in known else "added"
                tally.count(what, one.candidate.source, one.content_hash)
                tally.tick()
        for key in self._removable(removed, known, tally, allow_empty):
            tally.count("removed", self._source_of(known[key]), known[key].content_hash)
        return _report(name, tally, files)

    def _begun(
        self, source: Source, files: FoundFiles, known: Known, progress: Progress, *, named: bool
    ) -> tuple[Set[str], Tally]:
        """Return keys of documents that the source no longer lists, and a tally of what listing it has shown."""
        removed = source.gone(known, files, self._source_of)
        tally = Tally(len(files.candidates), progress, named)
        tally.failures = [f for f in files.failures if f.path not in removed]
        tally.skipped.update(files.skipped)
        tally.unread += files.unread
        return removed, tally

    def _removable(self, unlisted: Set[str], known: Known, tally: Tally, allow_empty: bool) -> Set[str]:
        """Return which documents may be removed: none if the source is suddenly empty, unless allowed.

        unlisted: keys of documents that the source no longer lists; reading it has shown others, in `tally`.
        """
        gone = (unlisted | tally.left_out.keys() | tally.gone) & known.keys()
        if allow_empty or tally.added or tally.changed or tally.unchanged:
            return gone
        tally.kept = len(gone)
        return set()

    async def _remove(self, name: str, known: RevisionRecord, tally: Tally) -> None:
        tally.count("removed", self._source_of(known), known.content_hash)
        async with self._exclusive(name):
            await self._removal.clear(self._catalog.retire(known.document))

    def _source_of(self, known: RevisionRecord) -> str:
        return self._catalog.source(known.document, known.revision)

    async def _main_language(
        self, collection: str, samples: Sequence[FileCandidate | Document], source: Source | None = None
    ) -> str:
        """Return a new generation's language: the setting, or some documents' main language."""
        if (language := self._language_of(collection)) != DETECTED:
            return language
        texts = []
        for item in _sample(samples):
            with contextlib.suppress(Unreadable, LeftOut):  # reported when the document's turn comes
                if isinstance(item, Document):
                    texts.append(item.text)
                elif source is not None:
                    files = (await self._opening(source).open(item)).changed[:_SAMPLE_MEMBERS]
                    texts += [(await self._preparation.split(one.file)).document.text for one in files]
        return await asyncio.to_thread(detect, texts)

    def create(self, name: str, language: str | None) -> None:
        """Create an empty collection. language: None uses the setting, or its first documents' language.

        Raises CollectionExists, Invalid.
        """
        if language is None and self._language_of(name) != DETECTED:
            language = self._language_of(name)
        if language is not None and language not in LANGUAGES:
            raise Invalid(f"unknown language {language!r}: use one of {', '.join(LANGUAGES)}")
        with contextlib.suppress(UnknownCollection):
            self._catalog.collection(name)
            raise CollectionExists(f"a collection {name!r} exists already")
        self._catalog.create(name, embedder=self._embedder, probes=self._probes, language=language)

    async def prepare_for_writing(self, name: str) -> Collection:
        """Return a collection to write to, after cleaning up; the caller holds the write lock.

        Raises UnknownCollection, WrongEmbedder.
        """
        await self._removal.recover(name)
        collection = self._catalog.collection(name)
        check_same_model(name, collection.embedder, collection.probes, self._probes, self._embedder)
        return collection

    async def language(self, collection: Collection, samples: Sequence[Document]) -> str:
        """Return a collection's language; before its first documents, that of `samples`."""
        if self._language_known(collection.name):
            return collection.language
        return await self._main_language(collection.name, samples)

    def with_language(self, collection: Collection, language: str) -> Collection:
        """Set a collection's language, unless known. Returns the updated row; the caller holds the write lock."""
        if self._language_known(collection.name):
            return collection
        self._catalog.set_language(collection.name, collection.generation, language)
        return self._catalog.collection(collection.name)

    def _language_known(self, name: str) -> bool:
        return self._catalog.has_language(name) or self._catalog.chunks(name) > 0

    async def add_documents(self, documents: Sequence[Document], name: str, progress: Progress) -> IngestReport:
        """Create a collection from documents without files; their source identifies them.

        Raises RetrievalError if it exists, or if two documents have the same source.
        """
        async with self._turn("ingest", name), self._exclusive(name):
            if self._catalog.current_revisions(name) or len({item.source for item in documents}) < len(documents):
                raise RetrievalError(f"collection {name!r} must be empty and the documents' sources must be unique")
            language = await self._main_language(name, documents)
            collection = self._catalog.create(name, embedder=self._embedder, probes=self._probes, language=language)
            tally = Tally(len(documents), progress)

            async def split() -> AsyncGenerator[Pending]:
                for document in documents:
                    yield Pending(document.source, digest(document), await self._preparation.split(document), False)

            async with aclosing(_ahead(_batches(split()))) as batches:
                async for batch in batches:
                    for staged in await self._store_all(collection, collection.generation, batch, tally):
                        self._catalog.publish(staged)
                        tally.added += 1
                        tally.tick()
            return _report(name, tally)

    async def pending_documents(self, source: Source | None, name: str) -> tuple[PendingDocument, ...]:
        """Return documents that `ingest` of the source would write; without one, those of `rebuild`.

        Unreadable files are left out. Raises UnknownCollection if there is nothing to rebuild.
        """
        if source is None:
            return tuple(
                PendingDocument(key, "") for key in self._catalog.current_revisions(self._catalog.collection(name).name)
            )
        files, known = await source.list(), self._catalog.current_revisions(name)
        opening, changed = self._opening(source, known), []
        for candidate in files.candidates:
            with contextlib.suppress(Unreadable, Unchanged):
                opened = await opening.open(candidate)
                changed += [PendingDocument(one.candidate.key, one.candidate.source) for one in opened.changed]
        return tuple(changed)

    async def enrichment_plan(self, source: Source, changed: PendingDocument, name: str) -> EnrichmentPlan:
        """Return a document with those chunks that still need a model's text. Raises Unreadable."""
        if changed.source:
            item: SourceFile | Document = await self._opening(source).read(changed.key, changed.source)
        else:
            known = self._catalog.current_revisions(name).get(changed.key)
            if known is None:
                raise Unreadable("the catalog no longer has the document")
            item = self._catalog.document(known.document, known.revision)
        split = await self._preparation.split(item)
        missing = []
        for ordinal, enrichment, key in split.missing:
            chunk = split.chunks[ordinal]
            missing.append(MissingEnrichment(key, enrichment.kind, chunk.start, chunk.end, chunk.headings))
        return EnrichmentPlan(split.document.title, split.document.text, tuple(missing))

    async def rebuild(
        self,
        name: str,
        progress: Progress,
        *,
        pinned: str = "",
        replaced: Store | None = None,
        switched: Callable[[], None] = lambda: None,
    ) -> int:
        """Rebuild a collection's index from the catalog alone; return how many chunks it has.

        The next generation is built beside the current one, then one transaction switches. A later call with the same
        inputs continues an interrupted build.

        pinned: embedder for later searches, as JSON ("": the configured one).
        replaced: the current generation's store, if not the same.
        switched: called right after the switch.

        Raises UnknownCollection.
        """
        async with self._turn("ingest", name), self._exclusive(name):
            await self._removal.recover(name)
            return await self._rebuild(self._catalog.collection(name), progress, pinned, replaced, switched)

    async def _rebuild(
        self,
        collection: Collection,
        progress: Progress,
        pinned: str = "",
        replaced: Store | None = None,
        switched: Callable[[], None] = lambda: None,
    ) -> int:
        known = self._catalog.current_revisions(collection.name)
        tally = Tally(len(known), progress)
        generation = collection.generation + 1
        made_with = [self._model.made_with, self._embedder, self._recipe, self._language_of(collection.name)]
        ready = self._builds.begin(collection, embedder=pinned, made_with="\n".join(made_with))
        stale = {key: item for key, item in ready.items() if not _same(item, known.get(key))}
        self._builds.retire(list(stale.values()))
        await self._removal.recover(collection.name)
        if not ready:
            documents = [self._catalog.document(item.document, item.revision) for item in _sample(list(known.values()))]
            self._catalog.set_language(
                collection.name, generation, await self._main_language(collection.name, documents)
            )
        remaining = {key: entry for key, entry in known.items() if key not in ready or key in stale}
        tally.tick(len(known) - len(remaining))
        async with aclosing(_ahead(_batches(self._split_again(remaining)))) as batches:
            async for batch in batches:
                self._builds.ready(await self._store_all(collection, generation, batch, tally))
                tally.tick(len(batch))
        self._catalog.switch(collection, generation, embedder=self._embedder, probes=self._probes)
        switched()
        if self._catalog.shared:  # other processes search the previous generation until they learn of this
            await asyncio.sleep(PROPAGATION_S)
        await (replaced or self._store).drop(collection.tenant)
        await self._removal.recover(collection.name)
        return self._catalog.chunks(collection.name)

    async def _split_again(self, known: Mapping[str, RevisionRecord]) -> AsyncGenerator[Pending]:
        """Yield catalog documents, split."""
        for key, record in known.items():
            document = self._catalog.document(record.document, record.revision)
            try:
                yield Pending(key, record.content_hash, await self._preparation.split(document), True)
            except Unreadable as error:
                raise RetrievalError(f"{document.source}: {error}") from error

    async def _changed(
        self, opened: AsyncIterator[ChangedDocument], name: str, known: dict[str, RevisionRecord], tally: Tally
    ) -> AsyncGenerator[Pending]:
        """Yield documents with new content, split; the next ones are being split meanwhile."""
        splitting: deque[tuple[ChangedDocument, asyncio.Task[SplitDocument]]] = deque()
        try:
            async for one in opened:
                splitting.append((one, asyncio.create_task(self._preparation.split(one.file))))
                if len(splitting) < _SPLIT_AT_ONCE:
                    continue
                if pending := await self._split(*splitting.popleft(), name, known, tally):
                    yield pending
            while splitting:
                if pending := await self._split(*splitting.popleft(), name, known, tally):
                    yield pending
        finally:
            for _, task in splitting:
                task.cancel()

    async def _opened(
        self,
        source: Source,
        candidates: Sequence[FileCandidate],
        name: str,
        known: dict[str, RevisionRecord],
        tally: Tally,
        marks: Marks,
    ) -> AsyncIterator[ChangedDocument]:
        """Yield files with new content."""
        opening = self._opening(source, known, marks)
        for candidate in candidates:
            tally.work_on(candidate.source)
            try:
                opened = await opening.open(candidate)
            except (Unchanged, LeftOut, Unreadable) as error:
                if isinstance(error, UnreadableRights):  # a sidecar's
                    for key in [key for key in known if container_of(key) == candidate.key]:
                        await self._remove(name, known.pop(key), tally)
                tally.pass_over(candidate, error)
                continue
            self._catalog.rename_content(opened.renamed)
            tally.add(opened)
            for one in opened.changed:
                yield one

    async def _split(
        self,
        one: ChangedDocument,
        splitting: asyncio.Task[SplitDocument],
        name: str,
        known: dict[str, RevisionRecord],
        tally: Tally,
    ) -> Pending | None:
        """Return a split document; None, with its reason in the tally, if it cannot be read."""
        key = one.candidate.key
        tally.work_on(one.candidate.source)
        try:
            split = await splitting
        except Unreadable as error:
            # what is unreadable may be a change of rights
            if isinstance(error, UnreadableRights | HoldsSecrets) and key in known:
                await self._remove(name, known[key], tally)
            tally.pass_over(one.candidate, error)
            return None
        secrets = split.document.secrets
        tally.secrets += [Secret(one.candidate.source, line, kind) for line, kind in secrets]
        if split.document.note:
            tally.notes.append(Note(one.candidate.source, split.document.note))
        return Pending(key, one.content_hash, split, key in known, one.file.mark)

    def _opening(self, source: Source, known: Known | None = None, marks: Marks | None = None) -> FileOpening:
        return FileOpening(source, self._preparation, known or {}, {} if marks is None else marks, self._recipe)

    async def _write(self, collection: Collection, batch: Sequence[Pending], tally: Tally) -> None:
        vectors = iter(await self.vectors([p.split for p in batch], collection.language, tally))
        async with self._exclusive(collection.name):
            for pending in batch:
                await self.write(collection, pending, list(islice(vectors, len(pending.split.chunks))))
                source = pending.split.document.source
                tally.count("changed" if pending.known else "added", source, pending.content_hash)
                tally.tick()

    async def write(self, collection: Collection, pending: Pending, vectors: Sequence[Row]) -> None:
        """Write one document; the caller holds the write lock."""
        staged = self._stage(collection, pending, collection.generation)
        await self._store.upsert(staged.tenant, _points(staged, pending.split, vectors))
        await self._removal.clear(self._catalog.publish(staged))

    async def _store_all(
        self, collection: Collection, generation: int, batch: Sequence[Pending], tally: Tally
    ) -> list[Revision]:
        """Stage documents, in one write to the store: a write each would dominate the time."""
        language = self._catalog.language(collection.name, generation)
        vectors = iter(await self.vectors([pending.split for pending in batch], language, tally))
        points, revisions = list[Point](), list[Revision]()
        for pending in batch:
            staged = self._stage(collection, pending, generation)
            points += _points(staged, pending.split, list(islice(vectors, len(pending.split.chunks))))
            revisions.append(staged)
        await self._store.upsert(revisions[0].tenant, points)
        return revisions

    async def vectors(
        self, splits: Sequence[SplitDocument], language: str, tally: Tally | None = None, *, owner: str = ""
    ) -> list[Row]:
        """Return (dense, sparse) of every chunk of these documents, in order. owner: as in `Preparation`."""
        texts = [_indexed(split.document, chunk, language) for split in splits for chunk in split.chunks]
        dense: list[Vector] = []
        sparse: list[Sparse] = []
        after = tally.expected_chunks(len(splits), len(texts)) if tally is not None else 0
        if tally is not None and splits:
            tally.work_on(max(splits, key=lambda split: len(split.chunks)).document.source)
        for start in range(0, len(texts), _SLICE):
            remaining = after + max(0, len(texts) - start - _SLICE)
            vectors = await self._preparation.vectors(texts[start : start + _SLICE], remaining, owner=owner)
            dense.extend(vectors.dense)
            sparse.extend(vectors.sparse)
            if tally is not None:
                tally.chunks += len(vectors.sparse)
                tally.tick(0)
        return list(zip(dense, sparse, strict=True))

    def _stage(self, collection: Collection, pending: Pending, generation: int) -> Revision:
        return self._catalog.stage(
            collection,
            pending.key,
            pending.split.document,
            content_hash=pending.content_hash,
            recipe=self._recipe + (_INCOMPLETE if pending.split.missing else ""),
            chunks=len(pending.split.chunks),
            generation=generation,
            fingerprint=None if is_reserved(collection.name) else pending.split.fingerprint,
        )


async def _batches(documents: AsyncGenerator[Pending], *, long_alone: bool = False) -> AsyncGenerator[list[Pending]]:
    """Yield batches for the embedder. long_alone: earlier documents do not wait for a long one."""
    batch: list[Pending] = []
    async with aclosing(documents):
        async for pending in documents:
            if long_alone and batch and len(pending.split.chunks) >= _SLICE:
                yield batch
                batch = []
            batch.append(pending)
            if sum(len(one.split.chunks) for one in batch) >= _SLICE:
                yield batch
                batch = []
    if batch:
        yield batch


async def _ahead(items: AsyncGenerator[_T]) -> AsyncGenerator[_T]:
    """Yield items, each while the next one is being made: documents are read while others are embedded."""
    following = asyncio.ensure_future(anext(items))
    try:
        while True:
            try:
                item = await following
            except StopAsyncIteration:
                return
            following = asyncio.ensure_future(anext(items))
            yield item
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await items.aclose()


def _sample(items: Sequence[_T]) -> Sequence[_T]:
    """Return a sample of at most _SAMPLE_DOCUMENTS items, evenly spaced."""
    return items[:: max(1, -(-len(items) // _SAMPLE_DOCUMENTS))]


def digest(document: Document) -> str:
    """SHA-256, in hexadecimal, of a document's indexed and stored fields; for documents that are not files."""
    parts = [document.source, document.title, document.format, document.attributes, document.groups]
    fields = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return sha256(fields + b"\0" + document.text.encode()).hexdigest()


def _same(ready: RevisionRecord, current: RevisionRecord | None) -> bool:
    """Whether a document in a build still equals the catalog's."""
    return current is not None and (ready.document, ready.content_hash) == (current.document, current.content_hash)


def _indexed(document: Document, chunk: Chunk, language: str) -> ChunkTexts:
    parts = (document.title, chunk.headings, chunk.text, chunk.context)
    return ChunkTexts(indexed_text(*parts), lexical_text(*parts, chunk.names, document.source), language)


def _points(staged: Revision, split: SplitDocument, vectors: Sequence[Row]) -> list[Point]:
    return [
        Point(
            point_id(staged.tenant, staged.document, staged.revision, chunk.ordinal),
            _passage(staged, split.document, chunk, tokens),
            {DENSE: dense},
            sparse,
        )
        for chunk, tokens, (dense, sparse) in zip(split.chunks, split.tokens, vectors, strict=True)
    ]


def _passage(revision: Revision, document: Document, chunk: Chunk, tokens: int) -> Passage:
    return Passage(
        document=revision.document,
        revision=revision.revision,
        ordinal=chunk.ordinal,
        title=document.title,
        source=document.source,
        modified_s=document.modified_s,
        headings=chunk.headings,
        start=chunk.start,
        end=chunk.end,
        text=chunk.text,
        tokens=tokens,
        attributes=document.attributes,
        groups=document.groups,
        context=chunk.context,
        place=chunk.place,
        names=chunk.names,
    )


def _report(name: str, tally: Tally, files: FoundFiles | None = None) -> IngestReport:
    return IngestReport(
        name,
        tally.added,
        tally.changed,
        tally.unchanged,
        tally.removed,
        tally.chunks,
        dict(tally.skipped + Counter(tally.left_out.values())),
        tuple(Failure(printable_path(item.path), item.reason) for item in tally.failures),
        tuple(f"{link.source} -> {printable_path(link.target)}" for link in (files.left_out if files else ())),
        tuple(map(printable_path, tally.unread[:MOST_UNREAD])),
        tally.kept,
        tuple(tally.changes),
        tuple(tally.notes),
        tally.repeated,
        tuple(tally.secrets[:MOST_SECRETS]),
    )
