"""The official openai SDK for Python against the served gateway, with nothing changed but its base_url."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.support.gateway import Served
from tests.support.openai_server import REQUEST_ID

KOTLIN = "How do I use Zephyr from Kotlin?"
DRIVER = "zephyr-driver-kotlin-coroutine"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather now.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PIRATE: ChatCompletionMessageParam = {"role": "system", "content": "Talk like a pirate."}
QUESTION: ChatCompletionMessageParam = {"role": "user", "content": KOTLIN}


@pytest.fixture
def client(lanes: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=lanes.url + "/v1", api_key="any placeholder", max_retries=0, timeout=30) as opened:
        yield opened


@pytest.fixture(params=["relay", "translated"])
def lane(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def received(content: str | None) -> dict[str, Any]:
    """What the upstream was sent: its answer tells. The first message must be the context."""
    assert content
    asked: dict[str, Any] = json.loads(content)["received"]
    context, *rest = asked["messages"]
    assert context["role"] == "system"
    assert DRIVER in context["content"]
    return {**asked, "messages": rest}


def test_a_plain_answer(client: openai.OpenAI, lane: str) -> None:
    reply = client.chat.completions.create(model=f"{lane}/gpt", messages=[PIRATE, QUESTION], temperature=0.5, seed=7)
    asked = received(reply.choices[0].message.content)
    assert asked["messages"] == [PIRATE, QUESTION]
    assert (asked["model"], asked["temperature"], asked["seed"]) == ("gpt", 0.5, 7)
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.total_tokens == 18


def test_a_streamed_answer_comes_chunk_by_chunk(client: openai.OpenAI, lane: str, openai_url: str) -> None:
    stream = client.chat.completions.create(
        model=f"{lane}/in-step", messages=[QUESTION], stream=True, stream_options={"include_usage": True}
    )
    text, finishes, usage = "", [], None
    for chunk in stream:
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
            finishes.append(chunk.choices[0].finish_reason)
        usage = chunk.usage or usage
        httpx.post(openai_url + "/go")  # without it the upstream does not send the next chunk
    assert received(text)["messages"] == [QUESTION]
    assert finishes == [None, None, None, None, "stop"]
    assert usage is not None
    assert usage.total_tokens == 18


def test_a_tool_call_there_and_back(client: openai.OpenAI, lane: str) -> None:
    first = client.chat.completions.create(model=f"{lane}/gpt", messages=[QUESTION], tools=[WEATHER])
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert message.tool_calls is not None
    call = message.tool_calls[0]
    assert call.type == "function"
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "weather", '{"city": "Bonn"}')
    said: Any = message.to_dict()
    result: ChatCompletionMessageParam = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}
    second = client.chat.completions.create(model=f"{lane}/gpt", messages=[QUESTION, said, result], tools=[WEATHER])
    asked = received(second.choices[0].message.content)
    assert [each["role"] for each in asked["messages"]] == ["user", "assistant", "tool"]
    assert asked["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"city": "Bonn"}'
    assert asked["messages"][2] == result
    assert asked["tools"] == [WEATHER]


def test_a_streamed_tool_call(client: openai.OpenAI, lane: str) -> None:
    arguments, names, finish = "", [], None
    for chunk in client.chat.completions.create(model=f"{lane}/gpt", messages=[QUESTION], tools=[WEATHER], stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            assert call.function is not None
            arguments += call.function.arguments or ""
            names += [call.function.name] if call.function.name else []
        finish = chunk.choices[0].finish_reason or finish
    assert (names, arguments, finish) == (["weather"], '{"city": "Bonn"}', "tool_calls")


def test_a_picture_beside_the_text(client: openai.OpenAI, lane: str) -> None:
    picture: ChatCompletionMessageParam = {
        "role": "user",
        "content": [
            {"type": "text", "text": KOTLIN},
            {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
        ],
    }
    reply = client.chat.completions.create(model=f"{lane}/gpt", messages=[picture])
    assert received(reply.choices[0].message.content)["messages"] == [picture]


def test_several_choices(client: openai.OpenAI, lane: str) -> None:
    reply = client.chat.completions.create(model=f"{lane}/gpt", messages=[QUESTION], n=2)
    assert [json.loads(choice.message.content or "")["number"] for choice in reply.choices] == [0, 1]
    texts = {0: "", 1: ""}
    for chunk in client.chat.completions.create(model=f"{lane}/gpt", messages=[QUESTION], n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert [json.loads(text)["number"] for text in texts.values()] == [0, 1]


def test_the_developer_role(client: openai.OpenAI, lane: str) -> None:
    developer: ChatCompletionMessageParam = {"role": "developer", "content": "Answer in one line."}
    reply = client.chat.completions.create(model=f"{lane}/gpt", messages=[developer, QUESTION])
    # litellm sends it as the older `system` to all of OpenAI's models but the o-series.
    arrived = developer if lane == "relay" else {**developer, "role": "system"}
    assert received(reply.choices[0].message.content)["messages"] == [arrived, QUESTION]


def test_the_headers_say_what_was_done(client: openai.OpenAI, lane: str) -> None:
    raw = client.chat.completions.with_raw_response.create(model=f"{lane}/gpt", messages=[QUESTION])
    assert raw.headers["x-rag-status"] == "augmented"
    assert raw.headers["x-rag-sources"].startswith("handbook/kotlin.md")
    assert raw.headers["x-rag-id"].startswith("rag-")
    assert received(raw.parse().choices[0].message.content)["messages"] == [QUESTION]
    assert raw.headers["x-request-id"] == REQUEST_ID


def test_context_is_turned_off_by_header_and_by_field(client: openai.OpenAI, lane: str) -> None:
    ways: list[tuple[dict[str, str], dict[str, bool]]] = [({"x-rag": "off"}, {}), ({}, {"rag": False})]
    for headers, fields in ways:
        reply = client.chat.completions.create(
            model=f"{lane}/gpt", messages=[QUESTION], extra_headers=headers, extra_body=fields
        )
        asked = json.loads(reply.choices[0].message.content or "")["received"]
        assert asked["messages"] == [QUESTION]
        assert "rag" not in asked


def test_the_echo_model_answers_with_what_it_received(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="echo", messages=[PIRATE, QUESTION], n=2)
    assert len(reply.choices) == 2
    text = reply.choices[1].message.content or ""
    assert text.index(DRIVER) < text.index("Talk like a pirate.") < text.index(KOTLIN)
    streamed = client.chat.completions.create(model="echo", messages=[PIRATE, QUESTION], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == text


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    assert {"echo", "claude", "relay/gpt", "translated/gpt"} <= {model.id for model in client.models.list()}


# Errors


def test_an_unknown_model_is_a_not_found_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-9", messages=[QUESTION])
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_key_of_the_upstream_is_an_authentication_error(client: openai.OpenAI, lane: str, stream: bool) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        client.chat.completions.create(model=f"{lane}/keyless", messages=[QUESTION], stream=stream)
    assert caught.value.code == "invalid_api_key"
    assert "Incorrect API key provided." in caught.value.message


@pytest.mark.parametrize("stream", [False, True])
def test_an_exhausted_quota_is_a_rate_limit_error_with_its_retry_after(
    client: openai.OpenAI, lane: str, stream: bool
) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model=f"{lane}/limited", messages=[QUESTION], stream=stream)
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "requests")
    assert caught.value.response.headers["retry-after"] == "1"
    assert caught.value.response.headers["x-rag-status"] == "augmented"


def test_a_bad_request_is_a_bad_request_error(client: openai.OpenAI, lane: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=f"{lane}/gpt", messages=[])
    assert caught.value.param == "messages"


async def test_the_asynchronous_client_does_the_same(lanes: Served, lane: str) -> None:
    async with openai.AsyncOpenAI(base_url=lanes.url + "/v1", api_key="any", max_retries=0, timeout=30) as client:
        stream = await client.chat.completions.create(model=f"{lane}/gpt", messages=[QUESTION], stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert received(text)["messages"] == [QUESTION]
