"""From a file to store input: chunks, and both vectors of each.

Separate processes read files (`runtime.sandbox`). Vectors are computed in a thread (for a command with its own
process) or in another such process (for the index process, so that hours of embedding do not delay questions).
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from retrieval.embedding.embed import Embedder, Matrix, cores
from retrieval.embedding.precision import BulkEmbedder
from retrieval.embedding.vector_cache import CachedEmbedder
from retrieval.errors import RetrievalError, Unreadable
from retrieval.ingest.containers import Packed, Unpacked, unpack
from retrieval.ingest.rules import fields_of
from retrieval.ingest.splitting import EmbedderLimits, Recipe, SourceFile, SplitDocument, Splitter
from retrieval.lexical.terms import DEFAULT, document_vector
from retrieval.records.documents import Document
from retrieval.records.points import Sparse
from runtime.sandbox import Sandbox, SandboxJob

_NICE = 10  # questions come first: a busy scheduler gives the child a tenth of a core
_WAITING_S = 30.0  # most for a document that a client waits for; a put's client waits 60 s


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """A chunk's text for the embedder, its text for the word index, and its language."""

    embedded: str
    lexical: str
    language: str = DEFAULT


@dataclass(frozen=True, slots=True)
class ChunkVectors:
    """Both vectors of n texts: (n, d) float32 rows of unit length, and n sparse vectors."""

    dense: Matrix
    sparse: list[Sparse]


def sandbox(
    recipe: Recipe, embedder_limits: EmbedderLimits, *, nice: int = 0
) -> Sandbox[SourceFile | Document, SplitDocument]:
    """Processes that parse and split documents. nice: as in `SandboxJob`."""
    worker, ingest = partial(_splitting, recipe, embedder_limits), recipe.ingest
    too_slow = "split the document, or raise the limit (ingest.max_read_s)"
    died = "the reading process died twice, perhaps out of memory: split the document, or raise the limit "
    died += "(ingest.max_read_mb)"
    most_s, most_mb = ingest.max_read_s, ingest.max_read_mb
    job = SandboxJob(worker, Unreadable, too_slow, died, seconds=most_s, memory_mb=most_mb, nice=nice, confined=True)
    return Sandbox(job)


def _splitting(recipe: Recipe, limits: EmbedderLimits) -> Callable[[SourceFile | Document], SplitDocument]:
    return Splitter(recipe, limits).split


def _unpacking(recipe: Recipe, *, nice: int) -> Sandbox[Packed, Unpacked]:
    """A process that opens containers."""
    too_slow = "split the archive, or raise the limit (ingest.max_read_s)"
    died = "the unpacking process died twice, perhaps out of memory: split the archive, or raise the limit "
    died += "(ingest.max_read_mb)"
    most_s, most_mb = recipe.ingest.max_read_s, recipe.ingest.max_read_mb
    job = SandboxJob(_unpacker, Unreadable, too_slow, died, seconds=most_s, memory_mb=most_mb, nice=nice, confined=True)
    return Sandbox(job, processes=2, idle=1)


def _unpacker() -> Callable[[Packed], Unpacked]:
    return unpack


class Embedding:
    """Texts to vectors, in the calling process."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def vectors(self, texts: Sequence[ChunkTexts], remaining: int = 0) -> ChunkVectors:
        if isinstance(self._embedder, BulkEmbedder):
            self._embedder.expect(remaining)
        dense = self._embedder.embed_documents([text.embedded for text in texts])
        return ChunkVectors(dense, [document_vector(text.lexical, text.language) for text in texts])

    @cached_property
    def _embedder(self) -> Embedder:
        folder = self._recipe.vectors
        if folder is None:
            return self._recipe.open_embedder(cores(), bulk=True)
        # this folder holds vectors of one precision
        return CachedEmbedder(self._recipe.open_embedder(cores(), bulk=True, bf16_min_texts=0), folder)


class Preparation:
    """Splits documents and computes vectors."""

    def __init__(self, recipe: Recipe, embedder_limits: EmbedderLimits, *, serving: bool) -> None:
        """serving: questions come first, so a child process embeds."""
        self._max_s = recipe.ingest.max_read_s
        self._reading = sandbox(recipe, embedder_limits, nice=_NICE if serving else 0)
        self._here = None if serving else Embedding(recipe)
        self._ingest = recipe.ingest
        self._unpacking = _unpacking(recipe, nice=_NICE if serving else 0)
        died = "the embedding process died, perhaps out of memory: try again"
        job = SandboxJob(partial(_embedding, recipe), RetrievalError, "", died, attempts=1, nice=_NICE)
        self._child: Sandbox[tuple[Sequence[ChunkTexts], int], ChunkVectors] = Sandbox(job, processes=1, idle=1)

    async def split(self, item: SourceFile | Document, *, owner: str = "", waits: bool = False) -> SplitDocument:
        """Raises Unreadable if a file cannot become a document.

        owner: whoever shares the processes with others, such as a key.
        waits: whether a client waits for the answer; a document that takes long must not use up its time.
        """
        most_s = _WAITING_S if waits else math.inf
        upload = f"split the document, or upload it as a file, which may take {self._max_s:g} s"
        return await self._reading.run(item, owner=owner, most_s=most_s, too_slow=upload)

    async def unpack(self, file: SourceFile) -> Unpacked:
        """Return a container's members. Raises Unreadable."""
        return await self._unpacking.run(Packed.of(file.source, file.data, file.modified_s, self._ingest))

    def has_record_documents(self, source: str) -> bool:
        """Whether each record of this file is a document of its own."""
        fields = fields_of(self._ingest.rules, source)
        return fields is not None and fields.id != ""

    async def vectors(self, texts: Sequence[ChunkTexts], remaining: int = 0, *, owner: str = "") -> ChunkVectors:
        """remaining: about how many texts follow without a pause. owner: as in `split`.

        Callers with many texts pass batches: owners take turns per batch.
        """
        if self._here is not None:
            return await asyncio.to_thread(self._here.vectors, texts, remaining)
        return await self._child.run((texts, remaining), owner=owner)

    async def close(self) -> None:
        await self._reading.close()
        await self._unpacking.close()
        await self._child.close()


def _embedding(recipe: Recipe) -> Callable[[tuple[Sequence[ChunkTexts], int]], ChunkVectors]:
    embedding = Embedding(recipe)
    return lambda item: embedding.vectors(*item)
