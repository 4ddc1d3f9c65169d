"""OpenAI's vector stores: each collection is one, with its name as id."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.access import Deleted, KnowledgeCall, Page, must_make
from proxy.api.knowledge.attachments import (
    STORE,
    Chunking,
    FileCounts,
    TextPart,
    check_chunking,
    counts_of,
    file_id,
    given_files,
    rows_after,
)
from proxy.api.knowledge.declarations import Closed, Open, doc, must, named, operation
from proxy.api.knowledge.files import Order
from proxy.api.knowledge.filters import Filter
from proxy.api.knowledge.parameters import After, K, filter_in, invalid, query_text
from proxy.caller import PermittedSearch, readable_collections
from retrieval.knowledge import DEFAULT_HIT_OPTIONS
from retrieval.records.documents import CollectionInfo
from retrieval.records.search import Hit, Turn

PATH = "/v1/vector_stores"  # settings may relay this path instead
_TAG = "vector stores"
_MOST_QUERIES = 10  # in one search


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


_NOT_STORED = must("left out: it is not stored here")


class _Options(Closed, frozen=True, kw_only=True):
    """Store options, accepted only if they are empty."""

    chunking_strategy: Chunking = None
    metadata: Annotated[dict[str, Any], Meta(max_length=0), _NOT_STORED] | None = None
    expires_after: Annotated[Annotated[dict[str, Any], Meta(max_length=0), _NOT_STORED] | None, doc("Only null")] = None
    description: Annotated[str, Meta(max_length=0), _NOT_STORED] | None = None


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


@operation(f"GET {PATH}", _TAG, "A page")
async def list_vector_stores(call: KnowledgeCall, query: _StoresQuery) -> VectorStorePage:
    """The collections that the key may read, as vector stores."""
    rows = await readable_collections(call.knowledge, call.rights)
    if query.order == "desc":
        rows.reverse()
    rows = rows_after(query.after, rows, [row.name for row in rows])[: query.limit + 1]
    return VectorStorePage.of(await _stores(rows, call), query.limit)


@operation(f"POST {PATH}", _TAG, "The new vector store", writing=True)
async def create_vector_store(call: KnowledgeCall, body: _NewStore) -> VectorStore:
    """Make a collection, and attach files to it."""
    check_chunking(body.chunking_strategy)
    name = body.name or f"vs-{secrets.token_hex(12)}"
    must_make(name, call.rights)
    files = [{"file_id": id} for id in body.file_ids or ()]
    given = await given_files(files, call) if files else []  # if a file is missing, make no collection
    await call.writing.create_collection(name, None)
    if given:
        await call.writing.start_job(name, given)
    return await _store_named(name, call)


@operation(f"POST {STORE}", _TAG, "The vector store", right="write")
async def change_vector_store(call: KnowledgeCall, body: _ChangedStore) -> VectorStore:
    """Accepts only the current values of a vector store."""
    check_chunking(body.chunking_strategy)
    if body.name not in (None, call.path["name"]):
        raise invalid("a vector store cannot be renamed: make another one", "name")
    return await read_vector_store(call)


@operation(f"DELETE {STORE}", _TAG, "Deleted", right="write")
async def delete_vector_store(call: KnowledgeCall) -> Deleted:
    """Delete the collection."""
    await call.writing.delete_collection(call.path["name"], call.rights.groups)
    return Deleted(call.path["name"], "vector_store.deleted", deleted=True)


@operation(f"GET {STORE}", _TAG, "The vector store")
async def read_vector_store(call: KnowledgeCall) -> VectorStore:
    """A collection as a vector store."""
    return await _store_named(call.path["name"], call)


async def _store_named(name: str, call: KnowledgeCall) -> VectorStore:
    (store,) = await _stores([await call.collection(name)], call)
    return store


async def _stores(rows: Sequence[CollectionInfo], call: KnowledgeCall) -> list[VectorStore]:
    """Collections as vector stores, with counts of unfinished attachments."""
    states: dict[str, Counter[str]] = {row.name: Counter(created=row.documents) for row in rows}
    for one in await call.library.unfinished_attachments([*states], call.rights.groups):
        states[one.collection][one.state] += 1
    return [_store(row, counts_of(states[row.name])) for row in rows]


@operation(f"POST {STORE}/search", _TAG, "Passages, best first")
async def search_vector_store(call: KnowledgeCall, body: _StoreSearch) -> VectorStoreResults:
    """Passages for a query."""
    queries = [query_text(each) for each in ([body.query] if isinstance(body.query, str) else body.query)]
    least = body.ranking_options.score_threshold or 0.0 if body.ranking_options is not None else 0.0
    k, names = body.max_num_results, [call.path["name"]]
    asked = PermittedSearch(
        (), names, call.rights, True, k, filter=filter_in(body.filters, "filters"), hit_options=DEFAULT_HIT_OPTIONS
    )
    searches = [call.search(replace(asked, turns=[Turn("user", query)])) for query in queries]
    hits = _interleaved([found.hits for found in await asyncio.gather(*searches)])[:k]
    keys = await call.library.document_keys(list({hit.passage.document for hit, _ in hits}))
    data = [_result(hit, share, keys) for hit, share in hits if share >= least]
    return VectorStoreResults(queries, data, has_more=False, next_page=None)


def _store(row: CollectionInfo, counts: FileCounts) -> VectorStore:
    """A collection as a vector store; its bytes and creation time are unknown."""
    at = int(row.updated_s)
    status: Literal["in_progress", "completed"] = "in_progress" if counts.in_progress else "completed"
    return VectorStore(row.name, at, row.name, 0, counts, status, at, {})


def _result(hit: Hit, score: float, keys: Mapping[str, str]) -> VectorStoreResult:
    """keys: those of documents that clients wrote."""
    passage = hit.passage
    id = file_id(passage.document, keys.get(passage.document, ""))
    plain = {name: value for name, value in passage.attributes.items() if not isinstance(value, list | tuple)}
    attributes = {"title": passage.title, **plain} if passage.title else plain  # OpenAI's attributes have no lists
    return VectorStoreResult(id, passage.source, score, attributes, [TextPart("text", passage.text)])


def _interleaved(searches: Sequence[Sequence[Hit]]) -> list[tuple[Hit, float]]:
    """Scored passages from all searches: first each search's best, then each one's second, and so on.

    A score is from 0 to 1, like OpenAI's: its share of the best one. A passage found several times takes its best place
    and score.
    """
    places: dict[str, tuple[int, int]] = {}
    scored: dict[str, tuple[Hit, float]] = {}
    for number, hits in enumerate(searches):
        best = max((hit.score for hit in hits), default=0.0)
        for rank, hit in enumerate(hits):
            share = hit.score / best if best > 0 else 0.0
            places[hit.id] = min((rank, number), places.get(hit.id, (rank, number)))
            scored[hit.id] = max((hit, share), scored.get(hit.id, (hit, share)), key=lambda pair: pair[1])
    return [scored[id] for id in sorted(places, key=places.__getitem__)]
