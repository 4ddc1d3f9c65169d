"""The server's connection: every request once and whole, odd ones refused, and nobody waits for a client that left."""

import asyncio
import json
import select
import socket
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.asgi import App, Receive, Scope, Send
from proxy.server.http1 import (
    HEAD_LIMIT_BYTES,
    HEADER_LIMIT,
    PIPELINE_LIMIT,
    URL_LIMIT_BYTES,
    Timeouts,
)
from tests.support.raw_client import Listening, RawClient, Recorder, chunked, listening, post
from tests.support.rows import all_rows

GET = b"GET /v1/x HTTP/1.1\r\nhost: localhost\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def replying(body: bytes = b"", *headers: tuple[bytes, bytes], status: int = 200, ends: bool = True) -> App:
    """An app with one answer, which may lack its end."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body, "more_body": not ends})

    return app


# --- whole requests ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [1, 2, PIPELINE_LIMIT * 3])
async def test_requests_on_one_connection_are_answered_in_order(ahead: int) -> None:
    app = Recorder()
    async with listening(app) as server:
        sent = [post(b"%d" % i, path=b"/%d?q=%d" % (i, i)) for i in range(ahead)]
        replies = await server.exchange(b"".join(sent) + LAST)
    assert app.seen == [*(("POST", f"/{i}?q={i}", b"%d" % i) for i in range(ahead)), ("GET", "/last", b"")]
    assert replies.count(b"HTTP/1.1 200 OK\r\n") == ahead + 1


REQUEST = st.one_of(
    st.binary(max_size=300).map(post),
    st.lists(st.binary(min_size=1, max_size=50), max_size=5).map(chunked),
    st.binary(max_size=30).map(lambda body: post(body, b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c")),
    st.just(GET),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(REQUEST, min_size=1, max_size=4), st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_where_the_bytes_are_cut_does_not_matter(requests: list[bytes], cuts: list[int]) -> None:
    async def served(pieces: Sequence[bytes]) -> tuple[list[tuple[str, str, bytes]], bytes]:
        app = Recorder()
        async with listening(app) as server:
            return app.seen, await server.exchange(*pieces)

    whole = b"".join([*requests, LAST])
    pieces, rest, turn = [], whole, 0
    while rest:
        pieces.append(rest[: cuts[turn % len(cuts)]])
        rest, turn = rest[cuts[turn % len(cuts)] :], turn + 1
    at_once, in_pieces = asyncio.run(served([whole])), asyncio.run(served(pieces))
    assert at_once == in_pieces
    assert len(at_once[0]) == len(requests) + 1


async def test_a_body_in_chunks_with_extensions_and_trailers_is_read() -> None:
    app = Recorder()
    async with listening(app) as server:
        request = b"POST /v1/x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\nconnection: close\r\n\r\n"
        await server.exchange(request + b"2;a=b\r\nok\r\n0\r\nx-t: content-length\r\n\r\n")
    assert app.seen == [("POST", "/v1/x", b"ok")]


async def test_a_body_in_chunks_of_one_byte_is_read() -> None:
    app = Recorder()
    async with listening(app) as server:
        await server.exchange(chunked([b"a"] * 30_000, b"connection: close"))
    assert app.seen == [("POST", "/v1/x", b"a" * 30_000)]


async def test_a_client_that_offers_another_protocol_stays_with_this_one_and_keeps_its_body() -> None:
    app = Recorder()
    async with listening(app) as server, server.client() as client:
        for body in (b"", b"first", b"x" * 100_000):
            offer = post(body, b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c", b"http2-settings: AAMA")
            client.writer.write(offer)
            assert (await client.reply()).endswith(b"\r\n\r\n" + body)
    assert [len(body) for _, _, body in app.seen] == [0, 5, 100_000]


async def test_a_client_that_waits_for_a_100_gets_it_when_its_body_is_wanted() -> None:
    async with listening(Recorder()) as server, server.client() as client:
        client.writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.writer.write(b"hi")
        assert (await client.reply()).endswith(b"hi")


WAITING = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nExpect: 100-Continue\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_client_that_waits_for_a_100_gets_it_before_a_refusal_too() -> None:
    """JDK 17's HttpClient waits for the 100 without end."""
    refusal = replying(b"no", (b"content-length", b"2"))
    async with listening(refusal) as server, server.client() as client:
        client.writer.write(WAITING)
        assert await client.reader.readexactly(len(CONTINUE)) == CONTINUE
        assert (await client.reply()).endswith(b"connection: close\r\n\r\nno")
        client.writer.write(b"hi")  # read and dropped: closing with unread bytes would be a reset
        assert await client.reader.read() == b""


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (WAITING.replace(b"host: a", b"host: a\r\nhost: b"), b"400 "),
        (WAITING.replace(b"host: a", b"host: a" + b"\r\nx: y" * 300), b"431 "),
        (WAITING.replace(b"host: a\r\n", b""), b"400 "),
        (WAITING.replace(b" / ", b" /" + b"a" * 17_000 + b" "), b"414 "),
        (WAITING.replace(b" / ", b" http://a/ "), b"400 "),
    ],
)
async def test_a_head_that_is_refused_is_answered_with_a_100_first(head: bytes, status: bytes) -> None:
    async with listening(Recorder()) as server:
        assert (await server.exchange(head)).startswith(CONTINUE + b"HTTP/1.1 " + status)
        assert (await server.exchange(head.replace(b"Expect", b"x-expect"))).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    "request_",
    [
        WAITING + b"hi",  # the client has not waited
        WAITING.replace(b"content-length: 2", b"content-length: 0"),
        WAITING.replace(b"1.1", b"1.0") + b"hi",
        WAITING.replace(b"100-Continue", b"200-ok") + b"hi",
    ],
)
@pytest.mark.parametrize("reading", [True, False])
async def test_no_100_is_sent_to_a_client_that_does_not_wait(request_: bytes, reading: bool) -> None:
    async with listening(Recorder() if reading else replying(b"")) as server, server.client() as client:
        client.writer.write(request_)
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_path_is_decoded_once_and_kept_as_it_came() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await replying(b"")(scope, receive, send)

    async with listening(app) as server:
        await server.exchange(LAST.replace(b"/last", b"/a%2Fb%C3%A9?x=%20&y#f"))
    assert [(s["path"], s["raw_path"], s["query_string"]) for s in seen] == [
        ("/a/b\u00e9", b"/a%2Fb%C3%A9", b"x=%20&y")
    ]


