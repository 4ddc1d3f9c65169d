"""Connections: made, reused, limited, closed; and no slot lost whatever is cancelled."""

import asyncio
import contextlib
import socket
import threading

import pytest

from runtime.http_client import Address, Client, ConnectFailed, ConnectTimeout, Cut, PoolTimeout, Response
from runtime.logs import host_of
from tests.support.clients import chunks_of, client, fetch
from tests.support.rows import all_rows
from tests.support.upstream_servers import (
    Upstream,
    Wire,
    answering,
    chunked,
    head,
    reply,
    staying,
    upstream,
)

CHUNKED = b"transfer-encoding: chunked"
OK = answering(reply(b"ok"))
STREAM = answering(head(CHUNKED) + b"2\r\nok\r\n", then=staying)  # begins, and never ends


async def numbered(wire: Wire) -> None:
    """Answer every request with the connection's number."""
    while True:
        await wire.request()
        await wire.send(reply(b"%d" % wire.number))


async def hold(http: Client, server: Upstream, count: int) -> list[Response]:
    """`count` requests at once, each holding its slot."""
    return list(await asyncio.gather(*(http.request(b"POST", server.url, [], b"") for _ in range(count))))


# --- reuse --------------------------------------------------------------------------------------------------------


async def test_a_connection_is_used_again() -> None:
    async with upstream(OK) as server, client() as http:
        for _ in range(5):
            assert (await fetch(http, server.url))[2] == b"ok"
        assert server.connections == 1


async def test_the_last_connection_parked_is_the_first_used() -> None:
    async with upstream(numbered) as server, client() as http:
        held = await hold(http, server, 3)
        bodies = {response: b"".join([chunk async for chunk in chunks_of(response)]) for response in held}
        assert sorted(bodies.values()) == [b"1", b"2", b"3"]
        for _ in range(3):
            assert (await fetch(http, server.url))[2] == bodies[held[-1]]


async def test_lanes_share_no_connection_and_keep_few_in_all() -> None:
    async with upstream(numbered) as server, client(max_idle=2) as http:
        places = [(Address("http", "127.0.0.1", server.port, lane), b"host", b"/") for lane in "abcac"]
        bodies = [(await fetch(http, place))[2] for place in places]
    assert bodies == [b"1", b"2", b"3", b"4", b"3"], "the oldest idle connection was closed for the third"


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
async def test_a_connection_that_the_upstream_closed_meanwhile_is_not_used(last_words: bytes) -> None:
    closed = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(reply(b"%d" % wire.number))
        if wire.number == 1:
            await proceed.wait()
            await wire.send(last_words)
            await wire.close()
            closed.set()
        await wire.gone()

    proceed = asyncio.Event()
    async with upstream(script) as server, client() as http:
        assert (await fetch(http, server.url))[2] == b"1"
        proceed.set()
        await closed.wait()
        assert (await fetch(http, server.url))[2] == b"2"


