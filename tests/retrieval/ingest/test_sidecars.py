"""Sidecars: what files beside documents say of them."""

import zipfile
from pathlib import Path

import pytest

from config.sections import IngestRule
from retrieval.errors import UnreadableRights
from retrieval.index.index import Index
from retrieval.ingest.containers import Packed, unpack
from retrieval.ingest.load import find, parse
from retrieval.ingest.rules import beside
from retrieval.records.documents import Document
from tests.retrieval.ingest.test_rules import counts, documents, opened
from tests.support.plans import silent

RULES = (IngestRule("*.md", {"team": "rule", "year": 2000, "place": "rule"}),)


def read(text: str, *sidecars: bytes, name: str = "a.md") -> Document:
    return parse(text.encode(), Path(name), name, 1.0, beside=beside(RULES, name, sidecars, rights=True))


def test_front_matter_comes_before_sidecar_rule_and_properties() -> None:
    document = read("---\nteam: own\n---\n\n# Crane\n", b"title: The crane\nteam: side\nyear: 2001\ngroups: [hr]\n")
    assert document.attributes == {"team": "own", "year": 2001, "place": "rule"}
    assert (document.title, document.groups) == ("The crane", ("hr",))
    mail = "From: Ada\nSubject: Crane\n\nText.\n"
    assert read(mail, b"author: Bo\n", name="a.eml").attributes == {"author": "Bo"}


@pytest.mark.parametrize(
    "sidecar", [b"groups: [hr", b"\xff\xfe", b"- a\n", b"gruops: [hr]\n", b"groups: []\n", b"a: &x 1\n", b"x" * 60_000]
)
def test_a_sidecar_that_cannot_be_read_closes_the_document(sidecar: bytes) -> None:
    with pytest.raises(UnreadableRights):
        read("# Crane\n", sidecar)


def test_different_groups_in_two_places_close_the_document() -> None:
    assert read("---\ngroups: [hr]\n---\nText.", b"groups: hr\n").groups == ("hr",)
    with pytest.raises(UnreadableRights, match="different groups"):
        read("---\ngroups: [hr]\n---\nText.", b"groups: [hr, legal]\n")


def test_members_of_archives_have_sidecars(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("notes/b.md.meta.yaml", "groups: [hr]\n")
        archive.writestr("notes/b.md", "Text.")
    unpacked = unpack(Packed("a.zip", (tmp_path / "a.zip").read_bytes(), 0, 2**20, 2**23))
    assert [(member.name, member.sidecars) for member in unpacked.members] == [("notes/b.md", (b"groups: [hr]\n",))]


def test_a_sidecar_of_an_archive_that_cannot_be_read_closes_its_document(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b.md.meta.yaml", "team: pier\n" * 100)
        archive.writestr("b.md", "Text.")
    unpacked = unpack(Packed("a.zip", (tmp_path / "a.zip").read_bytes(), 0, 100, 2**23))
    [member] = unpacked.members
    with pytest.raises(UnreadableRights):
        read("Text.", *member.sidecars)


def test_a_sidecar_is_not_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Text.", "utf-8")
    (tmp_path / "a.md.meta.yaml").write_text("team: x\n", "utf-8")
    found = find([tmp_path], max_bytes=1_000)
    assert [candidate.path.name for candidate in found.candidates] == ["a.md"]
    assert found.skipped == {"sidecar": 1}


async def readable(index: Index) -> set[str]:
    """What somebody in another group may read."""
    return {one.source for one in await index.library.documents("docs", after="", limit=1000, groups=("it",))}


async def test_a_changed_sidecar_reads_its_document_again(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("The ape.", "utf-8")
    (folder / "b.md").write_text("The bee.", "utf-8")
    with zipfile.ZipFile(folder / "c.zip", "w") as archive:
        archive.writestr("c.md", "The cat.")
    async with opened(data) as index:
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (3, 0, 0, 0)
        (folder / "a.md.meta.yaml").write_text("team: pier\n", "utf-8")
        (folder / "c.zip.meta.yaml").write_text("groups: [hr]\n", "utf-8")
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (0, 2, 1, 0)
        assert (await documents(index))["docs/a.md"] == {"team": "pier"}
        assert await readable(index) == {"docs/a.md", "docs/b.md"}
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (0, 0, 3, 0)
        (folder / "a.md.meta.yaml").write_text("groups: [hr\n", "utf-8")
        (folder / "c.zip.meta.yaml").unlink()
        (folder / "c.zip.meta.yaml").symlink_to(tmp_path / "nowhere")
        report = await index.writing.ingest([folder], "docs", silent)
        assert counts(report) == (0, 0, 1, 2)
        assert ["sidecar cannot be read" in failure.reason for failure in report.failures] == [True, True]
        assert set(await documents(index)) == {"docs/b.md"}
        for sidecar in ("a.md", "c.zip"):
            (folder / f"{sidecar}.meta.yaml").unlink()
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (2, 0, 1, 0)
        assert await readable(index) == {"docs/a.md", "docs/b.md", "docs/c.zip/c.md"}
