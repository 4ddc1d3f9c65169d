"""Documents sent by clients, each under the client's key: the same key again replaces the document.

The answer comes after the documents are durable and searchable. A document is written completely or not at all, also
when the client leaves before the answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.access import Access, ApiReply, forbidden, must_write, rights_of
from proxy.api.knowledge.declarations import Closed, Open, doc, operation
from proxy.api.knowledge.filters import Attributes, Groups
from proxy.api.knowledge.parameters import invalid, none_but
from proxy.asgi import Receive, Scope
from proxy.dialects.errors import ApiError
from proxy.exchange import exchange_of
from retrieval.records.attributes import checked_attributes, checked_groups
from retrieval.records.documents import Format
from retrieval.records.jobs import DocumentInput, WriteResult

_T = TypeVar("_T")
_MOST_DOCUMENTS = 1000
_MOST_NAME_CHARS = 512  # of a key, a source, a title
_FORMATS = get_args(Format)
_DURABLE = "The document is durable and searchable; 201 for a new document"
COLLECTION = "/v1/knowledge/collections/{name}"
BY_KEY = COLLECTION + "/documents/{key:path}"
State = Literal["created", "replaced", "unchanged", "refused", "failed", "waiting", "cancelled"]
Name = Annotated[str, Meta(min_length=1, max_length=_MOST_NAME_CHARS)]


class GivenDocument(Open, frozen=True):
    text: Annotated[str, Meta(min_length=1)]
    title: Annotated[str, Meta(max_length=_MOST_NAME_CHARS)] | UnsetType = UNSET
    source: Annotated[Name, doc("The name that people and models see; default: the key")] | UnsetType = UNSET
    format: Format | None = None
    modified_at: Annotated[float | None, doc("Seconds since 1970")] = None
    attributes: Attributes | None = None
    groups: Groups | None = None


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


class Puts:
    """Writes documents into collections writable by the caller."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @operation(
        f"PUT {BY_KEY}",
        "documents",
        PlacedInCollection,
        _DURABLE,
        also={201: (PlacedInCollection, _DURABLE)},
        body=GivenDocument,
    )
    async def put_document(self, scope: Scope, receive: Receive) -> ApiReply:
        """Write a document under the key."""
        name = await self.writable(scope)
        key = name_of(scope["path_params"]["key"], "key")
        fields = await self._access.fields(scope, receive, GivenDocument)
        given = from_caller(given_of(fields, key), scope)
        (placed,) = await self._access.knowledge.writing.put(name, [given])
        if placed.state == "refused":
            raise forbidden(f"The document was not written: {placed.reason}.", "groups")
        if placed.state == "failed":
            raise ApiError(422, f"The document cannot be read: {placed.reason}.", code="document_unreadable")
        row = PlacedInCollection(*_members(placed), collection=name)
        return ApiReply(201 if placed.state == "created" else 200, row)

    @operation(
        f"POST {COLLECTION}/documents",
        "documents",
        PutList,
        "The result of each document",
        body=_PutDocuments,
        writing=True,
    )
    async def put_documents(self, scope: Scope, receive: Receive) -> PutList:
        """Write many documents, each under the caller's key; the same key again replaces the document."""
        name = await self.writable(scope)
        fields = await self._access.fields(scope, receive, _PutDocuments)
        rows = fields.get("documents")
        if not isinstance(rows, list) or not 1 <= len(rows) <= _MOST_DOCUMENTS:
            raise invalid(f"'documents' must be a list of 1 to {_MOST_DOCUMENTS} documents", "documents")
        given = [from_caller(_row(row, i), scope) for i, row in enumerate(rows)]
        if len({one.key for one in given}) < len(given):
            raise invalid("two of 'documents' have the same key", "documents")
        placed = await self._access.knowledge.writing.put(name, given)
        return PutList(name, [*map(placed_row, placed)])

    async def writable(self, scope: Scope) -> str:
        name = (await self._access.collection(scope)).name
        must_write(name, rights_of(scope))
        return name


def from_caller(document: DocumentInput, scope: Scope) -> DocumentInput:
    """The document with the caller's groups, and the caller's key as owner."""
    exchange = exchange_of(scope)
    return replace(document, writer=exchange.rights.groups, owner=exchange.key)


def given_of(fields: Mapping[str, Any], key: str) -> DocumentInput:
    """The document made of the fields, under the key. Raises ApiError."""
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise invalid("'text' must be text, and not empty", "text")
    return said_of(fields, key, _utf8(text), otherwise="markdown")


def said_of(
    fields: Mapping[str, Any], key: object, content: bytes = b"", *, otherwise: Format | None = None
) -> DocumentInput:
    """A document with the content, and the metadata in the fields. Raises ApiError."""
    key, format = name_of(key, "key"), fields.get("format")
    if format is not None and format not in _FORMATS:
        raise invalid(f"'format' must be one of {', '.join(_FORMATS)}", "format")
    source = name_of(fields.get("source", key), "source")
    title = fields.get("title", "")
    return DocumentInput(
        key,
        source,
        content,
        title and name_of(title, "title"),
        cast(Format | None, format),
        _seconds(fields.get("modified_at"), "modified_at"),
        _checked(checked_attributes, fields.get("attributes"), "attributes"),
        _checked(checked_groups, fields.get("groups"), "groups"),
        otherwise,
    )


def _row(row: object, place: int) -> DocumentInput:
    """A document of a list; errors name the place in the list."""
    param = f"documents[{place}]"
    if not isinstance(row, dict):
        raise invalid(f"'{param}' must be an object", param)
    try:
        none_but(sorted(row), KeyedDocument.__struct_fields__, "")
        return given_of(row, name_of(row.get("key", row.get("source")), "key"))
    except ApiError as error:
        message = f"In '{param}': {error.message}"
        raise ApiError(error.status, message, code=error.code, param=f"{param}.{error.param}") from error


def placed_row(placed: WriteResult) -> Placed:
    return Placed(*_members(placed))


def _members(placed: WriteResult) -> tuple[str | None, str, State, str | UnsetType]:
    return placed.id or None, placed.key, placed.state, placed.reason or UNSET


def name_of(value: object, param: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _MOST_NAME_CHARS or not value.isprintable():
        raise invalid(f"'{param}' must be 1 to {_MOST_NAME_CHARS} printable characters", param)
    return value


def _checked(check: Callable[[object], _T], value: object, param: str) -> _T | None:
    if value is None:
        return None
    try:
        return check(value)
    except ValueError as error:
        raise invalid(str(error), param) from error


def _seconds(value: object, param: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e11:
        raise invalid(f"'{param}' must be seconds since 1970", param)
    return float(value)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # half a surrogate pair has no bytes
