"""The translated lane: real litellm between real servers on loopback, asked by the official openai SDK."""

import asyncio
import gzip
import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from proxy.body import ClientGone
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.upstream.translated.lane import Translated
from tests.proxy.upstream.translated.provider_lane import (
    A_TEXT,
    AN_ANSWER,
    API_KEY,
    HELLO,
    PIXEL,
    QUIET_PYDANTIC,
    WEATHER,
    Gateway,
    chunk,
    claude,
    completion,
    data_in,
    events,
    frames,
    gpt,
    keyless,
    raw_answer,
    serving,
    silent,
)
from tests.support import anthropic_server as anthropic
from tests.support.anthropic_server import Json, Reply, json_reply, scripted
from tests.support.asgi_calls import Call, scope_of

__all__ = ["keyless", "silent"]  # fixtures that every test here uses
pytestmark = QUIET_PYDANTIC
MODELS = ["anthropic/claude-sonnet-4-5", "openai/gpt-4o", "deepseek/deepseek-chat"]


class TestAnthropic:
    """A provider that does not speak OpenAI."""

    async def test_answers_plainly(self) -> None:
        async with claude(json_reply(anthropic.message(anthropic.text("Hello.")))) as (upstream, gateway):
            answer = await gateway.client.chat.completions.create(model="mine", messages=HELLO, max_tokens=50)
        assert answer.choices[0].message.content == "Hello."
        assert answer.choices[0].finish_reason == "stop"
        assert answer.model == "claude-scripted-20990101"
        assert answer.usage is not None
        assert answer.usage.model_dump(exclude_unset=True) == {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "total_tokens": 18,
        }
        asked = upstream.asked[0]
        assert (asked.path, asked.headers["x-api-key"]) == ("/v1/messages", API_KEY)
        assert (asked.json()["model"], asked.json()["max_tokens"]) == ("claude-sonnet-4-5", 50)

    async def test_streams_text_piece_by_piece(self) -> None:
        reply = events(anthropic.text_stream("Hel", "lo."), hold_before=4)  # after the first delta
        async with claude(reply) as (_, gateway):
            stream = await gateway.client.chat.completions.create(model="mine", messages=HELLO, stream=True)
            first = await anext(aiter(stream))
            await reply.holding.wait()  # the upstream has not sent the second piece yet
            reply.release.set()
            rest = [each async for each in stream]
        assert first.choices[0].delta.role == "assistant"
        assert first.choices[0].delta.content == "Hel"
        assert [each.choices[0].delta.content for each in rest] == ["lo.", None]
        assert [each.choices[0].finish_reason for each in rest] == [None, "stop"]
        assert {each.model for each in [first, *rest]} == {"claude-scripted-20990101"}
        assert [each.usage for each in [first, *rest]] == [None, None, None]

    async def test_reports_usage_in_a_chunk_of_its_own_when_asked(self) -> None:
        async with claude(events(anthropic.text_stream("Hello."))) as (_, gateway):
            stream = await gateway.client.chat.completions.create(
                model="mine", messages=HELLO, stream=True, stream_options={"include_usage": True}
            )
            *chunks, last = [each async for each in stream]
        assert [each.usage for each in chunks] == [None, None]
        assert last.choices == []
        assert last.usage is not None
        assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (11, 7)

    @pytest.mark.parametrize("instead", [b'"no_usage": {', b'"usage": {}, "no_usage": {'], ids=["missing", "empty"])
    async def test_usage_nobody_reported_is_not_invented(self, instead: bytes) -> None:
        unreported = [piece.replace(b'"usage": {', instead) for piece in anthropic.text_stream("Hello.")]
        async with claude(events(unreported)) as (_, gateway):
            answer = await raw_answer(gateway, {"stream": True, "stream_options": {"include_usage": True}})
        assert [each.get("usage") for each in data_in(answer)] == [None, None]

    async def test_a_tool_call_goes_round(self) -> None:
        call = anthropic.message(anthropic.tool_use("toolu_1", "weather", {"city": "Oslo"}), stop_reason="tool_use")
        async with claude(json_reply(call), json_reply(anthropic.message(anthropic.text("Rain.")))) as (
            upstream,
            gateway,
        ):
            create = gateway.client.chat.completions.create
            asking = (await create(model="mine", messages=HELLO, tools=WEATHER)).choices[0]
            assert asking.finish_reason == "tool_calls"
            assert asking.message.tool_calls is not None
            assert "index" not in asking.message.tool_calls[0].model_dump()
            result = {"role": "tool", "tool_call_id": asking.message.tool_calls[0].id, "content": "rain"}
            history: list[Any] = [*HELLO, asking.message.model_dump(exclude_none=True), result]
            answer = await create(model="mine", messages=history, tools=WEATHER)
        assert answer.choices[0].message.content == "Rain."
        assert upstream.asked[0].json()["tools"][0]["name"] == "weather"
        _, called, answered = upstream.asked[1].json()["messages"]
        assert called["content"][0] == {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "weather",
            "input": {"city": "Oslo"},
        }
        assert (answered["content"][0]["tool_use_id"], answered["role"]) == ("toolu_1", "user")

    async def test_a_streamed_tool_call_keeps_id_name_index_and_arguments(self) -> None:
        async with (
            claude(events(anthropic.tool_stream("toolu_1", "weather", '{"city":', '"Oslo"}'))) as (_, gateway),
            gateway.client.chat.completions.stream(model="mine", messages=HELLO, tools=WEATHER) as stream,
        ):
            deltas = [
                call.model_dump(exclude_unset=True)
                async for event in stream
                if event.type == "chunk"
                for call in event.chunk.choices[0].delta.tool_calls or []
            ]
            whole = (await stream.get_final_completion()).choices[0]
        first, *rest = deltas
        assert first == {
            "index": 0,
            "id": "toolu_1",
            "type": "function",
            "function": {"name": "weather", "arguments": ""},
        }
        assert rest == [
            {"index": 0, "function": {"arguments": '{"city":'}},
            {"index": 0, "function": {"arguments": '"Oslo"}'}},
        ]
        assert whole.finish_reason == "tool_calls"
        assert whole.message.tool_calls is not None
        assert whole.message.tool_calls[0].function.arguments == '{"city":"Oslo"}'

    async def test_an_image_part_arrives_and_a_developer_message_is_the_system_prompt(self) -> None:
        image: list[ChatCompletionMessageParam] = [
            {"role": "developer", "content": "Answer in one word."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                ],
            },
        ]
        async with claude(json_reply(anthropic.message(anthropic.text("A pixel.")))) as (upstream, gateway):
            await gateway.client.chat.completions.create(model="mine", messages=image)
        asked = upstream.asked[0].json()
        assert asked["messages"][0]["content"][1]["source"] == {
            "type": "base64",
            "media_type": "image/png",
            "data": PIXEL,
        }
        assert asked["system"] == [{"type": "text", "text": "Answer in one word."}]

    async def test_a_parameter_the_provider_lacks_is_refused_by_name(self) -> None:
        async with claude() as (upstream, gateway):
            with pytest.raises(openai.BadRequestError) as refused:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO, seed=1)
        assert "seed" in refused.value.message
        assert "litellm" not in refused.value.message
        assert refused.value.code == "unsupported_by_provider"
        assert upstream.connections == 0


