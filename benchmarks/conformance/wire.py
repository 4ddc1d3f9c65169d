"""Both ends of the wire for the conformance table: a scripted upstream and a client that records every byte.

Both ends are raw asyncio in one process, so both use the same clock. The lane under test is between the ends; an
`Exchange` holds the observations of one request.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

Pairs = tuple[tuple[bytes, bytes], ...]
JSON: Pairs = ((b"content-type", b"application/json"),)
EVENTS: Pairs = ((b"content-type", b"text/event-stream; charset=utf-8"),)
PATIENCE_S = 0.5  # how long the upstream waits for the client to receive a piece
ANSWER_S = 8.0  # for a whole answer: several times the limits in the lanes' configuration
_LIMIT_BYTES = 1 << 25

Framing = Literal["length", "chunked", "close"]
End = Literal["whole", "fin", "reset", "silent"]


class _Headed:
    """A message with headers."""

    __slots__ = ()
    headers: Pairs

    def header(self, name: bytes) -> bytes:
        """The first value of a header (lower case), or empty."""
        return next((value for key, value in self.headers if key == name), b"")


@dataclass(frozen=True, slots=True)
class Script(_Headed):
    """The upstream's actions for a request.

    `pieces` are written one by one in the given `framing`. `marks[i]`, unless empty, must reach the client before the
    upstream continues after piece i. Then comes `end`: an orderly end, FIN, RST, or silence. `raw` replaces head and
    body; with `headless` the upstream sends nothing before `end`.
    """

    pieces: tuple[bytes, ...] = ()
    status: bytes = b"200 OK"
    headers: Pairs = JSON
    framing: Framing = "length"
    end: End = "whole"
    marks: tuple[bytes, ...] = ()
    raw: bytes = b""
    headless: bool = False

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Received(_Headed):
    """A request at the upstream; header names in lower case."""

    target: bytes
    headers: Pairs
    body: bytes


@dataclass(slots=True)
class Answer(_Headed):
    """The client's reply. `end`: whole, cut (closed or reset early), none (without a head), silent."""

    status: int = 0
    headers: Pairs = ()
    body: bytes = b""
    end: Literal["whole", "cut", "none", "silent"] = "none"


@dataclass(slots=True)
class Exchange:
    """One request, observed at both sides."""

    sent: bytes
    script: Script
    received: list[Received] = field(default_factory=list)
    answer: Answer = field(default_factory=Answer)
    held_back: int = 0  # marks that the client did not receive in time
    rag: bool = True  # the request has passages in ragway's lanes
    trapped: int = 0  # connections to an address in the request or the reply
    usual: frozenset[tuple[str, str]] = (
        frozenset()
    )  # the lane's changes in every answer, reported once in the row of a plain answer
    closed_after_s: float | None = None  # from the client's leaving to the upstream's connection being closed


class Upstream:
    """A server on a free port of 127.0.0.1 that plays the latest exchange."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self._exchange = Exchange(b"", Script())
        self._heard = bytearray()
        self._news = asyncio.Condition()
        self._closed_at: float | None = None

    async def play(self, exchange: Exchange) -> None:
        """Play this exchange from now on."""
        async with self._news:
            self._exchange, self._closed_at = exchange, None
            self._heard.clear()

    async def hear(self, data: bytes) -> None:
        """The client has got more of the body."""
        async with self._news:
            self._heard += data
            self._news.notify_all()

    async def asked(self) -> None:
        """Return when the request has come."""
        async with self._news:
            await self._news.wait_for(lambda: bool(self._exchange.received))

    async def closed(self) -> float:
        """Wait until the other side closes the connection of a silent script; return the event loop's time."""
        async with self._news:
            await self._news.wait_for(lambda: self._closed_at is not None)
        assert self._closed_at is not None
        return self._closed_at

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while True:
                    received = await _request(reader)
                    exchange = self._exchange
                    async with self._news:
                        exchange.received.append(received)
                        self._news.notify_all()
                    await self._answer(exchange, reader, writer)
            finally:
                writer.close()

    async def _answer(self, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = exchange.script
        if script.raw:
            writer.write(script.raw)
            await writer.drain()
        elif not script.headless:
            await self._write(exchange, writer)
        if script.end == "whole" and script.framing != "close":
            return
        if script.end == "silent":
            with contextlib.suppress(ConnectionError):
                while await reader.read(1 << 16):
                    pass
            if exchange is self._exchange:
                async with self._news:
                    self._closed_at = asyncio.get_running_loop().time()
                    self._news.notify_all()
        elif script.end == "reset":
            peer: socket.socket = writer.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        raise ConnectionResetError  # the script reads no more

    async def _write(self, exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        script = exchange.script
        head = [b"HTTP/1.1 " + script.status, *(name + b": " + value for name, value in script.headers)]
        if script.framing == "chunked":
            head.append(b"transfer-encoding: chunked")
        elif script.framing == "length" and not script.header(b"content-length"):
            head.append(b"content-length: %d" % len(script.body))
        else:
            head += [b"connection: close"] if script.framing == "close" else []
        writer.write(b"\r\n".join(head) + b"\r\n\r\n")
        for number, piece in enumerate(script.pieces):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if script.framing == "chunked" else piece)
            await writer.drain()
            await asyncio.sleep(0)
            if number < len(script.marks) and script.marks[number]:
                exchange.held_back += not await self._has_come(script.marks[number])
        if script.framing == "chunked" and script.end == "whole":
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _has_come(self, mark: bytes) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), self._news:
                await self._news.wait_for(lambda: mark in self._heard)
                return True
        return False


