"""Whether a person has named the list row that a call's value comes from.

A small model that may not invent an identifier lists all rows and takes the first: its answer then has another person's
data. So one of the person's messages must have a word from the row, unless it is the only one.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from proxy.agent.grounding.arguments import WHICH, words_of_text

_MOST_LEVELS = 40  # of a result
_LEAST_LETTERS = 3  # of a word that names; shorter ASCII words count only with a member's whole text
_MOST_NAMING_WORDS = 12  # per member: longer texts describe, and have words of many questions
_MOST_LABELS = 3
# Title words that occur in most questions.
_SMALL = frozenset(
    "the and for but with from into about over under after before has have had his her its our your their they them "
    "she him you are was were will would can could may might should shall must does did what which who whom whose when "
    "where why how all any some each every more most less than then that this these those there here not own out off "
    "per via get got let".split()
)
_JSON = re.compile(r"[\[{]")


class ListedRows(NamedTuple):
    value: Any  # JSON
    narrowed: bool = False  # by a model's word, which the person has not said: an only row is one of several


class OpenChoice(NamedTuple):
    """A value from one of several rows, of which the person named none or another."""

    value: str
    labels: Sequence[str]  # names of members by which people tell rows apart
    right: Any = None  # the value at the same place in the only row that the person named


def json_in(text: str) -> Any:
    """The first JSON in a text; None: no JSON."""
    if (begin := _JSON.search(text)) is None:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, begin.start())[0]
    except (ValueError, RecursionError):
        return None


def open_choice(value: str, results: Sequence[ListedRows], said: Sequence[str]) -> OpenChoice | None:
    """A choice that the model made for the person; None: the person made it, or there is none.

    said: the person's messages.
    """
    spoken = _Spoken(said)
    if spoken.has(value):
        return None
    found = None
    for result in results:
        for levels in _places(result.value, value, (), 0):
            choices = [one for level in levels if (one := _choice(value, level, spoken, narrowed=result.narrowed))]
            if not choices:  # somewhere the value is from a named row, or from none
                return None
            found = found or choices[-1]
    return found


class _Spoken:
    def __init__(self, said: Sequence[str]) -> None:
        self._text = "  ".join(map(words_of_text, said))
        self.words = set(self._text.split())

    def has(self, text: str) -> bool:
        return (words := words_of_text(text)).strip() != "" and words in self._text


_Level = tuple[Sequence[Any], int, str]  # rows, index of the row, and its member with the value


def _places(
    node: Any, value: str, levels: tuple[_Level, ...], depth: int, key: str = ""
) -> Iterator[tuple[_Level, ...]]:
    """Rows around each place of a value, from outside in."""
    if depth > _MOST_LEVELS:
        return
    if isinstance(node, list):
        for index, row in enumerate(node):
            yield from _places(row, value, (*levels, (node, index, "")), depth + 1)
    elif isinstance(node, dict):
        if (
            value in node and len(node) > 1 and all(isinstance(one, dict) for one in node.values())
        ):  # rows by identifier
            rows = [{"": name, **row} for name, row in node.items()]
            yield (*levels, (rows, list(node).index(value), ""))
        for name, one in node.items():
            inner = levels
            if levels and not isinstance(one, dict | list):
                inner = (*levels[:-1], (levels[-1][0], levels[-1][1], name))
            yield from _places(one, value, inner, depth + 1, name)
    elif node is not None and not isinstance(node, bool) and str(node).strip() == value:
        yield levels


def _choice(value: str, level: _Level, spoken: _Spoken, *, narrowed: bool) -> OpenChoice | None:
    """A row's choice; None: the row is the only one or the only one named, or all rows have this value."""
    rows, index, key = level
    if len(rows) < 2 and not narrowed:
        return None
    if len(rows) > 1 and key and all(isinstance(row, dict) and str(row.get(key)) == value for row in rows):
        return None
    naming = [_naming(row, spoken) for row in rows]
    common = frozenset.intersection(*naming) if len(rows) > 1 else frozenset[str]()
    named = [one - common for one in naming]
    values = [row.get(key) if key and isinstance(row, dict) else None for row in rows]
    best = [at for at, one in enumerate(named) if one and not any(one < other for other in named)]
    # The same words may name several rows: "harbour", of two people at the harbour. Rows with the same value count as
    # one.
    rivals = [at for at in best if at != index and named[at] == named[index] and str(values[at]) != value]
    if index in best and not rivals:
        return None
    right = values[best[0]] if len(best) == 1 else None
    return OpenChoice(value, _labels(rows, key), right)


def _naming(row: Any, spoken: _Spoken) -> frozenset[str]:
    """Words of a row that the person has said."""
    words: set[str] = set()
    for text in _texts(row, 0):
        own = words_of_text(text).split()
        if len(own) > _MOST_NAMING_WORDS:
            continue
        if spoken.has(text) and not (len(own) == 1 and own[0] in _SMALL):
            words.update(own)
        words.update(one for one in own if _names(one) and one in spoken.words)
    return frozenset(words)


def _names(word: str) -> bool:
    """Whether a single word can name a row: not a small word, short number or single Chinese sign."""
    return len(word) >= _LEAST_LETTERS and word not in _SMALL and (not word.isdigit() or len(word) > _LEAST_LETTERS)


def _texts(node: Any, depth: int) -> Iterator[str]:
    if depth > _MOST_LEVELS:
        return
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _texts(one, depth + 1)
    elif isinstance(node, str) or (isinstance(node, int | float) and not isinstance(node, bool)):
        text = str(node)
        if not text.isdigit() or len(text) > _LEAST_LETTERS:
            yield text


def _labels(rows: Sequence[Any], key: str) -> Sequence[str]:
    """Members whose texts differ between rows, without the value's own; names and titles come first."""
    records = [row for row in rows if isinstance(row, Mapping)]
    names = [name for name in records[0] if name and name != key] if records else []
    texts = {name: [row.get(name) for row in records] for name in names}
    telling = [
        name for name, values in texts.items() if all(isinstance(one, str) for one in values) and len(set(values)) > 1
    ]
    return sorted(telling, key=lambda name: not re.search(r"name|title|label", name.lower()))[:_MOST_LABELS]


def row_for_choice(choice: OpenChoice | None = None) -> str:
    """A row that asks for one of a list's rows, without their data."""
    if choice is None or not choice.labels:
        return WHICH
    return f"{WHICH}: {' or '.join(choice.labels)}"