class TestOpenAI:
    """An OpenAI-dialect model whose lane is `translated`."""

    async def test_n_answers_plainly(self) -> None:
        async with gpt(json_reply(completion("Hello.", "Hi."))) as (upstream, gateway):
            answer = await gateway.client.chat.completions.create(model="mine", messages=HELLO, n=2)
        assert [each.message.content for each in answer.choices] == ["Hello.", "Hi."]
        assert (answer.id, answer.created, answer.model) == ("chatcmpl-1", 1700000000, "gpt-4o-2024-08-06")
        asked = upstream.asked[0]
        assert (asked.path, asked.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {API_KEY}")
        assert asked.json() == {"model": "gpt-4o", "messages": HELLO, "n": 2}

    async def test_a_stream_arrives_as_it_was_sent(self) -> None:
        sent = [
            chunk({"role": "assistant", "content": "", "refusal": None}),
            chunk({"content": "A", "x_delta": 1}, x_chunk={"a": None}),
            chunk({"content": "B"}, index=1),
            chunk({"refusal": "no"}, index=1),
            chunk({}, finish_reason="stop"),
            chunk({}, index=1, finish_reason="x_reason"),
            {
                **chunk({}),
                "choices": [],
                "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "x": 3},
            },
        ]
        async with gpt(events(frames(*sent))) as (_, gateway):
            answer = await raw_answer(gateway, {"stream": True, "n": 2, "stream_options": {"include_usage": True}})
        assert data_in(answer) == sent
        assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")

    async def test_a_streamed_tool_call_arrives_as_it_was_sent(self) -> None:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
        sent = [
            chunk({"role": "assistant", "content": None, "tool_calls": [call]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
            chunk({}, finish_reason="tool_calls"),
        ]
        async with gpt(events(frames(*sent))) as (_, gateway):
            assert data_in(await raw_answer(gateway, {"stream": True, "tools": WEATHER})) == sent

    async def test_usage_nobody_reported_is_not_invented(self) -> None:
        silent = {name: value for name, value in completion("Hello.").items() if name != "usage"}
        async with gpt(json_reply(silent)) as (_, gateway):
            plain = await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert plain.usage is None

    # litellm rebuilds the chunks of the second
    @pytest.mark.parametrize("model", ["openai/gpt-4o", "deepseek/deepseek-chat"])
    async def test_usage_is_streamed_as_reported_or_not_at_all(self, model: str) -> None:
        parts = [chunk({"role": "assistant", "content": "A"}), chunk({}, finish_reason="stop")]
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        reported = [*parts, {**chunk({}), "choices": [], "usage": usage}]
        asking: Json = {"stream": True, "stream_options": {"include_usage": True}}
        async with (
            scripted(events(frames(*parts)), events(frames(*reported))) as upstream,
            serving(upstream.url + "/v1", model) as gateway,
        ):
            without = data_in(await raw_answer(gateway, asking))
            *_, last = data_in(await raw_answer(gateway, asking))
        assert [each.get("usage") for each in without] == [None, None]
        assert last["choices"] == []
        assert {name: last["usage"][name] for name in usage} == usage
        assert "cost" not in last["usage"]  # litellm's price list is not the provider's bill

    @pytest.mark.parametrize("model", ["openai/gpt-4o", "deepseek/deepseek-chat"])
    async def test_a_whole_answer_keeps_unknown_fields_and_an_unknown_reason_to_finish(self, model: str) -> None:
        sent = completion("Hello.", "Hi.")
        sent["system_fingerprint"], sent["x_top"], sent["usage"]["x_usage"] = "fp", {"a": 1}, 4
        first, second = sent["choices"]
        first["finish_reason"], first["x_choice"] = "x_reason", 2
        first["message"] |= {"x_message": [3], "reasoning": "so"}
        second["finish_reason"], second["message"]["annotations"] = "content_filter", []
        async with (
            scripted(json_reply(sent)) as upstream,
            serving(upstream.url + "/v1", model) as gateway,
        ):
            answer = await raw_answer(gateway, {"n": 2})
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == sent

    @pytest.mark.parametrize("model", ["openai/gpt-4o", "deepseek/deepseek-chat", "openrouter/some/model"])
    async def test_a_whole_answer_arrives_byte_for_byte_with_its_headers(self, model: str) -> None:
        sent = (
            b'{ "choices": [{"index": 0, "message": {"content": "\\ud83d \xe2\x80\xa8 <think>A</think>", '
            b'"role": "assistant", "x": null}, "finish_reason": "abort"}],\r\n "created": 0, "id": "", "y": 1.50e2}\n'
        )
        headers = [
            ("x-request-id", "r-1"),
            ("openai-version", "2020-10-01"),
            ("x-ratelimit-limit-requests", "9"),
            ("etag", "of-these-bytes"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
        ]
        async with (
            scripted(Reply([sent], headers=headers)) as upstream,
            serving(upstream.url + "/v1", model) as gateway,
        ):
            top, _, body = (await raw_answer(gateway, {})).partition(b"\r\n\r\n")
        assert body == sent
        for header in (b"x-request-id: r-1", b"openai-version: 2020-10-01", b"x-ratelimit-limit-requests: 9"):
            assert header in top
        for name in (b"etag", b"x-hop", b"keep-alive", b"transfer-encoding"):
            assert name not in top

    async def test_a_packed_answer_is_unpacked_and_says_so(self) -> None:
        sent = json.dumps(completion("Hello.")).encode()
        packed = Reply([gzip.compress(sent)], headers=[("content-encoding", "gzip")])
        async with gpt(packed) as (_, gateway):
            top, _, body = (await raw_answer(gateway, {})).partition(b"\r\n\r\n")
        assert body == sent
        assert b"content-encoding" not in top

    @pytest.mark.parametrize("model", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"])
    async def test_a_stream_has_the_provider_s_headers(self, model: str) -> None:
        pieces = AN_ANSWER if model.startswith("openai") else A_TEXT
        headers = [("request-id", "r-1"), ("x-ratelimit-remaining-tokens", "0")]
        reply = Reply(pieces, content_type="text/event-stream; charset=utf-8", headers=headers)
        async with (
            scripted(reply) as upstream,
            serving(upstream.url + ("/v1" if model.startswith("openai") else ""), model) as gateway,
        ):
            top = (await raw_answer(gateway, {"stream": True})).partition(b"\r\n\r\n")[0]
        assert b"request-id: r-1\r\nx-ratelimit-remaining-tokens: 0" in top
        assert top.count(b"content-type: ") == 1

    async def test_content_that_is_a_list_goes_through_litellm(self) -> None:
        thinking = completion("")
        parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "So."}]}, {"type": "text", "text": "Hi."}]
        thinking["choices"][0]["message"]["content"] = parts
        async with (
            scripted(json_reply(thinking)) as upstream,
            serving(upstream.url + "/v1", "mistral/small") as gateway,
        ):
            answer = await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert answer.choices[0].message.content == "Hi."

    async def test_a_refusal_stays_a_refusal(self) -> None:
        refusing = completion("")
        refusing["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I cannot."}
        async with gpt(json_reply(refusing)) as (_, gateway):
            answer = await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert (answer.choices[0].message.content, answer.choices[0].message.refusal) == (None, "I cannot.")


class TestLeaving:
    """When the client leaves, the provider's call ends at once."""

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("hold_before", [0, 1])
    async def test_before_the_first_byte(self, hold_before: int, stream: bool) -> None:
        for lane in (claude, gpt):
            reply = events([b"data: {}\n\n"], hold_before=hold_before)
            async with lane(reply) as (_, gateway):
                await self.leave_while(gateway, reply, stream=stream)

    async def test_in_the_middle_of_a_stream(self) -> None:
        for lane, pieces in ((claude, A_TEXT), (gpt, AN_ANSWER)):
            reply = events(pieces, hold_before=4 if lane is claude else 2)
            async with lane(reply) as (_, gateway):
                await self.leave_while(gateway, reply, stream=True)

    async def leave_while(self, gateway: Gateway, reply: Reply, *, stream: bool) -> None:
        """Send a request, leave while the upstream holds its reply, and see the upstream's peer go."""
        sent = json.dumps({"model": "m", "messages": HELLO, "stream": stream}).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(sent), sent))
        await reply.holding.wait()
        writer.close()
        await writer.wait_closed()
        await asyncio.wait_for(reply.peer_left.wait(), 100)
        await asyncio.wait_for(gateway.answered.wait(), 100)
        assert gateway.cancelled == 1


