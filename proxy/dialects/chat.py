"""A chat request's bytes, read and edited without re-serialising: what is not changed keeps its bytes.

Key order, number spellings, escapes, unknown fields and white space are the client's; the only edits are a
text put in at one of three positions, the value of `model`, and the removal of `rag`. Places in the bytes are
looked up when an edit needs them: a request that is only read is parsed once, in C.

Nothing here keeps other threads waiting for long: a body with very many values is refused before it is parsed, and a
large one is looked through in steps. So the event loop goes on while a thread reads it (`proxy.body`).
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from proxy.errors import ApiError
from proxy.exchange import Position

# A repeated one is refused: two readers of the body could take different ones.
_OURS = ("model", "messages", "rag")
_OURS_QUOTED = [(key, b'"%b"' % key.encode()) for key in _OURS]
# What is read of a body here, and so must mean the same to whoever reads the body next.
_READ = frozenset(
    (*_OURS, "stream", "stream_options", "n", "best_of", "max_tokens", "max_completion_tokens", "max_output_tokens",
     "prompt", "input", "tools", "functions", "response_format")
)  # fmt: skip
LARGE_BYTES = 1 << 18  # of a body; the worst of a smaller one is read within 20 ms
_STEP_BYTES = 1 << 20  # looked through in one call
# Parsing takes some 0.1 µs for each list, object and member, and 0.02 µs for each item of a list.
_MOST_MEMBERS = 100_000  # lists, objects and members of objects
_LONGEST_NAME = 40  # characters; ours are shorter, and so are their spellings
_MOST_VALUES = 1_000_000  # commas: token numbers for `/v1/embeddings` are many
# A letter of such a key spelled as an escape; without one, the key's bytes are its name between quotes.
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")
_INSTRUCTIONS = ("system", "developer")
_LONG_NUMBER = re.compile(rb"[0-9]{40}|[eE][+-]?[0-9]{4}")
_SPACES = re.compile(rb"[ \t\r\n]*")
_NUMBER_OR_WORD = re.compile(rb"[^\s,\]}]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_KEY = re.compile(_STRING.pattern + rb"\s*:\s*")
# The next bracket outside of strings.
_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])')
# The same where no quote is escaped (`_plain`): eight times faster through long texts.
_PLAIN_STRING = re.compile(rb'"[^"]*+"')
_PLAIN_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"]*+")*+([\[\]{}])')


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON object as bytes, as values, and with the places of the members that we may edit."""

    raw: bytes
    fields: dict[str, Any]
    members: Mapping[str, int]  # of ours, those that are there -> where the key begins

    def edited(
        self, *, context: str = "", position: Position = "lead", model: str | None = None, without_rag: bool = False
    ) -> bytes:
        """The bytes with a text put in at a position, another model name, without `rag`. No edit: `raw` itself."""
        edits: list[tuple[int, int, bytes]] = []
        if context:
            at, new = self._insertion(context, position)
            edits.append((at, at, new))
        if model is not None and model != self.fields.get("model"):
            value = _value_at(self.raw, self.members["model"])
            end = _end_of(self.raw, value, _STRING, _BRACKET)
            edits.append((value, end, json.dumps(model).encode()))  # orjson takes no half surrogate pairs
        if without_rag and "rag" in self.members:
            edits.append((*self._span_with_comma(self.members["rag"]), b""))
        if not edits:
            return self.raw
        pieces, done = [], 0
        for start, end, new in sorted(edits):
            pieces += [self.raw[done:start], new]
            done = end
        return b"".join([*pieces, self.raw[done:]])

    def _insertion(self, context: str, position: Position) -> tuple[int, bytes]:
        """Where the text goes, and the bytes that say it there."""
        messages = self.fields["messages"]
        start = _value_at(self.raw, self.members["messages"])
        index = _message_for(position, messages)
        if index >= 0:
            content = messages[index]["content"]
            plain = _plain(self.raw)
            value, end = _content_of(self.raw, plain, _nth_item(plain, start, index))
            if isinstance(content, str):
                text = "\n\n" + context if plain[value + 1] != ord('"') else context
                return end - 1, orjson.dumps(text)[1:-1]
            part = b'{"type":"text","text":' + orjson.dumps(context) + b"}"
            return end - 1, b"," + part if content else part
        message = b'{"role":"system","content":' + orjson.dumps(context) + b"}"
        return start + 1, message + (b"," if messages else b"")

    def _span_with_comma(self, start: int) -> tuple[int, int]:
        """The member that begins there with the comma that goes with it: the one behind it, else the one before."""
        end = _end_of(self.raw, _value_at(self.raw, start), _STRING, _BRACKET)
        behind = _after_spaces(self.raw, end)
        if self.raw[behind] == ord(","):
            return start, _after_spaces(self.raw, behind + 1)
        before = self.raw[:start].rstrip()
        return (len(before[:-1].rstrip()) if before.endswith(b",") else start), end


