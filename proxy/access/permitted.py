"""What a caller may read, and searches within it: what may not be read is answered as what does not exist."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence

from proxy.access.rights import Rights
from retrieval.errors import UnknownCollection
from retrieval.knowledge import Knowledge
from retrieval.records.documents import CollectionInfo, FullDocument
from retrieval.records.search import Retrieved, View

Retrieve = Callable[[Sequence[str], View], Awaitable[Retrieved]]  # what is in view of collections of these names


class NotThere(UnknownCollection):
    """A collection that is not there for this caller; the text names those alone that are."""


async def readable(knowledge: Knowledge, rights: Rights) -> list[CollectionInfo]:
    """The collections that may be read, by name."""
    return [row for row in await knowledge.collections(rights.groups) if row.name in rights.read]


async def search(
    retrieve: Retrieve,
    collections: Sequence[str],
    knowledge: Knowledge,
    rights: Rights,
    *,
    explicit: bool,
    filter: str = "",
) -> Retrieved:
    """What `retrieve` finds in the collections; of those that are not `explicit`, in those there are by now.

    Where they are not `explicit` and the caller may read none of them, in all that the caller may read.

    explicit: whether the caller named the collections. filter: what must be true of documents besides, as of `View`.
    Raises UnknownCollection if one asked for by name, or each of the others, does not exist.
    """
    view = View(rights.groups, filter)
    if all(name in rights.read for name in collections):
        with contextlib.suppress(UnknownCollection):
            return await retrieve(collections, view)
    known = [row.name for row in await readable(knowledge, rights)]
    if not explicit and not any(name in rights.read for name in collections):
        collections = known
    there = [name for name in collections if name in known]
    if explicit or not there:
        raise unknown(next((name for name in collections if name not in known), ""), known)
    return await retrieve(there, view)


async def document(knowledge: Knowledge, id: str, rights: Rights) -> FullDocument:
    """A document, whole. Raises UnknownDocument, also where it may not be read."""
    return await knowledge.document(id, rights.groups, rights.read.granted)


def unknown(name: str, known: Sequence[str]) -> NotThere:
    """What is said of a collection that is not there, or may not be read. known: those the caller may know of."""
    return NotThere(f"there is no collection {name!r}; there are: {', '.join(known) or 'none yet'}")
