"""Turns a reply's bytes, as they arrive, into text, tool calls, usage, end and error: the base of all readers.

Tokens are what a reply reports, else an estimate.

The base finds the events; a dialect's reader knows what they mean. The reader of chat completions is here, too, because
every round with the gateway's tools is one.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from proxy.dialects import sse

BYTES_PER_TOKEN = 4
ATTACHMENT_TOKENS = 1000  # per image or sound: its bytes do not tell how many
# To find base64 in one pass: each base64 character becomes an x, any other byte a space. A regular expression for runs
# took 0.5 s for 14 MB of text, and 20 s for 4 MB of 1,900-letter words.
_BASE64 = bytes(
    ord("x" if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/=") else " ") for code in range(256)
)
_LONG_RUN = b"x" * 2000
# Within a text, quotes would be escaped, so a match is a member's name.
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_TIER = re.compile(rb'"service_tier"\s*:\s*"(\w{1,32})"')
_DECODER = json.JSONDecoder()
_MESSAGE_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_MOST_TOKENS = 10**12  # per call: no real count is larger, and no column could hold its price


def announces_stream(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether reply headers announce an event stream."""
    return dict(headers).get(b"content-type", b"").startswith(b"text/event-stream")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens used by one model call, or by several together."""

    prompt: int  # injected passages included
    completion: int
    cached: int = 0  # of the prompt, read from the provider's cache
    reasoning: int = 0  # of the completion
    estimated: bool = False  # the upstream did not report every count
    cache_writes: int = 0  # of the prompt, written to the provider's cache
    hour_cache_writes: int = 0  # of these, kept for an hour
    tier: str = field(default="", compare=False)  # the provider's, with its own price; "": not named
    # Each call, if there are several. Prices depend on the length of a single prompt.
    parts: tuple["Tokens", ...] = field(default=(), compare=False, repr=False)

    @property
    def calls(self) -> tuple["Tokens", ...]:
        return self.parts or ((self,) if self.prompt or self.completion else ())

    def plus(self, other: "Tokens") -> "Tokens":
        numbers = ("prompt", "completion", "cached", "reasoning", "cache_writes", "hour_cache_writes")
        return Tokens(
            **{name: getattr(self, name) + getattr(other, name) for name in numbers},
            estimated=self.estimated or other.estimated,
            tier=self.tier or other.tier,
            parts=(*self.calls, *other.calls),
        )


def estimated_tokens(body: bytes) -> int:
    """A rough estimate for a request body: one token for four bytes, a thousand for an attachment."""
    if len(body) < 4000:
        return -(-len(body) // BYTES_PER_TOKEN)
    signs, size, attachments = body.translate(_BASE64), len(body), 0
    at = signs.find(_LONG_RUN)
    while at >= 0:
        end = signs.find(b" ", at)
        end = len(signs) if end < 0 else end
        size, attachments = size - (end - at), attachments + 1
        at = signs.find(_LONG_RUN, end)
    return -(-size // BYTES_PER_TOKEN) + attachments * ATTACHMENT_TOKENS


def holds_attachment(start: bytes) -> bool:
    """Whether a base64 image or sound begins in a JSON body's first bytes."""
    return _LONG_RUN in start.translate(_BASE64)