@contextlib.asynccontextmanager
async def upstream(port: int = 0) -> AsyncIterator[Upstream]:
    """A scripted upstream on a free or given port, within the context."""
    running = Upstream()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(running.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=_LIMIT_BYTES)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        left = list(tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def ask(port: int, request: bytes, exchange: Exchange, listener: Upstream) -> None:
    """Send the request and fill in `exchange.answer`; the upstream is notified of every received piece."""
    answer = exchange.answer
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LIMIT_BYTES)
    try:
        async with asyncio.timeout(ANSWER_S):
            writer.write(request)
            await writer.drain()
            await _read_answer(reader, answer, listener)
    except TimeoutError:
        answer.end = "silent"
    except (ConnectionError, asyncio.IncompleteReadError):
        answer.end = "cut" if answer.status else "none"
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ask_and_leave(port: int, request: bytes, exchange: Exchange, listener: Upstream, *, after: bytes) -> None:
    """Send the request, leave when the upstream has the request and the client has `after`, and time the upstream's
    end.
    """
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LIMIT_BYTES)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            writer.write(request)
            await listener.asked()
            got = b""
            while after not in got and (more := await reader.read(1 << 16)):
                got += more
            left_at = loop.time()
            writer.transport.abort()
            exchange.closed_after_s = max(await listener.closed() - left_at, 0.0)
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def post(port: int, body: bytes, headers: Pairs, target: bytes = b"/v1/chat/completions") -> bytes:
    """A chat completion's bytes."""
    lines = [b"POST " + target + b" HTTP/1.1", b"host: 127.0.0.1:%d" % port, b"content-length: %d" % len(body)]
    named = {name for name, _ in headers}
    lines += [b"content-type: application/json"] if b"content-type" not in named else []
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def _head(reader: asyncio.StreamReader) -> tuple[bytes, Pairs]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    parted = (line.partition(b":") for line in lines)
    return first, tuple((name.lower(), value.strip()) for name, _, value in parted)


async def _request(reader: asyncio.StreamReader) -> Received:
    first, headers = await _head(reader)
    received = Received(first.split(b" ")[1], headers, b"")
    if b"chunked" in received.header(b"transfer-encoding").lower():
        body = b"".join([piece async for piece in _chunks(reader)])
    else:
        body = await reader.readexactly(int(received.header(b"content-length") or 0))
    return Received(received.target, headers, body)


async def _read_answer(reader: asyncio.StreamReader, answer: Answer, listener: Upstream) -> None:
    first, headers = await _head(reader)
    while first.split(b" ")[1].startswith(b"1"):  # 100, 103: the answer is still to come
        first, headers = await _head(reader)
    answer.status, answer.headers = int(first.split(b" ")[1]), headers
    length = answer.header(b"content-length")
    if b"chunked" in answer.header(b"transfer-encoding").lower():
        pieces = _chunks(reader)
    else:
        pieces = _counted(reader, int(length) if length else None)
    async for piece in pieces:
        answer.body += piece
        await listener.hear(piece)
    answer.end = "whole"


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The content of the chunks up to the last chunk. Raises IncompleteReadError without a last chunk."""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        async for piece in _counted(reader, size):
            yield piece
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass


async def _counted(reader: asyncio.StreamReader, size: int | None) -> AsyncIterator[bytes]:
    """So many bytes, or all until the connection's end."""
    left = size
    while left is None or left > 0:
        piece = await reader.read(1 << 16 if left is None else min(left, 1 << 16))
        if not piece:
            if left is None:
                return
            raise asyncio.IncompleteReadError(b"", left)
        left = None if left is None else left - len(piece)
        yield piece
