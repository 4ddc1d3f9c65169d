"""Responses of models whose upstream knows only chat completions, asked by the official openai SDK."""

import asyncio
import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from proxy.dialects.responses import RESPONSES
from tests.proxy.upstream.translated.provider_lane import (
    A_TEXT,
    API_KEY,
    QUIET_PYDANTIC,
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

__all__ = ["keyless", "silent"]  # fixtures of every test of the file
pytestmark = QUIET_PYDANTIC

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
LAST = {**chunk({}), "choices": [], "usage": USAGE}
WEATHER: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}


def call_piece(index: int, **more: Any) -> Json:
    return chunk({"tool_calls": [{"index": index, **more}]})


def begun(index: int, id: str, name: str) -> Json:
    return call_piece(index, id=id, type="function", function={"name": name, "arguments": ""})


TWO_CALLS = frames(
    chunk({"role": "assistant", "content": None}),
    begun(0, "call_1", "weather"),
    call_piece(0, function={"arguments": '{"city":'}),
    call_piece(0, function={"arguments": '"Oslo"}'}),
    begun(1, "call_2", "weather"),
    call_piece(1, function={"arguments": "{}"}),
    chunk({}, finish_reason="tool_calls"),
    LAST,
)


class TestWhole:
    async def test_a_text_with_usage(self) -> None:
        async with claude(json_reply(anthropic.message(anthropic.text("Hello.")))) as (upstream, gateway):
            answer = await gateway.client.responses.create(
                model="mine", input="Say hello.", instructions="Be brief.", max_output_tokens=50, metadata={"a": "b"}
            )
        assert (answer.output_text, answer.status, answer.model) == ("Hello.", "completed", "mine")
        assert answer.usage is not None
        assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (11, 7, 18)
        assert (answer.instructions, answer.metadata, answer.max_output_tokens) == ("Be brief.", {"a": "b"}, 50)
        assert answer.model_extra is not None
        assert answer.model_extra["store"] is False
        asked = upstream.asked[0].json()
        assert (asked["max_tokens"], asked["system"][0]["text"]) == (50, "Be brief.")
        assert asked["messages"][0]["role"] == "user"

    async def test_tool_calls_go_round(self) -> None:
        asking = anthropic.message(
            anthropic.tool_use("toolu_1", "weather", {"city": "Oslo"}),
            anthropic.tool_use("toolu_2", "weather", {"city": "Rome"}),
            stop_reason="tool_use",
        )
        async with claude(json_reply(asking), json_reply(anthropic.message(anthropic.text("Rain.")))) as (up, gateway):
            create = gateway.client.responses.create
            first = await create(model="mine", input="Weather?", tools=[WEATHER], tool_choice="required")
            calls = [item for item in first.output if item.type == "function_call"]
            results: list[Any] = [
                {"type": "function_call_output", "call_id": call.call_id, "output": call.arguments} for call in calls
            ]
            history: list[Any] = [{"role": "user", "content": "Weather?"}, *(item.to_dict() for item in first.output)]
            second = await create(model="mine", input=[*history, *results], tools=[WEATHER])
        assert [(call.call_id, call.name, json.loads(call.arguments)["city"]) for call in calls] == [
            ("toolu_1", "weather", "Oslo"),
            ("toolu_2", "weather", "Rome"),
        ]
        assert second.output_text == "Rain."
        assert up.asked[0].json()["tool_choice"] == {"type": "any"}
        _, called, answered = up.asked[1].json()["messages"]
        assert [block["id"] for block in called["content"]] == ["toolu_1", "toolu_2"]
        assert [block["tool_use_id"] for block in answered["content"]] == ["toolu_1", "toolu_2"]

    @pytest.mark.parametrize(
        ("finish", "status", "reason"),
        [("length", "incomplete", "max_output_tokens"), ("content_filter", "incomplete", "content_filter")],
    )
    async def test_an_answer_that_stopped_early_is_incomplete(self, finish: str, status: str, reason: str) -> None:
        cut = completion("Hel")
        cut["choices"][0]["finish_reason"] = finish
        async with gpt(json_reply(cut)) as (_, gateway):
            answer = await gateway.client.responses.create(model="mine", input="Hello?")
        assert answer.incomplete_details is not None
        assert (answer.status, answer.incomplete_details.reason, answer.output_text) == (status, reason, "Hel")

    async def test_a_refusal_stays_a_refusal(self) -> None:
        refusing = completion("")
        refusing["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I cannot."}
        async with gpt(json_reply(refusing)) as (_, gateway):
            answer = await gateway.client.responses.create(model="mine", input="Hello?")
        assert answer.output[0].to_dict()["content"] == [{"type": "refusal", "refusal": "I cannot."}]

    async def test_an_unreported_usage_is_null_and_estimated_for_the_accounts(self) -> None:
        unreported = {name: value for name, value in completion("Hello.").items() if name != "usage"}
        async with gpt(json_reply(unreported)) as (_, gateway):
            answer = await gateway.client.responses.create(model="mine", input="Hello?")
        tokens = gateway.exchanges[0].tokens
        assert answer.usage is None
        assert tokens is not None
        assert (tokens.estimated, tokens.completion) == (True, 2)

    async def test_structured_output_is_asked_for_and_parsed(self) -> None:
        class Place(BaseModel):
            city: str

        async with gpt(json_reply(completion('{"city": "Oslo"}'))) as (upstream, gateway):
            parsed = await gateway.client.responses.parse(model="mine", input="Where?", text_format=Place)
        assert parsed.output_parsed == Place(city="Oslo")
        asked = upstream.asked[0].json()["response_format"]["json_schema"]
        assert (asked["name"], asked["strict"], list(asked["schema"]["properties"])) == ("Place", True, ["city"])


