"""Removal of documents and collections: complete or not at all, whatever interrupts it.

Retiring a document in the catalog is one transaction; afterwards no search finds it. Then its points are deleted, then
its rows. The next write or start clears what a crash leaves.
"""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.descriptions import readable_documents
from retrieval.catalog.revisions import Revision, collection_of
from retrieval.catalog.writers import Writers
from retrieval.errors import Busy, NotReadable, UnknownDocument
from retrieval.records.documents import Groups
from retrieval.stores.base import Store

_POINTS = 1000  # deleted at a time
_TENANT = attrgetter("tenant")
_REVISIONS = 100  # forgotten at a time: each time is a catalog commit and a store write


class Removal:
    """Removes documents and collections from a catalog and its stores."""

    def __init__(self, catalog: Catalog, writers: Writers) -> None:
        self.stores: list[Store] = []  # all stores in which an interruption may have left something
        self._catalog = catalog
        self._writers = writers

    async def document(self, id: str, groups: Groups) -> None:
        """Remove a document. Raises UnknownDocument, also if `groups` may not read it."""
        collection = self._catalog.collection_of(id)
        if collection is None or not await self.documents(collection, [id], groups):
            raise UnknownDocument(f"there is no document {id!r}")

    async def documents(self, collection: str, ids: Sequence[str], groups: Groups) -> bool:
        """Remove a collection's documents that `groups` may read; returns whether there was one."""
        async with self._writers.exclusive(collection):
            readable = readable_documents(self._catalog.engine, ids, groups)
            gone = self._catalog.retire(*readable) if readable else []
            await self.clear(gone)
        return gone != []

    async def collection(self, name: str, groups: Groups) -> None:
        """Remove a collection with all documents. Raises UnknownCollection.

        Raises NotReadable if `groups` may not read all documents.
        """
        async with self._writers.turn("ingest", name), self._writers.exclusive(name):
            self._catalog.collection(name)
            if self._catalog.chunks(name, groups) < self._catalog.chunks(name):
                raise NotReadable(f"in {name!r} there are documents that this key may not read")
            self._catalog.empty(name)
            await self.recover(name)
            self._catalog.remove(name)

    async def recover_all(self) -> None:
        """Clear what interrupted writes left, except in collections that another process is writing."""
        for name in sorted({collection_of(left.tenant) for left in self._catalog.leftovers()}):
            with contextlib.suppress(Busy):
                async with self._writers.exclusive(name, patience_s=0):
                    await self.recover(name)

    async def recover(self, collection: str) -> None:
        """Clear one collection; the caller holds the write lock."""
        await self.clear(self._catalog.leftovers(collection))

    async def clear(self, revisions: Sequence[Revision]) -> None:
        """Delete staged or retired revisions: first points, then rows."""
        for tenant, some in _portions(revisions):
            ids = [id for revision in some for id in revision.point_ids()]
            for store in self.stores:
                await store.delete(tenant, ids)
            self._catalog.forget(*some)


def _portions(revisions: Sequence[Revision]) -> Iterator[tuple[str, list[Revision]]]:
    """Each tenant's revisions, some at a time."""
    for tenant, of_tenant in groupby(sorted(revisions, key=_TENANT), _TENANT):
        some: list[Revision] = []
        for revision in of_tenant:
            some.append(revision)
            if len(some) >= _REVISIONS or sum(one.chunks for one in some) >= _POINTS:
                yield tenant, some
                some = []
        if some:
            yield tenant, some
