"""Removal: documents and collections taken away, wholly there or wholly gone whatever interrupts it.

What is retired in the catalog is found by nobody from that transaction on. Its points follow, then its rows; what a
crash leaves of them is cleared before the next write, or by the next start.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from retrieval.catalog import Catalog
from retrieval.errors import UnknownDocument
from retrieval.revisions import Revision
from retrieval.stores.base import Store


@dataclass(frozen=True, slots=True)
class Shared:
    """What all that write to a catalog share."""

    writing: asyncio.Lock = field(default_factory=asyncio.Lock)  # one writes at a time; others wait
    stores: list[Store] = field(default_factory=list)  # all that may hold what an interruption left


class Removal:
    """Takes away from a catalog and its stores."""

    def __init__(self, catalog: Catalog, shared: Shared) -> None:
        self._catalog = catalog
        self._shared = shared

    async def document(self, id: str) -> None:
        """Take a document away. Raises UnknownDocument."""
        async with self._shared.writing:
            gone = self._catalog.retire(id)
            if not gone:
                raise UnknownDocument(f"there is no document {id!r}")
            await self.clear(gone)

    async def collection(self, name: str) -> None:
        """Take a collection away with all of its documents. Raises UnknownCollection."""
        async with self._shared.writing:
            self._catalog.collection(name)
            self._catalog.empty(name)
            await self.recover()
            self._catalog.remove(name)

    async def recover(self) -> None:
        """Clear what an interrupted write left behind; nobody may write meanwhile."""
        await self.clear(self._catalog.leftovers())

    async def clear(self, revisions: Sequence[Revision]) -> None:
        """Delete the points of revisions that are staged or retired, then their rows."""
        for revision in revisions:
            for store in self._shared.stores:
                await store.delete(revision.tenant, revision.point_ids())
            self._catalog.forget(revision)
