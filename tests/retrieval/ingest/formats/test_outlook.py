"""Outlook's messages, read as mails are."""

import contextlib
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.errors import Unreadable
from retrieval.ingest.containers import Packed, Unpacked, unpack
from retrieval.ingest.formats.office import OLE
from retrieval.ingest.formats.outlook import without_compression
from retrieval.ingest.load import find, parse
from retrieval.records.documents import Document
from tests.support.ole_files import Tree, ole_file, outlook_folder

SENT = 133_591_968_000_000_000  # 2024-05-03 08:00 UTC
FIELDS = {
    0x0037: "Crane",
    0x0C1A: "Ada Løvlie",
    0x5D01: "ada@pier.example",
    0x0E04: "Harbour",
    0x1000: "The crane is broken.\r\n",
    0x1035: "<1@pier.example>",
}


def message(fields: dict[int, str | bytes] | None = None, attachments: dict[str, Tree] | None = None) -> bytes:
    return ole_file(outlook_folder(FIELDS | (fields or {}), {0x0039: SENT, 0x3FDE: 1252}) | (attachments or {}))


def attachment(name: str, data: bytes, number: int = 0) -> dict[str, Tree]:
    return {f"__attach_version1.0_#{number:08X}": outlook_folder({0x3707: name, 0x3701: data}, header_bytes=8)}


def read(data: bytes) -> Document:
    return parse(data, Path("/mail/a.msg"), "mail/a.msg", 1.0)


def opened(data: bytes) -> Unpacked:
    return unpack(Packed("a.msg", data, 12.5, 2**20, 2**23))


def test_a_message_has_its_headers_before_its_text() -> None:
    document = read(message())
    assert document.title == "Crane"
    assert document.text == (
        "From: Ada Løvlie <ada@pier.example>  \nTo: Harbour  \n"
        "Date: Fri, 03 May 2024 08:00:00 +0000\n\nThe crane is broken.\n"
    )
    assert document.attributes == {
        "author": "Ada Løvlie <ada@pier.example>",
        "created": "2024-05-03T08:00:00+00:00",
    }


def test_the_headers_of_a_mail_as_sent_come_first() -> None:
    sent = "From: =?utf-8?q?Ada_L=C3=B8vlie?= <a@b.example>\r\nTo: c@d.example,\r\n e@f.example\r\nReceived: by x\r\n"
    text = read(message({0x007D: sent})).text
    assert text.startswith("From: Ada Løvlie <a@b.example>  \nTo: c@d.example, e@f.example  \nDate: Fri, 03 May 2024")


def test_a_page_is_read_in_the_code_page_of_the_message() -> None:
    page = "<html><body><h1>Preise</h1><p>Eine Nacht für Gäste kostet 160 Kronen.</p></body></html>"
    assert "für Gäste" in read(message({0x1000: "", 0x1013: page.encode("cp1252")})).text
    assert "# Preise" in read(message({0x1000: "", 0x1013: page})).text


def test_attachments_are_members_and_so_are_messages_within() -> None:
    inner = outlook_folder(FIELDS | {0x0037: "Old news", 0x1000: "Forwarded."}, header_bytes=24)
    within = outlook_folder({0x3001: "Old news"}, header_bytes=8) | {"__substg1.0_3701000D": inner}
    large = b"large " * 2_000
    attached = {
        **attachment("plan.md", b"# Plan\n\nThe plan."),
        **attachment("../Maße.txt", large, 1),
        "__attach_version1.0_#00000002": within,
    }
    data = message(attachments=attached)
    unpacked = opened(data)
    assert [member.name for member in unpacked.members] == ["", "plan.md", "Maße.txt", "Old news.eml"]
    assert unpacked.members[1].data == b"# Plan\n\nThe plan."
    assert unpacked.members[2].data == large
    assert unpacked.members[1].modified_s == 1714723200
    old = parse(unpacked.members[3].data, Path("b.eml"), "b.eml", 1.0)
    assert (old.title, "Forwarded." in old.text, "Ada Løvlie" in old.text) == ("Old news", True, True)
    assert read(data).text.endswith("\n\nAttachments: plan.md, Maße.txt, Old news.eml\n")


