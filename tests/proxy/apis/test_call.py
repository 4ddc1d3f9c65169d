"""Calls of real servers: tries, limits, redirects, results, and what an API sends back."""

import asyncio
import base64
import contextlib
import gzip
import itertools
import json
import re
import socket
import time
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

import pytest

from proxy.apis.call import Api, CallLimits, call
from proxy.apis.credentials import ClientCredentials, Digest
from proxy.apis.openapi.operations import operations_of
from runtime.fair_slots import FairSlots
from tests.proxy.apis.calling import LOOPBACK, OK, QUICK, accepts, bearer, called, operation, replies, served_api
from tests.support.api_server import ApiRequest, Reply, api_server
from tests.support.digest_gate import DigestGate
from tests.support.rows import all_rows
from tests.support.upstream_servers import certificate

JSON = ("Content-Type", "application/json")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_call_that_could_change_something_is_not_sent(method: str) -> None:
    async with served_api(accepts) as (server, api):
        outcome = await called(api, operation(method))
    assert server.requests == []
    assert (outcome.sent, outcome.status) == (False, 0)
    assert outcome.text == f"{method} /things could change something. This gateway only reads: nothing was sent."


# --- tries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_reading_call_is_tried_three_times(status: int) -> None:
    async with served_api(replies(Reply(status), Reply(status), OK)) as (server, api):
        assert (await called(api)).succeeded
    assert len(server.requests) == 3
    async with served_api(replies(Reply(status, b"busy"))) as (server, api):
        assert (await called(api)).text == f"The API answered with status {status}. busy"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500, 501])
async def test_another_status_is_the_outcome_of_the_first_try(status: int) -> None:
    async with served_api(replies(Reply(status, b"no"))) as (server, api):
        outcome = await called(api)
    assert outcome.text == f"The API answered with status {status}. no"
    assert (outcome.status, outcome.sent, len(server.requests)) == (status, True, 1)


async def test_a_connection_that_breaks_off_is_tried_again() -> None:
    for broken in (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"):
        async with served_api(replies(Reply(raw=broken), Reply(raw=broken), OK)) as (server, api):
            assert (await called(api)).succeeded
        assert len(server.requests) == 3
        async with served_api(replies(Reply(raw=broken))) as (server, api):
            outcome = await called(api)
        assert (outcome.text, outcome.sent) == ("The call failed: the connection broke off.", True)
        assert len(server.requests) == 3


async def test_a_server_that_does_not_listen_is_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    api = Api("things", f"http://127.0.0.1:{port}", networks=LOOPBACK)
    outcome = await called(api)
    await api.close()
    assert (outcome.text, outcome.sent) == ("The call failed: no connection.", False)


async def test_a_server_without_tls_is_named() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        api = Api("things", f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", networks=LOOPBACK)
        outcome = await called(api)
        await api.close()
    assert (outcome.text, outcome.sent) == ("The call failed: no connection (TLS failed).", False)


async def test_a_pause_longer_than_the_call_may_last_is_left_to_the_model() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=600, milliseconds=500), usegmt=True)
    for value, pause in (
        ("600", "600"),
        ("1893456000", "1893456000"),
        ("99999999999", "99999999999"),
        (soon, "(?:599|600)"),
    ):
        async with served_api(replies(Reply(429, b"slow down", [("Retry-After", value)]))) as (server, api):
            outcome = await called(api)
        assert len(server.requests) == 1
        expected = "The API answered with status 429 and asks for a pause of {} s. slow down"
        assert outcome.text in [expected.format(one) for one in pause.strip("(?:)").split("|")]


async def test_a_retry_after_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        reply = Reply(429, b"", [("Retry-After", time.asctime(time.gmtime(time.time() + 600.5)))])
        async with served_api(replies(reply)) as (_, api):
            assert re.search(r"a pause of (?:599|600) s", (await called(api)).text)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 4_000, "9" * 20])