class TestStreams:
    async def test_a_text_arrives_piece_by_piece(self) -> None:
        reply = events(anthropic.text_stream("Hel", "lo."), hold_before=4)  # after the first delta
        async with claude(reply) as (_, gateway):
            stream = await gateway.client.responses.create(model="mine", input="Say hello.", stream=True)
            seen = []
            async for event in stream:
                seen.append(event)
                if event.type == "response.output_text.delta" and event.delta == "Hel":
                    await reply.holding.wait()  # the upstream has not sent the second piece yet
                    reply.release.set()
        assert [event.type.removeprefix("response.") for event in seen] == [
            "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
            "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed",
        ]  # fmt: skip
        assert [event.sequence_number for event in seen] == list(range(len(seen)))
        assert seen[-1].type == "response.completed"
        assert (seen[-1].response.output_text, seen[-1].response.model) == ("Hello.", "mine")
        assert seen[-1].response.usage is not None
        assert seen[-1].response.usage.output_tokens == 7

    @pytest.mark.parametrize("model", ["openai/gpt-4o", "deepseek/deepseek-chat"])
    async def test_parallel_tool_calls_arrive_one_after_the_other(self, model: str) -> None:
        async with (
            scripted(events(TWO_CALLS)) as upstream,
            serving(upstream.url + "/v1", model) as gateway,
            gateway.client.responses.stream(model="mine", input="Weather?", tools=[WEATHER]) as stream,
        ):
            deltas = [event async for event in stream if event.type == "response.function_call_arguments.delta"]
            whole = await stream.get_final_response()
        calls = [item for item in whole.output if item.type == "function_call"]
        assert [(call.call_id, call.arguments, call.status) for call in calls] == [
            ("call_1", '{"city":"Oslo"}', "completed"),
            ("call_2", "{}", "completed"),
        ]
        assert [(event.output_index, event.delta) for event in deltas] == [(0, '{"city":'), (0, '"Oslo"}'), (1, "{}")]
        assert upstream.asked[0].json()["stream_options"] == {"include_usage": True}

    async def test_a_refusal_is_streamed(self) -> None:
        pieces = [chunk({"role": "assistant", "content": "", "refusal": None}), chunk({"refusal": "I "})]
        pieces += [chunk({"refusal": "cannot."}), chunk({}, finish_reason="stop"), LAST]
        async with gpt(events(frames(*pieces))) as (_, gateway):
            stream = await gateway.client.responses.create(model="mine", input="Q", stream=True)
            seen = [event async for event in stream]
        assert [event.delta for event in seen if event.type == "response.refusal.delta"] == ["I ", "cannot."]
        assert seen[-1].type == "response.completed"
        assert seen[-1].response.output[0].to_dict()["content"] == [{"type": "refusal", "refusal": "I cannot."}]

    async def test_reasoning_comes_as_an_item_before_the_answer_and_its_signature_goes_back(self) -> None:
        thinking = [
            anthropic._block(0, {"type": "thinking", "thinking": "", "signature": ""}),
            anthropic._delta(0, {"type": "thinking_delta", "thinking": "So "}),
            anthropic._delta(0, {"type": "thinking_delta", "thinking": "it is."}),
            anthropic._delta(0, {"type": "signature_delta", "signature": "signed"}),
            anthropic._block_stop(0),
            anthropic._block(1, {"type": "text", "text": ""}),
            anthropic._delta(1, {"type": "text_delta", "text": "Yes."}),
            anthropic._block_stop(1),
        ]
        reply = events([anthropic._start(), *thinking, *anthropic._end("end_turn")])
        async with claude(reply, json_reply(anthropic.message(anthropic.text("Ok.")))) as (upstream, gateway):
            create, reasoning = gateway.client.responses.create, {"effort": "low", "summary": "auto"}
            stream = await create(model="mine", input="Q", stream=True, reasoning=reasoning)  # type: ignore[call-overload]
            seen = [event async for event in stream]
            items = seen[-1].response.output
            history: list[Any] = [{"role": "user", "content": "Q"}, *(item.to_dict() for item in items)]
            await create(model="mine", input=[*history, {"role": "user", "content": "Sure?"}])
        assert [event.delta for event in seen if event.type == "response.reasoning_text.delta"] == ["So ", "it is."]
        assert [item.type for item in items] == ["reasoning", "message"]
        assert upstream.asked[0].json()["thinking"]["type"] == "enabled"
        assert upstream.asked[1].json()["messages"][1]["content"] == [
            {"type": "thinking", "thinking": "So it is.", "signature": "signed"},
            {"type": "text", "text": "Yes."},
        ]

    @pytest.mark.parametrize("ending", ["eof", "broken"])
    @pytest.mark.parametrize("received", range(3, len(TWO_CALLS) - 2))
    async def test_a_cut_stream_is_never_a_whole_response(self, received: int, ending: anthropic.Ending) -> None:
        async with gpt(events(TWO_CALLS[:received], ending=ending)) as (_, gateway):
            answer = await raw_answer(gateway, {"input": "Q", "stream": True}, RESPONSES.path)
        assert data_in(answer)[-1]["type"] == "error"
        assert data_in(answer)[-1]["code"].startswith("upstream_")
        assert b"response.completed" not in answer
        assert not answer.endswith(b"0\r\n\r\n")

    async def test_an_error_within_a_stream_keeps_the_words(self) -> None:
        pieces = [*A_TEXT[:3], anthropic.error_event("overloaded_error", "Overloaded.")]
        async with claude(events(pieces)) as (_, gateway):
            stream = await gateway.client.responses.create(model="mine", input="Q", stream=True)
            with pytest.raises(openai.APIError, match=r"Overloaded\."):
                async for _ in stream:
                    pass
        assert gateway.exchanges[0].error == "upstream_error"

    async def test_a_piece_of_a_call_that_is_over_breaks_the_stream_off(self) -> None:
        piece = call_piece(0, function={"arguments": "{}"})
        late = frames(begun(0, "a", "f"), piece, begun(1, "b", "f"), piece, done=False)
        async with gpt(events(late)) as (_, gateway):
            answer = await raw_answer(gateway, {"input": "Q", "stream": True}, RESPONSES.path)
        assert data_in(answer)[-1]["code"] == "upstream_garbled"
        assert not answer.endswith(b"0\r\n\r\n")


