"""The base of reply writers: chat completion chunks in, events of another dialect out.

A whole completion counts as one chunk: a `message` has the same members as a `delta`. So one writer makes both event
streams and whole replies, and they agree.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from proxy.dialects import sse
from proxy.dialects.errors import ApiError, upstream_error
from proxy.dialects.replies import (
    MAX_REPLY_BYTES,
    Tokens,
    ToolCallPieces,
    arguments_text,
    called_tool,
    content_text,
    json_bytes,
    reported_tokens,
    tokens_of_reply,
)
from proxy.upstream.bridges.members import Json

Kind = Literal["text", "refusal", "reasoning"]


class ReplyWriter(ABC):
    """One reply's state. `taken` gives its events so far, `whole` the reply after `end`."""

    def __init__(self, *, streamed: bool) -> None:
        self.usage: Tokens | None = None  # as reported upstream
        self.usage_fields: Mapping[str, Any] = {}
        self.finish_reason: str | None = None
        self.text_bytes = 0  # of all texts and calls
        self.ended = False
        self.whole: Json = {}
        self.further: Sequence[Mapping[str, Any]] = ()  # items of the gateway, which only a response has
        self.streamed = streamed
        self._reported_bytes = 0  # `text_bytes` when usage was last reported
        self._frames: list[bytes] = []
        self._begun = False
        self._calls: list[_Call] = []  # still arriving; the first one is being written

    def read(self, chunk: Mapping[str, Any]) -> None:
        """Read a chunk, or a whole completion. Raises ApiError 502: no more events can follow."""
        if not self._begun:
            self._begun = True
            self.begin()
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                self._read_choice(choice)
        if isinstance(usage := chunk.get("usage"), dict) and (tokens := reported_tokens(usage)) is not None:
            tier = chunk.get("service_tier")
            self.usage = replace(tokens, tier=tokens.tier or (tier if isinstance(tier, str) else ""))
            self.usage_fields, self._reported_bytes = usage, self.text_bytes
        if self.text_bytes > MAX_REPLY_BYTES:
            words = f"The upstream sent more than {MAX_REPLY_BYTES >> 20} MB as one answer. Ask for less at once."
            raise upstream_error(502, words, "upstream_too_large")

    def end(self, further: Sequence[Mapping[str, Any]] = ()) -> None:
        """Write the last events. Raises ApiError 502: the upstream never said that the answer is whole.

        further: items of the gateway behind the answer.
        """
        if self.finish_reason is None:
            raise cut()
        if not self.ended:
            self.ended = True
            self._end_calls()
            self.further = further
            self.finish()

    def tokens(self, request: bytes) -> Tokens:
        """The reply's tokens, as `tokens_of_reply` counts. request: its body, for an estimate."""
        final = self.finish_reason is not None and self._reported_bytes == self.text_bytes
        return tokens_of_reply(self.usage, self.text_bytes, request, final=final)

    def taken(self) -> bytes:
        """Events since the last call."""
        frames, self._frames = self._frames, []
        return b"".join(frames)

    # --- What a dialect writes

    @abstractmethod
    def begin(self) -> None:
        """Write what precedes the first text."""

    @abstractmethod
    def piece(self, kind: Kind, text: str) -> None:
        """Write a piece of answer, refusal or reasoning."""

    @abstractmethod
    def signed(self, block: Json) -> None:
        """Write a signature or a sealed block of reasoning, in Anthropic's words."""

    @abstractmethod
    def begin_call(self, id: str, name: str, *, custom: bool) -> None:
        """Begin a tool call. custom: it has free text instead of JSON."""

    @abstractmethod
    def arguments(self, piece: str) -> None:
        """Write a piece of arguments for the call begun last."""

    @abstractmethod
    def end_item(self) -> None:
        """End the call or other item begun last."""

    @abstractmethod
    def keep_alive(self) -> None:
        """Write an event that means nothing, for a client that waits."""

    @abstractmethod
    def finish(self) -> None:
        """End the open item, write the last events, and set `whole`, from `finish_reason` and `usage`."""

    def emit(self, event: Json) -> None:
        """Write an event, named by its `type`."""
        if self.streamed:
            self._frames.append(b"event: " + event["type"].encode() + b"\n" + sse.frame(json_bytes(event)))

    # --- What a chunk holds

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._read_delta(delta, whole="message" in choice)
        if choice.get("delta") == {} and choice.get("finish_reason") is self.finish_reason is None:
            self.keep_alive()  # empty, as gateways send while a client waits
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]
        elif isinstance(choice.get("message"), dict):  # a whole reply: KoboldCpp writes no reason
            self.finish_reason = self.finish_reason or "stop"

    def _read_delta(self, delta: Mapping[str, Any], *, whole: bool) -> None:
        blocks = [each for each in _list(delta.get("thinking_blocks")) if isinstance(each, dict)]
        if not any(_text(block.get("thinking")) for block in blocks):  # else other members repeat the text
            thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
            self._write("reasoning", thought)
        for block in blocks:
            self._write("reasoning", _text(block.get("thinking")))
            if _text(block.get("signature")) or _text(block.get("data")):
                self._end_calls()
                self.signed(block)
        self._write("text", content_text(delta.get("content")))
        self._write("refusal", _text(delta.get("refusal")))
        for place, call in enumerate(_list(delta.get("tool_calls"))):
            if isinstance(call, dict):
                index = call.get("index")
                written = index if isinstance(index, int) else None
                self._read_call(call, place if whole else written, place)

    def _write(self, kind: Kind, text: str) -> None:
        if text:
            self._end_calls()
            self.text_bytes += len(text)
            self.piece(kind, text)

    def _read_call(self, call: Mapping[str, Any], index: int | None, place: int) -> None:
        """A piece of a call: the first one has the name. Some providers give every call index 0 and no id."""
        id, called = _text(call.get("id")), called_tool(call)
        if not called:
            return
        name, piece = _text(called.get("name")), arguments_text(called.get("arguments") or called.get("input"))
        known = self._call_of(id, index, place)
        if known is None or (name and known.is_over(id, piece)):
            if not name:
                words = "The upstream sent a piece of a tool call that had no beginning, or was over."
                raise upstream_error(502, words, "upstream_garbled")
            if known is not None:
                known.over = True
            known = _Call(place if index is None else index, id or f"call_{secrets.token_hex(12)}", "custom" in call)
            self._calls.append(known)
        self.text_bytes += len(piece)
        known.pieces.add(name=name, arguments=piece)
        known.unwritten += [piece] if piece else []
        self._write_calls()

    def _call_of(self, id: str, index: int | None, place: int) -> "_Call | None":
        """The arriving call that a piece belongs to."""
        arriving = [call for call in self._calls if not call.over]
        if index is None and id and (named := [call for call in arriving if call.id == id]):
            return named[-1]
        return next((call for call in reversed(arriving) if call.index == (place if index is None else index)), None)

    def _write_calls(self) -> None:
        """Write the first call as it arrives: no dialect can mix pieces of two calls.

        The next one waits until the first one's arguments are whole.
        """
        first = self._calls[0]
        first.write(self)
        while len(self._calls) > 1 and (first.over or first.is_whole):
            self._end_first()
            first = self._calls[0]
            first.write(self)

    def _end_first(self) -> None:
        self._calls.pop(0).write(self, begin=True)
        self.end_item()

    def _end_calls(self) -> None:
        while self._calls:
            self._end_first()


class _Call:
    """A tool call that arrives in pieces."""

    def __init__(self, index: int, id: str, custom: bool) -> None:
        self.index = index
        self.id = id
        self.pieces = ToolCallPieces()
        self.unwritten: list[str] = []  # of its arguments
        self.over = False  # another call took its index
        self._custom = custom
        self._begun = False

    def is_over(self, id: str, piece: str) -> bool:
        """Whether a piece with a name, this id and these arguments begins a new call."""
        return id != self.id if id else piece != "" and self.pieces.came_whole

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are an object."""
        return not self._custom and self.pieces.are_whole

    def write(self, writer: ReplyWriter, *, begin: bool = False) -> None:
        """Begin the call once its name is whole, and write its arguments so far. begin: the name is whole."""
        if not self._begun and (begin or self.unwritten):
            self._begun = True
            writer.begin_call(self.id, self.pieces.name, custom=self._custom)
        for piece in self.unwritten:
            writer.arguments(piece)
        self.unwritten = []


def cut() -> ApiError:
    """The error for an answer that broke off."""
    return upstream_error(502, "The upstream broke off before the answer was complete.", "upstream_cut")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
