"""How probably a search found a relevant passage, from both arms' scores, calibrated on judged questions.

A raw cosine has no fixed meaning (unrelated texts have .05 with one embedder, .7 with another), and a raw BM25 score
grows with question and collection. So each score gets a unit of its own, and the two are added:

    evidence = similarity + 3 * words - expected_max_noise

similarity          standard deviations above this embedder's mean cosine of unrelated texts (`NullDistribution`)
words               BM25 score in matches of a word that occurs in only one chunk, divided by the norm of the query's
                    weights: a question of n words has chance matches that grow like the root of n
expected_max_noise  the largest of n standard normal numbers, about sqrt(2 ln n) for n chunks: in a larger collection
                    the best irrelevant passage looks better

A logistic curve turns the best passage's evidence into the probability that the collection answers the question,
assuming that half of all questions have no answer there. docs/why/ranking.md has measurements on judged sets;
benchmarks/retrieval/relevance.py made them and also fits the constants below. Without effect: the gap between first
and following candidates, the number of words, how many of their first ten candidates both arms share. An unmeasured
embedder gets the same constants: they see no cosine, only its distance from cosines of unrelated texts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.embedding.embed import Embedder
from retrieval.lexical.terms import language_of, query_vector
from retrieval.records.search import Candidate

_WORDS = 3.0
SLOPE, OFFSET = 0.96, -1.86
# For BM25 alone, when no vectors are searched.
_WORDS_SLOPE, _WORDS_OFFSET = 4.3, -3.15
# A passage is kept at half the question's threshold: cutting at the whole threshold drops 2.6 % of gold passages and
# 12 % of irrelevant ones, cutting at half .7 % and 5 %.
_PASSAGE_SHARE = 0.5
# Each question with each of _PASSAGES: 256 unrelated pairs.
_QUESTIONS = (
    "Where do I change trains for the airport?",
    "Why does water boil sooner high up in the mountains?",
    "Which herbs grow well in a pot on the balcony?",
    "What makes a contract void from the start?",
    "Who scored in the second half of the match?",
    "How many eggs does the recipe need?",
    "When is the interest on the loan due?",
    "What does the function return if nothing matches?",
    "How old is the stone bridge across the river?",
    "At what age are children vaccinated against measles?",
    "The printer does not react, what can I do?",
    "Is the museum open on public holidays?",
    "Why does steel rust faster by the sea?",
    "How is the violin tuned?",
    "Which countries elect a new parliament this year?",
    "How long must the password be?",
)
_PASSAGES = (
    "Whales come up to the surface in order to breathe; some stay below for more than an hour.",
    "The novel tells of two sisters who inherit a lighthouse and find the letters of its keeper.",
    "Type the formula into the cell, then drag its corner down to fill the column.",
    "A wound should be cleaned with clear water before it is bandaged.",
    "The satellite sends pictures of the clouds every ten minutes.",
    "Employees hand in their receipts, and the travel desk pays them with the next salary.",
    "Bees find their way back to the hive by the position of the sun.",
    "Snow is expected above eight hundred metres on Friday, with strong wind from the north.",
    "Divide both sides of the equation by three, then take the square root.",
    "The hotel has forty rooms, a sauna and free parking behind the house.",
    "Coffee is roasted in small batches and packed on the same day.",
    "The witness did not remember the colour of the car.",
    "The committee approved the budget by nine votes to four and closed the meeting.",
    "An electron carries a negative charge and has very little mass.",
    "She painted the portrait in oil, within three weeks, from memory.",
    "The choir rehearses two psalms and a madrigal for four voices.",
)


@dataclass(frozen=True, slots=True)
class NullDistribution:
    """How one embedder's cosine between a question and an unrelated passage is distributed."""

    mean: float
    deviation: float  # above 0


