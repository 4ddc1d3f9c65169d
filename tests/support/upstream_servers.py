"""Scripted upstreams: raw servers that receive, send, close and reset exactly as a test says, and when it says.

async with upstream(script) as server:   # script(wire) runs once for each connection
    ... server.url ... server.requests ... server.connections
"""

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LIMIT_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came over the wire."""

    head: bytes  # raw, with its empty line
    body: bytes

    @property
    def line(self) -> bytes:
        """Method, target and version."""
        return self.head.partition(b"\r\n")[0]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Names as sent, in their order."""
        lines = self.head.split(b"\r\n")[1:-2]
        return [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]

    def header(self, name: bytes) -> bytes | None:
        """The first value of that name (lower-case), or None."""
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass(slots=True)
class Wire:
    """The server's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: "Upstream"
    number: int  # 1 is the first connection the server accepted

    async def request(self) -> Received:
        """Read one request. Raises IncompleteReadError when the client closed instead."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(Received(head, b"").header(b"content-length") or 0)
        received = Received(head, await self.reader.readexactly(length))
        self.server.requests.append(received)
        return received

    async def send(self, *pieces: bytes) -> None:
        """Send the pieces one by one, letting the event loop turn after each."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End the connection in order (FIN)."""
        self.writer.close()
        await self.writer.wait_closed()

    def reset(self) -> None:
        """Break the connection off (RST)."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Return when the client has closed its end; what it still sends is read and forgotten."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass


Script = Callable[[Wire], Awaitable[None]]


@dataclass(slots=True)
class Upstream:
    """A running scripted server."""

    url: str = ""
    port: int = 0
    connections: int = 0  # accepted so far
    requests: list[Received] = field(default_factory=list)
    open: set[int] = field(default_factory=set)  # numbers of the connections whose script still runs
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until_open(self, most: int) -> None:
        """Return when no more than `most` connections are left."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.open) <= most)


@contextlib.asynccontextmanager
async def upstream(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """Serve `script` on a free port of 127.0.0.1. A script that fails fails the test; a client that left does not."""
    running = Upstream()
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.connections += 1
        wire = Wire(reader, writer, running, running.connections)
        running.open.add(wire.number)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await script(wire)
        finally:
            writer.close()
            running.open.discard(wire.number)
            async with running.changed:
                running.changed.notify_all()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if server.is_serving():
            tasks.add(asyncio.get_running_loop().create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls, limit=LIMIT_BYTES)
    running.port = server.sockets[0].getsockname()[1]
    running.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{running.port}"
    try:
        yield running
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(5):  # a connection may just be on its way from the listening socket to `accept`
            await asyncio.sleep(0)
        for writer in writers:
            writer.transport.abort()  # also where the task was cancelled before its first step
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    for end in ends:
        if isinstance(end, Exception):
            raise end


def answering(*pieces: bytes, then: Callable[[Wire], Awaitable[None]] | None = None) -> Script:
    """A script that answers every request of a connection with these bytes, sent piece by piece."""

    async def script(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(*pieces)
            if then is not None:
                await then(wire)

    return script


async def closing(wire: Wire) -> None:
    """For `then`: end the connection in order."""
    await wire.close()
    raise ConnectionResetError  # nothing more can be read


async def resetting(wire: Wire) -> None:
    """For `then`: break the connection off."""
    wire.reset()
    raise ConnectionResetError


async def staying(wire: Wire) -> None:
    """For `then`: say nothing more until the client leaves."""
    await wire.gone()
    raise ConnectionResetError


def reply(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole reply with a content-length."""
    return head(b"content-length: %d" % len(body), *headers, status=status) + body


def head(*headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A reply's head, with its empty line."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", b""])


def chunked(parts: Iterable[bytes]) -> list[bytes]:
    """The parts as HTTP chunks, and the end."""
    return [b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part] + [b"0\r\n\r\n"]


def single_bytes(data: bytes) -> list[bytes]:
    """The data in pieces of one byte."""
    return [data[i : i + 1] for i in range(len(data))]


def certificate(folder: Path, *, host: str = "127.0.0.1") -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context with a new self-signed certificate for `host`, and the certificate's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test upstream")])
    now = datetime.datetime.now(datetime.UTC)
    alternative: x509.GeneralName
    try:
        alternative = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        alternative = x509.DNSName(host)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    return context, pem
