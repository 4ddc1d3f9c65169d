"""Exact hybrid search with numpy: compares every vector and adds every posting of the question's words.

Exact search shows what the embedded store misses, because the store's graph visits only some of the vectors.
"""

from array import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.output import say
from benchmarks.scale import grown
from benchmarks.scale.grown import Bases, Matrix
from retrieval.lexical.terms import query_vector
from retrieval.records.points import Sparse, Vector
from retrieval.records.search import ScoredId

_Rows = NDArray[np.int32]


class Exact:
    """All vectors, (n, d) float32 of unit length, and the postings of all queried words, in memory."""

    def __init__(self, vectors: Matrix, postings: dict[int, tuple[_Rows, NDArray[np.float32]]]) -> None:
        self._vectors = np.asarray(vectors)
        self._postings = postings

    @staticmethod
    def of(base: Bases, chunks: int, cache: Path) -> "Exact":
        """The exact search over grown chunks, from the cache or built and cached."""
        file = cache / f"postings-{len(base.texts)}-{chunks}.npz"
        if not file.exists():
            say(f"counting the words of {chunks} chunks for numpy, once")
            _save(file, base, chunks)
        with np.load(file) as kept:
            # A word's rows in the order of the chunks; weights are BM25 contributions without rarity.
            starts = np.cumsum(kept["counts"])[:-1]
            pairs = zip(np.split(kept["rows"], starts), np.split(kept["weights"], starts), strict=True)
            postings = dict(zip(kept["words"].tolist(), pairs, strict=True))
        return Exact(matrix(cache, base, chunks), postings)

    @property
    def vectors_mb(self) -> float:
        """The memory of the vectors."""
        return self._vectors.nbytes / 2**20

    def dense(self, vector: Vector, k: int) -> list[ScoredId]:
        """The k nearest chunks by scalar product with all vectors, best first."""
        return _best(self._vectors @ vector, k)

    def bm25(self, asked: Sparse, k: int) -> list[ScoredId]:
        """The k best chunks by BM25 with Qdrant's formula for rarity, best first, without chunks of score 0."""
        n = len(self._vectors)
        scores = np.zeros(n, np.float32)
        for word, weight in zip(asked.indices, asked.values, strict=True):
            if word in self._postings:
                rows, weights = self._postings[word]
                rarity = np.log((n - len(rows) + 0.5) / (len(rows) + 0.5) + 1)
                scores[rows] += weights * np.float32(weight * rarity)
        return [hit for hit in _best(scores, k) if hit.score > 0]


def matrix(cache: Path, base: Bases, chunks: int) -> Matrix:
    """All vectors, (chunks, d) float32, mapped from the cache."""
    file = cache / f"vectors-{chunks}.npy"
    if not file.exists():
        partial = file.with_suffix(".part")
        shape = (chunks, base.vectors.shape[1])
        rows = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=shape)
        at = 0
        for block in grown.vectors(base, chunks):
            rows[at : at + len(block)] = block
            at += len(block)
        rows.flush()
        partial.rename(file)
    found: Matrix = np.load(file, mmap_mode="r")
    return found


def _save(file: Path, base: Bases, chunks: int) -> None:
    asked = {word for question in base.questions for word in query_vector([(question, 1.0)]).indices}
    rows = {word: array("i") for word in asked}
    weights = {word: array("f") for word in asked}
    for row, said in enumerate(grown.words(base, chunks)):
        for word, weight in zip(said.indices, said.values, strict=True):
            if word in asked:
                rows[word].append(row)
                weights[word].append(weight)
    ordered = sorted(asked)
    partial = file.with_suffix(".part")
    with partial.open("wb") as into:
        np.savez(
            into,
            words=np.asarray(ordered, np.int64),
            counts=np.asarray([len(rows[word]) for word in ordered]),
            rows=np.concatenate([np.frombuffer(rows[word], np.int32) for word in ordered]),
            weights=np.concatenate([np.frombuffer(weights[word], np.float32) for word in ordered]),
        )
    partial.rename(file)


def _best(scores: Vector, k: int) -> list[ScoredId]:
    """Ties follow the order of rows, which equals the stores' order of ids."""
    least = -np.partition(-scores, k - 1)[k - 1] if k < len(scores) else -np.inf
    rows = np.flatnonzero(scores >= least)
    ordered = rows[np.lexsort((rows, -scores[rows]))][:k].tolist()
    return [ScoredId(grown.identifier(row), float(scores[row])) for row in ordered]
