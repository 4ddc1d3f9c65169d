"""A reply's bytes, as they arrive, to text, tool calls, usage, end and error: the base of every dialect's reader.

The base finds the events in the bytes; a dialect's reader knows the meaning of an event.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from proxy.dialects import sse
from proxy.dialects.token_counts import Tokens, tokens_of_reply

MAX_REPLY_BYTES = 64 * 2**20
_MOST_ERROR_CHARS = 500
_MOST_FAULTS = 20  # of one error
_WORDS = ("message", "msg", "detail", "error", "errors")  # members with the words of an error
_NO_JSON = re.compile("NaN|Infinity")
_DONE = b"[DONE]"  # ends a stream of OpenAI's; in no dialect is the word the data of another event


class ReplyTooLong(ValueError):
    """A reply longer than the reader's limit."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # as the model wrote the arguments: JSON, or text for a custom tool; cut off with the reply
    custom: bool = False  # of a custom tool of chat completions


def called_tool(row: Any) -> dict[str, Any] | None:
    """The member with the name: of a call of a tool, of a piece of a call, or of an entry of `tools`.

    Empty if the row has no such member; None if the member is not an object.
    """
    called = (row.get("function") or row.get("custom") or {}) if isinstance(row, dict) else None
    return called if isinstance(called, dict) else None


def tool_name(row: Any) -> str:
    """The name in an entry of `tools`, in a call of a tool, or in a piece of a call; "": no name."""
    return str((called_tool(row) or {}).get("name") or "")


def content_text(content: object) -> str:
    """The text of the content of a reply; some providers send a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(_text(part.get("text")) for part in parts if isinstance(part, dict))


def arguments_text(arguments: object) -> str:
    """The arguments of a call, or a piece, as text. Some servers write the arguments as a JSON object."""
    return json_bytes(arguments).decode() if isinstance(arguments, dict) else _text(arguments)


class ToolCallPieces:
    """A tool call that arrives in pieces: the first id and name, and the joined arguments."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self._custom = False
        self._arguments: list[str] = []

    def add(self, *, id: object = "", name: object = "", arguments: object = "", custom: bool = False) -> None:
        """Add a piece; another value than a text adds nothing."""
        self.id = self.id or _text(id)
        if not any(self._arguments):  # some servers write the name in pieces, others the whole name in each piece
            piece = _text(name)
            self.name = piece if piece.startswith(self.name) else self.name + piece
        self._custom = self._custom or custom
        self._arguments.append(arguments_text(arguments))

    @property
    def came_whole(self) -> bool:
        """Whether the first piece with arguments had all arguments."""
        first = next(filter(None, self._arguments), "")
        return first.startswith("{") and isinstance(json_of(first.encode("utf-8", "replace")), dict)

    @property
    def are_whole(self) -> bool:
        """Whether the arguments so far are an object."""
        last = next(filter(None, reversed(self._arguments)), "")
        if not last.rstrip().endswith("}"):
            return False
        return isinstance(json_of("".join(self._arguments).encode("utf-8", "replace")), dict)

    def call(self) -> ToolCall:
        return ToolCall(self.id, self.name, _joined(self._arguments), self._custom)


