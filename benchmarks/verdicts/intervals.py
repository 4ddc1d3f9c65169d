"""How often the bench's intervals cover the truth, compared with Student's t on the same draws.

    python benchmarks/verdicts/intervals.py [--runs N] [--seed N]

Draws many runs of the bench from scores, tokens, times and dollars with a known true mean. Counts how many intervals
cover the truth, and in brackets how many lie above and below; in italics: bounds in place of intervals; –: neither. A
second column counts Student's t over the same questions. For verdicts the table counts the words. No model is called,
and the same seed prints the same tables. 1,000 runs take about three minutes on one core.
"""

import argparse
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import table
from evaluation.answers.scoring.verdict import word_for
from evaluation.stats.significance import of_few

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

SIZES = (15, 30, 60, 75, 150)
VERDICT_SIZES = (15, 30, 60, 75, 150, 600)
_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Way:
    """A distribution of the changes of n questions. truth: the true mean; most: the largest change, if bounded."""

    draw: Draw
    truth: float
    most: float | None = 1.0
    group: int = 1  # number of consecutive questions per group


def some(values: Sequence[float], chances: Sequence[float], most: float | None = 1.0) -> Way:
    """A few values with their probabilities."""
    return Way(lambda random, n: random.choice(values, n, p=chances), float(np.dot(values, chances)), most)


def right_or_wrong(worse: float, better: float) -> Way:
    """Right or wrong answers: the shares of questions that become wrong and right."""
    return some((-1.0, 1.0, 0.0), (worse, better, 1 - worse - better))


def rare(share: float, gain: float, loss: float, noise: float = 0.0) -> Way:
    """A share of questions gains much, the others lose a little."""
    return Way(
        lambda random, n: np.where(random.random(n) < share, gain, -loss) + noise * random.standard_normal(n),
        share * gain - (1 - share) * loss,
    )


def slow(share: float) -> Way:
    """Requests of 200 ms, a share of which takes 2,000."""
    return Way(
        lambda random, n: np.where(random.random(n) < share, random.normal(2000, 300, n), random.normal(200, 50, n)),
        200 + share * 1800,
        None,
    )


def thirds(random: np.random.Generator, n: int) -> Floats:
    """Right or wrong, asked three times, with a chance per question; the mean gain is 0.15."""
    before = random.beta(2, 2, n) * 0.8
    return np.asarray((random.binomial(3, before + 0.15) - random.binomial(3, before)) / 3, np.float64)


def solved(random: np.random.Generator, n: int) -> Floats:
    """Token F1: three of ten answers become good, the other answers stay; the mean gain is 0.1."""
    before = random.beta(0.5, 0.5, n)
    return np.where(random.random(n) < 0.3, random.beta(5, 1, n), before) - before


def shares(random: np.random.Generator, n: int) -> Floats:
    """Scores between 0 and 1 that all change; the mean gain is 0.1."""
    return np.asarray(0.9 * random.beta(2, 2, n) + 0.2 * random.random(n) - 0.9 * random.beta(2, 2, n), np.float64)


def lognormal(sigma: float, median: float = 500.0) -> Way:
    """Times with a long tail."""
    return Way(lambda random, n: median * random.lognormal(0, sigma, n), median * float(np.exp(sigma**2 / 2)), None)


def normal(mean: float, deviation: float, most: float | None = None) -> Way:
    return Way(lambda random, n: random.normal(mean, deviation, n), mean, most)


