"""One exchange on one connection: the bytes both ways, however they are framed and cut."""

import asyncio
import gzip
import hashlib
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.http_client import UNREAD_LIMIT_BYTES, UPLOAD_PIECE_BYTES, FirstByteTimeout
from tests.support.clients import chunks_of, client, fetch
from tests.support.rows import all_rows
from tests.support.upstream_servers import (
    Wire,
    answering,
    chunked,
    closing,
    head,
    reply,
    single_bytes,
    upstream,
)

CHUNKED = b"transfer-encoding: chunked"
EVENTS = b"content-type: text/event-stream"
DELTA = b'{"choices":[{"index":0,"delta":{"content":"%b"},"logprobs":null}],"obfuscation":"x1"}'

BODIES = {
    "sse": b"".join(b"data: %b\n\n" % (DELTA % word) for word in (b"a", b"b")) + b"data: [DONE]\n\n",
    "sse with CRLF": b"data: {}\r\n\r\ndata: [DONE]\r\n\r\n",
    "sse with bare CR": b"data: {}\r\rdata: [DONE]\r\r",
    "sse comments, events, ids, retry": b": ping\n\nevent: ping\nid: 7\nretry: 10\ndata: {}\n\n:\n\ndata: [DONE]\n\n",
    "sse without [DONE]": b'data: {"choices":[],"usage":null}\n\n',
    "sse without its last empty line": b"data: {}\n\ndata: [DONE]",
    "sse with an error inside": b'data: {}\n\ndata: {"error":{"message":"overloaded","code":529}}\n\n',
    "sse with data without a space and a BOM": b"\xef\xbb\xbfdata:{}\n\ndata:[DONE]\n\n",
    "sse with characters of four bytes": 'data: {"content":"🦊𝄞 é"}\n\n'.encode(),
    "json": b'{"id": "x", "choices": [],\n "unknown": {"a": [1e400, -0.0]}}',
    "not UTF-8": bytes(range(256)),
    "gzip": gzip.compress(b"data: {}\n\n" * 50, mtime=0),
    "looks like chunks": b"5\r\nhello\r\n0\r\n\r\n",
    "looks like a reply": b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n",
    "empty": b"",
    "large": b"0123456789abcdef" * 20_000,
}


def framed(body: bytes, framing: str) -> bytes:
    """A reply carrying `body` in one of the three framings of HTTP/1.1."""
    match framing:
        case "length":
            return reply(body, EVENTS)
        case "chunked":
            return head(CHUNKED, EVENTS) + b"".join(chunked(body[i : i + 7] for i in range(0, len(body), 7)))
        case _:
            return head(EVENTS) + body


@all_rows("framing", ["length", "chunked", "close"])
@all_rows("name", BODIES)
async def test_hands_on_every_byte_of_the_body(name: str, framing: str) -> None:
    then = closing if framing == "close" else None
    async with upstream(answering(framed(BODIES[name], framing), then=then)) as server, client() as http:
        assert await fetch(http, server.url) == (200, [*_framing_headers(name, framing), _EVENTS], BODIES[name])


_EVENTS = (b"content-type", b"text/event-stream")


def _framing_headers(name: str, framing: str) -> list[tuple[bytes, bytes]]:
    length = (b"content-length", b"%d" % len(BODIES[name]))
    return {"length": [length], "chunked": [(b"transfer-encoding", b"chunked")], "close": []}[framing]


@all_rows("framing", ["length", "chunked", "close"])
@all_rows("name", sorted(BODIES.keys() - {"large"}))
async def test_hands_on_a_body_sent_in_single_bytes(name: str, framing: str) -> None:
    then = closing if framing == "close" else None
    script = answering(*single_bytes(framed(BODIES[name], framing)), then=then)
    async with upstream(script) as server, client() as http:
        assert (await fetch(http, server.url))[2] == BODIES[name]


