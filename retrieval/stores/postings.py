"""rank-bm25's BM25Okapi compiled: the same scores to the last bit, from the postings of a query's words alone.

`BM25Okapi.get_scores` looks into every document for every word of the query. Here each word has its documents and
counts side by side in arrays, and a score is the sum of what the query's words add, in the query's order and in the
order of rank-bm25's own operations, so that no rounding differs. Each pair of a word and a document that holds it takes
24 bytes: what the word adds there, and what is needed to compute that anew.

A `Postings` never changes. `changed` returns another one, sorted anew from arrays that are nearly in order, so that no
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
_BLOCKS = 8  # of scores, for each document wanted
EPSILON = 0.25  # a word in most documents weighs this much of the average weight, instead of less than nothing


class Postings:
    """Documents by row, in the order they were added, and for each word the rows that hold it."""

    def __init__(
        self, ids: Sequence[str], lengths: Numbers, columns: Mapping[str, int], postings: tuple[Numbers, ...]
    ) -> None:
        """postings: of each pair of word and document the word's column, the row, the count, and the word's place among
        the distinct ones of its document, sorted by column, then row."""
        self._ids = ids
        self._lengths = lengths  # words of each document
        self._columns = columns
        self._postings = postings
        self._held = np.bincount(postings[0], minlength=len(columns))  # documents that hold the word of a column
        self._ends = np.cumsum(self._held)
        self._idfs = self._weights()
        self._added = self._contributions()

    @classmethod
    def over(cls, documents: Iterable[tuple[str, Sequence[str]]]) -> Self:
        """The index of (id, words) pairs with distinct ids."""
        nothing = np.empty(0, np.int32)
        return cls([], nothing, {}, (nothing, nothing, nothing, nothing)).changed((), documents)

    def changed(self, without: Iterable[str], more: Iterable[tuple[str, Sequence[str]]]) -> Self:
        """The index without these documents and with more of them behind the others; ids must be distinct."""
        gone = set(without)
        alive = np.asarray([id not in gone for id in self._ids], bool)
        kept = alive[self._postings[1]]
        column, row, count, place = (part[kept] for part in self._postings)
        row = (np.cumsum(alive, dtype=np.int32) - 1)[row] if len(alive) else row
        ids = [id for id, stays in zip(self._ids, alive.tolist(), strict=True) if stays]
        columns, lengths, held = dict(self._columns), [], []
        for id, words in more:
            counts = Counter(words)
            held.append(([columns.setdefault(word, len(columns)) for word in counts], list(counts.values())))
            ids.append(id)
            lengths.append(len(words))
        sizes = [len(found) for found, _ in held]
        first = len(ids) - len(held)
        column = np.concatenate([column, _flat(found for found, _ in held)])
        row = np.concatenate([row, np.repeat(np.arange(first, len(ids), dtype=np.int32), sizes)])
        count = np.concatenate([count, _flat(counted for _, counted in held)])
        place = np.concatenate([place, _flat(range(size) for size in sizes)])
        order = np.argsort(column, kind="stable")
        postings = tuple(part[order] for part in (column, row, count, place))
        return type(self)(ids, np.concatenate([self._lengths[alive], np.asarray(lengths, np.int32)]), columns, postings)

    @property
    def ids(self) -> Sequence[str]:
        """Of the documents, by row."""
        return self._ids

    def get_scores(self, query: Sequence[str]) -> Floats:
        """What `BM25Okapi.get_scores` returns: (n,), of every document; a word counts as often as it is said."""
        return self._summed([(word, 1.0) for word in query])

    def best(
        self, query: Sequence[tuple[str, float]], k: int, *, among: Set[str] | None = None
    ) -> list[tuple[str, float]]:
        """(id, score) of the k best documents that hold a word of the query, best first, ties by id.

        A document's score is the sum over (word, weight) of weight times what rank-bm25 adds for the word. Weights are
        above 0. among: ids of those that may be found; None: all.
        """
        scores = self._summed(query)
        columns = self._known(word for word, _ in query)
        open = None if among is None else np.asarray([id in among for id in self._ids], bool)
        if all(self._idfs[column] > 0 for column in columns):
            rows = _candidates(scores if open is None else np.where(open, scores, 0.0), k)
        else:  # a score says nothing of whether there is a word
            holding = [self._postings[1][self._of(column)] for column in columns]
            rows = np.unique(np.concatenate(holding)) if holding else np.empty(0, np.intp)
            rows = rows if open is None else rows[open[rows]]
        found = scores[rows]
        if len(rows) > k:
            least = np.partition(found, len(found) - k)[len(found) - k]
            rows = rows[found >= least]  # with all that equal the last one: their order is that of their ids
            found = scores[rows]
        pairs = zip((self._ids[row] for row in rows.tolist()), found.tolist(), strict=True)
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k]

    def _summed(self, query: Sequence[tuple[str, float]]) -> Floats:
        """The score of every document: `bincount` adds in the order given, which is rank-bm25's."""
        rows, added = [], []
        for word, weight in query:
            for column in self._known([word]):
                where = self._of(column)
                rows.append(self._postings[1][where])
                added.append(self._added[where] if weight == 1.0 else weight * self._added[where])
        if not rows:
            return np.zeros(len(self._ids))
        scores = np.bincount(np.concatenate(rows), weights=np.concatenate(added), minlength=len(self._ids))
        return scores.astype(np.float64, copy=False)

    def _known(self, words: Iterable[str]) -> list[int]:
        """The columns of those words that some document holds."""
        columns = (self._columns.get(word) for word in words)
        return [column for column in columns if column is not None and self._held[column]]

    def _of(self, column: int) -> slice:
        end = int(self._ends[column])
        return slice(end - int(self._held[column]), end)

    def _contributions(self) -> Floats:
        """What each word adds to each document that holds it; the operations are rank-bm25's, in its order."""
        column, row, count, _ = self._postings
        if not len(row):
            return np.empty(0)
        lengths = self._lengths.astype(np.int64)
        norms = K1 * (1 - B + B * lengths / (int(lengths.sum()) / len(self._ids)))
        return np.asarray(self._idfs[column] * (count * (K1 + 1) / (count + norms[row])), np.float64)

    def _weights(self) -> Floats:
        """The inverse document frequency of each column."""
        n = len(self._ids)
        by_count = {held: log(n - held + 0.5) - log(held + 0.5) for held in set(self._held.tolist()) if held}
        idfs = np.asarray([by_count.get(held, 0.0) for held in self._held.tolist()])
        if min(by_count.values(), default=0.0) < 0:
            idfs[idfs < 0] = EPSILON * self._average(idfs)
        return idfs

    def _average(self, idfs: Floats) -> float:
        """Summed as rank-bm25 does, word by word in the order in which the documents say them first."""
        present = np.flatnonzero(self._held)
        firsts = (self._ends - self._held)[present]
        order = np.lexsort((self._postings[3][firsts], self._postings[1][firsts]))
        return float(np.add.accumulate(idfs[present[order]])[-1]) / len(present)  # `np.sum` would round otherwise


def _candidates(scores: Floats, k: int) -> NDArray[np.intp]:
    """Rows of positive score, the k best and all that equal the last of them among them, and few others.

    The k-th best of the maxima of many blocks is a bound: so many documents at least reach it. To sort out half of
    100,000 scores took longer than all the rest of a search.
    """
    size = max(1, len(scores) // (_BLOCKS * k))
    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), size)) if len(scores) else scores
    bound = np.partition(maxima, len(maxima) - k)[len(maxima) - k] if len(maxima) > k else 0.0
    return np.flatnonzero(scores >= bound) if bound > 0 else np.flatnonzero(scores > 0)


def _flat(parts: Iterable[Iterable[int]]) -> Numbers:
    return np.fromiter(chain.from_iterable(parts), np.int32)
