"""Audit: whether the points in a store are those that the catalog says should be there."""

from collections.abc import Sequence

from sqlalchemy import select

from retrieval.catalog import Catalog
from retrieval.catalog_tables import documents, revisions
from retrieval.errors import RetrievalError
from retrieval.revisions import Collection, Revision
from retrieval.stores.base import Store

_SAMPLED = 4  # documents, before a collection is searched for the first time


def current(catalog: Catalog, collection: Collection, *, most: int | None = None) -> list[Revision]:
    """The current revisions of a collection that have points; most: of so many documents, the newest."""
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
    """Raise RetrievalError where the store lacks points, or has those of another catalog or of another day.

    All points are counted, a few are looked for by their ids.
    """
    sample = [revision.point_ids()[-1] for revision in current(catalog, collection, most=_SAMPLED)]
    if await store.count(collection.tenant) < catalog.chunks(collection.name) or not await _holds(store, sample):
        name = collection.name
        raise RetrievalError(f"the index of collection {name!r} is incomplete: run `ragway rebuild {name}`")


async def _holds(store: Store, ids: Sequence[str]) -> bool:
    return not ids or len(await store.read(ids)) == len(set(ids))
