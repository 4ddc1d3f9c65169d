"""What a query may find, as the engines' filter: the tenant, and of that what is in the caller's view.

Both engines have classes of nearly the same names for that. The rights come last and stand beside all else, so that
nothing that a client says is part of them. What a client asks of attributes is asked of the fields that
`schema.described` makes of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval import filters
from retrieval.filters import MODIFIED, Below, Every, Filter, Is, Not, Some, Than, is_number, parsed
from retrieval.records.search import ALL, View
from retrieval.stores.schema import DATES, GROUPS, MARKS, MODIFIED_S, NUMBERS, SOURCE, TENANT, mark


@dataclass(frozen=True, slots=True)
class Words:
    """An engine's classes."""

    Filter: Any
    FieldCondition: Any
    MatchValue: Any
    MatchAny: Any
    MatchPrefix: Any
    Range: Any


def within(words: Words, tenant: str, view: View = ALL) -> Any:
    """The filter for what there is of a tenant in this view."""
    of_tenant = words.FieldCondition(key=TENANT, match=words.MatchValue(value=tenant))
    asked = [_asked(words, parsed(view.filter))] if view.filter else []
    return words.Filter(must=[of_tenant, *asked, *_readable(words, view)])


def _readable(words: Words, view: View) -> Iterator[Any]:
    if view.groups is None:
        return
    anybody = words.FieldCondition(key=GROUPS, is_empty=True)
    if not view.groups:
        yield anybody
        return
    ours = words.FieldCondition(key=GROUPS, match=words.MatchAny(any=[*view.groups]))
    yield words.Filter(should=[anybody, ours])


def _asked(words: Words, asked: Filter) -> Any:
    match asked:
        case Every(parts):
            return words.Filter(must=[_asked(words, part) for part in parts])
        case Some(parts):
            return words.Filter(should=[_asked(words, part) for part in parts])
        case Not(part):
            return words.Filter(must_not=[_asked(words, part)])
        case Below(path):
            here = words.FieldCondition(key=SOURCE, match=words.MatchValue(value=path))
            below = words.FieldCondition(key=SOURCE, match=words.MatchPrefix(prefix=path + "/"))
            return words.Filter(should=[here, below])
        case Than(key, how, bound, dated):
            field = MODIFIED_S if key == MODIFIED else f"{DATES if dated else NUMBERS}.{key}"
            return words.FieldCondition(key=field, range=words.Range(**{how: bound}))
        case Is(key, values):
            return words.Filter(should=[*_equal(words, key, values)])


def _equal(words: Words, key: str, values: Sequence[Any]) -> Iterator[Any]:
    texts = [value if key == filters.SOURCE else mark(key, value) for value in values if not is_number(value)]
    if texts:
        yield words.FieldCondition(key=SOURCE if key == filters.SOURCE else MARKS, match=words.MatchAny(any=texts))
    for value in values:
        if is_number(value):
            field = MODIFIED_S if key == MODIFIED else f"{NUMBERS}.{key}"
            yield words.FieldCondition(key=field, range=words.Range(gte=value, lte=value))
