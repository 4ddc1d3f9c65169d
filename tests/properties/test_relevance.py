"""Relevance, for any scores: a probability that follows the scores, and a cut that follows it."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.search import Candidate
from retrieval.search.ranking import NullDistribution, Scale, keep_relevant, probabilities

scores = st.fixed_dictionaries({}, optional={"dense": st.floats(-1, 1), "bm25": st.floats(-30, 300)})
scales = st.builds(
    Scale,
    null=st.builds(NullDistribution, mean=st.floats(-1, 1), deviation=st.floats(1e-6, 1)),
    chunks=st.integers(0, 10**7), rarest_idf=st.floats(0, 16), query_norm=st.floats(0.01, 20),
)  # fmt: skip


def candidates(said: list[Mapping[str, float]]) -> list[Candidate]:
    return [Candidate(str(i), 0.0, {}, one) for i, one in enumerate(said)]


@given(st.lists(scores, max_size=8), scales, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_never_keeps_more(
    said: list[Mapping[str, float]], measured: Scale, one: float, other: float
) -> None:
    found, (low, high) = candidates(said), sorted((one, other))
    kept = keep_relevant(found, measured, min_relevance=low).candidates
    fewer = keep_relevant(found, measured, min_relevance=high).candidates
    assert [one for one in kept if one in fewer] == list(fewer)
    assert [one for one in found if one in kept] == list(kept)


@given(st.lists(scores, min_size=1, max_size=8), scales)
def test_the_relevance_of_all_is_that_of_the_best(said: list[Mapping[str, float]], measured: Scale) -> None:
    found = candidates(said)
    chances = probabilities(found, measured)
    assert all(0 <= chance <= 1 for chance in chances)
    assert keep_relevant(found, measured, min_relevance=0.0).relevance == max(chances)


@given(st.floats(-1, 1), st.floats(0, 300), st.floats(0, 1), st.floats(0, 100), scales)
def test_better_in_both_arms_is_never_less_likely(
    cosine: float, words: float, closer: float, more: float, measured: Scale
) -> None:
    worse, better = candidates([{"dense": cosine, "bm25": words}, {"dense": cosine + closer, "bm25": words + more}])
    low, high = probabilities([worse, better], measured)
    assert low <= high
