"""Split a message into its questions, search for each, and interleave the results.

One search for two questions finds passages between their subjects. On pairs of single questions joined into one
message (three judged sets), a further search for each question raises the share of gold passages in the first ten from
.736 to .809, .652 to .859 and .242 to .319. docs/why/ranking.md has the measurement.
"""

import re
from collections.abc import Mapping, Sequence

from retrieval.records.search import Query, ScoredId

SHORT_CHARS = 27  # a shorter question rarely names its whole subject, see `rewrite`
_MOST_PARTS = 3
_LONG_CHARS = 1000  # longer messages carry files or logs, with their own question marks
_MARKS = ("?", "？", "؟")  # the Greek question mark is a semicolon, frequent in code
_AFTER_MARK = re.compile(r"(?<=[?？؟])(?:\s+|(?<=？))")
_LETTER = re.compile(r"[^\W\d_]")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_WIDE_LETTERS = 2.5  # letters that mean as much as one Chinese, Japanese or Korean character


def split_questions(question: str) -> tuple[str, ...]:
    """A message's questions if it has two or three meaningful ones; else ().

    Text before a question belongs to the question ("What? No. Will it harm my cat?" is one question); text after the
    last question belongs to that one.
    """
    if len(question) > _LONG_CHARS:
        return ()
    parts: list[str] = []
    pending = ""
    for piece in _AFTER_MARK.split(question):
        pending = f"{pending} {piece.strip()}".strip()
        if pending.endswith(_MARKS) and length_chars(pending) >= SHORT_CHARS / 2 and _LETTER.search(pending):
            parts.append(pending)
            pending = ""
    if parts and pending:
        parts[-1] = f"{parts[-1]} {pending}"
    return tuple(parts) if 1 < len(parts) <= _MOST_PARTS else ()


def variants(query: Query) -> list[Query]:
    """Queries to search: the whole query, and one for each question, with the same history."""
    return [query] + [
        Query(part, ((part, 1.0), *query.terms[1:]), ((part, 1.0), *query.vectors[1:]), query.reason)
        for part in query.parts
    ]


def interleave(searches: Sequence[Mapping[str, Sequence[ScoredId]]]) -> Mapping[str, Sequence[ScoredId]]:
    """Results of several searches as one: per arm each search's first point, then their second points …

    A point found by several searches takes its best place and score.
    """
    if len(searches) == 1:
        return searches[0]
    arms: dict[str, Sequence[ScoredId]] = {}
    for arm in dict.fromkeys(arm for search in searches for arm in search):
        places: dict[str, tuple[int, int]] = {}
        scores: dict[str, float] = {}
        for number, search in enumerate(searches):
            for rank, point in enumerate(search.get(arm, ())):
                places[point.id] = min((rank, number), places.get(point.id, (rank, number)))
                scores[point.id] = max(point.score, scores.get(point.id, point.score))
        arms[arm] = [ScoredId(id, scores[id]) for id in sorted(places, key=places.__getitem__)]
    return arms


def length_chars(text: str) -> float:
    """A text's length in letters; a Chinese, Japanese or Korean character counts as several."""
    text = text.strip()
    return len(text) if text.isascii() else len(text) + (_WIDE_LETTERS - 1) * len(_WIDE.findall(text))
