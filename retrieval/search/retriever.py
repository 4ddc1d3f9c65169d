"""Retriever: conversation -> query -> both arms -> fused -> read and checked against the catalog -> context.

`Retriever.retrieve` runs the stages in order; each stage is a module beside this one: rewrite, (embed, search,)
ranking, recency, rerank, pack, expand. Every stage after ranking is a setting, off by default except joining
neighbours. `Retriever`'s methods follow this order.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from retrieval.catalog.audit import check_there
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection, collection_of
from retrieval.embedding.embed import Embedder, Matrix, QueryBatcher, check_same_model, label
from retrieval.embedding.vector_cache import CachedQueryEmbedder
from retrieval.knowledge import HitOptions, SearchOptions, SearchRequest
from retrieval.lexical.terms import exact_terms
from retrieval.records.documents import Groups, Passage, lexical_text
from retrieval.records.points import Vector
from retrieval.records.search import Candidate, Context, Hit, Query, Retrieved, ScoredId, Turn, View
from retrieval.records.traces import Fate, SearchedCollection, Trace
from retrieval.search.expand import Expander
from retrieval.search.okapi import OkapiArm
from retrieval.search.pack import Repeats, pack_with_fates
from retrieval.search.ranking import (
    NullDistribution,
    RelevantCandidates,
    exact_match_first,
    explain,
    fuse,
    guarantee_arms,
    keep_relevant,
    null_distribution,
    score_scale,
)
from retrieval.search.recency import recent_first
from retrieval.search.rerank import TOO_LATE, Reranker, rerank
from retrieval.search.rewrite import (
    SURE_RELEVANCE,
    history_similarity,
    interleave,
    latest_question,
    query_as_asked,
    rewrite,
    variants,
    verbatim,
)
from retrieval.stores.base import Store

_WHOLE = "whole collection"
_EXACT_PER_K = 2  # candidates read per passage wanted (k) when a question has exact terms


class Retriever:
    """Finds passages for a conversation in one store's collections."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        embedder: Embedder,
        options: SearchOptions,
        *,
        probes: Matrix,
        reranker: Reranker | None = None,
        okapi: OkapiArm | None = None,
    ) -> None:
        """probes: vectors that identify the embedder (`embed.probe`). reranker: used if `options` names a model.

        okapi: searches words in place of the store's own lexical arm.
        """
        self._catalog = catalog
        self._store = store
        self._embedder = embedder
        if options.mode in ("dense", "bm25"):
            options = replace(options, arms=options.mode)
        self._options = options
        self._probes = probes
        self._reranker = reranker if options.rerank_model else None
        self._loaded_reranker = reranker
        self._okapi = okapi
        self._expander = Expander(catalog, store, options)
        self._questions = QueryBatcher(embedder)
        self._sizes: dict[tuple[str, Groups], int] = {}  # tenant and reader's groups -> chunks
        self._null: NullDistribution | None = None  # measured at the first question
        self._by_options: dict[SearchOptions, Retriever] = {}  # retrievers made for hit options

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        """The view's best passages for the latest question.

        With `hit_options`, hits have their surroundings and the context stays as packed. Raises UnknownCollection,
        WrongEmbedder, RetrievalError if a collection cannot be searched.
        """
        turns, hit_options = request.turns, request.hit_options
        if hit_options is not None and (retriever := self._for_hit_options(hit_options)) is not self:
            return await retriever.retrieve(request)
        options, clock = self._options, _StageClock()
        k = request.k or options.k
        budget_tokens = options.budget_tokens if request.budget_tokens is None else request.budget_tokens
        scope = await self._scope(request.collections, request.view)
        if options.mode == "whole" and (context := await self._whole(scope, budget_tokens=budget_tokens)):
            clock.lap("pack")
            trace = Trace(scope.searched) if request.traced else None
            return Retrieved(verbatim(turns, reason=_WHOLE), (), context, clock.laps_ms, trace=trace)

        query, relevant = await self._rewrite_and_search(turns, scope, clock)
        reader = _HitReader(self._catalog, self._store, query.text)
        candidates = await self._in_reading_order(query, relevant.candidates, reader, k=k)
        clock.lap("fuse")
        packed = await self._pack(query, candidates, reader, clock, k=k, budget_tokens=budget_tokens)
        hits, context, notes = packed.hits, packed.context, packed.notes
        tenants, whole = list(scope.sizes), None
        if hit_options is not None:
            hits = await self._expander.with_surroundings(
                hits[:k], tenants, neighbours=hit_options.neighbours, whole=hit_options.whole
            )
        elif options.mode == "auto" and hits and (whole := await self._whole(scope, budget_tokens=budget_tokens)):
            context, notes = whole, [*notes, _WHOLE]
        else:
            context = await self._expander.expand(context, hits, tenants, budget_tokens=budget_tokens)
        clock.lap("pack")

        trace = None
        if request.traced:
            trace = explain(scope.searched, relevant, packed.candidates, packed.hits, packed.fates, context)
        query = replace(query, reason=", ".join([query.reason, *notes]))
        relevance = relevant.relevance
        if hit_options is not None and hit_options.least_chunks > 1:
            sizes = {tenant: max(size, hit_options.least_chunks) for tenant, size in scope.sizes.items()}
            relevance = relevant.relevance_among(sizes)
        return Retrieved(query, tuple(hits[:k]), context, clock.laps_ms, relevance, trace)

    # --- the options, and the collections to search ------------------------------------------------------------------

    def _for_hit_options(self, hit_options: HitOptions) -> "Retriever":
        """A retriever with these options: self or a cached one. Query embeddings are shared."""
        options = self._options
        mode = hit_options.mode or ("hybrid" if options.mode == "whole" else options.mode)  # mode whole returns no hits
        if mode != options.mode:
            options = replace(options, mode=mode, arms="both")
        if not hit_options.rerank:
            options = replace(options, rerank_model="")
        if hit_options.min_relevance is not None:
            options = replace(options, min_relevance=hit_options.min_relevance)
        if hit_options.candidates is not None:
            options = replace(options, candidates=hit_options.candidates)
        if options == self._options:
            return self
        if options not in self._by_options:
            retriever = self.with_options(options)
            retriever._questions = self._questions
            if mode != "bm25":  # the mode bm25 needs no null distribution
                retriever._null = self._null
            self._by_options[options] = retriever
        return self._by_options[options]

    def with_options(
        self,
        options: SearchOptions,
        store: Store | None = None,
        questions: Path | None = None,
        *,
        okapi: bool | None = None,
    ) -> "Retriever":
        """A new retriever over the same collections, with empty caches; store: None takes this one's.

        questions: a folder that keeps question vectors. okapi: None takes this retriever's lexical arm.
        """
        arm = OkapiArm(self._catalog, store or self._store) if okapi else None
        embedder = CachedQueryEmbedder(self._embedder, questions) if questions else self._embedder
        return Retriever(
            self._catalog,
            store or self._store,
            embedder,
            options,
            probes=self._probes,
            reranker=self._loaded_reranker,
            okapi=self._okapi if okapi is None else arm,
        )

    async def _scope(self, collections: Sequence[str], view: View) -> "_Scope":
        """What to search. Raises if a collection cannot be searched."""
        sizes, searched = {}, []
        for name in dict.fromkeys(collections):
            row = self._catalog.collection(name)
            await self.check(row)
            key = row.tenant, view.groups
            if key not in self._sizes:
                self._sizes[key] = self._catalog.chunks(name, view.groups)
            sizes[row.tenant] = self._sizes[key]
            searched.append(SearchedCollection(row.name, row.generation, row.embedder, row.language))
        return _Scope(sizes, view, tuple(searched))

    async def check(self, row: Collection) -> None:
        """Check once that the index holds a whole collection, embedded by this embedder.

        An index that lacks points (deleted, restored from an old copy, of another collection) must not pass for an
        empty collection.
        """
        if row.tenant in self._store.verified:
            return
        check_same_model(row.name, row.embedder, row.probes, self._probes, label(self._embedder))
        await check_there(self._catalog, self._store, row)
        self._store.verified.add(row.tenant)

    async def _whole(self, scope: "_Scope", *, budget_tokens: int) -> Context | None:
        return await self._expander.whole_collections(scope.sizes, scope.view, budget_tokens=budget_tokens)

    # --- rewrite, embed, search, fuse --------------------------------------------------------------------------------

    async def _rewrite_and_search(
        self, turns: Sequence[Turn], scope: "_Scope", clock: "_StageClock"
    ) -> tuple[Query, RelevantCandidates]:
        """The latest question, rewritten if the setting asks and it needs history, with its candidates."""
        if self._options.rewrite == "off":
            query = verbatim(turns, reason="rewriting is off")
            return query, await self._candidates(query, scope, clock)
        latest = latest_question(turns)
        query = query_as_asked(latest)
        clock.lap("rewrite")
        relevant = await self._candidates(query, scope, clock)
        if not latest.history or relevant.relevance > SURE_RELEVANCE:
            return query, relevant
        vectors = await self._questions.vectors([latest.question, *(text for text, _ in latest.history)])
        clock.lap("embed")
        query = rewrite(latest, history_similarity(vectors, self._probes))
        clock.lap("rewrite")
        return query, await self._candidates(query, scope, clock) if len(query.vectors) > 1 else relevant

    async def _candidates(self, query: Query, scope: "_Scope", clock: "_StageClock") -> RelevantCandidates:
        """Both arms' fused candidates, and how probably the best one answers the question."""
        options = self._options
        arms = await self._search(query, scope, clock)
        scale = score_scale(await self._null_distribution(), scope.sizes, query.terms)
        fused = fuse(arms, rrf_k=options.rrf_k, scale=scale)
        relevant = keep_relevant(fused, scale, min_relevance=options.min_relevance)
        clock.lap("fuse")
        return relevant

    async def _search(self, query: Query, scope: "_Scope", clock: "_StageClock") -> Mapping[str, Sequence[ScoredId]]:
        """Points found by each arm, for the query and for each question in it."""
        queries = variants(query) if query.parts else [query]
        vectors = await self._vectors(queries)
        clock.lap("embed")
        pairs = zip(queries, vectors, strict=True)
        found = await asyncio.gather(*[self._search_arms(query, vector, scope) for query, vector in pairs])
        arms = interleave(found) if query.parts else found[0]
        clock.lap("search")
        return arms

    async def _vectors(self, queries: Sequence[Query]) -> Sequence[Vector | None]:
        """Each query's dense query; None if only BM25 searches, or if the embedder knows none of its words."""
        if self._options.arms == "bm25":
            return [None] * len(queries)
        return await self._questions.mixed([query.vectors for query in queries])

    async def _search_arms(
        self, query: Query, vector: Vector | None, scope: "_Scope"
    ) -> Mapping[str, Sequence[ScoredId]]:
        """Each arm's points; in mode `sequential` the dense arm sorts the lexical arm's points."""
        options, tenants = self._options, list(scope.sizes)
        terms = query.terms if options.arms != "dense" else ()
        k, view, sequential = options.candidates, scope.view, options.mode == "sequential"
        of_store = () if self._okapi else terms
        arms = await self._store.search(tenants, None if sequential else vector, of_store, k=k, view=view)
        if self._okapi is not None:
            arms = {**arms, "bm25": await self._okapi.search(tenants, terms, k=k, view=view)}
        if sequential and vector is not None:
            vectors = await self._store.vectors([point.id for point in arms["bm25"]])
            scored = [ScoredId(id, float(vector @ stored)) for id, stored in vectors.items()]
            arms = {**arms, "dense": sorted(scored, key=lambda point: (-point.score, point.id))}
        return arms

    async def _null_distribution(self) -> NullDistribution:
        """The embedder's cosines of unrelated texts, measured once; a constant if only BM25 searches."""
        if self._null is None:
            if self._options.arms == "bm25":
                return NullDistribution(0.0, 1.0)
            self._null = await asyncio.to_thread(null_distribution, self._embedder)
        return self._null

    # --- order the candidates before reading -------------------------------------------------------------------------

    async def _in_reading_order(
        self, query: Query, fused: Sequence[Candidate], reader: "_HitReader", *, k: int
    ) -> Sequence[Candidate]:
        """Candidates in reading order: those with the question's exact terms first, then the context's `k` in front."""
        options, sequential = self._options, self._options.mode == "sequential"
        terms = exact_terms(query.text) if options.arms != "dense" else ()
        if terms:  # most questions have none
            passages = await reader.passages(fused[: _EXACT_PER_K * k])
            texts = {id: lexical_text(one.title, one.headings, one.text) for id, one in passages.items()}
            fused = exact_match_first(fused, texts, terms) if texts else fused
        if sequential:
            fused = [replace(candidate, score=max(0.0, candidate.scores.get("dense", 0.0))) for candidate in fused]
            fused = sorted(fused, key=lambda candidate: -candidate.score)
        if options.recency_half_life_days and fused:
            passages = await reader.passages(fused)
            times = {id: passage.modified_s for id, passage in passages.items()}
            fused = recent_first(fused, times, now_s=time.time(), half_life_days=options.recency_half_life_days)
        return fused if sequential else guarantee_arms(fused, k=k)

    # --- read, rerank, pack ------------------------------------------------------------------------------------------

    async def _pack(
        self,
        query: Query,
        candidates: Sequence[Candidate],
        reader: "_HitReader",
        clock: "_StageClock",
        *,
        k: int,
        budget_tokens: int,
    ) -> "_Packed":
        """Read, reorder and pack the first candidates; read more only while the context has room."""
        options = self._options
        lead = max(k, options.rerank_candidates if self._reranker else 0)
        hits, rest, repeats = await reader.hits(candidates[:lead]), candidates[lead:], reader.repeats
        while repeats.fates and rest and len(hits) < lead:
            hits += await reader.hits(rest[:lead])
            rest = rest[lead:]
        clock.lap("search")
        hits, notes = await self._reorder(query, hits, clock)
        while True:
            context, fates = pack_with_fates(
                hits, k=k, budget_tokens=budget_tokens, merge=options.merge_neighbours, question=query.text
            )
            if not rest or len(context.passages) >= k or context.tokens >= budget_tokens:
                context = replace(context, dropped=context.dropped + len(repeats.fates) + len(rest))
                fates = {**repeats.fates, **fates}
                if copies := list(fates.values()).count("duplicate"):
                    notes = [*notes, f"{copies} {'copy' if copies == 1 else 'copies'} left out"]
                return _Packed(hits, context, notes, fates, candidates[: len(candidates) - len(rest)])
            # Some hits were copies, or too long for the budget.
            clock.lap("pack")
            hits += await reader.hits(rest[:k])
            rest = rest[k:]
            clock.lap("search")

    async def _reorder(self, query: Query, hits: list[Hit], clock: "_StageClock") -> tuple[list[Hit], list[str]]:
        """Hits as ordered by reranker and recency, and notes for the query's reason."""
        options, notes = self._options, []
        if self._reranker is not None and hits:
            count = options.rerank_candidates
            reranked = await rerank(
                self._reranker, query.text, hits, candidates=count, deadline_s=options.rerank_deadline_s
            )
            if reranked is None:
                notes.append(TOO_LATE)
            else:
                hits = reranked
                if options.recency_half_life_days:
                    times = {hit.id: hit.passage.modified_s for hit in hits}
                    half_life = options.recency_half_life_days
                    hits = recent_first(hits[:count], times, now_s=time.time(), half_life_days=half_life) + hits[count:]
            clock.lap("rerank")
        return hits, notes

    # --- for the owner -----------------------------------------------------------------------------------------------

    async def warm(self) -> None:
        """Prepare what every question needs."""
        await self._null_distribution()

    async def close(self) -> None:
        """Close the reranker, also for retrievers made by `with_options`."""
        if self._loaded_reranker is not None:
            await asyncio.to_thread(self._loaded_reranker.close)

    def collections_changed(self, collection: str | None = None) -> None:
        """Forget one collection's counts, or all. Call after every ingest and rebuild."""
        verified = self._store.verified
        verified -= {tenant for tenant in verified if collection in (None, collection_of(tenant))}
        self._sizes = {
            key: size for key, size in self._sizes.items() if collection not in (None, collection_of(key[0]))
        }
        self._expander.collections_changed()
        for retriever in self._by_options.values():
            retriever.collections_changed(collection)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Tenants and documents that a question searches."""

    sizes: Mapping[str, int]  # tenant -> readable chunks
    view: View
    searched: tuple[SearchedCollection, ...]


@dataclass(frozen=True, slots=True)
class _Packed:
    """A context, and its hits and candidates."""

    hits: list[Hit]
    context: Context
    notes: list[str]  # about the order, for the query's reason
    fates: Mapping[str, Fate]
    candidates: Sequence[Candidate]  # all candidates requested from the store; some no longer exist


class _HitReader:
    """Reads one question's candidates, each once, and checks them against the catalog."""

    def __init__(self, catalog: Catalog, store: Store, question: str) -> None:
        self.repeats = Repeats(question)
        self._catalog = catalog
        self._store = store
        self._read: dict[str, Passage] = {}

    async def passages(self, candidates: Sequence[Candidate]) -> Mapping[str, Passage]:
        """Id -> passage, of at least these candidates."""
        unread = [candidate.id for candidate in candidates if candidate.id not in self._read]
        if unread:
            self._read.update(await self._store.read(unread))
        return self._read

    async def hits(self, candidates: Sequence[Candidate]) -> list[Hit]:
        """Candidates with their passages: no unfinished or replaced revisions, and none that better ones show."""
        passages = await self.passages(candidates)
        documents = {id: passage.document for id, passage in passages.items()}
        current = self._catalog.current(documents.values())
        newer = {
            passage.document for passage in passages.values() if current.get(passage.document, 0) < passage.revision
        }
        if newer and self._catalog.shared:  # being written, or just published by another process
            await asyncio.to_thread(self._catalog.reload, sorted(newer))
            current = self._catalog.current(documents.values())
        found = [
            Hit(candidate.id, candidate.score, passage, candidate.ranks, candidate.scores)
            for candidate in candidates
            if (passage := passages.get(candidate.id)) is not None and current.get(passage.document) == passage.revision
        ]
        return self.repeats.without(found, self._catalog.fingerprints(documents.values()))


class _StageClock:
    """Milliseconds of each stage, in order."""

    def __init__(self) -> None:
        self.laps_ms: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps_ms[stage] = round(self.laps_ms.get(stage, 0.0) + (now - self._last) * 1000, 3)
        self._last = now
