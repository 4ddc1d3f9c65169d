"""Reading on in a whole result: a page of the text, a place in the JSON, or the rows that hold some words."""

import contextlib
import itertools
import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from proxy.apis.results import json_text, json_value
from proxy.dialects.quoting import quoted
from proxy.dialects.replies import json_of

_MOST_LINE_CHARS = 200  # of JSON: a longer list or object has a line for each element
_MOST_LEVELS = 4  # of lists and objects whose elements have lines
_MOST_ROW_CHARS = 500  # of a text without JSON
_LEAST_ROW_CHARS = 200  # of a row that a search found
_SHOWN_NAMES = 20  # members of an object, where a place does not exist
_K1, _B = 1.2, 0.75  # Okapi's usual saturation and length normalisation
_LEAST_PLURAL = 3  # letters: a shorter word keeps the s
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff"  # no spaces stand between words
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ELEMENTS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class NoPlace(ValueError):
    """A path names no place of a result. The message says what is at the last place of the path that exists."""


class Place(NamedTuple):
    """A value within a result."""

    value: Any
    path: str = ""
    first: int = 0  # element of the list at the path, where the value is a range of elements


class ResultRow(NamedTuple):
    """A row of a result: an element, with the place, or a part of a text, with the first character."""

    place: str
    value: Any
    text: str


def read_on(text: str, *, path: str = "", query: str = "", start: int = 0, max_chars: int) -> str:
    """The text for the model: the rows with the query's words, else the page from `start`, both at the path's place.

    text: the whole result. Parts of the result are quoted. Raises NoPlace.
    """
    try:
        value = json_value(text)
    except orjson.JSONDecodeError:
        value = json_of(text.encode("utf-8", "replace"))
    if isinstance(value, list | dict):
        place = place_of(value, path)
    elif path.strip("/"):
        raise NoPlace("the result is a text without places: leave the path out")
    else:
        place = Place(text)
    if query.strip():
        return _found(rows_of(place), query, max_chars)
    shown = place.value if isinstance(place.value, str) else lines_of(place.value)
    piece, end = page_of(shown, start, max_chars)
    if end < len(shown):
        return f"{quoted(piece)}\n(Characters {start:,} to {end:,} of {len(shown):,}. The next page: start {end}.)"
    return quoted(piece) if piece else f"(There is nothing from this start on: {len(shown):,} characters.)"


def page_of(text: str, start: int, max_chars: int) -> tuple[str, int]:
    """The page that begins at a character, and the end of the page, behind a whole line where possible."""
    end = start + max_chars
    if end < len(text):
        end = text.rfind("\n", start + max_chars // 2, end) + 1 or end
    piece = text[start:end]
    return piece, start + len(piece)


def place_of(value: Any, path: str) -> Place:
    """The place of a path, a JSON Pointer (RFC 6901), whose last part may be a range of elements: /results/20-39.

    Raises NoPlace.
    """
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.removeprefix("/").split("/")]
    known, last = "", len(parts) - 1
    for at, part in enumerate(parts):
        elements = _ELEMENTS.fullmatch(part) if isinstance(value, list) else None
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif elements and elements[2] and at == last:
            first = int(elements[1])
            return Place(value[first : int(elements[2]) + 1], known, first)
        elif elements and not elements[2] and int(part) < len(value):
            value = value[int(part)]
        elif part or at < last:  # a slash at the end names the same place
            raise NoPlace(_contents(value))
        else:
            continue
        known += f"/{_escaped(part)}"
    return Place(value, known)


def _contents(value: Any) -> str:
    """What can follow in a path."""
    if isinstance(value, list):
        return f"this place has {len(value)} elements, from 0; a range is 0-9"
    if isinstance(value, dict):
        names = ", ".join(quoted(str(name)) for name in itertools.islice(value, _SHOWN_NAMES))
        return f"this place has the {len(value)} members {names}"
    return "this place has neither members nor elements"


def lines_of(value: Any) -> str:
    """JSON with a line for each element of a long list or object, so that a page has whole elements."""
    try:
        return "".join(_lines(value, 0))
    except orjson.JSONEncodeError:  # more than 254 levels
        return json_text(value, max_chars=sys.maxsize)


