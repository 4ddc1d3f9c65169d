"""One connection to an upstream: a request out, a reply in, bytes as they come.

`httptools` (llhttp, strict) reads the heads and removes the transfer-encoding; nothing else touches the body. What
several reads brought while nobody looked is handed on as one chunk: a read costs one wake-up, whatever it holds.
`client` opens, lends and takes back connections; here is only what happens on one of them.

UpstreamError             a request that got no reply, or not all of it; its text says what happened, never the key
├── ConnectFailed         no connection: refused, unresolvable, certificate not accepted, not an http(s) address
├── ConnectTimeout        no connection within connect_timeout_s (TLS included)
├── PoolTimeout           all max_connections to this upstream stayed busy for connect_timeout_s
├── FirstByteTimeout      no head of a reply within first_byte_timeout_s of the last byte sent
├── IdleTimeout           a reply that stopped for idle_timeout_s
├── Cut                   closed, reset or broken before the reply's end
└── BadReply              something that is not one HTTP/1.1 reply
"""

import asyncio
import os
import select
import socket
from typing import cast

import httptools

HEAD_LIMIT_BYTES = 64 * 1024  # of one reply's head; also of framing (chunk sizes, trailers) without a body byte
UNREAD_LIMIT_BYTES = 256 * 1024  # received and not yet read: beyond it the upstream has to wait
UPLOAD_PIECE_BYTES = 64 * 1024  # a longer request body goes out in pieces, as fast as the upstream takes them
CAN_POLL = hasattr(select, "poll")  # not on Windows


class UpstreamError(Exception):
    """Base of what can go wrong between us and an upstream."""


class ConnectFailed(UpstreamError):
    """No connection could be made."""


class ConnectTimeout(UpstreamError):
    """Connecting took too long."""


class PoolTimeout(UpstreamError):
    """Waiting for a free connection took too long."""


class FirstByteTimeout(UpstreamError):
    """The upstream did not begin to answer in time."""


class IdleTimeout(UpstreamError):
    """The upstream stopped in the middle of its reply."""


class Cut(UpstreamError):
    """The connection ended before the reply did."""


class BadReply(UpstreamError):
    """What came is not an HTTP/1.1 reply."""


