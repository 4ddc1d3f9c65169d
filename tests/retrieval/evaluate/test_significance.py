"""Paired bootstrap intervals."""

import numpy as np
import pytest

from retrieval.evaluate.significance import difference, mean_difference


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
