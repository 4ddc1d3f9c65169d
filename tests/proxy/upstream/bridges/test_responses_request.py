"""A request for a response becomes a request for a chat completion, or a 400 that names the member."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.dialects.errors import ApiError
from proxy.dialects.responses import RESPONSES
from proxy.upstream.bridges.members import ABOUT_CLIENT
from proxy.upstream.bridges.responses_request import chat_of, packed
from proxy.upstream.translated.request import parameters_of
from tests.proxy.upstream.translated.provider_lane import (
    QUIET_PYDANTIC,
    claude,
    connections_opened,
    keyless,
    raw_answer,
    silent,
    with_aws,
)
from tests.proxy.upstream.translated.test_request import JSONS, MEMBERS, MODELS, at, written
from tests.support.anthropic_server import Json

__all__ = ["keyless", "silent", "with_aws"]  # fixtures
pytestmark = QUIET_PYDANTIC

SCHEMA = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}
THOUGHT = [{"type": "thinking", "thinking": "So.", "signature": "s"}]
# Each object of a request, once.
WHOLE: Json = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"role": "developer", "content": "Use tools."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is it?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": packed(THOUGHT)},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": [{}], "logprobs": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "b", "name": "g", "input": "x"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
        {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "So."}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "user", "content": "Why?"},
    ],
    "max_output_tokens": 9,
    "temperature": 0.5,
    "top_p": 0.9,
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": None},
    },
    "tools": [
        {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
        {"type": "custom", "name": "g", "format": {"type": "grammar", "definition": "x", "syntax": "lark"}},
    ],
    "tool_choice": {"type": "function", "name": "f"},
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
    "store": True,
    "truncation": "auto",
    "max_tool_calls": 3,
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "service_tier": "flex",
    "background": False,
    "previous_response_id": None,
}
CHAT: Json = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Use tools."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Let me see.",
            "thinking_blocks": THOUGHT,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "user", "content": "Why?"},
    ],
    "max_tokens": 9,
    "temperature": 0.5,
    "top_p": 0.9,
    "parallel_tool_calls": False,
    "reasoning_effort": "low",
    "verbosity": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
    "tools": [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}},
        {
            "type": "custom",
            "custom": {"name": "g", "format": {"type": "grammar", "grammar": {"definition": "x", "syntax": "lark"}}},
        },
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "stream": True,
    "stream_options": {"include_usage": True},
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "service_tier": "flex",
}


def test_every_member_with_a_counterpart_is_translated_and_passes_the_allow_list() -> None:
    assert chat_of(WHOLE) == CHAT
    assert parameters_of(json.dumps(CHAT).encode()) == {name: value for name, value in CHAT.items() if name != "model"}


def test_the_default_of_every_api_is_left_out() -> None:
    chat = chat_of({**WHOLE, "parallel_tool_calls": True, "service_tier": "default"})
    assert not {"parallel_tool_calls", "service_tier"} & set(chat)
    assert chat_of({**WHOLE, "service_tier": "flex"})["service_tier"] == "flex"


def item_of(kind: str, id: str) -> Json:
    if kind == "call":
        return {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}
    if kind == "result":
        return {"type": "function_call_output", "call_id": id, "output": ""}
    return {"role": "assistant", "content": "t"}


@pytest.mark.parametrize(
    ("items", "roles"),
    [
        ([("call", "a"), ("result", "a"), ("call", "b"), ("result", "b")], ["a", "=a", "b", "=b"]),
        ([("call", "a"), ("call", "b"), ("result", "b"), ("result", "a")], ["ab", "=b", "=a"]),
        ([("text", ""), ("text", ""), ("call", "a")], ["", "a"]),
    ],
)
def test_the_calls_of_a_turn_are_one_message(items: list[tuple[str, str]], roles: list[str]) -> None:
    messages = chat_of({"model": "m", "input": [item_of(kind, id) for kind, id in items]})["messages"]
    called = ["".join(call["id"] for call in message.get("tool_calls", [])) for message in messages]
    results = ["=" + message["tool_call_id"] if message["role"] == "tool" else "" for message in messages]
    seen = [result or ids for result, ids in zip(results, called, strict=True)]
    assert seen == roles


def test_of_allowed_tools_only_the_allowed_tools_are_sent() -> None:
    tools = [{"type": "function", "name": name} for name in "fgh"]
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}
    chat = chat_of({"model": "m", "input": "Q", "tools": tools, "tool_choice": choice})
    assert (chat["tools"], chat["tool_choice"]) == ([{"type": "function", "function": {"name": "g"}}], "required")


@pytest.mark.parametrize("sealed", ["gAAAA", "ragway:", "ragway:%%", "ragway:e30=", 7, None])
def test_reasoning_of_another_server_is_left_out(sealed: object) -> None:
    items = [{"role": "user", "content": "Q"}, {"type": "reasoning", "summary": [], "encrypted_content": sealed}]
    assert [message["role"] for message in chat_of({"model": "m", "input": items})["messages"]] == ["user"]


@pytest.mark.parametrize("items", [1, 100])
def test_packed_reasoning_with_too_many_values_is_refused_before_the_values_are_read(items: int) -> None:
    sealed = packed([{"a": []}] * (200_000 // items))
    reasoning = [{"type": "reasoning", "summary": [], "encrypted_content": sealed}] * items
    with pytest.raises(ApiError, match="too many values"):
        chat_of({"model": "m", "input": [{"role": "user", "content": "Q"}, *reasoning]})


# --- Every member is translated, left out as documented, or refused by the place of the member.

IGNORED = {
    (): {
        "store",
        "truncation",
        "max_tool_calls",
        "stream_options",
        "prompt_cache_retention",
        "context_management",
        "access_programs",
        "generate",
    },
    ("reasoning",): {"summary", "generate_summary"},
    ("tools", 0): {"output_schema"},
    ("input", 6): {"name"},
    ("input", 7): {"name"},
}
FREE = {"parameters", "schema", "metadata", "stream_options", "annotations"}  # left out, or read by the provider alone
THINKING = ("input", 2), ("input", 8)


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The place of each value that the bridge reads."""
    if path:
        yield path
    if isinstance(value, dict | list) and path[-1:] not in {(name,) for name in FREE} and path not in THINKING:
        for name, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(member, (*path, name))


