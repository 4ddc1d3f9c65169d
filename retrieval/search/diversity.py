"""Passages with new content before repetitions: maximal marginal relevance over sets of words.

Source: Carbonell & Goldstein, SIGIR 1998. Similarity is the Jaccard index of two passages' words: the index needs no
further data, and the aim is to avoid the same text, not the same topic.
"""

from collections.abc import Sequence

from retrieval.records.search import Hit
from retrieval.search.pack import jaccard, word_set


def diversify(hits: Sequence[Hit], *, k: int, diversity: float) -> list[Hit]:
    """The hits with the first `k` chosen greedily: next comes the largest (1 - d) * relevance - d * similarity.

    relevance: the score as a share of the best score; similarity: to the most similar chosen hit. diversity, d: 0 keeps
    the order, 1 uses similarity alone. The remaining hits follow in their order. O(k n) comparisons.
    """
    best = max((hit.score for hit in hits), default=0.0)
    words = [word_set(hit.passage.text) for hit in hits]
    relevance = [hit.score / best if best > 0 else 1.0 for hit in hits]
    nearest = [0.0] * len(hits)  # similarity to the most similar chosen hit
    left, order = list(range(len(hits))), list[int]()
    while left and len(order) < k:
        best_next = max(left, key=lambda i: ((1 - diversity) * relevance[i] - diversity * nearest[i], -i))
        left.remove(best_next)
        order.append(best_next)
        for i in left:
            nearest[i] = max(nearest[i], jaccard(words[i], words[best_next]))
    return [hits[i] for i in (*order, *left)]
