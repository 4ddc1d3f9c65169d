"""The relay's HTTP/1.1 client: bytes in = bytes out, no slot lost whatever is cancelled, little CPU per chunk.

    client.request(method, url, headers, body) -> Response -> response.read() until response.complete

Written by hand because the relay's promises rest on it: httpx loses a pool slot when a request is cancelled at the
wrong moment, and costs several times the CPU of this per chunk. It does little on purpose: no retries (one request
from a client is at most one to the upstream), no redirects, no cookies, no decoding, no proxies from the environment.
To the headers it is given it adds `host` and `content-length`. HTTPS verifies certificate and host name against the
system's authorities (`SSL_CERT_FILE` names others).

What can go wrong is a tree of its own, drawn in `connection`:
UpstreamError ← ConnectFailed, ConnectTimeout, PoolTimeout, FirstByteTimeout, IdleTimeout, Cut, BadReply.
"""

import asyncio
import functools
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from proxy.upstream.connection import (
    BadReply,
    ConnectFailed,
    Connection,
    ConnectTimeout,
    Cut,
    FirstByteTimeout,
    IdleTimeout,
    PoolTimeout,
    UpstreamError,
)

__all__ = [
    "BadReply", "Client", "ConnectFailed", "ConnectTimeout", "Cut", "FirstByteTimeout", "IdleTimeout", "PoolTimeout",
    "Response", "UpstreamError", "host_of",
]  # fmt: skip

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Address:
    """Whom to connect to; requests to the same address share connections."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(slots=True)
class Pool:
    """The connections to one address. `busy` counts slots lent out, connecting ones included."""

    address: Address
    idle: list[Connection] = field(default_factory=list)  # the last one parked is the first one used
    busy: int = 0
    waiters: deque[asyncio.Future[None]] = field(default_factory=deque)

    def release(self) -> None:
        """Give a slot back: to the request that waits longest, else to the pool."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)  # the slot changes hands: busy stays
                return
        self.busy -= 1


