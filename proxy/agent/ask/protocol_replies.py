"""Replies of models that write calls as text, turned into events as from a model with native tool calls.

An answer passes as it comes. A written call becomes a tool call, and text after it is left out: small models go on with
made-up results. A thought before the answer passes as text.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from proxy.agent.events import Event, Json
from proxy.agent.text_calls.written_calls import (
    PLACES,
    Stands,
    after_marks,
    begins_call,
    cut_call,
    is_quote,
    spelled_call,
    stands_nowhere,
)
from proxy.dialects.replies import ToolCall

# After one of these marks, or none, such an object is a call even if no tool has its name.
_PLAIN_CALL = re.compile(
    r"\s*(?:```(?:json)?|<tool_call>|<function_call>|\[TOOL_CALLS\])?\s*"
    r'\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"\s*,\s*"(?:arguments|parameters)"\s*:'
)
_THOUGHT, _THOUGHT_END = "<think>", "</think>"  # some templates write the beginning, so the model writes only the end
_CALL_BEGINNINGS = ('"name":"', '","arguments":', '","parameters":', '"}')
_MOST_NAME_CHARS = 200
_MOST_QUOTES = 20  # quoted calls in one answer; anything further is text
_MOST_BEGINNING_CHARS = 1_000  # enough to see whether a call begins

Claims = Callable[..., bool]  # as `Toolbox.claims`


class ProtocolText:
    """One answer's text, in pieces."""

    def __init__(self, claims: Claims, stands: Stands = stands_nowhere) -> None:
        """claims: whether a gateway tool has this name, or a name that begins like it (`begun`).

        stands: as in `written_calls`.
        """
        self._owns = claims
        self._owns_beginning = partial(claims, begun=True)
        self._stands = stands
        self._state = "begins"  # -> call or prose
        self._held = ""
        self._last = ""  # last character that the client got: no call begins inside a word
        self._before: list[str] = []  # the text for the client
        self._ended_thought = False  # client text has the end of a thought
        self._after: list[str] = []  # text from where the call begins
        self._thinks = False  # inside a thought, which makes no call
        self._thought = False  # a thought has ended

    def feed(self, piece: str) -> str:
        """What the client gets after one more piece."""
        shown = self._fed(piece)
        self._before.append(shown)
        return shown

    def _fed(self, piece: str) -> str:
        if self._state == "call":
            self._after.append(piece)
            return ""
        self._held += piece
        if self._state == "begins":
            self._begin()
        return self._prose() if self._state == "prose" else ""

    def end(self) -> tuple[str, ToolCall | None]:
        """The remaining client text, and the call."""
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
        """The client's text, without a thought."""
        before = "".join(self._before)
        return before.partition(_THOUGHT_END)[2] if self._ended_thought else before

    def _named_first(self, text: str) -> Callable[[str], bool]:
        """Which names count as tools: any name that begins an answer, because small models make names up."""
        named = None if any(self._before) else _PLAIN_CALL.match(text)
        return self._owns if named is None else named["name"].__eq__

    def _end_text(self) -> tuple[str, ToolCall | None]:
        """What is left of an answer in which no call has begun for certain."""
        held, self._held = self._held, ""
        if not held.strip():
            return held if self._thought else "", None
        if self._state == "begins":
            found = spelled_call(held, self._owns)
            alone = ToolCall("", held.strip(), "{}") if self._owns(held.strip()) else None
            if (call := found.call if found is not None else alone) is not None:
                return (held, None) if self._stands(call) else ("", call)
        if cut_call(held, self._owns_beginning):
            return "", None
        return held, None

    def _begin(self) -> None:
        """Decide whether the answer is a call or prose, once it is clear."""
        begins = begins_call(self._held.lstrip(), self._owns, self._owns_beginning)
        if begins or _PLAIN_CALL.match(self._held):
            self._state = "call"
        elif begins is False and not self._may_begin():
            self._state = "prose"
            self._thinks = not self._thought and self._held.lstrip().startswith(_THOUGHT)

    def _may_begin(self) -> bool:
        """Whether the text may still become a tool name, a thought or a call's JSON."""
        rest = "".join(after_marks(self._held).split())
        if self._owns_beginning(self._held.strip()) or _THOUGHT.startswith(self._held.strip()):
            return True
        return "{".startswith(rest) or (rest.startswith("{") and _may_be_call(rest[1:]))

    def _prose(self) -> str:
        """Text up to a place where a gateway call may begin."""
        text, begin = self._last + self._held, len(self._last)
        self._held = ""
        for place in PLACES.finditer(text, begin):
            beginning = text[place.start() : place.start() + _MOST_BEGINNING_CHARS]
            if not self._thought and beginning.startswith(_THOUGHT_END):
                end = place.start() + len(_THOUGHT_END)
                self._state, self._thinks, self._thought = "begins", False, True
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


