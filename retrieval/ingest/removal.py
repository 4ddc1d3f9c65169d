"""Removal of documents and collections: complete or not at all, whatever interrupts the removal.

Retiring a document in the catalog is one transaction; afterwards no search finds the document. Deleting the points
follows, then deleting the rows. The next write or the next start clears the remains of a crash.
"""

import contextlib
from collections.abc import Sequence

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.descriptions import readable_documents
from retrieval.catalog.revisions import Revision, collection_of
from retrieval.catalog.writers import Writers
from retrieval.errors import Busy, NotReadable, UnknownDocument
from retrieval.records.documents import Groups
from retrieval.stores.base import Store


class WriteContext:
    """The write locks and stores that all writers of a catalog share."""

    def __init__(self, writers: Writers) -> None:
        self.exclusive = writers.exclusive
        self.turn = writers.turn
        self.documents = writers.documents
        self.stores: list[Store] = []  # all stores that may hold remains of an interruption


class Removal:
    """Removes documents and collections from a catalog and its stores."""

    def __init__(self, catalog: Catalog, shared: WriteContext) -> None:
        self._catalog = catalog
        self._shared = shared

    async def document(self, id: str, groups: Groups) -> None:
        """Remove a document. Raises UnknownDocument, also if `groups` may not read the document."""
        collection = self._catalog.collection_of(id)
        if collection is None:
            raise UnknownDocument(f"there is no document {id!r}")
        async with self._shared.exclusive(collection):
            gone = self._catalog.retire(id) if readable_documents(self._catalog.engine, [id], groups) else []
            if not gone:
                raise UnknownDocument(f"there is no document {id!r}")
            await self.clear(gone)

    async def collection(self, name: str, groups: Groups) -> None:
        """Remove a collection with all documents. Raises UnknownCollection.

        Raises NotReadable if `groups` may not read all documents.
        """
        async with self._shared.turn("ingest", name), self._shared.exclusive(name):
            self._catalog.collection(name)
            if self._catalog.chunks(name, groups) < self._catalog.chunks(name):
                raise NotReadable(f"in {name!r} there are documents that this key may not read")
            self._catalog.empty(name)
            await self.recover(name)
            self._catalog.remove(name)

    async def recover_all(self) -> None:
        """Clear the remains of interrupted writes, except in collections that another process writes now."""
        for name in sorted({collection_of(left.tenant) for left in self._catalog.leftovers()}):
            with contextlib.suppress(Busy):
                async with self._shared.exclusive(name, patience_s=0):
                    await self.recover(name)

    async def recover(self, collection: str) -> None:
        """Clear one collection; the caller holds the write lock."""
        await self.clear(self._catalog.leftovers(collection))

    async def clear(self, revisions: Sequence[Revision]) -> None:
        """Delete the points of staged or retired revisions, then the rows."""
        for revision in revisions:
            for store in self._shared.stores:
                await store.delete(revision.tenant, revision.point_ids())
            self._catalog.forget(revision)
