"""Tables of PowerPoint files before 2007 (.ppt).

In the file (MS-PPT), a table is a group of boxes with their places, and xberg takes each box for a paragraph, or all of
a slide for one. So the words that are a table's cells, one after the other, become this table.
"""

import io
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_STREAM = "PowerPoint Document"
_GROUP, _SHAPE, _ANCHOR, _BOX = 0xF003, 0xF004, 0xF00F, 0xF00D
_OPTIONS = (0xF00B, 0xF122)  # properties of a shape
_IS_TABLE = 0x039F
_WIDE, _NARROW = 0x0FA0, 0x0FA8  # text, with two bytes or one for a sign
_MOST_DEPTH = 32
_MOST_PLACES = 10  # for a cell: a cell over many columns and rows has one box
_BLANK = re.compile(r"[\s\\]")  # and what xberg writes before signs of Markdown
_HEADING = re.compile(r"(?<![^\n])#+ \Z")  # the first cell of a slide without a title

Table = list[list[str]]


class _Record(NamedTuple):
    kind: int
    holds: bool  # other records
    number: int  # its instance: of a list, how many
    start: int
    end: int


def tables(data: bytes) -> list[Table]:
    """Return the tables of a .ppt, by rows; none if the file is damaged."""
    import olefile  # only for these files

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            stream = ole.openstream(_STREAM).read()
    except (OSError, ValueError, IndexError, struct.error):
        return []  # xberg says what is wrong
    return [table for group in _groups(stream, 0, len(stream), 0) if len(table := _table(stream, group)) > 1]


def with_tables(slides: Sequence[str], tables: Sequence[Table]) -> list[str]:
    """Return texts with tables in place of the words that are their cells."""
    texts = [*slides]
    signs = [_BLANK.sub("", text) for text in texts]
    for table in tables:
        said = _BLANK.sub("", "".join(cell for row in table for cell in row))
        for n, text in enumerate(texts):
            if said in signs[n] and (changed := _with_table(text, said, table)) != text:
                texts[n], signs[n] = changed, _BLANK.sub("", changed)
                break
    return texts


def _with_table(text: str, said: str, table: Table) -> str:
    """said: the cells without blanks."""
    places = [at for at, sign in enumerate(text) if not _BLANK.match(sign)]
    for at in _found("".join(text[at] for at in places), said):
        start, end = places[at], places[at + len(said) - 1] + 1
        if ("\n" + text[:start])[-1].isspace() and (text[end:] + "\n")[0].isspace():
            before = _HEADING.sub("", text[:start]).rstrip()
            return f"{before}\n\n{_markdown(table)}\n\n{text[end:].lstrip()}"
    return text


def _found(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _markdown(table: Table) -> str:
    rows = [[" ".join(cell.split()).replace("|", r"\|") for cell in row] for row in table]
    first, *others = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([first, "|" + " --- |" * len(rows[0]), *others])


def _records(stream: bytes, at: int, until: int) -> Iterator[_Record]:
    while at + 8 <= until:
        instance, kind, size = struct.unpack_from("<HHI", stream, at)
        yield _Record(kind, instance & 15 == 15, instance >> 4, at + 8, min(at + 8 + size, until))
        at += 8 + size


def _groups(stream: bytes, at: int, until: int, depth: int) -> Iterator[_Record]:
    """Yield the groups that are tables."""
    for record in _records(stream, at, until):
        if record.kind == _GROUP and _is_table(stream, record):
            yield record
        elif record.holds and depth < _MOST_DEPTH:
            yield from _groups(stream, record.start, record.end, depth + 1)


def _is_table(stream: bytes, group: _Record) -> bool:
    shape = next(_records(stream, group.start, group.end), None)
    if shape is None or shape.kind != _SHAPE:
        return False
    return any(
        struct.unpack_from("<H", stream, at)[0] == _IS_TABLE
        for options in _records(stream, shape.start, shape.end)
        if options.kind in _OPTIONS
        for at in range(options.start, min(options.start + 6 * options.number, options.end - 5), 6)
    )


def _table(stream: bytes, group: _Record) -> Table:
    """Return the rows of a table; none if it has no text, or hardly any cells in its rows."""
    cells = dict[tuple[int, int], str]()
    for shape in _records(stream, group.start, group.end):
        parts = {part.kind: part for part in _records(stream, shape.start, shape.end)}
        if _BOX in parts and _ANCHOR in parts and parts[_ANCHOR].end - parts[_ANCHOR].start == 16:
            left, top = struct.unpack_from("<ii", stream, parts[_ANCHOR].start)
            cells[top, left] = _said(stream, parts[_BOX])
    if not any(cells.values()):
        return []
    tops, lefts = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    if len(tops) * len(lefts) > _MOST_PLACES * len(cells):
        return []
    rows = [[""] * len(lefts) for _ in tops]
    for (top, left), text in cells.items():
        rows[bisect_left(tops, top)][bisect_left(lefts, left)] = text
    return rows


def _said(stream: bytes, box: _Record) -> str:
    for record in _records(stream, box.start, box.end):
        if record.kind in (_WIDE, _NARROW):
            text = stream[record.start : record.end].decode(
                "utf-16-le" if record.kind == _WIDE else "latin-1", "replace"
            )
            return text.replace("\r", "\n").replace("\v", " ").strip()
    return ""
