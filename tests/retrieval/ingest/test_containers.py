"""Archives, mailboxes and mails: each member a document, and no member more than its own."""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.containers import (
    Packed,
    Unpacked,
    container_of,
    file_path,
    member_key,
    member_source,
    unpack,
)
from retrieval.records.ingest import Failure
from tests.support.rows import all_rows

MEGABYTE = 2**20
NOTES = {"notes/a.md": b"# A\n\nThe pump.", "b.txt": b"The crane."}


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def tarred(files: Mapping[str, bytes], *others: tarfile.TarInfo) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for other in others:
            archive.addfile(other)
    return data.getvalue()


def opened(data: bytes, name: str = "box.zip", *, member: int = MEGABYTE, total: int = 8 * MEGABYTE) -> Unpacked:
    return unpack(Packed(name, data, 12.5, member, total))


def contents(unpacked: Unpacked) -> dict[str, bytes]:
    return {member.name: member.data for member in unpacked.members}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("box.zip", zipped(NOTES)),
        ("box.ZIP", zipped(NOTES, zipfile.ZIP_LZMA)),
        ("box.tar", tarred(NOTES)),
        ("box.tar.gz", gzip.compress(tarred(NOTES))),
        ("box.tgz", gzip.compress(tarred(NOTES))),
        ("box.tar.bz2", bz2.compress(tarred(NOTES))),
        ("box.tar.xz", lzma.compress(tarred(NOTES))),
        ("box.txz", lzma.compress(tarred(NOTES))),
    ],
)
def test_an_archive_holds_its_files(name: str, data: bytes) -> None:
    unpacked = opened(data, name)
    assert contents(unpacked) == NOTES
    assert (unpacked.failures, unpacked.skipped) == ((), {})


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_a_packed_file_is_one_member(ending: str, pack: type[bytes]) -> None:
    assert contents(opened(pack(b"The crane."), f"notes.md{ending}")) == {"notes.md": b"The crane."}


def test_containers_within_a_container_are_opened_up_to_a_depth() -> None:
    inner = zipped({"deep.md": b"deep"})
    two = zipped({"two.zip": inner, "c.md": b"c"})
    assert contents(opened(zipped({"sub/one.zip": two}))) == {
        "sub/one.zip!/two.zip!/deep.md": b"deep",
        "sub/one.zip!/c.md": b"c",
    }
    (failure,) = opened(zipped({"zero.zip": zipped({"one.zip": two})})).failures
    assert failure.path == "zero.zip!/one.zip!/two.zip"
    assert "containers within each other" in failure.reason


def test_names_lead_nowhere() -> None:
    names = ["../../etc/a.md", "/abs/b.md", "C:\\x\\..\\c.md", "x/./d.md"]
    unpacked = opened(zipped(dict.fromkeys(names, b"text")))
    assert list(contents(unpacked)) == ["etc/a.md", "abs/b.md", "C:/x/c.md", "x/d.md"]


def test_hidden_files_and_other_peoples_code_are_left_out_and_other_types_counted() -> None:
    files = {".git/a.md": b"a", "__MACOSX/b.md": b"b", "node_modules/c.md": b"c", "d.mp4": b"d", "e.json": b"{}"}
    unpacked = opened(zipped(files))
    assert unpacked.members == ()
    assert unpacked.skipped == {"unsupported type .mp4": 1, "JSON without text": 1}
    assert unpacked.unread == ("d.mp4", "e.json")


def test_links_and_devices_are_passed_over_with_the_reason() -> None:
    link, hard, device = tarfile.TarInfo("a.md"), tarfile.TarInfo("b.md"), tarfile.TarInfo("c.md")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "d.md"
    device.type = tarfile.CHRTYPE
    unpacked = opened(tarred({"d.md": b"d"}, link, hard, device), "box.tar")
    assert contents(unpacked) == {"d.md": b"d"}
    assert unpacked.skipped == {"a link in an archive": 2, "a device in an archive": 1}
    info = zipfile.ZipInfo("e.md")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert opened(data.getvalue()).skipped == {"a symbolic link in an archive": 1}


def test_an_encrypted_or_damaged_member_is_a_failure_of_its_own() -> None:
    data = bytearray(zipped({"a.md": b"first", "b.md": b"second" * 9}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag of encryption, of the first file
        data[data.index(mark) + at] |= 1
    assert "encrypted" in opened(bytes(data)).failures[0].reason
    assert contents(opened(bytes(data))) == {"b.md": b"second" * 9}
    data = bytearray(zipped(NOTES, zipfile.ZIP_STORED))
    data[data.index(b"The crane.")] ^= 1
    unpacked = opened(bytes(data))
    assert list(contents(unpacked)) == ["notes/a.md"]
    assert unpacked.failures[0].path == "b.txt"
    assert "damaged" in unpacked.failures[0].reason


def test_a_member_over_the_limit_costs_only_itself() -> None:
    unpacked = opened(zipped({"big.txt": b"x" * 1001, "small.txt": b"y" * 1000}), member=1000)
    assert list(contents(unpacked)) == ["small.txt"]
    assert unpacked.failures[0].path == "big.txt"
    assert "too large" in unpacked.failures[0].reason


def test_a_bomb_ends_the_reading_of_its_container() -> None:
    bomb = {f"{n}.txt": bytes(MEGABYTE) for n in range(64)}
    for data, name in ((zipped(bomb), "bomb.zip"), (gzip.compress(tarred(bomb)), "bomb.tgz")):
        (failure,) = opened(data, name).failures
        assert failure.path == ""
        assert "ingest.max_unpacked_mb" in failure.reason
    inside = opened(zipped({"good.md": b"good", "bomb.zip": zipped(bomb)}))
    assert "good.md" in contents(inside)


@all_rows("name", ["a.zip", "a.tar", "a.tgz", "a.txt.gz", "a.txt.bz2", "a.txt.xz", "a.tar.xz", "a.mbox"])
@all_rows("data", [b"no archive", b"PK\x03\x04", b"\x1f\x8b\x08\x00", b"BZh9", b"\xfd7zXZ\x00"])
def test_what_is_not_an_archive_says_so(name: str, data: bytes) -> None:
    with pytest.raises(Unreadable, match="not a "):
        opened(data, name)


def test_keys_and_sources_name_the_container_and_the_member() -> None:
    key = member_key("/srv/important!/box.zip", "in.tar!/a.md")
    assert key == "/srv/important!/box.zip!/in.tar!/a.md"
    assert container_of(key) == "/srv/important!/box.zip"
    assert container_of("/srv/important!/a.md") == "/srv/important!/a.md"
    assert file_path(key) == "/srv/important!/box.zip/in.tar/a.md"
    assert member_source("docs/box.zip", "in.tar!/a.md") == "docs/box.zip/in.tar/a.md"
    assert str(Path(key)) == key


def test_a_name_too_long_for_a_database_is_a_failure() -> None:
    (failure,) = opened(tarred({"x" * 2000 + ".md": b"x"}), "box.tar").failures
    assert failure == Failure("x" * 100 + "…", "its name is longer than 1,000 bytes; give it a shorter one")
