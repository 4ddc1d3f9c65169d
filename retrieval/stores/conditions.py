"""What a query may find, as the engines' filter: the tenant, and the part of the tenant in the caller's view.

Both engines have filter classes with nearly the same names. The conditions on rights come last, beside all other
conditions, so that no client input can change the rights. A client's attribute filter applies to the fields made by
`schema.filter_fields`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval import filters
from retrieval.filters import MODIFIED, AllOf, AnyOf, Compares, Equals, Filter, Not, UnderPath, is_number, parsed_filter
from retrieval.records.search import ALL, View
from retrieval.stores.schema import DATES, GROUPS, MARKS, MODIFIED_S, NUMBERS, SOURCE, TENANT, mark


@dataclass(frozen=True, slots=True)
class FilterClasses:
    """An engine's classes for filters."""

    Filter: Any
    FieldCondition: Any
    MatchValue: Any
    MatchAny: Any
    MatchPrefix: Any
    Range: Any


def build_filter(classes: FilterClasses, tenant: str, view: View = ALL) -> Any:
    """Return the filter for a tenant's points in the view."""
    of_tenant = classes.FieldCondition(key=TENANT, match=classes.MatchValue(value=tenant))
    condition = [_condition(classes, parsed_filter(view.filter))] if view.filter else []
    return classes.Filter(must=[of_tenant, *condition, *_rights(classes, view)])


def _rights(classes: FilterClasses, view: View) -> Iterator[Any]:
    if view.groups is None:
        return
    unrestricted = classes.FieldCondition(key=GROUPS, is_empty=True)
    if not view.groups:
        yield unrestricted
        return
    own = classes.FieldCondition(key=GROUPS, match=classes.MatchAny(any=[*view.groups]))
    yield classes.Filter(should=[unrestricted, own])


def _condition(classes: FilterClasses, condition: Filter) -> Any:
    match condition:
        case AllOf(parts):
            return classes.Filter(must=[_condition(classes, part) for part in parts])
        case AnyOf(parts):
            return classes.Filter(should=[_condition(classes, part) for part in parts])
        case Not(part):
            return classes.Filter(must_not=[_condition(classes, part)])
        case UnderPath(path):
            here = classes.FieldCondition(key=SOURCE, match=classes.MatchValue(value=path))
            below = classes.FieldCondition(key=SOURCE, match=classes.MatchPrefix(prefix=path + "/"))
            return classes.Filter(should=[here, below])
        case Compares(key, how, bound, dated):
            field = MODIFIED_S if key == MODIFIED else f"{DATES if dated else NUMBERS}.{key}"
            return classes.FieldCondition(key=field, range=classes.Range(**{how: bound}))
        case Equals(key, values):
            return classes.Filter(should=[*_equal(classes, key, values)])


def _equal(classes: FilterClasses, key: str, values: Sequence[Any]) -> Iterator[Any]:
    texts = [value if key == filters.SOURCE else mark(key, value) for value in values if not is_number(value)]
    if texts:
        yield classes.FieldCondition(key=SOURCE if key == filters.SOURCE else MARKS, match=classes.MatchAny(any=texts))
    for value in values:
        if is_number(value):
            field = MODIFIED_S if key == MODIFIED else f"{NUMBERS}.{key}"
            yield classes.FieldCondition(key=field, range=classes.Range(gte=value, lte=value))
