"""Concurrent writes to one collection: a write waits for other writes, and never for the reading of other documents."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from retrieval.errors import UnknownDocument
from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.jobs import DocumentInput, Job
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent

Children = Callable[[], list[BaseProcess]]

# Each line becomes a block: the reader needs tens of seconds of processor time for SLOW, and half a second for MEDIUM.
SLOW = b"--X\n" * 2_000_000
MEDIUM = b"--X\n" * 25_000


def given(key: str, content: bytes) -> DocumentInput:
    return DocumentInput(key, f"{key}.md", content, format="markdown")


@pytest.fixture
async def index(data: Path) -> AsyncIterator[Index]:
    opened = await Index.open(plan_for(data), serving=False)
    await opened.writing.create_collection("docs", "en")
    yield opened
    await opened.close()


async def found(index: Index, question: str) -> list[str]:
    hits = (await index.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=5))).hits
    return [hit.passage.source for hit in hits]


async def text(index: Index, key: str) -> str:
    return (await index.library.document(await index.library.find_document("docs", key))).text


async def start_job(index: Index, *documents: DocumentInput) -> Job:
    id = index.writing.jobs.begin("docs")
    for place, document in enumerate(documents):
        index.writing.jobs.add(id, place, document, document.content)
    index.writing.jobs.queue(id)
    index.writing.job_runner.schedule("docs")
    return index.writing.jobs.read(id, None)


async def until_reading(children: Children) -> None:
    await asyncio.sleep(0)  # the task begins
    while not children():  # noqa: ASYNC110 - a process has no event
        await asyncio.sleep(0)


async def assert_put_is_found(index: Index) -> None:
    (result,) = await index.writing.put("docs", [given("pump", b"The pump in hall 3 is called Oskar.")])
    assert result.state == "created"
    assert await found(index, "What is the pump in hall 3 called?") == ["pump.md"]


async def test_a_put_does_not_wait_for_the_file_that_an_ingest_reads(
    index: Index, children: Children, tmp_path: Path
) -> None:
    (tmp_path / "slow.md").write_bytes(SLOW)
    ingest = asyncio.create_task(index.writing.ingest([tmp_path / "slow.md"], "docs", silent))
    await until_reading(children)
    await assert_put_is_found(index)
    assert not ingest.done()
    ingest.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ingest


async def test_a_put_does_not_wait_for_the_document_that_a_job_reads(index: Index, children: Children) -> None:
    job = await start_job(index, given("slow", SLOW))
    await until_reading(children)
    await assert_put_is_found(index)
    assert not (await index.library.job(job.id)).over
    await index.writing.cancel_job(job.id)


async def test_a_put_whose_caller_leaves_during_the_reading_gives_its_place_up(
    index: Index, children: Children
) -> None:
    """A key with more slow puts than places: once the callers are gone, the key's next put is read."""
    puts = [asyncio.create_task(index.writing.put("docs", [given(f"slow{i}", SLOW)])) for i in range(10)]
    await until_reading(children)
    for put in puts:
        put.cancel()
    await asyncio.wait(puts)
    await assert_put_is_found(index)
    with pytest.raises(UnknownDocument):
        await index.library.find_document("docs", "slow0")


async def test_an_upload_does_not_wait_for_the_file_that_an_ingest_reads(
    index: Index, children: Children, tmp_path: Path
) -> None:
    (tmp_path / "slow.md").write_bytes(SLOW)
    ingest = asyncio.create_task(index.writing.ingest([tmp_path / "slow.md"], "docs", silent))
    await until_reading(children)
    job = await start_job(index, given("pump", b"The pump is called Oskar."))
    assert (await index.library.finished_job(job.id)).counts == {"created": 1}
    assert not ingest.done()
    ingest.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ingest


async def test_the_later_of_two_puts_of_a_document_wins(index: Index) -> None:
    """The earlier put takes longer to read."""
    earlier = asyncio.create_task(index.writing.put("docs", [given("a", b"A."), given("pump", MEDIUM)]))
    await asyncio.sleep(0)
    (later,) = await index.writing.put("docs", [given("pump", b"The pump is called Oskar.")])
    assert [result.state for result in await earlier] == ["created", "created"]
    assert later.state == "replaced"
    assert await text(index, "pump") == "The pump is called Oskar."
    assert index._catalog.leftovers() == []


async def test_a_put_wins_over_the_job_that_reads_an_earlier_version_of_the_document(
    index: Index, children: Children
) -> None:
    job = await start_job(index, given("pump", MEDIUM))
    await until_reading(children)
    await index.writing.put("docs", [given("pump", b"The pump is called Oskar.")])
    assert (await index.library.finished_job(job.id)).counts == {"created": 1}
    assert await text(index, "pump") == "The pump is called Oskar."


async def test_a_document_that_is_removed_while_a_job_reads_the_document_does_not_come_back(
    index: Index, children: Children
) -> None:
    job = await start_job(index, given("pump", MEDIUM), given("valve", b"The valve."))
    await until_reading(children)
    assert await index.writing.detach("docs", ["pump"])
    assert (await index.library.finished_job(job.id)).state == "completed"
    assert await text(index, "valve") == "The valve."
    with pytest.raises(UnknownDocument):
        await index.library.find_document("docs", "pump")


async def test_a_document_deleted_while_a_put_reads_the_next_version_is_created_again(
    index: Index, children: Children
) -> None:
    (first,) = await index.writing.put("docs", [given("pump", b"The pump.")])
    put = asyncio.create_task(index.writing.put("docs", [given("pump", b"The pump."), given("slow", MEDIUM)]))
    await until_reading(children)
    await index.writing.delete_document(first.id)
    assert {result.state for result in await put} == {"created"}
    assert await text(index, "pump") == "The pump."


async def test_a_put_that_was_read_before_a_rebuild_is_written_to_the_new_generation(
    index: Index, children: Children
) -> None:
    await index.writing.put("docs", [given("valve", b"The valve is green.")])
    put = asyncio.create_task(index.writing.put("docs", [given("slow", MEDIUM), given("pump", b"The pump is red.")]))
    await until_reading(children)
    await index.writing.rebuild("docs", silent)
    await put
    assert await found(index, "Which pump is red?")
    faults = await index.library.audit("docs")
    assert faults.searchable, faults
    assert not faults.orphaned


async def test_two_ingests_of_a_folder_at_once_write_each_file_once(index: Index, corpus: Path) -> None:
    reports = await asyncio.gather(*(index.writing.ingest([corpus], "docs", silent) for _ in range(2)))
    assert sorted((report.added, report.changed, report.unchanged) for report in reports) == [(0, 0, 5), (5, 0, 0)]
    assert index._catalog.leftovers() == []
