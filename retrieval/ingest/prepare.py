"""From a file's bytes to what the store needs: split into chunks, then both vectors of each chunk.

The same two steps run in a thread (`InThread`: a command that owns its process) or in a child process
(`InChild`: inside the index process, so that neither a hostile file nor hours of embedding stand in the way of
a question).
"""

import asyncio
import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from retrieval.embed import Embedder, Matrix, cores
from retrieval.errors import RetrievalError, Unreadable
from retrieval.export import open_embedder
from retrieval.ingest.chunk import chunk
from retrieval.ingest.context import Contexts, enrich, name_of
from retrieval.ingest.load import parse
from retrieval.knowledge import DETECTED, Backend, Chunking, EmbedderOptions, Enrichment
from retrieval.language import DEFAULT
from retrieval.precision import MANY, BulkEmbedder
from retrieval.records import Attribute, Chunk, Document, Format, Sparse, shown_text
from retrieval.scheduling import in_the_background
from retrieval.terms import VERSION, document_vector
from retrieval.tokens import Tokens
from retrieval.vector_cache import CachedEmbedder

_NICE = 10  # who asks comes first: the scheduler gives the child a tenth of a core's time where both want it
_KILL_AGAIN_S = 0.05  # between two looks at a cancelled exchange, until it has ended


@dataclass(frozen=True, slots=True)
class File:
    """A file to be parsed: its content, and what is said of it."""

    path: Path
    source: str
    data: bytes
    modified_s: float
    title: str = ""  # where somebody says so, like the next
    format: Format | None = None
    attributes: Mapping[str, Attribute] | None = None
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A document, its chunks, and how many tokens each takes of a budget when it is shown."""

    document: Document
    chunks: list[Chunk]
    tokens: list[int]
    missing: Sequence[tuple[int, Enrichment, str]] = ()  # what no model wrote yet: see `context.Enriched`


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


@dataclass(frozen=True, slots=True)
class Recipe:
    """How documents become points. `text` is kept with each revision: another recipe makes it stale."""

    model: str
    backend: Backend
    cache: Path
    chunk_tokens: int
    overlap_tokens: int
    chunking: Chunking = "auto"
    vectors: Path | None = None  # folder in which vectors are kept between runs; None: nowhere
    enrichments: tuple[Enrichment, ...] = ()
    context_tokens: int = 0  # room in a chunk for all of them
    contexts: Path | None = None  # file of what models wrote; None where nothing is to be written
    language: str = DETECTED
    languages: Mapping[str, str] = field(default_factory=dict)  # collection -> its own
    embedding: EmbedderOptions | None = None  # None: the model as it is, in fp32
    neighbour_weight: float = 0.0  # see `smoothing`

    def language_of(self, collection: str) -> str:
        return self.languages.get(collection, self.language)

    @property
    def text(self) -> str:
        parts = [f"chunk 3, {self.chunking}, {self.chunk_tokens} tokens, {self.overlap_tokens} overlap"]
        parts += [f"terms {VERSION}", "attributes"]
        if self.neighbour_weight:
            parts.append(f"neighbours {self.neighbour_weight}")
        if self.enrichments:
            parts.append(f"room for {self.context_tokens} tokens of")
            parts += [f"{one.kind} by {one.model} ({name_of(one)})" for one in self.enrichments]
        return ", ".join(parts)


class Preparation(Protocol):
    """Where the work is done."""

    async def split(self, item: File | Document) -> Split:
        """Raises Unreadable if the file cannot become a document."""
        ...

    async def vectors(self, texts: Sequence[Indexed], coming: int = 0) -> Vectors:
        """coming: how many more there are to do at this stretch, as far as one can tell."""
        ...

    async def close(self) -> None: ...


class Preparer:
    """The work itself, in whatever process it runs."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._embedder: Embedder | None = None
        self._tokens: Tokens | None = None
        self._contexts: Contexts | None = None

    def split(self, item: File | Document) -> Split:
        try:
            return self._split(item)
        except (MemoryError, RecursionError) as error:
            raise Unreadable(f"too much for the reader ({type(error).__name__})") from error

    def _split(self, item: File | Document) -> Split:
        document = _parsed(item) if isinstance(item, File) else item
        embedder = self._open()
        if self._tokens is None:
            self._tokens = Tokens(embedder.tokenizer_file)
        # Two special tokens and the model's own prompt, where it has one, frame every text it reads.
        room = embedder.max_tokens - 2 - self._tokens.count(embedder.document_prompt)
        recipe = self._recipe
        budget = min(recipe.chunk_tokens, room - (recipe.context_tokens if recipe.enrichments else 0))
        chunks = chunk(
            document,
            tokens=self._tokens,
            chunk_tokens=budget,
            chunking=self._recipe.chunking,
            overlap_tokens=min(self._recipe.overlap_tokens, budget // 2),
        )
        shown = [shown_text(document.source, document.title, chunk.headings, chunk.text) for chunk in chunks]
        counts = self._tokens.counts(shown)
        if not recipe.enrichments or recipe.contexts is None:
            return Split(document, chunks, counts)
        if self._contexts is None:
            self._contexts = Contexts(recipe.contexts)
        limit, wanted = recipe.context_tokens, recipe.enrichments
        enriched = enrich(document, chunks, wanted, self._contexts, tokens=self._tokens, limit_tokens=limit)
        return Split(document, enriched.chunks, counts, enriched.missing)

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
                recipe.model, backend=recipe.backend, threads=cores(), cache=recipe.cache, options=recipe.embedding,
                bulk=True, many=MANY if recipe.vectors is None else 0,  # what is kept is of one precision
            )  # fmt: skip
            if recipe.vectors is not None:
                self._embedder = CachedEmbedder(self._embedder, recipe.vectors)
        return self._embedder


