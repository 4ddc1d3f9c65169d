"""Texts embedded in a child process: one answer to one question, whatever is cancelled or dies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from retrieval.errors import RetrievalError
from retrieval.ingest.prepare import ChunkTexts, Preparation
from retrieval.ingest.splitting import EmbedderLimits
from tests.support.minilm import hashing
from tests.support.plans import recipe_for


@pytest.fixture
async def child(tmp_path: Path) -> AsyncIterator[Preparation]:
    recipe = recipe_for(tmp_path, chunk_tokens=254, overlap_tokens=32)
    preparation = Preparation(recipe, EmbedderLimits.of(hashing()), serving=True)
    yield preparation
    await preparation.close()


def texts(count: int) -> list[ChunkTexts]:
    return [ChunkTexts(f"text {i}", f"text {i}") for i in range(count)]


async def test_after_a_cancelled_question_the_next_gets_its_own_answer(
    child: Preparation, children: Callable[[], list[BaseProcess]]
) -> None:
    asked = asyncio.ensure_future(child.vectors(texts(3)))
    await asyncio.sleep(0)  # it is on its way, and its child is starting
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert len((await child.vectors(texts(2))).sparse) == 2
    assert len(children()) == 1


async def test_several_writers_take_turns(child: Preparation) -> None:
    found = await asyncio.gather(*(child.vectors(texts(count)) for count in (1, 2, 3, 4)))
    assert [(len(one.dense), len(one.sparse)) for one in found] == [(1, 1), (2, 2), (3, 3), (4, 4)]


async def test_a_child_that_died_is_said_and_the_next_question_has_another(
    child: Preparation, children: Callable[[], list[BaseProcess]]
) -> None:
    await child.vectors(texts(1))
    (process,) = children()
    process.kill()
    process.join()
    with pytest.raises(RetrievalError, match="embedding process died"):
        await child.vectors(texts(1))
    assert len((await child.vectors(texts(1))).sparse) == 1
