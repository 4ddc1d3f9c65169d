"""A large or odd reply is refused before litellm works on it, and litellm works in a thread of its own."""

import asyncio
import gzip
import json
import threading
from collections.abc import Callable

import pytest

from proxy.upstream.translated.thread import LoopThread
from tests.proxy.upstream.translated.provider_lane import (
    HELLO,
    QUIET_PYDANTIC,
    chunk,
    claude,
    completion,
    data_in,
    events,
    frames,
    gpt,
    keyless,
    raw_answer,
    silent,
)
from tests.support import anthropic_server as anthropic
from tests.support.anthropic_server import Json, Reply, json_reply

__all__ = ["keyless", "silent"]  # fixtures that every test here uses
pytestmark = QUIET_PYDANTIC

MORE_THAN_32_MB = 33 << 20
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


async def error_of(reply: Reply, *, model: str = "openai", stream: bool = False) -> tuple[bytes, Json]:
    """The status line and the error of an answer, or its status line and the last event of a stream."""
    async with gpt(reply) if model == "openai" else claude(reply) as (_, gateway):
        answer = await raw_answer(gateway, {"stream": stream})
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].removeprefix(b"HTTP/1.1 ")
    said = data_in(answer)[-1] if b"event-stream" in head else json.loads(body)
    return status, said["error"]


def of_many(count: int) -> Json:
    whole = completion("")
    whole["choices"][0]["message"]["tool_calls"] = [CALL] * count
    return whole


def packed(body: Json) -> Reply:
    return Reply([gzip.compress(json.dumps(body).encode())], headers=[("content-encoding", "gzip")])


@pytest.mark.parametrize("model", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "made",  # at its test: each test process collects this file
    [
        lambda: Reply([b"{", b" " * (33 << 20), b"}"]),
        lambda: packed(completion("x" * MORE_THAN_32_MB)),
        lambda: json_reply(of_many(70_000)),
        lambda: json_reply({**completion("hi"), "odd": [[]] * 200_000}),
    ],
    ids=["bytes", "packed bytes", "calls", "lists"],
)
async def test_a_whole_answer_beyond_the_bounds_is_refused(made: Callable[[], Reply], model: str) -> None:
    status, error = await error_of(made(), model=model)
    assert (status, error["code"]) == (b"502 Bad Gateway", "upstream_too_large")
    assert "32 MB or 200,000 objects" in error["message"]


@pytest.mark.parametrize(
    ("model", "made"),
    [
        ("openai", lambda: frames(chunk({"content": "x" * MORE_THAN_32_MB}))),
        ("openai", lambda: [b"data: " + b"x" * (1 << 20), *[b"x" * (1 << 20)] * 32]),
        ("openai", lambda: [b"data: " + b"x" * (1 << 20) + b"\n"] * 33),
        ("openai", lambda: frames(chunk({"tool_calls": [{**CALL, "index": 0}] * 70_000}))),
        ("anthropic", lambda: anthropic.text_stream("x" * MORE_THAN_32_MB)),
        ("anthropic", lambda: [b"data: " + b"x" * (1 << 20), *[b"x" * (1 << 20)] * 32]),
    ],
    ids=["line", "no line end", "event of many lines", "calls", "anthropic line", "anthropic no line end"],
)
async def test_an_event_beyond_the_bounds_ends_the_stream(model: str, made: Callable[[], list[bytes]]) -> None:
    begun = frames(chunk({"content": "hi"}), done=False) if model == "openai" else anthropic.text_stream("hi")[:3]
    _, error = await error_of(events([*begun, *made()]), model=model, stream=True)
    assert error["code"] == "upstream_too_large"


async def test_a_long_stream_of_small_events_passes() -> None:
    """The bounds are an event's, not a stream's: all of it together has more bytes and objects."""
    piece = chunk({"content": "x" * 30_000, "more": [[]] * 100})
    async with gpt(events(frames(*[piece] * 1200, chunk({}, finish_reason="stop")))) as (_, gateway):
        answer = await raw_answer(gateway, {"stream": True})
    assert len(answer) > 33 << 20
    assert len(data_in(answer)) == 1201
    assert b"data: [DONE]" in answer


@pytest.mark.parametrize("model", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_large_error_keeps_its_status_and_is_cut(model: str, stream: bool) -> None:
    page = b"<html>" * 1_000_000
    status, error = await error_of(Reply([page], status=403, content_type="text/html"), model=model, stream=stream)
    assert status == b"403 Forbidden"
    assert 10_000 < len(error["message"]) < 17_000


@pytest.mark.parametrize("odd", ["9" * 1_000_000, "[" * 50_000 + "]" * 50_000], ids=["digits", "depth"])
async def test_an_odd_event_breaks_the_stream_off(odd: str) -> None:
    pieces = [b'data: {"choices": [], "odd": %s}\n\n' % odd.encode()]
    begun = frames(chunk({"content": "hi"}), done=False)
    _, error = await error_of(events([*begun, *pieces]), stream=True)
    assert error["code"] == "upstream_garbled"


async def test_litellm_works_in_its_own_thread() -> None:
    held = json_reply(completion("hi"))
    held.hold_before = 0
    async with gpt(held) as (_, gateway):
        asking = asyncio.create_task(gateway.client.chat.completions.create(model="m", messages=HELLO))
        await asyncio.wait_for(held.holding.wait(), 60)
        assert "litellm" in {thread.name for thread in threading.enumerate()}
        held.release.set()
        assert (await asking).choices[0].message.content == "hi"
    assert "litellm" not in {thread.name for thread in threading.enumerate()}


async def test_work_in_the_thread_gives_and_raises() -> None:
    thread = LoopThread("aside")

    async def name() -> str:
        return threading.current_thread().name

    async def fail() -> None:
        raise LookupError("lost")

    assert await thread.run(name()) == "aside"
    with pytest.raises(LookupError, match="lost"):
        await thread.run(fail())
    for _ in range(2):
        await thread.close()
    assert await thread.run(name()) == "aside"
    await thread.close()


async def test_a_cancellation_reaches_the_work_and_waits_for_its_end() -> None:
    thread, begun, ended = LoopThread("aside"), threading.Event(), []

    async def work() -> None:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    task = asyncio.create_task(thread.run(work()))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
    await thread.close()


async def test_what_the_work_sends_arrives_here_in_order_and_waits_for_the_receiver() -> None:
    thread, sent, produced = LoopThread("aside"), [], []
    full, go = threading.Event(), asyncio.Event()

    async def work(send: object) -> None:
        for number in range(200):
            await send({"type": "n", "number": number})  # type: ignore[operator]
            produced.append(number)
            if number == 31:
                full.set()

    async def receive(message: object) -> None:
        await go.wait()
        assert threading.current_thread() is threading.main_thread()
        sent.append(message["number"])  # type: ignore[index]

    task = asyncio.create_task(thread.run_sending(work, receive))
    assert await asyncio.to_thread(full.wait, 60)
    assert sent == []
    assert len(produced) == 32
    go.set()
    await task
    assert sent == list(range(200))
    await thread.close()


async def test_a_receiver_that_fails_ends_the_work() -> None:
    thread, ended = LoopThread("aside"), []

    async def work(send: object) -> None:
        try:
            while True:
                await send({"type": "n"})  # type: ignore[operator]
        finally:
            ended.append(True)

    async def receive(message: object) -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        await thread.run_sending(work, receive)
    assert ended == [True]
    await thread.close()