async def test_a_pause_of_many_digits_is_no_pause(digits: str) -> None:
    async with served_api(replies(Reply(429, headers=[("Retry-After", digits)]))) as (_, api):
        text = (await called(api)).text
    assert text == f"The API answered with status 429 and asks for a pause of {'9' * 12} s. (empty)"


async def test_a_retry_after_that_is_no_time_is_ignored() -> None:
    for value in (
        "soon",
        "-5",
        "1e9",
        "Wed, 99 Foo 2015 07:28:00 GMT",
        "0",
        "Thu, 01 Jan 1970 00:00:00 GMT",
    ):
        async with served_api(replies(Reply(503, b"", [("Retry-After", value)]), OK)) as (server, api):
            assert (await called(api)).succeeded
        assert len(server.requests) == 2


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_call_ends_at_the_limit_of_time() -> None:
    async with served_api(replies(Reply(hold=True))) as (server, api):
        outcome = await called(api, limits=CallLimits(seconds=1.0))
        await server.left.wait()
    assert (outcome.text, outcome.sent, outcome.status) == ("The API did not answer within 1 s.", True, 0)


async def test_a_call_that_gets_no_connection_in_time_is_not_sent() -> None:
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # Linux ignores further connections while a queue of none has one
            stack.enter_context(socket.socket()).setblocking(False)
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        api = Api("things", f"http://127.0.0.1:{full.getsockname()[1]}", networks=LOOPBACK)
        outcome = await called(api, limits=CallLimits(seconds=0.2))
        await api.close()
    assert (outcome.word, outcome.sent) == ("timeout", False)
    assert outcome.text == "Nothing was sent: no connection to the API was ready within 0.2 s."


async def test_a_call_whose_first_try_was_sent_stays_sent() -> None:
    async def last(_: ApiRequest) -> Reply:
        server.close()
        return Reply(raw=b"")

    async with served_api(last) as (server, api):
        outcome = await called(api)
    assert (outcome.text, outcome.sent) == ("The call failed: no connection.", True)


async def test_a_call_without_a_token_is_not_sent() -> None:
    async with served_api(replies(Reply(hold=True))) as (server, api):
        api.auth = ClientCredentials(server.base_url + "/token", "client", "secret")
        outcome = await called(api, limits=CallLimits(seconds=0.2))
    assert server.targets == ["/token"]
    assert (outcome.word, outcome.sent) == ("timeout", False)


async def test_a_cancelled_call_closes_the_connection() -> None:
    async with served_api(replies(Reply(hold=True), OK)) as (server, api):
        running = asyncio.create_task(called(api))
        await server.arrived.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await server.left.wait()
        assert (await called(api)).succeeded


