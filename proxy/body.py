"""A request's body, read whole within a limit, and the request played once more with another one."""

from proxy.asgi import Message, Receive, Scope
from proxy.errors import ApiError


class ClientGone(Exception):
    """The client left before its request was whole: there is nobody to answer."""


async def whole_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """The request's body. Raises ApiError 413 (too large), 415 (encoded), ClientGone."""
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > max_bytes:
            raise _too_large(max_bytes)
        if name == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise ApiError(415, "Send the request body without content-encoding.", code="unsupported_encoding")
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(max_bytes: int) -> ApiError:
    message = f"The request body is larger than {max_bytes // 2**20} MB (server.max_body_mb)."
    return ApiError(413, message, code="body_too_large")


def replay(scope: Scope, receive: Receive, raw: bytes) -> tuple[Scope, Receive]:
    """The request once more, with this body: what follows the body (the client leaving) still comes through."""
    length = b"%d" % len(raw)
    headers = [pair for pair in scope["headers"] if pair[0] not in (b"content-length", b"transfer-encoding")]
    first = True

    async def again() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": raw, "more_body": False}
        return await receive()

    return {**scope, "headers": [*headers, (b"content-length", length)]}, again
