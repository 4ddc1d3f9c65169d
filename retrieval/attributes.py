"""Attributes and groups of documents: what they may be, and where a document's own front matter gives them.

An attribute is a name with a text, a number, a truth value or a list of texts: what searches are narrowed by. Groups
say who may read the document: without any, whoever may read its collection; with some, only who holds one of them.
Light on purpose: the gateway checks with it what a request says.
"""

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from retrieval.records import Attribute, Document

# As OpenAI's vector stores have them.
MOST_ATTRIBUTES = 16
_MOST_NAME_CHARS = 64
MOST_VALUE_CHARS = 512
MOST_ITEMS = 64  # of a list
_MOST_NUMBER = 2**53  # integers beyond are not the same in every JSON reader
MOST_GROUPS = 32

NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{_MOST_NAME_CHARS - 1}}}")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
BUILT_IN = ("source", "title", "format", "modified_at")  # every document has these: no attribute takes their names
_MOST_FRONT_CHARS = 50_000  # front matter that is longer is not parsed


def checked_attributes(value: object) -> dict[str, Attribute]:
    """The attributes that JSON gives. Raises ValueError with what is wrong and what was expected."""
    if not isinstance(value, Mapping):
        raise ValueError("attributes must be an object of names and values")
    if len(value) > MOST_ATTRIBUTES:
        raise ValueError(f"{len(value)} attributes: at most {MOST_ATTRIBUTES} are kept of a document")
    return {_checked_name(name): _checked_value(name, one) for name, one in value.items()}


def checked_groups(value: object) -> tuple[str, ...]:
    """The names of groups that JSON gives, each once. Raises ValueError with what is wrong and what was expected."""
    if not isinstance(value, list | tuple) or len(value) > MOST_GROUPS:
        raise ValueError(f"groups must be a list of at most {MOST_GROUPS} names")
    for name in value:
        if not isinstance(name, str) or _GROUP.fullmatch(name) is None:
            raise ValueError(
                f"{_told(name)} is no name of a group: use letters, digits, '.', '_', '@' and '-', at most 64, "
                "beginning with a letter or digit"
            )
    return tuple(sorted(set(value)))


def digest(document: Document) -> str:
    """SHA-256 of all that is indexed and kept of a document, in hexadecimal; for documents that are no files."""
    parts = [document.source, document.title, document.format, document.attributes, document.groups]
    said = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return sha256(said + b"\0" + document.text.encode()).hexdigest()


def of_front_matter(text: str, mark: str) -> tuple[dict[str, Attribute], tuple[str, ...]]:
    """Attributes and groups in the lines between two marks: YAML (---) or TOML (+++).

    What is no attribute (objects, names with blanks, more than there may be) is passed over; the title is read for
    itself. Groups are not passed over: raises ValueError where they are written but no names of groups.
    """
    fields = _parsed(text, mark)
    found: dict[str, Attribute] = {}
    for name, value in _plain_fields(fields):
        if len(found) < MOST_ATTRIBUTES and name not in BUILT_IN:
            found[name] = value
    groups = fields.get("groups", [])
    return found, checked_groups([groups] if isinstance(groups, str) else groups)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise ValueError(
            f"{_told(name)} is no name of an attribute: use letters, digits, '_' and '-', at most {_MOST_NAME_CHARS}, "
            "beginning with a letter or '_'"
        )
    if name in BUILT_IN or name == "groups":
        raise ValueError(f"no attribute can be named {name!r}: every document has that itself")
    return name


def _checked_value(name: str, value: object) -> Attribute:
    match value:
        case bool():
            return value
        case int() | float() if math.isfinite(value) and (isinstance(value, float) or abs(value) <= _MOST_NUMBER):
            return value
        case str() if _is_text(value):
            return value
        case list() | tuple() if len(value) <= MOST_ITEMS and all(isinstance(v, str) and _is_text(v) for v in value):
            return [*value]
    raise ValueError(
        f"the attribute {name!r} must be text of at most {MOST_VALUE_CHARS} characters, a finite number, true or "
        f"false, or a list of at most {MOST_ITEMS} such texts"
    )


def _is_text(value: str) -> bool:
    return len(value) <= MOST_VALUE_CHARS and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _told(name: object) -> str:
    return repr(name)[:80]


def _parsed(text: str, mark: str) -> Mapping[Any, Any]:
    """The fields; none where it is not what the mark promises: it may be anything."""
    import tomllib

    import yaml

    if len(text) > _MOST_FRONT_CHARS:
        return {}
    try:
        fields = tomllib.loads(text) if mark == "+++" else yaml.load(text, Loader=yaml.CSafeLoader)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date like 2024-99-99
        return {}
    return fields if isinstance(fields, Mapping) else {}


def _plain_fields(fields: Mapping[Any, Any]) -> Iterator[tuple[str, Attribute]]:
    for name, value in fields.items():
        if name == "groups":
            continue
        try:
            yield _checked_name(name), _checked_value(name, _plain(value))
        except ValueError:
            continue


def _plain(value: object) -> object:
    """A list's items as text; a list in a list stays one (it may hold itself, or all there is)."""
    return [_as_text(one) for one in value[: MOST_ITEMS + 1]] if isinstance(value, list) else _dated(value)


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _dated(value)


def _dated(value: object) -> object:
    """Dates as text, by ISO 8601."""
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value  # a datetime is a date
