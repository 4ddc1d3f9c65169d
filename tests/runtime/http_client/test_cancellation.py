"""Cancelled at any await, a request closes its connection and gives its slot back."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtime.http_client import Client
from tests.support.clients import chunks_of, client, fetch
from tests.support.upstream_servers import Upstream, Wire, answering, chunked, head, reply, staying, upstream

CHUNKED = b"transfer-encoding: chunked"
STREAM = answering(head(CHUNKED) + b"2\r\nok\r\n", then=staying)  # begins, and never ends


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Let a task come to its first await, cancel it there, and wait for its end."""
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_cancelling_while_connecting_closes_the_connection() -> None:
    connected = asyncio.Event()

    async def script(wire: Wire) -> None:
        connected.set()
        await wire.gone()

    async with upstream(script) as server, client(max_connections=1) as http:
        for _ in range(3):
            connected.clear()
            task = asyncio.create_task(fetch(http, server.url.replace("http:", "https:")))
            await connected.wait()
            await cancelled(task)
            await server.until_open(0)


async def test_cancelling_while_waiting_for_the_head_closes_the_connection() -> None:
    asked = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        asked.set()
        await wire.gone()

    async with upstream(script) as server, client(max_connections=1) as http:
        for _ in range(3):
            asked.clear()
            task = asyncio.create_task(fetch(http, server.url))
            await asked.wait()
            await cancelled(task)
            await server.until_open(0)


async def test_cancelling_while_reading_closes_the_connection() -> None:
    async with upstream(STREAM) as server, client(max_connections=1) as http:
        for _ in range(3):
            response = await http.request(b"POST", server.url, [], b"")
            chunks = chunks_of(response)
            assert await anext(chunks) == b"ok"
            await cancelled(asyncio.create_task(following(chunks)))
            await server.until_open(0)


async def following(chunks: AsyncIterator[bytes]) -> bytes:
    """The next chunk."""
    return await anext(chunks)


async def test_cancelling_while_waiting_for_a_slot_leaves_the_line() -> None:
    async with upstream(STREAM) as server, client(max_connections=1) as http:
        held = await http.request(b"POST", server.url, [], b"")
        waiting = [asyncio.create_task(http.request(b"POST", server.url, [], b"")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        held.close()  # hands its slot on in the same moment
        waiting[1].cancel()
        response = await waiting[2]
        assert [task.cancelled() for task in waiting] == [True, True, False]
        response.close()
        await server.until_open(0)


async def moody(wire: Wire) -> None:
    """Answers in different ways and speeds, decided by the request's target."""
    while True:
        request = await wire.request()
        mood = int(request.line.split(b"/")[1].split()[0])
        for _ in range(mood % 7):
            await asyncio.sleep(0)
        if mood % 5 == 0:
            await staying(wire)
        if mood % 5 == 1:
            await wire.send(reply(b"z" * 300_000))
        elif mood % 5 == 2:
            await wire.send(head(CHUNKED), *chunked([b"data: %d\n\n" % i for i in range(30)]))
        elif mood % 5 == 3:
            await wire.send(head(CHUNKED))
            while True:
                await wire.send(b"4\r\n: x\n\r\n")
        else:
            await wire.send(reply(b"ok"))


@pytest.mark.parametrize("seed", range(3))
async def test_no_slot_is_lost_whatever_is_cancelled(seed: int) -> None:
    slots, chance = 8, random.Random(seed)
    loop = asyncio.get_running_loop()

    async def one(http: Client, server: Upstream) -> None:
        body = b"b" * chance.choice([0, 10, 1 << 20])
        await fetch(http, f"{server.url}/{chance.randrange(10_000)}", body)

    async def cancel_later(task: asyncio.Task[None], turns: int, times: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)

    async with upstream(moody) as server, client(max_connections=slots) as http:
        tasks_before = asyncio.all_tasks(loop)
        for _ in range(8):
            tasks = [asyncio.create_task(one(http, server)) for _ in range(50)]
            cancels = [cancel_later(task, chance.randrange(120), chance.choice([1, 1, 2, 3])) for task in tasks]
            await asyncio.gather(*cancels)
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends), ends

        async with asyncio.timeout(30):  # every slot is still there, all at once, and as good as new
            held = [await http.request(b"POST", f"{server.url}/3", [], b"") for _ in range(slots)]
            for response in held:
                response.close()
            replies = await asyncio.gather(*(fetch(http, f"{server.url}/4") for _ in range(20)))
            assert all(body == b"ok" for _, _, body in replies)
        http.close()
        await server.until_open(0)
        for task in asyncio.all_tasks(loop) - tasks_before:  # the scripts of closed connections, on their last steps
            async with asyncio.timeout(30):
                await asyncio.wait([task])
