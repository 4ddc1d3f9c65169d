"""`ragway ingest - --format jsonl`: documents from standard input, each an object in a line of its own."""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from cli.common import echo, knowledge
from config.sections import Settings
from retrieval.errors import CollectionExists
from retrieval.records.attributes import checked_attributes, checked_groups
from retrieval.records.documents import Format
from retrieval.records.jobs import DocumentInput

_AT_A_TIME = 32  # documents
_FORMATS: dict[str, Format] = {"text": "text", "markdown": "markdown", "html": "html"}
_STATES = {"created": "added", "replaced": "changed"}


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One document: exactly one of text, markdown and html."""

    id: str
    title: str = ""
    text: str | None = None
    markdown: str | None = None
    html: str | None = None
    url: str = ""
    modified_s: float | None = None
    attributes: dict[str, Any] | None = None
    groups: list[str] | None = None


_decode = msgspec.json.Decoder(_Line).decode


async def ingest_lines(settings: Settings, collection: str) -> int:
    """Put each line's document; returns the exit code. A line that cannot be read is named."""
    counts, failures = Counter[str](), list[str]()
    async with knowledge(settings, make=True) as documents:
        with contextlib.suppress(CollectionExists):
            await documents.writing.create_collection(collection, None)
        for batch in _batches(_documents(sys.stdin.buffer, failures)):
            for result in await documents.writing.put(collection, batch):
                if result.state in ("failed", "refused"):
                    failures.append(f"{result.key}: {result.reason}")
                else:
                    counts[_STATES.get(result.state, result.state)] += 1
    echo(f"{collection}: " + ", ".join(f"{counts[what]} {what}" for what in ("added", "changed", "unchanged")))
    for failure in failures:
        echo(f"not ingested: {failure}", err=True)
    return 1 if failures else 0


def _batches(documents: Iterable[DocumentInput]) -> Iterator[list[DocumentInput]]:
    """Some documents at a time, with different keys: of two with one key, the later one stays."""
    batch: dict[str, DocumentInput] = {}
    for document in documents:
        if document.key in batch or len(batch) >= _AT_A_TIME:
            yield [*batch.values()]
            batch = {}
        batch[document.key] = document
    if batch:
        yield [*batch.values()]


def _documents(lines: Iterable[bytes], failures: list[str]) -> Iterator[DocumentInput]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _document(_decode(line))
        except (msgspec.DecodeError, ValueError) as error:  # also a ValidationError
            failures.append(f"line {number}: {error}")


def _document(line: _Line) -> DocumentInput:
    """Raises ValueError."""
    texts = {"text": line.text, "markdown": line.markdown, "html": line.html}
    given = [(kind, text) for kind, text in texts.items() if text is not None]
    if len(given) != 1 or not line.id:
        raise ValueError("expected an `id`, and one of `text`, `markdown` and `html`")
    attributes = checked_attributes(({"url": line.url} if line.url else {}) | (line.attributes or {}))
    kind, text = given[0]
    return DocumentInput(
        line.id,
        line.url or line.id,
        text.encode(),
        line.title,
        _FORMATS[kind],
        line.modified_s,
        attributes if attributes or line.attributes is not None else None,
        None if line.groups is None else checked_groups(line.groups),
        writer=None,
    )
