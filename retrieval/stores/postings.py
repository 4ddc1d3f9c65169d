"""rank-bm25's BM25Okapi, compiled: the same scores to the last bit, computed from the postings of the query's words
alone.

`BM25Okapi.get_scores` reads every document for every word of the query. Here arrays hold the documents and counts of
each word. A score is the sum of the contributions of the query's words, in the query's order and with rank-bm25's
operations in the same order, so that rounding is equal. Each pair of a word and a document takes 24 bytes: the word's
contribution, and the numbers to recompute the contribution.

A `Postings` never changes. `updated` returns another `Postings`, sorted again from nearly sorted arrays, so that no
document is read twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain
from math import log
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]

# rank-bm25's defaults.
K1 = 1.5
B = 0.75
_BLOCKS = 8  # blocks of scores per requested document
EPSILON = 0.25  # a word in most documents gets this share of the average weight, instead of a negative weight


class Postings:
    """Documents by row, in the order of addition, and for each word the rows of the documents with the word."""

    def __init__(
        self, ids: Sequence[str], lengths: Numbers, columns: Mapping[str, int], postings: tuple[Numbers, ...]
    ) -> None:
        """postings: for each pair of word and document: the word's column, the row, the count, and the word's
        position among the document's distinct words; sorted by column, then row.
        """
        self._ids = ids
        self._lengths = lengths  # words per document
        self._columns = columns
        self._postings = postings
        self._document_counts = np.bincount(postings[0], minlength=len(columns))  # documents per column's word
        self._ends = np.cumsum(self._document_counts)
        self._idfs = self._compute_idfs()
        self._contributions = self._compute_contributions()

    @classmethod
    def build(cls, documents: Iterable[tuple[str, Sequence[str]]]) -> Self:
        """Build the index of (id, words) pairs with distinct ids."""
        nothing = np.empty(0, np.int32)
        return cls([], nothing, {}, (nothing, nothing, nothing, nothing)).updated((), documents)

    def updated(self, without: Iterable[str], more: Iterable[tuple[str, Sequence[str]]]) -> Self:
        """Return the index without the documents `without`, with the documents `more` appended; ids must differ."""
        removed = set(without)
        alive = np.asarray([id not in removed for id in self._ids], bool)
        kept = alive[self._postings[1]]
        column, row, count, place = (part[kept] for part in self._postings)
        row = (np.cumsum(alive, dtype=np.int32) - 1)[row] if len(alive) else row
        ids = [id for id, keep in zip(self._ids, alive.tolist(), strict=True) if keep]
        columns, lengths, added = dict(self._columns), [], []
        for id, words in more:
            counts = Counter(words)
            added.append(([columns.setdefault(word, len(columns)) for word in counts], list(counts.values())))
            ids.append(id)
            lengths.append(len(words))
        sizes = [len(document_columns) for document_columns, _ in added]
        first = len(ids) - len(added)
        column = np.concatenate([column, _flat(document_columns for document_columns, _ in added)])
        row = np.concatenate([row, np.repeat(np.arange(first, len(ids), dtype=np.int32), sizes)])
        count = np.concatenate([count, _flat(counted for _, counted in added)])
        place = np.concatenate([place, _flat(range(size) for size in sizes)])
        order = np.argsort(column, kind="stable")
        postings = tuple(part[order] for part in (column, row, count, place))
        return type(self)(ids, np.concatenate([self._lengths[alive], np.asarray(lengths, np.int32)]), columns, postings)

    @property
    def ids(self) -> Sequence[str]:
        """The documents' ids, by row."""
        return self._ids

    def get_scores(self, query: Sequence[str]) -> Floats:
        """Return the result of `BM25Okapi.get_scores`: (n,), one score per document; repeated words count again."""
        return self._sum([(word, 1.0) for word in query])

    def best(
        self, query: Sequence[tuple[str, float]], k: int, *, among: Set[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return (id, score) of the k best documents that hold a query word, best first, ties by id.

        A document's score is the sum over (word, weight) of weight times rank-bm25's score of the word. Weights are
        above 0. among: the ids that may be found; None: all ids.
        """
        scores = self._sum(query)
        columns = self._columns_of(word for word, _ in query)
        allowed = None if among is None else np.asarray([id in among for id in self._ids], bool)
        if all(self._idfs[column] > 0 for column in columns):
            rows = _candidates(scores if allowed is None else np.where(allowed, scores, 0.0), k)
        else:  # with negative weights a score does not show whether a document holds a word
            holding = [self._postings[1][self._slice_of(column)] for column in columns]
            rows = np.unique(np.concatenate(holding)) if holding else np.empty(0, np.intp)
            rows = rows if allowed is None else rows[allowed[rows]]
        hit_scores = scores[rows]
        if len(rows) > k:
            lowest = np.partition(hit_scores, len(hit_scores) - k)[len(hit_scores) - k]
            rows = rows[hit_scores >= lowest]  # keep all documents that tie with the last document: ids order ties
            hit_scores = scores[rows]
        pairs = zip((self._ids[row] for row in rows.tolist()), hit_scores.tolist(), strict=True)
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k]

    def _sum(self, query: Sequence[tuple[str, float]]) -> Floats:
        """Return the score of every document. `bincount` adds in the given order, as rank-bm25 does."""
        rows, added = [], []
        for word, weight in query:
            for column in self._columns_of([word]):
                where = self._slice_of(column)
                rows.append(self._postings[1][where])
                added.append(self._contributions[where] if weight == 1.0 else weight * self._contributions[where])
        if not rows:
            return np.zeros(len(self._ids))
        scores = np.bincount(np.concatenate(rows), weights=np.concatenate(added), minlength=len(self._ids))
        return scores.astype(np.float64, copy=False)

    def _columns_of(self, words: Iterable[str]) -> list[int]:
        """Return the columns of the words that a document holds."""
        columns = (self._columns.get(word) for word in words)
        return [column for column in columns if column is not None and self._document_counts[column]]

    def _slice_of(self, column: int) -> slice:
        end = int(self._ends[column])
        return slice(end - int(self._document_counts[column]), end)

    def _compute_contributions(self) -> Floats:
        """Return each word's contribution to each document with the word; rank-bm25's operations, in the same order."""
        column, row, count, _ = self._postings
        if not len(row):
            return np.empty(0)
        lengths = self._lengths.astype(np.int64)
        norms = K1 * (1 - B + B * lengths / (int(lengths.sum()) / len(self._ids)))
        return np.asarray(self._idfs[column] * (count * (K1 + 1) / (count + norms[row])), np.float64)

    def _compute_idfs(self) -> Floats:
        """Return the inverse document frequency of each column."""
        n = len(self._ids)
        by_count = {
            count: log(n - count + 0.5) - log(count + 0.5) for count in set(self._document_counts.tolist()) if count
        }
        idfs = np.asarray([by_count.get(count, 0.0) for count in self._document_counts.tolist()])
        if min(by_count.values(), default=0.0) < 0:
            idfs[idfs < 0] = EPSILON * self._mean(idfs)
        return idfs

    def _mean(self, idfs: Floats) -> float:
        """Return the mean, summed as in rank-bm25: word by word in the order of first occurrence in the documents."""
        present = np.flatnonzero(self._document_counts)
        firsts = (self._ends - self._document_counts)[present]
        order = np.lexsort((self._postings[3][firsts], self._postings[1][firsts]))
        return float(np.add.accumulate(idfs[present[order]])[-1]) / len(present)  # `np.sum` would round differently


def _candidates(scores: Floats, k: int) -> NDArray[np.intp]:
    """Return rows of positive score: the k best rows, all ties of the last row, and few further rows.

    The k-th best of the maxima of many blocks is a bound: at least k documents reach the bound. Sorting out half of
    100,000 scores took longer than the rest of a search.
    """
    size = max(1, len(scores) // (_BLOCKS * k))
    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), size)) if len(scores) else scores
    bound = np.partition(maxima, len(maxima) - k)[len(maxima) - k] if len(maxima) > k else 0.0
    return np.flatnonzero(scores >= bound) if bound > 0 else np.flatnonzero(scores > 0)


def _flat(parts: Iterable[Iterable[int]]) -> Numbers:
    return np.fromiter(chain.from_iterable(parts), np.int32)
