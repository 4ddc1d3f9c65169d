"""Other upstreams behind the served gateway: LiteLLM's own proxy by relay, Anthropic's dialect by translation."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import anthropic_server as anthropic
from tests.support.gateway import Served, serving
from tests.support.recording_upstream import Recorder, answering
from tests.support.upstream_servers import chunked, head, reply

KOTLIN = "How do I use Zephyr from Kotlin?"
DRIVER = "zephyr-driver-kotlin-coroutine"
QUESTION: dict[str, object] = {"role": "user", "content": KOTLIN}

# LiteLLM's own proxy, an OpenAI-dialect server written by others

CONFIG = """
model_list:
  - model_name: mocked
    litellm_params: {model: openai/gpt-4o, api_key: none, mock_response: "Ask the harbour master: he knows. Ünïcödé 😀"}
  - model_name: limited
    litellm_params: {model: openai/gpt-4o, api_key: none, mock_response: "litellm.RateLimitError"}
general_settings: {master_key: sk-of-the-proxy}
router_settings: {num_retries: 0}
"""
STARTS_WITHIN_S = 90


@pytest.fixture(scope="module")
def litellm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running LiteLLM proxy."""
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(CONFIG, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "DATABASE_", "LITELLM_"))}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("litellm"),
                "--config",
                folder / "config.yaml",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not _lives(url):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _lives(url: str) -> bool:
    try:
        return httpx.get(url + "/health/liveliness", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def before_litellm(
    litellm_url: str, learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A gateway configured as a newcomer does it: by OpenAI's two variables."""
    environ = {"OPENAI_BASE_URL": litellm_url + "/v1", "OPENAI_API_KEY": "sk-of-the-proxy"}
    with serving(learned(), tmp_path_factory.mktemp("gateway"), **environ) as served:
        yield served


def directly(litellm_url: str, **fields: object) -> httpx.Response:
    headers = {"authorization": "Bearer sk-of-the-proxy"}
    return httpx.post(litellm_url + "/v1/chat/completions", json=fields, headers=headers, timeout=60)


def normal(raw: bytes) -> bytes:
    """The reply without what differs from one request to the next: its id and its time."""
    return re.sub(rb'"created":\d+', b'"created":0', re.sub(rb'"id":"[^"]*"', b'"id":"*"', raw))


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_the_proxys_answer_is_the_same_through_the_gateway(
    before_litellm: Served, litellm_url: str, stream: bool
) -> None:
    fields = {"model": "mocked", "messages": [QUESTION], "stream": stream}
    direct = directly(litellm_url, **fields)
    through = before_litellm.chat(QUESTION, model="mocked", stream=stream)
    assert (through.status_code, direct.status_code) == (200, 200)
    assert "mocked" in direct.text
    assert normal(through.content) == normal(direct.content)
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert through.headers["x-rag-status"] == "augmented"


@pytest.mark.slow
def test_the_proxys_errors_are_the_same_through_the_gateway(before_litellm: Served, litellm_url: str) -> None:
    for model in ("limited", "nonsense"):
        direct = directly(litellm_url, messages=[QUESTION], model=model)
        through = before_litellm.chat(QUESTION, model=model)
        assert through.status_code == direct.status_code >= 400
        assert through.json().keys() == direct.json().keys()
        assert through.json()["error"]["code"] == direct.json()["error"]["code"]


@pytest.mark.slow
def test_the_models_are_the_proxys_own(before_litellm: Served) -> None:
    assert {row["id"] for row in before_litellm.get("/v1/models").json()["data"]} == {"mocked", "limited"}


# Anthropic's dialect, through litellm in the gateway


def said_to(claude: Recorder) -> dict[str, Any]:
    """The one request that Anthropic's server got."""
    (request,) = claude.requests
    assert request.line == b"POST /v1/messages HTTP/1.1"
    assert request.header(b"x-api-key") == b"sk-of-the-upstream"
    body: dict[str, Any] = json.loads(request.body)
    return body


def text_of(blocks: object) -> str:
    """The text of a message or system prompt, as a string or in blocks."""
    return blocks if isinstance(blocks, str) else "\n".join(block["text"] for block in blocks)  # type: ignore[attr-defined]


def test_claude_gets_the_context_as_system_and_its_answer_comes_back(lanes: Served, claude: Recorder) -> None:
    answer = anthropic.message(anthropic.text("Add the coroutine driver."))
    claude.answer = answering(reply(json.dumps(answer).encode(), b"content-type: application/json"))
    got = lanes.chat({"role": "system", "content": "Talk like a pirate."}, QUESTION, model="claude", max_tokens=100)
    assert got.status_code == 200
    assert got.headers["x-rag-status"] == "augmented"
    (choice,) = got.json()["choices"]
    assert choice["message"]["content"] == "Add the coroutine driver."
    assert choice["finish_reason"] == "stop"
    assert got.json()["usage"]["prompt_tokens"] == 11
    asked = said_to(claude)
    system = text_of(asked["system"])
    assert system.index(DRIVER) < system.index("Talk like a pirate.")
    assert [(each["role"], text_of(each["content"])) for each in asked["messages"]] == [("user", KOTLIN)]
    assert asked["max_tokens"] == 100


def test_claudes_stream_comes_as_openais(lanes: Served, claude: Recorder) -> None:
    events = chunked(anthropic.text_stream("Add the ", "coroutine ", "driver."))
    claude.answer = answering(head(b"content-type: text/event-stream", b"transfer-encoding: chunked"), *events)
    got = lanes.chat(QUESTION, model="claude", stream=True)
    assert got.headers["content-type"].startswith("text/event-stream")
    assert got.headers["x-rag-status"] == "augmented"
    *chunks, end = [line.removeprefix("data: ") for line in got.text.splitlines() if line]
    assert end == "[DONE]"
    choices = [choice for chunk in chunks for choice in json.loads(chunk)["choices"]]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == "Add the coroutine driver."
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    assert DRIVER in text_of(said_to(claude)["system"])


def test_a_stream_of_claudes_that_fails_ends_as_an_error_and_never_looks_complete(
    lanes: Served, claude: Recorder
) -> None:
    events = [*anthropic.text_stream("Add the ")[:3], anthropic.error_event("overloaded_error", "Overloaded for now.")]
    claude.answer = answering(head(b"content-type: text/event-stream", b"transfer-encoding: chunked"), *chunked(events))
    fields = {"model": "claude", "stream": True, "messages": [QUESTION]}
    got: list[bytes] = []
    with (
        httpx.stream("POST", lanes.url + "/v1/chat/completions", json=fields, timeout=30) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        got.extend(response.iter_raw())
    frames = b"".join(got).decode().strip().split("\n\n")
    assert "Overloaded for now." in json.loads(frames[-1].removeprefix("data: "))["error"]["message"]
    assert "[DONE]" not in frames[-1]
    assert "Add the " in frames[0]


def test_claudes_error_keeps_its_status_and_words(lanes: Served, claude: Recorder) -> None:
    words = anthropic.error("overloaded_error", "Overloaded for now.")
    refusal = reply(json.dumps(words).encode(), b"content-type: application/json", status=b"529 Overloaded")
    claude.answer = answering(refusal)
    got = lanes.chat(QUESTION, model="claude")
    assert got.status_code == 529
    assert (got.json()["error"]["type"], got.json()["error"]["message"]) == ("overloaded_error", "Overloaded for now.")
    assert len(claude.requests) == 1
