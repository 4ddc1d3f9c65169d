"""The embedded store's own promises: what it survives, and what it says when it cannot open."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.errors import DataInUse, RetrievalError
from retrieval.lexical.terms import query_vectors
from retrieval.records.points import Point
from retrieval.records.search import PUBLIC
from retrieval.stores import edge_shard
from retrieval.stores.edge import EdgeStore
from tests.contracts.points import DIMENSION, VECTORS, id_of, point_of, points_of, vector_of, words_of

# Opens the store of argv[1], runs the lines given, says "ready" and holds the store open until it is killed.
CHILD = """
import asyncio, sys
from pathlib import Path
from retrieval.stores.edge import EdgeStore
from tests.contracts.points import DIMENSION, VECTORS, id_of, point_of, points_of, vector_of, words_of
async def main():
    store = EdgeStore.open(Path(sys.argv[1]), vectors=VECTORS)
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
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    assert await store.count("a@1") == 700
    found = await store.search(["a@1"], vector_of(700), words_of("word699"), k=1)
    await store.close()
    assert found["dense"][0].id == found["bm25"][0].id == id_of(700)


async def test_what_was_deleted_and_replaced_stays_so_after_kill_9(tmp_path: Path) -> None:
    work = """await store.upsert("a@1", points_of(["pool", "socket", "driver"]))
await store.upsert("b@1", points_of(["pool"], first=50))
await store.delete("a@1", [id_of(2)])
await store.upsert("a@1", points_of(["kotlin"]))
await store.drop("b@1")"""
    kill(child(tmp_path, work))
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    kept = {found: passage.text for found, passage in await store.passages("a@1")}
    assert await store.count("b@1") == 0
    await store.close()
    assert kept == {id_of(1): "kotlin", id_of(3): "driver"}


async def test_a_killed_first_start_leaves_a_usable_folder(tmp_path: Path) -> None:
    kill(child(tmp_path / "new" / "shard"))
    store = EdgeStore.open(tmp_path / "new" / "shard", vectors=VECTORS)
    await store.upsert("a@1", points_of(["pool"]))
    assert await store.count("a@1") == 1
    await store.close()


def test_a_store_open_in_another_process_is_in_use(tmp_path: Path) -> None:
    process = child(tmp_path)
    try:
        with pytest.raises(DataInUse, match="another process") as raised:
            EdgeStore.open(tmp_path, vectors=VECTORS)
    finally:
        kill(process)
    assert str(tmp_path) in str(raised.value)


async def test_can_be_opened_again_when_its_process_is_gone(tmp_path: Path) -> None:
    kill(child(tmp_path))
    await EdgeStore.open(tmp_path, vectors=VECTORS).close()


async def test_another_dimension_is_refused_and_says_how_to_rebuild(tmp_path: Path) -> None:
    await EdgeStore.open(tmp_path, vectors=VECTORS).close()
    with pytest.raises(RetrievalError, match="another embedder.*ragway rebuild"):
        EdgeStore.open(tmp_path, vectors={"dense": DIMENSION + 1})
    await EdgeStore.open(tmp_path, vectors=VECTORS).close()  # and nothing was harmed


def damage(folder: Path, pattern: str) -> None:
    next(folder.glob(pattern)).write_text("{ not JSON")


@pytest.mark.parametrize("broken", ["edge_config.json", "segments/*/segment.json"])
async def test_a_damaged_store_says_how_to_rebuild(tmp_path: Path, broken: str) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.upsert("a@1", points_of(["pool"]))
    await store.close()
    damage(tmp_path, broken)
    with pytest.raises(RetrievalError, match="ragway rebuild") as raised:
        EdgeStore.open(tmp_path, vectors=VECTORS)
    assert type(raised.value) is RetrievalError


async def test_tenants_are_indexed_before_there_is_data(tmp_path: Path) -> None:
    from qdrant_edge import EdgeShard, PayloadSchemaType

    await EdgeStore.open(tmp_path, vectors=VECTORS).close()
    shard = EdgeShard.load(str(tmp_path))
    index = shard.info().payload_schema["tenant"]
    shard.close()
    assert index.data_type == PayloadSchemaType.Keyword


async def test_a_write_goes_on_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    first = asyncio.create_task(store.upsert("a@1", points_of(["pool"] * 300)))
    await asyncio.sleep(0)  # the write is handed to its thread
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await store.upsert("a@1", points_of(["socket"], first=900))  # waits for its turn behind the first
    assert await store.count("a@1") == 301
    await store.close()


