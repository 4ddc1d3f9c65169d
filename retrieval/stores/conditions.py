"""What a query may find, as the engines' filter: the tenant, and of that what is in the caller's view.

Both engines have classes of the same names for that. The rights come last and stand beside all else, so that nothing
that a client says is part of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from retrieval.records import ALL, View
from retrieval.stores.schema import GROUPS, TENANT


@dataclass(frozen=True, slots=True)
class Words:
    """An engine's classes."""

    Filter: Any
    FieldCondition: Any
    MatchValue: Any
    MatchAny: Any


def within(words: Words, tenant: str, view: View = ALL) -> Any:
    """The filter for what there is of a tenant in this view."""
    of_tenant = words.FieldCondition(key=TENANT, match=words.MatchValue(value=tenant))
    return words.Filter(must=[of_tenant, *_readable(words, view)])


def _readable(words: Words, view: View) -> Iterator[Any]:
    if view.groups is None:
        return
    anybody = words.FieldCondition(key=GROUPS, is_empty=True)
    if not view.groups:
        yield anybody
        return
    ours = words.FieldCondition(key=GROUPS, match=words.MatchAny(any=[*view.groups]))
    yield words.Filter(should=[anybody, ours])
