"""The MCP tools `search`, `fetch` and `add_document`, within the caller's rights.

Names, required arguments and answer fields of the first two follow OpenAI's connectors, so chat programs written for
those need no setting. A model reads the texts, so they are quoted like a chat's passages.
"""

import asyncio
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from config.sections import RetrievalSettings
from proxy.api.knowledge.access import WRITE_DEADLINE_S, must_write
from proxy.api.knowledge.declarations import Closed, Open, doc
from proxy.api.knowledge.parameters import (
    CollectionNames,
    K,
    QueryText,
    checked,
    few_names,
    filter_in,
    invalid,
    query_text,
    read_as,
)
from proxy.api.knowledge.puts import PlacedInCollection, document_of, given_document, name_of, placed_in
from proxy.api.knowledge.schemas import Schemas
from proxy.caller import (
    PermittedSearch,
    Rights,
    readable_collections,
    readable_document,
    search_permitted,
    unknown_collection,
)
from proxy.dialects.errors import ApiError
from proxy.dialects.quoting import quoted, quoted_label
from proxy.exchange import EXCHANGE, Exchange
from retrieval.knowledge import DEFAULT_HIT_OPTIONS, Knowledge
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import Hit, Turn

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

ADD = "add_document"
LARGE = ("text", "data")  # its arguments that may be large
_MOST_FILE_MB = 4
_BASE64_STEP = 1 << 20  # characters decoded at once, in 2 ms: a multiple of 4
_MOST_CHARS = 100_000  # of one document at a time: some 25,000 tokens
_BETWEEN = "\n\n[…]\n\n"  # between passages of one document

_FILTER = (
    'What must be true of a document, e.g. {"type": "eq", "key": "team", "value": "hr"}. Types: eq, ne, in, nin, gt, '
    "gte, lt, lte, prefix (of the key source), and, or (with filters), not (with filter). Keys: source, modified_at, "
    "and the documents' attributes."
)


class _FoundDocument(Open, frozen=True):
    id: Annotated[str, doc("Of the document, for fetch.")]
    title: str
    url: Annotated[str, doc("The document's source.")]
    text: Annotated[str, doc("Its matching passages, best first.")]


class _FoundDocuments(Open, frozen=True):
    results: list[_FoundDocument]


class _Search(Closed, frozen=True):
    query: Annotated[QueryText, doc("A question or keywords, in full: nothing is remembered.")]
    collections: CollectionNames | UnsetType = UNSET
    k: Annotated[K, doc("Passages at most.")] | UnsetType = UNSET
    filter: Annotated[Any, Meta(extra_json_schema={"type": "object"}), doc(_FILTER)] | UnsetType = UNSET


class _Fetch(Closed, frozen=True):
    id: Annotated[str, doc("A result's id.")]
    start: Annotated[int, Meta(ge=0), doc("The first character, for a long document.")] = 0


class _Fetched(Open, frozen=True):
    id: str
    title: str
    text: str
    url: Annotated[str, doc("The document's source.")]
    metadata: Annotated[dict[str, Any], doc("collection, format, chars; next_start if the text goes on.")]


class _Add(Closed, frozen=True):
    collection: Annotated[str, doc("An existing collection.")]
    name: Annotated[
        str, doc("Such as handbook.docx: its ending tells the format. The same name replaces the document.")
    ]
    text: Annotated[str, doc("Its text; without an ending that tells a format, in Markdown.")] | UnsetType = UNSET
    data: Annotated[str, doc("In place of text: a file, such as PDF or DOCX, in base64.")] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    attributes: (
        Annotated[
            Any, Meta(extra_json_schema={"type": "object"}), doc('Names and values to filter by, e.g. {"team": "hr"}.')
        ]
        | UnsetType
    ) = UNSET
    groups: Annotated[list[str], doc("Only these groups may read it; left out: all readers.")] | UnsetType = UNSET


class _Added(PlacedInCollection, frozen=True, kw_only=True):
    """Without a public name, so that its schema is whole."""


def exchange_of(context: "ServerRequestContext[Any, Any]") -> Exchange:
    """The exchange of a request over HTTP."""
    assert context.request is not None  # always present over HTTP
    exchange: Exchange = context.request.scope[EXCHANGE]
    return exchange


def tool_schemas() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Schemas for each tool's arguments and answer."""
    of = Schemas(formats=False).schema
    return {
        "search": (of(_Search), of(_FoundDocuments)),
        "fetch": (of(_Fetch), of(_Fetched)),
        ADD: (of(_Add), of(_Added)),
    }


