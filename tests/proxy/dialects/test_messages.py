"""A request for a message: the conversation as the gateway reads it, the place of the passages; and the reply."""

import json
from typing import Any

import pytest

from proxy.dialects.base import ModelRequest, Position
from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from proxy.dialects.replies import ReplyReader, Tokens, ToolCall

CACHED = {"type": "ephemeral"}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "4"}]}
SAYS = {"role": "user", "content": "Q"}
ROUND: list[dict[str, Any]] = [
    {"role": "assistant", "content": [USE]},
    {"role": "user", "content": [RESULT, RESULT]},
]
CONTEXT = {"type": "text", "text": "C"}


def request_of(*messages: Any, **fields: Any) -> ModelRequest:
    return MESSAGES.parse(json.dumps({"model": "m", "messages": messages, **fields}).encode())


def with_context(request: ModelRequest, position: Position = "lead") -> dict[str, Any]:
    request.messages()
    fields: dict[str, Any] = json.loads(request.edited(context="C", position=position))
    return fields


def block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def test_the_system_and_the_messages_are_the_conversation() -> None:
    asked = {"role": "user", "content": [block("a"), {"type": "image", "source": {}}, block("b")]}
    read = request_of(asked, *ROUND, system=[block("S")]).messages()
    assert [(message.role, message.text) for message in read] == [
        ("system", "S"), ("user", "a\nb"), ("assistant", ""), ("tool", "4\n4")
    ]  # fmt: skip
    assert read[2].calls == [USE]


def test_a_user_message_with_a_result_and_a_text_is_a_question() -> None:
    read = request_of({"role": "user", "content": [RESULT, block("And now?")]}).messages()
    assert [(message.role, message.text) for message in read] == [("user", "And now?")]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": "Q"}, "messages"),
        ({"messages": [SAYS, "Q"]}, "messages[1]"), ({"messages": [{"content": "Q"}]}, "messages[0]"),
        ({"messages": [SAYS], "system": 1}, "system"), ({"messages": [SAYS], "system": {}}, "system"),
    ],
)  # fmt: skip
def test_a_conversation_of_another_kind_is_a_400(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        MESSAGES.parse(json.dumps({"model": "m", **fields}).encode()).messages()
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_messages", param)


@pytest.mark.parametrize(
    ("system", "after"),
    [
        ({}, "C"),
        ({"system": None}, "C"),
        ({"system": ""}, "C"),
        ({"system": " "}, " \n\nC"),
        ({"system": "S"}, [block("S"), CONTEXT]),
        ({"system": []}, [CONTEXT]),
        ({"system": [block("S", cache_control=CACHED)]}, [block("S", cache_control=CACHED), CONTEXT]),
    ],
)
def test_the_passages_stand_at_the_end_of_the_system(system: dict[str, Any], after: Any) -> None:
    edited = with_context(request_of(SAYS, **system))
    assert (edited["system"], edited["messages"]) == (after, [SAYS])


def test_a_round_of_tools_keeps_the_passages_at_the_question() -> None:
    edited = with_context(request_of(SAYS, *ROUND), "tail")
    assert edited["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Q"}, {"type": "text", "text": "C"}]},
        *ROUND,
    ]
    mixed = {"role": "user", "content": [RESULT, block("And now?", cache_control=CACHED)]}
    edited = with_context(request_of(SAYS, ROUND[0], mixed), "tail")
    assert edited["messages"][2]["content"] == [*mixed["content"], CONTEXT]


def test_a_reminder_of_the_program_after_the_results_is_no_question() -> None:
    reminder = block("<system-reminder>Todo.</system-reminder>")
    results = {"role": "user", "content": [RESULT, reminder]}
    edited = with_context(request_of(SAYS, ROUND[0], results), "tail")
    assert edited["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Q"}, {"type": "text", "text": "C"}]},
        ROUND[0],
        results,
    ]
    edited = with_context(request_of(results), "tail")
    assert edited["messages"] == [{"role": "user", "content": [RESULT, reminder, CONTEXT]}]


def test_only_a_request_of_the_model_alone_can_be_compared() -> None:
    assert request_of(SAYS).wants_only_text()
    assert not request_of(SAYS, tools=[{}]).wants_only_text()
    assert not request_of(SAYS, mcp_servers=[{}]).wants_only_text()


def test_the_longest_answer_is_max_tokens() -> None:
    assert (request_of(max_tokens=7).answer_tokens(), request_of().answer_tokens()) == (7, 0)


