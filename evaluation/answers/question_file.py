"""Reads a user's questions, one JSON object per line. Errors name the line."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from evaluation.answers.records import BenchError, Question

_TEXTS = ("must", "must_not", "gold", "tags")
_MEMBERS = ("id", "question", "messages", "reference", *_TEXTS, "facts", "answerable", "drafted", "group")


def read(path: Path) -> list[Question]:
    """Questions in a file, in file order; empty lines are skipped. Raises BenchError.

    A question without an `id` gets its line number.
    """
    found = read_any(path)
    if not found:
        raise BenchError(f'{path} has no questions: write {{"question": "…"}} on a line each')
    return found


def read_any(path: Path) -> list[Question]:
    """Like `read`, but the file may have no questions yet. Raises BenchError."""
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise BenchError(f"cannot read the questions: {path}: {error.strerror or error}") from error
    found: dict[str, Question] = {}
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            question = _question(line, number)
            if question.id in found:
                raise _Wrong(
                    f"the id {question.id!r} is already in line {places[question.id]}: give each question its own id"
                )
        except _Wrong as error:
            raise BenchError(f"{path}, line {number}: {error}") from error
        found[question.id], places[question.id] = question, number
    return list(found.values())


def about_drafted(questions: Iterable[Question]) -> str:
    """A note about drafted questions that no person has checked; "" if there are none."""
    asked = list(questions)
    models = [str(question.drafted.get("by")) for question in asked if question.drafted is not None]
    if not models:
        return ""
    by = ", ".join(dict.fromkeys(models))
    return f"Drafted by a model ({by}), not checked by a person: {len(models)} of {len(asked)} questions."


def are_mixed(questions: Iterable[Question]) -> bool:
    """Whether some are drafted and some are not."""
    return len({question.drafted is None for question in questions}) > 1


class _Wrong(ValueError):
    pass


def _question(line: bytes, number: int) -> Question:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _Wrong(f"not JSON from column {error.colno} on: {error.msg}") from error
    if not isinstance(row, dict):
        raise _Wrong("must be a JSON object")
    if unknown := sorted(set(row) - set(_MEMBERS)):
        raise _Wrong(f"has an unknown member {unknown[0]!r}; known are {', '.join(_MEMBERS)}")
    row = {name: value for name, value in row.items() if value is not None}
    if "facts" in row and "must" in row:
        raise _Wrong("has both 'facts' and 'must', which mean the same: keep one")
    if "facts" in row:
        row["must"] = row.pop("facts")
    must, must_not, gold, tags = (_texts(row, name) for name in _TEXTS)
    id, messages, reference = (
        _name(row.get("id", number), "id"),
        _messages(row),
        _typed(row, "reference", str, "a text"),
    )
    answerable = _typed(row, "answerable", bool, "true or false")
    group = _name(row["group"], "group") if "group" in row else None
    return Question(id, messages, reference, must, must_not, gold, tags, answerable, _drafted(row), group)


def _name(value: object, member: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).isprintable() or value == "":
        raise _Wrong(f"{member!r} must be a name or a whole number, got {value!r}")
    return str(value)


def _messages(row: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if ("question" in row) == ("messages" in row):
        raise _Wrong("needs either 'question' (a text) or 'messages' (a conversation)")
    if "question" in row:
        text = row["question"]
        if not isinstance(text, str) or not text.strip():
            raise _Wrong("'question' must be a text that is not empty")
        return ({"role": "user", "content": text},)
    messages = row["messages"]
    if not isinstance(messages, list) or not all(
        isinstance(message, dict) and isinstance(message.get("role"), str) and {"content", "tool_calls"} & set(message)
        for message in messages
    ):
        raise _Wrong("'messages' must be a list of objects with 'role' and 'content'")
    if not any(message["role"] == "user" for message in messages):
        raise _Wrong("'messages' has no message with the role 'user': add the question")
    return tuple(messages)


def _typed(row: Mapping[str, Any], name: str, kind: type, expected: str) -> Any:
    """An optional member's value."""
    value = row.get(name)
    if value is not None and not isinstance(value, kind):
        raise _Wrong(f"{name!r} must be {expected}, got {value!r}")
    return value


def _texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A single text becomes a list with one element."""
    value = row.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) and each.strip() for each in texts):
        raise _Wrong(f"{name!r} must be a list of non-empty texts, got {value!r}")
    return tuple(texts)


def _drafted(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    value = row.get("drafted")
    if value is not None and not (isinstance(value, dict) and isinstance(value.get("by"), str)):
        raise _Wrong("'drafted' must be an object with 'by' (the model); remove 'drafted' from a checked question")
    return value
