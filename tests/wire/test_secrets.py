"""Keys, prompts and passages appear in no log at any level, no metric and no error of ours, whatever goes wrong.

Every canary holds MARK. Those that stand in names of models and paths stand behind what the log tells of a name.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.assembly.gateway import gateway as build_gateway
from config.settings import load
from retrieval.knowledge import SearchRequest
from retrieval.records.documents import CollectionInfo, Groups
from retrieval.records.search import Retrieved
from retrieval.rpc.client import SOCKET, IndexClient, encode, framed
from retrieval.rpc.server import IndexServer
from runtime import logs
from tests.support import anthropic_server as anthropic
from tests.support.asgi_calls import Call, scope_of
from tests.support.gateway import Served, ragway, serving
from tests.support.kept_logging import kept_logging
from tests.support.recording_upstream import Answer, Recorder, answering, recording
from tests.support.unasked import Unasked
from tests.support.upstream_servers import Received, Wire, chunked, head, reply

MARK = "CNRY"
PROVIDER_KEYS = ("sk-CNRY-provider-key", "sk-CNRY-claude-key-1")
QDRANT_KEY = "qd-CNRY-qdrant-key-0"
LONG = "x" * 120  # more than the log tells of a name
JSON = b"content-type: application/json"
EVENTS = b"content-type: text/event-stream"

SETTINGS = """
server: {{max_body_mb: 1}}
upstream: {{first_byte_timeout_s: 0.5, idle_timeout_s: 0.5, paths: {{/v1/files: gpt-x}}}}
models:
  echo: {{lane: echo}}
  gpt-x: {{api_base: "{upstream}/v1?key=CNRY-in-the-address", api_key_env: KEY_OF_GPT}}
  nowhere: {{api_base: "http://127.0.0.1:1/v1?key=CNRY-in-the-address", api_key_env: KEY_OF_GPT}}
  claude: {{model: anthropic/claude-sonnet-4-5, api_base: "{claude}", api_key_env: KEY_OF_CLAUDE}}
  gpt-t: {{model: openai/gpt-4o, lane: translated, api_base: "{claude}/v1", api_key_env: KEY_OF_CLAUDE}}
