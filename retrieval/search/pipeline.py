"""Retriever: conversation -> query -> both arms -> fused -> checked against the catalog -> context."""

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from retrieval.catalog import Catalog, Collection
from retrieval.embed import Embedder, Matrix, check_same_model, mix
from retrieval.errors import RetrievalError
from retrieval.knowledge import SearchOptions
from retrieval.records import Hit, Retrieved, Turn, Vector
from retrieval.search.fuse import chosen, fuse, rarest_idf, relevant
from retrieval.search.pack import pack
from retrieval.search.rewrite import rewrite, verbatim
from retrieval.stores.base import Store

_REMEMBERED = 2000  # vectors of texts asked lately: 3 MB at 384 dimensions


class Retriever:
    """Finds passages for a conversation in collections of one store."""

    def __init__(
        self, catalog: Catalog, store: Store, embedder: Embedder, options: SearchOptions, *, probes: Matrix
    ) -> None:
        """probes: what identifies the embedder (`embed.probe`)."""
        self._catalog = catalog
        self._store = store
        self._embedder = embedder
        self._options = options
        self._probes = probes
        self._lately: dict[str, Vector] = {}  # the longest unasked first
        self._sizes: dict[str, int] = {}  # tenant -> its chunks, for those found complete

    async def retrieve(self, turns: Sequence[Turn], collections: Sequence[str], *, k: int | None) -> Retrieved:
        """The best passages for the latest question. k: None takes the setting.

        Raises UnknownCollection, WrongEmbedder, RetrievalError where a collection cannot be searched.
        """
        options = self._options
        clock = _Clock()
        query = rewrite(turns) if options.rewrite else verbatim(turns, reason="rewriting is off")
        clock.lap("rewrite")
        sizes = await self._tenants(collections)
        vectors = await self._embed([text for text, _ in query.vectors])
        vector = mix(vectors, [weight for _, weight in query.vectors])
        clock.lap("embed")
        arms = await self._store.search(list(sizes), vector, query.terms, k=options.candidates)
        clock.lap("search")
        hits = self._only_current(fuse(arms, rrf_k=options.rrf_k))
        min_bm25 = options.min_bm25 * rarest_idf(max(sizes.values(), default=0))
        hits = relevant(hits, min_cosine=options.min_cosine, min_bm25=min_bm25)
        hits = chosen(hits, k=k or options.k)
        clock.lap("fuse")
        context = pack(hits, k=k or options.k, budget_tokens=options.budget_tokens)
        clock.lap("pack")
        return Retrieved(query, tuple(hits[: k or options.k]), context, clock.laps_ms)

    async def _embed(self, texts: Sequence[str]) -> Matrix:
        """The texts' vectors, (n, d): those embedded lately (the turns of a running conversation) from memory."""
        found = {text: self._lately[text] for text in texts if text in self._lately}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            # In a thread: onnxruntime releases the GIL, so that other questions go on meanwhile.
            embedded = zip(new, await asyncio.to_thread(self._embedder.embed_query, new), strict=True)
            found.update(embedded)
        for text, vector in found.items():  # asked again: to the end, so that the longest unasked goes first
            self._lately.pop(text, None)
            self._lately[text] = vector
        while len(self._lately) > _REMEMBERED:
            del self._lately[next(iter(self._lately))]
        return np.stack([found[text] for text in texts])

    async def _tenants(self, collections: Sequence[str]) -> dict[str, int]:
        """Tenant -> number of chunks of each collection. Raises what makes one unsearchable."""
        sizes = {}
        for name in dict.fromkeys(collections):
            row = self._catalog.collection(name)
            check_same_model(row.name, row.embedder, row.probes, self._probes, self._embedder.name)
            sizes[row.tenant] = await self._size(row)
        return sizes

    async def _size(self, row: Collection) -> int:
        """The collection's chunks, once the index was seen to hold them all.

        An index that lost points (deleted, restored from an old copy) must not pass for an empty collection.
        """
        if row.tenant in self._sizes:
            return self._sizes[row.tenant]
        size = self._catalog.chunks(row.name)
        if await self._store.count(row.tenant) < size:
            raise RetrievalError(f"the index of collection {row.name!r} is incomplete: run `ragway rebuild {row.name}`")
        self._sizes[row.tenant] = size
        return size

    def collections_changed(self) -> None:
        """To be called after every ingest and rebuild: what was counted is counted again."""
        self._sizes.clear()

    def _only_current(self, hits: list[Hit]) -> list[Hit]:
        """Without points of revisions being written or already replaced."""
        current = self._catalog.current([hit.passage.document for hit in hits])
        return [hit for hit in hits if current.get(hit.passage.document) == hit.passage.revision]


class _Clock:
    """Milliseconds of each stage, in the order they ran."""

    def __init__(self) -> None:
        self.laps_ms: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps_ms[stage] = round((now - self._last) * 1000, 3)
        self._last = now
