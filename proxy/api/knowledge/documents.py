"""Collections and documents: made, listed, read, exported, deleted."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.routing import Route

from proxy.access import permitted
from proxy.access.rights import Rights
from proxy.api.knowledge.access import Access, ApiReply, listed, must_make, must_write, rights_of
from proxy.api.knowledge.parameters import invalid, query_of, whole_number
from proxy.api.knowledge.puts import Puts
from proxy.asgi import Receive, Scope, Send
from retrieval.errors import UnknownDocument
from retrieval.filters import Filter, filter_of, matches
from retrieval.records.documents import CollectionInfo, DocumentInfo

_MOST_LISTED = 1000
_LISTED = 100
_MOST_PAGES = 20  # searched per answer; a filter with few matches continues on the next page


class Documents:
    """The documents readable by a caller."""

    def __init__(self, access: Access, puts: Puts) -> None:
        self._access = access
        self._puts = puts

    def routes(self) -> list[Route]:
        route, collection, puts = self._access.route, "/v1/knowledge/collections/{name}", self._puts
        return [
            route("/v1/knowledge/collections", GET=self._list_collections, POST=self._create_collection),
            route(collection, GET=self._read_collection, DELETE=self._delete_collection),
            route(collection + "/documents", writing=["POST"], GET=self._list_documents, POST=puts.put_many),
            route(
                collection + "/documents/{key:path}",
                GET=self._read_by_key,
                PUT=puts.put_one,
                DELETE=self._delete_by_key,
            ),
            Route(collection + "/export", _Export(self._access)),
            route("/v1/knowledge/documents/{id}", GET=self._read_document, DELETE=self._delete_document),
        ]

    async def _list_collections(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return listed([_collection(row) for row in await permitted.readable(self._access.knowledge, rights_of(scope))])

    async def _create_collection(self, scope: Scope, receive: Receive) -> ApiReply:
        fields = await self._access.fields(scope, receive, "name", "language")
        name, language = fields.get("name"), fields.get("language")
        if not isinstance(name, str) or not isinstance(language, str | None):
            raise invalid("'name' must be text, and so must 'language'", "name" if language is None else "language")
        must_make(name, rights_of(scope))
        await self._access.knowledge.writing.create_collection(name, language)
        scope["path_params"] = {"name": name}
        return ApiReply(201, await self._read_collection(scope, receive))

    async def _read_collection(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return _collection(await self._access.collection(scope))

    async def _list_documents(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = query_of(scope, "limit", "after", "filter")
        limit = whole_number(asked.get("limit", str(_LISTED)), "limit", _MOST_LISTED)
        wanted = _filter(asked.get("filter"))
        row = await self._access.collection(scope)
        rows, last = await self._page(row.name, asked.get("after", ""), limit, wanted, rights_of(scope))
        more = len(rows) > limit or last is not None
        found = listed([_document(one, rights_of(scope)) for one in rows[:limit]], more=more)
        return found if last is None else {**found, "last_id": last}

    async def _page(
        self, name: str, after: str, limit: int, wanted: Filter | None, rights: Rights
    ) -> tuple[list[DocumentInfo], str | None]:
        """At most `limit` + 1 documents; after many filtered documents, also the id to continue from."""
        found: list[DocumentInfo] = []
        for _ in range(_MOST_PAGES):
            size = limit + 1 if wanted is None else _MOST_LISTED
            page = await self._access.knowledge.library.documents(name, after=after, limit=size, groups=rights.groups)
            found += [
                one for one in page if wanted is None or matches(wanted, one.source, one.modified_s, one.attributes)
            ]
            if len(found) > limit or len(page) < size:
                return found, None
            after = page[-1].id
        return found, after

    async def _read_document(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        found = await permitted.document(self._access.knowledge, scope["path_params"]["id"], rights_of(scope))
        return {**_document(found.info, rights_of(scope)), "text": found.text}

    async def _read_by_key(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        await self._find(scope)
        return await self._read_document(scope, receive)

    async def _delete_by_key(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        await self._find(scope)
        return await self._delete_document(scope, receive)

    async def _find(self, scope: Scope) -> None:
        """Put the document's id in place of the key in the path."""
        row, key = await self._access.collection(scope), scope["path_params"]["key"]
        id = await self._access.knowledge.library.find_document(row.name, key, rights_of(scope).groups)
        scope["path_params"] = {"id": id}

    async def _delete_document(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        document = await self._read_document(scope, receive)
        must_write(document["collection"], rights_of(scope))
        await self._access.knowledge.writing.delete_document(document["id"], rights_of(scope).groups)
        return {"id": document["id"], "object": "knowledge.document.deleted", "deleted": True}

    async def _delete_collection(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        name = (await self._access.collection(scope)).name
        must_write(name, rights_of(scope))
        await self._access.knowledge.writing.delete_collection(name, rights_of(scope).groups)
        return {"id": name, "object": "knowledge.collection.deleted", "deleted": True}


class _Export:
    """A whole collection as JSON Lines, a document per line, by id. A client resumes after the last whole line.

    A document replaced meanwhile is sent as the whole old or the whole new document. The deadline is per document.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self._access.check(scope, ["GET"])
        after, groups = query_of(scope, "after").get("after", ""), rights_of(scope).groups
        async with self._access.asking():
            name = (await self._access.collection(scope)).name
            page = await self._access.knowledge.library.documents(name, after=after, limit=_LISTED, groups=groups)
        headers = [(b"content-type", b"application/jsonl")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while page:
            for info in page:
                await self._send(info.id, rights_of(scope), send)
            async with self._access.asking():
                after = page[-1].id
                page = await self._access.knowledge.library.documents(name, after=after, limit=_LISTED, groups=groups)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, id: str, rights: Rights, send: Send) -> None:
        async with self._access.asking():
            try:
                found = await permitted.document(self._access.knowledge, id, rights)
            except UnknownDocument:  # deleted after the listing
                return
        shown = {**_document(found.info, rights), "text": found.text}
        line = orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE)
        await send({"type": "http.response.body", "body": line, "more_body": True})


def _filter(text: str | None) -> Filter | None:
    """The filter in a query string: JSON."""
    if not text:
        return None
    try:
        return filter_of(orjson.loads(text))
    except ValueError as error:  # invalid JSON, too
        raise invalid(f"'filter': {error}", "filter") from error


def _collection(row: CollectionInfo) -> dict[str, Any]:
    return {
        "id": row.name,
        "object": "knowledge.collection",
        "documents": row.documents,
        "chunks": row.chunks,
        "language": row.language,
        "embedder": row.embedder,
        "updated_at": int(row.updated_s),
    }


def _document(row: DocumentInfo, rights: Rights) -> dict[str, Any]:
    """Show groups only to callers with the right to change groups."""
    groups = {"groups": row.groups} if row.collection in rights.write else {}
    return {
        "id": row.id,
        "object": "knowledge.document",
        "collection": row.collection,
        "source": row.source,
        "title": row.title,
        "format": row.format,
        "modified_at": int(row.modified_s),
        "chunks": row.chunks,
        "chars": row.chars,
        "attributes": row.attributes,
        **groups,
        **({"key": row.key} if row.key else {}),
    }