def _may_be_call(rest: str) -> bool:
    """Whether compact JSON after its brace may be a call: any name will do, because models shorten names."""
    first, *others = _CALL_BEGINNINGS
    if not rest.startswith(first):
        return first.startswith(rest)
    _, quote, after = rest.removeprefix(first).partition('"')
    if not quote:
        return len(rest) < _MOST_NAME_CHARS
    return any(one.startswith(quote + after) for one in others)


class ProtocolReader:
    """Reads a model that writes calls as text, and yields events as from a model with tool calls."""

    def __init__(self, claims: Claims, stands: Stands) -> None:
        """claims, stands: as in `ProtocolText`."""
        self._text = ProtocolText(claims, stands)
        self._newest: Json = {}  # newest event with a choice
        self._ended = False  # answer text has ended
        self._called = False  # by a call

    def read(self, events: Iterable[Event], *, more: bool) -> Iterator[Event]:
        """Client events for more model events. more: others follow."""
        for event in events:
            yield from self._read(event)
        if not more:
            yield from self._end()

    def _read(self, event: Event) -> Iterator[Event]:
        choice = event.choice
        if event.body is None or not isinstance(choice.get("delta"), dict):
            if event.is_done:
                yield from self._end()
            yield event
            return
        self._newest = event.body
        delta, finish = choice["delta"], choice.get("finish_reason")
        content = delta.get("content")
        text = self._text.feed(content) if isinstance(content, str) else content
        if finish is not None and not self._ended:
            yield from self._end(text or "")
            delta.pop("content", None)
            if self._called:
                choice["finish_reason"] = "tool_calls"
            event.changed = bool(content) or self._called
            yield event
        elif text == content:
            yield event
        elif text or any(value for name, value in delta.items() if name != "content"):
            delta["content"] = text
            event.changed = True
            yield event

    def _end(self, text: str = "") -> Iterator[Event]:
        """Events that end the text, once. text: its last piece."""
        if self._ended:
            return
        self._ended = True
        rest, call = self._text.end()
        self._called = call is not None
        if text + rest:
            yield self._event({"content": text + rest})
        if call is not None:
            yield self._event({"tool_calls": [{"index": 0, **_tool_call(call)}]})

    def read_whole(self, event: Event) -> None:
        """Read a whole reply; changes the event."""
        choice = event.choice
        message = choice.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            return
        text = self._text.feed(message["content"])
        rest, call = self._text.end()
        if call is not None:
            message["tool_calls"] = [_tool_call(call)]
            choice["finish_reason"] = "tool_calls"
        elif text + rest == message["content"]:
            return
        message["content"] = text + rest or (None if call is not None else "")
        event.changed = True

    def _event(self, delta: Json) -> Event:
        """An event like the newest one, with another delta."""
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        plain = {name: value for name, value in self._newest.items() if name not in ("usage", "choices")}
        return Event(b"", {**plain, "choices": [choice]}, changed=True)


def _tool_call(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
