"""What a client may send through the translated lane, and what it must never steer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.dialects.errors import ApiError
from proxy.upstream.translated.request import PARAMETERS, parameters_of, sendable
from tests.proxy.upstream.translated.provider_lane import (
    API_KEY,
    HELLO,
    QUIET_PYDANTIC,
    claude,
    completion,
    connections_opened,
    gpt,
    keyless,
    raw_answer,
    serving,
    silent,
    with_aws,
)
from tests.support import anthropic_server as anthropic
from tests.support.anthropic_server import Json, json_reply, scripted

__all__ = ["keyless", "silent", "with_aws"]  # fixtures
pytestmark = QUIET_PYDANTIC


class TestNotRouting:
    """The client's body chooses neither address, key, provider nor answer."""

    @pytest.mark.parametrize(
        "control",
        [
            {"mock_response": "from the client"},
            {"mock_tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"api_base": "http://127.0.0.1:9/"},
            {"base_url": "http://127.0.0.1:9/"},
            {"api_key": "mine"},
            {"custom_llm_provider": "openai"},
            {"fallbacks": ["openai/gpt-4o"]},
            {
                "model_list": [
                    {"model_name": "m", "litellm_params": {"model": "openai/x", "api_base": "http://127.0.0.1:9"}}
                ]
            },
            {"user_config": {"model_list": [{"litellm_params": {"api_base": "http://127.0.0.1:9"}}]}},
            {"extra_headers": {"x-a": "b"}},
            {"headers": {"x-a": "b"}},
            {"extra_body": {"api_base": "http://127.0.0.1:9"}},
            {"metadata": {"model_group": "x"}},
            {"litellm_params": {"api_base": "http://127.0.0.1:9"}},
            {"tools": [{"type": "mcp", "server_url": "litellm_proxy/x", "server_label": "x"}]},
        ],
        ids=lambda control: next(iter(control)),
    )
    async def test_a_control_of_litellm_s_is_refused_by_name(self, control: Json) -> None:
        async with claude() as (upstream, gateway):
            answer = await raw_answer(gateway, control)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b" 400 " in head.partition(b"\r\n")[0]
        error = json.loads(body)["error"]
        assert error["type"] == "invalid_request_error"
        assert error["param"].partition("[")[0] == next(iter(control))
        assert upstream.connections == 0

    @pytest.mark.parametrize("ignored", [{"model": "openai/gpt-4o"}, {"mock_response": None, "api_base": None}])
    async def test_a_model_of_the_body_and_nulls_take_no_effect(self, ignored: Json) -> None:
        async with claude(json_reply(anthropic.message(anthropic.text("Hello.")))) as (upstream, gateway):
            answer = await raw_answer(gateway, ignored)
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] == "Hello."
        assert upstream.asked[0].json()["model"] == "claude-sonnet-4-5"
        assert upstream.asked[0].headers["x-api-key"] == API_KEY

    async def test_a_key_of_the_environment_never_goes_to_a_configured_address(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
        async with (
            scripted(json_reply(completion("Hello."))) as upstream,
            serving(upstream.url + "/v1", "openai/gpt-4o", api_key="") as gateway,
        ):
            await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert "key-of-the-environment" not in str(upstream.asked[0].headers)

    def test_no_allowed_parameter_is_one_that_litellm_keeps_for_itself(self) -> None:
        from litellm.types.utils import all_litellm_params

        assert len(all_litellm_params) > 300
        assert set(all_litellm_params) & set(PARAMETERS) == set()

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"{", "invalid_json"),
            (b"[]", "invalid_json"),
            (b"{}", "missing_parameter"),
            (b'{"messages": []}', "invalid_type"),
            (b'{"messages": "hi"}', "invalid_type"),
            (b'{"messages": ["hi"]}', "invalid_type"),
            (b'{"messages": [{}], "stream": "yes"}', "invalid_type"),
            (b'{"messages": [{}], "stream_options": true}', "invalid_type"),
            (b'{"messages": [{}], "tools": {}}', "invalid_type"),
            (b'{"messages": [{}], "tools": [7]}', "invalid_type"),
            (b'{"messages": [{}], "functions": []}', "invalid_type"),
            (b'{"messages": [{"content": {"type": "text"}}]}', "invalid_type"),
            (b'{"messages": [{"content": ["text"]}]}', "invalid_type"),
            (b'{"messages": [{"content": [{"type": []}]}]}', "unsupported_content"),
            (b'{"messages": [{"content": [{"type": "document"}]}]}', "unsupported_content"),
            (b'{"messages": [{}], "tools": [{"type": "web_search_20250305"}]}', "unsupported_tool"),
        ],
    )
    def test_a_malformed_body_is_refused(self, body: bytes, code: str) -> None:
        with pytest.raises(ApiError) as refused:
            parameters_of(body)
        assert (refused.value.status, refused.value.code) == (400, code)


