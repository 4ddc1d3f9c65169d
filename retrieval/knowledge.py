"""The operations on documents (`Knowledge`), and the configuration of an index (`Plan`).

Each operation is declared once, as a method of `Search`, `Library` or `Writing`. `retrieval.rpc` builds the client and
the server from these declarations; the index implements the declarations. To add an operation, declare the method
here and implement the method in `retrieval.index`. The types of all parameters and answers must be types that msgspec
can encode (records, numbers, text, bytes, lists, mappings), or `Path`; a parameter of type `Progress` is a callback.

Light on purpose: the gateway imports this module and `rpc.client`, without a database and without an engine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from retrieval.records.documents import CollectionInfo, DocumentInfo, DocumentLocation, FullDocument, Groups, Passage
from retrieval.records.files import UploadedFile
from retrieval.records.ingest import EnrichmentPlan, IngestReport, PendingDocument
from retrieval.records.jobs import DocumentInput, Job, UnfinishedAttachment, WriteResult
from retrieval.records.search import PUBLIC, Retrieved, Turn, View

Backend = Literal["auto", "onnx", "torch", "remote"]
Precision = Literal["auto", "fp32", "int8", "bf16"]
Chunking = Literal["auto", "structure", "recursive", "fixed"]
DETECTED = "auto"  # as a collection's language: whatever its documents are in
Arms = Literal["both", "dense", "bm25"]
Mode = Literal["auto", "hybrid", "sequential", "whole", "dense", "bm25"]
Progress = Callable[[int, int, int], None]  # documents done, documents in all, chunks written so far


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search; every field is a setting of the same name."""

    rewrite: bool
    candidates: int
    rrf_k: int
    min_relevance: float  # 0 = always inject
    k: int
    budget_tokens: int
    mode: Mode
    rerank_model: str  # "" = none
    rerank_candidates: int
    rerank_deadline_s: float
    recency_half_life_days: float  # 0 = off
    diversity: float  # 0 = off
    merge_neighbours: bool
    neighbours: int
    whole_document_tokens: int  # 0 = off
    arms: Arms = "both"  # no setting: one alone is for measuring, and for who asks for it


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a search of which the hits are shown asks for; a chat, which takes the context, has none."""

    mode: Literal["hybrid", "dense", "bm25"] | None = None  # None: the setting's, or hybrid where that is `whole`
    rerank: bool = True  # where a reranker is configured
    neighbours: int = 0  # chunks on each side of a hit, to be shown with it
    whole: bool = False  # to be shown with a hit: all of its document, unless that is long


PLAIN = Lookup()


@dataclass(frozen=True, slots=True)
class EmbedderOptions:
    """How to run an embedder, beside its name, backend and threads; every field is a setting of `embedder`."""

    precision: Precision
    query_prompt: str | None  # None: the model's own
    document_prompt: str | None
    api_base: str  # of a remote one; "" = its provider's
    api_key: str  # "" = where litellm looks for it
    dimensions: int  # asked of a remote one; 0 = its own
    batch_texts: int  # in one call to a remote one
    timeout_s: float  # of one call to a remote one
    retries: int  # of one call to a remote one


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """What one document may take while it is read and split; every field is a setting of `ingest`."""

    seconds: float  # of processor time: max_read_s
    memory_mb: int  # max_read_mb
    chunks: int  # max_chunks


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Something that a model writes of each chunk, to be embedded and indexed with it."""

    kind: str  # context, keywords or questions: the name of its prompt
    model: str  # a name of the gateway's models
    prompt: str  # the text of the prompt's file


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """An embedder, by all that decides about its vectors."""

    model: str
    backend: Backend
    precision: Precision
    query_prompt: str | None
    document_prompt: str | None
    api_base: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an index needs to know, as plain values: it travels as JSON to the index process."""

    data: str  # folder
    catalog_url: str  # of a PostgreSQL database; "" = SQLite in that folder
    model: str
    backend: Backend
    threads: int
    chunk_tokens: int
    overlap_tokens: int
    chunking: Chunking
    neighbour_weight: float  # of the vectors beside a chunk's own
    max_file_bytes: int
    follow_links: bool  # out of the folders that are ingested
    reading: ReadingLimits
    qdrant_url: str  # "" = the embedded engine
    qdrant_api_key: str
    qdrant_collection: str
    qdrant_timeout_s: float
    qdrant_shards: int
    qdrant_replicas: int
    qdrant_quantisation: Literal["none", "int8", "binary"]
    lexical: Literal["bm25", "okapi"]
    language: str  # of collections: auto, or a code of `language`
    languages: Mapping[str, str]  # collection -> its language, where it is not that one
    enrichments: tuple[Enrichment, ...]
    context_tokens: int  # of a chunk, for all of them together
    search: SearchOptions
    embedding: EmbedderOptions


class Search(Protocol):
    """From a question to passages."""

    async def retrieve(
        self,
        turns: Sequence[Turn],
        collections: Sequence[str],
        *,
        k: int | None,
        budget_tokens: int | None = None,
        view: View = PUBLIC,
        lookup: Lookup | None = None,
        traced: bool = False,
    ) -> Retrieved:
        """Passages of the view for the latest of `turns`; k, budget_tokens: None takes the setting.

        traced: with a trace of the search.

        Raises RetrievalError (UnknownCollection, WrongEmbedder, IndexDown).
        """
        ...

    async def passages(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        """Point id -> passage, for points that a search in these collections found, without a check of the reader.

        Deleted points are left out.
        """
        ...

    async def check(self) -> None:
        """Run one cheap search through embedder and store. Raises RetrievalError when a search cannot work."""
        ...


class Library(Protocol):
    """Collections, documents, jobs and files as stored."""

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        """All collections, by name, each with the number of documents that these groups may read."""
        ...

    async def documents(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        """At most `limit` documents that these groups may read, by id, starting after the id `after`.

        Raises UnknownCollection.
        """
        ...

    async def document(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        """A document with its text.

        collections: the collections that the caller may read, as names or as patterns that end with *.
        Raises UnknownDocument for an unknown id and for a document that the caller may not read.
        """
        ...

    async def locations(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        """Locations of the documents that still exist and that these groups may read."""
        ...

    async def find_document(self, collection: str, key: str, groups: Groups = ()) -> str:
        """Id of the document that a client wrote under this key. Raises UnknownDocument."""
        ...

    async def document_keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Document id -> key, for the documents that clients wrote."""
        ...

    async def collections_with(self, key: str) -> list[str]:
        """Names of the collections with a document of this key, written or waiting."""
        ...

    async def job(self, id: str, groups: Groups = ()) -> Job:
        """A job with its documents. Raises UnknownJob, also for a reader who lacks a group of the job's author."""
        ...

    async def finished_job(self, id: str) -> Job:
        """The job, once the job is over. Raises UnknownJob."""
        ...

    async def jobs(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        """At most `limit` jobs of these collections, newest first, starting after the id `before` ("": the newest)."""
        ...

    async def unfinished_attachments(
        self, collections: Sequence[str], groups: Groups = ()
    ) -> list[UnfinishedAttachment]:
        """Files that are attached to these collections and that wait, failed or were cancelled."""
        ...

    async def find_files(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        """The files of this owner among `ids`, in no order."""
        ...

    async def files(
        self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool
    ) -> list[UploadedFile]:
        """At most `limit` files of an owner, starting after the id `after`; purpose, after: "" for all."""
        ...

    async def file_part(self, id: str, owner: str, start: int, length: int) -> bytes:
        """At most `length` bytes of a file, from the offset `start`. Raises UnknownFile."""
        ...


class Writing(Protocol):
    """Writing and deleting documents, jobs and files, and planning an ingest."""

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        """Bring a collection up to date with files and folders; exclude: patterns of files to leave out.

        Raises RetrievalError.
        """
        ...

    async def pending_documents(
        self, paths: Sequence[Path], collection: str, exclude: Sequence[str] = ()
    ) -> tuple[PendingDocument, ...]:
        """The documents that `ingest` of these paths would write; without paths, the documents of `rebuild`."""
        ...

    async def enrichment_plan(self, pending: PendingDocument, collection: str) -> EnrichmentPlan:
        """The enrichments that the chunks of this document lack. Raises Unreadable."""
        ...

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        """Build a collection's index again from the catalog; embedder: None takes the configured embedder.

        Searches continue meanwhile. Returns the number of chunks. Raises RetrievalError.
        """
        ...

    async def create_collection(self, name: str, language: str | None) -> None:
        """Make an empty collection; language: None takes the setting. Raises CollectionExists, Invalid."""
        ...

    async def put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        """Write documents with distinct keys, each document completely or not at all, also after the caller leaves.

        Unchanged documents are not written again. A document that the writer may not read is neither replaced nor
        made. Raises UnknownCollection.
        """
        ...

    async def start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str] = ()) -> Job:
        """Write documents in the background, in order. Once this returns, a crash loses no document.

        spooled: names in the data folder's spool, the content of each document; without names, each content is the
        content of the uploaded file whose id is the key. Raises UnknownCollection.
        """
        ...

    async def cancel_job(self, id: str) -> Job:
        """Stop a job; documents that are already written stay. Raises UnknownJob."""
        ...

    async def detach(self, collection: str, key: str, groups: Groups = ()) -> bool:
        """Delete the document of this key, also one that waits to be written. Returns whether there was a document.

        A document that these groups may not read stays.
        """
        ...

    async def add_file(self, owner: str, name: str, purpose: str, spooled: str) -> UploadedFile:
        """Store a file; spooled: the name of its content in the data folder's spool."""
        ...

    async def delete_file(self, id: str, owner: str) -> None:
        """Raises UnknownFile."""
        ...

    async def delete_document(self, id: str, groups: Groups = ()) -> None:
        """Delete a document, completely or, if interrupted, not at all. Waits for writers. Raises UnknownDocument."""
        ...

    async def delete_collection(self, name: str, groups: Groups = ()) -> None:
        """Delete a collection and its documents; waits for the writer. Raises UnknownCollection, NotReadable."""
        ...


class Knowledge(Protocol):
    """All operations on documents, whether the index runs in this process or in another."""

    @property
    def search(self) -> Search: ...
    @property
    def library(self) -> Library: ...
    @property
    def writing(self) -> Writing: ...

    async def close(self) -> None: ...
