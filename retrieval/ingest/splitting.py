"""From a file's bytes to a document and its chunks: what one recipe says, in whatever process it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from retrieval.embedding.embed import Embedder
from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.errors import Unreadable
from retrieval.ingest.chunking.chunk import chunk
from retrieval.ingest.context import Contexts, enrich, name_of
from retrieval.ingest.load import parse
from retrieval.knowledge import DETECTED, Backend, Chunking, EmbedderOptions, Enrichment
from retrieval.lexical.terms import VERSION
from retrieval.records.documents import Attribute, Chunk, Document, Format, shown_text


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
        parts += [f"terms {VERSION}", "attributes 2"]
        if self.neighbour_weight:
            parts.append(f"neighbours {self.neighbour_weight}")
        if self.enrichments:
            parts.append(f"room for {self.context_tokens} tokens of")
            parts += [f"{one.kind} by {one.model} ({name_of(one)})" for one in self.enrichments]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Framing:
    """What an embedder says of the texts that it reads: how many tokens fit, counted by which tokenizer."""

    tokenizer_file: Path
    max_tokens: int
    document_prompt: str  # in front of each text, within the same limit

    @classmethod
    def of(cls, embedder: Embedder) -> "Framing":
        return cls(embedder.tokenizer_file, embedder.max_tokens, embedder.document_prompt)


class Splitter:
    """Parses files and splits documents for one embedder."""

    def __init__(self, recipe: Recipe, framing: Framing, *, max_chunks: int) -> None:
        self._recipe = recipe
        self._max_chunks = max_chunks
        self._tokens = EmbedderTokenizer(framing.tokenizer_file)
        # Two special tokens and the model's own prompt, where it has one, frame every text it reads.
        self._room = framing.max_tokens - 2 - self._tokens.count(framing.document_prompt)
        self._contexts: Contexts | None = None

    def split(self, item: File | Document) -> Split:
        """Raises Unreadable."""
        try:
            return self._split(item)
        except (MemoryError, RecursionError) as error:
            raise Unreadable(f"needs too much memory or nesting to read ({type(error).__name__})") from error

    def _split(self, item: File | Document) -> Split:
        document = _parsed(item) if isinstance(item, File) else item
        recipe = self._recipe
        budget = min(recipe.chunk_tokens, self._room - (recipe.context_tokens if recipe.enrichments else 0))
        chunks = chunk(
            document,
            tokens=self._tokens,
            chunk_tokens=budget,
            chunking=recipe.chunking,
            overlap_tokens=min(recipe.overlap_tokens, budget // 2),
        )
        if len(chunks) > self._max_chunks:
            raise Unreadable(
                f"makes {len(chunks):,} chunks, at most {self._max_chunks:,} are indexed: split the document, or raise "
                "the limit (ingest.max_chunks)"
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


def _parsed(file: File) -> Document:
    said = file.title, file.format, file.groups
    document = parse(file.data, file.path, file.source, file.modified_s, named=said[0], kind=said[1], groups=said[2])
    return document if file.attributes is None else replace(document, attributes=file.attributes)
