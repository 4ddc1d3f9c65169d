"""Whether something relevant was found: the probability, what it cuts, and what it is measured in."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from config.settings import load
from retrieval.embedding.embed import Embedder, Matrix
from retrieval.lexical.terms import query_vectors
from retrieval.records.search import Candidate
from retrieval.search.ranking import (
    LEAST_NOISE,
    NullDistribution,
    Scale,
    keep_relevant,
    null_distribution,
    probabilities,
    rarest_idf,
    score_scale,
)
from tests.contracts.points import words_of
from tests.support.minilm import hashing

ARMS = ("dense", "bm25")
SCALE = Scale(NullDistribution(0.05, 0.07), chunks=200, rarest_idf=rarest_idf(200), query_norm=2.0)


def found(**scores: tuple[float | None, float | None]) -> list[Candidate]:
    """Candidates by id: (cosine, BM25 score), None where that arm did not return it."""
    return [
        Candidate(id, 0.01, {}, {arm: score for arm, score in zip(ARMS, pair, strict=True) if score is not None})
        for id, pair in scores.items()
    ]


def test_what_is_similar_is_likely_and_what_is_not_is_not() -> None:
    near, far = probabilities(found(near=(0.6, None), far=(0.15, None)), SCALE)
    assert near > 0.9
    assert far < 0.05


def test_a_rare_word_found_makes_up_for_a_low_similarity() -> None:
    (chance,) = probabilities(found(code=(0.15, 2 * rarest_idf(200))), Scale(SCALE.null, 200, rarest_idf(200), 1.0))
    assert chance > 0.7


def test_the_best_of_a_larger_collection_must_be_better() -> None:
    sizes = [10, 1000, 100_000]
    chances = [probabilities(found(a=(0.35, None)), score_scale(SCALE.null, {"a@1": size}, {}))[0] for size in sizes]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] - chances[-1] > 0.3


def test_the_same_number_of_matches_says_less_of_a_long_question() -> None:
    short, long = (Scale(SCALE.null, 200, rarest_idf(200), breadth) for breadth in (1.0, 4.0))
    assert probabilities(found(a=(0.2, 6.0)), short) > probabilities(found(a=(0.2, 6.0)), long)


def test_breadth_is_that_of_the_words_searched() -> None:
    unrelated = NullDistribution(0.0, 0.1)
    assert score_scale(unrelated, {"a@1": 5}, words_of("kotlin driver sessions tokens")).query_norm == pytest.approx(
        2.0
    )
    assert score_scale(
        unrelated, {"a@1": 5}, query_vectors(["a@1"], [("kotlin", 1.0), ("driver", 0.5)])
    ).query_norm == pytest.approx(math.sqrt(1.25))
    assert score_scale(unrelated, {"a@1": 5}, words_of("how are you?")).query_norm == 1.0


def test_one_that_the_dense_arm_did_not_return_is_at_most_as_similar_as_its_last() -> None:
    first, last, unseen = probabilities(found(first=(0.6, None), last=(0.3, 5.0), unseen=(None, 5.0)), SCALE)
    assert unseen == last < first


def test_a_collection_in_which_anything_is_found_demands_more() -> None:
    candidates = found(a=(0.35, None))
    quiet, loud, silent = (
        probabilities(candidates, replace(SCALE, noise=noise))[0] for noise in (0.0, 2.0, LEAST_NOISE)
    )
    assert loud < quiet < silent
    assert probabilities(candidates, replace(SCALE, noise=10 * LEAST_NOISE)) == [silent]


def test_noise_decides_what_is_used_and_not_what_leans_on_the_conversation() -> None:
    candidates = found(a=(0.9, None))
    loud = keep_relevant(candidates, replace(SCALE, noise=20.0), min_relevance=0.2)
    assert (loud.candidates, loud.sure) == ([], True)
    assert not keep_relevant(found(a=(0.35, None)), SCALE, min_relevance=0.0).sure


def test_several_collections_are_one_haystack() -> None:
    together = score_scale(SCALE.null, {"a@1": 100, "b@1": 300}, {})
    assert (together.chunks, together.rarest_idf) == (400, rarest_idf(300))


def test_words_alone_are_judged_where_no_vectors_were_asked_for() -> None:
    rare, common = probabilities(found(rare=(None, 2 * rarest_idf(200)), common=(None, 0.5)), SCALE)
    assert rare > 0.5
    assert common < 0.2


def test_a_frequent_word_in_common_is_not_enough_for_a_passage() -> None:
    least = load(environ={}).retrieval.min_relevance
    assert keep_relevant(found(common=(None, 0.3)), SCALE, min_relevance=least).candidates == []
    assert keep_relevant(found(rare=(None, rarest_idf(200))), SCALE, min_relevance=least).candidates


def test_a_score_below_zero_says_no_more_than_none() -> None:
    """rank-bm25 gives a word that stands in most passages a negative score."""
    assert probabilities(found(a=(0.4, -3.0)), SCALE) == probabilities(found(a=(0.4, None)), SCALE)


def test_nothing_is_used_where_the_best_is_not_likely_enough() -> None:
    candidates = found(a=(0.3, None), b=(0.2, None))
    (chance, _) = probabilities(candidates, SCALE)
    assert keep_relevant(candidates, SCALE, min_relevance=chance + 0.01).candidates == []
    assert keep_relevant(candidates, SCALE, min_relevance=chance + 0.01).relevance == chance
    assert candidates[0] in keep_relevant(candidates, SCALE, min_relevance=chance).candidates


def test_what_is_far_below_is_left_out_and_the_order_stays() -> None:
    candidates = found(b=(0.45, None), nothing=(0.0, None), a=(0.6, None))
    assert [one.id for one in keep_relevant(candidates, SCALE, min_relevance=0.2).candidates] == ["b", "a"]


def test_a_threshold_of_zero_keeps_everything() -> None:
    candidates = found(a=(-1.0, None), b=(None, 0.0))
    assert keep_relevant(candidates, SCALE, min_relevance=0.0).candidates == candidates


def test_nothing_found_is_not_relevant() -> None:
    assert keep_relevant([], SCALE, min_relevance=0.2).relevance == 0.0
    assert keep_relevant([], Scale(SCALE.null, 0, 0.0, 1.0), min_relevance=0.0).candidates == []


def test_a_collection_of_one_chunk_can_be_judged() -> None:
    one = score_scale(SCALE.null, {"a@1": 1}, words_of("sessions"))
    near, far = probabilities(found(near=(0.6, 0.3), far=(0.0, None)), one)
    assert near > 0.9
    assert far < 0.5


@pytest.mark.parametrize(("chunks", "idf"), [(0, 0.0), (1, 0.2877), (5, 1.3863), (1000, 6.5023), (100_000, 11.1075)])
def test_a_rarest_words_match_weighs_more_in_a_larger_collection(chunks: int, idf: float) -> None:
    assert rarest_idf(chunks) == pytest.approx(idf, abs=1e-3)


def _narrowed(vectors: Matrix) -> Matrix:
    shared = np.ones((len(vectors), 1), np.float32)
    return np.asarray(np.hstack([vectors, shared]) / math.sqrt(2), np.float32)


class Narrow:
    """An embedder all of whose vectors share a direction: no cosine below .5, as with some models."""

    def __init__(self, inner: Embedder) -> None:
        self.name, self.max_tokens, self.dimension = "narrow", inner.max_tokens, inner.dimension + 1
        self.document_prompt, self.tokenizer_file = inner.document_prompt, inner.tokenizer_file
        self._inner = inner

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        vectors = self._inner.embed_query(texts)
        return _narrowed(vectors)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        vectors = self._inner.embed_documents(texts)
        return _narrowed(vectors)


def test_another_embedders_cosines_mean_the_same_once_it_was_asked_for_its_background() -> None:
    wide = hashing()
    narrow = Narrow(wide)
    asked, told = ["use tls with java"], ["open a session in kotlin", "use tls with the java driver"]
    chances = []
    for embedder in (wide, narrow):
        cosines = (embedder.embed_query(asked) @ embedder.embed_documents(told).T)[0]
        unrelated = null_distribution(embedder)
        candidates = found(a=(float(cosines[0]), None), b=(float(cosines[1]), None))
        chances.append(probabilities(candidates, score_scale(unrelated, {"a@1": 2}, {})))
    assert chances[0] == pytest.approx(chances[1], abs=1e-3)


def test_an_embedder_to_which_all_texts_are_alike_breaks_nothing() -> None:
    alike = Scale(NullDistribution(1.0, 1e-6), 10, rarest_idf(10), 1.0)
    assert all(0 <= chance <= 1 for chance in probabilities(found(a=(1.0, 2.0), b=(-1.0, None)), alike))
