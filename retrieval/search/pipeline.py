"""Retriever: conversation -> query -> both arms -> fused -> read and checked against the catalog -> context.

The stages, each a module beside this one: rewrite, (embed, search,) fuse, recency, rerank, diversity, pack, expand.
Those behind fuse are settings, off by default but for the joining of neighbours.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection, collection_of
from retrieval.embedding.embed import Embedder, Matrix, check_same_model, label, mix
from retrieval.embedding.queries import QueryBatcher
from retrieval.embedding.vector_cache import CachedQueryEmbedder
from retrieval.index.audit import check_there
from retrieval.knowledge import Lookup, SearchOptions
from retrieval.records.documents import Groups, Passage, lexical_text
from retrieval.records.points import Vector
from retrieval.records.search import PUBLIC, Candidate, Context, Hit, Query, Retrieved, ScoredId, Turn, View
from retrieval.search.diversity import diverse
from retrieval.search.expand import Expander
from retrieval.search.explain import explained
from retrieval.search.fuse import chosen, fuse
from retrieval.search.literal import literal_first, literals
from retrieval.search.pack import packed
from retrieval.search.recency import recent_first
from retrieval.search.relevance import Background, Judged, background, judged, scale
from retrieval.search.rerank import TOO_LATE, Reranker, reranked
from retrieval.search.rewrite import SURE_RELEVANCE, as_asked, asked, closeness, rewrite, verbatim
from retrieval.search.split import interleaved, variants
from retrieval.stores.base import Store
from retrieval.traces import Fate, Searched, Trace

_WHOLE = "whole collection"
_LITERALLY = 2  # times k: so many candidates are read for what a question says literally


class Retriever:
    """Finds passages for a conversation in collections of one store."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        embedder: Embedder,
        options: SearchOptions,
        *,
        probes: Matrix,
        reranker: Reranker | None = None,
    ) -> None:
        """probes: what identifies the embedder (`embed.probe`). reranker: used where `options` name one."""
        self._catalog = catalog
        self._store = store
        self._embedder = embedder
        if options.mode in ("dense", "bm25"):
            options = replace(options, arms=options.mode)
        self._options = options
        self._probes = probes
        self._reranker = reranker if options.rerank_model else None
        self._loaded_reranker = reranker
        self._expander = Expander(catalog, store, options)
        self._questions = QueryBatcher(embedder)
        self._complete: set[str] = set()  # tenants that were found to be
        self._sizes: dict[tuple[str, Groups], int] = {}  # tenant and reader -> chunks
        self._unrelated: Background | None = None  # once a question needed it
        self._others: dict[SearchOptions, Retriever] = {}  # as lookups asked for

    async def retrieve(
        self,
        turns: Sequence[Turn],
        collections: Sequence[str],
        *,
        k: int | None,
        budget_tokens: int | None = None,
        view: View = PUBLIC,
        lookup: Lookup | None = None,
        traced: bool = False,
    ) -> Retrieved:
        """The best passages for the latest question that are in the view. k, budget_tokens: None takes the setting.

        For a lookup the hits have what is to be shown with them, and the context is as it was packed. traced: with how
        it came about.
        Raises UnknownCollection, WrongEmbedder, RetrievalError where a collection cannot be searched.
        """
        if lookup is not None and (other := self._asked_by(lookup)) is not self:
            return await other.retrieve(
                turns, collections, k=k, budget_tokens=budget_tokens, view=view, lookup=lookup, traced=traced
            )
        options, clock = self._options, _Clock()
        k, budget_tokens = k or options.k, options.budget_tokens if budget_tokens is None else budget_tokens
        seen = _Seen(await self._tenants(collections, view.groups), view)
        if options.mode == "whole" and (context := await self._whole(seen, budget_tokens=budget_tokens)):
            clock.lap("pack")
            trace = Trace(self._searched(collections)) if traced else None
            return Retrieved(verbatim(turns, reason=_WHOLE), (), context, clock.laps_ms, trace=trace)
        query, found = await self._asked(turns, seen, clock)
        read = _Reader(self._store)
        candidates = await self._in_order(await self._literally(query, found.candidates, read, k=k), read, k=k)
        clock.lap("fuse")
        made = await self._packed(query, candidates, read, clock, k=k, budget_tokens=budget_tokens)
        hits, context, notes = made.hits, made.context, made.notes
        whole = None
        if lookup is not None:
            hits = await self._expander.surrounded(
                hits[:k], list(seen.sizes), neighbours=lookup.neighbours, whole=lookup.whole
            )
        elif options.mode == "auto" and hits and (whole := await self._whole(seen, budget_tokens=budget_tokens)):
            context, notes = whole, [*notes, _WHOLE]
        else:
            context = await self._expander.expanded(context, hits, list(seen.sizes), budget_tokens=budget_tokens)
        clock.lap("pack")
        reason = ", ".join([query.reason, *notes])
        trace = None
        if traced:
            trace = explained(self._searched(collections), found, made.wanted, made.hits, made.fates, context)
        return Retrieved(replace(query, reason=reason), tuple(hits[:k]), context, clock.laps_ms, found.relevance, trace)

    def searching(
        self, options: SearchOptions, store: Store | None = None, questions: Path | None = None
    ) -> "Retriever":
        """Another one over the same collections (in another store, where given) that has nothing in memory yet.

        questions: folder in which their vectors are kept.
        """
        embedder = CachedQueryEmbedder(self._embedder, questions) if questions else self._embedder
        return Retriever(
            self._catalog,
            store or self._store,
            embedder,
            options,
            probes=self._probes,
            reranker=self._loaded_reranker,
        )

    def _asked_by(self, lookup: Lookup) -> "Retriever":
        """This one, or another that searches as the lookup says. What is in memory of questions is shared."""
        options = self._options
        mode = lookup.mode or ("hybrid" if options.mode == "whole" else options.mode)  # the whole has no hits
        if mode != options.mode:
            options = replace(options, mode=mode, arms="both")
        if not lookup.rerank:
            options = replace(options, rerank_model="")
        if options == self._options:
            return self
        if options not in self._others:
            other = self.searching(options)
            other._questions = self._questions
            if mode != "bm25":  # which has no use for it
                other._unrelated = self._unrelated
            self._others[options] = other
        return self._others[options]

    async def _asked(self, turns: Sequence[Turn], seen: "_Seen", clock: "_Clock") -> tuple[Query, Judged]:
        """The latest question, made to stand alone where that is wanted and needed, and what was found for it."""
        if not self._options.rewrite:
            query = verbatim(turns, reason="rewriting is off")
            return query, await self._candidates(query, seen, clock)
        said = asked(turns)
        query = as_asked(said)
        clock.lap("rewrite")
        found = await self._candidates(query, seen, clock)
        if not said.earlier or found.relevance > SURE_RELEVANCE:
            return query, found
        vectors = await self._questions.vectors([said.question, *(text for text, _ in said.earlier)])
        clock.lap("embed")
        query = rewrite(said, closeness(vectors, self._probes))
        clock.lap("rewrite")
        return query, await self._candidates(query, seen, clock) if len(query.vectors) > 1 else found

    async def _candidates(self, query: Query, seen: "_Seen", clock: "_Clock") -> Judged:
        """What the arms found together, and whether it is about the question."""
        options = self._options
        arms = await self._search(query, seen, clock)
        measured = scale(await self._background(), seen.sizes, query.terms)
        found = judged(fuse(arms, rrf_k=options.rrf_k, scale=measured), measured, min_relevance=options.min_relevance)
        clock.lap("fuse")
        return found

    async def _search(self, query: Query, seen: "_Seen", clock: "_Clock") -> Mapping[str, Sequence[ScoredId]]:
        """What each arm found, for the query and for each question that it consists of."""
        asking = variants(query)
        vectors = await self._vectors(asking)
        clock.lap("embed")
        both = zip(asking, vectors, strict=True)
        arms = interleaved(await asyncio.gather(*[self._found(one, vector, seen) for one, vector in both]))
        clock.lap("search")
        return arms

    async def _found(self, query: Query, vector: Vector | None, seen: "_Seen") -> Mapping[str, Sequence[ScoredId]]:
        """What each arm found; in the mode `sequential` the dense one orders what the lexical one found."""
        options, tenants = self._options, list(seen.sizes)
        terms = query.terms if options.arms != "dense" else ()
        if options.mode != "sequential" or vector is None:
            arms = await self._store.search(tenants, vector, terms, k=options.candidates, view=seen.view)
        else:
            arms = await self._store.search(tenants, None, terms, k=options.candidates, view=seen.view)
            near = await self._store.vectors([point.id for point in arms["bm25"]])
            scored = [ScoredId(id, float(vector @ other)) for id, other in near.items()]
            arms = {**arms, "dense": sorted(scored, key=lambda point: (-point.score, point.id))}
        return arms

    async def _literally(
        self, query: Query, fused: Sequence[Candidate], read: "_Reader", *, k: int
    ) -> Sequence[Candidate]:
        """The candidates, those first that hold what the question says literally; most questions read nothing here."""
        wanted = literals(query.text)
        if not wanted or self._options.arms == "dense":
            return fused
        passages = await read.passages(fused[: _LITERALLY * k])
        texts = {id: lexical_text(one.title, one.headings, one.text) for id, one in passages.items()}
        return literal_first(fused, texts, wanted) if texts else fused

    async def _in_order(self, fused: Sequence[Candidate], read: "_Reader", *, k: int) -> Sequence[Candidate]:
        """The candidates in the order in which they are read, with the `k` to be used in front."""
        options, sequential = self._options, self._options.mode == "sequential"
        if sequential:
            fused = [replace(one, score=max(0.0, one.scores.get("dense", 0.0))) for one in fused]
            fused = sorted(fused, key=lambda one: -one.score)
        if options.recency_half_life_days and fused:
            passages = await read.passages(fused)
            times = {id: passage.modified_s for id, passage in passages.items()}
            fused = recent_first(fused, times, now_s=time.time(), half_life_days=options.recency_half_life_days)
        return fused if sequential else chosen(fused, k=k)

    async def _packed(
        self,
        query: Query,
        candidates: Sequence[Candidate],
        read: "_Reader",
        clock: "_Clock",
        *,
        k: int,
        budget_tokens: int,
    ) -> "_Packed":
        """The first candidates read, put in order and packed; the next are read only where these do not suffice."""
        options = self._options
        lead = max(k, options.rerank_candidates if self._reranker else 0, 2 * k if options.diversity else 0)
        hits, rest = await self._current(candidates[:lead], read), candidates[lead:]
        clock.lap("search")
        hits, notes = await self._reordered(query, hits, clock, k=k)
        while True:
            context, fates = packed(hits, k=k, budget_tokens=budget_tokens, merge=options.merge_neighbours)
            clock.lap("pack")
            if not rest or len(context.passages) >= k or context.tokens >= budget_tokens:
                context = replace(context, dropped=context.dropped + len(rest))
                return _Packed(hits, context, notes, fates, candidates[: len(candidates) - len(rest)])
            hits += await self._current(rest[:k], read)  # there were duplicates, or passages too long for the budget
            rest = rest[k:]
            clock.lap("search")

    async def _reordered(
        self, query: Query, hits: list[Hit], clock: "_Clock", *, k: int
    ) -> tuple[list[Hit], list[str]]:
        """The hits as the reranker and the wish for diversity order them, and what is to be said of it."""
        options, notes = self._options, []
        if self._reranker is not None and hits:
            count = options.rerank_candidates
            read = await reranked(
                self._reranker, query.text, hits, candidates=count, deadline_s=options.rerank_deadline_s
            )
            if read is None:
                notes.append(TOO_LATE)
            else:
                hits = read
                if options.recency_half_life_days:
                    times = {hit.id: hit.passage.modified_s for hit in hits}
                    half_life = options.recency_half_life_days
                    hits = recent_first(hits[:count], times, now_s=time.time(), half_life_days=half_life) + hits[count:]
            clock.lap("rerank")
        if options.diversity:
            # In a thread: 1.7 ms of CPU for 24 hits, and it grows with the square of k.
            hits = await asyncio.to_thread(diverse, hits, k=k, diversity=options.diversity)
        return hits, notes

    async def _current(self, candidates: Sequence[Candidate], read: "_Reader") -> list[Hit]:
        """The candidates with their passages, without those of revisions being written or already replaced."""
        passages = await read.passages(candidates)
        current = self._catalog.current([passage.document for passage in passages.values()])
        newer = {one.document for one in passages.values() if current.get(one.document, 0) < one.revision}
        if newer and self._catalog.shared:  # being written, or published by another process a moment ago
            await asyncio.to_thread(self._catalog.reload, sorted(newer))
            current = self._catalog.current([passage.document for passage in passages.values()])
        return [
            Hit(one.id, one.score, passage, one.ranks, one.scores)
            for one in candidates
            if (passage := passages.get(one.id)) is not None and current.get(passage.document) == passage.revision
        ]

    async def _vectors(self, asking: Sequence[Query]) -> Sequence[Vector | None]:
        """The dense queries; None where that arm is not asked for."""
        if self._options.arms == "bm25":
            return [None] * len(asking)
        texts = list(dict.fromkeys(text for query in asking for text, _ in query.vectors))
        of = dict(zip(texts, await self._questions.vectors(texts), strict=True))
        return [
            mix(np.stack([of[text] for text, _ in query.vectors]), [weight for _, weight in query.vectors])
            for query in asking
        ]

    def _searched(self, collections: Sequence[str]) -> tuple[Searched, ...]:
        rows = [self._catalog.collection(name) for name in dict.fromkeys(collections)]
        return tuple(Searched(row.name, row.generation, row.embedder, row.language) for row in rows)

    async def read(self, ids: Sequence[str]) -> Mapping[str, Passage]:
        """Id -> passage, of those points that are still there."""
        return await self._store.read(ids)

    async def warm(self) -> None:
        """Have ready what every question needs."""
        await self._background()

    async def _background(self) -> Background:
        """What the embedder calls unrelated, asked once; nobody asks where only words are searched."""
        if self._unrelated is None:
            if self._options.arms == "bm25":
                return Background(0.0, 1.0)
            self._unrelated = await asyncio.to_thread(background, self._embedder)
        return self._unrelated

    async def _whole(self, seen: "_Seen", *, budget_tokens: int) -> Context | None:
        return await self._expander.whole(seen.sizes, seen.view, budget_tokens=budget_tokens)

    async def _tenants(self, collections: Sequence[str], groups: Groups) -> dict[str, int]:
        """Tenant -> number of chunks of each collection that may be read. Raises what makes one unsearchable."""
        sizes = {}
        for name in dict.fromkeys(collections):
            row = self._catalog.collection(name)
            await self._check(row)
            key = row.tenant, groups
            if key not in self._sizes:
                self._sizes[key] = self._catalog.chunks(name, groups)
            sizes[row.tenant] = self._sizes[key]
        return sizes

    async def _check(self, row: Collection) -> None:
        """Return once the index was seen to hold all of the collection, made by this embedder.

        An index that lost points (deleted, restored from an old copy, another's) must not pass for an empty collection.
        """
        if row.tenant in self._complete:
            return
        check_same_model(row.name, row.embedder, row.probes, self._probes, label(self._embedder))
        await check_there(self._catalog, self._store, row)
        self._complete.add(row.tenant)

    async def close(self) -> None:
        """Let the reranker end; others made by `searching` share it."""
        if self._loaded_reranker is not None:
            await asyncio.to_thread(self._loaded_reranker.close)

    def collections_changed(self, collection: str | None = None) -> None:
        """To be called after every ingest and rebuild: what was counted of it, or of all, is counted again."""
        self._complete = {tenant for tenant in self._complete if collection not in (None, collection_of(tenant))}
        self._sizes = {
            key: size for key, size in self._sizes.items() if collection not in (None, collection_of(key[0]))
        }
        self._expander.collections_changed()
        for other in self._others.values():
            other.collections_changed(collection)


@dataclass(frozen=True, slots=True)
class _Packed:
    """The context, what it is made of, and why."""

    hits: list[Hit]
    context: Context
    notes: list[str]  # to be said of the order
    fates: Mapping[str, Fate]
    wanted: Sequence[Candidate]  # those that were read, or were to be


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one question is asked of."""

    sizes: Mapping[str, int]  # tenant -> chunks that may be read
    view: View


class _Reader:
    """The passages of one question's candidates, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, Passage] = {}

    async def passages(self, candidates: Sequence[Candidate]) -> Mapping[str, Passage]:
        """Id -> passage, of these candidates at least."""
        new = [one.id for one in candidates if one.id not in self._read]
        if new:
            self._read.update(await self._store.read(new))
        return self._read


class _Clock:
    """Milliseconds of each stage, in the order they ran."""

    def __init__(self) -> None:
        self.laps_ms: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps_ms[stage] = round(self.laps_ms.get(stage, 0.0) + (now - self._last) * 1000, 3)
        self._last = now
