"""The HTTP client with limits that suit tests: long enough never to strike by accident."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from runtime.http_client import Client, Place, Response


@contextlib.asynccontextmanager
async def client(
    *,
    connect_timeout_s: float = 30.0,
    first_byte_timeout_s: float = 30.0,
    idle_timeout_s: float = 30.0,
    keepalive_s: float = 30.0,
    max_connections: int = 10,
    max_idle: int = 0,
) -> AsyncIterator[Client]:
    """A client, closed at the end."""
    opened = Client(
        connect_timeout_s=connect_timeout_s,
        first_byte_timeout_s=first_byte_timeout_s,
        idle_timeout_s=idle_timeout_s,
        keepalive_s=keepalive_s,
        max_connections=max_connections,
        max_idle=max_idle,
    )
    try:
        yield opened
    finally:
        opened.close()


async def fetch(
    http: Client,
    url: str | Place,
    body: bytes = b"{}",
    *,
    method: bytes = b"POST",
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and whole body of one request."""
    response = await http.request(method, url, headers, body)
    return response.status, response.headers, b"".join([chunk async for chunk in chunks_of(response)])


async def chunks_of(response: Response) -> AsyncIterator[bytes]:
    """The body in the pieces that `read` gives."""
    try:
        while chunk := await response.read():
            yield chunk
    finally:
        response.close()
