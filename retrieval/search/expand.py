"""Expand a packed context: whole documents in place of their chunks, neighbouring chunks, adjacent passages joined.

Also a whole collection if it fits the budget. Expansion never exceeds the budget. A search for hits (`HitOptions`)
adds surroundings to each hit. Texts come from the catalog, read in a thread; neighbours from the store, by ids
computed from document and ordinal.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import point_id
from retrieval.knowledge import SearchOptions
from retrieval.records.documents import Passage, shown_text
from retrieval.records.search import Context, Hit, Surrounding, View
from retrieval.search.pack import (
    Place,
    Stitched,
    follows,
    join,
    ordinals_around,
    place_of,
    run_around,
    stitch,
    stitched_runs,
    tokens_of,
    tokens_saved,
)
from retrieval.stores.base import Store

_MIN_CHUNK_TOKENS = 8  # of a chunk's label alone: skip a collection with too many chunks unread
_MAX_CHARS_PER_TOKEN = 8  # a document with more characters cannot be small: skip it unread
_MAX_JOIN_CHARS = 1_000_000  # read a document up to here to join two chunks: some 5 ms
WHOLE_CHARS = 50_000  # a longer document is not shown whole with a hit: some 12,000 tokens
_CACHED_COLLECTIONS = 100  # cached whole contexts
_SMALL_CHARS = 100_000  # largest cached document; of a larger one only a piece is read, which takes longer
_CACHE_CHARS = 8_000_000  # of all cached texts
Key = tuple[str, int]  # document and revision
Span = tuple[str, int, int, int]  # document, revision, start, end


class Expander:
    """Expands chosen passages."""

    def __init__(self, catalog: Catalog, store: Store, options: SearchOptions) -> None:
        self._catalog = catalog
        self._store = store
        self._options = options
        self._texts = Texts(catalog)
        self._whole: dict[tuple[tuple[str, ...], View], Context] = {}  # least recently used first

    async def expand(
        self, context: Context, hits: Sequence[Hit], tenants: Sequence[str], *, budget_tokens: int
    ) -> Context:
        """The context, expanded as the settings say, at most `budget_tokens` in all. hits: its source."""
        options = self._options
        if options.whole_document_tokens and context.passages:
            context = await self._with_whole_documents(context, budget_tokens)
        if options.neighbours and context.passages:
            ids = {place_of(hit.passage): hit.id for hit in hits}
            context = await self._with_neighbours(context, ids, tenants, budget_tokens)
        return await self._merge_neighbours(context, budget_tokens) if options.merge_neighbours else context

    async def whole_collections(self, sizes: Mapping[str, int], view: View, *, budget_tokens: int) -> Context | None:
        """All visible passages of these tenants (tenant -> chunks), in a fixed order; None if over budget."""
        if not 0 < sum(sizes.values()) * _MIN_CHUNK_TOKENS <= budget_tokens:
            return None
        key = tuple(sizes), view
        context = self._whole.pop(key, None)
        if context is None or not self._is_current(context.passages):
            context = await self._read_whole(*key)
        self._whole[key] = context  # most recently used last
        while len(self._whole) > _CACHED_COLLECTIONS:
            del self._whole[next(iter(self._whole))]
        return context if context.passages and context.tokens <= budget_tokens else None

    async def with_surroundings(
        self, hits: Sequence[Hit], tenants: Sequence[str], *, neighbours: int, whole: bool
    ) -> list[Hit]:
        """Hits with surroundings: the whole document unless long (`whole`), else `neighbours` chunks on each side.

        Surroundings come from the hit's own revision and document, so whoever may read the hit may read them.
        """
        if not hits or not (neighbours or whole):
            return list(hits)
        texts: Mapping[tuple[str, int], str] = {}
        if whole:
            documents = list({hit.passage.document for hit in hits})
            texts = await asyncio.to_thread(self._catalog.short_texts, documents, max_chars=WHOLE_CHARS)
        without_text = [hit for hit in hits if (hit.passage.document, hit.passage.revision) not in texts]
        widened = await self._widened(without_text, tenants, neighbours)
        surrounded = []
        for hit in hits:
            text, shown = texts.get((hit.passage.document, hit.passage.revision)), widened.get(hit.id, hit.passage)
            if text is None:
                surrounding = Surrounding(shown.start, shown.end, shown.text, whole=False)
            else:
                surrounding = Surrounding(0, len(text), text, whole=True)
            surrounded.append(replace(hit, surrounding=surrounding))
        return surrounded

    async def _widened(self, hits: Sequence[Hit], tenants: Sequence[str], reach: int) -> dict[str, Passage]:
        """Hit id -> its passage joined with up to `reach` passages on each side; hits that cannot be joined are left
        out.
        """
        passages = [hit.passage for hit in hits]
        ids = {place_of(hit.passage): hit.id for hit in hits}
        wanted = [id for _, id in _points_around(passages, ids, tenants, reach)]
        read = await self._store.read(wanted) if wanted else {}
        known = {place_of(passage): passage for passage in (*passages, *read.values())}
        around = [run_around(passage, known, reach) for passage in passages]
        runs = await self._join_runs([(run, stitch(run)) for run in around])
        return {hit.id: run[0] for hit, run in zip(hits, runs, strict=True) if len(run) == 1}

    def collections_changed(self) -> None:
        self._whole.clear()

    async def _read_whole(self, tenants: Sequence[str], view: View) -> Context:
        passages = [passage for tenant in tenants for _, passage in await self._store.passages(tenant, view)]
        current = self._catalog.current([passage.document for passage in passages])
        passages = [passage for passage in passages if current.get(passage.document) == passage.revision]
        passages.sort(key=lambda passage: (passage.source, place_of(passage)))
        documents = list({passage.document for passage in passages})
        said = self._catalog.fingerprints(documents)
        first = dict[int, str]()  # of the documents that say the same
        passages = [
            passage
            for passage in passages
            if (id := passage.document) not in said or first.setdefault(said[id], id) == id
        ]
        tokens = sum(passage.tokens for passage in passages)
        return await self._merge_neighbours(Context(tuple(passages), tokens, 0), None)

    def _is_current(self, passages: Sequence[Passage]) -> bool:
        current = self._catalog.current([passage.document for passage in passages])
        return all(current.get(passage.document) == passage.revision for passage in passages)

    async def _merge_neighbours(self, context: Context, budget_tokens: int | None) -> Context:
        """The same text with adjacent passages joined, each at its best passage's place."""
        runs = stitched_runs(context.passages)
        if len(runs) == len(context.passages):
            return context
        passages = [passage for run in await self._join_runs(runs) for passage in run]
        tokens = sum(passage.tokens for passage in passages)
        # generated texts cannot be joined, although the packing counted on joining
        while budget_tokens is not None and tokens > budget_tokens:
            tokens -= passages.pop().tokens
        return replace(context, passages=tuple(passages), tokens=tokens)

    async def _join_runs(self, runs: Sequence[Stitched]) -> list[list[Passage]]:
        """Each run of passages as one passage; a run stays unchanged if its texts are not spans of the document."""
        unread = [i for i, (run, text) in enumerate(runs) if text is None and run[-1].end <= _MAX_JOIN_CHARS]
        texts = [text for _, text in runs]
        if unread:
            firsts, lasts = [runs[i][0][0] for i in unread], [runs[i][0][-1] for i in unread]
            spans = [(a.document, a.revision, a.start, z.end) for a, z in zip(firsts, lasts, strict=True)]
            for i, read in zip(unread, await self._texts.spans(spans), strict=True):
                texts[i] = read
        return [
            join(run, text) if len(run) > 1 and text is not None else run
            for (run, _), text in zip(runs, texts, strict=True)
        ]

    async def _with_whole_documents(self, context: Context, budget_tokens: int) -> Context:
        """Small documents in place of their chunks, best document first."""
        most = self._options.whole_document_tokens
        documents = list(dict.fromkeys(passage.document for passage in context.passages))
        texts = await asyncio.to_thread(self._catalog.short_texts, documents, max_chars=most * _MAX_CHARS_PER_TOKEN)
        for document in documents:
            pieces = [passage for passage in context.passages if passage.document == document]
            text = texts.get((document, pieces[0].revision))
            if text is None or any(text[piece.start : piece.end] != piece.text for piece in pieces):
                continue
            whole = _whole_document(pieces, text)
            first = context.passages.index(pieces[0])
            rest = [passage for passage in context.passages if passage.document != document]
            before = sum(passage.document != document for passage in context.passages[:first])
            changed = (*rest[:before], whole, *rest[before:])
            tokens = self._tokens_of(changed)
            if whole.tokens <= most and tokens <= budget_tokens:
                context = replace(context, passages=changed, tokens=tokens)
        return context

    async def _with_neighbours(
        self, context: Context, ids: Mapping[Place, str], tenants: Sequence[str], budget_tokens: int
    ) -> Context:
        """The context with chunks around those found, without gaps, as far as the budget allows."""
        # A whole document has no neighbours.
        chunks = [passage for passage in context.passages if place_of(passage) in ids]
        wanted = _points_around(chunks, ids, tenants, self._options.neighbours)
        read = await self._store.read([id for _, id in wanted])
        chosen = {place_of(passage): passage for passage in context.passages}
        groups: dict[Place, list[Passage]] = {place_of(passage): [passage] for passage in context.passages}
        used = context.tokens
        for near, id in wanted:
            new = read.get(id)
            if new is None:
                continue
            group = groups[place_of(near)]
            tokens = new.tokens - (tokens_saved(new, chosen) if self._options.merge_neighbours else 0)
            if used + tokens > budget_tokens or not (follows(new, group[0]) or follows(group[-1], new)):
                continue
            group.insert(0 if new.ordinal < group[0].ordinal else len(group), new)
            chosen[place_of(new)] = new
            used += tokens
        passages = tuple(passage for group in groups.values() for passage in group)
        return replace(context, passages=passages, tokens=used)

    def _tokens_of(self, passages: Sequence[Passage]) -> int:
        if not self._options.merge_neighbours:
            return sum(passage.tokens for passage in passages)
        return tokens_of(sorted(passages, key=place_of))


