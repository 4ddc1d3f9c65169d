"""The index process of a served gateway: it may die, hang or be shared, and chats go on; it ends with it."""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import orjson
import pytest

from tests.support.gateway import Served, beginning, ragway, refused, runs, serving
from tests.support.recording_upstream import Recorder
from tests.support.upstream_servers import Received, Wire, chunked, head

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the index process in /proc")

KOTLIN = "How do I use Zephyr from Kotlin?"
PATIENCE_S = 60  # until a condition must have come true


def until(what: str, true: Callable[[], bool]) -> None:
    """Return when `true()` is; fail when it never gets there."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def documents(learned: Callable[[], Path]) -> Path:
    """A data folder that holds the corpus; the tests of this module use it one after the other."""
    return learned()


@pytest.fixture
def gateway(documents: Path, tmp_path: Path) -> Iterator[Served]:
    with serving(documents, tmp_path) as served:
        yield served


@contextlib.contextmanager
def held(data: Path) -> Iterator[None]:
    """Hold the data folder once it is free: no index process can start meanwhile."""
    with (data / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def status_of(gateway: Served) -> str:
    """The x-rag-status of one chat, which must have an answer."""
    reply = gateway.ask(KOTLIN)
    assert reply.status_code == 200
    assert KOTLIN in reply.json()["choices"][0]["message"]["content"]
    return str(reply.headers["x-rag-status"])


# It begins


def test_what_comes_before_the_index_is_there_waits_for_it(documents: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with beginning(documents, tmp_path, "models: {echo: {lane: echo}}", port) as gateway:
        until("an index process", lambda: bool(gateway.children("retrieval.rpc.server")))
        os.kill(gateway.index_pid(), signal.SIGSTOP)  # it is a second or more from being there
        until("it is healthy", lambda: _status(gateway, "/healthz") == 200)
        assert gateway.get("/readyz").json() == {"status": "starting"}
        with ThreadPoolExecutor() as pool:
            body = {"query": KOTLIN}
            waiting = [
                pool.submit(gateway.ask, KOTLIN),
                pool.submit(httpx.post, f"{gateway.url}/v1/knowledge/search", json=body, timeout=60),
            ]
            unasked = gateway.ask(KOTLIN, {"x-rag": "off"})
            assert (unasked.status_code, unasked.headers["x-rag-status"]) == (200, "off")
            assert not any(one.done() for one in waiting)
            os.kill(gateway.index_pid(), signal.SIGCONT)
            chat, search = (one.result(60) for one in waiting)
        assert (chat.status_code, chat.headers["x-rag-status"]) == (200, "augmented")
        assert "handbook/kotlin.md" in search.text


def _status(gateway: Served, path: str) -> int:
    """Of an answer; 0 where there is none."""
    with contextlib.suppress(httpx.TransportError):
        return gateway.get(path).status_code
    return 0


# It dies, hangs, comes back


def test_chats_go_on_degraded_while_the_index_is_down_and_it_comes_back(gateway: Served) -> None:
    assert status_of(gateway) == "augmented"
    dead = gateway.index_pid()
    os.kill(dead, signal.SIGKILL)
    with held(gateway.data):
        reply = gateway.ask(KOTLIN)
        assert reply.status_code == 200
        assert (reply.headers["x-rag-status"], reply.headers["x-rag-reason"]) == ("degraded", "index is down")
        assert "x-rag-sources" not in reply.headers
        assert "[system]" not in reply.text
        until("not ready", lambda: gateway.get("/readyz").status_code == 503)
        assert gateway.get("/readyz").json()["status"].startswith("index is down")
        assert gateway.get("/healthz").status_code == 200
        until("it tried to come back", lambda: "cannot start" in gateway.log.read_text())
        assert "is in use" in gateway.get("/readyz").json()["status"]
    until("ready again", lambda: gateway.get("/readyz").status_code == 200)
    assert status_of(gateway) == "augmented"
    assert gateway.index_pid() != dead
    assert "Traceback" not in gateway.log.read_text()


def test_no_chat_is_lost_when_the_index_dies_under_load(gateway: Served) -> None:
    killed, done = threading.Event(), threading.Event()

    def ask_on() -> list[str]:
        seen: list[str] = []
        while not (done.is_set() and seen[-1:] == ["augmented"]):
            seen.append(status_of(gateway))
            if len(seen) == 3:
                killed.wait(PATIENCE_S)
        return seen

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask_on) for _ in range(3)]
        try:
            os.kill(gateway.index_pid(), signal.SIGKILL)
            killed.set()
            until("back", lambda: "answers again" in gateway.log.read_text())
        finally:
            killed.set()
            done.set()
        statuses = {status for each in asking for status in each.result(PATIENCE_S)}
    assert statuses == {"augmented", "degraded"}


def test_an_index_that_hangs_costs_the_context_and_not_the_chat(documents: Path, tmp_path: Path) -> None:
    with serving(documents, tmp_path, "retrieval: {deadline_s: 0.5}") as gateway:
        assert status_of(gateway) == "augmented"
        index = gateway.index_pid()
        os.kill(index, signal.SIGSTOP)
        try:
            for _ in range(2):  # the second finds the connection that the first gave up
                reply = gateway.ask(KOTLIN)
                assert reply.status_code == 200
                assert reply.headers["x-rag-status"] == "degraded"
                assert reply.headers["x-rag-reason"] in ("retrieval took too long", "index does not answer")
        finally:
            os.kill(index, signal.SIGCONT)
        until("augmented again", lambda: status_of(gateway) == "augmented")
        assert gateway.index_pid() == index


@pytest.mark.slow
def test_an_index_that_hangs_is_replaced_and_chats_do_not_wait_for_it(documents: Path, tmp_path: Path) -> None:
    with serving(documents, tmp_path, "retrieval: {deadline_s: 0.5, hang_s: 4}") as gateway:
        hung = gateway.index_pid()
        os.kill(hung, signal.SIGSTOP)
        statuses = []
        while "augmented" not in statuses:
            reply = gateway.ask(KOTLIN)
            assert reply.status_code == 200
            statuses.append(reply.headers["x-rag-status"])
            if statuses[-1] == "degraded":
                statuses[-1] = reply.headers["x-rag-reason"]
        assert "index does not answer" in statuses
        assert statuses.count("retrieval took too long") <= 4  # of hundreds: the others did not wait
        assert len(statuses) > 50
        assert gateway.index_pid() != hung
        assert "did not answer for 4 s: ragway kills the process" in gateway.log.read_text()


@pytest.mark.slow
def test_a_long_ingest_does_not_look_like_a_hang(documents: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(150):
        (folder / f"{number}.txt").write_text(f"The word of page {number} is w{number}.")
    with serving(documents, tmp_path, "retrieval: {hang_s: 3}") as gateway:
        index = gateway.index_pid()
        done = ragway("ingest", str(folder), "--collection", "pages", "--data", str(gateway.data), folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert gateway.index_pid() == index
        assert "does not answer" not in gateway.log.read_text()
        assert "killed" not in gateway.log.read_text()


# Its end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_gateway_and_its_index(gateway: Served, number: signal.Signals) -> None:
    index = gateway.index_pid()
    assert gateway.stop(number) == 0
    assert not runs(index)
    assert "Traceback" not in gateway.log.read_text()
    assert not (gateway.data / "index.sock").exists()


def test_a_killed_gateway_leaves_no_index_behind(documents: Path, tmp_path: Path) -> None:
    with serving(documents, tmp_path) as gateway:
        index = gateway.index_pid()
        assert gateway.stop(signal.SIGKILL) == -signal.SIGKILL  # waits for all that the gateway started
        assert not runs(index)
    with serving(documents, tmp_path) as after:
        assert status_of(after) == "augmented"


@pytest.mark.slow
def test_a_hanging_index_does_not_keep_the_gateway_from_ending(gateway: Served) -> None:
    index = gateway.index_pid()
    os.kill(index, signal.SIGSTOP)
    assert gateway.stop() == 0
    assert not runs(index)


def test_a_running_reply_is_finished_before_the_end(documents: Path, tmp_path: Path, recorder: Recorder) -> None:
    stopped = threading.Event()

    async def two_parts(wire: Wire, _received: Received) -> None:
        first, second, end = chunked([b"data: 1\n\n", b"data: 2\n\n"])
        await wire.send(head(b"transfer-encoding: chunked"), first)
        assert await asyncio.to_thread(stopped.wait, PATIENCE_S)
        await wire.send(second, end)

    recorder.answer = two_parts
    with (
        serving(documents, tmp_path, f'models: {{gpt-x: {{api_base: "{recorder.url}/v1"}}}}') as gateway,
        httpx.stream(
            "POST",
            gateway.url + "/v1/chat/completions",
            timeout=30,
            json={"model": "gpt-x", "messages": [{"role": "user", "content": KOTLIN}]},
        ) as response,
    ):
        parts = response.iter_raw()
        got = next(parts)
        gateway.process.send_signal(signal.SIGTERM)
        until("it takes no more", lambda: not _accepts(gateway.url))
        stopped.set()
        assert got + b"".join(parts) == b"data: 1\n\ndata: 2\n\n"
        assert gateway.stop() == 0


def test_the_second_signal_does_not_wait_for_a_running_reply(
    documents: Path, tmp_path: Path, recorder: Recorder
) -> None:
    async def endless(wire: Wire, _received: Received) -> None:
        await wire.send(head(b"transfer-encoding: chunked"), chunked([b"data: 1\n\n"])[0])
        await wire.gone()

    recorder.answer = endless
    settings = f'server: {{shutdown_s: 1000}}\nmodels: {{gpt-x: {{api_base: "{recorder.url}/v1"}}}}'
    with serving(documents, tmp_path, settings) as gateway:
        index = gateway.index_pid()
        question = {"model": "gpt-x", "messages": [{"role": "user", "content": KOTLIN}]}
        with httpx.stream("POST", gateway.url + "/v1/chat/completions", timeout=30, json=question) as response:
            parts = response.iter_raw()
            assert next(parts) == b"data: 1\n\n"
            gateway.process.send_signal(signal.SIGINT)
            until("it takes no more", lambda: not _accepts(gateway.url))
            assert gateway.stop(signal.SIGINT) == 0
            with pytest.raises(httpx.RemoteProtocolError):
                next(parts)
        assert not runs(index)
        assert "Traceback" not in gateway.log.read_text()


def _accepts(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


# Shared


def test_ingest_and_search_work_from_another_terminal(gateway: Served, tmp_path: Path) -> None:
    page = tmp_path / "kites.md"
    page.write_text("# Kites\n\nThe red kite is flown by Mira on Sundays.\n", "utf-8")
    where = ("--data", str(gateway.data), "--collection", "kites")
    for expected in ("1 added, 0 changed, 0 unchanged", "0 added, 0 changed, 1 unchanged"):
        done = ragway("ingest", str(page), *where, folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert expected in done.stdout
    found = ragway("search", "Who flies the red kite?", "--json", *where, folder=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "Mira" in orjson.loads(found.stdout)["hits"][0]["passage"]["text"]
    assert "Mira" in gateway.ask("Who flies the red kite?", headers={"x-rag-collection": "kites"}).text
    page.write_text("# Kites\n\nThe red kite is flown by Odile on Sundays.\n", "utf-8")
    assert ragway("ingest", str(page), *where, folder=tmp_path).returncode == 0
    text = gateway.ask("Who flies the red kite?", headers={"x-rag-collection": "kites"}).text
    assert "Odile" in text
    assert "Mira" not in text


def test_chats_are_answered_while_documents_are_read(gateway: Served, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"The word of page {number} is w{number}.")
    with ThreadPoolExecutor(1) as pool:
        ingest = pool.submit(
            ragway, "ingest", str(folder), "--collection", "many", "--data", str(gateway.data), folder=tmp_path
        )
        asked = 0
        while not ingest.done():
            assert status_of(gateway) == "augmented"
            asked += 1
        assert ingest.result().returncode == 0
    assert asked > 1


def test_a_second_gateway_on_the_same_folder_is_refused_in_one_line(gateway: Served, tmp_path: Path) -> None:
    second = ragway("serve", "--port", "0", "--data", str(gateway.data), folder=tmp_path)
    line = refused(second)
    assert f"the data folder {gateway.data} is in use by process {gateway.process.pid} (ragway serve)" in line
    assert "--data" in line
    assert status_of(gateway) == "augmented"


def test_a_port_in_use_is_refused_in_one_line(gateway: Served, tmp_path: Path) -> None:
    port = gateway.url.rpartition(":")[2]
    second = ragway("serve", "--port", port, "--data", str(tmp_path / "other"), folder=tmp_path)
    line = refused(second)
    assert f"127.0.0.1:{port}" in line
    assert "--port" in line
    assert status_of(gateway) == "augmented"