def compressed(text: bytes) -> bytes:
    """Compressed RTF: each sign, or the longest text that stood before."""
    parts, at, items = bytearray(), 0, list[bytes]()
    while at < len(text):
        length = next(
            (n for n in range(17, 1, -1) if at + n <= len(text) and text[:at].find(text[at : at + n]) >= 0), 0
        )
        if length:
            back = text[:at].find(text[at : at + length]) + _BEGIN
            items.append(struct.pack(">H", back % 4096 << 4 | length - 2))
        else:
            items.append(text[at : at + 1])
        at += max(1, length)
    items.append(struct.pack(">H", (len(text) + _BEGIN) % 4096 << 4))
    for first in range(0, len(items), 8):
        eight = items[first : first + 8]
        parts.append(sum((len(item) == 2) << bit for bit, item in enumerate(eight)))
        parts += b"".join(eight)
    return struct.pack("<II4sI", len(parts) + 12, len(text), b"LZFu", 0) + parts


_BEGIN = 207  # signs before each text


@pytest.mark.parametrize(
    ("data", "text"),
    [  # the examples of MS-OXRTFCP
        (
            "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0",
            b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n",
        ),
        ("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0", b"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}"),
    ],
)
def test_compressed_rich_text_is_read(data: str, text: bytes) -> None:
    assert without_compression(bytes.fromhex(data)) == text


@given(st.lists(st.sampled_from([b"crane ", b"broken", b"a", b"\\par\r\n", b"\xfc"]), max_size=400).map(b"".join))
@settings(max_examples=50, deadline=None)
def test_what_is_compressed_comes_back(text: bytes) -> None:
    assert without_compression(compressed(text)) == text


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_bytes_as_rich_text_end(data: bytes) -> None:
    with contextlib.suppress(struct.error):
        assert len(without_compression(struct.pack("<II4sI", len(data), 2**31, b"LZFu", 0) + data)) <= 17 * len(data)


def test_a_text_in_rich_text_only_is_read() -> None:
    said = rb"The \b north\b0  crane f\'fcr cars is broken.\par Wait.\par"
    rich = rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\pard " + said + b"}"
    for data in (compressed(rich), struct.pack("<II4sI", len(rich) + 12, len(rich), b"MELA", 0) + rich):
        text = read(message({0x1000: "", 0x1009: data})).text
        assert text.endswith("\n\nThe **north** crane für cars is broken.\n\nWait.\n")
    for damaged in (b"LZFu", compressed(b"no rich text")):
        assert "rich text only, which is damaged" in read(message({0x1000: "", 0x1009: damaged})).text


def test_messages_within_each_other_end() -> None:
    folder = outlook_folder(FIELDS, header_bytes=24)
    for _ in range(40):
        within = outlook_folder({0x3001: "x"}, header_bytes=8) | {"__substg1.0_3701000D": folder}
        folder = outlook_folder(FIELDS, header_bytes=24) | {"__attach_version1.0_#00000000": within}
    data = message(attachments={"__attach_version1.0_#00000000": within})
    assert read(data).title == "Crane"
    assert opened(data).members


@pytest.mark.parametrize("data", [OLE + b"\xff" * 2_000, ole_file({"WordDocument": b"x"})])
def test_what_is_not_a_message_says_so(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not an Outlook message"):
        read(data)


def test_a_text_file_of_this_name_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "Pose.msg").write_text("float64 x\nfloat64 y\n", "utf-8")
    (tmp_path / "mail.msg").write_bytes(message())
    found = find([tmp_path], max_bytes=2**20)
    assert [candidate.path.name for candidate in found.candidates] == ["mail.msg"]
    assert found.skipped == {"MSG that is not of Outlook": 1}


def test_damaged_messages_are_read_or_refused() -> None:
    refused = 0
    good, chance = message(attachments=attachment("plan.md", b"# Plan")), random.Random(40)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(chance.choice((1, 8, 64))):
            data[chance.randrange(8, len(data))] = chance.choice((0, 255, chance.randrange(256)))
        try:
            read(bytes(data))
        except Unreadable:
            refused += 1
    assert 0 < refused < 300