def _message_for(position: Position, messages: Sequence[Any]) -> int:
    """Index of the message whose content takes the text; -1: it becomes a first message of its own."""
    if position == "merge":
        roles: Sequence[str] = _INSTRUCTIONS
        order = range(len(messages))
    elif position == "tail":
        roles, order = ("user",), range(len(messages) - 1, -1, -1)
    else:
        return -1
    index = next((i for i in order if isinstance(messages[i], dict) and messages[i].get("role") in roles), -1)
    return index if index >= 0 and isinstance(messages[index].get("content"), str | list) else -1


def parse(raw: bytes) -> Body:
    """Read a request body. Raises ApiError 400: not JSON, not an object, too many values, a member of ours that is
    repeated or spelled in another way.
    """
    if len(raw) > LARGE_BYTES:
        _check_size(raw)
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        fields = _with_lone_surrogates(raw, error)
    if not isinstance(fields, dict):
        raise ApiError(400, f"The request body must be a JSON object, got {_kind(fields)}.", code="invalid_body")
    _check_spellings(fields)
    members = _members_named_once(raw, fields)
    return Body(raw, fields, _members_of_ours(raw) if members is None else members)


def _check_size(raw: bytes) -> None:
    """Raises ApiError 400 where there are so many values that parsing them would take long."""
    if _within(raw[start : start + _STEP_BYTES] for start in range(0, len(raw), _STEP_BYTES)):
        return
    if not _within(_outside_texts(raw)):  # most may stand in texts
        message = (
            f"The request body holds too many values: at most {_MOST_MEMBERS} lists, objects and members of objects, "
            f"and {_MOST_VALUES} values in all."
        )
        raise ApiError(400, message, code="invalid_body")


def _within(steps: Iterable[bytes]) -> bool:
    members = values = 0
    for step in steps:
        members += step.count(b"[") + step.count(b"{") + step.count(b":")
        values += step.count(b",")
        if members > _MOST_MEMBERS or values > _MOST_VALUES:
            return False
    return True


def _outside_texts(raw: bytes) -> Iterator[bytes]:
    """The bytes that stand outside of strings, step by step; of any bytes, JSON or not."""
    inside = False
    for step in _steps(raw):
        pieces = _plain(step).split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= len(pieces) % 2 == 0


def _steps(raw: bytes) -> Iterator[bytes]:
    """The bytes in pieces that tear no escape."""
    start = 0
    while start < len(raw):
        step = raw[start : start + _STEP_BYTES]
        if (len(step) - len(step.rstrip(b"\\"))) % 2:
            step = raw[start : start + _STEP_BYTES + 1]
        start += len(step)
        yield step


def _check_spellings(fields: Mapping[str, Any]) -> None:
    """Refuse what another reader may take for a member that is read here.

    Readers in Go find "Model" for `model`, and "ſtream" for `stream`. Raises ApiError 400.
    """
    for name in fields:
        if name in _READ or len(name) > _LONGEST_NAME or (name.isascii() and name.islower()):
            continue
        meant = unicodedata.normalize("NFKC", name).casefold()
        if meant in _READ:
            message = f"{name!r} in the request body could be read as '{meant}': write '{meant}', once."
            raise ApiError(400, message, code="ambiguous_field", param=name)


def _members_named_once(raw: bytes, fields: Mapping[str, Any]) -> Mapping[str, int] | None:
    """The members of ours where they are found without a scan, else None.

    A name between quotes that stands in the bytes once is the member itself: inside a text its quotes would be
    escaped. So most bodies need no look at their structure.
    """
    if any(_ESCAPED_LETTER.search(raw, start, end) for start, end in _overlapping(raw)):
        return None
    members = {}
    for key, name in _OURS_QUOTED:
        start = _find(raw, name, 0)
        if start >= 0 and _find(raw, name, start + len(name)) >= 0:
            return None
        if key in fields:
            members[key] = start
    return members