"""
ENVIRON = {
    "KEY_OF_GPT": PROVIDER_KEYS[0], "KEY_OF_CLAUDE": PROVIDER_KEYS[1], "QDRANT_API_KEY": QDRANT_KEY,
    "RAGWAY_SERVER__LOG_LEVEL": "debug", "PYTHONASYNCIODEBUG": "1", "LITELLM_LOG": "DEBUG", "OPENAI_LOG": "debug",
}  # fmt: skip
QUESTION = "How do I open the Zephyr vault CNRY-prompt?"
HEADERS = {
    "authorization": "Bearer sk-CNRY-client", "x-api-key": "CNRY-x-api-key", "cookie": "a=CNRY-cookie",
    "proxy-authorization": "Basic CNRY-proxy", "openai-organization": "CNRY-organization", "user-agent": "CNRY-agent",
    "idempotency-key": "CNRY-idempotency", "x-CNRY-name": "1", "x-forwarded-for": "CNRY-forwarded",
}  # fmt: skip


@pytest.fixture
def upstreams() -> Iterator[tuple[Recorder, Recorder]]:
    with recording() as relayed, recording() as translated:
        yield relayed, translated


def body_of(model: str, **fields: Any) -> bytes:
    messages = [
        {"role": "system", "content": "CNRY-system"},
        {"role": "user", "content": "What is the vault?"},
        {"role": "assistant", "content": "CNRY-assistant"},
        {"role": "user", "content": QUESTION},
    ]
    return json.dumps({"model": model, "messages": messages, **fields}).encode()


class Hunt:
    """Sends requests full of canaries and keeps what came back."""

    def __init__(self, gateway: Served) -> None:
        self.gateway = gateway
        self.answers: list[bytes] = []
        self._client = httpx.Client(timeout=30)

    def post(self, body: bytes, path: str = "/v1/chat/completions", **headers: str) -> None:
        sent = {"content-type": "application/json", **HEADERS, **{k.replace("_", "-"): v for k, v in headers.items()}}
        with contextlib.suppress(httpx.RemoteProtocolError):  # cut streams
            answer = self._client.post(f"{self.gateway.url}{path}?q=CNRY-query", content=body, headers=sent)
            self.answers.append(answer.content)

    def close(self) -> None:
        self._client.close()

    def raw(self, data: bytes) -> None:
        host, port = self.gateway.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                self.answers.append(connection.recv(1 << 16))


def requests_that_are_refused(hunt: Hunt) -> None:
    ok = body_of("gpt-x")
    bodies = [
        b'{"CNRY-bad-json": ', b'["CNRY-list"]', b"CNRY-not-json", b'{"model": "gpt-x", "messages": "CNRY-messages"}',
        b'{"model": "gpt-x", "model": "CNRY-twice", "messages": []}', b"\xff CNRY-not-utf-8",
        body_of(f"unknown-{LONG}CNRY-model"), body_of(f"raw/{LONG}CNRY-raw"), body_of("rag/CNRY-half"),
        body_of("gpt-x", rag={"CNRY-unknown": 1}), body_of("gpt-x", rag={"collections": ["CNRY-collection"]}),
        b'{"x": "CNRY-large ' + b"x" * 2**20 + b'"}',
    ]  # fmt: skip
    for body in bodies:
        hunt.post(body)
    hunt.post(ok, x_rag="CNRY-maybe")
    hunt.post(ok, x_rag_collection="CNRY-of-the-header")
    hunt.post(ok, host="CNRY-host.example")
    hunt.post(ok, origin="https://CNRY-origin.example")
    hunt.post(ok, content_type="text/CNRY-type")
    hunt.post(ok, f"/v1/{LONG}/CNRY-path")
    hunt.post(ok, f"/v1/files/..%2f{LONG}CNRY-dots")
    hunt.raw(b"CNRY-no-http\r\n\r\n")
    hunt.raw(b"CNRYMETHOD /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n")
    hunt.raw(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nCNRY bad header\r\n\r\n")
    hunt.raw(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{CNRY-cut")


def _quoting(pieces: Callable[[Received], Sequence[bytes]], *, reset: bool = False) -> Answer:
    """An answer made of what was asked, then a broken connection where `reset`."""

    async def answer(wire: Wire, received: Received) -> None:
        await wire.send(*pieces(received))
        if reset:
            wire.reset()
            raise ConnectionResetError

    return answer


async def _silent(wire: Wire, _received: Received) -> None:
    await wire.gone()


def _key_of(received: Received) -> bytes:
    return (received.header(b"authorization") or received.header(b"x-api-key") or b"").removeprefix(b"Bearer ")


def _refusal(received: Received) -> list[bytes]:
    """A provider's 401 that quotes the key and the prompt, in a place for each."""
    key = _key_of(received).decode()
    error = {"message": f"bad key {key} {QUESTION}", "type": f"t-{key}", "code": f"c-{key}", "param": f"p-{key}"}
    content = json.dumps({"type": "error", "error": error}).encode()
    return [reply(content, JSON, b"x-CNRY: CNRY-reply-header", status=b"401 CNRY-phrase")]


def upstreams_that_fail(hunt: Hunt, relayed: Recorder) -> None:
    begun = [head(b"transfer-encoding: chunked", EVENTS), *chunked([b"data: CNRY-cut\n\n"])[:1]]
    answers = [
        _quoting(_refusal),
        answering(reply(b"CNRY-upstream-500", status=b"500 CNRY")),
        answering(b"CNRY-garbage\r\n\r\n"),
        answering(b"HTTP/1.1 200 OK\r\nCNRY bad header\r\n\r\n"),
        answering(head(b"transfer-encoding: chunked", EVENTS) + b"CNRY-not-a-size\r\n"),
        _quoting(lambda _: begun, reset=True),
        _quoting(lambda _: [], reset=True),
        _silent,
    ]  # fmt: skip
    for answer in answers:
        relayed.answer = answer
        for path in ("/v1/chat/completions", "/v1/embeddings", "/v1/files/f-1"):
            hunt.post(body_of("gpt-x", stream=True, input="CNRY-input"), path)
    hunt.post(body_of("nowhere"))


