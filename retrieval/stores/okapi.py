"""The second lexical arm: rank-bm25's BM25Okapi over each tenant's passages, the dense arm from another store.

It is the published reference the default arm is compared with, and a baseline in evaluations: its index is in memory,
built from the inner store when a tenant is first searched and again after each change (2 s of CPU at 10,000 chunks; a
search takes 56 ms there, the default arm 2). A change made in the inner store by another process is seen after the
next change made here.

rank-bm25 gives a word found in most passages a small or negative weight and one found in half of them none: in a
tenant of 1 every score is negative, of 2 zero. A hit here is a passage that holds a searched word, whatever its score.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rank_bm25 import BM25Okapi

from retrieval.records import Passage, Point, Scored, Sparse, Vector, indexed_text
from retrieval.stores.base import Store
from retrieval.stores.schema import BM25, DENSE, best, checked_k
from retrieval.terms import query_vector, words


@dataclass(frozen=True, slots=True)
class Okapi:
    """One tenant's points by row, and for each word the rows of the passages that hold it."""

    ids: Sequence[str]
    ranking: BM25Okapi | None  # None where there is no word: rank-bm25 divides by their number
    holders: Mapping[str, list[int]]

    @classmethod
    def over(cls, rows: Sequence[tuple[str, Passage]]) -> Self:
        corpus = [words(indexed_text(passage.title, passage.headings, passage.text)) for _, passage in rows]
        holders: dict[str, list[int]] = defaultdict(list)
        for row, said in enumerate(corpus):
            for word in set(said):
                holders[word].append(row)
        return cls([id for id, _ in rows], BM25Okapi(corpus) if holders else None, dict(holders))

    def best(self, sparse: Sparse, k: int) -> list[Scored]:
        """The k best points with a searched word: sum over words of weight times rank-bm25's contribution."""
        scores: dict[int, float] = defaultdict(float)
        for index, weight in zip(sparse.indices, sparse.values, strict=True):
            rows = self.holders.get(str(index), [])
            if self.ranking is None or not rows:
                continue
            for row, score in zip(rows, self.ranking.get_batch_scores([str(index)], rows), strict=True):
                scores[row] += weight * score
        ordered = sorted(scores, key=lambda row: (-scores[row], self.ids[row]))[:k]
        return [Scored(self.ids[row], scores[row]) for row in ordered]


@dataclass(slots=True)
class _Tenant:
    """What is known of a tenant: how often it changed, and the index of one of its states."""

    changes: int = 0
    index: Okapi | None = None
    building: asyncio.Lock = field(default_factory=asyncio.Lock)


class OkapiStore:
    """Another store with its lexical arm replaced; see `retrieval.stores.base.Store` for the promises."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._tenants: dict[str, _Tenant] = defaultdict(_Tenant)

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        try:
            await self._inner.upsert(tenant, points)
        finally:  # also when it failed or was cancelled half-way
            self._changed(tenant)

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        try:
            await self._inner.delete(tenant, ids)
        finally:
            self._changed(tenant)

    async def drop(self, tenant: str) -> None:
        try:
            await self._inner.drop(tenant)
        finally:
            self._changed(tenant)

    async def search(
        self, tenants: Sequence[str], vector: Vector, terms: Sequence[tuple[str, float]], *, k: int
    ) -> Mapping[str, list[Scored]]:
        dense = (await self._inner.search(tenants, vector, [], k=checked_k(k)))[DENSE]
        sparse, lists = query_vector(terms), []
        for tenant in dict.fromkeys(tenants):
            index = await self._index(tenant)
            lists.append(await asyncio.to_thread(index.best, sparse, k))
        return {DENSE: dense, BM25: best(lists, k)}

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        return await self._inner.read(ids)

    async def count(self, tenant: str) -> int:
        return await self._inner.count(tenant)

    async def passages(self, tenant: str) -> list[tuple[str, Passage]]:
        return await self._inner.passages(tenant)

    async def close(self) -> None:
        await self._inner.close()

    def _changed(self, tenant: str) -> None:
        state = self._tenants[tenant]
        state.changes += 1
        state.index = None

    async def _index(self, tenant: str) -> Okapi:
        state = self._tenants[tenant]
        async with state.building:
            if state.index is not None:
                return state.index
            before = state.changes
            index = await asyncio.to_thread(Okapi.over, await self._inner.passages(tenant))
            if state.changes == before:  # else it may lack what was written meanwhile: good for this search alone
                state.index = index
            return index
