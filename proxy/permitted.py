"""Searches and documents within a caller's rights.

What the caller may not read gets the same answer as what does not exist.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.caller import Rights
from retrieval.errors import UnknownCollection
from retrieval.knowledge import HitOptions, Knowledge, SearchRequest
from retrieval.records.documents import CollectionInfo, FullDocument
from retrieval.records.search import Retrieved, Turn, View


class NotThere(UnknownCollection):
    """No such collection for this caller; the message lists only those it can see."""


@dataclass(frozen=True, slots=True)
class PermittedSearch:
    """One request's search."""

    turns: Sequence[Turn]  # the question is last
    collections: Sequence[str]
    rights: Rights
    explicit: bool  # the caller named collections
    k: int | None = None  # None: the setting
    budget_tokens: int | None = None  # None: the setting
    filter: str = ""  # of documents, as in `View`
    hit_options: HitOptions | None = None
    traced: bool = False  # say how passages were found


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages, and which collections were searched."""

    retrieved: Retrieved
    collections: tuple[str, ...]
    began: float  # by `time.perf_counter`


async def search(knowledge: Knowledge, asked: PermittedSearch) -> SearchResult:
    """Search the named collections, or those of `existing` if one is missing or not readable.

    The names are tried before the list of collections: the list costs a call of the index, which counts documents.
    Raises UnknownCollection, RetrievalError.
    """
    if all(name in asked.rights.read for name in asked.collections):
        with contextlib.suppress(UnknownCollection):
            return await _retrieve(knowledge, asked, asked.collections)
    return await _retrieve(knowledge, asked, await existing(knowledge, asked))


async def existing(knowledge: Knowledge, asked: PermittedSearch) -> Sequence[str]:
    """Which collections to search: existing and readable.

    If the caller named collections, all of them must exist. Default collections may be missing: if none of them exists,
    or the caller may read none, everything that the caller may read is searched.
    Raises NotThere.
    """
    known = [row.name for row in await readable(knowledge, asked.rights)]
    names = asked.collections
    if not asked.explicit and not any(name in known for name in names):
        names = known
    found = [name for name in names if name in known]
    if asked.explicit or not found:
        raise unknown(next((name for name in names if name not in known), ""), known)
    return found


async def _retrieve(knowledge: Knowledge, asked: PermittedSearch, names: Sequence[str]) -> SearchResult:
    began = time.perf_counter()
    view = View(asked.rights.groups, asked.filter)
    request = SearchRequest(asked.turns, names, asked.k, asked.budget_tokens, view, asked.hit_options, asked.traced)
    retrieved = await knowledge.search.retrieve(request)
    return SearchResult(retrieved, tuple(names), began)


async def readable(knowledge: Knowledge, rights: Rights) -> list[CollectionInfo]:
    """Collections that the caller may read, by name."""
    return [row for row in await knowledge.library.collections(rights.groups) if row.name in rights.read]


async def document(knowledge: Knowledge, id: str, rights: Rights) -> FullDocument:
    """One document, whole. Raises UnknownDocument, also if the caller may not read it."""
    return await knowledge.library.document(id, rights.groups, rights.read.granted)


def unknown(name: str, known: Sequence[str]) -> NotThere:
    """Make the error for a missing or unreadable collection. known: those that the caller may read."""
    return NotThere(f"there is no collection {name!r}; there are: {', '.join(known) or 'none yet'}")
