"""Words on a page to lines and tables in reading order.

Words become pieces of lines, which wide gaps part. Columns are found by the left edges of pieces (`regions`): a strip
of the page without a piece across one such edge, and with running text on both sides. Within a column, pieces on one
baseline are a row; rows whose pieces stand below each other are a table (`tables`), other rows are lines.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from retrieval.ingest.formats.pdf.page import SOFT_HYPHEN, Word

GAP = 0.85  # of the font size: a wider gap parts pieces of a line; justified text seldom has such
_BULLET = re.compile("[•▪◦‣∙●○■□➢✓–*·-]")
_NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)]")
_END_SIGNS = ".,;:!?"
_TWO_LINKS = re.compile(r"\]\((https?://\S+)\) \[([^\]\n]*\]\(\1\))")
_COLUMN_LINES = 4  # a column has as many lines at least
_TURN_LINES = 6  # the same if few of them are full
_MOST_EDGES = 12  # tried: a map has hundreds
_FILLED = 0.7  # of a column's width, by half of its lines at least
_COLUMN_WORDS = 3.0  # a line, on average


@dataclass(slots=True)
class Line:
    """Words in one row, from left to right."""

    words: list[Word]
    x0: float
    y0: float
    x1: float
    y1: float
    base: float
    size: float
    apart: bool = False  # pieces in a row of their own: no running text

    @property
    def text(self) -> str:
        """Its words; SOFT_HYPHEN at the end for a hyphen there."""
        return self._said(self.words)

    @property
    def marked(self) -> str:
        """The same in Markdown: with links, and with code within a sentence as code."""
        shown, before, all_mono = "", self.words[0], self.mono
        for (link, code), run in groupby(
            self.words,
            key=lambda word: (word.link, word.inline or (word.mono and not all_mono and not is_marker(word.text))),
        ):
            words = list(run)
            text = self._said(words)
            end = "" if words[-1].inline else text[len(text.rstrip(_END_SIGNS)) :]
            inner = text.removesuffix(end)
            if code and inner and "`" not in inner:
                inner = f"`{inner.replace(SOFT_HYPHEN, '-')}`"  # code has hyphens of its own
            cut = inner[-1:] in ("", "-", SOFT_HYPHEN)  # a word that goes on in the next line
            own_address = re.search(r"[./]", inner) and inner.strip("`") in link
            if link and not cut and not own_address:
                inner = f"[{inner}]({link})"
            shown += (self._gap(before, words[0]) if shown else "") + inner + end
            before = words[-1]
        return shown

    def _said(self, words: Sequence[Word]) -> str:
        shown = words[0].text
        for before, word in pairwise(words):
            shown += self._gap(before, word) + word.text
        return shown[:-1].replace(SOFT_HYPHEN, "") + shown[-1]

    def _gap(self, before: Word, word: Word) -> str:
        wide = self.apart and word.x0 - before.x1 > GAP * self.size
        return "   " if wide else " " if _parted(before, word) else ""

    @property
    def bold(self) -> bool:
        return all(word.bold for word in self.words)

    @property
    def inline(self) -> bool:
        return all(word.inline for word in self.words)

    @property
    def mono(self) -> bool:
        return all(word.mono and not word.inline for word in self.words)


@dataclass(slots=True)
class PageTable:
    """Cells by row, and where the table is."""

    rows: list[list[str]]
    x0: float
    y0: float
    x1: float
    y1: float
    base: float


Item = Line | PageTable


def is_marker(text: str, *, bullet: bool = False) -> bool:
    """Whether a word begins a list's item. bullet: a number does not count."""
    return _BULLET.fullmatch(text) is not None or (not bullet and _NUMBER.fullmatch(text) is not None)


def line_of(words: Sequence[Word], *, apart: bool = False) -> Line:
    sizes: Counter[float] = Counter()
    for word in words:
        sizes[word.size] += len(word.text) * (1 if word.mono else 1000)  # code within a text is often smaller
    size = max(sizes, key=lambda one: sizes[one])
    return Line(
        list(words),
        min(word.x0 for word in words),
        min(word.y0 for word in words),
        max(word.x1 for word in words),
        max(word.y1 for word in words),
        median(word.base for word in words),
        size,
        apart,
    )


