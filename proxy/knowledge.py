"""The Knowledge API: collections, documents and searches without a chat, for whoever may read them.

Two dialects of the same: ours under /v1/knowledge, and OpenAI's vector stores (a collection is a vector store), so that
the client a team has will do. What may not be read is answered as what does not exist.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.routing import Route

from proxy import permitted
from proxy.asgi import Receive, Scope, Send, send_json
from proxy.body import whole_body
from proxy.chat import parse
from proxy.errors import ApiError, method_not_allowed
from proxy.exchange import exchange_of
from proxy.rights import Rights
from retrieval.errors import IndexDown, RetrievalError, UnknownCollection, UnknownDocument
from retrieval.knowledge import Knowledge, Mode
from retrieval.records import CollectionInfo, DocumentInfo, Hit, Retrieved, Turn

STORES = "/v1/vector_stores"  # OpenAI's; a configuration may relay it instead
_MODES = ("hybrid", "dense", "bm25")
_MOST_K = 100
_MOST_LISTED = 1000
_LISTED = 100
_MOST_QUERY_CHARS = 20_000
_RETRY_AFTER_S = 5  # an index process that died is back within seconds
_NOT_YET = ("filters", "attribute_filter")

Answer = Callable[[Scope, Receive], Awaitable[Mapping[str, Any]]]
Row = Callable[[Scope], Awaitable[CollectionInfo]]


class KnowledgeApi:
    """What the routes answer with."""

    def __init__(
        self, knowledge: Knowledge, *, enabled: bool, collections: Sequence[str], k: int, deadline_s: float,
        max_body_bytes: int,
    ) -> None:  # fmt: skip
        """enabled: whether there is retrieval. collections, k: searched and found where the request says nothing."""
        self._knowledge = knowledge
        self._enabled = enabled
        self._collections = tuple(collections)
        self._k = k
        self._deadline_s = deadline_s
        self._max_body_bytes = max_body_bytes

    def routes(self, *, stores: bool) -> list[Route]:
        """stores: OpenAI's dialect, too."""
        export = _Export(self._knowledge, self._row, enabled=self._enabled, deadline_s=self._deadline_s)
        ours = [
            self._route("/v1/knowledge/search", POST=self._search),
            self._route("/v1/knowledge/collections", GET=self._list_collections),
            self._route("/v1/knowledge/collections/{name}", GET=self._read_collection, DELETE=self._delete_collection),
            self._route("/v1/knowledge/collections/{name}/documents", GET=self._list_documents),
            Route("/v1/knowledge/collections/{name}/export", export),
            self._route("/v1/knowledge/documents/{id}", GET=self._read_document, DELETE=self._delete_document),
        ]
        theirs = [
            self._route(STORES, GET=self._list_stores),
            self._route(STORES + "/{name}", GET=self._read_store),
            self._route(STORES + "/{name}/search", POST=self._search_store),
        ]
        return [*ours, *theirs] if stores else ours

    def _route(self, path: str, **answers: Answer) -> Route:
        return Route(path, _Endpoint(answers, enabled=self._enabled, deadline_s=self._deadline_s))

    # Ours

    async def _list_collections(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return _listed([_collection(row) for row in await permitted.readable(self._knowledge, _rights(scope))])

    async def _read_collection(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return _collection(await self._row(scope))

    async def _list_documents(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = _query_of(scope, "limit", "after")
        limit = _whole_number(asked.get("limit", str(_LISTED)), "limit", _MOST_LISTED)
        row = await self._row(scope)
        rows = await self._knowledge.documents(row.name, after=asked.get("after", ""), limit=limit + 1)
        return _listed([_document(one) for one in rows[:limit]], more=len(rows) > limit)

    async def _read_document(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        id = scope["path_params"]["id"]
        found = await self._knowledge.document(id)
        if found.info.collection not in _rights(scope).read:
            raise UnknownDocument(f"there is no document {id!r}")
        return {**_document(found.info), "text": found.text}

    async def _delete_document(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        document = await self._read_document(scope, receive)
        _must_write(document["collection"], _rights(scope))
        await self._knowledge.delete_document(document["id"])
        return {"id": document["id"], "object": "knowledge.document.deleted", "deleted": True}

    async def _delete_collection(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        name = (await self._row(scope)).name
        _must_write(name, _rights(scope))
        await self._knowledge.delete_collection(name)
        return {"id": name, "object": "knowledge.collection.deleted", "deleted": True}

    async def _search(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        fields = await self._fields(scope, receive, "query", "collections", "k", "mode")
        names = fields.get("collections")
        if names is not None and not (names and isinstance(names, list) and all(isinstance(n, str) for n in names)):
            raise _invalid("'collections' must be a list of names", "collections")
        k = _k_of(fields, "k", self._k)
        query, mode = _query_text(fields.get("query")), fields.get("mode")
        if mode is not None and mode not in _MODES:
            raise _invalid(f"'mode' must be one of {', '.join(_MODES)}", "mode")
        found = await self._found(query, names or self._collections, scope, explicit=bool(names), k=k, mode=mode)
        return {
            "object": "knowledge.search", "query": query, "relevance": found.relevance,
            "data": [_hit(hit) for hit in found.hits], "timings_ms": found.timings_ms,
        }  # fmt: skip

    # OpenAI's vector stores

    async def _list_stores(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = _query_of(scope, "limit", "after", "order")
        if asked.get("order", "desc") not in ("asc", "desc"):
            raise _invalid("'order' must be asc or desc", "order")
        limit = _whole_number(asked.get("limit", "20"), "limit", 100)
        rows = await permitted.readable(self._knowledge, _rights(scope))
        if asked.get("order", "desc") == "desc":
            rows.reverse()
        names = [row.name for row in rows]
        first = names.index(asked["after"]) + 1 if asked.get("after") in names else 0
        return _listed([_store(row) for row in rows[first : first + limit]], more=len(rows) > first + limit)

    async def _read_store(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return _store(await self._row(scope))

    async def _search_store(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        allowed = ("query", "max_num_results", "rewrite_query", "ranking_options", *_NOT_YET)
        fields = await self._fields(scope, receive, *allowed)
        for name in _NOT_YET:
            if fields.get(name) is not None:
                raise _invalid(f"'{name}' is not supported: leave it out", name)
        query = fields.get("query")
        query = query[0] if isinstance(query, list) and len(query) == 1 else query
        text, least = _query_text(query), _threshold(fields.get("ranking_options"))
        k = _k_of(fields, "max_num_results", 10)
        found = await self._found(text, [scope["path_params"]["name"]], scope, explicit=True, k=k)
        shares = _shares(found.hits)
        data = [_result(hit, share) for hit, share in zip(found.hits, shares, strict=True) if share >= least]
        return {
            "object": "vector_store.search_results.page", "search_query": [text], "data": data, "has_more": False,
            "next_page": None,
        }  # fmt: skip

    # What they share

    async def _row(self, scope: Scope) -> CollectionInfo:
        name = scope["path_params"]["name"]
        rows = await permitted.readable(self._knowledge, _rights(scope))
        row = next((row for row in rows if row.name == name), None)
        if row is None:
            raise permitted.unknown(name, [row.name for row in rows])
        return row

    async def _found(
        self, query: str, collections: Sequence[str], scope: Scope, *, explicit: bool, k: int, mode: Mode | None = None
    ) -> Retrieved:
        def retrieve(names: Sequence[str]) -> Awaitable[Retrieved]:
            return self._knowledge.retrieve([Turn("user", query)], names, k=k, mode=mode)

        found = await permitted.search(retrieve, collections, self._knowledge, _rights(scope), explicit=explicit)
        exchange_of(scope).timings_ms.update(found.timings_ms)
        return found

    async def _fields(self, scope: Scope, receive: Receive, *names: str) -> Mapping[str, Any]:
        fields = parse(await whole_body(scope, receive, max_bytes=self._max_body_bytes)).fields
        if unknown := sorted(set(fields) - set(names)):
            raise _invalid(f"there is no '{unknown[0]}' here; it takes {', '.join(names)}", unknown[0])
        return fields


class _Endpoint:
    """One of the routes: its answer to each method, and what is said where there is none."""

    def __init__(self, answers: Mapping[str, Answer], *, enabled: bool, deadline_s: float) -> None:
        self._answers = {**answers, "HEAD": answers["GET"]} if "GET" in answers else answers
        self._enabled = enabled
        self._deadline_s = deadline_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _check(scope, list(self._answers), enabled=self._enabled)
        async with _asking(self._deadline_s):
            found = await self._answers[scope["method"]](scope, receive)
        await send_json(send, 200, orjson.dumps(found))


class _Export:
    """A whole collection as JSON Lines, a document each, by id. Cut off, it goes on behind the last whole line's id.

    A document that is replaced meanwhile is the old one or the new one, whole. The deadline is that of each document.
    """

    def __init__(self, knowledge: Knowledge, row: Row, *, enabled: bool, deadline_s: float) -> None:
        """row: the collection that a request names. Raises UnknownCollection."""
        self._knowledge = knowledge
        self._row = row
        self._enabled = enabled
        self._deadline_s = deadline_s

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        _check(scope, ["GET"], enabled=self._enabled)
        after = _query_of(scope, "after").get("after", "")
        async with _asking(self._deadline_s):
            name = (await self._row(scope)).name
            page = await self._knowledge.documents(name, after=after, limit=_LISTED)
        headers = [(b"content-type", b"application/jsonl")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while page:
            for info in page:
                await self._send(info.id, send)
            async with _asking(self._deadline_s):
                page = await self._knowledge.documents(name, after=page[-1].id, limit=_LISTED)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, id: str, send: Send) -> None:
        async with _asking(self._deadline_s):
            try:
                found = await self._knowledge.document(id)
            except UnknownDocument:  # deleted since it was listed
                return
        line = orjson.dumps({**_document(found.info), "text": found.text}, option=orjson.OPT_APPEND_NEWLINE)
        await send({"type": "http.response.body", "body": line, "more_body": True})


def _check(scope: Scope, methods: Sequence[str], *, enabled: bool) -> None:
    if scope["method"] not in methods:
        raise method_not_allowed(scope["method"], scope["path"], methods)
    if not enabled:
        raise _unavailable("This gateway has no index (retrieval.enabled is false).")


@contextlib.asynccontextmanager
async def _asking(deadline_s: float) -> AsyncIterator[None]:
    """What the index refuses, as an answer of ours."""
    try:
        async with asyncio.timeout(deadline_s):
            yield
    except UnknownCollection as error:
        raise ApiError(404, f"{error}.", code="collection_not_found", param="collection") from error
    except UnknownDocument as error:
        raise ApiError(404, f"{error}.", code="document_not_found", param="document") from error
    except TimeoutError as error:
        raise _unavailable("The index took too long: try again later.") from error
    except IndexDown as error:
        raise _unavailable("The index is down, and is started again: try again later.") from error
    except RetrievalError as error:
        raise _unavailable(f"{error}.") from error


def _rights(scope: Scope) -> Rights:
    return exchange_of(scope).rights


def _must_write(name: str, rights: Rights) -> None:
    """To be called for what may be read: of anything else it would tell that it is there."""
    if name not in rights.write:
        message = f"This key may read the collection {name!r}, and not write it."
        raise ApiError(403, message, code="forbidden", type="permission_error", param="collection")


def _collection(row: CollectionInfo) -> dict[str, Any]:
    return {
        "id": row.name, "object": "knowledge.collection", "documents": row.documents, "chunks": row.chunks,
        "language": row.language, "embedder": row.embedder, "updated_at": int(row.updated_s),
    }  # fmt: skip


def _document(row: DocumentInfo) -> dict[str, Any]:
    return {
        "id": row.id, "object": "knowledge.document", "collection": row.collection, "source": row.source,
        "title": row.title, "format": row.format, "modified_at": int(row.modified_s), "chunks": row.chunks,
        "chars": row.chars,
    }  # fmt: skip


def _hit(hit: Hit) -> dict[str, Any]:
    passage = hit.passage
    return {
        "id": hit.id, "object": "knowledge.passage", "score": hit.score, "ranks": hit.ranks, "scores": hit.scores,
        "document": passage.document, "source": passage.source, "title": passage.title, "headings": passage.headings,
        "start": passage.start, "end": passage.end, "text": passage.text,
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


def _listed(rows: Sequence[Mapping[str, Any]], *, more: bool = False) -> dict[str, Any]:
    ids = [row["id"] for row in rows]
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"object": "list", "data": rows, "first_id": first, "last_id": last, "has_more": more}


def _query_of(scope: Scope, *names: str) -> dict[str, str]:
    asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    _none_but(asked, names)
    return {name: values[-1] for name, values in asked.items()}


def _none_but(asked: Iterable[str], names: Sequence[str]) -> None:
    if unknown := sorted(set(asked) - set(names)):
        raise _invalid(f"there is no parameter '{unknown[0]}' here; it takes {', '.join(names)}", unknown[0])


def _query_text(query: object) -> str:
    if not isinstance(query, str) or not query.strip() or len(query) > _MOST_QUERY_CHARS:
        raise _invalid(f"'query' must be text of 1 to {_MOST_QUERY_CHARS} characters", "query")
    return query.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be encoded for the index process


def _k_of(fields: Mapping[str, Any], name: str, default: int) -> int:
    k = fields.get(name)
    if k is None:
        return default
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= _MOST_K:
        raise _invalid(f"'{name}' must be a whole number from 1 to {_MOST_K}", name)
    return k


def _whole_number(text: str, name: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise _invalid(f"'{name}' must be a whole number from 1 to {most}", name)
    return int(text)


def _threshold(options: object) -> float:
    """The least score of `ranking_options`; the ranker is ours whatever it says."""
    if options is None:
        return 0.0
    least = options.get("score_threshold", 0.0) if isinstance(options, dict) else None
    if not isinstance(least, int | float) or isinstance(least, bool) or not 0 <= least <= 1:
        raise _invalid("'ranking_options.score_threshold' must be a number from 0 to 1", "ranking_options")
    return float(least)


def _invalid(what: str, param: str) -> ApiError:
    return ApiError(400, f"{what[0].upper()}{what[1:]}.", code="invalid_parameter", param=param)


def _unavailable(message: str) -> ApiError:
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="knowledge_unavailable", type="server_error", headers=again)
