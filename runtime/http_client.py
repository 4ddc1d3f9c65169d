"""The gateway's HTTP/1.1 client: bytes in = bytes out, no slot lost to cancellation, little CPU per chunk.

    client.request(method, url, headers, body) -> Response
    response.read(), or response.deliver(take) with less CPU per chunk, until response.complete

`Connection` is one socket and one exchange at a time; `Client` opens, lends and takes back connections to each
address. Written by hand because the relay's promises depend on it: httpx loses a pool slot if a request is cancelled
at the wrong moment, and takes several times as much CPU per chunk. It has few features on purpose: no retries (a
client's request is at most one upstream request), no redirects, no cookies, no decoding, no proxies from the
environment. It adds the headers `host` and `content-length`. HTTPS verifies certificate and host name against the
system's authorities (`SSL_CERT_FILE` names others).

UpstreamError ← ConnectFailed, ConnectTimeout, PoolTimeout, FirstByteTimeout, IdleTimeout, Cut, BadReply.
"""

import asyncio
import functools
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

HEAD_LIMIT_BYTES = 64 * 1024  # of a reply's head; also of framing (chunk sizes, trailers) without a body byte
UNREAD_LIMIT_BYTES = 256 * 1024  # received and not yet read: beyond this, the upstream has to wait
# llama.cpp's server promises keep-alive and closes each connection right after a stream. On a busy machine, this may
# arrive behind the next request, which is lost: so no connection to such an upstream is used twice, until one has
# stayed open this long after a reply (a restarting load balancer closes connections soon after a reply, too).
_SOON_S = 0.5
UPLOAD_PIECE_BYTES = 64 * 1024  # longer request bodies go out in pieces, as fast as the upstream takes them
Headers = Sequence[tuple[bytes, bytes]]
Resolve = Callable[[str, int], Awaitable[list[str]]]  # host and port -> addresses to connect to, best first
Take = Callable[[bytes, bool], bool]  # body bytes, and whether they are the last -> whether it takes more at once


_TLS_ALERT = b"\x15\x03"  # first bytes from a server that expects TLS


class UpstreamError(Exception):
    """A request got no reply, or only part of one. The text names the cause, never a key."""


class ConnectFailed(UpstreamError):
    """No connection: refused, unresolvable, certificate not accepted, not an http(s) address."""


class ConnectTimeout(UpstreamError):
    """No connection within `connect_timeout_s` (TLS included)."""


class PoolTimeout(UpstreamError):
    """All `max_connections` to this upstream stayed busy for `connect_timeout_s`."""


class FirstByteTimeout(UpstreamError):
    """No reply head within `first_byte_timeout_s` after the last byte was sent."""


class IdleTimeout(UpstreamError):
    """A reply stopped for `idle_timeout_s`."""


class Cut(UpstreamError):
    """The connection was closed, reset or broken before the reply ended."""


class BadReply(UpstreamError):
    """What was received is not one HTTP/1.1 reply."""


