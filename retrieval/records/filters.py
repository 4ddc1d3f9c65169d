"""Filters: conditions on documents, read from JSON, checked, and evaluated for a document.

    {"type": "and", "filters": [{"type": "eq", "key": "team", "value": "hr"},
                                {"type": "gte", "key": "issued", "value": "2024-05-01"}]}

The form is OpenAI's, with two more types, `not` and `prefix`. A key is `source`, `modified_at` or an attribute name;
no other field can be filtered. Both sides of a comparison must be of one kind: text with text, number with number,
date with date. A missing attribute, or one of another kind, equals nothing and is neither before nor after any value;
so `ne`, `nin` and `not` hold for its document. For a list, one matching text is enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, Literal

import orjson

from retrieval.records.attributes import MOST_VALUE_CHARS, NAME

Value = str | float | bool
Comparison = Literal["gt", "gte", "lt", "lte"]
_TYPES = "and, or, not, eq, ne, in, nin, gt, gte, lt, lte, prefix"
SOURCE, MODIFIED = "source", "modified_at"
_BUILT_IN = (SOURCE, MODIFIED)
_REFUSED = ("title", "format", "groups")
_MAX_DEPTH = 8
_MOST_PARTS = 64  # comparisons in all
_MOST_VALUES = 100  # of `in` and `nin`
_MOST_SOURCE_CHARS = 4096
_MOST_NUMBER = 2**53  # as for attributes


@dataclass(frozen=True, slots=True)
class Equals:
    """The value equals one of `values`. A value that is not `str` is a number or a truth value."""

    key: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Compares:
    """The value is on one side of a number, or of a date (`dated`: seconds since 1970)."""

    key: str
    how: Comparison
    bound: float
    dated: bool


@dataclass(frozen=True, slots=True)
class UnderPath:
    """The source is this path, or lies below it."""

    path: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts hold."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: "Filter"


Filter = Equals | Compares | UnderPath | AllOf | AnyOf | Not


def filter_of(value: object) -> Filter:
    """The filter in a JSON value. Raises ValueError, which says what is wrong and what is expected."""
    condition = _read(value, 1)
    if (count := sum(1 for _ in _comparisons(condition))) > _MOST_PARTS:
        raise ValueError(f"the filter has {count} comparisons: send at most {_MOST_PARTS} comparisons")
    return condition


def checked_filter(value: object) -> str:
    """The filter in a JSON value, as a text for `parsed_filter`. Raises ValueError as `filter_of` does."""
    filter_of(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@lru_cache(maxsize=256)
def parsed_filter(text: str) -> Filter:
    """The filter in a text from `checked_filter`."""
    return filter_of(orjson.loads(text))


def seconds(text: str) -> float | None:
    """Seconds since 1970 of an ISO 8601 date or time, UTC unless it names an offset; None for other texts."""
    if len(text) < len("2024-05-01") or not text[:4].isdigit() or text[4] != "-":
        return None
    try:
        if len(text) == len("2024-05-01"):
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def matches(condition: Filter, source: str, modified_s: float, attributes: Mapping[str, Any]) -> bool:
    """Whether the filter holds for a document with this source, time and attributes."""
    match condition:
        case AllOf(parts):
            return all(matches(part, source, modified_s, attributes) for part in parts)
        case AnyOf(parts):
            return any(matches(part, source, modified_s, attributes) for part in parts)
        case Not(part):
            return not matches(part, source, modified_s, attributes)
        case UnderPath(path):
            return source == path or source.startswith(path + "/")
        case Equals(key, values):
            stored = {SOURCE: source, MODIFIED: modified_s}.get(key, attributes.get(key))
            return any(_same(item, value) for item in _as_list(stored) for value in values)
        case Compares(key, how, bound, dated):
            numbers = [modified_s] if key == MODIFIED else list(_numbers(attributes.get(key), dated=dated))
            return any(_holds(number, how, bound) for number in numbers)


def _numbers(value: object, *, dated: bool) -> Iterator[float]:
    """An attribute's numbers, or its dates as seconds (`dated`)."""
    for item in _as_list(value):
        if dated and isinstance(item, str) and (at_s := seconds(item)) is not None:
            yield at_s
        elif not dated and is_number(item):
            yield float(item)


