"""`ragway serve` with one worker and with two: processes behind one address and one index; any may die, or hang."""

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import orjson
import pytest

from runtime.scheduling import child_command
from tests.support.gateway import ROOT, Served, arguments, environment, ragway, refused, runs, serving
from tests.support.recording_upstream import Recorder
from tests.support.upstream_servers import Received, Wire, chunked, head

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")

KOTLIN = "How do I use Zephyr from Kotlin?"
PATIENCE_S = 60
_RELAY_ONLY = 'server: {{workers: 2}}\nretrieval: {{enabled: false}}\nmodels: {{"*": {{api_base: "{url}/v1"}}}}\n'
_ECHO_ONLY = "retrieval: {enabled: false}\nmodels: {echo: {lane: echo}}\n"
_ECHO = "server: {workers: 2}\n" + _ECHO_ONLY


def until(what: str, true: Callable[[], bool]) -> None:
    """Return when `true()` is; fail when it never gets there."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def workers(gateway: Served) -> list[int]:
    return gateway.children("cli.worker")


def connections(pid: int) -> int:
    """How many sockets a process holds."""
    names = [entry.readlink().name for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    return sum(name.startswith("socket:") for name in names)


@contextlib.contextmanager
def clients(gateway: Served, count: int) -> Iterator[list[httpx.Client]]:
    """Clients that each keep one connection, on which /healthz was answered."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(httpx.Client(base_url=gateway.url, timeout=30)) for _ in range(count)]
        for client in made:
            assert client.get("/healthz").status_code == 200
        yield made


def chat(model: str = "echo") -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": KOTLIN}]}


# Sharing


