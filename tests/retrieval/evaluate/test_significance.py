"""Paired bootstrap intervals."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from retrieval.evaluate.significance import detectable, difference, mean_difference, of_few

Changes = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Changes]


def test_the_same_run_differs_by_nothing_for_certain() -> None:
    same = difference([0.1, 0.5, 0.9], [0.1, 0.5, 0.9], seed=0)
    assert (same.mean, same.low, same.high, same.questions) == (0.0, 0.0, 0.0, 3)
    assert not same.certain


def test_questions_are_paired() -> None:
    """Scores that differ much from question to question hide nothing where every question gains the same."""
    before = [number / 60 for number in range(50)]
    gained = difference(before, [score + 0.05 for score in before], seed=0)
    assert (gained.mean, gained.low, gained.high) == pytest.approx((0.05, 0.05, 0.05))
    assert gained.certain


def test_the_interval_is_that_of_the_normal_distribution_for_many_questions() -> None:
    changes = np.random.default_rng(1).normal(0.02, 0.3, 400)
    found = difference([0.0] * 400, changes.tolist(), seed=0)
    half = 1.96 * changes.std() / 20
    assert found.mean == pytest.approx(changes.mean())
    assert found.low == pytest.approx(changes.mean() - half, abs=0.002)
    assert found.high == pytest.approx(changes.mean() + half, abs=0.002)


def test_the_seed_decides() -> None:
    before, after = [0.0] * 20, list(np.linspace(-1, 1, 20))
    assert difference(before, after, seed=3) == difference(before, after, seed=3)
    assert difference(before, after, seed=3) != difference(before, after, seed=4)


def test_every_set_counts_the_same() -> None:
    small, large = ([0.0], [1.0]), ([0.0] * 99, [0.0] * 99)
    assert mean_difference([small, large], seed=0).mean == 0.5
    assert mean_difference([small, large], seed=0).questions == 100


@pytest.mark.parametrize("pairs", [[], [([], [])], [([0.5], [0.5]), ([], [])]])
def test_a_difference_of_nothing_is_refused(pairs: list[tuple[list[float], list[float]]]) -> None:
    with pytest.raises(ValueError, match="at least one question"):
        mean_difference(pairs, seed=0)


def test_many_questions_are_drawn_in_parts_with_bounded_memory() -> None:
    found = difference([0.0] * 3000, [0.0, 1.0] * 1500, seed=0)
    assert found.low < 0.5 < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(3000), abs=0.004)


def right_or_wrong(worse: float, better: float) -> Draw:
    """Answers that are right or wrong: shares of questions that become wrong and right."""

    def draw(random: np.random.Generator, n: int) -> Changes:
        chance = random.random(n)
        return np.where(chance < worse, -1.0, np.where(chance < worse + better, 1.0, 0.0))

    return draw


def repeated(random: np.random.Generator, n: int) -> Changes:
    """Right or wrong, asked three times, each question with its own chance; the mean gain is 0.15."""
    before = random.beta(2, 2, n) * 0.8
    return (random.binomial(3, before + 0.15) - random.binomial(3, before)) / 3


def shares(random: np.random.Generator, n: int) -> Changes:
    """Scores between 0 and 1 that all move a little; the mean gain is 0.1."""
    return random.beta(2, 2, n) * 0.9 + 0.1 * random.random(n) * 2 - random.beta(2, 2, n) * 0.9


def some_solved(random: np.random.Generator, n: int) -> Changes:
    """Token F1: three of ten answers become good, the others stay as they are; the mean gain is 0.3 (5/6 - 1/2)."""
    before = random.beta(0.5, 0.5, n)
    return np.where(random.random(n) < 0.3, random.beta(5, 1, n), before) - before


DRAWS = [
    pytest.param(right_or_wrong(0.1, 0.3), 0.2, id="binary, helps"),
    pytest.param(right_or_wrong(0.2, 0.2), 0.0, id="binary, noise"),
    pytest.param(right_or_wrong(0.3, 0.05), -0.25, id="binary, harms"),
    pytest.param(right_or_wrong(0.05, 0.5), 0.45, id="binary, helps much"),
    pytest.param(repeated, 0.15, id="binary, three repeats"),
    pytest.param(shares, 0.1, id="shares"),
    pytest.param(some_solved, 0.1, id="token F1, some solved"),
]


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize(("draw", "truth"), DRAWS)
def test_the_interval_covers_the_truth_in_about_950_of_1000_draws(draw: Draw, truth: float, n: int) -> None:
    random = np.random.default_rng(2024)
    found = [of_few(draw(random, n).tolist(), seed=seed, resamples=500) for seed in range(1000)]
    assert 930 <= sum(one.low <= truth <= one.high for one in found) <= 970


def test_where_few_questions_change_the_plain_interval_covers_the_truth_too_seldom_and_this_one_does_not() -> None:
    """Why there is another one for them."""
    random, plain, imagined = np.random.default_rng(2024), 0, 0
    for seed in range(300):
        changes = right_or_wrong(0.02, 0.1)(random, 20).tolist()
        one, other = difference([0.0] * 20, changes, seed=seed), of_few(changes, seed=seed, resamples=500)
        plain += one.low <= 0.08 <= one.high
        imagined += other.low <= 0.08 <= other.high
    assert plain < 0.9 * 300
    assert imagined >= 0.93 * 300


@pytest.mark.parametrize("n", [1, 20, 60])
def test_questions_that_all_came_out_alike_leave_room_for_what_so_few_cannot_show(n: int) -> None:
    same = of_few([0.0] * n, seed=0)
    assert (same.mean, same.questions) == (0.0, n)
    assert 1.5 / n < same.high < 5 / n or n == 1
    assert same.low == pytest.approx(-same.high, abs=0.5 / n)
    all_gained = of_few([1.0] * n, seed=0)
    assert all_gained.low < all_gained.mean == all_gained.high == 1.0


def test_one_question_shows_nothing() -> None:
    assert of_few([1.0], seed=0).low < 0


def test_a_difference_of_no_question_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one question"):
        of_few([], seed=0)


@pytest.mark.parametrize("n", [20, 60])
def test_the_detectable_difference_is_seen_in_four_runs_of_five(n: int) -> None:
    random = np.random.default_rng(5)
    size = np.mean([detectable(random.normal(0, 0.3, n).tolist()) for _ in range(50)])
    runs = [of_few(random.normal(size, 0.3, n).tolist(), seed=seed, resamples=500) for seed in range(300)]
    assert 0.7 <= sum(one.low > 0 for one in runs) / 300 <= 0.9


def test_more_questions_detect_less_and_one_detects_nothing() -> None:
    sizes = [detectable([0.0, 1.0, -1.0, 0.0] * n) for n in (5, 20, 100)]
    assert sizes == sorted(sizes, reverse=True)
    assert detectable([0.5]) > 0.5
    assert detectable([0.0] * 20) > detectable([0.0] * 200) > 0
