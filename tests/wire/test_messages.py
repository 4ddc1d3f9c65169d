"""The Messages API through a whole gateway: the official anthropic SDK, and a recording upstream."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest
from anthropic.types import MessageParam, ToolParam
from pydantic import BaseModel

from tests.support.anthropic_server import message, text, text_stream, tool_stream, tool_use
from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Recorder, answering, recording
from tests.support.upstream_servers import Received, Wire, chunked, head, reply, single_bytes
from tests.wire.raw_calls import until

QUESTION = "How do I use Zephyr from Kotlin?"
DRIVER = "zephyr-driver-kotlin-coroutine"
ASKED: MessageParam = {"role": "user", "content": QUESTION}
TOOL: ToolParam = {"name": "f", "input_schema": {"type": "object"}}
AS_JSON = b"content-type: application/json"
VERSION = {"anthropic-version": "2023-06-01", "anthropic-beta": "a-2024-01-01,b"}
ODD = (
    b'{ "model" : "gpt-x","max_tokens":99, "metadata":{"user_id":"\\u00e9"},"messages" :['
    b'{"role":"user","content":[{"type":"text","text":"Hello."},{"type":"document","source":{"type":"url","url":"http:'
    b'\\/\\/x"},"citations":{"enabled":true}}]},\r\n{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.",'
    b'"signature":"EqQB\\u003d"},{"type":"redacted_thinking","data":"Em=="},{"type":"block_of_tomorrow","x":1e-7},'
    b'{"type":"tool_use","id":"t","name":"f","input":{"a": 1.0}}]},{"role":"user","content":[{"type":"tool_result",'
    b'"tool_use_id":"t","content":"4"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"'
    b'}},{"type":"text","text":"How do I use Zephyr from Kotlin?","cache_control":{"type":"ephemeral"}}]}],"system":[ '
    b'{"type":"text","text":"Be \\"brief\\".","cache_control":{"type":"ephemeral"}} ] ,"odd":1.50 }'
)
RAW_ERROR = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r", "odd":1.0}'


def whole(*blocks: dict[str, Any], **members: Any) -> bytes:
    return reply(json.dumps({**message(*blocks), **members}, indent=1).encode(), AS_JSON)


def stream(events: list[bytes]) -> list[bytes]:
    return [head(b"content-type: text/event-stream", b"transfer-encoding: chunked"), *chunked(events)]


@pytest.fixture
def client(gateway: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gateway.url, api_key="placeholder", max_retries=0, timeout=60) as opened:
        yield opened


def test_the_passages_stand_at_the_end_of_the_system_and_all_else_is_byte_for_byte(
    gateway: Served, recorder: Recorder
) -> None:
    recorder.answer = answering(whole(text("Yes.")))
    got = gateway.post(ODD, "/v1/messages", **{name.replace("-", "_"): value for name, value in VERSION.items()})
    assert (got.status_code, got.headers["x-rag-status"]) == (200, "augmented")
    before, after = ODD.split(b' ] ,"odd"')
    assert recorder.body.startswith(before)
    assert recorder.body.endswith(b'] ,"odd"' + after)
    sent = json.loads(recorder.body)
    assert DRIVER in sent["system"][1]["text"]
    assert set(sent["system"][1]) == {"type", "text"}
    assert {**sent, "system": sent["system"][:1]} == json.loads(ODD)
    (request,) = recorder.requests
    assert (request.line, request.header(b"x-api-key")) == (b"POST /v1/messages HTTP/1.1", b"sk-upstream")
    assert {name: request.header(name.encode()) for name in VERSION} == {
        name: VERSION[name].encode() for name in VERSION
    }
    assert request.header(b"authorization") is None
    assert got.content == json.dumps(message(text("Yes.")), indent=1).encode()


@pytest.mark.parametrize("off", ["header", "raw", "body"])
def test_without_passages_the_request_goes_out_byte_for_byte(gateway: Served, recorder: Recorder, off: str) -> None:
    recorder.answer = answering(whole(text("Yes.")))
    sent = {"raw": ODD.replace(b"gpt-x", b"raw/gpt-x"), "body": ODD.replace(b"{ ", b'{ "rag":false,', 1)}.get(off, ODD)
    got = gateway.post(sent, "/v1/messages", **({"x_rag": "off"} if off == "header" else {}))
    assert (got.headers["x-rag-status"], recorder.body) == ("off", ODD)
    assert recorder.requests[0].header(b"anthropic-version") is None, "the gateway adds no version"


def test_every_event_of_a_stream_arrives_byte_for_byte(gateway: Served, recorder: Recorder) -> None:
    events = [
        *text_stream("Ye", "s.")[:2], b'event: ping\ndata: {"type": "ping"}\n\n',
        b'event: of_tomorrow\ndata: {"type":"of_tomorrow","x":1.50}\n\n', *text_stream("Ye", "s.")[2:],
    ]  # fmt: skip
    recorder.answer = answering(*stream([*single_bytes(b"".join(events))]))
    got = gateway.post(ODD.replace(b'"odd"', b'"stream":true,"odd"'), "/v1/messages")
    assert got.content == b"".join(events)


def test_the_sdk_creates_a_message_with_a_tool_and_sends_thinking_and_result_back(
    client: anthropic.Anthropic, recorder: Recorder
) -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "EqQB=="}
    hidden = {"type": "redacted_thinking", "data": "EmwK=="}
    recorder.answer = answering(whole(thinking, hidden, tool_use("t", "f", {"a": 1}), stop_reason="tool_use"))
    options: Any = {"model": "gpt-x", "max_tokens": 99, "tools": [TOOL], "system": "Be brief."}
    first = client.messages.create(messages=[ASKED], thinking={"type": "enabled", "budget_tokens": 1024}, **options)
    assert [block.type for block in first.content] == ["thinking", "redacted_thinking", "tool_use"]
    system = json.loads(recorder.body)["system"]
    assert system[0] == text("Be brief.")
    assert DRIVER in system[1]["text"]
    recorder.fresh().answer = answering(whole(text("Yes.")))
    result: Any = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "4"}]}
    said: Any = {"role": "assistant", "content": first.content}
    second = client.messages.create(messages=[ASKED, said, result], **options)
    sent = json.loads(recorder.body)
    assert sent["messages"][1]["content"] == [thinking, hidden, tool_use("t", "f", {"a": 1})]
    assert (sent["messages"][2], sent["system"]) == (result, system), "every round gets the same passages"
    assert second.content[0].to_dict() == text("Yes.")
    assert second.usage.input_tokens == 11


def test_the_beta_client_gets_passages_too(client: anthropic.Anthropic, recorder: Recorder) -> None:
    recorder.answer = answering(whole(text("Yes.")))
    asked: Any = {"model": "gpt-x", "max_tokens": 99, "messages": [ASKED], "betas": ["b-2025-01-01"]}
    client.beta.messages.create(**asked, extra_query={"beta": "true"})
    (request,) = recorder.requests
    assert request.line == b"POST /v1/messages?beta=true HTTP/1.1"
    assert request.header(b"anthropic-beta") == b"b-2025-01-01"
    assert DRIVER in json.loads(request.body)["system"]


def test_the_sdk_streams_text_and_a_tool(client: anthropic.Anthropic, recorder: Recorder) -> None:
    recorder.answer = answering(*stream(text_stream("Ye", "s.")))
    with client.messages.stream(model="gpt-x", max_tokens=99, messages=[ASKED]) as events:
        assert list(events.text_stream) == ["Ye", "s."]
        assert events.get_final_message().usage.output_tokens == 7
    assert DRIVER in json.loads(recorder.body)["system"]
    recorder.fresh().answer = answering(*stream(tool_stream("t", "f", '{"a"', ": 1}")))
    with client.messages.stream(model="gpt-x", max_tokens=99, messages=[ASKED], tools=[TOOL]) as events:
        (called,) = events.get_final_message().content
    assert called.to_dict() == tool_use("t", "f", {"a": 1})


class City(BaseModel):
    """What the model fills in."""

    name: str


def test_the_sdk_parses_a_structured_answer(client: anthropic.Anthropic, recorder: Recorder) -> None:
    recorder.answer = answering(whole(text('{"name": "Oslo"}')))
    parsed = client.messages.parse(model="gpt-x", max_tokens=99, messages=[ASKED], output_format=City)
    assert parsed.parsed_output == City(name="Oslo")
    assert json.loads(recorder.body)["output_config"]["format"]["type"] == "json_schema"


def test_the_sdk_sends_an_image_and_cached_blocks(client: anthropic.Anthropic, recorder: Recorder) -> None:
    recorder.answer = answering(whole(text("Yes."), usage={"input_tokens": 3, "output_tokens": 5}))
    cached: Any = {"cache_control": {"type": "ephemeral"}}
    image: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    system: Any = [{**text("Be brief."), **cached}, {**text("Be kind."), **cached}]
    messages: Any = [{"role": "user", "content": [{**image, **cached}, {**text(QUESTION), **cached}]}]
    client.messages.create(model="gpt-x", max_tokens=99, messages=messages, system=system)
    sent = json.loads(recorder.body)
    assert (sent["system"][:2], sent["messages"]) == (system, messages)
    assert len(sent["system"]) == 3
    assert recorder.body.count(b'"cache_control"') == 4, "a fifth would be refused"


def test_a_client_that_leaves_ends_the_upstreams_work(client: anthropic.Anthropic, recorder: Recorder) -> None:
    left = threading.Event()

    async def hold(wire: Wire, _received: Received) -> None:
        await wire.send(*stream(text_stream("Ye", "s."))[:4])
        await wire.gone()
        left.set()

    recorder.answer = hold
    with client.messages.stream(model="gpt-x", max_tokens=99, messages=[ASKED]) as events:
        assert next(iter(events.text_stream)) == "Ye"
    assert left.wait(30)


def test_errors_of_the_upstream_pass_and_errors_of_the_gateway_have_anthropics_form(
    client: anthropic.Anthropic, gateway: Served, recorder: Recorder
) -> None:
    recorder.answer = answering(reply(RAW_ERROR, AS_JSON, status=b"529 Overloaded"))
    got = gateway.post(ODD, "/v1/messages")
    assert (got.status_code, got.content) == (529, RAW_ERROR)
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        client.messages.create(model="gpt-x", max_tokens=99, messages=[ASKED])
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.messages.create(model="nowhere", max_tokens=99, messages=[ASKED])
    body: Any = unknown.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "not_found_error")
    assert body["request_id"] == unknown.value.response.headers["x-rag-id"]
    with pytest.raises(anthropic.BadRequestError, match="'messages' must be a list"):
        client.messages.create(model="gpt-x", max_tokens=99, messages=[])
    with pytest.raises(anthropic.RequestTooLargeError):
        client.messages.create(model="gpt-x", max_tokens=99, messages=[{"role": "user", "content": "a" * 2**20}])
    for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/messages/of_tomorrow"):
        refused = httpx.get(gateway.url + path).json()
        assert (refused["type"], set(refused["error"])) == ("error", {"type", "message"})


COUNT = {"model": "gpt-x", "messages": [ASKED]}


def test_a_count_reaches_the_upstream_without_the_passages(client: anthropic.Anthropic, recorder: Recorder) -> None:
    recorder.answer = answering(reply(b'{"input_tokens": 12}', AS_JSON))
    got = client.messages.with_raw_response.count_tokens(model="gpt-x", messages=[ASKED])
    assert got.parse().input_tokens == 12
    assert (got.headers["x-rag-status"], got.headers["x-rag-reason"]) == ("off", "inject.augment_count is false")
    (request,) = recorder.requests
    assert (request.line, json.loads(request.body)) == (b"POST /v1/messages/count_tokens HTTP/1.1", COUNT)


def test_the_sdk_lists_the_models(client: anthropic.Anthropic) -> None:
    assert {"echo", "gpt-x"} <= {model.id for model in client.models.list()}


def test_a_base_url_with_v1_works_too(gateway: Served) -> None:
    with anthropic.Anthropic(base_url=gateway.url + "/v1", api_key="k", max_retries=0, timeout=60) as client:
        answer = client.messages.create(model="echo", max_tokens=99, messages=[ASKED])
        assert client.messages.count_tokens(model="echo", messages=[ASKED]).input_tokens > 0
    assert answer.stop_reason == "end_turn"


def test_echo_answers_the_sdk_whole_and_streamed_and_counts(client: anthropic.Anthropic) -> None:
    asked: Any = {"model": "echo", "max_tokens": 99, "messages": [ASKED], "system": "Be brief."}
    answer = client.messages.create(**asked)
    (said,) = answer.content
    assert said.type == "text"
    assert said.text.endswith(f"[user]\n{QUESTION}")
    assert DRIVER in said.text
    with client.messages.stream(**asked) as events:
        assert events.get_final_text() == said.text
        assert events.get_final_message().usage == answer.usage
    few, more = (client.messages.count_tokens(model="echo", messages=[ASKED] * times) for times in (1, 9))
    assert 0 < few.input_tokens < more.input_tokens


@dataclass(frozen=True)
class Keyed:
    """A gateway with keys that counts with passages, and its upstream."""

    served: Served
    upstream: Recorder
    folder: Path
    data: Path

    def key(self) -> str:
        """The secret of a new key."""
        rights = ("--read", "docs", "--model", "gpt-x", "--rpm", "100")
        made = ragway("keys", "create", "app", *rights, "--data", str(self.data), folder=self.folder)
        assert made.returncode == 0, made.stderr
        secret = made.stdout.strip()
        until("the key is known", lambda: self.call(secret, "/v1/models").status_code == 200)
        return secret

    def call(self, key: str, path: str) -> httpx.Response:
        return httpx.get(self.served.url + path, headers={"authorization": f"Bearer {key}"}, timeout=30)


@pytest.fixture(scope="module")
def keyed(learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder, data = tmp_path_factory.mktemp("keyed"), learned()
    settings = """
