"""Reading what was found: as little as fills the context, as much as it takes, and nothing that is not current."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from retrieval.catalog import Catalog, Collection, point_id
from retrieval.embed import Embedder, probe
from retrieval.export import open_embedder
from retrieval.knowledge import SearchOptions
from retrieval.records import Document, Passage, Point, Retrieved, Turn
from retrieval.search.pipeline import Retriever
from retrieval.stores.edge import EdgeStore
from retrieval.terms import document_vector

OPTIONS = SearchOptions(
    rewrite=False, candidates=50, rrf_k=60, min_cosine=-1.0, min_bm25=0.0, k=3, budget_tokens=1000
)  # fmt: skip


class Counted(EdgeStore):
    """Counts the passages read."""

    count_read = 0

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        self.count_read += len(ids)
        return await super().read(ids)


class Library:
    """A collection in which a test puts what it likes."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.catalog = Catalog.open(folder / "catalog.sqlite")
        self.store = Counted.open(folder / "shard", dimension=embedder.dimension)
        self.collection: Collection = self.catalog.create("docs", embedder=embedder.name, probes=probe(embedder))
        self._embedder = embedder

    async def put(self, texts: Sequence[str], *, key: str = "page", published: bool = True, tokens: int = 10) -> None:
        """A document whose chunks are these texts, already written or about to be."""
        document = Document(f"{key}.md", key, "\n".join(texts), "markdown", 1.0)
        staged = self.catalog.stage(
            self.collection, key, document, content_hash="1", recipe="1", chunks=len(texts), generation=1
        )
        vectors = self._embedder.embed_documents(texts)
        points = [
            Point(
                point_id(staged.tenant, staged.document, staged.revision, i),
                Passage(staged.document, staged.revision, i, key, f"{key}.md", 1.0, (), 0, len(text), text, tokens),
                np.asarray(vectors[i], np.float32), document_vector(text),
            )
            for i, text in enumerate(texts)
        ]  # fmt: skip
        await self.store.upsert(staged.tenant, points)
        if published:
            for old in self.catalog.publish(staged):
                await self.store.delete(old.tenant, old.point_ids())
                self.catalog.forget(old)

    async def ask(self, question: str, *, k: int | None = None) -> Retrieved:
        retriever = Retriever(self.catalog, self.store, self._embedder, OPTIONS, probes=probe(self._embedder))
        return await retriever.retrieve([Turn("user", question)], ["docs"], k=k)


@pytest.fixture
async def library(tiny_model: Path, tmp_path: Path) -> AsyncIterator[Library]:
    opened = Library(tmp_path, open_embedder(str(tiny_model), backend="auto", threads=1, cache=tmp_path / "models"))
    yield opened
    await opened.store.close()
    opened.catalog.close()


def texts(found: Retrieved) -> list[str]:
    return [passage.text for passage in found.context.passages]


async def test_reads_no_more_passages_than_the_context_takes(library: Library) -> None:
    await library.put([f"use tls with driver number{i} of page{i} and session{i}" for i in range(40)])
    found = await library.ask("use tls")
    assert (len(found.context.passages), len(found.hits), found.context.dropped) == (3, 3, 37)
    assert library.store.count_read == 3


async def test_reads_on_where_the_first_say_the_same(library: Library) -> None:
    await library.put(["use tls with the java driver"] * 20 + ["open a session in kotlin", "the office dog is called"])
    found = await library.ask("use tls with the java driver")
    assert sorted(texts(found)) == [
        "open a session in kotlin",
        "the office dog is called",
        "use tls with the java driver",
    ]
    assert found.context.dropped == 22 - 3
    assert library.store.count_read == 22


async def test_reads_on_where_the_first_do_not_fit(library: Library) -> None:
    await library.put([f"use tls with java driver page{i}" for i in range(5)], key="long", tokens=999)
    await library.put(["open a session"], key="short", tokens=1)
    found = await library.ask("use tls with java driver page1")
    assert "open a session" in texts(found)
    assert (len(found.context.passages), found.context.tokens) == (2, 1000)


async def test_points_of_a_revision_being_written_take_no_place(library: Library) -> None:
    await library.put(["open a session", "close a session", "the office dog"], key="page")
    await library.put([f"use tls now {i}" for i in range(10)], key="page", published=False)
    await library.put([f"use tls now {i}" for i in range(10)], key="new", published=False)
    found = await library.ask("use tls now")
    assert sorted(texts(found)) == ["close a session", "open a session", "the office dog"]
    assert len(found.hits) == 3


async def test_a_document_written_again_is_found_as_it_is_now(library: Library) -> None:
    await library.put(["use tls in java"])
    assert texts(await library.ask("tls")) == ["use tls in java"]
    await library.put(["use tls in kotlin"])
    assert texts(await library.ask("tls")) == ["use tls in kotlin"]


async def test_k_may_be_more_than_there_are(library: Library) -> None:
    await library.put(["use tls", "open a session"])
    found = await library.ask("tls", k=50)
    assert len(found.hits) == len(found.context.passages) == 2
    assert found.context.dropped == 0


async def test_an_empty_collection_has_nothing_to_read(library: Library) -> None:
    found = await library.ask("tls")
    assert (found.hits, found.context.passages, found.context.dropped) == ((), (), 0)
    assert library.store.count_read == 0
