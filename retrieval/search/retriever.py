"""Retriever: conversation -> query -> both arms -> fused -> read and checked against the catalog -> context.

`Retriever.retrieve` runs the stages in order; each stage is a module beside this one: rewrite, (embed, search,)
ranking, recency, rerank, pack, expand. Every stage after ranking is a setting, off by default except joining
neighbours. `Retriever`'s methods follow this order.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from retrieval.catalog.audit import check_there
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection, collection_of
from retrieval.embedding.embed import Embedder, Matrix, QueryBatcher, check_same_model, embeds_alone, label
from retrieval.embedding.export import DEFAULT_MODEL, OTHER_LANGUAGES
from retrieval.embedding.vector_cache import CachedQueryEmbedder
from retrieval.knowledge import Arms, HitOptions, SearchOptions, SearchRequest
from retrieval.lexical.terms import ExactTerm, exact_terms, in_other_language, query_vectors
from retrieval.records.documents import Groups, Passage, is_reserved, lexical_text
from retrieval.records.points import Sparse, Vector
from retrieval.records.search import ALL, Candidate, Context, Hit, Query, Retrieved, ScoredId, Turn, View
from retrieval.records.traces import Fate, SearchedCollection, Trace
from retrieval.search.expand import Expander
from retrieval.search.okapi import OkapiArm
from retrieval.search.pack import Repeats, pack_with_fates, unsaid_first
from retrieval.search.ranking import (
    UNRELATED_QUESTIONS,
    Curves,
    NullDistribution,
    RelevantCandidates,
    Scale,
    curves_of,
    evidence,
    evidence_less_noise,
    exact_match_first,
    explain,
    fuse,
    keep_relevant,
    null_distribution,
    score_scale,
)
from retrieval.search.recency import recent_first
from retrieval.search.rerank import TOO_LATE, Reranker, rerank
from retrieval.search.rewrite import (
    history_similarity,
    interleave,
    latest_question,
    query_as_asked,
    rewrite,
    variants,
    verbatim,
)
from retrieval.stores.base import Store

log = logging.getLogger("ragway")
_WHOLE = "whole collection"
_OTHER_LANGUAGE = "not in the documents' language"
_EXACT_PER_K = 2  # candidates read per passage wanted (k) when a question has exact terms
_CHANGED_SHARE = 0.1  # of a collection's chunks: until so many are new or gone, its noise is not measured again
_MOST_NOISES = 1000  # kept, by searched collections and reader's groups


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
        self.curves = curves_of(embedder.name)
        self._reranker = reranker if options.rerank_model else None
        self._loaded_reranker = reranker
        self._okapi = okapi
        self._expander = Expander(catalog, store, options)
        self._questions = QueryBatcher(embedder, alone=embeds_alone(embedder))
        self._parts: dict[tuple[str, Groups], _Part] = {}  # by collection and reader's groups
        self._rows_dropped = 0  # by the catalog, as of these parts
        self._null: NullDistribution | None = None  # measured at the first question
        self._noises: dict[_Searched, tuple[int, asyncio.Task[float]]] = {}  # with chunks; shared by hit options
        self._by_options: dict[SearchOptions, Retriever] = {}  # retrievers made for hit options
        self._warned_of: set[str] = set()  # collections asked in another language

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

        found = await self._rewrite_and_search(turns, scope, clock)
        query, relevant = found.query, found.relevant
        reader = _HitReader(self._catalog, self._store, clock)
        candidates = relevant.candidates
        if found.exact or options.recency_half_life_days or options.mode == "sequential":
            candidates = await self._reordered(found, reader, k=k)
        clock.lap("fuse")
        packed = await self._pack(query, candidates, reader, clock, k=k, budget_tokens=budget_tokens)
        if hit_options is None:
            # Not within a deeper `k`: far behind, a passage asked for again is as good as dropped.
            packed = _unsaid_first(packed, turns, k=min(k, options.k))
        hits, context, notes = packed.hits, packed.context, packed.notes
        tenants, whole = list(scope.sizes), None
        if hit_options is not None:
            hits = hits[:k]
            if hit_options.neighbours or hit_options.whole:
                hits = await self._expander.with_surroundings(
                    hits, tenants, neighbours=hit_options.neighbours, whole=hit_options.whole
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
            relevance = relevant.relevance_among(scope.sizes, hit_options.least_chunks)
        return Retrieved(
            query,
            tuple(hits[:k]),
            context,
            clock.laps_ms,
            relevance,
            trace,
            self._note(request, relevant, scope),
        )

    def _note(self, request: SearchRequest, found: RelevantCandidates, scope: "_Scope") -> str:
        """Says that a chat's question is in another language than the documents, if the embedder knows only English.

        Logged once for each collection. Nothing is said if a passage surely answers.
        """
        if self._embedder.name != DEFAULT_MODEL or found.sure or scope.reserved or request.hit_options is not None:
            return ""
        question = request.turns[-1].text
        if not in_other_language(question, {one.language for one in scope.searched}):
            return ""
        if new := {one.name for one in scope.searched} - self._warned_of:
            self._warned_of |= new
            log.warning(
                "a question for %s is in another language, and %s is made for English; %s",
                ", ".join(sorted(new)),
                DEFAULT_MODEL,
                OTHER_LANGUAGES,
            )
        return _OTHER_LANGUAGE

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
            retriever._questions, retriever._noises = self._questions, self._noises
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
        retriever = Retriever(
            self._catalog,
            store or self._store,
            embedder,
            options,
            probes=self._probes,
            reranker=self._loaded_reranker,
            okapi=self._okapi if okapi is None else arm,
        )
        retriever.curves = self.curves
        return retriever

    def for_arms(self, arms: Arms) -> "Retriever":
        """A retriever in mode hybrid that searches these arms; question embeddings are shared."""
        retriever = self.with_options(replace(self._options, mode="hybrid", arms=arms))
        retriever._questions, retriever._null = self._questions, self._null
        return retriever

    def use_curves(self, curves: Curves) -> None:
        """Estimate relevance by these from now on."""
        self.curves = curves
        for retriever in self._by_options.values():
            retriever.use_curves(curves)

    async def _scope(self, collections: Sequence[str], view: View) -> "_Scope":
        """What to search. Raises if a collection cannot be searched."""
        if self._rows_dropped != self._catalog.rows_dropped:
            self._parts, self._rows_dropped = {}, self._catalog.rows_dropped
        sizes, searched, reserved = {}, [], False
        for name in dict.fromkeys(collections):
            part = self._parts.get((name, view.groups))
            if part is None or part.tenant not in self._store.verified:
                part = self._parts[name, view.groups] = await self._part(name, view.groups)
            sizes[part.tenant] = part.chunks
            searched.append(part.searched)
            reserved = reserved or part.reserved
        return _Scope(sizes, view, tuple(searched), reserved)

    async def _part(self, collection: str, groups: Groups) -> "_Part":
        row = self._catalog.collection(collection)
        await self.check(row)
        searched = SearchedCollection(row.name, row.generation, row.embedder, row.language)
        return _Part(row.tenant, self._catalog.chunks(collection, groups), searched, is_reserved(row.name))

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

    async def _rewrite_and_search(self, turns: Sequence[Turn], scope: "_Scope", clock: "_StageClock") -> "_Found":
        """The latest question, rewritten if the setting asks and it needs history, with its candidates."""
        if self._options.rewrite == "off":
            return await self._candidates(verbatim(turns, reason="rewriting is off"), scope, clock)
        latest = latest_question(turns)
        query = query_as_asked(latest)
        clock.lap("rewrite")
        found = await self._candidates(query, scope, clock)
        if not latest.history or found.relevant.sure:
            return found
        clock.lap("fuse")
        vectors = await self._questions.vectors([latest.question, *(text for text, _ in latest.history)])
        clock.lap("embed")
        query = rewrite(latest, history_similarity(vectors, self._probes))
        clock.lap("rewrite")
        if len(query.vectors) > 1:
            return await self._candidates(query, scope, clock)
        return replace(found, query=query, exact=exact_terms(query.text) if self._options.arms != "dense" else ())

    async def _candidates(self, query: Query, scope: "_Scope", clock: "_StageClock") -> "_Found":
        """Both arms' relevant candidates, for the query and for each question in it."""
        noise = await self._noise(scope)
        fused, scale, exact = await self._fused(query, scope, clock)
        scale = replace(scale, noise=noise, curves=self.curves)
        relevant = keep_relevant(fused, scale, min_relevance=self._options.min_relevance)
        if not relevant.candidates and self._knows_more_than_the_words(query, scope):
            return await self._for_hit_options(HitOptions("dense"))._candidates(query, scope, clock)
        return _Found(query, exact, relevant)

    def _knows_more_than_the_words(self, query: Query, scope: "_Scope") -> bool:
        """Whether vectors alone may find an answer: to a question in another language, of which BM25 knows no word."""
        if self._options.arms != "both" or self._embedder.name == DEFAULT_MODEL or scope.reserved:
            return False
        return in_other_language(query.vectors[0][0], {one.language for one in scope.searched})

    async def evidence(self, question: str, collection: str, *, without: str = "") -> float:
        """The best candidate's evidence, noise subtracted, in a whole collection. without: a point left out."""
        scope = await self._scope([collection], ALL)
        noise = await self._noise(scope)
        fused, scale, _ = await self._fused(verbatim([Turn("user", question)], reason=""), scope, _StageClock())
        found = evidence_less_noise(fused, replace(scale, noise=noise))
        return max([one for point, one in zip(fused, found, strict=True) if point.id != without], default=0.0)

    async def _fused(
        self, query: Query, scope: "_Scope", clock: "_StageClock"
    ) -> tuple[Sequence[Candidate], Scale, Sequence[ExactTerm]]:
        """Both arms' fused candidates, the scale of their scores, and the query's exact terms."""
        options, tenants, null = self._options, list(scope.sizes), await self._null_distribution()
        queries = variants(query) if query.parts else [query]
        vectors = await self._vectors(queries)
        clock.lap("embed")
        words: list[Mapping[str, Sparse]] = [{}] * len(queries)
        exact: Sequence[ExactTerm] = ()
        if options.arms != "dense":
            words = [query_vectors(tenants, one.terms) for one in queries]
            exact = exact_terms(query.text)
        calls = [self._search_arms(scope, *pair) for pair in zip(words, vectors, strict=True)]
        searches = await asyncio.gather(*calls) if query.parts else [await calls[0]]
        clock.lap("search")
        scale = score_scale(null, scope.sizes, words[0], options.arms)
        fused = fuse(interleave(searches) if query.parts else searches[0], rrf_k=options.rrf_k, scale=scale)
        return fused, scale, exact

    async def _noise(self, scope: "_Scope") -> float:
        """The evidence that unrelated questions find in these collections, measured once for their size."""
        if scope.reserved:
            return 0.0  # operations have thresholds of their own
        sequential, chunks = self._options.mode == "sequential", sum(scope.sizes.values())
        key = _Searched(self._options.arms, sequential, frozenset(scope.sizes), scope.view.groups)
        known = self._noises.get(key)
        if known is None or abs(chunks - known[0]) > _CHANGED_SHARE * known[0] or _failed(known[1]):
            while len(self._noises) >= _MOST_NOISES:
                del self._noises[next(iter(self._noises))]
            everything = replace(scope, view=View(scope.view.groups))
            known = self._noises[key] = chunks, asyncio.create_task(self._measured_noise(everything))
        return await asyncio.shield(known[1])  # a chat that runs out of time leaves it to the next

    async def _measured_noise(self, scope: "_Scope") -> float:
        """The mean evidence of unrelated questions' best candidates. 16 searches."""
        best = []
        for question in UNRELATED_QUESTIONS:
            query = verbatim([Turn("user", question)], reason="unrelated")
            fused, scale, _ = await self._fused(query, scope, _StageClock())
            best.append(max(evidence(fused, scale), default=0.0))
        return sum(best) / len(best)

    async def _vectors(self, queries: Sequence[Query]) -> Sequence[Vector | None]:
        """Each query's dense query; None if only BM25 searches, or if the embedder knows none of its words."""
        if self._options.arms == "bm25":
            return [None] * len(queries)
        return await self._questions.mixed([query.vectors for query in queries])

    async def _search_arms(
        self, scope: "_Scope", words: Mapping[str, Sparse], vector: Vector | None
    ) -> Mapping[str, Sequence[ScoredId]]:
        """Each arm's points; in mode `sequential` the dense arm sorts the lexical arm's points."""
        k, view, sequential = self._options.candidates, scope.view, self._options.mode == "sequential"
        of_store = {} if self._okapi else words
        arms = await self._store.search(list(scope.sizes), None if sequential else vector, of_store, k=k, view=view)
        if self._okapi is not None:
            arms = {**arms, "bm25": await self._okapi.search(words, k=k, view=view)}
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

    async def _reordered(self, found: "_Found", reader: "_HitReader", *, k: int) -> Sequence[Candidate]:
        """Candidates with the question's exact terms first, and by similarity or recency if the settings ask."""
        options, fused = self._options, found.relevant.candidates
        if found.exact:  # most questions have none
            passages = await reader.passages(fused[: _EXACT_PER_K * k])
            texts = {id: lexical_text(one.title, one.headings, one.text) for id, one in passages.items()}
            fused = exact_match_first(fused, texts, found.exact) if texts else fused
        if options.mode == "sequential":
            fused = [replace(candidate, score=max(0.0, candidate.scores.get("dense", 0.0))) for candidate in fused]
            fused = sorted(fused, key=lambda candidate: -candidate.score)
        if options.recency_half_life_days and fused:
            passages = await reader.passages(fused)
            times = {id: passage.modified_s for id, passage in passages.items()}
            fused = recent_first(fused, times, now_s=time.time(), half_life_days=options.recency_half_life_days)
        return fused

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
        repeats, notes = Repeats(query.text), list[str]()
        hits, rest = repeats.without(*await reader.hits(candidates[:lead])), candidates[lead:]
        while repeats.fates and rest and len(hits) < lead:
            hits += repeats.without(*await reader.hits(rest[:lead]))
            rest = rest[lead:]
        if self._reranker is not None and hits:
            hits, notes = await self._reranked(self._reranker, query, hits)
            clock.lap("rerank")
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
            hits += repeats.without(*await reader.hits(rest[:k]))
            rest = rest[k:]

    async def _reranked(self, reranker: Reranker, query: Query, hits: list[Hit]) -> tuple[list[Hit], list[str]]:
        """Hits as ordered by reranker and recency, and notes for the query's reason."""
        options, count = self._options, self._options.rerank_candidates
        reranked = await rerank(reranker, query.text, hits, candidates=count, deadline_s=options.rerank_deadline_s)
        if reranked is None:
            return hits, [TOO_LATE]
        if options.recency_half_life_days:
            times = {hit.id: hit.passage.modified_s for hit in reranked}
            half_life = options.recency_half_life_days
            first = recent_first(reranked[:count], times, now_s=time.time(), half_life_days=half_life)
            reranked = first + reranked[count:]
        return reranked, []

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
        self._parts = {key: part for key, part in self._parts.items() if collection not in (None, key[0])}
        if collection is None:
            self._noises.clear()
        self._expander.collections_changed()
        for retriever in self._by_options.values():
            retriever.collections_changed(collection)


