"""What travels to the upstream and back, what does not, and how failures and departures end."""

import gzip
import socket

import orjson
import pytest

from proxy.dialects.errors import ApiError
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.upstream.relay import Relay, end_to_end, request_headers, url_of
from runtime.http_client import Client
from tests.support.asgi_calls import Call, exchange_to, scope_of
from tests.support.clients import client
from tests.support.rows import all_rows
from tests.support.upstream_servers import (
    Script,
    Wire,
    answering,
    chunked,
    closing,
    head,
    reply,
    resetting,
    staying,
    upstream,
)

CHUNKED = b"transfer-encoding: chunked"
KEY = "sk-not-to-be-seen"
STREAM = answering(head(CHUNKED) + b"2\r\nok\r\n", then=staying)  # begins, and never ends


async def relayed(http: Client, exchange: Exchange, call: Call | None = None) -> Call:
    """One POST through a relay."""
    return await (call or Call()).to(Relay(http), scope_of(exchange=exchange))


# --- the request --------------------------------------------------------------------------------------------------


async def test_the_request_arrives_as_sent_but_for_place_and_key() -> None:
    body = b'{"model": "gpt-x",  "messages": [], "unknown": 1e400}'
    headers = [(b"host", b"gateway"), (b"content-type", b"application/json"), (b"content-length", b"999")]
    async with upstream(answering(reply(b"{}"))) as server, client() as http:
        exchange = exchange_to(f"{server.url}/base/v1", api_key=KEY)
        call = Call(pieces=(body[:9], body[9:20], body[20:]))
        scope = scope_of(headers=headers, query=b"a=1&b=%20", exchange=exchange)
        await call.to(Relay(http), scope)
        (received,) = server.requests
        assert received.line == b"POST /base/v1/chat/completions?a=1&b=%20 HTTP/1.1"
        assert received.body == body
        assert received.headers == [
            (b"host", server.url.removeprefix("http://").encode()),
            (b"content-type", b"application/json"),
            (b"authorization", b"Bearer " + KEY.encode()),
            (b"content-length", b"%d" % len(body)),
        ]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
async def test_the_method_travels(method: str) -> None:
    async with upstream(answering(reply(b"x"))) as server, client() as http:
        call = Call(pieces=(b"",))
        await call.to(Relay(http), scope_of("/v1/files/f-1", method=method, exchange=exchange_to(server.url)))
        assert server.requests[0].line == f"{method} /files/f-1 HTTP/1.1".encode()
        assert call.body == b"x"


async def test_a_head_request_gets_a_head() -> None:
    async with upstream(answering(head(b"content-length: 9"))) as server, client() as http:
        call = Call(pieces=(b"",))
        await call.to(Relay(http), scope_of("/v1/files/f", method="HEAD", exchange=exchange_to(server.url)))
        assert (call.headers, call.body, call.whole) == ([(b"content-length", b"9")], b"", True)


TRAVELLING = [
    (b"accept", b"text/event-stream"), (b"accept-encoding", b"gzip"), (b"accept-language", b"de"),
    (b"cache-control", b"no-cache"), (b"content-type", b"application/json; charset=utf-8"),
    (b"idempotency-key", b"i-1"), (b"openai-beta", b"assistants=v2"), (b"traceparent", b"00-1-2-01"),
    (b"tracestate", b"a=b"), (b"user-agent", b"OpenAI/Python"), (b"x-client-request-id", b"c"), (b"x-request-id", b"r"),
    (b"x-stainless-retry-count", b"0"),
]  # fmt: skip
STAYING = [
    (b"authorization", b"Bearer of-the-client"), (b"connection", b"close"), (b"cookie", b"a=b"),
    (b"api-key", b"k"), (b"x-api-key", b"k"), (b"proxy-authorization", b"Basic x"), (b"forwarded", b"for=1"),
    (b"x-forwarded-for", b"10.0.0.1"), (b"x-rag", b"on"), (b"x-rag-collection", b"docs"), (b"expect", b"100-continue"),
    (b"transfer-encoding", b"chunked"), (b"content-length", b"2"), (b"te", b"trailers"), (b"upgrade", b"h2c"),
    (b"openai-organization", b"org"), (b"openai-project", b"p"), (b"openai_beta", b"x"), (b"content_type", b"x"),
    (b"openai-be_ta", b"x"), (b"x-stainless_os", b"x"), (b"origin", b"https://a"), (b"referer", b"https://a"),
    (b"x-unknown", b"1"), (b"if-none-match", b"e"), (b"range", b"bytes=0-1"), (b"host", b"gateway"),
    (b"content-encoding", b"gzip"),
]  # fmt: skip


async def test_only_the_listed_headers_travel() -> None:
    async with upstream(answering(reply(b"{}"))) as server, client() as http:
        scope = scope_of(headers=[*STAYING, *TRAVELLING], exchange=exchange_to(server.url))
        await Call().to(Relay(http), scope)
        sent = server.requests[0].headers
    own = {b"host": server.url.removeprefix("http://").encode(), b"content-length": b"2"}
    assert [header for header in sent if header[0] not in own] == TRAVELLING
    assert {name: value for name, value in sent if name in own} == own


