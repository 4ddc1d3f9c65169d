"""Differences between two runs over the same questions, with the interval in which they would fall for other ones.

The bootstrap (Efron & Tibshirani 1993; for retrieval Sakai 2006): the questions are drawn again with replacement, both
runs together, and the middle 95 % of the mean differences is the interval. One that holds 0 shows no difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 10_000
_AT_ONCE = 2_000_000  # numbers drawn at a time: 16 MB


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better the second of two runs is: mean of the paired differences and its 95 % interval."""

    mean: float
    low: float
    high: float
    questions: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


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


def _means(changes: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """The mean of each resample, (_RESAMPLES,)."""
    n, means = len(changes), []
    rows = max(1, min(_RESAMPLES, _AT_ONCE // n))
    for start in range(0, _RESAMPLES, rows):
        size = (min(rows, _RESAMPLES - start), n)
        means.append(changes[random.integers(n, size=size)].mean(axis=1))
    return np.concatenate(means)
