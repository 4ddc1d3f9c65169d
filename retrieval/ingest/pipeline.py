"""Ingester: paths -> documents -> chunks -> vectors -> store, skipping what has not changed.

Documents are committed one by one (see `catalog`), so an ingest that is interrupted keeps what it finished
and a second run goes on from there. One bad file never stops it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from retrieval.catalog import Catalog, Collection, Known, Revision, point_id
from retrieval.embed import Matrix, check_same_model
from retrieval.errors import Unreadable
from retrieval.ingest.load import Candidate, content_hash, find, read, shown
from retrieval.ingest.prepare import File, Preparation, Split
from retrieval.knowledge import Progress
from retrieval.records import Chunk, Document, Failure, Passage, Point, Report, Sparse, Vector, indexed_text
from retrieval.stores.base import Store

# Chunks embedded at a time: large enough to batch texts of like length, small enough to see progress.
_SLICE = 96

Row = tuple[Vector, Sparse]  # both vectors of one chunk


@dataclass(slots=True)
class _Tally:
    """What this ingest did so far."""

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


@dataclass(frozen=True, slots=True)
class _Pending:
    """A document split and waiting for its vectors."""

    key: str
    content_hash: str
    split: Split
    known: bool


class Ingester:
    """Writes collections: the only thing that does."""

    def __init__(
        self, catalog: Catalog, store: Store, preparation: Preparation, *,
        embedder: str, probes: Matrix, recipe: str, max_bytes: int,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._store = store
        self._preparation = preparation
        self._embedder = embedder
        self._probes = probes
        self._recipe = recipe
        self._max_bytes = max_bytes
        self._writing = asyncio.Lock()  # one ingest at a time; others wait

    async def ingest(self, paths: Sequence[Path], name: str, progress: Progress) -> Report:
        """Bring the collection up to date with files and folders.

        Under each folder given: new and changed files are indexed, unchanged ones skipped, removed ones go.
        Raises WrongEmbedder if the collection was built with another embedder.
        """
        async with self._writing:
            await self.recover()
            found = await asyncio.to_thread(find, paths, max_bytes=self._max_bytes)
            known = self._catalog.known(name)
            gone = _gone(paths, {str(c.path) for c in found.candidates}, [f.path for f in found.failures], known)
            tally = _Tally(len(found.candidates), progress)
            tally.failures = [f for f in found.failures if f.path not in gone]
            if not found.candidates and not known:
                return _report(name, tally, found.skipped)
            collection = self._catalog.create(name, embedder=self._embedder, probes=self._probes)
            check_same_model(name, collection.embedder, collection.probes, self._probes, self._embedder)
            if await self._store.count(collection.tenant) < self._catalog.chunks(name):
                tally.chunks += await self._rebuild(collection, progress)
                collection = self._catalog.collection(name)
            async for batch in self._changed(found.candidates, known, tally):
                await self._write(collection, batch, tally)
            for key in sorted(gone):
                await self._clear(self._catalog.retire(gone[key].document))
                tally.removed += 1
            return _report(name, tally, found.skipped)

    async def rebuild(self, name: str, progress: Progress) -> int:
        """Make the collection's index anew from the catalog alone; returns its number of chunks.

        The next generation is built beside the one in use, then one transaction switches.
        Raises UnknownCollection.
        """
        async with self._writing:
            await self.recover()
            return await self._rebuild(self._catalog.collection(name), progress)

    async def recover(self) -> None:
        """Clear what an interrupted write left behind."""
        await self._clear(self._catalog.leftovers())

    async def _rebuild(self, collection: Collection, progress: Progress) -> int:
        known = self._catalog.known(collection.name)
        tally = _Tally(len(known), progress)
        generation = collection.generation + 1
        for key, entry in known.items():
            split = await self._preparation.split(self._catalog.document(entry.document, entry.revision))
            points = await self._vectors([split])
            staged = self._stage(collection, _Pending(key, entry.content_hash, split, True), generation)
            await self._upsert(staged, split, points)
            tally.chunks += len(split.chunks)
            tally.tick()
        self._catalog.switch(collection, generation, embedder=self._embedder, probes=self._probes)
        await self._store.drop(collection.tenant)
        await self.recover()
        return tally.chunks

    async def _changed(
        self, candidates: Sequence[Candidate], known: dict[str, Known], tally: _Tally
    ) -> AsyncIterator[list[_Pending]]:
        """Documents whose content is new, split, in groups worth embedding together."""
        batch: list[_Pending] = []
        for candidate in candidates:
            key = str(candidate.path)
            try:
                pending = await self._split(candidate, key, known.get(key))
            except Unreadable as error:
                tally.failures.append(Failure(shown(key), str(error)))
                tally.tick()
                continue
            if pending is None:
                tally.unchanged += 1
                tally.tick()
                continue
            batch.append(pending)
            if sum(len(p.split.chunks) for p in batch) >= _SLICE:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _split(self, candidate: Candidate, key: str, known: Known | None) -> _Pending | None:
        if shown(key) != key:  # no database keeps such a key, and a changed one would not find the file again
            raise Unreadable("its name, or that of a folder above it, is not UTF-8: rename it")
        data = await asyncio.to_thread(read, candidate.path, max_bytes=self._max_bytes)
        digest = content_hash(data)
        if known is not None and (known.content_hash, known.recipe) == (digest, self._recipe):
            return None
        try:
            modified_s = candidate.path.stat().st_mtime
        except OSError as error:
            raise Unreadable(f"vanished while it was read ({error.strerror})") from error
        split = await self._preparation.split(File(candidate.path, candidate.source, data, modified_s))
        return _Pending(key, digest, split, known is not None)

    async def _write(self, collection: Collection, batch: Sequence[_Pending], tally: _Tally) -> None:
        vectors = await self._vectors([p.split for p in batch], tally)
        at = 0
        for pending in batch:
            n = len(pending.split.chunks)
            staged = self._stage(collection, pending, collection.generation)
            await self._upsert(staged, pending.split, vectors[at : at + n])
            await self._clear(self._catalog.publish(staged))
            at += n
            tally.changed += pending.known
            tally.added += not pending.known
            tally.tick()

    async def _vectors(self, splits: Sequence[Split], tally: _Tally | None = None) -> list[Row]:
        """(dense, sparse) of every chunk of these documents, in order."""
        texts = [_indexed(split.document, chunk) for split in splits for chunk in split.chunks]
        rows: list[Row] = []
        for start in range(0, len(texts), _SLICE):
            vectors = await self._preparation.vectors(texts[start : start + _SLICE])
            rows.extend(zip(vectors.dense, vectors.sparse, strict=True))
            if tally is not None:
                tally.chunks += len(vectors.sparse)
                tally.tick(0)
        return rows

    def _stage(self, collection: Collection, pending: _Pending, generation: int) -> Revision:
        return self._catalog.stage(
            collection, pending.key, pending.split.document, content_hash=pending.content_hash,
            recipe=self._recipe, chunks=len(pending.split.chunks), generation=generation,
        )  # fmt: skip

    async def _upsert(self, staged: Revision, split: Split, vectors: Sequence[Row]) -> None:
        points = [
            Point(
                point_id(staged.tenant, staged.document, staged.revision, chunk.ordinal),
                _passage(staged, split.document, chunk, tokens),
                dense,
                sparse,
            )
            for chunk, tokens, (dense, sparse) in zip(split.chunks, split.tokens, vectors, strict=True)
        ]
        await self._store.upsert(staged.tenant, points)

    async def _clear(self, revisions: Sequence[Revision]) -> None:
        for revision in revisions:
            await self._store.delete(revision.tenant, revision.point_ids())
            self._catalog.forget(revision)


def _indexed(document: Document, chunk: Chunk) -> str:
    return indexed_text(document.title, chunk.headings, chunk.text)


def _passage(revision: Revision, document: Document, chunk: Chunk, tokens: int) -> Passage:
    return Passage(
        document=revision.document, revision=revision.revision, ordinal=chunk.ordinal, title=document.title,
        source=document.source, modified_s=document.modified_s, headings=chunk.headings, start=chunk.start,
        end=chunk.end, text=chunk.text, tokens=tokens,
    )  # fmt: skip


def _gone(paths: Sequence[Path], found: set[str], failed: Sequence[str], known: dict[str, Known]) -> dict[str, Known]:
    """Known documents below the given paths whose files are no longer there.

    What could not be read this time is not gone: only a file that no longer exists is.
    """
    roots = [os.path.realpath(path) for path in paths]
    return {
        key: entry
        for key, entry in known.items()
        if key not in found
        and any(key == root or key.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
        and not any(key.startswith(failure.rstrip(os.sep) + os.sep) for failure in failed)
        and not os.path.lexists(key)
    }


def _report(name: str, tally: _Tally, skipped: dict[str, int]) -> Report:
    return Report(
        name, tally.added, tally.changed, tally.unchanged, tally.removed, tally.chunks, skipped, tuple(tally.failures)
    )