async def test_a_response_is_read_up_to_the_limit_of_bytes() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"x" * 3_000_000
    async with served_api(replies(Reply(raw=endless))) as (server, api):
        outcome = await called(api, limits=CallLimits(max_bytes=1000, max_chars=100))
        await server.left.wait()
    assert (outcome.size, len(outcome.whole)) == (1000, 1000)
    assert outcome.text.startswith("(the first 1,000 bytes of a longer response)\nxxx")
    assert len(outcome.text) < 250


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_response_is_unpacked_within_the_limit(encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = Reply(body=pack(b" " * 100_000_000), headers=[("Content-Encoding", encoding), JSON])
    small = Reply(body=pack(b'{"a": 1}'), headers=[("Content-Encoding", encoding.upper()), JSON])
    async with served_api(replies(bomb, small)) as (server, api):
        outcome = await called(api)
        assert outcome.size == QUICK.max_bytes
        assert (await called(api)).text == '{"a":1}'
    assert server.requests[0].headers["accept-encoding"] == "gzip"


async def test_an_endless_refusal_of_credentials_is_not_read_to_the_end() -> None:
    refusal = b"HTTP/1.1 401 X\r\nContent-Type: text/plain\r\n\r\n" + b"x" * 3_000_000
    async with served_api(replies(Reply(raw=refusal))) as (server, api):
        api.auth = ClientCredentials(f"{server.base_url}/token", "id", "secret")
        outcome = await called(api)
    assert outcome.text == "The call failed: the token endpoint answered with status 401 and no token."


@pytest.mark.parametrize("encoding", ["br", "gzip", "gzip, gzip"])
async def test_a_response_that_cannot_be_unpacked_is_a_sentence(encoding: str) -> None:
    async with served_api(replies(Reply(body=b"nonsense", headers=[("Content-Encoding", encoding)]))) as (_, api):
        assert (await called(api)).text == "The call failed: the response cannot be unpacked."


@pytest.mark.parametrize("value", [" a b ", " ", ""])
async def test_a_value_of_a_header_is_sent_without_spaces_at_the_ends(value: str) -> None:
    row = {"name": "X-A", "in": "header", "schema": {"type": "string"}}
    one = operations_of({"openapi": "3.1.0", "paths": {"/things": {"get": {"parameters": [row]}}}})[0][0]
    async with served_api(accepts) as (server, api):
        assert (await called(api, one, QUICK, **{"X-A": value})).succeeded
    assert server.requests[0].headers["x-a"] == value.strip()


@pytest.mark.parametrize("encoding", ["", "none", "UTF-8", "identity, gzip"])
async def test_an_encoding_that_is_none_is_ignored(encoding: str) -> None:
    body = gzip.compress(b'{"a":1}') if "gzip" in encoding else b'{"a":1}'
    async with served_api(replies(Reply(body=body, headers=[("Content-Encoding", encoding), JSON]))) as (_, api):
        assert (await called(api)).text == '{"a":1}'


@pytest.mark.parametrize("value", ["Süd", "Ünïcödé", "東京", "Kraków"])
async def test_a_value_of_a_header_is_sent_in_latin_1_where_it_fits(value: str) -> None:
    document = {"paths": {"/p": {"get": {"parameters": [{"name": "X-A", "in": "header", "schema": {}}]}}}}
    (one,) = operations_of({"openapi": "3.1.0", **document})[0]
    async with served_api(accepts) as (server, api):
        assert (await call(api, one, {one.parameters[0].argument: value}, QUICK)).succeeded
    sent = server.requests[0].headers["x-a"].encode("latin-1")
    fits = all(ord(letter) < 256 for letter in value)
    assert sent == value.encode("latin-1" if fits else "utf-8")


async def test_a_packed_response_is_read_to_the_end() -> None:
    members = gzip.compress(b"[1,2,") + gzip.compress(b"3]")
    body = b"".join(b"1\r\n%b\r\n" % members[at : at + 1] for at in range(len(members))) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\n"
    whole = Reply(body=members + b"\0\0", headers=[("Content-Encoding", "gzip"), JSON])
    in_bytes = Reply(raw=head + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    cut_off = Reply(body=gzip.compress(bytes(range(256)) * 99)[:-9], headers=[("Content-Encoding", "gzip")])
    async with served_api(replies(whole, in_bytes, cut_off)) as (_, api):
        assert (await called(api)).text == "[1,2,3]"
        assert (await called(api)).text == "[1,2,3]"
        assert (await called(api)).text == "The call failed: the response cannot be unpacked."


@pytest.mark.parametrize("reused", [False, True])
async def test_a_call_that_is_cancelled_at_any_moment_loses_no_connection(reused: bool) -> None:
    async with served_api(accepts) as (_, api):
        api._slots = FairSlots(1)
        for moments in itertools.count():
            if reused:
                await called(api)
            running = asyncio.create_task(called(api))
            for _ in range(moments):
                await asyncio.sleep(0)
            over = running.done()
            running.cancel()
            await asyncio.wait({running})
            outcome = await called(api, limits=CallLimits(seconds=5.0))
            assert outcome.succeeded, f"cancelled after {moments} steps of the event loop"
            if over:
                break
            if not reused:
                await api.close()
    assert moments > 4


async def test_calls_that_wait_for_a_connection_and_end_at_the_same_time_lose_no_connection() -> None:
    busy = True

    async def handler(_: ApiRequest) -> Reply:
        return Reply(hold=True) if busy else OK

    async with served_api(handler) as (_, api):
        for _ in range(5):
            waiting = (called(api, limits=CallLimits(seconds=0.2)) for _ in range(60))
            assert {one.word for one in await asyncio.gather(*waiting)} == {"timeout"}
        busy = False
        outcomes = await asyncio.gather(*(called(api, limits=CallLimits(seconds=5.0)) for _ in range(40)))
    assert all(one.succeeded for one in outcomes)


# --- redirects and connections ---------------------------------------------------------------------------------------


async def test_calls_share_a_connection_and_keep_no_cookies() -> None:
    cookie = Reply(body=b"{}", headers=[JSON, ("Set-Cookie", "session=1; Path=/")])
    async with served_api(replies(cookie)) as (server, api):
        for _ in range(3):
            await called(api)
    assert server.connections == 1
    assert all("cookie" not in one.headers for one in server.requests)


async def test_two_hundred_calls_of_a_key_at_a_time_share_twelve_connections() -> None:
    async with served_api(accepts) as (server, api):
        outcomes = await asyncio.gather(*(called(api) for _ in range(200)))
    assert all(one.succeeded for one in outcomes)
    assert server.connections <= 12


async def test_slow_calls_of_a_key_leave_connections_for_another_key() -> None:
    ends = asyncio.Event()

    async def slow(request: ApiRequest) -> Reply:
        if request.target == "/slow":
            await ends.wait()
        return OK

    async with served_api(slow) as (_, api):
        long = CallLimits(seconds=30)
        first = [asyncio.create_task(call(api, operation("GET", "/slow"), {}, long, owner="a")) for _ in range(200)]
        other = await call(api, operation(), {}, long, owner="b")
        waiting = await call(api, operation(), {}, CallLimits(seconds=0.1), owner="a")
        ends.set()
        outcomes = await asyncio.gather(*first)
    assert other.succeeded
    assert (waiting.word, waiting.sent) == ("timeout", False)
    assert waiting.text.startswith("Nothing was sent: other calls of this API, which are under way, did not end")
    assert all(one.succeeded for one in outcomes)


EVIL = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"evil":true'
# name -> the method, and the reply with bytes behind the end
SURPLUS = {
    "a second response": ("GET", Reply(body=b"{}", behind=EVIL)),
    "one byte": ("GET", Reply(body=b"{}", behind=b"\n")),
    "behind a 204": ("GET", Reply(204, behind=EVIL)),
    "behind a 304": ("GET", Reply(304, behind=EVIL)),
    "behind a HEAD": ("HEAD", Reply(body=b"{}", behind=EVIL)),
    "behind the last chunk": (
        "GET",
        Reply(headers=[("Transfer-Encoding", "chunked")], behind=b"2\r\n{}\r\n0\r\n\r\n" + EVIL),
    ),
    "many bytes": ("GET", Reply(body=b"{}", behind=EVIL * 5_000)),
}


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("kind", SURPLUS)
async def test_bytes_behind_a_response_are_not_the_response_to_the_next_call(
    kind: str, tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, pem = certificate(tmp_path, host="127.0.0.1") if tls else (None, "")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    method, reply = SURPLUS[kind]

    async def handler(request: ApiRequest) -> Reply:
        return reply if request.target == "/first" else OK

    async with api_server(handler, tls=context) as server:
        api = Api("things", server.base_url.replace("http:", "https:" if tls else "http:"), networks=LOOPBACK)
        for _ in range(3):
            assert (await called(api, operation(method, "/first"))).status == reply.status
            assert (await called(api)).text == '{"ok":true}'
        await api.close()
    numbers = [one.connection for one in server.requests]
    assert numbers == [1, 2, 2, 3, 3, 4] or "\n" in reply.behind.decode("latin-1")[:1]


async def test_bytes_that_come_before_the_next_call_are_not_the_response() -> None:
    """They come after the connection was given back, in a packet of their own."""
    async with served_api(accepts) as (server, api):
        await called(api)
        server.writers[0].write(EVIL)
        (connection,) = api.transport._client._open
        async with asyncio.timeout(10):
            while not connection.dead:  # noqa: ASYNC110 - nobody reports the bytes
                await asyncio.sleep(0)
        assert (await called(api)).text == '{"ok":true}'


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2   \r\n{}\r\n0  \r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: %b\r\nContent-Length: 2\r\n\r\n{}" % (b"a" * 70_000),
    ],
    ids=[
        "LF",
        "a length beside chunks",
        "padded sizes of chunks",
        "until the end of the connection",
        "a folded header",
        "a control character",
        "another version",
        "a large head",
    ],
)
async def test_the_framing_of_old_servers_is_read(raw: bytes) -> None:
    async with served_api(replies(Reply(raw=raw))) as (_, api):
        assert (await called(api)).text == "{}"


async def test_other_credentials_have_other_connections() -> None:
    async with served_api(accepts) as (server, api):
        other = Api("things", server.base_url, networks=LOOPBACK)
        other.share(api)
        for one in (api, other, api, other):
            await called(one)
    assert [one.connection for one in server.requests] == [1, 2, 1, 2]


async def test_redirects_within_the_origin_are_followed_with_the_method() -> None:
    async def steps(request: ApiRequest) -> Reply:
        number = int(request.target.rpartition("/")[2] or 0) if request.target != "/things" else 0
        return OK if number == 3 else Reply(302, b"", [("Location", f"/step/{number + 1}")])

    async with served_api(steps) as (server, api):
        assert (await called(api)).succeeded
        assert (await called(api, operation("HEAD"))).succeeded
    assert [one.method for one in server.requests] == ["GET"] * 4 + ["HEAD"] * 4


async def test_redirects_without_an_end_are_ended() -> None:
    async with served_api(replies(Reply(302, b"", [("Location", "/things")]))) as (server, api):
        assert (await called(api)).text == "The API redirects without an end."
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "location", ["https://127.0.0.1/", "http://127.0.0.1:1/", "//example.com/", "ftp://127.0.0.1/"]
)
async def test_a_redirect_to_another_origin_is_not_followed(location: str) -> None:
    async with served_api(replies(Reply(301, b"", [("Location", location)]))) as (server, api):
        outcome = await called(api)
    assert outcome.text == "The API answered with status 301. The API redirects to another server, which is not called."
    assert len(server.requests) == 1


