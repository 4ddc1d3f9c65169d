"""Audit: whether a store holds exactly the points of the catalog, undamaged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.revisions import Collection, Revision, tenant_of
from retrieval.catalog.tables import documents, revisions
from retrieval.errors import RetrievalError
from retrieval.records.documents import Passage
from retrieval.records.points import Vector
from retrieval.stores.base import Store

_SAMPLED = 4  # documents, before a collection is searched for the first time
_ROUNDING = 1e-2  # of a unit vector's length
_AT_ONCE = 500  # vectors


@dataclass(frozen=True, slots=True)
class Points:
    """The faults of a collection's points."""

    missing: int  # points of the catalog that the store lacks
    orphaned: Sequence[str]  # ids of points of no current document
    damaged: int  # points with a text that is not the document's, or with an invalid vector
    tenants: Sequence[str]  # of unused generations that still have points
    unfinished: bool  # whether the build of the next generation was begun and not finished

    @property
    def searchable(self) -> bool:
        """Whether the collection can stay as it is, orphans aside."""
        return not self.missing and not self.damaged


async def audited(catalog: Catalog, store: Store, collection: Collection, *, unfinished: bool) -> Points:
    """Compare every point of a collection with the catalog. unfinished: the next generation is being built."""
    due = {id: revision for revision in current(catalog, collection) for id in revision.point_ids()}
    try:
        there = dict(await store.passages(collection.tenant))
        vectors = {}
        for start in range(0, len(there), _AT_ONCE):
            vectors.update(await store.vectors(list(there)[start : start + _AT_ONCE]))
    except RetrievalError:  # the points cannot be read
        return Points(0, (), len(due), (), unfinished)
    spans = [(one.document, one.revision, one.start, one.end) for id, one in there.items() if id in due]
    texts = catalog.spans(spans)
    ours = [id for id in there if id in due]
    damaged = sum(
        not _is_as_written(there[id], text, due[id], vectors.get(id)) for id, text in zip(ours, texts, strict=True)
    )
    lasting = {collection.generation, collection.generation + 1} if unfinished else {collection.generation}
    tenants = []
    for generation in range(1, collection.generation + 2):
        tenant = tenant_of(collection.name, generation, catalog.language(collection.name, generation))
        if generation not in lasting and tenant != collection.tenant and await store.count(tenant):
            tenants.append(tenant)
    missing, orphaned = len(due.keys() - there.keys()), sorted(there.keys() - due.keys())
    return Points(missing, orphaned, damaged, tenants, unfinished)


def _is_as_written(passage: Passage, text: str, due: Revision, vector: Vector | None) -> bool:
    length = float("nan") if vector is None else float(np.linalg.norm(vector))
    return (passage.document, passage.revision, passage.text) == (due.document, due.revision, text) and (
        abs(length - 1) < _ROUNDING
    )


async def cleared(store: Store, collection: Collection, points: Points) -> None:
    """Delete the points of no document."""
    await store.delete(collection.tenant, points.orphaned)
    for tenant in points.tenants:
        await store.drop(tenant)


def current(catalog: Catalog, collection: Collection, *, most: int | None = None) -> list[Revision]:
    """The current revisions of a collection that have points; most: only the newest revisions, at most this many."""
    query = (
        select(*revisions.c["document", "revision", "chunks"])
        .join(documents, documents.c.id == revisions.c.document)
        .where(documents.c.collection == collection.name, revisions.c.state == "current", revisions.c.chunks > 0)
    )
    if most is not None:
        query = query.order_by(revisions.c.revision.desc(), documents.c.id).limit(most)
    with catalog.engine.connect() as sql:
        return [Revision(row.document, row.revision, collection.tenant, row.chunks) for row in sql.execute(query)]


async def check_there(catalog: Catalog, store: Store, collection: Collection) -> None:
    """Raise RetrievalError if the store lacks points, or holds points of another catalog or of an older copy.

    Counts all points and looks for a few points by id. Replacing or deleting a document meanwhile deletes the
    document's points: then the check runs again.
    """
    expected = _expected(catalog, collection)
    while not await _is_there(store, collection, *expected):
        before, expected = expected, _expected(catalog, collection)
        if expected == before:
            name = collection.name
            raise RetrievalError(f"the index of collection {name!r} is incomplete: run `ragway rebuild {name}`")


def _expected(catalog: Catalog, collection: Collection) -> tuple[int, list[str]]:
    """The number of points due, and the ids of some points."""
    sample = [revision.last_point_id() for revision in current(catalog, collection, most=_SAMPLED)]
    return catalog.chunks(collection.name), sample


async def _is_there(store: Store, collection: Collection, chunks: int, sample: Sequence[str]) -> bool:
    return await store.count(collection.tenant) >= chunks and await _holds(store, sample)


async def _holds(store: Store, ids: Sequence[str]) -> bool:
    return not ids or len(await store.read(ids)) == len(await store.vectors(ids)) == len(set(ids))