def providers_that_fail(hunt: Hunt, translated: Recorder) -> None:
    stream = head(b"transfer-encoding: chunked", EVENTS)
    text = anthropic.text_stream("CNRY-reply-one", "CNRY-reply-two")
    bad = [*text[:3], anthropic.error_event("overloaded_error", f"CNRY-event {PROVIDER_KEYS[1]}")]
    garbled = [b"data: {CNRY-garbled\n\n", b'data: {"error": {"message": "CNRY-in-band"}}\n\n', b"data: [DONE]\n\n"]
    answers = [
        _quoting(_refusal),
        answering(reply(b"<html>CNRY-page</html>", b"content-type: text/html", status=b"503 CNRY")),
        answering(reply(b'{"CNRY-no-completion": 1}', JSON)),
        answering(reply(b'{"choices": [{"message": {"content": 7, "CNRY-odd": []}}], "usage": "CNRY-usage"}', JSON)),
        answering(stream, *chunked(bad)),
        answering(stream, *chunked(garbled)),
        _quoting(lambda _: [stream, *chunked(text[:4])[:-1]], reset=True),
        _silent,
    ]
    for answer in answers:
        translated.answer = answer
        for model in ("claude", "gpt-t"):
            for stream_it in (True, False):
                hunt.post(body_of(model, stream=stream_it, max_tokens=9))
    hunt.post(body_of("claude", CNRY_parameter="CNRY-value"))
    hunt.post(body_of("claude", seed=1, tools=[{"type": "CNRY-tool"}]))
    picture = [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/CNRY.png"}}]
    hunt.post(json.dumps({"model": "claude", "messages": [{"role": "user", "content": picture}]}).encode())


def an_index_that_fails(hunt: Hunt) -> None:
    """Calls it cannot understand, then its death with a request under way."""
    turns = [{"role": "user", "text": "CNRY-turn", "CNRY-odd": "CNRY-value"}]
    frames = [
        framed(encode(["retrieve", [turns, ["docs"], "CNRY-k"]])),
        framed(encode(["files", ["CNRY-owner", "", "", 2**64 - 1, True]])),  # more than SQLite can hold
        framed(encode(["CNRY-call", []])),
        framed(encode({"CNRY": "CNRY-no-call"})),
        b"\0\0\0\x09CNRY-junk",
    ]
    for frame in frames:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(hunt.gateway.data / SOCKET))
            connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
    hunt.post(body_of("echo"))
    os.kill(hunt.gateway.index_pid(), signal.SIGKILL)
    hunt.post(body_of("echo"))


