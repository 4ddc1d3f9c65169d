"""Tables of Word files before 2007: other signs at the ends of cells and rows, whatever pieces the text has."""

import io
import struct

import olefile
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.ingest.formats.word_tables import CELL, with_marks, with_tables
from tests.support.ole_files import ole_file

_TEXT = "\x0d"  # ends a paragraph
_IN_TABLE, _ROW_END = struct.pack("<HB", 0x2416, 1), struct.pack("<HB", 0x2417, 1)
_ELSEWHERE = struct.pack("<HI", 0x6646, 80)  # properties in another stream
_LONG = struct.pack("<HH", 0xD608, 3) + b"ab"  # a property whose size has two bytes


def word_file(paragraphs: list[tuple[str, bytes]], *, wide: bool) -> bytes:
    """A .doc of paragraphs with their properties, in two pieces: the second of narrow signs, or all of wide ones."""
    half = len(paragraphs) // 2
    text, pieces, ends, signs = bytearray(2048), list[tuple[int, int]](), list[int](), [0]
    for of, narrow in ((paragraphs[:half], False), (paragraphs[half:], not wide)):
        place = len(text)
        pieces.append((place * 2 | 1 << 30 if narrow else place, len(of)))
        for said, _ in of:
            text += said.encode("cp1252" if narrow else "utf-16-le")
            ends.append(len(text))
        signs.append(signs[-1] + sum(len(said) for said, _ in of))
    page, at = bytearray(512), 510
    for n, (_, properties) in enumerate(paragraphs):
        body = b"\0\0" + properties + b"\0" * (1 - len(properties) % 2)
        at -= len(body) + 1 + (len(body) + 1) % 2
        page[at] = (len(body) + 1) // 2
        page[at + 1 : at + 1 + len(body)] = body
        page[4 * (len(paragraphs) + 1) + 13 * n] = at // 2
    page[: 4 * len(ends) + 4] = struct.pack(f"<{len(ends) + 1}I", 2048, *ends)
    page[511] = len(paragraphs)
    text += b"\0" * (-len(text) % 512)
    number = len(text) // 512
    text += page
    table = struct.pack("<III", 2048, ends[-1], number)
    parts = struct.pack("<3I", *signs) + b"".join(struct.pack("<HIH", 0, place, 0) for place, _ in pieces)
    clx = b"\x01" + struct.pack("<H", 3) + b"xyz" + b"\x02" + struct.pack("<I", len(parts)) + parts
    struct.pack_into("<HHHHH", text, 0, 0xA5EC, 0, 0, 0, 0)
    text[11] = 2
    struct.pack_into("<II", text, 0x102, 0, len(table))
    struct.pack_into("<II", text, 0x1A2, len(table), len(clx))
    return ole_file({"WordDocument": bytes(text), "1Table": (table + clx).ljust(4096, b"\0")})


def marked(paragraphs: list[tuple[str, bytes]], *, wide: bool) -> str:
    data = with_marks(word_file(paragraphs, wide=wide))
    with olefile.OleFileIO(io.BytesIO(data)) as ole:
        text = ole.openstream("WordDocument").read()[2048:]
    half, said = len(paragraphs) // 2, ""
    for of, code in ((paragraphs[:half], "utf-16-le"), (paragraphs[half:], "utf-16-le" if wide else "cp1252")):
        size = sum(len(one.encode(code)) for one, _ in of)
        said, text = said + text[:size].decode(code), text[size:]
    return said


@pytest.mark.parametrize("row_end", [_IN_TABLE + _ROW_END, _ELSEWHERE])
@pytest.mark.parametrize("wide", [True, False])
def test_cells_are_parted_and_rows_are_paragraphs(row_end: bytes, wide: bool) -> None:
    row = [
        ("north\x07", _IN_TABLE),
        ("two\x0d", _LONG + _IN_TABLE),
        ("lines\x07", _IN_TABLE),
        ("\x07", _IN_TABLE + _ROW_END),
    ]
    paragraphs = [("Set\x07the fare." + _TEXT, _ELSEWHERE), *row, *row, ("Then sail." + _TEXT, b"")]
    assert marked(paragraphs, wide=wide) == (
        "Set\x07the fare.\x0d" + f"north{CELL}two lines{CELL}\x0d" * 2 + "Then sail.\x0d"
    )


def test_rows_become_tables_and_texts_stay() -> None:
    rows = f"## a|b{CELL}c{CELL}\n\nd{CELL}{CELL}\n"
    assert with_tables(f"Text.\n\n{rows}\n# Next\n") == ("Text.\n\n| a\\|b | c |\n| --- | --- |\n| d |  |\n\n# Next\n")
    assert with_tables("# No table\n\na | b\n") == "# No table\n\na | b\n"


@given(st.binary(max_size=600), st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_streams_are_marked_or_stay(text: bytes, table: bytes) -> None:
    data = ole_file({"WordDocument": text.ljust(4096, b"\1"), "0Table": table, "1Table": table[::-1]})
    assert len(with_marks(data)) == len(data)
