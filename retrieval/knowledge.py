"""What can be asked of the documents (`Knowledge`), and what an index must know to answer (`Plan`).

Light on purpose: the gateway imports this and `remote`, and neither a database nor an engine with them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from retrieval.records import CollectionInfo, Report, Retrieved, Turn

Backend = Literal["auto", "onnx", "torch"]
Progress = Callable[[int, int, int], None]  # documents done, documents in all, chunks written so far


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search; every field is a setting of the same name."""

    rewrite: bool
    candidates: int
    rrf_k: int
    min_cosine: float
    min_bm25: float
    k: int
    budget_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an index needs to know, as plain values: it travels as JSON to the index process."""

    data: str  # folder
    model: str
    backend: Backend
    threads: int
    chunk_tokens: int
    overlap_tokens: int
    max_file_bytes: int
    qdrant_url: str  # "" = the embedded engine
    qdrant_api_key: str
    qdrant_collection: str
    qdrant_timeout_s: float
    lexical: Literal["bm25", "okapi"]
    search: SearchOptions


class Knowledge(Protocol):
    """What can be asked of the documents, wherever the index runs."""

    async def retrieve(self, turns: Sequence[Turn], collections: Sequence[str], *, k: int | None) -> Retrieved:
        """Passages for the latest of `turns`. Raises RetrievalError (UnknownCollection, WrongEmbedder, IndexDown)."""
        ...

    async def ingest(self, paths: Sequence[Path], collection: str, progress: Progress) -> Report:
        """Bring a collection up to date with files and folders. Raises RetrievalError."""
        ...

    async def rebuild(self, collection: str, progress: Progress) -> int:
        """Make a collection's index anew from the catalog; returns its number of chunks. Raises RetrievalError."""
        ...

    async def collections(self) -> list[CollectionInfo]:
        """All collections, by name."""
        ...

    async def check(self) -> None:
        """Return once what a search needs was seen to work. Cheap. Raises RetrievalError."""
        ...

    async def close(self) -> None: ...
