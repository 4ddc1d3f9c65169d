"""Operations on documents (`Knowledge`), and the configuration of an index (`Plan`).

Each operation is declared once, as a method of `Search`, `Library` or `Writing`. `retrieval.rpc` builds client and
server from these declarations; `retrieval.index` implements them. A new operation is a method declared in a protocol
here and implemented in `retrieval.index`. msgspec must be able to encode the types of its parameters and answers
(records, numbers, text, bytes, lists, mappings, `Path`); a parameter of type `Progress` is a callback.

Light on purpose: the gateway imports only `retrieval.knowledge` and `rpc.client`, without a database or an engine.
"""

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from config.sections import EmbedderSettings, IngestSettings, QdrantSettings, RetrievalSettings
from retrieval.errors import CollectionExists, RetrievalError, UnknownCollection
from retrieval.records.documents import CollectionInfo, DocumentInfo, DocumentLocation, FullDocument, Groups, Passage
from retrieval.records.files import UploadedFile
from retrieval.records.ingest import EnrichmentPlan, IngestReport, PendingDocument
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult
from retrieval.records.points import PointFaults
from retrieval.records.search import PUBLIC, Calibration, Retrieved, Turn, View
from retrieval.records.sync import SourceReport, SourceSpec

Backend = Literal["auto", "onnx", "torch", "remote"]
Precision = Literal["auto", "fp32", "int8", "bf16"]
Chunking = Literal["auto", "structure", "recursive", "fixed"]
DETECTED = "auto"  # as a collection's language: its first documents'
Arms = Literal["both", "dense", "bm25"]
Mode = Literal["auto", "hybrid", "sequential", "whole", "dense", "bm25"]
# Documents done, documents in all, chunks written so far, source of the present document.
Progress = Callable[[int, int, int, str], None]


@dataclass(frozen=True, slots=True)
class SearchOptions(RetrievalSettings):
    """How to search."""

    budget_tokens: int
    arms: Arms = "both"  # not a setting: for measurements and for explicit requests


@dataclass(frozen=True, slots=True)
class HitOptions:
    """Options of a search for hits. A search for a chat uses the context, and has none."""

    mode: Literal["hybrid", "dense", "bm25"] | None = None  # None: the setting, or hybrid if that is `whole`
    rerank: bool = True  # if a reranker is configured
    neighbours: int = 0  # chunks on each side of a hit, shown with the hit
    whole: bool = False  # show each hit with its whole document, unless it is long
    min_relevance: float | None = None  # None: the setting
    candidates: int | None = None  # of each arm; None: the setting
    least_chunks: int = 1  # reported relevance counts a smaller collection as so large: in a few, any word is rare


DEFAULT_HIT_OPTIONS = HitOptions()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: passages for the latest of `turns`."""

    turns: Sequence[Turn]
    collections: Sequence[str]
    k: int | None = None  # None: the setting
    budget_tokens: int | None = None  # None: the setting
    view: View = PUBLIC
    hit_options: HitOptions | None = None  # None: a search for a chat
    traced: bool = False  # with a trace of the search


@dataclass(frozen=True, slots=True)
class EmbedderOptions(EmbedderSettings):
    """Which embedder, and how to run it."""

    api_key: str  # "" = the environment variable that litellm reads


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Text that a model writes about each chunk, embedded and indexed with it."""

    kind: str  # context, keywords or questions: the prompt's name
    model: str  # one of the gateway's models
    prompt: str  # the prompt file's text


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """An embedder, as all options that change its vectors."""

    model: str
    backend: Backend
    precision: Precision
    query_prompt: str | None
    document_prompt: str | None
    api_base: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Plan:
    """An index's whole configuration; travels as JSON to the index process."""

    data: str  # folder
    catalog_url: str  # of a PostgreSQL database; "" = SQLite in the data folder
    ingest: IngestSettings
    max_file_bytes: int
    qdrant: QdrantSettings  # without a URL: the embedded engine
    qdrant_api_key: str
    enrichments: tuple[Enrichment, ...]
    search: SearchOptions
    embedding: EmbedderOptions


