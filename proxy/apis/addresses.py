"""Connections to checked addresses only, and their response bodies.

A host name is resolved once, every address is checked, and the connection goes to a checked one: a second resolution
could give another address (DNS rebinding). TLS still verifies the name.

Bodies are unpacked up to a limit: 300 bytes of gzip can unpack to 200 MB.
"""

import asyncio
import functools
import ssl
import zlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx

from proxy.dialects.content_encoding import WINDOW_BITS
from runtime.http_client import (
    Address,
    Client,
    ConnectFailed,
    ConnectTimeout,
    FirstByteTimeout,
    IdleTimeout,
    Response,
    UpstreamError,
)
from runtime.public_addresses import ForbiddenAddress, IPNetwork, UnknownName, checked_addresses

_LOOKUPS = 4  # name look-ups at a time, for one API
_CONNECT_S, _KEEPALIVE_S = 10.0, 30.0
_LONGEST_S = 86_400.0  # for a response: limits of calls and fetches end sooner
_MOST_OPEN = 1_000  # connections; concurrent calls have their own limit
_MOST_IDLE = 24  # connections to one API, for all keys
_PIECE_BYTES = 1 << 16  # zlib copies a piece's remainder at each end of a member


@functools.lru_cache(1024)  # each chat asks it of each operation that it is offered: 50 µs without the cache
def origin_of(url: str | httpx.URL) -> tuple[str, str, int | None] | None:
    """A URL's scheme, host and port; None: not a valid URL."""
    try:
        parts = httpx.URL(url)
        return parts.scheme, parts.host, parts.port
    except (httpx.InvalidURL, ValueError):  # ValueError: a host such as xn--a
        return None


def redirect_target(response: httpx.Response, url: httpx.URL) -> httpx.URL:
    """The address that a response redirects to. Raises httpx.InvalidURL."""
    try:
        target = url.join(response.headers["location"])
    except ValueError as error:  # from urllib, which httpx uses to join
        raise httpx.InvalidURL(str(error)) from error
    if origin_of(target) is None:
        raise httpx.InvalidURL("no request can be sent to the address")
    return target


class NotReady(ConnectFailed):
    """An MCP server gives no session; the text says why, without secrets."""


def why_failed(error: Exception) -> str:
    """What kind of failure it was: a library's error text may quote the request with its secrets."""
    if isinstance(error, ForbiddenAddress | NotReady):
        return str(error)
    if isinstance(error, ConnectFailed | ConnectTimeout):
        return f"no connection{_detail(error)}"
    if isinstance(error, FirstByteTimeout | IdleTimeout):
        return "no answer in time"
    if isinstance(error, UnicodeError | httpx.LocalProtocolError):  # in a header
        return "the credentials or the address have letters that cannot be sent"
    if isinstance(error, httpx.DecodingError):
        return "the response cannot be unpacked"
    return "the connection broke off" if isinstance(error, UpstreamError) else "the address is not valid"


def _detail(error: UpstreamError) -> str:
    """Why there is no connection, as far as error types tell."""
    if isinstance(error, UnknownName):
        return " (the name of the host has no address)"
    if isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return " (the certificate is not valid)"
    return " (TLS failed)" if isinstance(error.__cause__, ssl.SSLError) else ""


async def why_refused(url: str, allowed: Sequence[IPNetwork], *, api: str, seconds: float = 2.0) -> str:
    """Why an API's address is not called; "": it is called, or its name is unknown at present."""
    origin = origin_of(url)
    if origin is None:
        return "the address is not valid"
    _, host, port = origin
    try:
        async with asyncio.timeout(seconds):
            await _checked(None, allowed, api, host, port or 443)
    except ForbiddenAddress as error:
        return str(error)
    except (UnknownName, TimeoutError):
        pass
    return ""


async def _checked(
    threads: ThreadPoolExecutor | None, allowed: Sequence[IPNetwork], api: str, host: str, port: int
) -> list[str]:
    """A name's addresses, all checked. Raises ForbiddenAddress, UnknownName."""
    look_up = functools.partial(checked_addresses, host, port, allowed, setting=f"actions.{api}.networks")
    return await asyncio.get_running_loop().run_in_executor(threads, look_up)


