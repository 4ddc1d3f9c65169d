"""One request to the ASGI app, and its reply onto the connection: the two channels of ASGI, `receive` and `send`."""

import asyncio
import http
from typing import Protocol

from proxy.asgi import Message, Scope
from proxy.errors import Headers

CLIENT_LEFT = "the client left"  # the message of the cancellation that says so

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in http.HTTPStatus}


class Client(Protocol):
    """The connection as the request sees it."""

    @property
    def open(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    @property
    def drained(self) -> "asyncio.Future[None] | None": ...

    def read_on(self) -> None: ...


class Request:
    """What came of one request so far, and what was sent of its reply."""

    __slots__ = (
        "_chunked",
        "_client",
        "_ended",
        "_expects_continue",
        "_head",
        "_head_only",
        "_left_bytes",
        "_parts",
        "_told",
        "_waiter",
        "body_bytes",
        "keep_alive",
        "scope",
        "started",
        "task",
        "unread_bytes",
        "until_eof",
        "whole",
    )

    def __init__(self, client: Client, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self._client = client
        self.scope = scope
        self.keep_alive = keep_alive
        self.task: asyncio.Task[None] | None = None
        self._expects_continue = expects_continue
        self._head_only = scope["method"] == "HEAD"
        self._parts: list[bytes] = []
        self.body_bytes = self.unread_bytes = 0  # come so far; of these, not yet received by the app
        self._ended = self._told = False  # the body has come to its end; the app knows
        self._waiter: asyncio.Future[None] | None = None
        self.started = self.whole = self.until_eof = self._chunked = False  # the reply: begun, sent to its end, framing
        self._left_bytes = 0  # of a reply with a content-length
        self._head = b""  # of the reply, while it waits for the first bytes of the body

    def take(self, body: bytes) -> None:
        """A piece of the body came."""
        self._parts.append(body)
        self.body_bytes += len(body)
        self.unread_bytes += len(body)
        self._wake()

    def end(self) -> None:
        """The body is whole."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> Message:
        """The body as it comes. Behind its end there is nothing to wait for: a client that leaves ends the task."""
        while not self._parts and (self._told or not self._ended) and not self.whole:
            if self._expects_continue and not self.started:
                self._expects_continue = False
                self._client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._client.read_on()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.whole:
            return {"type": "http.disconnect"}
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.unread_bytes = 0
        self._told = self._ended
        return {"type": "http.request", "body": body, "more_body": not self._ended}

    async def send(self, message: Message) -> None:
        """One message of the reply. RuntimeError: out of order, or not of the length it said."""
        client = self._client
        if not client.open:
            return
        if message["type"] == "http.response.body":
            self._send_body(message.get("body", b""), message.get("more_body", False))
        elif message["type"] == "http.response.start" and not self.started:
            self._send_head(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"{message['type']} is out of order here")
        if (drained := client.drained) is not None:
            await drained

    def _send_head(self, status: int, headers: Headers) -> None:
        self.started = True
        length: int | None = None
        closes = False
        for name, value in headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                closes = value.lower() == b"close"
        framing: Headers = []
        if self._head_only or status in (204, 304):
            self._head_only = True
        elif length is not None:
            self._left_bytes = length
        elif closes or self.scope["http_version"] == "1.0":
            self.until_eof = True
        else:
            self._chunked = True
            framing.append((b"transfer-encoding", b"chunked"))
        # An early answer leaves the rest of the body in the way.
        self.keep_alive = self.keep_alive and self._ended and not closes and not self.until_eof
        if not self.keep_alive and not closes:
            framing.append((b"connection", b"close"))
        self._head = head_of(status, [*headers, *framing])
        # Together with the body's first bytes where they are there already (one system call less), else at once.
        asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the head if it still waits: a reply that breaks off right behind it has shown that much."""
        head, self._head = self._head, b""
        if head and self._client.open:
            self._client.write(head)

    def _send_body(self, body: bytes, more: bool) -> None:
        if not self.started or self.whole:
            raise RuntimeError("a body before its head, or behind its end")
        head, self._head = self._head, b""
        if self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        elif self._head_only:
            body = b""
        else:
            self._left_bytes -= len(body)
            if self._left_bytes < 0 and not self.until_eof:
                raise RuntimeError("a body longer than its content-length")
        if head or body:
            self._client.write(head + body)
        if not more:
            if self._left_bytes > 0:
                raise RuntimeError("a body shorter than its content-length")
            self.whole = True
            self._wake()


def head_of(status: int, headers: Headers) -> bytes:
    """A reply's head, empty line included. ValueError: a line break or a NUL in it, which would begin another line."""
    lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status, *[b"%b: %b" % header for header in headers]]
    head = b"\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise ValueError("a header with a line break or a NUL: not sent")
    return head + b"\r\n\r\n"
