"""Draw passages evenly from the documents of a collection, by the Knowledge API."""

import itertools
import random
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from evaluation.answers.records import BenchError, ShownPassage
from evaluation.answers.scoring.normalize import terms
from proxy.dialects.replies import read_error

PASSAGE_CHARS = 2000  # at most: 500 tokens of English
_LEAST_TERMS = 5  # fewer words are a heading
_PAGE = 1000
_UNEVEN = 4  # a long document may supply this multiple of an equal share, to replace passages that short documents lack
_PARAGRAPHS = re.compile(r"\n\s*\n")
_FITS = re.compile(rf".{{1,{PASSAGE_CHARS}}}(?=\s|\Z)|.{{1,{PASSAGE_CHARS}}}", re.DOTALL)


async def drawn(client: httpx.AsyncClient, collection: str, count: int, *, seed: int) -> list[ShownPassage]:
    """At most `count` passages: one of each document in random order, then a second of each, and so on.

    The same collection and seed give the same passages. Raises BenchError: the collection cannot be read or has no
    text.
    """
    ids = await _documents(client, collection)
    random.Random(seed).shuffle(ids)
    share = _UNEVEN * count // max(1, len(ids)) + 1
    rounds: list[list[ShownPassage]] = []
    for id in ids:
        if len(rounds) == count:
            break
        if pieces := await _pieces(client, collection, id):
            random.Random(f"{seed} {id}").shuffle(pieces)
            rounds.append(pieces[:share])
    by_turns = (piece for turn in itertools.zip_longest(*rounds) for piece in turn if piece is not None)
    found = list(itertools.islice(by_turns, count))
    if not found:
        raise BenchError(f"the collection {collection!r} has no text to draft questions of")
    return found


def cut(text: str) -> list[str]:
    """Cut a document into pieces of whole paragraphs, as long as possible, without pieces of a few words."""
    pieces, piece = [], ""
    for part in (part for paragraph in _PARAGRAPHS.split(text) for part in _FITS.findall(paragraph)):
        if piece and len(piece) + 2 + len(part) > PASSAGE_CHARS:
            pieces.append(piece)
            piece = ""
        piece = f"{piece}\n\n{part}" if piece else part
    pieces.append(piece)
    return [each for each in dict.fromkeys(piece.strip() for piece in pieces) if len(terms(each)) >= _LEAST_TERMS]


async def _documents(client: httpx.AsyncClient, collection: str) -> list[str]:
    """The ids of the documents."""
    path, after, ids = f"/v1/knowledge/collections/{quote(collection, safe='')}/documents", "", []
    while True:
        page = await _read(client, f"{path}?limit={_PAGE}{after}", collection)
        try:
            ids += [str(row["id"]) for row in page["data"]]
            if not page["has_more"]:
                return ids
            after = f"&after={quote(str(page['last_id']), safe='')}"
        except (KeyError, TypeError) as error:
            raise BenchError(
                f"the list of {collection!r} has an unknown form: is this the address of a ragway gateway?"
            ) from error


async def _pieces(client: httpx.AsyncClient, collection: str, id: str) -> list[ShownPassage]:
    row = await _read(client, f"/v1/knowledge/documents/{quote(id, safe='')}", collection)
    source, title, text = (str(row.get(name) or "") for name in ("source", "title", "text"))
    return [ShownPassage(source or id, title, piece, id) for piece in cut(text)]


async def _read(client: httpx.AsyncClient, path: str, collection: str) -> Mapping[str, Any]:
    """Read a path of the Knowledge API. Raises BenchError."""
    why = f"the collection {collection!r} cannot be read"
    try:
        got = await client.get(path)
        row = orjson.loads(got.content)
    except httpx.RequestError as error:
        raise BenchError(f"{why}: {str(error) or type(error).__name__}") from error
    except orjson.JSONDecodeError as error:
        raise BenchError(f"{why}: {got.status_code} without JSON: is this the address of a ragway gateway?") from error
    if got.status_code != 200 or not isinstance(row, dict):
        raise BenchError(f"{why}: {got.status_code}: {read_error(got.content)[0]}")
    return row
