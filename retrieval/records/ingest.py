"""From a path to a report, and the enrichments still missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed file, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The result of an ingest. `skipped` counts files by reason; `failures` names unreadable files.

    left_out: links out of the folder, as "source -> target", which were not followed. unread: files of folders with an
    unsupported type.
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


@dataclass(frozen=True, slots=True)
class PendingDocument:
    """A document due to be written by an ingest; `source` is "" for a rebuild, which reads the catalog."""

    key: str
    source: str


@dataclass(frozen=True, slots=True)
class MissingEnrichment:
    """An enrichment of a chunk, `EnrichmentPlan.text[start:end]`, not written yet by a model."""

    key: str  # under which the enrichment will be kept
    kind: str  # of the enrichment
    start: int
    end: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnrichmentPlan:
    """A document's text, and the missing enrichments of the chunks."""

    title: str
    text: str
    missing: tuple[MissingEnrichment, ...]
