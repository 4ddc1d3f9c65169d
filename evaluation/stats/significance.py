"""Differences between two runs over the same questions, with 95 % intervals.

`of_few` gives an interval for one set of questions, `mean_difference` for the mean over several sets. If it contains 0,
it shows no difference. The paired bootstrap (Efron & Tibshirani 1993; Sakai 2006) is too narrow for few questions and
for rare changes: `benchmarks/verdicts/intervals.py` measures both.
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

# Fewer questions get no interval. Suppose that one question in twenty changes much more than others: 30 questions
# include none of these in 21 runs of 100, 72 questions in 2.5 (0.95 ** 72).
FEWEST = 72
# A case of one question in fifty is missing from 72 questions in 23 runs of 100, from 183 in 2.5. So an interval over
# fewer questions allows for such a case, with the largest change, if the sample has no large change on that side.
_RARE, RARE_ENOUGH = 0.02, 183
_GAP = 3  # ranks from the largest change to the one that estimates how far a long tail reaches
_RESAMPLES = 10_000
_TAIL = 0.025  # on each side of an interval
_Z_TAIL, _Z_POWER, _Z_BOTH = (NormalDist().inv_cdf(share) for share in (1 - _TAIL, 0.8, 0.9))
# Among n, half a question's share has its quantile 0.975 at this / (n + 1) (chi-squared, 1 degree of freedom).
_HALF_QUESTION = NormalDist().inv_cdf(1 - _TAIL / 2) ** 2 / 2
_ALIKE = 1e-9  # of the largest change: rounding error between equal changes
_AT_ONCE = 2_000_000  # numbers drawn at a time: 16 MB


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of paired differences (second run minus first) and its 95 % interval."""

    mean: float
    low: float  # -inf: too few questions to rule out any value
    high: float
    questions: int
    bounds: bool = False  # instead of an interval: the ends hold the mean in 95 to 100 of 100 runs
    few: bool = False  # why bounds: too few questions; else all changes are alike

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def interval(change: Difference, form: str = "+z.3f") -> str:
    """For example 0.1 [-0.05, 0.25]; for bounds, why, and the bounds unless they are infinite."""
    if not change.bounds:
        return f"{change.mean:{form}} [{change.low:{form}}, {change.high:{form}}]"
    reason = "too few to say" if change.few else "all alike"
    ends = "" if math.isinf(change.high) else f": {change.low:{form}} to {change.high:{form}}"
    return f"{change.mean:{form}} [{reason}{ends}]"


def difference(before: Sequence[float], after: Sequence[float], *, seed: int) -> Difference:
    """The paired difference after - before, between -1 and 1; item i in both belongs to question i."""
    return of_few([new - old for old, new in zip(before, after, strict=True)], seed=seed)


def mean_difference(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], *, seed: int) -> Difference:
    """The mean of paired differences over several sets, each with the same weight, whatever its size.

    Each half of the interval is the root of the summed squares of the sets' halves: different sets are drawn
    independently. Bounds, if a set has bounds. Raises ValueError for a set without questions.
    """
    if not pairs:
        raise ValueError("a difference needs at least one question in each set")
    found = [difference(before, after, seed=seed) for before, after in pairs]
    mean = math.fsum(one.mean for one in found) / len(found)
    below = math.hypot(*(one.mean - one.low for one in found)) / len(found)
    above = math.hypot(*(one.high - one.mean for one in found)) / len(found)
    return Difference(
        mean,
        mean - below,
        mean + above,
        sum(one.questions for one in found),
        bounds=any(one.bounds for one in found),
        few=any(one.few for one in found),
    )


