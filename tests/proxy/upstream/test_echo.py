"""The echo model speaks the dialect that the official SDK reads, and shows every message it was given."""

import asyncio
import json
import re
from typing import Any

import orjson
import pytest
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from proxy.body import ClientGone
from proxy.dialects.errors import ApiError
from proxy.exchange import Exchange
from proxy.upstream.echo import GREETING, Echo
from tests.support.asgi_calls import Call, scope_of
from tests.support.rows import all_rows

Json = dict[str, Any]
HELLO = [{"role": "system", "content": "Reference:\n\n[1] Pirates"}, {"role": "user", "content": "Hé, wer da? 🦊"}]


async def asked(**request: object) -> Call:
    """The echo's answer to a request."""
    body = orjson.dumps({"model": "echo", "messages": HELLO, **request})
    return await Call(pieces=(body,)).to(Echo(), scope_of())


async def completion(**request: object) -> ChatCompletion:
    """A whole answer, strictly as the SDK's types want it."""
    return ChatCompletion.model_validate(orjson.loads((await asked(**request)).body), strict=True)


async def stream(**request: object) -> list[ChatCompletionChunk]:
    """A streamed answer's chunks, its framing checked."""
    call = await asked(stream=True, **request)
    assert dict(call.headers)[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert call.whole
    assert call.body.endswith(b"\n\ndata: [DONE]\n\n")
    frames = call.body.removesuffix(b"data: [DONE]\n\n").split(b"\n\n")[:-1]
    assert all(frame.startswith(b"data: {") for frame in frames)
    return [ChatCompletionChunk.model_validate(orjson.loads(frame[6:]), strict=True) for frame in frames]


def text_of(chunks: list[ChatCompletionChunk], index: int = 0) -> str:
    """What one choice's deltas add up to."""
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == index)


async def test_answers_with_the_messages_it_received() -> None:
    answer = await completion()
    choice = answer.choices[0]
    assert choice.message.content == f"{GREETING}\n\n[system]\nReference:\n\n[1] Pirates\n\n[user]\nHé, wer da? 🦊"
    assert (choice.message.role, choice.finish_reason, answer.model) == ("assistant", "stop", "echo")


async def test_a_stream_adds_up_to_the_whole_answer() -> None:
    chunks = await stream()
    assert text_of(chunks) == (await completion()).choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert len(chunks) > 5
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1


async def test_n_gives_as_many_choices() -> None:
    answer = await completion(n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 1
    chunks = await stream(n=3)
    assert {text_of(chunks, index) for index in range(3)} == {answer.choices[0].message.content}
    ends = [choice.index for chunk in chunks for choice in chunk.choices if choice.finish_reason == "stop"]
    assert ends == [0, 1, 2]


async def test_usage_counts_words_and_is_streamed_when_asked_for() -> None:
    usage = (await completion()).usage
    text = (await completion()).choices[0].message.content or ""
    assert usage == CompletionUsage(
        prompt_tokens=9, completion_tokens=len(text.split()), total_tokens=9 + len(text.split())
    )
    chunks = await stream(stream_options={"include_usage": True})
    assert (chunks[-1].choices, chunks[-1].usage) == ([], usage)
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert all(chunk.usage is None and chunk.choices for chunk in await stream())


PARTS: list[Json] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    {"type": "input_audio", "input_audio": {"data": "aaaa", "format": "wav"}},
]