@pytest.mark.parametrize("location", ["http://[::1/", "http:////[::1", "https://xn--a/"])
async def test_a_redirect_to_an_address_that_is_not_valid_is_a_sentence(location: str) -> None:
    async with served_api(replies(Reply(301, b"", [("Location", location)]))) as (_, api):
        assert (await called(api)).text == "The call failed: the address is not valid."


@pytest.mark.parametrize("query", ["_method=DELETE", "a=1&X-HTTP-Method-Override=PUT", "_METHOD=POST"])
async def test_a_redirect_that_names_another_method_is_not_followed(query: str) -> None:
    moved = Reply(307, headers=[("Location", f"/things?{query}")])
    async with served_api(replies(moved, OK)) as (server, api):
        outcome = await called(api)
    assert server.targets == ["/things"]
    assert outcome.text.startswith("The API answered with status 307.")


async def test_a_status_300_without_a_place_is_no_redirect() -> None:
    async with served_api(replies(Reply(304))) as (_, api):
        assert (await called(api)).text == "The API answered with status 304. (empty)"


# --- results ---------------------------------------------------------------------------------------------------------


async def test_problem_details_of_a_refusal_reach_the_model() -> None:
    problem = b'{"title": "Not allowed", "detail": "groupId must be 24 hex digits", "status": 400}'
    reply = Reply(400, problem, [("Content-Type", "application/problem+json")])
    async with served_api(replies(reply)) as (_, api):
        text = (await called(api)).text
    assert text.startswith("The API answered with status 400. {")
    assert json.loads(text.partition(". ")[2]) == json.loads(problem)


