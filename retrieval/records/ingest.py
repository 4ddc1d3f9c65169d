"""From a path to a report, and the enrichments that a model still has to write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that was not ingested, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The result of one ingest. `skipped` counts files by reason; `failures` names files that could not be read.

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
class PendingDocument:
    """A document that an ingest would write; `source` is "" for a rebuild, which reads the catalog."""

    key: str
    source: str


@dataclass(frozen=True, slots=True)
class MissingEnrichment:
    """An enrichment of a chunk, `EnrichmentPlan.text[start:end]`, that a model has not written yet."""

    key: str  # under which the enrichment will be kept
    kind: str  # of the enrichment
    start: int
    end: int
    headings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnrichmentPlan:
    """A document's text, and the enrichments that its chunks still lack."""

    title: str
    text: str
    missing: tuple[MissingEnrichment, ...]
