"""The values that travel: from a path to points in a store, and from a question to a context.

Values only: frozen, no behaviour beyond what follows from their own fields. Character spans are
half-open and count characters of `Document.text`; vectors are float32 of unit length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from retrieval.traces import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
else:
    Vector = object  # the gateway imports these records, and has no use for numpy's 0.1 s and 24 MB

Format = Literal["markdown", "rst", "html", "text", "code", "csv"]
Attribute = str | int | float | bool | list[str]
FILE = "file-"  # how the ids of uploaded files begin
Groups = Sequence[str] | None  # that a reader is in; None: may read everything


@dataclass(frozen=True, slots=True)
class Document:
    """One file's text as it is indexed and shown (HTML already turned into Markdown)."""

    source: str  # what people and models see, e.g. "docs/connect.md"
    title: str
    text: str
    format: Format
    modified_s: float  # seconds since the epoch
    attributes: Mapping[str, Attribute] = field(default_factory=dict, hash=False)  # what searches may be narrowed by
    groups: tuple[str, ...] = ()  # who may read it, one of these; none: whoever may read the collection


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: `text` is exactly `Document.text[start:end]`."""

    ordinal: int  # 0, 1, 2 … in the document's order
    start: int
    end: int
    text: str
    headings: tuple[str, ...]  # from the outermost heading to the nearest, without the document's title
    context: str = ""  # what a model wrote of it: embedded and indexed with it, never shown


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk with what is needed to show it, cite it and find its document again."""

    document: str  # id of the document in the catalog
    revision: int
    ordinal: int
    title: str
    source: str
    modified_s: float
    headings: tuple[str, ...]
    start: int
    end: int
    text: str
    tokens: int  # of `shown_text`, counted once when it was ingested: what it takes of a budget
    attributes: Mapping[str, Attribute] = field(default_factory=dict, hash=False)  # its document's
    groups: tuple[str, ...] = ()  # its document's
    context: str = ""  # what a model wrote of it: embedded and indexed with it, never shown


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: `values[i]` stands at dimension `indices[i]`; indices are distinct."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """What a store keeps: one passage with both of its vectors."""

    id: str  # UUID
    passage: Passage
    dense: Vector  # (d,) float32, unit length
    sparse: Sparse  # BM25 term weights of the indexed text


@dataclass(frozen=True, slots=True)
class View:
    """What there is of collections for who asks: documents without groups, and those with one of these."""

    groups: tuple[str, ...] | None = ()  # None: all documents
    filter: str = ""  # what must be true of a document besides, by `filters.checked_filter`; "": nothing


PUBLIC = View()  # who says nothing of groups is in none
ALL = View(None)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the conversation as far as retrieval is concerned: who said what, in text."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """The latest question, made to stand alone.

    `text` reads as the question meant. `terms` and `vectors` are (text, weight) pieces: the weights of
    the words searched by BM25, and of the texts whose embeddings are mixed into the dense query; the first
    is the question itself.
    """

    text: str
    terms: tuple[tuple[str, float], ...]
    vectors: tuple[tuple[str, float], ...]
    reason: str  # why the query looks as it does, for headers and receipts
    parts: tuple[str, ...] = ()  # the questions that it consists of, where it is several: each is searched for as well


@dataclass(slots=True)  # not frozen, nor the next: that takes three times as long, and a question makes a hundred
class Scored:
    """A point that one arm found, by its id alone: most of what is found is never read."""

    id: str
    score: float


@dataclass(slots=True)
class Candidate:
    """A point found by one arm or several, not read yet; `score` is that of the fusion."""

    id: str
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict)  # arm -> rank from 1
    scores: Mapping[str, float] = field(default_factory=dict)  # arm -> that arm's own score


@dataclass(frozen=True, slots=True)
class Surrounding:
    """A span of a hit's document with the hit in it."""

    start: int
    end: int
    text: str
    whole: bool  # whether it was taken as the whole document


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found, with the score of the stage that returned it and what each arm said of it."""

    id: str
    score: float
    passage: Passage
    ranks: Mapping[str, int] = field(default_factory=dict)  # arm -> rank from 1
    scores: Mapping[str, float] = field(default_factory=dict)  # arm -> that arm's own score
    surrounding: Surrounding | None = None  # where it was asked for


@dataclass(frozen=True, slots=True)
class Context:
    """The passages that fit the budget, best first; `tokens` counts them as they will be shown."""

    passages: tuple[Passage, ...]
    tokens: int
    dropped: int  # hits left out: over the budget or near-duplicates


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Everything one search found out: the query as understood, the fused hits, the packed context."""

    query: Query
    hits: tuple[Hit, ...]
    context: Context
    timings_ms: Mapping[str, float]  # stage -> milliseconds, in the order they ran
    relevance: float | None = None  # probability that something relevant was found; None where nobody asked
    trace: Trace | None = None  # where it was asked for


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that was not ingested, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What one ingest did. `skipped` counts files passed over by reason; `failures` names the bad ones.

    left_out: links out of the folder, as "source -> target", which were not followed.
    """

    collection: str
    added: int
    changed: int
    unchanged: int
    removed: int
    chunks: int  # written by this ingest
    skipped: Mapping[str, int]
    failures: Sequence[Failure]
    left_out: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """A document as a client gives it: what is in it, and how that is to be read."""

    key: str  # the client's name for it in its collection: the same again replaces it
    source: str
    content: bytes
    title: str = ""  # "": as the content says
    format: Format | None = None  # None: by the ending of `source`
    modified_s: float | None = None  # None: when it is written
    attributes: Mapping[str, Attribute] | None = None  # None: what its front matter says, as with the next
    groups: tuple[str, ...] | None = None
    otherwise: Format | None = None  # its format where neither `format` nor the ending says it; None: it is refused
    writer: tuple[str, ...] | None = ()  # the groups that the client is in; None: all


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a document that was given."""

    key: str
    state: Literal["waiting", "created", "replaced", "unchanged", "refused", "failed", "cancelled"]
    id: str = ""  # the document's; "" where there is none
    reason: str = ""  # why it failed, or was refused