PLACES = [path for path in places(WHOLE) if path[-1] not in FREE]
OBJECTS = [(), *(path for path in PLACES if isinstance(at(WHOLE, path), dict) and path not in THINKING)]


@given(st.sampled_from(OBJECTS), MEMBERS, JSONS)
def test_an_unknown_member_is_refused_by_the_place(path: tuple[Any, ...], name: str, value: object) -> None:
    body = json.loads(json.dumps(WHOLE))
    assume(name not in at(body, path) and name not in IGNORED.get(path, set()) and value is not None)
    assume(not ABOUT_CLIENT.fullmatch(name))
    at(body, path)[name] = value
    with pytest.raises(ApiError) as refused:
        parameters_of(json.dumps(chat_of(body)).encode())
    assert refused.value.status == 400
    assert (refused.value.param or "").endswith(written((*path, name))[-len(name) :])


@given(st.sampled_from(PLACES), JSONS)
def test_any_value_anywhere_is_translated_or_a_400(path: tuple[Any, ...], value: object) -> None:
    body = json.loads(json.dumps(WHOLE))
    *before, last = path
    at(body, tuple(before))[last] = value
    with contextlib.suppress(ApiError):
        parameters_of(json.dumps(chat_of(body)).encode())


def asking(*parts: Json) -> Json:
    return {"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, *parts]}]}


def shapes(address: str) -> list[Json]:
    """Requests with an address for a bridge, litellm, or one of litellm's providers to open."""
    schema = {"type": "object", "properties": {"a": {"$ref": address}}, "$schema": address, "$id": address}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    result = {"type": "function_call_output", "call_id": "c"}
    sealed = packed([{"type": "thinking", "thinking": "x", "signature": address, "url": address}])
    return [
        {"input": "hi", "text": {"format": form}},
        {"input": "hi", "text": {"format": {"type": "json_object", "response_schema": schema}}},
        {"input": "hi", "tools": [{"type": "function", "name": "f", "parameters": schema}]},
        {"input": "hi", "tools": [{"type": "mcp", "server_url": address, "server_label": "x"}]},
        {"input": "hi", "api_base": address},
        {"input": [{"role": "user", "content": "hi"}, {"type": "reasoning", "encrypted_content": sealed}]},
        asking({"type": "input_image", "image_url": address}),
        asking({"type": "input_image", "image_url": {"url": address}}),
        asking({"type": "input_image", "image_url": address + ".png"}),
        asking({"type": "input_file", "file_data": address}),
        asking({"type": "input_file", "file_id": address}),
        asking({"type": "input_file", "file_url": address}),
        {"input": [{**result, "output": [{"type": "input_image", "image_url": address}]}]},
        {"input": [{**result, "output": [{"type": "input_file", "file_data": address}]}]},
    ]


class TestNothingIsOpened:
    """The traps of the translated lane stay shut for requests of this dialect."""

    @pytest.mark.usefixtures("with_aws")
    @pytest.mark.parametrize("model", MODELS)
    async def test_an_address_in_a_request_is_never_asked(self, model: str) -> None:
        inside, upstream, requests = await connections_opened(model, shapes, RESPONSES.path)
        assert inside == 0
        assert upstream <= requests

    @pytest.mark.parametrize("address", ["file:///etc/passwd", "/etc/passwd", "gs://bucket/a.png", "s3://b/a", "http:"])
    async def test_an_address_of_another_scheme_is_refused(self, address: str) -> None:
        async with claude() as (upstream, gateway):
            for body in shapes(address)[6:]:
                assert b" 400 " in (await raw_answer(gateway, body, RESPONSES.path)).partition(b"\r\n")[0], body
        assert upstream.connections == 0