class Search(Protocol):
    """From a question to passages."""

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        """Raises RetrievalError (UnknownCollection, WrongEmbedder, IndexDown)."""
        ...

    async def passages(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        """Point id -> passage, for points that a search found in these collections; does not check the reader.

        Deleted points are left out.
        """
        ...

    async def check(self) -> None:
        """Run a cheap search through embedder and store. Raises RetrievalError if searches cannot work."""
        ...


class Library(Protocol):
    """Collections, documents, jobs and files as stored."""

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        """All collections, by name, each with its number of documents readable by `groups`."""
        ...

    async def documents(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        """At most `limit` documents readable by `groups`, by id, starting after the id `after`.

        Raises UnknownCollection.
        """
        ...

    async def document(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        """A document with its text.

        collections: the caller's readable collections, as names or as patterns ending with *.
        Raises UnknownDocument for an unknown id, and for a document hidden from the caller.
        """
        ...

    async def locations(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        """Locations of documents, except those deleted or hidden from `groups`."""
        ...

    async def find_document(self, collection: str, key: str, groups: Groups = ()) -> str:
        """Id of the document that a client wrote under this key. Raises UnknownDocument."""
        ...

    async def document_keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Document id -> key, for documents written by clients."""
        ...

    async def keys_under(self, collection: str, prefix: str) -> list[str]:
        """Keys that begin with the prefix, of documents written by clients. Raises UnknownCollection."""
        ...

    async def collections_with(self, key: str) -> list[str]:
        """Names of collections with such a document, written or waiting."""
        ...

    async def job(self, id: str, groups: Groups = ()) -> Job:
        """A job with its documents. Raises UnknownJob, also for a reader without all groups of its author."""
        ...

    async def finished_job(self, id: str) -> Job:
        """A job, once it is over. Raises UnknownJob."""
        ...

    async def jobs(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        """At most `limit` jobs of these collections, newest first, starting after the id `before` ("": the newest)."""
        ...

    async def unfinished_attachments(
        self, collections: Sequence[str], groups: Groups = ()
    ) -> list[UnfinishedAttachment]:
        """Files attached to these collections whose writing waits, failed or was cancelled."""
        ...

    async def find_files(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        """The owner's files among `ids`, in no order."""
        ...

    async def files(
        self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool
    ) -> list[UploadedFile]:
        """At most `limit` of an owner's files, starting after the id `after`; purpose, after: "" for all."""
        ...

    async def file_part(self, id: str, owner: str, start: int, length: int) -> bytes:
        """At most `length` bytes of a file, from offset `start`. Raises UnknownFile."""
        ...

    async def problems(self) -> list[str]:
        """A sentence for each collection that cannot be searched, with a remedy; looks for at most a second.

        Raises IndexDown.
        """
        ...

    async def audit(self, collection: str) -> PointFaults:
        """Faults in a collection's points. Raises UnknownCollection, WrongEmbedder, IndexDown."""
        ...


class Writing(Protocol):
    """Writing and deleting documents, jobs and files, and planning an ingest."""

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        """Bring a collection up to date with files and folders; exclude: patterns for files to leave out.

        Raises RetrievalError, Invalid for a reserved collection.
        """
        ...

    async def sync(
        self,
        collection: str,
        source: SourceSpec,
        progress: Progress,
        *,
        dry_run: bool = False,
        allow_empty: bool = False,
        due_after_s: float | None = None,
    ) -> SourceReport:
        """Bring a collection up to date with one declared source; a dry run only reports what would change.

        allow_empty: a source without any readable document removes its documents, too.
        due_after_s: do nothing if a sync of the source began less than so long ago, in any process.
        Raises RetrievalError, Busy if another process syncs the collection, Invalid for a reserved collection.
        """
        ...

    async def remove_undeclared(
        self, collection: str, declared: Sequence[SourceSpec], *, dry_run: bool = False
    ) -> list[SourceReport]:
        """Remove the documents of sources that were synced and are no longer declared. Raises as `sync`."""
        ...

    async def pending_documents(
        self, paths: Sequence[Path], collection: str, exclude: Sequence[str] = ()
    ) -> tuple[PendingDocument, ...]:
        """Documents that `ingest` would write; without paths, those of `rebuild`."""
        ...

    async def enrichment_plan(self, pending: PendingDocument, collection: str) -> EnrichmentPlan:
        """Enrichments that a document's chunks lack. Raises Unreadable."""
        ...

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        """Build a collection's index again from the catalog; embedder: None takes the configured one.

        Searches continue meanwhile. Returns how many chunks it has. Raises RetrievalError.
        """
        ...

    async def calibrate(self, progress: Progress, *, reset: bool = False) -> list[Calibration]:
        """Fit each embedder's curve of relevance to its collections, and use it from now on.

        reset: back to the built-in curves, without fitting. Raises RetrievalError.
        """
        ...

    async def create_collection(self, name: str, language: str | None) -> None:
        """Make an empty collection; language: None takes the setting. Raises CollectionExists, Invalid."""
        ...

    async def put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        """Write documents with distinct keys, each completely or not at all, even if the caller leaves.

        Unchanged ones are not written again. A document hidden from the writer is neither replaced nor made.
        Raises UnknownCollection.
        """
        ...

    async def start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str] = ()) -> Job:
        """Write documents in the background, in order. Once this has returned, a crash loses none.

        spooled: names in the data folder's spool, for each document's content; without names, it is the uploaded file
        with the key as id. Raises UnknownCollection.
        """
        ...

    async def cancel_job(self, id: str) -> Job:
        """Stop a job; documents already written stay. Raises UnknownJob."""
        ...

    async def detach(self, collection: str, keys: Sequence[str], groups: Groups = ()) -> int:
        """Delete the documents of these keys, written or waiting. Returns how many.

        A document hidden from `groups` stays.
        """
        ...

    async def add_file(self, owner: str, name: str, purpose: str, spooled: str) -> UploadedFile:
        """Store a file; spooled: its content's name in the data folder's spool."""
        ...

    async def delete_file(self, id: str, owner: str) -> None:
        """Raises UnknownFile."""
        ...

    async def delete_document(self, id: str, groups: Groups = ()) -> None:
        """Delete a document completely or, if interrupted, not at all. Waits for writers. Raises UnknownDocument."""
        ...

    async def delete_collection(self, name: str, groups: Groups = ()) -> None:
        """Delete a collection and all its documents; waits for writers. Raises UnknownCollection, NotReadable."""
        ...


class Knowledge(Protocol):
    """All operations on documents, whether the index is in this process or in another."""

    @property
    def search(self) -> Search: ...
    @property
    def library(self) -> Library: ...
    @property
    def writing(self) -> Writing: ...

    async def close(self) -> None: ...


# --- texts of the gateway's own, in a reserved collection

_BATCH = 100  # documents written at a time


async def write_texts(
    knowledge: Knowledge, collection: str, texts: Sequence[DocumentInput], progress: Progress | None
) -> None:
    """Write texts, and make the collection if it is missing; the index keeps unchanged ones. Raises RetrievalError."""
    with contextlib.suppress(CollectionExists):
        await knowledge.writing.create_collection(collection, None)
    for at in range(0, len(texts), _BATCH):
        results = await knowledge.writing.put(collection, texts[at : at + _BATCH])
        failed = next((result for result in results if result.state in ("refused", "failed")), None)
        if failed is not None:
            raise RetrievalError(f"{failed.key} cannot be stored: {failed.reason}")
        if progress is not None:
            progress(min(at + _BATCH, len(texts)), len(texts), 0, "")


async def remove_texts(knowledge: Knowledge, collection: str, prefix: str, kept: Collection[str]) -> int:
    """Delete texts with other keys below a prefix, also those that an interrupted write left; returns how many.

    Raises RetrievalError.
    """
    removed = 0
    with contextlib.suppress(UnknownCollection):
        keys = await knowledge.library.keys_under(collection, prefix)
        gone = [key for key in keys if key not in kept]
        for at in range(0, len(gone), _BATCH):
            removed += await knowledge.writing.detach(collection, gone[at : at + _BATCH], None)
    return removed
