"""Fusion, for any lists: the order of the arms is nothing, a point's ranks and scores are everything."""

import math
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.search import ScoredId
from retrieval.search.ranking import NullDistribution, Scale, fuse

IDS = "abcdefgh"


@st.composite
def ranked(draw: st.DrawFn) -> list[ScoredId]:
    """One arm's answer: distinct points, best first."""
    ids = draw(st.lists(st.sampled_from(IDS), unique=True))
    scores = draw(st.lists(st.floats(-1, 30), min_size=len(ids), max_size=len(ids)))
    return [ScoredId(id, score) for id, score in zip(ids, sorted(scores, reverse=True), strict=True)]


arms = st.dictionaries(st.sampled_from(["dense", "bm25", "third"]), ranked())
constants = st.integers(1, 1000)
scales = st.builds(
    Scale,
    null=st.builds(NullDistribution, mean=st.floats(-1, 1), deviation=st.floats(0.01, 1)),
    chunks=st.integers(0, 10**7), rarest_idf=st.floats(0, 16), query_norm=st.floats(0.01, 20),
)  # fmt: skip
RANKS = Scale(NullDistribution(0.0, math.inf), 10, math.inf, 1.0)  # no score is worth anything


@given(arms, constants, scales, st.randoms(use_true_random=False))
def test_the_order_of_the_arms_does_not_matter(
    lists: Mapping[str, list[ScoredId]], rrf_k: int, scale: Scale, random: Random
) -> None:
    names = list(lists)
    random.shuffle(names)
    shuffled = {name: lists[name] for name in names}
    assert fuse(shuffled, rrf_k=rrf_k, scale=scale) == fuse(lists, rrf_k=rrf_k, scale=scale)


@given(arms, constants)
def test_each_point_is_there_once_with_rank_and_score_of_every_arm(
    lists: Mapping[str, list[ScoredId]], rrf_k: int
) -> None:
    fused = {found.id: found for found in fuse(lists, rrf_k=rrf_k, scale=RANKS)}
    assert len(fused) == len(fuse(lists, rrf_k=rrf_k, scale=RANKS))
    for arm, found in lists.items():
        for rank, one in enumerate(found, 1):
            assert (fused[one.id].ranks[arm], fused[one.id].scores[arm]) == (rank, one.score)
    assert sum(len(one.ranks) for one in fused.values()) == sum(len(found) for found in lists.values())


@given(arms, constants, scales)
def test_best_first_then_by_similarity_then_by_id(
    lists: Mapping[str, list[ScoredId]], rrf_k: int, scale: Scale
) -> None:
    keys = [(-one.score, -one.scores.get("dense", -math.inf), one.id) for one in fuse(lists, rrf_k=rrf_k, scale=scale)]
    assert keys == sorted(keys)


@given(arms, constants)
def test_where_no_score_is_worth_anything_it_is_reciprocal_rank_fusion_with_one_weight_for_the_words(
    lists: Mapping[str, list[ScoredId]], rrf_k: int
) -> None:
    shares: dict[str, tuple[float, float]] = {}  # of the lexical ranks, and of the others
    for one in fuse(lists, rrf_k=rrf_k, scale=RANKS):
        by_rank = {arm: (rrf_k + 1) / 2 / (rrf_k + rank) for arm, rank in one.ranks.items()}
        words = by_rank.pop("bm25", 0.0)
        shares[one.id] = (words, one.score - sum(by_rank.values()))
    assert all(left == pytest.approx(0.0, abs=1e-12) for words, left in shares.values() if not words)
    weights = [left / words for words, left in shares.values() if words]
    assert all(weight == pytest.approx(weights[0]) for weight in weights)
    assert all(0.4 - 1e-9 <= weight <= 1 + 1e-9 for weight in weights)
    if not lists.get("dense"):
        assert all(weight == pytest.approx(1.0) for weight in weights)


@given(arms, constants, scales)
def test_better_in_every_arm_is_never_behind(lists: Mapping[str, list[ScoredId]], rrf_k: int, scale: Scale) -> None:
    fused = fuse(lists, rrf_k=rrf_k, scale=scale)
    for place, behind in enumerate(fused):
        for ahead in fused[:place]:
            better = [arm in ahead.ranks and behind.ranks[arm] < ahead.ranks[arm] for arm in behind.ranks]
            assert not (all(better) and set(behind.ranks) == set(ahead.ranks))


@given(ranked(), st.sampled_from(["dense", "bm25"]), constants, scales)
def test_one_arm_alone_keeps_its_order(found: list[ScoredId], arm: str, rrf_k: int, scale: Scale) -> None:
    fused = fuse({arm: found}, rrf_k=rrf_k, scale=scale)
    assert [one.id for one in fused] == [one.id for one in found]