def is_number(value: object) -> bool:
    """Whether the value is a number; truth values are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [] if value is None else [value]


def _same(a: object, b: object) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _holds(number: float, how: Comparison, bound: float) -> bool:
    return {"gt": number > bound, "gte": number >= bound, "lt": number < bound, "lte": number <= bound}[how]


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(value: object, depth: int) -> Filter:
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise ValueError(f"a filter is an object with a type, one of {_TYPES}")
    if depth > _MAX_DEPTH:
        raise ValueError(f"filters are nested too deeply: at most {_MAX_DEPTH} deep")
    kind = value["type"]
    if kind in ("and", "or"):
        _only(value, "filters")
        parts = value.get("filters")
        if not isinstance(parts, list) or not 1 <= len(parts) <= _MOST_PARTS:
            raise ValueError(f"'{kind}' needs 'filters', a list of 1 to {_MOST_PARTS} filters")
        filters = tuple(_read(part, depth + 1) for part in parts)
        return AllOf(filters) if kind == "and" else AnyOf(filters)
    if kind == "not":
        _only(value, "filter")
        return Not(_read(value.get("filter"), depth + 1))
    _only(value, "key", "value")
    return _comparison(kind, _key(value.get("key")), value.get("value"))


def _comparison(kind: str, key: str, value: object) -> Filter:
    match kind:
        case "eq":
            return Equals(key, (_value(key, value),))
        case "ne":
            return Not(Equals(key, (_value(key, value),)))
        case "in" | "nin":
            if not isinstance(value, list) or not 1 <= len(value) <= _MOST_VALUES:
                raise ValueError(f"'{kind}' needs 'value', a list of 1 to {_MOST_VALUES} values")
            equals = Equals(key, tuple(_value(key, item) for item in value))
            return equals if kind == "in" else Not(equals)
        case "gt" | "gte" | "lt" | "lte":
            return _bounded(kind, key, value)
        case "prefix":
            if key != SOURCE or not isinstance(value, str) or not value.rstrip("/"):
                raise ValueError("'prefix' is for the key source: give the path of a folder as value")
            return UnderPath(_text(key, value).rstrip("/"))
    raise ValueError(f"there is no filter of the type {kind[:40]!r}: use one of {_TYPES}")


def _bounded(kind: Comparison, key: str, value: object) -> Filter:
    at_s = seconds(value) if isinstance(value, str) else None
    if key == SOURCE or (at_s is None and not _finite(value)):
        raise ValueError(f"'{kind}' compares numbers, and dates like 2024-05-01 or 2024-05-01T12:00:00Z")
    if at_s is not None:
        return Compares(key, kind, at_s, dated=True)
    return Compares(key, kind, float(value), dated=False)  # type: ignore[arg-type]


def _key(key: object) -> str:
    if key in _REFUSED:
        raise ValueError(f"cannot filter by {key}: use source, modified_at or an attribute")
    if not isinstance(key, str) or (key not in _BUILT_IN and NAME.fullmatch(key) is None):
        raise ValueError("'key' must be source, modified_at or the name of an attribute")
    return key


def _value(key: str, value: object) -> Value:
    if isinstance(value, str):
        if key == MODIFIED:
            if (at_s := seconds(value)) is None:
                raise ValueError("modified_at needs seconds since 1970, or a date like 2024-05-01")
            return at_s
        return _text(key, value)
    if key == SOURCE or not (_finite(value) or (isinstance(value, bool) and key != MODIFIED)):
        raise ValueError(f"'{key}' cannot be compared with {str(value)[:40]!r}: use {_expected(key)}")
    return value if isinstance(value, bool) else float(value)  # type: ignore[arg-type]


def _text(key: str, value: str) -> str:
    most = _MOST_SOURCE_CHARS if key == SOURCE else MOST_VALUE_CHARS
    if len(value) > most or any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"the text for '{key}' must be valid Unicode of at most {most} characters")
    return value


def _expected(key: str) -> str:
    return {SOURCE: "a text", MODIFIED: "a number or a date"}.get(key, "a text, a number, true or false")


def _finite(value: object) -> bool:
    return is_number(value) and abs(value) <= _MOST_NUMBER  # type: ignore[arg-type]  # false of NaN


def _only(value: Mapping[Any, Any], *names: str) -> None:
    if unknown := sorted(str(name) for name in set(value) - {"type", *names}):
        raise ValueError(f"there is no {unknown[0][:40]!r} in a filter of this type: use {', '.join(names)}")


def _comparisons(condition: Filter) -> Iterator[Filter]:
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _comparisons(part)
        case Not(part):
            yield from _comparisons(part)
        case _:
            yield condition