@dataclass(frozen=True, slots=True)
class Scale:
    """One question's units for scores."""

    null: NullDistribution
    chunks: int  # in all searched tenants
    rarest_idf: float  # of the tenant with most chunks
    query_norm: float  # Euclidean norm of the query's word weights; 1 without words

    @property
    def match(self) -> float:
        """Unit of BM25 scores: one match of a rarest word, times the query's norm."""
        return (self.rarest_idf or 1.0) * self.query_norm or 1.0


@dataclass(frozen=True, slots=True)
class RelevantCandidates:
    """Candidates worth using, in fused order, and the probability that the best one is relevant."""

    candidates: Sequence[Candidate]
    relevance: float
    all: Sequence[Candidate]  # all fused candidates


def null_distribution(embedder: Embedder) -> NullDistribution:
    """This embedder's null distribution. Embeds 32 sentences: 60 ms with the default embedder."""
    cosines = embedder.embed_query(_QUESTIONS) @ embedder.embed_documents(_PASSAGES).T
    return NullDistribution(float(cosines.mean()), max(float(cosines.std()), 1e-6))


def rarest_idf(chunks: int) -> float:
    """The IDF of a word that occurs in one chunk of `chunks`: what its match adds to a BM25 score.

    As a unit, it makes BM25 scores comparable between collections of 5 chunks (1.4) and of 100,000 (11.1). Source:
    Lucene's BM25 IDF, ln(1 + (N - n + 0.5) / (n + 0.5)) at n = 1, as in Qdrant.
    """
    return math.log(1 + max(chunks - 0.5, 0) / 1.5)


def score_scale(null: NullDistribution, sizes: Mapping[str, int], terms: Sequence[tuple[str, float]]) -> Scale:
    """The scale for one query, its words in the language of the tenant with most chunks.

    sizes: searched tenant -> chunks. terms: the query's (text, weight) pieces.
    """
    largest = max(sizes, key=sizes.__getitem__, default="")
    weights = query_vector(terms, language_of(largest)).values
    norm = math.sqrt(sum([weight * weight for weight in weights]))
    return Scale(null, sum(sizes.values()), rarest_idf(sizes.get(largest, 0)), norm or 1.0)


def keep_relevant(fused: Sequence[Candidate], scale: Scale, *, min_relevance: float) -> RelevantCandidates:
    """Cut fused candidates: drop all if the best is below `min_relevance`, else drop those far below."""
    chances = probabilities(fused, scale)
    best = max(chances, default=0.0)
    if best < min_relevance:
        return RelevantCandidates([], best, fused)
    threshold = min_relevance * _PASSAGE_SHARE
    kept = [candidate for candidate, chance in zip(fused, chances, strict=True) if chance >= threshold]
    return RelevantCandidates(kept, best, fused)


def probabilities(candidates: Sequence[Candidate], scale: Scale) -> list[float]:
    """For each candidate, the probability of relevance if it were the best.

    A candidate missing from the dense arm counts as similar as that arm's last; one missing from the lexical arm
    matches no word.
    """
    return [_logistic(evidence) for evidence in _evidence(candidates, scale)]


def _evidence(candidates: Sequence[Candidate], scale: Scale) -> list[float]:
    """Each candidate's input to the logistic curve."""
    by_arm = [candidate.scores for candidate in candidates]
    floor = min([scores["dense"] for scores in by_arm if "dense" in scores], default=None)
    match = scale.match
    matched = [max(scores.get("bm25", 0.0), 0.0) / match for scores in by_arm]
    if floor is None:
        return [_WORDS_SLOPE * words + _WORDS_OFFSET for words in matched]
    null, expected_max_noise = scale.null, math.sqrt(2 * math.log(max(scale.chunks, 1)))
    unit, offset = SLOPE / null.deviation, OFFSET - SLOPE * (null.mean / null.deviation + expected_max_noise)
    similar = [scores.get("dense", floor) for scores in by_arm]
    return [unit * cosine + SLOPE * _WORDS * words + offset for cosine, words in zip(similar, matched, strict=True)]


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-min(max(x, -500.0), 500.0)))
