"""An HTTP API on loopback for the tests of actions: every request is kept, and the test writes the replies."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request as received."""

    method: str
    target: str  # path and query, byte for byte
    headers: dict[str, str]  # names in lower case
    body: bytes
    connection: int  # number of the connection, from 1


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. `raw` is sent instead of head and body; `hold` keeps the connection open without a byte.

    `behind` is sent behind the response, in a write of its own, and the connection stays open.
    """

    status: int = 200
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    raw: bytes | None = None
    hold: bool = False
    behind: bytes = b""

    def written(self, method: str) -> bytes:
        if self.raw is not None:
            return self.raw
        head = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in self.headers)]
        head.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(head).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else self.body)


Handler = Callable[[ApiRequest], Awaitable[Reply]]


@dataclass(slots=True)
class ApiServer:
    """A running server."""

    port: int = 0
    requests: list[ApiRequest] = field(default_factory=list)
    connections: int = 0  # accepted so far
    writers: list[asyncio.StreamWriter] = field(default_factory=list)  # of the connections
    left: asyncio.Event = field(default_factory=asyncio.Event)  # a client closed a connection
    arrived: asyncio.Event = field(default_factory=asyncio.Event)  # a request came

    listener: asyncio.Server | None = None

    def close(self) -> None:
        """Refuse further connections."""
        assert self.listener is not None
        self.listener.close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [one.target for one in self.requests]


@contextlib.asynccontextmanager
async def api_server(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[ApiServer]:
    """Serve `handler` while the context lasts."""
    server = ApiServer()
    tasks: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        server.writers.append(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await _answer(server, handler, reader, writer, server.connections)
            server.left.set()
        finally:
            writer.close()
            tasks.discard(task)

    listener = await asyncio.start_server(connection, host, 0, ssl=tls)
    server.listener = listener
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _answer(
    server: ApiServer, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
) -> None:
    while True:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = ApiRequest(method, target, headers, body, number)
        server.requests.append(request)
        server.arrived.set()
        reply = await handler(request)
        if reply.hold:
            await reader.read()  # until the client leaves
            return
        writer.write(reply.written(method))
        if reply.behind:
            writer.write(reply.behind)
        await writer.drain()
        if reply.raw is not None:
            return
