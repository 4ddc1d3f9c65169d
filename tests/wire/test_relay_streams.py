"""The relay behind a real server: what a raw socket sends and sees, byte for byte and in time."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import orjson
import pytest

from proxy.asgi import Receive, Scope, Send, send_error
from proxy.dialects.errors import ApiError
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.relay import Relay
from runtime.http_client import Client
from tests.support.served_app import served
from tests.support.upstream_servers import (
    Script,
    Wire,
    answering,
    chunked,
    closing,
    head,
    reply,
    resetting,
    single_bytes,
    upstream,
)

CHUNKED = b"transfer-encoding: chunked"
EVENTS = b"content-type: text/event-stream"
BODY = b'{"model": "gpt-x", "stream": true, "messages": []}'


@dataclass(slots=True)
class Gateway:
    """The relay with the little around it that it needs; `api_base` may change between requests."""

    api_base: str = ""
    port: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    client: Client = field(
        default_factory=lambda: Client(
            connect_timeout_s=30, first_byte_timeout_s=30, idle_timeout_s=30, keepalive_s=30, max_connections=2
        )
    )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the exchange, relay, answer our own errors."""
        target = Target(model="gpt-x", lane="relay", api_base=self.api_base, api_key="sk-secret")
        scope[EXCHANGE] = exchange = Exchange(target=target)
        self.exchanges.append(exchange)
        try:
            await Relay(self.client)(scope, receive, send)
        except ApiError as error:
            await send_error(send, error)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """A served relay."""
    app = Gateway()
    with served(app, app.client.close) as port:
        app.port = port
        yield app


@dataclass(slots=True)
class Caller:
    """A raw client: what it writes goes out as it is, and it reads with nothing interpreted."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def ask(self, *headers: bytes, method: bytes = b"POST", body: bytes = BODY) -> None:
        """Send one request."""
        lines = [method + b" /v1/chat/completions HTTP/1.1", b"host: gateway", b"content-length: %d" % len(body)]
        self.writer.write(b"\r\n".join([*lines, *headers, b"", b""]) + body)

    async def head(self) -> tuple[bytes, list[bytes]]:
        """Status line and header lines of the reply."""
        line, *headers = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        return line, headers

    async def chunk(self) -> bytes:
        """One HTTP chunk; b"" is the last."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def body(self) -> bytes:
        """A chunked body to its end."""
        parts = []
        while part := await self.chunk():
            parts.append(part)
        return b"".join(parts)

    def reset(self) -> None:
        """Leave with a RST."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def finish(self) -> None:
        """Leave with a FIN."""
        self.writer.close()


@contextlib.asynccontextmanager
async def calling(gateway: Gateway) -> AsyncIterator[Caller]:
    """A connection to the gateway."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def delta(**fields: object) -> dict[str, object]:
    """A chunk object as providers send it."""
    choice = {"index": 0, "delta": fields, "logprobs": None, "finish_reason": None}
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def sse(*objects: object, end: bytes = b"\n\n", done: bytes = b"data: [DONE]") -> bytes:
    """Objects as events."""
    return b"".join(b"data: " + orjson.dumps(thing) + end for thing in objects) + (done + end if done else b"")


QUIRKS = {
    "obfuscation and usage null": sse(
        {**delta(content="Hé"), "usage": None, "obfuscation": "zap0"},
        {**delta(), "choices": [], "usage": {"total_tokens": 3}, "obfuscation": "h9"},
    ),
    "reasoning beside content null": sse(delta(role="assistant", content=None, reasoning_content="")),
    "numbers no other JSON library keeps": b'data: {"created":1.0,"logprob":-1e-400,"big":12345678901234567890123}\n\n',
    "vendor fields": sse({**delta(content="x"), "x_groq": {"id": "req_1"}, "system_fingerprint": None}),
    "finish reasons nobody knows": sse({"choices": [{"index": 3, "delta": {}, "finish_reason": "eos"}]}),
    "the same finish twice": sse(*[{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}] * 2),
    "spaces, CRLF, comments": b": OPENROUTER PROCESSING\r\n\r\ndata:  {}\r\n\r\nevent: x\r\ndata:{}\r\n\r\n",
    "no [DONE]": sse(delta(content="x"), done=b""),
    "[DONE] twice and text behind it": sse(done=b"data: [DONE]\n\ndata: [DONE]\n\nafter"),
    "an error inside": sse(delta(content="x"), {"error": {"message": "overloaded", "code": 502}}, done=b""),
    "several data lines in one event": b"data: {\ndata: }\n\n",
    "JSON that is none": b"data: {oops\n\ndata: [DONE]\n\n",
    "no SSE at all": b'{"object": "chat.completion", "choices": []}',
}


