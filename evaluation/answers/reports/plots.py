"""The report's plots, drawn by matplotlib as inline SVG in the colours of the page, light or dark.

Plots are narrow, with each label above the row, so that a phone shows a plot without rotation.
"""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Tone = Literal["good", "bad", "flat", "unsure"]

_WIDTH_IN = 4.7
# Unique placeholder colours, replaced by the page's CSS names.
_INK, _FAINT, _PAGE = "#010101", "#020202", "#070707"
_TONES: dict[Tone, str] = {"good": "#030303", "bad": "#040404", "flat": "#050505", "unsure": "#060606"}
_NAMES = {_INK: "currentColor", _FAINT: "var(--faint)", _PAGE: "var(--page)"} | {
    hue: f"var(--{tone})" for tone, hue in _TONES.items()
}
_STYLE: dict[Any, Any] = {  # Any: the type stubs require every name
    "svg.fonttype": "none", "svg.hashsalt": "ragway", "font.family": "sans-serif", "font.size": 9,
    "text.color": _INK, "xtick.color": _INK, "ytick.color": _INK, "axes.edgecolor": _FAINT, "axes.labelcolor": _INK,
    "text.parse_math": False,
}  # fmt: skip
_NOT_OURS = re.compile(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_MOST_LABEL = 56  # characters that fit above a row


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of an interval plot."""

    label: str
    value: str  # in words
    mean: float
    low: float
    high: float
    tone: Tone


def intervals(rows: Sequence[Bar], *, title: str, axis: str) -> str:
    """Means with intervals, one row each, and a line at 0."""

    def draw(axes: "Axes") -> None:
        axes.axvline(0, color=_INK, linewidth=0.8)
        for at, row in enumerate(rows):
            hue = _TONES[row.tone]
            axes.plot([row.low, row.high], [at, at], color=hue, linewidth=3, solid_capstyle="round")
            axes.plot([row.mean], [at], "o", color=hue, markersize=8)
            _label(axes, at, row.label, row.value)
        edge = max(0.1, *(abs(end) for row in rows for end in (row.low, row.high))) * 1.08
        axes.set_xlim(-edge, edge)
        axes.set_xlabel(axis)

    return _drawn(draw, rows=len(rows), title=title)


def times(rows: Sequence[tuple[str, float, float]], *, title: str, axis: str) -> str:
    """Label, median and 95th percentile: a dot at the median and a line to the percentile."""

    def draw(axes: "Axes") -> None:
        for at, (label, p50, p95) in enumerate(rows):
            axes.plot([p50, p95], [at, at], color=_TONES["flat"], linewidth=3, solid_capstyle="round")
            axes.plot([p50], [at], "o", color=_INK, markersize=8)
            axes.plot([p95], [at], "|", color=_TONES["flat"], markersize=10, markeredgewidth=2)
            _label(axes, at, label, f"{p50:,.0f} / {p95:,.0f}")
        axes.set_xlim(0, max((p95 for *_, p95 in rows), default=1) * 1.08 or 1)
        axes.set_xlabel(axis)

    return _drawn(draw, rows=len(rows), title=title)


def changes(values: Sequence[float], *, same: float, title: str, axis: str) -> str:
    """Every question's difference, from the worst to the best."""
    rising = sorted(values)

    def tone(value: float) -> Tone:
        return "bad" if value < -same else "good" if value > same else "flat"

    def draw(axes: "Axes") -> None:
        start = 0
        for each, its in groupby(rising, tone):
            heights = list(its)
            edges = [start - 0.5 + at for at in range(len(heights) + 1)]
            axes.stairs(heights, edges, fill=True, color=_TONES[each], linewidth=0)
            if each == "flat":
                axes.plot(edges, [0.0] * len(edges), color=_TONES[each], linewidth=2)
            start += len(heights)
        axes.axhline(0, color=_INK, linewidth=0.8)
        axes.set_xlim(-0.6, max(len(rising), 2) - 0.4)
        axes.set_ylim(-1.05, 1.05)
        axes.set_xticks([])
        axes.set_xlabel(axis)

    return _drawn(draw, rows=3, title=title, rows_named=False)


def _label(axes: "Axes", at: int, label: str, numbers: str) -> None:
    shown = label if len(label) <= _MOST_LABEL else label[: _MOST_LABEL - 1] + "…"
    across = axes.get_yaxis_transform()  # x from 0 to 1, y in rows
    behind = {"facecolor": _PAGE, "edgecolor": "none", "pad": 1}  # no line crosses the label
    axes.text(0, at - 0.47, shown, transform=across, va="bottom", bbox=behind)
    axes.text(0, at - 0.2, numbers, transform=across, va="bottom", bbox=behind)


def _drawn(draw: Any, *, rows: int, title: str, rows_named: bool = True) -> str:
    """The SVG of a plot, without an XML header, timestamps and ids."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the font may lack a letter; the reader's browser has fonts with more letters
        figure = Figure(figsize=(_WIDTH_IN, 0.62 + 0.6 * rows), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for side in ("top", "right", "left") if rows_named else ("top", "right", "bottom"):
            axes.spines[side].set_visible(False)
        axes.patch.set_visible(False)
        figure.patch.set_visible(False)
        axes.grid(axis="x" if rows_named else "y", color=_FAINT, linewidth=0.5)
        axes.set_axisbelow(True)
        if rows_named:
            axes.set_yticks([])
            axes.set_ylim(rows - 0.6, -0.85)
        draw(axes)
        page = io.StringIO()
        figure.savefig(page, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = _NOT_OURS.sub("", page.getvalue().partition("<svg")[2])
    for hue, name in _NAMES.items():
        svg = svg.replace(hue, name)
    return f'<svg role="img" aria-label="{_attribute(title)}"{svg}'


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
