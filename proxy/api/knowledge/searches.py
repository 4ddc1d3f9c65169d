"""Passages for a query, without a chat: POST /v1/knowledge/search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.routing import Route

from proxy.api.knowledge.access import Access
from proxy.api.knowledge.parameters import (
    filter_in,
    invalid,
    k_of,
    names_of,
    query_text,
    whole_number_of,
    yes_or_no,
)
from proxy.asgi import Receive, Scope
from retrieval.knowledge import HitOptions
from retrieval.records.search import Hit

_MODES = ("hybrid", "dense", "bm25")
_MOST_NEIGHBOURS = 5  # on each side


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The settings of searches."""

    collections: Sequence[str]  # searched where the request names none
    k: int  # the default of a request
    reranker: bool  # whether a reranker is configured


class Searches:
    """Searches in a collection or in several collections."""

    def __init__(self, access: Access, settings: SearchSettings) -> None:
        self._access = access
        self._settings = settings

    def routes(self) -> list[Route]:
        return [self._access.route("/v1/knowledge/search", POST=self._search)]

    async def _search(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        fields = await self._access.fields(
            scope, receive, "query", "collections", "k", "mode", "filter", "rerank", "neighbours", "whole"
        )
        names = names_of(fields)
        k = k_of(fields, "k", self._settings.k)
        query = query_text(fields.get("query"))
        found = await self._access.search(
            query,
            names or self._settings.collections,
            scope,
            explicit=bool(names),
            k=k,
            filter=filter_in(fields, "filter"),
            hit_options=self._hit_options(fields),
        )
        return {
            "object": "knowledge.search",
            "query": query,
            "relevance": found.relevance,
            "data": [_hit(hit) for hit in found.hits],
            "timings_ms": found.timings_ms,
        }

    def _hit_options(self, fields: Mapping[str, Any]) -> HitOptions:
        mode, rerank = fields.get("mode"), yes_or_no(fields, "rerank")
        if mode is not None and mode not in _MODES:
            raise invalid(f"'mode' must be one of {', '.join(_MODES)}", "mode")
        if rerank and not self._settings.reranker:
            raise invalid("no reranker is configured here (retrieval.rerank_model): leave 'rerank' out", "rerank")
        neighbours = whole_number_of(fields, "neighbours", default=0, most=_MOST_NEIGHBOURS)
        return HitOptions(mode, rerank is not False, neighbours, yes_or_no(fields, "whole") is True)


def _hit(hit: Hit) -> dict[str, Any]:
    passage, around = hit.passage, hit.surrounding
    told: dict[str, Any] = {
        "id": hit.id,
        "object": "knowledge.passage",
        "score": hit.score,
        "ranks": hit.ranks,
        "scores": hit.scores,
        "document": passage.document,
        "source": passage.source,
        "title": passage.title,
        "headings": passage.headings,
        "start": passage.start,
        "end": passage.end,
        "text": passage.text,
    }
    if around is not None:
        told["context"] = {"start": around.start, "end": around.end, "text": around.text, "whole": around.whole}
    return told
