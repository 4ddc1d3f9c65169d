"""How good a ranking is, computed as trec_eval does (Buckley & Voorhees; version 9.0).

A ranking lists found ids, best first, without duplicates; gold maps ids to grades (0: judged as not relevant). An
unjudged id counts as not relevant, a grade of 1 or more as relevant, a negative grade as 0. A question without a
relevant document scores 0 in every metric, and so does a question with an empty ranking. Both count in a mean.
"""

import math
from collections.abc import Mapping, Sequence

Gold = Mapping[str, int]
_BINS = 10


def ndcg(ranking: Sequence[str], gold: Gold, k: int) -> float:
    """Normalised discounted cumulative gain of the first k: sum of grade / log2(rank + 1), divided by the best sum.

    Source: Järvelin & Kekäläinen 2002, with trec_eval's linear gain.
    """
    best = _dcg(sorted(gold.values(), reverse=True)[:k])
    return _dcg([gold.get(id, 0) for id in ranking[:k]]) / best if best > 0 else 0.0


def recall(ranking: Sequence[str], gold: Gold, k: int) -> float:
    """The share of relevant documents that are among the first k."""
    relevant = _relevant(gold)
    return sum(id in relevant for id in ranking[:k]) / len(relevant) if relevant else 0.0


def hit(ranking: Sequence[str], gold: Gold, k: int) -> float:
    """1 if a relevant document is among the first k, else 0: trec_eval's `success`."""
    return float(not _relevant(gold).isdisjoint(ranking[:k]))


def reciprocal_rank(ranking: Sequence[str], gold: Gold) -> float:
    """1 / rank of the first relevant document; 0 without one. Its mean over questions is MRR."""
    relevant = _relevant(gold)
    return next((1 / rank for rank, id in enumerate(ranking, 1) if id in relevant), 0.0)


def average_precision(ranking: Sequence[str], gold: Gold) -> float:
    """Mean precision at the ranks of all relevant documents; a missing one counts 0.

    Its mean over questions is MAP.
    """
    relevant, found, total = _relevant(gold), 0, 0.0
    for rank, id in enumerate(ranking, 1):
        if id in relevant:
            found += 1
            total += found / rank
    return total / len(relevant) if relevant else 0.0


def context_precision(injected: Sequence[str], gold: Gold) -> float | None:
    """The share of injected passages from relevant documents; None if none was injected."""
    relevant = _relevant(gold)
    return sum(id in relevant for id in injected) / len(injected) if injected else None


def calibration_error(own: Sequence[float], others: Sequence[float]) -> float | None:
    """Expected calibration error of probabilities of relevance: |mean probability - share that is right|, from 0 to 1.

    own: for questions that the documents answer; others: for those that they do not. Each kind weighs a half, as the
    probability assumes. Ten bins of equal width (Guo et al., ICML 2017). None without one of the kinds.
    """
    if not own or not others:
        return None
    gaps = [0.0] * _BINS  # by bin: probability minus share, times the bin's weight
    for probabilities, right in ((own, 1.0), (others, 0.0)):
        for probability in probabilities:
            gaps[min(int(probability * _BINS), _BINS - 1)] += (probability - right) / (2 * len(probabilities))
    return sum(map(abs, gaps))


def ranked_context_precision(injected: Sequence[str], gold: Gold) -> float | None:
    """Mean precision at the ranks of injected passages from relevant documents; 0 without any.

    Source: RAGAS, "context precision"; a relevant passage near the top counts more. None: none was injected.
    """
    relevant, found, total = _relevant(gold), 0, 0.0
    for rank, id in enumerate(injected, 1):
        if id in relevant:
            found += 1
            total += found / rank
    return (total / found if found else 0.0) if injected else None


def context_recall(injected: Sequence[str], gold: Gold) -> float:
    """Share of relevant documents with an injected passage."""
    relevant = _relevant(gold)
    return len(relevant & set(injected)) / len(relevant) if relevant else 0.0


def scores(ranking: Sequence[str], injected: Sequence[str], gold: Gold) -> dict[str, float | None]:
    """All metrics for one question, by their names in reports.

    injected: each injected passage's document, in order, with duplicates.
    """
    return {
        "ndcg@5": ndcg(ranking, gold, 5),
        "ndcg@10": ndcg(ranking, gold, 10),
        "recall@5": recall(ranking, gold, 5),
        "recall@10": recall(ranking, gold, 10),
        "hit@5": hit(ranking, gold, 5),
        "context_precision": context_precision(injected, gold),
        "ranked_context_precision": ranked_context_precision(injected, gold),
        "context_recall": context_recall(injected, gold),
        "mrr": reciprocal_rank(ranking, gold),
        "map": average_precision(ranking, gold),
    }


def _dcg(grades: Sequence[int]) -> float:
    return sum(max(grade, 0) / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def _relevant(gold: Gold) -> set[str]:
    return {id for id, grade in gold.items() if grade >= 1}
