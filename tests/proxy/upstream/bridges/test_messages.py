"""Messages of Anthropic's API, of models whose upstream knows only chat completions, over the wire."""

import json
from typing import Any

import pytest

from proxy.dialects.messages import MESSAGES
from tests.proxy.upstream.bridges.test_responses import LAST, TWO_CALLS, begun, call_piece
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
from tests.support.anthropic_server import Json, json_reply, scripted

__all__ = ["keyless", "silent"]  # fixtures of every test of the file
pytestmark = QUIET_PYDANTIC

ASKING: Json = {"max_tokens": 50, "messages": [{"role": "user", "content": "Hello?"}]}
WEATHER: Json = {"name": "weather", "input_schema": {"type": "object"}}


async def asked(gateway: Gateway, **more: Any) -> tuple[int, Json]:
    """The status and the body of a whole answer."""
    head, _, body = (await raw_answer(gateway, {**ASKING, **more}, MESSAGES.path)).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def streamed(gateway: Gateway, **more: Any) -> list[Json]:
    """The events of an answer."""
    return data_in(await raw_answer(gateway, {**ASKING, "stream": True, **more}, MESSAGES.path))


class TestWhole:
    async def test_a_text_with_usage(self) -> None:
        async with gpt(json_reply(completion("Hello."))) as (upstream, gateway):
            status, message = await asked(gateway, system="Be brief.")
        assert (status, message["content"]) == (200, [{"type": "text", "text": "Hello."}])
        assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "m")
        assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
        assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (5, 2)
        assert upstream.asked[0].json()["messages"][0] == {"role": "system", "content": "Be brief."}

    async def test_the_tokens_of_a_provider_s_cache_are_counted_apart(self) -> None:
        reply = anthropic.message(anthropic.text("Hello."))
        reply["usage"] |= {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 30}
        async with claude(json_reply(reply)) as (_, gateway):
            _, message = await asked(gateway)
        assert message["usage"] == {
            "input_tokens": 11,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 100,
            "output_tokens": 7,
        }

    async def test_tool_calls_go_round(self) -> None:
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
        asking = completion("")
        asking["choices"][0] |= {
            "message": {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "call_2"}]},
            "finish_reason": "tool_calls",
        }
        async with gpt(json_reply(asking), json_reply(completion("Rain."))) as (upstream, gateway):
            _, first = await asked(gateway, tools=[WEATHER], tool_choice={"type": "any"})
            results = [
                {"type": "tool_result", "tool_use_id": each["id"], "content": "rain"} for each in first["content"]
            ]
            turns = [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": results}]
            _, second = await asked(gateway, tools=[WEATHER], messages=[*ASKING["messages"], *turns])
        assert first["stop_reason"] == "tool_use"
        assert [(block["id"], block["name"], block["input"]) for block in first["content"]] == [
            ("call_1", "weather", {"city": "Oslo"}),
            ("call_2", "weather", {"city": "Oslo"}),
        ]
        assert second["content"][0]["text"] == "Rain."
        _, called, *answered = upstream.asked[1].json()["messages"]
        assert [each["id"] for each in called["tool_calls"]] == ["call_1", "call_2"]
        assert [(each["role"], each["tool_call_id"]) for each in answered] == [("tool", "call_1"), ("tool", "call_2")]

    @pytest.mark.parametrize(
        ("finish", "stop"),
        [("length", "max_tokens"), ("content_filter", "refusal"), ("odd", "end_turn"), ("stop", "end_turn")],
    )
    async def test_a_finish_reason_has_anthropics_words(self, finish: str, stop: str) -> None:
        reply = completion("Hel")
        reply["choices"][0]["finish_reason"] = finish
        async with gpt(json_reply(reply)) as (_, gateway):
            _, message = await asked(gateway)
        assert message["stop_reason"] == stop

    async def test_a_refusal_is_a_text_that_stopped_for_a_refusal(self) -> None:
        refusing = completion("")
        refusing["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I cannot."}
        async with gpt(json_reply(refusing)) as (_, gateway):
            _, message = await asked(gateway)
        assert (message["content"], message["stop_reason"]) == ([{"type": "text", "text": "I cannot."}], "refusal")

    async def test_arguments_that_are_no_object_are_a_502(self) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Os'}}
        cut = completion("")
        cut["choices"][0] |= {"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "length"}
        async with gpt(json_reply(cut)) as (_, gateway):
            status, error = await asked(gateway)
        assert (status, error["error"]["type"]) == (502, "api_error")
        assert "raise `max_tokens`" in error["error"]["message"]

    async def test_an_unreported_usage_is_zero_and_estimated_for_the_accounts(self) -> None:
        unreported = {name: value for name, value in completion("Hello.").items() if name != "usage"}
        async with gpt(json_reply(unreported)) as (_, gateway):
            _, message = await asked(gateway)
        tokens = gateway.exchanges[0].tokens
        assert message["usage"]["output_tokens"] == 0
        assert tokens is not None
        assert (tokens.estimated, tokens.completion) == (True, 2)


class TestStreams:
    async def test_a_text_arrives_in_anthropics_events(self) -> None:
        async with claude(events(anthropic.text_stream("Hel", "lo."))) as (_, gateway):
            seen = await streamed(gateway)
        assert [event["type"] for event in seen] == [
            "message_start", "content_block_start", "content_block_delta", "content_block_delta",
            "content_block_stop", "message_delta", "message_stop",
        ]  # fmt: skip
        assert [event["delta"]["text"] for event in seen[2:4]] == ["Hel", "lo."]
        assert seen[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
        assert (seen[-2]["usage"]["input_tokens"], seen[-2]["usage"]["output_tokens"]) == (11, 7)

    @pytest.mark.parametrize("model", ["openai/gpt-4o", "deepseek/deepseek-chat"])
    async def test_parallel_tool_calls_arrive_one_after_the_other(self, model: str) -> None:
        async with (
            scripted(events(TWO_CALLS)) as upstream,
            serving(upstream.url + "/v1", model) as gateway,
        ):
            seen = await streamed(gateway, tools=[WEATHER])
        assert [event["content_block"] for event in seen if event["type"] == "content_block_start"] == [
            {"type": "tool_use", "id": id, "name": "weather", "input": {}} for id in ("call_1", "call_2")
        ]
        deltas = [event for event in seen if event["type"] == "content_block_delta"]
        assert [(event["index"], event["delta"]["partial_json"]) for event in deltas] == [
            (0, '{"city":'),
            (0, '"Oslo"}'),
            (1, "{}"),
        ]
        assert seen[-2]["delta"]["stop_reason"] == "tool_use"

    async def test_signed_thoughts_come_as_a_thinking_block_and_go_back(self) -> None:
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
        thought = {"type": "thinking", "thinking": "So it is.", "signature": "signed"}
        turn = {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}
        again = [*ASKING["messages"], turn, {"role": "user", "content": "Sure?"}]
        budget = {"type": "enabled", "budget_tokens": 1024}
        async with claude(reply, json_reply(anthropic.message(anthropic.text("Ok.")))) as (upstream, gateway):
            gateway.target = gateway.target
            sent = {"model": "claude-sonnet-4-5", "max_tokens": 2000, "thinking": budget}
            seen = await streamed(gateway, **sent)
            await asked(gateway, messages=again, **sent)
        deltas = [event["delta"] for event in seen if event["type"] == "content_block_delta"]
        assert [delta["type"] for delta in deltas] == [*["thinking_delta"] * 2, "signature_delta", "text_delta"]
        assert (deltas[2]["signature"], deltas[1]["thinking"]) == ("signed", "it is.")
        assert upstream.asked[0].json()["thinking"] == budget
        assert upstream.asked[1].json()["messages"][1]["content"] == turn["content"]

    @pytest.mark.parametrize("ending", ["eof", "broken"])
    @pytest.mark.parametrize("received", range(3, len(TWO_CALLS) - 2))
    async def test_a_cut_stream_is_never_a_whole_message(self, received: int, ending: anthropic.Ending) -> None:
        async with gpt(events(TWO_CALLS[:received], ending=ending)) as (_, gateway):
            answer = await raw_answer(gateway, {**ASKING, "stream": True}, MESSAGES.path)
        assert (data_in(answer)[-1]["type"], data_in(answer)[-1]["error"]["type"]) == ("error", "api_error")
        assert b"message_stop" not in answer
        assert not answer.endswith(b"0\r\n\r\n")

    async def test_an_error_within_a_stream_keeps_the_words(self) -> None:
        pieces = [*A_TEXT[:3], anthropic.error_event("overloaded_error", "Overloaded.")]
        async with claude(events(pieces)) as (_, gateway):
            seen = await streamed(gateway)
        assert (seen[-1]["type"], seen[-1]["error"]["message"]) == ("error", "Overloaded.")

    async def test_a_refusal_is_streamed_as_text(self) -> None:
        pieces = [chunk({"role": "assistant", "content": "", "refusal": None}), chunk({"refusal": "I cannot."})]
        async with gpt(events(frames(*pieces, chunk({}, finish_reason="stop"), LAST))) as (_, gateway):
            seen = await streamed(gateway)
        assert seen[2]["delta"] == {"type": "text_delta", "text": "I cannot."}
        assert seen[-2]["delta"]["stop_reason"] == "refusal"

    async def test_a_piece_of_a_call_that_is_over_breaks_the_stream_off(self) -> None:
        late = frames(begun(0, "a", "f"), begun(1, "b", "f"), call_piece(0, function={"arguments": "{}"}), done=False)
        async with gpt(events(late)) as (_, gateway):
            seen = await streamed(gateway)
        assert seen[-1]["type"] == "error"


class TestErrors:
    async def test_an_error_of_the_provider_has_anthropics_form(self) -> None:
        busy = {"error": {"message": f"Not now, {API_KEY}.", "type": "requests", "param": None, "code": "limit"}}
        async with gpt(json_reply(busy, status=429)) as (_, gateway):
            status, error = await asked(gateway)
        assert (status, error["type"], error["error"]["type"]) == (429, "error", "rate_limit_error")
        assert error["error"]["message"] == "Not now, ***."
        assert error["request_id"] == gateway.exchanges[0].id

    @pytest.mark.parametrize(
        ("body", "place"),
        [
            ({"tools": [WEATHER, {"type": "bash_20250124", "name": "bash"}]}, "tools[1].type"),
            ({"mcp_servers": []}, "mcp_servers"),
            ({"container": "c"}, "container"),
            ({"inference_geo": "us"}, "inference_geo"),
            ({"messages": [{"role": "user", "content": [{"type": "search_result"}]}]}, "messages[0].content[0].type"),
        ],
    )
    async def test_a_member_without_a_counterpart_is_refused_by_the_place(self, body: Json, place: str) -> None:
        async with claude() as (upstream, gateway):
            status, error = await asked(gateway, **body)
        assert (status, error["error"]["type"]) == (400, "invalid_request_error")
        assert f"`{place}`" in error["error"]["message"]
        assert upstream.connections == 0