# --- replies ----------------------------------------------------------------------------------------------------------


async def test_framing_fits_the_reply() -> None:
    plain, length = LAST, (b"content-length", b"5")
    cases = [
        (replying(b"hello", length), plain, b"content-length: 5\r\nconnection: close\r\n\r\nhello"),
        (replying(b"hello"), plain, b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        (replying(b"hello"), b"GET / HTTP/1.0\r\n\r\n", b"connection: close\r\n\r\nhello"),
        (replying(b"hello", (b"connection", b"close")), GET, b"OK\r\nconnection: close\r\n\r\nhello"),
        (replying(b"", length), plain.replace(b"GET", b"HEAD"), b"content-length: 5\r\nconnection: close\r\n\r\n"),
        (replying(b"", status=204), plain, b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"),
        (replying(b"", (b"etag", b"x"), status=304), plain, b"etag: x\r\nconnection: close\r\n\r\n"),
        (replying(b"", status=529), plain, b"close\r\n\r\n0\r\n\r\n"),
    ]  # fmt: skip
    for app, request, end in cases:
        async with listening(app) as server:
            assert (await server.exchange(request)).endswith(end), end


@pytest.mark.parametrize("until_eof", [False, True])
@pytest.mark.parametrize("request_", [LAST, GET, b"GET / HTTP/1.0\r\n\r\n"])
async def test_a_reply_without_its_end_never_looks_complete(request_: bytes, until_eof: bool) -> None:
    app = replying(b"data: 1\n\n", *([(b"connection", b"close")] if until_eof else []), ends=False)
    async with listening(app) as server, server.client() as client:
        client.writer.write(request_)
        if until_eof or b"1.0" in request_:
            with pytest.raises(ConnectionResetError):
                await client.reader.read(-1)
        else:
            assert (await client.rest()).endswith(b"\r\n\r\n9\r\ndata: 1\n\n\r\n")


@pytest.mark.parametrize("body", [b"four", b"sixsix"])
async def test_a_reply_of_another_length_than_it_says_is_cut(body: bytes) -> None:
    failures = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await replying(body, (b"content-length", b"5"))(scope, receive, send)
        except RuntimeError as error:
            failures.append(error)

    async with listening(app) as server:
        head, _, sent = (await server.exchange(GET)).partition(b"\r\n\r\n")
    assert len(failures) == 1
    assert head == b"" or b"content-length: 5" in head
    assert len(sent) < 5


async def test_a_header_cannot_begin_another_line() -> None:
    failures = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for value in (b"a\r\nset-cookie: b", b"a\nb", b"a\0"):
            with pytest.raises(ValueError, match="line break"):
                await replying(b"", (b"x", value))(scope, receive, send)
            failures.append(value)

    async with listening(app) as server:
        assert await server.exchange(GET) == b""
    assert len(failures) == 1  # the head counts as begun: nothing else follows it


# --- refusals ---------------------------------------------------------------------------------------------------------

POST, HEAD = (method + b" / HTTP/1.1\r\nhost: a\r\n" for method in (b"POST", b"GET"))
MALFORMED = {
    "both lengths": (POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "both lengths, other order": (POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n", 400),
    "two lengths": (POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd", 400),
    "signed length": (POST + b"content-length: +3\r\n\r\nabc", 400),
    "negative length": (POST + b"content-length: -3\r\n\r\nabc", 400),
    "hex length": (POST + b"content-length: 0x3\r\n\r\nabc", 400),
    "huge length": (POST + b"content-length: 99999999999999999999999\r\n\r\n", 400),
    "list of codings": (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "unknown coding": (POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "coding twice": (POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n", 400),
    "coding in 1.0": (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunk size no number": (chunked([]).replace(b"\r\n\r\n0\r\n\r\n", b"\r\n\r\nzz\r\nabc\r\n"), 400),
    "chunk size too large": (chunked([]).replace(b"\r\n\r\n0\r\n\r\n", b"\r\n\r\nfffffffffffffffff\r\n"), 400),
    "chunk longer than said": (chunked([]).replace(b"\r\n\r\n0\r\n\r\n", b"\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n"), 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (HEAD + b"host: b\r\n\r\n", 400),
    "space before colon": (b"GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400),
    "folded header": (HEAD + b"x: a\r\n b\r\n\r\n", 400),
    "bare line feeds": (b"GET / HTTP/1.1\nhost: a\n\n", 400),
    "NUL in a value": (HEAD + b"x: a\0b\r\n\r\n", 400),
    "bare CR in a value": (HEAD + b"x: a\rb\r\n\r\n", 400),
    "no name": (HEAD + b": b\r\n\r\n", 400),
    "byte in a URL": (b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "absolute URL": (b"GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "CONNECT": (b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "asterisk": (b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "unknown method": (b"G\x00T / HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/2.0": (b"GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "HTTP/9.9": (b"GET / HTTP/9.9\r\nhost: a\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "noise": (bytes(range(256)), 400),
    "long URL": (b"GET /%b HTTP/1.1\r\nhost: a\r\n\r\n" % (b"a" * URL_LIMIT_BYTES), 414),
    "endless URL": (b"GET /" + b"a" * (HEAD_LIMIT_BYTES + 1), 431),
    "endless header": (HEAD + b"x: " + b"a" * (HEAD_LIMIT_BYTES + 1), 431),
    "large head": (HEAD + b"" + b"x: %b\r\n" % (b"a" * 1000) * 70 + b"\r\n", 431),
    "many headers": (HEAD + b"" + b"x: a\r\n" * HEADER_LIMIT + b"\r\n", 431),
    "endless extension": (chunked([])[:-5] + b"2;" + b"a" * 200_000, 400),
    "endless trailers": (chunked([])[:-2] + b"x: %b\r\n" % (b"a" * 1000) * 200, 400),
}  # fmt: skip


@all_rows("case", MALFORMED)
async def test_what_is_malformed_is_refused_in_openais_shape_and_the_connection_closed(case: str) -> None:
    sent, status = MALFORMED[case]
    app = Recorder()
    async with listening(app) as server:
        reply = await server.exchange(sent + (b"" if case.startswith("endless") else GET))
        await server.until_empty()
    head, _, body = reply.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert b"connection: close" in head
    error = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert app.seen == []  # neither it nor what was smuggled behind it


@pytest.mark.parametrize("case", ["both lengths", "noise", "long URL"])
async def test_what_is_malformed_behind_a_request_costs_that_request_nothing(case: str) -> None:
    app = Recorder()
    async with listening(app) as server:
        reply = await server.exchange(post(b"fine") + MALFORMED[case][0])
    assert reply.endswith(b"\r\n\r\nfine")
    assert len(app.seen) == 1


async def test_an_early_answer_reaches_a_client_that_is_still_uploading() -> None:
    async with listening(replying(b"no", (b"content-length", b"2"), status=413)) as server, server.client() as client:
        client.writer.write(post(b"x" * 20_000_000))
        assert (await client.rest()).endswith(b"connection: close\r\n\r\nno")


# --- time -------------------------------------------------------------------------------------------------------------

HASTY = Timeouts(receive_s=0.2, keepalive_s=0.2, send_s=0.2)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET[:-2], post(b"12345")[:-1], chunked([b"a"])[:-3]])
async def test_a_request_that_does_not_arrive_is_given_up(sent: bytes) -> None:
    async with listening(Recorder(), HASTY) as server:
        reply = await server.exchange(sent)
        await server.until_empty()
    assert (reply.startswith(b"HTTP/1.1 408 ") and b"request_timeout" in reply) if sent else reply == b""


async def test_a_trickle_is_no_arrival() -> None:
    async with listening(Recorder(), HASTY) as server, server.client() as client:
        trickling = asyncio.create_task(_trickle(client))
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        trickling.cancel()


async def _trickle(client: RawClient) -> None:
    client.writer.write(post(b"")[:-2].replace(b"content-length: 0", b"content-length: 9999"))
    for _ in range(1000):
        client.writer.write(b"x")
        await asyncio.sleep(0.01)


async def test_an_idle_connection_is_closed_and_a_long_reply_is_not() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(3 * HASTY.receive_s)
        await Recorder()(scope, receive, send)

    async with listening(slow, HASTY) as server, server.client() as client:
        client.writer.write(post(b"ok"))
        assert (await client.reply()).endswith(b"ok")
        assert await client.rest() == b""


async def test_a_client_that_takes_nothing_is_cut_off_and_slows_the_app_meanwhile() -> None:
    chunks = 0

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal chunks
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            chunks += 1

    async with listening(endless, HASTY) as server:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
            await asyncio.get_running_loop().sock_sendall(client, GET)
            while not server.connections:  # noqa: ASYNC110 - the server's own set
                await asyncio.sleep(0)
            await server.until_empty()
    assert 0 < chunks < 200  # some 10 MB at most went into the kernel's buffers: nothing was piled up here


# --- clients that leave -----------------------------------------------------------------------------------------------


class Watched:
    """An app that waits in one phase and says when it got there and that it was cancelled."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.reached = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self.phase == "upload":
                await receive()
                self.reached.set()
                await receive()
            elif self.phase == "stream":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                while True:
                    await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": True})
                    self.reached.set()
                    await asyncio.sleep(0.001)
            elif self.phase == "slow reader":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                while True:
                    self.reached.set()
                    await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
            self.reached.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@all_rows("phase", ["upload", "waiting", "stream", "slow reader"])
@all_rows("how", ["FIN", "RST", "half-close"])
async def test_a_client_that_leaves_ends_its_request(phase: str, how: str) -> None:
    app = Watched(phase)
    async with listening(app) as server, server.client() as client:
        client.writer.write(post(b"12")[:-1] if phase == "upload" else post(b"12"))
        await app.reached.wait()
        if how == "RST":
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "half-close":
            client.writer.write_eof()
        else:
            client.writer.close()
        async with asyncio.timeout(5):
            await app.cancelled.wait()
            if how == "half-close":
                await client.rest()
            await server.until_empty()


async def test_a_request_cleans_up_to_the_end_where_the_client_leaves() -> None:
    reached, clean = asyncio.Event(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        try:
            reached.set()
            await asyncio.Event().wait()
        finally:
            while server.connections:  # noqa: ASYNC110 - the server's own set: nobody sets an event for it
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # a second cancel would come now
            clean.set()

    async with listening(app) as server, server.client() as client:
        client.writer.write(post(b"12"))
        await reached.wait()
        (task,) = server.tasks
        client.writer.close()
        await asyncio.wait({task})
    assert clean.is_set()


async def test_a_client_that_leaves_a_reply_without_framing_is_no_fault() -> None:
    app = Watched("stream")
    async with listening(app) as server, server.client() as client:
        client.writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await app.reached.wait()
        (task,) = server.tasks
        client.writer.transport.abort()
        await asyncio.wait({task})
        assert (task.cancelled(), task.exception()) == (False, None)


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="only Linux tells of it")
@pytest.mark.parametrize("ahead", [post(b"2") * (PIPELINE_LIMIT * 2), post(b"x" * 2**20)], ids=["requests", "a body"])
async def test_a_client_that_leaves_while_it_is_ahead_of_us_is_noticed(ahead: bytes) -> None:
    app = Watched("waiting")
    async with listening(app) as server, server.client() as client:
        client.writer.write(post(b"1") + ahead)
        await app.reached.wait()
        client.writer.transport.abort()
        async with asyncio.timeout(5):
            await app.cancelled.wait()
            await server.until_empty()


async def test_the_server_stops_between_two_requests() -> None:
    gate = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await gate.wait()
        await Recorder()(scope, receive, send)

    async with listening(app) as server, server.client() as client:
        client.writer.write(post(b"one") + post(b"two"))
        while not server.tasks:  # noqa: ASYNC110 - the server's own set
            await asyncio.sleep(0)
        _stop(server)
        gate.set()
        assert (await client.rest()).endswith(b"one")
        await server.until_empty()


def _stop(server: Listening) -> None:
    for connection in list(server.connections):
        connection.shutdown()