def test_without_a_key_no_authorization_is_sent() -> None:
    assert request_headers([(b"authorization", b"Bearer of-the-client")], Target("m", "relay", "http://a", "")) == []


@all_rows(
    ("path", "raw_path", "query", "url"),
    [
        ("/v1/models", b"/v1/models", b"", "http://u/b/models"),
        ("/v1/models/org/name", b"/v1/models/org%2Fname", b"", "http://u/b/models/org%2Fname"),
        ("/v1/models/é", b"/v1/models/%C3%A9", b"", "http://u/b/models/%C3%A9"),
        ("/v1/models/é", b"", b"", "http://u/b/models/%C3%A9"),
        ("/v1/models/é", "/v1/models/é".encode(), b"", "http://u/b/models/%C3%A9"),
        ("/v1/models/a b", b"/%761/models/a%20b", b"", "http://u/b/models/a%20b"),
        ("/v1/files", b"/v1/files", b"limit=1&after=%2F", "http://u/b/files?limit=1&after=%2F"),
        ("/v1", b"/v1", b"", "http://u/b"),
        ("/v1/", b"/v1/", b"", "http://u/b/"),
        ("/v1/a..b/...", b"/v1/a..b/...", b"", "http://u/b/a..b/..."),
    ],
)
@all_rows("slash", ["", "/"])
def test_the_path_behind_v1_is_joined_to_api_base(
    path: str, raw_path: bytes, query: bytes, url: str, slash: str
) -> None:
    assert url_of("http://u/b" + slash, scope_of(path, raw_path=raw_path, query=query)) == url


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../admin",
        "/v1/files/..",
        "/v1/./files",
        "/v1/files\\..\\..\\admin",
        "/v1/audio/..;/files",
        "/v1/audio/%2e%2E/files",
    ],
)
async def test_a_path_that_climbs_out_of_api_base_is_refused(path: str) -> None:
    async with upstream(answering(reply(b"{}"))) as server, client() as http:
        scope = scope_of(path, raw_path=b"/v1/files/%2e%2e", exchange=exchange_to(server.url, api_key=KEY))
        with pytest.raises(ApiError) as caught:
            await Call().to(Relay(http), scope)
        assert (caught.value.status, caught.value.code) == (400, "invalid_path")
        assert server.connections == 0


# --- the reply ----------------------------------------------------------------------------------------------------


async def test_the_reply_arrives_as_sent_but_for_its_hop() -> None:
    body = gzip.compress(b'{"choices": []}', mtime=0)
    raw = reply(
        body,
        b"Content-Encoding: gzip",
        b"Connection: Keep-Alive, X-Hop",
        b"Keep-Alive: timeout=5",
        b"X-Hop: 1",
        b"openai-processing-ms: 12",
        b"Set-Cookie: a",
        b"Set-Cookie: b",
        b"Proxy-Authenticate: x",
        b"Trailer: x-t",
        b"x-ratelimit-remaining-tokens: 9",
        b"Date: now",
        b"Server: them",
    )
    async with upstream(answering(raw)) as server, client() as http:
        call = await relayed(http, exchange := exchange_to(server.url))
    assert (call.status, call.body, call.whole) == (200, body, True)
    assert call.headers == [
        (b"content-length", b"%d" % len(body)),
        (b"content-encoding", b"gzip"),
        (b"openai-processing-ms", b"12"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"x-ratelimit-remaining-tokens", b"9"),
        (b"date", b"now"),
        (b"server", b"them"),
    ]
    assert (call.status, exchange.error) == (200, "")
    assert [step.kind for step in exchange.steps if step.duration_ms] == ["upstream"]


async def test_each_chunk_is_one_message_and_the_end_is_another() -> None:
    frames = [b"data: 1\n\n", b": ping\n\n", b"data: [DONE]\n\n"]
    call = Call()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(CHUNKED, b"content-type: text/event-stream"))
        for count, coded in enumerate(chunked(frames)[:-1], start=2):
            await wire.send(coded)
            await call.until_sent(count)
        await wire.send(b"0\r\n\r\n")
        await wire.gone()

    async with upstream(script) as server, client() as http:
        await relayed(http, exchange_to(server.url), call)
    assert [(m["body"], m["more_body"]) for m in call.sent[1:]] == [*((frame, True) for frame in frames), (b"", False)]


@pytest.mark.parametrize("status", [b"301 Moved", b"400 Bad", b"404 No", b"429 Slow", b"500 Oh", b"529 Over"])
async def test_redirects_and_errors_of_the_upstream_pass_as_they_came(status: bytes) -> None:
    raw = reply(b'{"error": "theirs"}', b"location: http://127.0.0.1:9/", b"retry-after: 3", status=status)
    async with upstream(answering(raw)) as server, client() as http:
        call = await relayed(http, exchange_to(server.url))
    assert (call.status, call.body) == (int(status.split()[0]), b'{"error": "theirs"}')
    assert call.headers[1:] == [(b"location", b"http://127.0.0.1:9/"), (b"retry-after", b"3")]