def grouped(mean: float, between: float, within: float, most: float | None) -> Way:
    """Five questions in a group, which come out alike. between, within: standard deviations."""

    def draw(random: np.random.Generator, n: int) -> Floats:
        return random.normal(mean, between, n // 5).repeat(5) + random.normal(0, within, n)

    return Way(draw, mean, most, 5)


SCORES: Mapping[str, Way] = {
    "right or wrong, 10 % lost, 30 % won": right_or_wrong(0.1, 0.3),
    "right or wrong, 20 % lost, 20 % won": right_or_wrong(0.2, 0.2),
    "right or wrong, 2 % lost, 10 % won": right_or_wrong(0.02, 0.1),
    "right or wrong, 1 % lost, 1 % won": right_or_wrong(0.01, 0.01),
    "asked three times": Way(thirds, 0.15),
    "preference in quarters": some((-1.0, -0.5, 0.0, 0.5, 1.0), (0.3, 0.1, 0.1, 0.1, 0.4)),
    "token F1, some solved": Way(solved, 0.1),
    "all move, N(0, 0.3)": Way(lambda random, n: np.clip(random.normal(0, 0.3, n), -1, 1), 0.0),
    "shares that all move": Way(shares, 0.1),
    "all move alike, N(0.03, 0.01)": normal(0.03, 0.01, 1.0),
    "5 % gain 0.57, the others lose 0.03": rare(0.05, 0.57, 0.03),
    "the same, with noise of 0.01": rare(0.05, 0.57, 0.03, 0.01),
    "five in a group, N(0.1, 0.2) between": grouped(0.1, 0.2, 0.1, 1.0),
    "no question changes": Way(lambda _, n: np.zeros(n), 0.0),
}  # fmt: skip
# Scores with a case rarer than one question of twenty, which FEWEST questions may not include.
RARER: Mapping[str, Way] = {
    "2 % gain 0.57, the others lose 0.0116": rare(0.02, 0.57, 0.0116),
    "3 % gain 0.9, the others N(0, 0.02)": rare(0.03, 0.9, 0.0, 0.02),
    "2 % lose 1, the others gain N(0.07, 0.01)": rare(0.02, -1.0, -0.07, 0.01),
    "2 % gain 1, the others lose N(0.07, 0.01)": rare(0.02, 1.0, 0.07, 0.01),
    "1 % lose 1, the others gain N(0.06, 0.01)": rare(0.01, -1.0, -0.06, 0.01),
}
COSTS: Mapping[str, Way] = {
    "tokens, N(700, 10)": normal(700, 10),
    "tokens, 30 % none, else N(700, 10)": Way(
        lambda random, n: np.where(random.random(n) < 0.3, 0, random.normal(700, 10, n)), 490, None
    ),
    "tokens, 300 or 600": some((300.0, 600.0), (0.5, 0.5), None),
    "times, lognormal 0.5": lognormal(0.5),
    "times, lognormal 1": lognormal(1.0),
    "times, lognormal 1.5": lognormal(1.5),
    "times, difference of two lognormals": Way(
        lambda random, n: 500 * (random.lognormal(0, 1, n) - random.lognormal(0, 1, n)), 0, None
    ),
    "times, exponential": Way(lambda random, n: random.exponential(500, n), 500, None),
    "times, one in ten slow": slow(0.1),
    "times, one in twenty slow": slow(0.05),
    "dollars, lognormal 0.5": lognormal(0.5, 1e-4),
    "times, five in a group": grouped(300, 100, 50, None),
    "dollars, all the same": Way(lambda _, n: np.full(n, 1e-4), 1e-4, None),
}  # fmt: skip


def turns(mean: float) -> Way:
    """One answer of five turns, from wrong to right or back."""
    return right_or_wrong((0.2 - mean) / 2, (0.2 + mean) / 2)


# The true verdict -> the distribution of the scores.
VERDICTS: Mapping[str, Way] = {
    "no effect, one answer of five turns": turns(0.0),
    "no effect, all move, N(0, 0.1)": normal(0.0, 0.1, 1.0),
    "no effect, 5 % gain 0.57, the others lose 0.03": rare(0.05, 0.57, 0.03),
    "no effect, 5 % lose 0.57, the others gain 0.03": rare(0.05, -0.57, -0.03),
    "no effect, no answer changes": Way(lambda _, n: np.zeros(n), 0.0),
    "+0.03, all move alike": normal(0.03, 0.01, 1.0),
    "+0.03, one answer of five turns": turns(0.03),
    "+0.06, six answers of a hundred become right": right_or_wrong(0.0, 0.06),
    "+0.1, one answer of five turns": turns(0.1),
    "+0.2, one answer of five becomes right": turns(0.2),
    "+0.4, five become right, one wrong, of ten": right_or_wrong(0.1, 0.5),
    "-0.2, one answer of five becomes wrong": turns(-0.2),
}


def student(changes: Floats) -> tuple[float, float]:
    """Student's t."""
    n = len(changes)
    half = float(stdtrit(n - 1, 0.975) * changes.std(ddof=1) / np.sqrt(n))
    return float(changes.mean()) - half, float(changes.mean()) + half


def cells(name: str, n: int, way: Way, *, runs: int, seed: int) -> tuple[str, str]:
    """For n questions: the coverage of the bench's intervals and of Student's t over all questions."""
    random = np.random.default_rng([seed, n, zlib.crc32(name.encode())])
    ours, peer = Counter[str](), 0
    for at in range(runs):
        changes = way.draw(random, n)
        units = changes.reshape(-1, way.group).mean(axis=1).tolist()
        found = of_few(units, seed=at, most=way.most, resamples=_RESAMPLES)
        ours["none" if np.isinf(found.high) else _place(found.low, found.high, way.truth)] += 1
        ours["bounds"] += found.bounds
        peer += _place(*student(changes), way.truth) == "held"
    if ours["none"] == runs:
        return "–", f"{100 * peer / runs:.1f}"
    held, above, below = (100 * ours[what] / (runs - ours["none"]) for what in ("held", "above", "below"))
    without = f", {100 * ours['none'] / runs:.1f} without" if ours["none"] else ""
    cell = f"{held:.1f} ({above:.1f}, {below:.1f}){without}"
    return f"*{cell}*" if ours["bounds"] == runs else cell, f"{100 * peer / runs:.1f}"


def words(name: str, n: int, way: Way, *, runs: int, seed: int) -> str:
    """Verdicts on n questions per 100 runs: helps, does not help, harms. The remaining runs have no verdict."""
    random = np.random.default_rng([seed, n, zlib.crc32(name.encode())])
    found = (of_few(way.draw(random, n).tolist(), seed=at, resamples=_RESAMPLES) for at in range(runs))
    said = Counter(word_for(one) for one in found)
    return ", ".join(f"{100 * said[word] / runs:.1f}" for word in ("better", "no better", "worse"))


def _place(low: float, high: float, truth: float) -> str:
    """The position of an interval relative to the truth, with a tolerance for rounding."""
    slack = 1e-12 * max(1.0, abs(truth))
    return "above" if low > truth + slack else "below" if high < truth - slack else "held"


def main() -> int:
    """Print the tables."""
    options = argparse.ArgumentParser(description="How often the bench's intervals hold the truth.")
    options.add_argument("--runs", type=int, default=1000, help="of the bench, in each cell (default: 1000)")
    options.add_argument("--seed", type=int, default=1)
    wanted = options.parse_args()
    head = ("changes", *(f"{n} questions" for n in SIZES), *(f"t, {n}" for n in SIZES))
    for title, ways in (("Scores", SCORES), ("Scores with a rarer case", RARER), ("Tokens, times and dollars", COSTS)):
        print(f"\n{title}\n")
        rows = []
        for name, way in ways.items():
            pairs = [cells(name, n, way, runs=wanted.runs, seed=wanted.seed) for n in SIZES]
            rows.append([name, *(ours for ours, _ in pairs), *(peer for _, peer in pairs)])
        print(table(head, rows), flush=True)
    print("\nVerdicts: it helps, it does not, it harms\n")
    given = [
        [name, *(words(name, n, way, runs=wanted.runs, seed=wanted.seed) for n in VERDICT_SIZES)]
        for name, way in VERDICTS.items()
    ]
    print(table(("what is true", *(f"{n} questions" for n in VERDICT_SIZES)), given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