@given(
    parts=st.lists(st.binary(max_size=200), max_size=8),
    framing=st.sampled_from(["length", "chunked", "close"]),
    cuts=st.lists(st.integers(min_value=0, max_value=2000), max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_any_cutting_of_a_reply_gives_the_same_body(parts: list[bytes], framing: str, cuts: list[int]) -> None:
    body = b"".join(parts)
    raw = head(CHUNKED) + b"".join(chunked(parts)) if framing == "chunked" else framed(body, framing)
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[start:end] for start, end in itertools.pairwise(edges)]

    async def run() -> bytes:
        script = answering(*pieces, then=closing if framing == "close" else None)
        async with upstream(script) as server, client() as http:
            return (await fetch(http, server.url))[2]

    assert asyncio.run(run()) == body


async def test_one_read_is_one_chunk() -> None:
    parts = chunked([b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"])
    async with upstream(answering(head(CHUNKED) + b"".join(parts))) as server, client() as http:
        response = await http.request(b"POST", server.url, [], b"")
        assert [chunk async for chunk in chunks_of(response)] == [b"data: 1\n\ndata: 2\n\ndata: 3\n\n"]


async def test_each_frame_arrives_before_the_next_is_sent() -> None:
    frames = [b"data: %d\n\n" % i for i in range(20)]
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(CHUNKED))
        for frame, coded in zip(frames, chunked(frames), strict=False):
            await wire.send(coded)
            assert await seen.get() == frame
        await wire.send(b"0\r\n\r\n")
        await wire.gone()

    async with upstream(script) as server, client() as http:
        response = await http.request(b"POST", server.url, [], b"")
        got = []
        async for chunk in chunks_of(response):
            got.append(chunk)
            seen.put_nowait(chunk)
        assert got == frames


async def test_headers_keep_order_case_repetitions_and_bytes() -> None:
    raw = reply(b"", b"X-B: 1", b"Set-Cookie: a=1", b"set-cookie: b=2", b"X-Empty:", b"X-L: \xe9")
    async with upstream(answering(raw)) as server, client() as http:
        assert (await fetch(http, server.url))[1] == [
            (b"content-length", b"0"),
            (b"X-B", b"1"),
            (b"Set-Cookie", b"a=1"),
            (b"set-cookie", b"b=2"),
            (b"X-Empty", b""),
            (b"X-L", b"\xe9"),
        ]


async def test_trailers_and_chunk_extensions_are_framing() -> None:
    raw = head(CHUNKED) + b"3;a=b\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n"
    async with upstream(answering(raw)) as server, client() as http:
        for _ in range(2):
            assert await fetch(http, server.url) == (200, [(b"transfer-encoding", b"chunked")], b"abc")
        assert server.connections == 1


@all_rows("status", [b"400 Bad", b"401 No", b"404 No", b"429 Slow", b"500 Oh", b"503 Busy", b"529 x"])
async def test_errors_of_the_upstream_are_replies(status: bytes) -> None:
    body = b'{"error":{"message":"no","code":null}}'
    raw = reply(body, b"retry-after: 7", status=status)
    async with upstream(answering(raw)) as server, client() as http:
        got, headers, received = await fetch(http, server.url)
    assert (got, received) == (int(status.split()[0]), body)
    assert (b"retry-after", b"7") in headers


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary", b"308 Permanent"])
async def test_redirects_are_not_followed(status: bytes) -> None:
    async with upstream(answering(reply(b"", status=b"200 OK"))) as trap:
        raw = reply(b"", b"location: " + trap.url.encode(), status=status)
        async with upstream(answering(raw)) as server, client() as http:
            assert (await fetch(http, server.url))[0] == int(status.split()[0])
        assert trap.connections == 0


async def test_interim_replies_are_skipped() -> None:
    interim = head(status=b"100 Continue") + head(b"link: </a>", status=b"103 Early Hints")
    async with upstream(answering(*single_bytes(interim), interim + reply(b"yes"))) as server, client() as http:
        for _ in range(2):
            assert await fetch(http, server.url) == (200, [(b"content-length", b"3")], b"yes")


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        (b"POST", head(status=b"204 No Content")),
        (b"POST", head(b"content-length: 9", status=b"304 Not Modified")),
        (b"HEAD", head(b"content-length: 9")),
        (b"HEAD", head(CHUNKED)),
    ],
)
async def test_a_reply_without_a_body_ends_with_its_head(method: bytes, raw: bytes) -> None:
    async with upstream(answering(raw)) as server, client() as http:
        for _ in range(2):
            assert (await fetch(http, server.url, b"", method=method))[2] == b""


async def test_http_1_0_replies_are_read() -> None:
    raw = b"HTTP/1.0 200 OK\r\n\r\nold but fine"
    async with upstream(answering(raw, then=closing)) as server, client() as http:
        assert await fetch(http, server.url) == (200, [], b"old but fine")


# --- the request --------------------------------------------------------------------------------------------------


async def test_adds_only_host_and_content_length() -> None:
    headers = [(b"content-type", b"application/json"), (b"X-Odd", b"\xe9 a"), (b"x-odd", b"")]
    async with upstream(answering(reply(b""))) as server, client() as http:
        await fetch(http, f"{server.url}/v1/chat%2F/completions?a=b%20&c", b'{"a":1}', headers=headers)
        host = server.url.removeprefix("http://").encode()
        assert server.requests[0].head == (
            b"POST /v1/chat%2F/completions?a=b%20&c HTTP/1.1\r\nhost: " + host + b"\r\n"
            b"content-type: application/json\r\nX-Odd: \xe9 a\r\nx-odd: \r\ncontent-length: 7\r\n\r\n"
        )
        assert server.requests[0].body == b'{"a":1}'


