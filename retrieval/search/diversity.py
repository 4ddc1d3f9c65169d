"""Passages that add something before those that say the same again: maximal marginal relevance over sets of words.

Source: Carbonell & Goldstein, SIGIR 1998. Similarity is the Jaccard index of two passages' words: it needs nothing
that is not at hand, and what is to be avoided here is the same text again, not the same topic.
"""

from collections.abc import Sequence

from retrieval.records.search import Hit
from retrieval.search.pack import bag_of, jaccard


def diverse(hits: Sequence[Hit], *, k: int, diversity: float) -> list[Hit]:
    """The hits with the first `k` chosen one by one: the largest (1 - d) * relevance - d * similarity comes next.

    relevance: the score as a share of the best one's; similarity: to the most similar of those chosen. diversity, d:
    0 keeps the order, 1 looks at similarity alone. The others follow in their order. O(k n) comparisons.
    """
    best = max((hit.score for hit in hits), default=0.0)
    bags = [bag_of(hit.passage.text) for hit in hits]
    relevance = [hit.score / best if best > 0 else 1.0 for hit in hits]
    nearest = [0.0] * len(hits)  # similarity to the most similar of those chosen
    left, order = list(range(len(hits))), list[int]()
    while left and len(order) < k:
        at = max(left, key=lambda i: ((1 - diversity) * relevance[i] - diversity * nearest[i], -i))
        left.remove(at)
        order.append(at)
        for i in left:
            nearest[i] = max(nearest[i], jaccard(bags[i], bags[at]))
    return [hits[i] for i in (*order, *left)]
