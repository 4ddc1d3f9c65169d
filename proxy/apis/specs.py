"""An OpenAPI document, or an MCP server's list of tools, to an action set's rows and texts, read in its own process.

Documents come from anywhere: the process has time and memory limits, and ends if its caller leaves. It answers only
with bytes and texts, because unpickling thousands of operation schemas would stall the gateway.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from config.sections import IngestSettings
from proxy.apis.addresses import origin_of
from proxy.apis.mcp import listing
from proxy.apis.openapi.operation import Operation, Uncallable
from proxy.apis.openapi.operations import operations_of, server_of
from proxy.apis.openapi.read import MAX_BYTES, UnreadableSpec, read_spec
from proxy.apis.openapi.references import DocumentTooLarge, ReadBudget
from proxy.apis.openapi.security import credentials_of
from proxy.apis.search_text import api_text, api_title, description_of, search_text, title_of
from proxy.apis.sources import is_url
from retrieval.records.jobs import DocumentInput
from runtime.sandbox import Sandbox, SandboxJob

SET_ATTRIBUTE = "action_set"  # of a text
_GIVE_ADDRESS = "give the address with --base-url, or in actions.NAME.base_url"
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufeff]")  # documents with such characters count as binary
_PROCESSES = 4  # one key may use half of them
_NICE = 10  # chats come first
_SMALLER = (
    "leave out operations, or raise the limit, which holds for the documents of collections too (ingest.max_read_{})"
)


encode = msgspec.json.Encoder(order="sorted").encode


class StoredOperation(NamedTuple):
    name: str
    revision: str
    definition: bytes


def stored(operation: Operation, title: str) -> StoredOperation:
    """An operation as stored. title: the API's."""
    return StoredOperation(operation.name, revision_of(operation, title), encode(operation))


def revision_of(operation: Operation, title: str) -> str:
    """A hash of definition and API title, by which the operation is found."""
    return hashlib.sha256(encode((operation, title))).hexdigest()[:32]


def document_hash(raw: bytes) -> str:
    """A hash of a document and of the version that reads it: another may read other operations."""
    return hashlib.sha256(version("ragway").encode() + raw).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class SpecLimits:
    yaml_bytes: int  # YAML takes fifty times as long to read as JSON
    operations: int  # embedding each takes some 50 ms


# The largest public document has 22,357 operations, the second 11,422, all others fewer than 3,000.
OF_OWNER = SpecLimits(MAX_BYTES, 25_000)  # for a file, or a URL that the settings allow
OF_CLIENT = SpecLimits(4 * 2**20, 5_000)


@dataclass(frozen=True, slots=True)
class Spec:
    name: str  # of the set
    raw: bytes
    base_url: str = ""  # "" takes the document's first server
    source: str = ""  # document's file or URL; "" = sent by a client
    limits: SpecLimits = OF_OWNER


@dataclass(frozen=True, slots=True)
class ReadDocument:
    document: Mapping[str, object]
    title: str
    operations: Sequence[Operation]
    uncallable: Sequence[Uncallable]
    hash: str  # `document_hash`


@dataclass(frozen=True, slots=True)
class SetRows:
    title: str
    base_url: str
    operations: Sequence[StoredOperation]
    uncallable: Sequence[Uncallable]
    texts: Sequence[DocumentInput]  # with set and operation name as source
    hash: str
    credentials: Mapping[str, str]  # set row members that the document asks for


class SpecReader(Sandbox[Spec, SetRows]):
    """Reads each document in its own process, which then ends and gives its memory back."""

    def __init__(self, limits: IngestSettings) -> None:
        job = SandboxJob(
            _worker,
            UnreadableSpec,
            too_slow=_SMALLER.format("s"),
            died="the reading process died twice, perhaps out of memory: " + _SMALLER.format("mb"),
            seconds=limits.max_read_s,
            memory_mb=limits.max_read_mb,
            nice=_NICE,
            confined=True,
        )
        super().__init__(job, processes=_PROCESSES, idle=0)


def _worker() -> Callable[[Spec], SetRows]:
    return _read


def _read(spec: Spec) -> SetRows:
    if listing.is_listing(spec.raw) and not spec.source:
        raise UnreadableSpec("the tools of an MCP server come from the server alone")
    read = read_document(spec.raw, spec.limits)
    return rows_of(spec.name, read, spec.base_url or address_of(read.document, spec.source))


def read_document(raw: bytes, limits: SpecLimits = OF_OWNER) -> ReadDocument:
    """A document's operations, at least one. Raises UnreadableSpec."""
    try:
        if listing.is_listing(raw):
            document, operations, uncallable = listing.operations_of(raw, limits.operations)
        else:
            document = read_spec(raw, yaml_bytes=limits.yaml_bytes)
            operations, uncallable = operations_of(document, most=limits.operations)
    except (DocumentTooLarge, msgspec.DecodeError) as error:
        raise UnreadableSpec(str(error)) from error
    if not operations:
        why = f": {uncallable[0].method} {uncallable[0].path}: {uncallable[0].reason}" if uncallable else ""
        raise UnreadableSpec(f"the document has no operation that can be called{why}")
    info = document.get("info")
    title = _NO_TEXT.sub(" ", str(info.get("title", ""))) if isinstance(info, dict) else ""
    return ReadDocument(document, title, operations, uncallable, document_hash(raw))


def rows_of(name: str, read: ReadDocument, base_url: str) -> SetRows:
    """What a set stores from a document."""
    operations = [stored(one, read.title) for one in read.operations]
    asked = credentials_of(read.document, name)
    return SetRows(read.title, base_url, operations, read.uncallable, _texts(name, read), read.hash, asked)


def _texts(name: str, read: ReadDocument) -> list[DocumentInput]:
    texts = []
    for one in read.operations:
        source, title = f"{name}/{one.name}", title_of(one, read.title)
        texts.append(_text(name, source, source, title, search_text(one)))
        if _NO_TEXT.sub("", description := description_of(one)).strip():
            texts.append(_text(name, f"{source}/description", source, title, description))
    if _NO_TEXT.sub("", about := api_text(read.document, read.operations)).strip():
        texts.append(_text(name, f"{name}/", f"{name}/", api_title(read.title), about))
    return texts


def _text(name: str, key: str, source: str, title: str, text: str) -> DocumentInput:
    content = _NO_TEXT.sub(" ", text).encode("utf-8", "replace")
    return DocumentInput(
        key,
        source,
        content,
        title,
        "text",
        attributes={SET_ATTRIBUTE: name},
        groups=(),
        writer=None,
        owner=f"actions.{name}",
    )


def address_of(document: Mapping[str, object], source: str) -> str:
    """The API's address, by the document's first server.

    A relative server counts from the document's URL. A document from a URL may not name another origin, because
    credentials go to this address. Raises UnreadableSpec.
    """
    base = source.partition("?")[0] if is_url(source) else ""
    try:
        url = server_of(document.get("servers"), ReadBudget())
        parts = urlsplit(urljoin(base or "https://", url or "/") if base or url.startswith("//") else url)
    except ValueError as error:  # no address, or not a URL
        raise UnreadableSpec(f"{error}: {_GIVE_ADDRESS}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or origin_of(parts.geturl()) is None:
        raise UnreadableSpec(f"the document names no server with an address: {_GIVE_ADDRESS}")
    if base and origin_of(parts.geturl()) != origin_of(base):
        raise UnreadableSpec(
            f"the document names a server of another origin than the document's URL, {parts.geturl()}: {_GIVE_ADDRESS}"
        )
    return parts.geturl()