class Texts:
    """Reads pieces of stored document texts, with a cache of small documents.

    Reading a piece from SQL takes .1 ms of CPU, but in a thread, and on a busy machine a thread waits for the
    processor: 15 ms for half of all questions with twenty processes on two cores. Most documents are small and read
    again. A revision's text never changes, so the cache never becomes stale.
    """

    def __init__(self, catalog: Catalog, *, cache_chars: int = _CACHE_CHARS) -> None:
        self._catalog = catalog
        self._cache_chars = cache_chars
        self._cache: dict[Key, str] = {}  # least recently used first
        self._chars = 0

    async def spans(self, wanted: Sequence[Span]) -> list[str]:
        """The text of each span, from current revisions; "" if it no longer exists."""
        texts = {span[:2]: self._cache[span[:2]] for span in wanted if span[:2] in self._cache}
        unknown = [span for span in wanted if span[:2] not in texts]
        pieces: Mapping[Span, str] = {}
        if unknown:
            small, pieces = await asyncio.to_thread(self._read, unknown)
            texts.update(small)
        self._remember(texts)
        return [texts[span[:2]][span[2] : span[3]] if span[:2] in texts else pieces[span] for span in wanted]

    def _read(self, spans: Sequence[Span]) -> tuple[dict[Key, str], dict[Span, str]]:
        """Texts of small documents, and pieces of the others."""
        short = self._catalog.short_texts([document for document, *_ in spans], max_chars=_SMALL_CHARS)
        large = [span for span in spans if span[:2] not in short]
        return short, dict(zip(large, self._catalog.spans(large), strict=True))

    def _remember(self, texts: Mapping[Key, str]) -> None:
        """Add texts to the cache as most recently used; drop the least recently used over the limit."""
        for key, text in texts.items():
            self._chars += len(text) - len(self._cache.pop(key, ""))
            self._cache[key] = text
        while self._chars > self._cache_chars:
            self._chars -= len(self._cache.pop(next(iter(self._cache))))


def _points_around(
    passages: Sequence[Passage], ids: Mapping[Place, str], tenants: Sequence[str], reach: int
) -> list[tuple[Passage, str]]:
    """Points up to `reach` before and after each passage, each with that passage. ids: place -> passage id."""
    tenant_of = {
        place: next(tenant for tenant in tenants if point_id(tenant, *place) == ids[place])
        for place in map(place_of, passages)
    }
    return [
        (near, point_id(tenant_of[place_of(near)], near.document, near.revision, ordinal))
        for near, ordinal in ordinals_around(passages, reach)
    ]


def _whole_document(pieces: Sequence[Passage], text: str) -> Passage:
    """The document as one passage; tokens estimated from the densest chunk."""
    first = min(pieces, key=lambda piece: piece.ordinal)
    density = max(piece.tokens / max(1, len(_rendered(piece))) for piece in pieces)
    whole = replace(first, ordinal=0, headings=(), start=0, end=len(text), text=text, place="")
    return replace(whole, tokens=math.ceil(density * len(_rendered(whole))))


def _rendered(passage: Passage) -> str:
    return shown_text(passage.cited, passage.title, passage.headings, passage.text)
