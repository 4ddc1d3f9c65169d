"""A hand-made gateway: thirty lines of pure ASGI that stream through httpx, as a careful engineer would write.

`UPSTREAM` names the upstream's origin, `HTTP_CLIENT` another library with the same interface (httpx2). Runs under
uvicorn.
"""

import importlib
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

httpx: Any = importlib.import_module(os.environ.get("HTTP_CLIENT", "httpx"))
_HOP = frozenset(b"connection keep-alive te trailer transfer-encoding upgrade".split())
_OF_THE_CLIENT = _HOP | {b"host", b"content-length"}  # httpx sets these headers
_client: Any = None
Message = MutableMapping[str, Any]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Forward each request and stream the reply back, byte for byte."""
    global _client  # noqa: PLW0603
    if scope["type"] == "lifespan":
        await receive()
        limits = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
        timeout = httpx.Timeout(300, connect=10)
        _client = httpx.AsyncClient(base_url=os.environ["UPSTREAM"], limits=limits, timeout=timeout, trust_env=False)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await _client.aclose()
        await send({"type": "lifespan.shutdown.complete"})
        return
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    headers = [(name, value) for name, value in scope["headers"] if name not in _OF_THE_CLIENT]
    async with _client.stream(scope["method"], scope["path"], headers=headers, content=b"".join(parts)) as reply:
        kept = [(name.lower(), value) for name, value in reply.headers.raw if name.lower() not in _HOP]
        await send({"type": "http.response.start", "status": reply.status_code, "headers": kept})
        async for chunk in reply.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
