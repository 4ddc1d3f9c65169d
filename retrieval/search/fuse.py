"""Fuse both arms' ranked lists into one, by rank and by comparable scores.

Reciprocal rank fusion treats a clear winner like a lucky one, and a weak arm like a strong one: when BM25 finds
little, plain RRF falls below vectors alone. So `fuse` adds two amounts to a candidate's rank score, which mean the
same for any question, collection and embedder (`relevance.Scale`): its similarity above the last candidate's, and its
matches of rare words. The arms' results set their weights; no labels are needed.
"""

import math
from collections.abc import Mapping, Sequence

from retrieval.records.search import Candidate, ScoredId
from retrieval.search.relevance import Scale

# Share of gold passages among the 12 used, plain RRF against guaranteeing each arm's first 5: CAsT 2021 .958 to .975,
# Anthropic's documentation .893 to .913, MTRAG govt .845 to .854, MED .428 to .425.
_GUARANTEED_RANK = 5
# What a standard deviation of similarity and a match of a rarest word are worth; 1 is first rank in both arms. Mean
# nDCG@10 hardly changes for a similarity of .03 to .07 with words of .1 to .3. See docs/why/ranking.md.
_SIMILARITY = 0.045
_WORDS = 0.25
# Lexical ranks weigh _CONFIRMED_WEIGHT times the share of the first ten lexical candidates that the dense arm found,
# too, but at least _MIN_LEXICAL_WEIGHT. This share is .3 on MTRAG fiqa, where forum posts share no words with
# questions, and .5 to .95 on ten other sets. nDCG@10 with and without this weight: fiqa .281 and .256 (dense alone
# .275), mean of eleven sets .580 and .575.
_CONFIRMATION_DEPTH = 10
_CONFIRMED_WEIGHT = 1.5
_MIN_LEXICAL_WEIGHT = 0.4
_RARE_MATCHES = 1.2  # matches of a rarest word in the first candidate: an error code, a name
# Beyond one rare match, more words are no more evidence: a passage that repeats the conversation (as the last answer's
# passage does) has ten. Without a cap, CAsT 2021 falls from .673 to .628.
_MAX_MATCHES = 1.0


def fuse(arms: Mapping[str, Sequence[ScoredId]], *, rrf_k: int, scale: Scale) -> list[Candidate]:
    """Fuse ranked lists, best first; the score adds up rank, similarity and matched words.

    arms: arm -> points found, best first; the arms' order does not matter. The rank score sums 1 / (rrf_k + rank) over
    the arms, ranks from 1, scaled so that first rank in both arms is worth 1; its lexical part is weighted by the
    dense arm's confirmation. Every candidate carries its rank and score in each arm. One that the dense arm did not
    return counts as similar as that arm's last candidate. Equal scores are sorted by similarity, then by id. O(n log
    n) in all. Scores only order; `relevance` gives a probability.

    Source: Cormack, Clarke & Buettcher, SIGIR 2009.
    """
    ranks: dict[str, dict[str, int]] = {}
    scores: dict[str, dict[str, float]] = {}
    worth: dict[str, float] = {}
    for arm in sorted(arms):  # a fixed order, so that sums are equal to the last bit
        first = (rrf_k + 1) / 2 * (_lexical_weight(arms, scale) if arm == "bm25" else 1.0)
        for rank, point in enumerate(arms[arm], 1):
            id, score = point.id, point.score
            if id in worth:
                ranks[id][arm], scores[id][arm] = rank, score
                worth[id] += first / (rrf_k + rank)
            else:
                ranks[id], scores[id], worth[id] = {arm: rank}, {arm: score}, first / (rrf_k + rank)
    floor = min([by_arm["dense"] for by_arm in scores.values() if "dense" in by_arm], default=0.0)
    unit, match = _SIMILARITY / scale.null.deviation, scale.match
    fused = []
    for id, by_rank in worth.items():
        by_arm = scores[id]
        by_similarity = unit * (by_arm.get("dense", floor) - floor)
        by_words = _WORDS * min(max(by_arm.get("bm25", 0.0), 0.0) / match, _MAX_MATCHES)
        fused.append(Candidate(id, by_rank + by_similarity + by_words, ranks[id], by_arm))
    return sorted(fused, key=lambda point: (-point.score, -point.scores.get("dense", -math.inf), point.id))


def _lexical_weight(arms: Mapping[str, Sequence[ScoredId]], scale: Scale) -> float:
    """The weight of lexical ranks relative to dense ranks; the dense arm knows what words mean.

    If it confirms few of the first lexical candidates, their words matched by chance, unless the words are rare. The
    weight is 1 if one arm was not searched or found nothing.
    """
    near = {point.id for point in arms.get("dense", ())}
    first = arms["bm25"][:_CONFIRMATION_DEPTH]
    if not near or not first or first[0].score >= _RARE_MATCHES * scale.match:
        return 1.0
    share = sum([point.id in near for point in first]) / len(first)
    return min(1.0, max(_MIN_LEXICAL_WEIGHT, _CONFIRMED_WEIGHT * share))


def guarantee_arms(fused: Sequence[Candidate], *, k: int) -> list[Candidate]:
    """Candidates with the context's `k` in front; each arm's first ranks are guaranteed a place among them.

    Only vectors find a passage in other words, only BM25 finds an error code: fusing distant ranks puts it after
    passages that are middling in both arms. Both parts keep their fused order, and no candidate is dropped.
    """
    guaranteed = [point for point in fused if min(point.ranks.values()) <= _GUARANTEED_RANK][:k]
    ids = {point.id for point in guaranteed}
    ids.update([point.id for point in fused if point.id not in ids][: k - len(guaranteed)])
    return [point for point in fused if point.id in ids] + [point for point in fused if point.id not in ids]
