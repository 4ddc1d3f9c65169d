"""Documents read in processes of their own: limits, deaths and cancels concern that one document alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.prepare import sandbox as splitting_sandbox
from retrieval.ingest.splitting import EmbedderLimits, SourceFile, SplitDocument
from retrieval.records.documents import Document
from runtime.sandbox import Sandbox
from tests.support.minilm import hashing
from tests.support.plans import recipe_for

Reading = Sandbox[SourceFile | Document, SplitDocument]

# A block for each line: tens of seconds of a processor.
SLOW = SourceFile(Path("/Slow.md"), "Slow.md", b"--X\n" * 2_000_000, 0.0)


def page(title: str, text: str = "Its text.") -> SourceFile:
    return SourceFile(Path(f"/{title}.md"), f"{title}.md", f"# {title}\n\n{text}\n".encode(), 0.0)


def office_file(name: str) -> SourceFile:
    return SourceFile(Path(name), name, (Path(__file__).parent / "formats" / "office" / name).read_bytes(), 0.0)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Callable[..., Reading]]:
    """Makes one, with these limits."""
    made = list[Reading]()

    def make(seconds: float = 300, memory_mb: int = 2048, chunks: int = 50_000) -> Reading:
        limits: dict[str, Any] = {"max_read_s": seconds, "max_read_mb": memory_mb, "max_chunks": chunks}
        recipe = recipe_for(tmp_path, chunk_tokens=180, overlap_tokens=0, **limits)
        made.append(splitting_sandbox(recipe, EmbedderLimits.of(hashing())))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_one_process_reads_one_document_after_the_other(
    sandbox: Callable[..., Reading], children: Callable[[], list[BaseProcess]]
) -> None:
    reading = sandbox()
    first = await reading.run(page("First"))
    assert [chunk.text for chunk in first.chunks] == ["# First\n\nIts text."]
    (reader,) = children()
    assert (await reading.run(first.document)).document.title == "First"
    assert children() == [reader]


async def test_an_office_file_is_read_there(sandbox: Callable[..., Reading]) -> None:
    read = await sandbox().run(office_file("handbook.docx"))
    assert [chunk.headings for chunk in read.chunks if "450" in chunk.text] == [("Pumps",)]
    with pytest.raises(Unreadable, match="damaged"):
        await sandbox().run(replace(office_file("handbook.docx"), data=b"PK"))


async def test_after_a_cancelled_document_the_next_gets_its_own_answer(
    sandbox: Callable[..., Reading], children: Callable[[], list[BaseProcess]]
) -> None:
    reading = sandbox()
    for wait_s in (0.0, 0.05, 2.0):  # its process is about to start, starts, or reads
        asked = asyncio.ensure_future(reading.run(SLOW))
        await asyncio.sleep(wait_s)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (await reading.run(page("Second"))).document.title == "Second"
    assert len(children()) <= 2  # and none of those that were cancelled


async def test_what_takes_too_long_is_refused_and_its_process_killed(sandbox: Callable[..., Reading]) -> None:
    reading = sandbox(seconds=1.5)
    with pytest.raises(Unreadable, match=r"takes longer than 1.5 s to read.*ingest.max_read_s"):
        await reading.run(SLOW)
    assert not reading._idle
    assert (await reading.run(page("Next"))).document.title == "Next"


async def test_a_slow_document_keeps_no_other_waiting(sandbox: Callable[..., Reading]) -> None:
    reading = sandbox()
    slow = asyncio.ensure_future(reading.run(SLOW))
    assert (await reading.run(page("Other"))).document.title == "Other"
    assert not slow.done()
    slow.cancel()


async def test_slow_documents_of_an_owner_keep_no_other_owner_waiting(sandbox: Callable[..., Reading]) -> None:
    reading = sandbox()
    slow = [asyncio.ensure_future(reading.run(SLOW, owner="a")) for _ in range(20)]
    assert (await reading.run(page("Other"), owner="b")).document.title == "Other"
    assert not any(one.done() for one in slow)
    for one in slow:
        one.cancel()
    await asyncio.wait(slow)
    assert (await reading.run(page("Next"), owner="a")).document.title == "Next"


async def test_a_caller_may_wait_less_than_the_limit(sandbox: Callable[..., Reading]) -> None:
    reading = sandbox()
    with pytest.raises(Unreadable, match=r"takes longer than 1.5 s to read.*upload it as a file, which may take 300 s"):
        await reading.run(SLOW, most_s=1.5, too_slow="upload it as a file, which may take 300 s")
    assert (await reading.run(page("Next"), most_s=1.5)).document.title == "Next"


async def test_what_takes_too_much_memory_is_refused(sandbox: Callable[..., Reading]) -> None:
    reading = sandbox(memory_mb=128)
    with pytest.raises(
        Unreadable, match="needs too much memory or too deep nesting to read|reading process died twice"
    ):
        await reading.run(page("Large", "word " * 22_000_000))
    assert (await reading.run(page("Next"))).document.title == "Next"


async def test_what_makes_too_many_chunks_is_refused(sandbox: Callable[..., Reading]) -> None:
    reading = sandbox(chunks=3)
    with pytest.raises(Unreadable, match=r"makes \d+ chunks, the limit is 3.*ingest.max_chunks"):
        await reading.run(page("Long", "\n\n".join(["some words " * 90] * 20)))
    assert (await reading.run(page("Short"))).document.title == "Short"


async def test_a_document_is_tried_again_where_its_process_died(
    sandbox: Callable[..., Reading], children: Callable[[], list[BaseProcess]]
) -> None:
    """Once: something else may have taken the memory."""
    reading = sandbox()
    await reading.run(page("First"))
    (reader,) = children()
    reader.kill()
    reader.join()
    assert (await reading.run(page("Second"))).document.title == "Second"


async def test_a_document_that_kills_every_process_is_unreadable(
    sandbox: Callable[..., Reading], children: Callable[[], list[BaseProcess]]
) -> None:
    reading = sandbox()
    asked = asyncio.ensure_future(reading.run(SLOW))
    killed = set()
    while not asked.done():
        for reader in children():
            killed.add(reader.pid)
            reader.kill()
        await asyncio.sleep(0.05)
    with pytest.raises(Unreadable, match="reading process died twice"):
        await asked
    assert len(killed) == 2
    assert (await reading.run(page("Next"))).document.title == "Next"
