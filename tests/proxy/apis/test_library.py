"""Action sets with a real index: what an interruption leaves, and that the next reading mends it."""

import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import signal
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.apis.library import COLLECTION, ActionLibrary, ActionStore
from proxy.apis.specs import SpecReader, document_hash
from retrieval.errors import RetrievalError
from retrieval.index.index import Index
from retrieval.knowledge import Progress
from retrieval.records.search import ALL, Turn
from tests.support.gateway import PATIENCE_S
from tests.support.plans import READING, plan_for

COUNT = 150  # operations: more than are written at a time


def document(word: str, first: int = 0) -> bytes:
    """Operations from number `first` on, with the word in each description."""
    paths = {
        f"/things/{number}": {"get": {"operationId": f"op{number}", "summary": f"The {word} of thing {number}"}}
        for number in range(first, first + COUNT)
    }
    spec = {"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": paths}
    return json.dumps(spec).encode()


OLD, NEW = document("colour"), document("weight", first=120)


@contextlib.asynccontextmanager
async def opened(data: Path) -> AsyncIterator[tuple[ActionLibrary, Index]]:
    """The action sets of a data folder."""
    index, store = await Index.open(plan_for(data), serving=False), ActionStore(data)
    try:
        yield ActionLibrary(store, index, SpecReader(READING)), index
    finally:
        store.close()
        await index.close()


async def add(data: Path, raw: bytes, progress: Progress | None = None) -> None:
    async with opened(data) as (library, _):
        await library.add("set", raw, progress=progress)


async def texts(index: Index) -> dict[str, str]:
    """Name of each operation of the set -> title of the text, the summary of the operation."""
    rows = await index.library.documents(COLLECTION, after="", limit=1000, groups=None)
    return {row.key.removeprefix("set/"): row.title for row in rows if row.key != "set/"}


def _killed(data: Path, raw: bytes) -> None:
    asyncio.run(add(data, raw, lambda *_: os.kill(os.getpid(), signal.SIGKILL)))


def killed(data: Path, raw: bytes) -> None:
    """Add a document in a process that is killed after the first texts."""
    process = multiprocessing.get_context("spawn").Process(target=_killed, args=(data, raw))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


async def test_a_killed_add_leaves_the_old_operations_and_the_next_add_completes_the_texts(tmp_path: Path) -> None:
    await add(tmp_path, OLD)
    killed(tmp_path, NEW)
    async with opened(tmp_path) as (library, index):
        assert list(library.store.revisions("set")) == sorted(f"op{number}" for number in range(COUNT))
        left = library.store.find("set")
        assert left is not None
        assert left.document == "", "the next start of a gateway reads the document again"
        half = await texts(index)
        assert {title.split()[1] for title in half.values()} == {"colour", "weight"}
        assert len(half) > COUNT, "texts of both documents"
        found = (await library.find([Turn("user", "the weight of thing 130")], ["set"], k=5, view=ALL)).actions
        assert all("colour" in one.operation.summary for one in found)

        report = await library.add("set", OLD)  # the old document, by which no definition changes
        assert (report.added, report.changed, report.unchanged, report.removed) == (0, 0, COUNT, 0)
        mended = await texts(index)
        assert mended.keys() == library.store.revisions("set").keys()
    assert all("colour" in title for title in mended.values())


async def test_texts_of_a_killed_add_take_no_place_of_an_operation(tmp_path: Path) -> None:
    question = [Turn("user", "the colour of a thing")]
    await add(tmp_path, OLD)
    async with opened(tmp_path) as (library, _):
        before = (await library.find(question, ["set"], k=5, view=ALL)).actions
    assert len(before) == 5
    killed(tmp_path, document("colour", first=COUNT))  # other operations with the same words
    async with opened(tmp_path) as (library, _):
        found = (await library.find(question, ["set"], k=5, view=ALL)).actions
    assert len(found) == 5


async def test_operations_come_from_memory_until_their_set_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path) as (library, _):

        async def found() -> list[str]:
            answer = await library.find([Turn("user", "thing 130")], ["set"], k=5, view=ALL, rows=rows)
            return [one.operation.summary for one in answer.actions]

        await library.add("set", OLD)
        rows = {row.name: row for row in library.store.sets()}
        before = await found()
        file = tmp_path / "actions.db"
        file.rename(tmp_path / "away")
        assert await found() == before != []
        (tmp_path / "away").rename(file)
        await library.add("set", document("weight"))
        rows = {row.name: row for row in library.store.sets()}
        assert {summary.split()[1] for summary in await found()} == {"weight"}


@pytest.mark.parametrize("odd", ["a\0b", "\x01\x02\x03\x04", "\ufeff"], ids=["NUL", "controls", "mark"])
async def test_a_character_that_no_text_has_costs_no_operation(tmp_path: Path, odd: str) -> None:
    parameter = {"name": "p", "in": "query", "description": odd, "schema": {"type": "string", "enum": [odd]}}
    operation = {"operationId": "op", "summary": odd, "description": odd, "tags": [odd], "parameters": [parameter]}
    paths = {"/fine": {"get": {"operationId": "fine"}}, f"/{odd}": {"get": operation}}
    info = {"title": odd, "description": odd}
    spec = {"openapi": "3.1.0", "info": info, "servers": [{"url": "https://a.example"}], "paths": paths}
    async with opened(tmp_path) as (library, index):
        assert (await library.add("set", json.dumps(spec).encode())).added == 2
        assert {"set/fine", "set/op"} <= set(await index.library.keys_under(COLLECTION, "set/"))


