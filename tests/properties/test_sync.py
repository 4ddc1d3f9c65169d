"""A collection that was synced again and again equals one that is synced once, from scratch."""

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from retrieval.index.index import Index
from retrieval.records.sync import SourceSpec
from tests.support.gateway import PATIENCE_S, environment
from tests.support.plans import plan_for, silent

EDITS, SYNCS = 200, 5
WORDS = "pump valve gasket rotor bearing flange seal shaft nozzle filter".split()


def edit(folder: Path, chosen: random.Random) -> None:
    """Add, change, move or remove one file; its time may stay, as with a copy that keeps times."""
    files = sorted(folder.rglob("*.md"))
    action = chosen.choice(["add", "add", "change", "change", "copy", "move", "remove"]) if len(files) > 3 else "add"
    place = folder / chosen.choice(["", "a", "a/b", "c"]) / f"{chosen.randrange(60)}.md"
    if action in ("add", "change"):
        file = place if action == "add" else chosen.choice(files)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = " ".join(chosen.choices(WORDS, k=chosen.randrange(1, 12)))
        file.write_text(f"# {chosen.choice(WORDS)}\n\n{text}")
        if chosen.random() < 0.5:
            old_s = time.time() - chosen.randrange(10, 10_000)
            os.utime(file, (old_s, old_s))
    elif action in ("copy", "move") and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copy2 if action == "copy" else shutil.move)(chosen.choice(files), place)
    elif action == "remove":
        chosen.choice(files).unlink()


async def content(index: Index) -> dict[str, tuple[str, str, int]]:
    """Source -> title, text and number of chunks; and how many say the same as another."""
    rows = await index.library.documents("docs", after="", limit=10_000, groups=None)
    faults = await index.library.audit("docs")
    assert (faults.searchable, faults.orphaned) == (True, ())
    found = {row.source: (row.title, (await index.library.document(row.id, None)).text, row.chunks) for row in rows}
    return found | {"": ("", "", index._catalog.repeated("docs"))}


async def from_scratch(data: Path, spec: SourceSpec) -> dict[str, tuple[str, str, int]]:
    index = await Index.open(plan_for(data), serving=False)
    try:
        await index.writing.sync("docs", spec, silent)
        return await content(index)
    finally:
        await index.close()


@pytest.mark.parametrize("seed", [1, 2])
async def test_incremental_equals_from_scratch_also_if_interrupted(data: Path, tmp_path: Path, seed: int) -> None:
    chosen, folder = random.Random(seed), tmp_path / "hb"
    folder.mkdir()
    spec = SourceSpec("hb", "folder", (str(folder),))
    index = await Index.open(plan_for(data), serving=False)
    try:
        for _ in range(SYNCS):
            for _ in range(EDITS // SYNCS):
                edit(folder, chosen)
            await _interrupted(index, spec, after=chosen.randrange(60))
        await index.writing.sync("docs", spec, silent)
        synced = await content(index)
    finally:
        await index.close()
    assert len(synced) > 20
    assert synced == await from_scratch(tmp_path / "other", spec)


async def _interrupted(index: Index, spec: SourceSpec, *, after: int) -> None:
    """Sync, and cancel the sync after so many steps of its progress."""
    steps = 0

    def step(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == after:
            work.cancel()

    work = asyncio.ensure_future(index.writing.sync("docs", spec, step))
    with contextlib.suppress(asyncio.CancelledError):
        await work


def test_a_sync_that_was_killed_goes_on_with_the_next(tmp_path: Path) -> None:
    folder, chosen = tmp_path / "hb", random.Random(3)
    folder.mkdir()
    for number in range(400):
        (folder / f"{number}.md").write_text(f"# {number}\n\n{' '.join(chosen.choices(WORDS, k=40))}")
    (tmp_path / "ragway.yaml").write_text(f"sources: {{docs: [{{folder: {folder}}}]}}")
    spec = SourceSpec(str(folder), "folder", (str(folder),))
    command = [sys.executable, "-m", "cli", "sync"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment({}), stderr=subprocess.DEVNULL) as process:
        until_s = time.monotonic() + PATIENCE_S
        while _documents(tmp_path / "data" / "catalog.sqlite") == 0:
            assert process.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.01)  # another process writes the catalog
        process.kill()
    written = _documents(tmp_path / "data" / "catalog.sqlite")
    assert 0 < written < 400
    (folder / "0.md").unlink()
    killed, scratch = asyncio.run(_both(tmp_path, spec))
    assert killed == scratch
    assert len(killed) == 399 + 1


async def _both(tmp_path: Path, spec: SourceSpec) -> Sequence[dict[str, tuple[str, str, int]]]:
    return await from_scratch(tmp_path / "data", spec), await from_scratch(tmp_path / "other", spec)


def _documents(catalog: Path) -> int:
    if not catalog.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)) as sql:
        try:
            return int(sql.execute("SELECT count(*) FROM revisions WHERE state = 'current'").fetchone()[0])
        except sqlite3.OperationalError:  # not made yet
            return 0
