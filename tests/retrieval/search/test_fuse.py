"""Reciprocal rank fusion as the paper has it, and which hits are relevant at all."""

import pytest

from retrieval.records import Candidate, Scored
from retrieval.search.fuse import chosen, fuse, rarest_idf, relevant


def hits(*found: tuple[str, float]) -> list[Scored]:
    return [Scored(id, score) for id, score in found]


def test_adds_up_one_over_60_plus_rank_by_hand() -> None:
    fused = fuse({"dense": hits(("a", 0.9), ("b", 0.8), ("c", 0.7)), "bm25": hits(("c", 12.0), ("a", 9.0))}, rrf_k=60)
    assert [hit.id for hit in fused] == ["a", "c", "b"]
    assert [hit.score for hit in fused] == pytest.approx([1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62], abs=1e-15)


def test_ranks_count_from_one() -> None:
    (hit,) = fuse({"dense": hits(("a", 0.5))}, rrf_k=1)
    assert hit.score == 1 / 2


def test_every_hit_keeps_what_each_arm_said_of_it() -> None:
    fused = {hit.id: hit for hit in fuse({"dense": hits(("a", 0.9), ("b", 0.8)), "bm25": hits(("b", 7.5))}, rrf_k=60)}
    assert (fused["b"].ranks, fused["b"].scores) == ({"dense": 2, "bm25": 1}, {"dense": 0.8, "bm25": 7.5})
    assert (fused["a"].ranks, fused["a"].scores) == ({"dense": 1}, {"dense": 0.9})


def test_first_in_one_arm_is_less_than_second_in_both() -> None:
    fused = fuse({"dense": hits(("x", 1.0), ("both", 0.5)), "bm25": hits(("y", 9.0), ("both", 8.0))}, rrf_k=60)
    assert [hit.id for hit in fused] == ["both", "x", "y"]


def test_of_equal_scores_the_more_similar_comes_first() -> None:
    lists = {"dense": hits(("b", 0.9), ("a", 0.8)), "bm25": hits(("a", 9.0), ("b", 8.0))}
    assert [hit.id for hit in fuse(lists, rrf_k=60)] == ["b", "a"]
    assert [hit.id for hit in fuse({"dense": hits(("b", 0.9)), "bm25": hits(("a", 1.0))}, rrf_k=60)] == ["b", "a"]


def test_ties_that_similarity_does_not_break_are_broken_by_id() -> None:
    lists = {"bm25": hits(("b", 9.0)), "okapi": hits(("a", 8.0))}
    assert [hit.id for hit in fuse(lists, rrf_k=60)] == ["a", "b"]


def test_what_one_arm_ranks_high_is_used_though_the_other_does_not_know_it() -> None:
    both = [(f"m{i:02}", 0.5) for i in range(20)]
    lists = {"dense": hits(("only", 0.9), *both), "bm25": hits(*reversed(both))}
    fused = fuse(lists, rrf_k=60)
    assert "only" not in [hit.id for hit in fused[:12]]
    used = [hit.id for hit in chosen(fused, k=12)]
    assert "only" in used[:12]
    assert sorted(used) == sorted(hit.id for hit in fused)
    order = [hit.id for hit in fused]
    assert [order.index(id) for id in used[:12]] == sorted(order.index(id) for id in used[:12])


def test_of_more_sure_ones_than_wanted_the_best_fused_are_used() -> None:
    fused = fuse({"dense": hits(("a", 0.9), ("b", 0.8), ("c", 0.7))}, rrf_k=60)
    assert [hit.id for hit in chosen(fused, k=2)] == ["a", "b", "c"]


@pytest.mark.parametrize("arms", [{}, {"dense": []}, {"dense": [], "bm25": []}])
def test_nothing_found_is_nothing_fused(arms: dict[str, list[Scored]]) -> None:
    assert fuse(arms, rrf_k=60) == []


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ({"dense": 0.25, "bm25": 3.9}, True),
        ({"dense": 0.24, "bm25": 4.0}, True),
        ({"dense": 0.25, "bm25": 4.0}, True),
        ({"dense": 0.24, "bm25": 3.9}, False),
        ({"dense": 0.25}, True),
        ({"dense": 0.24}, False),
        ({"bm25": 4.0}, True),
        ({"bm25": 3.9}, False),
        ({"dense": -0.1, "bm25": 4.0}, True),
        ({}, False),
    ],
)
def test_a_hit_is_dropped_where_it_is_below_both_thresholds(scores: dict[str, float], kept: bool) -> None:
    hit = Candidate("a", 0.016, scores=scores)
    assert relevant([hit], min_cosine=0.25, min_bm25=4.0) == ([hit] if kept else [])


def test_a_hit_that_an_arm_did_not_return_is_below_the_lowest_threshold() -> None:
    assert relevant([Candidate("a", 0.016, scores={"bm25": 1.0})], min_cosine=-1.0, min_bm25=4.0) == []


def test_the_order_stays() -> None:
    found = [Candidate(id, 0.1, scores={"dense": cosine}) for id, cosine in (("b", 0.3), ("x", 0.1), ("a", 0.9))]
    assert [hit.id for hit in relevant(found, min_cosine=0.25, min_bm25=4.0)] == ["b", "a"]


@pytest.mark.parametrize(("chunks", "idf"), [(0, 0.0), (1, 0.2877), (5, 1.3863), (1000, 6.5023), (100_000, 11.1075)])
def test_a_rarest_words_match_weighs_more_in_a_larger_collection(chunks: int, idf: float) -> None:
    assert rarest_idf(chunks) == pytest.approx(idf, abs=1e-3)
