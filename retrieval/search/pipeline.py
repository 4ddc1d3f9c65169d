"""Retriever: conversation -> query -> both arms -> fused -> read and checked against the catalog -> context."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from retrieval.catalog import Catalog, Collection
from retrieval.embed import Embedder, Matrix, check_same_model, mix
from retrieval.errors import RetrievalError
from retrieval.knowledge import SearchOptions
from retrieval.records import Candidate, Context, Hit, Retrieved, Turn, Vector
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
        options, clock = self._options, _Clock()
        k = k or options.k
        query = rewrite(turns) if options.rewrite else verbatim(turns, reason="rewriting is off")
        clock.lap("rewrite")
        sizes = await self._tenants(collections)
        vectors = await self._embed([text for text, _ in query.vectors])
        vector = mix(vectors, [weight for _, weight in query.vectors])
        clock.lap("embed")
        arms = await self._store.search(list(sizes), vector, query.terms, k=options.candidates)
        clock.lap("search")
        min_bm25 = options.min_bm25 * rarest_idf(max(sizes.values(), default=0))
        fused = relevant(fuse(arms, rrf_k=options.rrf_k), min_cosine=options.min_cosine, min_bm25=min_bm25)
        candidates = chosen(fused, k=k)
        clock.lap("fuse")
        hits, context = await self._packed(candidates, clock, k=k)
        return Retrieved(query, tuple(hits[:k]), context, clock.laps_ms)

    async def _packed(self, candidates: Sequence[Candidate], clock: "_Clock", *, k: int) -> tuple[list[Hit], Context]:
        """The first `k` candidates read and packed; the others are read only where these do not fill the context."""
        hits, left, budget_tokens = [], len(candidates), self._options.budget_tokens
        for part in (candidates[:k], candidates[k:]):
            hits += await self._read(part)
            clock.lap("search")
            context = pack(hits, k=k, budget_tokens=budget_tokens)
            clock.lap("pack")
            left -= len(part)
            if not left or len(context.passages) == k or context.tokens >= budget_tokens:
                break
        return hits, replace(context, dropped=context.dropped + left)

    async def _read(self, candidates: Sequence[Candidate]) -> list[Hit]:
        """The candidates with their passages, without those of revisions being written or already replaced."""
        passages = await self._store.read([one.id for one in candidates]) if candidates else {}
        current = self._catalog.current([passage.document for passage in passages.values()])
        return [
            Hit(one.id, one.score, passage, one.ranks, one.scores)
            for one in candidates
            if (passage := passages.get(one.id)) is not None and current.get(passage.document) == passage.revision
        ]

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
            sizes[row.tenant] = await self._size(row)
        return sizes

    async def _size(self, row: Collection) -> int:
        """The collection's chunks, once the index was seen to hold them all, made by this embedder.

        An index that lost points (deleted, restored from an old copy) must not pass for an empty collection.
        """
        if row.tenant in self._sizes:
            return self._sizes[row.tenant]
        check_same_model(row.name, row.embedder, row.probes, self._probes, self._embedder.name)
        size = self._catalog.chunks(row.name)
        if await self._store.count(row.tenant) < size:
            raise RetrievalError(f"the index of collection {row.name!r} is incomplete: run `ragway rebuild {row.name}`")
        self._sizes[row.tenant] = size
        return size

    def collections_changed(self) -> None:
        """To be called after every ingest and rebuild: what was counted is counted again."""
        self._sizes.clear()


class _Clock:
    """Milliseconds of each stage, in the order they ran."""

    def __init__(self) -> None:
        self.laps_ms: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps_ms[stage] = round(self.laps_ms.get(stage, 0.0) + (now - self._last) * 1000, 3)
        self._last = now
