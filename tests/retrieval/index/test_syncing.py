"""A collection made equal to its declared sources: by folders on disk, and an embedder of words."""

import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from retrieval.errors import Invalid
from retrieval.index.index import Index
from retrieval.records.sync import SourceReport, SourceSpec
from tests.support.plans import plan_for, silent

LONG_AGO_S = 1_000_000_000.0


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Index]:
    index = await Index.open(plan_for(data), serving=False)
    try:
        yield index
    finally:
        await index.close()


def write(folder: Path, **texts: str) -> Path:
    """Write Markdown files, with a time that lies back: younger files are opened again."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
        os.utime(folder / f"{name}.md", (LONG_AGO_S, LONG_AGO_S))
    return folder


def source(folder: Path, *exclude: str, others: tuple[Path, ...] = ()) -> SourceSpec:
    return SourceSpec(folder.name, "folder", (str(folder),), exclude, tuple(map(str, others)))


async def synced(index: Index, spec: SourceSpec, *, dry_run: bool = False, allow_empty: bool = False) -> SourceReport:
    return await index.writing.sync("docs", spec, silent, dry_run=dry_run, allow_empty=allow_empty)


async def stored(index: Index) -> dict[str, str]:
    """Source -> text of every document."""
    rows = await index.library.documents("docs", after="", limit=1000, groups=None)
    return {row.source: (await index.library.document(row.id, None)).text for row in rows}


async def test_a_report_names_what_was_added_changed_moved_and_removed(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.", b="# B\n\nTwo.", c="# C\n\nThree.", d="# D\n\nFour.")
    async with opened(data) as index:
        first = await synced(index, source(folder))
        assert sorted(first.added) == ["hb/a.md", "hb/b.md", "hb/c.md", "hb/d.md"]
        write(folder, a="# A\n\nAnother one.", e="# E\n\nFive.")
        (folder / "b.md").rename(folder / "moved.md")
        (folder / "c.md").unlink()
        planned = await synced(index, source(folder), dry_run=True)
        assert sorted(await stored(index)) == sorted(first.added)
        done = await synced(index, source(folder))
        assert sorted(await stored(index)) == ["hb/a.md", "hb/d.md", "hb/e.md", "hb/moved.md"]
    for report in (planned, done):
        assert (report.added, report.changed, report.removed) == (["hb/e.md"], ["hb/a.md"], ["hb/c.md"])
        assert (report.moved, report.unchanged, report.failures) == ([("hb/b.md", "hb/moved.md")], 1, ())


async def test_an_unchanged_file_is_not_opened_again(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.", b="# B\n\nTwo.")
    async with opened(data) as index:
        await synced(index, source(folder))
        # Same size and time: only a reader of the file can tell.
        write(folder, a="# A\n\nNew.")
        report = await synced(index, source(folder))
        assert (report.changed, report.unchanged) == ([], 2)
        os.utime(folder / "a.md", (LONG_AGO_S + 1, LONG_AGO_S + 1))
        assert (await synced(index, source(folder))).changed == ["hb/a.md"]


async def test_a_file_that_was_just_written_is_opened_again(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.")
    soon_s = time.time() + 3600  # as on a file system whose clock is ahead: never settled, however slow this machine is
    os.utime(folder / "a.md", (soon_s, soon_s))
    async with opened(data) as index:
        await synced(index, source(folder))
        before = (folder / "a.md").stat()
        (folder / "a.md").write_text("# A\n\nNew.", "utf-8")
        os.utime(folder / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (await synced(index, source(folder))).changed == ["hb/a.md"]


async def test_a_changed_recipe_opens_every_file(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.")
    async with opened(data) as index:
        await synced(index, source(folder))
    index = await Index.open(plan_for(data, {"ingest.chunk_tokens": 150}), serving=False)
    assert (await synced(index, source(folder))).changed == ["hb/a.md"]
    await index.close()


async def test_a_suddenly_empty_source_removes_nothing_unless_told_to(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.", b="# B\n\nTwo.")
    async with opened(data) as index:
        await synced(index, source(folder))
        for file in folder.iterdir():
            file.unlink()
        for dry_run in (True, False):
            report = await synced(index, source(folder), dry_run=dry_run)
            assert (report.outcome, report.kept, report.removed) == ("empty", 2, [])
        assert len(await stored(index)) == 2
        report = await synced(index, source(folder), allow_empty=True)
        assert (report.outcome, sorted(report.removed)) == ("synced", ["hb/a.md", "hb/b.md"])
        assert await stored(index) == {}


async def test_a_source_that_cannot_be_reached_removes_nothing(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.")
    async with opened(data) as index:
        await synced(index, source(folder))
        shutil.rmtree(folder)
        report = await synced(index, source(folder), allow_empty=True)
        assert (report.outcome, [failure.reason for failure in report.failures]) == (
            "unreachable",
            [f"there is no {folder}"],
        )
        assert len(await stored(index)) == 1


async def test_a_source_removes_no_document_of_another(data: Path, tmp_path: Path) -> None:
    """Not even of a folder within its own that it leaves out."""
    outer, inner = write(tmp_path / "hb", a="# A\n\nOne."), write(tmp_path / "hb" / "team", b="# B\n\nTwo.")
    async with opened(data) as index:
        await synced(index, source(inner))
        report = await synced(index, source(outer, "team", others=(inner,)))
        assert (report.added, report.removed) == (["hb/a.md"], [])
        assert sorted(await stored(index)) == ["hb/a.md", "team/b.md"]


async def test_documents_of_a_source_that_is_no_longer_declared_are_removed(data: Path, tmp_path: Path) -> None:
    one, two, own = (write(tmp_path / name, a=f"# A\n\nOf {name}.") for name in ("one", "two", "own"))
    async with opened(data) as index:
        for spec in (source(one), source(two)):
            await synced(index, spec)
        await index.writing.ingest([own], "docs", silent)
        for dry_run in (True, False):
            reports = await index.writing.remove_undeclared("docs", [source(one)], dry_run=dry_run)
            assert [(report.source, report.outcome, report.removed) for report in reports] == [
                ("two", "undeclared", ["two/a.md"])
            ]
        assert sorted(await stored(index)) == ["one/a.md", "own/a.md"]
        assert await index.writing.remove_undeclared("docs", [source(one)]) == []


async def test_a_sync_that_is_not_due_opens_nothing(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.")
    async with opened(data) as index:
        first = await index.writing.sync("docs", source(folder), silent, due_after_s=3600)
        again = await index.writing.sync("docs", source(folder), silent, due_after_s=3600)
        soon = await index.writing.sync("docs", source(folder), silent, due_after_s=0)
    assert [report.outcome for report in (first, again, soon)] == ["synced", "not due", "synced"]


async def test_failures_and_the_time_of_the_last_sync_are_remembered(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "hb", a="# A\n\nOne.")
    (folder / "bad.md").write_bytes(b"\0\0")
    async with opened(data) as index:
        await synced(index, source(folder))
        (state,) = index.writing.source_states.of("docs")
        assert (state.documents, state.failed, [Path(one.path).name for one in state.failures]) == (1, 1, ["bad.md"])
        shutil.rmtree(folder)
        await synced(index, source(folder))
        (later,) = index.writing.source_states.of("docs")
    assert later.synced_s == state.synced_s > 0
    assert later.tried_s > state.tried_s
    assert [failure.reason for failure in later.failures] == [f"there is no {folder}"]


async def test_no_reserved_collection_is_synced(data: Path, tmp_path: Path) -> None:
    async with opened(data) as index:
        with pytest.raises(Invalid, match="own collection"):
            await index.writing.sync(".actions", source(tmp_path), silent)
