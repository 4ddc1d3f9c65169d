"""The HTTP/1.1 server: turns requests into calls of an ASGI app, with limits on input.

`Connections` accepts one process's connections, drains them at the end, and cuts the rest; `ClientConnection` is one
connection and `Request` one request.

Written by hand for two promises that the usual servers do not keep:

- A client disconnect cancels the request task immediately, at any await (upload, embedding, connect, first byte, slow
  reader). Handlers never poll for disconnects.
- A request must arrive in time, within limits and with one meaning: a late, oversized or ambiguous request gets a 4xx
  in OpenAI's shape, and its connection is closed.

While draining, a process accepts no connections, running requests may finish, and new requests on kept-alive
connections get a 503: nothing starts that might be cut. /healthz, /readyz and /metrics still answer, /readyz with
"stopping". After that, remaining requests are cancelled and their connections reset.

If the app ends before its reply is complete, the connection is reset: a cut reply must never look complete. A client
that shuts down its sending side counts as disconnected: we cannot tell a half-close from a disconnect.
"""

import asyncio
import http
import logging
import select
import socket
import struct
import urllib.parse
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import httptools

from proxy.asgi import CLIENT_LEFT, SENT, App, Message, Receive, Scope, Send, send_error
from proxy.dialects.errors import ApiError, Headers

log = logging.getLogger("ragway")