async def test_the_event_loop_runs_while_many_points_are_written(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    write = asyncio.create_task(store.upsert("a@1", points_of(["pool"] * 1000)))
    seen = set()
    while not write.done():
        await asyncio.sleep(0.001)  # a loop that never rests leaves the writing thread few turns at the interpreter
        seen.add(await store.count("a@1"))
    await write
    assert len(seen) > 2  # the batches were seen arriving
    await store.close()


async def test_closing_twice_does_nothing_and_writing_after_it_says_so(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.close()
    await store.close()
    with pytest.raises(RetrievalError, match="closed"):
        await store.upsert("a@1", points_of(["pool"]))
    with pytest.raises(RetrievalError, match="search"):
        await store.search(["a@1"], vector_of(1), {}, k=1)


async def test_closing_finishes_the_write_under_way(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    write = asyncio.create_task(store.upsert("a@1", points_of(["pool"] * 600)))
    await asyncio.sleep(0)
    await store.close()
    await write
    again = EdgeStore.open(tmp_path, vectors=VECTORS)
    assert await again.count("a@1") == 600
    await again.close()


# Optimised by a process of its own


WORDS = "pool socket driver kotlin timeout".split()


def many(count: int, *, first: int = 1) -> list[Point]:
    return points_of([f"{WORDS[i % 5]} word{i}" for i in range(count)], first=first)


def names(folder: Path) -> list[str]:
    return [path.name for path in sorted(folder.iterdir())]


async def everything(store: EdgeStore) -> list[object]:
    """What a reader can see of both tenants: what searches find, and what is kept."""
    seen: list[object] = []
    for tenant in ("a@1", "b@1"):
        seen += [await store.count(tenant), await store.passages(tenant)]
        for seed, words in enumerate([*WORDS, "word7"]):
            found = await store.search([tenant], vector_of(seed), words_of(words, tenant), k=8)
            seen.append([[(hit.id, round(hit.score, 5)) for hit in found[arm]] for arm in ("dense", "bm25")])
    return seen


async def test_the_optimised_store_answers_as_before_and_is_what_a_restart_opens(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.upsert("a@1", many(300))
    await store.upsert("b@1", many(40, first=1000))
    await store.delete("a@1", [id_of(3)])
    before = await everything(store)
    await store.optimise()
    assert await everything(store) == before
    await store.upsert("a@1", many(20, first=2000))
    after = await everything(store)
    await store.close()
    assert names(tmp_path) == ["generation-1"]
    again = EdgeStore.open(tmp_path, vectors=VECTORS)
    assert await everything(again) == after
    await again.optimise()
    assert await everything(again) == after
    await again.close()
    assert names(tmp_path) == ["generation-2"]


async def test_what_is_written_while_it_is_optimised_is_in_the_optimised_store(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path / "served", vectors=VECTORS)
    other = EdgeStore.open(tmp_path / "plain", vectors=VECTORS)
    for each in (store, other):
        await each.upsert("a@1", many(200))
        await each.upsert("b@1", many(50, first=1000))

    async def write(to: EdgeStore) -> None:
        await to.upsert("a@1", [point_of(5, "another text"), *many(70, first=500)])
        await to.delete("a@1", [id_of(9), id_of(501)])
        await to.drop("b@1")
        await to.upsert("b@1", many(3, first=1020))

    await asyncio.gather(store.optimise(), write(store))  # the copy is made first, the writes come behind it
    await write(other)
    assert await everything(store) == await everything(other)
    await store.close()
    again = EdgeStore.open(tmp_path / "served", vectors=VECTORS)
    assert await everything(again) == await everything(other)
    await again.close()
    await other.close()


async def test_a_switch_that_was_interrupted_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.upsert("a@1", many(30))
    before = await everything(store)
    await store.close()
    shutil.copytree(tmp_path / "segments", tmp_path / "generation-1" / "segments")
    again = EdgeStore.open(tmp_path, vectors=VECTORS)
    assert await everything(again) == before
    await again.close()
    assert not (tmp_path / "generation-1").exists()


async def test_an_optimisation_that_dies_harms_nothing(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.upsert("a@1", many(30))
    before = await everything(store)
    (tmp_path / "edge_config.json").write_text("{ not JSON")
    with pytest.raises(RetrievalError, match="optimis"):
        await store.optimise()
    assert await everything(store) == before
    await store.upsert("a@1", [point_of(77, "later")])
    assert await store.count("a@1") == 31
    await store.close()
    assert not (tmp_path / "generation-1").exists()


async def test_closing_gives_an_optimisation_up(tmp_path: Path) -> None:
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.upsert("a@1", many(30))
    optimising = asyncio.create_task(store.optimise())
    await asyncio.sleep(0)  # its process is being started
    await store.close()
    with pytest.raises(RetrievalError):
        await optimising
    again = EdgeStore.open(tmp_path, vectors=VECTORS)
    assert await again.count("a@1") == 30
    await again.close()


async def test_a_tenant_alone_has_the_same_scores_by_the_quick_way_and_others_or_deleted_points_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found() -> list[tuple[str, float]]:
        hits = (await store.search(["a@1"], None, words_of("pool word7 socket"), k=20))["bm25"]
        return [(hit.id, hit.score) for hit in hits]

    async def both_ways() -> bool:
        """Checks that the scores are equal; whether the quick way is taken."""
        monkeypatch.setattr("retrieval.stores.edge._SETTLED_S", float("inf"))
        counted = await found()
        monkeypatch.setattr("retrieval.stores.edge._SETTLED_S", 0.0)
        assert await found() == counted
        return store._exact_idf["a@1", PUBLIC]

    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.upsert("a@1", many(200))
    assert await both_ways()
    await store.upsert("b@1", many(3, first=1000))
    assert not await both_ways()
    await store.drop("b@1")
    assert not await both_ways()  # what is deleted counts until the space is freed
    await store.close()
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await both_ways()
    await store.optimise()
    assert await both_ways()
    await store.delete("a@1", [id_of(1)])
    assert not await both_ways()
    await store.close()


@pytest.mark.parametrize(
    ("part", "kept_in_view"), [(0, 256), (249_999, 256), (250_000, 704), (500_000, 704), (500_001, 1024)]
)
def test_a_large_segment_is_searched_more_widely(part: int, kept_in_view: int) -> None:
    from qdrant_edge import Query

    params = edge_shard.dense_query(Query.Nearest([0.5, 0.5]), "docs@1", 10, segment_points=part).params
    assert params is not None
    assert params.hnsw_ef == kept_in_view


@pytest.mark.parametrize(
    ("points", "cores", "parts"), [(0, 2, 1), (500_000, 2, 1), (500_001, 2, 2), (3_000_000, 2, 2), (1_600_000, 8, 4)]
)
def test_a_large_shard_is_divided_among_the_cores(
    monkeypatch: pytest.MonkeyPatch, points: int, cores: int, parts: int
) -> None:
    monkeypatch.setattr(edge_shard, "cores", lambda: cores)
    assert edge_shard.segment_count(points) == parts
    assert edge_shard.segment_size(points) * parts >= points
    optimizers = edge_shard.config({"dense": 384}, points=points).optimizers
    assert optimizers is not None
    assert optimizers.default_segment_number == parts
    assert optimizers.max_segment_size is not None
    assert optimizers.max_segment_size * 1024 >= edge_shard.segment_size(points) * 384 * 4 - 1024


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_divided_shard_holds_and_finds_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(edge_shard, "SEGMENT", 200)
    monkeypatch.setattr(edge_shard, "cores", lambda: 2)
    monkeypatch.setattr(edge_shard, "PAGE", 50)
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    await store.upsert("a@1", points_of([f"pool word{i}" for i in range(700)]))
    await store.upsert("b@1", points_of(["pool"], first=1000))
    question = [("word77", 1.0)]
    before = await store.search(["a@1"], vector_of(77), query_vectors(["a@1"], question), k=20)
    everything = await store.passages("a@1"), await store.passages("b@1")
    await store.close()
    whole = edge_shard.open_shard(tmp_path, VECTORS)
    whole.update(edge_shard.field_index("numbers.year"))
    whole.close()
    divided = edge_shard.rewrite_in_segments(tmp_path, VECTORS, points=701)
    divided.optimize()
    divided.close()
    assert "whole" not in names_in(tmp_path)
    opened = edge_shard.open_shard(tmp_path, VECTORS)
    assert opened.info().segments_count == 3  # the two parts, and an empty one for what comes
    assert edge_shard.without_graph(opened) == 0
    assert "numbers.year" in opened.info().payload_schema
    opened.close()
    store = EdgeStore.open(tmp_path, vectors=VECTORS)
    assert (await store.passages("a@1"), await store.passages("b@1")) == everything
    assert await store.search(["a@1"], vector_of(77), query_vectors(["a@1"], question), k=20) == before
    await store.close()


def test_the_graph_of_many_points_has_more_links() -> None:
    configs = [edge_shard.config(VECTORS, points=points) for points in (0, edge_shard.LARGE - 1, edge_shard.LARGE)]
    graphs = [config.vectors["dense"].hnsw_config for config in configs]
    assert [graph and graph.payload_m for graph in graphs] == [16, 16, 32]
