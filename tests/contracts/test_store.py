"""What every store promises (`retrieval.stores.base`), on each of them, and on the Qdrant server QDRANT_URL names."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from retrieval.lexical.terms import query_vectors
from retrieval.records.documents import Passage
from retrieval.records.points import Point, PointPage
from retrieval.records.search import ALL, PUBLIC, ScoredId, View
from retrieval.stores.base import Store
from retrieval.stores.edge import EdgeStore
from retrieval.stores.qdrant import QdrantStore
from retrieval.stores.schema import BATCH, PAGE
from tests.contracts.points import (
    DIMENSION,
    VECTORS,
    id_of,
    passage_of,
    point_of,
    point_with,
    points_of,
    vector_of,
    words_of,
)

Open = Callable[[], Awaitable[Store]]

SERVER = os.environ.get("QDRANT_URL", "")
_ON_A_SERVER = [  # `-m qdrant` runs the whole suite on the server, and nothing else
    pytest.mark.qdrant,
    pytest.mark.skipif(not SERVER, reason="QDRANT_URL names no Qdrant server; this suite ran on the others"),
]
KINDS = ["edge", "local", pytest.param("server", marks=_ON_A_SERVER)]


@asynccontextmanager
async def opener(kind: str, folder: Path, *, location: str = ":memory:") -> AsyncIterator[Open]:
    """A function that opens a store of this kind, over the same data each time (local mode: in a folder)."""
    name = f"test-{uuid4().hex}"

    async def open_store() -> Store:
        if kind == "edge":
            return EdgeStore.open(folder / "shard", vectors=VECTORS)
        if kind == "server":
            key = os.environ.get("QDRANT_API_KEY")
            return await QdrantStore.connect(SERVER, api_key=key, collection=name, vectors=VECTORS, timeout_s=30)
        return await QdrantStore.local(location, collection=name, vectors=VECTORS)

    yield open_store
    if kind == "server":
        await drop_from_server(name)


async def drop_from_server(name: str) -> None:
    from qdrant_client import AsyncQdrantClient

    client = AsyncQdrantClient(url=SERVER, api_key=os.environ.get("QDRANT_API_KEY"))
    await client.delete_collection(name)
    await client.close()


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opener(request.param, tmp_path) as open_store:
        opened = await open_store()
        yield opened
        await opened.close()


@pytest.fixture(params=KINDS)
async def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    async with opener(request.param, tmp_path, location=str(tmp_path / "local")) as open_store:
        yield open_store


async def lexical(store: Store, words: str, *tenants: str, k: int = 10) -> list[ScoredId]:
    return (await store.search(tenants or ("a@1",), vector_of(0), words_of(words, *(tenants or ("a@1",))), k=k))["bm25"]


async def dense(store: Store, seed: int, *tenants: str, k: int = 10) -> list[ScoredId]:
    return (await store.search(tenants or ("a@1",), vector_of(seed), {}, k=k))["dense"]


def ids(hits: list[ScoredId]) -> list[str]:
    return [hit.id for hit in hits]


def scores(hits: list[ScoredId]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


def same(one: Mapping[str, list[ScoredId]], other: Mapping[str, list[ScoredId]]) -> bool:
    """Equal points in equal order, scores equal to 1e-6 (a cosine's last digit depends on how points are stored)."""
    return all(
        ids(one[arm]) == ids(other[arm])
        and [hit.score for hit in one[arm]] == pytest.approx([hit.score for hit in other[arm]], abs=1e-6)
        for arm in ("dense", "bm25")
    )


# 0, 1, 2 and many


async def test_a_tenant_of_none_finds_nothing(store: Store) -> None:
    assert await store.search(["a@1"], vector_of(0), words_of("pool"), k=5) == {"dense": [], "bm25": []}
    assert await store.count("a@1") == 0
    assert await store.passages("a@1") == []


async def test_no_tenants_find_nothing(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool"]))
    assert await store.search([], vector_of(0), words_of("pool"), k=5) == {"dense": [], "bm25": []}


async def test_a_tenant_of_one_finds_it_by_both_arms(store: Store) -> None:
    await store.upsert("a@1", points_of(["the connection pool"]))
    found = await store.search(["a@1"], vector_of(1), words_of("pool"), k=5)
    assert ids(found["dense"]) == ids(found["bm25"]) == [id_of(1)]
    assert found["dense"][0].score == pytest.approx(1.0, abs=1e-5)


async def test_a_tenant_of_two_finds_the_one_with_the_word(store: Store) -> None:
    await store.upsert("a@1", points_of(["the connection pool", "the socket"]))
    assert ids(await lexical(store, "socket")) == [id_of(2)]
    assert sorted(ids(await lexical(store, "socket pool"))) == [id_of(1), id_of(2)]
    assert ids(await dense(store, 2))[0] == id_of(2)
    assert len(await dense(store, 2)) == 2


async def test_many_points_over_several_batches_and_pages_are_all_there(store: Store) -> None:
    n = PAGE + BATCH + 3
    await store.upsert("a@1", points_of([f"page number{i} of the manual" for i in range(n)]))
    assert await store.count("a@1") == n
    assert [found for found, _ in await store.passages("a@1")] == [id_of(i + 1) for i in range(n)]
    assert ids(await lexical(store, f"number{n - 1}")) == [id_of(n)]
    assert ids(await dense(store, n, k=1)) == [id_of(n)]


async def test_dense_scores_are_cosines_best_first(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool"] * 20))
    found = await dense(store, 99, k=20)
    expected = {id_of(i): float(vector_of(99) @ vector_of(i)) for i in range(1, 21)}
    assert dict(scores(found)) == pytest.approx(expected, abs=1e-5)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


async def test_rarer_words_and_heavier_pieces_come_first(store: Store) -> None:
    texts = ["common rare", "common first", "common second", "common third", "common fourth", "other", "another"]
    await store.upsert("a@1", points_of(texts))
    assert ids(await lexical(store, "common rare"))[0] == id_of(1)
    for heavy, light, winner in (("first", "second", 2), ("second", "first", 3)):
        found = (await store.search(["a@1"], vector_of(0), query_vectors(["a@1"], [(heavy, 1.0), (light, 0.3)]), k=5))[
            "bm25"
        ]
        assert ids(found)[0] == id_of(winner)


async def test_words_nobody_wrote_find_nothing_but_the_dense_arm_still_answers(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool", "socket"]))
    for words in ("zyzzyva", "the of and", ""):
        found = await store.search(["a@1"], vector_of(1), words_of(words), k=5)
        assert found["bm25"] == []
        assert len(found["dense"]) == 2


async def test_a_passage_without_words_is_found_by_its_vector_alone(store: Store) -> None:
    await store.upsert("a@1", points_of(["…", "pool"]))
    assert ids(await dense(store, 1, k=1)) == [id_of(1)]
    assert ids(await lexical(store, "pool")) == [id_of(2)]


async def test_titles_and_headings_are_searched(store: Store) -> None:
    await store.upsert("a@1", [point_with(1, passage_of("body", title="Drivers", headings=("Kotlin", "TLS")))])
    for word in ("drivers", "kotlin", "tls", "body"):
        assert ids(await lexical(store, word)) == [id_of(1)]


# Views


def grouped(*groups: str, words: str = "pool", first: int = 1, count: int = 1) -> list[Point]:
    points = points_of([words] * count, first=first)
    return [replace(point, passage=replace(point.passage, groups=groups)) for point in points]


async def seen(store: Store, view: View, *, k: int = 100, words: str = "pool") -> tuple[set[str], set[str]]:
    found = await store.search(["a@1"], vector_of(0), words_of(words), k=k, view=view)
    return set(ids(found["dense"])), set(ids(found["bm25"]))


async def test_a_view_has_what_is_for_all_and_for_its_groups(store: Store) -> None:
    await store.upsert("a@1", [*grouped(first=1), *grouped("hr", first=2), *grouped("hr", "legal", first=3)])
    for view, numbers in (
        (PUBLIC, [1]),
        (View(("legal",)), [1, 3]),
        (View(("hr",)), [1, 2, 3]),
        (View(("h", "hr-2")), [1]),
        (View(("h", "legal")), [1, 3]),
        (ALL, [1, 2, 3]),
    ):
        expected = {id_of(number) for number in numbers}
        assert await seen(store, view) == (expected, expected)
        assert {found for found, _ in await store.passages("a@1", view)} == expected
    assert {found for found, _ in await store.passages("a@1")} == {id_of(1), id_of(2), id_of(3)}


async def test_what_is_not_in_view_takes_nobodys_place(store: Store) -> None:
    near = [replace(point, vectors={"dense": vector_of(0)}) for point in grouped("hr", words="pool pool", count=40)]
    await store.upsert("a@1", [*near, *grouped(first=100, words="pool and socket", count=10)])
    expected = {id_of(100 + i) for i in range(10)}
    assert await seen(store, PUBLIC, k=10) == (expected, expected)
    assert (await seen(store, ALL, k=10))[0] == {id_of(i) for i in range(1, 11)}


async def test_a_view_is_current_after_a_write(store: Store) -> None:
    await store.upsert("a@1", grouped("hr", count=2))
    assert await seen(store, PUBLIC) == (set(), set())
    await store.upsert("a@1", grouped(count=1))
    assert await seen(store, PUBLIC) == ({id_of(1)}, {id_of(1)})
    await store.upsert("a@1", grouped("legal", count=1))
    assert await seen(store, PUBLIC) == (set(), set())
    assert await seen(store, View(("legal",))) == ({id_of(1)}, {id_of(1)})


@pytest.mark.parametrize("settled_s", [0.0, float("inf")])
async def test_scores_tell_nothing_of_what_is_not_in_view(
    store: Store, settled_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.stores.edge._SETTLED_S", settled_s)
    open_ones = points_of(["pool socket", "pool kotlin", "socket", "driver"])
    await store.upsert("a@1", open_ones)
    alone = await store.search(["a@1"], vector_of(0), words_of("pool socket"), k=9)
    await store.upsert("a@1", grouped("hr", words="pool socket kotlin", first=10, count=30))
    assert same(await store.search(["a@1"], vector_of(0), words_of("pool socket"), k=9), alone)
    assert not same(await store.search(["a@1"], vector_of(0), words_of("pool socket"), k=9, view=ALL), alone)


# k and ties


async def test_returns_at_most_k_of_each_arm(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool socket"] * 5 + ["pool"] * 5))
    for k in (1, 2, 9, 10, 11, 1000):
        found = await store.search(["a@1"], vector_of(0), words_of("pool"), k=k)
        assert len(found["dense"]) == len(found["bm25"]) == min(k, 10)


async def test_refuses_a_k_below_one(store: Store) -> None:
    for k in (0, -1):
        with pytest.raises(ValueError, match="k is"):
            await store.search(["a@1"], vector_of(0), {}, k=k)


async def test_ties_are_broken_by_id_also_at_the_cut(store: Store) -> None:
    order = np.random.default_rng(5).permutation(np.arange(1, 61)).tolist()
    await store.upsert("a@1", [point_of(number, "the same words", seed=7) for number in order])
    await store.upsert("b@1", [point_of(100, "the same words", seed=7)])
    for k in (1, 5, 59, 60):
        found = await store.search(["a@1"], vector_of(7), words_of("words"), k=k)
        assert ids(found["dense"]) == ids(found["bm25"]) == [id_of(number) for number in range(1, k + 1)]


# tenants


async def test_never_finds_another_tenants_points(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool of a"]))
    await store.upsert("b@1", points_of(["pool of b"], first=50))
    await store.upsert("a@2", points_of(["pool of a, next generation"], first=90))
    for tenant, number in (("a@1", 1), ("b@1", 50), ("a@2", 90)):
        assert ids(await lexical(store, "pool", tenant)) == ids(await dense(store, 50, tenant)) == [id_of(number)]
        assert await store.count(tenant) == 1
        assert [found for found, _ in await store.passages(tenant)] == [id_of(number)]
    for unknown in ("c@1", "a", "a@", "", "*"):
        assert await lexical(store, "pool", unknown) == await dense(store, 1, unknown) == []


async def test_scores_do_not_depend_on_the_other_tenants(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool socket", "pool timeout", "driver", "kotlin driver", "pool"]))
    alone = scores(await lexical(store, "pool driver kotlin"))
    assert len(alone) == 5
    await store.upsert("b@1", points_of(["driver driver kotlin"] * 300, first=1000))
    assert scores(await lexical(store, "pool driver kotlin")) == alone
    await store.drop("b@1")
    assert scores(await lexical(store, "pool driver kotlin")) == alone


async def test_several_tenants_are_scored_each_by_its_own_and_merged(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool socket", "driver", "kotlin"]))
    await store.upsert("b@1", points_of(["pool", "pool driver", "pool kotlin", "swift"], first=20))
    question = [("pool driver", 1.0)]
    merged = await store.search(["a@1", "b@1"], vector_of(3), query_vectors(["a@1", "b@1"], question), k=4)
    apart = [
        await store.search([tenant], vector_of(3), query_vectors([tenant], question), k=4) for tenant in ("a@1", "b@1")
    ]
    both = {arm: [hit for found in apart for hit in found[arm]] for arm in ("dense", "bm25")}
    assert same(merged, {arm: sorted(both[arm], key=lambda hit: (-hit.score, hit.id))[:4] for arm in both})


async def test_a_tenant_asked_for_twice_answers_once(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool"]))
    assert ids(await lexical(store, "pool", "a@1", "a@1")) == ids(await dense(store, 1, "a@1", "a@1")) == [id_of(1)]


# writing


async def test_upsert_of_a_known_id_replaces_text_terms_and_vector(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool", "socket"]))
    assert ids(await lexical(store, "pool")) == [id_of(1)]
    await store.upsert("a@1", [point_of(1, "timeout", seed=77)])
    assert await store.count("a@1") == 2
    assert await lexical(store, "pool") == []
    assert ids(await lexical(store, "timeout")) == [id_of(1)]
    assert (await store.read([id_of(1)]))[id_of(1)].text == "timeout"
    assert (await dense(store, 77, k=1))[0].score == pytest.approx(1.0, abs=1e-5)


async def test_replaced_points_leave_no_trace_in_the_statistics(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool socket", "driver", "kotlin", "swift"]))
    before = scores(await lexical(store, "pool driver"))
    for _ in range(3):
        await store.upsert("a@1", points_of(["driver driver"] * 4))
        await store.upsert("a@1", points_of(["pool socket", "driver", "kotlin", "swift"]))
    assert scores(await lexical(store, "pool driver")) == before


async def test_an_empty_upsert_and_delete_do_nothing(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool"]))
    await store.upsert("a@1", [])
    await store.delete("a@1", [])
    assert await store.count("a@1") == 1


async def test_delete_takes_the_named_points_of_that_tenant_alone(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool", "socket", "driver"]))
    await store.upsert("b@1", points_of(["pool"], first=50))
    await store.delete("a@1", [id_of(1), id_of(50), id_of(999)])
    assert ids(await lexical(store, "pool socket driver")) == sorted([id_of(2), id_of(3)])
    assert sorted(ids(await dense(store, 1))) == [id_of(2), id_of(3)]
    assert await store.count("a@1") == 2
    assert ids(await lexical(store, "pool", "b@1")) == [id_of(50)]


async def test_drop_empties_one_tenant_and_it_can_be_filled_again(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool", "socket"]))
    await store.upsert("b@1", points_of(["pool"], first=50))
    await store.drop("a@1")
    await store.drop("a@1")
    await store.drop("unknown@1")
    assert await store.search(["a@1"], vector_of(0), words_of("pool"), k=5) == {"dense": [], "bm25": []}
    assert await store.count("b@1") == 1
    await store.upsert("a@1", points_of(["kotlin"]))
    assert ids(await lexical(store, "kotlin")) == [id_of(1)]


# payload


PASSAGES = [
    Passage("", 0, 0, "", "", 0.0, (), 0, 0, "", 0),
    Passage(
        "d",
        1,
        2,
        "Titel 標題 🗂️",
        "docs/ä/ö.md",
        1.5e9 + 0.125,
        ("Größe", 'a > "b"', ""),
        3,
        9,
        "naïve\u2028\n\x00 мир",
        3,
    ),
    Passage("d", 2**40, 7, "t", "C:\\docs\\x", 3.0, ("h",), 10**9, 10**9 + 1, '{"tenant": "b@1"}', 9),
    Passage("d", 3, 1, "t", "s", -1.25, ("h",) * 30, 0, 1_000_000, "connection pool " * 62_500, 125_000),
    Passage("d", 1, 0, "t", "s.pdf", 1.0, (), 0, 1, "x", 1, context="About x.", place="page 12"),
]


@pytest.mark.parametrize("passage", PASSAGES, ids=["empty", "unicode", "large numbers", "huge text", "page"])
async def test_a_passage_comes_back_as_it_went_in(store: Store, passage: Passage) -> None:
    await store.upsert("a@1", [point_with(1, passage)])
    assert await store.read([id_of(1)]) == {id_of(1): passage}
    assert await store.passages("a@1") == [(id_of(1), passage)]


async def test_reads_the_points_asked_for_alone_and_none_that_is_gone(store: Store) -> None:
    await store.upsert("a@1", points_of(["pool", "socket", "driver"]))
    await store.upsert("b@1", points_of(["kotlin"], first=50))
    assert await store.read([]) == await store.read([id_of(999)]) == {}
    wanted = [id_of(50), id_of(3), id_of(1)]
    assert {id: found.text for id, found in (await store.read(wanted)).items()} == dict(
        zip(wanted, ["kotlin", "driver", "pool"], strict=True)
    )
    await store.delete("a@1", [id_of(1)])
    await store.drop("b@1")
    assert list(await store.read(wanted)) == [id_of(3)]


# bad vectors


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
async def test_refuses_a_vector_that_is_not_finite(store: Store, bad: float) -> None:
    vector = vector_of(1)
    vector[3] = bad
    await store.upsert("a@1", points_of(["pool"]))
    with pytest.raises(ValueError, match="NaN"):
        await store.search(["a@1"], vector, words_of("pool"), k=3)
    with pytest.raises(ValueError, match="NaN"):
        await store.upsert("a@1", [point_of(2, "socket"), replace(point_of(3, "socket"), vectors={"dense": vector})])
    assert await store.count("a@1") == 1


@pytest.mark.parametrize("d", [0, 1, DIMENSION - 1, DIMENSION + 1])
async def test_refuses_a_vector_of_another_dimension(store: Store, d: int) -> None:
    vector = np.ones(d, np.float32)
    with pytest.raises(ValueError, match="dimension"):
        await store.search(["a@1"], vector, {}, k=3)
    with pytest.raises(ValueError, match="dimension"):
        await store.upsert("a@1", [point_of(2, "socket"), replace(point_of(3, "socket"), vectors={"dense": vector})])
    assert await store.count("a@1") == 0


async def test_refuses_a_vector_of_no_length(store: Store) -> None:
    with pytest.raises(ValueError, match="zero"):
        await store.search(["a@1"], np.zeros(DIMENSION, np.float32), {}, k=3)


# lifetime and concurrency


async def test_reopening_keeps_everything(reopen: Open) -> None:
    first = await reopen()
    await first.upsert("a@1", points_of(["pool", "socket", "driver", "kotlin"]))
    await first.upsert("b@1", points_of(["pool"], first=50))
    await first.delete("a@1", [id_of(2)])
    before = await first.search(["a@1", "b@1"], vector_of(3), words_of("pool kotlin", "a@1", "b@1"), k=9)
    await first.close()
    second = await reopen()
    try:
        assert same(
            await second.search(["a@1", "b@1"], vector_of(3), words_of("pool kotlin", "a@1", "b@1"), k=9), before
        )
        assert (await second.count("a@1"), await second.count("b@1")) == (3, 1)
        await second.upsert("a@1", points_of(["timeout"], first=9))
        assert ids(await lexical(second, "timeout")) == [id_of(9)]
    finally:
        await second.close()


async def test_writes_and_searches_at_once_lose_nothing(store: Store) -> None:
    async def write(writer: int) -> None:
        for step in range(4):
            first = 1000 * writer + 10 * step
            await store.upsert("a@1", points_of([f"writer{writer} step{step}"] * 10, first=first))
        await store.delete("a@1", [id_of(1000 * writer)])

    async def read(seed: int) -> None:
        for _ in range(5):
            found = await store.search(["a@1"], vector_of(seed), words_of("writer1 writer2 writer3"), k=200)
            assert len(set(ids(found["bm25"]))) == len(found["bm25"]) <= 3 * 40
            await asyncio.sleep(0)

    await asyncio.gather(*(write(writer) for writer in (1, 2, 3)), *(read(seed) for seed in range(4)))
    assert await store.count("a@1") == 3 * 39
    for writer in (1, 2, 3):
        assert len(await lexical(store, f"writer{writer}", k=200)) == 39


async def test_a_search_started_after_a_write_sees_it(store: Store) -> None:
    for number in range(1, 12):
        await store.upsert("a@1", [point_of(number, f"word{number}")])
        assert ids(await lexical(store, f"word{number}")) == [id_of(number)]


# One arm alone, and vectors by id


async def test_without_a_vector_the_dense_arm_is_empty(store: Store) -> None:
    await store.upsert("a@1", points_of(["the connection pool", "another page"]))
    both = await store.search(["a@1"], vector_of(0), words_of("pool"), k=5)
    found = await store.search(["a@1"], None, words_of("pool"), k=5)
    assert len(both["dense"]) == 2
    assert (found["dense"], scores(found["bm25"])) == ([], scores(both["bm25"]))
    assert await store.search(["a@1"], None, {}, k=5) == {"dense": [], "bm25": []}


async def test_gives_the_vectors_of_points_that_are_there(store: Store) -> None:
    await store.upsert("a@1", points_of(["one", "two", "three"]))
    await store.delete("a@1", [id_of(2)])
    found = await store.vectors([id_of(1), id_of(2), id_of(3), id_of(99)])
    assert set(found) == {id_of(1), id_of(3)}
    for number in (1, 3):
        np.testing.assert_allclose(found[id_of(number)], vector_of(number), atol=1e-6)
        assert found[id_of(number)].dtype == np.float32
    assert await store.vectors([]) == {}


@pytest.mark.parametrize("kind", ["edge", "local"])
async def test_a_search_compares_the_vectors_of_one_name(kind: str, tmp_path: Path) -> None:
    vectors = {"dense": DIMENSION, "page": DIMENSION}
    if kind == "edge":
        store: Store = EdgeStore.open(tmp_path, vectors=vectors)
    else:
        store = await QdrantStore.local(":memory:", collection="two", vectors=vectors)
    points = points_of([f"page {number}" for number in range(1, 9)])
    written = [replace(one, vectors={"dense": vector_of(1), "page": one.vectors["dense"]}) for one in points]
    await store.upsert("a@1", written)
    found = await store.search(["a@1"], vector_of(7), words_of("page"), k=1, name="page")
    assert ({*found}, ids(found["page"])) == ({"page", "bm25"}, [id_of(7)])
    np.testing.assert_allclose((await store.vectors([id_of(7)], "page"))[id_of(7)], vector_of(7), atol=1e-6)
    np.testing.assert_allclose((await store.vectors([id_of(7)]))[id_of(7)], vector_of(1), atol=1e-6)
    page = await store.points("a@1", id_of(6), 1)
    np.testing.assert_allclose(page.points[0].vectors["page"], vector_of(7), atol=1e-6)
    await store.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
async def test_pages_of_points_are_whole_points_by_id(store: Store, limit: int) -> None:
    assert await store.points("a@1", "", limit) == PointPage([], "")
    written = points_of(["the connection pool", "…", "pool kotlin", "driver"])
    secret = replace(passage_of("café"), groups=("hr",), attributes={"year": 2024})
    written.append(point_with(5, secret))
    await store.upsert("a@1", written)
    await store.upsert("b@1", points_of(["other"], first=50))
    read: list[Point] = []
    page = PointPage([], "")
    while page.after or not read:
        page = await store.points("a@1", page.after, limit)
        assert 0 < len(page.points) <= limit
        read += page.points
    assert [(one.id, one.passage) for one in read] == [(one.id, one.passage) for one in written]
    for one, other in zip(read, written, strict=True):
        np.testing.assert_allclose(one.vectors["dense"], other.vectors["dense"], atol=1e-6)
        assert dict(zip(one.sparse.indices, one.sparse.values, strict=True)) == pytest.approx(
            dict(zip(other.sparse.indices, other.sparse.values, strict=True))
        )


async def test_a_page_of_points_begins_after_a_point_that_is_gone(store: Store) -> None:
    await store.upsert("a@1", points_of(["one", "two", "three"]))
    page = await store.points("a@1", "", 1)
    await store.delete("a@1", [page.after])
    page = await store.points("a@1", page.after, 1)
    assert (ids_of(page), page.after) == ([id_of(2)], id_of(2))
    assert ids_of(await store.points("a@1", page.after, 1)) == [id_of(3)]


async def test_a_tenant_copied_page_by_page_is_the_same(store: Store) -> None:
    other = await QdrantStore.local(":memory:", collection="copy", vectors=VECTORS)
    await store.upsert("a@1", points_of(["the connection pool", "…", "pool kotlin"]))
    page = await store.points("a@1", "", 2)
    await other.upsert("a@1", page.points)
    await other.upsert("a@1", (await store.points("a@1", page.after, 2)).points)
    asked = [("pool kotlin", 1.0)]
    copied = await other.search(["a@1"], vector_of(3), query_vectors(["a@1"], asked), k=9)
    await other.close()
    assert same(copied, await store.search(["a@1"], vector_of(3), query_vectors(["a@1"], asked), k=9))


def ids_of(page: PointPage) -> list[str]:
    return [point.id for point in page.points]
