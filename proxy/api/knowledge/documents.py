"""Collections and documents: made, listed, read, exported, deleted."""

from typing import Annotated, Any, ClassVar

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from proxy import permitted
from proxy.api.knowledge.access import Access, ApiReply, Deleted, Page, ends, must_make, must_write, rights_of
from proxy.api.knowledge.declarations import Closed, Open, doc, operation
from proxy.api.knowledge.filters import Attributes, Groups
from proxy.api.knowledge.filters import Filter as FilterType
from proxy.api.knowledge.parameters import After, invalid, query_of
from proxy.api.knowledge.puts import BY_KEY, COLLECTION
from proxy.asgi import Receive, Scope, Send
from proxy.caller import Rights
from retrieval.errors import UnknownDocument
from retrieval.records.documents import CollectionInfo, DocumentInfo
from retrieval.records.filters import Filter, filter_of, matches

_MOST_LISTED = 1000
_LISTED = 100
_MOST_PAGES = 20  # searched per answer; a filter with few matches continues on the next page
_BY_ID = "/v1/knowledge/documents/{id}"


class Collection(Closed, frozen=True, tag_field="object", tag="knowledge.collection"):
    id: Annotated[str, doc("The collection's name")]
    documents: int
    chunks: int
    language: str
    embedder: str
    updated_at: Annotated[int, doc("Seconds since 1970")]


class CollectionPage(Page, frozen=True, kw_only=True):
    data: list[Collection]


class _NewCollection(Closed, frozen=True):
    name: str
    language: Annotated[str | None, doc("A code like en, or auto; null takes the setting")] = None


class Document(Open, frozen=True, tag_field="object", tag="knowledge.document"):
    id: str
    collection: str
    source: str
    title: str
    format: str
    modified_at: Annotated[int, doc("Seconds since 1970")]
    chunks: int
    chars: int
    attributes: Attributes
    groups: Annotated[Groups, doc("Only for keys with the right to write the collection")] | UnsetType = UNSET
    key: Annotated[str, doc("The client's key of the document")] | UnsetType = UNSET
    more_schema: ClassVar[Any] = {"unevaluatedProperties": {"type": "string"}}


class FullDocument(Document, frozen=True, kw_only=True):
    text: str


class DocumentPage(Page, frozen=True, kw_only=True):
    data: list[Document]


class _DocumentsQuery(Closed, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=_MOST_LISTED)] = _LISTED
    after: After | None = None
    filter: FilterType | None = None


class _ExportQuery(Closed, frozen=True):
    after: After | None = None


