"""Restores the model's name in Anthropic messages, if the upstream was asked for another one.

A prefix (`rag/COLLECTION/`) or a settings row with another `model` changes the name in a request. Claude Code drops the
model's thoughts unless the reply names it as asked, and Anthropic then refuses the next request. So `model` gets the
client's value back, in whole messages and in `message_start`; every other byte stays. If the name was not changed, the
reply passes unread.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from proxy.asgi import Message, Scope, Send, with_length
from proxy.dialects import sse
from proxy.dialects.json_body import by_size, member_span, unescaped
from proxy.dialects.messages import MESSAGES
from proxy.dialects.replies import MAX_REPLY_BYTES, json_of
from proxy.dialects.target import Target
from proxy.exchange import Exchange

_MOST_FRAME_BYTES = 1 << 20  # `message_start` has some hundred bytes
_MARK = b"\xef\xbb\xbf"  # byte order mark
_LINE = re.compile(rb"[^\r\n]+")


def renamed(exchange: Exchange, target: Target, scope: Scope) -> str:
    """The name that the client asked for, if the reply must show it; "": leave the reply alone."""
    if exchange.dialect is not MESSAGES or exchange.fields is None or scope["path"] != MESSAGES.path:
        return ""
    asked = exchange.fields.get("model")
    return asked if isinstance(asked, str) and asked != target.model else ""


def uncoded(scope: Scope) -> Scope:
    """Ask for an uncompressed reply: a compressed one cannot be edited.

    The header is sent in any case, because without it, an upstream may compress.
    """
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
    return {**scope, "headers": [*headers, (b"accept-encoding", b"identity")]}


class AskedModel:
    """Passes a reply on, with another model name. If it cannot be read, it goes out as it came."""

    def __init__(self, send: Send, asked: str) -> None:
        self._send = send
        self._asked = json.dumps(asked).encode()
        self._start: Message | None = None  # a whole message's head, until all of it is read
        self._pieces: list[bytes] = []  # a whole message's
        self._frames: sse.FrameSplitter | None = None  # a stream's, up to `message_start`
        self._size = 0

    async def send(self, message: Message) -> None:
        """Pass on a message from the app, or keep it until the name is found."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._frames is not None and "body" in message:
            await self._send({**message, "body": self._stream(message["body"], more=message.get("more_body", False))})
        elif self._start is not None:
            await self._collect(message.get("body", b""), more=message.get("more_body", False))
        else:
            await self._send(message)

    async def close(self) -> None:
        """Send what is left of a reply that broke off."""
        if self._frames is not None and (rest := self._frames.rest()):
            await self._send({"type": "http.response.body", "body": rest, "more_body": True})
        elif self._start is not None:
            await self._pass(b"".join(self._pieces), more=True)

    async def _begin(self, start: Message) -> None:
        headers = dict(start.get("headers", ()))
        media = headers.get(b"content-type", b"").lower()
        if start["status"] == 200 and headers.get(b"content-encoding", b"identity").lower() == b"identity":
            if media.startswith(b"text/event-stream"):
                self._frames = sse.FrameSplitter()
                await self._send(with_length(start, None))
                return
            if media.startswith(b"application/json"):
                self._start = start
                return
        await self._send(start)

    def _stream(self, received: bytes, *, more: bool) -> bytes:
        """What to send on: whole frames up to `message_start`, then everything."""
        assert self._frames is not None
        frames = self._frames.whole(received) if more else self._frames.last(received)
        named = next((at for at, frame in enumerate(frames) if self._is_start(frame)), None)
        if named is not None:
            frames[named] = self._named_frame(frames[named])
        if named is not None or not more or self._frames.rest_bytes > _MOST_FRAME_BYTES:
            frames += [self._frames.rest()] if more else []
            self._frames = None
        return b"".join(frames)

    @staticmethod
    def _is_start(frame: bytes) -> bool:
        event = json_of(sse.data_of(frame) or b"") if b"message_start" in frame else None
        return isinstance(event, dict) and event.get("type") == "message_start"

    def _named_frame(self, frame: bytes) -> bytes:
        data = sse.data_of(frame) or b""
        message = json_of(data).get("message")
        span = _span_of_model(data, message, "message") if isinstance(message, dict) else None
        if span is None:
            return frame
        start, length = _place_in_frame(frame, span[0]), span[1] - span[0]  # a text never spans lines
        return frame[:start] + self._asked + frame[start + length :]

    async def _collect(self, received: bytes, *, more: bool) -> None:
        self._pieces.append(received)
        self._size += len(received)
        if more and self._size <= MAX_REPLY_BYTES:
            return
        body = b"".join(self._pieces)
        await self._pass(body if more else await by_size(body, lambda: self._named_whole(body)), more=more)

    def _named_whole(self, body: bytes) -> bytes:
        message = json_of(body)
        whole = isinstance(message, dict) and message.get("type") == "message"
        span = _span_of_model(body, message) if whole else None
        return body if span is None else body[: span[0]] + self._asked + body[span[1] :]

    async def _pass(self, body: bytes, *, more: bool) -> None:
        """Send head and body so far; the rest goes through."""
        assert self._start is not None
        start, self._start, self._pieces = self._start, None, []
        await self._send(start if more else with_length(start, len(body)))
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _span_of_model(data: bytes, message: Mapping[str, Any], *path: str) -> tuple[int, int] | None:
    """Begin and end of the value of `model`; None: it is not a text. path: member names that lead to the message."""
    if not isinstance(message.get("model"), str):
        return None
    plain = unescaped(data)
    opening = plain.index(b"{")
    for name in path:
        opening, _ = member_span(data, plain, opening, name)
    return member_span(data, plain, opening, "model")


def _place_in_frame(frame: bytes, at: int) -> int:
    """Where byte `at` of the data is in its frame."""
    for line in _LINE.finditer(frame):
        name, _, value = line[0].removeprefix(_MARK).partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            if at < len(value):
                return line.end() - len(value) + at
            at -= len(value) + 1
    raise AssertionError("the data is the frame's")
