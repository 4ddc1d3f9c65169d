"""The text by which an operation is found: the call, the description, and the parameters.

The parameters stand in a list of their own, which becomes a chunk apart: the names of parameters are much the same for
all operations, and hide the description in a shared chunk (docs/chunking.md). Words of the path, tags and names of the
response were tried, and found no more operations of RestBench.
"""

import re

from proxy.actions.openapi.operation import Operation

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_MOST_DESCRIPTION_CHARS = 2_000
_MOST_PARAMETERS = 40
_MOST_ENUM = 12


def words_of(name: str) -> str:
    """The words of a name: "listOrgUsers_v2" -> "list org users v 2"."""
    return " ".join(word.lower() for word in _WORDS.findall(name))


def title_of(operation: Operation) -> str:
    """The summary, or the words of the operation's name."""
    return operation.summary or words_of(operation.operation_id or operation.name)


def search_text(operation: Operation) -> str:
    """The text, in lines: the call, the description, the parameters."""
    lines = [f"{operation.method} {operation.path}", operation.description[:_MOST_DESCRIPTION_CHARS]]
    if parameters := _parameters(operation):
        lines.append("Parameters: " + "; ".join(parameters))
    return "\n".join(line for line in lines if line)


def _parameters(operation: Operation) -> list[str]:
    rows = []
    for name, schema in operation.schema["properties"].items():
        place = next((one.place for one in operation.parameters if one.argument == name), "body")
        row = f"{name} ({place})"
        if isinstance(schema, dict):
            words = [
                schema.get("description", ""),
                _values(schema),
                _members(schema, operation.schema.get("$defs", {})),
            ]
            row += ": " + " ".join(word for word in words if word) if any(words) else ""
        rows.append(" ".join(row.split()))
    return rows[:_MOST_PARAMETERS]


def _values(schema: dict[str, object]) -> str:
    values = schema.get("enum")
    return f"one of {', '.join(map(str, values[:_MOST_ENUM]))}" if isinstance(values, list) else ""


def _members(schema: dict[str, object], defs: dict[str, object]) -> str:
    """The names of a body's members."""
    reference = schema.get("$ref")
    target = defs.get(reference.removeprefix("#/$defs/")) if isinstance(reference, str) else schema
    members = target.get("properties") if isinstance(target, dict) else None
    return f"with {', '.join(list(members)[:_MOST_PARAMETERS])}" if isinstance(members, dict) and members else ""