async def test_sound_for_a_model_that_takes_none_is_refused_and_not_dropped() -> None:
    async with claude() as (upstream, gateway):
        answer = await raw_answer(
            gateway, asking({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}})
        )
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert (error["code"], error["param"]) == ("unsupported_by_provider", "messages[0].content[1]")
    assert upstream.connections == 0


TEXT = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "5m"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
SCHEMA = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"enforce_validation": True}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
# Every object that a client may send, once.
WHOLE: Json = {
    "messages": [
        {"role": "system", "content": "Be brief.", "name": "s"},
        {
            "role": "user",
            "content": [
                TEXT,
                PICTURE,
                {"type": "image_url", "image_url": "https://example.com/a.png"},
                {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_id": "file-abc_1"}, "prompt_cache_breakpoint": {"mode": "explicit"}},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "no"}],
            "tool_calls": [
                {**CALL, "provider_specific_fields": {"thought_signature": "s"}},
                {"id": "d", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
            "function_call": {"name": "f", "arguments": "{}"},
            "audio": {"id": "a"},
            "annotations": [{"type": "url_citation", "url_citation": {"url": "https://example.com", "title": "t"}}],
            "images": [{**PICTURE, "index": 0}],
            "reasoning_content": "So.",
            "reasoning_details": [{"type": "reasoning.text", "text": "So."}],
            "reasoning_items": [{"type": "reasoning", "summary": [{"type": "text", "text": "So."}]}],
            "thinking_blocks": [{"type": "thinking", "thinking": "So.", "signature": "s"}],
            "provider_specific_fields": {"thought_signatures": ["s"], "citations": [{"any": {"thing": 1}}]},
        },
        {"role": "tool", "tool_call_id": "c", "content": [TEXT]},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "description": "d", "strict": True, "parameters": SCHEMA}},
        {
            "type": "custom",
            "custom": {"name": "g", "format": {"type": "grammar", "grammar": {"definition": "x", "syntax": "lark"}}},
        },
    ],
    "functions": [{"name": "f", "parameters": SCHEMA}],
    "function_call": {"name": "f"},
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
    },
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}},
    "stream": True,
    "stream_options": {"include_usage": True},
    "audio": {"format": "wav", "voice": {"id": "v"}},
    "logit_bias": {"50256": -100},
    "modalities": ["text", "audio"],
    "moderation": {"model": "m", "policy": {"input": {"mode": "score"}, "output": {"mode": "block"}}},
    "prediction": {"type": "content", "content": [{"type": "text", "text": "x"}]},
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "Rome"}}},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stop": ["a"],
    "temperature": 0.5,
}
FREE = {"parameters", "schema", "citations"}  # members whose JSON is the provider's to read


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands that is checked, whole lists and objects included."""
    if path:
        yield path
    if isinstance(value, dict | list) and path[-1:] not in {(name,) for name in FREE}:
        for name, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(member, (*path, name))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def written(path: tuple[Any, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


JSONS = st.recursive(
    st.booleans() | st.integers(0, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)
PLACES = [path for path in places(WHOLE) if path[-1] not in FREE]
OBJECTS = [(), *(path for path in PLACES if isinstance(at(WHOLE, path), dict) and path != ("logit_bias",))]
MEMBERS = st.sampled_from(
    ["enforce_validation", "response_schema", "api_base", "url", "server_url", "fallbacks", "metadata", "s3Location"]
) | st.text(max_size=8).map("x-{}".format)


class TestNestedMembers:
    """Of an object inside the body, too, only listed members reach litellm."""

    def test_all_that_a_client_of_openai_sends_is_kept(self) -> None:
        assert parameters_of(json.dumps(WHOLE).encode()) == WHOLE

    @given(st.sampled_from(OBJECTS), MEMBERS, JSONS)
    def test_a_member_that_is_not_listed_is_refused_by_its_path(
        self, path: tuple[Any, ...], name: str, value: object
    ) -> None:
        body = json.loads(json.dumps(WHOLE))
        assume(name not in at(body, path))
        at(body, path)[name] = value
        with pytest.raises(ApiError) as refused:
            parameters_of(json.dumps(body).encode())
        assert (refused.value.status, refused.value.param) == (400, written((*path, name)))
        at(body, path)[name] = None
        assert parameters_of(json.dumps(body).encode()) == WHOLE

    @given(st.sampled_from(PLACES), MEMBERS, JSONS)
    def test_an_object_of_unlisted_members_passes_nowhere(
        self, path: tuple[Any, ...], name: str, value: object
    ) -> None:
        assume(name != "url" and path != ("logit_bias",))  # which some object has; whose names are tokens
        body = json.loads(json.dumps(WHOLE))
        *before, last = path
        at(body, tuple(before))[last] = {name: value}
        with pytest.raises(ApiError) as refused:
            parameters_of(json.dumps(body).encode())
        assert refused.value.status == 400

    def test_a_message_of_a_reply_is_sendable_without_the_unlisted_members(self) -> None:
        message = next(one for one in WHOLE["messages"] if one["role"] == "assistant")
        message = {**message, "tool_calls": message["tool_calls"][:1]}
        (call,) = message["tool_calls"]
        more = {**call, "extra_content": {}, "function": {**call["function"], "x": {"api_base": "x"}}}
        assert sendable({**message, "tool_calls": [more], "x_state": {"a": 1}}) == message
        assert sendable({"role": "assistant", "content": None, "x": []}) == {"role": "assistant", "content": None}

    def test_a_call_of_a_custom_tool_is_sendable(self) -> None:
        call = {"id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        assert sendable({**message, "tool_calls": [{**call, "extra_content": {}}]}) == message

    @pytest.mark.parametrize("levels", [150, 170, 500])
    def test_a_schema_may_be_deep_but_not_without_end(self, levels: int) -> None:
        schema: Json = {}
        for _ in range(levels):
            schema = {"items": schema}
        body = json.dumps({"messages": HELLO, "functions": [{"name": "f", "parameters": schema}]}).encode()
        if levels < 160:
            assert parameters_of(body)["functions"][0]["parameters"] == schema
        else:
            with pytest.raises(ApiError, match="deeper than 160"):
                parameters_of(body)


def asking(*parts: Json) -> Json:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, *parts]}]}


def shapes(address: str) -> list[Json]:
    """Requests in which an address stands that litellm, jsonschema or a provider's module of litellm's would open."""
    schema = {"type": "object", "properties": {"a": {"$ref": address}}, "$schema": address, "$id": address}
    strict = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}
    return [
        {"response_format": {"type": "json_object", "enforce_validation": True, "response_schema": schema}},
        {"response_format": {"type": "json_object", "response_schema": schema}},
        {"response_format": strict},
        {"response_format": {**strict, "enforce_validation": True, "response_schema": schema}},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]},
        {"tools": [{"type": "mcp", "server_url": address}]},
        {"functions": [{"name": "f", "parameters": schema}]},
        asking({"type": "image_url", "image_url": {"url": address}}),
        asking({"type": "image_url", "image_url": {"url": address + ".png", "format": "image/png"}}),
        asking({"type": "image_url", "image_url": address}),
        asking({"type": "video_url", "video_url": {"url": address}}),
        asking({"type": "file", "file": {"file_data": address}}),
        asking({"type": "file", "file": {"file_id": address}}),
        asking({"type": "file", "file": {"file_id": address, "format": "application/pdf"}}),
        asking({"type": "document", "source": {"type": "url", "url": address}}),
        asking({"type": "image", "source": {"type": "url", "url": address}}),
        {"messages": [*HELLO, {"role": "assistant", "images": [{"type": "image_url", "image_url": {"url": address}}]}]},
        {"web_search_options": {"url": address}},
        {"prediction": {"type": "content", "content": [{"type": "image_url", "image_url": {"url": address}}]}},
    ]


MODELS = [
    "anthropic/claude-sonnet-4-5",
    "openai/gpt-4o",
    "gemini/gemini-2.0-flash",
    "hosted_vllm/m",
    "ollama_chat/m",
    "mistral/mistral-large-latest",
    "bedrock/anthropic.claude-3-haiku-20240307-v1:0",
]


class TestNothingIsOpened:
    """No request makes the gateway open an address or a file: what is not the provider's is left alone."""

    @pytest.mark.usefixtures("with_aws")
    @pytest.mark.parametrize("model", MODELS)
    async def test_an_address_in_a_request_is_never_asked(self, model: str) -> None:
        inside, upstream, requests = await connections_opened(model, shapes)
        assert inside == 0
        assert upstream <= requests

    @pytest.mark.parametrize("address", ["file:///etc/passwd", "/etc/passwd", "gs://bucket/a.png", "s3://b/a", "http:"])
    async def test_an_address_that_is_no_web_address_is_refused(self, address: str) -> None:
        async with claude() as (upstream, gateway):
            for body in shapes(address)[7:17]:
                assert b" 400 " in (await raw_answer(gateway, body)).partition(b"\r\n")[0]
        assert upstream.connections == 0

    async def test_a_reply_is_not_checked_against_a_schema(self) -> None:
        """Even if a schema came through: a reference is not followed, and a regex not run."""
        async with scripted() as inside:
            for schema in ({"$ref": f"{inside.url}/x"}, {"pattern": "^(a+)+$"}):
                reply = json_reply(completion(json.dumps("a" * 60 + "!")))
                checked = {"type": "json_object", "enforce_validation": True, "response_schema": schema}
                async with gpt(reply) as (_, gateway):
                    said = await gateway.lane._ask(gateway.target, {"messages": HELLO, "response_format": checked})
                assert said.choices[0].message.content.startswith('"aaa')
        assert inside.connections == 0

    @pytest.mark.parametrize("model", MODELS)
    async def test_a_schema_that_doubles_with_each_reference_ends(self, model: str) -> None:
        """Written out it is 2 ** 40 objects."""
        twice = [{"type": "object", "properties": {n: {"$ref": f"#/$defs/d{i + 1}"} for n in "ab"}} for i in range(40)]
        schema = {**twice[0], "$defs": {**{f"d{i}": each for i, each in enumerate(twice)}, "d40": {"type": "string"}}}
        bodies: list[Json] = [
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}},
        ]
        refused = [json_reply({"error": "no"}, status=400) for _ in bodies]
        async with scripted(*refused) as upstream, serving(upstream.url, model) as gateway:
            for body in bodies:
                assert b" 400 " in (await raw_answer(gateway, body)).partition(b"\r\n")[0]
