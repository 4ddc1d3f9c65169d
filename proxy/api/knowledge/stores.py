"""OpenAI's vector stores: each collection is a vector store, with the name as id."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from proxy import permitted
from proxy.api.knowledge.access import Access, Deleted, Page, ends, must_make, must_write, rights_of
from proxy.api.knowledge.attachments import (
    STORE,
    Attachments,
    Chunking,
    FileCounts,
    TextPart,
    check_chunking,
    counts_of,
    file_id,
    of_ids,
)
from proxy.api.knowledge.declarations import Closed, Open, doc, must, named, operation
from proxy.api.knowledge.files import Order
from proxy.api.knowledge.filters import Filter
from proxy.api.knowledge.parameters import After, K, filter_in, invalid, query_of, query_text
from proxy.asgi import Receive, Scope
from retrieval.records.documents import CollectionInfo
from retrieval.records.search import Hit

PATH = "/v1/vector_stores"  # the settings may relay the path instead
_TAG = "vector stores"
_MOST_QUERIES = 10  # of one search


class VectorStore(Open, frozen=True, tag_field="object", tag="vector_store"):
    id: str
    created_at: int
    name: str
    usage_bytes: int
    file_counts: FileCounts
    status: Literal["completed", "in_progress"]
    last_active_at: int
    metadata: dict[str, Any]


class VectorStorePage(Page, frozen=True, kw_only=True):
    data: list[VectorStore]


class _StoresQuery(Closed, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: After | None = None
    order: Order = "desc"


class _Options(Closed, frozen=True, kw_only=True):
    """Of a store: accepted only if they are empty."""

    chunking_strategy: Chunking = None
    metadata: Annotated[dict[str, Any], Meta(max_length=0)] | None = None
    expires_after: Annotated[Annotated[dict[str, Any], Meta(max_length=0)] | None, doc("Only null")] = None
    description: Annotated[str, Meta(max_length=0)] | None = None


class _NewStore(_Options, frozen=True, kw_only=True):
    name: str | UnsetType = UNSET
    file_ids: list[str] | UnsetType = UNSET


class _ChangedStore(_Options, frozen=True, kw_only=True):
    name: str | None = None


_Least = Annotated[float, Meta(ge=0, le=1), must("a number from 0 to 1")]


class _RankingOptions(Open, frozen=True):
    score_threshold: _Least | UnsetType = UNSET


Queries = Annotated[list[str], Meta(min_length=1, max_length=_MOST_QUERIES), named("Queries")]


class _StoreSearch(Open, frozen=True):
    query: Annotated[str | Queries, must(f"a text, or a list of 1 to {_MOST_QUERIES} texts")]
    max_num_results: K = 10
    ranking_options: _RankingOptions | None = None
    rewrite_query: Annotated[Any, doc("Accepted and ignored")] | UnsetType = UNSET
    filters: Filter | None = None


class VectorStoreResult(Closed, frozen=True):
    file_id: str
    filename: str
    score: Annotated[float, Meta(ge=0, le=1)]
    attributes: dict[str, Any]
    content: list[TextPart]


class VectorStoreResults(Closed, frozen=True, tag_field="object", tag="vector_store.search_results.page"):
    search_query: list[str]
    data: list[VectorStoreResult]
    has_more: Annotated[bool, doc("Always false")]
    next_page: Annotated[str | None, doc("Always null")]


class Stores:
    """Collections as vector stores."""

    def __init__(self, access: Access, attachments: Attachments) -> None:
        self._access = access
        self._attachments = attachments

    @operation(f"GET {PATH}", _TAG, VectorStorePage, "A page", query=_StoresQuery)
    async def list_vector_stores(self, scope: Scope, _receive: Receive) -> VectorStorePage:
        """The collections that the key may read, as vector stores."""
        asked = query_of(scope, _StoresQuery)
        rows = await permitted.readable(self._access.knowledge, rights_of(scope))
        if asked.order == "desc":
            rows.reverse()
        names = [row.name for row in rows]
        first = names.index(asked.after) + 1 if asked.after in names else 0
        stores = await self._stores(rows[first : first + asked.limit], scope)
        return VectorStorePage(*ends(stores, more=len(rows) > first + asked.limit), data=stores)

    @operation(f"POST {PATH}", _TAG, VectorStore, "The new vector store", body=_NewStore, writing=True)
    async def create_vector_store(self, scope: Scope, receive: Receive) -> VectorStore:
        """Make a collection, and attach files to it."""
        fields = await self._access.fields(scope, receive, _NewStore)
        _check_options(fields)
        name = fields.get("name") or f"vs-{secrets.token_hex(12)}"
        if not isinstance(name, str):
            raise invalid("'name' must be text", "name")
        must_make(name, rights_of(scope))
        files = of_ids(fields.get("file_ids") or [])
        if files:
            await self._attachments.given(files, scope)  # a missing file makes no collection
        await self._access.knowledge.writing.create_collection(name, None)
        if files:
            await self._attachments.start(name, files, scope)
        scope["path_params"] = {"name": name}
        return await self.read_vector_store(scope, receive)

    @operation(f"POST {STORE}", _TAG, VectorStore, "The vector store", body=_ChangedStore)
    async def change_vector_store(self, scope: Scope, receive: Receive) -> VectorStore:
        """Accepts only the current values of a vector store."""
        name = (await self._access.collection(scope)).name
        must_write(name, rights_of(scope))
        fields = await self._access.fields(scope, receive, _ChangedStore)
        _check_options(fields)
        if fields.get("name") not in (None, name):
            raise invalid("a vector store cannot be renamed: make another one", "name")
        return await self.read_vector_store(scope, receive)

    @operation(f"DELETE {STORE}", _TAG, Deleted, "Deleted")
    async def delete_vector_store(self, scope: Scope, _receive: Receive) -> Deleted:
        """Delete the collection."""
        name = (await self._access.collection(scope)).name
        must_write(name, rights_of(scope))
        await self._access.knowledge.writing.delete_collection(name, rights_of(scope).groups)
        return Deleted(name, "vector_store.deleted", deleted=True)

    @operation(f"GET {STORE}", _TAG, VectorStore, "The vector store")
    async def read_vector_store(self, scope: Scope, _receive: Receive) -> VectorStore:
        """A collection as a vector store."""
        row = await self._access.collection(scope)
        (store,) = await self._stores([row], scope)
        return store

    async def _stores(self, rows: Sequence[CollectionInfo], scope: Scope) -> list[VectorStore]:
        """Collections as vector stores, with counts of unfinished attachments."""
        states: dict[str, Counter[str]] = {row.name: Counter(created=row.documents) for row in rows}
        for one in await self._access.knowledge.library.unfinished_attachments(
            [row.name for row in rows], rights_of(scope).groups
        ):
            states[one.collection][one.state] += 1
        return [_store(row, counts_of(states[row.name])) for row in rows]

    @operation(f"POST {STORE}/search", _TAG, VectorStoreResults, "Passages, best first", body=_StoreSearch)
    async def search_vector_store(self, scope: Scope, receive: Receive) -> VectorStoreResults:
        """Passages for a query."""
        asked = await self._access.read(_StoreSearch, scope, receive)
        queries = [query_text(each) for each in ([asked.query] if isinstance(asked.query, str) else asked.query)]
        least = asked.ranking_options.score_threshold or 0.0 if asked.ranking_options is not None else 0.0
        k, filter = asked.max_num_results, filter_in(asked.filters, "filters")
        names = [scope["path_params"]["name"]]
        searches = [self._access.search(query, names, scope, explicit=True, k=k, filter=filter) for query in queries]
        hits = _interleaved([found.hits for found in await asyncio.gather(*searches)])[:k]
        keys = await self._access.knowledge.library.document_keys(list({hit.passage.document for hit, _ in hits}))
        data = [_result(hit, share, keys) for hit, share in hits if share >= least]
        return VectorStoreResults(queries, data, has_more=False, next_page=None)


def _check_options(fields: Mapping[str, Any]) -> None:
    check_chunking(fields)
    for name in ("metadata", "expires_after", "description"):
        if fields.get(name):
            raise invalid(f"'{name}' is not stored here: leave it out", name)


def _store(row: CollectionInfo, counts: FileCounts) -> VectorStore:
    """A collection as a vector store; bytes and the time of creation are unknown."""
    at = int(row.updated_s)
    status: Literal["in_progress", "completed"] = "in_progress" if counts.in_progress else "completed"
    return VectorStore(row.name, at, row.name, 0, counts, status, at, {})


def _result(hit: Hit, score: float, keys: Mapping[str, str]) -> VectorStoreResult:
    """keys: of documents written by clients."""
    passage = hit.passage
    id = file_id(passage.document, keys.get(passage.document, ""))
    attributes = {**({"title": passage.title} if passage.title else {}), **_plain(passage.attributes)}
    return VectorStoreResult(id, passage.source, score, attributes, [TextPart("text", passage.text)])


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's have no lists."""
    return {name: value for name, value in attributes.items() if not isinstance(value, list | tuple)}


def _shares(hits: Sequence[Hit]) -> list[float]:
    """Scores from 0 to 1, as OpenAI's are: the share of the best one's."""
    best = max((hit.score for hit in hits), default=0.0)
    return [hit.score / best if best > 0 else 0.0 for hit in hits]


def _interleaved(searches: Sequence[Sequence[Hit]]) -> list[tuple[Hit, float]]:
    """The passages of all searches with scores: the first passage of each search, then the second passages, and so on.

    A passage found by several searches takes the best place and the best score.
    """
    places: dict[str, tuple[int, int]] = {}
    scored: dict[str, tuple[Hit, float]] = {}
    for number, hits in enumerate(searches):
        for rank, (hit, share) in enumerate(zip(hits, _shares(hits), strict=True)):
            places[hit.id] = min((rank, number), places.get(hit.id, (rank, number)))
            scored[hit.id] = max((hit, share), scored.get(hit.id, (hit, share)), key=lambda pair: pair[1])
    return [scored[id] for id in sorted(places, key=places.__getitem__)]
