"""Bootstrap intervals (Efron 1979): rounds are drawn again, the same rounds for all systems, because systems are
paired.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 1000
_NESTED_RESAMPLES = 400  # of tens of thousands of values each
Floats = NDArray[np.float64]
Interval = tuple[float, float]


def interval(statistic: Callable[..., Floats], *samples: Sequence[float] | Floats) -> Interval:
    """The 95 % percentile interval of a statistic of samples; item i of each sample belongs to round i.

    The statistic works along the last axis, on all resamples of a sample at once (one row per resample).
    """
    arrays = [np.asarray(sample, np.float64) for sample in samples]
    rounds = len(arrays[0])
    rows = np.random.default_rng(0).integers(rounds, size=(_RESAMPLES, rounds))
    return _bounds(statistic(*(array[rows] for array in arrays)))


def nested_interval(statistic: Callable[..., Floats | float], *systems: Sequence[Sequence[Floats]]) -> Interval:
    """Like `interval`, for values in streams and streams in rounds: rounds and streams are drawn again.

    systems: rounds of streams of values, per system. The statistic gets one array per system.
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
    """The ratio of two medians along the last axis; infinite for a median of 0 below."""
    above, below = median(over), median(under)
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.inf)


def _bounds(drawn: Sequence[float] | Floats) -> Interval:
    # "nearest", because interpolation between infinities gives NaN.
    low, high = np.percentile(drawn, [2.5, 97.5], method="nearest")
    return float(low), float(high)