def _find(raw: bytes, name: bytes, start: int) -> int:
    found = (raw.find(name, first, last) for first, last in _overlapping(raw, start))
    return next((place for place in found if place >= 0), -1)


def _overlapping(raw: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
    """Begin and end of pieces of the bytes; a short name stands whole in one of them."""
    return ((at, at + _STEP_BYTES + _LONGEST_NAME) for at in range(start, len(raw), _STEP_BYTES))


def _members_of_ours(raw: bytes) -> Mapping[str, int]:
    """The same by a walk through the object. Raises ApiError 400 where one of ours is repeated."""
    members: dict[str, int] = {}
    plain = _plain(raw)
    for key, start, _ in _members(raw, plain, plain.index(b"{")):
        if key in _OURS:
            if key in members:
                message = f"'{key}' stands twice in the request body: send it once."
                raise ApiError(400, message, code="duplicate_field", param=key)
            members[key] = start
    return members


def _with_lone_surrogates(raw: bytes, error: Exception) -> Any:
    """What orjson refuses and JSON allows: an escaped half of a surrogate pair, as cut-off texts have it."""
    try:
        if any(_LONG_NUMBER.search(structure) for structure in _outside_texts(raw)):
            raise ValueError("a number has too many digits")  # Python reads 4,000 of them in 0.1 ms
        return json.loads(raw.decode("utf-8"), parse_constant=_not_json)
    except (ValueError, RecursionError):
        message = f"The request body is not valid JSON: {error}."
        raise ApiError(400, message, code="invalid_json") from error


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Places in the bytes of valid JSON


def _plain(raw: bytes) -> bytes:
    """As many bytes, with every place kept, but no escaped quote: here a string ends at the next quote."""
    if b"\\" not in raw:
        return raw
    if len(raw) > 2 * _STEP_BYTES:
        return b"".join(map(_plain, _steps(raw)))
    return raw.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")


def _members(raw: bytes, plain: bytes, opening: int) -> Iterator[tuple[str, int, int]]:
    """Every member of the object that opens there: its key, and where key and value begin."""
    at = _after_spaces(plain, opening + 1)
    while plain[at] == ord('"'):
        value = _value_at(raw, at)
        yield _text_of_key(raw[at : plain.index(b'"', at + 1) + 1]), at, value
        at = _after_spaces(plain, _end_of(plain, value))
        if plain[at] == ord(","):
            at = _after_spaces(plain, at + 1)


def _nth_item(plain: bytes, opening: int, index: int) -> int:
    """Where the item of the list that opens there begins; the list has that many."""
    at = _after_spaces(plain, opening + 1)
    for _ in range(index):
        at = _after_spaces(plain, plain.index(b",", _end_of(plain, at)) + 1)
    return at


def _content_of(raw: bytes, plain: bytes, message: int) -> tuple[int, int]:
    """Begin and end of a message's `content`: of the last one, which is the one that parsers take."""
    value = [value for key, _, value in _members(raw, plain, message) if key == "content"][-1]
    return value, _end_of(plain, value)


def _end_of(
    plain: bytes, value: int, string: re.Pattern[bytes] = _PLAIN_STRING, brackets: re.Pattern[bytes] = _PLAIN_BRACKET
) -> int:
    """Where the value that begins there ends; with the slower patterns in any bytes, not only in plain ones."""
    first = plain[value : value + 1]
    if first not in b"[{":
        found = (string if first == b'"' else _NUMBER_OR_WORD).match(plain, value)
        assert found is not None, "valid JSON: a text is closed"
        return found.end()
    depth = 0
    for bracket in brackets.finditer(plain, value):
        depth += 1 if bracket[1] in b"[{" else -1
        if depth == 0:
            return bracket.end()
    raise AssertionError("valid JSON: what is opened is closed")


def _value_at(raw: bytes, start: int) -> int:
    """Where the value begins whose key begins there."""
    found = _KEY.match(raw, start)
    assert found is not None, "valid JSON: a key has a value"
    return found.end()


def _after_spaces(raw: bytes, at: int) -> int:
    spaces = _SPACES.match(raw, at)
    assert spaces is not None, "it matches nothing, too"
    return spaces.end()


def _text_of_key(key: bytes) -> str:
    if b"\\" not in key:
        return key[1:-1].decode("utf-8")
    text: str = json.loads(key)
    return text


# What is read of it


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
