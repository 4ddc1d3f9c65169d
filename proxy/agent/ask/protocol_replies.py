"""Replies of models that write calls as text: the reply as a model with tool calls of its own would write the reply.

The answer's text passes as the text comes, out of the JSON where the answer is JSON. A call becomes a call of a tool,
and the text after the call is left out: small models go on with results that they make up. A thought before the answer
passes as text.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from proxy.agent.client_reply import ReplyHead, first_choice
from proxy.agent.text_calls.spelled_calls import PLACES, after_marks, begins_call, cut_call, spelled_call
from proxy.agent.text_calls.written_calls import Stands, is_quote, stands_nowhere
from proxy.asgi import Message, Send, with_length
from proxy.dialects import sse
from proxy.dialects.replies import ToolCall, json_bytes, json_of

_FENCE = r"\s*(?:```\w*\s*)?"
_SAY = re.compile(_FENCE + r'\{\s*"say"\s*:\s*"')
# After no mark or one of these marks, an object of a call with a name of no tool is a call, too.
_PLAIN_CALL = re.compile(
    r"\s*(?:```(?:json)?|<tool_call>|<function_call>|\[TOOL_CALLS\])?\s*"
    r'\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"\s*,\s*"(?:arguments|parameters)"\s*:'
)
_SAY_BEGINNING = '{"say":"'
_THOUGHT, _THOUGHT_END = "<think>", "</think>"  # some templates write the beginning, and the model only the end
_CALL_BEGINNINGS = ('"name":"', '","arguments":', '","parameters":', '"}')
# A part of a JSON text: characters, a pair of surrogates, or an escape. Half an escape at the end of a piece waits.
_HEX = "[0-9a-fA-F]"
_PART = re.compile(
    rf'[^"\\]+|\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|\\u{_HEX}{{4}}|\\[^u]|\\u(?={_HEX}{{0,3}}[^0-9a-fA-F])'
)
_HIGH = re.compile(rf"\\u[dD][89abAB]{_HEX}{{2}}")
_MAY_BE_LOW = re.compile(rf"(?:\\(?:u{_HEX}{{0,3}})?)?")
_MOST_NAME_CHARS = 200
_MOST_QUOTES = 20  # of calls in one answer; what follows is text
_MOST_BEGINNING_CHARS = 1_000  # of a text, that show whether a call begins

Json = dict[str, Any]


class ProtocolText:
    """The text of one answer, in pieces."""

    def __init__(
        self,
        owns: Callable[[str], bool],
        owns_beginning: Callable[[str], bool],
        *,
        says: bool,
        stands: Stands = stands_nowhere,
    ) -> None:
        """owns: whether a tool of the gateway has this name; owns_beginning: a name with this beginning.

        says: an answer is a JSON object with the member `say`, whose text makes no call. stands: as in `written_calls`.
        """
        self._owns = owns
        self._owns_beginning = owns_beginning
        self._says = says
        self._stands = stands
        self._state = "begins"  # -> says, call, said or prose
        self._held = ""
        self._last = ""  # the last character of the text for the client: a call does not begin in a word
        self._before: list[str] = []  # the text for the client
        self._ended_thought = False  # the text for the client has the end of a thought
        self._after: list[str] = []  # the text from the beginning of the call on
        self._thinks = False  # the text is a thought, which makes no call
        self._thought = False  # a thought has ended
        self.unwrapped = False  # an answer came without the JSON object of the protocol

    def feed(self, piece: str) -> str:
        """The text for the client, after one more piece."""
        shown = self._fed(piece)
        self._before.append(shown)
        return shown

    def _fed(self, piece: str) -> str:
        if self._state in ("call", "said"):
            self._after.append(piece)
            return ""
        self._held += piece
        if self._state == "begins":
            self._begin()
        if self._state == "says":
            return self._spoken()
        return self._prose() if self._state == "prose" else ""

    def end(self) -> tuple[str, ToolCall | None]:
        """The rest of the text for the client, and the call."""
        shown = ""
        for _ in range(_MOST_QUOTES):
            if self._state != "call":
                text, call = self._end_text()
                return shown + text, call
            text = self._held + "".join(self._after)
            found = spelled_call(text, self._named_first(text))
            if found is None:
                return shown + text, None
            if not is_quote(found, self._answer(), text, self._stands):
                return shown, found.call
            self._state, self._held, self._after, self._last = "prose", "", [], text[found.end - 1]
            self._before.append(text[: found.end])
            shown += text[: found.end] + self.feed(text[found.end :])
        return shown + self._held + "".join(self._after), None

    def _answer(self) -> str:
        """The text for the client, without a thought."""
        before = "".join(self._before)
        return before.partition(_THOUGHT_END)[2] if self._ended_thought else before

    def _named_first(self, text: str) -> Callable[[str], bool]:
        """Which names are tools: at the beginning of an answer any name, because small models make names up."""
        named = None if any(self._before) else _PLAIN_CALL.match(text)
        return self._owns if named is None else named["name"].__eq__

    def _end_text(self) -> tuple[str, ToolCall | None]:
        """The rest of an answer in which no call has begun for certain."""
        held, self._held = self._held, ""
        if self._state in ("says", "said"):
            return "", None
        if not held.strip():
            return held if self._thought else "", None
        if self._state == "begins":
            found = spelled_call(held, self._owns)
            alone = ToolCall("", held.strip(), "{}") if self._owns(held.strip()) else None
            if (call := found.call if found is not None else alone) is not None:
                return (held, None) if self._stands(call) else ("", call)
        if cut_call(held, self._owns_beginning) or (self._says and self._state == "begins"):
            return "", None  # the beginning of the protocol's JSON
        return held, None

    def _begin(self) -> None:
        """Find the form of the answer, once the form is clear."""
        if self._says and (said := _SAY.match(self._held)):
            self._state, self._held = "says", self._held[said.end() :]
        elif _PLAIN_CALL.match(self._held) or begins_call(self._held, self._owns, self._owns_beginning):
            self._state = "call"
        elif not self._may_begin():
            self._state, self.unwrapped = "prose", True
            self._thinks = not self._thought and self._held.lstrip().startswith(_THOUGHT)

    def _may_begin(self) -> bool:
        """Whether the text may still become the JSON of an answer or of a call."""
        rest = "".join(after_marks(self._held).split())
        if self._owns_beginning(self._held.strip()) or _THOUGHT.startswith(self._held.strip()):
            return True
        if self._says and _SAY_BEGINNING.startswith(rest):
            return True
        return "{".startswith(rest) or (rest.startswith("{") and _may_be_call(rest[1:]))

    def _spoken(self) -> str:
        """The text of the member `say`, as far as the text has come."""
        text, used = read_text(self._held)
        self._held = self._held[used:]
        if self._held.startswith('"'):
            self._state, self._held = "said", ""
        return text

    def _prose(self) -> str:
        """The text up to a place where a call of the gateway's tools may begin."""
        text, begin = self._last + self._held, len(self._last)
        self._held = ""
        for place in PLACES.finditer(text, begin):
            beginning = text[place.start() : place.start() + _MOST_BEGINNING_CHARS]
            if not self._thought and beginning.startswith(_THOUGHT_END):
                end = place.start() + len(_THOUGHT_END)
                self._state, self._thinks, self._thought, self.unwrapped = "begins", False, True, False
                self._last = ">"
                self._ended_thought = True
                return text[begin:end] + self._fed(text[end:])
            begins: bool | None = False
            if not self._thought and _THOUGHT_END.startswith(beginning):
                begins = None
            elif not self._thinks:
                begins = begins_call(beginning, self._owns, self._owns_beginning)
            if begins is not False:
                self._state = "call" if begins else self._state
                text, self._held = text[: place.start()], text[place.start() :]
                break
        self._last = text[-1:]
        return text[begin:]


