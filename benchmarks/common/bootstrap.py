"""Intervals by the bootstrap (Efron 1979): rounds are drawn again, the same ones for all systems, which are paired."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 1000
_NESTED_RESAMPLES = 400  # of tens of thousands of values each
Floats = NDArray[np.float64]
Interval = tuple[float, float]


def interval(statistic: Callable[..., Floats], *samples: Sequence[float] | Floats) -> Interval:
    """The 95 % percentile interval of a statistic of these samples; item i of each belongs to round i.

    The statistic is one along the last axis: it gets all resamples of a sample at once, a row each.
    """
    arrays = [np.asarray(sample, np.float64) for sample in samples]
    rounds = len(arrays[0])
    rows = np.random.default_rng(0).integers(rounds, size=(_RESAMPLES, rounds))
    return _bounds(statistic(*(array[rows] for array in arrays)))


def nested_interval(statistic: Callable[..., Floats | float], *systems: Sequence[Sequence[Floats]]) -> Interval:
    """The same of values that come in streams and streams that come in rounds: both are drawn again.

    systems: of each its rounds, of a round its streams, of a stream its values. The statistic gets one array of each.
    """
    rounds = len(systems[0])
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(_NESTED_RESAMPLES):
        rows = random.integers(rounds, size=rounds)
        pools = []
        for system in systems:
            streams = [system[row][i] for row in rows for i in random.integers(len(system[row]), size=len(system[row]))]
            pools.append(np.concatenate(streams))
        drawn.append(float(statistic(*pools)))
    return _bounds(drawn)


def median(sample: Floats) -> Floats:
    """Along the last axis."""
    return np.asarray(np.median(sample, axis=-1), np.float64)


def ratio(over: Floats, under: Floats) -> Floats:
    """How many times one median is the other, along the last axis; infinite where there is nothing under it."""
    above, below = median(over), median(under)
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.inf)


def _bounds(drawn: Sequence[float] | Floats) -> Interval:
    # "nearest": infinities among them would make interpolation a NaN.
    low, high = np.percentile(drawn, [2.5, 97.5], method="nearest")
    return float(low), float(high)
