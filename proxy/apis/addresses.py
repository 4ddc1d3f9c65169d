"""Connections to checked addresses only.

The name of a host is resolved once, every address is checked, and the connection goes to a checked address: a second
resolution could give another address (DNS rebinding). TLS still verifies the name.
"""

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore
import httpx

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # with the IPv4 address of any public host
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all public IPv6 addresses (RFC 4291 §2.4) but for NAT64
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")  # bytes 8 to 11 of an address that ends with an IPv4 address
# Addresses of a cloud's machine that give credentials: refused even where their network is allowed.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        "169.254.169.254 169.254.170.2 169.254.170.23 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 100.100.100.200 "
        "168.63.129.16 192.0.0.192".split(),
    )
)


_LOOKUPS = 4  # of names, at a time for one API
_MOST_IDLE = 24  # connections of one API, of all keys


class ForbiddenAddress(Exception):
    """An address that an API must not have."""


class UnknownName(httpcore.ConnectError):
    """The name of a host has no address."""


def origin_of(url: str | httpx.URL) -> tuple[str, str, int | None] | None:
    """The scheme, the host and the port of a URL; None: no valid URL."""
    try:
        parts = httpx.URL(url)
        return parts.scheme, parts.host, parts.port
    except (httpx.InvalidURL, ValueError):  # ValueError: a host such as xn--a
        return None


def redirect_target(response: httpx.Response, url: httpx.URL) -> httpx.URL:
    """The address that a response redirects to. Raises httpx.InvalidURL."""
    try:
        target = url.join(response.headers["location"])
    except ValueError as error:  # of urllib, which httpx joins with
        raise httpx.InvalidURL(str(error)) from error
    if origin_of(target) is None:
        raise httpx.InvalidURL("no request can be sent to the address")
    return target


def why_failed(error: Exception) -> str:
    """The kind of failure: the text of a library's error may quote the request with its secrets."""
    if isinstance(error, ForbiddenAddress):
        return str(error)
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return f"no connection{_cause(error)}"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, UnicodeError):  # of a header
        return "the credentials or the address have letters that cannot be sent"
    if isinstance(error, httpx.DecodingError):
        return "the response cannot be unpacked"
    return "the connection broke off" if isinstance(error, httpx.TransportError) else "the address is not valid"


def _cause(error: BaseException | None) -> str:
    """Why there is no connection, as far as the kinds of the errors say."""
    while error := error and error.__cause__:
        if isinstance(error, UnknownName):
            return " (the name of the host has no address)"
        if isinstance(error, ssl.SSLError):
            certificate = isinstance(error, ssl.SSLCertVerificationError)
            return " (the certificate is not valid)" if certificate else " (TLS failed)"
    return ""


