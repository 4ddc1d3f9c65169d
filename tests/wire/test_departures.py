"""Clients that leave a served gateway, in every phase and in both ways: what was done for them ends at once.

The upstream sees its connection closed, or gets no request at all; nothing is left in the gateway's process; those who
stay are served. `benchmarks/faults/departures.py` measures the same with larger numbers.
"""

import contextlib
import os
import queue
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from tests.support.gateway import Served, ragway, serving
from tests.support.qdrant_server import Qdrant
from tests.support.recording_upstream import COMPLETION, Recorder, recording
from tests.support.upstream_servers import Received, Wire, chunked, head, reply
from tests.wire.odd_ports import Silent, full_port, silent_port
from tests.wire.raw_calls import BOTH_WAYS, PATIENCE_S, Caller, calling, chat, descriptors, post, until

pytestmark = pytest.mark.models

TRIES = 50
SOON_S = 5.0  # many times the limit promised, for a machine that has other things to do
AT_ONCE = 10  # questions in a row while the index is stopped: it is doubted, and no longer asked, a second later
EVENTS = b"content-type: text/event-stream"
FIRST = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"first"},"logprobs":null,"finish_reason":null}]}\n\n'
)
OFF = b"x-rag: off"
LEFT = "error='the client left'"

_SETTINGS = """
server: {{receive_timeout_s: 60}}
retrieval: {{deadline_s: 60, hang_s: 600}}
upstream: {{max_connections: 10, connect_timeout_s: 60, keepalive_s: 0.2}}
models:
  relay: {{api_base: "{upstream}/v1"}}
  translated: {{model: openai/gpt-4o, lane: translated, api_base: "{upstream}/v1"}}
  relay-silent: {{api_base: "https://127.0.0.1:{silent}/v1"}}
  translated-silent: {{model: openai/gpt-4o, lane: translated, api_base: "https://127.0.0.1:{silent}/v1"}}
  relay-full: {{api_base: "http://127.0.0.1:{full}/v1"}}
  translated-full: {{model: openai/gpt-4o, lane: translated, api_base: "http://127.0.0.1:{full}/v1"}}
"""


@dataclass
class Watching:
    """An upstream that waits where a request says (in its `user`), and tells when it gets there and when it is left."""

    recorder: Recorder
    reached: "queue.Queue[str]" = field(default_factory=queue.Queue)
    closed: "queue.Queue[float]" = field(default_factory=queue.Queue)

    async def answer(self, wire: Wire, received: Received) -> None:
        phase = orjson.loads(received.body).get("user")
        if phase is None:
            await wire.send(reply(COMPLETION, b"content-type: application/json"))
            return
        if phase == "stream":
            await wire.send(head(EVENTS, b"transfer-encoding: chunked"), chunked([FIRST])[0])
        elif phase == "body":
            await wire.send(head(b"content-type: application/json", b"content-length: 1000"), COMPLETION[:100])
        self.reached.put(phase)
        await wire.gone()
        self.closed.put(time.monotonic())
        raise ConnectionResetError  # this connection is over


@pytest.fixture(scope="module")
def upstream() -> Iterator[Watching]:
    with recording() as recorder:
        made = Watching(recorder)
        recorder.answer = made.answer
        yield made


@pytest.fixture(scope="module")
def silent() -> Iterator[Silent]:
    with silent_port() as made:
        yield made


@pytest.fixture(scope="module")
def full() -> Iterator[int]:
    with full_port() as port:
        yield port


@dataclass
class Gateway:
    """A served gateway, and what it had open when it was idle."""

    served: Served
    base: int
    _log_read: int = 0

    def nothing_left(self) -> None:
        """Fail unless 20 of 20 requests are answered in each lane, and all that was opened is closed."""
        for lane in ("relay", "translated"):
            for _ in range(20):
                with calling(self.served) as caller:
                    caller.ask(lane, OFF)
                    assert caller.answer()[0] == 200
        assert_augmented(self.served)
        until("nothing is in flight but the question for it", lambda: self._in_flight() == 1)
        pid = self.served.worker_pid()
        until("descriptors are back", lambda: descriptors(pid) <= self.base)

    def _in_flight(self) -> float:
        found = re.search(r"^ragway_requests_in_flight (\S+)", self.served.get("/metrics").text, re.MULTILINE)
        assert found
        return float(found[1])

    def turned(self) -> None:
        """Return when its event loop has been round twice: what was sent before is where it has to wait."""
        with calling(self.served) as caller:
            for _ in range(2):
                caller.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert caller.answer()[0] == 200

    def forget_log(self) -> None:
        self._log_read = self.served.log.stat().st_size

    def departures_logged(self) -> int:
        with self.served.log.open("rb") as log:
            log.seek(self._log_read)
            return log.read().decode().count(LEFT)