@dataclass(frozen=True, slots=True)
class _Part:
    """A collection, as some reader searches it."""

    tenant: str
    chunks: int  # readable ones
    searched: SearchedCollection
    reserved: bool


@dataclass(frozen=True, slots=True)
class _Scope:
    """Tenants and documents that a question searches."""

    sizes: Mapping[str, int]  # tenant -> readable chunks
    view: View
    searched: tuple[SearchedCollection, ...]
    reserved: bool  # whether any is the gateway's own


@dataclass(frozen=True, slots=True)
class _Searched:
    """What a collection's noise depends on."""

    arms: Arms
    sequential: bool
    tenants: frozenset[str]
    groups: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A query, as rewritten, and its candidates."""

    query: Query
    exact: Sequence[ExactTerm]
    relevant: RelevantCandidates


@dataclass(frozen=True, slots=True)
class _Packed:
    """A context, and its hits and candidates."""

    hits: list[Hit]
    context: Context
    notes: list[str]  # about the order, for the query's reason
    fates: Mapping[str, Fate]
    candidates: Sequence[Candidate]  # all candidates requested from the store; some no longer exist


def _failed(task: asyncio.Task[float]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _unsaid_first(packed: _Packed, turns: Sequence[Turn], *, k: int) -> _Packed:
    """The same passages: among the first `k`, those that an earlier answer said go behind the others."""
    context, hits, count = unsaid_first(packed.context, packed.hits, turns, k=k)
    notes = [*packed.notes, f"{count} said before"] if count else packed.notes
    return replace(packed, context=context, hits=hits, notes=notes)


@dataclass(frozen=True, slots=True)
class _HitReader:
    """Reads one question's candidates, each once, and checks them against the catalog."""

    catalog: Catalog
    store: Store
    clock: "_StageClock"
    read: dict[str, Passage] = field(default_factory=dict)  # so far, by id

    async def passages(self, candidates: Sequence[Candidate]) -> Mapping[str, Passage]:
        """Id -> passage, of at least these candidates."""
        unread = [candidate.id for candidate in candidates if candidate.id not in self.read]
        if unread:
            self.read.update(await self.store.read(unread))
        return self.read

    async def hits(self, candidates: Sequence[Candidate]) -> tuple[list[Hit], Mapping[str, int]]:
        """Candidates with their passages, without unfinished and replaced revisions.

        Also document -> fingerprint of what it says, for documents that have one.
        """
        catalog, passages = self.catalog, await self.passages(candidates)
        documents = {passage.document for passage in passages.values()}
        self.clock.lap("search")
        current = catalog.current(documents)
        if catalog.shared:  # a later revision is being written, or just published by another process
            newer = {one.document for one in passages.values() if current.get(one.document, 0) < one.revision}
            if newer:
                await asyncio.to_thread(catalog.reload, sorted(newer))
                current = catalog.current(documents)
        hits = []
        for candidate in candidates:
            passage = passages.get(candidate.id)
            if passage is not None and current.get(passage.document) == passage.revision:
                hits.append(Hit(candidate.id, candidate.score, passage, candidate.ranks, candidate.scores))
        return hits, catalog.fingerprints(documents)


class _StageClock:
    """Milliseconds of each stage, in order."""

    def __init__(self) -> None:
        self.laps_ms: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps_ms[stage] = round(self.laps_ms.get(stage, 0.0) + (now - self._last) * 1000, 3)
        self._last = now
