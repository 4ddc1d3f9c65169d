"""The embedded store's own promises: what it survives, and what it says when it cannot open."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.errors import DataInUse, RetrievalError
from retrieval.stores.edge import EdgeStore
from tests.contracts.points import DIMENSION, id_of, points_of, vector_of

# Opens the store of argv[1], runs the lines given, says "ready" and holds the store open until it is killed.
CHILD = """
import asyncio, sys
from pathlib import Path
from retrieval.stores.edge import EdgeStore
from tests.contracts.points import DIMENSION, id_of, points_of
async def main():
    store = EdgeStore.open(Path(sys.argv[1]), dimension=DIMENSION)
{work}
    print("ready", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


def child(path: Path, work: str = "") -> "subprocess.Popen[str]":
    """A process that has done `work` with the store and still has it open."""
    code = CHILD.format(work="\n".join("    " + line for line in work.splitlines()))
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    with process:  # closes the pipes and waits
        process.kill()


async def test_what_was_upserted_survives_kill_9(tmp_path: Path) -> None:
    kill(child(tmp_path, 'await store.upsert("a@1", points_of([f"word{i}" for i in range(700)]))'))
    store = EdgeStore.open(tmp_path, dimension=DIMENSION)
    assert await store.count("a@1") == 700
    found = await store.search(["a@1"], vector_of(700), [("word699", 1.0)], k=1)
    await store.close()
    assert found["dense"][0].id == found["bm25"][0].id == id_of(700)


async def test_what_was_deleted_and_replaced_stays_so_after_kill_9(tmp_path: Path) -> None:
    work = """await store.upsert("a@1", points_of(["pool", "socket", "driver"]))
await store.upsert("b@1", points_of(["pool"], first=50))
await store.delete("a@1", [id_of(2)])
await store.upsert("a@1", points_of(["kotlin"]))
await store.drop("b@1")"""
    kill(child(tmp_path, work))
    store = EdgeStore.open(tmp_path, dimension=DIMENSION)
    kept = {found: passage.text for found, passage in await store.passages("a@1")}
    assert await store.count("b@1") == 0
    await store.close()
    assert kept == {id_of(1): "kotlin", id_of(3): "driver"}


async def test_a_killed_first_start_leaves_a_usable_folder(tmp_path: Path) -> None:
    kill(child(tmp_path / "new" / "shard"))
    store = EdgeStore.open(tmp_path / "new" / "shard", dimension=DIMENSION)
    await store.upsert("a@1", points_of(["pool"]))
    assert await store.count("a@1") == 1
    await store.close()


def test_a_store_open_in_another_process_is_in_use(tmp_path: Path) -> None:
    process = child(tmp_path)
    try:
        with pytest.raises(DataInUse, match="another process") as raised:
            EdgeStore.open(tmp_path, dimension=DIMENSION)
    finally:
        kill(process)
    assert str(tmp_path) in str(raised.value)


async def test_can_be_opened_again_when_its_process_is_gone(tmp_path: Path) -> None:
    kill(child(tmp_path))
    await EdgeStore.open(tmp_path, dimension=DIMENSION).close()


async def test_another_dimension_is_refused_and_says_how_to_rebuild(tmp_path: Path) -> None:
    await EdgeStore.open(tmp_path, dimension=DIMENSION).close()
    with pytest.raises(RetrievalError, match="another embedder.*ragway rebuild"):
        EdgeStore.open(tmp_path, dimension=DIMENSION + 1)
    await EdgeStore.open(tmp_path, dimension=DIMENSION).close()  # and nothing was harmed


def damage(folder: Path, pattern: str) -> None:
    next(folder.glob(pattern)).write_text("{ not JSON")


@pytest.mark.parametrize("broken", ["edge_config.json", "segments/*/segment.json"])
async def test_a_damaged_store_says_how_to_rebuild(tmp_path: Path, broken: str) -> None:
    store = EdgeStore.open(tmp_path, dimension=DIMENSION)
    await store.upsert("a@1", points_of(["pool"]))
    await store.close()
    damage(tmp_path, broken)
    with pytest.raises(RetrievalError, match="ragway rebuild") as raised:
        EdgeStore.open(tmp_path, dimension=DIMENSION)
    assert type(raised.value) is RetrievalError


async def test_tenants_are_indexed_before_there_is_data(tmp_path: Path) -> None:
    from qdrant_edge import EdgeShard, PayloadSchemaType

    await EdgeStore.open(tmp_path, dimension=DIMENSION).close()
    shard = EdgeShard.load(str(tmp_path))
    index = shard.info().payload_schema["tenant"]
    shard.close()
    assert index.data_type == PayloadSchemaType.Keyword


async def test_a_write_goes_on_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, dimension=DIMENSION)
    first = asyncio.create_task(store.upsert("a@1", points_of(["pool"] * 300)))
    await asyncio.sleep(0)  # the write is handed to its thread
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await store.upsert("a@1", points_of(["socket"], first=900))  # waits for its turn behind the first
    assert await store.count("a@1") == 301
    await store.close()


async def test_the_event_loop_runs_while_many_points_are_written(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, dimension=DIMENSION)
    write = asyncio.create_task(store.upsert("a@1", points_of(["pool"] * 3000)))
    seen = set()
    while not write.done():
        await asyncio.sleep(0)
        seen.add(await store.count("a@1"))
    await write
    assert len(seen) > 2  # the batches were seen arriving
    await store.close()


async def test_closing_twice_does_nothing_and_writing_after_it_says_so(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, dimension=DIMENSION)
    await store.close()
    await store.close()
    with pytest.raises(RetrievalError, match="closed"):
        await store.upsert("a@1", points_of(["pool"]))
    with pytest.raises(RetrievalError, match="search"):
        await store.search(["a@1"], vector_of(1), [], k=1)


async def test_closing_finishes_the_write_under_way(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, dimension=DIMENSION)
    write = asyncio.create_task(store.upsert("a@1", points_of(["pool"] * 600)))
    await asyncio.sleep(0)
    await store.close()
    await write
    again = EdgeStore.open(tmp_path, dimension=DIMENSION)
    assert await again.count("a@1") == 600
    await again.close()
