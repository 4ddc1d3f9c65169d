"""How good a ranking is, as trec_eval computes it (Buckley & Voorhees; version 9.0).

A ranking is the ids found, best first, each once; gold maps ids to grades (0: judged and not relevant). An id that was
not judged counts as not relevant, one of grade 1 or more as relevant, a negative grade as 0. A question without any
relevant document scores 0 everywhere, as does one for which nothing was found: neither is left out of a mean.
"""

import math
from collections.abc import Mapping, Sequence

Gold = Mapping[str, int]


def ndcg(ranking: Sequence[str], gold: Gold, k: int) -> float:
    """Normalised discounted cumulative gain of the first k: sum of grade / log2(rank + 1) over that of the best order.

    Source: Järvelin & Kekäläinen 2002, with trec_eval's linear gain.
    """
    best = _dcg(sorted(gold.values(), reverse=True)[:k])
    return _dcg([gold.get(id, 0) for id in ranking[:k]]) / best if best > 0 else 0.0


def recall(ranking: Sequence[str], gold: Gold, k: int) -> float:
    """Share of the relevant documents that stand among the first k."""
    relevant = _relevant(gold)
    return sum(id in relevant for id in ranking[:k]) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[str], gold: Gold) -> float:
    """1 / rank of the first relevant document; 0 where none was found. Its mean is MRR."""
    relevant = _relevant(gold)
    return next((1 / rank for rank, id in enumerate(ranking, 1) if id in relevant), 0.0)


def average_precision(ranking: Sequence[str], gold: Gold) -> float:
    """Mean over all relevant documents of the precision at their ranks, 0 for those not found. Its mean is MAP."""
    relevant, found, total = _relevant(gold), 0, 0.0
    for rank, id in enumerate(ranking, 1):
        if id in relevant:
            found += 1
            total += found / rank
    return total / len(relevant) if relevant else 0.0


def context_precision(injected: Sequence[str], gold: Gold) -> float | None:
    """Share of the injected passages that come from a relevant document; None where nothing was injected."""
    relevant = _relevant(gold)
    return sum(id in relevant for id in injected) / len(injected) if injected else None


def ranked_context_precision(injected: Sequence[str], gold: Gold) -> float | None:
    """The mean of the precision at the rank of each injected passage from a relevant document; 0 without one.

    Source: RAGAS, "context precision"; it rewards relevant passages that stand in front. None: nothing was injected.
    """
    relevant, found, total = _relevant(gold), 0, 0.0
    for rank, id in enumerate(injected, 1):
        if id in relevant:
            found += 1
            total += found / rank
    return (total / found if found else 0.0) if injected else None


def context_recall(injected: Sequence[str], gold: Gold) -> float:
    """Share of the relevant documents of which a passage was injected."""
    relevant = _relevant(gold)
    return len(relevant & set(injected)) / len(relevant) if relevant else 0.0


def scores(ranking: Sequence[str], injected: Sequence[str], gold: Gold) -> dict[str, float | None]:
    """Every metric of one question, by the name that reports use.

    injected: the document of each passage put in front of the model, in order, repeated where two come from one.
    """
    return {
        "ndcg@5": ndcg(ranking, gold, 5),
        "ndcg@10": ndcg(ranking, gold, 10),
        "recall@5": recall(ranking, gold, 5),
        "recall@10": recall(ranking, gold, 10),
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
