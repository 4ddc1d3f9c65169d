"""OpenAI's vector stores: each collection is one, by its name."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.routing import Route

from proxy import permitted
from proxy.asgi import Receive, Scope
from proxy.knowledge.access import Access, listed, rights_of
from proxy.knowledge.parameters import invalid, k_of, query_of, query_text, whole_number
from retrieval.records import CollectionInfo, Hit

PATH = "/v1/vector_stores"  # a configuration may relay it instead
_NOT_YET = ("filters", "attribute_filter")


class Stores:
    """Collections as vector stores."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def routes(self) -> list[Route]:
        route = self._access.route
        return [
            route(PATH, GET=self._list_stores),
            route(PATH + "/{name}", GET=self._read_store),
            route(PATH + "/{name}/search", POST=self._search_store),
        ]

    async def _list_stores(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = query_of(scope, "limit", "after", "order")
        if asked.get("order", "desc") not in ("asc", "desc"):
            raise invalid("'order' must be asc or desc", "order")
        limit = whole_number(asked.get("limit", "20"), "limit", 100)
        rows = await permitted.readable(self._access.knowledge, rights_of(scope))
        if asked.get("order", "desc") == "desc":
            rows.reverse()
        names = [row.name for row in rows]
        first = names.index(asked["after"]) + 1 if asked.get("after") in names else 0
        return listed([_store(row) for row in rows[first : first + limit]], more=len(rows) > first + limit)

    async def _read_store(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return _store(await self._access.collection(scope))

    async def _search_store(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        allowed = ("query", "max_num_results", "rewrite_query", "ranking_options", *_NOT_YET)
        fields = await self._access.fields(scope, receive, *allowed)
        for name in _NOT_YET:
            if fields.get(name) is not None:
                raise invalid(f"'{name}' is not supported: leave it out", name)
        query = fields.get("query")
        query = query[0] if isinstance(query, list) and len(query) == 1 else query
        text, least = query_text(query), _threshold(fields.get("ranking_options"))
        k = k_of(fields, "max_num_results", 10)
        found = await self._access.search(text, [scope["path_params"]["name"]], scope, explicit=True, k=k)
        shares = _shares(found.hits)
        data = [_result(hit, share) for hit, share in zip(found.hits, shares, strict=True) if share >= least]
        return {
            "object": "vector_store.search_results.page", "search_query": [text], "data": data, "has_more": False,
            "next_page": None,
        }  # fmt: skip


def _store(row: CollectionInfo) -> dict[str, Any]:
    """A collection as a vector store; it does not say what nobody counts here (bytes) or when it was made."""
    at = int(row.updated_s)
    counts = {"in_progress": 0, "completed": row.documents, "failed": 0, "cancelled": 0, "total": row.documents}
    return {
        "id": row.name, "object": "vector_store", "created_at": at, "name": row.name, "usage_bytes": 0,
        "file_counts": counts, "status": "completed", "last_active_at": at, "metadata": {},
    }  # fmt: skip


def _result(hit: Hit, score: float) -> dict[str, Any]:
    passage = hit.passage
    return {
        "file_id": passage.document, "filename": passage.source, "score": score,
        "attributes": {"title": passage.title} if passage.title else {},
        "content": [{"type": "text", "text": passage.text}],
    }  # fmt: skip


def _shares(hits: Sequence[Hit]) -> list[float]:
    """Scores from 0 to 1, as OpenAI's are: the share of the best one's."""
    best = max((hit.score for hit in hits), default=0.0)
    return [hit.score / best if best > 0 else 0.0 for hit in hits]


def _threshold(options: object) -> float:
    """The least score of `ranking_options`; the ranker is ours whatever it says."""
    if options is None:
        return 0.0
    least = options.get("score_threshold", 0.0) if isinstance(options, dict) else None
    if not isinstance(least, int | float) or isinstance(least, bool) or not 0 <= least <= 1:
        raise invalid("'ranking_options.score_threshold' must be a number from 0 to 1", "ranking_options")
    return float(least)
