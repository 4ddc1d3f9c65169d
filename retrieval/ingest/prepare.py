"""From a file to what the store needs: split into chunks, then both vectors of each chunk.

Files are read in processes of their own (`sandbox`). Vectors are made in a thread (`InThread`: a command that owns its
process) or in a child process (`InChild`: inside the index process, so that hours of embedding do not stand in the way
of a question).
"""

import asyncio
import multiprocessing
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from retrieval.embedding.embed import Embedder, Matrix, cores
from retrieval.embedding.export import open_embedder
from retrieval.embedding.precision import BF16_MIN_TEXTS, BulkEmbedder
from retrieval.embedding.vector_cache import CachedEmbedder
from retrieval.errors import RetrievalError
from retrieval.ingest.sandbox import Sandbox
from retrieval.ingest.splitting import File, Framing, Recipe, Split
from retrieval.knowledge import ReadingLimits
from retrieval.lexical.language import DEFAULT
from retrieval.lexical.terms import document_vector
from retrieval.records.documents import Document
from retrieval.records.points import Sparse
from runtime.scheduling import in_the_background

_NICE = 10  # who asks comes first: the scheduler gives a child a tenth of a core's time where both want it
_KILL_AGAIN_S = 0.05  # between two looks at a cancelled exchange, until it has ended


@dataclass(frozen=True, slots=True)
class Indexed:
    """A chunk's text as it is embedded, as its words are indexed, and the language of these."""

    embedded: str
    lexical: str
    language: str = DEFAULT


@dataclass(frozen=True, slots=True)
class Vectors:
    """Both vectors of n texts: (n, d) float32 rows of unit length, and n sparse ones."""

    dense: Matrix
    sparse: list[Sparse]


class Preparation(Protocol):
    """Where the work is done."""

    async def split(self, item: File | Document) -> Split:
        """Raises Unreadable if the file cannot become a document."""
        ...

    async def vectors(self, texts: Sequence[Indexed], coming: int = 0) -> Vectors:
        """coming: how many more there are to do at this stretch, as far as one can tell."""
        ...

    async def close(self) -> None: ...


class Embedding:
    """Texts to vectors, in whatever process it runs."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._embedder: Embedder | None = None

    def vectors(self, texts: Sequence[Indexed], coming: int = 0) -> Vectors:
        embedder = self._open()
        if isinstance(embedder, BulkEmbedder):
            embedder.expect(coming)
        dense = embedder.embed_documents([text.embedded for text in texts])
        return Vectors(dense, [document_vector(text.lexical, text.language) for text in texts])

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
                bf16_min_texts=BF16_MIN_TEXTS if recipe.vectors is None else 0,  # what is kept is of one precision
            )
            if recipe.vectors is not None:
                self._embedder = CachedEmbedder(self._embedder, recipe.vectors)
        return self._embedder


class InThread:
    """Embeds in a thread of this process."""

    def __init__(self, recipe: Recipe, framing: Framing, limits: ReadingLimits) -> None:
        self._sandbox = Sandbox(recipe, framing, limits)
        self._embedding = Embedding(recipe)

    async def split(self, item: File | Document) -> Split:
        return await self._sandbox.split(item)

    async def vectors(self, texts: Sequence[Indexed], coming: int = 0) -> Vectors:
        return await asyncio.to_thread(self._embedding.vectors, texts, coming)

    async def close(self) -> None:
        await self._sandbox.close()


class InChild:
    """Embeds in a child process, started on first use and again after it died; ends with this process.

    Who has many texts gives them in parts: writers take turns at each.
    """

    def __init__(self, recipe: Recipe, framing: Framing, limits: ReadingLimits) -> None:
        self._sandbox = Sandbox(recipe, framing, limits, nice=_NICE)
        self._recipe = recipe
        self._turn = asyncio.Lock()
        self._process: Any = None
        self._pipe: Connection[Any, Any] | None = None

    async def split(self, item: File | Document) -> Split:
        return await self._sandbox.split(item)

    async def vectors(self, texts: Sequence[Indexed], coming: int = 0) -> Vectors:
        async with self._turn:
            exchange = asyncio.ensure_future(asyncio.to_thread(self._exchange, texts, coming))
            try:
                answer = await asyncio.shield(exchange)
            except asyncio.CancelledError:
                # Not left alone: its answer would be taken for the next question's. The child may just be starting.
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

    def _exchange(self, texts: Sequence[Indexed], coming: int) -> Vectors | RetrievalError:
        if self._pipe is None:
            self._start()
        pipe = self._pipe
        assert pipe is not None
        try:
            pipe.send((texts, coming))
            answer: Vectors | RetrievalError = pipe.recv()
            return answer
        except (EOFError, OSError):
            self._kill()
            return RetrievalError("the process that embeds texts died (out of memory?); try again")

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._recipe), daemon=True)
        process.start()
        theirs.close()
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
    """The child's life: answer until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    in_the_background(_NICE)
    embedding = Embedding(recipe)
    while True:
        try:
            texts, coming = pipe.recv()
        except EOFError:
            return
        answer: Vectors | RetrievalError
        try:
            answer = embedding.vectors(texts, coming)
        except RetrievalError as error:
            answer = error
        try:
            pipe.send(answer)
        except OSError:
            return
