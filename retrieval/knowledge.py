"""What can be asked of the documents (`Knowledge`), and what an index must know to answer (`Plan`).

Light on purpose: the gateway imports this and `remote`, and neither a database nor an engine with them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

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


@runtime_checkable
class Outlines(Protocol):
    """What an ingest would write, for whoever asks a model about it beforehand."""

    async def changes(
        self, paths: Sequence[Path], collection: str, exclude: Sequence[str] = ()
    ) -> tuple[PendingDocument, ...]:
        """The documents that `ingest` of these paths would write; without paths, those of `rebuild`."""
        ...

    async def outline(self, changed: PendingDocument, collection: str) -> EnrichmentPlan:
        """One of them, and what is still to be written of its chunks. Raises Unreadable."""
        ...


class Knowledge(Protocol):
    """What can be asked of the documents, wherever the index runs."""

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
        """Passages in the view for the latest of `turns`; k, budget_tokens: None takes the setting.

        traced: with how they were found.

        Raises RetrievalError (UnknownCollection, WrongEmbedder, IndexDown).
        """
        ...

    async def ingest(
        self, paths: Sequence[Path], collection: str, progress: Progress, exclude: Sequence[str] = ()
    ) -> IngestReport:
        """Bring a collection up to date with files and folders; exclude: patterns of those that are left out.

        Raises RetrievalError.
        """
        ...

    async def rebuild(self, collection: str, progress: Progress, *, embedder: EmbedderChoice | None = None) -> int:
        """Make a collection's index anew from the catalog, with the configured embedder or with this one.

        Searches go on meanwhile. Returns its number of chunks. Raises RetrievalError.
        """
        ...

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        """All collections, by name, each with the number of documents that these groups may read."""
        ...

    async def documents(self, collection: str, *, after: str, limit: int, groups: Groups = ()) -> list[DocumentInfo]:
        """At most `limit` documents that these groups may read, by id, from behind the id `after` on.

        Raises RetrievalError (UnknownCollection).
        """
        ...

    async def document(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        """A document, whole.

        collections: those that the caller may read, as names or as patterns that end with *.
        Raises RetrievalError, and UnknownDocument where there is no such document or the caller may not read it.
        """
        ...

    async def points(self, collections: Sequence[str], ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage of points that a search in these collections found, whoever may read them; what is gone is
        left out.
        """
        ...

    async def standing(self, ids: Sequence[str], groups: Groups = ()) -> list[DocumentLocation]:
        """Where those of the documents are now that are still there and that these groups may read."""
        ...

    async def find_document(self, collection: str, key: str, groups: Groups = ()) -> str:
        """The id of the document that a client put under this key. Raises UnknownDocument."""
        ...

    async def create_collection(self, name: str, language: str | None) -> None:
        """Make an empty collection; language: None takes the setting. Raises CollectionExists, Invalid."""
        ...

    async def put(self, collection: str, given: Sequence[DocumentInput]) -> tuple[WriteResult, ...]:
        """Write documents, whose keys are different, each wholly; it goes on where the caller leaves.

        What is already as it was given is left alone; what the writer may not read is neither replaced nor made.
        Raises UnknownCollection.
        """
        ...

    async def start_job(self, collection: str, given: Sequence[DocumentInput], spooled: Sequence[str] = ()) -> Job:
        """Have documents written one after the other, in the background.

        spooled: the content of each, as a name in the data folder's spool; without, that of the files whose ids are
        the keys. It is safe once this returns. Raises UnknownCollection.
        """
        ...

    async def job(self, id: str, groups: Groups = ()) -> Job:
        """With its documents; a job is seen by who is in all groups of the one that began it. Raises UnknownJob."""
        ...

    async def finished_job(self, id: str) -> Job:
        """The same, once it is over."""
        ...

    async def jobs(self, collections: Sequence[str], *, before: str, limit: int, groups: Groups = ()) -> list[Job]:
        """At most `limit` jobs of these collections, newest first, from behind the id `before` on ("": from all)."""
        ...

    async def cancel_job(self, id: str) -> Job:
        """Write no more of its documents; those that are written stay. Raises UnknownJob."""
        ...

    async def attached(self, collections: Sequence[str], groups: Groups = ()) -> list[UnfinishedAttachment]:
        """Files that these collections are still to get, or could not."""
        ...

    async def detach(self, collection: str, key: str, groups: Groups = ()) -> bool:
        """Take away the document of this key, also where it was still to be written. Whether there was any.

        What these groups may not read stays.
        """
        ...

    async def holders(self, key: str) -> list[str]:
        """The collections with a document of this key, written or not."""
        ...

    async def document_keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Document -> the key under which a client put it, of those that clients put."""
        ...

    async def add_file(self, owner: str, name: str, purpose: str, spooled: str) -> UploadedFile:
        """Keep a file; spooled: its name in the data folder's spool."""
        ...

    async def find_files(self, ids: Sequence[str], owner: str) -> list[UploadedFile]:
        """Those of these that the owner has, in no order."""
        ...

    async def files(
        self, owner: str, purpose: str, *, after: str, limit: int, newest_first: bool
    ) -> list[UploadedFile]:
        """At most `limit` files of an owner, from behind the id `after` on; purpose, after: "" for all."""
        ...

    async def file_part(self, id: str, owner: str, start: int, length: int) -> bytes:
        """So many bytes of a file. Raises UnknownFile."""
        ...

    async def delete_file(self, id: str, owner: str) -> None:
        """Raises UnknownFile."""
        ...

    async def delete_document(self, id: str, groups: Groups = ()) -> None:
        """Take a document away, wholly or, interrupted, not at all; waits for the writer. Raises UnknownDocument."""
        ...

    async def delete_collection(self, name: str, groups: Groups = ()) -> None:
        """Take a collection and its documents away; waits for the writer. Raises UnknownCollection, NotReadable."""
        ...

    async def check(self) -> None:
        """Return once what a search needs was seen to work. Cheap. Raises RetrievalError."""
        ...

    async def close(self) -> None: ...


class Library(Knowledge, Outlines, Protocol):
    """What a command asks of the documents."""
