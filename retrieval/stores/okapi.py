"""The second lexical arm: rank-bm25's BM25Okapi over each tenant's passages, the dense arm from another store.

It is the published reference the default arm is compared with, and a baseline in evaluations. Its scores are its own
own (`retrieval.stores.postings`), its index is in memory: made from the inner store when a tenant is first searched,
brought up to date by the first search after a change, both in a thread. A change made in the inner store by another
process is not seen.

rank-bm25 gives a word found in most passages a small or negative weight and one found in half of them none: in a
tenant of 1 every score is negative, of 2 zero. A hit here is a passage that holds a searched word, whatever its score.
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

_MOST_VIEWS = 32  # of each tenant that are remembered
_MOST_WAITING = 20_000  # changed points kept until a search wants them; with more the index is made anew then


@dataclass(slots=True)
class _Tenant:
    """What is known of a tenant: the index of one of its states, and what was written since."""

    index: Postings | None = None
    waiting: dict[str, Passage | None] = field(default_factory=dict)  # by id, the last state of each; None: deleted
    lost: int = 0  # how often it was no longer known what was written
    seen: dict[View, frozenset[str]] = field(default_factory=dict)  # ids, of those views that were asked for
    updating: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forget(self) -> None:
        """The next search makes the index anew."""
        self.index = None
        self.waiting, self.seen = {}, {}
        self.lost += 1

    def note(self, changes: Mapping[str, Passage | None]) -> None:
        self.waiting.update(changes)
        self.seen = {}
        if len(self.waiting) > _MOST_WAITING:
            self.forget()


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
            state.forget()
            raise
        state.note({point.id: point.passage for point in points})

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        state = self._tenants[tenant]
        try:
            await self._inner.delete(tenant, ids)
        except BaseException:
            state.forget()
            raise
        state.note(dict.fromkeys(ids))

    async def drop(self, tenant: str) -> None:
        try:
            await self._inner.drop(tenant)
        finally:
            self._tenants[tenant].forget()

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
        return {DENSE: dense, BM25: best([[ScoredId(id, score) for id, score in found] for found in lists], k)}

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
        """The best of what is in the view, of which the inner store decides; a word's rarity is that among all."""
        index = await self._index(tenant)
        seen = None if view == ALL else await self._seen(self._tenants[tenant], tenant, view)
        return index.best(query, k, among=seen)

    async def _seen(self, state: _Tenant, tenant: str, view: View) -> frozenset[str]:
        known = state.seen  # another one after a write, also while this reads
        if view not in known:
            seen = frozenset([id for id, _ in await self._inner.passages(tenant, view)])
            if len(known) >= _MOST_VIEWS:
                known.clear()
            known[view] = seen
        return known[view]

    async def _index(self, tenant: str) -> Postings:
        """The index of everything written before the call."""
        state = self._tenants[tenant]
        async with state.updating:
            lost, index = state.lost, state.index
            if index is None:
                state.waiting = {}
                index = await asyncio.to_thread(_made, await self._inner.passages(tenant), language_of(tenant))
            while state.waiting and state.lost == lost:
                changes, state.waiting = state.waiting, {}
                index = await asyncio.to_thread(_updated, index, changes, language_of(tenant))
            if state.lost == lost:  # else it may lack what was written meanwhile: good for this search alone
                state.index = index
            return index


def _query(sparse: Sparse) -> list[tuple[str, float]]:
    return [(str(index), weight) for index, weight in zip(sparse.indices, sparse.values, strict=True)]


def _made(rows: Iterable[tuple[str, Passage]], language: str) -> Postings:
    return Postings.over(_read(rows, language))


def _updated(index: Postings, changes: Mapping[str, Passage | None], language: str) -> Postings:
    now = [(id, passage) for id, passage in changes.items() if passage is not None]
    return index.changed(changes, _read(now, language))


def _read(rows: Iterable[tuple[str, Passage]], language: str) -> Iterator[tuple[str, list[str]]]:
    for id, passage in rows:
        text = lexical_text(passage.title, passage.headings, passage.text, passage.context)
        yield id, words(text, language)
