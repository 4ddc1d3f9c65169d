"""An upstream that waits, stalls, cuts or breaks off on request, and that notices when the gateway leaves.

The action is in the request's `user`: "WHAT AT NUMBER", where NUMBER identifies the request. The upstream runs in the
event loop of the clients, so both ends share one clock.

    whole     a chat completion                        held     the head and half of the body, then nothing
    stream    AT paced frames and [DONE]               silent   nothing at all
    stays     two frames, then nothing
    reset, broken, stalls     a stream with this fault after frame AT
    refuses   500, in a provider's form
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import monotonic as clock  # the event loop's own counts whole milliseconds
from typing import cast

import httptools

PACE_S = 0.02
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for 0 seconds: the connection ends by RST
_JSON = b"content-type: application/json\r\n"
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_ERROR = b'{"error": {"message": "The server had an error", "type": "server_error", "param": null, "code": null}}'
REFUSAL = b"HTTP/1.1 500 Internal Server Error\r\n%bcontent-length: %d\r\n\r\n%b" % (_JSON, len(_ERROR), _ERROR)


@dataclass(slots=True)
class FaultyUpstream:
    """A running upstream and the observations. Times are of the monotonic clock."""

    port: int = 0
    silent_port: int = 0  # connects, and answers no handshake
    requests: int = 0
    open: int = 0  # connections now
    reached: dict[str, asyncio.Future[None]] = field(default_factory=dict)  # by `user`; created by a waiting test
    closed: dict[str, asyncio.Future[float]] = field(default_factory=dict)
    shook: "asyncio.Queue[asyncio.Future[float]]" = field(default_factory=asyncio.Queue)  # on the silent port
    sent_s: dict[str, list[float]] = field(default_factory=dict)  # when each frame went out; by `user`, where asked for

    def expect(self, user: str) -> None:
        """Prepare to wait for a request's arrival and the end of the connection."""
        loop = asyncio.get_running_loop()
        self.reached[user], self.closed[user] = loop.create_future(), loop.create_future()

    def forget(self, user: str) -> None:
        """Stop waiting for a request."""
        self.reached.pop(user, None)
        self.closed.pop(user, None)
        self.sent_s.pop(user, None)


@contextlib.asynccontextmanager
async def faulty_upstream() -> AsyncIterator[FaultyUpstream]:
    """An upstream on free ports of 127.0.0.1."""
    upstream = FaultyUpstream()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(upstream), "127.0.0.1", 0)
    silent = await loop.create_server(lambda: _Silent(upstream), "127.0.0.1", 0)
    upstream.port = server.sockets[0].getsockname()[1]
    upstream.silent_port = silent.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
        silent.close()


def completion(user: str) -> bytes:
    """The body of a request's reply."""
    message = {"role": "assistant", "content": f"Answer to {user}. " * 20}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return json.dumps(
        {"id": user, "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    ).encode()


def frame(user: str, number: int, count: int) -> bytes:
    """One event of a request's stream; the last event includes [DONE]."""
    last = number == count - 1
    delta: dict[str, str] = {} if last else {"role": "assistant", "content": f"{user}: {number} "}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": "stop" if last else None}
    told = {"id": user, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(told).encode() + b"\n\n" + (b"data: [DONE]\n\n" if last else b"")


def stream(user: str, count: int) -> bytes:
    """The whole stream."""
    return b"".join(frame(user, number, count) for number in range(count))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class _Connection(asyncio.Protocol):
    def __init__(self, upstream: FaultyUpstream) -> None:
        self._upstream = upstream
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""
        self._user = ""
        self._pacing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._upstream.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.open -= 1
        if self._pacing is not None:
            self._pacing.cancel()
        closed = self._upstream.closed.get(self._user)
        if closed is not None and not closed.done():
            closed.set_result(clock())

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        self._upstream.requests += 1
        self._user = str(json.loads(body).get("user") or "whole 0 none")
        what, at, _ = self._user.split(" ")
        self._answer(what, int(at))
        reached = self._upstream.reached.get(self._user)
        if reached is not None and not reached.done():
            reached.set_result(None)

    def _answer(self, what: str, at: int) -> None:
        write, user = self._transport.write, self._user
        whole = completion(user)
        top = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n" % (_JSON, len(whole))
        if what == "whole":
            write(top + whole)
        elif what == "held":
            write(top + whole[: len(whole) // 2])
        elif what == "stays":
            write(_STREAM + _chunk(frame(user, 0, 9)) + _chunk(frame(user, 1, 9)))
        elif what == "refuses":
            write(REFUSAL)
        elif what != "silent":
            write(_STREAM)
            self._frame(what, at, 0)

    def _frame(self, what: str, at: int, number: int) -> None:
        """Send this frame and schedule the next frames, up to the end or the fault."""
        self._pacing = None
        faulty = what != "stream"
        if number < at:
            data = _chunk(frame(self._user, number, at + 1 if faulty else at))
            sent_s = self._upstream.sent_s.get(self._user)
            loop = asyncio.get_running_loop()
            if sent_s is not None:
                sent_s.append(clock())
            last = number == at - 1 and not faulty
            self._transport.write(data + b"0\r\n\r\n" if last else data)
            if not last:
                self._pacing = loop.call_later(PACE_S, self._frame, what, at, number + 1)
        elif what == "reset":
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        elif what == "broken":
            self._transport.write(b"no number\r\n")


class _Silent(asyncio.Protocol):
    """A server that accepts connections and bytes without any reply."""

    def __init__(self, upstream: FaultyUpstream) -> None:
        self._upstream = upstream
        self._closed: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._shook = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._upstream.open += 1

    def data_received(self, data: bytes) -> None:
        if not self._shook:
            self._shook = True
            self._upstream.shook.put_nowait(self._closed)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.open -= 1
        self._closed.set_result(clock())
