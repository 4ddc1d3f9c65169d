"""Documents as they are read: the current revision of each, page by page, never one that is being written."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from sqlalchemy import event

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from retrieval.catalog.revisions import Collection, Revision
from retrieval.errors import UnknownCollection, UnknownDocument
from retrieval.records.documents import Document


@pytest.fixture
def catalog(reopened: Callable[[], Catalog]) -> Iterator[Catalog]:
    opened = reopened()
    yield opened
    opened.close()


def made(catalog: Catalog, name: str) -> Collection:
    return catalog.create(name, embedder="tiny", probes=np.ones((4, 3), np.float32))


def stage(catalog: Catalog, collection: Collection, key: str, text: str) -> Revision:
    return catalog.stage(
        collection,
        f"/{key}",
        Document(key, f"Title of {key}", text, "markdown", 1.5),
        content_hash=text,
        recipe="r",
        chunks=2,
        generation=collection.generation,
    )


def test_pages_follow_one_another_to_the_end(catalog: Catalog) -> None:
    docs, other = made(catalog, "docs"), made(catalog, "other")
    for i in range(7):
        catalog.publish(stage(catalog, docs, f"{i}.md", "Größe 🎈" * i))
    catalog.publish(stage(catalog, other, "away.md", "elsewhere"))
    documents = DocumentReader(catalog)
    found, after = [], ""
    while page := documents.page("docs", after=after, limit=3):
        assert len(page) <= 3
        found += page
        after = page[-1].id
    assert found == documents.page("docs", after="", limit=100)
    sizes = {info.source: (info.chars, info.chunks, info.collection) for info in found}
    assert sizes == {f"{i}.md": (7 * i, 2, "docs") for i in range(7)}
    assert [info.id for info in found] == sorted(info.id for info in found)
    for info in found:
        assert documents.read(info.id).text == "Größe 🎈" * int(info.source[0])


def test_a_document_that_is_being_written_is_the_old_one_until_it_is_published(catalog: Catalog) -> None:
    docs, documents = made(catalog, "docs"), DocumentReader(catalog)
    first = stage(catalog, docs, "a.md", "old")
    assert documents.page("docs", after="", limit=9) == []
    with pytest.raises(UnknownDocument):
        documents.read(first.document)
    catalog.publish(first)
    second = stage(catalog, docs, "a.md", "new text")
    assert documents.read(first.document).text == "old"
    catalog.publish(second)
    (info,) = documents.page("docs", after="", limit=9)
    assert (info.id, info.chars) == (first.document, 8)
    assert documents.read(info.id).text == "new text"


def test_what_is_not_there_is_named(catalog: Catalog) -> None:
    with pytest.raises(UnknownCollection, match="there is no collection 'docs'"):
        DocumentReader(catalog).page("docs", after="", limit=1)
    with pytest.raises(UnknownDocument, match="there is no document 'x'"):
        DocumentReader(catalog).read("x")


@pytest.mark.parametrize(
    ("collections", "readable"),
    [
        (["red"], True),
        (["blue", "red"], True),
        (["*"], True),
        (["r*"], True),
        (["red*"], True),
        ([], False),
        (["blue"], False),
        (["R*"], False),
        (["Red"], False),
        (["r%"], False),
        (["_ed"], False),
        (["redder*"], False),
    ],
)
def test_a_document_is_read_in_collections_that_are_granted_alone(
    catalog: Catalog, collections: list[str], readable: bool
) -> None:
    revision = stage(catalog, made(catalog, "red"), "a.md", "text")
    catalog.publish(revision)
    if readable:
        assert DocumentReader(catalog).read(revision.document, None, collections).text == "text"
    else:
        with pytest.raises(UnknownDocument):
            DocumentReader(catalog).read(revision.document, None, collections)


def test_no_pattern_reads_a_document_of_the_gateways_own_collection(catalog: Catalog) -> None:
    revision = stage(catalog, made(catalog, ".actions"), "a.md", "text")
    catalog.publish(revision)
    for granted in ("*", ".*", ".a*"):
        with pytest.raises(UnknownDocument):
            DocumentReader(catalog).read(revision.document, None, [granted])


def test_a_forbidden_document_costs_what_an_absent_one_does(catalog: Catalog) -> None:
    """The time of an answer tells what it reads: so both must send the same statements, and read no row."""
    revision = stage(catalog, made(catalog, "blue"), "a.md", "x" * 1_000_000)
    catalog.publish(revision)
    documents, sent = DocumentReader(catalog), list[str]()
    absent = "0" * len(revision.document)
    event.listen(catalog.engine, "before_cursor_execute", lambda *call: sent.append(call[2]))
    statements = []
    for id in (revision.document, absent):
        sent.clear()
        with pytest.raises(UnknownDocument):
            documents.read(id, None, ["red", "team-*"])
        statements.append(list(sent))
    assert statements[0] == statements[1]
    assert len(statements[0]) == 1
