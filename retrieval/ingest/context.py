"""What a model wrote of chunks: kept by content, so that nothing is asked, or paid for, twice.

A chunk out of its document may not say what it is about ("Its revenue grew by 3 %"). A model that sees the document can
say it in a sentence (Anthropic's contextual retrieval, 2024), name keywords, or ask the questions that the chunk
answers. What it wrote is embedded and indexed with the chunk and shown to nobody.

Whoever can ask a model does so before the ingest and puts the answers into the file that is read here; nothing in this
package asks. The key of an answer is made of all that the model saw: a changed document, chunk, prompt or model is
another key, and the same document in another collection, or after a rebuild, the same.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.knowledge import Enrichment
from retrieval.records.documents import Chunk, Document
from runtime.database import make_closed

FILE = "contexts.sqlite"  # in the data folder
_AT_ONCE = 500  # keys in one statement; SQLite takes 32,766


class Contexts:
    """Key -> what a model wrote, in an SQLite file that several processes may have open; not two threads at once."""

    def __init__(self, file: Path) -> None:
        """Raises sqlite3.Error (an OSError it is not) where the file cannot be used."""
        make_closed(file)
        self._sql = sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)
        self._sql.execute("PRAGMA journal_mode=WAL")
        self._sql.execute("PRAGMA synchronous=NORMAL")  # a power cut may cost the last answers, never the file
        self._sql.execute("CREATE TABLE IF NOT EXISTS contexts (key TEXT PRIMARY KEY, text TEXT NOT NULL)")

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Those that are known."""
        found: dict[str, str] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            found.update(self._sql.execute(f"SELECT key, text FROM contexts WHERE key IN ({marks})", some).fetchall())
        return found

    def put(self, key: str, text: str) -> None:
        """Keep an answer: it is there for every process once this returns."""
        self._sql.execute("INSERT OR REPLACE INTO contexts VALUES (?, ?)", (key, text))

    def close(self) -> None:
        self._sql.close()


@dataclass(frozen=True, slots=True)
class Enriched:
    """A document's chunks with what is known of each, and the keys of what is not."""

    chunks: list[Chunk]
    missing: list[tuple[int, Enrichment, str]]  # ordinal of the chunk, what is to be asked, under which key


def key_of(enrichment: Enrichment, document: Document, chunk: Chunk) -> str:
    """The key of what this enrichment says of this chunk of this document."""
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
    """The chunks with what `contexts` knows of them, at most `limit_tokens` for each, shared among the enrichments."""
    about = _document_hash(document)
    keys = [[_key(enrichment, about, chunk) for enrichment in enrichments] for chunk in chunks]
    known = contexts.get([key for row in keys for key in row])
    limit = limit_tokens // max(len(enrichments), 1)
    missing, enriched = [], []
    for chunk, row in zip(chunks, keys, strict=True):
        said = [_cut(known[key], tokens, limit) for key in row if key in known]
        enriched.append(replace(chunk, context="\n".join(text for text in said if text)))
        missing += [(chunk.ordinal, one, key) for one, key in zip(enrichments, row, strict=True) if key not in known]
    return Enriched(enriched, missing)


def name_of(enrichment: Enrichment) -> str:
    """A short name of the prompt's text, for recipes."""
    return _hash([enrichment.prompt])[:8]


def _document_hash(document: Document) -> str:
    return _hash([document.title, document.text])


def _key(enrichment: Enrichment, document_hash: str, chunk: Chunk) -> str:
    place = [str(chunk.start), *chunk.headings]  # the same words may stand twice in a document
    return _hash([enrichment.kind, enrichment.model, enrichment.prompt, document_hash, chunk.text, *place])


def _hash(parts: Iterable[str]) -> str:
    hashed = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(data) + data)
    return hashed.hexdigest()


def _cut(text: str, tokens: EmbedderTokenizer, limit: int) -> str:
    """The text on one line, its first `limit` tokens in whole words."""
    words = text.split()
    while words and (count := tokens.count(" ".join(words))) > limit:
        del words[min(len(words) * limit // count, len(words) - 1) :]
    return " ".join(words)