@pytest.mark.parametrize("name", QUIRKS)
@pytest.mark.parametrize("by", ["at once", "by the byte"])
async def test_odd_streams_arrive_byte_for_byte(gateway: Gateway, name: str, by: str) -> None:
    raw = head(CHUNKED, EVENTS) + b"".join(chunked([QUIRKS[name]]))
    pieces = single_bytes(raw) if by == "by the byte" else [raw]
    async with upstream(answering(*pieces)) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        for _ in range(2):
            caller.ask()
            assert await caller.head() == (b"HTTP/1.1 200 OK", [EVENTS, b"transfer-encoding: chunked"])
            assert await caller.body() == QUIRKS[name]
        assert server.connections == 1


async def test_status_headers_and_body_are_the_upstreams(gateway: Gateway) -> None:
    raw = reply(b'{"error":{"message":"slow"}}', b"Retry-After: 7", b"Server: them", b"Date: then", status=b"429 Slow")
    async with upstream(answering(raw)) as server, calling(gateway) as caller:
        gateway.api_base = server.url + "/v1"
        caller.ask(b"Authorization: Bearer client", b"Accept: text/event-stream", b"X-Rag: on", b"Cookie: a=b")
        line, headers = await caller.head()
        assert line.startswith(b"HTTP/1.1 429 ")
        assert headers == [b"content-length: 28", b"retry-after: 7", b"server: them", b"date: then"]
        assert await caller.reader.readexactly(28) == b'{"error":{"message":"slow"}}'
        assert server.requests[0].line == b"POST /v1/chat/completions HTTP/1.1"
        assert server.requests[0].headers[1:] == [
            (b"accept", b"text/event-stream"),
            (b"authorization", b"Bearer sk-secret"),
            (b"content-length", b"%d" % len(BODY)),
        ]
        assert server.requests[0].body == BODY


async def test_each_frame_arrives_before_the_next_is_sent(gateway: Gateway) -> None:
    frames = [b": ping\n\n", *(sse(delta(content=f"{i}"), done=b"") for i in range(20)), b"data: [DONE]\n\n"]
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(CHUNKED, EVENTS))
        for frame, coded in zip(frames, chunked(frames), strict=False):
            await wire.send(coded)
            assert await seen.get() == frame
        await wire.send(b"0\r\n\r\n")
        await wire.gone()

    async with upstream(script) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        caller.ask()
        await caller.head()
        for _ in frames:
            seen.put_nowait(await caller.chunk())
        assert await caller.chunk() == b""


async def test_the_head_arrives_before_the_body_begins(gateway: Gateway) -> None:
    proceed = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(CHUNKED, EVENTS))
        await proceed.wait()
        await wire.send(*chunked([b"data: 1\n\n"]))
        await wire.gone()

    async with upstream(script) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        caller.ask()
        await caller.head()
        proceed.set()
        assert await caller.body() == b"data: 1\n\n"


