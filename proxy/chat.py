"""A chat request's bytes, read and edited without re-serialising: what is not changed keeps its bytes.

Key order, number spellings, escapes, unknown fields and white space are the client's; the only edits are a
message inserted at the head of `messages`, the value of `model`, and the removal of `rag`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from proxy.errors import ApiError

# A repeated one is refused: two readers of the body could take different ones.
_OURS = ("model", "messages", "rag")
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(_STRING + rb"|[\[\]{},:]", re.DOTALL)
_NESTED = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_SPACE = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Member:
    """Where a top-level member stands in the bytes: key from `start`, value from `value` to `end` (half-open)."""

    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON object as bytes, as values, and with the places of the members that we may edit."""

    raw: bytes
    fields: dict[str, Any]
    members: dict[str, Member]
    order: tuple[Member, ...]  # all top-level members

    def edited(self, *, lead: str = "", model: str | None = None, without_rag: bool = False) -> bytes:
        """The bytes with a leading system message, another model name, without `rag`. No edit: `raw` itself."""
        edits: list[tuple[int, int, bytes]] = []
        if lead:
            at = self.members["messages"].value + 1
            message = b'{"role":"system","content":' + orjson.dumps(lead) + b"}"
            edits.append((at, at, message + (b"," if self.fields["messages"] else b"")))
        if model is not None and model != self.fields.get("model"):
            place = self.members["model"]
            edits.append((place.value, place.end, json.dumps(model).encode()))  # orjson takes no half surrogate pairs
        if without_rag and "rag" in self.members:
            edits.append((*self._span_with_comma(self.members["rag"]), b""))
        raw = self.raw
        for start, end, new in sorted(edits, reverse=True):
            raw = raw[:start] + new + raw[end:]
        return raw

    def _span_with_comma(self, member: Member) -> tuple[int, int]:
        at = self.order.index(member)
        if at + 1 < len(self.order):
            return member.start, self.order[at + 1].start
        return (self.order[at - 1].end if at else member.start), member.end


def parse(raw: bytes) -> Body:
    """Read a request body. Raises ApiError 400: not JSON, not an object, a repeated member of ours."""
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        fields = _with_lone_surrogates(raw, error)
    if not isinstance(fields, dict):
        raise ApiError(400, f"The request body must be a JSON object, got {_kind(fields)}.", code="invalid_body")
    members: dict[str, Member] = {}
    order = []
    for key, member in _members(raw):
        order.append(member)
        if key in _OURS:
            if key in members:
                raise ApiError(
                    400, f"'{key}' stands twice in the request body: send it once.", code="duplicate_field", param=key
                )
            members[key] = member
    return Body(raw, fields, members, tuple(order))


def _with_lone_surrogates(raw: bytes, error: Exception) -> Any:
    """What orjson refuses and JSON allows: an escaped half of a surrogate pair, as cut-off texts have it."""
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_not_json)
    except (ValueError, RecursionError):
        message = f"The request body is not valid JSON: {error}."
        raise ApiError(400, message, code="invalid_json") from error


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _members(raw: bytes) -> list[tuple[str, Member]]:
    """Key and place of every top-level member of valid JSON."""
    members: list[tuple[str, Member]] = []
    at = raw.index(b"{") + 1
    while (key := _TOKEN.search(raw, at)) is not None and key[0][:1] == b'"':
        colon = raw.index(b":", key.end())
        value = colon + 1
        while raw[value] in _SPACE:
            value += 1
        end = _end_of(raw, value)
        members.append((_text_of(key[0]), Member(key.start(), value, end)))
        comma = _TOKEN.search(raw, end)
        if comma is None or comma[0] != b",":
            break
        at = comma.end()
    return members


def _end_of(raw: bytes, value: int) -> int:
    """Where the value that begins at `value` ends."""
    first = raw[value : value + 1]
    if first in b"[{":
        depth = 0
        for token in _NESTED.finditer(raw, value):
            mark = raw[token.start()]
            if mark in b"[{":
                depth += 1
            elif mark in b"]}":
                depth -= 1
                if depth == 0:
                    return token.end()
    match = _TOKEN.search(raw, value)
    assert match is not None, "valid JSON: an object is closed"
    if first == b'"':
        return match.end()
    return value + len(raw[value : match.start()].rstrip(_SPACE))


def _text_of(key: bytes) -> str:
    if b"\\" not in key:
        return key[1:-1].decode("utf-8")
    text: str = json.loads(key)
    return text


def model_of(body: Body) -> str:
    """The `model` named. Raises ApiError 400."""
    model = body.fields.get("model")
    if not isinstance(model, str) or not model:
        message = "You must provide a 'model': the name of a model, as text."
        raise ApiError(400, message, code="missing_model", param="model")
    return model


def messages_of(body: Body) -> Sequence[dict[str, Any]]:
    """The `messages`, at least one, each an object with a role. Raises ApiError 400."""
    messages = body.fields.get("messages")
    if not isinstance(messages, list) or not messages:
        found = "none" if not messages else _kind(messages)
        message = f"'messages' must be a list of at least one message, got {found}."
        raise ApiError(400, message, code="invalid_messages", param="messages")
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            text = f'messages[{i}] must be an object with a \'role\', e.g. {{"role": "user", "content": "…"}}.'
            raise ApiError(400, text, code="invalid_messages", param=f"messages[{i}]")
    return messages


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the text parts of a list; "" where there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(part for part in parts if isinstance(part, str))


def _kind(value: Any) -> str:
    names = {list: "a list", dict: "an object", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
