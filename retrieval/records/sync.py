"""Declared sources of a collection, what a sync of one did, and what is remembered of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from retrieval.records.ingest import Failure, Secret

SourceKind = Literal["folder", "git", "web", "sitemap", "bucket"]
SyncOutcome = Literal["synced", "empty", "unreachable", "not due", "undeclared"]


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A declared source, with all that is needed to open it."""

    name: str  # unique in its collection
    kind: SourceKind
    places: tuple[str, ...]  # of a folder or a repository on disk: its absolute path; of others: URLs
    exclude: tuple[str, ...] = ()
    not_below: tuple[str, ...] = ()  # folders of the collection's other sources
    branch: str = ""  # of a repository; "": its own main branch
    paths: tuple[str, ...] = ()  # within a repository; (): all
    networks: tuple[str, ...] = ()  # that are not public, and may be called
    credentials: tuple[str, str] | None = None  # user and secret
    pages: int = 1_000  # read at most, of the web
    per_second: float = 1.0  # requests to a host of the web
    options: Mapping[str, str | bool] = field(default_factory=dict)  # of a bucket, for the library that opens it


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What a sync of one source did; a dry run: would do. Documents are named by source.

    empty: the source has no readable document any more, so its `kept` documents stay.
    unreachable: the source cannot be listed, for the reason in `failures`; nothing was changed.
    undeclared: the settings no longer have the source, so its documents are removed.
    """

    source: str
    outcome: SyncOutcome
    added: Sequence[str] = ()
    changed: Sequence[str] = ()
    moved: Sequence[tuple[str, str]] = ()  # same content: before, after
    removed: Sequence[str] = ()
    unchanged: int = 0
    kept: int = 0
    chunks: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    failures: Sequence[Failure] = ()
    left_out: Sequence[str] = ()  # as in `IngestReport`, like the next
    secrets: Sequence[Secret] = ()


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is remembered of a source."""

    collection: str
    name: str
    kind: SourceKind
    places: tuple[str, ...]
    tried_s: float  # seconds since the epoch
    synced_s: float  # end of the latest sync that could list the source; 0: none
    documents: int = 0  # of the source, then
    failed: int = 0  # at the latest attempt
    failures: Sequence[Failure] = ()  # the first of them