def pieces_of(words: Iterable[Word]) -> list[Line]:
    """Return lines' pieces: words in the file's order, while the next one follows on the same baseline."""
    pieces: list[list[Word]] = []
    for word in words:
        last = pieces[-1][-1] if pieces else None
        if last is not None and _follows(last, word, first=len(pieces[-1]) == 1):
            pieces[-1].append(word)
        else:
            pieces.append([word])
    return [line_of(piece) for piece in pieces]


def _follows(last: Word, word: Word, *, first: bool) -> bool:
    size = max(last.size, word.size)
    if abs(word.base - last.base) > 0.5 * size or _are_cells(last, word):
        return False
    wide = 4.0 if first and is_marker(last.text) else GAP
    return -0.5 * size < word.x0 - last.x1 < wide * size


def _are_cells(last: Word, word: Word) -> bool:
    """Whether words may be of two cells: with another tag, and only one of them code that is no part of a sentence."""
    return word.tag != last.tag and last.mono != word.mono and not (last.inline or word.inline)


def _parted(before: Word, word: Word) -> bool:
    """Whether a blank stands between two words: not at a change of font or tag, and not between ideographs."""
    near = 0.3 if _wide(before.text[-1]) and _wide(word.text[0]) else 0.1
    return word.x0 - before.x1 > near * word.size


def _wide(char: str) -> bool:
    return "\u2e80" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af" or "\uff00" <= char <= "\uff60"


def regions(items: Sequence[Item]) -> list[list[Item]]:
    """Return items in reading order: those of one column after another."""
    found = _columns(items)
    if found is None:
        return [sorted(items, key=lambda item: (item.base, item.x0))] if items else []
    return [region for part in found for region in regions(part)]


def _columns(items: Sequence[Item]) -> list[list[Item]] | None:
    """Return what is above two columns, the left one, the right one, and what is below; None without columns."""
    best: tuple[list[Item], float] | None = None
    for edge in _edges(items):
        at = edge - 2.0
        across = sorted((item for item in items if text_left(item) < at < item.x1), key=lambda item: item.y0)
        aside = [item for item in items if not text_left(item) < at < item.x1]
        tops = [-1e9, *(item.base for item in across)]
        ends = [*(item.y0 for item in across), 1e9]
        for top, end in zip(tops, ends, strict=True):
            strip = [item for item in aside if top < item.base and item.y1 <= end + 1]
            left, right = [item for item in strip if item.x1 <= at], [item for item in strip if text_left(item) >= at]
            if _are_columns(left, right, strip) and (best is None or len(strip) > len(best[0])):
                best = strip, at
    if best is None:
        return None
    inside, at = best
    first, last = min(item.base for item in inside), max(item.y1 for item in inside)
    rest = [item for item in items if not any(item is one for one in inside)]
    return [
        part
        for part in (
            [item for item in rest if item.base < first],
            [item for item in inside if item.x1 <= at],
            [item for item in inside if text_left(item) >= at],
            [item for item in rest if item.base >= first and item.base <= last],
            [item for item in rest if item.base > last],
        )
        if part
    ]


def _edges(items: Sequence[Item]) -> list[int]:
    """Return left edges that may be a column's: those of most lines."""
    edges: Counter[int] = Counter()
    for item in items:
        edges[round(text_left(item))] += _lines(item)
    return [edge for edge, lines in edges.most_common(_MOST_EDGES) if lines >= _COLUMN_LINES]


def text_left(item: Item) -> float:
    """Return where its text begins: the mark of a list's item may stand in the gap between columns."""
    if isinstance(item, Line) and len(item.words) > 1 and is_marker(item.words[0].text):
        return item.words[1].x0
    return item.x0


def _lines(item: Item) -> int:
    return 1 if isinstance(item, Line) else len(item.rows)