def assert_augmented(served: Served) -> None:
    """The index answers, soon."""

    def augmented() -> bool:
        with calling(served) as caller:
            caller.ask("relay")
            status, top = caller.head()
            return status == 200 and b"x-rag-status: augmented" in top

    until("questions are searched again", augmented)


@pytest.fixture(scope="module")
def gateway(
    upstream: Watching,
    silent: Silent,
    full: int,
    learned: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    settings = _SETTINGS.format(upstream=upstream.recorder.url, silent=silent.port, full=full)
    with serving(learned(), tmp_path_factory.mktemp("departures"), settings) as served:
        made = Gateway(served, 1 << 30)
        with contextlib.ExitStack() as stack:  # what may stay: connections to the index, litellm's own
            callers = [stack.enter_context(calling(served)) for _ in range(AT_ONCE)]
            for number, caller in enumerate(callers):
                caller.ask(("relay", "translated")[number % 2])
            for caller in callers:
                assert caller.answer()[0] == 200
        made.base = descriptors(served.worker_pid())
        yield made
        assert "Traceback" not in served.log.read_text("utf-8")


@pytest.mark.parametrize("phase", ["first byte of a stream", "first byte", "stream", "body"])
@pytest.mark.parametrize("lane", ["relay", "translated"])
def test_a_client_that_leaves_closes_the_upstream_at_once(
    gateway: Gateway, upstream: Watching, lane: str, phase: str
) -> None:
    upstream.recorder.requests.clear()
    late: list[float] = []
    for number in range(TRIES):
        with calling(gateway.served) as caller:
            caller.ask(lane, OFF, stream="stream" in phase, user=phase)
            upstream.reached.get(timeout=PATIENCE_S)
            if phase == "stream":
                caller.until(b"first")
            late.append(seconds_to(upstream.closed, caller, BOTH_WAYS[number % 2]))
    assert max(late) < SOON_S
    assert len(upstream.recorder.requests) == TRIES
    gateway.nothing_left()


def seconds_to(closed: "queue.Queue[float]", caller: Caller, how: str) -> float:
    """Leave, and how long it took until the other side saw the end."""
    left = time.monotonic()
    caller.leave("RST" if how == "RST" else "FIN")
    return closed.get(timeout=PATIENCE_S) - left


@pytest.mark.parametrize("lane", ["relay", "translated"])
def test_a_client_that_leaves_during_a_handshake_ends_it_at_once(gateway: Gateway, silent: Silent, lane: str) -> None:
    late: list[float] = []
    for number in range(TRIES):
        with calling(gateway.served) as caller:
            caller.ask(f"{lane}-silent", OFF, stream=True)
            assert silent.reached.get(timeout=PATIENCE_S).startswith(b"\x16\x03")
            late.append(seconds_to(silent.closed, caller, BOTH_WAYS[number % 2]))
    assert max(late) < SOON_S
    gateway.nothing_left()


def ended_soon(gateway: Gateway, begin: Callable[[Caller, int], None], tries: int) -> None:
    """So many clients begin and leave, one by one, and each one's request is over soon."""
    gateway.forget_log()
    for number in range(tries):
        with calling(gateway.served) as caller:
            begin(caller, number)
            gateway.turned()
            left = time.monotonic()
            caller.leave(BOTH_WAYS[number % 2])
            until("the log says that it left", lambda n=number: gateway.departures_logged() > n)  # type: ignore[misc]
            assert time.monotonic() - left < SOON_S


@pytest.mark.parametrize("lane", ["relay", "translated"])
def test_a_client_that_leaves_while_we_wait_for_a_connection_ends_the_wait(gateway: Gateway, lane: str) -> None:
    ended_soon(gateway, lambda caller, _: caller.ask(f"{lane}-full", OFF), TRIES)
    gateway.nothing_left()


@pytest.mark.parametrize("lane", ["relay", "translated"])
def test_a_client_that_leaves_within_its_upload_reaches_no_upstream(
    gateway: Gateway, upstream: Watching, lane: str
) -> None:
    upstream.recorder.requests.clear()
    whole = post(chat(lane, user="never"), OFF)

    def begin(caller: Caller, number: int) -> None:
        caller.send(whole[: len(whole) - 1 - number % 40])

    ended_soon(gateway, begin, TRIES)
    assert upstream.recorder.requests == []
    gateway.nothing_left()


@pytest.mark.parametrize("lane", ["relay", "translated"])
def test_a_client_that_leaves_before_the_index_answers_reaches_no_upstream(
    gateway: Gateway, upstream: Watching, lane: str
) -> None:
    upstream.recorder.requests.clear()
    for _ in range(TRIES // AT_ONCE):
        index = gateway.served.index_pid()
        os.kill(index, signal.SIGSTOP)
        try:
            ended_soon(gateway, lambda caller, _: caller.ask(lane, user="never"), AT_ONCE)
        finally:
            os.kill(index, signal.SIGCONT)
        assert [each for each in upstream.recorder.requests if b"never" in each.body] == []
        assert_augmented(gateway.served)
    gateway.nothing_left()


def test_a_client_that_does_not_read_and_leaves_closes_the_upstream(gateway: Gateway, upstream: Watching) -> None:
    async def endless(wire: Wire, _received: Received) -> None:
        await wire.send(head(EVENTS, b"transfer-encoding: chunked"))
        part = chunked([b": " + b"x" * 65536 + b"\n\n"])[0]
        sent = 0
        with contextlib.suppress(ConnectionError):
            while True:
                await wire.send(part)
                sent += 1
                if sent == 32:  # more than the client's side takes: what follows waits
                    upstream.reached.put("full")
        upstream.closed.put(time.monotonic())
        raise ConnectionResetError

    upstream.recorder.answer = endless
    try:
        for number in range(10):
            with calling(gateway.served, receive_buffer_bytes=8192) as caller:
                caller.ask("relay", OFF, stream=True)
                upstream.reached.get(timeout=PATIENCE_S)
                assert seconds_to(upstream.closed, caller, BOTH_WAYS[number % 2]) < SOON_S
    finally:
        upstream.recorder.answer = upstream.answer
    gateway.nothing_left()


def test_a_client_that_leaves_during_the_search_ends_it(
    data: Path, corpus: Path, tmp_path: Path, recorder: Recorder
) -> None:
    """The question is embedded, and the search is on its way to a Qdrant server that takes its time.

    Its client loses connections that are cancelled, so that the call to it runs on, and what it brings is dropped.
    """
    reached: queue.Queue[str] = queue.Queue()

    async def slow(wire: Wire, _received: Received) -> None:
        reached.put("search")
        await wire.gone()
        raise ConnectionResetError

    with recording() as server:
        qdrant = Qdrant(fault_at=b"/points/query/batch")
        server.answer = qdrant.answer
        settings = (
            f'qdrant: {{url: "{server.url}", timeout_s: 2}}\nretrieval: {{deadline_s: 60}}\n'
            f'models: {{relay: {{api_base: "{recorder.url}/v1"}}}}\n'
        )
        with serving(data, tmp_path, settings) as served:
            done = ragway("ingest", str(corpus), "--data", str(data), "--config", "ragway.yaml", folder=tmp_path)
            assert done.returncode == 0, done.stderr
            # The first question also measures the collection's noise, which outlives it.
            done = ragway("search", "pump", "--data", str(data), "--config", "ragway.yaml", folder=tmp_path)
            assert done.returncode == 0, done.stderr
            gateway = Gateway(served, 0)
            qdrant.fault = slow

            def begin(caller: Caller, _number: int) -> None:
                caller.ask("relay")
                assert reached.get(timeout=PATIENCE_S) == "search"

            ended_soon(gateway, begin, AT_ONCE)
            assert recorder.requests == []
            qdrant.fault = None
            with calling(served) as caller:
                caller.ask("relay")
                status, top = caller.head()
            assert (status, b"x-rag-status: empty" in top) == (200, True)