def test_no_canary_is_logged_or_counted_on_any_path(
    upstreams: tuple[Recorder, Recorder], data: Path, tmp_path: Path
) -> None:
    relayed, translated = upstreams
    page = tmp_path / "vault.md"
    page.write_text("# The Zephyr vault\n\nOpen the Zephyr vault with the word CNRY-passage.\n", "utf-8")
    settings = SETTINGS.format(upstream=relayed.url, claude=translated.url)
    said = ragway("ingest", str(page), "--collection", "docs", "--data", str(data), folder=tmp_path, environ=ENVIRON)
    assert said.returncode == 0, said.stderr
    with serving(data, tmp_path, settings, **ENVIRON) as gateway, contextlib.closing(Hunt(gateway)) as hunt:
        hunt.post(body_of("echo"))
        assert b"CNRY-passage" in hunt.answers.pop()  # the canary of the document does travel
        requests_that_are_refused(hunt)
        upstreams_that_fail(hunt, relayed)
        providers_that_fail(hunt, translated)
        an_index_that_fails(hunt)
        metrics = gateway.get("/metrics").text
    log = gateway.log.read_text("utf-8", "replace")
    assert "rag=augmented" in log
    assert "Traceback, without messages" in log  # the index had faults to tell of
    found = [line for line in (log + said.stdout + said.stderr + metrics).splitlines() if MARK in line]
    assert found == []
    quoting = [answer for answer in hunt.answers if any(key.encode() in answer for key in PROVIDER_KEYS)]
    assert len(quoting) == 3  # the relay hands on what the upstream of gpt-x said, on three paths; nobody else quotes
    assert len(hunt.answers) > 60


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_the_config_command_tells_no_secret(flags: tuple[str, ...], tmp_path: Path) -> None:
    settings = SETTINGS.format(upstream="http://127.0.0.1:1", claude="http://127.0.0.1:1")
    (tmp_path / "ragway.yaml").write_text(settings, "utf-8")
    environ = {**ENVIRON, "OPENAI_API_KEY": "sk-CNRY-openai", "RAGWAY_QDRANT__URL": "http://u:CNRY-p@127.0.0.1:1"}
    done = ragway("config", *flags, folder=tmp_path, environ=environ)
    assert done.returncode == 0
    assert MARK not in done.stdout + done.stderr


def test_a_password_in_an_address_ends_serve_without_being_told(tmp_path: Path) -> None:
    environ = {"RAGWAY_MODELS": '{x: {api_base: "http://u:CNRY-password@h/v1"}}'}
    done = ragway("serve", folder=tmp_path, environ=environ)
    assert done.returncode == 1
    assert "models.x.api_base must not hold a user or a password" in done.stderr
    assert MARK not in done.stdout + done.stderr


def test_a_qdrant_server_that_quotes_its_key_is_not_quoted(tmp_path: Path, data: Path) -> None:
    async def quoting(wire: Wire, received: Received) -> None:
        await wire.send(
            reply(
                b'{"status": {"error": "bad %b"}}' % (received.header(b"api-key") or b"?"),
                JSON,
                status=b"400 Bad Request",
            )
        )

    with recording() as qdrant:
        qdrant.answer = quoting
        environ = {**ENVIRON, "RAGWAY_QDRANT__URL": qdrant.url}
        done = ragway("search", "what?", "--data", str(data), folder=tmp_path, environ=environ)
    assert done.returncode == 1
    assert any(request.header(b"api-key") == QDRANT_KEY.encode() for request in qdrant.requests)
    assert MARK not in done.stdout + done.stderr


class Quoting(Unasked):
    """A knowledge whose failures quote what it was asked."""

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        raise ValueError(f"cannot embed {request.turns[-1].text!r} of {request.collections}")

    async def collections(self, groups: Groups = ()) -> list[CollectionInfo]:
        return []

    async def check(self) -> None:
        pass

    async def close(self) -> None:
        pass


@contextlib.contextmanager
def logging_as_served() -> Iterator[None]:
    """This process logs as `serve --log-level debug` does, and afterwards as before."""
    with kept_logging():
        logs.to_stderr("debug", "%(message)s")
        yield


@pytest.mark.parametrize("through_the_socket", [False, True])
async def test_a_retrieval_failure_that_quotes_the_prompt_is_not_quoted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], through_the_socket: bool
) -> None:
    asyncio.get_running_loop().set_debug(True)
    with logging_as_served():
        async with IndexServer(Quoting()).listening(tmp_path):
            knowledge = IndexClient(tmp_path) if through_the_socket else Quoting()
            made = build_gateway(load(environ={}), knowledge, ready=lambda: "", environ={})
            headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            call = await Call(pieces=(body_of("echo"),)).to(made.app, scope_of(headers=headers))
            await knowledge.close()
            made.ways.client.close()
    told = dict(call.headers)
    assert (told[b"x-rag-status"], MARK.encode() in b"".join(told.values())) == (b"degraded", False)
    said = capfd.readouterr()
    assert "ValueError" in said.err
    assert MARK not in said.out + said.err
