"""Jobs: documents that wait in the catalog, are written one after the other, and survive whatever ends the index."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.file_store import UploadedFiles
from retrieval.catalog.job_store import Jobs, JobTask
from retrieval.errors import IndexDown, RetrievalError, UnknownCollection, UnknownFile, UnknownJob
from retrieval.index.index import Index
from retrieval.index.spool import Spool, read
from retrieval.ingest import job_runner
from retrieval.knowledge import SearchRequest
from retrieval.records.documents import Groups
from retrieval.records.jobs import DocumentInput, Job, WriteResult
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent


def given(number: int, text: str = "", **said: object) -> DocumentInput:
    content = (text or f"The pump number {number} is called Oskar{number}.").encode()
    return DocumentInput(f"{number}.md", f"{number}.md", content, **said)  # type: ignore[arg-type]


async def start(index: Index, data: Path, collection: str, *of: DocumentInput) -> Job:
    """A job of these, uploaded as a gateway does it."""
    spool = Spool(data)
    for number, one in enumerate(of):
        spool.append(number, one.content)
    given = [DocumentInput(one.key, one.source, b"", one.title) for one in of]
    try:
        return await index.writing.start_job(collection, given, [spool.name(i) for i in range(len(of))])
    finally:
        spool.close()


@pytest.fixture
async def index(data: Path) -> AsyncIterator[Index]:
    opened = await Index.open(plan_for(data), serving=False)
    await opened.writing.create_collection("docs", "en")
    yield opened
    await opened.close()


async def texts(index: Index, name: str = "docs") -> set[str]:
    return {
        (await index.library.document(one.id)).text for one in await index.library.documents(name, after="", limit=100)
    }


async def test_a_job_is_written_and_tells_what_became_of_each(index: Index, data: Path) -> None:
    job = await start(index, data, "docs", given(1), given(2, "\0"), given(3))
    assert (job.state, job.counts) == ("queued", {"waiting": 3})
    over = await index.library.finished_job(job.id)
    assert (over.state, over.counts) == ("completed", {"created": 2, "failed": 1})
    assert [one.state for one in over.documents] == ["created", "failed", "created"]
    assert "binary" in over.documents[1].reason
    assert over.documents[0].id == await index.library.find_document("docs", "1.md")
    hits = (
        await index.search.retrieve(SearchRequest([Turn("user", "What is pump number 3 called?")], ["docs"], k=9))
    ).hits
    assert any("Oskar3" in hit.passage.text for hit in hits)
    again = await index.library.finished_job((await start(index, data, "docs", given(1), given(3, "New."))).id)
    assert again.counts == {"unchanged": 1, "replaced": 1}
    assert [one.id for one in await index.library.jobs(["docs"], before="", limit=9)] == [again.id, job.id]
    assert [one.id for one in await index.library.jobs(["docs"], before=again.id, limit=9)] == [job.id]
    assert await index.library.jobs(["other"], before="", limit=9) == []
    failed = await index.library.finished_job((await start(index, data, "docs", given(4, "\0"))).id)
    assert failed.state == "failed"


async def test_a_job_and_an_ingest_wait_for_the_writer_of_their_collection(
    index: Index, data: Path, corpus: Path
) -> None:
    async with index.writing._writers.exclusive("docs"):
        job = await start(index, data, "docs", given(1))
        ingest = asyncio.create_task(index.writing.ingest([corpus], "docs", silent))
        await asyncio.sleep(0)
        assert (await index.library.job(job.id)).state in ("queued", "running")  # a running job reads documents
        assert len(await texts(index)) == 0, "nothing is written beside another writer"
    assert (await ingest).added == 5
    assert (await index.library.finished_job(job.id)).state == "completed"
    assert len(await texts(index)) == 6


async def test_a_cancelled_job_stops_within_a_document(index: Index, data: Path) -> None:
    """What was begun of a document is nowhere, and the next job is written."""
    put, begun, stopped = index.writing.job_runner._put, asyncio.Event(), asyncio.Event()

    async def endless(collection: str, one: DocumentInput, wanted: Callable[[], bool]) -> WriteResult | None:
        if one.key == given(9).key:
            return await put(collection, one, wanted)
        begun.set()
        try:
            return await asyncio.Future()
        finally:
            stopped.set()

    index.writing.job_runner._put = endless
    async with index.writing._writers.exclusive("docs"):
        job = await start(index, data, "docs", *(given(i) for i in range(4)))
        second = await start(index, data, "docs", given(9))
    await begun.wait()
    cancelled = await index.writing.cancel_job(job.id)
    assert (cancelled.state, cancelled.counts) == ("cancelled", {"cancelled": 4})
    await stopped.wait()
    assert (await index.library.finished_job(second.id)).state == "completed"
    job = await index.library.job(job.id)
    assert (job.state, job.counts) == ("cancelled", {"cancelled": 4})
    assert len(await texts(index)) == 1
    assert (await index.writing.cancel_job(second.id)).state == "completed"
    with pytest.raises(UnknownJob):
        await index.writing.cancel_job("job-none")


async def test_whoever_writes_long_to_one_collection_keeps_no_other_waiting(index: Index, data: Path) -> None:
    await index.writing.create_collection("other", "en")
    async with index.writing._writers.exclusive("docs"):  # for as long as the other takes
        assert [one.state for one in await index.writing.put("other", [given(1)])] == ["created"]
        job = await index.library.finished_job((await start(index, data, "other", given(2))).id)
        assert job.counts == {"created": 1}


async def test_a_job_goes_with_its_collection(index: Index, data: Path) -> None:
    async with index.writing._writers.exclusive("docs"):
        job = await start(index, data, "docs", given(1), given(2))
        waiting = asyncio.create_task(index.library.finished_job(job.id))
        deleting = asyncio.create_task(index.writing.delete_collection("docs"))
        await asyncio.sleep(0)
    await deleting
    with pytest.raises(UnknownJob):
        await waiting
    await index.writing.create_collection("docs", "en")
    assert await texts(index) == set()
    assert await index.library.jobs(["docs"], before="", limit=9) == []
    with pytest.raises(UnknownCollection):
        await start(index, data, "none", given(1))


def test_what_is_written_behind_the_end_of_an_upload_is_nowhere(tmp_path: Path) -> None:
    """A request that was cancelled leaves a thread that writes."""
    uploading = Spool(tmp_path)
    uploading.append(0, b"a page")
    uploading.close()
    uploading.append(0, b" and more")
    uploading.append(1, b"another")
    assert list((tmp_path / "spool").iterdir()) == []


async def test_what_a_restart_interrupted_goes_on(data: Path) -> None:
    index = await Index.open(plan_for(data), serving=False)
    await index.writing.create_collection("docs", "en")
    await index.writing._writers.exclusive("docs").__aenter__()
    job = await start(index, data, "docs", given(1), given(2))
    uploading, left = Spool(data), data / "spool" / ("0" * 32)
    left.mkdir()
    (left / "0").write_text("a gateway that died left this", "utf-8")
    await index.close()
    index = await Index.open(plan_for(data), serving=True)
    over = await index.library.finished_job(job.id)
    assert (over.state, over.counts) == ("completed", {"created": 2})
    assert [folder.name for folder in (data / "spool").iterdir()] == [uploading.name(0).partition("/")[0]]
    uploading.close()
    assert list((data / "spool").iterdir()) == []
    await index.close()


async def test_an_upload_that_cannot_be_read_makes_no_job(index: Index) -> None:
    for name in ("0" * 32 + "/0", "../catalog.sqlite"):
        with pytest.raises(RetrievalError, match="upload"):
            await index.writing.start_job("docs", [given(1), given(2)], [name, name])
    assert await index.library.jobs(["docs"], before="", limit=9) == []


async def test_what_may_pass_is_tried_again_and_anything_else_fails_the_job(
    index: Index, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "_RETRY_S", 0.01)
    put, away = index.writing.job_runner._put, IndexDown("the store is away")
    refusals = [away, away, away, away, RetrievalError("of another embedder")]
    reasons = list[tuple[str, str]]()

    async def refusing(collection: str, one: DocumentInput, wanted: Callable[[], bool]) -> WriteResult | None:
        now, *_ = await index.library.jobs(["docs"], before="", limit=9)
        reasons.append((now.state, now.reason))
        if refusals:
            raise refusals.pop(0)
        return await put(collection, one, wanted)

    index.writing.job_runner._put = refusing
    over = await index.library.finished_job((await start(index, data, "docs", given(1))).id)
    assert (over.state, over.reason, over.counts) == ("failed", "of another embedder", {"failed": 1})
    assert [reason for _, reason in reasons] == ["", *["ragway retries every 0.01 s: the store is away"] * 4]
    assert (await index.library.finished_job((await start(index, data, "docs", given(1))).id)).state == "completed"


def probes() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.eye(4, dtype=np.float32)


def test_jobs_are_kept_in_both_databases(reopened: Callable[[], Catalog]) -> None:
    catalog = reopened()
    for name in ("docs", "other"):
        catalog.create(name, embedder="tiny", probes=probes())
    jobs = Jobs(catalog)
    id, never = jobs.begin("docs"), jobs.begin("other")
    said = DocumentInput("a", "a.txt", b"", "Title", "text", 1.5, {"year": 2024, "tags": ["x"]}, ("hr",), "markdown")
    jobs.add(id, 0, said, b"\0\xff")
    jobs.add(id, 1, DocumentInput("file-gone", "b.md", b""), None)
    with pytest.raises(UnknownJob):
        jobs.read(id)
    jobs.queue(id)
    assert jobs.next("docs") == id
    catalog.close()
    catalog = reopened()
    jobs = Jobs(catalog)
    assert jobs.recover() == ["docs"]
    with pytest.raises(UnknownCollection):
        jobs.add(never, 0, said, b"")
    task = jobs.take(id)
    assert task is not None
    assert (task.place, task.obstacle) == (0, "")
    assert task.given == DocumentInput(
        **{**{name: getattr(said, name) for name in said.__slots__}, "content": b"\0\xff"}
    )
    assert jobs.read(id).state == "running"
    jobs.done(id, 0, WriteResult("a", "created", "x"))
    task = jobs.take(id)
    assert task is not None
    assert "deleted" in task.obstacle
    jobs.done(id, 1, WriteResult("file-gone", "failed", reason=task.obstacle))
    assert jobs.take(id) is None
    jobs.finish(id)
    job = jobs.read(id)
    assert (job.state, job.counts) == ("completed", {"created": 1, "failed": 1})
    catalog.remove("docs")
    with pytest.raises(UnknownJob):
        jobs.read(id)
    catalog.close()


def test_a_document_is_given_up_that_ended_the_index_three_times(reopened: Callable[[], Catalog]) -> None:
    """And not one that was put back, nor for what ended at another document."""
    catalog = reopened()
    catalog.create("docs", embedder="tiny", probes=probes())
    jobs = Jobs(catalog)
    id = jobs.begin("docs")
    for place in range(2):
        jobs.add(id, place, given(place), b"x")
    jobs.queue(id)

    def taken() -> JobTask:
        task = Jobs(catalog).take(id)  # as another process does
        assert task is not None
        return task

    for _ in range(4):
        assert taken().obstacle == ""
        jobs.put_back(id)
        jobs.postpone(id, "the store is away")
        jobs.requeue_all()
    for _ in range(2):
        assert taken().obstacle == ""
    jobs.done(id, taken().place, WriteResult("a", "created", "x"))
    for _ in range(3):
        task = taken()
        assert (task.place, task.obstacle) == (1, "")
    assert "3 times" in taken().obstacle
    catalog.close()


def test_a_page_is_filled_with_what_its_reader_may_see(reopened: Callable[[], Catalog]) -> None:
    catalog = reopened()
    catalog.create("docs", embedder="tiny", probes=probes())
    jobs = Jobs(catalog)
    writers: list[Groups] = [(), ("hr",), ("hr", "ops"), None]
    ids = []
    for at in range(12):
        ids.append(jobs.begin("docs", writers[at % 4]))
        jobs.add(ids[-1], 0, DocumentInput(f"file-{at}", "a.md", b"x"), b"x")
        jobs.queue(ids[-1])
    for groups, of in (
        ((), {0}),
        (("hr",), {0, 1}),
        (("ops", "hr", "it"), {0, 1, 2}),
        (("ops",), {0}),
        (None, {0, 1, 2, 3}),
    ):
        seen = [id for at, id in enumerate(ids) if at % 4 in of][::-1]
        assert [one.id for one in jobs.page(["docs"], before="", limit=2, groups=groups)] == seen[:2]
        assert [one.id for one in jobs.page(["docs"], before=seen[1], limit=99, groups=groups)] == seen[2:]
        assert {one.key for one in jobs.unfinished_attachments(["docs"], groups)} == {
            f"file-{ids.index(id)}" for id in seen
        }
        assert jobs.page(["other"], before="", limit=9, groups=groups) == []
    assert not jobs.forget("docs", ["file-1"], ("ops",))
    assert jobs.forget("docs", ["file-1"], ("hr",))
    catalog.close()


def test_files_and_what_is_attached_are_kept_in_both_databases(reopened: Callable[[], Catalog]) -> None:
    catalog = reopened()
    catalog.create("docs", embedder="tiny", probes=probes())
    files, jobs = UploadedFiles(catalog), Jobs(catalog)
    content = bytes(range(256)) * 3
    file, empty = files.add("red", "a.md", "assistants", content), files.add("red", "b.md", "assistants", b"")
    assert files.page("red", "", after="", limit=9, newest_first=True) == [empty, file]
    assert files.page("red", "assistants", after=file.id, limit=9, newest_first=False) == [empty]
    assert files.part(file.id, "red", 700, 1000) == content[700:]
    assert files.part(empty.id, "red", 0, 10) == b""
    assert files.page("blue", "", after="", limit=9, newest_first=True) == files.find([file.id], "blue") == []
    for refused in (lambda: files.part(file.id, "blue", 0, 9), lambda: files.delete(file.id, "blue")):
        with pytest.raises(UnknownFile):
            refused()
    id = jobs.begin("docs")
    for place, one in enumerate((file, empty)):
        jobs.add(id, place, DocumentInput(one.id, one.name, b""), None)
    jobs.queue(id)
    task = jobs.take(id)
    assert task is not None
    assert (task.given.content, task.obstacle) == (content, "")
    jobs.done(id, 0, WriteResult(file.id, "failed", reason="because"))
    rows = {one.key: (one.collection, one.state, one.reason) for one in jobs.unfinished_attachments(["docs"])}
    assert rows == {file.id: ("docs", "failed", "because"), empty.id: ("docs", "waiting", "")}
    assert jobs.unfinished_attachments(["other"]) == []
    assert jobs.collections_with(empty.id) == ["docs"]
    assert jobs.forget("docs", [empty.id])
    assert not jobs.forget("docs", [empty.id])
    assert jobs.take(id) is None
    files.delete(file.id, "red")
    assert files.find([file.id, empty.id], "red") == [empty]
    catalog.close()


def test_the_spool_takes_no_names_of_others(data: Path) -> None:
    (data / "secret").write_text("x", "utf-8")
    for name in ("../secret", "..", "", "0" * 32, "0" * 32 + "/../../secret"):
        with pytest.raises(RetrievalError, match="not the name"):
            read(data, name, max_bytes=10)
    spool = Spool(data)
    spool.append(7, b"12345678901")
    with pytest.raises(RetrievalError, match="larger"):
        read(data, spool.name(7), max_bytes=10)
    assert read(data, spool.name(7), max_bytes=11) == b"12345678901"
    spool.close()