def _lines(value: Any, level: int) -> Iterator[str]:
    text = orjson.dumps(value).decode()
    if len(text) <= _MOST_LINE_CHARS or not isinstance(value, list | dict) or level == _MOST_LEVELS:
        yield text
        return
    members: Iterator[tuple[str, Any]] = (
        ((orjson.dumps(name).decode() + ":", one) for name, one in value.items())
        if isinstance(value, dict)
        else (("", one) for one in value)
    )
    brackets = "{}" if isinstance(value, dict) else "[]"
    between = brackets[0] + "\n"
    for name, one in members:
        yield between + name
        yield from _lines(one, level + 1)
        between = ",\n"
    yield "\n" + brackets[1]


def rows_of(place: Place) -> list[ResultRow]:
    """The elements of the largest list within the value, else the members of the value; the lines of a text."""
    value, path, first = place
    if isinstance(value, str):
        return [ResultRow(f"start {at}", piece, piece) for at, piece in _pieces(value)]
    lists = [(path, value)] if isinstance(value, list) else [*_lists(value, path)]
    if lists:
        path, rows = max(lists, key=lambda one: _size(one[1]))
        return [ResultRow(f"{path}/{number}", one, _dumped(one)) for number, one in enumerate(rows, first)]
    members = value.items() if isinstance(value, dict) else ()
    return [ResultRow(f"{path}/{_escaped(name)}", one, _dumped([name, one])) for name, one in members]


def _lists(value: Any, path: str) -> Iterator[tuple[str, list[Any]]]:
    """All lists with two elements at least, outer lists first, each with the path."""
    waiting = [(path, value)]
    for at, one in waiting:
        if isinstance(one, list) and len(one) > 1:
            yield at, one
        members = one.items() if isinstance(one, dict) else enumerate(one)
        waiting += [(f"{at}/{_escaped(str(name))}", each) for name, each in members if isinstance(each, list | dict)]


def _size(rows: Sequence[Any]) -> tuple[int, int]:
    """The number of rows with words, then of all rows: a line of a map has more points than a result has rows."""
    return sum(isinstance(row, dict | str) for row in rows), len(rows)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _dumped(value: Any) -> str:
    with contextlib.suppress(orjson.JSONEncodeError):
        return orjson.dumps(value).decode()
    return json_text(value, max_chars=_MOST_ROW_CHARS)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The first character and the text of each line; long lines in pieces."""
    at = 0
    for line in text.splitlines(keepends=True):
        for start in range(0, len(line), _MOST_ROW_CHARS):
            piece = line[start : start + _MOST_ROW_CHARS]
            if piece.strip():
                yield at + start, piece.strip()
        at += len(line)


def best_rows(rows: Sequence[str], query: str) -> list[int]:
    """The indexes of the rows that hold a word of the query, the best first, by BM25 among the rows."""
    asked = set(_words(query))
    held, size = [], 0  # row, number of words, counts of the query's words
    for at, row in enumerate(rows):
        words = _words(row)
        size += len(words)
        if not asked.isdisjoint(words):
            held.append((at, len(words), Counter(word for word in words if word in asked)))
    rows_with = Counter(word for _, _, counts in held for word in counts)
    rarity = {word: math.log(1 + (len(rows) - n + 0.5) / (n + 0.5)) for word, n in rows_with.items()}
    scores = {}
    for at, length, counts in held:
        norm = _K1 * (1 - _B + _B * length * len(rows) / size)
        scores[at] = sum(rarity[word] * n * (_K1 + 1) / (n + norm) for word, n in counts.items())
    return sorted(scores, key=lambda at: -scores[at])


def _words(text: str) -> list[str]:
    """The words of a text in small letters, without the s of a plural; a Chinese or Japanese character is a word."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    found = _WORD.findall(plain.casefold())
    return [word[:-1] if len(word) > _LEAST_PLURAL and word.endswith("s") else word for word in found]


def _found(rows: Sequence[ResultRow], query: str, max_chars: int) -> str:
    best = best_rows([row.text for row in rows], query)
    if not best:
        return f"(None of the {len(rows):,} rows holds a word of the query.)"
    texts: list[str] = []
    left = max_chars
    for at in best:
        row, most = rows[at], max(_LEAST_ROW_CHARS, max_chars // 3)
        text = row.text if isinstance(row.value, str) else json_text(row.value, max_chars=most)
        line = f"{quoted(row.place)}: {quoted(text)}"
        left -= len(line) + 1
        if texts and left < 0:
            break
        texts.append(line)
    head = f"({len(best):,} of {len(rows):,} rows hold words of the query; the best {len(texts)}:)"
    return "\n".join([head, *texts])
