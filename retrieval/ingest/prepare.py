"""From a file to the store's input: chunks, and both vectors of each chunk.

Separate processes read files (`runtime.sandbox`). Vectors are computed in a thread (for a command with a process of its
own) or in another such process (for the index process, so that hours of embedding do not delay questions).
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from retrieval.embedding.embed import Embedder, Matrix, cores
from retrieval.embedding.export import open_embedder
from retrieval.embedding.precision import BF16_MIN_TEXTS, BulkEmbedder
from retrieval.embedding.vector_cache import CachedEmbedder
from retrieval.errors import RetrievalError, Unreadable
from retrieval.ingest.splitting import EmbedderLimits, Recipe, SourceFile, SplitDocument, Splitter
from retrieval.knowledge import ReadingLimits
from retrieval.lexical.language import DEFAULT
from retrieval.lexical.terms import document_vector
from retrieval.records.documents import Document
from retrieval.records.points import Sparse
from runtime.sandbox import Sandbox, SandboxJob

_NICE = 10  # questions come first: a busy scheduler gives the child a tenth of a core
_WAITING_S = 30.0  # the most for a document that a client waits for; the client of a put waits 60 s


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """A chunk's text for the embedder, the text for the word index, and the language."""

    embedded: str
    lexical: str
    language: str = DEFAULT


@dataclass(frozen=True, slots=True)
class ChunkVectors:
    """Both vectors of n texts: (n, d) float32 rows of unit length, and n sparse vectors."""

    dense: Matrix
    sparse: list[Sparse]


def sandbox(
    recipe: Recipe, embedder_limits: EmbedderLimits, limits: ReadingLimits, *, nice: int = 0
) -> Sandbox[SourceFile | Document, SplitDocument]:
    """The processes that parse and split documents. nice: as in `SandboxJob`."""
    worker = partial(_splitting, recipe, embedder_limits, limits.chunks)
    too_slow = "split the document, or raise the limit (ingest.max_read_s)"
    died = "the reading process died twice, perhaps out of memory: split the document, or raise the limit "
    died += "(ingest.max_read_mb)"
    return Sandbox(
        SandboxJob(worker, Unreadable, too_slow, died, seconds=limits.seconds, memory_mb=limits.memory_mb, nice=nice)
    )


def _splitting(
    recipe: Recipe, embedder_limits: EmbedderLimits, max_chunks: int
) -> Callable[[SourceFile | Document], SplitDocument]:
    return Splitter(recipe, embedder_limits, max_chunks=max_chunks).split


class Embedding:
    """Texts to vectors, in the calling process."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._embedder: Embedder | None = None

    def vectors(self, texts: Sequence[ChunkTexts], remaining: int = 0) -> ChunkVectors:
        embedder = self._open()
        if isinstance(embedder, BulkEmbedder):
            embedder.expect(remaining)
        dense = embedder.embed_documents([text.embedded for text in texts])
        return ChunkVectors(dense, [document_vector(text.lexical, text.language) for text in texts])

    def _open(self) -> Embedder:
        if self._embedder is None:
            recipe = self._recipe
            self._embedder = open_embedder(
                recipe.model,
                backend=recipe.backend,
                threads=cores(),
                cache=recipe.cache,
                options=recipe.embedding,
                bulk=True,
                # the cache holds vectors of one precision
                bf16_min_texts=BF16_MIN_TEXTS if recipe.vectors is None else 0,
            )
            if recipe.vectors is not None:
                self._embedder = CachedEmbedder(self._embedder, recipe.vectors)
        return self._embedder


class Preparation:
    """Splits documents and computes vectors."""

    def __init__(
        self, recipe: Recipe, embedder_limits: EmbedderLimits, limits: ReadingLimits, *, serving: bool
    ) -> None:
        """serving: questions come first, so a child process embeds."""
        self._limits = limits
        self._reading = sandbox(recipe, embedder_limits, limits, nice=_NICE if serving else 0)
        self._here = None if serving else Embedding(recipe)
        died = "the embedding process died, perhaps out of memory: try again"
        job = SandboxJob(partial(_embedding, recipe), RetrievalError, "", died, attempts=1, nice=_NICE)
        self._child: Sandbox[tuple[Sequence[ChunkTexts], int], ChunkVectors] = Sandbox(job, processes=1, idle=1)

    async def split(self, item: SourceFile | Document, *, owner: str = "", waits: bool = False) -> SplitDocument:
        """Raises Unreadable if the file cannot become a document.

        owner: whoever shares the processes with others, such as a key.
        waits: whether a client waits for the answer; a document that takes long must not use up the client's time.
        """
        most_s = _WAITING_S if waits else math.inf
        upload = f"split the document, or upload it as a file, which may take {self._limits.seconds:g} s"
        return await self._reading.run(item, owner=owner, most_s=most_s, too_slow=upload)

    async def vectors(self, texts: Sequence[ChunkTexts], remaining: int = 0, *, owner: str = "") -> ChunkVectors:
        """remaining: an estimate of the texts that follow without a pause. owner: as in `split`.

        Callers with many texts pass batches: the owners take turns per batch.
        """
        if self._here is not None:
            return await asyncio.to_thread(self._here.vectors, texts, remaining)
        return await self._child.run((texts, remaining), owner=owner)

    async def close(self) -> None:
        await self._reading.close()
        await self._child.close()


def _embedding(recipe: Recipe) -> Callable[[tuple[Sequence[ChunkTexts], int]], ChunkVectors]:
    embedding = Embedding(recipe)
    return lambda item: embedding.vectors(*item)
