"""Clients that are slow, silent or send what is no request: turned away early and in order, and nobody else notices.

What the bytes of HTTP itself may do wrong is in `tests/proxy/test_server.py`.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.encodings import COMPRESSORS, ENCODINGS
from tests.support.gateway import Served, serving
from tests.support.recording_upstream import COMPLETION, Recorder
from tests.support.upstream_servers import Received, Wire, chunked, head, reply
from tests.wire.malformed_bodies import bodies, wrong_types
from tests.wire.raw_calls import (
    BOTH_WAYS,
    PATIENCE_S,
    Caller,
    calling,
    descriptors,
    error_of,
    forget_peak,
    peak_mb,
    post,
    rss_mb,
    until,
)

RECEIVE_S = 2.0
BODY_MB = 8
EACH = 100  # clients of each kind
EVENTS = b"content-type: text/event-stream"
CHUNKED = b"transfer-encoding: chunked"
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LANES = ("relay", "translated")

_SETTINGS = """
server: {{receive_timeout_s: {receive}, max_body_mb: {body}}}
retrieval: {{enabled: false}}
models:
  relay: {{api_base: "{upstream}/v1"}}
  translated: {{model: openai/gpt-4o, lane: translated, api_base: "{upstream}/v1"}}
"""


@pytest.fixture(scope="module")
def gateway(_upstream: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = _SETTINGS.format(upstream=_upstream.url, receive=RECEIVE_S, body=BODY_MB)
    folder: Path = tmp_path_factory.mktemp("hostile")
    with serving(folder / "data", folder, settings) as served:
        yield served
        assert "Traceback" not in served.log.read_text("utf-8")


# Slow and silent


class Slow:
    """A client that sends its bytes one by one, one now and then, and sees when and how the gateway has enough."""

    def __init__(self, gateway: Served, start: bytes, more: bytes) -> None:
        host, _, port = gateway.url.removeprefix("http://").partition(":")
        self._address = (host, int(port))
        self._start, self._more = start, more
        self.took_s = 0.0
        self.got = b""

    async def run(self) -> "Slow":
        began = time.monotonic()  # before the gateway's clock, however busy this process is
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(self._start)
        dripping = asyncio.ensure_future(self._drip(writer))
        with contextlib.suppress(ConnectionError):
            self.got = await asyncio.wait_for(reader.read(), PATIENCE_S)
        self.took_s = time.monotonic() - began
        dripping.cancel()
        writer.transport.abort()
        return self

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            for byte in self._more:
                await asyncio.sleep(0.3)
                writer.write(bytes([byte]))
                await writer.drain()


async def healthy(gateway: Served, stop: asyncio.Event) -> list[float]:
    """Twenty requests a second, each of which must be answered; the seconds each took."""

    def ask() -> float:
        began = time.monotonic()
        with calling(gateway) as caller:
            caller.ask("relay")
            assert caller.answer() == (200, COMPLETION)
        return time.monotonic() - began

    asked = []
    while not stop.is_set():
        asked.append(asyncio.ensure_future(asyncio.to_thread(ask)))
        await asyncio.sleep(0.05)
    return await asyncio.gather(*asked)


async def test_slow_and_silent_clients_are_closed_in_time_and_nobody_else_notices(
    gateway: Served, upstream: Recorder
) -> None:
    assert gateway.get("/healthz").status_code == 200  # the first connection opens the descriptor kept for hard times
    before = descriptors(gateway.worker_pid())
    kinds = {
        "silent": (b"", b""),
        "a header byte now and then": (b"POST /v1", HEAD[8:] + b"x-long: " + b"a" * 100),
        "a body byte now and then": (HEAD + b"content-length: 1000\r\n\r\n{", b'"model": "relay", ' * 10),
    }
    clients = {kind: [Slow(gateway, *bytes_) for _ in range(EACH)] for kind, bytes_ in kinds.items()}
    stop = asyncio.Event()
    others = asyncio.ensure_future(healthy(gateway, stop))
    await asyncio.gather(*(client.run() for each in clients.values() for client in each))
    stop.set()
    took = await others
    for kind, each in clients.items():
        slowest, quickest = max(client.took_s for client in each), min(client.took_s for client in each)
        assert quickest > RECEIVE_S / 2, kind
        assert slowest < RECEIVE_S + 20, kind
        for client in each:
            if kind == "silent":
                assert client.got == b""
            else:
                top, _, body = client.got.partition(b"\r\n\r\n")
                assert top.startswith(b"HTTP/1.1 408 ")
                assert error_of(body)["code"] == "request_timeout"
    assert len(took) >= 20
    assert len(upstream.requests) == len(took)
    assert max(took) < 20  # of their own process' 300 other clients, too
    until("descriptors are back", lambda: descriptors(gateway.worker_pid()) <= before)


def test_a_long_reply_is_no_slow_request(gateway: Served, upstream: Recorder) -> None:
    async def slow(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, CHUNKED))
        for _ in range(30):
            await wire.send(chunked([b": x\n\n"])[0])
            await asyncio.sleep(RECEIVE_S / 20)
        await wire.send(b"0\r\n\r\n")

    upstream.answer = slow
    with calling(gateway) as caller:
        caller.ask("relay", stream=True)
        assert caller.head()[0] == 200
        caller.until(b"0\r\n\r\n")


# Large


def test_a_lie_about_ten_gigabytes_is_a_413_before_anything_is_read(gateway: Served) -> None:
    pid = gateway.worker_pid()
    before = rss_mb(pid)
    with calling(gateway) as caller:
        caller.send(HEAD + b"content-length: 10000000000\r\n\r\n")
        status, body = caller.answer()
        assert (status, error_of(body)["code"]) == (413, "body_too_large")
    assert rss_mb(pid) - before < 32


def test_an_endless_body_is_a_413_soon_behind_the_limit(gateway: Served, upstream: Recorder) -> None:
    pid = gateway.worker_pid()
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    forget_peak(pid)
    before = rss_mb(pid)
    with calling(gateway) as caller:
        caller.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        sent, writing = 0, threading.Event()

        def send() -> None:
            nonlocal sent
            with contextlib.suppress(OSError):
                while not writing.is_set():
                    caller.sock.sendall(piece)
                    sent += 65536

        thread = threading.Thread(target=send)
        thread.start()
        status, body = caller.answer()
        writing.set()
        caller.rest()
        thread.join()
    assert (status, error_of(body)["code"]) == (413, "body_too_large")
    assert peak_mb(pid) - before < 32
    assert not upstream.requests


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_that_unpacks_to_much_is_refused_at_the_limit(
    gateway: Served, upstream: Recorder, encoding: str
) -> None:
    bomb = COMPRESSORS[encoding](b" " * 400_000_000)
    pid = gateway.worker_pid()
    forget_peak(pid)
    before = rss_mb(pid)
    with calling(gateway) as caller:
        caller.send(post(bomb, b"content-encoding: " + encoding.encode()))
        status, body = caller.answer()
    assert (status, error_of(body)["code"]) == (413, "body_too_large")
    assert peak_mb(pid) - before < 5 * BODY_MB
    assert not upstream.requests


# Malformed


def outcome(caller: Caller, upstream: Recorder, body: bytes, *, relayed: bool) -> str:
    """What is wrong with the answer to a body: it is neither a 4xx in OpenAI's shape nor was the body passed on."""
    upstream.requests.clear()
    began = time.monotonic()
    caller.send(post(body))
    status, top = caller.head()
    said = caller.reply_body(top)
    if time.monotonic() - began > 1:
        return f"took {time.monotonic() - began:.1f} s"
    if 400 <= status < 500:
        error_of(said)
        return f"{status}, and the upstream was asked" if upstream.requests else ""
    if status != 200:
        return f"{status} {said[:200]!r}"
    if relayed and [each.body for each in upstream.requests] != [body]:
        return "it was changed on its way"
    return ""