@pytest.mark.parametrize("last", ["an add", "a removal"])
async def test_writings_of_two_processes_follow_each_other(tmp_path: Path, catalog_url: str, last: str) -> None:
    begun = asyncio.Event()
    index = await Index.open(plan_for(tmp_path), serving=False)
    stores = [ActionStore(tmp_path, catalog_url) for _ in range(2)]
    one, other = (ActionLibrary(store, index, SpecReader(READING)) for store in stores)
    await one.add("set", OLD)
    first = asyncio.create_task(one.add("set", NEW, progress=lambda *_: begun.set()))
    await begun.wait()
    await (other.add("set", OLD) if last == "an add" else other.remove("set"))
    await first
    left = await texts(index)
    assert left.keys() == stores[0].revisions("set").keys()
    assert {title.split()[1] for title in left.values()} == ({"colour"} if last == "an add" else set())
    for store in stores:
        store.close()
    await index.close()


async def test_a_cancelled_writing_lets_the_next_writing_begin(tmp_path: Path, catalog_url: str) -> None:
    stores = [ActionStore(tmp_path, catalog_url) for _ in range(2)]
    async with stores[0].turn("set"):
        waiting = asyncio.create_task(_turn(stores[1]))
        for _ in range(3):
            await asyncio.sleep(0.1)
            assert not waiting.done()
        waiting.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await _turn(stores[1])
        await _turn(stores[0])
    for store in stores:
        store.close()


async def _turn(store: ActionStore) -> None:
    async with store.turn("set"):
        pass


async def test_a_killed_first_add_leaves_no_set(tmp_path: Path) -> None:
    killed(tmp_path, OLD)
    async with opened(tmp_path) as (library, index):
        assert library.store.sets() == []
        assert (await library.find([Turn("user", "the colour of thing 3")], ["set"], k=5, view=ALL)).actions == []
        assert (await library.add("set", NEW)).added == COUNT
        assert (await texts(index)).keys() == library.store.revisions("set").keys()
        row = library.store.find("set")
        assert row is not None
        assert row.document == document_hash(NEW)


async def test_a_set_whose_texts_are_gone_gets_the_texts_again(tmp_path: Path) -> None:
    await add(tmp_path, OLD)
    async with opened(tmp_path) as (library, index):
        await index.writing.delete_collection(COLLECTION, None)
        assert (await library.add("set", OLD)).unchanged == COUNT
        assert len(await texts(index)) == COUNT


async def test_the_texts_of_a_dropped_description_and_a_dropped_api_text_go(tmp_path: Path) -> None:
    def spec(**members: str) -> bytes:
        operation = {"operationId": "op", **members}
        paths = {"/a": {"get": operation}}
        return json.dumps({"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": paths}).encode()

    async with opened(tmp_path) as (library, index):
        await library.add("set", spec(description="Lists the things."))
        assert set(await index.library.keys_under(COLLECTION, "set/")) == {"set/", "set/op", "set/op/description"}
        await library.add("set", spec())
        assert set(await index.library.keys_under(COLLECTION, "set/")) == {"set/", "set/op"}
        await library.remove("set")
        assert await index.library.keys_under(COLLECTION, "set/") == []


async def test_a_page_reads_the_operations_of_the_page_alone(tmp_path: Path) -> None:
    await add(tmp_path, OLD)
    store = ActionStore(tmp_path)
    everything = store.operations("set")
    with contextlib.closing(sqlite3.connect(tmp_path / "actions.db")) as sql:  # a definition that cannot be decoded
        sql.execute("update actions set definition = 'x' where name = ?", (everything[9].name,))
        sql.commit()
    assert store.operations("set", limit=9) == everything[:9]
    assert store.operations("set", after=everything[9].name, limit=COUNT) == everything[10:]
    assert store.operations("set", limit=0) == store.operations("other") == []
    store.close()


async def test_the_texts_of_a_half_removed_set_are_removed_by_the_next_removal(tmp_path: Path) -> None:
    await add(tmp_path, OLD)
    async with opened(tmp_path) as (library, index):
        library.store.remove("set")  # as far as a removal that was killed after the definitions
        assert (await library.find([Turn("user", "the colour of thing 3")], ["set"], k=5, view=ALL)).actions == []
        assert await library.remove("set")
        assert await texts(index) == {}
        assert not await library.remove("set")


async def test_a_full_disk_leaves_the_old_operations(tmp_path: Path) -> None:
    await add(tmp_path, OLD)
    async with opened(tmp_path) as (library, index):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))  # every further byte is refused
        try:
            with pytest.raises(RetrievalError, match="free space"):
                await library.add("set", NEW)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert list(library.store.revisions("set")) == sorted(f"op{number}" for number in range(COUNT))
        await library.add("set", NEW)
        assert (await texts(index)).keys() == library.store.revisions("set").keys()
