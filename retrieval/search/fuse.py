"""Several ranked lists to one: by rank, and by what the scores say where they can be compared.

Reciprocal rank fusion gives a clear winner no more than a lucky one, and a weak arm as much as a strong one: where the
words find little it falls below the vectors alone. So a candidate's share of the ranks is joined by two amounts that
mean the same for any question, collection and embedder (`relevance.Scale`): how far it is more similar than the last
candidate, and how much of a rare word it matches. What the arms say of a question weighs them; nothing needs labels.
"""

import math
from collections.abc import Mapping, Sequence

from retrieval.records.search import Candidate, ScoredId
from retrieval.search.relevance import Scale

# Share of gold passages among the 12 used, plain RRF against the first 5 of each arm kept: CAsT 2021 .958 to .975,
# Anthropic's documentation .893 to .913, MTRAG govt .845 to .854, MED .428 to .425.
_SURE_RANK = 5
# A standard deviation of similarity, and a match of a rarest word, in shares of a first rank in both arms. Mean nDCG@10
# hardly changes for a similarity of .03 to .07 with words of .1 to .3. See docs/relevance.md.
_SIMILARITY = 0.045
_WORDS = 0.25
# The lexical ranks weigh _TRUST times the share of their first ten that the dense arm found, too, but at least
# _LEAST_TRUST. That share is .3 on MTRAG fiqa, where forum posts share no words with questions, and .5 to .95 on ten
# other sets. nDCG@10 with and without: fiqa .281 and .256 (dense alone .275), mean of eleven sets .580 and .575.
_CONFIRMED = 10
_TRUST = 1.5
_LEAST_TRUST = 0.4
_RARE = 1.2  # matches of a rarest word in the first: an error code, a name
# Beyond one such match more words are no more evidence: a passage that repeats the conversation, as the last answer's
# own does, has ten. Uncapped, CAsT 2021 falls from .673 to .628.
_MOST_WORDS = 1.0


def fuse(arms: Mapping[str, Sequence[ScoredId]], *, rrf_k: int, scale: Scale) -> list[Candidate]:
    """Fuse ranked lists, best first: what a candidate is worth by its ranks, its similarity and the words it matches.

    arms: arm -> what it found, best first; their order does not matter. By the ranks it is worth the sum over the lists
    of 1 / (rrf_k + rank), ranks from 1, so that 1 is first in two lists; the lexical one by how far the dense one
    confirms it. Every candidate carries its rank and score in each arm that found it. One that the dense arm did not
    return counts as similar as the last that it did. Of equal ones the more similar goes first, then by id. O(n log n)
    in all. The score orders; `relevance` says how good it is.
    Source of the ranks' part: Cormack, Clarke & Buettcher, SIGIR 2009.
    """
    ranks: dict[str, dict[str, int]] = {}
    scores: dict[str, dict[str, float]] = {}
    worth: dict[str, float] = {}
    for arm in sorted(arms):  # in one order, so that a sum of several is the same to the last bit
        first = (rrf_k + 1) / 2 * (_trust(arms, scale) if arm == "bm25" else 1.0)
        for rank, point in enumerate(arms[arm], 1):
            id, score = point.id, point.score
            if id in worth:
                ranks[id][arm], scores[id][arm] = rank, score
                worth[id] += first / (rrf_k + rank)
            else:
                ranks[id], scores[id], worth[id] = {arm: rank}, {arm: score}, first / (rrf_k + rank)
    floor = min([said["dense"] for said in scores.values() if "dense" in said], default=0.0)
    unit, match = _SIMILARITY / scale.background.deviation, scale.match
    fused = []
    for id, by_rank in worth.items():
        said = scores[id]
        by_similarity = unit * (said.get("dense", floor) - floor)
        by_words = _WORDS * min(max(said.get("bm25", 0.0), 0.0) / match, _MOST_WORDS)
        fused.append(Candidate(id, by_rank + by_similarity + by_words, ranks[id], said))
    return sorted(fused, key=lambda one: (-one.score, -one.scores.get("dense", -math.inf), one.id))


def _trust(arms: Mapping[str, Sequence[ScoredId]], scale: Scale) -> float:
    """What the ranks of the lexical arm weigh beside those of the dense one, which knows what the words mean.

    Where hardly any of the first that have the question's words are near it in meaning, the words were chance: unless
    they are rare ones. Nothing can be said where one arm was not asked or found nothing.
    """
    near = {point.id for point in arms.get("dense", ())}
    first = arms["bm25"][:_CONFIRMED]
    if not near or not first or first[0].score >= _RARE * scale.match:
        return 1.0
    share = sum([point.id in near for point in first]) / len(first)
    return min(1.0, max(_LEAST_TRUST, _TRUST * share))


def chosen(fused: Sequence[Candidate], *, k: int) -> list[Candidate]:
    """The candidates with the `k` to be used in front: an arm's first few are among them, whatever the other arm says.

    What is said in other words only the vectors find, an error code only BM25: ranks far apart leave such a passage
    behind those that are middling in both. Both parts keep the fused order, and nothing is left out.
    """
    sure = [one for one in fused if min(one.ranks.values()) <= _SURE_RANK][:k]
    ids = {one.id for one in sure}
    ids.update([one.id for one in fused if one.id not in ids][: k - len(sure)])
    return [one for one in fused if one.id in ids] + [one for one in fused if one.id not in ids]
