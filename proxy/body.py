"""Request bodies, read whole and unpacked within a limit; work on large ones happens in threads.

A worker's large bodies share a memory budget: a body, its values and an edited copy take three times its size. Requests
beyond the budget wait, and no key takes more than half. Once the upstream has a large body, the gateway forgets it
(`forget`), because an answer may take minutes.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from proxy.asgi import Message, Receive, Scope
from proxy.dialects.content_encoding import content_encoding, most_unpacked, unpacked
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import LARGE_BYTES, JsonBody, by_size
from proxy.exchange import EXCHANGE, Exchange
from runtime.fair_slots import FairSlots

_SETTING = "server.max_body_mb"
_COPIES = 3  # bytes, values, edited bytes
_MEMORY_MB, _MEMORY_MB_OF_KEY = 384, 192
_WAIT_S = 20.0  # for memory
_RETRY_AFTER_S = 5
_UNPACKERS = 2  # threads
_memory = FairSlots(_MEMORY_MB, _MEMORY_MB_OF_KEY)  # a slot is 1 MB
_unpackers = FairSlots(_UNPACKERS, 1)
_threads = ThreadPoolExecutor(_UNPACKERS, "unpack")  # no other work waits for slow unpacking
DEPLOYMENT = "ragway.deployment"  # in the ASGI scope: a model named in a path of Azure's form


class ClientGone(Exception):
    """The client left before its request was whole: nobody waits for an answer."""


async def json_body(scope: Scope, receive: Receive, *, max_bytes: int) -> JsonBody:
    """Read a body that must be a JSON object. Raises as `whole_body` and `JsonBody.parse`."""
    raw = await whole_body(scope, receive, max_bytes=max_bytes)
    try:
        return await by_size(raw, lambda: JsonBody.parse(raw))
    finally:
        end_grant(scope[EXCHANGE])


async def whole_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """Read a body, unpacked; on a path of Azure's form, JSON with its model as `model`.

    The limit holds for received and for unpacked bytes. A large body waits for memory, which the exchange gives back.
    Raises ApiError 400 (damaged encoding; Azure's form: no JSON), 413 (too large), 415 (unknown encoding), 503 (no
    memory in time), ClientGone.
    """
    encoding = check_announced(scope, max_bytes=max_bytes)
    raw = await read_body(receive, max_bytes=max_bytes)
    exchange: Exchange = scope[EXCHANGE]
    if raw and encoding:
        raw = await _unpacked(raw, encoding, max_bytes, exchange)
        if len(raw) > max_bytes:
            raise too_large(max_bytes)
    elif len(raw) > LARGE_BYTES:
        await _grant(exchange, len(raw))
    deployment = scope.get(DEPLOYMENT)
    if deployment is None or any(
        name == b"content-type" and b"multipart/" in value.lower() for name, value in scope["headers"]
    ):
        return raw
    return await by_size(raw, lambda: JsonBody.parse(raw).edited(model=deployment))


async def _unpacked(raw: bytes, encoding: bytes, max_bytes: int, exchange: Exchange) -> bytes:
    """Unpack; the exchange holds memory for large content."""
    granted_mb = await _grant(exchange, min(max_bytes, most_unpacked(len(raw))))
    async with _unpackers.slot(exchange.key):
        loop = asyncio.get_running_loop()
        content = await loop.run_in_executor(_threads, unpacked, raw, encoding, max_bytes + 1)
    needed_mb = _megabytes(len(content)) if len(content) > LARGE_BYTES else 0
    _memory.release(exchange.key, granted_mb - needed_mb)
    exchange.granted_mb = needed_mb
    return content


async def _grant(exchange: Exchange, size_bytes: int) -> int:
    """Wait for memory, which the exchange gives back; return megabytes. Raises ApiError 503."""
    megabytes = _megabytes(size_bytes)
    try:
        async with asyncio.timeout(_WAIT_S):
            await _memory.acquire(exchange.key, megabytes)
    except TimeoutError:
        message = "The gateway works on other large requests at present: try again later, or send a smaller request."
        again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
        raise ApiError(503, message, code="busy", type="server_error", headers=again) from None
    exchange.granted_mb = megabytes
    return megabytes


def end_grant(exchange: Exchange) -> None:
    """Give back a large body's memory. Idempotent."""
    if exchange.granted_mb:
        _memory.release(exchange.key, exchange.granted_mb)
        exchange.granted_mb = 0


def forget(exchange: Exchange) -> None:
    """Forget a large request that was sent, if nothing needs it afterwards."""
    if exchange.once and exchange.granted_mb:
        exchange.body = exchange.fields = None
        end_grant(exchange)


def _megabytes(size_bytes: int) -> int:
    return min(_MEMORY_MB_OF_KEY, -(-size_bytes * _COPIES // 2**20))


def check_announced(scope: Scope, *, max_bytes: int, setting: str = _SETTING) -> bytes:
    """Return the content-encoding, b"" for a plain body. setting: name of the limit.

    Raises ApiError if headers show a body to be too large (413) or of an unknown encoding (415).
    """
    encoding = b""
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > max_bytes:
            raise too_large(max_bytes, setting)
        if name == b"content-encoding":
            encoding = content_encoding(scope["headers"])
    return encoding


async def read_body(receive: Receive, *, max_bytes: int = sys.maxsize) -> bytes:
    """Receive a whole body. Raises ApiError 413 (too large), ClientGone."""
    parts: list[bytes] = []
    left, more = max_bytes, True
    while more:
        part, more = received_part(await receive())
        if (left := left - len(part)) < 0:
            raise too_large(max_bytes)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def received_part(message: Message) -> tuple[bytes, bool]:
    """A piece of a body, and whether more follows. Raises ClientGone."""
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def too_large(max_bytes: int, setting: str = _SETTING) -> ApiError:
    message = f"The request body is larger than {max_bytes // 2**20} MB ({setting})."
    return ApiError(413, message, code="body_too_large")
