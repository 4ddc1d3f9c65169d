"""Passages for a query, without a chat: POST /v1/knowledge/search."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.routing import Route

from proxy.asgi import Receive, Scope
from proxy.knowledge.access import Access
from proxy.knowledge.parameters import filter_in, invalid, k_of, names_of, query_text
from retrieval.records import Hit

_MODES = ("hybrid", "dense", "bm25")


class Searches:
    """Searches in one collection or several."""

    def __init__(self, access: Access, *, collections: Sequence[str], k: int) -> None:
        """collections, k: searched and found where the request says nothing."""
        self._access = access
        self._collections = tuple(collections)
        self._k = k

    def routes(self) -> list[Route]:
        return [self._access.route("/v1/knowledge/search", POST=self._search)]

    async def _search(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        fields = await self._access.fields(scope, receive, "query", "collections", "k", "mode", "filter")
        names = names_of(fields)
        k = k_of(fields, "k", self._k)
        query, mode = query_text(fields.get("query")), fields.get("mode")
        if mode is not None and mode not in _MODES:
            raise invalid(f"'mode' must be one of {', '.join(_MODES)}", "mode")
        found = await self._access.search(
            query,
            names or self._collections,
            scope,
            explicit=bool(names),
            k=k,
            mode=mode,
            filter=filter_in(fields, "filter"),
        )
        return {
            "object": "knowledge.search", "query": query, "relevance": found.relevance,
            "data": [_hit(hit) for hit in found.hits], "timings_ms": found.timings_ms,
        }  # fmt: skip


def _hit(hit: Hit) -> dict[str, Any]:
    passage = hit.passage
    return {
        "id": hit.id, "object": "knowledge.passage", "score": hit.score, "ranks": hit.ranks, "scores": hit.scores,
        "document": passage.document, "source": passage.source, "title": passage.title, "headings": passage.headings,
        "start": passage.start, "end": passage.end, "text": passage.text,
    }  # fmt: skip
