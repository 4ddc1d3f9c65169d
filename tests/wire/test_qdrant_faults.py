"""A Qdrant server that is away, slow or talks nonsense costs chats their context: while they run, and at the start."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson
import pytest

from retrieval.index.index import Index
from retrieval.rpc.server import IndexServer
from tests.support.faulty_gateway import Gates, gates
from tests.support.gateway import Served, ragway, refused, serving
from tests.support.plans import plan_for, silent
from tests.support.qdrant_server import Qdrant
from tests.support.recording_upstream import Answer, Recorder, answering, recording
from tests.support.upstream_servers import Received, Wire, chunked, head, reply
from tests.wire.test_index_process import until

pytestmark = pytest.mark.models
DEADLINE_S = 1.0


async def silence(wire: Wire, _received: Received) -> None:
    await wire.gone()


async def closing(wire: Wire, _received: Received) -> None:
    await wire.close()


async def reset(wire: Wire, _received: Received) -> None:
    wire.reset()


def then_closing(*pieces: bytes) -> Answer:
    async def answer(wire: Wire, _received: Received) -> None:
        await wire.send(*pieces)
        await wire.close()

    return answer


async def dribbling(wire: Wire, _received: Received) -> None:
    """A byte now and then, as a server under memory pressure does."""
    await wire.send(head(b"content-length: 1000000"))
    for _ in range(100):
        await wire.send(b" ")
        await asyncio.sleep(0.05)
    await wire.close()


_JSON = b"content-type: application/json"
_HTML = b"<html><body>502 Bad Gateway</body></html>"
DOWN = {
    "closes before an answer": closing,
    "resets": reset,
    "closes mid-body": then_closing(head(b"content-length: 500", _JSON), b'{"result": [{"points": ['),
    "closes mid-chunk": then_closing(head(b"transfer-encoding: chunked", _JSON), chunked([b'{"result": ['])[0][:-3]),
    "HTML with 200": answering(reply(_HTML, b"content-type: text/html")),
    "HTML with 502": answering(reply(_HTML, b"content-type: text/html", status=b"502 Bad Gateway")),
    "not HTTP": then_closing(b"220 smtp.example.com ESMTP\r\n"),
    "500": answering(reply(b'{"status": {"error": "disk full"}}', _JSON, status=b"500 Internal Server Error")),
    "503": answering(reply(b"", status=b"503 Service Unavailable")),
    "429": answering(reply(b"{}", _JSON, b"retry-after: 3", status=b"429 Too Many Requests")),
    "empty": answering(reply(b"", _JSON)),
    "JSON of another kind": answering(reply(b'{"hello": 1}', _JSON)),
    "a list": answering(reply(b"[]", _JSON)),
    "null": answering(reply(b"null", _JSON)),
}  # fmt: skip
REFUSED = {
    "401": answering(reply(b"", status=b"401 Unauthorized")),
    "404": answering(reply(b'{"status": {"error": "Not found: Collection"}}', _JSON, status=b"404 Not Found")),
    "400": answering(
        reply(b'{"status": {"error": "Wrong input: Vector dimension"}}', _JSON, status=b"400 Bad Request")
    ),
    "too few results": answering(reply(orjson.dumps({"result": [], "status": "ok", "time": 0.0}), _JSON)),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    """Where the Qdrant server listens."""
    with recording() as recorder:
        yield recorder


@pytest.fixture
def qdrant(server: Recorder) -> Iterator[Qdrant]:
    made = Qdrant()
    server.fresh().answer = made.answer
    yield made
    made.fault = None


@contextlib.asynccontextmanager
async def searching(data: Path, corpus: Path, url: str) -> AsyncIterator[Gates]:
    """Gateways over an index process's index whose points are on the server at `url`."""
    index = await Index.open(plan_for(data, {"qdrant.url": url, "qdrant.timeout_s": 3.0}), serving=False)
    try:
        await index.writing.ingest([corpus], "docs", silent)
        async with IndexServer(index).listening(data), gates(data, deadline_s=DEADLINE_S) as both:
            assert await both.chat() == ("empty", "nothing relevant found")
            yield both
            await both.until(("empty", "nothing relevant found"))
    finally:
        await index.close()