@all_rows(
    ("body", "media_type", "expected"),
    [
        (b"", "", "The API answered with status 200 and no content."),
        (b'{"a": [1]}', "application/vnd.atlas.2023-02-01+json", '{"a":[1]}'),
        (b"\xef\xbb\xbf{}", "application/json", "{}"),
        (b'{"a": ', "application/json", '{"a": '),
        (b'{"a": NaN}', "application/json", '{"a": NaN}'),
        ("Zürich".encode("latin-1"), "text/plain; charset=ISO-8859-1", "Zürich"),
        ('{"a": "Zürich"}'.encode("utf-16"), "application/json; charset=utf-16", '{"a":"Zürich"}'),
        ("Zürich".encode(), 'text/plain; charset="utf-8"', "Zürich"),
        (b"plain", "text/plain; charset=unknown-1", "plain"),
        (b"\xff\xfe\x00", "image/png", "(image/png, 3 bytes)"),
        (b"%PDF-1.7", "application/pdf", "(application/pdf, 8 bytes)"),
        (b"a,b\n1,2", "application/csv", "a,b\n1,2"),
        (b'\x1e{"a":1}\n', "application/json-seq", '\x1e{"a":1}\n'),
        (b"<html><head><title>t</title></head><body><p>Out of order</p></body></html>", "text/html", "Out of order"),
    ],
)
async def test_a_response_is_a_text_for_the_model(body: bytes, media_type: str, expected: str) -> None:
    headers = [("Content-Type", media_type)] if media_type else []
    async with served_api(replies(Reply(body=body, headers=headers))) as (_, api):
        assert (await called(api)).text == expected


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([("Link", '<https://x.example/p?page=2>; rel="next", <https://x.example/p?page=9>; rel="last"')], "page=2."),
        ([("Link", "</p?page=2>; rel=next"), ("X-Total-Count", "57")], "page=2 and there are 57 rows in all."),
        ([("Link", '</p?page=1>; rel="prev first"'), ("X-Total", "57")], "there are 57 rows in all."),
        ([("Link", '</p?cursor=a%20b>; title="more"; rel="last next"')], "/p?cursor=a%20b."),
    ],
)
async def test_further_pages_that_the_headers_name_are_in_the_result(
    headers: list[tuple[str, str]], words: str
) -> None:
    async with served_api(replies(Reply(body=b"[1]", headers=[JSON, *headers]))) as (_, api):
        text = (await called(api)).text
    assert text.startswith("[1]\n(By the headers of the response, ")
    assert text.endswith(f"{words})")
    assert "page=9" not in text