inject: {{augment_count: true}}
auth: {{pass_client_key: true, required: true}}
models:
  gpt-x: {{api_base: "{0}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
  other: {{api_base: "{0}/v1"}}
"""
    with recording() as upstream:
        settings = settings.format(upstream.url)
        with serving(data, folder, settings, KEY_OF_THE_UPSTREAM="sk-upstream") as served:
            yield Keyed(served, upstream, folder, data)


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_a_key_of_the_gateway_opens_in_either_header_and_never_travels(keyed: Keyed, header: str) -> None:
    key, upstream = keyed.key(), keyed.upstream
    upstream.fresh().answer = answering(whole(text("Yes.")))
    sent = {header: key if header == "x-api-key" else f"Bearer {key}"}
    got = httpx.post(f"{keyed.served.url}/v1/messages", json={**COUNT, "max_tokens": 9}, headers=sent, timeout=30)
    assert (got.status_code, got.headers["x-rag-status"]) == (200, "augmented")
    (request,) = upstream.requests
    assert request.header(b"x-api-key") == b"sk-upstream"
    assert key.encode() not in request.head


def test_a_wrong_key_two_keys_and_a_model_of_another_key_are_refused_in_anthropics_form(keyed: Keyed) -> None:
    key = keyed.key()
    refusals = [
        ("gpt-x", {"x-api-key": "sk-ant-1"}, 401, "authentication_error"),
        ("gpt-x", {"x-api-key": key, "authorization": "Bearer sk-ant-1"}, 400, "invalid_request_error"),
        ("other", {"x-api-key": key}, 404, "not_found_error"),
    ]
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        for model, headers, status, kind in refusals:
            got = httpx.post(keyed.served.url + path, json={**COUNT, "model": model, "max_tokens": 9}, headers=headers)
            assert (got.status_code, got.json()["error"]["type"]) == (status, kind)


def test_a_count_with_passages_counts_what_a_message_would_send_and_is_no_usage(keyed: Keyed) -> None:
    key, upstream = keyed.key(), keyed.upstream
    with anthropic.Anthropic(base_url=keyed.served.url, api_key=key, max_retries=0, timeout=60) as client:
        upstream.fresh().answer = answering(reply(b'{"input_tokens": 1200}', AS_JSON))
        got = client.messages.with_raw_response.count_tokens(model="gpt-x", messages=[ASKED])
        counted = json.loads(upstream.body)
        upstream.fresh().answer = answering(whole(text("Yes.")))
        client.messages.create(model="gpt-x", max_tokens=9, messages=[ASKED])
        asked = json.loads(upstream.body)
    assert (got.parse().input_tokens, got.headers["x-rag-status"]) == (1200, "augmented")
    assert (counted["system"], counted["messages"]) == (asked["system"], asked["messages"])
    assert keyed.call(key, f"/v1/knowledge/receipts/{got.headers['x-rag-id']}").status_code == 404

    def used() -> dict[str, int]:
        rows = keyed.call(key, "/v1/usage").json()["data"]
        return rows[0] if rows else {}

    until("usage is written", lambda: used().get("requests") == 2)
    assert (used()["prompt_tokens"], used()["completion_tokens"]) == (11, 7), "of the message alone"