@dataclass(eq=False, repr=False)
class Tools:
    """What the tools answer, independent of transport."""

    knowledge: Knowledge
    settings: RetrievalSettings

    async def readable(self, rights: Rights) -> list[str]:
        """Names of searchable collections. Raises RetrievalError."""
        return [row.name for row in await readable_collections(self.knowledge, rights)]

    async def search(self, asked: Mapping[str, Any], exchange: Exchange) -> Open:
        """Passages, by document. Raises ApiError for invalid arguments, RetrievalError."""
        wanted = read_as(_Search, checked(asked, _Search.__struct_fields__))
        query, names = query_text(wanted.query), few_names(wanted.collections or ())
        searched = await search_permitted(
            self.knowledge,
            PermittedSearch(
                [Turn("user", query)],
                names or self.settings.collections,
                exchange.rights,
                explicit=bool(names),
                k=wanted.k or self.settings.k,
                filter=filter_in(wanted.filter or None, "filter"),
                hit_options=DEFAULT_HIT_OPTIONS,
            ),
        )
        documents: dict[str, list[Hit]] = {}
        for hit in searched.retrieved.hits:
            documents.setdefault(hit.passage.document, []).append(hit)
        return _FoundDocuments([_result(hits) for hits in documents.values()])

    async def fetch(self, asked: Mapping[str, Any], exchange: Exchange) -> Open:
        """A whole document, or its next piece. Raises ApiError, RetrievalError (UnknownDocument)."""
        wanted = read_as(_Fetch, checked(asked, _Fetch.__struct_fields__))
        start = wanted.start
        found = await readable_document(self.knowledge, wanted.id, exchange.rights)
        end = start + _MOST_CHARS
        metadata = {"collection": found.info.collection, "format": found.info.format, "chars": found.info.chars}
        if end < found.info.chars:
            metadata["next_start"] = end
        title, url = quoted_label(found.info.title or found.info.source), quoted_label(found.info.source)
        return _Fetched(found.info.id, title, quoted(found.text[start:end]), url, metadata)

    async def add(self, asked: Mapping[str, Any], exchange: Exchange) -> Open:
        """Write a document under its name, completely or not at all. Raises ApiError, RetrievalError."""
        name, given = await asyncio.to_thread(_given, asked, exchange)
        async with asyncio.timeout(self.settings.deadline_s):
            known = await self.readable(exchange.rights)
        if name not in known:
            raise unknown_collection(name, known)
        must_write(name, exchange.rights)
        try:
            async with asyncio.timeout(WRITE_DEADLINE_S):
                (placed,) = await self.knowledge.writing.put(name, [given])
        except TimeoutError as error:
            message = f"{given.key!r} takes long to read: {_upload_it(name)}."
            raise ApiError(503, message, code="knowledge_unavailable", type="server_error") from error
        return placed_in(name, placed, _Added)


def _given(asked: Mapping[str, Any], exchange: Exchange) -> tuple[str, DocumentInput]:
    """The collection, and the document as for a put. Raises ApiError."""
    fields = checked(asked, _Add.__struct_fields__)
    wanted = read_as(_Add, fields)
    name = name_of(wanted.name, "name")
    if (wanted.text is UNSET) == (wanted.data is UNSET):
        raise invalid("either 'text' or 'data' is needed, and not both", "text")
    if wanted.data is UNSET:
        given = given_document(fields, name, exchange)
    else:
        given = replace(document_of(fields, name, exchange), content=_decoded(wanted.data))
    if len(given.content) > _MOST_FILE_MB << 20:
        message = f"{name!r} is larger than {_MOST_FILE_MB} MB: {_upload_it(wanted.collection)}."
        raise ApiError(413, message, code="file_too_large", param="data")
    return wanted.collection, given


def _upload_it(collection: str) -> str:
    return f"upload it by POST /v1/knowledge/collections/{collection}/files"


def _decoded(data: str) -> bytes:
    try:
        plain = "".join(data.split()).encode("ascii")  # many programs write base64 in lines
        steps = range(0, len(plain), _BASE64_STEP)
        return b"".join(binascii.a2b_base64(plain[at : at + _BASE64_STEP], strict_mode=True) for at in steps)
    except ValueError as error:
        raise invalid("'data' must be a file in base64", "data") from error


def _result(hits: Sequence[Hit]) -> _FoundDocument:
    passage = hits[0].passage
    texts = [_placed(quoted(hit.passage.text), hit.passage.place) for hit in hits]
    title, url = quoted_label(passage.title or passage.source), quoted_label(passage.source)
    return _FoundDocument(passage.document, title, url, _BETWEEN.join(texts))


def _placed(text: str, place: str) -> str:
    """The text below the name of its page, if there is one."""
    return f"[{quoted_label(place)}]\n{text}" if place else text
