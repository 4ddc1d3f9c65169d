"""Makes, lists, reads, exports and deletes collections and documents."""

from typing import Annotated, Any, ClassVar

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.access import Deleted, KnowledgeCall, Page, must_make, must_write
from proxy.api.knowledge.declarations import Closed, Open, doc, operation
from proxy.api.knowledge.filters import Attributes, Groups
from proxy.api.knowledge.filters import Filter as FilterType
from proxy.api.knowledge.parameters import After, invalid
from proxy.api.knowledge.puts import BY_KEY, COLLECTION
from proxy.asgi import Send
from proxy.caller import Rights, readable_collections, readable_document
from retrieval.errors import UnknownDocument
from retrieval.records.documents import CollectionInfo, DocumentInfo
from retrieval.records.filters import Filter, filter_of, matches

_MOST_LISTED = 1000
_LISTED = 100
_MOST_PAGES = 20  # per answer; a filter with few matches continues on the next one
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


@operation("GET /v1/knowledge/collections", "collections", "By name")
async def list_collections(call: KnowledgeCall) -> CollectionPage:
    """The collections that the key may read."""
    return CollectionPage.of([*map(_collection, await readable_collections(call.knowledge, call.rights))])


@operation("POST /v1/knowledge/collections", "collections", "The collection", status=201)
async def create_collection(call: KnowledgeCall, body: _NewCollection) -> Collection:
    """Make an empty collection."""
    must_make(body.name, call.rights)
    await call.writing.create_collection(body.name, body.language)
    return _collection(await call.collection(body.name))


@operation(f"GET {COLLECTION}", "collections", "The collection")
async def read_collection(call: KnowledgeCall) -> Collection:
    """A collection."""
    return _collection(await call.collection(call.path["name"]))


@operation(f"DELETE {COLLECTION}", "collections", "Deleted", right="write")
async def delete_collection(call: KnowledgeCall) -> Deleted:
    """Delete a collection and its documents."""
    await call.writing.delete_collection(call.path["name"], call.rights.groups)
    return Deleted(call.path["name"], "knowledge.collection.deleted", deleted=True)


@operation(f"GET {COLLECTION}/documents", "documents", "A page", right="read")
async def list_documents(call: KnowledgeCall, query: _DocumentsQuery) -> DocumentPage:
    """The collection's documents, by id, without texts."""
    wanted, limit = _filter(query.filter), query.limit
    rows, last = await _page(call, query.after or "", limit, wanted)
    return DocumentPage.of([Document(**_members(one, call.rights)) for one in rows], limit, after=last)


async def _page(
    call: KnowledgeCall, after: str, limit: int, wanted: Filter | None
) -> tuple[list[DocumentInfo], str | None]:
    """At most `limit` + 1 documents; after many filtered documents, also the id to continue from."""
    found: list[DocumentInfo] = []
    for _ in range(_MOST_PAGES):
        size = limit + 1 if wanted is None else _MOST_LISTED
        page = await call.library.documents(call.path["name"], after=after, limit=size, groups=call.rights.groups)
        found += [one for one in page if wanted is None or matches(wanted, one.source, one.modified_s, one.attributes)]
        if len(found) > limit or len(page) < size:
            return found, None
        after = page[-1].id
    return found, after


@operation(f"GET {BY_KEY}", "documents", "The document", right="read")
async def read_document_by_key(call: KnowledgeCall) -> FullDocument:
    """A document with the whole text."""
    return await _document(await _id(call), call)


@operation(f"DELETE {BY_KEY}", "documents", "Deleted", right="read")
async def delete_document_by_key(call: KnowledgeCall) -> Deleted:
    """Delete a document."""
    return await _delete(await _id(call), call)


async def _id(call: KnowledgeCall) -> str:
    """The id for a key in the path."""
    return await call.library.find_document(call.path["name"], call.path["key"], call.rights.groups)


@operation(f"GET {_BY_ID}", "documents", "The document")
async def read_document(call: KnowledgeCall) -> FullDocument:
    """A document with the whole text."""
    return await _document(call.path["id"], call)


@operation(f"DELETE {_BY_ID}", "documents", "Deleted")
async def delete_document(call: KnowledgeCall) -> Deleted:
    """Delete a document."""
    return await _delete(call.path["id"], call)


async def _delete(id: str, call: KnowledgeCall) -> Deleted:
    document = await _document(id, call)
    must_write(document.collection, call.rights)
    await call.writing.delete_document(document.id, call.rights.groups)
    return Deleted(document.id, "knowledge.document.deleted", deleted=True)


@operation(
    f"GET {COLLECTION}/export",
    "documents",
    "A FullDocument on each line",
    gives=str,
    media="application/jsonl",
    right="read",
    streams=True,
    words="Streamed. Resume an interrupted export with `after` set to the `id` of the last whole line.",
)
async def export_collection(call: KnowledgeCall, query: _ExportQuery, send: Send) -> None:
    """All documents with their texts, as JSON Lines.

    In id order. A document replaced meanwhile is sent whole, old or new. Each document has its own deadline.
    """
    page = await _listed(call, query.after or "")
    headers = [(b"content-type", b"application/jsonl")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while page:
        for info in page:
            async with call.rules.asking():
                try:
                    document = await _document(info.id, call)
                except UnknownDocument:  # deleted since it was listed
                    continue
            line = msgspec.json.encode(document) + b"\n"
            await send({"type": "http.response.body", "body": line, "more_body": True})
        page = await _listed(call, page[-1].id)
    await send({"type": "http.response.body", "body": b""})


async def _listed(call: KnowledgeCall, after: str) -> list[DocumentInfo]:
    async with call.rules.asking():
        return await call.library.documents(call.path["name"], after=after, limit=_LISTED, groups=call.rights.groups)


async def _document(id: str, call: KnowledgeCall) -> FullDocument:
    found = await readable_document(call.knowledge, id, call.rights)
    return FullDocument(**_members(found.info, call.rights), text=found.text)


def _filter(text: str | None) -> Filter | None:
    """A query string's filter, which is JSON."""
    try:
        return filter_of(orjson.loads(text)) if text else None
    except ValueError as error:  # invalid JSON, too
        raise invalid(f"'filter': {error}", "filter") from error


def _collection(row: CollectionInfo) -> Collection:
    return Collection(row.name, row.documents, row.chunks, row.language, row.embedder, int(row.updated_s))


def _members(row: DocumentInfo, rights: Rights) -> dict[str, Any]:
    """Members of a `Document`; groups only for callers who may change them."""
    same = ("id", "collection", "source", "title", "format", "chunks", "chars", "attributes")
    return {
        **{name: getattr(row, name) for name in same},
        "modified_at": int(row.modified_s),
        "groups": row.groups if row.collection in rights.write else UNSET,
        "key": row.key or UNSET,
    }
