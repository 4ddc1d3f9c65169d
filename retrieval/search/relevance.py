"""Whether anything relevant was found at all: a probability from what both arms say, calibrated on judged questions.

A cosine means nothing by itself (unrelated texts have .05 with one embedder, .7 with another), nor does a BM25 score
(it grows with the question and with the collection). So each is measured in a unit of its own, and the two added:

    evidence = similarity + 3 * words - luck

similarity  standard deviations above the cosine of unrelated texts, which this embedder was asked for (`Background`)
words       BM25 score in matches of a word that stands in one chunk only, divided by the question's breadth: a question
            of n words meets chance matches that grow like the root of n
luck        the largest of n standard normal numbers, about sqrt(2 ln n) for n chunks: in a larger collection the best
            of what is irrelevant looks better

A logistic curve turns the evidence of the best passage into the probability that the collection has something on the
question, where as many questions have nothing to find there as have. Measured on judged sets: docs/relevance.md, made
by benchmarks/retrieval/relevance.py, which also fits the constants below. What did not help beyond this: the gap
between the first and the following, the number of words, how many of the first ten the arms share. An embedder that was
never measured gets the same constants: they see no cosine, only how far one stands above what the embedder calls
unrelated.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.embedding.embed import Embedder
from retrieval.lexical.terms import language_of, query_vector
from retrieval.records.search import Candidate

_WORDS = 3.0
SLOPE, OFFSET = 0.96, -1.86
# Of the words alone, where no vectors were asked for.
_WORDS_SLOPE, _WORDS_OFFSET = 4.3, -3.15
# A single passage may be half as likely as what the question needs to be worth an answer: cutting at the whole drops
# 2.6 % of the gold passages for 12 % of the others, at half .7 % for 5 %.
_OF_ONE_PASSAGE = 0.5
# Each of these is asked of all of _TOLD: 256 pairs that have nothing to do with each other.
_ASKED = (
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
_TOLD = (
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
class Background:
    """The cosine between a question and a passage that have nothing in common, by one embedder."""

    mean: float
    deviation: float  # above 0


@dataclass(frozen=True, slots=True)
class Scale:
    """What the scores of one question are measured in."""

    background: Background
    chunks: int  # searched in all
    rarest_idf: float  # of the collection with most chunks
    breadth: float  # root of the sum of the words' squared weights, 1 where there is no word

    @property
    def match(self) -> float:
        """The BM25 score of one match of a rarest word, times the question's breadth: the unit of such scores."""
        return (self.rarest_idf or 1.0) * self.breadth or 1.0


@dataclass(frozen=True, slots=True)
class Judged:
    """The candidates worth using in the order they came, and the probability that something relevant is there."""

    candidates: Sequence[Candidate]
    relevance: float
    all: Sequence[Candidate]  # also those that are not


def background(embedder: Embedder) -> Background:
    """What this embedder calls unrelated. It embeds 32 sentences: 60 ms with the default one."""
    cosines = embedder.embed_query(_ASKED) @ embedder.embed_documents(_TOLD).T
    return Background(float(cosines.mean()), max(float(cosines.std()), 1e-6))


def rarest_idf(chunks: int) -> float:
    """The IDF of a word that stands in one chunk of `chunks`: what such a word's match adds to a BM25 score.

    The unit in which a BM25 score means the same in a collection of 5 chunks (1.4) and of 100,000 (11.1).
    Source: Lucene's BM25 IDF, ln(1 + (N - n + 0.5) / (n + 0.5)) at n = 1, as Qdrant computes it.
    """
    return math.log(1 + max(chunks - 0.5, 0) / 1.5)


def scale(background: Background, sizes: Mapping[str, int], terms: Sequence[tuple[str, float]]) -> Scale:
    """sizes: the tenants searched, and the chunks of each. terms: the pieces searched, with their weights.

    A question's words are counted in the language of the tenant with most chunks.
    """
    largest = max(sizes, key=sizes.__getitem__, default="")
    weights = query_vector(terms, language_of(largest)).values
    breadth = math.sqrt(sum([weight * weight for weight in weights]))
    return Scale(background, sum(sizes.values()), rarest_idf(sizes.get(largest, 0)), breadth or 1.0)


def judged(found: Sequence[Candidate], scale: Scale, *, min_relevance: float) -> Judged:
    """What of `found` is worth using: nothing where the best is below `min_relevance`, else what is not far below."""
    chances = probabilities(found, scale)
    best = max(chances, default=0.0)
    if best < min_relevance:
        return Judged([], best, found)
    least = min_relevance * _OF_ONE_PASSAGE
    return Judged([one for one, chance in zip(found, chances, strict=True) if chance >= least], best, found)


def probabilities(found: Sequence[Candidate], scale: Scale) -> list[float]:
    """For each candidate the probability that it, as the best one, is relevant.

    One that the dense arm did not return is at most as similar as the last it returned; one that the lexical arm did
    not return matches no word.
    """
    return [_logistic(evidence) for evidence in _evidence(found, scale)]


def _evidence(found: Sequence[Candidate], scale: Scale) -> list[float]:
    """What the logistic curve is asked for, of each candidate."""
    said = [one.scores for one in found]
    floor = min([scores["dense"] for scores in said if "dense" in scores], default=None)
    match = scale.match
    matched = [max(scores.get("bm25", 0.0), 0.0) / match for scores in said]
    if floor is None:
        return [_WORDS_SLOPE * words + _WORDS_OFFSET for words in matched]
    nothing, luck = scale.background, math.sqrt(2 * math.log(max(scale.chunks, 1)))
    unit, offset = SLOPE / nothing.deviation, OFFSET - SLOPE * (nothing.mean / nothing.deviation + luck)
    similar = [scores.get("dense", floor) for scores in said]
    return [unit * cosine + SLOPE * _WORDS * words + offset for cosine, words in zip(similar, matched, strict=True)]


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-min(max(x, -500.0), 500.0)))
