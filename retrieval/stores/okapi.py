"""A second lexical arm: rank-bm25's BM25Okapi over each tenant's passages, the dense arm from another store.

rank-bm25 is the published reference for the default arm, and a baseline in evaluations. The scores are rank-bm25's
own (`retrieval.stores.postings`). The index is in memory: built from the inner store at a tenant's first search,
updated by the first search after a change, both in a thread. The index misses changes that another process makes in
the inner store.

rank-bm25 gives a small or negative weight to a word in most passages, and no weight to a word in half of the
passages: in a tenant of 1 passage every score is negative, in a tenant of 2 every score is zero. A hit here is a
passage that holds a query word, whatever the score.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from retrieval.lexical.terms import language_of, query_vectors, words
from retrieval.records.documents import Passage, lexical_text
from retrieval.records.points import Point, Sparse, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View
from retrieval.stores.base import Store
from retrieval.stores.postings import Postings
from retrieval.stores.schema import BM25, DENSE, best, checked_k

_MAX_VIEWS = 32  # remembered per tenant
# changed points kept until the next search; after more changes the next search builds a new index
_MAX_PENDING = 20_000


@dataclass(slots=True)
class _Tenant:
    """The state of a tenant: the index at one time, and the writes since."""

    index: Postings | None = None
    pending: dict[str, Passage | None] = field(default_factory=dict)  # id -> latest state; None: deleted
    resets: int = 0  # how often the list of writes became unreliable
    visible: dict[View, frozenset[str]] = field(default_factory=dict)  # view -> visible ids, for recent views
    updating: asyncio.Lock = field(default_factory=asyncio.Lock)

    def reset(self) -> None:
        """Make the next search build a new index."""
        self.index = None
        self.pending, self.visible = {}, {}
        self.resets += 1

    def add_changes(self, changes: Mapping[str, Passage | None]) -> None:
        self.pending.update(changes)
        self.visible = {}
        if len(self.pending) > _MAX_PENDING:
            self.reset()


class OkapiStore:
    """Another store with its lexical arm replaced; see `retrieval.stores.base.Store` for the promises."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._tenants: dict[str, _Tenant] = defaultdict(_Tenant)

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        state = self._tenants[tenant]
        try:
            await self._inner.upsert(tenant, points)
        except BaseException:  # failed or cancelled half-way
            state.reset()
            raise
        state.add_changes({point.id: point.passage for point in points})

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        state = self._tenants[tenant]
        try:
            await self._inner.delete(tenant, ids)
        except BaseException:
            state.reset()
            raise
        state.add_changes(dict.fromkeys(ids))

    async def drop(self, tenant: str) -> None:
        try:
            await self._inner.drop(tenant)
        finally:
            self._tenants[tenant].reset()

    async def search(
        self,
        tenants: Sequence[str],
        vector: Vector | None,
        terms: Sequence[tuple[str, float]],
        *,
        k: int,
        view: View = PUBLIC,
    ) -> Mapping[str, list[ScoredId]]:
        checked_k(k)
        dense = [] if vector is None else (await self._inner.search(tenants, vector, [], k=k, view=view))[DENSE]
        queries = query_vectors(list(dict.fromkeys(tenants)), terms)
        lists = [await self._best(tenant, _query(sparse), k, view) for tenant, sparse in queries.items()]
        return {DENSE: dense, BM25: best([[ScoredId(id, score) for id, score in scored] for scored in lists], k)}

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        return await self._inner.read(ids)

    async def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        return await self._inner.vectors(ids)

    async def count(self, tenant: str) -> int:
        return await self._inner.count(tenant)

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        return await self._inner.passages(tenant, view)

    async def close(self) -> None:
        await self._inner.close()

    async def _best(
        self, tenant: str, query: Sequence[tuple[str, float]], k: int, view: View
    ) -> list[tuple[str, float]]:
        """Return the best points in the view.

        The inner store decides the view; word rarity is measured among all points.
        """
        index = await self._index(tenant)
        visible = None if view == ALL else await self._visible_ids(self._tenants[tenant], tenant, view)
        return index.best(query, k, among=visible)

    async def _visible_ids(self, state: _Tenant, tenant: str, view: View) -> frozenset[str]:
        by_view = state.visible  # a write replaces `state.visible`, also during the `await` below
        if view not in by_view:
            visible = frozenset([id for id, _ in await self._inner.passages(tenant, view)])
            if len(by_view) >= _MAX_VIEWS:
                by_view.clear()
            by_view[view] = visible
        return by_view[view]

    async def _index(self, tenant: str) -> Postings:
        """Return an index of all writes before the call."""
        state = self._tenants[tenant]
        async with state.updating:
            resets, index = state.resets, state.index
            if index is None:
                state.pending = {}
                index = await asyncio.to_thread(_build_index, await self._inner.passages(tenant), language_of(tenant))
            while state.pending and state.resets == resets:
                changes, state.pending = state.pending, {}
                index = await asyncio.to_thread(_update_index, index, changes, language_of(tenant))
            if state.resets == resets:  # otherwise the index may miss later writes: use the index for this search alone
                state.index = index
            return index


def _query(sparse: Sparse) -> list[tuple[str, float]]:
    return [(str(index), weight) for index, weight in zip(sparse.indices, sparse.values, strict=True)]


def _build_index(rows: Iterable[tuple[str, Passage]], language: str) -> Postings:
    return Postings.build(_tokenise(rows, language))


def _update_index(index: Postings, changes: Mapping[str, Passage | None], language: str) -> Postings:
    current = [(id, passage) for id, passage in changes.items() if passage is not None]
    return index.updated(changes, _tokenise(current, language))


def _tokenise(rows: Iterable[tuple[str, Passage]], language: str) -> Iterator[tuple[str, list[str]]]:
    for id, passage in rows:
        text = lexical_text(passage.title, passage.headings, passage.text, passage.context)
        yield id, words(text, language)
