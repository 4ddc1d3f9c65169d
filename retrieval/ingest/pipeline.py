"""Ingester: paths -> documents -> chunks -> vectors -> store, skipping what has not changed.

Documents are committed one by one (see `catalog`), so an ingest that is interrupted keeps what it finished
and a second run goes on from there. One bad file never stops it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from retrieval.attributes import digest
from retrieval.catalog.builds import Builds
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.changes import PROPAGATION_S
from retrieval.catalog.revisions import Collection, Revision, RevisionRecord, point_id
from retrieval.embedding.embed import Matrix, check_same_model
from retrieval.errors import CollectionExists, Invalid, RetrievalError, UnknownCollection, Unreadable, UnreadableRights
from retrieval.ingest.exclude import excluded_below
from retrieval.ingest.load import Candidate, Found, Reach, content_hash, find, shown
from retrieval.ingest.prepare import Indexed, Preparation
from retrieval.ingest.reader import Reader, gone, outside, spread
from retrieval.ingest.removal import Removal, Shared
from retrieval.ingest.smoothing import leaning
from retrieval.ingest.splitting import File, Recipe, Split
from retrieval.knowledge import DETECTED, Progress
from retrieval.lexical.language import LANGUAGES
from retrieval.records.documents import Chunk, Document, Passage, indexed_text, lexical_text
from retrieval.records.ingest import EnrichmentPlan, Failure, IngestReport, MissingEnrichment, PendingDocument
from retrieval.records.points import Point, Sparse, Vector
from retrieval.stores.base import Store

# Chunks embedded at a time: large enough to batch texts of like length, small enough to see progress.
_SLICE = 96

Row = tuple[Vector, Sparse]  # both vectors of one chunk

_INCOMPLETE = ", incomplete"  # behind a recipe: a model has not written of all chunks yet, the next ingest looks again


@dataclass(slots=True)
class Tally:
    """What an ingest did so far."""

    total: int
    progress: Progress
    done: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0
    failures: list[Failure] = field(default_factory=list)

    def tick(self, documents: int = 1) -> None:
        self.done += documents
        self.progress(self.done, self.total, self.chunks)

    def coming(self, documents: int, chunks: int) -> int:
        """How many chunks may follow those of these documents, if the rest are as those so far, unchanged ones too."""
        seen = self.done + documents
        return (self.total - seen) * (self.chunks + chunks) // max(1, seen)


@dataclass(frozen=True, slots=True)
class Pending:
    """A document split and waiting for its vectors."""

    key: str
    content_hash: str
    split: Split
    known: bool


@dataclass(frozen=True, slots=True)
class Model:
    """The embedder of what is written."""

    name: str  # its label
    probes: Matrix
    made_with: str  # its settings, as text


class Ingester:
    """Writes collections: the only thing that does."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        preparation: Preparation,
        *,
        model: Model,
        recipe: Recipe,
        reach: Reach,
        shared: Shared,
    ) -> None:
        self._catalog = catalog
        self._builds = Builds(catalog)
        self._store = store
        self._removal = Removal(catalog, shared)
        self._preparation = preparation
        self._model = model
        self._embedder, self._probes = model.name, model.probes
        self._recipe, self._language_of = recipe.text, recipe.language_of
        self._neighbour_weight = recipe.neighbour_weight
        self._reader = Reader(preparation, recipe, max_bytes=reach.max_bytes)
        self._reach = reach
        self._alone = shared.exclusive

    async def ingest(
        self, paths: Sequence[Path], name: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        """Bring the collection up to date with files and folders.

        Under each folder given: new and changed files are indexed, unchanged ones skipped, removed ones go, and so do
        those that are excluded.
        Raises WrongEmbedder if the collection was built with another embedder.
        """
        async with self._alone(name):
            await self._removal.recover(name)
            found = await self._find(paths, exclude)
            known = self._catalog.current_revisions(name)
            lost = gone(paths, {str(c.path) for c in found.candidates}, [f.path for f in found.failures], known)
            lost |= self._linked(outside(paths, known), found)
            lost |= {key: entry for key, entry in known.items() if excluded_below(paths, Path(key), exclude)}
            tally = Tally(len(found.candidates), progress)
            tally.failures = [f for f in found.failures if f.path not in lost]
            if not found.candidates and not known:
                return _report(name, tally, found)
            language = await self._reader.language(name, [] if known else found.candidates)
            collection = self._catalog.create(name, embedder=self._embedder, probes=self._probes, language=language)
            check_same_model(name, collection.embedder, collection.probes, self._probes, self._embedder)
            collection = await self.hear(collection, found.candidates)
            if await self._store.count(collection.tenant) < self._catalog.chunks(name):
                tally.chunks += await self._rebuild(collection, progress)
                collection = self._catalog.collection(name)
            async for batch in self._changed(sorted(found.candidates, key=_bytes), known, tally):
                await self.write(collection, batch, tally)
            for key in sorted(lost):
                await self._removal.clear(self._catalog.retire(lost[key].document))
                tally.removed += 1
            return _report(name, tally, found)

    async def _find(self, paths: Sequence[Path], exclude: Sequence[str]) -> Found:
        reach = self._reach
        return await asyncio.to_thread(
            find, paths, max_bytes=reach.max_bytes, follow_links=reach.follow_links, exclude=exclude
        )

    def _linked(self, known: dict[str, RevisionRecord], found: Found) -> dict[str, RevisionRecord]:
        """Those of the known documents that came by links which are left out now: by the source they have.

        One that was named itself has another source.
        """
        came = {}
        for link in found.left_out:
            target = str(link.target)
            for key, entry in known.items():
                source = link.source + shown(key.removeprefix(target))
                below = key == target or key.startswith(target.rstrip("/") + "/")
                if below and self._catalog.document(entry.document, entry.revision).source == source:
                    came[key] = entry
        return came

    def create(self, name: str, language: str | None) -> None:
        """Make a collection without documents. language: None leaves it to the setting, or to its first documents.

        Raises CollectionExists, Invalid.
        """
        if language is None and self._language_of(name) != DETECTED:
            language = self._language_of(name)
        if language is not None and language not in LANGUAGES:
            raise Invalid(f"there is no language {language!r} here: use one of {', '.join(LANGUAGES)}")
        with contextlib.suppress(UnknownCollection):
            self._catalog.collection(name)
            raise CollectionExists(f"there is a collection {name!r} already")
        self._catalog.create(name, embedder=self._embedder, probes=self._probes, language=language)

    async def ready(self, name: str) -> Collection:
        """A collection that is to be written: nothing half done is left. Raises UnknownCollection, WrongEmbedder."""
        await self._removal.recover(name)
        collection = self._catalog.collection(name)
        check_same_model(name, collection.embedder, collection.probes, self._probes, self._embedder)
        return collection

    async def hear(self, collection: Collection, of: Sequence[Candidate | Document]) -> Collection:
        """The collection in the language of its first documents, where nobody has said it yet."""
        if self._catalog.has_language(collection.name) or self._catalog.chunks(collection.name):
            return collection
        language = await self._reader.language(collection.name, of)
        self._catalog.set_language(collection.name, collection.generation, language)
        return self._catalog.collection(collection.name)

    async def learn(self, documents: Sequence[Document], name: str, progress: Progress) -> IngestReport:
        """Make a new collection of documents that are no files; their sources tell them apart.

        Raises RetrievalError if the collection exists, or if two documents have one source.
        """
        async with self._alone(name):
            if self._catalog.current_revisions(name) or len({one.source for one in documents}) < len(documents):
                raise RetrievalError(f"collection {name!r} must be empty and the documents' sources must be unique")
            language = await self._reader.language(name, documents)
            collection = self._catalog.create(name, embedder=self._embedder, probes=self._probes, language=language)
            tally, batch = Tally(len(documents), progress), list[Pending]()
            for document in documents:
                split = await self._preparation.split(document)
                batch.append(Pending(document.source, digest(document), split, False))
                if sum(len(pending.split.chunks) for pending in batch) >= _SLICE:
                    await self._write_new(collection, batch, tally)
                    batch = []
            await self._write_new(collection, batch, tally)
            return _report(name, tally)

    async def changes(
        self, paths: Sequence[Path], name: str, exclude: Sequence[str] = ()
    ) -> tuple[PendingDocument, ...]:
        """The documents that `ingest` of these paths would write; without paths, those of `rebuild`.

        Files that cannot be read are left out. Raises UnknownCollection where there is nothing to rebuild.
        """
        if not paths:
            return tuple(
                PendingDocument(key, "") for key in self._catalog.current_revisions(self._catalog.collection(name).name)
            )
        found, known = await self._find(paths, exclude), self._catalog.current_revisions(name)
        changed = []
        for candidate in found.candidates:
            key = str(candidate.path)
            with contextlib.suppress(Unreadable):
                if await self._reader.changed(candidate, known.get(key)) is not None:
                    changed.append(PendingDocument(key, candidate.source))
        return tuple(changed)

    async def outline(self, changed: PendingDocument, name: str) -> EnrichmentPlan:
        """One of them, and what is still to be written of its chunks. Raises Unreadable."""
        if changed.source:
            file = Candidate(Path(changed.key), changed.source)
            item: File | Document = await self._reader.file(file, await self._reader.content(file))
        else:
            known = self._catalog.current_revisions(name).get(changed.key)
            if known is None:
                raise Unreadable("gone from the catalog")
            item = self._catalog.document(known.document, known.revision)
        split = await self._preparation.split(item)
        gaps = []
        for ordinal, enrichment, key in split.missing:
            chunk = split.chunks[ordinal]
            gaps.append(MissingEnrichment(key, enrichment.kind, chunk.start, chunk.end, chunk.headings))
        return EnrichmentPlan(split.document.title, split.document.text, tuple(gaps))

    async def rebuild(
        self,
        name: str,
        progress: Progress,
        *,
        pinned: str = "",
        replaced: Store | None = None,
        switched: Callable[[], None] = lambda: None,
    ) -> int:
        """Make the collection's index anew from the catalog alone; returns its number of chunks.

        The next generation is built beside the one in use, then one transaction switches. An interrupted build goes on
        where it was, if it is to be made with the same things. pinned: the embedder that searches need from then on, as
        JSON ("": the configured one). replaced: the store of the generation in use, where that is another. switched: is
        called as soon as the new one is in use.
        Raises UnknownCollection.
        """
        async with self._alone(name):
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
        stale = {key: one for key, one in ready.items() if not _same(one, known.get(key))}
        self._builds.retire(list(stale.values()))
        await self._removal.recover(collection.name)
        if not ready:
            some = [self._catalog.document(one.document, one.revision) for one in spread(list(known.values()))]
            self._catalog.set_language(collection.name, generation, await self._reader.language(collection.name, some))
        left = [(key, entry) for key, entry in known.items() if key not in ready or key in stale]
        tally.tick(len(known) - len(left))
        batch: list[Pending] = []
        for key, entry in left:
            document = self._catalog.document(entry.document, entry.revision)
            try:
                split = await self._preparation.split(document)
            except Unreadable as error:
                raise RetrievalError(f"{document.source}: {error}") from error
            batch.append(Pending(key, entry.content_hash, split, True))
            if sum(len(pending.split.chunks) for pending in batch) >= _SLICE:
                await self._build(collection, generation, batch, tally)
                batch = []
        await self._build(collection, generation, batch, tally)
        self._catalog.switch(collection, generation, embedder=self._embedder, probes=self._probes)
        switched()
        if self._catalog.shared:  # others search the generation before until they hear of this one
            await asyncio.sleep(PROPAGATION_S)
        await (replaced or self._store).drop(collection.tenant)
        await self._removal.recover(collection.name)
        return self._catalog.chunks(collection.name)

    async def _build(self, collection: Collection, generation: int, batch: Sequence[Pending], tally: Tally) -> None:
        """Write documents to a generation that is not yet in use."""
        language = self._catalog.language(collection.name, generation)
        vectors = iter(await self._vectors([pending.split for pending in batch], language, tally))
        staged = [self._stage(collection, pending, generation) for pending in batch]
        for revision, pending in zip(staged, batch, strict=True):
            await self._upsert(revision, pending.split, list(islice(vectors, len(pending.split.chunks))))
        self._builds.ready(staged)
        tally.tick(len(batch))

    async def _changed(
        self, candidates: Sequence[Candidate], known: dict[str, RevisionRecord], tally: Tally
    ) -> AsyncIterator[list[Pending]]:
        """Documents whose content is new, split, in groups worth embedding together."""
        batch: list[Pending] = []
        for candidate in candidates:
            key = str(candidate.path)
            try:
                pending = await self._split(candidate, key, known.get(key))
            except Unreadable as error:
                tally.failures.append(Failure(key, str(error)))
                if isinstance(error, UnreadableRights) and key in known:  # it may be these that were to be changed
                    await self._removal.clear(self._catalog.retire(known[key].document))
                    tally.removed += 1
                tally.tick()
                continue
            if pending is None:
                tally.unchanged += 1
                tally.tick()
                continue
            if batch and len(pending.split.chunks) >= _SLICE:  # those before do not wait for a long one
                yield batch
                batch = []
            batch.append(pending)
            if sum(len(p.split.chunks) for p in batch) >= _SLICE:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _split(self, candidate: Candidate, key: str, known: RevisionRecord | None) -> Pending | None:
        data = await self._reader.changed(candidate, known)
        if data is None:
            return None
        split = await self._preparation.split(await self._reader.file(candidate, data))
        return Pending(key, content_hash(data), split, known is not None)

    async def write(self, collection: Collection, batch: Sequence[Pending], tally: Tally) -> None:
        vectors = await self._vectors([p.split for p in batch], collection.language, tally)
        at = 0
        for pending in batch:
            n = len(pending.split.chunks)
            staged = self._stage(collection, pending, collection.generation)
            await self._upsert(staged, pending.split, vectors[at : at + n])
            await self._removal.clear(self._catalog.publish(staged))
            at += n
            tally.changed += pending.known
            tally.added += not pending.known
            tally.tick()

    async def _write_new(self, collection: Collection, batch: Sequence[Pending], tally: Tally) -> None:
        """Documents that replace none, written to the store at once: a write for each would take most of the time."""
        vectors = iter(await self._vectors([pending.split for pending in batch], collection.language, tally))
        points: list[Point] = []
        revisions = []
        for pending in batch:
            staged = self._stage(collection, pending, collection.generation)
            points += _points(staged, pending.split, list(islice(vectors, len(pending.split.chunks))))
            revisions.append(staged)
        await self._store.upsert(collection.tenant, points)
        for staged in revisions:
            self._catalog.publish(staged)
            tally.added += 1
            tally.tick()

    async def _vectors(self, splits: Sequence[Split], language: str, tally: Tally | None = None) -> list[Row]:
        """(dense, sparse) of every chunk of these documents, in order."""
        texts = [_indexed(split.document, chunk, language) for split in splits for chunk in split.chunks]
        dense: list[Vector] = []
        sparse: list[Sparse] = []
        after = tally.coming(len(splits), len(texts)) if tally is not None else 0
        for start in range(0, len(texts), _SLICE):
            coming = after + max(0, len(texts) - start - _SLICE)
            vectors = await self._preparation.vectors(texts[start : start + _SLICE], coming)
            dense.extend(vectors.dense)
            sparse.extend(vectors.sparse)
            if tally is not None:
                tally.chunks += len(vectors.sparse)
                tally.tick(0)
        return list(zip(leaning(splits, dense, self._neighbour_weight), sparse, strict=True))

    def _stage(self, collection: Collection, pending: Pending, generation: int) -> Revision:
        return self._catalog.stage(
            collection,
            pending.key,
            pending.split.document,
            content_hash=pending.content_hash,
            recipe=self._recipe + (_INCOMPLETE if pending.split.missing else ""),
            chunks=len(pending.split.chunks),
            generation=generation,
        )

    async def _upsert(self, staged: Revision, split: Split, vectors: Sequence[Row]) -> None:
        await self._store.upsert(staged.tenant, _points(staged, split, vectors))


def _same(ready: RevisionRecord, current: RevisionRecord | None) -> bool:
    """Whether a document of a build is still what it was made of."""
    return current is not None and (ready.document, ready.content_hash) == (current.document, current.content_hash)


def _bytes(candidate: Candidate) -> int:
    """Its size: what is small is written before what takes long. 0 where the file is gone by now."""
    try:
        return candidate.path.stat().st_size
    except OSError:
        return 0


def _indexed(document: Document, chunk: Chunk, language: str) -> Indexed:
    parts = (document.title, chunk.headings, chunk.text, chunk.context)
    return Indexed(indexed_text(*parts), lexical_text(*parts), language)


def _points(staged: Revision, split: Split, vectors: Sequence[Row]) -> list[Point]:
    return [
        Point(
            point_id(staged.tenant, staged.document, staged.revision, chunk.ordinal),
            _passage(staged, split.document, chunk, tokens),
            dense,
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
    )


def _report(name: str, tally: Tally, found: Found | None = None) -> IngestReport:
    return IngestReport(
        name,
        tally.added,
        tally.changed,
        tally.unchanged,
        tally.removed,
        tally.chunks,
        found.skipped if found else {},
        tuple(Failure(shown(one.path), one.reason) for one in tally.failures),
        tuple(f"{link.source} -> {shown(link.target)}" for link in (found.left_out if found else ())),
    )
