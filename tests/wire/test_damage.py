"""Damaged files, a full disk, a read-only folder: what is hit is out of service and says why, all else serves.

Collections made with one embedder share a shard. Here `docs` has the configured embedder, `beside` another.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from retrieval.errors import DiskFull, RetrievalError
from retrieval.index.data_folder import passing
from retrieval.index.index import Index
from retrieval.index.vector_spaces import choice_of
from retrieval.knowledge import SearchRequest
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import Turn
from retrieval.rpc.server import IndexServer
from retrieval.stores.edge import EdgeStore
from tests.support.copies import copied
from tests.support.faulty_gateway import gates
from tests.support.gateway import ragway, refused, serving
from tests.support.plans import plan_for, silent
from tests.wire.test_index_process import until

pytestmark = pytest.mark.models

ASKED = [Turn("user", "How do I use Zephyr from Kotlin?")]
ROOM = 2**20


@pytest.fixture(scope="module")
def kept(learned: Callable[[], Path]) -> Path:
    """A data folder with the corpus in both collections; tests take copies."""
    data = learned()
    asyncio.run(_learn_beside(data))
    return data


async def _learn_beside(data: Path) -> None:
    plan = plan_for(data)
    index = await Index.open(plan, serving=False)
    await index.writing.ingest([data.with_name("handbook")], "beside", silent)
    await index.writing.rebuild("beside", silent, embedder=replace(choice_of(plan), document_prompt="passage: "))
    await index.close()


@pytest.fixture
def data(kept: Path, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    return copied(kept, tmp_path / "data")


@pytest.fixture
def optimised(data: Path) -> Path:
    """The same, after the shard was optimised: its files are in the folder of a generation."""
    asyncio.run(_optimise(data))
    (generation,) = shard_of(data).glob("generation-*")
    assert generation.is_dir()
    return data


async def _optimise(data: Path) -> None:
    async with answering(data) as index:
        store = index._spaces.configured.store
        assert isinstance(store, EdgeStore)
        await store.optimise()


@contextlib.asynccontextmanager
async def answering(data: Path) -> AsyncIterator[Index]:
    """The index of a data folder behind its socket."""
    index = await Index.open(plan_for(data), serving=False)
    try:
        async with IndexServer(index).listening(data):
            yield index
    finally:
        await index.close()


def shard_of(data: Path, *, beside: bool = False) -> Path:
    (found,) = [path for path in (data / "index").iterdir() if ("passage" in path.name) == beside]
    return found


def one(shard: Path, pattern: str) -> Path:
    """The largest file of that name: that of the segment that has the points."""
    return max(shard.rglob(pattern), key=lambda file: file.stat().st_size)


def flipped_vectors(data: Path) -> None:
    flip(one(shard_of(data), "chunk_0.mmap"))


def flip(file: Path) -> None:
    """Flip half of the bytes that are not zero."""
    content = bytearray(file.read_bytes())
    written = [i for i, byte in enumerate(content) if byte]
    for i in Random(1).sample(written, len(written) // 2):
        content[i] ^= 0xFF
    file.write_bytes(content)


def flipped_segment(data: Path) -> None:
    file = one(shard_of(data), "segment.json")
    file.write_bytes(bytes(byte ^ 0xFF for byte in file.read_bytes()))


def truncated_so_that_the_engine_panics(data: Path) -> None:
    for file in shard_of(data).rglob("vectors/status.dat"):
        os.truncate(file, 0)


def without_vectors(data: Path) -> None:
    for file in shard_of(data).rglob("chunk_0.mmap"):
        file.unlink()


def without_segments(data: Path) -> None:
    (segments,) = shard_of(data).rglob("segments")
    shutil.rmtree(segments)


def swapped_with_the_other_embedders(data: Path) -> None:
    shutil.rmtree(shard_of(data))
    shutil.copytree(shard_of(data, beside=True), data / "index" / "hash-256")


def flipped_matrix(data: Path) -> None:
    flip(one(shard_of(data), "matrix.dat"))


def truncated_matrix(data: Path) -> None:
    os.truncate(one(shard_of(data), "matrix.dat"), 0)


def without_matrix(data: Path) -> None:
    one(shard_of(data), "matrix.dat").unlink()


DAMAGES = [
    flipped_vectors, flipped_segment, truncated_so_that_the_engine_panics, without_vectors,
    without_segments, swapped_with_the_other_embedders,
]  # fmt: skip


OPTIMISED = [flipped_matrix, flipped_segment, truncated_matrix, without_matrix, without_segments]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_shard_is_out_of_service_and_the_other_serves(
    data: Path, damage: Callable[[Path], None]
) -> None:
    damage(data)
    await _is_out_of_service_until_it_is_rebuilt(data)


@pytest.mark.parametrize("damage", OPTIMISED)
async def test_so_is_one_that_was_optimised(optimised: Path, damage: Callable[[Path], None]) -> None:
    damage(optimised)
    await _is_out_of_service_until_it_is_rebuilt(optimised)


async def _is_out_of_service_until_it_is_rebuilt(data: Path) -> None:
    async with answering(data) as index, gates(data, deadline_s=5) as both:
        await both.degraded("index cannot be searched")
        with pytest.raises(RetrievalError, match="ragway rebuild"):
            await index.search.retrieve(SearchRequest(ASKED, ["docs"], k=3))
        assert (await index.search.retrieve(SearchRequest(ASKED, ["beside"], k=3))).hits
        await index.writing.rebuild("docs", silent)
        assert (await both.chat())[0] == "augmented"
        assert (await index.search.retrieve(SearchRequest(ASKED, ["beside"], k=3))).hits


async def test_a_shard_of_another_data_folder_is_not_taken_for_this_one(
    data: Path, learned: Callable[[], Path]
) -> None:
    """It has as many points of a collection of that name, and of other documents."""
    shutil.rmtree(shard_of(data))
    shutil.copytree(shard_of(learned()), data / "index" / "hash-256")
    async with answering(data), gates(data, deadline_s=5) as both:
        await both.degraded("index cannot be searched")


def test_a_gateway_serves_over_a_damaged_shard_and_its_index_process_lives(data: Path, tmp_path: Path) -> None:
    truncated_so_that_the_engine_panics(data)
    with serving(data, tmp_path, "models: {echo: {lane: echo}}") as gateway:
        index = gateway.index_pid()
        reply = gateway.ask("How do I use Zephyr from Kotlin?")
        assert (reply.status_code, reply.headers["x-rag-reason"]) == (200, "index cannot be searched")
        beside = gateway.ask("How do I use Zephyr from Kotlin?", headers={"x-rag-collection": "beside"})
        assert beside.headers["x-rag-status"] == "augmented"
        assert gateway.index_pid() == index
        assert "ragway rebuild" in gateway.log.read_text("utf-8")


# The databases


def overwritten(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(b"\xff" * 4096)


@pytest.mark.parametrize("at", [0, 4096])
def test_a_damaged_catalog_is_refused_in_a_line_that_says_what_to_do(data: Path, tmp_path: Path, at: int) -> None:
    overwritten(data / "catalog.sqlite", at)
    line = refused(ragway("search", "Kotlin?", "--data", str(data), folder=tmp_path))
    assert str(data / "catalog.sqlite") in line
    assert "restore the file from a backup" in line


def emptied(data: Path) -> None:
    (data / "catalog.sqlite").write_bytes(b"")


def halved(data: Path) -> None:
    os.truncate(data / "catalog.sqlite", (data / "catalog.sqlite").stat().st_size // 2)


def lost(data: Path) -> None:
    for file in data.glob("catalog.sqlite*"):
        file.unlink()


def of_before_there_were_pairs(data: Path) -> None:
    emptied(data)
    (data / "pair.json").unlink()


@pytest.mark.parametrize("damage", [emptied, halved, lost, of_before_there_were_pairs])
def test_a_catalog_that_is_lost_beside_a_full_index_is_refused(
    data: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(data)
    shards = sorted((data / "index").glob("*/edge_config.json"))
    commands = [("collections",), ("serve", "--port", "0")] if damage is emptied else [("collections",)]
    for command in [*commands, commands[0]]:
        line = refused(ragway(*command, "--data", str(data), folder=tmp_path))
        assert f"{data / 'catalog.sqlite'} is " in line
        assert "from a backup" in line
    assert sorted((data / "index").glob("*/edge_config.json")) == shards
    told = ragway("doctor", "--data", str(data), folder=tmp_path)
    assert (told.returncode, "from a backup" in told.stdout) == (1, True)


def test_damaged_accounts_are_refused_in_a_line_that_says_what_to_do(data: Path, tmp_path: Path) -> None:
    made = ragway("keys", "create", "one", "--read", "docs", "--data", str(data), folder=tmp_path)
    assert made.returncode == 0, made.stderr
    overwritten(data / "accounts.db", 0)
    for command in (("keys", "list"), ("serve", "--port", "0")):
        line = refused(ragway(*command, "--data", str(data), folder=tmp_path))
        assert str(data / "accounts.db") in line
        assert "restore the file from a backup" in line


# The disk


@pytest.fixture
def small(kept: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the data folder on a disk of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900m", "tmpfs", disk], check=False).returncode:
        pytest.skip("no disk can be mounted here: that takes root")
    try:
        yield copied(kept, disk / "data")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill(data: Path, *, but_mb: int) -> Path:
    """Take what the disk has, but for so much; returns the file that does."""
    file = data.with_name("ballast")
    free = shutil.disk_usage(data).free - but_mb * ROOM
    with file.open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, free)
    return file


async def test_a_full_disk_refuses_what_is_written_and_serves_what_is_there(small: Path) -> None:
    page = DocumentInput("new", "new.md", b"# Kites\n\nThe red kite is flown by Odile.\n")
    async with answering(small) as index, gates(small, deadline_s=5) as both:
        assert (await both.chat())[0] == "augmented"
        for but_mb, says in ((64, "needs 128 MB"), (0, "free space|needs 128 MB")):
            ballast = fill(small, but_mb=but_mb)
            with pytest.raises(RetrievalError, match=says):
                await index.writing.put("docs", [page])
            assert (await both.chat())[0] == "augmented"
            ballast.unlink()
        (placed,) = await index.writing.put("docs", [page])
        assert placed.state == "created"
        assert (await both.chat())[0] == "augmented"
        (row,) = [row for row in await index.library.collections() if row.name == "docs"]
        assert row.documents == 6


async def test_an_index_on_a_full_disk_is_opened_when_there_is_room_again(small: Path) -> None:
    ballast = fill(small, but_mb=64)
    with pytest.raises(DiskFull, match="free some") as raised:
        await Index.open(plan_for(small), serving=False)
    assert passing(raised.value)
    ballast.unlink()
    async with answering(small), gates(small, deadline_s=5) as both:
        assert (await both.chat())[0] == "augmented"


def test_a_read_only_data_folder_is_refused_in_one_line(small: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small.parent], check=True)
    for command in (("serve", "--port", "0"), ("search", "Kotlin?")):
        line = refused(ragway(*command, "--data", str(small), folder=tmp_path))
        assert str(small) in line
        assert "Read-only" in line


def test_little_space_is_a_warning_of_a_gateway_that_is_ready(small: Path, tmp_path: Path) -> None:
    with serving(small, tmp_path, "models: {echo: {lane: echo}}") as gateway:  # on a disk of less than 1 GB
        until("told", lambda: "warnings" in gateway.get("/readyz").json())
        ready = gateway.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert f"the disk of the data folder {small} has less than 1 GB free" in ready.json()["warnings"][0]
        assert "less than 1 GB free" in gateway.log.read_text()
