"""Whether the arguments of a model's call can be sent: by the operation's schema, and by where the values come from.

Small models invent values (`your_organization_id`, `12345`). So a value that identifies something must stand in the
conversation, in the schema (an enum or a default) or in an earlier result.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.actions.openapi.operation import Operation

_MOST_PROBLEMS = 5
_PLACEHOLDERS = re.compile(
    r"(?:your|my|the|some|any|insert|enter|replace|example|sample|dummy|placeholder|test)[_\s-]?\w*[_\s-]"
    r"(?:id|ids|key|name|token|email|uuid|value|here)\b|<[^<>]*>|\{[^{}]*\}|\$\{?\w+\}?|\[[A-Z_ ]+\]"
    r"|(?:x{3,}|\.{3}|…|string|unknown|undefined|null|none|n/?a|tbd|todo|placeholder|example|id|name|value|12345+6*7*8*9*0*)",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(
    r"(?:^|[_\-.\s])(?:ids?|key|uuid|guid|email|slug|token|login|username|number|code)$|Ids?$|Uuid$|Name$|Key$"
)
_FORMATS = ("uuid", "email", "uri", "url", "hostname", "ipv4", "ipv6", "idn-email")


def offered_schema(operation: Operation, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the arguments for a model: without the fixed arguments."""
    properties = {name: one for name, one in operation.schema["properties"].items() if name not in fixed}
    required = [name for name in operation.schema["required"] if name not in fixed]
    return {**operation.schema, "properties": properties, "required": required}


def problems(schema: Mapping[str, Any], arguments: Any) -> list[str]:
    """What is wrong with the arguments, in sentences for the model; none: the arguments are as the schema says."""
    found = [_sentence(error) for error in _validator_of(schema).iter_errors(arguments)]
    return found[:_MOST_PROBLEMS]


def invented(
    operation: Operation, schema: Mapping[str, Any], arguments: Mapping[str, Any], known: Sequence[str]
) -> list[str]:
    """The arguments whose values stand nowhere, as "name: value". known: the texts of conversation and results."""
    texts = [text.casefold() for text in known]
    return [
        f"{name}: {value!r}"
        for name, value in _identifying(operation, schema, arguments)
        if _PLACEHOLDERS.fullmatch(value.strip()) or not any(value.casefold() in text for text in texts)
    ]


def _identifying(
    operation: Operation, schema: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """The values that identify something: of the path, by the name of the argument, by the format."""
    in_path = {one.argument for one in operation.parameters if one.place == "path"}
    for name, value in arguments.items():
        row = schema["properties"].get(name)
        row = row if isinstance(row, dict) else {}
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool) or not isinstance(one, str | int):
                continue
            text = str(one)
            if one in row.get("enum", ()) or ("default" in row and one == row["default"]) or "const" in row:
                continue
            if (
                name in in_path
                or _IDENTIFIER.search(name)
                or row.get("format") in _FORMATS
                or (isinstance(one, str) and _PLACEHOLDERS.fullmatch(text.strip()))
            ):
                yield name, text


def _sentence(error: Any) -> str:
    where = ".".join(map(str, error.absolute_path))
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"{where + '.' if where else ''}{missing[0]} is missing" if missing else str(error.message)
    if error.validator == "additionalProperties":
        return str(error.message)[:200]
    return f"{where or 'the arguments'}: {error.message[:200]}"


def _validator_of(schema: Mapping[str, Any]) -> Any:
    import orjson

    return _compiled(orjson.dumps(schema))


@functools.lru_cache(maxsize=512)
def _compiled(schema: bytes) -> Any:
    import orjson
    from jsonschema import Draft202012Validator  # 150 ms, on the first call

    return Draft202012Validator(_without_patterns(orjson.loads(schema)))


def _without_patterns(value: Any) -> Any:
    """The schema without regular expressions: a value from a model could make an expression run for hours."""
    if isinstance(value, list):
        return [_without_patterns(one) for one in value]
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not (name == "pattern" and isinstance(one, str))}
        return {name: _without_patterns(one) for name, one in kept.items() if name != "patternProperties"}
    return value
