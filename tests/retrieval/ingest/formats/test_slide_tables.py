"""Tables of presentations before 2007."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.ingest.formats.slide_tables import tables, with_tables
from tests.support.ole_files import ole_file

_TABLE = struct.pack("<HI", 0x039F, 1)


def record(kind: int, data: bytes, *, count: int = 0, holds: bool = True) -> bytes:
    return struct.pack("<HHI", count << 4 | (15 if holds else 3), kind, len(data)) + data


def box(left: int, top: int, text: str) -> bytes:
    said = record(0x0FA0, text.encode("utf-16-le"), holds=False) if "ü" in text else b""
    said = said or record(0x0FA8, text.encode("latin-1"), holds=False)
    anchor = record(0xF00F, struct.pack("<4i", left, top, left + 9, top + 9), holds=False)
    return record(0xF004, anchor + record(0xF00D, said))


def presentation(*shapes: bytes, properties: bytes = _TABLE) -> bytes:
    first = record(0xF004, record(0xF122, properties, count=1, holds=False))
    group = record(0xF003, first + b"".join(shapes))
    stream = record(0x03EE, record(0x040C, record(0xF002, record(0xF003, record(0xF004, b"") + group))))
    return ole_file({"PowerPoint Document": stream.ljust(4096, b"\0")})


def test_cells_stand_where_their_boxes_do() -> None:
    shapes = box(0, 0, "pump"), box(10, 0, "euro"), box(10, 10, "120"), box(0, 10, "für alle\rnew"), record(0xF004, b"")
    assert tables(presentation(*shapes)) == [[["pump", "euro"], ["für alle\nnew", "120"]]]
    assert tables(presentation(*shapes, properties=struct.pack("<HI", 0x0080, 1))) == []
    assert tables(presentation(*(box(n, n, "apart") for n in range(100)))) == []
    assert tables(presentation(box(0, 0, "one row"), box(10, 0, "is none"))) == []


def test_cells_become_a_table_wherever_xberg_puts_them() -> None:
    table = [["pump_a", "euro"], ["red", ""], ["one\ntwo", "1|2"]]
    shown = "\n\n| pump_a | euro |\n| --- | --- |\n| red |  |\n| one two | 1\\|2 |\n\n"
    for said in ("pump\\_a\n\neuro\n\nred\n\none\n\ntwo\n\n1|2", "## pump_a\n\neuro red one two 1|2"):
        slides = ["pump_a", f"A text.\n\n{said}\n\nred\n"]
        assert with_tables(slides, [table]) == ["pump_a", f"A text.{shown}red\n"]
    assert with_tables(["pump_a euro redone two 1|2x"], [table]) == ["pump_a euro redone two 1|2x"]


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_any_stream_ends(data: bytes) -> None:
    nested = record(0xF003, record(0xF004, record(0xF122, _TABLE + data, count=200, holds=False)) + data)
    for stream in (data, nested, record(0x03EE, nested)):
        assert all(map(len, tables(ole_file({"PowerPoint Document": stream.ljust(4096, b"\xff")}))))
