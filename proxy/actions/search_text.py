"""The text by which an operation is found: the API and the summary as title, the call, the description, the parameters.

The API's title says the subject where many APIs have an operation "Search". Among 10,000 operations of other APIs, the
title raises nDCG@10 of ToolBench from .627 to .721, of RestBench from .359 to .402 (docs/actions.md).

The parameters stand in a list of their own, which becomes a chunk apart: the names of parameters are much the same for
all operations, and hide the description in a shared chunk (docs/chunking.md). Words of the path, tags and names of the
response were tried, and found no more operations of RestBench.
"""

import re

from proxy.actions.openapi.operation import Operation

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_MOST_DESCRIPTION_CHARS = 2_000
# Each chunk begins with the title, and a title that fills the chunk makes the document unreadable. A byte of UTF-8 is
# at most one token; a chunk has 180 tokens.
_MOST_TITLE_BYTES = 150
_MOST_API_BYTES = 60
_MOST_PARAMETERS = 40
_MOST_ENUM = 12


def words_of(name: str) -> str:
    """The words of a name: "listOrgUsers_v2" -> "list org users v 2"."""
    return " ".join(word.lower() for word in _WORDS.findall(name))


def title_of(operation: Operation, api: str) -> str:
    """The API's title, and the summary or the words of the operation's name; long texts are cut."""
    return _cut(
        " / ".join(text for text in (_cut(api, _MOST_API_BYTES), _summary(operation)) if text), _MOST_TITLE_BYTES
    )


def search_text(operation: Operation) -> str:
    """The text, in lines: the call, a summary too long for a title, the description, the parameters."""
    summary = _summary(operation)
    lines = [f"{operation.method} {operation.path}"]
    if len(summary.encode()) > _MOST_TITLE_BYTES - _MOST_API_BYTES - len(" / "):
        lines.append(summary[:_MOST_DESCRIPTION_CHARS])
    lines.append(operation.description[:_MOST_DESCRIPTION_CHARS])
    if parameters := _parameters(operation):
        lines.append("Parameters: " + "; ".join(parameters))
    return "\n".join(line for line in lines if line)


def _summary(operation: Operation) -> str:
    return operation.summary or words_of(operation.operation_id or operation.name)


def _cut(text: str, most_bytes: int) -> str:
    """The text in one line, cut to a number of bytes in UTF-8."""
    line = " ".join(text.split())
    return line.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore").strip()


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
