"""The gateway's questions to a person, in the API's words, and what they were asked before."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.agent.grounding.chosen_rows import OpenChoice
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.producers import searches_by

_MOST_CHARS = 300  # of a description
WHICH = "which one"  # begins a question's row about a list's row


def question(operation: Operation, rows: Sequence[str]) -> str:
    """A question for values. rows: as in `row_for` and `row_for_choice`."""
    return "\n".join([_heading(operation), *(f"- {row}" for row in dict.fromkeys(rows))])


def row_for(name: str, schema: Any) -> str:
    """An argument's row: its name, plus description and allowed values if the API names any."""
    row = schema if isinstance(schema, dict) else {}
    words = [" ".join(str(row["description"]).split())[:_MOST_CHARS]] if row.get("description") else []
    if values := [one for one in allowed(schema) if one is not None][:20]:
        listed = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in values)
        words.append(f"one of {', '.join(listed)}")
    return f"{name}: {'; '.join(words)}" if words else name


def row_for_choice(choice: OpenChoice | None = None) -> str:
    """A row that asks for one of a list's rows, without their data."""
    if choice is None or not choice.labels:
        return WHICH
    return f"{WHICH}: {' or '.join(choice.labels)}"


def asked(operation: Operation, known: Sequence[str]) -> set[str]:
    """Arguments that the gateway asked the person for in an earlier reply."""
    heading = _heading(operation)
    rows = (row for text in known if heading in text for row in text.splitlines())
    return {row[2:].partition(":")[0] for row in rows if row.startswith("- ")}


def needs_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by which an operation with this schema finds rows: required ones, else those that search."""
    properties: Mapping[str, Any] = schema["properties"]
    names = schema["required"] or [name for name in properties if searches_by(name)]
    return {name: properties[name] for name in names if name in properties}


def allowed(schema: Any) -> Iterator[Any]:
    """Values that a schema lists, also beside null."""
    if isinstance(schema, dict):
        for word in ("enum", "anyOf", "oneOf"):
            listed = schema.get(word)
            for one in listed if isinstance(listed, list) else ():
                if word == "enum":
                    yield one
                else:
                    yield from allowed(one)


def _heading(operation: Operation) -> str:
    return f"For “{operation.summary.strip('. ') or operation.name}” I need more information:"