def read_text(raw: str) -> tuple[str, int]:
    """The characters of a JSON text up to the quote at the end, and how many characters of `raw` are read.

    An escape that JSON does not know stays as written.
    """
    parts, at = [], 0
    while (part := _PART.match(raw, at)) is not None:
        if _HIGH.fullmatch(part[0]) and _MAY_BE_LOW.fullmatch(raw, part.end()):
            break
        parts.append(_decoded(part[0]))
        at = part.end()
    return "".join(parts), at


def _decoded(part: str) -> str:
    if not part.startswith("\\"):
        return part
    try:
        text: str = json.loads(f'"{part}"')
    except ValueError:
        return part
    return text


def _may_be_call(rest: str) -> bool:
    """Whether compact JSON after the brace may be a call: of any name, because models shorten names."""
    first, *others = _CALL_BEGINNINGS
    if not rest.startswith(first):
        return first.startswith(rest)
    _, quote, after = rest.removeprefix(first).partition('"')
    if not quote:
        return len(rest) < _MOST_NAME_CHARS
    return any(one.startswith(quote + after) for one in others)


class ProtocolReply:
    """One reply of a model, on the way to the reader of replies with tool calls."""

    def __init__(self, send: Send, text: ProtocolText) -> None:
        self._send = send
        self._text = text
        self._start: Message = {}
        self._passes = True  # an error, or a reply in another encoding than identity
        self._streamed = False
        self._frames = sse.FrameSplitter()
        self._pieces: list[bytes] = []
        self._newest: Json = {}  # the newest event with a choice
        self._ended = False  # the text has ended
        self._called = False  # by a call

    async def send(self, message: Message) -> None:
        """Take one message of the upstream."""
        if message["type"] == "http.response.start":
            await self._begin(message)
            return
        more, chunk = message.get("more_body", False), message.get("body", b"")
        if self._passes:
            await self._send(message)
        elif self._streamed:
            frames = self._frames.whole(chunk) if more else self._frames.last(chunk)
            body = b"".join(part for frame in frames for part in self._read(frame))
            if not more:
                body += b"".join(self._end())
            await self._send({**message, "body": body})
        else:
            self._pieces.append(chunk)
            if not more:
                await self._send_whole()

    async def _begin(self, message: Message) -> None:
        self._start = message
        readable, self._streamed = ReplyHead.of(message)
        self._passes = not readable
        if self._passes or self._streamed:
            await self._send(message)

    async def _send_whole(self) -> None:
        body = b"".join(self._pieces)
        reply = json_of(body)
        choice = first_choice(reply)
        message = choice.get("message")
        if isinstance(message, dict) and isinstance(message.get("content"), str):
            text = self._text.feed(message["content"])
            rest, call = self._text.end()
            if call is not None or text + rest != message["content"]:
                message["content"] = text + rest or (None if call is not None else "")
                if call is not None:
                    message["tool_calls"] = [_tool_call(call)]
                    choice["finish_reason"] = "tool_calls"
                body = json_bytes(reply)
        await self._send(with_length(self._start, len(body)))
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _read(self, raw: bytes) -> Iterator[bytes]:
        """The frames for the reader, after one more frame of the model."""
        data = sse.data_of(raw)
        event: Any = json_of(data) if data is not None else None
        choice = first_choice(event)
        if not isinstance(choice.get("delta"), dict):
            if data is not None and data.strip() == b"[DONE]":
                yield from self._end()
            yield raw
            return
        self._newest = event
        delta, finish = choice["delta"], choice.get("finish_reason")
        content = delta.get("content")
        text = self._text.feed(content) if isinstance(content, str) else content
        if finish is not None and not self._ended:
            yield from self._end(text or "")
            delta.pop("content", None)
            if self._called:
                choice["finish_reason"] = "tool_calls"
            yield raw if not content and not self._called else sse.frame(json_bytes(event))
        elif text == content:
            yield raw
        elif text or any(value for name, value in delta.items() if name != "content"):
            delta["content"] = text
            yield sse.frame(json_bytes(event))

    def _end(self, text: str = "") -> Iterator[bytes]:
        """The frames for the end of the text, once. text: of the last piece."""
        if self._ended:
            return
        self._ended = True
        rest, call = self._text.end()
        self._called = call is not None
        if text + rest:
            yield self._frame({"content": text + rest})
        if call is not None:
            yield self._frame({"tool_calls": [{"index": 0, **_tool_call(call)}]})

    def _frame(self, delta: Json) -> bytes:
        """An event like the newest event, with another delta."""
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        plain = {name: value for name, value in self._newest.items() if name not in ("usage", "choices")}
        return sse.frame(json_bytes({**plain, "choices": [choice]}))


def _tool_call(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