class Connection(asyncio.Protocol):
    """A socket with at most one exchange on it. Not for two tasks at once."""

    __slots__ = (
        "_complete",
        "_error",
        "_fed_bytes",
        "_first_byte_timeout_s",
        "_framing_bytes",
        "_head_done",
        "_head_only",
        "_idle_timeout_s",
        "_keep_alive",
        "_last_s",
        "_loop",
        "_parser",
        "_parts",
        "_poll",
        "_read_paused",
        "_sent",
        "_timer",
        "_transport",
        "_unread_bytes",
        "_until_eof",
        "_waiter",
        "_write_paused",
        "dead",
        "headers",
        "idle_since_s",
        "status",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, *, first_byte_timeout_s: float, idle_timeout_s: float) -> None:
        self._loop = loop
        self._first_byte_timeout_s = first_byte_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._parser: httptools.HttpResponseParser | None = None  # None: no reply is expected
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._read_paused = self._write_paused = False
        self.dead = False
        self.idle_since_s = 0.0
        self._expect(head_only=False)
        self._complete = True

    def _expect(self, head_only: bool) -> None:
        """Forget the last reply and get ready for the next."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._unread_bytes = self._framing_bytes = 0
        self._error: UpstreamError | None = None
        self._head_only = head_only  # the reply to a HEAD has a content-length and no body
        self._head_done = self._complete = self._until_eof = self._keep_alive = self._sent = False

    # --- what the client does -------------------------------------------------------------------------------------

    async def exchange(self, head: bytes, body: bytes, *, head_only: bool) -> None:
        """Send a request and return when the reply's head is in `status` and `headers`.

        Raises FirstByteTimeout, Cut, BadReply. On any exception, cancellation too, the caller aborts the connection.
        """
        self._expect(head_only)
        self._parser = httptools.HttpResponseParser(self)
        self._last_s = self._loop.time()
        self._look_by(self._last_s + self._first_byte_timeout_s)
        if self._transport is None or self.dead:
            self._fail(Cut("the connection was closed before the request was sent"))
        elif len(body) <= UPLOAD_PIECE_BYTES:
            self._transport.write(head + body)
            self._sent = True
        else:
            await self._upload(self._transport, head, body)
        while not self._head_done:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def read(self) -> bytes:
        """The body bytes that came since the last call, one at least; b"" at the end. Raises IdleTimeout, Cut."""
        parts = self._parts
        while not parts:
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        chunk = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._unread_bytes = 0
        self._resume_reading()
        return chunk

    @property
    def complete(self) -> bool:
        """Whether the reply came to its end and all of its body was read."""
        return self._complete and not self._parts

    @property
    def until_eof(self) -> bool:
        """Whether nothing but the connection's end tells the end of the reply: a cut one looks like a whole one."""
        return self._until_eof

    def reusable(self) -> bool:
        """Whether another request may follow: the reply was received to its end and nothing speaks against it."""
        if not (self._complete and self._keep_alive and self._sent) or self.dead or self._transport is None:
            return False
        return not self._transport.is_closing() and self._transport.get_write_buffer_size() == 0

    def park(self) -> None:
        """Lie idle: from here on anything received closes the connection."""
        self._parts.clear()
        self.idle_since_s = self._loop.time()

    def fresh(self, keepalive_s: float) -> bool:
        """Whether an idle connection may still be used: young enough, and nothing waits unread in the socket.

        The look into the socket closes the gap in which the upstream's closing has arrived and the event loop has
        not yet come round to saying so. A request written into that gap would be lost, and we never send one twice.
        """
        if self.dead or self._transport is None or self._transport.is_closing():
            return False
        if self._loop.time() - self.idle_since_s >= keepalive_s:
            return False
        return self._poll is None or not self._poll.poll(0)

    def abort(self) -> None:
        """Close at once. Idempotent; whoever waits gets Cut."""
        self._fail(Cut("the connection was closed on this side"))
        self.dead = True
        self._over()
        if self._transport is not None:
            self._transport.abort()

    # --- sending --------------------------------------------------------------------------------------------------

    async def _upload(self, transport: asyncio.Transport, head: bytes, body: bytes) -> None:
        """Send a long body in pieces; stop when the upstream is gone or does not want the rest."""
        pieces = memoryview(body)
        transport.write(head + body[:UPLOAD_PIECE_BYTES])
        for start in range(UPLOAD_PIECE_BYTES, len(body), UPLOAD_PIECE_BYTES):
            while self._write_paused and self._wants_more():
                await self._wait()
            if not self._wants_more():
                return
            self._last_s = self._loop.time()
            transport.write(pieces[start : start + UPLOAD_PIECE_BYTES])
        self._sent = True

    def _wants_more(self) -> bool:
        """Whether the upstream still reads: an early 413 or 401 means that it does not, an early 200 that it may."""
        if self._error is not None or self._complete:
            return False
        return not self._head_done or (self.status < 300 and not self._read_paused)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._last_s = self._loop.time()
        self._wake()

    # --- receiving ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a request must not wait for the last one's ACK
        if CAN_POLL:
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:  # nobody asked for this: whatever it is, it is no reply to the next request
            self.abort()
            return
        head_was_done, parts_before = self._head_done, len(self._parts)
        self._fed_bytes = len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._broken(exc)
            return
        self._unread_bytes += len(data)
        self._framing_bytes = 0 if len(self._parts) > parts_before else self._framing_bytes + len(data)
        if self._complete:
            self._over()
        elif self._framing_bytes > HEAD_LIMIT_BYTES:
            self._fail(self._protocol_error(f"more than {HEAD_LIMIT_BYTES} bytes of head or framing without body"))
        elif self._head_done:
            self._last_s = self._loop.time()
            if not head_was_done:
                self._look_by(self._last_s + self._idle_timeout_s)
            if self._unread_bytes > UNREAD_LIMIT_BYTES and not self._read_paused and self._transport is not None:
                self._read_paused = True
                self._transport.pause_reading()
        if self._head_done:
            self._wake()

    def eof_received(self) -> None:
        if self._parser is not None and self._head_done and self._until_eof:
            self._complete = True
            self._keep_alive = False
            self._over()
            self._wake()
        self._lost("the upstream closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        # Over TLS an end without close_notify comes here and not to eof_received: such a body may be truncated.
        if exc is not None:
            self._read_what_is_left()
        self._lost(f"the connection broke: {exc}" if exc is not None else "the upstream closed the connection")

    def _read_what_is_left(self) -> None:
        """Take an early 413 or 401 that lay unread in the socket when our upload met the reset behind it."""
        transport = self._transport
        if self._parser is None or self._head_done or transport is None or transport.get_extra_info("ssl_object"):
            return  # nobody waits for it, or what lies there is encrypted
        try:
            with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as rest:
                rest.setblocking(False)
                data = rest.recv(HEAD_LIMIT_BYTES)
        except OSError:  # nothing was there
            return
        if data:
            self.data_received(data)

    def _lost(self, what: str) -> None:
        self.dead = True
        self._fail(Cut(f"{what} {'before the end of its reply' if self._head_done else 'without a reply'}"))

    def _broken(self, exc: Exception) -> None:
        """The parser gave up: behind a complete reply that only spoils the connection, before it the reply."""
        if self._complete:
            self._keep_alive = False
            self._over()
            self._wake()
            return
        cause = exc.__context__ if isinstance(exc.__context__, BadReply) else exc
        text = "an upgrade nobody asked for" if isinstance(exc, httptools.HttpParserUpgrade) else str(cause)
        self._fail(self._protocol_error(text))

    def _protocol_error(self, text: str) -> UpstreamError:
        return Cut(f"the reply's framing broke: {text}") if self._head_done else BadReply(text)

    def _fail(self, error: UpstreamError) -> None:
        """End the exchange that is going on, if one is; the first reason stays."""
        if self._parser is None:
            return
        self._error = error
        self.dead = True
        self._over()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _over(self) -> None:
        self._parser = None
        if self.dead and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _resume_reading(self) -> None:
        if self._read_paused and self._transport is not None:
            self._read_paused = False
            self._last_s = self._loop.time()
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # --- the clock: one timer for all exchanges of the connection, set anew when it fires ---------------------------

    def _look_by(self, due_s: float) -> None:
        """Make sure that the clock is looked at by then."""
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = None
        if self._parser is None:  # nothing is going on
            return
        if self._read_paused:  # the reader is slow, not the upstream
            self._last_s = self._loop.time()
        limit_s = self._idle_timeout_s if self._head_done else self._first_byte_timeout_s
        due_s = self._last_s + limit_s
        if self._loop.time() < due_s:
            self._timer = self._loop.call_at(due_s, self._look_at_clock)
        elif self._head_done:
            self._fail(IdleTimeout(f"nothing came for {limit_s:g} s in the middle of the reply"))
        else:
            self._fail(FirstByteTimeout(f"no reply within {limit_s:g} s"))

    # --- called by the parser -------------------------------------------------------------------------------------

    @property
    def on_body(self) -> object:
        return self._parts.append  # one C call per piece; the parser looks it up once, for this reply's list

    def on_message_begin(self) -> None:
        if self._complete:
            raise BadReply("bytes behind the end of the reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # else a trailer: hop-by-hop here, since nobody said TE: trailers
            self.headers.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = cast(httptools.HttpResponseParser, self._parser)
        self.status = parser.get_status_code()
        large = self._framing_bytes + self._fed_bytes > HEAD_LIMIT_BYTES
        if large and sum(len(name) + len(value) for name, value in self.headers) > HEAD_LIMIT_BYTES:
            raise BadReply(f"a head of more than {HEAD_LIMIT_BYTES} bytes")
        if self.status == 101 or not 100 <= self.status < 600:
            raise BadReply(f"status {self.status}")
        if self.status < 200:
            return  # interim (100 Continue, 103 Early Hints): the reply is still to come
        if parser.get_http_version() not in ("1.1", "1.0"):
            raise BadReply(f"HTTP version {parser.get_http_version()}")
        self._until_eof = self._ends_at_eof()
        self._keep_alive = parser.should_keep_alive()
        self._head_done = True
        if self._head_only:  # llhttp would wait for the body that the content-length tells of: stop it here
            self._complete = True
            raise BadReply("a body after HEAD")

    def on_message_complete(self) -> None:
        if self.status < 200:
            self.headers.clear()
            return
        self._complete = True

    def _ends_at_eof(self) -> bool:
        """Whether nothing but the connection's end will tell the body's end. Raises BadReply."""
        framed = self.status in (204, 304) or self._head_only
        for name, value in self.headers:
            lower = name.lower()
            if lower == b"transfer-encoding" and value.lower() != b"chunked":
                raise BadReply("a transfer-encoding other than chunked, which nobody asked for")
            framed = framed or lower in (b"transfer-encoding", b"content-length")
        return not framed
