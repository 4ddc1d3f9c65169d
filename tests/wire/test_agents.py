"""Requests in the shapes of Codex and Claude Code, through the gateway to an upstream that records bytes."""

import json

import httpx
import pytest

from benchmarks.common.insertions import inserted
from tests.support import scripted_messages, scripted_responses
from tests.support.agent_bodies import claude_code_body, claude_code_headers, codex_body, codex_headers
from tests.support.gateway import PATIENCE_S, Served
from tests.support.recording_upstream import Recorder, answering
from tests.support.upstream_servers import chunked, head, single_bytes

SEEDS = range(12)
EVENTS = (b"content-type: text/event-stream", b"transfer-encoding: chunked")
DRIVER = b"zephyr-driver-kotlin-coroutine"
FORWARDED = ("accept", "user-agent", "anthropic-", "openai-", "x-stainless-")


def sent_through(
    gateway: Served, recorder: Recorder, target: str, body: bytes, headers: dict[str, str], frames: list[bytes]
) -> bytes:
    """The place where the body that the upstream received differs; the reply must arrive byte for byte."""
    stream = b"".join(frames)
    recorder.fresh().answer = answering(head(*EVENTS), *chunked([*single_bytes(stream[:600]), stream[600:]]))
    headers = {"content-type": "application/json", **headers}
    got = httpx.post(gateway.url + target, content=body, headers=headers, timeout=PATIENCE_S)
    assert (got.status_code, got.headers["x-rag-status"]) == (200, "augmented")
    assert got.content == stream
    (received,) = recorder.requests
    assert received.line == f"POST {target} HTTP/1.1".encode()
    for name, value in headers.items():
        if name.startswith(FORWARDED):
            assert received.header(name.encode()) == value.encode()
    return inserted(body, received.body)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_request_of_codex_gets_passages_as_instructions(gateway: Served, recorder: Recorder, seed: int) -> None:
    body = codex_body(seed)
    asked = json.loads(body)
    frames = scripted_responses.frames_to(asked)
    assert DRIVER in sent_through(gateway, recorder, "/v1/responses", body, codex_headers(seed), frames)
    received = json.loads(recorder.body)
    assert received.pop("instructions")
    assert received == asked


@pytest.mark.parametrize("seed", SEEDS)
def test_a_request_of_claude_code_gets_passages_in_a_last_block_of_its_system(
    gateway: Served, recorder: Recorder, seed: int
) -> None:
    body = claude_code_body(seed)
    asked = json.loads(body)
    frames = scripted_messages.frames_to(asked)
    assert DRIVER in sent_through(gateway, recorder, "/v1/messages?beta=true", body, claude_code_headers(), frames)
    received = json.loads(recorder.body)
    *system, context = received["system"]
    assert set(context) == {"type", "text"}
    assert {**received, "system": system} == asked
    assert recorder.body.count(b'"cache_control"') == body.count(b'"cache_control"') <= 4
