"""OpenAI's vector stores: each collection is a vector store, with the name as id."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.routing import Route

from proxy.access import permitted
from proxy.api.knowledge.access import Access, listed, must_make, must_write, rights_of
from proxy.api.knowledge.attachments import Attachments, check_chunking, counts_of, file_id, of_ids
from proxy.api.knowledge.files import newest_first_of
from proxy.api.knowledge.parameters import (
    filter_in,
    invalid,
    k_of,
    query_of,
    query_text,
    whole_number,
)
from proxy.asgi import Receive, Scope
from retrieval.records.documents import CollectionInfo
from retrieval.records.search import Hit

PATH = "/v1/vector_stores"  # the settings may relay the path instead
_MOST_QUERIES = 10  # of one search
_OPTIONS = ("metadata", "expires_after", "chunking_strategy", "description")  # accepted and ignored


class Stores:
    """Collections as vector stores."""

    def __init__(self, access: Access, attachments: Attachments) -> None:
        self._access = access
        self._attachments = attachments

    def routes(self) -> list[Route]:
        route = self._access.route
        return [
            route(PATH, writing=["POST"], GET=self._list_stores, POST=self._create_store),
            route(PATH + "/{name}", GET=self._read_store, POST=self._change_store, DELETE=self._delete_store),
            route(PATH + "/{name}/search", POST=self._search_store),
        ]

    async def _list_stores(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = query_of(scope, "limit", "after", "order")
        newest_first, limit = newest_first_of(asked), whole_number(asked.get("limit", "20"), "limit", 100)
        rows = await permitted.readable(self._access.knowledge, rights_of(scope))
        if newest_first:
            rows.reverse()
        names = [row.name for row in rows]
        first = names.index(asked["after"]) + 1 if asked.get("after") in names else 0
        stores = await self._stores(rows[first : first + limit], scope)
        return listed(stores, more=len(rows) > first + limit)

    async def _create_store(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        """Make a collection; a job makes documents of `file_ids`."""
        fields = await self._access.fields(scope, receive, "name", "file_ids", *_OPTIONS)
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
        return await self._read_store(scope, receive)

    async def _change_store(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        """Accept only the current values: a store's name is the collection's name."""
        name = (await self._access.collection(scope)).name
        must_write(name, rights_of(scope))
        fields = await self._access.fields(scope, receive, "name", *_OPTIONS)
        _check_options(fields)
        if fields.get("name") not in (None, name):
            raise invalid("a vector store keeps its name: make another one", "name")
        return await self._read_store(scope, receive)

    async def _delete_store(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        name = (await self._access.collection(scope)).name
        must_write(name, rights_of(scope))
        await self._access.knowledge.writing.delete_collection(name, rights_of(scope).groups)
        return {"id": name, "object": "vector_store.deleted", "deleted": True}

    async def _read_store(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        row = await self._access.collection(scope)
        (store,) = await self._stores([row], scope)
        return store

    async def _stores(self, rows: Sequence[CollectionInfo], scope: Scope) -> list[dict[str, Any]]:
        """Collections as vector stores, with counts of unfinished attachments."""
        states: dict[str, Counter[str]] = {row.name: Counter(created=row.documents) for row in rows}
        for one in await self._access.knowledge.library.unfinished_attachments(
            [row.name for row in rows], rights_of(scope).groups
        ):
            states[one.collection][one.state] += 1
        return [_store(row, counts_of(states[row.name])) for row in rows]

    async def _search_store(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        allowed = ("query", "max_num_results", "rewrite_query", "ranking_options", "filters")
        fields = await self._access.fields(scope, receive, *allowed)
        queries, least = _queries(fields.get("query")), _threshold(fields.get("ranking_options"))
        k, filter = k_of(fields, "max_num_results", 10), filter_in(fields, "filters")
        names = [scope["path_params"]["name"]]
        searches = [self._access.search(query, names, scope, explicit=True, k=k, filter=filter) for query in queries]
        hits = _interleaved([found.hits for found in await asyncio.gather(*searches)])[:k]
        keys = await self._access.knowledge.library.document_keys(list({hit.passage.document for hit, _ in hits}))
        data = [_result(hit, share, keys) for hit, share in hits if share >= least]
        return {
            "object": "vector_store.search_results.page",
            "search_query": queries,
            "data": data,
            "has_more": False,
            "next_page": None,
        }


def _check_options(fields: Mapping[str, Any]) -> None:
    check_chunking(fields)
    for name in ("metadata", "expires_after", "description"):
        if fields.get(name):
            raise invalid(f"'{name}' is not kept here: leave it out", name)


def _store(row: CollectionInfo, counts: Mapping[str, int]) -> dict[str, Any]:
    """A collection as a vector store; bytes and the time of creation are unknown."""
    at = int(row.updated_s)
    return {
        "id": row.name,
        "object": "vector_store",
        "created_at": at,
        "name": row.name,
        "usage_bytes": 0,
        "file_counts": counts,
        "status": "in_progress" if counts["in_progress"] else "completed",
        "last_active_at": at,
        "metadata": {},
    }


def _result(hit: Hit, score: float, keys: Mapping[str, str]) -> dict[str, Any]:
    """keys: of documents written by clients."""
    passage = hit.passage
    id = file_id(passage.document, keys.get(passage.document, ""))
    return {
        "file_id": id,
        "filename": passage.source,
        "score": score,
        "attributes": {**({"title": passage.title} if passage.title else {}), **_plain(passage.attributes)},
        "content": [{"type": "text", "text": passage.text}],
    }


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


def _queries(query: object) -> list[str]:
    """The queries of a search: a text, or a list of texts. Raises ApiError 400."""
    queries = query if isinstance(query, list) else [query]
    if not 1 <= len(queries) <= _MOST_QUERIES:
        raise invalid(f"'query' must be a text, or a list of 1 to {_MOST_QUERIES} texts", "query")
    return [query_text(each) for each in queries]


def _threshold(options: object) -> float:
    """The least score in `ranking_options`; the named ranker is ignored."""
    if options is None:
        return 0.0
    least = options.get("score_threshold", 0.0) if isinstance(options, dict) else None
    if not isinstance(least, int | float) or isinstance(least, bool) or not 0 <= least <= 1:
        raise invalid("'ranking_options.score_threshold' must be a number from 0 to 1", "ranking_options")
    return float(least)
