"""Outlook's messages, read as mails are."""

import random
from pathlib import Path

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.containers import Packed, Unpacked, unpack
from retrieval.ingest.formats.office import OLE
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


def test_a_text_in_rich_text_only_says_so() -> None:
    assert "rich text" in read(message({0x1000: "", 0x1009: b"LZFu"})).text


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
