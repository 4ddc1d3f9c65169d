"""Routing: from a model's name to a target, and from its lane to an ASGI app.

A prefix (`rag/COLLECTION/`) or a settings row with another `model` changes the model's name in a request. Claude Code
drops the model's thoughts unless the reply names it as asked, and Anthropic then refuses the next request. So `model`
in an Anthropic message gets the client's value back, in whole messages and in `message_start`; every other byte stays.
If the name was not changed, the reply passes unread.
"""

import json
import re
import unicodedata
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from proxy.asgi import App, Message, Receive, Scope, Send, with_length
from proxy.caller import EVERYTHING, Rights
from proxy.dialects import sse
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.json_body import by_size, member_span, unescaped
from proxy.dialects.messages import MESSAGES
from proxy.dialects.replies import MAX_REPLY_BYTES, json_of
from proxy.dialects.target import Lane, Target
from proxy.exchange import EXCHANGE, Exchange

_NO_LETTERS = ("Cc", "Cf", "Zl", "Zp")  # Unicode categories: control and format characters, line ends
ANY_MODEL = "*"  # stands for the model, if a request names none


def _is_plain(name: str) -> bool:
    """Whether a name has neither blanks around it nor control and format characters."""
    if name != name.strip():
        return False
    if name.isascii():
        return name.isprintable()
    return not any(unicodedata.category(letter) in _NO_LETTERS for letter in name)


class Routes:
    """Configured models: an exact name wins, else the longest pattern that ends with *."""

    def __init__(self, rows: Mapping[str, Target]) -> None:
        self._exact = {
            name: replace(row, model=row.model or name) for name, row in rows.items() if not name.endswith("*")
        }
        patterns = [(name[:-1], row) for name, row in rows.items() if name.endswith("*")]
        self._patterns = sorted(patterns, key=lambda pattern: len(pattern[0]), reverse=True)

    def resolve(self, name: str, rights: Rights) -> Target:
        """A model's target. If its row has no model name, it gets the requested one.

        Raises ApiError 404, the same for an unknown model and for one that the caller may not use. Names that upstreams
        may read differently are unknown: some cut off blanks, or end at a control character.
        """
        target = self.row_of(name) if _is_plain(name) else None
        if target is None or name not in rights.models:
            raise self.absent(name, rights)
        return target if target.model else replace(target, model=name)

    def without_model(self) -> Target | None:
        """Where requests go that name no model; None: there are several upstreams.

        The relay's row for every model, else its only upstream. Without relay rows: any row, which relays nothing.
        """
        every = [row for prefix, row in self._patterns if not prefix and row.lane == "relay"]
        rows = [*self._exact.values(), *(row for _, row in self._patterns)]
        found = every or [row for row in rows if row.lane == "relay"] or rows[:1]
        upstreams = {(row.api_base, row.api_key, row.key_of_client) for row in found}
        return replace(found[0], model=ANY_MODEL) if len(upstreams) == 1 else None

    def row_of(self, name: str) -> Target | None:
        """A model's configured row; None: none matches."""
        target = self._exact.get(name)
        if target is not None:
            return target
        return next((row for prefix, row in self._patterns if name.startswith(prefix)), None)

    def pattern_of(self, name: str) -> str:
        """The pattern that decides where a model's requests go; "": it has its own row, or none."""
        if name in self._exact:
            return ""
        return next((f"{prefix}*" for prefix, _ in self._patterns if name.startswith(prefix)), "")

    def patterns(self, rights: Rights) -> tuple[str, ...]:
        """Patterns that overlap with one in the caller's rights."""
        granted = rights.models.patterns
        return tuple(
            f"{prefix}*"
            for prefix, _ in self._patterns
            if any(prefix.startswith(each) or each.startswith(prefix) for each in granted)
        )

    def absent(self, name: str, rights: Rights) -> ApiError:
        """The 404 for an unknown model; it lists the known ones."""
        listed = ", ".join(self.names(rights)) or "none by name"
        message = f"The model {name!r} is not configured on this gateway; configured models: {listed}."
        return ApiError(404, message, code="model_not_found", param="model")

    def names(self, rights: Rights = EVERYTHING) -> Sequence[str]:
        """Names of the models that the caller may use.

        Configured names; for a pattern, its model ("echo" for an echo); names that the caller's rights list one by one.
        """
        stand_ins = [(row.model or "echo", row) for _, row in self._patterns if row.model or row.lane == "echo"]
        names = [*self._exact, *(name for name, row in stand_ins if self.row_of(name) is row)]
        granted = sorted(name for name in rights.models.exact if self.row_of(name) is not None)
        return list(dict.fromkeys([*(name for name in names if name in rights.models), *granted]))

    def listers(self) -> Sequence[Target]:
        """Patterns whose model names only the upstream knows."""
        return [row for _, row in self._patterns if row.lane == "relay" and not row.model]


class Upstream:
    """The last app: passes a request to its target's lane, with the client's key if the target asks for one."""

    def __init__(self, lanes: Mapping[Lane, App], bridges: Mapping[Lane, App] | None = None) -> None:
        """bridges: lanes for dialects that an upstream may not speak; ordinary chats pass none."""
        self._lanes = lanes
        self._bridged = {**lanes, **(bridges or {})}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        exchange: Exchange = scope[EXCHANGE]
        target = exchange.target
        assert target is not None, "the route sets the target"
        if target.key_of_client:
            exchange.target = target = replace(target, api_key=client_key(scope["headers"]))
        lanes = self._lanes if exchange.dialect is CHAT and not target.dialects else self._bridged
        exchange.once = exchange.once and lanes is self._lanes  # a bridge may ask again
        lane, asked = lanes[target.lane], renamed(exchange, target, scope)
        return lane(scope, receive, send) if not asked else _answer_as(asked, lane, scope, receive, send)


async def _answer_as(asked: str, lane: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer by the lane, and name the model as the client did."""
    reply = AskedModel(send, asked)
    await lane(uncoded(scope), receive, reply.send)
    await reply.close()


def client_key(headers: Headers) -> str:
    """The key in `Authorization: Bearer KEY`; "": none. A key in `x-api-key` stays there (`relay.request_headers`).

    Raises ApiError 400 for two keys, or one that is not printable ASCII.
    """
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) > 1:
        message = f"The request has {len(given)} Authorization headers: send one."
        raise ApiError(400, message, code="invalid_authorization")
    scheme, _, key = given[0].strip().partition(b" ") if given else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        return ""
    key = key.strip()
    if any(not 0x21 <= byte <= 0x7E for byte in key):
        message = "The key in 'Authorization: Bearer KEY' must be printable ASCII without spaces."
        raise ApiError(400, message, code="invalid_authorization")
    return key.decode("ascii")


# --- the asked model's name -------------------------------------------------------------------------------------------


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
