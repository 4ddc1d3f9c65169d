"""Removal: documents and collections taken away, wholly there or wholly gone whatever interrupts it.

What is retired in the catalog is found by nobody from that transaction on. Its points follow, then its rows; what a
crash leaves of them is cleared before the next write, or by the next start.
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


class Shared:
    """What all that write to a catalog share."""

    def __init__(self, writers: Writers) -> None:
        self.exclusive = writers.exclusive
        self.stores: list[Store] = []  # all that may hold what an interruption left


class Removal:
    """Takes away from a catalog and its stores."""

    def __init__(self, catalog: Catalog, shared: Shared) -> None:
        self._catalog = catalog
        self._shared = shared

    async def document(self, id: str, groups: Groups) -> None:
        """Take a document away. Raises UnknownDocument, also where these groups may not read it."""
        collection = self._catalog.collection_of(id)
        if collection is None:
            raise UnknownDocument(f"there is no document {id!r}")
        async with self._shared.exclusive(collection):
            gone = self._catalog.retire(id) if readable_documents(self._catalog.engine, [id], groups) else []
            if not gone:
                raise UnknownDocument(f"there is no document {id!r}")
            await self.clear(gone)

    async def collection(self, name: str, groups: Groups) -> None:
        """Take a collection away with all of its documents. Raises UnknownCollection.

        And NotReadable where these groups may not read all of them.
        """
        async with self._shared.exclusive(name):
            self._catalog.collection(name)
            if self._catalog.chunks(name, groups) < self._catalog.chunks(name):
                raise NotReadable(f"in {name!r} there are documents that this key may not read")
            self._catalog.empty(name)
            await self.recover(name)
            self._catalog.remove(name)

    async def recover_all(self) -> None:
        """Clear what interrupted writes left behind, but where another process writes now: it has done so."""
        for name in sorted({collection_of(left.tenant) for left in self._catalog.leftovers()}):
            with contextlib.suppress(Busy):
                async with self._shared.exclusive(name, patience_s=0):
                    await self.recover(name)

    async def recover(self, collection: str) -> None:
        """The same for one; nobody else may write to it meanwhile."""
        await self.clear(self._catalog.leftovers(collection))

    async def clear(self, revisions: Sequence[Revision]) -> None:
        """Delete the points of revisions that are staged or retired, then their rows."""
        for revision in revisions:
            for store in self._shared.stores:
                await store.delete(revision.tenant, revision.point_ids())
            self._catalog.forget(revision)