class CheckedTransport(httpx.AsyncBaseTransport):
    """The gateway's HTTP client as an httpx transport: checked addresses, and no proxies from the environment.

    Request extensions: `lane`, for connections of the same lane only, so that bytes sent after a response never reach a
    request with other credentials; `begun`, called before a request's first byte.
    """

    def __init__(self, allowed: Sequence[IPNetwork], *, api: str = "NAME") -> None:
        """api: its name, for messages."""
        threads = ThreadPoolExecutor(_LOOKUPS, "names")  # a hanging resolver blocks no other work
        self._client = Client(
            connect_timeout_s=_CONNECT_S,
            first_byte_timeout_s=_LONGEST_S,
            idle_timeout_s=_LONGEST_S,
            keepalive_s=_KEEPALIVE_S,
            max_connections=_MOST_OPEN,
            max_idle=_MOST_IDLE,
            resolve=functools.partial(_checked, threads, allowed, api),
            lenient=True,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises UpstreamError, ForbiddenAddress, httpx.HTTPError."""
        url = request.url
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
        if port is None:
            raise httpx.UnsupportedProtocol(f"no request is sent to {url.scheme}:")
        address = Address(url.scheme, url.raw_host.decode("ascii"), port, request.extensions.get("lane"))
        headers = [row for row in request.headers.raw if row[0].lower() not in (b"host", b"content-length")]
        place = address, request.headers["host"].encode("ascii"), url.raw_path
        begun = request.extensions.get("begun")
        try:
            method = request.method.encode("ascii")
            response = await self._client.request(method, place, headers, request.content, begun=begun)
        except ValueError as error:  # a line break in a header
            raise httpx.LocalProtocolError(str(error)) from error
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    async def aclose(self) -> None:
        """Close idle connections; one in use closes after it has been idle for a while."""
        self._client.close_idle()


class _Body(httpx.AsyncByteStream):
    """A response body, for httpx."""

    def __init__(self, response: Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._response.complete:
            received = await self._response.read()
            for start in range(0, len(received), _PIECE_BYTES):
                yield received[start : start + _PIECE_BYTES]

    async def aclose(self) -> None:
        self._response.close()


# --- the body of a response -------------------------------------------------------------------------------------------


_GZIP = b"\x1f\x8b"  # first bytes of a member
# Encodings that the gateway never asks for. Other names, such as utf-8 or none, are server mistakes.
_OTHERS = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip", "aes128gcm"})


async def read_within(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """The first `max_bytes` of the body, and whether it is whole. Raises httpx.DecodingError."""
    bits = _window_bits(response.headers.get("content-encoding", ""))
    stream = zlib.decompressobj(bits) if bits else None
    content = bytearray()
    async for received in response.aiter_raw():
        piece = received
        if stream is None:
            content += piece
        while stream is not None and piece and len(content) <= max_bytes:
            if stream.eof:  # a gzip file may have several members (RFC 1952 §2.2)
                if piece[:2] != _GZIP[: len(piece)]:
                    break  # bytes after the end, which mean nothing
                stream = zlib.decompressobj(bits)
            try:
                content += stream.decompress(piece, max_bytes + 1 - len(content))
            except zlib.error as error:
                raise httpx.DecodingError("the response is damaged") from error
            piece = stream.unused_data
        if len(content) > max_bytes:
            return bytes(content[:max_bytes]), False
    if stream is not None and not stream.eof and response.num_bytes_downloaded:
        raise httpx.DecodingError("the response is cut off")
    return bytes(content), True


def _window_bits(encodings: str) -> int:
    """For zlib; 0: not packed. Raises httpx.DecodingError for encodings that cannot be unpacked."""
    names = [one.strip().lower() for one in encodings.split(",")]
    packed = [one for one in names if one.encode() in WINDOW_BITS or one in _OTHERS]
    if len(packed) > 1 or not _OTHERS.isdisjoint(packed):
        raise httpx.DecodingError(f"the content-encoding {encodings!r} was not asked for")
    return WINDOW_BITS[packed[0].encode()] if packed else 0
