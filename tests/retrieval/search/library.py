"""A collection in which a test puts what it likes, and a reranker that says what it likes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection, point_id
from retrieval.embedding.embed import Embedder, probe
from retrieval.knowledge import HitOptions, SearchRequest
from retrieval.lexical.terms import document_vector
from retrieval.records.documents import Document, Passage
from retrieval.records.points import Point
from retrieval.records.search import Hit, Retrieved, Turn
from retrieval.search.rerank import Reranker
from retrieval.search.retriever import Retriever
from retrieval.stores.edge import EdgeStore
from tests.support.plans import plan_for

OPTIONS = replace(
    plan_for(Path("nowhere")).search, rewrite="off", candidates=50, rrf_k=60, min_relevance=0.0, k=3,
    budget_tokens=1000, mode="hybrid", rerank_model="", rerank_candidates=20, rerank_deadline_s=60.0,
    recency_half_life_days=0.0, merge_neighbours=False, neighbours=0, whole_document_tokens=0,
)  # fmt: skip


class Counted(EdgeStore):
    """Counts the passages read."""

    count_read = 0

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        self.count_read += len(ids)
        return await super().read(ids)


class Library:
    """A collection in which a test puts what it likes."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.catalog = Catalog.open(folder / "catalog.sqlite")
        self.store = Counted.open(folder / "shard", vectors={"dense": embedder.dimension})
        self.collection: Collection = self.catalog.create("docs", embedder=embedder.name, probes=probe(embedder))
        self._embedder = embedder

    async def put(
        self,
        texts: Sequence[str],
        *,
        key: str = "page",
        published: bool = True,
        tokens: int = 10,
        modified_s: float = 1.0,
    ) -> None:
        """A document whose chunks are these texts, line by line, already written or about to be."""
        document = Document(f"{key}.md", key, "\n".join(texts), "markdown", modified_s)
        starts = [sum(len(text) + 1 for text in texts[:i]) for i in range(len(texts))]
        staged = self.catalog.stage(
            self.collection, key, document, content_hash="1", recipe="1", chunks=len(texts), generation=1
        )
        vectors = self._embedder.embed_documents(texts)
        points = [
            Point(
                point_id(staged.tenant, staged.document, staged.revision, i),
                Passage(
                    staged.document,
                    staged.revision,
                    i,
                    key,
                    f"{key}.md",
                    modified_s,
                    (),
                    starts[i],
                    starts[i] + len(text),
                    text,
                    tokens,
                ),
                {"dense": np.asarray(vectors[i], np.float32)},
                document_vector(text),
            )
            for i, text in enumerate(texts)
        ]
        await self.store.upsert(staged.tenant, points)
        if published:
            for old in self.catalog.publish(staged):
                await self.store.delete(old.tenant, old.point_ids())
                self.catalog.forget(old)

    def retriever(self, *, reranker: Reranker | None = None, **changes: Any) -> Retriever:
        options = replace(OPTIONS, **changes)
        probes = probe(self._embedder)
        return Retriever(self.catalog, self.store, self._embedder, options, probes=probes, reranker=reranker)

    async def ask(self, question: str, *, k: int | None = None, **changes: Any) -> Retrieved:
        return await self.retriever(**changes).retrieve(SearchRequest([Turn("user", question)], ["docs"], k=k))

    async def look_up(self, question: str, hit_options: HitOptions, **changes: Any) -> tuple[Hit, ...]:
        found = await self.retriever(**changes).retrieve(
            SearchRequest([Turn("user", question)], ["docs"], k=None, hit_options=hit_options)
        )
        return found.hits


class Backwards:
    """Scores texts by their length, the shortest best; or never comes to an end in time."""

    def __init__(self, *, late: bool = False) -> None:
        self.late = late
        self.asked: list[tuple[str, int]] = []

    async def scores(self, question: str, texts: Sequence[str], *, deadline_s: float) -> list[float] | None:
        self.asked.append((question, len(texts)))
        return None if self.late else [1 / (1 + len(text)) for text in texts]

    def close(self) -> None: ...


def texts_of(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.text for hit in hits]


def texts(found: Retrieved) -> list[str]:
    return [passage.text for passage in found.context.passages]
