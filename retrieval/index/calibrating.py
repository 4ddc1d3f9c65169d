"""Fits each embedder's curves of relevance to its collections."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection
from retrieval.embedding.embed import label, probe
from retrieval.errors import RetrievalError
from retrieval.index.curves import forget_curves, write_curves
from retrieval.index.vector_spaces import VectorSpace, VectorSpaces
from retrieval.knowledge import Arms, Progress
from retrieval.records.documents import is_reserved
from retrieval.records.search import Calibration
from retrieval.search.calibration import LEAST_SENTENCES, UNRELATED, Evidence, area, evidence_of, fitted, sentences
from retrieval.search.ranking import curves_of

_ARMS: Sequence[Arms] = ("both", "dense")  # words alone ask no embedder
_MOST_COLLECTIONS = 10  # of an embedder, the largest ones


async def calibrate(data: Path, catalog: Catalog, spaces: VectorSpaces, progress: Progress) -> list[Calibration]:
    """Fit the curves of every embedder that has collections, keep them, and use them from now on.

    Raises RetrievalError, in most cases because the collections are too small; embedders before are fitted then.
    """
    rows = [row for row in catalog.collections() if not is_reserved(row.name)]
    if not rows:
        raise RetrievalError("there is no collection to take sentences from: run `ragway ingest` first")
    own = [(space, [row for row in rows if spaces.of(row.name) is space]) for space in spaces.searched()]
    return [await _calibrate(data, catalog, space, rows, progress) for space, rows in own if rows]


async def reset(data: Path, spaces: VectorSpaces) -> None:
    """Delete all fitted curves, and use the built-in ones from now on. Raises RetrievalError."""
    for space in spaces.searched():
        forget_curves(data, label(space.embedder), await asyncio.to_thread(probe, space.embedder))
        space.retriever.use_curves(curves_of(space.embedder.name))


async def _calibrate(
    data: Path, catalog: Catalog, space: VectorSpace, rows: Sequence[Collection], progress: Progress
) -> Calibration:
    name, retriever = label(space.embedder), space.retriever
    rows = sorted(rows, key=lambda row: (-catalog.chunks(row.name), row.name))[:_MOST_COLLECTIONS]
    made = {row.name: await sentences(catalog, space.store, row) for row in rows}
    made = {collection: texts for collection, texts in made.items() if len(texts) >= LEAST_SENTENCES}
    if not made:
        raise RetrievalError(
            f"no collection of {name} has the {LEAST_SENTENCES} sentences, each of another chunk, that are needed: "
            "ingest more documents; until then, the built-in curve counts"
        )
    done, total = 0, len(_ARMS) * sum(len(texts) + len(UNRELATED) for texts in made.values())

    def asked() -> None:
        nonlocal done
        done += 1
        progress(done, total, 0, name)

    before, found = retriever.curves, dict[Arms, list[Evidence]]()
    for arms in _ARMS:
        searching = retriever.for_arms(arms)
        found[arms] = [await evidence_of(searching, collection, texts, asked) for collection, texts in made.items()]
    base = curves_of(space.embedder.name)
    curves = {**base, **{arms: fitted(found[arms], base[arms]) for arms in _ARMS}}
    write_curves(data, name, await asyncio.to_thread(probe, space.embedder), {arms: curves[arms] for arms in _ARMS})
    retriever.use_curves(curves)
    return Calibration(
        name,
        tuple(made),
        sum(map(len, made.values())),
        len(UNRELATED),
        round(area(found["both"]), 3),
        curves["both"].slope,
        curves["both"].offset,
        before["both"].slope,
        before["both"].offset,
    )