@pytest.mark.parametrize(
    "raw",
    [
        reply(b"ok") + b"x",
        reply(b"ok") + reply(b"for nobody"),
        reply(b"ok", b"connection: close"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        head(CHUNKED) + b"".join(chunked([b"ok"])) + b"\0",
    ],
    ids=["stray byte", "second reply", "connection: close", "HTTP/1.0", "stray byte after chunks"],
)
async def test_a_connection_that_cannot_be_trusted_is_not_used_again(raw: bytes) -> None:
    async with upstream(answering(raw)) as server, client(max_connections=1) as http:
        for _ in range(3):
            assert (await fetch(http, server.url))[2] == b"ok"
        assert server.connections == 3


async def test_an_old_idle_connection_is_not_used() -> None:
    async with upstream(OK) as server, client(keepalive_s=0.0) as http:
        for _ in range(3):
            assert (await fetch(http, server.url))[2] == b"ok"
        assert server.connections == 3


async def test_an_old_idle_connection_is_closed_without_another_request() -> None:
    async with upstream(OK) as server, client(keepalive_s=0.05) as http:
        for response in await hold(http, server, 3):
            assert [chunk async for chunk in chunks_of(response)] == [b"ok"]
        await server.until_open(0)


async def test_addresses_do_not_share_connections() -> None:
    async with upstream(OK) as one, upstream(OK) as two, client(max_connections=1) as http:
        for server in (one, two, one, two):
            await fetch(http, server.url)
        assert (one.connections, two.connections) == (1, 1)


async def test_nothing_is_sent_twice() -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(reply(b"ok"))
        await wire.request()
        wire.reset()

    async with upstream(script) as server, client() as http:
        await fetch(http, server.url)
        with pytest.raises(Cut):
            await fetch(http, server.url)
        assert (len(server.requests), server.connections) == (2, 1)


@pytest.mark.parametrize("late", [False, True], ids=["before the next request", "after the next request"])
async def test_no_connection_is_used_twice_where_the_upstream_closes_right_after_a_reply(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(reply(b"%d" % wire.number))
        if wire.number == 1:
            if late:
                await wire.request()
            await wire.close()
            closed.set()
            return
        await numbered(wire)

    async with upstream(script) as server, client() as http:
        assert (await fetch(http, server.url))[2] == b"1"
        if late:
            with pytest.raises(Cut):
                await fetch(http, server.url)
        await closed.wait()
        assert [(await fetch(http, server.url))[2] for _ in range(2)] == [b"2", b"3"]
        monkeypatch.setattr("runtime.http_client._SOON_S", 0.0)
        assert [(await fetch(http, server.url))[2] for _ in range(3)] == [b"2", b"2", b"2"]


# --- limits -------------------------------------------------------------------------------------------------------


async def test_more_requests_than_connections_wait_for_their_turn() -> None:
    async with upstream(numbered) as server, client(max_connections=3) as http:
        replies = await asyncio.gather(*(fetch(http, server.url) for _ in range(50)))
        assert {body for _, _, body in replies} <= {b"1", b"2", b"3"}
        assert server.connections <= 3


async def test_waiting_for_a_connection_ends_with_a_pool_timeout() -> None:
    async with upstream(STREAM) as server, client(max_connections=2, connect_timeout_s=0.05) as http:
        held = await hold(http, server, 2)
        with pytest.raises(PoolTimeout, match="all 2 connections"):
            await fetch(http, server.url)
        held[0].close()
        held += await hold(http, server, 1)
        assert await anext(chunks_of(held[-1])) == b"ok"
        for response in held:
            response.close()
            response.close()
        await server.until_open(0)


async def test_a_reply_closed_before_its_end_closes_the_connection_and_is_not_read_on() -> None:
    async with upstream(STREAM) as server, client(max_connections=1) as http:
        response = await http.request(b"POST", server.url, [], b"")
        chunks = chunks_of(response)
        assert await anext(chunks) == b"ok"
        response.close()
        await server.until_open(0)
        with pytest.raises(Cut):
            await anext(chunks)


async def test_a_reply_that_came_whole_may_be_closed_unread_and_its_connection_used_again() -> None:
    replies = iter([reply(b"first"), reply(b"second")])

    async def script(wire: Wire) -> None:
        for raw in replies:
            await wire.request()
            await wire.send(raw)
        await wire.gone()

    async with upstream(script) as server, client(max_connections=1) as http:
        unread = await http.request(b"POST", server.url, [], b"")
        unread.close()
        assert (await fetch(http, server.url))[2] == b"second"
        assert server.connections == 1
        with pytest.raises(Cut):  # what the next reply brought is not this one's
            await anext(chunks_of(unread))


async def test_an_end_that_has_arrived_and_was_not_yet_seen_counts() -> None:
    """The upstream's FIN is in our socket, and the event loop has had no turn to say so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def answer_once() -> socket.socket:
            accepted, _ = listener.accept()
            accepted.recv(1 << 16)
            accepted.sendall(reply(b"ok"))
            return accepted

        async with client(max_connections=1) as http:
            for _ in range(3):
                answering_now = asyncio.create_task(asyncio.to_thread(answer_once))
                url = f"http://127.0.0.1:{listener.getsockname()[1]}"
                assert (await fetch(http, url, b""))[2] == b"ok"
                (await answering_now).close()  # and straight on to the next request


async def test_closing_the_client_ends_everything() -> None:
    async with upstream(STREAM) as server, client(max_connections=2) as http:
        held = await hold(http, server, 2)
        waiting = asyncio.ensure_future(fetch(http, server.url))
        chunks = chunks_of(held[0])
        await anext(chunks)
        reading = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        http.close()
        with pytest.raises(Cut):
            await reading
        held[1].close()
        with pytest.raises(RuntimeError, match="closed"):
            await waiting
        await server.until_open(0)
        with pytest.raises(RuntimeError, match="closed"):
            await fetch(http, server.url)


# --- connecting ---------------------------------------------------------------------------------------------------


async def test_a_port_nobody_listens_on_is_connect_failed() -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port meanwhile
        bound.bind(("127.0.0.1", 0))
        async with client(max_connections=1) as http:
            for _ in range(2):
                with pytest.raises(ConnectFailed, match="127.0.0.1"):
                    await fetch(http, f"http://127.0.0.1:{bound.getsockname()[1]}/v1")


@all_rows(
    "url",
    [
        "http://no-such-host.invalid/v1",
        "http://" + "a" * 70 + ".invalid/",
        "ftp://127.0.0.1/",
        "127.0.0.1:80/v1",
        "/v1/chat/completions",
        "",
        "http://",
        "http://127.0.0.1:99999/",
        "http://[::1/",
        "http://user:secret@127.0.0.1/",
        "http://127.0.0.1/ü",
    ],
)
async def test_an_address_that_leads_nowhere_is_connect_failed(url: str) -> None:
    async with client(max_connections=1) as http:
        for _ in range(2):
            with pytest.raises(ConnectFailed) as caught:
                await fetch(http, url)
    assert "secret" not in str(caught.value)


def test_a_host_is_shown_without_the_password() -> None:
    assert host_of("https://user:secret@host:1/v1") == "host:1"
    assert host_of("") == "without a host"
    assert host_of("http://[::1/") == "with a malformed address"


async def test_a_handshake_nobody_answers_is_a_connect_timeout() -> None:
    async with upstream(staying) as server, client(connect_timeout_s=0.05, max_connections=1) as http:
        for _ in range(2):
            with pytest.raises(ConnectTimeout):
                await fetch(http, server.url.replace("http:", "https:"))
        await server.until_open(0)


async def test_a_full_backlog_is_a_connect_timeout() -> None:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):  # nobody accepts: after the first few the kernel leaves SYNs unanswered
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        async with client(connect_timeout_s=0.1, max_connections=1) as http:
            for _ in range(2):
                with pytest.raises(ConnectTimeout):
                    await fetch(http, f"http://127.0.0.1:{listener.getsockname()[1]}")


async def test_an_early_answer_is_read_although_the_connection_was_reset_under_the_upload() -> None:
    def answer(listener: socket.socket) -> None:
        for _ in range(20):
            taken, _address = listener.accept()
            taken.recv(1000)
            taken.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
            taken.close()  # with bytes unread: the kernel resets

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        async with client() as http:
            for _ in range(20):
                url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
                status, _, body = await fetch(http, url, b"x" * 5_000_000)
                assert (status, body) == (413, b"big")
        thread.join()
