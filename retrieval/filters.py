"""Filters: what a caller asks to be true of documents, read from JSON, checked, and told of a document.

    {"type": "and", "filters": [{"type": "eq", "key": "team", "value": "hr"},
                                {"type": "gte", "key": "issued", "value": "2024-05-01"}]}

The form is OpenAI's, with `not` and `prefix` besides. A key is `source`, `modified_at` or an attribute's name; nothing
else of a point can be asked for. What is compared must be of one kind: text with text, number with number, date with
date. A document that has no such attribute, or one of another kind, is not equal to anything and not before or after
it; so `ne`, `nin` and `not` are true of it. Of a list, one of its texts is enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, Literal

import orjson

from retrieval.attributes import MOST_VALUE_CHARS, NAME

Value = str | float | bool
Compared = Literal["gt", "gte", "lt", "lte"]
_TYPES = "and, or, not, eq, ne, in, nin, gt, gte, lt, lte, prefix"
SOURCE, MODIFIED = "source", "modified_at"
_BUILT_IN = (SOURCE, MODIFIED)
_REFUSED = ("title", "format", "groups")
_MOST_DEEP = 8
_MOST_PARTS = 64  # comparisons in all
_MOST_VALUES = 100  # of a set
_MOST_SOURCE_CHARS = 4096
_MOST_NUMBER = 2**53  # as of attributes


@dataclass(frozen=True, slots=True)
class Is:
    """The value is one of these. Those of another kind than `str` are numbers or truth values."""

    key: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Than:
    """The value is on one side of this number, or of this date (`dated`: seconds since 1970)."""

    key: str
    how: Compared
    bound: float
    dated: bool


@dataclass(frozen=True, slots=True)
class Below:
    """The source is this path, or lies below it."""

    path: str


@dataclass(frozen=True, slots=True)
class Every:
    """All parts are true."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One part is true, or more."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is not true."""

    part: "Filter"


Filter = Is | Than | Below | Every | Some | Not


def filter_of(value: object) -> Filter:
    """The filter that JSON says. Raises ValueError: what is wrong, and what is expected."""
    found = _read(value, 1)
    if sum(1 for _ in _comparisons(found)) > _MOST_PARTS:
        raise ValueError(f"a filter has at most {_MOST_PARTS} comparisons")
    return found


def checked_filter(value: object) -> str:
    """The filter that JSON says, as a text that `parsed` reads. Raises ValueError, as `filter_of`."""
    filter_of(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@lru_cache(maxsize=256)
def parsed(text: str) -> Filter:
    """What `checked_filter` returned, as a filter."""
    return filter_of(orjson.loads(text))


def seconds(text: str) -> float | None:
    """Seconds since 1970 of a date or a time by ISO 8601, in UTC unless it says otherwise; None where it is none."""
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


def matches(asked: Filter, source: str, modified_s: float, attributes: Mapping[str, Any]) -> bool:
    """Whether it is true of a document of this source, time and attributes."""
    match asked:
        case Every(parts):
            return all(matches(part, source, modified_s, attributes) for part in parts)
        case Some(parts):
            return any(matches(part, source, modified_s, attributes) for part in parts)
        case Not(part):
            return not matches(part, source, modified_s, attributes)
        case Below(path):
            return source == path or source.startswith(path + "/")
        case Is(key, values):
            has = {SOURCE: source, MODIFIED: modified_s}.get(key, attributes.get(key))
            return any(_same(one, value) for one in _each(has) for value in values)
        case Than(key, how, bound, dated):
            has = [modified_s] if key == MODIFIED else list(_sized(attributes.get(key), dated=dated))
            return any(_holds(number, how, bound) for number in has)


def _sized(value: object, *, dated: bool) -> Iterator[float]:
    """The numbers of an attribute, or those of its dates."""
    for one in _each(value):
        if dated and isinstance(one, str) and (at := seconds(one)) is not None:
            yield at
        elif not dated and is_number(one):
            yield float(one)


def is_number(value: object) -> bool:
    """Truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _each(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [] if value is None else [value]


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _holds(number: float, how: Compared, bound: float) -> bool:
    return {"gt": number > bound, "gte": number >= bound, "lt": number < bound, "lte": number <= bound}[how]


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(value: object, depth: int) -> Filter:
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise ValueError(f"a filter is an object with a type: {_TYPES}")
    if depth > _MOST_DEEP:
        raise ValueError(f"filters stand in filters at most {_MOST_DEEP} deep")
    kind = value["type"]
    if kind in ("and", "or"):
        _only(value, "filters")
        parts = value.get("filters")
        if not isinstance(parts, list) or not 1 <= len(parts) <= _MOST_PARTS:
            raise ValueError(f"'{kind}' takes filters, a list of 1 to {_MOST_PARTS}")
        read = tuple(_read(part, depth + 1) for part in parts)
        return Every(read) if kind == "and" else Some(read)
    if kind == "not":
        _only(value, "filter")
        return Not(_read(value.get("filter"), depth + 1))
    _only(value, "key", "value")
    return _comparison(kind, _key(value.get("key")), value.get("value"))


def _comparison(kind: str, key: str, value: object) -> Filter:
    match kind:
        case "eq":
            return Is(key, (_value(key, value),))
        case "ne":
            return Not(Is(key, (_value(key, value),)))
        case "in" | "nin":
            if not isinstance(value, list) or not 1 <= len(value) <= _MOST_VALUES:
                raise ValueError(f"'{kind}' takes a list of 1 to {_MOST_VALUES} values")
            found = Is(key, tuple(_value(key, one) for one in value))
            return found if kind == "in" else Not(found)
        case "gt" | "gte" | "lt" | "lte":
            return _bounded(kind, key, value)
        case "prefix":
            if key != SOURCE or not isinstance(value, str) or not value.rstrip("/"):
                raise ValueError("'prefix' is for the key source, and takes the path of a folder")
            return Below(_text(key, value).rstrip("/"))
    raise ValueError(f"there is no filter of the type {kind[:40]!r}; there are {_TYPES}")


def _bounded(kind: Compared, key: str, value: object) -> Filter:
    at = seconds(value) if isinstance(value, str) else None
    if key == SOURCE or (at is None and not _finite(value)):
        raise ValueError(f"'{kind}' compares numbers, and dates like 2024-05-01 or 2024-05-01T12:00:00Z")
    if at is not None:
        return Than(key, kind, at, dated=True)
    return Than(key, kind, float(value), dated=False)  # type: ignore[arg-type]


def _key(key: object) -> str:
    if key in _REFUSED:
        raise ValueError(f"cannot filter by {key}: use source, modified_at or an attribute")
    if not isinstance(key, str) or (key not in _BUILT_IN and NAME.fullmatch(key) is None):
        raise ValueError("'key' must be source, modified_at or the name of an attribute")
    return key


def _value(key: str, value: object) -> Value:
    if isinstance(value, str):
        if key == MODIFIED:
            if (at := seconds(value)) is None:
                raise ValueError("modified_at is compared with seconds since 1970, or a date like 2024-05-01")
            return at
        return _text(key, value)
    if key == SOURCE or not (_finite(value) or (isinstance(value, bool) and key != MODIFIED)):
        raise ValueError(f"'{key}' cannot be compared with {str(value)[:40]!r}")
    return value if isinstance(value, bool) else float(value)  # type: ignore[arg-type]


def _text(key: str, value: str) -> str:
    most = _MOST_SOURCE_CHARS if key == SOURCE else MOST_VALUE_CHARS
    if len(value) > most or any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"a text that '{key}' is compared with has at most {most} characters")
    return value


def _finite(value: object) -> bool:
    return is_number(value) and abs(value) <= _MOST_NUMBER  # type: ignore[arg-type]  # false of NaN


def _only(value: Mapping[Any, Any], *names: str) -> None:
    if unknown := sorted(str(name) for name in set(value) - {"type", *names}):
        raise ValueError(f"there is no {unknown[0][:40]!r} in a filter of this type; it takes {', '.join(names)}")


def _comparisons(asked: Filter) -> Iterator[Filter]:
    match asked:
        case Every(parts) | Some(parts):
            for part in parts:
                yield from _comparisons(part)
        case Not(part):
            yield from _comparisons(part)
        case _:
            yield asked
