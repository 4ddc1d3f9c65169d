"""Checks a request's query string and body fields, by the Struct that declares them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta, Struct

from proxy.api.knowledge.declarations import choices_of, doc, must
from proxy.asgi import Scope
from proxy.caller import MAX_COLLECTION_CHARS, MAX_COLLECTIONS, are_collections
from proxy.dialects.errors import ApiError
from retrieval.records.filters import checked_filter

_MOST_QUERY_CHARS = 20_000
_MOST_DEPTH = 64  # lists and objects within one another
_MOST_TOLD_CHARS = 100  # of an unknown name
_HALVES = re.compile("[\ud800-\udfff]")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")  # of an error, in msgspec's text
_MISSING = re.compile("Object missing required field `([^`]*)`")
_S = TypeVar("_S", bound=Struct)

QueryText = Annotated[
    str, Meta(min_length=1, max_length=_MOST_QUERY_CHARS), must(f"text of 1 to {_MOST_QUERY_CHARS} characters")
]
CollectionNames = Annotated[list[str], Meta(min_length=1), must("a list of names")]
K = Annotated[int, Meta(ge=1, le=100)]
After = Annotated[str, doc("The id to continue after: a page's last_id")]


def query_of(scope: Scope, kind: type[_S]) -> _S:
    """Read query parameters. Raises ApiError 400."""
    asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    none_but(asked, kind.__struct_fields__)
    return read_as(kind, {name: clean_text(values[-1]) for name, values in asked.items()}, strict=False)


def read_as(kind: type[_S], fields: Mapping[str, Any], *, strict: bool = True) -> _S:
    """Fields as a Struct; null counts as left out, and other fields are not read.

    Raises ApiError 400, which says what the first wrong field must be.
    strict: False: values are texts.
    """
    given = {name: fields[name] for name in kind.__struct_fields__ if fields.get(name) is not None}
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        text = str(error)
        place = found[1] if (found := _PLACE.search(text)) else ""
        if found := _MISSING.match(text):
            place = f"{place}.{found[1]}".removeprefix(".")
        where, what = _expected(kind, re.findall(r"\w+", place))
        raise invalid(f"'{where}' must be {what}", re.split(r"[.\[]", where)[0]) from error


def _expected(kind: type[Struct], names: Sequence[str]) -> tuple[str, str]:
    """Where a value is and what it must be, in words. names: names and numbers that lead to it."""
    (schema,), parts = msgspec.json.schema_components([kind])
    where = ""
    for name in ["", *names]:
        if name:
            schema = schema["items"] if name.isdigit() else schema["properties"][name]
            where += f"[{name}]" if name.isdigit() else f".{name}"
        while "$must" not in schema and ("$ref" in schema or "anyOf" in schema):
            schema = parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema["anyOf"][0]
        if "$must" in schema:
            return where[1:], str(schema["$must"])
    if "enum" in schema:
        choices = next(values for values in choices_of(kind) if set(values) == set(schema["enum"]))
        return where[1:], f"one of {', '.join(choices)}"
    least, most = schema.get("minimum"), schema.get("maximum")
    limits = "" if least is None else f" from {least} up" if most is None else f" from {least} to {most}"
    return where[1:], _WORDS[schema["type"]] + limits


_WORDS = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list",
    "object": "an object",
}  # fmt: skip


def none_but(asked: Iterable[str], names: Sequence[str], kind: str = "parameter ") -> None:
    unknown = next((name for name in asked if name not in names), None)
    if unknown is not None:
        raise invalid(f"there is no {kind}'{unknown[:_MOST_TOLD_CHARS]}' here; it takes {', '.join(names)}", unknown)


def checked(fields: Mapping[str, Any], names: Sequence[str], kind: str = "parameter ") -> Mapping[str, Any]:
    """The fields, all among `names`, after `clean`. Raises ApiError 400."""
    none_but(fields, names, kind)
    return {name: clean(value, name) for name, value in fields.items()}


def clean(value: Any, name: str, depth: int = 0) -> Any:
    """A JSON value from a request, safe for the index: texts after `clean_text`, numbers of 64 bits.

    Raises ApiError 400: a larger number, or a value nested too deeply. name: the field's.
    """
    if depth > _MOST_DEPTH:
        raise invalid(f"'{name[:_MOST_TOLD_CHARS]}' is nested deeper than {_MOST_DEPTH} levels", name)
    if isinstance(value, str):  # keep NUL in a document's text: it shows a binary file
        return clean_text(value) if name != "text" else _without_halves(value)
    if isinstance(value, list):
        return [clean(item, name, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean(item, key, depth + 1) for key, item in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise invalid(f"'{name}' holds a whole number of more than 64 bits", name)
    return value


def clean_text(text: str) -> str:
    """Put U+FFFD for what encodings or databases refuse: half a surrogate pair, a NUL."""
    return _without_halves(text).replace("\0", "\ufffd")


def _without_halves(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _HALVES.sub("\ufffd", text)
    return text


def query_text(query: str) -> str:
    """A query, which must not be blank."""
    if not query.strip():
        raise invalid(f"'query' must be text of 1 to {_MOST_QUERY_CHARS} characters", "query")
    return query


def few_names(names: Sequence[str]) -> Sequence[str]:
    """Collection names, which must be few and short enough for a search."""
    if not are_collections(names):
        most = f"at most {MAX_COLLECTIONS} names, each of at most {MAX_COLLECTION_CHARS} characters"
        raise invalid(f"'collections' must be {most}", "collections")
    return names


def filter_in(value: object, name: str) -> str:
    """A field's filter, in the format of `View.filter`; "" without one."""
    try:
        return "" if value is None else checked_filter(value)
    except ValueError as error:
        raise invalid(f"'{name}': {error}", name) from error


def invalid(what: str, param: str) -> ApiError:
    return ApiError(400, f"{what[0].upper()}{what[1:]}.", code="invalid_parameter", param=param)
