"""Fusion by ranks and by scores, and which of the fused are used first."""

import math

import pytest

from retrieval.records.search import ScoredId
from retrieval.search.ranking import NullDistribution, Scale, fuse, rarest_idf

RANKS = Scale(NullDistribution(0.0, math.inf), 200, math.inf, 1.0)  # no score is worth anything
SCALE = Scale(NullDistribution(0.05, 0.07), 200, rarest_idf(200), 1.0)


def hits(*found: tuple[str, float]) -> list[ScoredId]:
    return [ScoredId(id, score) for id, score in found]


def test_adds_up_one_over_60_plus_rank_by_hand() -> None:
    fused = fuse(
        {"dense": hits(("a", 0.9), ("b", 0.8), ("c", 0.7)), "bm25": hits(("c", 12.0), ("a", 9.0))},
        rrf_k=60,
        scale=RANKS,
    )
    assert [hit.id for hit in fused] == ["a", "c", "b"]
    assert [hit.score for hit in fused] == pytest.approx(
        [61 / 2 * share for share in (1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62)], abs=1e-12
    )


def test_ranks_count_from_one() -> None:
    (hit,) = fuse({"dense": hits(("a", 0.5))}, rrf_k=1, scale=RANKS)
    assert hit.score == 1 / 2


def test_first_in_both_arms_is_worth_one_by_rank() -> None:
    (hit,) = fuse({"dense": hits(("a", 0.5)), "bm25": hits(("a", 3.0))}, rrf_k=10, scale=RANKS)
    assert hit.score == 1.0


def test_every_hit_keeps_what_each_arm_said_of_it() -> None:
    fused = {
        hit.id: hit
        for hit in fuse({"dense": hits(("a", 0.9), ("b", 0.8)), "bm25": hits(("b", 7.5))}, rrf_k=60, scale=RANKS)
    }
    assert (fused["b"].ranks, fused["b"].scores) == ({"dense": 2, "bm25": 1}, {"dense": 0.8, "bm25": 7.5})
    assert (fused["a"].ranks, fused["a"].scores) == ({"dense": 1}, {"dense": 0.9})


def test_first_in_one_arm_is_less_than_second_in_both() -> None:
    fused = fuse(
        {"dense": hits(("x", 1.0), ("both", 0.5)), "bm25": hits(("y", 9.0), ("both", 8.0))}, rrf_k=60, scale=RANKS
    )
    assert [hit.id for hit in fused] == ["both", "x", "y"]


def test_of_equal_scores_the_more_similar_comes_first() -> None:
    lists = {"dense": hits(("b", 0.9), ("a", 0.8)), "bm25": hits(("a", 9.0), ("b", 8.0))}
    assert [hit.id for hit in fuse(lists, rrf_k=60, scale=RANKS)] == ["b", "a"]
    assert [hit.id for hit in fuse({"dense": hits(("b", 0.9)), "bm25": hits(("a", 1.0))}, rrf_k=60, scale=RANKS)] == [
        "b",
        "a",
    ]


def test_ties_that_similarity_does_not_break_are_broken_by_id() -> None:
    lists = {"bm25": hits(("b", 9.0)), "okapi": hits(("a", 8.0))}
    assert [hit.id for hit in fuse(lists, rrf_k=60, scale=RANKS)] == ["a", "b"]


@pytest.mark.parametrize("arms", [{}, {"dense": []}, {"dense": [], "bm25": []}])
def test_nothing_found_is_nothing_fused(arms: dict[str, list[ScoredId]]) -> None:
    assert fuse(arms, rrf_k=60, scale=RANKS) == []


def test_a_clear_lead_in_similarity_outweighs_a_rank_in_a_weak_arm() -> None:
    dense = hits(("clear", 0.8), ("weak", 0.4))
    lists = {"dense": dense, "bm25": hits(("weak", 1.1), ("other", 1.0), ("clear", 0.9))}
    assert fuse(lists, rrf_k=10, scale=RANKS)[0].id == "weak"
    assert fuse(lists, rrf_k=10, scale=SCALE)[0].id == "clear"


def test_a_rare_word_matched_outweighs_a_rank_in_an_even_arm() -> None:
    dense = hits(("a", 0.402), ("b", 0.401), ("named", 0.4))
    lists = {"dense": dense, "bm25": hits(("named", rarest_idf(200)), ("x", 0.2), ("a", 0.1))}
    assert fuse(lists, rrf_k=10, scale=RANKS)[0].id == "a"
    assert fuse(lists, rrf_k=10, scale=SCALE)[0].id == "named"


def test_a_passage_that_repeats_the_conversation_counts_as_one_match() -> None:
    one, many = (
        fuse({"bm25": hits(("a", matches * rarest_idf(200)))}, rrf_k=10, scale=SCALE)[0].score for matches in (1, 12)
    )
    assert one == many


def test_the_order_does_not_depend_on_the_embedders_range_of_cosines() -> None:
    dense = [("a", 0.7), ("b", 0.5), ("c", 0.3)]
    bm25 = hits(("c", 2.0), ("b", 1.5), ("d", 0.3))
    narrow = [(id, (cosine + 3) / 4) for id, cosine in dense]
    wide = fuse({"dense": hits(*dense), "bm25": bm25}, rrf_k=10, scale=SCALE)
    other = Scale(NullDistribution((0.05 + 3) / 4, 0.07 / 4), 200, rarest_idf(200), 1.0)
    fused = fuse({"dense": hits(*narrow), "bm25": bm25}, rrf_k=10, scale=other)
    assert [hit.id for hit in fused] == [hit.id for hit in wide]
    assert [hit.score for hit in fused] == pytest.approx([hit.score for hit in wide])


def found(*ids: str, score: float) -> list[ScoredId]:
    return [ScoredId(id, score - 0.01 * rank) for rank, id in enumerate(ids)]


@pytest.mark.parametrize(
    ("lexical", "weighs"),
    [
        (found("a", "b", "x", "y", score=1.0), 0.75),  # one and a half times the half that is confirmed
        (found("a", "b", "c", "y", score=1.0), 1.0),
        (found("v", "x", "y", "z", score=1.0), 0.4),  # none: still something
        (found("v", "x", "y", "z", score=100.0), 1.0),  # none, but what matches is rare
    ],
)
def test_lexical_ranks_weigh_what_the_vectors_confirm(lexical: list[ScoredId], weighs: float) -> None:
    scale = Scale(NullDistribution(0.0, math.inf), 200, 10.0, 1.0)
    fused = fuse({"dense": found("a", "b", "c", "d", score=0.9), "bm25": lexical}, rrf_k=10, scale=scale)
    (last,) = [one for one in fused if one.id == lexical[-1].id]
    by_words = 0.25 * min(lexical[-1].score / 10.0, 1.0)
    dense = 11 / 2 / (10 + last.ranks["dense"]) if "dense" in last.ranks else 0.0
    assert last.score - by_words - dense == pytest.approx(weighs * 11 / 2 / 14)


def test_without_vectors_words_are_trusted() -> None:
    (one,) = fuse({"bm25": found("a", score=1.0)}, rrf_k=10, scale=RANKS)
    assert one.score == 1 / 2
