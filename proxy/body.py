"""A request's body, read whole and unpacked within a limit; work on a large body happens in a thread."""

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

from proxy.asgi import Receive, Scope
from proxy.content_encoding import content_encoding, unpacked
from proxy.dialects.json_body import LARGE_BYTES, JsonBody
from proxy.errors import ApiError

_T = TypeVar("_T")
_SETTING = "server.max_body_mb"
DEPLOYMENT = "ragway.deployment"  # in the ASGI scope: the model that a path of Azure's form names


class ClientGone(Exception):
    """The client left before the request was whole, so no client waits for an answer."""


async def json_body(scope: Scope, receive: Receive, *, max_bytes: int) -> JsonBody:
    """The request's body, which must be a JSON object. Raises as `whole_body` and `JsonBody.parse`."""
    raw = await whole_body(scope, receive, max_bytes=max_bytes)
    return await by_size(raw, lambda: JsonBody.parse(raw))


async def by_size(raw: bytes, work: Callable[[], _T]) -> _T:
    """The result of the work; the work on a large body is done in a thread."""
    return await asyncio.to_thread(work) if len(raw) > LARGE_BYTES else work()


async def whole_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """The request's body, unpacked; in a path of Azure's form, JSON with the path's model as `model`.

    The limit holds for the received and for the unpacked bytes. Raises ApiError 400 (damaged encoding; Azure's form: no
    JSON), 413 (too large), 415 (unknown encoding), ClientGone.
    """
    encoding = check_announced(scope, max_bytes=max_bytes)
    raw = await read_body(receive, max_bytes=max_bytes)
    if raw and encoding:
        raw = await asyncio.to_thread(unpacked, raw, encoding, max_bytes + 1)
        if len(raw) > max_bytes:
            raise too_large(max_bytes)
    deployment = scope.get(DEPLOYMENT)
    if deployment is None or any(
        name == b"content-type" and b"multipart/" in value.lower() for name, value in scope["headers"]
    ):
        return raw
    return await by_size(raw, lambda: JsonBody.parse(raw).with_model(deployment))


def check_announced(scope: Scope, *, max_bytes: int, setting: str = _SETTING) -> bytes:
    """The content-encoding, b"" for a plain body. setting: the name of the limit.

    Raises ApiError for a body that the headers show to be too large (413) or of an unknown encoding (415).
    """
    encoding = b""
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > max_bytes:
            raise too_large(max_bytes, setting)
        if name == b"content-encoding":
            encoding = content_encoding(scope["headers"])
    return encoding


async def read_body(receive: Receive, *, max_bytes: int = sys.maxsize) -> bytes:
    """The received bytes, to the end. Raises ApiError 413 (too large), ClientGone."""
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
