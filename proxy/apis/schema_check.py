"""Checks a value by a JSON Schema, in sentences that a small model can act on.

Schemas come from documents of any quality, and values from a model. So a check never raises, never runs a document's
regular expressions, and ends after a fixed number of steps; jsonschema ensures none of these, and needs 150 ms to
import. The check leaves `pattern`, `not`, `if` and rare words to the API, and reads `oneOf` as `anyOf`.
"""

import difflib
import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import orjson

_MOST_STEPS = 20_000
_MOST_LEVELS = 60  # of a value
_MOST_REFERENCES = 20  # from reference to reference
_MOST_PROBLEMS = 5
_MOST_LIKENED = 200  # names that an unknown one is likened to
_COMPARED = 10  # enum values that a step compares
_MOST_SHOWN = 12  # enum values, argument names
_MOST_DIGITS = 18  # of a number in a text: a float keeps nearly all of them
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|true|false")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: _is_number(value) and value % 1 == 0),
    "number": ("a number", _is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "null": ("null", lambda value: value is None),
}


# schema word -> (type whose length is measured; None: a number, whether it fits the bound, sentence)
_BOUNDS: dict[str, tuple[type | None, Callable[[Any, Any], bool], str]] = {
    "minimum": (None, operator.ge, "at least {}"),
    "maximum": (None, operator.le, "at most {}"),
    "exclusiveMinimum": (None, operator.gt, "more than {}"),
    "exclusiveMaximum": (None, operator.lt, "less than {}"),
    "minLength": (str, operator.ge, "a text of at least {} characters"),
    "maxLength": (str, operator.le, "a text of at most {} characters"),
    "minItems": (list, operator.ge, "a list of at least {} elements"),
    "maxItems": (list, operator.le, "a list of at most {} elements"),
    "minProperties": (dict, operator.ge, "an object of at least {} members"),
    "maxProperties": (dict, operator.le, "an object of at most {} members"),
}


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """What is wrong with a value, in at most 5 sentences; none: nothing was found."""
    try:
        return _Check(schema).problems(schema, value, "", 0)[:_MOST_PROBLEMS]
    except _TooLarge:
        return ["the arguments are too large or too deep to be checked: send less"]


