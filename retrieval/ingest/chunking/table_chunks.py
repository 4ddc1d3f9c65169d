"""Tables row by row: no chunk cuts a row that fits, and each names the columns.

A table's head stands in the first chunk as written. Later chunks carry it as the last heading of their path, so that
it is embedded, searched and shown with every row, and the text stays an exact piece of the document.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from retrieval.ingest.chunking.blocks import Block, line_starts, table_head
from retrieval.ingest.chunking.sections import Section
from retrieval.records.documents import Document

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 20  # decide on delimiter and head
_SAMPLE_CHARS = 100_000
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t|])"?\s*', re.IGNORECASE)  # Excel's first line
_COMMENT = ("#", "//")
# A year, a month, a day or an age, which also name columns.
_PERIOD = re.compile(
    r"(?:1[5-9]|20)\d\d(?:[-/.](?:0?[1-9]|1[0-2])(?:[-/.]\d\d?)?)?|(?:\d\d?[-/.]){1,2}(?:1[5-9]|20)\d\d|\d{1,3}[-–]\d{1,3}"
)
_NUMBER = re.compile(r"[-+$€£]?[\d.,:/-]+%?")
_QUESTIONS = frozenset({"question", "questions", "q", "prompt", "query", "frage", "pregunta"})
_ANSWERS = frozenset({"answer", "answers", "a", "response", "reply", "antwort", "respuesta"})


def table_sections(document: Document) -> list[Section]:
    """Return a CSV or TSV document as one section with a block per row; for questions and answers, a section per row.

    The first rows decide which of , ; tab and | separates cells, unless a line `sep=;` says so, and which row is the
    head: titles, comments and blank lines may precede it. Text that the csv module refuses is read line by line.
    """
    text = document.text
    starts = line_starts(text)
    sample = text[:_SAMPLE_CHARS].splitlines(keepends=True)
    stated = _SEPARATOR_LINE.fullmatch(sample[0]) if sample else None
    of_name = "\t" if document.source.lower().endswith(".tsv") else ""
    delimiter = stated[1] if stated else of_name or _delimiter(sample)
    head, cells = _head(_rows(sample, delimiter))
    column_names = table_head(cells)
    begins = _row_lines(text, starts, delimiter)
    bounds = zip(begins, [*begins[1:], len(starts)], strict=True)
    spans = [(starts[line], starts[end] if end < len(starts) else len(text)) for line, end in bounds]
    # Marked as cut, so that a row is never repeated as overlap.
    blocks = [
        Block("table", start, end, cut=1, heading=column_names if n > head else "")
        for n, (start, end) in enumerate(spans)
    ]
    blocks = [block for block in blocks if block.start < block.end]
    if not blocks:
        return []
    columns = [cell.strip().lower() for cell in cells]
    if not (_QUESTIONS & set(columns) and _ANSWERS & set(columns)):
        return [Section(0, 0, len(text), 0, (), tuple(blocks))]
    return [Section(block.start, block.start, block.end, 1, (), (block,), own_chunk=True) for block in blocks]


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    return [[cell.strip() for cell in cells] for cells, _ in islice(_parsed(lines, delimiter), _SAMPLE_ROWS)]


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter that gives most rows the same number of cells; of several, the one that respects quotes and gives
    more.
    """

    def agreement(delimiter: str) -> tuple[int, int, int]:
        rows = _rows(lines, delimiter)
        width, agreeing = _common_width(rows)
        return agreeing, -sum('"' in cell for cells in rows for cell in cells), width

    return max(_DELIMITERS, key=agreement)


def _common_width(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """How many cells (two at least) most rows have, and how many rows these are; (0, 0) if none."""
    widths = Counter(len(cells) for cells in rows if len(cells) > 1)
    return max(widths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))


def _head(rows: Sequence[Sequence[str]]) -> tuple[int, Sequence[str]]:
    """Which row is the head, and its cells; (0, []) without a head.

    It is the first row as wide as most, if its cells are names.
    """
    width, _ = _common_width(rows)
    for at, cells in enumerate(rows):
        if not any(cells[1:]) or len(cells) != width or cells[0].startswith(_COMMENT):  # "Fees 2024,,": a title
            continue
        below = [other for other in rows[at + 1 :] if len(other) == width]
        return (at, cells) if _are_names(cells, below) else (0, [])
    return 0, []


def _are_names(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a row names columns: texts, and periods above other values; its first or last name may be missing."""
    if len(cells) < 2 or not any(cells) or not all(cells[1:-1]):
        return False
    periods = [n for n, cell in enumerate(cells) if _PERIOD.fullmatch(cell)]
    if any(_NUMBER.fullmatch(cell) and n not in periods for n, cell in enumerate(cells) if cell):
        return False
    return not periods or (
        bool(below)
        and len(periods) < len(cells)
        and any(not _PERIOD.fullmatch(row[n]) for row in below for n in periods)
    )


def _row_lines(text: str, starts: Sequence[int], delimiter: str) -> list[int]:
    """Return each row's first line; a quoted cell may span several."""
    lines = (text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    begins, next_line = [], 0
    for _, after in _parsed(lines, delimiter):
        begins.append(next_line)
        next_line = after
    begins += range(next_line, len(starts))  # all lines if the csv module could read none
    return begins


def _parsed(lines: "Sequence[str] | Iterator[str]", delimiter: str) -> Iterator[tuple[list[str], int]]:
    """Yield each row's cells and the line after it, as far as the csv module reads."""
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    while True:
        try:
            yield next(reader), reader.line_num
        except (StopIteration, csv.Error):  # a cell of over 128 KB, a bare carriage return
            return
