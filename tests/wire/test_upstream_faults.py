"""Upstreams that fail, at a served gateway, in both lanes: a right status before the first byte, an honest cut after.

At most one request reaches an upstream for each of a client's. More of the same without a gateway around it is in
`tests/proxy/upstream`.
"""

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.support.gateway import Served, serving
from tests.support.recording_upstream import COMPLETION, Answer, Recorder, answering
from tests.support.upstream_servers import Received, Wire, chunked, head, reply
from tests.wire.odd_ports import Trap, full_port, trap_port
from tests.wire.raw_calls import calling, error_of

CONNECT_S, FIRST_BYTE_S, IDLE_S = 0.3, 0.6, 0.9
LATE_S = 2.0  # more than a limit, on a busy machine; the three limits are told apart by what is said
CHUNKED = b"transfer-encoding: chunked"
EVENTS = b"content-type: text/event-stream"
JSON = b"content-type: application/json"
LANES = ("relay", "translated")

_SETTINGS = """
retrieval: {{enabled: false}}
upstream: {{connect_timeout_s: {connect}, first_byte_timeout_s: {first_byte}, idle_timeout_s: {idle}}}
models:
  relay: {{api_base: "{upstream}/v1", api_key_env: KEY}}
  translated: {{model: openai/gpt, lane: translated, api_base: "{upstream}/v1", api_key_env: KEY}}
  relay-silent: {{api_base: "https://127.0.0.1:{silent}/v1"}}
  translated-silent: {{model: openai/gpt, lane: translated, api_base: "https://127.0.0.1:{silent}/v1"}}
  relay-full: {{api_base: "http://127.0.0.1:{full}/v1"}}
  translated-full: {{model: openai/gpt, lane: translated, api_base: "http://127.0.0.1:{full}/v1"}}
  relay-refused: {{api_base: "http://127.0.0.1:{refused}/v1"}}
  translated-refused: {{model: openai/gpt, lane: translated, api_base: "http://127.0.0.1:{refused}/v1"}}
  relay-unknown: {{api_base: "http://no-such-host.invalid/v1"}}
  translated-unknown: {{model: openai/gpt, lane: translated, api_base: "http://no-such-host.invalid/v1"}}
"""


def event(text: str, finish: str = "null") -> bytes:
    delta = b'{"role":"assistant","content":"%b"}' % text.encode()
    choice = b'{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}' % (delta, finish.encode())
    return b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%b]}\n\n' % choice


FRAMES = [event("one"), event("two"), event("three"), event("", '"stop"'), b"data: [DONE]\n\n"]


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    with trap_port() as made:
        yield made


@pytest.fixture(scope="module")
def full() -> Iterator[int]:
    with full_port() as port:
        yield port


@pytest.fixture(scope="module")
def silent() -> Iterator[int]:
    """Connects, and never answers a handshake."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def gateway(_upstream: Recorder, silent: int, full: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        refused = listener.getsockname()[1]
    settings = _SETTINGS.format(
        upstream=_upstream.url,
        silent=silent,
        full=full,
        refused=refused,
        connect=CONNECT_S,
        first_byte=FIRST_BYTE_S,
        idle=IDLE_S,
    )
    folder: Path = tmp_path_factory.mktemp("faults")
    with serving(folder / "data", folder, settings, KEY="sk-of-the-upstream") as served:
        yield served
        log = served.log.read_text("utf-8")
        assert "Traceback" not in log
        assert "sk-of-the-upstream" not in log


def refusal(gateway: Served, model: str, *, stream: bool) -> tuple[int, str, str, float]:
    """Status, code and message of an error in OpenAI's shape, and the seconds it took."""
    began = time.monotonic()
    with calling(gateway) as caller:
        caller.ask(model, stream=stream)
        status, body = caller.answer()
    error = error_of(body)
    return status, str(error["code"]), error["message"], time.monotonic() - began


def whole(gateway: Served, model: str) -> None:
    """A next request is served."""
    with calling(gateway) as caller:
        caller.ask(model)
        assert caller.answer()[0] == 200


# Nobody there


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("where", ["refused", "unknown"])
@pytest.mark.parametrize("lane", LANES)
def test_an_upstream_that_is_not_there_is_a_502(gateway: Served, lane: str, where: str, stream: bool) -> None:
    status, code, _, _ = refusal(gateway, f"{lane}-{where}", stream=stream)
    assert (status, code) == (502, "upstream_unreachable")