@pytest.mark.parametrize("header", [("Link", "next"), ("Link", "<>;;rel=,"), ("X-Total-Count", "many"), ("Link", "")])
async def test_other_headers_of_pages_are_left_out(header: tuple[str, str]) -> None:
    async with served_api(replies(Reply(body=b"[1]", headers=[JSON, header]))) as (_, api):
        assert (await called(api)).text == "[1]"


async def test_a_head_call_has_a_status_and_no_content() -> None:
    async with served_api(replies(Reply(204), Reply(404))) as (_, api):
        assert (await called(api, operation("HEAD"))).text == "The API answered with status 204 and no content."
        assert (await called(api, operation("HEAD"))).text == "The API answered with status 404. (empty)"


async def test_a_large_result_is_cut_by_structure() -> None:
    rows = [{"id": number, "name": "x" * 50} for number in range(5000)]
    async with served_api(replies(Reply(body=json.dumps(rows).encode(), headers=[JSON]))) as (_, api):
        outcome = await called(api)
    cut = json.loads(outcome.text)
    assert cut[0] == rows[0]
    assert cut[-1] == f"… {5000 - len(cut) + 1:,} more".replace(",", "")
    assert len(outcome.text) <= QUICK.max_chars


# --- secrets ---------------------------------------------------------------------------------------------------------


SECRET = 'pa"ss/wörd+<1>\\'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        SECRET.encode().hex(),
        quote(SECRET).lower(),
    ],
)
async def test_a_secret_that_the_api_sends_back_is_masked(form: str) -> None:
    for status in (200, 500):
        reply = Reply(status, f"before {form} after".encode(), [("Content-Type", "text/plain")])
        async with served_api(replies(reply), bearer("x"), secrets=[SECRET]) as (_, api):
            outcome = await called(api)
        assert "…" in outcome.text
        assert outcome.text.replace('"', "").replace("=", "").endswith("before … after")