def message_of(*content: Any, **members: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 7, "output_tokens": 5}
    return {"type": "message", "role": "assistant", "content": content, "usage": usage, **members}


def read_back(body: bytes, *, streamed: bool) -> ReplyReader:
    reader = MESSAGES.reader(streamed=streamed)
    reader.feed(body)
    reader.close()
    return reader


def frames(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def events_of(*blocks: tuple[dict[str, Any], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The events of blocks: each block as it begins, with its deltas."""
    events: list[dict[str, Any]] = []
    for index, (begun, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    return events


def test_a_stream_of_thinking_tools_and_text_is_read() -> None:
    thinks = [{"type": "thinking_delta", "thinking": "Hm."}, {"type": "signature_delta", "signature": "EqQB"}]
    says = [{"type": "text_delta", "text": "Ye"}, {"type": "text_delta", "text": "s."}]
    calls = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"a"', ": 1}")]
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    usage = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    body = frames(
        {"type": "message_start", "message": message_of(stop_reason=None)},
        {"type": "ping"},
        *events_of(
            ({"type": "thinking", "thinking": "", "signature": ""}, thinks),
            (search, calls),
            (block(""), says),
            (USE, calls),
            ({**USE, "id": "u"}, []),
        ),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
        {"type": "message_stop"},
    )
    reader = read_back(body, streamed=True)
    assert (reader.answer, reader.text_bytes, reader.finish_reason, reader.ended) == ("Yes.", 23, "tool_calls", True)
    assert reader.tool_calls == [ToolCall("t", "f", '{"a": 1}'), ToolCall("u", "f", "{}")]
    assert reader.usage == MESSAGES.usage_in(body, body) == Tokens(30, 9, cached=7, reasoning=4, cache_writes=20)


def test_a_whole_message_is_read() -> None:
    call = {**USE, "input": {"usage": {"input_tokens": 10**6, "output_tokens": 10**6}}}
    thinking = {"type": "thinking", "thinking": "Hm."}
    body = json.dumps(message_of(thinking, block("Yes."), call, stop_reason="max_tokens")).encode()
    reader = read_back(body, streamed=False)
    assert (reader.answer, reader.finish_reason, reader.whole) == ("Yes.", "length", True)
    assert [json.loads(made.arguments) for made in reader.tool_calls] == [call["input"]]
    assert reader.usage == MESSAGES.usage_in(body, body) == Tokens(30, 5, cached=7, cache_writes=20)


def test_the_calls_of_a_compaction_count() -> None:
    calls = [
        {"type": "compaction", "input_tokens": 60385, "output_tokens": 522},
        {"type": "message", "input_tokens": 612, "cache_read_input_tokens": 8, "output_tokens": 2819},
    ]
    usage = {"input_tokens": 612, "cache_read_input_tokens": 8, "output_tokens": 2819, "iterations": calls}
    body = frames(
        {"type": "message_start", "message": {"usage": {"input_tokens": 60385, "output_tokens": 5}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
    )
    assert read_back(body, streamed=True).usage == MESSAGES.usage_in(body, body) == Tokens(61005, 3341, cached=8)


@pytest.mark.parametrize("usage", [{"prompt_tokens": 1}, {"input_tokens": -1}, {"output_tokens": "1"}])
def test_a_usage_without_counts_of_anthropics_is_no_usage(usage: dict[str, Any]) -> None:
    body = json.dumps({"type": "message", "usage": usage}).encode()
    assert MESSAGES.usage_in(body, body) is None
    assert read_back(body, streamed=False).usage is None


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_of_the_upstream_is_read(streamed: bool) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}
    reader = read_back(frames(error) if streamed else json.dumps(error).encode(), streamed=streamed)
    assert (reader.error, reader.whole) == ("Overloaded", False)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"),
        (404, "not_found_error"), (405, "invalid_request_error"), (413, "request_too_large"),
        (429, "rate_limit_error"), (500, "api_error"), (502, "api_error"), (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)  # fmt: skip
def test_an_error_of_the_gateway_has_anthropics_form(status: int, kind: str) -> None:
    body = json.loads(MESSAGES.error_body(ApiError(status, "No \ud83d.", code="odd"), "rag-1"))
    row = {"type": kind, "message": "No \\ud83d."}
    assert body == {"type": "error", "error": row, "request_id": "rag-1"}
