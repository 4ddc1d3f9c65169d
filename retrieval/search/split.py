"""Several questions in one message: asked apart, and what each of them finds put together.

One search for two questions finds what lies between them. On pairs of single questions joined into one message
(three judged sets) asking for each as well raises the share of gold passages among the first ten from .736 to .809,
.652 to .859 and .242 to .319. docs/rewriting.md has the measurement.
"""

import re
from collections.abc import Mapping, Sequence

from retrieval.records.search import Query, ScoredId

SHORT_CHARS = 27  # a question of at most so many letters rarely names all that it is about, see `rewrite`
_MOST_PARTS = 3
_LONG_CHARS = 1000  # a file or a log has question marks of its own
_MARKS = ("?", "？", "؟")  # the Greek one is a semicolon elsewhere, and code is full of those
_BEHIND_A_MARK = re.compile(r"(?<=[?？؟])(?:\s+|(?<=？))")
_LETTER = re.compile(r"[^\W\d_]")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_WIDE_LETTERS = 2.5  # a character of Chinese, Japanese or Korean says as much as so many letters


def parts_of(question: str) -> tuple[str, ...]:
    """The questions of a message, where it has two or three that each say something; else ().

    What stands before a question belongs to it ("What? No. Will it harm my cat?" is one), what stands behind the last
    one to that.
    """
    if len(question) > _LONG_CHARS:
        return ()
    parts: list[str] = []
    held = ""
    for piece in _BEHIND_A_MARK.split(question):
        held = f"{held} {piece.strip()}".strip()
        if held.endswith(_MARKS) and length_chars(held) >= SHORT_CHARS / 2 and _LETTER.search(held):
            parts.append(held)
            held = ""
    if parts and held:
        parts[-1] = f"{parts[-1]} {held}"
    return tuple(parts) if 1 < len(parts) <= _MOST_PARTS else ()


def variants(query: Query) -> list[Query]:
    """What is searched for: the query, and each question that it consists of, leaning on the same as the whole."""
    return [query] + [
        Query(part, ((part, 1.0), *query.terms[1:]), ((part, 1.0), *query.vectors[1:]), query.reason)
        for part in query.parts
    ]


def interleaved(found: Sequence[Mapping[str, Sequence[ScoredId]]]) -> Mapping[str, Sequence[ScoredId]]:
    """What several searches found, as one: in each arm the first of each search, then the second of each, and so on.

    A point that several found stands at its best place, with its best score.
    """
    if len(found) == 1:
        return found[0]
    arms: dict[str, Sequence[ScoredId]] = {}
    for arm in dict.fromkeys(arm for arms_of_one in found for arm in arms_of_one):
        places: dict[str, tuple[int, int]] = {}
        scores: dict[str, float] = {}
        for number, one in enumerate(found):
            for rank, point in enumerate(one.get(arm, ())):
                places[point.id] = min((rank, number), places.get(point.id, (rank, number)))
                scores[point.id] = max(point.score, scores.get(point.id, point.score))
        arms[arm] = [ScoredId(id, scores[id]) for id in sorted(places, key=places.__getitem__)]
    return arms


def length_chars(text: str) -> float:
    """Characters, each as many as it would take letters."""
    text = text.strip()
    return len(text) if text.isascii() else len(text) + (_WIDE_LETTERS - 1) * len(_WIDE.findall(text))
