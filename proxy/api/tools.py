"""The MCP tools `search` and `fetch`, within the caller's rights.

Names, required arguments and answer fields follow OpenAI's connectors, so a chat program written for the connectors
needs no setting. A model reads the texts: the texts are quoted like the passages of a chat.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.access import permitted
from proxy.access.rights import Rights
from proxy.api.knowledge.parameters import (
    checked,
    filter_in,
    k_of,
    names_of,
    query_text,
    whole_number_of,
)
from proxy.dialects.quoting import quoted, quoted_label
from retrieval.knowledge import DEFAULT_HIT_OPTIONS, Knowledge
from retrieval.records.search import Hit, Turn

_MOST_CHARS = 100_000  # of a document at once: some 25,000 tokens
_BETWEEN = "\n\n[…]\n\n"  # passages of the same document

_FILTER = (
    'What must be true of a document, e.g. {"type": "eq", "key": "team", "value": "hr"}. Types: eq, ne, in, nin, gt, '
    "gte, lt, lte, prefix (of the key source), and, or (with filters), not (with filter). Keys: source, modified_at, "
    "and the documents' attributes."
)
_PASSAGES = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Of the document, for fetch."},
        "title": {"type": "string"},
        "url": {"type": "string", "description": "The document's source."},
        "text": {"type": "string", "description": "Its passages that were found, best first."},
    },
    "required": ["id", "title", "url", "text"],
}
SEARCH: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "A question or keywords, in full: nothing is remembered."},
        "collections": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "k": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Passages at most."},
        "filter": {"type": "object", "description": _FILTER},
    },
    "required": ["query"],
    "additionalProperties": False,
}
FOUND: Mapping[str, Any] = {
    "type": "object",
    "properties": {"results": {"type": "array", "items": _PASSAGES}},
    "required": ["results"],
}
FETCH: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "A result's id."},
        "start": {"type": "integer", "minimum": 0, "description": "The first character, for what is too long."},
    },
    "required": ["id"],
    "additionalProperties": False,
}
FETCHED: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "title": {"type": "string"},
        "text": {"type": "string"},
        "url": {"type": "string", "description": "The document's source."},
        "metadata": {"type": "object", "description": "collection, format, chars; next_start where text is not all."},
    },
    "required": ["id", "title", "text", "url", "metadata"],
}


class Tools:
    """The answers of the tools, independent of the transport."""

    def __init__(self, knowledge: Knowledge, *, collections: Sequence[str], k: int) -> None:
        """collections, k: the defaults of a call."""
        self._knowledge = knowledge
        self._collections = tuple(collections)
        self._k = k

    async def readable(self, rights: Rights) -> list[str]:
        """The names of the searchable collections. Raises RetrievalError."""
        return [row.name for row in await permitted.readable(self._knowledge, rights)]

    async def search(self, asked: Mapping[str, Any], rights: Rights) -> dict[str, Any]:
        """Passages, by document. Raises ApiError for invalid arguments, RetrievalError."""
        asked = checked(asked, ("query", "collections", "k", "filter"))
        query, k, names = query_text(asked.get("query")), k_of(asked, "k", self._k), names_of(asked)
        searched = await permitted.search(
            self._knowledge,
            permitted.PermittedSearch(
                [Turn("user", query)],
                names or self._collections,
                rights,
                explicit=bool(names),
                k=k,
                filter=filter_in(asked, "filter"),
                hit_options=DEFAULT_HIT_OPTIONS,
            ),
        )
        documents: dict[str, list[Hit]] = {}
        for hit in searched.retrieved.hits:
            documents.setdefault(hit.passage.document, []).append(hit)
        return {"results": [_result(hits) for hits in documents.values()]}

    async def fetch(self, asked: Mapping[str, Any], rights: Rights) -> dict[str, Any]:
        """A whole document, or the next piece. Raises ApiError, RetrievalError (UnknownDocument)."""
        asked = checked(asked, ("id", "start"))
        start = whole_number_of(asked, "start", default=0)
        found = await permitted.document(self._knowledge, str(asked.get("id", "")), rights)
        end = start + _MOST_CHARS
        metadata = {"collection": found.info.collection, "format": found.info.format, "chars": found.info.chars}
        if end < found.info.chars:
            metadata["next_start"] = end
        return {
            "id": found.info.id,
            "title": quoted_label(found.info.title or found.info.source),
            "text": quoted(found.text[start:end]),
            "url": quoted_label(found.info.source),
            "metadata": metadata,
        }


def _result(hits: Sequence[Hit]) -> dict[str, Any]:
    passage = hits[0].passage
    texts = [quoted(hit.passage.text) for hit in hits]
    return {
        "id": passage.document,
        "title": quoted_label(passage.title or passage.source),
        "url": quoted_label(passage.source),
        "text": _BETWEEN.join(texts),
    }
