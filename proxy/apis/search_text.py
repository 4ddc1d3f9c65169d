"""Texts by which an operation is found: API and summary as title, call, description, parameters; its description once
more, apart; and a text about the API.

An API's title tells its subject, since many APIs have an operation "Search". Among 10,000 operations of other APIs,
titles raise nDCG@10 on ToolBench from .627 to .721, on RestBench from .359 to .402.

A text about each API, with its description, tags and first summaries, says what all its operations are about, and each
description is stored once more in its own document. Among 10,000 operations of other APIs, both raise nDCG@10 on
ToolBench from .722 to .750, on RestBench from .479 to .495, and the share of questions with a right operation in the
first five from .876 to .892 and from .66 to .68.

Path words, tags and response names were tried, and found no more operations on RestBench.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.apis.html_text import html_text
from proxy.apis.openapi.operation import Operation

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_MOST_DESCRIPTION_CHARS = 2_000
# Each chunk begins with its title, and a title that fills it makes the document unreadable. A UTF-8 byte is at most one
# token; a chunk has 180 tokens.
_MOST_TITLE_BYTES = 150
_MOST_API_BYTES = 60
_MOST_API_DESCRIPTION_CHARS = 600
_MOST_TAGS = 20
_MOST_SUMMARIES = 25
_MOST_SUBJECTS_CHARS = 700
_MOST_PARAMETERS = 40
_MOST_ENUM = 12


def words_of(name: str) -> str:
    """Words in a name: "listOrgUsers_v2" -> "list org users v 2"."""
    return " ".join(word.lower() for word in _WORDS.findall(name))


def title_of(operation: Operation, api: str) -> str:
    """The API's title, and the operation's summary or the words of its name; long texts are cut."""
    return _cut(" / ".join(text for text in (api_title(api), _summary(operation)) if text), _MOST_TITLE_BYTES)


def api_title(api: str) -> str:
    return _cut(api, _MOST_API_BYTES)


def description_of(operation: Operation) -> str:
    return operation.description[:_MOST_DESCRIPTION_CHARS]


def search_text(operation: Operation) -> str:
    """Text in lines: call, a summary too long for a title, description, parameters."""
    summary = _summary(operation)
    lines = [f"{operation.method} {operation.path}"]
    if len(summary.encode()) > _MOST_TITLE_BYTES - _MOST_API_BYTES - len(" / "):
        lines.append(summary[:_MOST_DESCRIPTION_CHARS])
    lines.append(description_of(operation))
    if parameters := _parameters(operation):
        lines.append("Parameters: " + "; ".join(parameters))
    return "\n".join(line for line in lines if line)


def api_text(document: Mapping[str, Any], operations: Sequence[Operation]) -> str:
    """Text about an API: its description, tags, and summaries of its first operations."""
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
    """Text in one line, cut to a number of UTF-8 bytes."""
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
    """Values that a parameter can have, also by reference, in a list, or as one of several schemas."""
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