class TestCancellation:
    """The lane's own task cancelled, as the server does it when the client has left: nothing of the call stays."""

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("hold_before", [0, 1])
    @pytest.mark.parametrize("model", MODELS)
    async def test_before_the_first_byte(self, model: str, hold_before: int, stream: bool) -> None:
        reply = events([b"data: {}\n\n"], hold_before=hold_before)
        await self.cancel_when(reply.holding, model, reply, Call(), stream=stream)

    @pytest.mark.parametrize("model", MODELS)
    async def test_between_two_chunks(self, model: str) -> None:
        reply = events(A_TEXT if model == MODELS[0] else AN_ANSWER, hold_before=4 if model == MODELS[0] else 2)
        await self.cancel_when(reply.holding, model, reply, Call(), stream=True)

    @pytest.mark.parametrize("model", MODELS)
    async def test_while_a_slow_client_holds_a_chunk_up(self, model: str) -> None:
        reply = events(A_TEXT if model == MODELS[0] else AN_ANSWER, hold_before=4 if model == MODELS[0] else 2)
        call = Call()
        call.taking.clear()
        began = asyncio.Event()

        async def begin() -> None:
            await call.until_sent(1)
            began.set()

        waiting = asyncio.ensure_future(begin())
        await self.cancel_when(began, model, reply, call, stream=True)
        await waiting

    async def test_while_the_request_arrives(self) -> None:
        call = Call(pieces=())
        task = asyncio.ensure_future(call.to(self.lane(), scope_of(exchange=Exchange())))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_client_that_left_before_its_request_was_whole_has_nothing_asked_for_it(self) -> None:
        call = Call(pieces=())
        call.left.set()
        with pytest.raises(ClientGone):
            await call.to(self.lane(), scope_of(exchange=Exchange()))

    async def cancel_when(self, phase: asyncio.Event, model: str, reply: Reply, call: Call, *, stream: bool) -> None:
        """Cancel a request once `phase` is reached; the provider sees its caller go, and no task stays."""
        call.pieces = (json.dumps({"model": "m", "messages": HELLO, "stream": stream}).encode(),)
        lane = self.lane()
        async with scripted(reply) as upstream:
            base = upstream.url + ("" if model == MODELS[0] else "/v1")
            exchange = Exchange(target=Target(model, "translated", base, API_KEY))
            task = asyncio.ensure_future(call.to(lane, scope_of(exchange=exchange)))
            await asyncio.wait_for(phase.wait(), 100)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(reply.peer_left.wait(), 100)
        assert b"[DONE]" not in call.body
        assert not call.whole
        await lane.close()

    def lane(self) -> Translated:
        return Translated(connect_timeout_s=20, first_byte_timeout_s=20, idle_timeout_s=20)


async def test_notes_when_the_first_chunk_came() -> None:
    async with claude(json_reply(anthropic.message(anthropic.text("Hello.")))) as (_, gateway):
        await gateway.client.chat.completions.create(model="mine", messages=HELLO)
    assert (gateway.exchanges[0].status, gateway.exchanges[0].error) == (200, "")
    assert [step.kind for step in gateway.exchanges[0].steps if step.duration_ms] == ["upstream"]


async def test_warming_can_be_repeated_and_closing_too() -> None:
    lane = Translated(connect_timeout_s=5, first_byte_timeout_s=5, idle_timeout_s=5)
    for _ in range(2):
        await lane.warm()
        await lane.close()


async def test_a_models_window_is_litellms_once_that_is_imported() -> None:
    lane = Translated(connect_timeout_s=5, first_byte_timeout_s=5, idle_timeout_s=5)
    await lane.warm()
    try:
        assert lane.window_tokens("anthropic/claude-sonnet-4-5") >= 200_000
        assert lane.window_tokens("anthropic/no-such-model") == 0
    finally:
        await lane.close()