def _are_columns(left: Sequence[Item], right: Sequence[Item], written: Sequence[Item]) -> bool:
    """Whether these are two columns of running text beside each other, and not of a table.

    written: both sides in the order of the file.
    """
    if not left or not right:
        return False
    top = max(min(item.y0 for item in left), min(item.y0 for item in right))
    end = min(max(item.y1 for item in left), max(item.y1 for item in right))
    beside = [sum(_lines(item) for item in side if item.y0 <= end and item.y1 >= top) for side in (left, right)]
    full = 0.0 if _in_turn(left, right, written) else 0.5
    return min(beside) >= _COLUMN_LINES and _is_prose(left, full) and _is_prose(right, full)


def _in_turn(left: Sequence[Item], right: Sequence[Item], written: Sequence[Item]) -> bool:
    """Whether the file has one side after the other, each longer than a cell: a table is written row by row.

    So columns with headings, lists and code are known, which have few full lines.
    """
    if list(_running_text(written)) != [*_running_text(left), *_running_text(right)]:
        return False
    return all(sum(_lines(row[0]) for row in _rows(side)) >= _TURN_LINES for side in (left, right))


def _running_text(items: Iterable[Item]) -> Iterator[Line]:
    """Yield the lines but for code, which browsers write after the rest if it has a box of its own."""
    return (item for item in items if isinstance(item, Line) and not item.mono)


def _is_prose(items: Sequence[Item], full: float) -> bool:
    """Whether most rows have several words. full: the least share of rows that fill the width."""
    lines = [list(_running_text(row)) for row in _rows(items)]
    lines = [row for row in lines if row]
    if not lines:
        return all(isinstance(item, PageTable) for item in items)
    width = max(row[-1].x1 for row in lines) - min(row[0].x0 for row in lines)
    filled = sum(sum(piece.x1 - piece.x0 for piece in row) > _FILLED * width for row in lines)
    words = sum(max(len(piece.words), sum(map(_wide, piece.text)) // 2) for row in lines for piece in row)
    return filled >= full * len(lines) and words >= _COLUMN_WORDS * len(lines)


def _rows(items: Iterable[Item]) -> list[list[Item]]:
    return rows_of(sorted(items, key=lambda item: item.base))


def rows_of(items: Sequence[Item]) -> list[list[Item]]:
    """Return items of one region by row, each from left to right; a table is a row."""
    rows: list[list[Item]] = []
    for item in items:
        last = rows[-1][0] if rows else None
        if (
            isinstance(item, Line)
            and isinstance(last, Line)
            and item.base - last.base <= 0.4 * min(item.size, last.size)
        ):
            rows[-1].append(item)
        else:
            rows.append([item])
    return [sorted(row, key=lambda item: item.x0) for row in rows]


def marked_text(lines: Sequence[Line]) -> str:
    """Return the Markdown of lines as one text; a code span that a line end cuts becomes one."""
    texts = [line.marked for line in lines]
    for n, (one, two) in enumerate(pairwise(lines)):
        last, first = one.words[-1], two.words[0]
        if last.inline and last.tag == first.tag and re.search(r"[^-]`$", texts[n]) and texts[n + 1][0] == "`":
            texts[n], texts[n + 1] = texts[n][:-1], texts[n + 1][1:]
    return joined(texts)


def joined(lines: Sequence[str]) -> str:
    """Return lines as one text; a hyphen that a line's end may have made is a SOFT_HYPHEN (see `document`).

    A link over two lines becomes one, and so does a word of code.
    """
    text = ""
    for line in lines:
        if text[-2:] == "-`" and text[-3:-2].isalnum() and line[0] == "`" and line[1:2].isalnum():
            text = text[:-1] + line[1:]
        elif text[-1:] in ("-", SOFT_HYPHEN) and text[-2:-1].isalnum() and line[:1].isalnum():
            text = text[:-1] + (SOFT_HYPHEN if line[0].islower() else "-") + line
        else:
            wide = text and _wide(text[-1]) and _wide(line[0])
            text += line if wide or not text else " " + line
    return _TWO_LINKS.sub(r" \2", text)
