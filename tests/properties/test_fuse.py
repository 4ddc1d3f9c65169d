"""Fusion, for any lists: the order of the arms is nothing, a point's ranks and scores are everything."""

import math
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.records import Scored
from retrieval.search.fuse import fuse, relevant

IDS = "abcdefgh"


@st.composite
def ranked(draw: st.DrawFn) -> list[Scored]:
    """One arm's answer: distinct points, best first."""
    ids = draw(st.lists(st.sampled_from(IDS), unique=True))
    scores = draw(st.lists(st.floats(-1, 30), min_size=len(ids), max_size=len(ids)))
    return [Scored(id, score) for id, score in zip(ids, sorted(scores, reverse=True), strict=True)]


arms = st.dictionaries(st.sampled_from(["dense", "bm25", "third"]), ranked())
constants = st.integers(1, 1000)


@given(arms, constants, st.randoms(use_true_random=False))
def test_the_order_of_the_arms_does_not_matter(lists: Mapping[str, list[Scored]], rrf_k: int, random: Random) -> None:
    names = list(lists)
    random.shuffle(names)
    assert fuse({name: lists[name] for name in names}, rrf_k=rrf_k) == fuse(lists, rrf_k=rrf_k)


@given(arms, constants)
def test_each_point_is_there_once_with_rank_and_score_of_every_arm(
    lists: Mapping[str, list[Scored]], rrf_k: int
) -> None:
    fused = {found.id: found for found in fuse(lists, rrf_k=rrf_k)}
    assert len(fused) == len(fuse(lists, rrf_k=rrf_k))
    for arm, found in lists.items():
        for rank, one in enumerate(found, 1):
            assert (fused[one.id].ranks[arm], fused[one.id].scores[arm]) == (rank, one.score)
    assert sum(len(one.ranks) for one in fused.values()) == sum(len(found) for found in lists.values())


@given(arms, constants)
def test_best_first_by_the_formula_then_similarity_then_id(lists: Mapping[str, list[Scored]], rrf_k: int) -> None:
    fused = fuse(lists, rrf_k=rrf_k)
    for one in fused:
        assert one.score == pytest.approx(sum(1 / (rrf_k + rank) for rank in one.ranks.values()))
    keys = [(-one.score, -one.scores.get("dense", -math.inf), one.id) for one in fused]
    assert keys == sorted(keys)


@given(arms, st.floats(-1, 1), st.floats(0, 30))
def test_what_is_dropped_is_below_in_every_arm(
    lists: Mapping[str, list[Scored]], min_cosine: float, min_bm25: float
) -> None:
    fused = fuse(lists, rrf_k=60)
    kept = relevant(fused, min_cosine=min_cosine, min_bm25=min_bm25)
    assert [one for one in fused if one in kept] == kept
    for one in fused:
        above = [
            "dense" in one.scores and one.scores["dense"] >= min_cosine,
            "bm25" in one.scores and one.scores["bm25"] >= min_bm25,
        ]
        assert (one in kept) == any(above)
