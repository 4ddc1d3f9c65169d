"""A packed context to the one that is shown: whole documents for their pieces, neighbours added, those joined.

And a whole collection where it fits the budget. What is added never takes the context over its budget. A lookup's hits
get the same around each of them. Texts come from the catalog, read in a thread; neighbours from the store, by ids that
follow from document and ordinal.
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
from retrieval.search.neighbours import (
    Place,
    around,
    follows,
    joined,
    place_of,
    run_around,
    runs,
    saving,
    stitched,
    tokens_of,
)
from retrieval.search.texts import Texts
from retrieval.stores.base import Store

_LEAST_CHUNK_TOKENS = 8  # a chunk's label alone takes as many: a collection of more chunks is not looked at
_MOST_CHARS_A_TOKEN = 8  # a document of more characters is not read to see whether it is small
_MOST_CHARS = 1_000_000  # a document is read up to here to join two of its chunks: some 5 ms
WHOLE_CHARS = 50_000  # a longer document is not shown whole with a hit: some 12,000 tokens
_REMEMBERED = 100  # collections that were found to fit whole


class Expander:
    """What becomes of the chosen passages."""

    def __init__(self, catalog: Catalog, store: Store, options: SearchOptions) -> None:
        self._catalog = catalog
        self._store = store
        self._options = options
        self._texts = Texts(catalog)
        self._whole: dict[tuple[tuple[str, ...], View], Context] = {}  # the longest unasked first

    async def expanded(
        self, context: Context, hits: Sequence[Hit], tenants: Sequence[str], *, budget_tokens: int
    ) -> Context:
        """The context with what the settings add to it, at most `budget_tokens` in all; hits: those it was made of."""
        options = self._options
        if options.whole_document_tokens and context.passages:
            context = await self._with_whole_documents(context, budget_tokens)
        if options.neighbours and context.passages:
            ids = {place_of(hit.passage): hit.id for hit in hits}
            context = await self._with_neighbours(context, ids, tenants, budget_tokens)
        return await self._merged(context, budget_tokens) if options.merge_neighbours else context

    async def whole(self, sizes: Mapping[str, int], view: View, *, budget_tokens: int) -> Context | None:
        """All that is in view of these tenants (tenant -> chunks), the same each time; None where it does not fit."""
        if not 0 < sum(sizes.values()) * _LEAST_CHUNK_TOKENS <= budget_tokens:
            return None
        asked = tuple(sizes), view
        context = self._whole.pop(asked, None)
        if context is None or not self._is_current(context.passages):
            context = await self._read_whole(*asked)
        self._whole[asked] = context  # asked again: to the end
        while len(self._whole) > _REMEMBERED:
            del self._whole[next(iter(self._whole))]
        return context if context.passages and context.tokens <= budget_tokens else None

    async def surrounded(
        self, hits: Sequence[Hit], tenants: Sequence[str], *, neighbours: int, whole: bool
    ) -> list[Hit]:
        """The hits with what stands around each: all of a document that is not long, else so many chunks on each side.

        It is of the hit's own revision of its own document, so whoever may read the hit may read it.
        """
        if not hits or not (neighbours or whole):
            return list(hits)
        texts: Mapping[tuple[str, int], str] = {}
        if whole:
            documents = list({hit.passage.document for hit in hits})
            texts = await asyncio.to_thread(self._catalog.short_texts, documents, max_chars=WHOLE_CHARS)
        others = [hit for hit in hits if (hit.passage.document, hit.passage.revision) not in texts]
        wider = await self._wider(others, tenants, neighbours)
        found = []
        for hit in hits:
            text, shown = texts.get((hit.passage.document, hit.passage.revision)), wider.get(hit.id, hit.passage)
            if text is None:
                surrounding = Surrounding(shown.start, shown.end, shown.text, whole=False)
            else:
                surrounding = Surrounding(0, len(text), text, whole=True)
            found.append(replace(hit, surrounding=surrounding))
        return found

    async def _wider(self, hits: Sequence[Hit], tenants: Sequence[str], reach: int) -> dict[str, Passage]:
        """By id, the passage of each hit and up to `reach` on each side as one, where they make one text."""
        passages = [hit.passage for hit in hits]
        ids = {place_of(hit.passage): hit.id for hit in hits}
        wanted = [id for _, id in _points_around(passages, ids, tenants, reach)]
        read = await self._store.read(wanted) if wanted else {}
        known = {place_of(one): one for one in (*passages, *read.values())}
        groups = [run_around(passage, known, reach) for passage in passages]
        made = await self._as_one(groups)
        return {hit.id: ones[0] for hit, ones in zip(hits, made, strict=True) if len(ones) == 1}

    def collections_changed(self) -> None:
        self._whole.clear()

    async def _read_whole(self, tenants: Sequence[str], view: View) -> Context:
        passages = [passage for tenant in tenants for _, passage in await self._store.passages(tenant, view)]
        current = self._catalog.current([one.document for one in passages])
        passages = [one for one in passages if current.get(one.document) == one.revision]
        passages.sort(key=lambda one: (one.source, place_of(one)))
        return await self._merged(Context(tuple(passages), sum(one.tokens for one in passages), 0), None)

    def _is_current(self, passages: Sequence[Passage]) -> bool:
        current = self._catalog.current([one.document for one in passages])
        return all(current.get(one.document) == one.revision for one in passages)

    async def _merged(self, context: Context, budget_tokens: int | None) -> Context:
        """The same text with passages that follow one another as one, each in the place of its best."""
        groups = runs(context.passages)
        if len(groups) == len(context.passages):
            return context
        passages = [one for ones in await self._as_one(groups) for one in ones]
        tokens = sum(one.tokens for one in passages)
        while budget_tokens is not None and tokens > budget_tokens:  # made texts, which were counted on to be joined
            tokens -= passages.pop().tokens
        return replace(context, passages=tuple(passages), tokens=tokens)

    async def _as_one(self, groups: Sequence[list[Passage]]) -> list[list[Passage]]:
        """Each run of passages as one passage; as it is where its texts are no spans of their document's."""
        texts = [stitched(group) for group in groups]
        unread = [i for i, group in enumerate(groups) if texts[i] is None and group[-1].end <= _MOST_CHARS]
        spans = [(groups[i][0].document, groups[i][0].revision, groups[i][0].start, groups[i][-1].end) for i in unread]
        if spans:
            for i, read in zip(unread, await self._texts.spans(spans), strict=True):
                texts[i] = read
        return [
            joined(group, text) if len(group) > 1 and text is not None else group
            for group, text in zip(groups, texts, strict=True)
        ]

    async def _with_whole_documents(self, context: Context, budget_tokens: int) -> Context:
        """Small documents in place of their pieces, the best first."""
        most = self._options.whole_document_tokens
        documents = list(dict.fromkeys(one.document for one in context.passages))
        texts = await asyncio.to_thread(self._catalog.short_texts, documents, max_chars=most * _MOST_CHARS_A_TOKEN)
        for document in documents:
            pieces = [one for one in context.passages if one.document == document]
            text = texts.get((document, pieces[0].revision))
            if text is None or any(text[one.start : one.end] != one.text for one in pieces):
                continue
            whole = _whole_document(pieces, text)
            at = context.passages.index(pieces[0])
            left = [one for one in context.passages if one.document != document]
            before = sum(one.document != document for one in context.passages[:at])
            changed = (*left[:before], whole, *left[before:])
            tokens = self._tokens_of(changed)
            if whole.tokens <= most and tokens <= budget_tokens:
                context = replace(context, passages=changed, tokens=tokens)
        return context

    async def _with_neighbours(
        self, context: Context, ids: Mapping[Place, str], tenants: Sequence[str], budget_tokens: int
    ) -> Context:
        """The chunks around those found, as far as they hang together with these and the budget has room."""
        found_ones = [one for one in context.passages if place_of(one) in ids]  # a whole document has no neighbours
        wanted = _points_around(found_ones, ids, tenants, self._options.neighbours)
        read = await self._store.read([id for _, id in wanted])
        chosen = {place_of(one): one for one in context.passages}
        beside: dict[Place, list[Passage]] = {place_of(one): [one] for one in context.passages}
        used = context.tokens
        for near, id in wanted:
            new = read.get(id)
            if new is None:
                continue
            group = beside[place_of(near)]
            tokens = new.tokens - (saving(new, chosen) if self._options.merge_neighbours else 0)
            if used + tokens > budget_tokens or not (follows(new, group[0]) or follows(group[-1], new)):
                continue
            group.insert(0 if new.ordinal < group[0].ordinal else len(group), new)
            chosen[place_of(new)] = new
            used += tokens
        return replace(context, passages=tuple(one for group in beside.values() for one in group), tokens=used)

    def _tokens_of(self, passages: Sequence[Passage]) -> int:
        """As they will be shown."""
        if not self._options.merge_neighbours:
            return sum(one.tokens for one in passages)
        return tokens_of(sorted(passages, key=place_of))


def _points_around(
    passages: Sequence[Passage], ids: Mapping[Place, str], tenants: Sequence[str], reach: int
) -> list[tuple[Passage, str]]:
    """The points up to `reach` before and behind each passage, with the passage they are near; ids: of the passages."""
    tenant_of = {
        place_of(one): next(t for t in tenants if point_id(t, *place_of(one)) == ids[place_of(one)]) for one in passages
    }
    return [
        (near, point_id(tenant_of[place_of(near)], near.document, near.revision, ordinal))
        for near, ordinal in around(passages, reach)
    ]


def _whole_document(pieces: Sequence[Passage], text: str) -> Passage:
    """The document as one passage; its tokens by those of its densest piece."""
    first = min(pieces, key=lambda one: one.ordinal)
    density = max(one.tokens / max(1, len(_shown(one))) for one in pieces)
    whole = replace(first, ordinal=0, headings=(), start=0, end=len(text), text=text)
    return replace(whole, tokens=math.ceil(density * len(_shown(whole))))


def _shown(passage: Passage) -> str:
    return shown_text(passage.source, passage.title, passage.headings, passage.text)