def _parsed(file: File) -> Document:
    document = parse(file.data, file.path, file.source, file.modified_s, named=file.title, kind=file.format)
    attributes = document.attributes if file.attributes is None else file.attributes
    return replace(document, attributes=attributes, groups=document.groups if file.groups is None else file.groups)


class InThread:
    """Prepares in a thread of this process."""

    def __init__(self, recipe: Recipe) -> None:
        self._preparer = Preparer(recipe)

    async def split(self, item: File | Document) -> Split:
        return await asyncio.to_thread(self._preparer.split, item)

    async def vectors(self, texts: Sequence[Indexed], coming: int = 0) -> Vectors:
        return await asyncio.to_thread(self._preparer.vectors, texts, coming)

    async def close(self) -> None:
        pass


class InChild:
    """Prepares in a child process, started on first use and again after it died; ends with this process."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._process: Any = None
        self._pipe: Connection[Any, Any] | None = None

    async def split(self, item: File | Document) -> Split:
        split: Split = await self._call("split", item)
        return split

    async def vectors(self, texts: Sequence[Indexed], coming: int = 0) -> Vectors:
        vectors: Vectors = await self._call("vectors", (texts, coming))
        return vectors

    async def close(self) -> None:
        self._kill()

    async def _call(self, step: str, argument: Any) -> Any:
        exchange = asyncio.ensure_future(asyncio.to_thread(self._exchange, step, argument))
        try:
            answer = await asyncio.shield(exchange)
        except asyncio.CancelledError:
            # Not left alone: its answer would be taken for the next question's. The child may just be starting.
            while not exchange.done():
                if self._process is not None:
                    self._process.kill()
                await asyncio.wait({exchange}, timeout=_KILL_AGAIN_S)
            raise
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _exchange(self, step: str, argument: Any) -> Any:
        if self._pipe is None:
            self._start()
        pipe = self._pipe
        assert pipe is not None
        try:
            pipe.send((step, argument))
            return pipe.recv()
        except (EOFError, OSError):
            self._kill()
            if isinstance(argument, File):  # the next file has another child: this one alone is not ingested
                return Unreadable("the process that read it died (out of memory?)")
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
    preparer = Preparer(recipe)
    while True:
        try:
            step, argument = pipe.recv()
        except EOFError:
            return
        answer: Any
        try:
            answer = preparer.split(argument) if step == "split" else preparer.vectors(*argument)
        except RetrievalError as error:
            answer = error
        try:
            pipe.send(answer)
        except OSError:
            return
