"""An upstream without the path of a dialect: learned from the answer, asked by a chat completion, said once."""

import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.dialects.deviations import UnsupportedFeatures
from proxy.dialects.errors import ApiError
from proxy.dialects.paths import BY_PATH
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.upstream.bridges.bridge import TranslatedRequest
from proxy.upstream.bridges.missing_paths import Bridge
from proxy.upstream.relay import Relay
from runtime.http_client import Client
from tests.proxy.upstream.translated.provider_lane import chunk, completion, frames
from tests.support.asgi_calls import Call, scope_of
from tests.support.upstream_servers import Upstream, Wire, chunked, head, reply, upstream

RESPONSES, MESSAGES, CHAT = "/v1/responses", "/v1/messages", "/v1/chat/completions"
ASKED: dict[str, dict[str, Any]] = {
    RESPONSES: {"model": "m", "input": "Q"},
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Q"}]},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Q"}]},
}
ANSWER = reply(json.dumps(completion("Hello.")).encode(), b"content-type: application/json", b"x-request-id: r")
LLAMA = b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'


class Server:
    """An upstream that has chat completions, and answers other paths with an error."""

    def __init__(self, error: bytes, *, chat: bytes = ANSWER) -> None:
        self.error = error
        self.chat = chat
        self.paths: list[str] = []

    async def __call__(self, wire: Wire) -> None:
        while True:
            path = (await wire.request()).line.split()[1].decode()
            self.paths.append(path)
            await wire.send(self.chat if path == CHAT else self.error)


@asynccontextmanager
async def relaying(server: Server, *, relearn_after_s: float = 100.0, **row: Any) -> AsyncIterator["Asking"]:
    """The relay with the bridge, in front of the server."""
    client = Client(connect_timeout_s=20, first_byte_timeout_s=20, idle_timeout_s=20, keepalive_s=20, max_connections=9)
    async with upstream(server) as running:
        try:
            yield Asking(Bridge(Relay(client), relearn_after_s=relearn_after_s), running, row)
        finally:
            client.close()


class Asking:
    def __init__(self, app: Bridge, running: Upstream, row: dict[str, Any]) -> None:
        self.app = app
        self.target = Target("m", "relay", running.url + "/v1", "", **row)
        self.running = running
        self.exchange = Exchange()

    async def ask(self, path: str, headers: list[tuple[bytes, bytes]] | None = None, **more: Any) -> Call:
        body = json.dumps({**ASKED[path], **more}).encode()
        self.exchange = Exchange(path=path, dialect=BY_PATH[path], target=self.target, body=body)
        scope = scope_of(path, exchange=self.exchange, headers=headers or [(b"content-type", b"application/json")])
        return await Call([body]).to(self.app, scope)


def not_found(body: bytes = LLAMA, *headers: bytes, status: bytes = b"404 Not Found") -> bytes:
    return reply(body, *(headers or (b"content-type: application/json",)), status=status)


MISSING = {
    "llama.cpp": not_found(),
    "vLLM": not_found(b'{"detail":"Not Found"}'),
    "OpenAI": not_found(b'{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error"}}'),
    "Express": not_found(b"<pre>Cannot POST /v1/responses</pre>", b"content-type: text/html"),
    "Go": not_found(b"404 page not found", b"content-type: text/plain"),
    "empty": not_found(b""),
    "405": not_found(b'{"detail":"Method Not Allowed"}', status=b"405 Method Not Allowed"),
    "501": not_found(b"", status=b"501 Not Implemented"),
    "packed": not_found(gzip.compress(LLAMA), b"content-encoding: gzip"),
}
ANOTHER = {
    "vLLM": not_found(b'{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","code":404}}'),
    "Ollama": not_found(b'{"error":{"message":"model \'m\' not found","type":"not_found_error"}}'),
    "Anthropic": not_found(b'{"type":"error","error":{"type":"not_found_error","message":"model: m"}}'),
    "stored": not_found(b'{"error":{"message":"Response with id \'resp_1\' not found."}}'),
    "packed": not_found(gzip.compress(b'{"error":"no such model"}'), b"content-encoding: gzip"),
    "vector store": not_found(b'{"error":{"message":"Vector store with id [\'vs_1\'] not found.","param":"tools"}}'),
    "container": not_found(b'{"error":{"message":"Container with id \'cntr_1\' not found."}}'),
    "Anthropic's file": not_found(b'{"error":{"type":"not_found_error","message":"File not found: file_1"}}'),
    "OpenRouter": not_found(b'{"error":{"message":"No endpoints found matching your data policy","code":404}}'),
    "400": not_found(b'{"error":{"message":"no"}}', status=b"400 Bad Request"),
    "long": not_found(b" " * 20_000),
}


