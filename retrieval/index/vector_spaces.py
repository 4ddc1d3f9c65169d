"""Lanes: each embedder in use with its store, and what writes and searches there.

There is one for the configured embedder. A collection that `reindex` gave another one has that embedder's, until it is
reindexed with the configured one: so a change of embedder needs no moment in which nothing can be searched.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.writers import Writers
from retrieval.embedding.embed import Embedder, label, probe
from retrieval.embedding.export import open_embedder
from retrieval.index.data_folder import open_store
from retrieval.ingest.context import FILE as CONTEXTS
from retrieval.ingest.document_writer import DocumentWriter
from retrieval.ingest.load import Reach
from retrieval.ingest.pipeline import EmbedderIdentity, Ingester
from retrieval.ingest.prepare import InChild, InThread
from retrieval.ingest.removal import Removal, WriteContext
from retrieval.ingest.splitting import EmbedderLimits, Recipe
from retrieval.knowledge import EmbedderChoice, Lookup, Plan
from retrieval.records.documents import Passage
from retrieval.records.search import Context, Retrieved, Turn, View
from retrieval.rpc.client import decode
from retrieval.search.explain import explained_together
from retrieval.search.pipeline import Retriever
from retrieval.search.rerank import Reranker
from retrieval.stores.base import Store


@dataclass(frozen=True, slots=True)
class Lane:
    """One embedder and what goes with it."""

    key: str  # of the embedder: `as_text` of its choice
    embedder: Embedder
    store: Store
    preparation: InThread | InChild
    ingester: Ingester
    document_writer: DocumentWriter
    retriever: Retriever

    async def close(self) -> None:
        await self.preparation.close()
        await self.store.close()


class Opener:
    """Opens lanes over one catalog. scratch: a folder in which vectors are kept for the next process."""

    def __init__(
        self,
        plan: Plan,
        catalog: Catalog,
        writers: Writers,
        reranker: Reranker | None,
        *,
        serving: bool,
        scratch: Path | None,
    ) -> None:
        self._plan, self._catalog, self._reranker = plan, catalog, reranker
        self._serving, self._scratch = serving, scratch
        self.shared = WriteContext(writers)
        self.removal = Removal(catalog, self.shared)  # from all stores that are opened

    async def open(self, choice: EmbedderChoice) -> Lane:
        """The lane of that embedder, which is prepared where it was never used. Raises RetrievalError."""
        plan, catalog, key = chosen(self._plan, choice), self._catalog, as_text(choice)
        recipe = recipe_of(plan, self._scratch)
        embedder = await asyncio.to_thread(
            open_embedder,
            plan.model,
            backend=plan.backend,
            threads=plan.threads,
            cache=recipe.cache,
            options=plan.embedding,
        )
        probes = await asyncio.to_thread(probe, embedder)
        store = await open_store(plan, label(embedder), embedder.dimension, serving=self._serving)
        preparation = (InChild if self._serving else InThread)(recipe, EmbedderLimits.of(embedder), plan.reading)
        self.shared.stores.append(store)
        ingester = Ingester(
            catalog,
            store,
            preparation,
            model=EmbedderIdentity(label(embedder), probes, key),
            recipe=recipe,
            reach=Reach(plan.max_file_bytes, plan.follow_links),
            shared=self.shared,
        )
        document_writer = DocumentWriter(catalog, ingester, preparation, recipe=recipe, max_bytes=plan.max_file_bytes)
        retriever = Retriever(catalog, store, embedder, plan.search, probes=probes, reranker=self._reranker)
        await retriever.warm()
        return Lane(key, embedder, store, preparation, ingester, document_writer, retriever)


def recipe_of(plan: Plan, scratch: Path | None) -> Recipe:
    """How this plan makes points of documents."""
    data = Path(plan.data)
    return Recipe(
        plan.model,
        plan.backend,
        data / "models",
        plan.chunk_tokens,
        plan.overlap_tokens,
        plan.chunking,
        scratch,
        plan.enrichments,
        plan.context_tokens,
        data / CONTEXTS,
        plan.language,
        plan.languages,
        plan.embedding,
        plan.neighbour_weight,
    )


def choice_of(plan: Plan) -> EmbedderChoice:
    """The configured embedder."""
    options = plan.embedding
    return EmbedderChoice(
        plan.model,
        plan.backend,
        options.precision,
        options.query_prompt,
        options.document_prompt,
        options.api_base,
        options.dimensions,
    )


def chosen(plan: Plan, choice: EmbedderChoice) -> Plan:
    """The plan with that embedder. A key is only ever sent to the address it is configured for."""
    options = replace(
        plan.embedding,
        precision=choice.precision,
        query_prompt=choice.query_prompt,
        api_base=choice.api_base,
        document_prompt=choice.document_prompt,
        dimensions=choice.dimensions,
        api_key=plan.embedding.api_key if choice.api_base == plan.embedding.api_base else "",
    )
    return replace(plan, model=choice.model, backend=choice.backend, embedding=options)


def as_text(choice: EmbedderChoice) -> str:
    """For the catalog; `from_text` reads it."""
    return orjson.dumps(asdict(choice), option=orjson.OPT_SORT_KEYS).decode()


def from_text(text: str) -> EmbedderChoice:
    choice: EmbedderChoice = decode(EmbedderChoice, orjson.loads(text))
    return choice


async def found_in(
    lanes: Sequence[tuple[Lane, Sequence[str]]],
    turns: Sequence[Turn],
    *,
    k: int,
    budget_tokens: int,
    view: View,
    lookup: Lookup | None,
    traced: bool,
) -> Retrieved:
    """What is found in collections of one lane or several, see `Knowledge.retrieve`."""
    parts = await asyncio.gather(
        *(
            lane.retriever.retrieve(
                turns, names, k=k, budget_tokens=budget_tokens, view=view, lookup=lookup, traced=traced
            )
            for lane, names in lanes
        )
    )
    if len(parts) == 1:
        return parts[0]
    return merged(parts, k=k, budget_tokens=budget_tokens)


def merged(parts: Sequence[Retrieved], *, k: int, budget_tokens: int) -> Retrieved:
    """What several lanes found, as one answer: their hits by score, and their passages in turns.

    Scores of one fusion are comparable where the arms are the same; a lane's first passage is what it would have shown
    alone, so none is left out for the other's second.
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
        trace=explained_together(parts, context),
    )
