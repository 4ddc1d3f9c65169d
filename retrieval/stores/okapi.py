"""A second lexical arm: rank-bm25's BM25Okapi over each tenant's passages, the dense arm from another store.

rank-bm25 is the published reference for the default arm, and a baseline in evaluations. The index is in memory. A
tenant's first search after a change builds the whole index, in a thread: docs/use/scaling.md has the cost. The index
misses changes that another process makes in the inner store.

rank-bm25 gives a small or negative weight to a word in most passages, and no weight to a word in half of the
passages: in a tenant of 1 passage every score is negative, in a tenant of 2 every score is zero. A hit here is a
passage that holds a query word, whatever the score.
"""

import asyncio
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from retrieval.lexical.terms import language_of, query_vectors, words
from retrieval.records.documents import Passage, lexical_text
from retrieval.records.points import Point, Sparse, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View
from retrieval.stores.base import Store
from retrieval.stores.schema import BM25, DENSE, best, checked_k

_MAX_VIEWS = 32  # remembered per tenant


class OkapiIndex:
    """The documents and counts of each word, with rank-bm25's statistics; and the visible ids of recent views.

    `BM25Okapi.get_scores` reads every document for every query word. `search` computes the same scores to the last bit
    from the documents that hold a query word.
    """

    def __init__(self, ids: Sequence[str], documents: Sequence[Sequence[str]]) -> None:
        """documents: the words of the passage of each id."""
        self.visible: dict[View, frozenset[str]] = {}
        self._ids = ids
        self._postings: dict[str, tuple[array[int], array[int]]] = {}  # word -> rows of documents, counts
        for row, document in enumerate(documents):
            for word, count in Counter(document).items():
                rows, counts = self._postings.setdefault(word, (array("i"), array("i")))
                rows.append(row)
                counts.append(count)
        if self._postings:  # without a word rank-bm25 divides by zero
            bm25 = BM25Okapi(documents)
            self._idf, self._k1 = bm25.idf, bm25.k1
            self._norms = bm25.k1 * (1 - bm25.b + bm25.b * np.asarray(bm25.doc_len) / bm25.avgdl)

    def search(self, query: Sequence[tuple[str, float]], k: int, among: Set[str] | None = None) -> list[ScoredId]:
        """Return at least the k best documents that hold a query word, with all ties of the last, in no order.

        A document's score is the sum over (word, weight) of weight times rank-bm25's score of the word.
        among: the ids that may be found; None: all ids.
        """
        known = [(word, weight) for word, weight in query if word in self._postings]
        if not known:
            return []
        rows = np.concatenate([self._postings[word][0] for word, _ in known])
        scores = np.bincount(rows, np.concatenate([weight * self._scores(word) for word, weight in known]))
        found = np.flatnonzero(np.bincount(rows))
        if among is not None:
            found = found[np.asarray([self._ids[row] in among for row in found.tolist()], bool)]
        if len(found) > k:
            found = found[scores[found] >= np.partition(scores[found], -k)[-k]]
        return [
            ScoredId(self._ids[row], score) for row, score in zip(found.tolist(), scores[found].tolist(), strict=True)
        ]

    def _scores(self, word: str) -> NDArray[np.float64]:
        """rank-bm25's score of a word in each document that holds the word, with rank-bm25's rounding."""
        rows, counts = (np.asarray(part) for part in self._postings[word])
        return np.asarray(self._idf[word] * (counts * (self._k1 + 1) / (counts + self._norms[rows])))


class OkapiStore:
    """Another store with its lexical arm replaced; see `retrieval.stores.base.Store` for the promises."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._indexes: dict[str, OkapiIndex] = {}  # of the tenants without a write since
        self._writes: Counter[str] = Counter()
        self._building: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def verified(self) -> set[str]:
        return self._inner.verified

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        try:
            await self._inner.upsert(tenant, points)
        finally:
            self._forget_index(tenant)

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        try:
            await self._inner.delete(tenant, ids)
        finally:
            self._forget_index(tenant)

    async def drop(self, tenant: str) -> None:
        try:
            await self._inner.drop(tenant)
        finally:
            self._forget_index(tenant)

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
        lists = [await self._best(tenant, sparse, k, view) for tenant, sparse in queries.items()]
        return {DENSE: dense, BM25: best(lists, k)}

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

    async def _best(self, tenant: str, query: Sparse, k: int, view: View) -> list[ScoredId]:
        """Return the best hits in the view.

        The inner store decides the view; word rarity is measured among all points.
        """
        index = await self._index(tenant)
        visible = None if view == ALL else await self._visible_ids(index, tenant, view)
        weights = [(str(term), weight) for term, weight in zip(query.indices, query.values, strict=True)]
        return index.search(weights, k, visible)

    async def _visible_ids(self, index: OkapiIndex, tenant: str, view: View) -> frozenset[str]:
        visible = index.visible.get(view)
        if visible is None:
            visible = frozenset([id for id, _ in await self._inner.passages(tenant, view)])
            if len(index.visible) >= _MAX_VIEWS:
                index.visible.clear()
            index.visible[view] = visible
        return visible

    async def _index(self, tenant: str) -> OkapiIndex:
        """Return an index of all writes before the call."""
        async with self._building[tenant]:
            index = self._indexes.get(tenant)
            if index is None:
                writes = self._writes[tenant]
                index = await asyncio.to_thread(_build, await self._inner.passages(tenant), language_of(tenant))
                if self._writes[tenant] == writes:  # otherwise the index may miss a write: for this search alone
                    self._indexes[tenant] = index
            return index

    def _forget_index(self, tenant: str) -> None:
        """Make the next search build a new index, also after a write that failed half-way."""
        self._writes[tenant] += 1
        self._indexes.pop(tenant, None)


def _build(rows: Sequence[tuple[str, Passage]], language: str) -> OkapiIndex:
    texts = (lexical_text(passage.title, passage.headings, passage.text, passage.context) for _, passage in rows)
    return OkapiIndex([id for id, _ in rows], [[*map(sys.intern, words(text, language))] for text in texts])