HEAD_LIMIT_BYTES = 64 * 1024  # for a request's head; also for trailers and chunk extensions
FRAMING_SHARE = 16  # received bytes per body byte: chunks of one byte take 6
URL_LIMIT_BYTES = 16 * 1024
HEADER_LIMIT = 256
BODY_AHEAD_BYTES = 256 * 1024  # not yet read by the app: beyond, the client must wait
PIPELINE_LIMIT = 16  # pipelined requests: beyond, the client must wait
UPLOAD_BYTES_PER_S = 16 * 1024  # an upload may exceed `receive_s` by the time it needs at this rate
LINGER_S = 2.0  # read on after an early answer: closing with unread bytes would discard it
WATCH_S = 0.1  # interval of disconnect checks while reading is paused
CLIENT_CLOSED = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere, a disconnect is noticed at the next write
_TLS_HELLO = b"\x16\x03"  # how TLS begins
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_SERVED_PATHS = ("/healthz", "/readyz", "/metrics")  # even while draining
_CUT_S = 0.5  # for cancelled requests to clean up
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER for 0 seconds: ends a connection by RST
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in http.HTTPStatus}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds: for a request to arrive, between requests, and for a reply while its client reads nothing."""

    receive_s: float
    keepalive_s: float
    send_s: float


class ClientConnection(asyncio.Protocol):
    """One client's connection; its requests run one after the other."""

    def __init__(self, server: "Connections") -> None:
        self._server = server
        self._timeouts = server.timeouts
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._arriving: Request | None = None  # its head has arrived, its end has not
        self._running: Request | None = None  # in the app
        self._queued: deque[Request] = deque()  # pipelined, not started
        self._receiving = False  # a part of a request has arrived
        self._answered = False  # one request was answered: the next may start later
        self._ignoring_input = False  # input is discarded
        self._left = False  # the client has disconnected
        self._stopping = False  # no further request
        self._read_paused = False
        self.drained: asyncio.Future[None] | None = None  # set while the client cannot keep up
        self._timer: asyncio.TimerHandle | None = None
        self._watch_timer: asyncio.TimerHandle | None = None  # set while reading is paused
        self._since_s = 0.0  # when the period began that `_deadline_s` limits
        self._read_bytes = 0  # by the arriving request
        self._reparsing = False  # a head is parsed for the second time
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []

    # --- called by the event loop, and by `Connections` -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._server.open.add(self)
        self._since_s = self._loop.time()
        self._timer = self._loop.call_later(self._timeouts.receive_s, self._check_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._client_left()

    def eof_received(self) -> None:
        self._client_left()

    def shutdown(self) -> None:
        """Close after the running reply, or at once if there is none."""
        self._stopping = True
        self._queued.clear()
        if self._running is None:
            self._close()

    def pause_writing(self) -> None:
        self._since_s = self._loop.time()
        self.drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self.drained = self.drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._ignoring_input:
            return
        self._read_bytes += len(data)
        try:
            self._feed(data)
            self._check_size()
        except ApiError as error:
            self._refuse(error)
        except httptools.HttpParserError as error:
            cause = error.__context__  # raised by one of our callbacks
            text = f"This is not an HTTP/1.1 request: {error}."
            if data.startswith(_TLS_HELLO) and self._read_bytes == len(data):
                log.warning("a client speaks TLS, and this port plain HTTP: write http:// in the client's address")
            self._refuse(cause if isinstance(cause, ApiError) else ApiError(400, text, code="malformed_http"))
        self._start_next()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The client offers another protocol (Java offers h2c with every request), and the parser leaves everything
            # after the head to that protocol. We stay with HTTP/1.1: a new parser gets a head without the offer.
            if self._arriving is None:
                raise ApiError(400, "Send no upgrade within a request.", code="malformed_http") from upgrade
            framing = [pair for pair in self._headers if pair[0] in (b"content-length", b"transfer-encoding")]
            self._reparsing = True
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(b"%b: %b\r\n" % pair for pair in framing))
            if len(data) > upgrade.args[0]:
                self._feed(data[upgrade.args[0] :])

    def _check_size(self) -> None:
        """Raise ApiError if head or framing exceed a limit; pause reading while the client is ahead of the app."""
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
        if self._reparsing:
            return
        self._receiving = True
        self._since_s = self._loop.time()
        self._url, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        if not self._reparsing:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._arriving is None:  # else a trailer, or a head read again
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._reparsing:
            return
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise ApiError(505, f"HTTP/{version} is not supported: use HTTP/1.1.", code="http_version_not_supported")
        if self._read_bytes > HEAD_LIMIT_BYTES and sum(len(n) + len(v) for n, v in self._headers) > HEAD_LIMIT_BYTES:
            raise _too_large("The request's head", HEAD_LIMIT_BYTES, 431, code="headers_too_large")
        path, query = _target(method, self._url)
        _check(self._headers, version)
        expects_continue = version == "1.1" and _waits_for_continue(self._headers)
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
        self._queued.append(request)

    def on_body(self, body: bytes) -> None:
        if self._arriving is not None:
            self._arriving.take(body)

    def on_message_complete(self) -> None:
        request = self._arriving
        if request is None or (not self._reparsing and self._parser.should_upgrade()):
            return  # not the end: see _feed
        self._arriving = None
        self._receiving = self._reparsing = False
        self._read_bytes = 0
        request.end()
        if len(self._queued) > PIPELINE_LIMIT:
            self._pause_reading()

    # --- one request at a time ---------------------------------------------------------------------------------------

    def _start_next(self) -> None:
        if self._running is None and self._queued:
            self._running = request = self._queued.popleft()
            request.task = task = self._loop.create_task(self._run(request))
            self._server.tasks.add(task)

    async def _run(self, request: "Request") -> None:
        try:
            await self._server.answer(request.scope, request.receive, request.send)
        except asyncio.CancelledError:
            pass  # client disconnected or server stopping
        finally:
            self._ended(request)

    def _ended(self, request: "Request") -> None:
        if request.task is not None:
            self._server.tasks.discard(request.task)
        self._running = None
        self._answered = True
        request.flush()
        if not self._receiving:
            self._since_s = self._loop.time()
        if request.until_eof and not request.whole and self.open:  # a plain close would look like the end: reset
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if not request.whole or not request.keep_alive or request is self._arriving or self._stopping:
            self._close()
        else:
            self.resume_reading()
            self._start_next()

    def _client_left(self) -> None:
        """The client disconnected: cancel the running request, once.

        Both the input's end and the connection's end say so. A second cancel would interrupt the clean-up.
        """
        if self._left:
            return
        self._left = self._ignoring_input = True
        self._queued.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        running = self._running
        if running is not None and running.task is not None and not running.whole:
            running.task.cancel(CLIENT_LEFT)
        self.resume_writing()

    def _refuse(self, error: ApiError) -> None:
        """Answer an invalid request with an error; if complete requests precede it, only close after the last reply."""
        self._ignoring_input = True
        arriving, running = self._arriving, self._running
        if arriving is not None and arriving in self._queued:
            self._queued.remove(arriving)
        last = self._queued[-1] if self._queued else running
        if last is not None and (last is not arriving or last.started):
            last.keep_alive = False
            return
        log.info("%d %s, the connection is closed", error.status, error.code)
        body = error.body()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        in_head = self._receiving and arriving is None
        interim = _CONTINUE if in_head and _waits_for_continue(self._headers) else b""
        self.transport.write(interim + head_of(error.status, [*headers, (b"connection", b"close")]) + body)
        if running is not None and running.task is not None:
            running.whole = True  # the error was its reply
            running.task.cancel(error.code)
        self._close()

    def _close(self) -> None:
        """Close after sending all data; if a request is still arriving, read on for a moment."""
        self._ignoring_input = True
        if self.transport.is_closing():
            return
        if not self._receiving:
            self.transport.close()
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(LINGER_S, self.transport.abort)
            self.transport.write_eof()
            self.resume_reading()

    # --- the clock: one timer, set again only when the timer fires
    # ------------------------------------------------------

    def _check_deadline(self) -> None:
        now_s, deadline_s = self._loop.time(), self._deadline_s()
        if now_s < deadline_s:  # checked often enough to notice an earlier deadline
            self._timer = self._loop.call_at(min(deadline_s, now_s + self._timeouts.receive_s), self._check_deadline)
        elif self.drained is not None:
            self.transport.abort()
        elif self._receiving:
            text = f"The request did not arrive within {self._timeouts.receive_s:g} s (server.receive_timeout_s)."
            self._refuse(ApiError(408, text, code="request_timeout"))
        else:
            self._close()

    def _deadline_s(self) -> float:
        """When the server loses patience with its client."""
        timeouts, running = self._timeouts, self._running
        if self.drained is not None:
            return self._since_s + timeouts.send_s
        if self._read_paused or (running is not None and running is not self._arriving):
            return self._loop.time() + timeouts.receive_s  # the client waits for us
        if self._receiving:
            return self._since_s + timeouts.receive_s + self._read_bytes / UPLOAD_BYTES_PER_S
        return self._since_s + (timeouts.keepalive_s if self._answered else timeouts.receive_s)

    # --- called by the request that runs -----------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether the client is still connected."""
        return not self.transport.is_closing()

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()
            if self._watch_timer is None and CLIENT_CLOSED:
                self._watch_timer = self._loop.call_later(WATCH_S, self._watch)

    def _watch(self) -> None:
        """While reading is paused, the event loop notices no disconnect: ask the kernel."""
        self._watch_timer = None
        if not self._read_paused or self.transport.is_closing():
            return
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), CLIENT_CLOSED)
        if poll.poll(0):
            self._client_left()
            self.transport.abort()
        else:
            self._watch_timer = self._loop.call_later(WATCH_S, self._watch)

    def resume_reading(self) -> None:
        """Read on, unless too many requests wait."""
        if self._read_paused and len(self._queued) <= PIPELINE_LIMIT:
            self._read_paused = False
            self._since_s = self._loop.time()
            if not self.transport.is_closing():
                self.transport.resume_reading()


