"""Every way in which a reply can fail: no head, no HTTP, a cut, silence. Each ends the wait and frees the slot."""

import asyncio

import pytest

from runtime.http_client import HEAD_LIMIT_BYTES, BadReply, Cut, FirstByteTimeout, IdleTimeout
from tests.support.clients import chunks_of, client, fetch
from tests.support.upstream_servers import Script, Wire, answering, closing, head, resetting, staying, upstream

CHUNKED = b"transfer-encoding: chunked"

SILENT = answering(then=staying)


@pytest.mark.parametrize(
    "script",
    [answering(then=closing), answering(then=resetting), answering(b"HTTP/1.1 200 OK\r\ncontent-", then=closing)],
    ids=["closed", "reset", "closed in the head"],
)
async def test_an_end_before_the_head_is_a_cut(script: Script) -> None:
    async with upstream(script) as server, client(max_connections=1) as http:
        for _ in range(2):
            with pytest.raises(Cut):
                await fetch(http, server.url)
        assert len(server.requests) == 2  # one each: nothing was sent twice


@pytest.mark.parametrize("then", [closing, resetting], ids=["closed", "reset"])
@pytest.mark.parametrize(
    ("start", "received"),
    [
        (head(b"content-length: 10") + b"abc", b"abc"),
        (head(CHUNKED) + b"3\r\nabc\r\n", b"abc"),
        (head(CHUNKED) + b"a\r\nabc", b"abc"),
        (head(CHUNKED) + b"3\r\nabc\r\n0\r\n", b"abc"),
        (head(CHUNKED), b""),
    ],
    ids=["short of its length", "between chunks", "in a chunk", "in the last chunk", "after the head"],
)
async def test_an_end_before_the_bodys_end_is_a_cut(start: bytes, received: bytes, then: Script) -> None:
    proceed = asyncio.Event()

    async def wait_then(wire: Wire) -> None:
        await proceed.wait()
        await then(wire)

    async with upstream(answering(start, then=wait_then)) as server, client(max_connections=1) as http:
        response = await http.request(b"POST", server.url, [], b"")
        chunks = chunks_of(response)
        got = await anext(chunks) if received else b""
        proceed.set()
        with pytest.raises(Cut):
            await anext(chunks)
        assert got == received


async def test_a_reset_is_a_cut_even_where_the_end_would_be_the_bodys() -> None:
    proceed = asyncio.Event()

    async def wait_then(wire: Wire) -> None:
        await proceed.wait()
        wire.reset()
        raise ConnectionResetError

    async with upstream(answering(head() + b"abc", then=wait_then)) as server, client() as http:
        response = await http.request(b"POST", server.url, [], b"")
        chunks = chunks_of(response)
        assert await anext(chunks) == b"abc"
        proceed.set()
        with pytest.raises(Cut):
            await anext(chunks)


@pytest.mark.parametrize("bad", [b"3\r\nabcd\r\n", b"zz\r\n", b"-1\r\n", b"3\r\nabc\n", b"fffffffffffffffffff\r\n"])
async def test_a_broken_chunk_is_a_cut_after_the_good_ones(bad: bytes) -> None:
    async with upstream(answering(head(CHUNKED) + b"2\r\nok\r\n" + bad, then=staying)) as server, client() as http:
        response = await http.request(b"POST", server.url, [], b"")
        chunks = chunks_of(response)
        assert (await anext(chunks)).startswith(b"ok")
        with pytest.raises(Cut, match="framing"):
            await anext(chunks)
        await server.until_open(0)


@pytest.mark.parametrize(
    "raw",
    [
        b"hello world, this is no HTTP",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"GET / HTTP/1.1\r\n\r\n",
        b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        head(b"content-length: 3", CHUNKED),
        head(CHUNKED, b"content-length: 3"),
        head(b"content-length: 3", b"content-length: 4"),
        head(b"content-length: -3"),
        head(b"content-length: 0x3"),
        head(b"content-length: 99999999999999999999999"),
        head(b"content-length : 3"),
        head(b"transfer-encoding: gzip, chunked"),
        head(b"transfer-encoding: identity"),
        head(b"x: a\x01b"),
        head(b"x: a", b" folded"),
        head(b"connection: upgrade", b"upgrade: websocket", status=b"101 Switching"),
        head(status=b"99 Low"),
        head(status=b"999 High"),
        head(b"x: " + b"a" * HEAD_LIMIT_BYTES),
        head(*[b"x-%d: y" % i for i in range(HEAD_LIMIT_BYTES // 5)]),
        head(status=b"100 Continue") * (HEAD_LIMIT_BYTES // 20),
    ],
    ids=lambda raw: repr(raw[:60]),
)
async def test_a_reply_that_is_none_is_refused(raw: bytes) -> None:
    async with upstream(answering(raw, then=staying)) as server, client(max_connections=1) as http:
        for _ in range(2):
            with pytest.raises(BadReply):
                await fetch(http, server.url)
        await server.until_open(0)


async def test_endless_trailers_are_cut_off() -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(CHUNKED) + b"2\r\nok\r\n0\r\n")
        while True:
            await wire.send(b"x-more: %b\r\n" % (b"y" * 4096))

    async with upstream(script) as server, client() as http:
        with pytest.raises(Cut, match="framing"):
            await fetch(http, server.url)


async def test_no_head_in_time_is_a_first_byte_timeout() -> None:
    async with upstream(SILENT) as server, client(first_byte_timeout_s=0.05, max_connections=1) as http:
        for _ in range(2):
            with pytest.raises(FirstByteTimeout):
                await fetch(http, server.url)
        await server.until_open(0)


async def test_a_head_that_drips_is_a_first_byte_timeout() -> None:
    async def drip(wire: Wire) -> None:
        await wire.request()
        while True:
            await wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    async with upstream(drip) as server, client(first_byte_timeout_s=0.05) as http:
        with pytest.raises((FirstByteTimeout, BadReply)):
            await fetch(http, server.url)


async def test_silence_within_a_body_is_an_idle_timeout() -> None:
    script = answering(head(CHUNKED) + b"2\r\nok\r\n", then=staying)
    async with upstream(script) as server, client(idle_timeout_s=0.05, max_connections=1) as http:
        for _ in range(2):
            response = await http.request(b"POST", server.url, [], b"")
            chunks = chunks_of(response)
            assert await anext(chunks) == b"ok"
            with pytest.raises(IdleTimeout):
                await anext(chunks)
        await server.until_open(0)


async def test_a_body_may_take_longer_than_the_idle_timeout() -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(CHUNKED))
        loop = asyncio.get_running_loop()
        end_s = loop.time() + 0.75
        while loop.time() < end_s:
            await wire.send(b"2\r\n:\n\r\n")
        await wire.send(b"0\r\n\r\n")

    async with upstream(script) as server, client(idle_timeout_s=0.5) as http:
        status, _, body = await fetch(http, server.url)
        assert (status, set(body.split(b"\n"))) == (200, {b":", b""})
