"""From a file's bytes to a document and its chunks, by one recipe, in the calling process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from retrieval.embedding.embed import Embedder
from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.errors import Unreadable
from retrieval.ingest.chunking.chunk import chunk
from retrieval.ingest.context import Contexts, enrich, prompt_id
from retrieval.ingest.load import parse
from retrieval.knowledge import DETECTED, Backend, Chunking, EmbedderOptions, Enrichment
from retrieval.lexical.terms import VERSION
from retrieval.records.documents import Attribute, Chunk, Document, Format, shown_text


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to parse: content and description."""

    path: Path
    source: str
    data: bytes
    modified_s: float
    title: str = ""  # given by the caller, as the fields below
    format: Format | None = None
    attributes: Mapping[str, Attribute] | None = None
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SplitDocument:
    """A document, its chunks, and the number of tokens that each shown chunk takes of a budget."""

    document: Document
    chunks: list[Chunk]
    tokens: list[int]
    missing: Sequence[tuple[int, Enrichment, str]] = ()  # texts that no model has written yet: see `context.Enriched`


@dataclass(frozen=True, slots=True)
class Recipe:
    """How documents become points. Each revision stores `text`: a changed recipe makes the revision stale."""

    model: str
    backend: Backend
    cache: Path
    chunk_tokens: int
    overlap_tokens: int
    chunking: Chunking = "auto"
    vectors: Path | None = None  # folder of vectors kept between runs; None: no such folder
    enrichments: tuple[Enrichment, ...] = ()
    context_tokens: int = 0  # tokens in a chunk for all enrichments
    contexts: Path | None = None  # file of models' texts; None without enrichments
    language: str = DETECTED
    languages: Mapping[str, str] = field(default_factory=dict)  # collection -> language
    embedding: EmbedderOptions | None = None  # None: the model's own settings, in fp32
    neighbour_weight: float = 0.0  # see `smoothing`

    def language_of(self, collection: str) -> str:
        return self.languages.get(collection, self.language)

    @property
    def text(self) -> str:
        parts = [f"chunk 4, {self.chunking}, {self.chunk_tokens} tokens, {self.overlap_tokens} overlap"]
        parts += [f"terms {VERSION}", "attributes 4"]
        if self.neighbour_weight:
            parts.append(f"neighbours {self.neighbour_weight}")
        if self.enrichments:
            parts.append(f"room for {self.context_tokens} tokens of")
            parts += [
                f"{enrichment.kind} by {enrichment.model} ({prompt_id(enrichment)})" for enrichment in self.enrichments
            ]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class EmbedderLimits:
    """An embedder's limits for texts: how many tokens fit, and which tokenizer counts."""

    tokenizer_file: Path
    max_tokens: int
    document_prompt: str  # put before each text, within the same limit

    @classmethod
    def of(cls, embedder: Embedder) -> "EmbedderLimits":
        return cls(embedder.tokenizer_file, embedder.max_tokens, embedder.document_prompt)


class Splitter:
    """Parses files and splits documents for one embedder."""

    def __init__(self, recipe: Recipe, embedder_limits: EmbedderLimits, *, max_chunks: int) -> None:
        self._recipe = recipe
        self._max_chunks = max_chunks
        self._tokens = EmbedderTokenizer(embedder_limits.tokenizer_file)
        # Every text also holds two special tokens and the model's document prompt.
        self._room = embedder_limits.max_tokens - 2 - self._tokens.count(embedder_limits.document_prompt)
        self._contexts: Contexts | None = None

    def split(self, item: SourceFile | Document) -> SplitDocument:
        """Raises Unreadable."""
        document = _parsed(item) if isinstance(item, SourceFile) else item
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
                f"makes {len(chunks):,} chunks, the limit is {self._max_chunks:,}: split the document, or raise "
                "the limit (ingest.max_chunks)"
            )
        shown_texts = [shown_text(document.source, document.title, chunk.headings, chunk.text) for chunk in chunks]
        counts = self._tokens.counts(shown_texts)
        if not recipe.enrichments or recipe.contexts is None:
            return SplitDocument(document, chunks, counts)
        if self._contexts is None:
            self._contexts = Contexts(recipe.contexts)
        limit, enrichments = recipe.context_tokens, recipe.enrichments
        enriched = enrich(document, chunks, enrichments, self._contexts, tokens=self._tokens, limit_tokens=limit)
        return SplitDocument(document, enriched.chunks, counts, enriched.missing)


def _parsed(file: SourceFile) -> Document:
    fields = file.title, file.format, file.groups
    document = parse(
        file.data, file.path, file.source, file.modified_s, named=fields[0], kind=fields[1], groups=fields[2]
    )
    return document if file.attributes is None else replace(document, attributes=file.attributes)
