"""Intervals of paired differences; `test_coverage.py` draws thousands."""

import math

import numpy as np
import pytest

from benchmarks.verdicts.intervals import student
from evaluation.stats.significance import (
    FEWEST,
    detectable,
    difference,
    interval,
    mean_difference,
    needed,
    of_few,
)


def test_few_questions_without_a_change_do_not_say_that_other_questions_do_not_change() -> None:
    same = difference([0.1, 0.5, 0.9], [0.1, 0.5, 0.9], seed=0)
    assert (same.mean, same.questions, same.bounds) == (0.0, 3, True)
    assert same.low < -0.5
    assert same.high > 0.5
    assert interval(same).startswith("+0.000 [too few to say: ")
    assert interval(difference([0.5] * 80, [0.5] * 80, seed=0)).startswith("+0.000 [all alike: ")


def test_questions_are_paired() -> None:
    """Scores that differ much from question to question hide nothing where every question gains the same."""
    before = [number / 250 for number in range(200)]
    gained = difference(before, [score + 0.05 + number % 2 / 100 for number, score in enumerate(before)], seed=0)
    assert (gained.mean, gained.low, gained.high) == pytest.approx((0.055, 0.054, 0.056), abs=1e-3)
    assert gained.certain


def test_the_interval_is_that_of_the_normal_distribution_for_many_questions() -> None:
    changes = np.random.default_rng(1).normal(0.02, 0.3, 400)
    found = difference([0.0] * 400, changes.tolist(), seed=0)
    half = 1.96 * changes.std() / 20
    assert found.mean == pytest.approx(changes.mean())
    assert found.low == pytest.approx(changes.mean() - half, abs=0.004)
    assert found.high == pytest.approx(changes.mean() + half, abs=0.004)


def test_the_seed_decides() -> None:
    before, after = [0.0] * 20, list(np.linspace(-1, 1, 20))
    assert difference(before, after, seed=3) == difference(before, after, seed=3)
    assert difference(before, after, seed=3) != difference(before, after, seed=4)


def test_every_set_counts_the_same() -> None:
    small, large = ([0.0], [1.0]), ([0.0] * 99, [0.0] * 99)
    assert mean_difference([small, large], seed=0).mean == 0.5
    assert mean_difference([small, large], seed=0).questions == 100
    assert interval(mean_difference([small, large], seed=0)).startswith("+0.500 [too few to say: ")


@pytest.mark.parametrize("pairs", [[], [([], [])], [([0.5], [0.5]), ([], [])]])
def test_a_difference_of_nothing_is_refused(pairs: list[tuple[list[float], list[float]]]) -> None:
    with pytest.raises(ValueError, match="at least one question"):
        mean_difference(pairs, seed=0)


def test_many_questions_are_drawn_in_parts_with_bounded_memory() -> None:
    found = difference([0.0] * 3000, [0.0, 1.0] * 1500, seed=0)
    assert found.low < 0.5 < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(3000), abs=0.004)


def test_an_interval_is_no_wider_than_it_must_be() -> None:
    """For many questions nearly Student's; for right and wrong answers Jeffreys', for few Clopper & Pearson's."""
    from scipy.stats import beta  # takes a second, which other test processes need not spend

    random = np.random.default_rng(1)
    changes = random.normal(700, 10, 150)
    found = of_few(changes.tolist(), seed=0, most=None)
    low, high = student(changes)
    assert found.high - found.low == pytest.approx(high - low, rel=0.2)
    exact = beta(5, 16).ppf(0.975)
    right = of_few([1.0] * 4 + [0.0] * 16, seed=0)
    assert right.high == pytest.approx(exact, abs=0.01)
    assert of_few([-1.0] * 4 + [0.0] * 16, seed=0).low == pytest.approx(-exact, abs=0.01)
    jeffreys = beta(20.5, 80.5).ppf(0.975)
    assert of_few([1.0] * 20 + [0.0] * 80, seed=0).high == pytest.approx(jeffreys, abs=0.003)


@pytest.mark.parametrize("n", [1, 15, 72])
def test_questions_that_all_came_out_alike_leave_room_for_what_so_few_cannot_show(n: int) -> None:
    """As wide as the largest share of changed questions of which n hold none in one set of forty."""
    same = of_few([0.0] * n, seed=0)
    assert (same.mean, same.questions) == (0.0, n)
    assert [-same.low, same.high] == pytest.approx([1 - 0.025 ** (1 / n)] * 2, abs=0.01)
    all_gained = of_few([1.0] * n, seed=0)
    assert all_gained.low < all_gained.mean == pytest.approx(all_gained.high) == 1.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([700.0, 710.0] * (FEWEST // 2 - 1), "too few to say"),
        ([0.1 + 0.2, 0.3] * FEWEST, "all alike"),
        ([0.0] * 99, "all alike"),
    ],
)
def test_costs_of_too_few_questions_and_of_such_as_are_alike_have_no_interval(changes: list[float], why: str) -> None:
    found = of_few(changes, seed=0, most=None)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert interval(found, "+.1f") == f"{found.mean:+.1f} [{why}]"
    assert not found.certain


def test_scores_of_too_few_questions_and_equal_scores_have_bounds_and_the_reason() -> None:
    assert interval(of_few([1.0] * 20 + [0.0] * 20, seed=0), "+.1f") == "+0.5 [too few to say: +0.3 to +0.7]"
    assert interval(of_few([0.0] * FEWEST, seed=0), "+.1f") == "+0.0 [all alike: -0.0 to +0.0]"
    assert interval(of_few([1.0] * 40 + [0.0] * 40, seed=0), "+.1f") == "+0.5 [+0.4, +0.6]"


def test_one_question_shows_nothing() -> None:
    assert of_few([1.0], seed=0).low < 0


def test_a_difference_of_no_question_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one question"):
        of_few([], seed=0)


def test_questions_are_weighed_in_parts_with_bounded_memory() -> None:
    found = of_few([0.0, 1.0] * 1500, seed=0)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(3000), abs=0.004)


def test_more_questions_detect_less_and_one_detects_nothing() -> None:
    sizes = [detectable([0.0, 1.0, -1.0, 0.0] * n) for n in (5, 20, 100)]
    assert sizes == sorted(sizes, reverse=True)
    assert detectable([0.5]) > 0.5
    assert detectable([0.0] * 20) > detectable([0.0] * 200) > 0


def test_where_nothing_changed_so_many_are_needed_that_a_change_of_the_margins_size_would_have_been_seen() -> None:
    n = needed([0.0] * 5, margin=0.05)
    assert (1 - 0.05) ** n < 0.025 < (1 - 0.05) ** (n - 1)
