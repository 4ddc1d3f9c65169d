"""Tables row by row: no chunk begins or ends within a row that fits one, and each says what its columns are.

A table's head stands in its first chunk as it was written; the chunks that go on carry it as the last heading of
their path, so that it is embedded, searched and shown with every row, and their text stays an exact piece of the
document.
"""

import csv
import re
from collections.abc import Iterator, Sequence

from retrieval.ingest.chunking.blocks import Block, head, line_starts
from retrieval.ingest.chunking.sections import Section
from retrieval.records.documents import Document

_DELIMITERS = ",;\t|"
_HEAD_WITHIN_CHARS = 100_000  # what is longer than this on one line is no head
_NUMBER = re.compile(r"[-+$€£]?[\d.,:/-]+%?")
_QUESTIONS = frozenset({"question", "questions", "q", "prompt", "query", "frage", "pregunta"})
_ANSWERS = frozenset({"answer", "answers", "a", "response", "reply", "antwort", "respuesta"})


def rows(document: Document) -> list[Section]:
    """The rows of a CSV or TSV document, as blocks of one section, or a section each where they are pairs.

    Which of , ; tab and | separates the cells is read from the first line. The first row is the head unless it has a
    cell that is empty or a number. What the csv module refuses is taken line by line.
    """
    text = document.text
    starts = line_starts(text)
    first = text[: starts[1] if len(starts) > 1 else len(text)][:_HEAD_WITHIN_CHARS]
    delimiter = "\t" if document.source.lower().endswith(".tsv") else max(_DELIMITERS, key=first.count)
    cells = next(iter(_parsed([first], delimiter)), ([], 0))[0]
    named = head(cells) if _is_head(cells) else ""
    begins = _row_lines(text, starts, delimiter)
    bounds = zip(begins, [*begins[1:], len(starts)], strict=True)
    spans = [(starts[line], starts[end] if end < len(starts) else len(text)) for line, end in bounds]
    # Cut already: a row is never repeated as overlap.
    blocks = [Block("table", start, end, cut=1, heading=named if n else "") for n, (start, end) in enumerate(spans)]
    blocks = [block for block in blocks if block.start < block.end]
    if not blocks:
        return []
    columns = [cell.strip().lower() for cell in cells]
    if not (_QUESTIONS & set(columns) and _ANSWERS & set(columns)):
        return [Section(0, 0, len(text), 0, (), tuple(blocks))]
    return [Section(one.start, one.start, one.end, 1, (), (one,), alone=True) for one in blocks]


def _is_head(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and all(cell.strip() and not _NUMBER.fullmatch(cell.strip()) for cell in cells)


def _row_lines(text: str, starts: Sequence[int], delimiter: str) -> list[int]:
    """The line on which each row begins; a quoted cell may go on over several lines."""
    lines = (text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    begins, next_line = [], 0
    for _, after in _parsed(lines, delimiter):
        begins.append(next_line)
        next_line = after
    begins += range(next_line, len(starts))  # all of them where nothing could be read
    return begins


def _parsed(lines: "Sequence[str] | Iterator[str]", delimiter: str) -> Iterator[tuple[list[str], int]]:
    """The cells of each row and the line after it, as far as the csv module reads."""
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            yield next(reader), reader.line_num
        except (StopIteration, csv.Error):  # a cell of over 128 KB, a bare carriage return
            return
