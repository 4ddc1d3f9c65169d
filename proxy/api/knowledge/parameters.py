"""Checks of a request: the query string and the fields of the body."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from proxy.access.rights import MAX_COLLECTION_CHARS, MAX_COLLECTIONS, are_collections
from proxy.asgi import Receive, Scope
from proxy.body import json_body
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import by_size
from retrieval.filters import checked_filter

_MOST_K = 100
_MOST_QUERY_CHARS = 20_000
_MOST_DIGITS = 18
_MOST_DEPTH = 64  # lists and objects within one another
_MOST_TOLD_CHARS = 100  # of an unknown name
_HALVES = re.compile("[\ud800-\udfff]")


async def fields_of(scope: Scope, receive: Receive, *names: str, max_bytes: int) -> Mapping[str, Any]:
    """The fields of a JSON object, all among `names`."""
    body = await json_body(scope, receive, max_bytes=max_bytes)
    return await by_size(body.raw, lambda: checked(body.fields, names, ""))


def query_of(scope: Scope, *names: str) -> dict[str, str]:
    asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    none_but(asked, names)
    return {name: clean_text(values[-1]) for name, values in asked.items()}


def none_but(asked: Iterable[str], names: Sequence[str], kind: str = "parameter ") -> None:
    unknown = next((name for name in asked if name not in names), None)
    if unknown is not None:
        raise invalid(f"there is no {kind}'{unknown[:_MOST_TOLD_CHARS]}' here; it takes {', '.join(names)}", unknown)


def checked(fields: Mapping[str, Any], names: Sequence[str], kind: str = "parameter ") -> Mapping[str, Any]:
    """The fields, all among `names`, after `clean`. Raises ApiError 400."""
    none_but(fields, names, kind)
    return {name: clean(value, name) for name, value in fields.items()}


def clean(value: Any, name: str, depth: int = 0) -> Any:
    """A value of a request's JSON, safe for the index: texts after `clean_text`, numbers of 64 bits.

    Raises ApiError 400: a larger number, a value nested too deeply. name: of the field.
    """
    if depth > _MOST_DEPTH:
        raise invalid(f"'{name[:_MOST_TOLD_CHARS]}' is nested deeper than {_MOST_DEPTH} levels", name)
    if isinstance(value, str):  # keep a NUL in a document's text: the reader then recognises a binary file
        return clean_text(value) if name != "text" else _without_halves(value)
    if isinstance(value, list):
        return [clean(item, name, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean(item, key, depth + 1) for key, item in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise invalid(f"'{name}' holds a whole number of more than 64 bits", name)
    return value


def clean_text(text: str) -> str:
    """The text with U+FFFD for characters refused by encodings or databases: half a surrogate pair, a NUL."""
    return _without_halves(text).replace("\0", "\ufffd")


def _without_halves(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _HALVES.sub("\ufffd", text)
    return text


def query_text(query: object) -> str:
    if not isinstance(query, str) or not query.strip() or len(query) > _MOST_QUERY_CHARS:
        raise invalid(f"'query' must be text of 1 to {_MOST_QUERY_CHARS} characters", "query")
    return query


def k_of(fields: Mapping[str, Any], name: str, default: int) -> int:
    return whole_number_of(fields, name, default=default, least=1, most=_MOST_K)


def whole_number_of(
    fields: Mapping[str, Any], name: str, *, default: int, least: int = 0, most: int = sys.maxsize
) -> int:
    number = fields.get(name)
    if number is None:
        return default
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        upper = "up" if most == sys.maxsize else f"to {most}"
        raise invalid(f"'{name}' must be a whole number from {least} {upper}", name)
    return number


def yes_or_no(fields: Mapping[str, Any], name: str) -> bool | None:
    """None where the request does not say."""
    said = fields.get(name)
    if said is not None and not isinstance(said, bool):
        raise invalid(f"'{name}' must be true or false", name)
    return said


def names_of(fields: Mapping[str, Any]) -> list[str]:
    """The collections asked for by name; none where the request does not say."""
    names = fields.get("collections")
    if names is None:
        return []
    if not (names and isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise invalid("'collections' must be a list of names", "collections")
    if not are_collections(names):
        most = f"at most {MAX_COLLECTIONS} names, each of at most {MAX_COLLECTION_CHARS} characters"
        raise invalid(f"'collections' must be {most}", "collections")
    return names


def filter_in(fields: Mapping[str, Any], name: str) -> str:
    """The filter in a field, in the format of `View.filter`; "" without a filter."""
    value = fields.get(name)
    if value is None:
        return ""
    try:
        return checked_filter(value)
    except ValueError as error:
        raise invalid(f"'{name}': {error}", name) from error


def whole_number(text: str, name: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and 1 <= int(text) <= most):
        raise invalid(f"'{name}' must be a whole number from 1 to {most}", name)
    return int(text)


def invalid(what: str, param: str) -> ApiError:
    return ApiError(400, f"{what[0].upper()}{what[1:]}.", code="invalid_parameter", param=param)
