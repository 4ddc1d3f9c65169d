"""Schema keywords, with values that they can have.

Providers check a request's schemas and refuse it for a single fault. So a keyword with a value that it cannot have
(`minimum: "5"`, `type: list`, an empty `enum`) gets the value that was meant, or goes.
"""

import contextlib
import re
import warnings
from typing import Any

import orjson

from proxy.apis.schema_check import problems

LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_AS_WRITTEN = ("default", "const")
_LATER = ("type", "enum", "required")  # mended later, by other members
_TEXTS = ("title", "format", "contentEncoding", "contentMediaType")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
          "maxContains")  # fmt: skip
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_WHETHER = ("uniqueItems", "deprecated")
_TYPES = {  # names in other languages, in small letters -> JSON Schema types
    **{one: one for one in ("array", "boolean", "integer", "null", "number", "object", "string")},
    **dict.fromkeys(("int", "int32", "int64", "long", "short", "byte", "bigint", "uint", "whole"), "integer"),
    **dict.fromkeys(("float", "double", "decimal", "numeric", "real"), "number"),
    **dict.fromkeys(("bool", "flag"), "boolean"),
    **dict.fromkeys(("list", "set", "tuple", "collection"), "array"),
    **dict.fromkeys(("dict", "map", "hash", "struct", "json"), "object"),
    **dict.fromkeys(
        ("str", "text", "char", "varchar", "file", "binary", "date", "datetime", "date-time", "time", "timestamp",
         "uuid", "guid", "uri", "url", "email", "enum", "password"), "string"),
}  # fmt: skip

Values = dict[str, Any]


def kept(name: str, value: Any) -> list[Any]:
    """The value as this keyword (one without schemas) can have it, in a list; empty: the keyword goes."""
    made: Any = None
    if name in _AS_WRITTEN:
        return [value]
    if name in _LATER:
        made = value
    elif name in _TEXTS:
        made = value if isinstance(value, str) else None
    elif name == "pattern":
        made = value if isinstance(value, str) and compiles(value) else None
    elif name in _SIZES:
        made = size if isinstance(size := _number(value), int) and size >= 0 else None
    elif name in _BOUNDS:
        made = value if isinstance(value, bool) else _number(value)
    elif name == "multipleOf":
        made = step if (step := _number(value)) is not None and step > 0 else None
    elif name in _WHETHER:
        made = True if value in (True, "true") else None
    elif name == "examples":
        made = value if isinstance(value, list) else None
    elif name == "dependentRequired" and isinstance(value, dict):
        made = {str(key): names_in(some) for key, some in value.items()}
    return [] if made is None else [made]


def compiles(pattern: str) -> bool:
    """Whether Python, in which providers check patterns too, can compile a pattern."""
    with warnings.catch_warnings(action="error", category=FutureWarning):  # such as `[[`, whose meaning may change
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError, FutureWarning):
            return False
    return True


def names_in(value: Any) -> list[str]:
    """A list's texts, each once."""
    return list(dict.fromkeys(one for one in value if isinstance(one, str))) if isinstance(value, list) else []


def mend(made: Values) -> None:
    """Mend keywords that depend on each other: bounds, type, values, items, required properties."""
    _bounds(made)
    _type(made)
    _enum(made)
    kind = made.get("type")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in made:
        made["items"] = {}
    _required(made)


def _number(value: Any) -> int | float | None:
    """A number, also from text; a float without a fraction as a whole number."""
    if isinstance(value, str):
        with contextlib.suppress(orjson.JSONDecodeError):
            value = orjson.loads(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _bounds(made: Values) -> None:
    """Version 3.0's `exclusiveMinimum: true` beside `minimum`, as a number."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(made.get(bound), bool):
            del made[bound]
        if isinstance(made.get(exclusive), bool) and made.pop(exclusive) and bound in made:
            made[exclusive] = made.pop(bound)


def _type(made: Values) -> None:
    """Types under their JSON Schema names. An unknown name allows any value."""
    if "type" not in made:
        return
    kind = made.pop("type")
    named = kind if isinstance(kind, list) else [kind]
    kinds = [_TYPES.get(one.strip().lower(), "") if isinstance(one, str) else "" for one in named]
    if kinds and all(kinds):
        distinct = list(dict.fromkeys(kinds))
        made["type"] = distinct[0] if isinstance(kind, str) or len(distinct) == 1 else distinct


def _enum(made: Values) -> None:
    """Different values that fit the type, at least one: `type: string` beside [1, 2] allows nothing."""
    if "enum" not in made:
        return
    listed = made["enum"] if isinstance(made["enum"], list) else []
    made["enum"] = listed = list({orjson.dumps(one): one for one in listed}.values())  # 1 and true are equal in Python
    kind = made.get("type")
    if not listed:
        del made["enum"]
    if not isinstance(kind, str) or not listed:
        return
    fits = [not problems({"type": kind}, one) for one in listed]
    if all(fits):
        return
    if kind == "array" and not any(fits):  # an array of enum values
        items = made["items"] if isinstance(made.get("items"), dict) else {}
        made["items"] = {**items, "enum": made.pop("enum")}
        return
    fitting = [value for one in listed if not problems({"type": kind}, value := _of_kind(kind, one))]
    if fitting:
        made["enum"] = fitting
    else:
        del made["type"]


def _of_kind(kind: str, value: Any) -> Any:
    """A value's text, or a text's value."""
    if kind == "string" and value is not None:
        return value if isinstance(value, str) else orjson.dumps(value).decode()
    with contextlib.suppress(orjson.JSONDecodeError):
        return orjson.loads(value) if isinstance(value, str) else value
    return value


def _required(made: Values) -> None:
    """Properties that exist, each once. A property's `required: true` is a slip from version 2.0."""
    if "required" not in made:
        return
    alone = "properties" in made and not any(name in made for name in (*LISTS, "$ref"))
    names = names_in(made.pop("required"))
    if kept_names := [name for name in names if not alone or name in made["properties"]]:
        made["required"] = kept_names


def without_circles(defs: Values) -> None:
    """Take out references in a circle without a value: A is B, and B is A. A circle through properties stays."""
    walked: dict[str, bool] = {}  # name -> whether the walk through it is over

    def within(name: str) -> bool:
        """Walk through a schema, once; returns whether the walk is still inside it: a circle."""
        if name not in walked:
            walked[name] = False
            take_out(defs.get(name))
            walked[name] = True
        return not walked[name]

    def take_out(schema: Any) -> bool:
        """Take circular references out of a schema; returns whether it was one itself."""
        if not isinstance(schema, dict):
            return False
        itself = "$ref" in schema and within(schema["$ref"].removeprefix("#/$defs/"))
        if itself:
            del schema["$ref"]
        for name in ("allOf", "anyOf", "oneOf"):
            gone = [take_out(one) for one in schema.get(name, ())]
            if any(gone) and (name != "allOf" or all(gone)):  # without one choice, the rest would be wrong
                del schema[name]
            elif any(gone):
                schema[name] = [one for one, left in zip(schema[name], gone, strict=True) if not left]
        for name in ("not", "if", "then", "else"):
            if take_out(schema.get(name)):
                del schema[name]
        return itself

    for name in list(defs):
        within(name)
