"""A whole gateway: requests for responses and messages whose upstream knows chat completions, by the official SDKs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.support import anthropic_server
from tests.support.gateway import PATIENCE_S, Served, serving
from tests.support.recording_upstream import COMPLETION, Recorder, answering
from tests.support.upstream_servers import Received, Wire, reply

QUESTION = "How do I connect to a Zephyr server with TLS?"
BODIES: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": QUESTION}]},
    "/v1/messages": {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 9},
    "/v1/responses": {"input": QUESTION},
}
HTTP = {"timeout": PATIENCE_S, "max_retries": 0, "api_key": "placeholder"}


@pytest.fixture
def openai_client(lanes: Served) -> Any:
    with openai.OpenAI(base_url=lanes.url + "/v1", **HTTP) as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture
def anthropic_client(lanes: Served) -> Any:
    with anthropic.Anthropic(base_url=lanes.url, **HTTP) as client:  # type: ignore[arg-type]
        yield client


def received(text: str) -> Any:
    """The request, as the upstream repeats the request in the answer."""
    return json.loads(text)["received"]


class TestResponses:
    def test_the_model_gets_passages_and_the_client_a_response(self, openai_client: openai.OpenAI) -> None:
        raw = openai_client.responses.with_raw_response.create(
            model="translated/gpt", input=QUESTION, instructions="Be brief."
        )
        response, asked = raw.parse(), received(raw.parse().output_text)
        assert raw.headers["x-rag-status"] == "augmented"
        assert "translate;dur=" in raw.headers["server-timing"]
        assert [message["role"] for message in asked["messages"]] == ["system", "user"]
        assert asked["messages"][0]["content"].startswith("Be brief.\n\n")
        assert "The passages below" in asked["messages"][0]["content"]
        assert (response.instructions, response.model) == ("Be brief.", "translated/gpt")

    def test_a_stream_is_accumulated(self, openai_client: openai.OpenAI) -> None:
        with openai_client.responses.stream(model="translated/gpt", input=QUESTION) as stream:
            whole = stream.get_final_response()
        assert received(whole.output_text)["messages"][-1] == {"role": "user", "content": QUESTION}
        assert whole.usage is not None
        assert whole.usage.total_tokens == 18

    def test_a_stored_response_is_a_404_that_says_what_to_do(self, openai_client: openai.OpenAI) -> None:
        with pytest.raises(openai.NotFoundError, match="send the whole conversation"):
            openai_client.responses.retrieve("resp_1", extra_query={"model": "translated/gpt"})
        with pytest.raises(openai.BadRequestError, match="send the whole conversation"):
            openai_client.responses.create(model="translated/gpt", input=QUESTION, previous_response_id="resp_1")

    def test_an_error_of_the_upstream_is_the_sdks_error(self, openai_client: openai.OpenAI) -> None:
        with pytest.raises(openai.RateLimitError, match="Rate limit reached"):
            openai_client.responses.create(model="translated/limited", input=QUESTION)


class TestMessages:
    def test_the_model_gets_passages_and_the_client_a_message(self, anthropic_client: anthropic.Anthropic) -> None:
        raw = anthropic_client.messages.with_raw_response.create(
            model="translated/gpt", max_tokens=9, messages=[{"role": "user", "content": QUESTION}], system="Be brief."
        )
        (block,) = raw.parse().content
        assert block.type == "text"
        asked = received(block.text)
        assert raw.headers["x-rag-status"] == "augmented"
        assert asked["max_tokens"] == 9
        system = asked["messages"][0]["content"]
        assert (system[:9], "The passages below" in system) == ("Be brief.", True)

    def test_a_streamed_tool_call_is_accumulated(self, anthropic_client: anthropic.Anthropic) -> None:
        with anthropic_client.messages.stream(
            model="translated/gpt",
            max_tokens=9,
            messages=[{"role": "user", "content": QUESTION}],
            tools=[{"name": "weather", "input_schema": {"type": "object"}}],
        ) as stream:
            whole = stream.get_final_message()
        assert [block.to_dict() for block in whole.content] == [
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Bonn"}}
        ]
        assert (whole.stop_reason, whole.usage.input_tokens, whole.usage.output_tokens) == ("tool_use", 11, 7)

    def test_an_error_of_the_upstream_is_the_sdks_error(self, anthropic_client: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.RateLimitError, match="Rate limit reached"):
            anthropic_client.messages.create(
                model="translated/limited", max_tokens=9, messages=[{"role": "user", "content": QUESTION}]
            )


def test_a_provider_of_messages_answers_clients_of_all_dialects(lanes: Served, claude: Recorder) -> None:
    message = json.dumps(anthropic_server.message(anthropic_server.text("Yes."))).encode()
    claude.answer = answering(reply(message, b"content-type: application/json"))
    for path, body in BODIES.items():
        answer = httpx.post(lanes.url + path, json={"model": "claude", **body}, timeout=PATIENCE_S)
        assert (answer.status_code, "Yes." in answer.text) == (200, True), answer.text
    assert [request.line for request in claude.requests] == [b"POST /v1/messages HTTP/1.1"] * 3


def test_an_upstream_without_the_path_is_asked_by_a_chat_completion(
    learned: Callable[[], Path], tmp_path: Path, upstream: Recorder
) -> None:
    async def answer(wire: Wire, received: Received) -> None:
        known = received.line.split()[1] == b"/v1/chat/completions"
        body, status = (COMPLETION, b"200 OK") if known else (b'{"detail":"Not Found"}', b"404 Not Found")
        await wire.send(reply(body, b"content-type: application/json", status=status))

    upstream.answer = answer
    with serving(learned(), tmp_path, f'models: {{"*": {{api_base: "{upstream.url}/v1"}}}}') as gateway:
        for path, body in BODIES.items():
            for _ in range(2):
                got = httpx.post(gateway.url + path, json={"model": "m", **body}, timeout=PATIENCE_S)
                assert (got.status_code, "Yes." in got.text, got.headers["x-rag-status"]) == (200, True, "augmented")
        log = gateway.log.read_text("utf-8")
    paths = [request.line.split()[1].decode() for request in upstream.requests]
    chat = "/v1/chat/completions"
    assert paths == [chat, chat, "/v1/messages", chat, chat, "/v1/responses", chat, chat]
    assert (log.count("has no /v1/responses"), log.count("has no /v1/messages")) == (1, 1)
