"""Taking away: wholly, whatever interrupts it, and so that a new one of the same name starts from nothing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import event

from retrieval.errors import UnknownCollection, UnknownDocument
from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.documents import Document, DocumentInfo
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent


@pytest.fixture
async def index(data: Path) -> AsyncIterator[Index]:
    opened = await Index.open(plan_for(data), serving=False)
    yield opened
    await opened.close()


def page(number: int) -> Document:
    text = f"# Pump {number}\n\nThe pump number {number} is called Oskar{number}."
    return Document(f"{number}.md", f"Pump {number}", text, "markdown", 1.0)


async def learn(index: Index, name: str, count: int = 5) -> list[DocumentInfo]:
    await index.writing.learn([page(i) for i in range(count)], name, silent)
    return await index.library.documents(name, after="", limit=100)


async def found(index: Index, *names: str) -> set[str]:
    hits = (await index.search.retrieve(SearchRequest([Turn("user", "What is the pump called?")], names, k=50))).hits
    return {hit.passage.document for hit in hits}


async def test_a_document_goes_and_the_others_stay(index: Index) -> None:
    first, *others = await learn(index, "docs")
    assert await found(index, "docs") == {first.id, *(one.id for one in others)}
    await index.writing.delete_document(first.id)
    assert await index.library.documents("docs", after="", limit=100) == others
    assert await found(index, "docs") == {one.id for one in others}
    for again in (index.writing.delete_document(first.id), index.library.document(first.id)):
        with pytest.raises(UnknownDocument):
            await again
    (row,) = await index.library.collections()
    assert (row.documents, row.chunks) == (4, sum(one.chunks for one in others))


async def test_a_collection_goes_and_a_new_one_of_its_name_is_new(index: Index) -> None:
    gone = await learn(index, "docs")
    kept = await learn(index, "kept")
    await index.writing.delete_collection("docs")
    assert [row.name for row in await index.library.collections()] == ["kept"]
    for asked in (
        found(index, "docs"),
        index.library.documents("docs", after="", limit=1),
        index.writing.delete_collection("docs"),
    ):
        with pytest.raises(UnknownCollection):
            await asked
    for one in gone:
        with pytest.raises(UnknownDocument):
            await index.library.document(one.id)
    assert await found(index, "kept") == {one.id for one in kept}
    anew = await learn(index, "docs", 2)
    assert await found(index, "docs") == {one.id for one in anew}
    assert not {one.id for one in anew} & {one.id for one in gone}


async def test_many_documents_go_at_once_and_hidden_documents_stay(index: Index) -> None:
    given = [
        DocumentInput(f"pump{i}", f"pump{i}.md", page(i).text.encode(), groups=("hr",) if i == 7 else (), writer=None)
        for i in range(150)
    ]
    await index.writing.create_collection("docs", None)
    for at in (0, 75):
        await index.writing.put("docs", given[at : at + 75])
    commits: list[object] = []
    event.listen(index._catalog.engine, "commit", commits.append)
    assert await index.writing.detach("docs", ["pump0"]) == 1
    of_one, commits[:] = len(commits), []
    assert await index.writing.detach("docs", [*(one.key for one in given), "unknown"]) == 148
    assert len(commits) <= of_one * 2
    assert index._catalog.leftovers() == []
    (left,) = await index.library.documents("docs", after="", limit=9, groups=None)
    assert left.source == "pump7.md"
    assert await index._spaces.configured.store.count("docs@1") == left.chunks


async def test_a_collection_of_many_documents_goes_with_few_commits(index: Index) -> None:
    await learn(index, "docs", 250)
    commits: list[object] = []
    event.listen(index._catalog.engine, "commit", commits.append)
    await index.writing.delete_collection("docs")
    assert len(commits) < 20
    assert await index._spaces.configured.store.count("docs@1") == 0


async def test_what_was_interrupted_is_cleared_by_the_next_start(data: Path) -> None:
    """As killed right behind the transaction that takes the documents away."""
    index = await Index.open(plan_for(data), serving=False)
    gone = await learn(index, "docs")
    await learn(index, "kept", 1)
    index._catalog.empty("docs")
    await index.close()
    index = await Index.open(plan_for(data), serving=False)
    assert await index.library.documents("docs", after="", limit=9) == []
    assert await found(index, "docs", "kept") & {one.id for one in gone} == set()
    assert await index._spaces.configured.store.count("docs@1") == 0
    await index.writing.delete_collection("docs")
    assert [row.name for row in await index.library.collections()] == ["kept"]
    await index.close()


async def test_a_deletion_waits_for_the_writer(index: Index, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for i in range(3):
        (tmp_path / "notes" / f"{i}.md").write_text(page(i).text, "utf-8")
    deletions: list[asyncio.Task[None]] = []

    def progress(_done: int, _total: int, _chunks: int, _source: str) -> None:
        if not deletions:
            deletions.append(asyncio.create_task(index.writing.delete_collection("docs")))

    report = await index.writing.ingest([tmp_path / "notes"], "docs", progress)
    assert report.added == 3, "it was not disturbed"
    (deletion,) = deletions
    await deletion
    assert await index.library.collections() == []
