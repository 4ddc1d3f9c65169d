"""The client leaves the relay: in every phase the upstream is closed at once, and nobody else is disturbed."""

import asyncio

import pytest

from proxy.asgi import Message
from proxy.body import ClientGone
from proxy.exchange import Exchange
from proxy.upstream.relay import Relay
from runtime.http_client import Client
from tests.support.asgi_calls import Call, exchange_to, scope_of
from tests.support.clients import client
from tests.support.upstream_servers import Wire, answering, head, staying, upstream

STREAM = answering(head(b"transfer-encoding: chunked") + b"2\r\nok\r\n", then=staying)  # begins, and never ends


async def relayed(http: Client, exchange: Exchange, call: Call) -> Call:
    """One POST through a relay."""
    return await call.to(Relay(http), scope_of(exchange=exchange))


async def test_a_client_that_leaves_while_we_connect() -> None:
    asked = asyncio.Event()

    async def script(wire: Wire) -> None:
        asked.set()
        await wire.gone()

    async with upstream(script) as server, client(max_connections=1) as http:
        api_base = server.url.replace("http:", "https:")
        await leaves_after(asked, http, exchange_to(api_base))
        await server.until_open(0)


async def test_a_client_that_leaves_before_the_head() -> None:
    asked = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        asked.set()
        await wire.gone()

    async with upstream(script) as server, client(max_connections=1) as http:
        for _ in range(2):
            asked.clear()
            await leaves_after(asked, http, exchange_to(server.url))
            await server.until_open(0)


async def leaves_after(event: asyncio.Event, http: Client, exchange: Exchange) -> None:
    """A client that leaves when `event` happens, before anything was sent to it."""
    call = Call()
    running = asyncio.create_task(relayed(http, exchange, call))
    await event.wait()
    call.left.set()
    await running
    assert call.sent == []


@pytest.mark.parametrize("taking", [True, False], ids=["reading", "while it is slow to take a chunk"])
async def test_a_client_that_leaves_in_the_middle(taking: bool) -> None:
    async with upstream(STREAM) as server, client(max_connections=1) as http:
        for _ in range(2):
            call, exchange = Call(), exchange_to(server.url)
            running = asyncio.create_task(relayed(http, exchange, call))
            if not taking:
                await call.until_sent(1)
                call.taking.clear()
            await call.until_sent(2)
            call.left.set()
            await running
            assert not call.whole
            await server.until_open(0)


async def test_a_client_that_leaves_before_its_request_is_whole() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async with upstream(STREAM) as server, client() as http:
        call = Call()
        with pytest.raises(ClientGone):
            await Relay(http)(scope_of(exchange=exchange_to(server.url)), receive, call.send)
        assert (call.sent, server.connections) == ([], 0)


async def test_a_cancelled_relay_stays_cancelled_and_closes_the_upstream() -> None:
    async with upstream(STREAM) as server, client(max_connections=1) as http:
        for leaves in (False, True):
            call = Call()
            running = asyncio.create_task(relayed(http, exchange_to(server.url), call))
            await call.until_sent(2)
            if leaves:
                call.left.set()
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
            await server.until_open(0)


async def test_a_server_that_cannot_send_loses_no_connection() -> None:
    async def send(message: Message) -> None:
        raise RuntimeError("an invalid header, says the server")

    async with upstream(STREAM) as server, client(max_connections=1) as http:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="says the server"):
                await Relay(http)(scope_of(exchange=exchange_to(server.url)), Call().receive, send)
            await server.until_open(0)
