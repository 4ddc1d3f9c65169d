"""The okapi store's own promises: its index follows every change, also those it is overtaken by."""

import asyncio

from retrieval.records import Passage
from retrieval.stores.okapi import Okapi, OkapiStore
from retrieval.stores.qdrant import QdrantStore
from retrieval.terms import query_vector
from tests.contracts.points import DIMENSION, id_of, passage_of, points_of, vector_of


async def open_store() -> OkapiStore:
    return OkapiStore(await QdrantStore.local(":memory:", collection="c", dimension=DIMENSION))


async def found(store: OkapiStore, words: str) -> list[str]:
    return [hit.id for hit in (await store.search(["a@1"], vector_of(0), [(words, 1.0)], k=500))["bm25"]]


async def test_its_index_follows_upsert_delete_and_drop() -> None:
    store = await open_store()
    assert await found(store, "pool") == []
    await store.upsert("a@1", points_of(["pool", "socket", "driver"]))
    assert await found(store, "pool") == [id_of(1)]
    await store.delete("a@1", [id_of(1)])
    assert await found(store, "pool") == []
    await store.upsert("a@1", points_of(["pool"], first=7))
    assert await found(store, "pool") == [id_of(7)]
    await store.drop("a@1")
    assert await found(store, "pool") == []
    await store.close()


class Held(QdrantStore):
    """Hands out the passages it has read only when told to."""

    has_read: asyncio.Event
    go: asyncio.Event

    async def passages(self, tenant: str) -> list[tuple[str, Passage]]:
        rows = await super().passages(tenant)
        self.has_read.set()
        await self.go.wait()
        return rows


async def test_an_index_overtaken_by_a_write_is_not_kept() -> None:
    inner = await Held.local(":memory:", collection="c", dimension=DIMENSION)
    inner.has_read, inner.go = asyncio.Event(), asyncio.Event()
    store = OkapiStore(inner)
    await store.upsert("a@1", points_of(["pool"]))
    searching = asyncio.create_task(found(store, "pool"))
    await inner.has_read.wait()
    await store.upsert("a@1", points_of(["pool"], first=2))
    inner.go.set()
    assert await searching == [id_of(1)]
    assert await found(store, "pool") == [id_of(1), id_of(2)]
    await store.close()


async def test_many_searches_at_once_agree() -> None:
    store = await open_store()
    await store.upsert("a@1", points_of(["pool", "socket", "driver pool"]))
    answers = await asyncio.gather(*(found(store, "pool") for _ in range(8)))
    assert answers == [answers[0]] * 8
    assert set(answers[0]) == {id_of(1), id_of(3)}
    await store.close()


def test_an_index_of_nothing_finds_nothing() -> None:
    for rows in ([], [(id_of(1), passage_of("")), (id_of(2), passage_of("the of"))]):
        assert Okapi.over(rows).best(query_vector([("pool the", 1.0)]), 5) == []
