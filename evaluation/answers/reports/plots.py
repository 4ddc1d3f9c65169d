"""A report's figures, as positions in percent of width or height; page.html draws them in its own colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from evaluation.answers.reports.report import BenchReport
from evaluation.answers.scoring.verdict import SAME, ScoreComparison, Word
from evaluation.stats.significance import interval

Tone = Literal["good", "bad", "flat", "unsure"]

_TONES: dict[Word, Tone] = {
    "better": "good", "worse": "bad", "no better": "flat", "undecided": "unsure", "depends": "unsure",
}  # fmt: skip
_MOST_ROWS = 30  # in a plot
_MOST_OF_EACH = 4  # verdicts with a plot; tables show them all
_MARGIN = 1.08  # of the longest interval, so that no mark is on the edge
_MOST_TICKS = 5
_LEAST_HEIGHT = 1.5  # of a bar: unchanged questions show, too


@dataclass(frozen=True, slots=True)
class Row:
    """A dot on a line from `low` to `high`."""

    label: str
    value: str  # in words
    tone: Tone
    low: float
    dot: float
    high: float


@dataclass(frozen=True, slots=True)
class Bar:
    """Equal questions side by side."""

    tone: Tone
    left: float
    width: float
    top: float
    height: float


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure: rows over an axis with ticks, or bars."""

    caption: str
    axis: str
    rows: Sequence[Row] = ()
    ticks: Sequence[tuple[float, str]] = ()
    bars: Sequence[Bar] = ()


def plots_of(report: BenchReport) -> list[Plot]:
    """All figures in a report."""
    mains = [(row.title, row.main) for row in report.leading if row.main]
    beside = [(row.title, row.main) for row in report.beside if row.main]
    tags = [(f"By tag: {row.variant}", list(row.tags.items())) for row in report.leading[:_MOST_OF_EACH]]
    groups = [("Mean difference of the score, with its 95 % interval", mains), *tags, ("Beside other models", beside)]
    plots = [_differences(caption, rows[:_MOST_ROWS]) for caption, rows in groups if rows]
    plots += [_changes(f"Every question: {label}", main) for label, main in mains[:_MOST_OF_EACH]]
    for name, caption in (
        ("first_ms", "Time to the first token: median and 95th percentile"),
        ("total_ms", "Time of the whole answer: median and 95th percentile"),
    ):
        times = [
            (variant.variant.name, spent.p50, spent.p95)
            for variant in report.variants
            if (spent := variant.costs.spent.get(name))
        ]
        if times:
            plots.append(_times(caption, times[:_MOST_ROWS]))
    return plots


def _differences(caption: str, comparisons: Sequence[tuple[str, ScoreComparison]]) -> Plot:
    """Means with their intervals, 0 in the middle."""
    changes = [(label, each.change, _TONES[each.word]) for label, each in comparisons]
    edge = max(0.1, *(abs(end) for _, change, _ in changes for end in (change.low, change.high)))
    rows = [
        Row(label, interval(change, "+z.2f"), tone, change.low, change.mean, change.high)
        for label, change, tone in changes
    ]
    return _over_axis(caption, "worse  ←  difference  →  better", rows, -edge, edge)


def _times(caption: str, times: Sequence[tuple[str, float, float]]) -> Plot:
    """Label, median and 95th percentile in ms: a dot for the median and a line to the percentile."""
    rows = [Row(label, f"{p50:,.0f} / {p95:,.0f}", "flat", p50, p50, p95) for label, p50, p95 in times]
    return _over_axis(caption, "ms", rows, 0, max(p95 for *_, p95 in times) or 1)


def _over_axis(caption: str, axis: str, rows: Sequence[Row], low: float, high: float) -> Plot:
    """Rows in axis units -> in percent, with ticks."""
    low, high = low * _MARGIN, high * _MARGIN

    def at(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    rows = [replace(row, low=at(row.low), dot=at(row.dot), high=at(row.high)) for row in rows]
    step = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
    step *= next(times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= _MOST_TICKS)
    ticks = [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return Plot(caption, axis, rows, [(at(tick), f"{tick:,.6g}") for tick in ticks])


def _changes(caption: str, comparison: ScoreComparison) -> Plot:
    """Every question's difference, from worst to best."""
    bars, seen, total = [], 0, len(comparison.changes)
    for change, questions in groupby(sorted(round(value, 3) for value in comparison.changes.values())):
        count = len(list(questions))
        tone: Tone = "bad" if change < -SAME else "good" if change > SAME else "flat"
        height = max(abs(50 * change), _LEAST_HEIGHT)
        top = 50 if tone == "bad" else 50 - height
        bars.append(Bar(tone, round(100 * seen / total, 2), round(100 * count / total, 2), top, height))
        seen += count
    return Plot(caption, "questions, from the worst to the best", bars=bars)
