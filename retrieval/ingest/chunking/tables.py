"""Tables row by row: no chunk cuts a row that fits, and each chunk names the columns.

A table's head stands in the first chunk as written. Later chunks carry the head as the last heading of the path, so
that the head is embedded, searched and shown with every row, and the text stays an exact piece of the document.
"""

import csv
import re
from collections.abc import Iterator, Sequence

from retrieval.ingest.chunking.blocks import Block, line_starts, table_head
from retrieval.ingest.chunking.sections import Section
from retrieval.records.documents import Document

_DELIMITERS = ",;\t|"
_HEAD_WITHIN_CHARS = 100_000  # a longer line is no head
_NUMBER = re.compile(r"[-+$€£]?[\d.,:/-]+%?")
_QUESTIONS = frozenset({"question", "questions", "q", "prompt", "query", "frage", "pregunta"})
_ANSWERS = frozenset({"answer", "answers", "a", "response", "reply", "antwort", "respuesta"})


def table_sections(document: Document) -> list[Section]:
    """Return one section with a block per row of a CSV or TSV document; for questions and answers, a section per row.

    The first line decides which of , ; tab and | separates cells. The first row is the head unless a cell is empty or
    a number. Text that the csv module refuses is read line by line.
    """
    text = document.text
    starts = line_starts(text)
    first = text[: starts[1] if len(starts) > 1 else len(text)][:_HEAD_WITHIN_CHARS]
    delimiter = "\t" if document.source.lower().endswith(".tsv") else max(_DELIMITERS, key=first.count)
    cells = next(iter(_parsed([first], delimiter)), ([], 0))[0]
    column_names = table_head(cells) if _is_table_head(cells) else ""
    begins = _row_lines(text, starts, delimiter)
    bounds = zip(begins, [*begins[1:], len(starts)], strict=True)
    spans = [(starts[line], starts[end] if end < len(starts) else len(text)) for line, end in bounds]
    # Marked as cut, so that a row is never repeated as overlap.
    blocks = [
        Block("table", start, end, cut=1, heading=column_names if n else "") for n, (start, end) in enumerate(spans)
    ]
    blocks = [block for block in blocks if block.start < block.end]
    if not blocks:
        return []
    columns = [cell.strip().lower() for cell in cells]
    if not (_QUESTIONS & set(columns) and _ANSWERS & set(columns)):
        return [Section(0, 0, len(text), 0, (), tuple(blocks))]
    return [Section(block.start, block.start, block.end, 1, (), (block,), own_chunk=True) for block in blocks]


def _is_table_head(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and all(cell.strip() and not _NUMBER.fullmatch(cell.strip()) for cell in cells)


def _row_lines(text: str, starts: Sequence[int], delimiter: str) -> list[int]:
    """Return the first line of each row; a quoted cell may span several lines."""
    lines = (text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    begins, next_line = [], 0
    for _, after in _parsed(lines, delimiter):
        begins.append(next_line)
        next_line = after
    begins += range(next_line, len(starts))  # all lines if the csv module could read none
    return begins


def _parsed(lines: "Sequence[str] | Iterator[str]", delimiter: str) -> Iterator[tuple[list[str], int]]:
    """Yield the cells of each row and the line after the row, as far as the csv module reads."""
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            yield next(reader), reader.line_num
        except (StopIteration, csv.Error):  # a cell of over 128 KB, a bare carriage return
            return