@pytest.mark.parametrize("lane", LANES)
def test_malformed_bodies_are_refused_or_passed_on_unchanged(gateway: Served, upstream: Recorder, lane: str) -> None:
    cases = {name: body.replace(b'"relay"', b'"%b"' % lane.encode()) for name, body in bodies().items()}
    cases |= {name: body for name, body in wrong_types(lane) if not name.startswith("rag") or lane == "relay"}
    assert len(cases) > 400
    assert wrong_answers(gateway, upstream, cases, lane) == {}


def wrong_answers(gateway: Served, upstream: Recorder, cases: dict[str, bytes], lane: str) -> dict[str, str]:
    """What is wrong with the answers, by the body's name."""
    wrong = {}
    for name, body in cases.items():
        with calling(gateway) as caller:
            # `rag` itself is taken out on the way
            said = outcome(caller, upstream, body, relayed=lane == "relay" and not name.startswith("rag"))
        if said:
            wrong[name] = said
    return wrong


# Half-closed


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("lane", LANES)
def test_a_client_that_closes_its_sending_side_counts_as_gone(
    gateway: Served, upstream: Recorder, lane: str, stream: bool
) -> None:
    """It cannot be told from one that left; docs/use/front-proxy.md says so."""
    reached, closed = threading.Event(), threading.Event()

    async def waiting(wire: Wire, _received: Received) -> None:
        reached.set()
        await wire.gone()
        closed.set()
        raise ConnectionResetError

    upstream.answer = waiting
    with calling(gateway) as caller:
        caller.ask(lane, stream=stream)
        assert reached.wait(PATIENCE_S)
        began = time.monotonic()
        caller.sock.shutdown(socket.SHUT_WR)
        assert caller.rest() == b""
        assert closed.wait(PATIENCE_S)
        assert time.monotonic() - began < 10


