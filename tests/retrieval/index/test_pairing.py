"""A catalog and the index beside it: a pair, or none; and who may read the files."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from retrieval.catalog.catalog import Catalog
from retrieval.errors import RetrievalError
from retrieval.index.data_folder import hold
from retrieval.index.pairing import Pairing
from retrieval.ingest.context import FILE, Contexts

SHARD = "index/model-3/edge_config.json"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder that somebody else made, and that anybody may read."""
    before = os.umask(0o022)
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    hold(folder).close()
    yield folder
    os.umask(before)


def written(data: Path, *names: str) -> None:
    """Make collections, as an index does that is opened for it."""
    pairing = Pairing(data)
    catalog = Catalog.open(data / "catalog.sqlite")
    try:
        pairing.pair(catalog)
        (data / SHARD).parent.mkdir(exist_ok=True)
        (data / SHARD).touch()
        for name in names:
            catalog.create(name, embedder="tiny", probes=np.ones((4, 3), np.float32))
        pairing.note(catalog)
    finally:
        catalog.close()


def test_a_new_folder_and_the_same_one_again_are_pairs(data: Path) -> None:
    written(data)
    written(data, "one", "two")
    written(data)


def test_a_catalog_without_an_index_is_a_pair(data: Path) -> None:
    written(data, "one")
    shutil.rmtree(data / "index")
    hold(data).close()
    written(data, "two")


def test_one_that_was_interrupted_is_a_pair(data: Path) -> None:
    pairing, catalog = Pairing(data), Catalog.open(data / "catalog.sqlite")
    pairing.pair(catalog)
    catalog.create("one", embedder="tiny", probes=np.ones((4, 3), np.float32))
    catalog.close()
    written(data)


@pytest.mark.parametrize("half", [b"", b"[1", b"{}", b"[1, null]", b"\xff"])
def test_half_a_note_is_none(data: Path, half: bytes) -> None:
    written(data, "one")
    (data / "pair.json").write_bytes(half)
    written(data)


def test_a_catalog_that_is_empty_gone_or_another_one_is_refused(data: Path, tmp_path: Path) -> None:
    written(data, "one")
    kept = shutil.copytree(data, tmp_path / "kept")
    (data / "catalog.sqlite").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(RetrievalError, match="is empty, and the index .* move both away"):
            written(data)
    (data / "catalog.sqlite").unlink()
    with pytest.raises(RetrievalError, match="is gone"):
        written(data)
    Catalog.open(data / "catalog.sqlite").close()
    with pytest.raises(RetrievalError, match="is not the one that was here"):
        written(data)
    shutil.copy(kept / "catalog.sqlite", data)
    written(data)


def test_an_index_of_before_there_were_notes_is_not_left_without_its_catalog(data: Path) -> None:
    written(data, "one")
    (data / "pair.json").unlink()
    written(data)
    (data / "pair.json").unlink()
    (data / "catalog.sqlite").unlink()
    with pytest.raises(RetrievalError, match="is gone"):
        written(data)


def test_an_older_catalog_is_refused_and_taken_without_the_index(data: Path, tmp_path: Path) -> None:
    written(data, "one")
    made = sqlite3.connect(data / "catalog.sqlite"), sqlite3.connect(tmp_path / "backup.sqlite")
    with closing(made[0]) as sql, closing(made[1]) as backup:
        sql.backup(backup)
    written(data, "two")
    shutil.copy(tmp_path / "backup.sqlite", data / "catalog.sqlite")
    with pytest.raises(RetrievalError, match="is older than the index .*ragway rebuild"):
        written(data)
    shutil.rmtree(data / "index")
    hold(data).close()
    written(data)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_can_read_what_holds_words_of_documents(data: Path) -> None:
    for name in ("catalog.sqlite", FILE):
        (data / name).touch(0o666)
    (data / "bench").mkdir(0o755)
    (data / "index").chmod(0o755)
    hold(data).close()
    catalog, contexts = Catalog.open(data / "catalog.sqlite"), Contexts(data / FILE)
    catalog.create("one", embedder="tiny", probes=np.ones((4, 3), np.float32))
    contexts.put("key", "text")
    files = [path for path in data.iterdir() if path.is_file() and path.name not in ("lock", "pair.json")]
    assert {path.name for path in files} == {
        f"{name}{ending}" for name in ("catalog.sqlite", FILE) for ending in ("", "-wal", "-shm")
    }
    assert {mode(path) for path in files} == {0o600}
    assert {mode(data / "index"), mode(data / "bench")} == {0o700}
    assert mode(data) == 0o755
    catalog.close()


def test_what_was_open_to_all_is_closed_with_all_that_sqlite_put_beside_it(data: Path) -> None:
    catalog = Catalog.open(data / "catalog.sqlite")
    catalog.create("one", embedder="tiny", probes=np.ones((4, 3), np.float32))
    for path in data.glob("catalog.sqlite*"):
        path.chmod(0o644)
    other = Catalog.open(data / "catalog.sqlite")
    assert {mode(path) for path in data.glob("catalog.sqlite*")} == {0o600}
    other.close()
    catalog.close()