@pytest.mark.parametrize("error", MISSING.values(), ids=MISSING)
async def test_the_request_that_meets_a_missing_path_is_answered_by_the_bridge(
    error: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(error)
    with caplog.at_level(logging.WARNING, "ragway"):
        async with relaying(server) as asking:
            first, second = await asking.ask(RESPONSES), await asking.ask(RESPONSES)
    assert server.paths == [RESPONSES, CHAT, CHAT]
    for call in (first, second):
        response = json.loads(call.body)
        assert (call.status, response["object"], response["output"][0]["content"][0]["text"]) == (
            200,
            "response",
            "Hello.",
        )
        assert (b"x-request-id", b"r") in call.headers
    assert [record.message.split(": ")[0].split(" ", 2)[2] for record in caplog.records] == ["has no /v1/responses"]
    assert "translate" in [step.kind for step in asking.exchange.steps]


@pytest.mark.parametrize("error", ANOTHER.values(), ids=ANOTHER)
async def test_an_error_about_another_thing_is_passed_on_and_nothing_is_learned(error: bytes) -> None:
    server = Server(error)
    async with relaying(server) as asking:
        for _ in range(2):
            call = await asking.ask(RESPONSES)
            assert call.body == error.partition(b"\r\n\r\n")[2]
    assert server.paths == [RESPONSES] * 2


async def test_what_was_learned_holds_for_one_path_and_for_a_time() -> None:
    server = Server(not_found())
    async with relaying(server) as asking:
        await asking.ask(RESPONSES)
        message = await asking.ask(MESSAGES)
        await asking.ask(CHAT)
    assert json.loads(message.body)["content"] == [{"type": "text", "text": "Hello."}]
    assert server.paths == [RESPONSES, CHAT, MESSAGES, CHAT, CHAT]
    async with relaying(server := Server(not_found()), relearn_after_s=1e-9) as asking:
        await asking.ask(RESPONSES)
        await asking.ask(RESPONSES)
    assert server.paths == [RESPONSES, CHAT] * 2


async def test_a_path_that_has_answered_is_never_taken_for_missing() -> None:
    async with relaying(server := Server(ANSWER)) as asking:
        await asking.ask(MESSAGES)
        server.error = not_found()
        assert (await asking.ask(MESSAGES)).status == 404
    assert server.paths == [MESSAGES] * 2


async def test_a_wrong_address_is_not_taken_for_a_missing_path() -> None:
    server = Server(not_found(), chat=not_found())
    async with relaying(server) as asking:
        for _ in range(2):
            assert (await asking.ask(RESPONSES)).status == 404
    assert server.paths == [RESPONSES, CHAT] * 2


async def test_a_stream_is_bridged_and_a_client_s_coding_is_not_asked_for() -> None:
    parts = frames(
        chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo."}), chunk({}, finish_reason="stop")
    )
    answer = head(b"content-type: text/event-stream", b"transfer-encoding: chunked") + b"".join(chunked(parts))
    async with relaying(Server(not_found(), chat=answer)) as asking:
        call = await asking.ask(
            MESSAGES, [(b"accept-encoding", b"gzip"), (b"anthropic-version", b"2023-06-01")], stream=True
        )
        _, chat = asking.running.requests
    assert call.whole
    assert b"event: message_stop" in call.body
    assert (chat.header(b"accept-encoding"), chat.header(b"anthropic-version")) == (None, None)
    assert asking.exchange.tokens is not None
    assert asking.exchange.tokens.estimated


@pytest.mark.parametrize("end", ["cut", "no finish"])
async def test_a_stream_that_breaks_off_ends_in_an_error_and_in_no_end(end: str) -> None:
    parts = frames(chunk({"role": "assistant", "content": "Hel"}), done=False)
    body = b"".join(chunked(parts))
    answer = head(b"content-type: text/event-stream", b"transfer-encoding: chunked") + body
    if end == "cut":
        answer = answer.removesuffix(b"0\r\n\r\n")

    class Cutting(Server):
        async def __call__(self, wire: Wire) -> None:
            await wire.request()
            await wire.send(answer)
            await wire.close()

    async with relaying(Cutting(b""), dialects=("chat",)) as asking:
        call = await asking.ask(RESPONSES, stream=True)
    assert not call.whole
    assert b"event: error\n" in call.chunks[-1]
    assert b"response.completed" not in call.body


REFUSAL = {"error": {"message": "no", "type": "said-key-1", "code": "said-key-2"}}


async def test_no_word_of_an_upstream_s_error_is_written_to_the_log() -> None:
    stream = reply(b"".join(frames(REFUSAL)), b"content-type: text/event-stream")
    async with relaying(Server(b"", chat=stream), dialects=("chat",)) as asking:
        call = await asking.ask(RESPONSES, stream=True)
        assert (b"said-key-2" in call.body, asking.exchange.error) == (True, "upstream_error")
    whole = reply(json.dumps(REFUSAL).encode(), b"content-type: application/json")
    async with relaying(Server(b"", chat=whole), dialects=("chat",)) as asking:
        with pytest.raises(ApiError) as caught:
            await asking.ask(RESPONSES)
    assert (caught.value.code, caught.value.log_text) == ("said-key-2", "upstream_error")


@pytest.mark.parametrize("status", [b"201 Created", b"302 Found"])
async def test_a_status_that_is_neither_an_answer_nor_an_error_becomes_a_502(status: bytes) -> None:
    async with relaying(Server(b"", chat=not_found(b"{}", status=status)), dialects=("chat",)) as asking:
        with pytest.raises(ApiError) as caught:
            await asking.ask(MESSAGES)
    assert (caught.value.status, caught.value.code) == (502, "upstream_bad_reply")


class TestStatedDialects:
    async def test_nothing_is_tried(self) -> None:
        async with relaying(server := Server(not_found()), dialects=("chat", "messages")) as asking:
            assert (await asking.ask(RESPONSES)).status == 200
            assert (await asking.ask(MESSAGES)).status == 404
        assert server.paths == [CHAT, MESSAGES]

    async def test_an_upstream_of_messages_alone_is_a_404_that_names_the_translated_lane(self) -> None:
        async with relaying(server := Server(not_found()), dialects=("messages",)) as asking:
            for path in (CHAT, RESPONSES):
                with pytest.raises(ApiError, match="lane: translated") as caught:
                    await asking.ask(path)
                assert (caught.value.status, caught.value.code) == (404, "path_not_supported")
        assert server.paths == []


async def test_a_client_s_own_key_travels_in_the_header_of_chat_completions() -> None:
    async with relaying(Server(not_found()), key_of_client=True) as asking:
        await asking.ask(MESSAGES, [(b"x-api-key", b"sk-client")])
        await asking.ask(MESSAGES, [(b"x-api-key", b"sk-rag-0123")])
        _, first, second = asking.running.requests
    assert (first.header(b"authorization"), first.header(b"x-api-key")) == (b"Bearer sk-client", None)
    assert (second.header(b"authorization"), second.header(b"x-api-key")) == (None, None), "a key of the gateway"


async def test_a_path_that_is_listed_is_relayed_as_the_upstream_answers() -> None:
    async with relaying(server := Server(not_found())) as asking:
        exchange = Exchange(path=RESPONSES, dialect=BY_PATH[RESPONSES], target=asking.target, listed=True, body=b"{}")
        call = await Call().to(asking.app, scope_of(RESPONSES, exchange=exchange))
    assert (call.status, server.paths) == (404, [RESPONSES])


@pytest.mark.parametrize(
    ("base", "name"), [("http://h/v1", "max_tokens"), ("https://api.openai.com/v1", "max_completion_tokens")]
)
def test_openai_gets_the_newer_name_of_the_limit(base: str, name: str) -> None:
    body, target = json.dumps(ASKED[MESSAGES]).encode(), Target("m", "relay", base, "")
    assert json.loads(TranslatedRequest.of(BY_PATH[MESSAGES], body, target, UnsupportedFeatures(9)).chat)[name] == 9


EFFORT = b'{"error":{"message":"Unsupported parameter: \'reasoning_effort\'","type":"t","param":"reasoning_effort"}}'


async def test_a_hint_that_an_upstream_refuses_is_left_out_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    class Unreasoning(Server):
        async def __call__(self, wire: Wire) -> None:
            while True:
                asked = json.loads((await wire.request()).body)
                refused = not_found(EFFORT, status=b"400 Bad Request")
                await wire.send(refused if "reasoning_effort" in asked else ANSWER)

    async with relaying(Unreasoning(b""), dialects=("chat",)) as asking:
        for _ in range(2):
            call = await asking.ask(RESPONSES, reasoning={"effort": "high"})
            assert (call.status, asking.exchange.error) == (200, "")
        asked = ["reasoning_effort" in json.loads(request.body) for request in asking.running.requests]
    assert asked == [True, False, False]
    assert [record.message for record in caplog.records] == [
        f"model 'm' of 127.0.0.1:{asking.running.port} has no reasoning_effort: for 100 s the member is left out"
    ]


@pytest.mark.parametrize(
    "words",
    [
        "Invalid value: 'ultra'. Supported values are: 'low' and 'high'. (reasoning_effort)",
        "reasoning_effort: Input should be 'low', 'medium' or 'high'",
        "reasoning_effort must be one of low, medium, high",
    ],
)
async def test_a_wrong_value_of_a_hint_is_the_client_s_error_and_nothing_is_learned(words: str) -> None:
    error = not_found(json.dumps({"error": {"message": words}}).encode(), status=b"400 Bad Request")
    async with relaying(Server(b"", chat=error), dialects=("chat",)) as asking:
        for _ in range(2):
            assert (await asking.ask(RESPONSES, reasoning={"effort": "ultra"})).status == 400
        asked = ["reasoning_effort" in json.loads(request.body) for request in asking.running.requests]
    assert asked == [True, True]


async def test_an_error_about_another_member_is_passed_on() -> None:
    error = not_found(b'{"error":{"message":"`temperature` is too high"}}', status=b"400 Bad Request")
    async with relaying(Server(b"", chat=error), dialects=("chat",)) as asking:
        call = await asking.ask(RESPONSES, reasoning={"effort": "high"}, temperature=9)
        assert (call.status, len(asking.running.requests)) == (400, 1)


async def test_a_server_that_reports_no_usage_in_streams_answers_a_stream() -> None:
    parts = frames(chunk({"role": "assistant", "content": "Hello."}), chunk({}, finish_reason="stop"))
    events = head(b"content-type: text/event-stream", b"transfer-encoding: chunked") + b"".join(chunked(parts))
    refusal = b'{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}'

    class Strict(Server):
        async def __call__(self, wire: Wire) -> None:
            while True:
                asked = json.loads((await wire.request()).body)
                refused = not_found(refusal, status=b"422 Unprocessable Entity")
                await wire.send(refused if "stream_options" in asked else events)

    async with relaying(Strict(b""), dialects=("chat",)) as asking:
        call = await asking.ask(RESPONSES, stream=True)
    assert (call.status, call.whole, b'"usage":null' in call.body) == (200, True, True)