def tokens_of_reply(reported: Tokens | None, text_bytes: int, request: bytes, *, final: bool) -> Tokens:
    """A reply's tokens: as reported, if that is `final`, else an estimate.

    A report is not final if more text came after it (a message reports its prompt at the beginning), or if the reply
    did not reach its end: when a client leaves, nobody knows the rest.
    """
    if reported is not None and final:
        return reported
    known = reported or Tokens(estimated_tokens(request), 0)
    answer = max(known.completion, -(-text_bytes // BYTES_PER_TOKEN))
    return replace(known, completion=answer, estimated=True)


def reported_tokens(usage: Mapping[str, Any]) -> Tokens | None:
    """Counts in OpenAI's `usage`, as chat completions or responses spell them; None: no prompt count.

    Embeddings report only a prompt.
    """
    prompt = _count(usage, "prompt_tokens", "input_tokens")
    if prompt is None:
        return None
    completion = _count(usage, "completion_tokens", "output_tokens") or 0
    in_details, out_details = ("prompt_tokens_details", "input_tokens_details"), ("completion_tokens_details",)
    cached = min(_detail(usage, in_details, "cached_tokens"), prompt)
    reasoning = _detail(usage, (*out_details, "output_tokens_details"), "reasoning_tokens")
    written = _detail(usage, in_details, "cache_write_tokens", "cache_creation_tokens")
    written = min(written or _count(usage, "cache_creation_input_tokens") or 0, prompt - cached)
    return Tokens(prompt, completion, cached, min(reasoning, completion), cache_writes=written, tier=_tier(usage))


def cumulative_tokens(usages: Sequence[Mapping[str, Any]]) -> Tokens | None:
    """Counts in the `usage` objects of one Anthropic message; None: no count.

    Later events repeat or raise earlier counts, so the largest ones hold. If `iterations` lists several model calls,
    such as a compaction, their sums count. `input_tokens` leaves out what the provider's cache wrote or read.
    """
    totals = [total for usage in usages if (total := _total_of_iterations(usage))] or usages
    most = dict.fromkeys(_MESSAGE_COUNTS, -1)
    for usage in totals:
        for name in most:
            if (count := _count(usage, name)) is not None:
                most[name] = max(most[name], count)
    new, written, cached, completion = most.values()
    if new < 0 and completion < 0:
        return None
    written, cached, completion = max(0, written), max(0, cached), max(0, completion)
    prompt = max(0, new) + written + cached
    hour = max((_detail(usage, ("cache_creation",), "ephemeral_1h_input_tokens") for usage in usages), default=0)
    thought = max((_detail(usage, ("output_tokens_details",), "thinking_tokens") for usage in usages), default=0)
    return Tokens(
        min(prompt, _MOST_TOKENS),
        completion,
        cached,
        min(thought, completion),
        cache_writes=written,
        hour_cache_writes=min(hour, written),
        tier=next(filter(None, map(_tier, reversed(usages))), ""),
    )


def _total_of_iterations(usage: Mapping[str, Any]) -> Mapping[str, int]:
    iterations = usage.get("iterations")
    calls = [each for each in iterations if isinstance(each, dict)] if isinstance(iterations, list) else []
    totals = {name: sum(_count(call, name) or 0 for call in calls) for name in _MESSAGE_COUNTS}
    return {name: min(total, _MOST_TOKENS) for name, total in totals.items()} if calls else {}


def usages_in(end: bytes) -> Iterator[Mapping[str, Any]]:
    """The `usage` objects near a reply's end, last one first."""
    for found in reversed(list(_USAGE.finditer(end))):
        try:
            usage, _ = _DECODER.raw_decode(end[found.end() - 1 :].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        yield usage


def tier_in(end: bytes) -> str:
    """The service tier named last near the end of an OpenAI reply; "": none."""
    return next((found[1].decode() for found in reversed(list(_TIER.finditer(end)))), "")


def _tier(usage: Mapping[str, Any]) -> str:
    tier = usage.get("service_tier")
    return tier if isinstance(tier, str) else ""


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    """The first count among these members; a whole number written as 11.0 is one, too."""
    for name in names:
        value = counts.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return int(value) if value == int(value) else None
    return None


def _detail(usage: Mapping[str, Any], groups: Sequence[str], *names: str) -> int:
    for group in groups:
        details = usage.get(group)
        if isinstance(details, dict):
            return _count(details, *names) or 0
    return 0


MAX_REPLY_BYTES = 64 * 2**20
_MOST_ERROR_CHARS = 500
_MOST_FAULTS = 20  # in one error
_WORDS = ("message", "msg", "detail", "error", "errors")  # members that hold an error's words
_NO_JSON = re.compile("NaN|Infinity")
_DONE = b"[DONE]"  # ends OpenAI's streams; means nothing else in any dialect


class ReplyTooLong(ValueError):
    """The reply is longer than its reader's limit."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # as the model wrote them: JSON, or text for a custom tool; cut off with the reply
    custom: bool = False  # a chat completion's custom tool


def called_tool(row: Any) -> dict[str, Any] | None:
    """The member that holds the name, in a tool call, a piece of one, or an entry of `tools`.

    Empty if there is none; None if it is not an object.
    """
    called = (row.get("function") or row.get("custom") or {}) if isinstance(row, dict) else None
    return called if isinstance(called, dict) else None


def tool_name(row: Any) -> str:
    """The name in an entry of `tools`, a tool call or a piece of one; "": no name."""
    return str((called_tool(row) or {}).get("name") or "")


def content_text(content: object) -> str:
    """A reply's content as text; some providers send a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(_text(part.get("text")) for part in parts if isinstance(part, dict))


def arguments_text(arguments: object) -> str:
    """A call's arguments, or a piece of them, as text. Some servers write them as a JSON object."""
    return json_bytes(arguments).decode() if isinstance(arguments, dict) else _text(arguments)


class ToolCallPieces:
    """A tool call that arrives in pieces: its first id and name, and its joined arguments."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self._custom = False
        self._arguments: list[str] = []

    def add(self, *, id: object = "", name: object = "", arguments: object = "", custom: bool = False) -> None:
        """Add a piece; values that are not texts add nothing."""
        self.id = self.id or _text(id)
        if not any(self._arguments):  # some servers split the name, others repeat it in each piece
            piece = _text(name)
            self.name = piece if piece.startswith(self.name) else self.name + piece
        self._custom = self._custom or custom
        self._arguments.append(arguments_text(arguments))

    @property
    def came_whole(self) -> bool:
        """Whether the first piece with arguments had them all."""
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

    Time is linear in the bytes, however they are cut. A stream takes memory for its texts and one frame.
    """

    def __init__(self, *, streamed: bool, max_bytes: int = MAX_REPLY_BYTES, keep_text: bool = True) -> None:
        """streamed: whether to expect an event stream; else a JSON value.

        keep_text: False if only usage and end matter; the reader then has neither texts nor tool calls.
        """
        self.id = ""  # for a later request to continue from, if the dialect has such ids
        self.finish_reason: str | None = None
        self.usage: Tokens | None = None  # as reported so far
        self.text_bytes = 0  # texts and calls, in all answers, without JSON's own marks
        self.error = ""  # as reported in the reply, on one line
        self.has_text = False  # whether the answer is text, even an empty one
        self.first_text_ms: float | None = None  # answer or reasoning
        self.ended = False  # by its own mark
        self._streamed = streamed
        self._max_bytes = max_bytes
        self._keep_text = keep_text
        self._size = 0
        if streamed:
            self._frames = sse.FrameSplitter()
        self._pieces: list[bytes] = []
        self._answer: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCallPieces] = []
        self._now_ms = 0.0
        self._reported_bytes = 0  # `text_bytes` when usage was last reported

    def feed(self, received: bytes, at_ms: float = 0.0) -> None:
        """Read the body's next bytes, which arrived at `at_ms`. Raises ReplyTooLong."""
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
        """Read what is left when the body has ended."""
        self._now_ms = at_ms
        self._read_data(sse.data_of(self._frames.rest()) if self._streamed else b"".join(self._pieces))

    @property
    def answer(self) -> str | None:
        """The first answer's text, or the refusal in its place; None: neither."""
        return _joined(self._answer) or _joined(self._refusal) or None

    @property
    def refused(self) -> bool:
        """Whether the answer is marked as a refusal."""
        return not _joined(self._answer) and bool(_joined(self._refusal))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Tool calls in the first answer, in order."""
        return [pieces.call() for pieces in self._calls]

    @property
    def whole(self) -> bool:
        return self.ended or self.finish_reason is not None

    def tokens(self, request: bytes) -> Tokens:
        """The reply's tokens, as `tokens_of_reply` counts. request: its body, for an estimate."""
        final = self.whole and self._reported_bytes == self.text_bytes
        return tokens_of_reply(self.usage, self.text_bytes, request, final=final)

    def read_frame(self, frame: bytes) -> None:
        self._read_data(sse.data_of(frame))

    def read_event(self, event: Mapping[str, Any]) -> None:
        """Read one streamed event, or the whole reply."""
        before = self.usage
        self._read_event(event)
        if self.usage is not before:
            self._reported_bytes = self.text_bytes

    @abstractmethod
    def _read_event(self, event: Mapping[str, Any]) -> None:
        """Read the event; add its texts and calls to `text_bytes`."""

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
        """Add a piece of text, and note when the first one came."""
        if isinstance(text, str) and texts is self._answer:
            self.has_text = True
        if isinstance(text, str) and text:
            if self._keep_text:
                texts.append(text)
            if self.first_text_ms is None:
                self.first_text_ms = self._now_ms

    def _tool_call(self, index: int) -> ToolCallPieces | None:
        """The pieces of tool call `index`, which may be the next one; None beyond that, or without texts."""
        if not self._keep_text or not 0 <= index <= len(self._calls):
            return None
        if index == len(self._calls):
            self._calls.append(ToolCallPieces())
        return self._calls[index]


class ChatReplyReader(ReplyReader):
    """Reads a chat completion's first choice, streamed or whole; of further choices, only how they end."""

    def __init__(self, *, streamed: bool, **options: Any) -> None:
        super().__init__(streamed=streamed, **options)
        self.finished: dict[int, bool] = {}  # index of a choice -> whether it has a finish reason
        self.call_numbers: list[int] = []  # in the latest event: each piece's call number; -1: none
        self._by_index: dict[int, int] = {}  # index as written -> number of the newest call
        self._by_id: dict[str, int] = {}

    def _read_event(self, event: Mapping[str, Any]) -> None:
        self.call_numbers = []
        if event.get("error"):
            self.error = error_text(event["error"])
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.usage = tokens if (tokens := reported_tokens(usage)) is not None else self.usage
        if self.usage is not None and not self.usage.tier and isinstance(tier := event.get("service_tier"), str):
            self.usage = replace(self.usage, tier=tier)
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            index = choice.get("index", 0) if isinstance(choice, dict) else None
            if isinstance(choice, dict):
                self.text_bytes += _bytes_of_choice(choice)
            if isinstance(index, int):
                self.finished[index] = self.finished.get(index, False) or choice.get("finish_reason") is not None
                if index == 0:
                    self._read_choice(choice)

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        if "message" in choice:
            self.ended = True
        message = choice.get("delta") or choice.get("message") or {}
        if isinstance(message, dict):
            content = message.get("content")
            self._add(self._answer, content_text(content) if isinstance(content, list) else content)
            self._add(self._refusal, message.get("refusal"))
            for name in ("reasoning_content", "reasoning"):
                self._add(self._reasoning, message.get(name))
            calls = message.get("tool_calls")
            for place, call in enumerate(calls if isinstance(calls, list) else ()):
                if isinstance(call, dict):
                    self._read_call(call, place)
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]

    def _read_call(self, call: Mapping[str, Any], place: int) -> None:
        """A whole tool call, or a piece of one: in most streams, only the first piece has id and name."""
        called = called_tool(call)
        if called is None:
            self.call_numbers.append(-1)
            return
        id, name, arguments = call.get("id"), called.get("name"), called.get("arguments") or called.get("input")
        number = self._number_of(call.get("index"), place, id, begins=bool(name), full=bool(arguments))
        self.call_numbers.append(number)
        if (pieces := self._tool_call(number)) is not None:
            pieces.add(id=id, name=name, arguments=arguments, custom="custom" in call)
            self._by_id.setdefault(pieces.id, number)

    def _number_of(self, index: object, place: int, id: object, *, begins: bool, full: bool) -> int:
        """Which call a piece belongs to. begins: the piece has a name. full: it has arguments.

        Some servers write index 0 for every call, no index, or indexes from 1. So a name with another id begins a new
        call. So does a name with arguments, if the call before has no id and got its arguments in one piece.
        """
        if not self._streamed:  # each call in a whole reply is whole, even if two share an id
            index = place
        elif not isinstance(index, int):
            if isinstance(id, str) and id in self._by_id:
                return self._by_id[id]
            index = place
        number = self._by_index.get(index)
        if number is not None and number < len(self._calls) and begins:
            known = self._calls[number]
            other = id != known.id if id and known.id else not id and full and known.came_whole
            number = None if other and known.name else number
        if number is None:
            number = self._by_index[index] = len(self._calls)
        return number


def _bytes_of_choice(choice: Mapping[str, Any]) -> int:
    """Bytes of texts and calls in a choice or a piece. Some providers write thoughts twice, in two members."""
    message = choice.get("delta") or choice.get("message")
    if not isinstance(message, dict):
        return text_bytes_of(choice.get("text"))  # a plain completion
    calls = message.get("tool_calls")
    called = [message.get("function_call"), *(map(called_tool, calls) if isinstance(calls, list) else ())]
    pieces = [each.get("arguments") or each.get("input") for each in called if isinstance(each, dict)]
    texts = (message.get("content"), message.get("refusal"), *pieces)
    return text_bytes_of(*texts, either=(message.get("reasoning_content"), message.get("reasoning")))


def text_bytes_of(*texts: object, either: Sequence[object] = ()) -> int:
    """How many bytes texts have: strings, JSON objects, and texts in lists of parts.

    either: further texts, of which the longest counts.
    """
    return sum(map(_bytes_of, texts)) + max(map(_bytes_of, either), default=0)


def _bytes_of(text: object) -> int:
    text = content_text(text) if isinstance(text, list) else text
    if isinstance(text, str):
        return len(text.encode("utf-8", "replace"))
    return len(json_bytes(text)) if text and isinstance(text, dict) else 0


def error_text(error: object) -> str:
    """An error's words, in OpenAI's shape or another, on one line; "" if it has none."""
    text = " ".join(_words_of(error).split())
    return text if len(text) <= _MOST_ERROR_CHARS else text[:_MOST_ERROR_CHARS] + "…"


def _words_of(error: object) -> str:
    """FastAPI and pydantic write a list of faults, each with a place (`loc`) and words (`msg`)."""
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
    """An error body's words and code, whatever its shape; "" if it has no code."""
    row = json_of(body)
    error = row.get("error", row) if isinstance(row, dict) else body.decode("utf-8", "replace")
    code = error.get("code") if isinstance(error, dict) else ""
    return error_text(error), code if isinstance(code, str) else ""


def json_of(data: bytes) -> Any:
    """Read JSON, allowing half a surrogate pair; None if the data is not JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None


def json_bytes(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """The value as JSON. Half a surrogate pair, from a cut-off text, is escaped, as the client sent it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        text = json.dumps(value)
    if _NO_JSON.search(text):  # as orjson writes infinities
        text = json.dumps(json.loads(text, parse_constant=lambda _: None))
    return text.encode("ascii")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _joined(texts: list[str]) -> str:
    return "".join(texts).encode("utf-8", "replace").decode()  # no half surrogate pairs


def _size_text(size: int) -> str:
    return f"{size >> 20} MB" if size >= 2**20 else f"{size >> 10} KB"
