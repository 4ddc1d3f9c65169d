"""Files and folders that are left out because somebody says so."""

import os
from pathlib import Path

import pytest

from retrieval.ingest.exclude import excluded_below
from retrieval.ingest.load import find

FILES = ("a.md", "data.csv", "api/old/a.md", "api/old/deep/b.md", "api/new.md", "drafts/c.md", "Drafts.md")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a name that patterns may begin with, below one that they must not see."""
    for name in FILES:
        file = tmp_path / "data" / "book" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("Words.", "utf-8")
    return Path(os.path.realpath(tmp_path / "data" / "book"))


CASES = [
    ([], ""),
    (["*.csv"], "data.csv"),
    (["drafts"], "drafts/c.md"),
    (["drafts/"], "drafts/c.md"),
    (["a.md"], "a.md api/old/a.md"),
    (["book/a.md"], "a.md"),
    (["old/a.md"], "api/old/a.md"),
    (["api/*.md"], "api/new.md"),
    (["api/**"], "api/new.md api/old/a.md api/old/deep/b.md"),
    (["api/**/b.md", "./data.*"], "api/old/deep/b.md data.csv"),
    (["data/**", "book", "A.MD"], ""),
    (["?.md", "[D]rafts.md"], "Drafts.md a.md api/old/a.md api/old/deep/b.md drafts/c.md"),
    (["*"], " ".join(FILES)),
]


@pytest.mark.parametrize(("globs", "gone"), CASES)
def test_what_a_pattern_fits_is_left_out_with_all_below_it(folder: Path, globs: list[str], gone: str) -> None:
    found = find([folder], max_bytes=1000, exclude=globs)
    left = {str(candidate.path.relative_to(folder)) for candidate in found.candidates}
    assert left == set(FILES) - set(gone.split())
    assert ("excluded" in found.skipped) == bool(gone)
    assert not found.failures
    known = {name for name in FILES if excluded_below([folder], folder / name, globs)}
    assert known == set(gone.split()), "what was ingested before goes by the same rule"


def test_a_pattern_from_the_root_of_the_disk_on_fits_the_whole_path(folder: Path) -> None:
    found = find([folder], max_bytes=1000, exclude=[f"{folder}/api", "/drafts"])
    assert found.skipped == {"excluded": 1}
    assert len(found.candidates) == len(FILES) - 3


def test_files_that_were_named_are_left_out_too(folder: Path) -> None:
    paths = [folder / "a.md", folder / "data.csv", folder / "api"]
    for glob in ("a.md", "book/a.md"):
        found = find(paths, max_bytes=1000, exclude=[glob])
        assert folder / "a.md" not in [candidate.path for candidate in found.candidates]
        assert not found.failures
    assert excluded_below(paths, folder / "a.md", ["book/a.md"])
    assert not excluded_below([folder / "api"], folder / "a.md", ["a.md"]), "it is not below what is read"
