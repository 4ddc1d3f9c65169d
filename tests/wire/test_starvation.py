"""What hangs or runs out in one place must not stop another: an upstream, the index, the open files."""

import asyncio
import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Served, serving
from tests.support.recording_upstream import COMPLETION, Recorder, recording
from tests.support.upstream_servers import Received, Wire, reply

KOTLIN = "How do I use Zephyr from Kotlin?"
PATIENCE_S = 60


def until(what: str, true: Callable[[], bool]) -> None:
    """Return when `true()` is; fail when it never gets there."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def chat(model: str) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": KOTLIN}]}


def many() -> httpx.Client:
    """A client with as many connections as it is asked for."""
    return httpx.Client(timeout=PATIENCE_S, limits=httpx.Limits(max_connections=None, max_keepalive_connections=None))


@dataclass
class Hanging:
    """An upstream that answers nothing until it heals."""

    healed: bool = False
    _waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = field(default_factory=list)

    async def answer(self, wire: Wire, _received: Received) -> None:
        if not self.healed:
            event = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), event))
            await event.wait()
        await wire.send(reply(COMPLETION, b"content-type: application/json"))

    def heal(self) -> None:
        self.healed = True
        for loop, event in list(self._waiting):
            loop.call_soon_threadsafe(event.set)


@pytest.fixture
def hanging() -> Iterator[tuple[Hanging, Recorder]]:
    with recording() as recorder:
        upstream = Hanging()
        recorder.answer = upstream.answer
        yield upstream, recorder
        upstream.heal()


# Upstreams


def test_a_hanging_upstream_does_not_hold_up_another(
    hanging: tuple[Hanging, Recorder], recorder: Recorder, tmp_path: Path
) -> None:
    upstream, ill = hanging
    settings = (
        "retrieval: {enabled: false}\nupstream: {max_connections: 5, connect_timeout_s: 60}\n"
        f'models: {{ill: {{api_base: "{ill.url}/v1"}}, well: {{api_base: "{recorder.url}/v1"}}}}\n'
    )
    with serving(tmp_path / "data", tmp_path, settings) as gateway, ThreadPoolExecutor(50) as pool, many() as client:
        url = gateway.url + "/v1/chat/completions"
        held = [pool.submit(client.post, url, json=chat("ill")) for _ in range(50)]
        until("the pool is full", lambda: len(ill.requests) == 5)
        for _ in range(100):
            answered = client.post(url, json=chat("well"), timeout=PATIENCE_S)
            assert (answered.status_code, answered.content) == (200, COMPLETION)
        assert len(ill.requests) == 5
        assert not any(each.done() for each in held)
        upstream.heal()
        assert {each.result(PATIENCE_S).status_code for each in held} == {200}
        assert len(ill.requests) == 50


def test_waiting_for_a_free_connection_ends_in_time_and_the_upstream_is_used_again_when_it_heals(
    hanging: tuple[Hanging, Recorder], tmp_path: Path
) -> None:
    upstream, ill = hanging
    settings = (
        "retrieval: {enabled: false}\nupstream: {max_connections: 5, connect_timeout_s: 0.5}\n"
        f'models: {{ill: {{api_base: "{ill.url}/v1"}}}}\n'
    )
    with serving(tmp_path / "data", tmp_path, settings) as gateway, ThreadPoolExecutor(50) as pool, many() as client:
        url = gateway.url + "/v1/chat/completions"
        held = [pool.submit(client.post, url, json=chat("ill")) for _ in range(50)]
        until("those without a connection are refused", lambda: sum(each.done() for each in held) == 45)
        refused = [each.result() for each in held if each.done()]
        assert {(each.status_code, each.json()["error"]["code"]) for each in refused} == {(504, "upstream_timeout")}
        upstream.heal()
        assert client.post(url, json=chat("ill"), timeout=PATIENCE_S).status_code == 200
        assert sorted(each.result(PATIENCE_S).status_code for each in held) == [200] * 5 + [504] * 45


# The index


def test_a_hanging_index_does_not_hold_up_requests_without_retrieval(
    learned: Callable[[], Path], recorder: Recorder, tmp_path: Path
) -> None:
    settings = (
        "retrieval: {deadline_s: 30, hang_s: 60}\nupstream: {max_connections: 5}\n"
        f'models: {{well: {{api_base: "{recorder.url}/v1"}}}}\n'
    )
    with serving(learned(), tmp_path, settings) as gateway, ThreadPoolExecutor(50) as pool, many() as client:
        url = gateway.url + "/v1/chat/completions"
        index = gateway.index_pid()
        os.kill(index, signal.SIGSTOP)
        try:
            begun = threading.Barrier(51)
            held = [pool.submit(_ask, begun, client, url) for _ in range(50)]
            begun.wait(PATIENCE_S)
            for _ in range(100):
                answered = client.post(url, json=chat("well"), headers={"x-rag": "off"}, timeout=PATIENCE_S)
                assert (answered.status_code, answered.headers["x-rag-status"]) == (200, "off")
            assert not any(each.done() for each in held)
        finally:
            os.kill(index, signal.SIGCONT)
        assert {each.result(PATIENCE_S).headers["x-rag-status"] for each in held} == {"augmented"}


def _ask(begun: threading.Barrier, client: httpx.Client, url: str) -> httpx.Response:
    begun.wait(PATIENCE_S)
    return client.post(url, json=chat("well"))


# Open files


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _pids(gateway: Served) -> list[int]:
    """The gateway's process and its children."""
    tasks = Path(f"/proc/{gateway.process.pid}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text("ascii").split()]
    return [gateway.process.pid, *children]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="sets another process's limit")
@pytest.mark.parametrize("workers", [1, 2])
def test_too_few_open_files_neither_spin_nor_last(
    hanging: tuple[Hanging, Recorder], tmp_path: Path, workers: int
) -> None:
    upstream, ill = hanging
    settings = (
        f"server: {{workers: {workers}}}\nretrieval: {{enabled: false}}\n"
        f'models: {{ill: {{api_base: "{ill.url}/v1"}}}}\n'
    )
    with serving(tmp_path / "data", tmp_path, settings) as gateway, ThreadPoolExecutor(200) as pool, many() as client:
        pids = _pids(gateway)
        assert len(pids) == 1 + workers
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64))
        url = gateway.url + "/v1/chat/completions"
        held: list[Future[str]] = [pool.submit(_outcome, client, url) for _ in range(200)]
        until("some reached the upstream", lambda: len(ill.requests) >= 5)
        before, began = sum(map(_cpu_s, pids)), time.monotonic()
        time.sleep(1)  # the span over which it is measured
        busy = (sum(map(_cpu_s, pids)) - before) / (time.monotonic() - began)
        assert busy < 0.5, f"{busy:.0%} of a core while there was nothing to do"
        upstream.heal()
        outcomes = [each.result(PATIENCE_S) for each in held]
        assert set(outcomes) <= {"200", "502", "cut"}
        assert outcomes.count("200") >= 5
        for _ in range(10):
            assert gateway.get("/healthz").status_code == 200
            assert client.post(url, json=chat("ill"), timeout=PATIENCE_S).status_code == 200
        assert pids == _pids(gateway)  # nothing died of it
        assert gateway.log.read_text().count("Traceback") == 0
        assert len(gateway.log.read_text().splitlines()) < 1000


def _outcome(client: httpx.Client, url: str) -> str:
    with contextlib.suppress(httpx.TransportError):
        return str(client.post(url, json=chat("ill"), headers={"connection": "close"}).status_code)
    return "cut"
