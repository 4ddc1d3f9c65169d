"""A data folder with a grown corpus in many collections, built without embedding and cached.

Points and catalog rows equal the result of an ingest: documents of 50 chunks, assigned to the collections in turn. The
index is optimised.
"""

import asyncio
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from benchmarks.scale import grown
from benchmarks.scale.grown import Bases
from cli.assembly.index import plan
from config.settings import load
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection
from retrieval.embedding.embed import label, probe
from retrieval.embedding.export import open_embedder
from retrieval.index.data_folder import open_shard, shard_name
from retrieval.index.index import Index
from retrieval.records.documents import Document, Passage
from retrieval.records.points import Point
from retrieval.stores.base import Store

_CHUNKS = 50  # of a document
_GAP = "\n\n"


def shelf(cache: Path, base: Bases, chunks: int, collections: int, models: Path) -> Path:
    """The data folder with the collections `shelf-0`, `shelf-1` and so on."""
    data = cache / f"shelf-{len(base.texts)}-{chunks}-{collections}"
    if not (data / "complete").exists():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        (data / "models").symlink_to(models.resolve())
        asyncio.run(_fill(data, base, chunks, collections))
        (data / "complete").touch()
    return data


def name_of(collection: int) -> str:
    """A collection's name."""
    return f"shelf-{collection}"


async def _fill(data: Path, base: Bases, chunks: int, collections: int) -> None:
    wanted = plan(load(environ={}, flags={"data": str(data)}))
    await (await Index.open(wanted, serving=False)).close()  # makes the catalog
    options = wanted.embedding
    embedder = open_embedder(options.model, backend=options.backend, threads=1, cache=data / "models", options=options)
    probes, of = probe(embedder), label(embedder)
    catalog = Catalog.open(data / "catalog.sqlite")
    store = open_shard(data / "index" / shard_name(of, embedder.dimension), {"dense": embedder.dimension})
    rows = [catalog.create(name_of(i), embedder=of, probes=probes) for i in range(collections)]
    for number, points in enumerate(
        tqdm(_documents(base, chunks), total=chunks // _CHUNKS, unit=" documents", disable=None)
    ):
        await _write(catalog, store, rows[number % collections], number, points)
    await store.optimise()  # an idle gateway does the same
    await store.close()
    catalog.close()


def _documents(base: Bases, chunks: int) -> Iterator[tuple[Point, ...]]:
    points = (point for block in grown.points(base, chunks) for point in block)
    while some := tuple(islice(points, _CHUNKS)):
        yield some


async def _write(
    catalog: Catalog, store: Store, collection: Collection, number: int, points: tuple[Point, ...]
) -> None:
    texts = [point.passage.text for point in points]
    document = Document(f"notes/{number}.md", f"Note {number}", _GAP.join(texts), "markdown", 1.7e9)
    staged = catalog.stage(
        collection,
        f"/notes/{number}.md",
        document,
        content_hash=str(number),
        recipe="grown",
        chunks=len(points),
        generation=collection.generation,
    )
    written, at = [], 0
    for i, (id, point, text) in enumerate(zip(staged.point_ids(), points, texts, strict=True)):
        passage = Passage(
            document=staged.document,
            revision=staged.revision,
            ordinal=i,
            title=document.title,
            headings=(),
            source=document.source,
            modified_s=document.modified_s,
            start=at,
            end=at + len(text),
            text=text,
            tokens=point.passage.tokens,
        )
        written.append(Point(id, passage, point.vectors, point.sparse))
        at += len(text) + len(_GAP)
    await store.upsert(staged.tenant, written)
    catalog.publish(staged)
