"""Pieces of stored texts: what the catalog holds, whether a document is small, large, kept or gone."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Revision
from retrieval.records.documents import Document
from retrieval.search.expand import Texts

SMALL = "Wärme und Kälte. " * 10
LARGE = "word " * 30_000


class Counted(Catalog):
    """Counts the documents and pieces read."""

    count_short = count_spans = 0

    def short_texts(self, documents: Sequence[str], *, max_chars: int) -> dict[tuple[str, int], str]:
        self.count_short += len(documents)
        return super().short_texts(documents, max_chars=max_chars)

    def spans(self, wanted: Sequence[tuple[str, int, int, int]]) -> list[str]:
        self.count_spans += len(wanted)
        return super().spans(wanted)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Counted]:
    plain = Catalog.open(tmp_path / "catalog.sqlite")
    plain.create("docs", embedder="x", probes=np.zeros((4, 2), np.float32))
    plain.close()
    opened = Counted(Catalog.open(tmp_path / "catalog.sqlite").lockable)
    yield opened
    opened.close()


def put(catalog: Catalog, key: str, text: str) -> Revision:
    staged = catalog.stage(
        catalog.collection("docs"),
        key,
        Document(key, key, text, "text", 1.0),
        content_hash=key,
        recipe="1",
        chunks=1,
        generation=1,
    )
    catalog.publish(staged)
    return staged


async def test_gives_the_pieces_of_small_and_large_documents_in_order(catalog: Counted) -> None:
    small, large = put(catalog, "a", SMALL), put(catalog, "b", LARGE)
    wanted = [
        (large.document, large.revision, 100_000, 100_010),
        (small.document, small.revision, 1, 8),
        (large.document, large.revision, 0, 4),
        (small.document, small.revision, 0, 10_000),
    ]
    pieces = [LARGE[100_000:100_010], SMALL[1:8], "word", SMALL]
    reader = Texts(catalog)
    assert await reader.spans(wanted) == pieces
    assert await reader.spans(wanted) == pieces
    assert catalog.count_spans == 4, "a large document is read again each time"


async def test_a_small_document_is_read_once(catalog: Counted) -> None:
    small = put(catalog, "a", SMALL)
    reader = Texts(catalog)
    for end in range(5):
        assert await reader.spans([(small.document, small.revision, 0, end)]) == [SMALL[:end]]
    assert catalog.count_short == 1


async def test_what_is_gone_is_empty(catalog: Counted) -> None:
    assert await Texts(catalog).spans([("nobody", 1, 0, 5)]) == [""]
    assert await Texts(catalog).spans([]) == []


async def test_keeps_no_more_than_it_may_and_forgets_the_longest_unasked(catalog: Counted) -> None:
    a, b, c = (put(catalog, key, SMALL) for key in "abc")
    reader = Texts(catalog, cache_chars=2 * len(SMALL))
    for one in (a, b, a, c):
        await reader.spans([(one.document, one.revision, 0, 5)])
    assert catalog.count_short == 3
    for one, read in ((a, 3), (c, 3), (b, 4)):
        await reader.spans([(one.document, one.revision, 0, 5)])
        assert catalog.count_short == read
