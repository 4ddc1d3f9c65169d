"""A request's body, read whole within a limit, and what is done with a large one without stopping all others."""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

from proxy.asgi import Receive, Scope
from proxy.dialects.chat import LARGE_BYTES, Body, parse
from proxy.errors import ApiError

_T = TypeVar("_T")
_SETTING = "server.max_body_mb"


class ClientGone(Exception):
    """The client left before its request was whole: there is nobody to answer."""


async def json_body(scope: Scope, receive: Receive, *, max_bytes: int) -> Body:
    """The request's body, which must be a JSON object. Raises as `whole_body` and `parse`."""
    raw = await whole_body(scope, receive, max_bytes=max_bytes)
    return await by_size(raw, lambda: parse(raw))


async def by_size(raw: bytes, work: Callable[[], _T]) -> _T:
    """What the work gives; where the body it is done on is large, it is done in a thread."""
    return await asyncio.to_thread(work) if len(raw) > LARGE_BYTES else work()


async def whole_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """The request's body. Raises ApiError 413 (too large), 415 (encoded), ClientGone."""
    check_announced(scope, max_bytes=max_bytes)
    return await read_body(receive, max_bytes=max_bytes)


def check_announced(scope: Scope, *, max_bytes: int, setting: str = _SETTING) -> None:
    """Refuse by its headers a body that would be refused once it is read. setting: the limit's. Raises ApiError."""
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > max_bytes:
            raise too_large(max_bytes, setting)
        if name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise ApiError(415, "Send the request body without content-encoding.", code="unsupported_encoding")


async def read_body(receive: Receive, *, max_bytes: int = sys.maxsize) -> bytes:
    """What is received, to its end. Raises ApiError 413 (too large), ClientGone."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > max_bytes:
            raise too_large(max_bytes)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def too_large(max_bytes: int, setting: str = _SETTING) -> ApiError:
    message = f"The request body is larger than {max_bytes // 2**20} MB ({setting})."
    return ApiError(413, message, code="body_too_large")
