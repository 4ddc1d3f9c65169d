"""Differences between two runs over the same questions, with the interval in which they would fall for other ones.

`difference`: the bootstrap (Efron & Tibshirani 1993; for retrieval Sakai 2006): the questions are drawn again with
replacement, both runs together, and the middle 95 % of the mean differences is the interval. One that holds 0 shows no
difference. With few questions that interval is too narrow; `of_few` is not
(`benchmarks/verdicts/intervals.py` counts both).
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

# Times, tokens and dollars of fewer questions get no interval. One request of twenty may be ten times as slow as the
# others: 30 questions include no slow request in 21 runs of 100, 72 questions in 2.5 (0.95 ** 72).
FEWEST = 72
_GAP = 3  # ranks between the largest change and the change that says how far a long tail may reach
_RESAMPLES = 10_000
_TAIL = 0.025  # on each side of an interval
_Z_TAIL, _Z_POWER, _Z_BOTH = (NormalDist().inv_cdf(share) for share in (1 - _TAIL, 0.8, 0.9))
_ALIKE = 1e-9  # of the largest change: what reckoning with fractions leaves between equal ones
_AT_ONCE = 2_000_000  # numbers drawn at a time: 16 MB


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better the second of two runs is: mean of the paired differences and its 95 % interval."""

    mean: float
    low: float  # -inf where so few questions rule out nothing
    high: float
    questions: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def interval(change: Difference, form: str = "+z.3f") -> str:
    """0.1 [-0.05, 0.25]; without ends, why there are none."""
    if math.isinf(change.high):
        return f"{change.mean:{form}} [{'too few to say' if change.questions < FEWEST else 'all alike'}]"
    return f"{change.mean:{form}} [{change.low:{form}}, {change.high:{form}}]"


def difference(before: Sequence[float], after: Sequence[float], *, seed: int) -> Difference:
    """The paired difference after - before; item i of both belongs to question i."""
    return mean_difference([(before, after)], seed=seed)


def mean_difference(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], *, seed: int) -> Difference:
    """The mean over several sets of their paired differences; questions are drawn again within each set.

    Every set counts the same, however many questions it has. Raises ValueError without any question.
    """
    per_set = [np.asarray(after, np.float64) - np.asarray(before, np.float64) for before, after in pairs]
    if not per_set or not all(len(changes) for changes in per_set):
        raise ValueError("a difference needs at least one question in each set")
    random = np.random.default_rng(seed)
    drawn = np.mean([_means(changes, random) for changes in per_set], axis=0)
    low, high = np.percentile(drawn, [2.5, 97.5])
    mean = float(np.mean([changes.mean() for changes in per_set]))
    return Difference(mean, float(low), float(high), sum(len(changes) for changes in per_set))


def of_few(changes: Sequence[float], *, seed: int, most: float | None = 1.0, resamples: int = _RESAMPLES) -> Difference:
    """The mean of paired differences, and an interval that holds the truth as often as said for few questions, too.

    most: the largest change that a question can have, of scores 1; None: there is none, as of times and tokens.

    The Bayesian bootstrap (Rubin 1981) weighs the questions at random. For each end of the interval one more is
    imagined, which stands for what so few have not shown: for the upper end one that gained `most`, for the lower end
    one that lost as much (Gaffke 2005; Learned-Miller & Thomas 2020). So no end rules out what a rare large change
    could bring, and of right and wrong answers the ends are those of Clopper & Pearson. Where changes have no `most`,
    the imagined change lies as far above the largest change as the fourth largest lies below (for the lower end the
    same with the smallest changes): a long tail reaches beyond the changes seen (after Robson & Whitlock 1964). The
    ends are infinite where this method is known to fail: with fewer than FEWEST questions, and where all changes are
    equal. Raises ValueError without any question.
    """
    values = np.asarray(changes, np.float64)
    n = len(values)
    if not n:
        raise ValueError("a difference needs at least one question")
    mean, lowest, highest = (float(each) for each in (values.mean(), values.min(), values.max()))
    if most is None and (n < FEWEST or highest - lowest <= _ALIKE * max(abs(lowest), abs(highest))):
        return Difference(mean, -math.inf, math.inf, n)
    if most is None:
        rising = np.sort(values)
        lowest, highest = 2 * lowest - float(rising[_GAP]), 2 * highest - float(rising[-1 - _GAP])
    else:
        lowest, highest = min(-most, lowest), max(most, highest)
    random, lower, upper = np.random.default_rng(seed), [], []
    rows = max(1, _AT_ONCE // n)
    for start in range(0, resamples, rows):
        weights = random.standard_exponential((min(rows, resamples - start), n))
        imagined = random.standard_exponential(len(weights))
        known, whole = weights @ values, weights.sum(axis=1) + imagined
        lower.append((known + imagined * lowest) / whole)
        upper.append((known + imagined * highest) / whole)
    low, high = np.quantile(np.concatenate(lower), _TAIL), np.quantile(np.concatenate(upper), 1 - _TAIL)
    return Difference(mean, min(float(low), mean), max(float(high), mean), n)


def detectable(changes: Sequence[float], *, beyond: float = 0.0) -> float:
    """The smallest true mean that so many questions with such a spread show to lie above `beyond`; at most 1.

    In four runs of five (power 80 %, Cohen 1988). changes: between -1 and 1.
    """
    size = 0.0
    for _ in range(20):  # the imagined question, which lost everything, lies the further away the larger the mean is
        size = min(1.0, beyond + _reach(changes, len(changes), _Z_POWER, most=1 + size))
    return size


def needed(changes: Sequence[float], *, margin: float) -> int:
    """How many questions with such a spread tell in four runs of five on which side of the margin their mean lies.

    Where it lies within twice the margin, so many as tell a true mean of 0 or of twice the margin: of one that is the
    margin itself none would. changes: between -1 and 1.
    """
    mean = abs(math.fsum(changes)) / len(changes)
    distance = max(margin, mean - margin)

    def tells(n: int) -> bool:
        return _reach(changes, n, _Z_BOTH, most=1 + mean) <= distance

    most = 1
    while not tells(most):
        most *= 2
    return 1 + bisect.bisect_left(range(1, most), True, key=tells)


def _reach(changes: Sequence[float], n: int, deviations: float, most: float = 1.0) -> float:
    """Half of the interval of `of_few` over n questions with such a spread, and so many standard errors more.

    What the spread and what the imagined question add to an interval go together like the sides of a right angle:
    within a tenth of what `of_few` finds, for n from 15 to 150 and standard deviations from 0.01 to 0.6.
    """
    error = float(np.std(changes, ddof=1)) / math.sqrt(n) if len(changes) > 1 else 0.0
    return math.hypot(_Z_TAIL * error, most * (1 - _TAIL ** (1 / n))) + deviations * error


def _means(
    changes: NDArray[np.float64], random: np.random.Generator, resamples: int = _RESAMPLES
) -> NDArray[np.float64]:
    """The mean of each resample, (resamples,)."""
    n, means = len(changes), []
    rows = max(1, min(resamples, _AT_ONCE // n))
    for start in range(0, resamples, rows):
        size = (min(rows, resamples - start), n)
        means.append(changes[random.integers(n, size=size)].mean(axis=1))
    return np.concatenate(means)
