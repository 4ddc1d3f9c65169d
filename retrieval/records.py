"""The values that travel: from a path to points in a store, and from a question to a context.

Values only: frozen, no behaviour beyond what follows from their own fields. Character spans are
half-open and count characters of `Document.text`; vectors are float32 of unit length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
else:
    Vector = object  # the gateway imports these records, and has no use for numpy's 0.1 s and 24 MB

Format = Literal["markdown", "rst", "html", "text"]


@dataclass(frozen=True, slots=True)
class Document:
    """One file's text as it is indexed and shown (HTML already turned into Markdown)."""

    source: str  # what people and models see, e.g. "docs/connect.md"
    title: str
    text: str
    format: Format
    modified_s: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: `text` is exactly `Document.text[start:end]`."""

    ordinal: int  # 0, 1, 2 … in the document's order
    start: int
    end: int
    text: str
    headings: tuple[str, ...]  # from the outermost heading to the nearest, without the document's title


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
class Turn:
    """One message of the conversation as far as retrieval is concerned: who said what, in text."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """The latest question, made to stand alone.

    `text` reads as the question meant. `terms` and `vectors` are (text, weight) pieces: the weights of
    the words searched by BM25, and of the texts whose embeddings are mixed into the dense query.
    """

    text: str
    terms: tuple[tuple[str, float], ...]
    vectors: tuple[tuple[str, float], ...]
    reason: str  # why the query looks as it does, for headers and receipts


@dataclass(frozen=True, slots=True)
class Scored:
    """A point that one arm found, by its id alone: most of what is found is never read."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point found by one arm or several, not read yet; `score` is that of the fusion."""

    id: str
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict)  # arm -> rank from 1
    scores: Mapping[str, float] = field(default_factory=dict)  # arm -> that arm's own score


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found, with the score of the stage that returned it and what each arm said of it."""

    id: str
    score: float
    passage: Passage
    ranks: Mapping[str, int] = field(default_factory=dict)  # arm -> rank from 1
    scores: Mapping[str, float] = field(default_factory=dict)  # arm -> that arm's own score


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


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that was not ingested, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What one ingest did. `skipped` counts files passed over by reason; `failures` names the bad ones."""

    collection: str
    added: int
    changed: int
    unchanged: int
    removed: int
    chunks: int  # written by this ingest
    skipped: Mapping[str, int]
    failures: Sequence[Failure]


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """One line of `ragway collections`."""

    name: str
    documents: int
    chunks: int
    embedder: str
    updated_s: float


def indexed_text(title: str, headings: Sequence[str], text: str) -> str:
    """The text that is embedded and indexed for a chunk: where it stands ("Connection > TLS"), then what it says."""
    path = [title, *headings] if title else list(headings)
    return " > ".join(path) + "\n" + text if path else text


def shown_text(source: str, title: str, headings: Sequence[str], text: str) -> str:
    """The text that a passage puts in front of the model, as far as its length matters: label and text."""
    return f"{source} {indexed_text(title, headings, text)}"
