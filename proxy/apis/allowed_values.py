"""The values that an argument may have (the setting `allowed`): named in the schema, and checked in each call.

An argument is named as by `fixed`, and a member of a body by a path: `body.priority`. Of a list, each entry counts. A
value is compared as text: 5 is "5", and true is "true".
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

_TYPES = ("integer", "number", "boolean")


def narrowed(schema: Mapping[str, Any], members: Sequence[str], values: Collection[str]) -> dict[str, Any]:
    """The schema of an argument with the allowed values as `enum`; a schema behind a `$ref` stays as it is."""
    if isinstance(items := schema.get("items"), Mapping):
        return {**schema, "items": narrowed(items, members, values)}
    if not members:
        typed = [one for text in values for one in _typed(text, schema.get("type"))]
        return {**schema, "enum": typed} if typed and "$ref" not in schema else dict(schema)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or members[0] not in properties:
        return dict(schema)
    member = narrowed(properties[members[0]], members[1:], values)
    return {**schema, "properties": {**properties, members[0]: member}}


def forbidden_values(value: Any, members: Sequence[str], values: Collection[str]) -> Iterator[str]:
    """The values at a path that are not allowed, as text."""
    if isinstance(value, list):
        for one in value:
            yield from forbidden_values(one, members, values)
    elif members:
        if isinstance(value, Mapping) and members[0] in value:
            yield from forbidden_values(value[members[0]], members[1:], values)
        elif not isinstance(value, Mapping):
            yield _text(value)  # a text that may hold the member
    elif (text := _text(value)) not in values:
        yield text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _typed(text: str, kind: object) -> Iterator[Any]:
    """The value of a text by the schema's type; none if it is not one."""
    if kind not in _TYPES:
        yield text
        return
    try:
        value = json.loads(text)
    except ValueError:
        return
    if isinstance(value, bool) == (kind == "boolean") and isinstance(value, int | float):
        yield value