@pytest.mark.parametrize("where", ["silent", "full"])
@pytest.mark.parametrize("lane", LANES)
def test_an_upstream_that_hangs_while_we_connect_is_a_504_within_the_connect_limit(
    gateway: Served, lane: str, where: str
) -> None:
    status, code, said, took_s = refusal(gateway, f"{lane}-{where}", stream=True)
    assert (status, code) == (504, "upstream_timeout")
    assert CONNECT_S * 0.9 < took_s < CONNECT_S + LATE_S
    assert lane == "translated" or "upstream.connect_timeout_s" in said


# Silence


async def silence(wire: Wire, _received: Received) -> None:
    await wire.gone()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("lane", LANES)
def test_an_upstream_that_never_answers_is_a_504_within_the_first_byte_limit(
    gateway: Served, upstream: Recorder, lane: str, stream: bool
) -> None:
    upstream.answer = silence
    status, code, _, took_s = refusal(gateway, lane, stream=stream)
    assert (status, code) == (504, "upstream_timeout")
    assert FIRST_BYTE_S * 0.9 < took_s < FIRST_BYTE_S + LATE_S
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("rest", [b"", b"20\r\ndata: {"], ids=["between chunks", "within a chunk"])
@pytest.mark.parametrize("lane", LANES)
def test_a_stream_that_falls_silent_is_cut_within_the_idle_limit(
    gateway: Served, upstream: Recorder, lane: str, rest: bytes
) -> None:
    async def half(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, CHUNKED), chunked(FRAMES)[0] + rest)
        await wire.gone()

    upstream.answer = half
    began = time.monotonic()
    with calling(gateway) as caller:
        caller.ask(lane, stream=True)
        assert caller.head()[0] == 200
        assert_cut(lane, caller.rest())
    assert IDLE_S * 0.9 < time.monotonic() - began < IDLE_S + LATE_S
    assert len(upstream.requests) == 1


def test_comments_keep_a_stream_alive(gateway: Served, upstream: Recorder) -> None:
    """Longer than both limits, of which neither meets a silence."""
    stream = [b": still thinking\n\n"] * 12 + FRAMES

    async def heartbeats(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, CHUNKED))
        *parts, end = chunked(stream)
        for number, part in enumerate(parts):
            await wire.send(part)
            if number < 12:
                await asyncio.sleep(0.1)
        await wire.send(end)

    upstream.answer = heartbeats
    with calling(gateway) as caller:
        caller.ask("relay", stream=True)
        assert caller.head()[0] == 200
        assert bodies(caller.until(b"0\r\n\r\n")) == b"".join(stream)


# Cuts


def ending(pieces: bytes, how: str) -> Answer:
    """These bytes, and then the end of the connection."""

    async def answer(wire: Wire, _received: Received) -> None:
        await wire.send(pieces)
        if how == "reset":
            wire.reset()
        else:
            await wire.close()

    return answer


def bodies(sent: bytes) -> bytes:
    """What is in HTTP chunks, the last of which may be cut."""
    data = b""
    while found := re.match(rb"([0-9a-f]+)\r\n", sent):
        size = int(found[1], 16)
        data += sent[found.end() : found.end() + size]
        sent = sent[found.end() + size + 2 :]
    return data


def assert_cut(lane: str, rest: bytes) -> None:
    """A stream without its end; the translated lane says besides what happened."""
    assert not rest.endswith(b"0\r\n\r\n"), rest[-300:]
    assert b"[DONE]" not in rest
    assert b'"stop"' not in rest
    if lane == "translated":
        said = [line for line in bodies(rest).split(b"\n") if line.startswith(b'data: {"error"')]
        assert len(said) == 1, rest
        error_of(said[0].removeprefix(b"data: "))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\ncontent-ty"], ids=["nothing", "half a head"])
@pytest.mark.parametrize("how", ["reset", "closed"])
@pytest.mark.parametrize("lane", LANES)
def test_an_end_before_the_head_is_a_502(
    gateway: Served, upstream: Recorder, lane: str, how: str, before: bytes, stream: bool
) -> None:
    upstream.answer = ending(before, how)
    status, code, _, _ = refusal(gateway, lane, stream=stream)
    assert (status, code) == (502, "upstream_closed" if lane == "relay" else "upstream_unreachable")
    assert len(upstream.requests) == 1
    upstream.fresh()
    whole(gateway, lane)