def _target(method: bytes, url: bytes) -> tuple[str, bytes]:
    """A request's path and query. Raises ApiError 400, 414."""
    if len(url) > URL_LIMIT_BYTES:
        raise _too_large("The URL", URL_LIMIT_BYTES, 414, code="url_too_long")
    path, _, query = url.partition(b"#")[0].partition(b"?")
    if method == b"CONNECT" or not path.startswith(b"/"):
        raise ApiError(
            400, "Request a path that begins with /: this server is not a forward proxy.", code="malformed_http"
        )
    if b"%00" in path:  # no name contains NUL, and some databases reject it
        raise ApiError(400, "Request a path without %00.", code="malformed_http")
    return path.decode("ascii"), query


def _waits_for_continue(headers: Headers) -> bool:
    """Whether the client waits for a 100 before it sends a body."""
    return b"100-continue" in [value.lower() for name, value in headers if name == b"expect"]


def _check(headers: Headers, version: str) -> None:
    """Raises ApiError for an ambiguous head."""
    if len(headers) > HEADER_LIMIT:
        raise ApiError(
            431, f"The request has {len(headers)} headers: send at most {HEADER_LIMIT}.", code="headers_too_large"
        )
    hosts = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
            text = "Send the body with a content-length, or with transfer-encoding: chunked alone."
            raise ApiError(400, text, code="malformed_http")
    if hosts != 1 and (hosts or version == "1.1"):
        raise ApiError(400, f"Send one Host header, not {hosts}.", code="malformed_http")


