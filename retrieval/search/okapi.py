"""A second lexical arm: rank-bm25's BM25Okapi over each collection's current chunks.

rank-bm25 is the published reference for the default arm, and a baseline in evaluations. Its index is in memory. A
collection's first search after a change builds the whole index, in a thread: docs/use/scaling.md has the cost.

rank-bm25 gives a word in most passages a small or negative weight, and a word in half of them none: in a collection of
1 passage every score is negative, in one of 2 zero. A hit here is a passage that holds a query word, whatever the
score.
"""

import asyncio
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import collection_of
from retrieval.lexical.terms import language_of, words
from retrieval.records.documents import Passage, lexical_text
from retrieval.records.filters import matches, parsed_filter
from retrieval.records.points import Sparse
from retrieval.records.search import ALL, ScoredId, View
from retrieval.stores.base import Store
from retrieval.stores.schema import best

_MOST_VIEWS = 32  # sets of readers and filters, before all are forgotten


class OkapiIndex:
    """Each word's documents and counts, with rank-bm25's statistics.

    `BM25Okapi.get_scores` reads every document for every query word. `search` computes the same scores, to the last
    bit, from only those that hold a query word.
    """

    def __init__(
        self, ids: Sequence[str], documents: Sequence[Sequence[str]], passages: Sequence[Passage] = ()
    ) -> None:
        """documents, passages: words and passage of each id; passages decide what a view shows."""
        self._ids, self._passages = ids, passages
        self._views: dict[View, NDArray[np.bool_]] = {}
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

    def search(self, query: Sequence[tuple[str, float]], k: int, view: View = ALL) -> list[ScoredId]:
        """Return at least the k best documents that hold a query word, and all ties with the last, unordered.

        A document's score is the sum, over (word, weight), of weight times rank-bm25's score of that word.
        """
        known = [(word, weight) for word, weight in query if word in self._postings]
        if not known:
            return []
        rows = np.concatenate([self._postings[word][0] for word, _ in known])
        scores = np.bincount(rows, np.concatenate([weight * self._scores(word) for word, weight in known]))
        found = np.flatnonzero(np.bincount(rows))
        if view != ALL:
            found = found[self._shown(view)[found]]
        if len(found) > k:
            found = found[scores[found] >= np.partition(scores[found], -k)[-k]]
        return [
            ScoredId(self._ids[row], score) for row, score in zip(found.tolist(), scores[found].tolist(), strict=True)
        ]

    def _shown(self, view: View) -> NDArray[np.bool_]:
        """Whether a view shows each document."""
        if (shown := self._views.get(view)) is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            shown = self._views[view] = np.asarray([_shows(view, one) for one in self._passages], bool)
        return shown

    def _scores(self, word: str) -> NDArray[np.float64]:
        """rank-bm25's score of a word in each document that holds it, with the same rounding."""
        rows, counts = (np.asarray(part) for part in self._postings[word])
        return np.asarray(self._idf[word] * (counts * (self._k1 + 1) / (counts + self._norms[rows])))


class OkapiArm:
    """Searches words in place of a store's own lexical arm."""

    def __init__(self, catalog: Catalog, store: Store) -> None:
        self._catalog = catalog
        self._store = store
        self._indexes: dict[str, tuple[float, OkapiIndex]] = {}  # tenant -> time of last change, and index
        self._building: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def search(self, words: Mapping[str, Sparse], *, k: int, view: View) -> list[ScoredId]:
        """Return the view's best `k` points, as `Store.search` does; word rarity is measured among all points.

        words: tenant -> the question's words.
        """
        return best([await self._best(tenant, sparse, k, view) for tenant, sparse in words.items()], k)

    async def _best(self, tenant: str, query: Sparse, k: int, view: View) -> list[ScoredId]:
        if not query.indices:
            return []
        async with self._building[tenant]:
            index = await self._index(tenant)
        weights = [(str(term), weight) for term, weight in zip(query.indices, query.values, strict=True)]
        return index.search(weights, k, view)

    async def _index(self, tenant: str) -> OkapiIndex:
        collection = collection_of(tenant)
        changed_s = self._catalog.changed_s(collection)
        built_s, index = self._indexes.get(tenant, (None, None))
        if index is None or built_s != changed_s:
            rows = await self._store.passages(tenant)
            current = self._catalog.current([passage.document for _, passage in rows])
            rows = [row for row in rows if current.get(row[1].document) == row[1].revision]
            index = await asyncio.to_thread(_build, rows, language_of(tenant))
            self._indexes = {
                name: of for name, of in self._indexes.items() if collection_of(name) != collection_of(tenant)
            }
            self._indexes[tenant] = changed_s, index
        return index


def _build(rows: Sequence[tuple[str, Passage]], language: str) -> OkapiIndex:
    texts = (lexical_text(p.title, p.headings, p.text, p.context, p.names, p.source) for _, p in rows)
    documents = [[*map(sys.intern, words(text, language))] for text in texts]
    return OkapiIndex([id for id, _ in rows], documents, [replace(passage, text="") for _, passage in rows])


def _shows(view: View, passage: Passage) -> bool:
    if view.groups is not None and passage.groups and not set(passage.groups) & set(view.groups):
        return False
    of_document = passage.source, passage.modified_s, passage.attributes
    return not view.filter or matches(parsed_filter(view.filter), *of_document)
