"""A document, with chunks and passages, and texts made from a chunk."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Format = Literal["markdown", "rst", "html", "text", "code", "csv"]
Attribute = str | int | float | bool | list[str]
Places = tuple[tuple[int, str], ...]  # where each page of a text begins, and its name, such as "page 12"
Groups = Sequence[str] | None  # a reader's groups; None: it may read everything
RESERVED = "."  # first character of a reserved collection's name
_RESERVED_NAME = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9._-]{0,62}")  # not "./models/a.gguf", a model's name


def is_reserved(collection: str) -> bool:
    """Whether a collection is the gateway's own, such as `.actions`: only the gateway itself reads and writes it."""
    return _RESERVED_NAME.fullmatch(collection) is not None


@dataclass(frozen=True, slots=True)
class Document:
    """One file's text, as indexed and shown (HTML already converted to Markdown)."""

    source: str  # its name for people and models, e.g. "docs/connect.md"
    title: str
    text: str
    format: Format
    modified_s: float  # seconds since the epoch
    attributes: Mapping[str, Attribute] = field(default_factory=dict, hash=False)  # for filters
    groups: tuple[str, ...] = ()  # a reader needs one of these; none: every reader of the collection
    places: Places = ()
    note: str = ""  # what a person should know about how it was read; not stored
    secrets: tuple[tuple[int, str], ...] = ()  # line and kind of each; not stored


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: `text` is exactly `Document.text[start:end]`."""

    ordinal: int  # 0, 1, 2 … in document order
    start: int
    end: int
    text: str
    headings: tuple[str, ...]  # outermost first, without the document's title
    context: str = ""  # written by a model; embedded and indexed with the chunk, never shown
    place: str = ""  # of its first character after what it repeats of the chunk before, such as "page 12"
    names: str = ""  # of code's definitions around and in it that are no headings; only their words are indexed


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk with what is needed to show it, to cite it and to find its document again."""

    document: str  # the document's id in the catalog
    revision: int
    ordinal: int
    title: str
    source: str
    modified_s: float
    headings: tuple[str, ...]
    start: int
    end: int
    text: str
    tokens: int  # of `shown_text`, counted once at ingest; its cost against a budget
    attributes: Mapping[str, Attribute] = field(default_factory=dict, hash=False)  # of the document
    groups: tuple[str, ...] = ()  # of the document
    context: str = ""  # written by a model; embedded and indexed with the chunk, never shown
    place: str = ""  # of the chunk
    names: str = ""  # of the chunk

    @property
    def cited(self) -> str:
        return cited(self.source, self.place)


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """One line of `ragway collections`."""

    name: str
    documents: int
    chunks: int
    embedder: str
    updated_s: float
    language: str = "en"


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document as lists show it."""

    id: str
    collection: str
    source: str
    title: str
    format: Format
    modified_s: float
    chunks: int
    chars: int  # of its text
    attributes: Mapping[str, Attribute] = field(default_factory=dict, hash=False)
    groups: tuple[str, ...] = ()
    key: str = ""  # the client's name for it; "" for an ingested file


@dataclass(frozen=True, slots=True)
class FullDocument:
    """A document with its indexed and shown text, of which passages are spans."""

    info: DocumentInfo
    text: str


@dataclass(frozen=True, slots=True)
class DocumentLocation:
    """A document's collection and revision today."""

    document: str
    collection: str
    revision: int


def indexed_text(title: str, headings: Sequence[str], text: str, context: str = "") -> str:
    """The text that is embedded for a chunk: its path ("Connection > TLS"), then its text.

    context: text that a model wrote about the chunk, placed in between.
    """
    path = [_path(title, headings)] if title or headings else []
    return "\n".join([*path, *([context] if context else []), text])


def lexical_text(
    title: str, headings: Sequence[str], text: str, context: str = "", names: str = "", source: str = ""
) -> str:
    """The text whose words are indexed for a chunk: `indexed_text` with its path repeated, names of code, and source.

    source: a file in kotlin/guide/ is about Kotlin, though none of its words may say so.

    A title summarises the whole text in few words. Counting its words twice instead of once changes the BM25 arm's
    nDCG@10 by +.004 to +.019 on six sets of seven, -.001 on the other; see docs/use/chunking.md.
    """
    path, indexed = _path(title, headings), indexed_text(title, headings, text, context)
    # each folder's name by itself: "guide a" is no identifier
    return "\n".join([*([path] if path else []), indexed, *filter(None, [names, source.replace("/", " ")])])


def _path(title: str, headings: Sequence[str]) -> str:
    """A chunk's title and headings; "" at the top of a document without a title."""
    return " > ".join([title, *headings] if title else headings)


def cited(source: str, place: str) -> str:
    """A source as people and models cite it: "handbook.pdf, page 12"."""
    return f"{source}, {place}" if place else source


def shown_text(source: str, title: str, headings: Sequence[str], text: str) -> str:
    """A passage's label and text, as long as what the model reads. source: with its place (`cited`)."""
    return f"{source} {indexed_text(title, headings, text)}"