def _too_large(name: str, limit_bytes: int, status: int, *, code: str) -> ApiError:
    return ApiError(status, f"{name} is larger than the limit of {limit_bytes // 1024} KB.", code=code)


class Request:
    """What has been received of one request, and sent of its reply."""

    def __init__(self, client: ClientConnection, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self._client = client
        self.scope = scope
        self.keep_alive = keep_alive
        self.task: asyncio.Task[None] | None = None
        self._expects_continue = expects_continue
        self._head_only = scope["method"] == "HEAD"
        self._parts: list[bytes] = []
        self.body_bytes = self.unread_bytes = 0  # received; of these, not yet read by the app
        self._ended = self._end_received = False  # body complete; its end received by the app
        self._waiter: asyncio.Future[None] | None = None
        self.started = self.whole = self.until_eof = self._chunked = False  # reply started, complete; its framing
        self._left_bytes = 0  # left to send, of the content-length
        self._head = b""  # of the reply, held back for the body's first bytes

    def take(self, body: bytes) -> None:
        """Add a piece of body."""
        self._parts.append(body)
        self.body_bytes += len(body)
        self.unread_bytes += len(body)
        self._wake()

    def end(self) -> None:
        """Mark the body as complete."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _interim(self) -> bytes:
        """A 100 for a client that waits for one before it sends a body; b"" for others, and the second time.

        Even a refusal follows a 100: JDK 17's `HttpClient` waits for it without end, past its own timeout
        (JDK-8286171). curl reads 100 and refusal together, and sends no body.
        """
        waits, self._expects_continue = self._expects_continue and not (self.body_bytes or self._ended), False
        return _CONTINUE if waits else b""

    async def receive(self) -> Message:
        """The body in pieces. After its end, a call does not return before the reply is complete; a disconnect cancels
        it.
        """
        while not self._parts and (self._end_received or not self._ended) and not self.whole:
            if not self.started and (interim := self._interim()):
                self._client.transport.write(interim)
            self._client.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.whole:
            return {"type": "http.disconnect"}
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.unread_bytes = 0
        self._end_received = self._ended
        return {"type": "http.request", "body": body, "more_body": not self._ended}

    def send(self, message: Message) -> Awaitable[None]:
        """Send one reply message; await it to wait for a slow client. `SENT`: nothing to wait for.

        RuntimeError: out of order, or not the announced length.
        """
        client = self._client
        if client.transport.is_closing():
            return SENT
        if message["type"] == "http.response.body":
            self._send_body(message.get("body", b""), message.get("more_body", False))
        elif message["type"] == "http.response.start" and not self.started:
            self._send_head(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"{message['type']} is out of order here")
        return client.drained or SENT

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
        # After an early answer, the rest of the body would be in the way.
        self.keep_alive = self.keep_alive and self._ended and not closes and not self.until_eof
        if not self.keep_alive and not closes:
            framing.append((b"connection", b"close"))
        self._head = self._interim() + head_of(status, [*headers, *framing])
        # Goes out with the body's first bytes if they are available (one system call less), else at once.
        asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the head if still held back: a reply that breaks off right after it must have shown it."""
        head, self._head = self._head, b""
        if head and self._client.open:
            self._client.transport.write(head)

    def _send_body(self, body: bytes, more: bool) -> None:
        if not self.started or self.whole:
            raise RuntimeError("a body before the head, or after the end")
        head, self._head = self._head, b""
        if self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        elif self._head_only:
            body = b""
        else:
            self._left_bytes -= len(body)
            if self._left_bytes < 0 and not self.until_eof:
                raise RuntimeError("a body longer than the content-length")
        if head or body:
            self._client.transport.write(head + body)
        if not more:
            if self._left_bytes > 0:
                raise RuntimeError("a body shorter than the content-length")
            self.whole = True
            self._wake()


def head_of(status: int, headers: Headers) -> bytes:
    """A reply's head, with its empty line. ValueError: a header holds a NUL, or a line break, which would start another
    line.
    """
    lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status, *[name + b": " + value for name, value in headers]]
    head = b"\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise ValueError("a header with a line break or a NUL: not sent")
    return head + b"\r\n\r\n"


