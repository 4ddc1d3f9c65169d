"""Draws passages evenly from a collection's documents, through the Knowledge API."""

import itertools
import random
import re

import httpx

from evaluation.answers.client.collection_reader import document, document_ids
from evaluation.answers.records import BenchError, ShownPassage
from evaluation.answers.scoring.normalize import terms

PASSAGE_CHARS = 2000  # at most: 500 tokens of English
_LEAST_TERMS = 5  # fewer words are a heading
_UNEVEN = 4  # long documents may supply so many times an equal share, to make up for short ones
_PARAGRAPHS = re.compile(r"\n\s*\n")
_FITS = re.compile(rf".{{1,{PASSAGE_CHARS}}}(?=\s|\Z)|.{{1,{PASSAGE_CHARS}}}", re.DOTALL)


async def drawn(client: httpx.AsyncClient, collection: str, count: int, *, seed: int) -> list[ShownPassage]:
    """At most `count` passages: one from each document in random order, then a second from each, and so on.

    The same collection and seed give the same passages. Raises BenchError: it cannot be read or has no text.
    """
    ids = await document_ids(client, collection)
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
    """Cut a document into pieces of whole paragraphs, as long as possible, without those that have only a few words."""
    pieces, piece = [], ""
    for part in (part for paragraph in _PARAGRAPHS.split(text) for part in _FITS.findall(paragraph)):
        if piece and len(piece) + 2 + len(part) > PASSAGE_CHARS:
            pieces.append(piece)
            piece = ""
        piece = f"{piece}\n\n{part}" if piece else part
    pieces.append(piece)
    return [each for each in dict.fromkeys(piece.strip() for piece in pieces) if len(terms(each)) >= _LEAST_TERMS]


async def _pieces(client: httpx.AsyncClient, collection: str, id: str) -> list[ShownPassage]:
    row = await document(client, id, collection)
    source, title, text = (str(row.get(name) or "") for name in ("source", "title", "text"))
    return [ShownPassage(source or id, title, piece, id) for piece in cut(text)]
