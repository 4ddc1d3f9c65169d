"""A gateway that is told to stop: it takes nothing new, finishes what runs, and cuts what takes too long."""

import asyncio
import contextlib
import os
import re
import signal
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from retrieval.rpc.client import IndexClient
from tests.support.gateway import Served, ragway, refused, serving
from tests.support.recording_upstream import Recorder, recording
from tests.support.upstream_servers import Received, Wire, chunked, head

_SETTINGS = """
server: {{workers: {workers}, shutdown_s: {shutdown_s}}}
retrieval: {{enabled: false}}
models:
  "*": {{api_base: "{upstream}/v1"}}
"""
SHUTDOWN_S = 2.0
_FIRST = b'data: {"choices": [{"delta": {"content": "first"}}]}\n\n'
_LAST = b'data: {"choices": [{"delta": {"content": "last"}}]}\n\ndata: [DONE]\n\n'
_LARGE = b"x" * (8 << 20)
_JSON = b"content-type: application/json"


@dataclass
class Upstream:
    """Answers by model: `short` streams and `waiting` answers end when the test says, `long` streams never do."""

    recorder: Recorder
    url: str
    _released: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = field(default_factory=list)

    async def answer(self, wire: Wire, received: Received) -> None:
        if not self._released:
            self._released.append((asyncio.get_running_loop(), asyncio.Event()))
        released = self._released[0][1]
        model = orjson.loads(received.body)["model"]
        if model == "large":
            await wire.send(head(_JSON, b"content-length: %d" % len(_LARGE)) + _LARGE)
        elif model == "waiting":
            await released.wait()
            await wire.send(head(_JSON, b"content-length: 2") + b"{}")
        else:
            first, last, end = chunked([_FIRST, _LAST])
            await wire.send(head(b"content-type: text/event-stream", b"transfer-encoding: chunked") + first)
            await (wire.gone() if model == "long" else released.wait())
            await wire.send(last + end)

    def release(self) -> None:
        """Let all end that is not long."""
        ((loop, released),) = self._released
        loop.call_soon_threadsafe(released.set)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with recording() as recorder:
        running = Upstream(recorder, recorder.url)
        recorder.answer = running.answer
        yield running


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def workers(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@contextlib.contextmanager
def gateway_of(upstream: Upstream, folder: Path, workers: int, shutdown_s: float = SHUTDOWN_S) -> Iterator[Served]:
    settings = _SETTINGS.format(workers=workers, shutdown_s=shutdown_s, upstream=upstream.url)
    with serving(folder / "data", folder, settings) as gateway:
        yield gateway


@contextlib.asynccontextmanager
async def connected(gateway: Served, limit: int = 1 << 16) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=limit)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()


def chat(model: str) -> bytes:
    body = orjson.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "Hello?"}]})
    lines = [b"POST /v1/chat/completions HTTP/1.1", b"host: 127.0.0.1", _JSON, b"content-length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


async def answer_of(reader: StreamReader) -> tuple[int, bytes, bytes]:
    """Status, head and body of a reply with a content-length."""
    top = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in top.split(b"\r\n") if line.startswith(b"content-length:"))
    return int(top.split()[1]), top, await reader.readexactly(length)


