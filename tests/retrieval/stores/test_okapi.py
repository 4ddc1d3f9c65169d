"""The okapi store's own promises: its index follows every change, also those it is overtaken by."""

import asyncio
from collections.abc import Sequence

import pytest

from retrieval.errors import IndexDown
from retrieval.records.documents import Passage
from retrieval.records.points import Point
from retrieval.records.search import ALL, View
from retrieval.stores.okapi import OkapiStore
from retrieval.stores.qdrant import QdrantStore
from tests.contracts.points import DIMENSION, id_of, points_of, vector_of


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

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        rows = await super().passages(tenant, view)
        self.has_read.set()
        await self.go.wait()
        return rows


async def held() -> tuple[Held, OkapiStore]:
    inner = await Held.local(":memory:", collection="c", dimension=DIMENSION)
    inner.has_read, inner.go = asyncio.Event(), asyncio.Event()
    return inner, OkapiStore(inner)


async def test_what_is_written_while_the_index_is_made_is_found() -> None:
    inner, store = await held()
    await store.upsert("a@1", points_of(["pool", "pool"]))
    searching = asyncio.create_task(found(store, "pool"))
    await inner.has_read.wait()
    await store.upsert("a@1", points_of(["pool"], first=3))
    await store.delete("a@1", [id_of(2)])
    inner.go.set()
    await searching
    assert set(await found(store, "pool")) == {id_of(1), id_of(3)}
    await store.close()


async def test_an_index_overtaken_by_a_drop_is_not_kept() -> None:
    inner, store = await held()
    await store.upsert("a@1", points_of(["pool"]))
    searching = asyncio.create_task(found(store, "pool"))
    await inner.has_read.wait()
    await store.drop("a@1")
    await store.upsert("a@1", points_of(["pool"], first=2))
    inner.go.set()
    await searching
    assert await found(store, "pool") == [id_of(2)]
    await store.close()


class Refusing(QdrantStore):
    """Writes what it is given, then says that it failed."""

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        await super().upsert(tenant, points)
        raise IndexDown("no answer")


async def test_a_write_of_unknown_outcome_is_looked_up() -> None:
    store = OkapiStore(await Refusing.local(":memory:", collection="c", dimension=DIMENSION))
    assert await found(store, "pool") == []
    with pytest.raises(IndexDown):
        await store.upsert("a@1", points_of(["pool"]))
    assert await found(store, "pool") == [id_of(1)]
    await store.close()


async def test_many_searches_at_once_agree() -> None:
    store = await open_store()
    await store.upsert("a@1", points_of(["pool", "socket", "driver pool"]))
    answers = await asyncio.gather(*(found(store, "pool") for _ in range(8)))
    assert answers == [answers[0]] * 8
    assert set(answers[0]) == {id_of(1), id_of(3)}
    await store.close()