async def test_what_is_not_text_is_named() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": PARTS},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a fox"},
        {"role": "assistant", "content": None, "refusal": "I would rather not."},
    ]
    text = (await completion(messages=messages)).choices[0].message.content or ""
    assert text.removeprefix(GREETING).strip().split("\n\n") == [
        "[developer]\nBe brief.",
        "[user, ann]\nWhat is this?\n(image: https://example.com/a.png)\n"
        "(image: data:image/png;base64, 34 characters)\n(input_audio part)",
        '[assistant]\n(calls look({"at":1}) as call_1)',
        "[tool, reply to call_1]\na fox",
        "[assistant]\n(refusal: I would rather not.)",
    ]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": None, "content": 7},
        {"role": "user", "content": ["text", None, {}]},
        {"role": "assistant", "tool_calls": [{}, None, {"custom": {"name": "f", "input": "x"}}]},
        *({"role": "assistant", "tool_calls": calls} for calls in (True, -1, 1.5, "x", {"id": 1})),
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "user", "content": [{"type": "image_url", "image_url": "http://a"}, {"type": "text"}]},
    ],
)
async def test_odd_messages_are_shown_not_refused(message: Json) -> None:
    assert (await completion(messages=[message])).choices[0].message.content


@all_rows(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"\xff", None),
        (b"[]", None),
        (b"{}", "messages"),
        (b'{"messages": []}', "messages"),
        (b'{"messages": ["hi"]}', "messages"),
        (b'{"messages": [{}], "model": 1}', "model"),
        (b'{"messages": [{}], "n": 0}', "n"),
        (b'{"messages": [{}], "n": true}', "n"),
        (b'{"messages": [{}], "n": 1e9}', "n"),
        (b'{"messages": [{}], "stream": "yes"}', "stream"),
        (b'{"messages": [{}], "stream_options": []}', "stream_options"),
    ],
)
async def test_what_is_no_chat_completion_is_a_400_that_names_the_field(body: bytes, param: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        await Call(pieces=(body,)).to(Echo(), scope_of())
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/embeddings"), ("GET", "/v1/responses"), ("GET", "/v1/chat/completions")]
)
async def test_other_paths_are_a_404_that_says_so(method: str, path: str) -> None:
    with pytest.raises(ApiError, match="only does POST /v1/chat/completions") as caught:
        await Call().to(Echo(), scope_of(path, method=method))
    assert caught.value.status == 404


async def test_it_notes_status_and_time_where_an_exchange_travels() -> None:
    exchange = Exchange()
    body = orjson.dumps({"messages": HELLO})
    await Call(pieces=(body[:5], body[5:])).to(Echo(), scope_of(exchange=exchange))
    assert exchange.status == 200
    assert [step.kind for step in exchange.steps if step.duration_ms] == ["upstream"]


@pytest.mark.parametrize(("letters", "n"), [(2_000_000, 1), (20_000, 128)])
async def test_more_than_a_megabyte_of_answers_is_a_413(letters: int, n: int) -> None:
    with pytest.raises(ApiError) as caught:
        await asked(messages=[{"role": "user", "content": "a " * (letters // 2)}], n=n)
    assert (caught.value.status, caught.value.code) == (413, "body_too_large")


async def test_other_requests_go_on_between_two_lines_of_a_stream() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(tick())
    chunks = await stream(messages=[{"role": "user", "content": "a\n" * 100}])
    others.cancel()
    assert ticks >= len(chunks) > 100


async def test_half_a_surrogate_pair_is_echoed_as_it_came() -> None:
    body = rb'{"model": "echo", "messages": [{"role": "user", "content": "cut \ud83e"}]}'
    answer = (await Call(pieces=(body,)).to(Echo(), scope_of())).body
    assert rb"cut \ud83e" in answer
    whole = json.loads(answer)["choices"][0]["message"]["content"]
    streamed = await Call(pieces=(body[:-1] + b', "stream": true}',)).to(Echo(), scope_of())
    frames = streamed.body.split(b"\n\n")[:-2]
    deltas = [json.loads(frame.removeprefix(b"data: "))["choices"][0]["delta"] for frame in frames]
    assert "".join(delta.get("content", "") for delta in deltas) == whole


async def test_a_client_that_left_gets_nothing() -> None:
    call = Call(pieces=())
    call.left.set()
    with pytest.raises(ClientGone):
        await call.to(Echo(), scope_of())
    assert call.sent == []


def test_the_greeting_is_one_line() -> None:
    assert re.fullmatch(r"I am the echo model: .+\.", GREETING)