async def begun(reader: StreamReader) -> None:
    """Return when a stream's first event is here."""
    top = await reader.readuntil(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 200 "), top
    await reader.readuntil(_FIRST + b"\r\n")


async def until(true: Callable[[], bool]) -> None:
    """Return when `true()` is; fail when it never gets there."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    await asyncio.to_thread(wait)


async def rest_of(reader: StreamReader) -> bytes:
    """What comes until the connection ends, whichever way."""
    seen = b""
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            seen += part
    return seen


async def told_to_stop(gateway: Served, reader: StreamReader, writer: StreamWriter) -> bytes:
    """Send SIGTERM; ask for readiness on this connection until it says that the gateway stops. Returns that reply."""
    writer.write(get("/readyz"))
    assert (await answer_of(reader))[0] == 200
    gateway.process.send_signal(signal.SIGTERM)
    while True:
        writer.write(get("/readyz"))
        status, top, body = await answer_of(reader)
        if status != 200:
            assert (status, orjson.loads(body)) == (503, {"status": "stopping"})
            return top


async def ended(gateway: Served) -> int:
    return await asyncio.to_thread(gateway.process.wait, 60)


async def test_streams_end_whole_within_the_drain_time_and_are_cut_honestly_after_it(
    upstream: Upstream, workers: int, tmp_path: Path
) -> None:
    models = ["short"] * 40 + ["long"] * 20 + ["waiting"] * 20
    async with contextlib.AsyncExitStack() as stack:
        gateway = stack.enter_context(gateway_of(upstream, tmp_path, workers))
        streams = [(model, *await stack.enter_async_context(connected(gateway))) for model in models]
        kept = [await stack.enter_async_context(connected(gateway)) for _ in range(2 * workers)]
        for _, writer in kept:
            writer.write(get("/healthz"))
        for reader, _ in kept:
            assert (await answer_of(reader))[0] == 200
        for model, _, writer in streams:
            writer.write(chat(model))
        for model, reader, _ in streams:
            if model != "waiting":
                await begun(reader)
        await until(lambda: len(upstream.recorder.requests) == len(models))
        began = time.monotonic()
        top = await told_to_stop(gateway, *kept[0])
        assert b"\r\nconnection: close" in top
        for reader, writer in kept[1:]:  # on either worker
            await _refused(reader, writer)
        with pytest.raises(ConnectionRefusedError):
            async with connected(gateway):
                pass
        upstream.release()
        for model, reader, _ in streams:
            await ends_as_it_should(model, reader)
        assert await ended(gateway) == 0
    took_s = time.monotonic() - began
    assert SHUTDOWN_S * 0.9 < took_s < SHUTDOWN_S + 3  # the promise is + 1 on a machine that has nothing else to do
    assert "Traceback" not in gateway.log.read_text()


async def ends_as_it_should(model: str, reader: StreamReader) -> None:
    if model == "short":
        assert await rest_of(reader) == b"%x\r\n%b\r\n0\r\n\r\n" % (len(_LAST), _LAST)
    elif model == "waiting":
        assert (await answer_of(reader))[::2] == (200, b"{}")
    else:
        assert await rest_of(reader) == b""  # neither a last chunk nor [DONE]


async def _refused(reader: StreamReader, writer: StreamWriter) -> None:
    """A connection that was kept is told and closed; two workers may hear of the stop one after the other."""
    while True:
        writer.write(get("/readyz"))
        try:
            status, _, body = await answer_of(reader)
        except asyncio.IncompleteReadError:
            return  # closed between two requests: refused as well
        if status == 503:
            assert orjson.loads(body) == {"status": "stopping"}
            assert await rest_of(reader) == b""
            return


async def test_a_new_request_on_a_kept_connection_is_refused_in_openais_shape(
    upstream: Upstream, workers: int, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        gateway = stack.enter_context(gateway_of(upstream, tmp_path, workers))
        busy = await stack.enter_async_context(connected(gateway))
        busy[1].write(chat("short"))
        await begun(busy[0])
        # With two workers the second connection is another's, the third the first one's, and so on.
        kept = [await stack.enter_async_context(connected(gateway)) for _ in range(2 * workers)]
        for _, writer in kept:
            writer.write(get("/healthz"))
        for reader, _ in kept:
            assert (await answer_of(reader))[0] == 200
        await told_to_stop(gateway, *kept[-1])
        asked = len(upstream.recorder.requests)
        reader, writer = kept[-1 - workers]  # on the worker that was just seen to stop
        writer.write(chat("short"))
        status, top, body = await answer_of(reader)
        assert status == 503
        assert b"\r\nconnection: close" in top
        error = orjson.loads(body)["error"]
        assert (error["code"], error["type"]) == ("stopping", "server_error")
        assert await rest_of(reader) == b""
        assert len(upstream.recorder.requests) == asked
        upstream.release()
        assert (await rest_of(busy[0])).endswith(b"0\r\n\r\n")
        assert await ended(gateway) == 0


async def test_an_idle_gateway_ends_at_once_though_connections_are_kept(
    upstream: Upstream, workers: int, tmp_path: Path
) -> None:
    with gateway_of(upstream, tmp_path, workers, shutdown_s=300) as gateway:
        async with connected(gateway) as (reader, writer), connected(gateway) as (silent, _):
            writer.write(get("/readyz"))
            assert (await answer_of(reader))[0] == 200
            gateway.process.send_signal(signal.SIGTERM)
            assert await rest_of(reader) == b""
            assert await rest_of(silent) == b""
            assert await ended(gateway) == 0


async def test_the_second_signal_cuts_at_once(upstream: Upstream, workers: int, tmp_path: Path) -> None:
    with gateway_of(upstream, tmp_path, workers, shutdown_s=300) as gateway:
        async with connected(gateway) as (reader, writer), connected(gateway) as other, connected(gateway) as third:
            writer.write(chat("long"))
            await begun(reader)
            await told_to_stop(gateway, *(third if workers == 2 else other))
            gateway.process.send_signal(signal.SIGINT)
            assert await rest_of(reader) == b""
            assert await ended(gateway) == 0


async def test_what_a_slow_client_has_not_read_yet_is_still_delivered(
    upstream: Upstream, workers: int, tmp_path: Path
) -> None:
    with gateway_of(upstream, tmp_path, workers, shutdown_s=30) as gateway:
        async with connected(gateway) as (reader, writer), connected(gateway) as other, connected(gateway) as third:
            writer.write(chat("large"))
            top = await reader.readuntil(b"\r\n\r\n")
            assert b"content-length: %d" % len(_LARGE) in top
            await told_to_stop(gateway, *(third if workers == 2 else other))
            assert await reader.readexactly(len(_LARGE)) == _LARGE
            assert await ended(gateway) == 0


async def test_a_worker_told_to_stop_by_itself_drains_and_is_replaced(upstream: Upstream, tmp_path: Path) -> None:
    with gateway_of(upstream, tmp_path, 2, shutdown_s=30) as gateway:
        async with connected(gateway) as (reader, writer), connected(gateway) as other:
            for each in (writer, other[1]):
                each.write(chat("short"))
            for stream in (reader, other[0]):
                await begun(stream)
            first = next(
                int(line.split("(process ")[1].split(")")[0])
                for line in gateway.log.read_text().splitlines()
                if "worker 1 (process" in line
            )
            os.kill(first, signal.SIGTERM)
            upstream.release()
            for stream in (reader, other[0]):
                body = await stream.readuntil(b"0\r\n\r\n")
                assert _LAST in body
            # serves, ended, serves
            await until(lambda: gateway.log.read_text().count("worker 1 (process") == 3)
        assert gateway.get("/readyz").status_code == 200


async def test_an_ingest_of_another_terminal_ends_with_what_to_do(learned: Callable[[], Path], tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(80):
        (folder / f"{number}.txt").write_text(f"The word of page {number} is w{number}. " * 12)
    arguments = ("ingest", str(folder), "--collection", "many")
    with serving(learned(), tmp_path, "server: {workers: 2, shutdown_s: 30}") as gateway:
        where = ("--data", str(gateway.data))
        ingesting = asyncio.create_task(asyncio.to_thread(ragway, *arguments, *where, folder=tmp_path))
        index = IndexClient(gateway.data)
        while "many" not in [row.name for row in await index.library.collections()]:
            assert not ingesting.done()
        await index.close()
        gateway.process.send_signal(signal.SIGTERM)
        done = await ingesting
        assert await ended(gateway) == 0
    assert "went away during the call: try again" in refused(done)
    again = await asyncio.to_thread(ragway, *arguments, *where, folder=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    counted = [int(number) for number in re.findall(r"(\d+) (?:added|unchanged)", again.stdout)]
    assert sum(counted) == 80


def test_new_connections_are_served_while_balancers_learn_of_the_end(tmp_path: Path) -> None:
    settings = "server: {drain_s: 60}\nretrieval: {enabled: false}\nmodels: {echo: {lane: echo}}"
    with serving(tmp_path / "data", tmp_path, settings) as gateway:
        assert gateway.get("/readyz").status_code == 200
        gateway.process.send_signal(signal.SIGTERM)
        end_s = time.monotonic() + 30
        while (ready := gateway.get("/readyz")).status_code == 200:
            assert time.monotonic() < end_s
        assert (ready.status_code, ready.json()) == (503, {"status": "stopping"})
        assert gateway.ask("Hello?").status_code == 200
        gateway.process.send_signal(signal.SIGTERM)  # a second signal ends at once
        assert gateway.process.wait(30) == 0
