"""Replies through the served gateway, retrieval on: the upstream's bytes, when they come, however odd they are."""

import asyncio
import gzip
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

import httpx
import pytest

from tests.support.gateway import Served
from tests.support.recording_upstream import Answer, Recorder, answering
from tests.support.upstream_servers import Received, Wire, chunked, head, reply, single_bytes

QUESTION = b'{"model": "gpt-x", "stream": true, "messages": [{"role": "user", "content": "Zephyr from Kotlin?"}]}'
EVENTS = b"content-type: text/event-stream; charset=utf-8"
CHUNKED = b"transfer-encoding: chunked"

FIRST = b'data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"A"}}]}\n\n'
PLAIN = FIRST + b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

STREAMS = {
    "plain": PLAIN,
    "comments and keep-alives": b": connected\n\n" + FIRST + b":\n\n: \xe2\x8f\xb3 still thinking\n\n" + PLAIN,
    "CRLF": PLAIN.replace(b"\n", b"\r\n"),
    "CR": PLAIN.replace(b"\n", b"\r"),
    "mixed line ends": FIRST.replace(b"\n", b"\r\n") + PLAIN,
    "a byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "no space after the colon": PLAIN.replace(b"data: ", b"data:"),
    "named events, ids and retry": b"retry: 10\nid: 7\nevent: ping\ndata: {}\n\n" + PLAIN,
    "data over several lines": b'data: {"id":"1",\ndata: "choices":[]}\n\n' + PLAIN,
    "no [DONE]": PLAIN.removesuffix(b"data: [DONE]\n\n"),
    "no last blank line": PLAIN.removesuffix(b"\n"),
    "half a frame at the end": PLAIN + b'data: {"id":',
    "more after [DONE]": PLAIN + b": bye\n\n",
    "an error within": FIRST + b'data: {"error":{"message":"overloaded"}}\n\n',
    "letters of four bytes": "data: {\"choices\":[{\"delta\":{\"content\":\"né 😀 漢字\"}}]}\n\n".encode() + PLAIN,
    "bytes that are no UTF-8": b"data: \xff\xfe\n\n" + PLAIN,
    "nothing at all": b"",
}  # fmt: skip


def streaming(pieces: Sequence[bytes]) -> Answer:
    return answering(head(EVENTS, CHUNKED), *chunked(pieces))


def asked(gateway: Served) -> AbstractContextManager[httpx.Response]:
    """The reply to QUESTION, its head received."""
    headers = {"content-type": "application/json"}
    return httpx.stream("POST", gateway.url + "/v1/chat/completions", content=QUESTION, headers=headers, timeout=30)


@pytest.mark.parametrize("pieces", ["one piece", "single bytes"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_arrives_byte_for_byte(gateway: Served, recorder: Recorder, name: str, pieces: str) -> None:
    stream = STREAMS[name]
    recorder.answer = streaming([stream] if pieces == "one piece" else single_bytes(stream))
    got = gateway.post(QUESTION)
    assert got.content == stream
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert got.headers["x-rag-status"] == "augmented"


def test_a_stream_without_a_length_or_chunks_ends_with_its_connection(gateway: Served, recorder: Recorder) -> None:
    async def until_closed(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS), *single_bytes(PLAIN))
        await wire.close()

    recorder.answer = until_closed
    assert gateway.post(QUESTION).content == PLAIN


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_a_stream_that_is_cut_never_looks_complete(gateway: Served, recorder: Recorder, how: str) -> None:
    async def cut(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, CHUNKED), chunked([FIRST])[0])
        if how == "closed":
            await wire.close()
        else:
            wire.reset()

    recorder.answer = cut
    got: list[bytes] = []
    with asked(gateway) as response, pytest.raises(httpx.RemoteProtocolError):
        got.extend(response.iter_raw())
    assert FIRST.startswith(b"".join(got))


def test_each_event_arrives_before_the_next_is_sent(gateway: Served, recorder: Recorder) -> None:
    events = [b"data: %d\n\n" % number for number in range(5)]
    seen = threading.Semaphore(0)

    async def in_step(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, CHUNKED))
        *parts, end = chunked(events)
        for part in parts:
            await wire.send(part)
            assert await asyncio.to_thread(seen.acquire, timeout=100), "the client never saw the event"
        await wire.send(end)

    recorder.answer = in_step
    got = []
    with asked(gateway) as response:
        for part in response.iter_raw():
            got.append(part)
            seen.release()
    assert got == events


def test_a_client_that_leaves_ends_the_upstreams_work(gateway: Served, recorder: Recorder) -> None:
    noticed = threading.Event()

    async def endless(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, CHUNKED), chunked([FIRST])[0])
        await wire.gone()
        noticed.set()

    recorder.answer = endless
    with asked(gateway) as response:
        next(response.iter_raw())
    assert noticed.wait(100)


def test_headers_and_bytes_of_a_plain_reply_are_the_upstreams(gateway: Served, recorder: Recorder) -> None:
    body = b'{"choices" : [ {"message":{"content":"\\u00e9"}} ], "created": 1.7e9}\n'
    recorder.answer = answering(
        reply(
            body,
            b"content-type: application/json; odd=1",
            b"Date: Thu, 01 Jan 1970 00:00:00 GMT",
            b"Server: theirs",
            b"openai-processing-ms: 12",
            b"set-cookie: a=1",
            b"set-cookie: b=2",
            b"x-ratelimit-remaining-tokens: 7",
        )
    )
    got = gateway.post(QUESTION)
    assert got.content == body
    assert got.headers["content-type"] == "application/json; odd=1"
    assert got.headers.get_list("date") == ["Thu, 01 Jan 1970 00:00:00 GMT"]
    assert got.headers.get_list("server") == ["theirs"]
    assert got.headers["openai-processing-ms"] == "12"
    assert got.headers["x-ratelimit-remaining-tokens"] == "7"
    assert got.headers["content-length"] == str(len(body))


def test_a_compressed_reply_stays_compressed(gateway: Served, recorder: Recorder) -> None:
    recorder.answer = answering(reply(gzip.compress(b'{"ok":true}'), b"content-encoding: gzip"))
    got = gateway.post(QUESTION, accept_encoding="gzip")
    assert recorder.requests[0].header(b"accept-encoding") == b"gzip"
    assert got.headers["content-encoding"] == "gzip"
    assert got.json() == {"ok": True}
