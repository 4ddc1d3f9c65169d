"""Passages for a query, without a chat: POST /v1/knowledge/search."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.access import KnowledgeCall
from proxy.api.knowledge.declarations import Closed, doc, operation
from proxy.api.knowledge.filters import Filter
from proxy.api.knowledge.parameters import CollectionNames, K, QueryText, few_names, filter_in, invalid, query_text
from proxy.caller import PermittedSearch
from retrieval.knowledge import HitOptions
from retrieval.records.search import Hit, Turn


class SearchRequest(Closed, frozen=True):
    query: QueryText
    collections: Annotated[CollectionNames, doc("Default: the configured collections")] | UnsetType = UNSET
    k: Annotated[K, doc("Passages at most; default: the setting")] | UnsetType = UNSET
    mode: Literal["hybrid", "dense", "bm25"] | None = None
    rerank: Annotated[
        bool | None,
        doc("false: without the reranker; true: with the reranker, an error if no reranker is configured"),
    ] = None
    neighbours: Annotated[Annotated[int, Meta(ge=0, le=5)] | None, doc("Chunks on each side in `context`")] = None
    whole: Annotated[
        bool | None, doc("The whole document in `context`, for documents of at most 50,000 characters")
    ] = None
    filter: Filter | None = None


class _Context(Closed, frozen=True):
    start: int
    end: int
    text: str
    whole: Annotated[bool, doc("Whether the text is the whole document")]


class Passage(Closed, frozen=True, tag_field="object", tag="knowledge.passage"):
    id: str
    score: float
    ranks: Annotated[Mapping[str, int], doc("By arm")]
    scores: Annotated[Mapping[str, float], doc("By arm")]
    document: Annotated[str, doc("The document's id")]
    source: str
    title: str
    headings: Sequence[str]
    place: Annotated[str, doc('Where the text begins, such as "page 12"; empty in a format without pages')]
    start: Annotated[int, doc("The first character of the document's text")]
    end: int
    text: str
    context: (
        Annotated[_Context, doc("The passage with the surrounding text; only with `neighbours` or `whole`")] | UnsetType
    ) = UNSET


class Found(Closed, frozen=True, tag_field="object", tag="knowledge.search"):
    query: str
    relevance: Annotated[float | None, doc("The probability that the best passage is about the query")]
    data: list[Passage]
    timings_ms: Mapping[str, float]


@operation("POST /v1/knowledge/search", "search", "Passages, best first; none without a relevant passage")
async def search(call: KnowledgeCall, body: SearchRequest) -> Found:
    """Passages for a query."""
    names, query = few_names(body.collections or ()), query_text(body.query)
    settings = call.rules.settings
    if body.rerank and not settings.rerank_model:
        raise invalid("no reranker is configured here (retrieval.rerank_model): leave 'rerank' out", "rerank")
    asked = PermittedSearch(
        [Turn("user", query)],
        names or settings.collections,
        call.rights,
        explicit=bool(names),
        k=body.k or settings.k,
        filter=filter_in(body.filter, "filter"),
        hit_options=HitOptions(body.mode, body.rerank is not False, body.neighbours or 0, body.whole is True),
    )
    found = await call.search(asked)
    return Found(query, found.relevance, [_passage(hit) for hit in found.hits], found.timings_ms)


def _passage(hit: Hit) -> Passage:
    one, around = hit.passage, hit.surrounding
    return Passage(
        hit.id,
        hit.score,
        hit.ranks,
        hit.scores,
        one.document,
        one.source,
        one.title,
        one.headings,
        one.place,
        one.start,
        one.end,
        one.text,
        UNSET if around is None else _Context(around.start, around.end, around.text, around.whole),
    )
