"""ASGI types, and whole answers without a framework."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

from proxy.dialects.errors import ApiError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Sent:
    __await__ = ().__iter__  # an iterator without elements, and without a Python frame


SENT = cast(Awaitable[None], _Sent())  # what a `Send` may return if there is nothing to wait for
CLIENT_LEFT = "the client left"  # cancel message for a lost client's task


def covers(listed: str, path: str) -> bool:
    """Whether a path is the listed one or below it: /v1/files covers /v1/files/file-1."""
    return path == listed or path.startswith(listed + "/")


def with_length(start: Message, length: int | None) -> Message:
    """Return a reply head for a body of another length; None: not known yet."""
    headers = [pair for pair in start.get("headers", ()) if pair[0].lower() != b"content-length"]
    return {**start, "headers": headers if length is None else [*headers, (b"content-length", b"%d" % length)]}


async def send_json(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    """Send a whole JSON answer."""
    await send_whole(send, status, body, b"application/json", headers)


async def send_whole(
    send: Send, status: int, body: bytes, media: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send a whole answer."""
    start = [(b"content-type", media), (b"content-length", b"%d" % len(body)), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: ApiError, body: bytes | None = None) -> None:
    """Send a gateway error. body: as the client's dialect writes it; None: in OpenAI's shape."""
    await send_json(send, error.status, error.body() if body is None else body, error.headers)
