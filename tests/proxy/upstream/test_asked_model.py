"""Replies of Anthropic's API name the model as the client asked, where a prefix or another name applies."""

import gzip
import json

import pytest

from proxy.asgi import Message
from proxy.dialects.messages import MESSAGES
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.upstream.relay import Relay
from proxy.upstream.routes import AskedModel, Upstream
from tests.support.asgi_calls import Call, scope_of
from tests.support.clients import client
from tests.support.upstream_servers import Script, answering, chunked, closing, head, reply, upstream

ASKED = "rag/team/claude-\N{GREEK SMALL LETTER ALPHA}"
WRITTEN = json.dumps(ASKED).encode()
STREAM = b"text/event-stream"
JSON = b"application/json"
REST = (
    b'event: content_block_delta\r\ndata: {"type":"content_block_delta","delta":{"text":"\\"model\\":\\"claude-x\\""}}'
    b'\r\n\r\ndata: {"type":"message_start","message":{"model":"claude-x"}}\n\nevent: message_stop\ndata: {"type"'
)
START = b'{"type":"message_start", "model":"o", "message":{"x":{"model":"deep"},"model" : "claude-x","usage":{}}}'
TWO_LINES = b'{"type":"message_start",\ndata:"message":{"content":[],\ndata\ndata: "model":"claude-x"}}'
STREAMS = [
    b"event: message_start\ndata: %b\n\n" % START,
    b"\xef\xbb\xbfdata:%b\n\n" % START,
    b": a comment\n\nevent: ping\ndata: {}\n\nevent: message_start\r\ndata: %b\r\n\r\n" % START,
    b"id: 1\ndata: %b\n\n" % TWO_LINES,
]
WHOLES = [
    b'{"type":"message","content":[{"type":"tool_use","input":{"model":"deep"}}], "model" : "claude-x"}\n',
    b' {"model":"claude-x","type":"message","content":[{"text":"\\"model\\":"}]}',
    b'{"model":"\\u0063laude-x","type":"message"}',
]


def named(body: bytes) -> bytes:
    """The body as the client has to get it."""
    for model in (b'"model" : "claude-x"', b'"model":"claude-x"', b'"model":"\\u0063laude-x"'):
        if model in body:
            at = body.index(model) + model.index(b":") + 1
            at += body[at:].index(b'"')
            return body[:at] + WRITTEN + body[body.index(b'"', at + 1) + 1 :]
    raise AssertionError(body)


async def sent_on(media: bytes, pieces: list[bytes], *, whole: bool = True, length: int = 0) -> Call:
    """What a client gets of a reply in these pieces. whole: False for a reply that breaks off."""
    call = Call()
    edit = AskedModel(call.send, ASKED)
    headers = [(b"content-type", media), (b"content-length", b"%d" % length)]
    messages: list[Message] = [{"type": "http.response.start", "status": 200, "headers": headers}]
    messages += [{"type": "http.response.body", "body": piece, "more_body": True} for piece in pieces]
    if whole:
        messages.append({"type": "http.response.body", "body": b"", "more_body": False})
    for message in messages:
        await edit.send(message)
    await edit.close()
    return call


@pytest.mark.parametrize("begin", STREAMS)
async def test_the_first_event_of_a_stream_has_the_asked_name_wherever_the_bytes_are_cut(begin: bytes) -> None:
    stream = begin + REST
    expected = named(begin) + REST
    for cut in range(len(stream) + 1):
        call = await sent_on(STREAM, [stream[:cut], stream[cut:]])
        assert call.body == expected
        assert call.sent[-1]["more_body"] is False
    single = await sent_on(STREAM, [stream[at : at + 1] for at in range(len(stream))])
    assert single.body == expected


@pytest.mark.parametrize("body", WHOLES)
async def test_a_whole_message_has_the_asked_name_and_the_length_of_its_bytes(body: bytes) -> None:
    for cut in range(len(body) + 1):
        call = await sent_on(JSON, [body[:cut], body[cut:]], length=len(body))
        assert call.body == named(body)
        assert (b"content-length", b"%d" % len(named(body))) in call.sent[0]["headers"]


@pytest.mark.parametrize("body", [
    b"", b"{", b"[1]", b'{"type":"error","error":{"model":"claude-x"}}', b'{"type":"message","model":null}',
    b'{"type":"message_start","message":[]}', b'{"type":"message_start"}', b'{"type":"message"}',
])  # fmt: skip
async def test_another_reply_passes_as_it_came(body: bytes) -> None:
    assert (await sent_on(JSON, [body])).body == body
    frame = b"data: " + body + b"\n\n"
    assert (await sent_on(STREAM, [frame, REST[:40]])).body == frame + REST[:40]


@pytest.mark.parametrize(("media", "body"), [(STREAM, STREAMS[0][:-9]), (JSON, WHOLES[0][:-5])])
async def test_a_reply_that_breaks_off_keeps_its_bytes_and_has_no_end(media: bytes, body: bytes) -> None:
    call = await sent_on(media, [body], whole=False, length=999)
    assert call.body == body
    assert all(message.get("more_body", True) for message in call.sent)


async def answered(script: Script, asked: str, *headers: tuple[bytes, bytes]) -> tuple[Call, list[tuple[bytes, bytes]]]:
    """The reply over the relay, and the headers that the upstream got."""
    async with upstream(script) as server, client() as http:
        target = Target(model="claude-x", lane="relay", api_base=server.url, api_key="")
        exchange = Exchange(target=target, dialect=MESSAGES, fields={"model": asked})
        call = await Call().to(
            Upstream({"relay": Relay(http)}), scope_of(MESSAGES.path, headers=headers, exchange=exchange)
        )
        return call, server.requests[0].headers


PACKED = (b"accept-encoding", b"gzip, br")


async def test_the_upstream_is_asked_for_a_reply_that_can_be_edited() -> None:
    whole = WHOLES[0]
    call, headers = await answered(answering(reply(whole, b"content-type: application/json")), ASKED, PACKED)
    assert call.body == named(whole)
    assert (b"accept-encoding", b"identity") in headers


async def test_without_a_prefix_the_reply_and_the_request_stay() -> None:
    whole = WHOLES[0]
    call, headers = await answered(answering(reply(whole, b"content-type: application/json")), "claude-x", PACKED)
    assert call.body == whole
    assert PACKED in headers


async def test_a_packed_reply_and_an_error_pass_as_they_came() -> None:
    packed = gzip.compress(WHOLES[0])
    script = answering(reply(packed, b"content-type: application/json", b"content-encoding: gzip"))
    assert (await answered(script, ASKED))[0].body == packed
    script = answering(reply(WHOLES[0], b"content-type: application/json", status=b"429 Too Many Requests"))
    assert (await answered(script, ASKED))[0].body == WHOLES[0]


async def test_a_cut_stream_is_never_made_to_look_complete() -> None:
    pieces = chunked([STREAMS[0], b"event: ping"])[:-1]
    head_ = head(b"content-type: text/event-stream", b"transfer-encoding: chunked")
    call, _ = await answered(answering(head_, *pieces, then=closing), ASKED)
    assert call.body == named(STREAMS[0]) + b"event: ping"
    assert call.sent[-1]["more_body"] is True