@pytest.mark.parametrize("leave", [Caller.finish, Caller.reset], ids=["FIN", "RST"])
@pytest.mark.parametrize("phase", ["connect", "first byte", "stream"])
async def test_a_client_that_leaves_cancels_the_upstream(gateway: Gateway, phase: str, leave: object) -> None:
    reached = asyncio.Event()

    async def script(wire: Wire) -> None:
        if phase != "connect":  # there the handshake's first bytes are the last that come
            await wire.request()
            if phase == "stream":
                await wire.send(head(CHUNKED, EVENTS), b"3\r\n:\n\n\r\n")
        reached.set()
        await wire.gone()

    async with upstream(script) as server:
        gateway.api_base = server.url if phase != "connect" else server.url.replace("http:", "https:")
        for _ in range(3):  # one more than the client has connections: none stays lent
            reached.clear()
            async with calling(gateway) as caller:
                caller.ask()
                await reached.wait()
                if phase == "stream":
                    await caller.head()
                    assert await caller.chunk() == b":\n\n"
                leave(caller)  # type: ignore[operator]
                await server.until_open(0)


async def test_many_clients_leaving_lose_no_connection(gateway: Gateway) -> None:
    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            if request.body == b"plain":
                await wire.send(reply(b"ok"))
                continue
            await wire.send(head(CHUNKED, EVENTS))
            while True:
                await wire.send(b"3\r\n:\n\n\r\n")

    async def leaves(after_chunks: int) -> None:
        async with calling(gateway) as caller:
            caller.ask()
            for turn in range(after_chunks):
                await (caller.head() if turn == 0 else caller.chunk())
            (caller.reset if after_chunks % 2 else caller.finish)()

    async with upstream(script) as server:
        gateway.api_base = server.url
        await asyncio.gather(*(leaves(number % 4) for number in range(60)))
        async with calling(gateway) as caller:
            for _ in range(20):
                caller.ask(body=b"plain")
                assert (await caller.head())[0] == b"HTTP/1.1 200 OK"
                assert await caller.reader.readexactly(2) == b"ok"


@pytest.mark.parametrize("end", [closing, resetting], ids=["closed", "reset"])
async def test_a_cut_stream_ends_without_its_terminator(gateway: Gateway, end: Script) -> None:
    proceed = asyncio.Event()

    async def cut(wire: Wire) -> None:
        await proceed.wait()
        await end(wire)

    script = answering(head(CHUNKED, EVENTS) + chunked([b"data: 1\n\n"])[0], then=cut)
    async with upstream(script) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        caller.ask()
        await caller.head()
        assert await caller.chunk() == b"data: 1\n\n"
        proceed.set()
        assert await caller.reader.read() == b""
        assert gateway.exchanges[0].error.startswith("upstream_cut: ")


async def test_a_reply_cut_right_behind_its_head_shows_its_head(gateway: Gateway) -> None:
    async with upstream(answering(head(CHUNKED, EVENTS) + b"no number\r\n")) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        caller.ask()
        assert (await caller.head())[0] == b"HTTP/1.1 200 OK"
        assert await caller.reader.read() == b""


async def test_a_cut_body_of_known_length_stays_short(gateway: Gateway) -> None:
    script = answering(head(b"content-length: 100") + b'{"choices":', then=closing)
    async with upstream(script) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        caller.ask()
        assert (await caller.head())[1] == [b"content-length: 100"]
        assert await caller.reader.read() == b'{"choices":'


async def test_a_failure_before_the_head_is_a_502_and_the_connection_lives_on(gateway: Gateway) -> None:
    async with upstream(answering(then=closing)) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        for _ in range(2):
            caller.ask()
            line, headers = await caller.head()
            assert line == b"HTTP/1.1 502 Bad Gateway"
            length = int(headers[1].removeprefix(b"content-length: "))
            error = orjson.loads(await caller.reader.readexactly(length))["error"]
            assert (error["code"], error["type"]) == ("upstream_closed", "upstream_error")
            assert server.url.removeprefix("http://") not in error["message"]


async def test_a_head_request_is_relayed(gateway: Gateway) -> None:
    async with upstream(answering(head(b"content-length: 42"))) as server, calling(gateway) as caller:
        gateway.api_base = server.url
        for _ in range(2):
            caller.ask(method=b"HEAD", body=b"")
            assert await caller.head() == (b"HTTP/1.1 200 OK", [b"content-length: 42"])
