"""Files read in a child process: one answer to one question, whatever is cancelled or dies."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.prepare import File, InChild, Recipe

pytestmark = pytest.mark.models


def page(title: str) -> File:
    return File(Path(f"/{title}.md"), f"{title}.md", f"# {title}\n\nIts text.\n".encode(), 0.0)


@pytest.fixture
async def child(models: Path) -> AsyncIterator[InChild]:
    preparation = InChild(Recipe("all-MiniLM-L6-v2", "auto", models, 254, 32))
    yield preparation
    await preparation.close()


async def test_after_a_cancelled_question_the_next_gets_its_own_answer(child: InChild) -> None:
    asked = asyncio.ensure_future(child.split(page("First")))
    await asyncio.sleep(0)  # it is on its way, and its child is starting
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert (await child.split(page("Second"))).document.title == "Second"
    assert len(multiprocessing.active_children()) == 1


async def test_a_file_that_kills_its_reader_is_unreadable_and_the_next_is_read(child: InChild) -> None:
    await child.split(page("First"))
    (reader,) = multiprocessing.active_children()
    reader.kill()
    reader.join()
    with pytest.raises(Unreadable, match="process that read it died"):
        await child.split(page("Second"))
    assert (await child.split(page("Third"))).document.title == "Third"
