"""Archives and mailboxes in a folder: members come, change and go with their container."""

import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.index.index import Index
from retrieval.records.ingest import IngestReport
from tests.support.plans import plan_for, silent


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Index]:
    index = await Index.open(plan_for(data), serving=False)
    try:
        yield index
    finally:
        await index.close()


def pack(path: Path, files: Mapping[str, str | bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)


async def texts(index: Index) -> dict[str, str]:
    """source -> text of all documents."""
    found = await index.library.documents("docs", after="", limit=1000, groups=None)
    return {one.source: (await index.library.document(one.id, None)).text for one in found}


def counts(report: IngestReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.unchanged, report.removed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


async def test_members_follow_their_archive(data: Path, folder: Path) -> None:
    (folder / "c.md").write_text("The cat.")
    pack(folder / "box.zip", {"notes/a.md": "The ape.", "b.md": "The bee."})
    async with opened(data) as index:
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (3, 0, 0, 0)
        assert set(await texts(index)) == {"docs/c.md", "docs/box.zip/notes/a.md", "docs/box.zip/b.md"}
        pack(folder / "box.zip", {"notes/a.md": "The ape.", "b.md": "The bear.", "d.md": "The dog."})
        report = await index.writing.ingest([folder], "docs", silent)
        assert counts(report) == (1, 1, 2, 0)
        assert report.chunks == 2
        pack(folder / "box.zip", {"d.md": "The dog."})
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (0, 0, 2, 2)
        (folder / "box.zip").unlink()
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (0, 0, 1, 1)
        assert set(await texts(index)) == {"docs/c.md"}


async def test_an_unchanged_archive_is_not_opened(data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(folder / "box.zip", {"a.md": "The ape.", "b.md": "The bee.", "c.mp4": "film"})
    async with opened(data) as index:
        report = await index.writing.ingest([folder], "docs", silent)
        assert (report.skipped, report.unread) == ({"unsupported type .mp4": 1}, ("docs/box.zip/c.mp4",))
        preparation = index.writing._spaces.configured.preparation
        monkeypatch.setattr(preparation, "unpack", None)
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (0, 0, 2, 0)


async def test_a_failed_member_is_named_each_time_and_keeps_its_old_text(data: Path, folder: Path) -> None:
    pack(folder / "box.zip", {"a.md": "The ape.", "b.md": "The bee."})
    async with opened(data) as index:
        await index.writing.ingest([folder], "docs", silent)
        pack(folder / "box.zip", {"a.md": b"\0\0\0", "b.md": "The bee."})
        for _ in range(2):
            report = await index.writing.ingest([folder], "docs", silent)
            assert counts(report) == (0, 0, 1, 0)
            assert [failure.path for failure in report.failures] == [f"{folder}/box.zip!/a.md"]
        assert (await texts(index))["docs/box.zip/a.md"] == "The ape."
        (folder / "box.zip").write_bytes(b"PK broken")
        report = await index.writing.ingest([folder], "docs", silent)
        assert counts(report) == (0, 0, 0, 0)
        assert len(await texts(index)) == 2


async def test_a_member_whose_rights_became_unreadable_is_taken_away(data: Path, folder: Path) -> None:
    pack(folder / "box.zip", {"a.md": "---\ngroups: [hr]\n---\nThe pay."})
    async with opened(data) as index:
        await index.writing.ingest([folder], "docs", silent)
        pack(folder / "box.zip", {"a.md": "---\ngroups: {}\n---\nThe pay."})
        assert (await index.writing.ingest([folder], "docs", silent)).removed == 1
        assert await texts(index) == {}


async def test_excluded_members_are_left_out_and_come_back(data: Path, folder: Path) -> None:
    pack(folder / "box.zip", {"drafts/a.md": "The ape.", "b.md": "The bee."})
    async with opened(data) as index:
        await index.writing.ingest([folder], "docs", silent)
        assert counts(await index.writing.ingest([folder], "docs", silent, ["drafts"])) == (0, 0, 1, 1)
        assert set(await texts(index)) == {"docs/box.zip/b.md"}
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (1, 0, 1, 0)


async def test_a_deleted_member_comes_back(data: Path, folder: Path) -> None:
    pack(folder / "box.zip", {"a.md": "The ape.", "b.md": "The bee."})
    async with opened(data) as index:
        await index.writing.ingest([folder], "docs", silent)
        (first, _) = await index.library.documents("docs", after="", limit=9, groups=None)
        await index.writing.delete_document(first.id, None)
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (1, 0, 1, 0)


class _Killed(Exception):
    pass


def _killed_after(documents: int) -> Callable[[int, int, int, str], None]:
    def progress(done: int, _total: int, _chunks: int, _source: str) -> None:
        if done >= documents:
            raise _Killed

    return progress


NAMES = st.sampled_from(["a.md", "b.md", "sub/c.md", "sub/d.txt", "in.zip"])
BOXES = st.dictionaries(NAMES, st.sampled_from(["one ape", "two bees", "three cats"]), max_size=5)
STATES = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(["x.zip", "y.zip"]), BOXES, max_size=2), st.integers(1, 9)),
    min_size=2,
    max_size=4,
)


@settings(max_examples=6)
@given(states=STATES)
async def test_after_any_edits_and_interruptions_all_is_as_from_scratch(
    tmp_path_factory: pytest.TempPathFactory, states: list[tuple[dict[str, dict[str, str]], int]]
) -> None:
    tmp_path = tmp_path_factory.mktemp("states")
    folder = tmp_path / "docs"
    folder.mkdir()
    async with opened(tmp_path / "data") as index:
        for boxes, most in states:
            for old in folder.iterdir():
                old.unlink()
            expected = {}
            for box, files in boxes.items():
                inner = tmp_path / "in.zip"
                pack(inner, {"e.md": files.get("in.zip", "")})
                pack(folder / box, {**files, **({"in.zip": inner.read_bytes()} if "in.zip" in files else {})})
                for name, text in files.items():
                    expected[f"docs/{box}/{name}" + "/e.md" * (name == "in.zip")] = text
            try:
                await index.writing.ingest([folder], "docs", _killed_after(most))
            except _Killed:
                await index.writing.ingest([folder], "docs", silent)
            else:
                await index.writing.ingest([folder], "docs", silent)
            assert (await texts(index) if expected else expected) == expected
