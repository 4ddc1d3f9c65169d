"""Points that a Qdrant server lost: found, named with the remedy, and written again while the index is in use.

The server is qdrant-client's local mode behind HTTP.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from retrieval.errors import Incomplete, RetrievalError
from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent
from tests.support.recording_upstream import recording
from tests.support.served_qdrant import SharedQdrant

ASKED = [Turn("user", "Which pump is blue?")]
Lose = Callable[[str], None]


@pytest.fixture
def server() -> Iterator[str]:
    with recording() as recorder:
        yield SharedQdrant().serve(recorder)


@pytest.fixture
async def index(tmp_path: Path, server: str) -> AsyncIterator[Index]:
    opened = await Index.open(plan_for(tmp_path, {"qdrant.url": server}), serving=False)
    for name in ("docs", "wiki"):
        page = tmp_path / f"{name}.md"
        page.write_text(f"# Pumps of {name}\n\nThe blue pump is called Zephyr.\n")
        await opened.writing.ingest([page], name, silent)
    assert await opened.library.problems() == []
    yield opened
    await opened.close()


def collection_of(server: str) -> str:
    return f"{server}/collections/ragway-hash-256"


def deleted(server: str) -> None:
    assert httpx.delete(collection_of(server)).status_code == 200


def emptied(server: str) -> None:
    every = {"filter": {"must_not": [{"has_id": ["00000000-0000-0000-0000-000000000000"]}]}}
    assert httpx.post(f"{collection_of(server)}/points/delete", json=every).status_code == 200


async def found(index: Index, name: str) -> int:
    return len((await index.search.retrieve(SearchRequest(ASKED, [name], k=3))).hits)


@pytest.mark.parametrize("lose", [deleted, emptied])
async def test_a_lost_index_is_named_and_rebuilt_while_in_use(index: Index, server: str, lose: Lose) -> None:
    assert await found(index, "docs") == await found(index, "wiki") == 1
    lose(server)
    if lose is deleted:
        with pytest.raises(RetrievalError, match="ragway rebuild"):
            await index.search.retrieve(SearchRequest(ASKED, ["docs"], k=3))
    said = ["the index of the collections 'docs', 'wiki' is incomplete: run `ragway rebuild docs wiki`"]
    assert await index.library.problems() == said
    with pytest.raises(Incomplete, match="run `ragway rebuild docs`"):
        await index.search.retrieve(SearchRequest(ASKED, ["docs"], k=3))
    assert (await index.library.audit("docs")).missing == 1

    await index.writing.rebuild("docs", silent)
    assert await found(index, "docs") == 1
    said = ["the index of collection 'wiki' is incomplete: run `ragway rebuild wiki`"]
    assert await index.library.problems() == said  # the other collection never passes for an empty one
    with pytest.raises(Incomplete):
        await index.search.retrieve(SearchRequest(ASKED, ["wiki"], k=3))
    await index.writing.rebuild("wiki", silent)
    assert await found(index, "wiki") == 1
    assert await index.library.problems() == []
    assert (await index.library.audit("wiki")).searchable


async def test_a_rebuild_is_enough_though_nobody_searched_since_the_loss(index: Index, server: str) -> None:
    deleted(server)
    await index.writing.rebuild("docs", silent)
    assert await found(index, "docs") == 1
    with pytest.raises(Incomplete):
        await index.search.retrieve(SearchRequest(ASKED, ["wiki"], k=3))


async def test_a_document_written_after_a_loss_does_not_hide_the_loss(index: Index, server: str) -> None:
    deleted(server)
    await index.writing.put("docs", [DocumentInput("new", "new.md", b"The red pump is called Boreas.")])
    with pytest.raises(Incomplete):
        await index.search.retrieve(SearchRequest(ASKED, ["docs"], k=3))
    await index.writing.rebuild("docs", silent)
    assert await found(index, "docs") == 2
