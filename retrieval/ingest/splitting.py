"""From a file's bytes to a document and its chunks, by one recipe, in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from config.sections import IngestSettings
from retrieval.embedding.embed import Embedder
from retrieval.embedding.export import open_embedder
from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.errors import Unreadable
from retrieval.ingest.chunking.chunk import chunk
from retrieval.ingest.containers import Member, Packed, member_source
from retrieval.ingest.context import FILE as CONTEXTS
from retrieval.ingest.context import Contexts, enrich, prompt_id
from retrieval.ingest.joined import join, parts_of
from retrieval.ingest.load import parse, title_of
from retrieval.ingest.rules import beside, fields_of
from retrieval.knowledge import EmbedderOptions, Enrichment
from retrieval.lexical.said import fingerprint
from retrieval.lexical.terms import VERSION
from retrieval.records.documents import Attribute, Chunk, Document, Format, cited, shown_text


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to parse: content and description."""

    path: Path
    source: str
    data: bytes
    modified_s: float
    title: str = ""  # given by the caller, like the fields below
    format: Format | None = None
    attributes: Mapping[str, Attribute] | None = None
    groups: tuple[str, ...] | None = None
    mark: str = ""  # of this content, as in `FileCandidate`
    sidecars: tuple[bytes, ...] = ()  # files with what front matter says; of archives around it first
    joined: bool = False  # a container's members are parts of this document
    described: Mapping[str, Attribute] = field(default_factory=dict)  # by the source; the document's own come first


@dataclass(frozen=True, slots=True)
class SplitDocument:
    """A document, its chunks, and how many tokens of a budget each takes when shown."""

    document: Document
    chunks: list[Chunk]
    tokens: list[int]
    fingerprint: int  # of what the document says
    missing: Sequence[tuple[int, Enrichment, str]] = ()  # texts that no model has written yet: see `context.Enriched`


@dataclass(frozen=True, slots=True)
class Recipe:
    """How documents become points. Each revision stores `text`: a changed recipe makes it stale."""

    ingest: IngestSettings
    embedding: EmbedderOptions
    data: Path  # folder
    enrichments: tuple[Enrichment, ...] = ()
    vectors: Path | None = None  # folder for vectors kept between runs; None: no such folder

    def language_of(self, collection: str) -> str:
        return self.ingest.languages.get(collection, self.ingest.language)

    def open_embedder(self, threads: int | None, **bulk: Any) -> Embedder:
        """bulk: as in `export.open_embedder`."""
        options = self.embedding
        models = self.data / "models"
        return open_embedder(
            options.model, backend=options.backend, threads=threads, cache=models, options=options, **bulk
        )

    @property
    def text(self) -> str:
        ingest = self.ingest
        parts = [f"chunk 6, {ingest.chunking}, {ingest.chunk_tokens} tokens, {ingest.overlap_tokens} overlap"]
        parts += [f"terms {VERSION}", "attributes 4"]
        if ingest.secrets != "warn":
            parts.append(f"secrets {ingest.secrets}")
        if ingest.rules:
            parts.append(f"rules {sha256(repr(ingest.rules).encode()).hexdigest()[:16]}")
        if self.enrichments:
            parts.append(f"room for {ingest.context_tokens} tokens of")
            parts += [
                f"{enrichment.kind} by {enrichment.model} ({prompt_id(enrichment)})" for enrichment in self.enrichments
            ]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class EmbedderLimits:
    """An embedder's text limits: how many tokens fit, and which tokenizer counts."""

    tokenizer_file: Path
    max_tokens: int
    document_prompt: str  # put before each text, within the same limit

    @classmethod
    def of(cls, embedder: Embedder) -> "EmbedderLimits":
        return cls(embedder.tokenizer_file, embedder.max_tokens, embedder.document_prompt)


class Splitter:
    """Parses files and splits documents for one embedder."""

    def __init__(self, recipe: Recipe, embedder_limits: EmbedderLimits) -> None:
        self._recipe = recipe
        self._tokens = EmbedderTokenizer(embedder_limits.tokenizer_file)
        # Every text also holds two special tokens and the model's document prompt.
        self._room = embedder_limits.max_tokens - 2 - self._tokens.count(embedder_limits.document_prompt)
        # Opened here, because a sandbox process opens no file later.
        self._contexts = Contexts(recipe.data / CONTEXTS) if recipe.enrichments else None

    def split(self, item: SourceFile | Document) -> SplitDocument:
        """Raises Unreadable."""
        recipe, ingest = self._recipe, self._recipe.ingest
        if isinstance(item, SourceFile) and item.joined:
            document, chunks = self._joined(item)
        else:
            document = self._parsed(item) if isinstance(item, SourceFile) else item
            chunks = self._chunks(document)
        if len(chunks) > ingest.max_chunks:
            raise Unreadable(
                f"makes {len(chunks):,} chunks, the limit is {ingest.max_chunks:,}: split the document, or raise "
                "the limit (ingest.max_chunks)"
            )
        shown = [(cited(document.source, chunk.place), document.title, chunk.headings, chunk.text) for chunk in chunks]
        counts = self._tokens.counts([shown_text(*parts) for parts in shown])
        named = "" if document.title == title_of(PurePosixPath(document.source)) else document.title
        says = fingerprint(named, document.text)
        if self._contexts is None:
            return SplitDocument(document, chunks, counts, says)
        limit, enrichments = ingest.context_tokens, recipe.enrichments
        enriched = enrich(document, chunks, enrichments, self._contexts, tokens=self._tokens, limit_tokens=limit)
        return SplitDocument(document, enriched.chunks, counts, says, enriched.missing)

    def _parsed(self, file: SourceFile) -> Document:
        path, source, rules = file.path, file.source, self._recipe.ingest.rules
        document = parse(
            file.data,
            path,
            source,
            file.modified_s,
            named=file.title,
            kind=file.format,
            groups=file.groups,
            fields=fields_of(rules, source),
            secrets=self._recipe.ingest.secrets,
            beside=beside(rules, source, file.sidecars, rights=file.groups is None),
        )
        attributes = document.attributes if file.attributes is None else file.attributes
        return replace(document, attributes={**file.described, **attributes})

    def _chunks(self, document: Document) -> list[Chunk]:
        recipe, ingest = self._recipe, self._recipe.ingest
        budget = min(ingest.chunk_tokens, self._room - (ingest.context_tokens if recipe.enrichments else 0))
        return chunk(
            document,
            tokens=self._tokens,
            chunk_tokens=budget,
            chunking=ingest.chunking,
            overlap_tokens=min(ingest.overlap_tokens, budget // 2),
        )

    def _joined(self, file: SourceFile) -> tuple[Document, list[Chunk]]:
        def parsed(member: Member) -> Document:
            path, source = Path(member.name or file.path), member_source(file.source, member.name)
            described = member.sidecars
            return self._parsed(replace(file, path=path, source=source, data=member.data, title="", sidecars=described))

        parts, note = parts_of(Packed.of(file.source, file.data, file.modified_s, self._recipe.ingest), parsed)
        document, chunks = join(file.source, file.title, parts, self._chunks)
        return replace(document, attributes=file.attributes or document.attributes, note=note), chunks
