"""A request for a message becomes a request for a chat completion, or a 400 that names the member."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from proxy.upstream.bridges.members import ABOUT_CLIENT
from proxy.upstream.bridges.messages_request import chat_of
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
from tests.proxy.upstream.translated.test_request import JSONS, MEMBERS, MODELS, at
from tests.support.anthropic_server import Json

__all__ = ["keyless", "silent", "with_aws"]  # fixtures
pytestmark = QUIET_PYDANTIC

CACHED = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "AA=="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "AA=="}
NOTE = {"type": "text", "media_type": "text/plain", "data": "A note."}
# Each object of a request, once.
WHOLE: Json = {
    "model": "anthropic/claude-sonnet-4-5",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be brief.", **CACHED}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?", **CACHED},
                {"type": "image", "source": PIXEL},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "document", "source": PDF, "title": "a.pdf", "citations": {"enabled": False}},
                {"type": "document", "source": NOTE, "title": "N", "context": "C"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "So.", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "thinking", "thinking": "Unsigned.", "signature": ""},
                {"type": "text", "text": "Let me see.", "citations": None},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}, **CACHED},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": True},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}], **CACHED},
                {"type": "text", "text": "And?"},
            ],
        },
        {"role": "assistant", "content": "{"},
    ],
    "stop_sequences": ["x"],
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "stream": True,
    "metadata": {"user_id": "u"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA, "strict": True, "type": "custom", **CACHED}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "service_tier": "auto",
    "context_management": {"edits": []},
    "cache_control": {"type": "ephemeral"},
}
CHAT: Json = {
    "model": "anthropic/claude-sonnet-4-5",
    "max_tokens": 9,
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief.", **CACHED}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?", **CACHED},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
                {"type": "text", "text": "N\nC\nA note."},
            ],
        },
        {
            "role": "assistant",
            "content": "Let me see.",
            "thinking_blocks": [
                {"type": "thinking", "thinking": "So.", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
            ],
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}, **CACHED},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2", **CACHED},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "{"},
    ],
    "stop": ["x"],
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "stream": True,
    "stream_options": {"include_usage": True},
    "user": "u",
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA, "strict": True}},
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
            **CACHED,
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "parallel_tool_calls": False,
}


def test_every_member_with_a_counterpart_is_translated_and_passes_the_allow_list() -> None:
    assert chat_of(WHOLE) == CHAT
    assert parameters_of(json.dumps(CHAT).encode()) == {name: value for name, value in CHAT.items() if name != "model"}


def test_another_model_gets_no_member_that_only_claude_knows() -> None:
    chat = json.dumps(chat_of({**WHOLE, "model": "openai/gpt-4o"}))
    assert not [name for name in ("cache_control", "thinking") if f'"{name}' in chat]


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [("auto", "auto"), ("any", "required"), ("none", "none")],
)
def test_a_tool_choice_has_the_words_of_chat_completions(choice: str, chosen: str) -> None:
    asking = {"messages": [{"role": "user", "content": "Q"}], "tools": WHOLE["tools"]}
    chat = chat_of({"model": "m", **asking, "tool_choice": {"type": choice}})
    assert (chat["tool_choice"], "parallel_tool_calls" in chat) == (chosen, False)


# --- Every member is translated, left out as documented, or refused by the place of the member.

IGNORED = {"context_management", "cache_control", "service_tier", "is_error", "citations", "type"}
IGNORED |= {"eager_input_streaming", "defer_loading"}
FREE = {"input_schema", "schema", "input", "context_management", "thinking", "cache_control"}


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The place of each value that the bridge reads."""
    if path:
        yield path
    if isinstance(value, dict | list) and path[-1:] not in {(name,) for name in FREE}:
        for name, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(member, (*path, name))


PLACES = [path for path in places(WHOLE) if path[-1] not in FREE]
OBJECTS = [(), *(path for path in PLACES if isinstance(at(WHOLE, path), dict))]


@given(st.sampled_from(OBJECTS), MEMBERS, JSONS)
def test_an_unknown_member_is_refused_by_the_place(path: tuple[Any, ...], name: str, value: object) -> None:
    body = json.loads(json.dumps(WHOLE))
    assume(name not in at(body, path) and name not in IGNORED and not ABOUT_CLIENT.fullmatch(name))
    assume(value is not None)
    at(body, path)[name] = value
    with pytest.raises(ApiError) as refused:
        parameters_of(json.dumps(chat_of(body)).encode())
    assert refused.value.status == 400
    assert (refused.value.param or "").endswith(name)


@given(st.sampled_from(PLACES), JSONS)
def test_any_value_anywhere_is_translated_or_a_400(path: tuple[Any, ...], value: object) -> None:
    body = json.loads(json.dumps(WHOLE))
    *before, last = path
    at(body, tuple(before))[last] = value
    with contextlib.suppress(ApiError):
        parameters_of(json.dumps(chat_of(body)).encode())


def asking(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, *blocks]}]}


def shapes(address: str) -> list[Json]:
    """Requests with an address for a bridge, litellm, or one of litellm's providers to open."""
    schema = {"type": "object", "properties": {"a": {"$ref": address}}, "$schema": address, "$id": address}
    link = {"type": "url", "url": address}
    result = {"type": "tool_result", "tool_use_id": "c"}
    return [
        {**asking(), "output_config": {"format": {"type": "json_schema", "schema": schema}}},
        {**asking(), "tools": [{"name": "f", "input_schema": schema}]},
        {**asking(), "mcp_servers": [{"type": "url", "url": address, "name": "x"}]},
        {**asking(), "tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {**asking(), "api_base": address},
        asking({"type": "image", "source": link}),
        asking({"type": "image", "source": {"type": "url", "url": address + ".png"}}),
        asking({"type": "image", "source": {"type": "file", "file_id": address}}),
        asking({"type": "document", "source": link}),
        asking({"type": "document", "source": {"type": "file", "file_id": address}}),
        {"messages": [{"role": "user", "content": [{**result, "content": [{"type": "image", "source": link}]}]}]},
        {**asking(), "system": [{"type": "image", "source": link}]},
    ]


class TestNothingIsOpened:
    """The traps of the translated lane stay shut for requests of this dialect."""

    @pytest.mark.usefixtures("with_aws")
    @pytest.mark.parametrize("model", MODELS)
    async def test_an_address_in_a_request_is_never_asked(self, model: str) -> None:
        inside, upstream, requests = await connections_opened(model, shapes, MESSAGES.path, max_tokens=9)
        assert inside == 0
        assert upstream <= requests

    @pytest.mark.parametrize("address", ["file:///etc/passwd", "/etc/passwd", "gs://bucket/a.png", "s3://b/a", "http:"])
    async def test_an_address_of_another_scheme_is_refused(self, address: str) -> None:
        async with claude() as (upstream, gateway):
            for body in shapes(address)[2:]:
                answer = await raw_answer(gateway, {"max_tokens": 9, **body}, MESSAGES.path)
                assert b" 400 " in answer.partition(b"\r\n")[0], body
        assert upstream.connections == 0