class Documents:
    """The documents readable by a caller."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @operation("GET /v1/knowledge/collections", "collections", CollectionPage, "By name")
    async def list_collections(self, scope: Scope, _receive: Receive) -> CollectionPage:
        """The collections that the key may read."""
        rows = [_collection(row) for row in await permitted.readable(self._access.knowledge, rights_of(scope))]
        return CollectionPage(*ends(rows), data=rows)

    @operation(
        "POST /v1/knowledge/collections", "collections", Collection, "The collection", status=201, body=_NewCollection
    )
    async def create_collection(self, scope: Scope, receive: Receive) -> ApiReply:
        """Make an empty collection."""
        wanted = await self._access.read(_NewCollection, scope, receive)
        must_make(wanted.name, rights_of(scope))
        await self._access.knowledge.writing.create_collection(wanted.name, wanted.language)
        scope["path_params"] = {"name": wanted.name}
        return ApiReply(201, await self.read_collection(scope, receive))

    @operation(f"GET {COLLECTION}", "collections", Collection, "The collection")
    async def read_collection(self, scope: Scope, _receive: Receive) -> Collection:
        """A collection."""
        return _collection(await self._access.collection(scope))

    @operation(f"DELETE {COLLECTION}", "collections", Deleted, "Deleted")
    async def delete_collection(self, scope: Scope, _receive: Receive) -> Deleted:
        """Delete a collection and its documents."""
        name = (await self._access.collection(scope)).name
        must_write(name, rights_of(scope))
        await self._access.knowledge.writing.delete_collection(name, rights_of(scope).groups)
        return Deleted(name, "knowledge.collection.deleted", deleted=True)

    @operation(f"GET {COLLECTION}/documents", "documents", DocumentPage, "A page", query=_DocumentsQuery)
    async def list_documents(self, scope: Scope, _receive: Receive) -> DocumentPage:
        """The collection's documents, by id, without texts."""
        asked = query_of(scope, _DocumentsQuery)
        wanted, limit = _filter(asked.filter), asked.limit
        row = await self._access.collection(scope)
        rows, last = await self._page(row.name, asked.after or "", limit, wanted, rights_of(scope))
        shown = [Document(**_members(one, rights_of(scope))) for one in rows[:limit]]
        return DocumentPage(*ends(shown, more=len(rows) > limit or last is not None, last=last), data=shown)

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

    @operation(f"GET {BY_KEY}", "documents", FullDocument, "The document")
    async def read_document_by_key(self, scope: Scope, receive: Receive) -> FullDocument:
        """A document with the whole text."""
        await self._find(scope)
        return await self.read_document(scope, receive)

    @operation(f"DELETE {BY_KEY}", "documents", Deleted, "Deleted")
    async def delete_document_by_key(self, scope: Scope, receive: Receive) -> Deleted:
        """Delete a document."""
        await self._find(scope)
        return await self.delete_document(scope, receive)

    async def _find(self, scope: Scope) -> None:
        """Put the document's id in place of the key in the path."""
        row, key = await self._access.collection(scope), scope["path_params"]["key"]
        id = await self._access.knowledge.library.find_document(row.name, key, rights_of(scope).groups)
        scope["path_params"] = {"id": id}

    @operation(f"GET {_BY_ID}", "documents", FullDocument, "The document")
    async def read_document(self, scope: Scope, _receive: Receive) -> FullDocument:
        """A document with the whole text."""
        return await self._document(scope["path_params"]["id"], rights_of(scope))

    @operation(f"DELETE {_BY_ID}", "documents", Deleted, "Deleted")
    async def delete_document(self, scope: Scope, receive: Receive) -> Deleted:
        """Delete a document."""
        document = await self.read_document(scope, receive)
        must_write(document.collection, rights_of(scope))
        await self._access.knowledge.writing.delete_document(document.id, rights_of(scope).groups)
        return Deleted(document.id, "knowledge.document.deleted", deleted=True)

    @operation(
        f"GET {COLLECTION}/export",
        "documents",
        str,
        "A FullDocument on each line",
        media="application/jsonl",
        query=_ExportQuery,
        streams=True,
        words="Streamed. Resume an interrupted export with `after` set to the `id` of the last whole line.",
    )
    async def export_collection(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """All documents with their texts, as JSON Lines.

        In the order of the ids. A document replaced meanwhile is sent as the whole old or the whole new document. The
        deadline is per document.
        """
        after, groups = query_of(scope, _ExportQuery).after or "", rights_of(scope).groups
        library = self._access.knowledge.library
        async with self._access.asking():
            name = (await self._access.collection(scope)).name
            page = await library.documents(name, after=after, limit=_LISTED, groups=groups)
        headers = [(b"content-type", b"application/jsonl")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while page:
            for info in page:
                async with self._access.asking():
                    try:
                        document = await self._document(info.id, rights_of(scope))
                    except UnknownDocument:  # deleted after the listing
                        continue
                line = msgspec.json.encode(document) + b"\n"
                await send({"type": "http.response.body", "body": line, "more_body": True})
            async with self._access.asking():
                after = page[-1].id
                page = await library.documents(name, after=after, limit=_LISTED, groups=groups)
        await send({"type": "http.response.body", "body": b""})

    async def _document(self, id: str, rights: Rights) -> FullDocument:
        found = await permitted.document(self._access.knowledge, id, rights)
        return FullDocument(**_members(found.info, rights), text=found.text)


def _filter(text: str | None) -> Filter | None:
    """The filter in a query string: JSON."""
    if not text:
        return None
    try:
        return filter_of(orjson.loads(text))
    except ValueError as error:  # invalid JSON, too
        raise invalid(f"'filter': {error}", "filter") from error


def _collection(row: CollectionInfo) -> Collection:
    return Collection(row.name, row.documents, row.chunks, row.language, row.embedder, int(row.updated_s))


def _members(row: DocumentInfo, rights: Rights) -> dict[str, Any]:
    """The members of a `Document`; groups only for callers with the right to change groups."""
    same = ("id", "collection", "source", "title", "format", "chunks", "chars", "attributes")
    return {
        **{name: getattr(row, name) for name in same},
        "modified_at": int(row.modified_s),
        "groups": row.groups if row.collection in rights.write else UNSET,
        "key": row.key or UNSET,
    }
