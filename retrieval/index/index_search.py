"""`Search` over an index's vector spaces."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from retrieval.catalog.catalog import Catalog
from retrieval.errors import RetrievalError
from retrieval.index.vector_spaces import VectorSpaces
from retrieval.knowledge import SearchOptions, SearchRequest
from retrieval.records.documents import Passage
from retrieval.records.search import Context, Retrieved
from retrieval.search.explain import merge_traces

_CHECKED = "check"  # a text to embed, and a tenant of no collection (a collection's tenant contains an @)


class IndexSearch:
    """Implements `Search`."""

    def __init__(self, catalog: Catalog, spaces: VectorSpaces, options: SearchOptions) -> None:
        self._catalog = catalog
        self._spaces = spaces
        self._options = options

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        collections, options = request.collections, self._options
        while True:  # a rebuild may replace and empty the generation meanwhile: then search again
            generations = self._generations(collections)
            try:
                by_space = self._spaces.by_space(collections)
                parts = await asyncio.gather(
                    *(space.retriever.retrieve(replace(request, collections=names)) for space, names in by_space)
                )
            except RetrievalError:
                if self._generations(collections) == generations:
                    raise
            else:
                if self._generations(collections) == generations:
                    budget_tokens = options.budget_tokens if request.budget_tokens is None else request.budget_tokens
                    k = request.k or options.k
                    return parts[0] if len(parts) == 1 else merged(parts, k=k, budget_tokens=budget_tokens)

    def _generations(self, collections: Sequence[str]) -> list[int]:
        return [self._catalog.collection(name).generation for name in collections]

    async def passages(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        existing = {row.name for row in self._catalog.collections()}
        spaces = self._spaces.by_space([name for name in collections if name in existing])
        found = await asyncio.gather(*(space.store.read(ids) for space, _ in spaces))
        return {id: passage for passages in found for id, passage in passages.items()}

    async def check(self) -> None:
        for space in self._spaces.searched():
            vector = (await asyncio.to_thread(space.embedder.embed_query, [_CHECKED]))[0]
            await space.store.search([_CHECKED], vector, [], k=1)


def merged(parts: Sequence[Retrieved], *, k: int, budget_tokens: int) -> Retrieved:
    """Answers from several vector spaces, merged: hits by score, passages in turns.

    Fusion scores are comparable between vector spaces with the same arms. Passages go in turns, so a vector space's
    first passage never gives way to another's second.
    """
    hits = sorted((hit for part in parts for hit in part.hits), key=lambda hit: (-hit.score, hit.id))[:k]
    passages: list[Passage] = []
    tokens, dropped = 0, sum(part.context.dropped for part in parts)
    for turn in range(max(len(part.context.passages) for part in parts)):
        for part in parts:
            for passage in part.context.passages[turn : turn + 1]:
                if len(passages) < k and tokens + passage.tokens <= budget_tokens:
                    passages.append(passage)
                    tokens += passage.tokens
                else:
                    dropped += 1
    timings_ms: dict[str, float] = {}
    for part in parts:
        for stage, took_ms in part.timings_ms.items():
            timings_ms[stage] = round(timings_ms.get(stage, 0.0) + took_ms, 3)
    relevances = [part.relevance for part in parts if part.relevance is not None]
    context = Context(tuple(passages), tokens, dropped)
    return replace(
        parts[0],
        hits=tuple(hits),
        context=context,
        timings_ms=timings_ms,
        relevance=max(relevances, default=None),
        trace=merge_traces(parts, context),
    )
