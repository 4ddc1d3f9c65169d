"""From a path to a report, and enrichments still missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed file, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document that an ingest wrote or removed."""

    what: Literal["added", "changed", "removed"]
    source: str
    content: str  # its version: equal for equal content


@dataclass(frozen=True, slots=True)
class Note:
    """What a person should know about how a file was read, such as a guessed encoding; or about the collection."""

    source: str  # or the collection
    text: str


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a document holds a secret, such as a password; never the secret itself."""

    document: str  # its source
    line: int  # of the file, or of the text that was made of it
    kind: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """An ingest's result. `skipped` counts files by reason; `failures` names unreadable files, `notes` others.

    left_out: links out of the folder, as "source -> target", which were not followed.
    unread: files in folders whose type is not supported.
    kept: documents that stay although an empty source has none of them.
    repeated: documents of the collection that say the same as an earlier one; search shows one of them.
    """

    collection: str
    added: int
    changed: int
    unchanged: int
    removed: int
    chunks: int  # written by the ingest
    skipped: Mapping[str, int]
    failures: Sequence[Failure]
    left_out: Sequence[str] = ()
    unread: Sequence[str] = ()
    kept: int = 0
    changes: Sequence[DocumentChange] = ()
    notes: Sequence[Note] = ()
    repeated: int = 0
    secrets: Sequence[Secret] = ()  # in documents that were written


@dataclass(frozen=True, slots=True)
class PendingDocument:
    """A document that an ingest is to write; `source` is "" for a rebuild, which reads the catalog."""

    key: str
    source: str


@dataclass(frozen=True, slots=True)
class MissingEnrichment:
    """A chunk's enrichment, `EnrichmentPlan.text[start:end]`, not yet written by a model."""

    key: str  # under which it will be kept
    kind: str  # of the enrichment
    start: int
    end: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnrichmentPlan:
    """A document's text, and its chunks' missing enrichments."""

    title: str
    text: str
    missing: tuple[MissingEnrichment, ...]
