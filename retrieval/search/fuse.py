"""Several ranked lists to one, by reciprocal rank."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from retrieval.records import Hit


def fuse(arms: Mapping[str, Sequence[Hit]], *, rrf_k: int) -> list[Hit]:
    """Fuse ranked lists: a hit's score is the sum over the lists of 1 / (rrf_k + rank), ranks from 1.

    arms: arm -> its hits, best first. The order of the arms does not matter. Every returned hit carries its
    rank and score in each arm that found it; best first, ties by id. O(total hits).
    Source: Cormack, Clarke & Buettcher, SIGIR 2009 (rrf_k = 60). The score cannot be thresholded: it says
    nothing of how well a passage fits.
    """
    found: dict[str, Hit] = {}
    ranks: dict[str, dict[str, int]] = {}
    scores: dict[str, dict[str, float]] = {}
    for arm, hits in arms.items():
        for rank, hit in enumerate(hits, 1):
            found.setdefault(hit.id, hit)
            ranks.setdefault(hit.id, {})[arm] = rank
            scores.setdefault(hit.id, {})[arm] = hit.score
    fused = [
        replace(hit, score=sum(sorted(1 / (rrf_k + rank) for rank in ranks[id].values())),
                ranks=ranks[id], scores=scores[id])
        for id, hit in found.items()
    ]  # fmt: skip
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))


def relevant(hits: Sequence[Hit], *, min_cosine: float, min_bm25: float) -> list[Hit]:
    """Without the hits that are below the threshold on dense similarity and on BM25 both.

    A hit that an arm did not return counts as below that arm's threshold.
    """
    return [
        hit
        for hit in hits
        if hit.scores.get("dense", -math.inf) >= min_cosine or hit.scores.get("bm25", -math.inf) >= min_bm25
    ]


def rarest_idf(chunks: int) -> float:
    """The IDF of a word that stands in one chunk of `chunks`: what such a word's match adds to a BM25 score.

    The unit in which a BM25 threshold means the same in a collection of 5 chunks (1.4) and of 100,000 (11.1).
    Source: Lucene's BM25 IDF, ln(1 + (N - n + 0.5) / (n + 0.5)) at n = 1, as Qdrant computes it.
    """
    return math.log(1 + max(chunks - 0.5, 0) / 1.5)
