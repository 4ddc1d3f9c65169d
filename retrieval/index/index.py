"""Index: owns the data folder, with the interface `Knowledge`.

The index process serves one `Index` (`rpc.server`); a command without one opens an `Index` directly.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from retrieval.catalog.audit import audited, cleared
from retrieval.catalog.builds import Builds
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.changes import Change
from retrieval.catalog.replicas import Replicas
from retrieval.catalog.writers import Writers
from retrieval.embedding.embed import OnnxEmbedder, check_same_model, label, probe
from retrieval.index import spool
from retrieval.index.completeness import Completeness
from retrieval.index.data_folder import hold, remove_unused_shards, shard_name
from retrieval.index.library import IndexLibrary
from retrieval.index.pairing import Pairing
from retrieval.index.vector_spaces import IndexSearch, Opener, VectorSpaces, choice_of, from_text
from retrieval.index.writing import IndexWriting
from retrieval.knowledge import EmbedderChoice, Plan, SearchOptions
from retrieval.records.points import PointFaults
from retrieval.search.calibration import sentences
from retrieval.search.ranking import curves_of, is_measured
from retrieval.search.rerank import open_reranker
from retrieval.search.retriever import Retriever


class Index:
    """The index in this process. Use its parts: `search`, `library` and `writing`."""

    def __init__(
        self,
        lock: IO[str],
        plan: Plan,
        catalog: Catalog,
        replicas: Replicas,
        writers: Writers,
        opener: Opener,
        spaces: VectorSpaces,
    ) -> None:
        self._lock = lock
        self._catalog = catalog
        self._replicas = replicas
        self._writers = writers
        self._spaces = spaces
        self.curve_problems = opener.curve_problems
        self.writing = IndexWriting(plan, catalog, spaces, writers, opener.removal)
        self.search = IndexSearch(catalog, spaces, plan.search)
        completeness = Completeness(catalog, spaces, on_server=bool(plan.qdrant.url))
        self.library = IndexLibrary(
            catalog, self.writing.jobs, self.writing.job_runner, completeness.problems, self._audit
        )

    @staticmethod
    async def open(plan: Plan, *, serving: bool, scratch: Path | None = None, holder: str | None = None) -> "Index":
        """Lock the data folder and load all parts. serving: a child process reads and embeds files.

        holder: named to others as the folder's holder (default: this process).
        scratch: a folder to keep vectors for the next process; everything else is temporary.
        Raises DataInUse if another process holds it, RetrievalError if a part of it cannot be used.
        """
        data = Path(plan.data)
        lock = hold(data, holder)
        with contextlib.ExitStack() as undone:
            undone.callback(lock.close)
            url = plan.catalog_url if scratch is None else ""  # a temporary index never leaves the data folder
            pairing = None if url or scratch is not None else Pairing(data)
            catalog = Catalog.connect(url) if url else Catalog.open(data / "catalog.sqlite", durable=scratch is None)
            undone.callback(catalog.close)
            if pairing is not None:
                pairing.pair(catalog)
            replicas = Replicas(catalog)
            writers = Writers(catalog, replicas)
            undone.callback(writers.close)
            writers.declare_index(shared=bool(plan.qdrant.url))
            reranker = await open_reranker(plan.search.rerank_model)
            opener = Opener(plan, catalog, writers, reranker, serving=serving, scratch=scratch)
            spaces = VectorSpaces(opener, catalog, await opener.open(choice_of(plan)), pairing)
            index = Index(lock, plan, catalog, replicas, writers, opener, spaces)
            await spaces.open_pinned()
            index._remove_unused(data / "index")
            undone.pop_all()
        await opener.removal.recover_all()
        spool.sweep(data)
        alone = not (catalog.shared and plan.qdrant.url)
        jobs, job_runner = index.writing.jobs, index.writing.job_runner
        for collection in jobs.recover(only_process=alone) if serving else ():
            job_runner.schedule(collection)
        if serving and not alone:
            job_runner.take_over()
        replicas.watch(index._on_changes)
        return index

    def _on_changes(self, changes: Sequence[Change]) -> None:
        """Read other processes' changes from the catalog."""
        self._spaces.collections_changed()
        if any(change.what != "document" for change in changes):
            self.writing.go_on(self._spaces.open_pinned())

    def _remove_unused(self, folder: Path) -> None:
        """Delete stores without a collection; keep all while a build is unfinished."""
        if Builds(self._catalog).unfinished():
            return
        used = {shard_name(row.embedder, row.probes.shape[1]) for row in self._catalog.collections()}
        embedder = self._spaces.configured.embedder
        remove_unused_shards(folder, {shard_name(label(embedder), embedder.dimension), *used})

    def retriever_with(
        self, options: SearchOptions, *, okapi: bool = False, questions: Path | None = None
    ) -> Retriever:
        """Another retriever over the same collections, with empty caches; okapi: with rank-bm25's scores."""
        space = self._spaces.configured
        return space.retriever.with_options(options, okapi=okapi, questions=questions)

    async def sentences(self, collection: str) -> list[tuple[str, str]]:
        """A collection's sentences that `ragway calibrate` asks, each with its point's id."""
        return await sentences(self._catalog, self._spaces.of(collection).store, self._catalog.collection(collection))

    @property
    def int8_questions(self) -> bool:
        """Whether the configured embedder embeds questions in int8."""
        embedder = self._spaces.configured.embedder
        return isinstance(embedder, OnnxEmbedder) and embedder.int8_questions

    @property
    def curve(self) -> str:
        """Where the configured embedder's curve of relevance is from; "" for a built-in one."""
        curves, name = self._spaces.configured.retriever.curves, self._spaces.configured.embedder.name
        if curves is not curves_of(name):
            return f"the curve that `ragway calibrate` fitted for {name}"
        return "" if is_measured(name) else "the default embedder's curve; `ragway calibrate` fits another"

    async def _audit(self, collection: str) -> PointFaults:
        row, space = self._catalog.collection(collection), self._spaces.of(collection)
        probes = await asyncio.to_thread(probe, space.embedder)
        check_same_model(collection, row.embedder, row.probes, probes, label(space.embedder))
        return await audited(
            self._catalog, space.store, row, unfinished=collection in Builds(self._catalog).unfinished()
        )

    async def clear(self, name: str, points: PointFaults) -> None:
        """Delete points without a document, as found by an audit."""
        await cleared(self._spaces.of(name).store, self._catalog.collection(name), points)

    def choice(self, name: str) -> EmbedderChoice | None:
        """The unfinished build's embedder, or the one in use; None: as configured."""
        choice = Builds(self._catalog).embedder(name)
        return from_text(choice) if choice else None

    async def close(self) -> None:
        """Close all stores and unlock the data folder."""
        await self._replicas.close()
        await self.writing.close()
        await self._spaces.configured.retriever.close()
        for space in self._spaces:
            await space.close()
        self._writers.close()
        self._catalog.close()
        self._lock.close()
