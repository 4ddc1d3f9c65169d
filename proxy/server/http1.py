"""One client's connection: HTTP/1.1 requests to calls of the ASGI app, with limits on what comes in.

Written by hand because two promises rest on it, which the usual servers do not keep:
- a client that leaves ends its request: the task that runs the app is cancelled at once, whatever it waits for (the
  rest of an upload, an embedding, a connection, a first byte, a slow reader), so that nothing behind needs to watch;
- a request has to arrive in time, within limits and with one meaning: late, oversized and ambiguous ones get a 4xx in
  OpenAI's shape, and the connection is closed.
`drain` takes the connections and ends them.

An app that ends before its reply is whole breaks the connection off: a cut reply must never look complete. A client
that shuts down its sending side counts as gone: the two cannot be told apart.
"""

import asyncio
import http
import logging
import select
import socket
import struct
import urllib.parse
from collections import deque
from dataclasses import dataclass
from typing import cast

import httptools

from proxy.asgi import CLIENT_LEFT, App, Message, Scope
from proxy.errors import ApiError, Headers

log = logging.getLogger("ragway")

HEAD_LIMIT_BYTES = 64 * 1024  # of one request's head; of trailers and chunk extensions, too
FRAMING_SHARE = 16  # bytes received for one of a body: chunks of one byte take 6
URL_LIMIT_BYTES = 16 * 1024
HEADER_LIMIT = 256
BODY_AHEAD_BYTES = 256 * 1024  # of a body that the app has not asked for: beyond it the client has to wait
PIPELINE_LIMIT = 16  # requests sent ahead of their turn: beyond it the client has to wait
UPLOAD_BYTES_A_SECOND = 16 * 1024  # so much longer than `receive_s` may an upload take
LINGER_S = 2.0  # to read on after an early answer: closing with unread bytes would take the answer away again
WATCH_S = 0.1  # how often a client that is not read from is asked whether it is there
LEFT = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere such a client is missed until it is written to
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for 0 seconds: the connection ends by RST
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in http.HTTPStatus}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds: for a request to arrive, between two of them, and for a reply of which the client takes nothing."""

    receive_s: float
    keepalive_s: float
    send_s: float


class Connection(asyncio.Protocol):
    """One client: its requests run one after the other."""

    def __init__(
        self, app: App, limits: Timeouts, *, connections: "set[Connection]", tasks: set[asyncio.Task[None]]
    ) -> None:
        """connections, tasks: of all connections; it puts itself and what it runs there."""
        self._app = app
        self._limits = limits
        self._connections = connections
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._arriving: Request | None = None  # its head is here, its end is not
        self._running: Request | None = None  # in the app
        self._waiting: deque[Request] = deque()  # for their turn
        self._receiving = False  # a part of a request is here
        self._answered = False  # one request was, so that the next may take its time to begin
        self._deaf = False  # what comes in is no longer read
        self._stopping = False  # no request after this one
        self._read_paused = False
        self._drained: asyncio.Future[None] | None = None  # there while the client does not keep up with its reply
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None  # there while reading is paused
        self._since_s = 0.0  # when what the clock looks at began
        self._read_bytes = 0  # of the request being received
        self._refed = False  # the parser is fed a head for the second time
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []

    # --- called by the event loop, and to stop -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._since_s = self._loop.time()
        self._timer = self._loop.call_later(self._limits.receive_s, self._look_at_clock)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._gone()

    def eof_received(self) -> None:
        self._gone()

    def shutdown(self) -> None:
        """Close when the reply now running is sent; at once where there is none."""
        self._stopping = True
        self._waiting.clear()
        if self._running is None:
            self._close()

    def pause_writing(self) -> None:
        self._since_s = self._loop.time()
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._read_bytes += len(data)
        try:
            self._feed(data)
            self._check_size()
        except ApiError as refusal:
            self._refuse(refusal)
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback of ours raised
            text = f"This is not an HTTP/1.1 request: {error}."
            self._refuse(cause if isinstance(cause, ApiError) else ApiError(400, text, code="malformed_http"))
        self._start_next()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # A client offers another protocol (Java's offers h2c with every request). The parser then takes what
            # follows the head for that protocol: we stay with HTTP/1.1, and start it anew behind a head without it.
            if self._arriving is None:
                raise ApiError(400, "An upgrade within a request.", code="malformed_http") from upgrade
            framing = [pair for pair in self._headers if pair[0] in (b"content-length", b"transfer-encoding")]
            self._refed = True
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(b"%b: %b\r\n" % pair for pair in framing))
            if len(data) > upgrade.args[0]:
                self._feed(data[upgrade.args[0] :])

    def _check_size(self) -> None:
        """Raises ApiError beyond a limit of head or framing. A client that is ahead of the app has to wait."""
        request = self._arriving
        if request is None:
            if self._receiving and self._read_bytes > HEAD_LIMIT_BYTES:
                raise _too_large("The request's head", HEAD_LIMIT_BYTES, 431, code="headers_too_large")
            return
        if self._read_bytes > 2 * HEAD_LIMIT_BYTES + FRAMING_SHARE * request.body_bytes:
            raise ApiError(400, "The body has too many tiny chunks: send larger chunks.", code="malformed_http")
        if request.unread_bytes > BODY_AHEAD_BYTES:
            self._pause_reading()

    # --- called by the parser ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._refed:
            return
        self._receiving = True
        self._since_s = self._loop.time()
        self._url, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        if not self._refed:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._arriving is None:  # else a trailer, or a head fed again
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._refed:
            return
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise ApiError(505, f"HTTP/{version} is not spoken here: use HTTP/1.1.", code="http_version_not_supported")
        if self._read_bytes > HEAD_LIMIT_BYTES and sum(len(n) + len(v) for n, v in self._headers) > HEAD_LIMIT_BYTES:
            raise _too_large("The request's head", HEAD_LIMIT_BYTES, 431, code="headers_too_large")
        path, query = _target(method, self._url)
        expects_continue = _check(self._headers, version)
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": method.decode("ascii"),
            "scheme": "http",
            "root_path": "",
            "path": urllib.parse.unquote(path) if "%" in path else path,
            "raw_path": path.encode("ascii"),
            "query_string": query,
            "headers": self._headers,
            "client": None,
            "server": None,
        }
        keep_alive = self._parser.should_keep_alive() and version == "1.1"
        self._arriving = request = Request(self, scope, keep_alive=keep_alive, expects_continue=expects_continue)
        self._waiting.append(request)

    def on_body(self, body: bytes) -> None:
        if self._arriving is not None:
            self._arriving.take(body)

    def on_message_complete(self) -> None:
        request = self._arriving
        if request is None or (not self._refed and self._parser.should_upgrade()):
            return  # not the end: see _feed
        self._arriving = None
        self._receiving = self._refed = False
        self._read_bytes = 0
        request.end()
        if len(self._waiting) > PIPELINE_LIMIT:
            self._pause_reading()

    # --- one request at a time ---------------------------------------------------------------------------------------

    def _start_next(self) -> None:
        if self._running is None and self._waiting:
            self._running = request = self._waiting.popleft()
            request.task = task = self._loop.create_task(self._run(request))
            self._tasks.add(task)

    async def _run(self, request: "Request") -> None:
        try:
            await self._app(request.scope, request.receive, request.send)
        except asyncio.CancelledError:
            pass  # the client left or the server ends: there is nobody to tell
        finally:
            self._ended(request)

    def _ended(self, request: "Request") -> None:
        if request.task is not None:
            self._tasks.discard(request.task)
        self._running = None
        self._answered = True
        request.flush()
        if not self._receiving:
            self._since_s = self._loop.time()
        if request.until_eof and not request.whole and self.open:  # its end would pass for the reply's: break it off
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if not request.whole or not request.keep_alive or request is self._arriving or self._stopping:
            self._close()
        else:
            self._resume_reading()
            self._start_next()

    def _gone(self) -> None:
        """Nobody is there any more: what runs for the client ends."""
        self._deaf = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        running = self._running
        if running is not None and running.task is not None and not running.whole:
            running.task.cancel(CLIENT_LEFT)
        self.resume_writing()

    def _refuse(self, error: ApiError) -> None:
        """Answer what will never be a request; behind requests that are whole, only end the connection after them."""
        self._deaf = True
        arriving, running = self._arriving, self._running
        if arriving is not None and arriving in self._waiting:
            self._waiting.remove(arriving)
        last = self._waiting[-1] if self._waiting else running
        if last is not None and (last is not arriving or last.started):
            last.keep_alive = False
            return
        log.info("%d %s, the connection is closed", error.status, error.code)
        body = error.body()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self._transport.write(head_of(error.status, [*headers, (b"connection", b"close")]) + body)
        if running is not None and running.task is not None:
            running.whole = True  # this was its reply
            running.task.cancel(error.code)
        self._close()

    def _close(self) -> None:
        """Close once all is sent; where a request is still coming, read on for a moment."""
        self._deaf = True
        if self._transport.is_closing():
            return
        if not self._receiving:
            self._transport.close()
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(LINGER_S, self._transport.abort)
            self._transport.write_eof()
            self._resume_reading()

    # --- the clock: one timer, set anew only when it fires -----------------------------------------------------------

    def _look_at_clock(self) -> None:
        now_s, due_s = self._loop.time(), self._due_s()
        if now_s < due_s:  # looked at often enough to see what begins meanwhile and has less time
            self._timer = self._loop.call_at(min(due_s, now_s + self._limits.receive_s), self._look_at_clock)
        elif self._drained is not None:
            self._transport.abort()
        elif self._receiving:
            text = f"The request did not arrive within {self._limits.receive_s:g} s (server.receive_timeout_s)."
            self._refuse(ApiError(408, text, code="request_timeout"))
        else:
            self._close()

    def _due_s(self) -> float:
        """When the patience with what the client is doing, or not doing, ends."""
        limits, running = self._limits, self._running
        if self._drained is not None:
            return self._since_s + limits.send_s
        if self._read_paused or (running is not None and running is not self._arriving):
            return self._loop.time() + limits.receive_s  # the client waits for us
        if self._receiving:
            return self._since_s + limits.receive_s + self._read_bytes / UPLOAD_BYTES_A_SECOND
        return self._since_s + (limits.keepalive_s if self._answered else limits.receive_s)

    # --- called by the request that runs -----------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether somebody is there to write to."""
        return not self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Hand bytes on."""
        self._transport.write(data)

    @property
    def drained(self) -> asyncio.Future[None] | None:
        """Done once the client keeps up with its reply; None while it does."""
        return self._drained

    def read_on(self) -> None:
        """The app wants more of the body."""
        self._resume_reading()

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
            if self._watching is None and LEFT:
                self._watching = self._loop.call_later(WATCH_S, self._watch)

    def _watch(self) -> None:
        """While nothing is read the event loop does not see that the client left: ask the kernel."""
        self._watching = None
        if not self._read_paused or self._transport.is_closing():
            return
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), LEFT)
        if poll.poll(0):
            self._gone()
            self._transport.abort()
        else:
            self._watching = self._loop.call_later(WATCH_S, self._watch)

    def _resume_reading(self) -> None:
        if self._read_paused and len(self._waiting) <= PIPELINE_LIMIT:
            self._read_paused = False
            self._since_s = self._loop.time()
            if not self._transport.is_closing():
                self._transport.resume_reading()


def _target(method: bytes, url: bytes) -> tuple[str, bytes]:
    """The path and the query asked for. Raises ApiError 400, 414."""
    if len(url) > URL_LIMIT_BYTES:
        raise _too_large("The URL", URL_LIMIT_BYTES, 414, code="url_too_long")
    path, _, query = url.partition(b"#")[0].partition(b"?")
    if method == b"CONNECT" or not path.startswith(b"/"):
        raise ApiError(400, "Ask for a path that begins with /: this is no forward proxy.", code="malformed_http")
    if b"%00" in path:  # no name has a NUL in it, and some databases refuse a text with one
        raise ApiError(400, "Ask for a path without %00.", code="malformed_http")
    return path.decode("ascii"), query


def _check(headers: list[tuple[bytes, bytes]], version: str) -> bool:
    """Whether the client waits for a 100 before it sends the body. Raises ApiError for a head with two readings."""
    if len(headers) > HEADER_LIMIT:
        raise ApiError(431, f"The request has more than {HEADER_LIMIT} headers.", code="headers_too_large")
    hosts, expects_continue = 0, False
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
            text = "Send the body with a content-length, or with transfer-encoding: chunked alone."
            raise ApiError(400, text, code="malformed_http")
        elif name == b"expect":
            expects_continue = value.lower() == b"100-continue"
    if hosts != 1 and (hosts or version == "1.1"):
        raise ApiError(400, f"Send one Host header, not {hosts}.", code="malformed_http")
    return expects_continue


def _too_large(what: str, limit_bytes: int, status: int, *, code: str) -> ApiError:
    return ApiError(status, f"{what} is larger than {limit_bytes // 1024} KB.", code=code)


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

    def __init__(self, client: Connection, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
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