async def test_what_qdrant_does_wrong_costs_the_context_alone(
    data: Path, corpus: Path, qdrant: Qdrant, server: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async with searching(data, corpus, server.url) as both:
        qdrant.fault_at = b"/points/query/batch"
        for reason, faults in (("index is down", DOWN), ("index cannot be searched", REFUSED)):
            for name, fault in faults.items():
                qdrant.fault = fault
                assert await both.chat() == ("degraded", reason), name
                await both.degraded(reason)
        qdrant.fault = None
    assert {record.getMessage() for record in caplog.records if record.exc_info} == {"the call 'retrieve' failed"}


@pytest.mark.parametrize("fault", [silence, dribbling])
async def test_a_qdrant_that_hangs_costs_the_deadline_once_and_not_every_chat(
    data: Path, corpus: Path, qdrant: Qdrant, server: Recorder, fault: Answer
) -> None:
    async with searching(data, corpus, server.url) as both:
        qdrant.fault, qdrant.fault_at = fault, b"/points/query/batch"
        await both.degraded("retrieval took too long")
        await both.until(("degraded", "index does not answer"))
        qdrant.fault = None


async def test_a_qdrant_that_is_gone_costs_the_context_alone(data: Path, corpus: Path) -> None:
    qdrant = Qdrant()
    with recording() as recorder:
        recorder.answer = qdrant.answer
        index = await Index.open(plan_for(data, {"qdrant.url": recorder.url}), serving=False)
        await index.writing.ingest([corpus], "docs", silent)
    async with IndexServer(index).listening(data), gates(data, deadline_s=DEADLINE_S) as both:
        await both.degraded("index is down")
    await index.close()


# The start of `ragway serve`


@contextlib.contextmanager
def bound() -> Iterator[socket.socket]:
    """A port on which nobody listens yet."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock


def settings_for(url: str) -> str:
    return f'qdrant: {{url: "{url}", timeout_s: 2.0}}'


def serves_degraded(gateway: Served, reason: str) -> None:
    """It serves, says why there is no context, and where."""
    reply = gateway.ask("Hello?")
    assert (reply.status_code, reply.headers["x-rag-status"]) == (200, "degraded")
    assert reply.headers["x-rag-reason"] == "index is down"
    ready = gateway.get("/readyz")
    assert ready.status_code == 503
    for told in (ready.json()["status"], gateway.log.read_text()):
        assert reason in told
    assert "chats go on without passages" in gateway.log.read_text()
    assert gateway.get("/healthz").status_code == 200


def recovers(gateway: Served) -> None:
    until("ready", lambda: gateway.get("/readyz").status_code == 200)
    assert gateway.ask("Hello?").headers["x-rag-status"] == "empty"
    assert "the index process answers again" in gateway.log.read_text()
    assert "Traceback" not in gateway.log.read_text()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (silence, "within 2.0 s"),
        (DOWN["503"], "503"),
        (DOWN["HTML with 200"], "sent no JSON"),
        (closing, "check that Qdrant runs"),
    ],
    ids=["hangs", "503", "HTML", "closes"],
)
def test_serve_starts_while_qdrant_is_not_well_and_goes_on_trying(
    data: Path, tmp_path: Path, qdrant: Qdrant, server: Recorder, fault: Answer, reason: str
) -> None:
    qdrant.fault = fault
    with serving(data, tmp_path, settings_for(server.url)) as gateway:
        serves_degraded(gateway, reason)
        qdrant.fault = None
        recovers(gateway)


def test_serve_starts_while_qdrant_is_away(data: Path, tmp_path: Path) -> None:
    with bound() as port:
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
        with serving(data, tmp_path, settings_for(url)) as gateway:
            serves_degraded(gateway, "qdrant.url")


def test_a_qdrant_that_goes_away_later_is_told_by_readyz(
    data: Path, tmp_path: Path, qdrant: Qdrant, server: Recorder
) -> None:
    with serving(data, tmp_path, settings_for(server.url)) as gateway:
        assert gateway.get("/readyz").status_code == 200
        index = gateway.index_pid()
        qdrant.fault = DOWN["503"]
        until("not ready", lambda: gateway.get("/readyz").status_code == 503)
        assert "503" in gateway.get("/readyz").json()["status"]
        qdrant.fault = None
        until("ready", lambda: gateway.get("/readyz").status_code == 200)
        assert gateway.index_pid() == index


@pytest.mark.parametrize("fault", ["401", "404"])
def test_a_qdrant_that_refuses_us_ends_serve_with_the_reason(
    data: Path, tmp_path: Path, qdrant: Qdrant, server: Recorder, fault: str
) -> None:
    qdrant.fault = REFUSED[fault]
    done = ragway(
        "serve", "--port", "0", "--data", str(data), folder=tmp_path, environ={"RAGWAY_QDRANT__URL": server.url}
    )
    assert fault in refused(done)
