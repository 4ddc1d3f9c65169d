"""What a model wrote about chunks, kept by content, so that no text is requested or paid for twice.

A chunk outside its document may not show its subject ("Its revenue grew by 3 %"). A model that sees the document can
describe it in a sentence (Anthropic's contextual retrieval, 2024), name keywords, or ask questions that the chunk
answers. This text is embedded and indexed with the chunk, and never shown.

A command asks the model before an ingest and writes its answers to the file that this module reads; this package never
asks a model. An answer's key covers all model input: a changed document, chunk, prompt or model has another key, and
the same document in another collection, or after a rebuild, has the same one.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.knowledge import Enrichment
from retrieval.records.documents import Chunk, Document
from runtime.database import make_closed, write_ahead

FILE = "contexts.sqlite"  # in the data folder


class Contexts:
    """Key -> a model's text, in an SQLite file that several processes may open; not thread-safe."""

    def __init__(self, file: Path) -> None:
        """Raises sqlite3.Error (not an OSError) if the file cannot be used."""
        make_closed(file)
        self._sql = sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)
        write_ahead(self._sql)
        self._sql.execute("PRAGMA synchronous=NORMAL")  # a power failure may lose recent answers, never the file
        self._sql.execute("CREATE TABLE IF NOT EXISTS contexts (key TEXT PRIMARY KEY, text TEXT NOT NULL)")

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Return known keys with their texts."""
        query = "SELECT key, text FROM contexts WHERE key IN (SELECT value FROM json_each(?))"
        return dict(self._sql.execute(query, [json.dumps(keys)]).fetchall())

    def put(self, key: str, text: str) -> None:
        """Store an answer, which every process can read once this has returned."""
        self._sql.execute("INSERT OR REPLACE INTO contexts VALUES (?, ?)", (key, text))

    def close(self) -> None:
        self._sql.close()


@dataclass(frozen=True, slots=True)
class Enriched:
    """A document's chunks with known texts, and keys of missing ones."""

    chunks: list[Chunk]
    missing: list[tuple[int, Enrichment, str]]  # chunk ordinal, enrichment, key


def key_of(enrichment: Enrichment, document: Document, chunk: Chunk) -> str:
    return _key(enrichment, _document_hash(document), chunk)


def enrich(
    document: Document,
    chunks: Sequence[Chunk],
    enrichments: Sequence[Enrichment],
    contexts: Contexts,
    *,
    tokens: EmbedderTokenizer,
    limit_tokens: int,
) -> Enriched:
    """Return chunks with known texts, at most `limit_tokens` per chunk, divided among the enrichments."""
    document_hash = _document_hash(document)
    keys = [[_key(enrichment, document_hash, chunk) for enrichment in enrichments] for chunk in chunks]
    known = contexts.get([key for row in keys for key in row])
    limit = limit_tokens // max(len(enrichments), 1)
    missing, enriched = [], []
    for chunk, row in zip(chunks, keys, strict=True):
        texts = [_cut(known[key], tokens, limit) for key in row if key in known]
        enriched.append(replace(chunk, context="\n".join(text for text in texts if text)))
        missing += [
            (chunk.ordinal, enrichment, key)
            for enrichment, key in zip(enrichments, row, strict=True)
            if key not in known
        ]
    return Enriched(enriched, missing)


def prompt_id(enrichment: Enrichment) -> str:
    """Return a short prompt id, for recipes."""
    return _hash([enrichment.prompt])[:8]


def _document_hash(document: Document) -> str:
    return _hash([document.title, document.text])


def _key(enrichment: Enrichment, document_hash: str, chunk: Chunk) -> str:
    place = [str(chunk.start), *chunk.headings]  # the same words may occur twice in a document
    return _hash([enrichment.kind, enrichment.model, enrichment.prompt, document_hash, chunk.text, *place])


def _hash(parts: Iterable[str]) -> str:
    hashed = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(data) + data)
    return hashed.hexdigest()


def _cut(text: str, tokens: EmbedderTokenizer, limit: int) -> str:
    """Return the text on one line, cut to `limit` tokens in whole words."""
    words = text.split()
    while words and (count := tokens.count(" ".join(words))) > limit:
        del words[min(len(words) * limit // count, len(words) - 1) :]
    return " ".join(words)
