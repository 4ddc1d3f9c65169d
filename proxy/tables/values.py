"""Values of a column that resemble what a person wrote: "Fedora" -> "Fruity Fedora".

The queries are asked as a model's are, by a function that the caller gives, so that the same rights and limits hold.
"""

import asyncio
import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence

from proxy.tables.cards import quoted, quoted_table

_LISTED = 2_000  # values compared, at most
_WORDS = re.compile(r"[^\W_]+")
_MOST_WORDS = 8
_MOST_CHARS = 100  # of a text or a value; a longer value is no name
_LEAST_LIKENESS = 0.6

# A query -> its rows, as the caller may read them. Raises what a refused or failed query raises.
Ask = Callable[[str], Awaitable[Sequence[Sequence[object]]]]


async def matching_values(
    ask: Ask, dialect: str, table: str, column: str, text: str, *, k: int = 5, most: int = _LISTED
) -> list[str]:
    """At most k values of a column, the most alike first: with a word of the text, else spelled alike.

    most: values that a query may return.
    """
    text = " ".join(text.split())[:_MOST_CHARS]
    words = list(dict.fromkeys(word.lower() for word in _WORDS.findall(text)))[:_MOST_WORDS]
    if not words:
        return []
    name, place = quoted(column, dialect), quoted_table(table, dialect)
    kind = "CHAR" if dialect == "mysql" else "TEXT"
    alike = " OR ".join(f"LOWER(CAST({name} AS {kind})) LIKE '%{word}%'" for word in words)
    query = "SELECT DISTINCT {} FROM {} WHERE {} LIMIT {}"
    found = await ask(query.format(name, place, alike, most))
    values = _values(found)
    if len(values) < k:  # no word is there as written: perhaps with a mistake
        values |= _values(await ask(query.format(name, place, f"{name} IS NOT NULL", most)))
    return await asyncio.to_thread(best_matches, text, values, k)  # up to a second of work


def _values(rows: Iterable[Sequence[object]]) -> dict[str, None]:
    return dict.fromkeys(str(row[0]) for row in rows if row and row[0] is not None)


def best_matches(text: str, values: Iterable[str], k: int) -> list[str]:
    """At most k values that resemble a text, the most alike first."""
    asked = text.lower()
    likeness = {one: _likeness(asked, one.lower()) for one in values if len(one) <= _MOST_CHARS}
    alike = [one for one, score in likeness.items() if score >= _LEAST_LIKENESS]
    return sorted(alike, key=lambda one: (-likeness[one], one))[:k]


def _likeness(asked: str, value: str) -> float:
    """From 0 to 1: a shared word counts as much as most letters in the same order."""
    if asked == value:
        return 1.0
    words, own = set(_WORDS.findall(asked)), set(_WORDS.findall(value))
    spelled = difflib.SequenceMatcher(None, asked, value, autojunk=False).ratio()
    if not words & own:
        return 0.99 * spelled
    return _LEAST_LIKENESS + 0.2 * len(words & own) / min(len(words), len(own)) + 0.19 * spelled