def resolved(root: Mapping[str, Any], schema: Any) -> Any:
    """The schema that a reference chain leads to; {} if it has no end or leads to no schema."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict) or not isinstance(reference := schema.get("$ref"), str):
            return schema
        name = unquote(reference.removeprefix("#/$defs/")).replace("~1", "/").replace("~0", "~")
        definitions = root.get("$defs")
        schema = definitions.get(name, {}) if isinstance(definitions, dict) else {}
    return {}


def turned(schema: Mapping[str, Any], value: Any) -> Any:
    """Arguments with values corrected that small models write in the wrong type: "17" for 17, "true" for true, a value
    for a list of one, null for an optional argument. A value is turned only if the schema refuses it and takes the
    turned one. Other values stay.
    """
    try:
        return _turned(_Check(schema), schema, value, 0)
    except _TooLarge:
        return value


def _turned(check: "_Check", schema: Any, value: Any, level: int) -> Any:
    """Raises _TooLarge."""
    if not check.problems(schema, value, "", level):
        return value
    inner = resolved(check.root, schema)
    if isinstance(value, dict) and isinstance(inner, dict) and isinstance(properties := inner.get("properties"), dict):
        required = _list_of(inner, "required")
        members = {
            name: _turned(check, properties.get(name, True), one, level + 1)
            for name, one in value.items()
            if one is not None
            or name in required
            or name not in properties
            or not check.problems(properties[name], None, "", level + 1)
        }
        if not check.problems(schema, members, "", level) or level == 0:
            return members
    if isinstance(value, list) and isinstance(inner, dict) and "items" in inner:
        elements = [_turned(check, inner["items"], one, level + 1) for one in value]
        return elements if not check.problems(schema, elements, "", level) else value
    if value is None or isinstance(value, dict | list):
        return value
    scalar = _scalar(value)
    lists = () if isinstance(value, str) and "," in value else ([value], [scalar])
    return next((one for one in (scalar, *lists) if not check.problems(schema, one, "", level)), value)


def _scalar(value: Any) -> Any:
    """The number or boolean that a text names; other values stay."""
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and _SCALAR.fullmatch(value):
        return orjson.loads(value)
    return value


class _TooLarge(Exception):
    """More steps or levels than a check may take."""


class _Check:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self._steps = 0
        self._under_check: set[tuple[int, int]] = set()  # ids of schemas and values

    def problems(self, schema: Any, value: Any, where: str, level: int) -> list[str]:
        """Raises _TooLarge."""
        self._spend(1)
        if level > _MOST_LEVELS:
            raise _TooLarge
        if schema is False:
            return [f"{where or 'the value'} is not allowed"]
        pair = (id(schema), id(value))
        if not isinstance(schema, dict) or pair in self._under_check:  # a circle of allOf, anyOf or oneOf
            return []
        self._under_check.add(pair)
        found = self._by_words(schema, value, where, level)
        self._under_check.remove(pair)
        return found

    def _by_words(self, schema: Mapping[str, Any], value: Any, where: str, level: int) -> list[str]:
        found = []
        if isinstance(schema.get("$ref"), str):
            found += self.problems(resolved(self.root, schema), value, where, level + 1)
        self._spend(len(_list_of(schema, "enum")) // _COMPARED)
        wrong = _kind_problem(schema, value, where) or _value_problem(schema, value, where)
        if wrong:
            return [*found, wrong]
        if isinstance(value, dict):
            found += self._object(schema, value, where, level)
        if isinstance(value, list):
            found += self._list(schema, value, where, level)
        for one in _list_of(schema, "allOf"):
            found += self.problems(one, value, where, level + 1)
        for word in ("anyOf", "oneOf"):
            if alternatives := _list_of(schema, word):
                found += self._best(alternatives, value, where, level)
        return found

    def _spend(self, steps: int) -> None:
        """Raises _TooLarge."""
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise _TooLarge

    def _best(self, alternatives: Sequence[Any], value: Any, where: str, level: int) -> list[str]:
        return min([self.problems(one, value, where, level + 1) for one in alternatives], key=len)

    def _object(self, schema: Mapping[str, Any], value: Mapping[str, Any], where: str, level: int) -> list[str]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        missing = [name for name in _list_of(schema, "required") if isinstance(name, str) and name not in value]
        found = [f"{_at(where, name)} is missing{self._meaning(properties.get(name))}" for name in missing]
        others = {} if schema.get("patternProperties") else schema.get("additionalProperties", {})
        for name, one in value.items():
            if len(found) >= _MOST_PROBLEMS:
                break
            if name not in properties and others is False:
                names = list(itertools.islice(properties, _MOST_LIKENED))
                self._spend(len(names))
                found.append(_unknown(name, names, where))
            else:
                found += self.problems(properties.get(name, others), one, _at(where, name), level + 1)
        return found

    def _list(self, schema: Mapping[str, Any], value: Sequence[Any], where: str, level: int) -> list[str]:
        found = list[str]()
        firsts = _list_of(schema, "prefixItems")
        for index, one in enumerate(value):
            if len(found) >= _MOST_PROBLEMS:
                break
            inner = firsts[index] if index < len(firsts) else schema.get("items")
            found += self.problems(inner, one, _at(where, index), level + 1)
        return found

    def _meaning(self, schema: Any) -> str:
        for one in (schema, resolved(self.root, schema)):
            if isinstance(one, dict) and isinstance(text := one.get("description"), str) and text.strip():
                return f" ({_shortened(' '.join(text.split()), 160)})"
        return ""


def _kind_problem(schema: Mapping[str, Any], value: Any, where: str) -> str:
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(names, list) or not names or any(not isinstance(n, str) or n not in _KINDS for n in names):
        return ""
    if any(_KINDS[name][1](value) for name in names):
        return ""
    return f"{where or 'the arguments'} must be {' or '.join(_KINDS[name][0] for name in names)}, not {_shown(value)}"


def _value_problem(schema: Mapping[str, Any], value: Any, where: str) -> str:
    for allowed in ([schema["const"]] if "const" in schema else [], _list_of(schema, "enum")):
        if allowed and not any(_same(one, value) for one in allowed):
            more = f" … ({len(allowed)} values)" if len(allowed) > _MOST_SHOWN else ""
            listed = ", ".join(map(_shown, allowed[:_MOST_SHOWN]))
            choice = "one of " if len(allowed) > 1 else ""
            return f"{where or 'the value'} must be {choice}{listed}{more}, not {_shown(value)}"
    for word, (kind, fits, sentence) in _BOUNDS.items():
        if not _is_number(bound := schema.get(word)) or not (isinstance(value, kind) if kind else _is_number(value)):
            continue
        if not fits(len(value) if kind else value, bound):
            return f"{where or 'the value'} must be {sentence.format(bound)}, not {_shown(value)}"
    return ""


def _unknown(name: str, known: Sequence[str], where: str) -> str:
    close = difflib.get_close_matches(name[:64], [one for one in known if len(one) <= 64], 1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known[:_MOST_SHOWN]) or 'none'}"
    return f"{_at(where, name)} is unknown ({hint})"


def _list_of(schema: Mapping[str, Any], word: str) -> list[Any]:
    value = schema.get(word)
    return value if isinstance(value, list) else []


def _at(where: str, name: object) -> str:
    return f"{where}.{_shortened(str(name), 64)}" if where else _shortened(str(name), 64)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON: 1 is 1.0, but not true."""
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    return type(one) is type(other) and bool(one == other)


def _shown(value: Any) -> str:
    try:
        return _shortened(orjson.dumps(value).decode(), 60)
    except orjson.JSONEncodeError:
        return "this value"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"
