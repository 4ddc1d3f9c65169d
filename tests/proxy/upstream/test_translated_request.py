"""What a client may send through the translated lane, and what it must never steer."""

import json

import pytest

from proxy.errors import ApiError
from proxy.upstream.translated_request import PARAMETERS, parameters_of
from tests import anthropic_server as anthropic
from tests.anthropic_server import Json, Reply, json_reply, scripted
from tests.proxy.upstream.translated_lane import (
    API_KEY,
    HELLO,
    QUIET_PYDANTIC,
    WEATHER,
    claude,
    completion,
    keyless,
    raw_answer,
    serving,
    silent,
)

__all__ = ["keyless", "silent"]  # fixtures that every test here uses
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
        assert (error["type"], error["param"]) == ("invalid_request_error", next(iter(control)))
        assert upstream.connections == 0

    @pytest.mark.parametrize(
        "nested",
        [
            {"stream_options": {"include_usage": True, "api_base": "http://127.0.0.1:9", "mock_response": "x"}},
            {"response_format": {"type": "json_object", "api_base": "http://127.0.0.1:9", "mock_response": "x"}},
            {"web_search_options": {"api_base": "http://127.0.0.1:9", "mock_response": "x"}},
            {"messages": [{**HELLO[0], "api_base": "http://127.0.0.1:9", "mock_response": "x", "fallbacks": ["x"]}]},
            {"tools": [{**WEATHER[0], "api_base": "http://127.0.0.1:9", "mock_response": "x"}]},
            {"model": "openai/gpt-4o"},
            {"mock_response": None, "api_base": None},
        ],
        ids=lambda nested: next(iter(nested)),
    )
    async def test_nested_controls_take_no_effect(self, nested: Json) -> None:
        async with claude(json_reply(anthropic.message(anthropic.text("Hello.")))) as (upstream, gateway):
            answer = await raw_answer(gateway, nested)
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] == "Hello."
        assert upstream.asked[0].json()["model"] == "claude-sonnet-4-5"
        assert upstream.asked[0].headers["x-api-key"] == API_KEY

    async def test_an_image_address_inside_the_network_is_not_fetched(self) -> None:
        async with scripted(Reply([b"secret"], content_type="image/png")) as inside:
            part = {"type": "image_url", "image_url": {"url": f"{inside.url}/secret.png"}}
            async with claude() as (upstream, gateway):
                answer = await raw_answer(gateway, {"messages": [{"role": "user", "content": [part]}]})
        assert b" 400 " in answer.partition(b"\r\n")[0]
        assert (inside.connections, upstream.connections) == (0, 0)

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
        assert set(all_litellm_params) & PARAMETERS == set()

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
            (b'{"messages": [{}], "tools": [{"type": "web_search_20250305"}]}', "unsupported_tool"),
        ],
    )
    def test_a_malformed_body_is_refused(self, body: bytes, code: str) -> None:
        with pytest.raises(ApiError) as refused:
            parameters_of(body)
        assert (refused.value.status, refused.value.code) == (400, code)