@pytest.mark.parametrize("count", [2, 16, 64])
def test_kept_connections_spread_evenly(tmp_path: Path, count: int) -> None:
    with serving(tmp_path / "data", tmp_path, _ECHO) as gateway:
        before = {pid: connections(pid) for pid in workers(gateway)}
        assert len(before) == 2
        with clients(gateway, count):
            assert [connections(pid) - before[pid] for pid in before] == [count // 2, count // 2]


def test_connections_that_ended_are_not_counted(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, _ECHO) as gateway:
        before = {pid: connections(pid) for pid in workers(gateway)}
        with clients(gateway, 8) as made:
            one, other = before
            had = {pid: connections(pid) for pid in before}
            for client in made[::2]:  # all of one worker's
                client.close()
            until("closed", lambda: sum(map(connections, before)) == sum(had.values()) - 4)
            left = [connections(pid) - before[pid] for pid in (one, other)]
            assert sorted(left) == [0, 4]
            with clients(gateway, 4):
                assert [connections(pid) - before[pid] for pid in (one, other)] == [4, 4]


def test_both_workers_ask_the_one_index(learned: Callable[[], Path], tmp_path: Path) -> None:
    with serving(learned(), tmp_path, "server: {workers: 2}") as gateway, clients(gateway, 4) as made:
        assert len(gateway.children("retrieval.rpc.server")) == 1
        for client in made:
            reply = client.post("/v1/chat/completions", json=chat())
            assert reply.headers["x-rag-status"] == "augmented"


def test_each_worker_tells_the_truth_about_the_index(learned: Callable[[], Path], tmp_path: Path) -> None:
    with serving(learned(), tmp_path, "server: {workers: 2}") as gateway, clients(gateway, 4) as made:
        assert {client.get("/readyz").status_code for client in made} == {200}
        (index,) = gateway.children("retrieval.rpc.server")
        os.kill(index, signal.SIGKILL)
        with (gateway.data / "lock").open("a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # it cannot come back
            until("none is ready", lambda: {client.get("/readyz").status_code for client in made} == {503})
            assert all("index" in client.get("/readyz").json()["status"] for client in made)
            assert {client.get("/healthz").status_code for client in made} == {200}
            for client in made:
                reply = client.post("/v1/chat/completions", json=chat())
                assert (reply.status_code, reply.headers["x-rag-status"]) == (200, "degraded")
        until("all ready again", lambda: {client.get("/readyz").status_code for client in made} == {200})


def test_each_worker_tells_its_memory_and_nothing_secret_is_in_its_arguments(tmp_path: Path) -> None:
    settings = "server: {workers: 2}\nretrieval: {enabled: false}\n" + (
        'models: {m: {api_base: "http://127.0.0.1:9/v1", api_key_env: KEY_OF_THE_UPSTREAM}}\n'
    )
    with serving(tmp_path / "data", tmp_path, settings, KEY_OF_THE_UPSTREAM="sk-secret") as gateway:
        log = gateway.log.read_text()
        told = {int(pid): int(mb) for pid, mb in re.findall(r"\(process (\d+)\) serves, in (\d+) MB", log)}
        assert sorted(told) == workers(gateway)
        assert all(10 < mb < 120 for mb in told.values())
        assert all(arguments(pid)[1:] == child_command("cli.worker")[1:] for pid in told)
        assert "sk-secret" not in log


def test_litellm_is_loaded_in_each_worker_before_it_is_ready(tmp_path: Path) -> None:
    settings = (
        "server: {workers: 2}\nretrieval: {enabled: false}\nmodels: {c: {model: anthropic/c, lane: translated}}\n"
    )
    with serving(tmp_path / "data", tmp_path, settings, ANTHROPIC_API_KEY="sk-none") as gateway:
        told = re.findall(r"\) serves, in (\d+) MB", gateway.log.read_text())
        assert len(told) == 2
        assert all(int(mb) > 100 for mb in told)  # a worker without it has a third of that


# Dying


@dataclass
class Streams:
    """An upstream whose streams begin at once and end when the test says."""

    loop: list[asyncio.AbstractEventLoop] = field(default_factory=list)
    finish: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, wire: Wire, _received: Received) -> None:
        self.loop[:] = [asyncio.get_running_loop()]
        first, last, end = chunked([b"data: first\n\n", b"data: [DONE]\n\n"])
        await wire.send(head(b"content-type: text/event-stream", b"transfer-encoding: chunked") + first)
        await self.finish.wait()
        await wire.send(last + end)

    def release(self) -> None:
        self.loop[0].call_soon_threadsafe(self.finish.set)


def test_a_killed_worker_is_replaced_and_only_its_replies_are_cut(tmp_path: Path, recorder: Recorder) -> None:
    streams = Streams()
    recorder.answer = streams.answer
    seen: dict[int, str] = {}
    begun = threading.Barrier(9)

    def read(number: int) -> None:
        text = ""
        body = {**chat("m"), "stream": True}
        try:
            with httpx.stream("POST", gateway.url + "/v1/chat/completions", json=body, timeout=30) as reply:
                for part in reply.iter_text():
                    if not text:
                        begun.wait(30)
                    text += part
        except httpx.TransportError:
            text += "cut"
        seen[number] = text

    with serving(tmp_path / "data", tmp_path, _RELAY_ONLY.format(url=recorder.url)) as gateway:
        with ThreadPoolExecutor(8) as pool:
            reading = [pool.submit(read, number) for number in range(8)]
            begun.wait(30)
            dead, alive = workers(gateway)
            os.kill(dead, signal.SIGKILL)
            until("its replies are cut", lambda: len(seen) == 4)
            assert gateway.get("/healthz").status_code == 200  # before the other is back
            streams.release()
            for each in reading:
                each.result(30)
        assert sorted(seen.values()) == ["data: first\n\ncut"] * 4 + ["data: first\n\ndata: [DONE]\n\n"] * 4
        until("two again", lambda: gateway.log.read_text().count(") serves, in") == 3)
        assert alive in workers(gateway)
        assert dead not in workers(gateway)
        assert gateway.get("/readyz").status_code == 200
        assert "(status -9); starting another" in gateway.log.read_text()


def test_no_worker_left_means_waiting_and_not_refusing(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, _ECHO) as gateway:
        for pid in workers(gateway):
            os.kill(pid, signal.SIGKILL)
        until("both are gone", lambda: gateway.log.read_text().count("starting another") == 2)
        assert gateway.ask(KOTLIN).status_code == 200


def test_a_worker_that_hangs_is_soon_handed_nothing_more(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, _ECHO) as gateway:
        hanging, _ = workers(gateway)
        os.kill(hanging, signal.SIGSTOP)
        unanswered = 0
        for _ in range(40):
            try:
                assert httpx.get(gateway.url + "/healthz", timeout=5).status_code == 200
            except httpx.ReadTimeout:
                unanswered += 1
        assert unanswered <= 4
        os.kill(hanging, signal.SIGCONT)
        assert gateway.stop() == 0


HANGS = """
import signal, sys
def hang(*_):
    while True:
        pass
signal.signal(signal.SIGUSR1, hang)
"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_whose_event_loop_hangs_is_killed_and_replaced(tmp_path: Path, count: int) -> None:
    """It hears no signal either, so nobody but its parent could end it."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sitecustomize.py").write_text(HANGS, "utf-8")  # what litellm did: Python code without an end
    settings = (
        f"server: {{workers: {count}, hang_s: 2}}\nretrieval: {{enabled: false}}\nmodels: {{echo: {{lane: echo}}}}\n"
    )
    with serving(tmp_path / "data", tmp_path, settings, PYTHONPATH=f"{tmp_path / 'code'}:{ROOT}") as gateway:
        hung, *others = workers(gateway)
        os.kill(hung, signal.SIGUSR1)
        os.kill(hung, signal.SIGTERM)  # unheard
        until("another serves", lambda: gateway.log.read_text().count(") serves, in") == count + 1)
        assert "did not answer for 2 s: ragway kills the process" in gateway.log.read_text()
        assert "(status -9); starting another" in gateway.log.read_text()
        assert not runs(hung)
        assert len(workers(gateway)) == count
        assert set(others) < set(workers(gateway))
        assert gateway.ask(KOTLIN).status_code == 200


