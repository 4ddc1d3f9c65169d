"""Recency: newer first among what fits as well, within a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.search import Candidate
from retrieval.search.recency import SHARE, recency_weight, recent_first

DAY_S = 86_400.0
NOW_S = 1_700_000_000.0

times = st.floats(min_value=0, max_value=NOW_S * 2)
half_lives = st.floats(min_value=0.01, max_value=1e5)


def aged(days: float) -> float:
    return NOW_S - days * DAY_S


def test_a_half_life_costs_half_of_the_share() -> None:
    assert recency_weight(NOW_S, now_s=NOW_S, half_life_days=30) == 1
    assert recency_weight(aged(30), now_s=NOW_S, half_life_days=30) == pytest.approx(1 - SHARE / 2)
    assert recency_weight(aged(60), now_s=NOW_S, half_life_days=30) == pytest.approx(1 - SHARE * 3 / 4)


def test_an_unknown_time_counts_as_one_half_life() -> None:
    assert recency_weight(0.0, now_s=NOW_S, half_life_days=7) == recency_weight(aged(7), now_s=NOW_S, half_life_days=7)


def test_a_time_to_come_counts_as_now() -> None:
    assert recency_weight(aged(-400), now_s=NOW_S, half_life_days=7) == 1


@given(times, half_lives)
def test_never_takes_more_than_its_share(modified_s: float, half_life: float) -> None:
    assert 1 - SHARE <= recency_weight(modified_s, now_s=NOW_S, half_life_days=half_life) <= 1


@given(times, times, half_lives)
def test_the_newer_is_never_worth_less(one: float, other: float, half_life: float) -> None:
    older, newer = sorted((max(one, 1.0), max(other, 1.0)))
    assert recency_weight(older, now_s=NOW_S, half_life_days=half_life) <= recency_weight(
        newer, now_s=NOW_S, half_life_days=half_life
    )


def test_of_two_that_fit_alike_the_newer_comes_first() -> None:
    found = [Candidate("old", 0.03), Candidate("new", 0.03)]
    order = recent_first(found, {"old": aged(900), "new": aged(1)}, now_s=NOW_S, half_life_days=30)
    assert [one.id for one in order] == ["new", "old"]


def test_what_fits_much_better_stays_first_however_old() -> None:
    found = [Candidate("old", 0.032), Candidate("new", 0.016)]
    order = recent_first(found, {"old": aged(9000), "new": NOW_S}, now_s=NOW_S, half_life_days=1)
    assert [one.id for one in order] == ["old", "new"]


@given(st.lists(st.tuples(st.floats(min_value=0, max_value=1), times), max_size=20), half_lives)
def test_keeps_every_one_and_nothing_overtakes_what_is_more_than_the_share_better(
    rows: list[tuple[float, float]], half_life: float
) -> None:
    found = [Candidate(str(i), score, {"dense": i + 1}) for i, (score, _) in enumerate(rows)]
    modified = {str(i): time for i, (_, time) in enumerate(rows)}
    order = recent_first(found, modified, now_s=NOW_S, half_life_days=half_life)
    assert sorted(one.id for one in order) == sorted(modified)
    before = {one.id: one for one in found}
    for i, one in enumerate(order):
        assert one.ranks == before[one.id].ranks
        for other in order[i + 1 :]:
            assert before[one.id].score >= before[other.id].score * (1 - SHARE) - 1e-12


def test_without_ages_the_order_stays() -> None:
    found = [Candidate("b", 0.5), Candidate("a", 0.5), Candidate("c", 0.1)]
    order = recent_first(found, {}, now_s=NOW_S, half_life_days=30)
    assert [one.id for one in order] == ["b", "a", "c"]
