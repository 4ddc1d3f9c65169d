"""/metrics of a served gateway: every chat counted, whatever became of it, by whichever of several workers."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.dialect_clients import CHAT_CLIENT, CLIENTS, DialectClient
from tests.support.gateway import Served, serving
from tests.support.recording_upstream import Recorder, answering
from tests.support.upstream_servers import Received, Wire, head

QUESTION = "How do I use Zephyr from Kotlin?"


def counted(gateway: Served, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    reply = gateway.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return sum(
        sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
        if sample.name == f"ragway_{name}" and labels.items() <= sample.labels.items()
    )


@pytest.mark.parametrize(
    ("workers", "client"), [(2, CHAT_CLIENT), *((1, client) for client in CLIENTS.values())], ids=str
)
def test_every_chat_is_counted_once(
    learned: Callable[[], Path], tmp_path: Path, recorder: Recorder, workers: int, client: DialectClient
) -> None:
    settings = f"""
        server: {{workers: {workers}}}
        models: {{echo: {{lane: echo}}, gpt-x: {{api_base: "{recorder.url}/v1"}}}}
    """
    with serving(learned(), tmp_path, settings) as gateway:

        def ask(model: str, rag: str = "on") -> httpx.Response:
            return client.post(gateway.url, client.body(model, QUESTION), headers={"x-rag": rag})

        for _ in range(4):
            ask("echo")
        ask("gpt-x", "off")
        ask("nothing")
        recorder.answer = cut
        with pytest.raises(httpx.RemoteProtocolError):
            ask("gpt-x", "off")
        recorder.answer = answering(b"220 smtp.example.com ESMTP\r\n")
        refused = ask("gpt-x", "off")
        assert refused.status_code == 502
        assert client.error_of(refused.content)
        assert counted(gateway, "requests_total") == 8
        assert counted(gateway, "requests_total", lane="echo", rag_status="augmented", status="2xx") == 4
        assert counted(gateway, "requests_total", lane="relay", rag_status="off", status="2xx") == 2
        assert counted(gateway, "requests_total", lane="none", status="4xx") == 1
        assert counted(gateway, "upstream_errors_total") == 2
        assert counted(gateway, "upstream_errors_total", code="upstream_cut") == 1
        assert counted(gateway, "upstream_errors_total", code="upstream_bad_reply") == 1
        assert counted(gateway, "stage_seconds_count", stage="embed") == 4
        assert counted(gateway, "requests_in_flight") == 1  # that of /metrics itself
        assert counted(gateway, "ready") == 1


async def cut(wire: Wire, _received: Received) -> None:
    await wire.send(head(b"content-length: 100"), b"half")
    await wire.close()


def test_degraded_chats_and_those_refused_for_it_are_counted_by_reason(data: Path, tmp_path: Path) -> None:
    settings = "retrieval: {require_context: true}\nqdrant: {url: 'http://127.0.0.1:9', timeout_s: 1}"
    with serving(data, tmp_path, settings) as gateway:
        for _ in range(3):
            assert gateway.ask(QUESTION).status_code == 503
        assert counted(gateway, "degraded_total") == 3
        assert counted(gateway, "degraded_total", reason="index is down") == 3
        assert counted(gateway, "requests_total", lane="echo", rag_status="degraded", status="5xx") == 3
        assert counted(gateway, "ready") == 0


def test_a_client_that_leaves_is_counted(data: Path, tmp_path: Path, recorder: Recorder) -> None:
    async def endless(wire: Wire, _received: Received) -> None:
        await wire.send(head(b"content-type: text/event-stream"), b"data: 1\n\n")
        await wire.gone()

    recorder.answer = endless
    with serving(data, tmp_path, f'models: {{gpt-x: {{api_base: "{recorder.url}/v1"}}}}') as gateway:
        body = {"model": "gpt-x", "messages": [{"role": "user", "content": QUESTION}]}
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=body, timeout=30) as reply:
            assert next(reply.iter_raw()) == b"data: 1\n\n"
        while not counted(gateway, "client_disconnects_total"):
            pass
        assert counted(gateway, "upstream_errors_total") == 0
