"""How often intervals of paired differences hold the truth: on thousands of draws whose true mean is known."""

import numpy as np
import pytest

from benchmarks.verdicts.intervals import COSTS, RARER, SCORES, Way
from evaluation.stats.significance import detectable, mean_difference, needed, of_few


def test_an_average_over_sets_holds_the_truth() -> None:
    """Three sets of 30, 75 and 150 questions, where one question of twenty gains much."""
    way, random, missed_runs = SCORES["5 % gain 0.57, the others lose 0.03"], np.random.default_rng(5), 0
    for seed in range(100):
        sets = [([0.0] * n, way.draw(random, n).tolist()) for n in (30, 75, 150)]
        found = mean_difference(sets, seed=seed)
        missed_runs += not found.low <= way.truth <= found.high
    assert missed_runs <= 8


def missed(way: Way, n: int, runs: int = 300) -> tuple[float, float]:
    """In what shares of runs the interval lies above and below the truth; one that is not given misses nothing."""
    random = np.random.default_rng([n, 2024])
    above, below = 0, 0
    for seed in range(runs):
        changes = way.draw(random, n).reshape(-1, way.group).mean(axis=1)
        found = of_few(changes.tolist(), seed=seed, most=way.most, resamples=400)
        slack = 1e-12 * max(1.0, abs(way.truth))
        above, below = above + (found.low > way.truth + slack), below + (found.high < way.truth - slack)
    return above / runs, below / runs


@pytest.mark.parametrize("n", [15, 60])
@pytest.mark.parametrize("way", [*SCORES.values(), *RARER.values()], ids=[*SCORES, *RARER])
def test_bounds_of_scores_miss_the_truth_on_each_side_in_one_run_of_forty_at_most(way: Way, n: int) -> None:
    """Eight of 300 more are chance."""
    assert max(missed(way, n)) <= 0.025 + 0.027


# Scores with few questions that change much, or with bounds in place of an interval: held in more than 97 runs.
WIDER = {
    "right or wrong, 1 % lost, 1 % won",
    "5 % gain 0.57, the others lose 0.03",
    "the same, with noise of 0.01",
    "five in a group, N(0.1, 0.2) between",
    "no question changes",
    "all move alike, N(0.03, 0.01)",  # wide enough for a case of one in fifty
}


@pytest.mark.parametrize("n", [75, 150])
@pytest.mark.parametrize("name", SCORES)
def test_an_interval_of_scores_holds_the_truth_in_93_to_97_runs_of_100(name: str, n: int) -> None:
    """In 300 runs, between 90 and 99."""
    assert (0.01 if name not in WIDER else 0) <= sum(missed(SCORES[name], n)) <= 0.07 + 0.03


@pytest.mark.parametrize("n", [15, 60, 75, 150])
@pytest.mark.parametrize("way", COSTS.values(), ids=COSTS)
def test_an_interval_of_costs_holds_the_truth_in_93_runs_of_100_or_is_not_given(way: Way, n: int) -> None:
    assert sum(missed(way, n)) <= 0.07 + 0.04


@pytest.mark.parametrize("n", [20, 60, 100])
@pytest.mark.parametrize("beyond", [0.0, 0.05])
def test_the_detectable_difference_is_seen_in_four_runs_of_five(n: int, beyond: float) -> None:
    random = np.random.default_rng(5)
    size = np.mean([detectable(random.normal(0, 0.3, n).tolist(), beyond=beyond) for _ in range(50)])
    runs = [of_few(random.normal(size, 0.3, n).tolist(), seed=seed, resamples=500) for seed in range(300)]
    assert 0.7 <= sum(one.low > beyond for one in runs) / 300 <= 0.9


@pytest.mark.parametrize("spread", [0.2, 0.3])
def test_as_many_questions_as_needed_rule_a_margin_out_in_four_runs_of_five(spread: float) -> None:
    random = np.random.default_rng(7)
    n = needed([spread, -spread] * 50, margin=0.05)
    runs = [of_few(random.normal(0, spread, n).tolist(), seed=seed, resamples=500) for seed in range(200)]
    assert 0.7 <= sum(one.low > -0.05 and one.high < 0.05 for one in runs) / 200 <= 0.9
    assert needed([spread, -spread] * 50, margin=0.1) < n
