"""Documents sent by clients, each under the client's key: using it again replaces the document.

The answer comes once documents are durable and searchable. Each is written completely or not at all, even if the client
leaves early.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.access import KnowledgeCall
from proxy.api.knowledge.declarations import Closed, Open, doc, must, operation
from proxy.api.knowledge.filters import Attributes, Groups
from proxy.api.knowledge.parameters import invalid, none_but, read_as
from proxy.dialects.errors import ApiError, forbidden
from proxy.exchange import Exchange
from retrieval.records.attributes import checked_attributes, checked_groups
from retrieval.records.documents import Format
from retrieval.records.jobs import DocumentInput, WriteResult

_T = TypeVar("_T")
_MOST_DOCUMENTS = 1000
_MOST_NAME_CHARS = 512  # of a key, source or title
_DURABLE = "The document is durable and searchable; 201 for a new document"
COLLECTION = "/v1/knowledge/collections/{name}"
BY_KEY = COLLECTION + "/documents/{key:path}"
State = Literal["created", "replaced", "unchanged", "refused", "failed", "waiting", "cancelled"]
_NAME = f"1 to {_MOST_NAME_CHARS} printable characters"
_TIME, _TEXT = "seconds since 1970", "text, and not empty"
Name = Annotated[str, Meta(min_length=1, max_length=_MOST_NAME_CHARS), must(_NAME)]


class _Metadata(Open, frozen=True, kw_only=True):
    title: Annotated[str, Meta(max_length=_MOST_NAME_CHARS), must(_NAME)] | UnsetType = UNSET
    source: Annotated[Name, doc("The name that people and models see; default: the key")] | UnsetType = UNSET
    format: Format | None = None
    modified_at: Annotated[float | None, doc("Seconds since 1970"), must(_TIME)] = None
    attributes: Attributes | None = None
    groups: Groups | None = None


class GivenDocument(_Metadata, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1), must(_TEXT)]


class KeyedDocument(GivenDocument, frozen=True, kw_only=True):
    key: Annotated[Name, doc("Default: the source; required without a source")] | UnsetType = UNSET


class _PutDocuments(Closed, frozen=True):
    documents: Annotated[list[KeyedDocument], Meta(min_length=1, max_length=_MOST_DOCUMENTS)]


class Placed(Open, frozen=True, tag_field="object", tag="knowledge.document"):
    id: str | None
    key: str
    status: State
    reason: Annotated[str, doc("The reason of a failure")] | UnsetType = UNSET


class PlacedInCollection(Placed, frozen=True, kw_only=True):
    collection: str


class PutList(Closed, frozen=True, tag_field="object", tag="knowledge.documents.put"):
    collection: str
    data: list[Placed]
    job: Annotated[str, doc("Of an upload")] | UnsetType = UNSET


@operation(f"PUT {BY_KEY}", "documents", _DURABLE, also={201: (PlacedInCollection, _DURABLE)}, right="write")
async def put_document(
    call: KnowledgeCall, body: Annotated[Mapping[str, Any], GivenDocument]
) -> tuple[int, PlacedInCollection]:
    """Write a document under the key."""
    name, given = call.path["name"], given_document(body, call.path["key"], call.exchange)
    (placed,) = await call.writing.put(name, [given])
    return 201 if placed.state == "created" else 200, placed_in(name, placed)


@operation(f"POST {COLLECTION}/documents", "documents", "The result of each document", right="write", writing=True)
async def put_documents(call: KnowledgeCall, body: Annotated[Mapping[str, Any], _PutDocuments]) -> PutList:
    """Write many documents, each under the caller's key; the same key again replaces the document."""
    rows = body.get("documents")
    if not isinstance(rows, list) or not 1 <= len(rows) <= _MOST_DOCUMENTS:
        raise invalid(f"'documents' must be a list of 1 to {_MOST_DOCUMENTS} documents", "documents")
    given = [_row(row, i, call) for i, row in enumerate(rows)]
    if len({one.key for one in given}) < len(given):
        raise invalid("two of 'documents' have the same key", "documents")
    placed = await call.writing.put(call.path["name"], given)
    return PutList(call.path["name"], [*map(placed_row, placed)])


def placed_in(
    collection: str, placed: WriteResult, kind: type[PlacedInCollection] = PlacedInCollection
) -> PlacedInCollection:
    """The result of one document. Raises ApiError if it was not written."""
    if placed.state == "refused":
        raise forbidden(f"The document was not written: {placed.reason}.", "groups")
    if placed.state == "failed":
        raise ApiError(422, f"The document cannot be read: {placed.reason}.", code="document_unreadable")
    return kind(*_members(placed), collection=collection)


def document_of(fields: Mapping[str, Any], key: object, exchange: Exchange) -> DocumentInput:
    """The caller's document, with metadata from the fields but without content. Raises ApiError."""
    key, said = name_of(key, "key"), read_as(_Metadata, fields)
    if said.modified_at is not None and not 0 <= said.modified_at < 1e11:
        raise invalid(f"'modified_at' must be {_TIME}", "modified_at")
    return DocumentInput(
        key,
        name_of(said.source or key, "source"),
        b"",
        name_of(said.title, "title") if said.title else "",
        said.format,
        said.modified_at,
        _checked(checked_attributes, said.attributes, "attributes"),
        _checked(checked_groups, said.groups, "groups"),
        writer=exchange.rights.groups,
        owner=exchange.key,
    )


def given_document(fields: Mapping[str, Any], key: object, exchange: Exchange) -> DocumentInput:
    """A document made from the fields, under a key. Raises ApiError."""
    document, text = document_of(fields, key, exchange), read_as(GivenDocument, fields).text
    if not text.strip():
        raise invalid(f"'text' must be {_TEXT}", "text")
    content = text.encode("utf-8", "replace")  # half a surrogate pair has no bytes
    return replace(document, content=content, otherwise="markdown")


def _row(row: object, place: int, call: KnowledgeCall) -> DocumentInput:
    """A document in a list; errors name its place there."""
    param = f"documents[{place}]"
    if not isinstance(row, dict):
        raise invalid(f"'{param}' must be an object", param)
    try:
        none_but(sorted(row), KeyedDocument.__struct_fields__, "")
        return given_document(row, row.get("key", row.get("source")), call.exchange)
    except ApiError as error:
        message = f"In '{param}': {error.message}"
        raise ApiError(error.status, message, code=error.code, param=f"{param}.{error.param}") from error


def placed_row(placed: WriteResult) -> Placed:
    return Placed(*_members(placed))


def _members(placed: WriteResult) -> tuple[str | None, str, State, str | UnsetType]:
    return placed.id or None, placed.key, placed.state, placed.reason or UNSET


def name_of(value: object, param: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _MOST_NAME_CHARS or not value.isprintable():
        raise invalid(f"'{param}' must be {_NAME}", param)
    return value


def _checked(check: Callable[[object], _T], value: object, param: str) -> _T | None:
    try:
        return None if value is None else check(value)
    except ValueError as error:
        raise invalid(str(error), param) from error