class ReplyReader(ABC):
    """The state of one reply: readable at any time, complete after `close`.

    Time is linear in the bytes, however the bytes are cut. A stream takes the memory of the texts and of one frame.
    """

    def __init__(self, *, streamed: bool, max_bytes: int = MAX_REPLY_BYTES, keep_text: bool = True) -> None:
        """streamed: the reply is an event stream, else a JSON value.

        keep_text: False where only the usage and the end matter; the reader then has no texts and no tool calls.
        """
        self.id = ""  # by which a later request continues the reply, where the dialect has such ids
        self.finish_reason: str | None = None
        self.usage: Tokens | None = None  # as reported so far
        self.text_bytes = 0  # of all texts and calls, in all answers, without the marks of JSON
        self.error = ""  # an error that the reply reports, on one line
        self.has_text = False  # whether the answer is a text; an empty text counts
        self.first_text_ms: float | None = None  # of the answer or of reasoning
        self.ended = False  # by the reply's own mark
        self._streamed = streamed
        self._max_bytes = max_bytes
        self._keep_text = keep_text
        self._size = 0
        self._frames = sse.FrameSplitter()
        self._pieces: list[bytes] = []
        self._answer: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCallPieces] = []
        self._now_ms = 0.0
        self._reported_bytes = 0  # `text_bytes` when the usage was reported last

    def feed(self, received: bytes, at_ms: float = 0.0) -> None:
        """Read the next bytes of the body, which arrived at `at_ms`. Raises ReplyTooLong."""
        self._size += len(received)
        if self._size > self._max_bytes:
            raise ReplyTooLong(f"the reply is longer than {_size_text(self._max_bytes)}")
        if not self._streamed:
            self._pieces.append(received)
            return
        self._now_ms = at_ms
        for frame in self._frames.whole(received):
            self.read_frame(frame)

    def close(self, at_ms: float = 0.0) -> None:
        """Read the rest, at the end of the body."""
        self._now_ms = at_ms
        self._read_data(sse.data_of(self._frames.rest()) if self._streamed else b"".join(self._pieces))

    @property
    def answer(self) -> str | None:
        """The text of the first answer, or of the refusal in place of an answer; None: neither."""
        return _joined(self._answer) or _joined(self._refusal) or None

    @property
    def refused(self) -> bool:
        """Whether the reply marks the answer as a refusal."""
        return not _joined(self._answer) and bool(_joined(self._refusal))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of the first answer, in order."""
        return [pieces.call() for pieces in self._calls]

    @property
    def whole(self) -> bool:
        return self.ended or self.finish_reason is not None

    def tokens(self, request: bytes) -> Tokens:
        """The tokens of the reply, as `tokens_of_reply`. request: the body, for an estimate."""
        final = self.whole and self._reported_bytes == self.text_bytes
        return tokens_of_reply(self.usage, self.text_bytes, request, final=final)

    def read_frame(self, frame: bytes) -> None:
        self._read_data(sse.data_of(frame))

    def read_event(self, event: Mapping[str, Any]) -> None:
        """Read an event of the stream, or the whole reply."""
        before = self.usage
        self._read_event(event)
        if self.usage is not before:
            self._reported_bytes = self.text_bytes

    @abstractmethod
    def _read_event(self, event: Mapping[str, Any]) -> None:
        """Read the event; count the bytes of its texts and calls in `text_bytes`."""

    def _read_data(self, data: bytes | None) -> None:
        if data is None:
            return
        if data.strip() == _DONE:
            self.ended = True
            return
        event = json_of(data)
        if isinstance(event, dict):
            self.read_event(event)

    def _add(self, texts: list[str], text: object) -> None:
        """Add a piece of text, and note the time of the first piece."""
        if isinstance(text, str) and texts is self._answer:
            self.has_text = True
        if isinstance(text, str) and text:
            if self._keep_text:
                texts.append(text)
            if self.first_text_ms is None:
                self.first_text_ms = self._now_ms

    def _tool_call(self, index: int) -> ToolCallPieces | None:
        """The pieces of tool call `index`, the next one included; None for an index beyond, or without texts."""
        if not self._keep_text or not 0 <= index <= len(self._calls):
            return None
        if index == len(self._calls):
            self._calls.append(ToolCallPieces())
        return self._calls[index]


def text_bytes_of(*texts: object) -> int:
    """The bytes of texts: of strings, of JSON objects, and of the texts of lists of parts."""
    return sum(
        len(text.encode("utf-8", "replace")) if isinstance(text, str) else len(json_bytes(text)) if text else 0
        for text in (content_text(each) if isinstance(each, list) else each for each in texts)
        if isinstance(text, str | dict)
    )


def error_text(error: object) -> str:
    """The words of an error, in OpenAI's shape or another shape, on one line; "" for an error without words."""
    text = " ".join(_words_of(error).split())
    return text if len(text) <= _MOST_ERROR_CHARS else text[:_MOST_ERROR_CHARS] + "…"


def _words_of(error: object) -> str:
    """FastAPI and pydantic write a list of faults, each with the place (`loc`) and the words (`msg`)."""
    if isinstance(error, str):
        return error
    if isinstance(error, list):
        return "; ".join(filter(None, map(_words_of, error[:_MOST_FAULTS])))
    if isinstance(error, dict):
        words = next((text for name in _WORDS if (text := _words_of(error.get(name))).strip()), "")
        place = error.get("loc")
        at = ".".join(str(name) for name in place) if isinstance(place, list) and words else ""
        return f"{at}: {words}" if at else words or (json_bytes(error).decode() if any(error.values()) else "")
    return "" if error is None or error is False else str(error)


def read_error(body: bytes) -> tuple[str, str]:
    """The words and the code of an error answer's body, whatever the shape; "" where the body has no code."""
    row = json_of(body)
    error = row.get("error", row) if isinstance(row, dict) else body.decode("utf-8", "replace")
    code = error.get("code") if isinstance(error, dict) else ""
    return error_text(error), code if isinstance(code, str) else ""


def json_of(data: bytes) -> Any:
    """The JSON value, half a surrogate pair allowed; None if the data is not JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None


def json_bytes(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """The value as JSON. Half a surrogate pair, of a cut-off text, is escaped, as the client sent the half."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        text = json.dumps(value)
    if _NO_JSON.search(text):  # as orjson writes the infinities
        text = json.dumps(json.loads(text, parse_constant=lambda _: None))
    return text.encode("ascii")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _joined(texts: list[str]) -> str:
    return "".join(texts).encode("utf-8", "replace").decode()  # no half of a surrogate pair


def _size_text(size: int) -> str:
    return f"{size >> 20} MB" if size >= 2**20 else f"{size >> 10} KB"