def test_a_worker_that_answers_is_left_alone(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, "server: {hang_s: 2}\n" + _ECHO_ONLY) as gateway:
        before = gateway.worker_pid()
        with httpx.Client(base_url=gateway.url, timeout=30) as client:
            for _ in range(300):
                assert client.get("/healthz").status_code == 200
        assert gateway.worker_pid() == before
        assert gateway.stop() == 0
        assert "is killed" not in gateway.log.read_text()


def test_a_single_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, _ECHO_ONLY) as gateway:
        os.kill(gateway.worker_pid(), signal.SIGKILL)
        until("the worker is gone", lambda: "starting another" in gateway.log.read_text())
        assert gateway.ask(KOTLIN).status_code == 200  # it waits for the next one


async def test_no_connection_of_a_burst_is_lost(tmp_path: Path) -> None:
    """More than fit between the processes: they wait until the workers go on."""
    with serving(tmp_path / "data", tmp_path, _ECHO) as gateway:
        host, port = gateway.url.removeprefix("http://").split(":")
        stopped = workers(gateway)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(1500)]
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        for _, writer in opened:
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        for reader, _ in opened:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        for _, writer in opened:
            writer.transport.abort()


def test_a_killed_gateway_leaves_neither_workers_nor_an_index_behind(
    learned: Callable[[], Path], tmp_path: Path
) -> None:
    with serving(learned(), tmp_path, "server: {workers: 2}") as gateway:
        pids = workers(gateway) + gateway.children("retrieval.rpc.server")
        assert len(pids) == 3
        gateway.process.kill()
        gateway.process.wait()
        until("all ended", lambda: not any(runs(pid) for pid in pids))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_workers_too(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "data", tmp_path, _ECHO) as gateway:
        pids = workers(gateway)
        assert gateway.stop(number) == 0
        assert not any(runs(pid) for pid in pids)
        assert "Traceback" not in gateway.log.read_text()


# Starting


def test_a_worker_that_cannot_start_ends_serve_with_the_reason(tmp_path: Path) -> None:
    settings = tmp_path / "ragway.yaml"
    settings.write_text("inject: {template: gone.txt}\nretrieval: {enabled: false}\n", "utf-8")
    arguments = ("serve", "--port", "0", "--config", str(settings), "--data", str(tmp_path / "data"))
    one = ragway(*arguments, folder=tmp_path)
    two = ragway(*arguments, "--workers", "2", folder=tmp_path)
    assert "gone.txt" in refused(one)
    assert refused(two) == refused(one)


def test_an_index_that_cannot_start_ends_the_workers_too(learned: Callable[[], Path], tmp_path: Path) -> None:
    data = learned()
    with (data / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = refused(ragway("serve", "--port", "0", "--workers", "2", "--data", str(data), folder=tmp_path))
    assert "in use" in line


def test_ctrl_c_while_it_starts_ends_everything(learned: Callable[[], Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cli", "serve", "--port", "0", "--workers", "2", "--data", str(learned())]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment({}), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    started = Served(process, "", tmp_path, tmp_path)
    try:
        until("workers are there", lambda: len(workers(started)) == 2)
        pids = workers(started)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        until("all ended", lambda: not any(runs(pid) for pid in pids))
    finally:
        started.kill()
        process.communicate()


def test_no_worker_is_a_wrong_number(tmp_path: Path) -> None:
    assert ragway("serve", "--workers", "0", folder=tmp_path).returncode == 2
    done = ragway("serve", folder=tmp_path, environ={"RAGWAY_SERVER__WORKERS": "0"})
    assert "server.workers (RAGWAY_SERVER__WORKERS) must be at least 1" in refused(done)


def test_readiness_is_json_like_that_of_one_process(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path, _ECHO) as gateway:
        assert orjson.loads(gateway.get("/readyz").content) == {"status": "ready"}
