"""A whole collection in the prompt, if it fits: all documents, read through the Knowledge API, as passages."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import orjson

from evaluation.answers.client.collection_reader import export
from evaluation.answers.client.request_bodies import BODIES
from evaluation.answers.records import BenchError, Variant
from proxy.access.prices import Size
from proxy.augment.context_window import room_tokens
from proxy.dialects.quoting import Template
from retrieval.records.documents import Passage

_BYTES_A_TOKEN = 3  # as `window` reckons: more than most texts need
_MOST_BYTES = 64 * 2**20


async def text_of(client: httpx.AsyncClient, collections: Sequence[str], template: Template) -> str:
    """All documents in the collections, as one block of passages. Raises BenchError."""
    passages: list[Passage] = []
    for name in collections:
        left = _MOST_BYTES
        async for row, size in export(client, name):
            left -= size
            if left < 0:
                raise BenchError(f"the collection {name!r} has more than {_MOST_BYTES >> 20} MB of text")
            passages.append(_passage(row))
    if not passages:
        raise BenchError(f"{', '.join(collections)} has no documents")
    return template.render(passages, collections)


def _passage(row: Mapping[str, Any]) -> Passage:
    text = str(row.get("text", ""))
    names = [str(row.get(name, "")) for name in ("id", "title", "source")]
    return Passage(names[0], 0, 0, names[1], names[2], 0.0, (), 0, len(text), text, 0)


def misfit(body: Mapping[str, Any], whole: str, size: Size, variant: Variant) -> str:
    """Why a text does not fit before a variant's request; "" if it does."""
    model, dialect = variant.model, BODIES[variant.dialect].dialect
    if size.window_tokens is None:
        return f"the window of {model} is not known: give the size with --window {model}=TOKENS"
    needed = len(whole.encode()) // _BYTES_A_TOKEN
    room = room_tokens(dialect.parse(orjson.dumps(body)), window_tokens=size.window_tokens, share=1.0)
    return "" if needed <= room else f"about {needed:,} tokens, and {model} has room for {room:,}"
