"""From a file to the store's input: chunks, and both vectors of each chunk.

Separate processes read files (`runtime.sandbox`). Vectors are computed in a thread (`InThread`: for a command with a
process of its own) or in a child process (`InChild`: for the index process, so that hours of embedding do not delay
questions).
"""

import asyncio
import math
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

from retrieval.embedding.embed import Embedder, Matrix, cores
from retrieval.embedding.export import open_embedder
from retrieval.embedding.precision import BF16_MIN_TEXTS, BulkEmbedder
from retrieval.embedding.vector_cache import CachedEmbedder
from retrieval.errors import RetrievalError
from retrieval.ingest.splitting import EmbedderLimits, Recipe, SourceFile, SplitDocument, Splitter
from retrieval.knowledge import ReadingLimits
from retrieval.lexical.language import DEFAULT
from retrieval.lexical.terms import document_vector
from retrieval.records.documents import Document
from retrieval.records.points import Sparse
from runtime.fair_slots import FairSlots
from runtime.sandbox import ReadingJob, Sandbox
from runtime.scheduling import in_the_background

_NICE = 10  # questions come first: a busy scheduler gives the child a tenth of a core
_WAITING_S = 30.0  # the most for a document that a client waits for; the client of a put waits 60 s
_KILL_AGAIN_S = 0.05  # between two checks of a cancelled exchange, until the end


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


class Preparation(Protocol):
    """Splits documents and computes vectors, in a thread or a process."""

    async def split(self, item: SourceFile | Document, *, owner: str = "", waits: bool = False) -> SplitDocument:
        """Raises Unreadable if the file cannot become a document.

        owner: whoever shares the processes with others, such as a key.
        waits: whether a client waits for the answer; a document that takes long must not use up the client's time.
        """
        ...

    async def vectors(self, texts: Sequence[ChunkTexts], remaining: int = 0, *, owner: str = "") -> ChunkVectors:
        """remaining: an estimate of the texts that follow without a pause. owner: as in `split`."""
        ...

    async def close(self) -> None: ...


def sandbox(
    recipe: Recipe, embedder_limits: EmbedderLimits, limits: ReadingLimits, *, nice: int = 0
) -> Sandbox[SourceFile | Document, SplitDocument]:
    """The processes that parse and split documents. nice: as in `ReadingJob`."""
    reader = partial(_splitting, recipe, embedder_limits, limits.chunks)
    return Sandbox(ReadingJob(reader, limits.seconds, limits.memory_mb, nice))


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


class InThread:
    """Embeds in a thread of this process."""

    def __init__(self, recipe: Recipe, embedder_limits: EmbedderLimits, limits: ReadingLimits) -> None:
        self._sandbox = sandbox(recipe, embedder_limits, limits)
        self._embedding = Embedding(recipe)

    async def split(self, item: SourceFile | Document, *, owner: str = "", waits: bool = False) -> SplitDocument:
        return await self._sandbox.read(item, owner=owner, most_s=_WAITING_S if waits else math.inf)

    async def vectors(self, texts: Sequence[ChunkTexts], remaining: int = 0, *, owner: str = "") -> ChunkVectors:
        return await asyncio.to_thread(self._embedding.vectors, texts, remaining)

    async def close(self) -> None:
        await self._sandbox.close()


class InChild:
    """Embeds in a child process, started on first use and again after a crash; ends with this process.

    Callers with many texts pass batches: the owners take turns per batch.
    """

    def __init__(self, recipe: Recipe, embedder_limits: EmbedderLimits, limits: ReadingLimits) -> None:
        self._sandbox = sandbox(recipe, embedder_limits, limits, nice=_NICE)
        self._recipe = recipe
        self._turn = FairSlots(1)
        self._process: Any = None
        self._pipe: Connection[Any, Any] | None = None

    async def split(self, item: SourceFile | Document, *, owner: str = "", waits: bool = False) -> SplitDocument:
        return await self._sandbox.read(item, owner=owner, most_s=_WAITING_S if waits else math.inf)

    async def vectors(self, texts: Sequence[ChunkTexts], remaining: int = 0, *, owner: str = "") -> ChunkVectors:
        async with self._turn.slot(owner):
            exchange = asyncio.ensure_future(asyncio.to_thread(self._exchange, texts, remaining))
            try:
                answer = await asyncio.shield(exchange)
            except asyncio.CancelledError:
                # Wait for the end: otherwise the next question would get this answer. The child may still be starting.
                while not exchange.done():
                    if self._process is not None:
                        self._process.kill()
                    await asyncio.wait({exchange}, timeout=_KILL_AGAIN_S)
                raise
        if isinstance(answer, RetrievalError):
            raise answer
        return answer

    async def close(self) -> None:
        await self._sandbox.close()
        self._kill()

    def _exchange(self, texts: Sequence[ChunkTexts], remaining: int) -> ChunkVectors | RetrievalError:
        if self._pipe is None:
            self._start()
        pipe = self._pipe
        assert pipe is not None
        try:
            pipe.send((texts, remaining))
            answer: ChunkVectors | RetrievalError = pipe.recv()
            return answer
        except (EOFError, OSError):
            self._kill()
            return RetrievalError("the embedding process died, perhaps out of memory: try again")

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child_pipe = context.Pipe()
        process = context.Process(target=_work, args=(child_pipe, self._recipe), daemon=True)
        process.start()
        child_pipe.close()
        self._process = process

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _work(pipe: "Connection[Any, Any]", recipe: Recipe) -> None:
    """The main function of the child: answer until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    in_the_background(_NICE)
    embedding = Embedding(recipe)
    while True:
        try:
            texts, remaining = pipe.recv()
        except EOFError:
            return
        answer: ChunkVectors | RetrievalError
        try:
            answer = embedding.vectors(texts, remaining)
        except RetrievalError as error:
            answer = error
        try:
            pipe.send(answer)
        except OSError:
            return
