"""Tables of Word files before 2007 (.doc): a mark between cells, and an end of line for each row.

In the file (MS-DOC), the same sign ends a cell and a row, and xberg leaves it out: a table and what follows it become
one line. Which paragraph ends a row stands in its properties, on pages of 512 bytes; how wide its signs are, in the
table of pieces. So the file that xberg gets has other signs at these places, in the same bytes.
"""

import io
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator

CELL = "\x7f"  # xberg passes it on; no program writes it
_STREAM = "WordDocument"
_CELL_END, _PARAGRAPH_END, _SPACE = 0x07, 0x0D, 0x20
_PAGE = 512
_IN_TABLE, _ROW_END = 0x2416, 0x2417  # properties of paragraphs
_ELSEWHERE = (0x6645, 0x6646)  # they stand elsewhere: of a cell's end, only those of a row with many cells are so long
_LONG_PROPERTIES = (0xD606, 0xD608)  # whose size has two bytes
_SIZES = (1, 1, 2, 4, 2, 2, 0, 3)  # of a property's operand, by the three highest bits of its number
_ROWS = re.compile(rf"(?:^[^\n]*{CELL}[^\n]*(?:\n+|\Z))+", re.MULTILINE)
_LEADING = re.compile(r"^(?:#{1,6} |- |\d+\. )")


def with_marks(data: bytes) -> bytes:
    """Return a .doc whose rows are lines with marks between cells; as it is if it has no table, or is damaged."""
    import olefile  # only for these files

    file = io.BytesIO(data)
    try:
        with olefile.OleFileIO(file, write_mode=True) as ole:
            text = bytearray(ole.openstream(_STREAM).read())
            properties = ole.openstream("1Table" if text[11] & 2 else "0Table").read()
            ends = list(_ends(text, properties))
            if not ends:
                return data
            for at, width, sign in ends:
                text[at : at + width] = sign.to_bytes(width, "little")
            ole.write_stream(_STREAM, bytes(text))
    except (OSError, ValueError, IndexError, struct.error, OverflowError):
        return data  # xberg says what is wrong
    return file.getvalue()


def with_tables(text: str) -> str:
    """Return Markdown with tables in place of lines with marks."""
    return _ROWS.sub(lambda rows: _table(rows[0]), text)


def _table(lines: str) -> str:
    rows = [
        [" ".join(cell.split()).replace("\\|", "|").replace("|", r"\|") for cell in line.split(CELL)[:-1]]
        for line in lines.splitlines()
        if CELL in line
    ]
    rows[0][0] = _LEADING.sub("", rows[0][0])
    most = max(map(len, rows))
    shown = [f"| {' | '.join(row + [''] * (most - len(row)))} |" for row in rows]
    return "\n".join([shown[0], "|" + " --- |" * most, *shown[1:]]) + "\n\n"


def _ends(text: bytearray, properties: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the place of each sign in a table that ends a paragraph, its bytes, and what stands for it."""
    pieces = sorted(_pieces(text, properties))
    starts = [start for start, _, _ in pieces]
    for end, in_table, row_end in _paragraphs(text, properties):
        number = bisect_right(starts, end - 1) - 1
        if not (in_table or row_end) or number < 0 or end > pieces[number][1]:
            continue
        width = pieces[number][2]
        sign = int.from_bytes(text[end - width : end], "little")
        if sign == _CELL_END:
            yield end - width, width, _PARAGRAPH_END if row_end else ord(CELL)
        elif sign == _PARAGRAPH_END and in_table:
            yield end - width, width, _SPACE  # of two paragraphs in a cell


def _pieces(text: bytearray, properties: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the bytes of each piece of the text, from and to, and the width of its signs."""
    place, size = struct.unpack_from("<II", text, 0x1A2)
    at, until = place, min(place + size, len(properties))
    while at < until and properties[at] == 1:  # properties of pieces
        at += 3 + struct.unpack_from("<H", properties, at + 1)[0]
    (size,) = struct.unpack_from("<I", properties, at + 1)
    at += 5
    count = (min(size, until - at) - 4) // 12
    signs = struct.unpack_from(f"<{count + 1}I", properties, at)
    for number in range(count):
        (where,) = struct.unpack_from("<I", properties, at + 4 * (count + 1) + 8 * number + 2)
        narrow, where = where & 1 << 30, where & (1 << 30) - 1
        start, width = (where // 2, 1) if narrow else (where, 2)
        yield start, start + (signs[number + 1] - signs[number]) * width, width


def _paragraphs(text: bytearray, properties: bytes) -> Iterator[tuple[int, bool, bool]]:
    """Yield where each paragraph ends, whether it is in a table, and whether it ends a row."""
    place, size = struct.unpack_from("<II", text, 0x102)
    count = (min(size, len(properties) - place) - 4) // 8
    for (number,) in struct.iter_unpack(
        "<I", properties[place + 4 * (count + 1) : place + 4 * (count + 1) + 4 * count]
    ):
        page = text[(number & 0x3FFFFF) * _PAGE :][:_PAGE]
        if len(page) < _PAGE:
            continue
        many = page[-1]
        ends = struct.unpack_from(f"<{many + 1}I", page, 0)[1:]
        for paragraph, end in enumerate(ends):
            found = _properties(page, page[4 * (many + 1) + 13 * paragraph] * 2)
            yield end, _IN_TABLE in found, _ROW_END in found or not found.isdisjoint(_ELSEWHERE)


def _properties(page: bytearray, at: int) -> set[int]:
    """The properties of a paragraph that are set to 1, or stand elsewhere."""
    if not at:
        return set()
    size = page[at] * 2 - 1 if page[at] else page[at + 1] * 2
    at += 1 if page[at] else 2
    until, found = min(at + size, _PAGE - 1), set[int]()
    at += 2  # the style
    while at + 2 < until:
        (number,) = struct.unpack_from("<H", page, at)
        size = _SIZES[number >> 13]
        if (page[at + 2] == 1 and size == 1) or number in _ELSEWHERE:
            found.add(number)
        if number in _LONG_PROPERTIES:
            size = struct.unpack_from("<H", page, at + 2)[0] + 1
        elif not size:
            size = page[at + 2] + 1
        at += 2 + size
    return found