def test_a_not_modified_reply_tells_no_length() -> None:
    assert end_to_end([(b"Content-Length", b"9"), (b"ETag", b"e")], 304) == [(b"etag", b"e")]


# --- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        (answering(then=closing), 502, "upstream_closed"),
        (answering(then=resetting), 502, "upstream_closed"),
        (answering(b"HTTP/1.1 20", then=closing), 502, "upstream_closed"),
        (answering(b"nonsense", then=staying), 502, "upstream_bad_reply"),
        (answering(head(b"content-length: 1", CHUNKED), then=staying), 502, "upstream_bad_reply"),
        (answering(then=staying), 504, "upstream_timeout"),
    ],
    ids=["closed", "reset", "closed in the head", "no HTTP", "two framings", "silent"],
)
async def test_a_failure_before_the_head_is_an_error_of_ours(script: Script, status: int, code: str) -> None:
    async with upstream(script) as server, client(first_byte_timeout_s=0.1, max_connections=1) as http:
        for _ in range(2):
            call, exchange = Call(), exchange_to(server.url, api_key=KEY)
            with pytest.raises(ApiError) as caught:
                await relayed(http, exchange, call)
            assert_clear(caught.value, status, code, server.url.removeprefix("http://"))
            assert call.sent == []

        assert len(server.requests) == 2


def assert_clear(error: ApiError, status: int, code: str, host: str) -> None:
    """The status and code; something to check in the text, the upstream's host in the log alone, and not the key."""
    assert (error.status, error.code, error.type) == (status, code, "upstream_error")
    assert host not in error.message
    assert host in error.log_text
    assert error.log_text.startswith(f"{code}: ")
    assert "Check" in error.message or "Try again" in error.message
    assert KEY not in error.message + repr(error.__cause__)
    assert orjson.loads(error.body())["error"]["message"] == error.message


async def test_an_upstream_that_cannot_be_reached_is_named() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{bound.getsockname()[1]}"
        async with client() as http:
            with pytest.raises(ApiError) as caught:
                await relayed(http, exchange_to(f"http://{host}/v1", api_key=KEY))
    assert_clear(caught.value, 502, "upstream_unreachable", host)
    assert "'gpt-x'" in caught.value.message


async def test_connecting_and_waiting_for_a_connection_may_time_out() -> None:
    async with upstream(staying) as server, client(connect_timeout_s=0.05, max_connections=1) as http:
        host = server.url.removeprefix("http://")
        with pytest.raises(ApiError) as caught:
            await relayed(http, exchange_to(f"https://{host}", api_key=KEY))
        assert_clear(caught.value, 504, "upstream_timeout", host)
    async with upstream(STREAM) as server, client(connect_timeout_s=0.05, max_connections=1) as http:
        held = await http.request(b"POST", server.url, [], b"")
        with pytest.raises(ApiError) as caught:
            await relayed(http, exchange_to(server.url, api_key=KEY))
        assert_clear(caught.value, 504, "upstream_timeout", server.url.removeprefix("http://"))
        held.close()


@pytest.mark.parametrize("key", [KEY + "\n", KEY + "\r\nx: y", "ключ" + KEY])
async def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_show_it(key: str) -> None:
    async with upstream(STREAM) as server, client() as http:
        with pytest.raises(ApiError) as caught:
            await relayed(http, exchange_to(server.url, api_key=key))
        assert (caught.value.status, caught.value.code) == (502, "upstream_unreachable")
        assert "key of model 'gpt-x'" in caught.value.message
        assert KEY not in caught.value.message
        assert server.connections == 0


@pytest.mark.parametrize("then", [closing, resetting], ids=["closed", "reset"])
async def test_a_reply_cut_after_its_head_is_not_brought_to_an_end(then: Script) -> None:
    call = Call()

    async def cut(wire: Wire) -> None:
        await call.until_sent(2)
        await then(wire)

    script = answering(head(CHUNKED) + b"9\r\ndata: 1\n\n\r\n", then=cut)
    async with upstream(script) as server, client(max_connections=1) as http:
        await relayed(http, exchange := exchange_to(server.url), call)
    assert (call.status, call.body, call.whole) == (200, b"data: 1\n\n", False)
    assert exchange.error.startswith("upstream_cut: 127.0.0.1:")


async def test_a_reply_that_falls_silent_is_not_brought_to_an_end() -> None:
    async with upstream(STREAM) as server, client(idle_timeout_s=0.05, max_connections=1) as http:
        for _ in range(2):
            call = await relayed(http, exchange := exchange_to(server.url))
            assert (call.body, call.whole) == (b"ok", False)
            assert "0.05 s" in exchange.error
        await server.until_open(0)
