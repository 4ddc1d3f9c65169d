"""The server's connections on loopback in the test's own event loop, and clients of them that are bare sockets."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from proxy.asgi import App, Receive, Scope, Send
from proxy.body import read_body
from proxy.server.http1 import ClientConnection, Connections, Timeouts

PATIENT = Timeouts(receive_s=60.0, keepalive_s=60.0, send_s=60.0)


@dataclass(slots=True)
class Listening:
    """A server with its connections."""

    port: int
    connections: set[ClientConnection]
    tasks: set[asyncio.Task[None]]

    async def until_empty(self) -> None:
        """Return when every connection and task is gone."""
        while self.connections or self.tasks:  # noqa: ASYNC110 - the server's own sets: nobody sets an event for them
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator["RawClient"]:
        """A connection to it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield RawClient(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def exchange(self, *pieces: bytes) -> bytes:
        """All that comes back for these bytes until the server closes."""
        async with self.client() as client:
            for piece in pieces:
                client.writer.write(piece)
                await asyncio.sleep(0)
            return await client.rest()


@dataclass(slots=True)
class RawClient:
    """A socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> bytes:
        """What comes until the end, which may be a reset."""
        parts = []
        with contextlib.suppress(ConnectionError):
            while part := await self.reader.read(65536):
                parts.append(part)
        return b"".join(parts)

    async def reply(self) -> bytes:
        """One reply with a content-length, head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head + await self.reader.readexactly(length)


@contextlib.asynccontextmanager
async def listening(app: App, limits: Timeouts = PATIENT) -> AsyncIterator[Listening]:
    """Serve `app` while the context lasts."""
    served = Connections(app, limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await served.listen(listener, 100)
        server = Listening(listener.getsockname()[1], served.open, served.tasks)
        try:
            yield server
        finally:
            await served.drain(0)
            await server.until_empty()


@dataclass(slots=True)
class Recorder:
    """An app that keeps what it is asked and answers with its body."""

    seen: list[tuple[str, str, bytes]] = field(default_factory=list)  # method, path with query, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        query = scope["query_string"].decode()
        self.seen.append((scope["method"], scope["path"] + (f"?{query}" if query else ""), body))
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def post(body: bytes, *headers: bytes, path: bytes = b"/v1/x") -> bytes:
    """A POST with a content-length."""
    lines = [b"POST %b HTTP/1.1" % path, b"host: localhost", b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(pieces: Sequence[bytes], *headers: bytes) -> bytes:
    """A POST in chunks."""
    lines = [b"POST /v1/x HTTP/1.1", b"host: localhost", b"transfer-encoding: chunked", *headers]
    coded = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"\r\n".join(lines) + b"\r\n\r\n" + coded + b"0\r\n\r\n"