# Slow readers


@pytest.mark.parametrize("lane", LANES)
def test_a_client_that_reads_slowly_slows_the_upstream_and_fills_no_memory(
    gateway: Served, upstream: Recorder, lane: str
) -> None:
    """10 KB a second of 200 MB."""
    delta = (
        b'{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"'
    )
    frame = b"data: " + delta + b"x" * 65536 + b'"},"finish_reason":null}]}\n\n'
    part = chunked([frame])[0]
    sent = 0
    ended = threading.Event()

    async def long(wire: Wire, _received: Received) -> None:
        nonlocal sent
        try:
            await wire.send(head(EVENTS, CHUNKED))
            while sent < 200_000_000:
                await wire.send(part)
                sent += len(part)
        finally:
            ended.set()

    upstream.answer = long
    pid = gateway.worker_pid()
    forget_peak(pid)
    before = rss_mb(pid)
    with calling(gateway, receive_buffer_bytes=4096) as caller:
        caller.ask(lane, stream=True)
        began = time.monotonic()
        for second in range(1, 4):
            caller.sock.recv(10_240)
            time.sleep(max(0.0, began + second - time.monotonic()))
        assert peak_mb(pid) - before < 16
        assert 0 < sent < 32_000_000  # the rest of it is the kernel's buffers, on the way in and out
        before_more = sent
        for _ in range(2):
            caller.sock.recv(10_240)
            time.sleep(0.2)
        assert sent - before_more < 8_000_000
        assert not ended.is_set()
        caller.leave(BOTH_WAYS[1])
    assert ended.wait(PATIENCE_S)
    with calling(gateway) as caller:
        upstream.answer = _whole
        caller.ask(lane)
        assert caller.answer()[0] == 200


async def _whole(wire: Wire, _received: Received) -> None:
    await wire.send(reply(COMPLETION, b"content-type: application/json"))
