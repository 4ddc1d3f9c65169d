"""Wraps a lane: a request in another dialect becomes a chat completion, and its reply is translated back.

The lane sees an ordinary chat completion: the translated lane applies its allow-list as to any client's body. Its reply
is read as it passes: each chunk becomes events at once.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proxy.asgi import App, Message, Receive, Scope, Send, send_json
from proxy.body import read_body
from proxy.caller import carries_key
from proxy.dialects import sse
from proxy.dialects.base import X_API_KEY, Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.dialects.errors import ApiError, Headers, upstream_error
from proxy.dialects.json_body import by_size
from proxy.dialects.messages import MESSAGES
from proxy.dialects.replies import MAX_REPLY_BYTES, Tokens, error_text, json_bytes, json_of, read_error
from proxy.dialects.responses import RESPONSES
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.bridges import messages_request, responses_request
from proxy.upstream.bridges.members import Json
from proxy.upstream.bridges.message_writer import MessageWriter
from proxy.upstream.bridges.reply_writer import ReplyWriter, cut
from proxy.upstream.bridges.response_writer import ResponseWriter
from proxy.upstream.relay import OF_THE_BODY

_EVENT_STREAM = (b"content-type", b"text/event-stream")
_DONE = b"[DONE]"
# An upstream that does not know one of these members refuses the request, though the answer stays the same without it:
# a model that cannot reason has no effort.
_HINTS = ("reasoning_effort", "prompt_cache_key", "prompt_cache_options", "safety_identifier", "stream_options")
# Words in an error about a known member's value: then the client is wrong.
_WRONG_VALUE = re.compile(rb"\bvalues?\b|invalid_value|unsupported_value|should be|must be|one of", re.IGNORECASE)
# OpenAI's reasoning models refuse `max_tokens`; some servers know nothing else. litellm knows who takes which.
_NEWER_LIMIT = re.compile(r"https://[^/]*\.(openai|azure)\.com[:/]")
# Client headers about the reply's coding, or for another API.
_NOT_FOR_CHAT = (b"accept-encoding", b"anthropic-")


# Path -> function that makes a chat completion from a request (raises ApiError 400), and reply writer
TRANSLATIONS: Mapping[str, tuple[Callable[[Mapping[str, Any]], Json], Callable[..., ReplyWriter]]] = {
    RESPONSES.path: (responses_request.chat_of, ResponseWriter),
    MESSAGES.path: (messages_request.chat_of, MessageWriter),
}


async def bridged(
    app: App,
    scope: Scope,
    receive: Receive,
    send: Send,
    unsupported: UnsupportedFeatures,
    *,
    before_end: Callable[[Json], object] = lambda _: None,
) -> None:
    """Answer a request in another dialect by a chat completion.

    Raises ApiError 400 for a request without a counterpart, else as the app does.

    before_end: called with the whole reply before the client sees its end, when it may leave or ask again at once.
    """
    exchange: Exchange = scope[EXCHANGE]
    target = exchange.target
    assert target is not None, "the route sets the target"
    dialect, body = exchange.dialect, await read_body(receive) if exchange.body is None else exchange.body
    exchange.target = _with_client_key(target, scope["headers"])
    while True:
        began = time.perf_counter()
        request = await by_size(body, lambda: TranslatedRequest.of(dialect, body, target, unsupported))
        exchange.ended_step("translate", began, CHAT.path)
        reply = _Reply(exchange, send, request, before_end)
        exchange.dialect, exchange.body = CHAT, request.chat  # how the app writes errors, and what it asks
        try:
            await app(_scope_of_chat(scope), receive, reply.send)
            await reply.close()
            return
        except _Broken:
            return
        except _LacksHints as error:
            for name in error.args:
                unsupported.learn(target, name, "the member is left out", model=target.model)
            exchange.error = ""
        finally:
            exchange.dialect, exchange.body = dialect, body
            exchange.tokens = exchange.tokens or reply.tokens(body)


@dataclass(frozen=True, slots=True)
class TranslatedRequest:
    """A request in another dialect, as one for a chat completion."""

    fields: Json  # the client's request
    chat: bytes  # the chat completion's body
    hints: Sequence[str]  # its members without which the answer stays the same
    writer: Callable[..., ReplyWriter]

    @classmethod
    def of(cls, dialect: Dialect, body: bytes, target: Target, unsupported: UnsupportedFeatures) -> "TranslatedRequest":
        """Raises ApiError 400."""
        (chat_of, writer), fields = TRANSLATIONS[dialect.path], json_of(body)
        chat = chat_of(fields)
        if "max_tokens" in chat and _NEWER_LIMIT.match(target.api_base):
            chat["max_completion_tokens"] = chat.pop("max_tokens")
        for name in _HINTS:
            if name in chat and unsupported.knows(target, name, model=target.model):
                del chat[name]
        return cls(fields, json_bytes(chat), [name for name in _HINTS if name in chat], writer)


def _scope_of_chat(scope: Scope) -> Scope:
    headers = [header for header in scope["headers"] if not header[0].startswith(_NOT_FOR_CHAT)]
    path = {"path": CHAT.path, "raw_path": CHAT.path.encode(), "query_string": b""}
    return {**scope, **path, "headers": headers}


def _with_client_key(target: Target, headers: Headers) -> Target:
    """The target with the client's upstream key, taken from the header that Anthropic's clients use."""
    if target.api_key or not target.key_of_client:
        return target
    keys = [value for name, value in headers if name == X_API_KEY and not carries_key(name, value)]
    return replace(target, api_key=keys[0].decode("ascii", "ignore")) if len(keys) == 1 else target


class _Broken(Exception):
    """The reply cannot go on: the client has an error, and the app must end its call."""


class _LacksHints(Exception):
    """The upstream refused the request for these hints; nothing was sent to the client yet."""


class _Reply:
    """Passes on a chat completion's reply, in the client's dialect."""

    def __init__(
        self, exchange: Exchange, send: Send, request: TranslatedRequest, before_end: Callable[[Json], object]
    ) -> None:
        self._exchange = exchange
        self._dialect: Dialect = exchange.dialect
        self._send = send
        self._before_end = before_end
        self._hints = request.hints
        self._streamed = bool(request.fields.get("stream"))
        repeated = exchange.fields or request.fields  # without passages; `input` with earlier items
        given = {name: request.fields[name] for name in ("input",) if name in request.fields}
        self._writer = request.writer({**repeated, **given}, streamed=self._streamed)
        self._status = 0
        self._headers: Headers = []
        self._stream = False  # an event stream is coming
        self._frames = sse.FrameSplitter()
        self._pieces: list[bytes] = []  # of a reply that does not stream
        self._size = 0
        self._over = False  # the reply is complete, to its last byte

    def tokens(self, body: bytes) -> Tokens | None:
        """How many tokens the call took; None: the upstream refused, or gave no reply. body: for an estimate."""
        if not 200 <= self._status < 300:
            return None
        return self._writer.tokens(body)

    async def send(self, message: Message) -> None:
        """Send what a message from the app becomes. Raises ApiError 502 before the reply's head, _Broken after it."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._stream:
            await self._send_events(message.get("body", b""), over=not message.get("more_body", False))
        else:
            self._pieces.append(message.get("body", b""))
            self._size += len(self._pieces[-1])
            if self._size > MAX_REPLY_BYTES:
                words = f"The upstream sent more than {MAX_REPLY_BYTES >> 20} MB as one answer. Ask for a stream."
                raise upstream_error(502, words, "upstream_too_large")
            self._over = not message.get("more_body", False)

    async def close(self) -> None:
        """Send a reply that does not stream; end a stream that the app broke off. Raises like `send`."""
        if self._stream and not self._over:
            await self._break_off(cut())
        elif not self._over:
            raise cut()
        elif not self._stream:
            await self._send_whole(b"".join(self._pieces))

    async def _begin(self, message: Message) -> None:
        self._status = message["status"]
        kept = [header for header in message.get("headers", ()) if not OF_THE_BODY.fullmatch(header[0])]
        media = dict(message.get("headers", ())).get(b"content-type", b"").lower()
        self._headers = kept
        self._stream = self._status == 200 and media.startswith(_EVENT_STREAM[1])
        if self._stream and not self._streamed:
            raise upstream_error(502, "The upstream sent a stream, but none was asked for.", "upstream_garbled")
        if self._stream:
            await self._send({"type": "http.response.start", "status": 200, "headers": [_EVENT_STREAM, *kept]})

    async def _send_events(self, received: bytes, *, over: bool) -> None:
        frames, ended = self._frames.whole(received), self._writer.ended
        if over:
            frames.append(self._frames.rest())
        try:
            if self._frames.rest_bytes > MAX_REPLY_BYTES:
                raise upstream_error(502, "The upstream sent an event that is too long.", "upstream_too_large")
            await by_size(received, lambda: self._read(frames, over=over))
        except ApiError as error:
            await self._break_off(error)
        if self._writer.ended and not ended:
            self._before_end(self._writer.whole)
        self._over = over
        if over or (events := self._writer.taken()):
            body = self._writer.taken() if over else events
            await self._send({"type": "http.response.body", "body": body, "more_body": not over})

    def _read(self, frames: list[bytes], *, over: bool) -> None:
        """Raises ApiError."""
        for data in filter(None, map(sse.data_of, frames)):
            if data.strip() == _DONE:
                self._writer.end(self._exchange.approvals)
                return
            self._read_chunk(json_of(data))
        if over:
            self._writer.end(self._exchange.approvals)

    def _read_chunk(self, chunk: Any) -> None:
        """A chunk, or a whole completion. Raises ApiError."""
        if not isinstance(chunk, dict):
            raise upstream_error(502, "The upstream sent a chunk that is not a JSON object.", "upstream_garbled")
        if chunk.get("error"):
            raise _error_of(502, chunk["error"])
        self._writer.read(chunk)

    async def _break_off(self, error: ApiError) -> None:
        """End a stream that cannot be completed. Raises _Broken."""
        self._exchange.error = self._exchange.error or error.log_text
        frame = self._writer.taken() + self._dialect.error_frame(error, self._exchange.id)
        await self._send({"type": "http.response.body", "body": frame, "more_body": True})
        raise _Broken

    async def _send_whole(self, body: bytes) -> None:
        """Raises ApiError 502, _LacksHints."""
        named = [name for name in self._hints if name.encode() in body] if self._status in (400, 422) else []
        if named and not _WRONG_VALUE.search(body):
            raise _LacksHints(*named)
        if self._status < 400 and self._status != 200:  # neither error nor answer: a redirect, for example
            words = f"The upstream answered with status {self._status} and no chat completion. Check its address."
            raise upstream_error(502, words, "upstream_bad_reply")
        if self._status != 200:
            await send_json(self._send, self._status, self._error_body(body), self._headers)
            return

        def written() -> bytes:
            self._read_chunk(json_of(body))
            self._writer.end(self._exchange.approvals)
            return self._writer.taken() if self._streamed else json_bytes(self._writer.whole)

        reply = await by_size(body, written)
        self._before_end(self._writer.whole)
        if self._streamed:
            await self._send({"type": "http.response.start", "status": 200, "headers": [_EVENT_STREAM, *self._headers]})
            await self._send({"type": "http.response.body", "body": reply})
        else:
            await send_json(self._send, 200, reply, self._headers)

    def _error_body(self, body: bytes) -> bytes:
        """The error in the client's dialect; OpenAI's dialects share theirs."""
        said = json_of(body)
        error = said.get("error") if isinstance(said, dict) else None
        written = isinstance(error, dict) and isinstance(error.get("message"), str) and error["message"] != ""
        if written and self._dialect is RESPONSES:
            return body
        return self._dialect.error_body(_error_of(self._status, error or read_error(body)[0]), self._exchange.id)


def _error_of(status: int, error: Any) -> ApiError:
    """An error in OpenAI's shape, or only in words."""
    said = error if isinstance(error, dict) else {}
    texts = {name: value for name in ("type", "code", "param") if isinstance(value := said.get(name), str)}
    kind = texts.get("type", "upstream_error")
    code, param = texts.get("code", kind), texts.get("param")
    message = error_text(error) or f"The upstream answered with status {status}, and with no words."
    return ApiError(status, message, code=code, type=kind, param=param, log_text="upstream_error")