class Connection(asyncio.Protocol):
    """A socket with at most one exchange at a time. Not for two tasks at once.

    `httptools` (llhttp, strict unless `lenient`) reads heads and removes transfer-encoding; the body stays as
    received. Bytes from several socket reads are returned as one chunk: a call of `read` costs one wake-up.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        first_byte_timeout_s: float,
        idle_timeout_s: float,
        lenient: bool = False,
    ) -> None:
        self._loop = loop
        self._lenient = lenient
        self._most_head_bytes = HEAD_LIMIT_BYTES * (2 if lenient else 1)
        self._first_byte_timeout_s = first_byte_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._parser: httptools.HttpResponseParser | None = None  # None: no reply is expected
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[bool] | None = None  # its result: whether to wait on
        self._take: Take | None = None
        self._read_paused = self._write_paused = False
        self.dead = False
        self.idle_since_s = 0.0
        self._expect(head_only=False)
        self._complete = True

    def _expect(self, head_only: bool) -> None:
        """Forget the last reply and prepare for the next."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._unread_bytes = self._framing_bytes = 0
        self._error: UpstreamError | None = None
        self._head_only = head_only  # a reply to HEAD has a content-length and no body
        self._head_done = self._complete = self._until_eof = self._keep_alive = self._sent = False

    # --- called by `Client` ----------------------------------------------------------------------------------------

    async def exchange(
        self,
        head: bytes,
        body: bytes,
        *,
        head_only: bool,
        sent: Callable[[], object] | None = None,
        begun: Callable[[], object] | None = None,
    ) -> None:
        """Send a request and return once the reply's head is in `status` and `headers`.

        begun, sent: called before the first byte and after the last.

        Raises FirstByteTimeout, Cut, BadReply. On any exception, even cancellation, the caller aborts the connection.
        """
        self._expect(head_only)
        self._parser = httptools.HttpResponseParser(self)
        if self._lenient:
            self._parser.set_dangerous_leniencies(
                lenient_headers=True,
                lenient_chunked_length=True,
                lenient_optional_cr_before_lf=True,
                lenient_spaces_after_chunk_size=True,
            )
        self._last_s = self._loop.time()
        self._look_by(self._last_s + self._first_byte_timeout_s)
        if begun is not None and self._transport is not None and not self.dead:
            begun()
        if self._transport is None or self.dead:
            self._fail(Cut("the connection was closed before the request was sent"))
        elif len(body) <= UPLOAD_PIECE_BYTES:
            self._transport.write(head + body)
            self._sent = True
        else:
            await self._upload(self._transport, head, body)
        del body  # the answer may take minutes
        if sent is not None:
            sent()
        while not self._head_done:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def read(self) -> bytes:
        """Body bytes received since the last call, at least one; b"" at the end. Raises IdleTimeout, Cut."""
        parts = self._parts
        while not parts:
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        return self._unread()

    async def deliver(self, take: Take) -> None:
        """Call `take` whenever body bytes arrive, until it returns False or has the last ones (perhaps b"").

        `take` runs where the bytes arrive, so a chunk needs no future and no switch to this task. Raises IdleTimeout,
        Cut, and what `take` raises.
        """
        more = True
        while more:
            if self._parts or self._complete:
                last = self._complete
                more = take(self._unread(), last) and not last
            elif self._error is not None:
                raise self._error
            else:
                self._take = take
                try:
                    more = await self._wait()
                finally:
                    self._take = None

    def _hand_over(self, take: Take) -> None:
        """Call `take` with what has arrived; wake the task if that is all for now."""
        last = self._complete
        try:
            if take(self._unread(), last) and not last:
                return
        except Exception as error:
            self._wake(error=error)
            raise  # to the event loop, which ends the connection
        else:
            self._wake(more=False)

    def _unread(self) -> bytes:
        """Body bytes received since the last call."""
        parts = self._parts
        chunk = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._unread_bytes = 0
        if self._read_paused:
            self._resume_reading()
        return chunk

    @property
    def complete(self) -> bool:
        """Whether the whole reply was received, and all of its body read."""
        return self._complete and not self._parts

    @property
    def until_eof(self) -> bool:
        """Whether the reply ends only with the connection: a cut one looks complete."""
        return self._until_eof

    def reusable(self) -> bool:
        """Whether another request may use this connection: its whole reply was received, and the socket is open."""
        if not (self._complete and self._keep_alive and self._sent) or self.dead or self._transport is None:
            return False
        return not self._transport.is_closing() and self._transport.get_write_buffer_size() == 0

    def park(self) -> None:
        """Become idle: from now on, any received byte closes the connection."""
        self._parts.clear()
        self.idle_since_s = self._loop.time()

    def fresh(self, keepalive_s: float) -> bool:
        """Whether an idle connection may still be used: young enough, and nothing waits unread in the socket.

        The upstream may have closed it before the event loop reports that. Checking the socket finds out: a request
        sent now would be lost, and none is sent twice.
        """
        if self.dead or self._transport is None or self._transport.is_closing():
            return False
        if self._loop.time() - self.idle_since_s >= keepalive_s:
            return False
        return self._poll is None or not self._poll.poll(0)

    def abort(self) -> None:
        """Close at once. Idempotent; a waiting task gets Cut."""
        self._fail(Cut("the connection was closed on this side"))
        self.dead = True
        self._over()
        if self._transport is not None:
            self._transport.abort()

    # --- sending --------------------------------------------------------------------------------------------------

    async def _upload(self, transport: asyncio.Transport, head: bytes, body: bytes) -> None:
        """Send a long body in pieces; stop if the upstream is gone or refuses the rest."""
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
        """Whether the upstream may still read: not after an early 413 or 401, but after an early 200."""
        if self._error is not None or self._complete:
            return False
        return not self._head_done or (self.status < 300 and not self._read_paused)

    def _wait(self) -> asyncio.Future[bool]:
        """Await it to sleep until something has changed."""
        self._waiter = self._loop.create_future()
        return self._waiter

    def _wake(self, *, more: bool = True, error: Exception | None = None) -> None:
        waiter, self._waiter, self._take = self._waiter, None, None
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(more)
        else:
            waiter.set_exception(error)

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
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a request must not wait for the last ACK
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:  # bytes without a request: never the reply to the next one
            self.abort()
            return
        head_was_done, parts_before = self._head_done, len(self._parts)
        self._fed_bytes = size = len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._broken(exc, data)
            return
        self._unread_bytes += size
        self._framing_bytes = 0 if len(self._parts) > parts_before else self._framing_bytes + size
        if self._complete:
            self._over()
        elif self._framing_bytes > self._most_head_bytes:
            words = f"more than {self._most_head_bytes} bytes of head or framing without body"
            self._fail(self._protocol_error(words))
        elif self._head_done:
            self._last_s = self._loop.time()
            if not head_was_done:
                self._look_by(self._last_s + self._idle_timeout_s)
            if self._unread_bytes > UNREAD_LIMIT_BYTES and not self._read_paused and self._transport is not None:
                self._read_paused = True
                self._transport.pause_reading()
        if (take := self._take) is not None and (self._parts or self._complete):
            self._hand_over(take)
        elif self._head_done:
            self._wake()

    def eof_received(self) -> None:
        if self._parser is not None and self._head_done and self._until_eof:
            self._complete = True
            self._keep_alive = False
            self._over()
            self._wake()
        self._lost("the upstream closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        # Over TLS, an end without close_notify calls this and not eof_received: the body may be truncated.
        if exc is not None:
            self._read_what_is_left()
        self._lost(f"the connection broke: {exc}" if exc is not None else "the upstream closed the connection")

    def _read_what_is_left(self) -> None:
        """Read an early 413 or 401 that was still in the socket when the upload met a reset after it."""
        transport = self._transport
        if self._parser is None or self._head_done or transport is None or transport.get_extra_info("ssl_object"):
            return  # no task waits for a reply, or its bytes are encrypted
        try:
            with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as rest:
                rest.setblocking(False)
                data = rest.recv(HEAD_LIMIT_BYTES)
        except OSError:  # no bytes
            return
        if data:
            self.data_received(data)

    def _lost(self, what: str) -> None:
        self.dead = True
        self._fail(Cut(f"{what} {'before the end of its reply' if self._head_done else 'without a reply'}"))

    def _broken(self, exc: Exception, data: bytes) -> None:
        """The parser failed: after a complete reply only the connection is lost, before its end the reply, too."""
        if self._complete:
            self._keep_alive = False
            self._over()
            self._wake()
            return
        cause = exc.__context__ if isinstance(exc.__context__, BadReply) else exc
        text = "an upgrade nobody asked for" if isinstance(exc, httptools.HttpParserUpgrade) else str(cause)
        if not self._head_done and data.startswith(_TLS_ALERT):
            text = "the upstream speaks TLS: write https:// in the address"
        self._fail(self._protocol_error(text))

    def _protocol_error(self, text: str) -> UpstreamError:
        return Cut(f"the reply's framing broke: {text}") if self._head_done else BadReply(text)

    def _fail(self, error: UpstreamError) -> None:
        """End the current exchange, if any; a first error stays."""
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

    # --- the clock: one timer for all exchanges on the connection, set again when it fires ----------------------------

    def _look_by(self, due_s: float) -> None:
        """Make sure that the clock is checked by `due_s`."""
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = None
        if self._parser is None:  # no exchange
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
        return self._parts.append  # one C call per piece; the parser looks the method up once per reply

    def on_message_begin(self) -> None:
        if self._complete:
            raise BadReply("bytes behind the end of the reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # else a trailer: hop-by-hop, because no request says TE: trailers
            self.headers.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = cast(httptools.HttpResponseParser, self._parser)
        self.status = parser.get_status_code()
        large = self._framing_bytes + self._fed_bytes > self._most_head_bytes
        if large and sum(len(name) + len(value) for name, value in self.headers) > self._most_head_bytes:
            raise BadReply(f"a head of more than {self._most_head_bytes} bytes")
        if self.status == 101 or not 100 <= self.status < (1000 if self._lenient else 600):
            raise BadReply(f"status {self.status}")
        if self.status < 200:
            return  # interim (100 Continue, 103 Early Hints): the reply follows
        if not self._lenient and parser.get_http_version() not in ("1.1", "1.0"):
            raise BadReply(f"HTTP version {parser.get_http_version()}")
        self._until_eof = self._ends_at_eof()
        self._keep_alive = parser.should_keep_alive()
        self._head_done = True
        if self._head_only:  # llhttp would wait for a body of content-length: stop llhttp
            self._complete = True
            raise BadReply("a body after HEAD")

    def on_message_complete(self) -> None:
        if self.status < 200:
            self.headers.clear()
            return
        self._complete = True

    def _ends_at_eof(self) -> bool:
        """Whether the body ends only with the connection. Raises BadReply."""
        framed = self.status in (204, 304) or self._head_only
        for name, value in self.headers:
            lower = name.lower()
            if lower == b"transfer-encoding" and value.lower() != b"chunked":
                raise BadReply("a transfer-encoding other than chunked, which nobody asked for")
            framed = framed or lower in (b"transfer-encoding", b"content-length")
        return not framed


@dataclass(frozen=True, slots=True)
class Address:
    """An upstream's address; requests to it share connections, within the same lane."""

    scheme: str
    host: str
    port: int
    lane: object = None  # a reply's surplus bytes can only reach requests in the same lane

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Place = tuple[Address, bytes, bytes]  # with the host header and the request target


@dataclass(slots=True)
class Pool:
    """Connections to one address. `busy` counts slots in use, also for connections not yet open."""

    address: Address
    idle: list[Connection] = field(default_factory=list)  # the connection parked last is used first
    busy: int = 0
    closes_soon: bool = False  # the upstream closes its connections right after a reply
    waiters: deque[asyncio.Future[None]] = field(default_factory=deque)

    def release(self) -> None:
        """Return a slot to the request that waits longest, else to the pool."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)  # the slot has a new owner: busy stays
                return
        self.busy -= 1


class Response:
    """A reply whose head was received. Its owner reads to the end or calls `close()`."""

    __slots__ = ("_client", "_connection", "_pool", "complete", "headers", "status", "until_eof")

    def __init__(self, client: "Client", pool: Pool, connection: Connection) -> None:
        self.status = connection.status
        self.headers = connection.headers  # raw, as received, in their order
        self._client = client
        self._pool = pool
        self._connection: Connection | None = connection
        self.until_eof = connection.until_eof
        self.complete = False  # all of its body was read

    async def read(self) -> bytes:
        """Body bytes received since the last call, without transfer-encoding, else unchanged; b"" at the end.

        Raises IdleTimeout, Cut.
        """
        if self.complete:
            return b""
        connection = self._open_connection()
        chunk = await connection.read()
        if connection.complete:
            self.complete = True
            self.close()
        return chunk

    async def deliver(self, take: Take) -> None:
        """As `Connection.deliver`, with bytes as from `read`."""
        connection = self._open_connection()
        await connection.deliver(take)
        if connection.complete:
            self.complete = True
            self.close()

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise Cut("the reply was closed on this side before its end")
        return self._connection

    def close(self) -> None:
        """Return the connection to its pool after a complete reply, else close it. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client._take_back(self._pool, connection)


class Client:
    """Connections to any number of upstreams, kept alive and limited per address. For one event loop."""

    def __init__(  # noqa: PLR0913 - each is a limit or a policy of its own
        self,
        *,
        connect_timeout_s: float,
        first_byte_timeout_s: float,
        idle_timeout_s: float,
        keepalive_s: float,
        max_connections: int,
        max_idle: int = 0,
        resolve: Resolve | None = None,
        lenient: bool = False,
    ) -> None:
        """max_connections: to each address. max_idle: to all addresses together; 0: any number.

        lenient: replies may have a content-length beside chunks, lines that end with LF, and spaces behind a chunk
        size; one that is passed on may not, because two readers could see two replies.
        resolve: in place of the system's resolver, for each new connection; its errors are raised as they are.
        """
        self._connect_timeout_s = connect_timeout_s
        self._first_byte_timeout_s = first_byte_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._keepalive_s = keepalive_s
        self._max_connections = max_connections
        self._max_idle = max_idle
        self._resolve = resolve
        self._lenient = lenient
        self._most_head_bytes = HEAD_LIMIT_BYTES * (2 if lenient else 1)
        self._pools: dict[Address, Pool] = {}
        self._open: set[Connection] = set()
        self._reaper: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def request(
        self,
        method: bytes,
        url: str | Place,
        headers: Headers,
        body: bytes,
        sent: Callable[[], object] | None = None,
        *,
        begun: Callable[[], object] | None = None,
    ) -> Response:
        """Send one request and return when the reply's head is received. Raises any UpstreamError but IdleTimeout.

        sent: called after the last byte; nothing holds the body then. begun: called before the first byte.
        `headers` must not hold host, content-length, transfer-encoding or connection. ValueError: a header, method
        or url with a line break, a NUL or a space.
        """
        self._must_be_open()
        address, host, target = locate(url) if isinstance(url, str) else url
        head = head_of(method, target, host, headers, body)
        pool = self._pools.get(address)
        if pool is None:
            if address.lane is not None:  # lanes come and go
                self._pools = {at: one for at, one in self._pools.items() if one.busy or one.idle}
            pool = self._pools[address] = Pool(address)
        tls = self._tls_context() if address.scheme == "https" else None
        deadline_s = asyncio.get_running_loop().time() + self._connect_timeout_s
        if pool.busy < self._max_connections:
            pool.busy += 1
        else:
            await self._slot(pool, deadline_s)
        connection: Connection | None = None
        try:
            self._must_be_open()  # `close` may have been called during the wait
            connection = self._idle(pool) or await self._connect(address, tls, deadline_s)
            exchanged = connection.exchange(head, body, head_only=method == b"HEAD", sent=sent, begun=begun)
            del body
            await exchanged
        except BaseException as exc:
            if connection is not None:
                if isinstance(exc, Cut):
                    self._learn(pool, connection)
                self._drop(connection)
            pool.release()
            raise
        return Response(self, pool, connection)

    def close(self) -> None:
        """Close all connections at once; unfinished replies raise Cut."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        self.close_idle()
        for connection in list(self._open):
            self._drop(connection)

    def close_idle(self) -> None:
        """Close connections that no request uses."""
        for pool in self._pools.values():
            for connection in pool.idle:
                self._drop(connection)
            pool.idle.clear()

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("this client is closed: make another")

    async def _slot(self, pool: Pool, deadline_s: float) -> None:
        """Wait in the queue for a pool slot. Raises PoolTimeout."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pool.waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline_s):
                await waiter
        except BaseException as exc:
            if waiter.done() and not waiter.cancelled():
                pool.release()  # the slot arrived together with timeout or cancellation
            elif waiter in pool.waiters:  # a release may already have removed it
                pool.waiters.remove(waiter)
            if isinstance(exc, TimeoutError):
                raise PoolTimeout(
                    f"all {self._max_connections} connections to {pool.address} stayed busy for "
                    f"{self._connect_timeout_s:g} s"
                ) from None
            raise

    def _idle(self, pool: Pool) -> Connection | None:
        """The usable connection that was parked last; closes unusable ones."""
        while pool.idle:
            connection = pool.idle.pop()
            if not connection.fresh(self._keepalive_s):
                self._learn(pool, connection)
                self._drop(connection)
            elif pool.closes_soon and self._parked_soon(connection):
                pool.idle.append(connection)
                return None
            else:
                pool.closes_soon = False
                return connection
        return None

    def _learn(self, pool: Pool, connection: Connection) -> None:
        """Note that this connection was closed; only a close soon after a reply says anything about the next."""
        if self._parked_soon(connection):
            pool.closes_soon = True

    def _parked_soon(self, connection: Connection) -> bool:
        parked_s = asyncio.get_running_loop().time() - connection.idle_since_s
        return parked_s < min(_SOON_S, self._keepalive_s / 2)

    async def _connect(self, address: Address, tls: ssl.SSLContext | None, deadline_s: float) -> Connection:
        """A new connection to the first address that takes one; one that hangs leaves time for the others.

        Raises ConnectFailed, ConnectTimeout.
        """
        loop, hosts = asyncio.get_running_loop(), [address.host]
        if self._resolve is not None:
            try:
                async with asyncio.timeout_at(deadline_s):
                    hosts = await self._resolve(address.host, address.port)
            except TimeoutError as exc:
                raise ConnectTimeout(f"the name {address.host} was not resolved in time") from exc
        for left in range(len(hosts), 0, -1):
            try:
                until_s = loop.time() + (deadline_s - loop.time()) / left
                return await self._connect_to(hosts[-left], address, tls, until_s)
            except (ConnectFailed, ConnectTimeout):
                if left == 1:
                    raise
        raise ConnectFailed(f"the name {address.host} has no address")

    async def _connect_to(
        self, host: str, address: Address, tls: ssl.SSLContext | None, deadline_s: float
    ) -> Connection:
        loop = asyncio.get_running_loop()
        connection = Connection(
            loop,
            first_byte_timeout_s=self._first_byte_timeout_s,
            idle_timeout_s=self._idle_timeout_s,
            lenient=self._lenient,
        )
        self._open.add(connection)
        try:
            async with asyncio.timeout_at(deadline_s):
                await loop.create_connection(
                    lambda: connection,
                    host,
                    address.port,
                    ssl=tls,
                    server_hostname=address.host if tls is not None else None,
                )
        except BaseException as exc:
            self._drop(connection)
            if isinstance(exc, TimeoutError):
                text = f"no connection to {address} within {self._connect_timeout_s:g} s"
                raise ConnectTimeout(text) from exc
            if isinstance(exc, (OSError, UnicodeError)):
                raise ConnectFailed(f"no connection to {address}: {_reason(exc)}") from exc
            raise
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:  # on first use: reading authorities takes about 10 ms
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _take_back(self, pool: Pool, connection: Connection) -> None:
        one_is_watched = pool.closes_soon and pool.idle
        if connection.reusable() and not self._closed and not one_is_watched:
            connection.park()
            pool.idle.append(connection)
            if self._max_idle and sum(len(one.idle) for one in self._pools.values()) > self._max_idle:
                oldest = min(
                    (one.idle for one in self._pools.values() if one.idle), key=lambda idle: idle[0].idle_since_s
                )
                self._drop(oldest.pop(0))
            if self._reaper is None:
                self._reaper = asyncio.get_running_loop().call_later(self._keepalive_s, self._reap)
        else:
            self._drop(connection)
        pool.release()

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.abort()

    def _reap(self) -> None:
        """Close connections that were idle for too long; runs only while a connection is idle."""
        self._reaper = None
        for pool in self._pools.values():
            stale = [connection for connection in pool.idle if not connection.fresh(self._keepalive_s)]
            pool.idle = [connection for connection in pool.idle if connection not in stale]
            for connection in stale:
                self._drop(connection)
        if any(pool.idle for pool in self._pools.values()):
            self._reaper = asyncio.get_running_loop().call_later(self._keepalive_s, self._reap)


@functools.lru_cache(maxsize=256)
def locate(url: str) -> Place:
    """Address, host header and request target from an absolute http(s) URL. Raises ConnectFailed for other texts."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        if not parts.hostname or "@" in parts.netloc:
            raise ValueError("no host, or credentials in it")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Address(parts.scheme, parts.hostname, port), parts.netloc.encode("ascii"), target.encode("ascii")
    except (KeyError, ValueError) as exc:
        expected = "expected http://host[:port]/path or https://…, ASCII, without a password"
        raise ConnectFailed(f"not an address that can be connected to: {expected}") from exc


def _reason(error: Exception) -> str:
    if getattr(error, "reason", "") in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return f"TLS failed ({error}): does the upstream speak plain HTTP? Then write http:// in the address"
    return str(error)


def head_of(method: bytes, target: bytes, host: bytes, headers: Headers, body: bytes) -> bytes:
    """The request's head, with its empty line. ValueError: a part with a line break, a NUL or a space."""
    lines = [b"%b %b HTTP/1.1\r\nhost: %b" % (method, target, host)]
    lines += [name + b": " + value for name, value in headers]
    if body or method in (b"POST", b"PUT", b"PATCH"):
        lines.append(b"content-length: %d" % len(body))
    head = b"\r\n".join(lines)
    breaks = len(lines)
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head or b" " in method + target:
        raise ValueError("a header, method or URL with a line break, a NUL or a space in it: not sent")
    return head + b"\r\n\r\n"