async def test_a_secret_at_a_cut_is_masked() -> None:
    body = b"a" * 45 + b"secret-value-123" + b"b" * 900
    async with served_api(replies(Reply(body=body)), secrets=["secret-value-123"]) as (_, api):
        outcome = await called(api, limits=CallLimits(max_chars=100))
    assert "secret" not in outcome.text
    assert outcome.whole == "a" * 45 + "…" + "b" * 900, "the shelf gets the masked result"


async def test_a_secret_number_is_masked_and_json_stays_json() -> None:
    body = b'{"groupId": 123456789, "rows": [123456789,5], "text": "id 123456789, 5", "other": 91234567890}'
    async with served_api(replies(Reply(body=body, headers=[JSON])), secrets=["123456789"]) as (_, api):
        text = (await called(api)).text
    assert json.loads(text) == {"groupId": "…", "rows": ["…", 5], "text": "id …, 5", "other": 91234567890}


async def test_a_short_fixed_argument_is_masked_as_a_whole_word_only() -> None:
    async with served_api(replies(Reply(body=b"acme acmeology eu neutral")), secrets=["acme", "eu"]) as (_, api):
        assert (await called(api)).text == "… acmeology eu neutral"


async def test_a_secret_that_contains_another_secret_is_masked_whole() -> None:
    body = b"acme-client.d8f7c1 YWNtZS1jbGllbnQuZDhmN2Mx acme-client"
    async with served_api(replies(Reply(body=body)), secrets=["acme-client", "acme-client.d8f7c1"]) as (_, api):
        assert (await called(api)).text == "… … …"


async def test_a_fixed_argument_that_is_a_word_of_json_is_not_masked() -> None:
    body = b'{"active":true,"deleted":false,"name":null}'
    async with served_api(replies(Reply(body=body, headers=[JSON])), secrets=["true", "false", "null"]) as (_, api):
        assert (await called(api)).text == body.decode()


async def test_a_token_that_the_api_sends_back_is_masked() -> None:
    async def echoes(request: ApiRequest) -> Reply:
        if request.target == "/token":
            return Reply(body=b'{"access_token": "fetched-token-1"}')
        return Reply(403, request.headers["authorization"].encode())

    async with served_api(echoes) as (server, api):
        api.auth = ClientCredentials(f"{server.base_url}/token", "id", "secret")
        assert (await called(api)).text == "The API answered with status 403. Bearer …"


LONG_SECRET = "Canary-<5e1f>/77+aa"


def php(value: object) -> str:
    """JSON as PHP writes JSON."""
    return json.dumps(value).replace("/", "\\/")


@all_rows(
    ("body", "media_type"),
    [
        (json.dumps({"a": LONG_SECRET}).replace("<", "\\u003c").replace("/", "\\/").encode(), "application/json"),
        ("".join(f"\\u{ord(one):04X}" for one in LONG_SECRET).join(['{"a": "', '"}']).encode(), "application/json"),
        (json.dumps({"a": LONG_SECRET}).encode("utf-16"), "application/json; charset=utf-16"),
        (json.dumps({"a": LONG_SECRET}).encode("utf-16"), "application/json"),
        (json.dumps({"a": LONG_SECRET}).encode("utf-16-be"), "text/plain"),
        ("".join(f"&#{ord(one)};" for one in LONG_SECRET).encode(), "text/html"),
        ("".join(f"&#x{ord(one):X}" for one in LONG_SECRET).encode(), "application/xml"),
        (LONG_SECRET.upper().encode(), "text/plain"),
        *(
            (frame.format(outer({"a": inner({"b": LONG_SECRET})})).encode(), media_type)
            for frame, media_type in (
                ("data: {}\n\n", "text/event-stream"),
                ("callback({});", "application/javascript"),
                ("<script>a = {}</script>", "text/html"),
                ("{}", "application/json"),
                ("{}", ""),
            )
            for outer, inner in itertools.product((json.dumps, php), (dict, json.dumps, php))
        ),
        (LONG_SECRET.encode(), f"application/{LONG_SECRET}"),
        *((base64.b64encode(b"key:x"[at:] + LONG_SECRET.encode() + b"!"), "text/plain") for at in range(3)),
    ],
)
@all_rows("max_chars", [10_000, 20])
async def test_a_secret_in_another_encoding_is_masked_before_the_cut(
    body: bytes, media_type: str, max_chars: int
) -> None:
    reply = Reply(body=body, headers=[("Content-Type", media_type)])
    async with served_api(replies(reply), secrets=[LONG_SECRET]) as (_, api):
        outcome = await called(api, limits=CallLimits(max_chars=max_chars))
    shown = (outcome.text + outcome.whole).replace("\0", "").replace("\\x00", "")
    packed = base64.b64encode(LONG_SECRET[3:-3].encode()).decode()
    for piece in (LONG_SECRET[:7], LONG_SECRET[-7:], packed[:8]):
        assert piece.lower() not in shown.lower()