async def test_a_get_without_a_body_has_no_content_length() -> None:
    async with upstream(answering(reply(b""))) as server, client() as http:
        await fetch(http, server.url + "/v1/models", b"", method=b"GET")
        await fetch(http, server.url + "/v1/x", b"", method=b"POST")
        assert [request.header(b"content-length") for request in server.requests] == [None, b"0"]


async def test_a_large_request_body_arrives_whole() -> None:
    body = bytes(range(256)) * (4 << 12)  # 4 MB: more than the sockets hold
    async with upstream(answering(reply(b"ok"))) as server, client() as http:
        for _ in range(2):
            assert (await fetch(http, server.url, body))[2] == b"ok"
        assert [hashlib.sha256(request.body).digest() for request in server.requests] == [
            hashlib.sha256(body).digest()
        ] * 2
        assert server.connections == 1


async def test_an_answer_in_the_middle_of_a_large_request_is_read() -> None:
    async def script(wire: Wire) -> None:
        await wire.reader.readuntil(b"\r\n\r\n")
        await wire.send(reply(b"too large", status=b"413 Too Large"))
        await wire.gone()

    async with upstream(script) as server, client(max_connections=1) as http:
        for _ in range(2):
            status, _, body = await fetch(http, server.url, b"x" * (8 << 20))
            assert (status, body) == (413, b"too large")
        assert server.connections == 2  # the rest of the first body was still owed to the first


async def test_a_large_request_nobody_reads_is_not_piled_up_and_runs_into_the_timeout() -> None:
    async def script(wire: Wire) -> None:
        await held.wait()

    held = asyncio.Event()
    async with upstream(script) as server, client(first_byte_timeout_s=0.3) as http:
        sending = asyncio.create_task(fetch(http, server.url, b"x" * (32 << 20)))
        while not http._open or not (connection := next(iter(http._open)))._write_paused:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert connection._transport is not None
        assert connection._transport.get_write_buffer_size() <= 4 * UPLOAD_PIECE_BYTES
        with pytest.raises(FirstByteTimeout):
            await sending
        held.set()


@all_rows(
    ("method", "path", "headers"),
    [
        (b"POST", "/a", [(b"x", b"a\r\nhost: evil")]),
        (b"POST", "/a", [(b"x", b"a\nb")]),
        (b"POST", "/a", [(b"x", b"a\0b")]),
        (b"POST", "/a", [(b"x\r\ny", b"b")]),
        (b"PO ST", "/a", []),
        (b"POST", "/a b", []),
    ],
)
async def test_refuses_what_would_break_out_of_its_line(
    method: bytes, path: str, headers: list[tuple[bytes, bytes]]
) -> None:
    async with upstream(answering(reply(b"ok"))) as server, client(max_connections=1) as http:
        with pytest.raises(ValueError, match="not sent"):
            await fetch(http, server.url + path, method=method, headers=headers)
        assert server.connections == 0
        assert (await fetch(http, server.url))[2] == b"ok"


async def test_a_reader_that_pauses_stops_the_upstream_and_loses_nothing() -> None:
    piece, pieces = b"0123456789abcdef" * 4096, 1024  # 64 MB: far more than the sockets hold
    stuck, finished = asyncio.Event(), asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(b"content-length: %d" % (len(piece) * pieces)))
        for _ in range(pieces):
            wire.writer.write(piece)
            turns = 0
            while wire.writer.transport.get_write_buffer_size() and not stuck.is_set():
                turns += 1
                if turns > 500:
                    stuck.set()
                await asyncio.sleep(0)
            await wire.writer.drain()
        finished.set()
        await wire.gone()

    async with upstream(script) as server, client(idle_timeout_s=5) as http:
        response = await http.request(b"POST", server.url, [], b"")
        waits = [asyncio.ensure_future(event.wait()) for event in (stuck, finished)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert not finished.is_set()
        digest, received, largest = hashlib.sha256(), 0, 0
        async for chunk in chunks_of(response):
            digest.update(chunk)
            received += len(chunk)
            largest = max(largest, len(chunk))
        assert digest.digest() == hashlib.sha256(piece * pieces).digest()
        assert received == len(piece) * pieces
        assert largest <= 2 * UNREAD_LIMIT_BYTES + (1 << 18)
        await asyncio.gather(*waits)