class Connections:
    """One process's connections."""

    def __init__(self, app: App, timeouts: Timeouts, on_close: Callable[[], None] = lambda: None) -> None:
        """on_close: called for each closed connection."""
        self._app = app
        self.timeouts = timeouts
        self._listening: asyncio.Server | None = None
        self._on_close = on_close
        self._stopping = False
        self._all_closed = asyncio.Event()
        self.open: set[ClientConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()  # of running requests

    def closed(self, connection: ClientConnection) -> None:
        """Forget a closed connection."""
        self.open.discard(connection)
        self._on_close()
        if not self.open:
            self._all_closed.set()

    def answer(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Let the app answer a request; while draining, refuse it and close the connection."""
        return (self._refuse if self._stopping else self._app)(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if scope["path"] in _SERVED_PATHS:
            await self._app(scope, receive, send_last)
            return
        while (await receive()).get("more_body", False):
            pass  # while sending, a client may not read yet
        text = "The gateway is stopping and takes no new requests: send the request again, on a new connection."
        await send_error(send_last, ApiError(503, text, code="stopping", type="server_error"))

    async def listen(self, listener: socket.socket, backlog: int) -> None:
        """Accept connections from a bound socket."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: ClientConnection(self), sock=listener, backlog=backlog)

    async def take(self, accepted: socket.socket) -> None:
        """Serve a connection accepted by another process. Raises OSError if it is already closed."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: ClientConnection(self), accepted)

    async def drain(self, patience_s: float) -> None:
        """Let running requests finish; cut them after `patience_s` or when cancelled. Returns once no connection is
        left.
        """
        self._stopping = True
        if self._listening is not None:
            self._listening.close()
        try:
            async with asyncio.timeout(patience_s):
                while self.tasks:
                    await asyncio.wait(set(self.tasks))  # new tasks may have started: refusals
                for connection in list(self.open):
                    connection.shutdown()
                self._all_closed.clear()
                if self.open:  # sent bytes may still be on their way
                    await self._all_closed.wait()
        except TimeoutError:
            pass
        finally:
            await self._cut()

    async def _cut(self) -> None:
        tasks = set(self.tasks)
        for task in tasks:
            task.cancel()
        for connection in list(self.open):
            connection.shutdown()
        if tasks:
            log.warning("stopping: %d replies were cut before their end", len(tasks))
            await asyncio.wait(tasks, timeout=_CUT_S)