SIGNS = "Pa&ss'w*rd!(7)~\"<x>/q"


@pytest.mark.parametrize(
    "form",
    [
        quote(SIGNS, safe="!~*'()"),  # encodeURIComponent of JavaScript
        quote(SIGNS, safe=";/?:@&=+$,#!~*'()"),  # encodeURI
        quote_plus(SIGNS, safe="*").replace("~", "%7E"),  # URLEncoder of Java, URLSearchParams
        quote(quote(SIGNS, safe=""), safe=""),  # an address within an address
        escape(SIGNS),  # the text of an element
        quoteattr(SIGNS),
        escape(SIGNS, {'"': "&quot;", "'": "&apos;"}),
        escape(SIGNS, {'"': "&#34;", "'": "&#039;"}),
        escape(escape(SIGNS)),
        repr(SIGNS),
    ],
)
async def test_a_secret_is_masked_where_only_some_signs_are_encoded(form: str) -> None:
    bodies = (("text/plain", form), ("application/xml", form), ("application/json", json.dumps({"a": form})))
    for media_type, body in bodies:
        reply = Reply(403, body.encode(), [("Content-Type", media_type)])
        async with served_api(replies(reply), secrets=[SIGNS]) as (_, api):
            outcome = await called(api)
        assert "…" in outcome.text
        assert not re.search(r"Pa|w\*rd", outcome.text)


async def test_a_secret_at_the_limit_of_bytes_is_masked() -> None:
    for at in range(20):
        body = b"a" * (100 - at) + b"secret-value-123" + b"b" * 900
        async with served_api(replies(Reply(body=body)), secrets=["secret-value-123"]) as (_, api):
            outcome = await called(api, limits=CallLimits(max_bytes=100))
        assert set(outcome.text.partition("\n")[2]) <= set("a…")


async def test_the_proof_of_a_digest_that_the_api_sends_back_is_masked() -> None:
    gate = DigestGate("ann", "s3cret-word")

    async def echoes(request: ApiRequest) -> Reply:
        reply = await gate(request)
        body = json.dumps({"sent": request.headers.get("authorization", "")}).encode()
        return Reply(reply.status, body, [JSON, *reply.headers])

    async with served_api(echoes, Digest("ann", "s3cret-word")) as (server, api):
        outcome = await called(api)
    sent = server.requests[-1].headers["authorization"]
    (response,) = re.findall(r'response="(\w+)"', sent)
    assert outcome.succeeded
    assert response not in outcome.text
    assert json.loads(outcome.text) == {"sent": "Digest …"}


async def test_a_token_of_an_earlier_answer_is_masked_as_the_request_had_the_token() -> None:
    async def echoes(request: ApiRequest) -> Reply:
        return Reply(body=f"{request.headers['authorization']} x".encode())

    async with served_api(echoes, bearer("a-token-of-the-caller")) as (_, api):
        assert (await called(api)).text == "Bearer … x", "without a secret in the list"
