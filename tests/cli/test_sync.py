"""`ragway sync` and `ragway collections NAME`, with what they print."""

import json
from pathlib import Path

import pytest

from tests.support.gateway import ragway

SETTINGS = "embedder: {model: hash}\nsources:\n  handbook:\n    - folder: hb\n      exclude: [drafts]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with settings and two documents, one of them a draft."""
    (tmp_path / "ragway.yaml").write_text(SETTINGS)
    (tmp_path / "hb" / "drafts").mkdir(parents=True)
    (tmp_path / "hb" / "travel.md").write_text("# Travel\n\nTake the train.")
    (tmp_path / "hb" / "drafts" / "new.md").write_text("# New\n\nNot yet.")
    return tmp_path


def test_a_dry_run_names_the_documents_and_writes_nothing(folder: Path) -> None:
    done = ragway("sync", "--dry-run", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "handbook: 1 added, 0 changed, 0 moved, 0 removed, 0 unchanged; skipped: 1 excluded; "
        f"source {folder / 'hb'}\n  added    hb/travel.md\n"
    )
    assert ragway("collections", folder=folder).stdout == ""


def test_sync_makes_the_collection_equal_to_the_settings(folder: Path) -> None:
    done = ragway("sync", "handbook", folder=folder)
    assert (done.returncode, done.stdout.partition(";")[0]) == (
        0, "handbook: 1 added, 0 changed, 0 moved, 0 removed, 0 unchanged"
    )  # fmt: skip
    (folder / "hb" / "travel.md").rename(folder / "hb" / "trains.md")
    report = json.loads(ragway("sync", "--json", folder=folder).stdout)
    assert report["handbook"][0]["moved"] == [["hb/travel.md", "hb/trains.md"]]
    (folder / "ragway.yaml").write_text(SETTINGS.replace("folder: hb", "folder: other"))
    (folder / "other").mkdir()
    (folder / "other" / "a.md").write_text("# A\n\nText.")
    done = ragway("sync", folder=folder)
    assert "0 added, 0 changed, 0 moved, 1 removed, 0 unchanged" in done.stdout.splitlines()[1]
    assert done.stdout.endswith("hb (no longer declared)\n")


def test_what_cannot_be_read_is_named_and_kept_for_the_list_of_sources(folder: Path) -> None:
    (folder / "hb" / "bad.md").write_bytes(b"\0\0")
    done = ragway("sync", folder=folder)
    assert done.returncode == 1
    assert f"not read: {folder / 'hb' / 'bad.md'}: binary" in done.stderr
    listed = ragway("collections", "handbook", folder=folder).stdout.splitlines()
    assert listed[0].startswith("handbook  1 documents")
    assert listed[1].startswith(f"  {folder / 'hb'}  1 documents, 1 failed, synced 20")
    assert f"    {folder / 'hb' / 'bad.md'}: binary" in listed[2]
    (row,) = json.loads(ragway("collections", "handbook", "--json", folder=folder).stdout)
    assert (row["sources"][0]["documents"], row["sources"][0]["failed"]) == (1, 1)


def test_the_list_has_sources_that_are_not_synced_yet_or_no_longer_declared(folder: Path) -> None:
    ragway("sync", folder=folder)
    (folder / "ragway.yaml").write_text(SETTINGS.replace("folder: hb", "folder: other") + "  later: [{folder: hb}]\n")
    assert "no collection 'later': `ragway sync later` makes it" in ragway("collections", "later", folder=folder).stderr
    _, before, after = ragway("collections", "handbook", folder=folder).stdout.splitlines()
    assert before.startswith(f"  {folder / 'hb'}  1 documents")
    assert before.endswith(", no longer declared")
    assert after == f"  {folder / 'other'}  never synced"


def test_an_empty_or_missing_source_removes_nothing(folder: Path) -> None:
    ragway("sync", folder=folder)
    (folder / "hb" / "travel.md").unlink()
    done = ragway("sync", folder=folder)
    assert done.returncode == 1
    assert "hb is empty: its 1 documents stay; if it should be empty, `ragway sync --allow-empty`" in done.stderr
    (folder / "hb").rename(folder / "gone")
    done = ragway("sync", folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"not synced: {folder / 'hb'}: there is no {folder / 'hb'}\n"
    assert "1 documents" in ragway("collections", folder=folder).stdout


def test_only_declared_collections_are_synced(folder: Path) -> None:
    done = ragway("sync", "hndbook", folder=folder)
    assert done.returncode == 2
    assert "no sources are declared for 'hndbook'; there are: handbook" in done.stderr
    (folder / "ragway.yaml").write_text("")
    assert "no sources are declared" in ragway("sync", folder=folder).stderr