def of_few(changes: Sequence[float], *, seed: int, most: float | None = 1.0, resamples: int = _RESAMPLES) -> Difference:
    """The mean of paired differences, with an interval that keeps its stated cover, or with bounds.

    most: how much a question can change (1 for scores); None: no limit (times, tokens).

    The Bayesian bootstrap (Rubin 1981) weighs questions at random. Each end of the interval adds one imagined question,
    for changes that the sample does not show.

    Interval, from FEWEST questions on: the imagined change lies as far above the largest change as the fourth largest
    lies below it (for the lower end, the same with the smallest ones): a long tail reaches beyond the sample (after
    Robson & Whitlock 1964). With `most`, both imagined changes are equally far from the mean, because a score that can
    gain can also lose; they are at most `most`, and weigh half a question, so that right and wrong answers get
    Jeffreys' interval (Brown, Cai & DasGupta 2001). Below RARE_ENOUGH questions, each end also allows for a case of one
    in fifty that changes by `most`, unless a question in the sample changes by half of `most` to that side.

    Bounds, for fewer questions or equal changes: the imagined question gains or loses `most` (Gaffke 2005;
    Learned-Miller & Thomas 2020). So they do not rule out a rare large change, and for right and wrong answers they
    equal Clopper & Pearson's interval. Without `most`, they are infinite.

    Raises ValueError without any question.
    """
    values = np.asarray(changes, np.float64)
    n = len(values)
    if not n:
        raise ValueError("a difference needs at least one question")
    mean, reach = float(values.mean()), _reach_of(values, most)
    if reach is not None:
        below, above = reach
        share = 1.0 if most is None else 0.5
    elif most is None:
        return Difference(mean, -math.inf, math.inf, n, bounds=True, few=n < FEWEST)
    else:
        below, above, share = min(-most, float(values.min())), max(most, float(values.max())), 1.0
    random, lower, upper = np.random.default_rng(seed), [], []
    rows = max(1, _AT_ONCE // n)
    for start in range(0, resamples, rows):
        weights = random.standard_exponential((min(rows, resamples - start), n))
        imagined = random.standard_gamma(share, len(weights))
        known, whole = weights @ values, weights.sum(axis=1) + imagined
        lower.append((known + imagined * below) / whole)
        upper.append((known + imagined * above) / whole)
    low, high = np.quantile(np.concatenate(lower), _TAIL), np.quantile(np.concatenate(upper), 1 - _TAIL)
    low, high = min(float(low), mean), max(float(high), mean)
    if reach is not None and most is not None and n < RARE_ENOUGH:
        low += _RARE * (-most - low) if values.min() > -most / 2 else 0.0
        high += _RARE * (most - high) if values.max() < most / 2 else 0.0
    return Difference(mean, low, high, n, bounds=reach is None, few=reach is None and n < FEWEST)


def _reach_of(values: NDArray[np.float64], most: float | None) -> tuple[float, float] | None:
    """An interval's imagined changes, for its lower and upper end; None if the sample allows only bounds."""
    rising = np.sort(values)
    lowest, highest = float(rising[0]), float(rising[-1])
    if len(values) < FEWEST or highest - lowest <= _ALIKE * max(abs(lowest), abs(highest)):
        return None
    below, above = 2 * lowest - float(rising[_GAP]), 2 * highest - float(rising[-1 - _GAP])
    if most is None:
        return below, above
    mean = float(values.mean())
    reach = max(above - mean, mean - below)
    return max(mean - reach, min(-most, lowest)), min(mean + reach, max(most, highest))


def detectable(changes: Sequence[float], *, beyond: float = 0.0) -> float:
    """The smallest true mean that a sample with this size and spread shows to lie above `beyond`; at most 1.

    Power 80 % (Cohen 1988): four runs of five. changes: between -1 and 1.
    """
    size = 0.0
    for _ in range(20):  # a larger mean is further from the imagined question, which lost everything
        size = min(1.0, beyond + _half(changes, len(changes), _Z_POWER, most=1 + size))
    return size


def needed(changes: Sequence[float], *, margin: float) -> int:
    """How many questions, with this spread, show the side of the margin in four runs of five.

    For a mean within twice the margin: how many separate a true mean of 0, or of twice the margin, from it; no number
    separates the margin from itself. changes: between -1 and 1.
    """
    mean = abs(math.fsum(changes)) / len(changes)
    distance = max(margin, mean - margin)

    def tells(n: int) -> bool:
        return _half(changes, n, _Z_BOTH, most=1 + mean) <= distance

    most = 1
    while not tells(most):
        most *= 2
    return 1 + bisect.bisect_left(range(1, most), True, key=tells)


def _half(changes: Sequence[float], n: int, deviations: float, most: float) -> float:
    """Half the width of `of_few` over n questions that spread like `changes`, plus `deviations` standard errors.

    most: how far the imagined change is from the mean, for bounds. Spread and imagined question add up like the sides
    of a right angle: within a tenth of `of_few`, for n from 15 to 150 and standard deviations from 0.01 to 0.6.
    """
    error = float(np.std(changes, ddof=1)) / math.sqrt(n) if len(changes) > 1 else 0.0
    imagined = most * (1 - _TAIL ** (1 / n))
    rare = 0.0
    if n >= FEWEST and error > 0:
        imagined = min(most, _distance(changes)) * _HALF_QUESTION / (n + 1)
        large = min(max(changes), -min(changes)) >= 0.5
        rare = 0.0 if n >= RARE_ENOUGH or large else _RARE * most
    return math.hypot(_Z_TAIL * error, imagined) + rare + deviations * error


def _distance(changes: Sequence[float]) -> float:
    """How far an interval's imagined change is from the mean of these changes."""
    rising, mean = sorted(changes), math.fsum(changes) / len(changes)
    gap = min(_GAP, len(rising) - 1)
    return max(2 * rising[-1] - rising[-1 - gap] - mean, mean - 2 * rising[0] + rising[gap])