@pytest.mark.parametrize("inside", [False, True], ids=["after a frame", "within the next frame"])
@pytest.mark.parametrize("frames", range(4))
@pytest.mark.parametrize("how", ["reset", "closed"])
def test_a_stream_cut_at_any_frame_never_looks_complete(
    gateway: Served, upstream: Recorder, how: str, frames: int, inside: bool
) -> None:
    coded = chunked(FRAMES)
    pieces = b"".join(coded[:frames]) + (coded[frames][:-40] if inside else b"")
    upstream.answer = ending(head(EVENTS, CHUNKED) + pieces, how)
    with calling(gateway) as caller:
        caller.ask("relay", stream=True)
        status, _ = caller.head()
        assert status in ((200, 502) if how == "reset" else (200,))  # a reset may overtake what was sent before it
        if status == 200:
            rest = caller.rest()
            assert not rest.endswith(b"0\r\n\r\n")
            assert b"".join(FRAMES).startswith(bodies(rest))
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("frames", range(4))
@pytest.mark.parametrize("how", ["reset", "closed"])
def test_a_translated_stream_cut_at_any_frame_never_looks_complete(
    gateway: Served, upstream: Recorder, how: str, frames: int
) -> None:
    upstream.answer = ending(head(EVENTS, CHUNKED) + b"".join(chunked(FRAMES)[:frames]), how)
    with calling(gateway) as caller:
        caller.ask("translated", stream=True)
        status, _ = caller.head()
        if status == 200:
            assert_cut("translated", caller.rest())
        else:
            assert status == 502
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("how", ["reset", "closed"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("lane", LANES)
def test_a_whole_answer_cut_within_is_no_answer(
    gateway: Served, upstream: Recorder, lane: str, framing: str, how: str
) -> None:
    half = COMPLETION[: len(COMPLETION) // 2]
    start = head(JSON, b"content-length: %d" % len(COMPLETION)) + half
    upstream.answer = ending(start if framing == "length" else head(JSON, CHUNKED) + chunked([half])[0], how)
    with calling(gateway) as caller:
        caller.ask(lane, b"connection: close")
        status, top = caller.head()
        rest = caller.rest()
    assert len(upstream.requests) == 1
    if status == 200:
        assert lane == "relay"
        assert len(rest) < len(COMPLETION) if framing == "length" else not rest.endswith(b"0\r\n\r\n")
    else:
        assert status == 502, top
        error_of(rest)


BROKEN_CHUNKS = {
    "no number": b"zz\r\nabc\r\n", "negative": b"-1\r\n", "too long": b"f" * 20 + b"\r\n",
    "longer than said": b"1\r\nabc\r\n", "no line end": b"3\r\nabcdef",
}  # fmt: skip


@pytest.mark.parametrize("bad", BROKEN_CHUNKS)
@pytest.mark.parametrize("lane", LANES)
def test_a_broken_chunk_cuts_the_stream(gateway: Served, upstream: Recorder, lane: str, bad: str) -> None:
    async def broken(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, CHUNKED), chunked(FRAMES)[0] + BROKEN_CHUNKS[bad])
        await wire.gone()

    upstream.answer = broken
    began = time.monotonic()
    with calling(gateway) as caller:
        caller.ask(lane, b"connection: close", stream=True)
        status, _ = caller.head()
        if status == 200:
            assert_cut(lane, caller.rest())
        else:  # litellm's client may meet the fault before it hands on what came with it
            assert (lane, status) == ("translated", 502)
            error_of(caller.rest())
    assert lane == "translated" or time.monotonic() - began < IDLE_S  # not for want of more
    assert len(upstream.requests) == 1


# Replies that are none


NO_REPLIES = {
    "HTTP/0.9": b"<html>hello</html>\n",
    "another protocol": b"220 smtp.example.com ESMTP\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x16",
    "a NUL in a header": head(b"x: a\0b", b"content-length: 0"),
    "a space before the colon": head(b"x : a", b"content-length : 0"),
    "a header of 2 MB": head(b"x: " + b"a" * 2**21, b"content-length: 0"),
    "2 MB of headers": head(*[b"x-%d: %b" % (i, b"a" * 1000) for i in range(2100)], b"content-length: 0"),
    "two framings": head(b"content-length: 2", CHUNKED) + b"2\r\nok\r\n0\r\n\r\n",
    "two lengths": head(b"content-length: 2", b"content-length: 3") + b"ok",
    "gzip, chunked": head(b"transfer-encoding: gzip, chunked") + b"2\r\nok\r\n0\r\n\r\n",
    "101": head(b"connection: upgrade", b"upgrade: websocket", status=b"101 Switching Protocols"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", NO_REPLIES)
def test_a_reply_that_is_none_is_a_502(gateway: Served, upstream: Recorder, kind: str, stream: bool) -> None:
    async def garbage(wire: Wire, _received: Received) -> None:
        await wire.send(NO_REPLIES[kind])
        await wire.gone()

    upstream.answer = garbage
    status, code, _, took_s = refusal(gateway, "relay", stream=stream)
    assert (status, code) == (502, "upstream_bad_reply")
    assert took_s < FIRST_BYTE_S  # at once
    assert len(upstream.requests) == 1
    upstream.fresh()
    whole(gateway, "relay")


@pytest.mark.parametrize("kind", [kind for kind in NO_REPLIES if kind != "101"])
def test_a_reply_that_is_none_is_no_answer_of_the_translated_lane(
    gateway: Served, upstream: Recorder, kind: str
) -> None:
    upstream.answer = ending(NO_REPLIES[kind], "closed")
    with calling(gateway) as caller:
        caller.ask("translated")
        status, body = caller.answer()
    assert status in (502, 504), body
    error_of(body)
    assert len(upstream.requests) == 1


# Replies that are odd


@pytest.mark.parametrize("interim", [b"100 Continue", b"103 Early Hints", b"102 Processing"])
@pytest.mark.parametrize("lane", LANES)
def test_interim_replies_are_not_the_reply(gateway: Served, upstream: Recorder, lane: str, interim: bytes) -> None:
    hints = head(b"link: </a>; rel=preload", status=interim)
    upstream.answer = answering(hints, hints, reply(COMPLETION, JSON))
    with calling(gateway) as caller:
        caller.ask(lane)
        status, top = caller.head()
        assert status == 200
        assert b"link" not in top
        assert b"Yes." in caller.until(b"}]")


def test_a_reply_without_content_passes(gateway: Served, upstream: Recorder) -> None:
    upstream.answer = answering(head(b"x-of: theirs", status=b"204 No Content"))
    with calling(gateway) as caller:
        for _ in range(2):  # on one connection: nothing stands between this reply and the next
            caller.ask("relay")
            status, top = caller.head()
            assert (status, b"x-of: theirs" in top, b"content-length" in top) == (204, True, False)
    assert len(upstream.requests) == 2


REDIRECTS = [
    b"301 Moved Permanently", b"302 Found", b"303 See Other", b"307 Temporary Redirect", b"308 Permanent Redirect",
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirect_passes_and_is_not_followed(
    gateway: Served, upstream: Recorder, trap: Trap, status: bytes, stream: bool
) -> None:
    trap.came.clear()
    location = b"location: http://127.0.0.1:%d/v1/chat/completions" % trap.port
    upstream.answer = answering(reply(b"moved", location, status=status))
    with calling(gateway) as caller:
        caller.ask("relay", stream=stream)
        got, top = caller.head()
    assert got == int(status.split()[0])
    assert location in top
    assert (len(upstream.requests), trap.came) == (1, [])


@pytest.mark.parametrize("status", [b"302 Found", b"308 Permanent Redirect"])
def test_a_redirect_is_not_followed_in_the_translated_lane(
    gateway: Served, upstream: Recorder, trap: Trap, status: bytes
) -> None:
    trap.came.clear()
    location = b"location: http://127.0.0.1:%d/v1/chat/completions" % trap.port
    upstream.answer = answering(reply(b"moved", location, status=status))
    with calling(gateway) as caller:
        caller.ask("translated")
        got, body = caller.answer()
    assert trap.came == []
    assert (got, error_of(body)["code"]) == (502, "upstream_redirect")
    assert len(upstream.requests) == 1


def test_a_switch_of_protocols_is_no_answer_of_the_translated_lane(gateway: Served, upstream: Recorder) -> None:
    upstream.answer = ending(NO_REPLIES["101"], "closed")
    with calling(gateway) as caller:
        caller.ask("translated")
        assert caller.answer()[0] == 502


def test_an_error_of_the_upstream_in_the_translated_lane_is_asked_for_once(gateway: Served, upstream: Recorder) -> None:
    for status in (b"408 Request Timeout", b"409 Conflict", b"429 Too Many Requests", b"500 Oops", b"503 Unavailable"):
        upstream.fresh().answer = answering(reply(orjson.dumps({"error": {"message": "no"}}), JSON, status=status))
        with calling(gateway) as caller:
            caller.ask("translated")
            got, body = caller.answer()
        assert (got, error_of(body)["message"]) == (int(status.split()[0]), "no")
        assert len(upstream.requests) == 1