class TestHints:
    async def test_a_hint_that_a_provider_lacks_is_left_out_and_said_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        replies = [json_reply(anthropic.message(anthropic.text("Hello."))) for _ in range(2)]
        async with claude(*replies) as (upstream, gateway):
            for _ in range(2):
                answer = await gateway.client.responses.create(
                    model="mine", input="Q", prompt_cache_key="k", safety_identifier="s"
                )
                assert answer.output_text == "Hello."
        assert upstream.connections == 2
        said = [record.message.partition(" has no ")[2].partition(":")[0] for record in caplog.records]
        assert sorted(said) == ["prompt_cache_key", "safety_identifier"]
        assert [exchange.error for exchange in gateway.exchanges] == ["", ""]


class TestErrors:
    async def test_an_error_of_the_provider_keeps_status_words_and_headers(self) -> None:
        busy = {"error": {"message": f"Not now, {API_KEY}.", "type": "requests", "param": None, "code": "limit"}}
        async with gpt(json_reply(busy, status=429, headers=[("retry-after", "7")])) as (_, gateway):
            with pytest.raises(openai.RateLimitError, match=r"Not now, \*\*\*") as caught:
                await gateway.client.responses.create(model="mine", input="Q")
        assert (caught.value.code, caught.value.response.headers["retry-after"]) == ("limit", "7")

    @pytest.mark.parametrize(
        ("body", "place"),
        [
            ({"previous_response_id": "resp_1"}, "previous_response_id"),
            ({"conversation": "conv_1"}, "conversation"),
            ({"prompt": {"id": "p"}}, "prompt"),
            ({"background": True}, "background"),
            ({"tools": [WEATHER, {"type": "web_search"}]}, "tools[1].type"),
            ({"tool_choice": {"type": "file_search"}}, "tool_choice.type"),
            ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
            ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
             "input[0].content[0].file_id"),
            ({"include": ["message.output_text.logprobs"]}, "include"),
            ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
            ({"mock_response": "x"}, "mock_response"),
        ],
    )  # fmt: skip
    async def test_a_member_without_a_counterpart_is_refused_by_the_place(self, body: Json, place: str) -> None:
        async with claude() as (upstream, gateway):
            answer = await raw_answer(gateway, {"input": "Q", **body}, RESPONSES.path)
        assert b" 400 " in answer.partition(b"\r\n")[0]
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert (error["param"], error["code"]) == (place, "unsupported_by_bridge")
        assert upstream.connections == 0

    async def test_a_stream_where_none_was_asked_for_is_a_502(self) -> None:
        async with gpt(events(TWO_CALLS)) as (_, gateway):
            answer = await raw_answer(gateway, {"input": "Q"}, RESPONSES.path)
        assert b" 502 " in answer.partition(b"\r\n")[0]


class TestLeaving:
    @pytest.mark.parametrize("stream", [False, True])
    async def test_the_call_ends_with_the_client(self, stream: bool) -> None:
        for lane, pieces in ((claude, A_TEXT), (gpt, TWO_CALLS)):
            reply = events(pieces, hold_before=4)
            if not stream:
                reply = Reply([b"{}"], hold_before=0)
            async with lane(reply) as (_, gateway):
                await self.leave(gateway, reply, stream=stream)

    async def leave(self, gateway: Gateway, reply: Reply, *, stream: bool) -> None:
        sent = json.dumps({"model": "m", "input": "Q", "stream": stream}).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s"
        writer.write(head % (len(sent), sent))
        await reply.holding.wait()
        writer.close()
        await writer.wait_closed()
        await asyncio.wait_for(reply.peer_left.wait(), 100)
        await asyncio.wait_for(gateway.answered.wait(), 100)
        assert gateway.cancelled == 1
