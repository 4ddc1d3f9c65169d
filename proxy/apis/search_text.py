"""The texts by which an operation is found: the API and the summary as title, the call, the description, the
parameters; the description once more, apart; and a text about the API.

The API's title says the subject where many APIs have an operation "Search". Among 10,000 operations of other APIs, the
title raises nDCG@10 of ToolBench from .627 to .721, of RestBench from .359 to .402.

A text about each API, with the description, the tags and the first summaries, says what all operations of the API
are about, and the description stands once more in a document of its own. Among 10,000 operations of other APIs, both
raise nDCG@10 of ToolBench from .722 to .750, of RestBench from .479 to .495, and the share of questions with a right
operation among the first five from .876 to .892 and from .66 to .68.

The parameters stand in a list of their own, which becomes a chunk apart: the names of parameters are much the same for
all operations, and hide the description in a shared chunk (docs/use/chunking.md). Words of the path, tags and names of
the response were tried, and found no more operations of RestBench.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.apis.html_text import html_text
from proxy.apis.openapi.operation import Operation

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_MOST_DESCRIPTION_CHARS = 2_000
# Each chunk begins with the title, and a title that fills the chunk makes the document unreadable. A byte of UTF-8 is
# at most one token; a chunk has 180 tokens.
_MOST_TITLE_BYTES = 150
_MOST_API_BYTES = 60
_MOST_API_DESCRIPTION_CHARS = 600
_MOST_TAGS = 20
_MOST_SUMMARIES = 25
_MOST_SUBJECTS_CHARS = 700
_MOST_PARAMETERS = 40
_MOST_ENUM = 12


def words_of(name: str) -> str:
    """The words of a name: "listOrgUsers_v2" -> "list org users v 2"."""
    return " ".join(word.lower() for word in _WORDS.findall(name))


def title_of(operation: Operation, api: str) -> str:
    """The API's title, and the summary or the words of the operation's name; long texts are cut."""
    return _cut(" / ".join(text for text in (api_title(api), _summary(operation)) if text), _MOST_TITLE_BYTES)


def api_title(api: str) -> str:
    return _cut(api, _MOST_API_BYTES)


def description_of(operation: Operation) -> str:
    return operation.description[:_MOST_DESCRIPTION_CHARS]


def search_text(operation: Operation) -> str:
    """The text, in lines: the call, a summary too long for a title, the description, the parameters."""
    summary = _summary(operation)
    lines = [f"{operation.method} {operation.path}"]
    if len(summary.encode()) > _MOST_TITLE_BYTES - _MOST_API_BYTES - len(" / "):
        lines.append(summary[:_MOST_DESCRIPTION_CHARS])
    lines.append(description_of(operation))
    if parameters := _parameters(operation):
        lines.append("Parameters: " + "; ".join(parameters))
    return "\n".join(line for line in lines if line)


def api_text(document: Mapping[str, Any], operations: Sequence[Operation]) -> str:
    """The text about an API: the description, then the tags and the summaries of the first operations."""
    info = document.get("info")
    description = info.get("description") if isinstance(info, dict) else None
    text = " ".join(html_text(description).split()) if isinstance(description, str) else ""
    tags = list(dict.fromkeys(words_of(tag) for tag in _tags(document)))[:_MOST_TAGS]
    summaries = list(dict.fromkeys(map(_summary, operations)))[:_MOST_SUMMARIES]
    parts = (text[:_MOST_API_DESCRIPTION_CHARS], "; ".join([*tags, *summaries])[:_MOST_SUBJECTS_CHARS])
    return "\n\n".join(part for part in parts if part)


def _tags(document: Mapping[str, Any]) -> Iterator[str]:
    paths = document.get("paths")
    for item in paths.values() if isinstance(paths, dict) else ():
        for given in item.values() if isinstance(item, dict) else ():
            tags = given.get("tags") if isinstance(given, dict) else None
            yield from (tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()


def _summary(operation: Operation) -> str:
    return operation.summary or words_of(operation.operation_id or operation.name)


def _cut(text: str, most_bytes: int) -> str:
    """The text in one line, cut to a number of bytes in UTF-8."""
    line = " ".join(text.split())
    return line.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore").strip()


def _parameters(operation: Operation) -> list[str]:
    rows, defs = [], operation.schema.get("$defs", {})
    for name, schema in operation.schema["properties"].items():
        place = next((one.place for one in operation.parameters if one.argument == name), "body")
        row = f"{name} ({place})"
        if isinstance(schema, dict):
            words = [
                schema.get("description", ""),
                f"one of {', '.join(map(str, values))}" if (values := values_of(schema, defs)[:_MOST_ENUM]) else "",
                _members(schema, defs),
            ]
            row += ": " + " ".join(word for word in words if word) if any(words) else ""
        rows.append(" ".join(row.split()))
    return rows[:_MOST_PARAMETERS]


def values_of(schema: Any, defs: Mapping[str, Any], levels: int = 5) -> list[Any]:
    """The values that a parameter can have, also by a reference, in a list, or as one of several schemas."""
    if not isinstance(schema, dict) or not levels:
        return []
    if isinstance(values := schema.get("enum"), list):
        return [one for one in values if one is not None]
    if "const" in schema:
        return [schema["const"]]
    reference = schema.get("$ref")
    parts = [defs.get(reference.removeprefix("#/$defs/"))] if isinstance(reference, str) else []
    parts += [schema.get("items"), *(one for name in ("anyOf", "oneOf", "allOf") for one in schema.get(name, ()))]
    return [value for part in parts for value in values_of(part, defs, levels - 1)]


def _members(schema: dict[str, object], defs: dict[str, object]) -> str:
    reference = schema.get("$ref")
    target = defs.get(reference.removeprefix("#/$defs/")) if isinstance(reference, str) else schema
    members = target.get("properties") if isinstance(target, dict) else None
    return f"with {', '.join(list(members)[:_MOST_PARAMETERS])}" if isinstance(members, dict) and members else ""
