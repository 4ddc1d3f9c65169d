"""Two index processes' indexes over one PostgreSQL catalog and one Qdrant: what one writes, the other finds."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from retrieval.catalog import writers
from retrieval.catalog.catalog import Catalog
from retrieval.errors import Busy, IndexDown, RetrievalError, UnknownCollection
from retrieval.index.index import Index
from retrieval.index.vector_spaces import choice_of, chosen
from retrieval.ingest import job_runner
from retrieval.knowledge import EmbedderChoice, Plan, SearchRequest
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent
from tests.support.postgres_server import Postgres
from tests.support.recording_upstream import recording
from tests.support.served_qdrant import SharedQdrant
from tests.support.tiny_model import make_tiny_model

SEEN_S = 60.0  # docs/use/scaling.md promises two; a busy machine is slower


@pytest.fixture(scope="module")
def address() -> Iterator[Callable[[], str]]:
    """Serves an empty Qdrant each time; one at a time."""
    with recording() as recorder:
        yield lambda: SharedQdrant().serve(recorder)


@pytest.fixture
def plans(tmp_path: Path, tiny_model: Path, postgres: Postgres, address: Callable[[], str]) -> list[Plan]:
    """Two gateways that share everything but their data folders."""
    # No bound of relevance: the model knows nothing.
    shared = {"catalog.url": postgres.database(), "qdrant.url": address(), "retrieval.min_relevance": 0.0}
    return [plan_for(tmp_path / name, shared, model=str(tiny_model)) for name in ("one", "two")]


@contextlib.asynccontextmanager
async def opened(*plans: Plan) -> AsyncIterator[list[Index]]:
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for plan in plans:
            made.append(await Index.open(plan, serving=False))
            stack.push_async_callback(made[-1].close)
        yield made


def given(key: str, words: str) -> DocumentInput:
    return DocumentInput(key, f"{key}.md", words.encode(), format="markdown")


async def found(index: Index, question: str, collection: str = "docs") -> set[str]:
    """The texts that a question finds."""
    hits = (await index.search.retrieve(SearchRequest([Turn("user", question)], [collection], k=20))).hits
    return {hit.passage.text for hit in hits}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    began = time.monotonic()
    while not await holds():
        assert time.monotonic() < began + SEEN_S, "the other never saw it"
        await asyncio.sleep(0.05)


async def test_what_one_puts_replaces_and_deletes_the_other_finds(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        (placed,) = await one.writing.put("docs", [given("pump", "The pump is called Oskar.")])

        async def finds(*texts: str) -> bool:
            with contextlib.suppress(UnknownCollection):
                return await found(two, "pump") == set(texts)
            return False

        await until(lambda: finds("The pump is called Oskar."))
        assert (await two.library.document(placed.id)).text == "The pump is called Oskar."
        await one.writing.put("docs", [given("pump", "The pump is called Wilma.")])
        await until(lambda: finds("The pump is called Wilma."))
        await two.writing.put("docs", [given("valve", "The valve is not the pump.")])
        assert await found(one, "pump") == {"The pump is called Wilma.", "The valve is not the pump."}
        await two.writing.delete_document(placed.id)
        await until(lambda: finds("The valve is not the pump."))
        await one.writing.delete_collection("docs")

        async def gone() -> bool:
            with contextlib.suppress(UnknownCollection):
                await found(two, "pump")
                return False
            return True

        await until(gone)


async def test_a_new_revision_is_found_at_once_however_long_nobody_has_looked(plans: list[Plan]) -> None:
    """The search itself sees that a point is newer than what it knows: at no time is the document not there."""
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        await one.writing.put("docs", [given("pump", "The pump is called Oskar.")])
        await two.writing.put("docs", [given("valve", "A valve.")])
        assert await found(two, "pump") >= {"The pump is called Oskar."}
        two._replicas._watching.cancel()  # type: ignore[union-attr]
        for name in ("Wilma", "Berta", "Emil"):
            await one.writing.put("docs", [given("pump", f"The pump is called {name}.")])
            assert f"The pump is called {name}." in await found(two, "pump")


async def test_a_document_is_the_old_one_or_the_new_one_at_the_other(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        await one.writing.put("docs", [given("pump", "The pump has number 0.")])
        await until(lambda: _knows(two))
        done = asyncio.Event()

        async def write() -> None:
            for number in range(1, 30):
                await one.writing.put("docs", [given("pump", f"The pump has number {number}.")])
            done.set()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            while not done.is_set():
                assert len(await found(two, "pump")) <= 1
        assert await found(two, "pump") == {"The pump has number 29."}


async def _knows(index: Index) -> bool:
    with contextlib.suppress(UnknownCollection):
        return bool(await found(index, "pump"))
    return False


async def test_the_other_follows_a_rebuild_and_another_embedder(
    plans: list[Plan], corpus: Path, tmp_path: Path
) -> None:
    """Searches of the other find all the time; with another embedder as soon as it is loaded."""
    other = choice_of(
        chosen(
            plans[0], EmbedderChoice(str(make_tiny_model(tmp_path / "m", seed=1)), "auto", "auto", None, None, "", 0)
        )
    )
    async with opened(*plans) as (one, two):
        await one.writing.ingest([corpus], "docs", silent)
        whole = await found(one, "TLS")
        await until(lambda: _knows(two))
        rebuilding = asyncio.create_task(one.writing.rebuild("docs", silent))
        while not rebuilding.done():
            assert await found(two, "TLS") == whole
        await rebuilding
        assert await found(two, "TLS") == whole
        await one.writing.rebuild("docs", silent, embedder=other)

        async def follows() -> bool:
            return set(two._spaces._pinned) == {"docs"} and await found(two, "TLS") == await found(one, "TLS")

        await until(follows)


async def test_changes_that_are_kept_no_more_count_as_all(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        await until(lambda: _lists(two, "docs"))
        two._replicas._watching.cancel()  # type: ignore[union-attr]
        await one.writing.put("docs", [given("pump", "The pump.")])
        assert await found(two, "pump") == {"The pump."}
        (row,) = await one.library.documents("docs", after="", limit=1)
        await one.writing.delete_document(row.id)
        catalog = Catalog.connect(plans[0].catalog_url)
        with catalog.writing() as sql:
            sql.execute(text("DELETE FROM changes WHERE number < (SELECT max(number) FROM changes)"))
        catalog.close()
        await two._replicas.look()
        assert two._catalog.current([row.id]) == {}


async def test_the_fingerprint_of_another_process_s_document_is_known(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        await until(lambda: _lists(two, "docs"))
        assert await found(two, "pump") == set()
        await one.writing.put("docs", [given("pump", "The pump.")])
        await two._replicas.look()
        (row,) = await one.library.documents("docs", after="", limit=1)
        assert two._catalog.fingerprints([row.id]) == one._catalog.fingerprints([row.id]) != {}


async def _lists(index: Index, name: str) -> bool:
    return name in [row.name for row in await index.library.collections()]


# Writers


async def test_writers_of_two_processes_lose_nothing_and_leave_nothing(plans: list[Plan], corpus: Path) -> None:
    """Puts of the same keys, ingests and a rebuild by both at once; what is left is whole."""
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")

        async def put(index: Index, who: str) -> None:
            for number in range(12):
                await index.writing.put("docs", [given(f"d{number % 4}", f"Number {number} of {who}. " * 20)])

        await asyncio.gather(
            put(one, "one"),
            put(two, "two"),
            one.writing.ingest([corpus], "docs", silent),
            two.writing.ingest([corpus], "docs", silent),
            two.writing.rebuild("docs", silent),
        )
        rows = await one.library.documents("docs", after="", limit=100)
        assert sorted(row.key for row in rows if row.key) == ["d0", "d1", "d2", "d3"]
        assert len(rows) == 4 + 5
        catalog = one._catalog
        assert catalog.leftovers() == []
        await one._replicas.look()
        collection = catalog.collection("docs")
        assert await one._spaces.configured.store.count(collection.tenant) == catalog.chunks("docs")
        for index in (one, two):
            await index._replicas.look()
            texts = await found(index, "Number 11")
            assert texts
            for row in rows:
                assert (await index.library.document(row.id)).text


async def test_one_writer_of_a_collection_keeps_others_from_it_alone(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        for name in ("docs", "wiki"):
            await one.writing.create_collection(name, "en")
        async with one._writers.exclusive("docs"):
            with pytest.raises(Busy, match="another gateway is writing to the collection 'docs'"):
                async with two._writers.exclusive("docs", patience_s=0.1):
                    pass
            await two.writing.put("wiki", [given("pump", "The pump.")])
            waiting = asyncio.create_task(two.writing.put("docs", [given("pump", "The pump.")]))
            left = asyncio.create_task(two.writing.put("docs", [given("valve", "The valve.")]))
            assert not (await asyncio.wait({waiting}, timeout=0.3))[0]
            left.cancel()
        (placed,) = await waiting
        assert placed.state == "created"
        async with one._writers.exclusive("docs", patience_s=1):
            pass


async def test_who_no_longer_waits_gets_no_lock(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):

        async def write() -> None:
            async with two._writers.exclusive("docs"):
                raise AssertionError

        async with one._writers.exclusive("docs"):
            leaving = asyncio.create_task(write())
            await asyncio.wait({leaving}, timeout=0.3)
            leaving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leaving
        async with one._writers.exclusive("docs", patience_s=SEEN_S):
            pass


async def test_an_ingest_that_lost_its_turn_writes_no_more(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two), one._writers.turn("ingest", "docs"):
        with pytest.raises(Busy, match="another gateway is writing to the collection 'docs'"):
            async with two._writers._locked("ingest", "docs", 0.1):
                pass
        async with two._writers.exclusive("docs"):  # a put does not wait for the ingest
            pass
        held = turn_connection()
        with two._catalog.engine.connect() as sql:
            sql.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": held})
        async with two._writers.turn("ingest", "docs"):
            pass
        for _ in range(2):
            with pytest.raises(IndexDown):
                async with one._writers.exclusive("docs"):
                    raise AssertionError


def turn_connection() -> int:
    """Return the server's process of the running task's turn."""
    connection = writers._turn.get()
    assert connection is not None
    pid = connection.scalar(text("SELECT pg_backend_pid()"))
    connection.commit()
    return int(pid)


async def test_a_job_that_two_processes_run_is_written_once(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        id, making = one.writing.jobs.begin("docs"), one.writing.jobs.begin("docs")
        for number in range(20):
            one.writing.jobs.add(id, number, given(f"d{number}", ""), b"Number %d." % number)
        one.writing.jobs.queue(id)
        assert two.writing.jobs.recover(only_process=False) == ["docs"]
        for index in (one, two):
            index.writing.job_runner.schedule("docs")
        done = await one.library.finished_job(id)
        assert done.counts == {"created": 20}
        assert {one.state for one in done.documents} == {"created"}
        assert len(await two.library.documents("docs", after="", limit=100)) == 20
        one.writing.jobs.add(making, 0, given("later", "What is being made stays."), b"x")


async def test_a_job_that_another_process_left_is_written(plans: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "_ABANDONED_S", 0.2)
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        id = one.writing.jobs.begin("docs")
        one.writing.jobs.add(id, 0, given("pump", ""), b"The pump.")
        one.writing.jobs.queue(id)
        two.writing.job_runner.take_over()

        async def over() -> bool:
            return (await one.library.job(id)).state == "completed"

        await until(over)


async def test_a_document_that_ends_every_process_is_given_up_by_whichever_comes_next(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        id = one.writing.jobs.begin("docs")
        for place, key in enumerate(("poison", "pump")):
            one.writing.jobs.add(id, place, given(key, ""), b"The pump.")
        one.writing.jobs.queue(id)
        for index in (one, two, one):  # begun there, and never done
            assert index.writing.jobs.take(id) is not None
            two.writing.jobs.postpone(id, "it is another's turn")
        two.writing.job_runner.schedule("docs")
        done = await two.library.finished_job(id)
        assert [(row.key, row.state) for row in done.documents] == [("poison", "failed"), ("pump", "created")]
        assert "ended 3 times" in done.documents[0].reason


async def test_who_starts_leaves_what_is_being_written(plans: list[Plan]) -> None:
    """And clears what nobody writes any more."""
    async with opened(plans[0]) as (one,):
        await one.writing.create_collection("docs", "en")
        await one.writing.put("docs", [given("pump", "The pump.")])
        catalog = one._catalog
        (row,) = await one.library.documents("docs", after="", limit=1)
        async with one._writers.exclusive("docs"):
            collection = catalog.collection("docs")
            document = catalog.document(row.id, 1)
            written = catalog.stage(collection, "k", document, content_hash="", recipe="", chunks=1, generation=1)
            async with opened(plans[1]):
                assert catalog.leftovers() == [written]
        async with opened(plans[1]):
            assert catalog.leftovers() == []


async def test_a_writer_that_lost_its_lock_writes_no_more(plans: list[Plan]) -> None:
    async with opened(*plans) as (one, two):
        await one.writing.create_collection("docs", "en")
        await one.writing.put("docs", [given("pump", "The pump is called Oskar.")])
        catalog = one._catalog
        (row,) = await one.library.documents("docs", after="", limit=1)

        async def take() -> None:
            async with two._writers.exclusive("docs", patience_s=SEEN_S):
                pass

        async with one._writers.exclusive("docs"):
            with catalog.writing() as sql:
                pid = sql.scalar(text("SELECT pg_backend_pid()"))
            with two._catalog.engine.connect() as sql:
                sql.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            await asyncio.create_task(take())
            for _ in range(2):
                with pytest.raises(IndexDown):
                    catalog.retire(row.id)
        assert [one.id for one in await two.library.documents("docs", after="", limit=1)] == [row.id]
        await one.writing.put("docs", [given("valve", "The valve.")])  # over another connection, with the lock


async def test_an_index_in_a_data_folder_is_no_replica(plans: list[Plan]) -> None:
    alone = replace(plans[1], qdrant=replace(plans[1].qdrant, url=()))
    async with opened(plans[0]):
        with pytest.raises(RetrievalError, match="set the same qdrant.url for both gateways"):
            await Index.open(alone, serving=False)
    async with opened(alone) as (index,):
        await index.writing.create_collection("docs", "en")
        with pytest.raises(RetrievalError, match="set the same qdrant.url for both gateways"):
            await Index.open(plans[0], serving=False)


async def test_a_catalog_in_a_file_notes_nothing(tmp_path: Path, tiny_model: Path) -> None:
    async with opened(plan_for(tmp_path / "data", model=str(tiny_model))) as (index,):
        await index.writing.create_collection("docs", "en")
        await index.writing.put("docs", [given("pump", "The pump.")])
        with index._catalog.engine.connect() as sql:
            assert sql.execute(text("SELECT count(*) FROM changes")).scalar_one() == 0