class Response:
    """A reply whose head has come. Whoever gets one reads to the end or calls `close()`."""

    __slots__ = ("_client", "_connection", "_pool", "complete", "headers", "status", "until_eof")

    def __init__(self, client: "Client", pool: Pool, connection: Connection) -> None:
        self.status = connection.status
        self.headers = connection.headers  # raw, as received, in their order
        self._client = client
        self._pool = pool
        self._connection: Connection | None = connection
        self.until_eof = connection.until_eof
        self.complete = False  # all of the body was read

    async def read(self) -> bytes:
        """The body's bytes that came since the last call, transfer-encoding removed and nothing else; b"" at the end.

        Raises IdleTimeout, Cut.
        """
        connection = self._connection
        if connection is None:
            if self.complete:
                return b""
            raise Cut("the reply was closed on this side before its end")
        chunk = await connection.read()
        if connection.complete:
            self.complete = True
            self.close()
        return chunk

    def close(self) -> None:
        """Give the connection back if the reply was received to its end, else close it. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client._take_back(self._pool, connection)


class Client:
    """Connections to any number of upstreams, kept alive and limited per address. Lives in one event loop."""

    def __init__(
        self,
        *,
        connect_timeout_s: float,
        first_byte_timeout_s: float,
        idle_timeout_s: float,
        keepalive_s: float,
        max_connections: int,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._first_byte_timeout_s = first_byte_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._keepalive_s = keepalive_s
        self._max_connections = max_connections
        self._pools: dict[Address, Pool] = {}
        self._open: set[Connection] = set()
        self._reaper: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def request(self, method: bytes, url: str, headers: Headers, body: bytes) -> Response:
        """Send one request; returns as soon as the reply's head is there. Raises any UpstreamError but IdleTimeout.

        `headers` must not hold host, content-length, transfer-encoding or connection. ValueError: a header, method
        or url that would break out of its line.
        """
        self._must_be_open()
        address, host, target = locate(url)
        head = head_of(method, target, host, headers, body)
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools[address] = Pool(address)
        tls = self._tls_context() if address.scheme == "https" else None
        deadline_s = asyncio.get_running_loop().time() + self._connect_timeout_s
        if pool.busy < self._max_connections:
            pool.busy += 1
        else:
            await self._slot(pool, deadline_s)
        connection: Connection | None = None
        try:
            self._must_be_open()  # it may have been closed while we waited
            connection = self._idle(pool) or await self._connect(address, tls, deadline_s)
            await connection.exchange(head, body, head_only=method == b"HEAD")
        except BaseException:
            if connection is not None:
                self._drop(connection)
            pool.release()
            raise
        return Response(self, pool, connection)

    def close(self) -> None:
        """Close all connections at once; replies still being read end as Cut."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        for connection in list(self._open):
            self._drop(connection)
        for pool in self._pools.values():
            pool.idle.clear()

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("this client is closed: make another")

    async def _slot(self, pool: Pool, deadline_s: float) -> None:
        """Wait in line for one of the pool's slots. Raises PoolTimeout."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pool.waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline_s):
                await waiter
        except BaseException as exc:
            if waiter.done() and not waiter.cancelled():
                pool.release()  # the slot came in the same moment as the timeout or the cancellation
            elif waiter in pool.waiters:  # a release may have passed over it already
                pool.waiters.remove(waiter)
            if isinstance(exc, TimeoutError):
                raise PoolTimeout(
                    f"all {self._max_connections} connections to {pool.address} stayed busy for "
                    f"{self._connect_timeout_s:g} s"
                ) from None
            raise

    def _idle(self, pool: Pool) -> Connection | None:
        """The connection parked last that may still be used; closes those that may not."""
        while pool.idle:
            connection = pool.idle.pop()
            if connection.fresh(self._keepalive_s):
                return connection
            self._drop(connection)
        return None

    async def _connect(self, address: Address, tls: ssl.SSLContext | None, deadline_s: float) -> Connection:
        """A new connection. Raises ConnectFailed, ConnectTimeout."""
        loop = asyncio.get_running_loop()
        connection = Connection(
            loop, first_byte_timeout_s=self._first_byte_timeout_s, idle_timeout_s=self._idle_timeout_s
        )
        self._open.add(connection)
        try:
            async with asyncio.timeout_at(deadline_s):
                await loop.create_connection(
                    lambda: connection,
                    address.host,
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
                raise ConnectFailed(f"no connection to {address}: {exc}") from exc
            raise
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:  # on first use: reading the authorities takes some 10 ms
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _take_back(self, pool: Pool, connection: Connection) -> None:
        if connection.reusable() and not self._closed:
            connection.park()
            pool.idle.append(connection)
            if self._reaper is None:
                self._reaper = asyncio.get_running_loop().call_later(self._keepalive_s, self._reap)
        else:
            self._drop(connection)
        pool.release()

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.abort()

    def _reap(self) -> None:
        """Close what has lain idle for too long; runs only while something lies idle."""
        self._reaper = None
        for pool in self._pools.values():
            stale = [connection for connection in pool.idle if not connection.fresh(self._keepalive_s)]
            pool.idle = [connection for connection in pool.idle if connection not in stale]
            for connection in stale:
                self._drop(connection)
        if any(pool.idle for pool in self._pools.values()):
            self._reaper = asyncio.get_running_loop().call_later(self._keepalive_s, self._reap)


@functools.lru_cache(maxsize=256)
def locate(url: str) -> tuple[Address, bytes, bytes]:
    """Address, host header and request target of an absolute http(s) URL. Raises ConnectFailed for anything else."""
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


def head_of(method: bytes, target: bytes, host: bytes, headers: Headers, body: bytes) -> bytes:
    """The request's head, empty line included. ValueError: a part that holds a line break or a NUL."""
    lines = [b"%b %b HTTP/1.1\r\nhost: %b" % (method, target, host)]
    lines += [b"%b: %b" % header for header in headers]
    if body or method in (b"POST", b"PUT", b"PATCH"):
        lines.append(b"content-length: %d" % len(body))
    head = b"\r\n".join(lines)
    breaks = len(lines)
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head or b" " in method + target:
        raise ValueError("a header, method or URL with a line break, a NUL or a space in it: not sent")
    return head + b"\r\n\r\n"


def host_of(url: str) -> str:
    """Host and port of a URL as people may be shown it: without a password, whatever else is wrong with it."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or "without a host"
    except ValueError:
        return "with a malformed address"
