"""Audit: whether a store holds exactly the catalog's points, undamaged."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
from sqlalchemy import select

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.catalog_tables import documents, revisions
from retrieval.catalog.revisions import Collection, Revision, tenant_of
from retrieval.errors import Incomplete, IndexDown, RetrievalError
from retrieval.records.documents import Passage
from retrieval.records.points import PointFaults, Vector
from retrieval.stores.base import Store

_SAMPLED = 4  # documents, before a collection's first search
_ROUNDING = 1e-2  # of a unit vector's length
_AT_ONCE = 500  # points


async def audited(catalog: Catalog, store: Store, collection: Collection, *, unfinished: bool) -> PointFaults:
    """Compare a collection's every point with the catalog. unfinished: its next generation is being built.

    Reads a page of points at a time, so that searches go on; documents may be replaced meanwhile.
    """
    due = _due(catalog, collection)
    try:
        missing, damaged = await _compare(catalog, store, due)
        if missing or damaged:
            due = _due(catalog, collection)
            suspect = {id: due[id] for id in missing | damaged if id in due}
            missing, damaged = await _compare(catalog, store, suspect)
        orphaned: list[str] = []
        count = await store.count(collection.tenant)
        if count != len(due) - len(missing):
            there = {id for id, _ in await store.passages(collection.tenant)}
            due = _due(catalog, collection)
            orphaned, missing = sorted(there - due.keys()), missing | due.keys() - there
    except IndexDown:
        raise
    except RetrievalError:  # the points cannot be read
        return PointFaults(0, (), len(due), (), unfinished)
    lasting = {collection.generation, collection.generation + 1} if unfinished else {collection.generation}
    tenants = []
    for generation in range(1, collection.generation + 2):
        tenant = tenant_of(collection.name, generation, catalog.language(collection.name, generation))
        if generation not in lasting and tenant != collection.tenant and await store.count(tenant):
            tenants.append(tenant)
    return PointFaults(len(missing & due.keys()), tuple(orphaned), len(damaged), tuple(tenants), unfinished)


def _due(catalog: Catalog, collection: Collection) -> dict[str, Revision]:
    return {id: revision for revision in current(catalog, collection) for id in revision.point_ids()}


async def _compare(catalog: Catalog, store: Store, due: Mapping[str, Revision]) -> tuple[set[str], set[str]]:
    """Missing points and damaged points."""
    missing: set[str] = set()
    damaged: set[str] = set()
    ids = list(due)
    for start in range(0, len(ids), _AT_ONCE):
        page = ids[start : start + _AT_ONCE]
        there, vectors = await store.read(page), await store.vectors(page)
        missing |= set(page) - there.keys()
        spans = [(one.document, one.revision, one.start, one.end) for one in there.values()]
        for id, text in zip(there, await asyncio.to_thread(catalog.spans, spans), strict=True):
            if not _is_as_written(there[id], text, due[id], vectors.get(id)):
                damaged.add(id)
    return missing, damaged


def _is_as_written(passage: Passage, text: str, due: Revision, vector: Vector | None) -> bool:
    length = float("nan") if vector is None else float(np.linalg.norm(vector))
    return (passage.document, passage.revision, passage.text) == (due.document, due.revision, text) and (
        abs(length - 1) < _ROUNDING
    )


async def cleared(store: Store, collection: Collection, points: PointFaults) -> None:
    """Delete points that belong to no document."""
    await store.delete(collection.tenant, points.orphaned)
    for tenant in points.tenants:
        await store.drop(tenant)


def current(catalog: Catalog, collection: Collection, *, most: int | None = None) -> list[Revision]:
    """A collection's current revisions that have points; most: only the newest, at most this many."""
    query = (
        select(*revisions.c["document", "revision", "chunks"])
        .join(documents, documents.c.id == revisions.c.document)
        .where(documents.c.collection == collection.name, revisions.c.state == "current", revisions.c.chunks > 0)
    )
    if most is not None:
        query = query.order_by(revisions.c.revision.desc(), documents.c.id).limit(most)
    rows = catalog.rows(query)
    return [Revision(row.document, row.revision, collection.tenant, row.chunks) for row in rows]


async def check_there(catalog: Catalog, store: Store, collection: Collection) -> None:
    """Raise Incomplete if the store lacks points, or holds those of another catalog or an older copy.

    Counts all points and looks for a few by id. Replacing or deleting a document meanwhile deletes its points: then
    the check runs again.
    """
    name, expected = collection.name, _expected(catalog, collection)
    while await store.count(collection.tenant) < expected[0] or not await _holds(store, expected[1]):
        before, expected = expected, _expected(catalog, collection)
        if expected == before:
            raise Incomplete(f"the index of collection {name!r} is incomplete: run `ragway rebuild {name}`")


def _expected(catalog: Catalog, collection: Collection) -> tuple[int, list[str]]:
    """How many points are due, and some of their ids."""
    sample = [revision.last_point_id() for revision in current(catalog, collection, most=_SAMPLED)]
    return catalog.chunks(collection.name), sample


async def _holds(store: Store, ids: Sequence[str]) -> bool:
    return not ids or len(await store.read(ids)) == len(await store.vectors(ids)) == len(set(ids))
