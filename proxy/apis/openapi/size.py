"""A tool's schema, within a size in bytes: every request of a chat repeats it."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

MOST_BYTES = 16_000  # some 4,000 tokens
_DESCRIPTIONS = (300, 150, 80, 40, 0)  # characters, tried in turn
_SPARE = ("title", "examples", "default", "format", "pattern")  # left out once descriptions are gone

Values = dict[str, Any]


def fitted(schema: Values, most_bytes: int = MOST_BYTES) -> Values | None:
    """The argument schema, made smaller if it is too large: shorter descriptions, fewer optional arguments.

    None: the required arguments alone are too large.
    """
    made = schema
    for chars in _DESCRIPTIONS:
        if _size(made) <= most_bytes:
            return made
        made = _shortened(schema, chars)
    optional = [name for name in made["properties"] if name not in made["required"]]
    while _size(made) > most_bytes:
        if not optional:
            return None
        left = optional[: len(optional) // 2]
        gone = set(optional) - set(left)
        made = _with_used_defs({**made, "properties": _without(made["properties"], gone)})
        optional = left
    return made


def _size(schema: Values) -> int:
    return len(orjson.dumps(schema))


def _without(values: Values, names: set[str]) -> Values:
    return {name: value for name, value in values.items() if name not in names}


def _shortened(value: Any, chars: int, *, names: bool = False) -> Any:
    """A schema with descriptions of at most `chars`. names: the members are names, not keywords."""
    if isinstance(value, list):
        return [_shortened(one, chars) for one in value]
    if not isinstance(value, dict):
        return value
    made: Values = {}
    for name, one in value.items():
        if not names and name == "description" and isinstance(one, str):
            if chars:
                made[name] = one if len(one) <= chars else one[: chars - 2] + " …"
        elif names or chars or name not in _SPARE:
            within = not names and name in ("properties", "patternProperties", "dependentSchemas", "$defs")
            made[name] = (
                one if not names and name in ("enum", "const", "required") else _shortened(one, chars, names=within)
            )
    return made


def _with_used_defs(schema: Values) -> Values:
    defs = schema.get("$defs", {})
    used: dict[str, None] = {}
    left = list(_references({**schema, "$defs": {}}))
    while left:
        name = left.pop()
        if name not in used and name in defs:
            used[name] = None
            left += _references(defs[name])
    return {**_without(schema, {"$defs"}), **({"$defs": {name: defs[name] for name in used}} if used else {})}


def _references(value: Any) -> Iterator[str]:
    """Names of definitions that a schema refers to."""
    if isinstance(value, Mapping):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.removeprefix("#/$defs/")
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)