@dataclass(frozen=True, slots=True)
class Job:
    """Documents on their way into a collection."""

    id: str
    collection: str
    state: Literal["queued", "running", "completed", "failed", "cancelled"]
    created_s: float
    updated_s: float
    counts: Mapping[str, int] = field(hash=False)  # of its documents, by their state
    reason: str = ""  # why it failed, or waits
    documents: Sequence[Placed] = ()  # where one job was asked for

    @property
    def over(self) -> bool:
        return self.state not in ("queued", "running")


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that a client uploaded, without its content."""

    id: str
    name: str  # the client's
    purpose: str
    created_s: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that is to become a document of a collection, or did not."""

    collection: str
    key: str  # the file's id
    state: Literal["waiting", "failed", "cancelled"]
    reason: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Changed:
    """A document that an ingest would write; `source` is "" where a rebuild would, from the catalog."""

    key: str
    source: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A chunk, `Outline.text[start:end]`, of which a model has not written yet, and the key to keep it under."""

    key: str
    kind: str  # of the enrichment
    start: int
    end: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """A document's text, and what is still to be written of its chunks."""

    title: str
    text: str
    gaps: tuple[Gap, ...]


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
    """A document as a list shows it."""

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
    key: str = ""  # a client's name for it; "" where it is a file


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a document is now."""

    document: str
    collection: str
    revision: int


@dataclass(frozen=True, slots=True)
class FullDocument:
    """A document with its text, as it is indexed and shown; passages are spans of it."""

    info: DocumentInfo
    text: str


def indexed_text(title: str, headings: Sequence[str], text: str, context: str = "") -> str:
    """The text that is embedded for a chunk: where it stands ("Connection > TLS"), then what it says.

    context: what a model wrote of the chunk, between the two.
    """
    path = [_path(title, headings)] if title or headings else []
    return "\n".join([*path, *([context] if context else []), text])


def lexical_text(title: str, headings: Sequence[str], text: str, context: str = "") -> str:
    """The text whose words are indexed for a chunk: that of `indexed_text`, where it stands said twice.

    A title says in few words what all of its text is about. Its words counted twice instead of once change nDCG@10 of
    the BM25 arm by +.004 to +.019 on six sets of seven, -.001 on the other; see docs/contextual.md.
    """
    path, indexed = _path(title, headings), indexed_text(title, headings, text, context)
    return f"{path}\n{indexed}" if path else indexed


def _path(title: str, headings: Sequence[str]) -> str:
    """Where a chunk stands; "" at the top of a document without a title."""
    return " > ".join([title, *headings] if title else headings)


def shown_text(source: str, title: str, headings: Sequence[str], text: str) -> str:
    """The text that a passage puts in front of the model, as far as its length matters: label and text."""
    return f"{source} {indexed_text(title, headings, text)}"
