"""The load generator: HTTP/1.1 over kept connections, with only a C parser on top of the socket.

An SDK costs a hundred times as much as the fastest system under test, so an SDK would dominate the measurement.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import httptools


class Mismatch(Exception):
    """A wrong reply: the measurement would not show the claim of the table."""


@dataclass(slots=True)
class Reply:
    """A whole reply. Times are seconds since the request was sent."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)  # names in lower case
    body: bytearray = field(default_factory=bytearray)
    last_byte_s: float = 0.0
    reads_s: list[float] = field(default_factory=list)  # times of the reads with a part of the body
    broken: str = ""  # why the reply ended early

    @property
    def first_byte_s(self) -> float:
        """Of the body."""
        return self.reads_s[0] if self.reads_s else 0.0


class Connection(asyncio.Protocol):
    """One kept connection; one request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._reply = Reply()
        self._done: asyncio.Future[Reply] | None = None
        self._sent = self._read = 0.0

    @staticmethod
    async def open(port: int) -> "Connection":
        """Connect to a port of this machine."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(Connection, "127.0.0.1", port)
        return protocol

    async def ask(self, request: bytes) -> Reply:
        """Send a request's bytes and return the reply. Raises ConnectionError, Mismatch."""
        self._reply = Reply()
        self._done = asyncio.get_running_loop().create_future()
        self._sent = time.perf_counter()
        self._transport.write(request)
        return await self._done

    @property
    def unfinished(self) -> Reply:
        """The received part of the reply in progress."""
        return self._reply

    @property
    def closed(self) -> bool:
        """Whether the connection can send no more requests."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has another type

    def data_received(self, data: bytes) -> None:
        self._read = time.perf_counter() - self._sent
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Mismatch(f"this is not HTTP ({error}): {data[:300]!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the server closed the connection before its reply was whole"))

    def _fail(self, error: Exception) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._reply.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        reads = self._reply.reads_s
        if not reads or reads[-1] != self._read:
            reads.append(self._read)
        self._reply.body += body

    def on_message_complete(self) -> None:
        self._reply.last_byte_s = self._read
        self._reply.status = self._parser.get_status_code()
        if self._done is not None and not self._done.done():
            self._done.set_result(self._reply)


def post(path: str, body: bytes) -> bytes:
    """The bytes of a POST of JSON."""
    return (
        b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"authorization: Bearer sk-benchmark\r\ncontent-length: %d\r\n\r\n%b"
    ) % (path.encode(), len(body), body)


def get(path: str) -> bytes:
    """The bytes of a GET."""
    return b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % path.encode()


Check = Callable[[Reply], None]  # raises Mismatch


async def one_by_one(port: int, requests: Sequence[bytes], check: Check) -> list[Reply]:
    """The replies to the requests, sent one after the other on one connection."""
    connection = await Connection.open(port)
    try:
        replies = []
        for request in requests:
            replies.append(await connection.ask(request))
            check(replies[-1])
        return replies
    finally:
        connection.close()


async def closed_loop(
    port: int, requests: Sequence[bytes], check: Check, *, connections: int, seconds: float, most: int
) -> tuple[list[float], float]:
    """The latencies and the total time in seconds. Each connection sends the next request after the reply.

    requests: used in order. most: number of replies for an early end.
    """
    latencies: list[float] = []
    begin = time.perf_counter()
    end = begin + seconds

    async def loop(first: int) -> None:
        connection = await Connection.open(port)
        try:
            number = first
            while time.perf_counter() < end and len(latencies) < most:
                reply = await connection.ask(requests[number % len(requests)])
                check(reply)
                latencies.append(reply.last_byte_s)
                number += connections
        finally:
            connection.close()

    await asyncio.gather(*map(loop, range(connections)))
    return latencies, time.perf_counter() - begin


async def staggered(port: int, requests: Sequence[bytes], *, apart_s: float) -> list[Reply]:
    """The replies to the requests, each on a new connection, started `apart_s` after the request before.

    Replies are not checked; a broken reply has `broken`.
    """
    connections = [await Connection.open(port) for _ in requests]

    async def ask(number: int) -> Reply:
        await asyncio.sleep(number * apart_s)
        try:
            return await connections[number].ask(requests[number])
        except (ConnectionError, Mismatch) as error:
            reply = connections[number].unfinished
            reply.broken = str(error)
            return reply

    try:
        return list(await asyncio.gather(*map(ask, range(len(requests)))))
    finally:
        for connection in connections:
            connection.close()
