"""What answers judged questions: documents in a collection, here, or `operations` in action sets."""

import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.retrieval.judged import JudgedSet, judged_id
from evaluation.retrieval.results import Kind, RankedDocument
from retrieval.index.curves import FOLDER as CURVES
from retrieval.index.index import Index
from retrieval.knowledge import Plan, SearchOptions, SearchRequest
from retrieval.records.search import ALL, Query, Turn
from retrieval.search.retriever import Retriever


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What a search answers to a question."""

    query: Query
    found: Sequence[RankedDocument]  # deeper than a chat's ranking; each document once
    injected: Sequence[str]  # as in a chat: each passage's document, or operations
    ms: float  # for `injected`
    stages_ms: Mapping[str, float]
    relevance: float | None  # probability that the documents answer; None: not estimated


@dataclass(frozen=True, slots=True)
class Subject(ABC):
    """The search under test."""

    index: Index
    judged: JudgedSet
    collection: str
    kind: Kind
    origin: str
    notes: Sequence[str]
    operations: int  # 0: documents are searched

    @abstractmethod
    async def ask(
        self, retriever: Retriever, options: SearchOptions, turns: Sequence[Turn], k: int | None
    ) -> SearchAnswer:
        """Search for a question with a rung's retriever. k: None takes the setting."""


class DocumentSubject(Subject):
    """Documents in a collection."""

    __slots__ = ()

    async def ask(
        self, retriever: Retriever, options: SearchOptions, turns: Sequence[Turn], k: int | None
    ) -> SearchAnswer:
        """Search for passages."""
        start = time.perf_counter()
        injected = await retriever.retrieve(SearchRequest(turns, [self.collection], k=k, view=ALL))
        took_ms = (time.perf_counter() - start) * 1000
        # All candidates of both retrievers: too deep and slow a ranking for a chat.
        ranked = await retriever.retrieve(SearchRequest(turns, [self.collection], k=2 * options.candidates, view=ALL))
        ids = self.judged.ids
        best: dict[str, RankedDocument] = {}  # a document has its first passage's rank
        for hit in ranked.hits:
            id = judged_id(hit.passage.source, ids)
            best.setdefault(id, RankedDocument(id, hit.score, dict(hit.ranks), dict(hit.scores)))
        passages = [judged_id(passage.source, ids) for passage in injected.context.passages]
        return SearchAnswer(
            injected.query, tuple(best.values()), passages, took_ms, injected.timings_ms, injected.relevance
        )


@asynccontextmanager
async def configured_index(plan: Plan) -> AsyncIterator[Index]:
    """The data folder's index."""
    index = await Index.open(plan, serving=False)
    try:
        yield index
    finally:
        await index.close()


@asynccontextmanager
async def temporary_index(plan: Plan, cache: Path) -> AsyncIterator[tuple[Index, Path]]:
    """An empty index and its data folder. cache: folder for vectors kept between runs."""
    with tempfile.TemporaryDirectory(prefix="ragway-eval-", ignore_cleanup_errors=True) as folder:
        index = await Index.open(scratch_plan(plan, Path(folder)), serving=False, scratch=cache)
        try:
            yield index, Path(folder)
        finally:
            await index.close()


def scratch_plan(plan: Plan, folder: Path) -> Plan:
    """A plan for a temporary data folder, with the embedded engine and the real data folder's models."""
    models = Path(plan.data) / "models"
    models.mkdir(parents=True, exist_ok=True)
    (folder / "models").symlink_to(models)
    (folder / CURVES).symlink_to(Path(plan.data) / CURVES)
    return replace(
        plan, data=str(folder), qdrant=replace(plan.qdrant, url=()), search=replace(plan.search, lexical="bm25")
    )
