"""Differences between two runs over the same questions, with 95 % intervals.

`difference` is the paired bootstrap (Efron & Tibshirani 1993; for retrieval Sakai 2006): the questions are drawn again
with replacement, both runs together, and the middle 95 % of the mean differences is the interval. An interval that
contains 0 shows no difference. For few questions this interval is too narrow; use `of_few`
(`benchmarks/verdicts/intervals.py` measures both).
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

# Times, tokens and dollars of fewer questions get no interval. Suppose that one request of twenty is ten times slower:
# 30 questions include no slow request in 21 runs of 100, 72 questions in 2.5 (0.95 ** 72).
FEWEST = 72
_GAP = 3  # ranks between the largest change and the change that estimates the reach of a long tail
_RESAMPLES = 10_000
_TAIL = 0.025  # on each side of an interval
_Z_TAIL, _Z_POWER, _Z_BOTH = (NormalDist().inv_cdf(share) for share in (1 - _TAIL, 0.8, 0.9))
_ALIKE = 1e-9  # of the largest change: the rounding error between equal changes
_AT_ONCE = 2_000_000  # numbers drawn at a time: 16 MB


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of the paired differences (second run minus first run) and the 95 % interval of the mean."""

    mean: float
    low: float  # -inf: the questions are too few to rule out any value
    high: float
    questions: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def interval(change: Difference, form: str = "+z.3f") -> str:
    """For example 0.1 [-0.05, 0.25]; for infinite ends, the reason in place of the ends."""
    if math.isinf(change.high):
        return f"{change.mean:{form}} [{'too few to say' if change.questions < FEWEST else 'all alike'}]"
    return f"{change.mean:{form}} [{change.low:{form}}, {change.high:{form}}]"


def difference(before: Sequence[float], after: Sequence[float], *, seed: int) -> Difference:
    """The paired difference after - before; item i of both belongs to question i."""
    return mean_difference([(before, after)], seed=seed)


def mean_difference(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], *, seed: int) -> Difference:
    """The mean of the paired differences over several sets; questions are drawn again within each set.

    All sets have the same weight, whatever the number of questions. Raises ValueError for a set without questions.
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
    """The mean of paired differences, with an interval that keeps the stated cover for few questions, too.

    most: the largest possible change of a question (1 for scores); None: no limit (times, tokens).

    The Bayesian bootstrap (Rubin 1981) weighs the questions at random. Each end of the interval adds one imagined
    question for changes that the sample does not show: a gain of `most` for the upper end, a loss of `most` for the
    lower end (Gaffke 2005; Learned-Miller & Thomas 2020). So neither end rules out the effect of a rare large change,
    and for right and wrong answers the ends equal the interval of Clopper & Pearson. Without `most`, the imagined
    change lies as far above the largest change as the fourth largest change lies below (for the lower end the same with
    the smallest changes): a long tail reaches beyond the sample (after Robson & Whitlock 1964). The ends are infinite
    where this method is known to fail: with fewer than FEWEST questions, and where all changes are equal. Raises
    ValueError without any question.
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
    """The smallest true mean that a sample of this size and spread shows to lie above `beyond`; at most 1.

    Power 80 % (Cohen 1988): four runs of five. changes: between -1 and 1.
    """
    size = 0.0
    for _ in range(20):  # a larger mean lies further from the imagined question, which lost everything
        size = min(1.0, beyond + _reach(changes, len(changes), _Z_POWER, most=1 + size))
    return size


def needed(changes: Sequence[float], *, margin: float) -> int:
    """The number of questions, at this spread, that show the side of the margin in four runs of five.

    For a mean within twice the margin: the number that separates a true mean of 0, or of twice the margin, from the
    margin; no number separates the margin from itself. changes: between -1 and 1.
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
    """Half the interval of `of_few` over n questions with the spread of `changes`, plus `deviations` standard errors.

    The parts of the spread and of the imagined question add up like the sides of a right angle: within a tenth of
    `of_few`, for n from 15 to 150 and standard deviations from 0.01 to 0.6.
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