def networks_of(texts: Iterable[str]) -> tuple[IPNetwork, ...]:
    """The networks of a setting, such as 10.0.0.0/8. Raises ValueError."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def check(address: str, allowed: Sequence[IPNetwork] = (), *, api: str = "NAME") -> None:
    """Raise ForbiddenAddress for an address that is not public and not in an allowed network.

    An IPv6 address that contains an IPv4 address (mapped, 6to4, Teredo, NAT64, ISATAP) is checked as both.
    api: the name of the API, for the message.
    """
    given = ipaddress.ip_address(address.partition("%")[0])
    for ip in (given, *_embedded(given)):
        if ip in _METADATA or ipaddress.IPv4Address(ip.packed[-4:]) in _METADATA:  # a translator may take any prefix
            raise ForbiddenAddress(f"{given} is the address of a cloud's metadata, which is never called")
        if not (_is_public(ip) or any(ip.version == network.version and ip in network for network in allowed)):
            network = f'"{ip}/128"' if ip.version == 6 else f"{ip}/32"  # YAML refuses a bare :: in a list
            wanted = f"actions.{api}.networks: [{'…, ' if allowed else ''}{network}]"
            raise ForbiddenAddress(f"{given} is not a public address (to allow: {wanted})")


def _is_public(ip: IPAddress) -> bool:
    if isinstance(ip, ipaddress.IPv6Address):
        return ip in _NAT64 or (ip in _GLOBAL_UNICAST and ip.is_global)
    return ip.is_global and not ip.is_multicast


def _embedded(ip: IPAddress) -> Iterator[ipaddress.IPv4Address]:
    if isinstance(ip, ipaddress.IPv4Address):
        return
    if ip.ipv4_mapped is not None:
        yield ip.ipv4_mapped
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip.teredo is not None:
        yield from ip.teredo
    if ip in _NAT64 or ip.packed[8:12] in _ISATAP:
        yield ipaddress.IPv4Address(ip.packed[12:])


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections for httpcore, after the check."""

    def __init__(self, allowed: Sequence[IPNetwork], api: str) -> None:
        self._allowed = allowed
        self._api = api
        self._threads = ThreadPoolExecutor(_LOOKUPS, "names")  # a resolver that hangs blocks no other work

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await _addresses(self._threads, host, port, timeout)
        for address in addresses:
            check(address, self._allowed, api=self._api)
        failure: Exception = UnknownName(f"the name {host} has no address")
        for address in addresses:
            try:
                return await _Stream.opened(address, port, timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise ForbiddenAddress("a Unix socket is not an API")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def why_refused(url: str, allowed: Sequence[IPNetwork], *, api: str, seconds: float = 2.0) -> str:
    """Why the address of an API is not called; "": the address is called, or the name is not known at present."""
    origin = origin_of(url)
    if origin is None:
        return "the address is not valid"
    _, host, port = origin
    try:
        for address in await _addresses(None, host, port or 443, seconds):
            check(address, allowed, api=api)
    except ForbiddenAddress as error:
        return str(error)
    except (httpcore.ConnectError, httpcore.ConnectTimeout):
        pass
    return ""


async def _addresses(threads: ThreadPoolExecutor | None, host: str, port: int, seconds: float | None) -> list[str]:
    """The addresses of a name. Raises httpcore's errors of a connection."""
    look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        async with asyncio.timeout(seconds):
            rows = await asyncio.get_running_loop().run_in_executor(threads, look_up)
    except TimeoutError as error:
        raise httpcore.ConnectTimeout(f"the name {host} was not resolved in time") from error
    except (OSError, UnicodeError) as error:
        raise UnknownName(f"the name {host} is not known") from error
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


class _Reader(asyncio.StreamReader):
    """Knows how many bytes were received and not read."""

    unread_bytes = 0

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # the loop gives bytes
        self.unread_bytes += len(data)
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self.unread_bytes -= len(data)
        return data


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that reads at all times, so that bytes without a request are seen before the next request.

    httpcore's own streams leave such bytes in the socket, in a queue, or in the buffer of TLS, and ask the socket
    alone whether there are any.
    """

    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def opened(cls, address: str, port: int, seconds: float | None) -> "_Stream":
        loop = asyncio.get_running_loop()
        reader = _Reader(loop=loop)
        try:
            async with asyncio.timeout(seconds):
                transport, protocol = await loop.create_connection(
                    lambda: asyncio.StreamReaderProtocol(reader, loop=loop), address, port
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("no connection in time") from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        except BaseException as error:
            await self.aclose()
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout("no TLS in time") from error
            if isinstance(error, OSError):  # ssl.SSLError, too
                raise httpcore.ConnectError(str(error)) from error
            raise
        return self

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout("nothing came in time") from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout("nothing was taken in time") from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.transport.abort()

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._reader.unread_bytes > 0 or self._reader.at_eof() or self._reader.exception() is not None
        return self._writer.get_extra_info(info)


class CheckedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport with checked connections, and without the proxies of the environment.

    A request with the extension `lane` uses connections of the same lane only: what an API sends behind a response
    reaches no request with other credentials.
    """

    def __init__(self, allowed: Sequence[IPNetwork], *, api: str = "NAME") -> None:
        """api: the name of the API, for messages."""
        context = ssl.create_default_context()
        super().__init__(verify=context, trust_env=False)
        # httpx has no public way to choose its pool.
        self._pool = _Pool(
            ssl_context=context,
            keepalive_expiry=30.0,
            network_backend=_CheckedBackend(allowed, api),
        )


class _Pool(httpcore.AsyncConnectionPool):
    """A pool that keeps all connections usable, whenever a call is cancelled, and sets no limit for connections in use.

    httpcore's own pool loses a connection for ever where a call is cancelled while the call gets a connection, or while
    a response is closed: 2,000 clients that left a slow API took all 20 connections, and no later call was sent.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._idle: list[tuple[object, httpcore.AsyncConnectionInterface]] = []  # lane, connection; the newest last
        self._closed = False

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        lane = request.extensions.get("lane")
        connection, expired = self._taken(lane, request.url.origin)
        give_back = functools.partial(self._give_back, lane, connection)
        try:
            await asyncio.shield(_close(expired))
            response = await connection.handle_async_request(request)
        except BaseException:
            await asyncio.shield(give_back(connection))
            raise
        return httpcore.Response(
            response.status,
            headers=response.headers,
            content=_Content(response.stream, give_back),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the idle connections; the connections in use are closed after their responses."""
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.shield(_close(one for _, one in idle))

    def _taken(
        self, lane: object, origin: httpcore.Origin
    ) -> tuple[httpcore.AsyncConnectionInterface, Sequence[httpcore.AsyncConnectionInterface]]:
        """A connection to the origin, and the connections that cannot be used any more."""
        expired = [one for _, one in self._idle if one.has_expired()]
        self._idle = [row for row in self._idle if row[1] not in expired]
        usable = (row for row in reversed(self._idle) if row[0] is lane and row[1].can_handle_request(origin))
        found = next(usable, None)
        if found is None:
            return self.create_connection(origin), expired
        self._idle.remove(found)
        return found[1], expired

    async def _give_back(self, lane: object, connection: httpcore.AsyncConnectionInterface, ended: Any) -> None:
        """Close a response, or a connection whose request failed; keep a connection that can be used again."""
        try:
            await ended.aclose()
            if self._closed or _has_surplus(connection):
                await connection.aclose()
        finally:
            if connection.is_idle():
                self._idle.append((lane, connection))
        if len(self._idle) > _MOST_IDLE:
            await self._idle.pop(0)[1].aclose()


def _has_surplus(connection: httpcore.AsyncConnectionInterface) -> bool:
    """Whether bytes came behind the end of a response: they would be read as the response to the next request.

    httpcore keeps what its parser has not read to itself.
    """
    http: Any = getattr(connection, "_connection", None)
    return connection.is_idle() and http is not None and bool(http._h11_state.trailing_data[0])


class _Content:
    """The content of a response. To close the content gives the connection back, also if the call is cancelled."""

    def __init__(self, stream: Any, give_back: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        self._stream, self._give_back = stream, give_back
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        if not self._ended:
            self._ended = True
            await asyncio.shield(self._give_back(self._stream))


async def _close(connections: Iterable[httpcore.AsyncConnectionInterface]) -> None:
    for one in connections:
        await one.aclose()
