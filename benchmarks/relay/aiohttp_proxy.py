"""The thirty lines of `httpx_proxy` with aiohttp's client, for the study of clients. `UPSTREAM` as there."""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp

_HOP = frozenset("connection keep-alive te trailer transfer-encoding upgrade".split())
_OF_THE_CLIENT = _HOP | {"host", "content-length"}  # aiohttp sets these headers
_session: aiohttp.ClientSession
Message = MutableMapping[str, Any]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Forward each request and stream the reply back, byte for byte."""
    global _session  # noqa: PLW0603
    if scope["type"] == "lifespan":
        await receive()
        _session = aiohttp.ClientSession(
            os.environ["UPSTREAM"],
            connector=aiohttp.TCPConnector(limit=1000),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=10, sock_read=300),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await _session.close()
        await send({"type": "lifespan.shutdown.complete"})
        return
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    headers = [(name, value) for name, value in told if name not in _OF_THE_CLIENT]
    body = b"".join(parts)
    async with _session.request(scope["method"], scope["path"], headers=headers, data=body) as reply:
        kept = [(n.lower(), v) for n, v in reply.raw_headers if n.lower().decode("latin-1") not in _HOP]
        await send({"type": "http.response.start", "status": reply.status, "headers": kept})
        async for chunk in reply.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
