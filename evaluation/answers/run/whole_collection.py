"""A whole collection in the prompt, if the collection fits: all documents, read by the Knowledge API, as passages."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from evaluation.answers.client.request_bodies import BODIES
from evaluation.answers.records import BenchError, Variant
from proxy.access.prices import Size
from proxy.augment.context_window import room_tokens
from proxy.augment.inject import Template
from proxy.dialects.replies import read_error
from retrieval.records.documents import Passage

_BYTES_A_TOKEN = 3  # as `window` reckons: more than most texts need
_MOST_BYTES = 64 * 2**20


async def text_of(client: httpx.AsyncClient, collections: Sequence[str], template: Template) -> str:
    """All documents of the collections as one block of passages. Raises BenchError."""
    passages: list[Passage] = []
    for name in collections:
        passages += [_passage(row) for row in await _exported(client, name)]
    if not passages:
        raise BenchError(f"{', '.join(collections)} has no documents")
    return template.render(passages, collections)


async def _exported(client: httpx.AsyncClient, name: str) -> list[Mapping[str, Any]]:
    path = f"/v1/knowledge/collections/{quote(name, safe='')}/export"
    body = bytearray()
    try:
        async with client.stream("GET", path) as got:
            async for part in got.aiter_bytes():
                body += part
                if len(body) > _MOST_BYTES:
                    raise BenchError(f"the collection {name!r} has more than {_MOST_BYTES >> 20} MB of text")
    except httpx.RequestError as error:
        raise BenchError(f"the collection {name!r} cannot be read: {str(error) or type(error).__name__}") from error
    if got.status_code != 200:
        raise BenchError(f"the collection {name!r} cannot be read: {got.status_code}: {read_error(bytes(body))[0]}")
    try:
        return [orjson.loads(line) for line in body.splitlines() if line]
    except orjson.JSONDecodeError as error:
        raise BenchError(
            f"the export of {name!r} is not JSON Lines ({error}): is this the address of a ragway gateway?"
        ) from error


def _passage(row: Mapping[str, Any]) -> Passage:
    text = str(row.get("text", ""))
    names = [str(row.get(name, "")) for name in ("id", "title", "source")]
    return Passage(names[0], 0, 0, names[1], names[2], 0.0, (), 0, len(text), text, 0)


def misfit(body: Mapping[str, Any], whole: str, size: Size, variant: Variant) -> str:
    """Why a text does not fit in front of a variant's request; "" if the text fits."""
    model, dialect = variant.model, BODIES[variant.dialect].dialect
    if size.window_tokens is None:
        return f"the window of {model} is not known: give the size with --window {model}=TOKENS"
    needed = len(whole.encode()) // _BYTES_A_TOKEN
    room = room_tokens(dialect.parse(orjson.dumps(body)), window_tokens=size.window_tokens, share=1.0)
    return "" if needed <= room else f"about {needed:,} tokens, and {model} has room for {room:,}"
