"""Bad requests and bad upstreams at the served gateway: each a clear error in OpenAI's shape, and nothing else lost."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from tests.support.dialect_clients import BY_DIALECT, DialectClient
from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import COMPLETION, Recorder, answering
from tests.support.upstream_servers import Received, Wire, reply

HELLO = b'{"model": "gpt-x", "messages": [{"role": "user", "content": "Hello."}]}'
CODES = {"message", "type", "param", "code"}


def error_of(reply: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a reply, which must have OpenAI's shape."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-rag-id"]
    error: dict[str, Any] = reply.json()["error"]
    assert set(error) == CODES
    assert len(error["message"]) > 20
    return error


def message_list(text: str) -> bytes:
    return b'{"model": "gpt-x", "messages": ' + text.encode() + b"}"


# The request


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b'{"model": "gpt-x", "messages": [', "invalid_json", None),
        (b'{"model": "gpt-x" "messages": []}', "invalid_json", None),
        (b'{"model": "\xff"}', "invalid_json", None),
        (b'{"model": "gpt-x", "n": NaN}', "invalid_json", None),
        (b"[" * 40_000, "invalid_json", None),
        (b"[]", "invalid_body", None),
        (b"null", "invalid_body", None),
        (b"{}", "missing_model", "model"),
        (HELLO.replace(b'"gpt-x"', b"7"), "missing_model", "model"),
        (HELLO.replace(b'"gpt-x"', b'""'), "missing_model", "model"),
        (b'{"model": "gpt-x"}', "invalid_messages", "messages"),
        (message_list("[]"), "invalid_messages", "messages"),
        (message_list("null"), "invalid_messages", "messages"),
        (message_list('"Hello."'), "invalid_messages", "messages"),
        (message_list('["Hello."]'), "invalid_messages", "messages[0]"),
        (message_list('[{"role": "user", "content": "a"}, {"content": "b"}]'), "invalid_messages", "messages[1]"),
        (HELLO[:-1] + b', "model": "echo"}', "duplicate_field", "model"),
        (HELLO[:-1] + b', "m\\u006fdel": "echo"}', "duplicate_field", "model"),
        (HELLO[:-1] + b', "messages": []}', "duplicate_field", "messages"),
        (HELLO[:-1] + b', "rag": true, "rag": false}', "duplicate_field", "rag"),
        (HELLO[:-1] + b', "rag": 1}', "invalid_rag", "rag"),
        (HELLO[:-1] + b', "rag": {"collection": "docs"}}', "invalid_rag", "rag"),
        (HELLO[:-1] + b', "rag": {"k": 0}}', "invalid_rag", "rag"),
        (HELLO[:-1] + b', "rag": {"collections": "docs"}}', "invalid_rag", "rag"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_400(
    gateway: Served, recorder: Recorder, body: bytes, code: str, param: str | None
) -> None:
    error = error_of(gateway.post(body), 400)
    assert (error["code"], error["param"]) == (code, param)
    assert error["type"] == "invalid_request_error"
    assert not recorder.requests


@BY_DIALECT
def test_every_refusal_has_the_form_of_the_dialect(gateway: Served, recorder: Recorder, client: DialectClient) -> None:
    body = orjson.dumps(client.body("gpt-x", "Where is the pump?"))
    cases: list[tuple[int, bytes, dict[str, str]]] = [
        (400, b"{", {}),
        (400, b"[]", {}),
        (400, body.replace(b'"gpt-x"', b"7"), {}),
        (400, body[:-1] + b', "model": "echo"}', {}),
        (400, body[:-1] + b', "rag": {"k": 0}}', {}),
        (400, body, {"x_rag": "perhaps"}),
        (404, body.replace(b"gpt-x", b"nowhere"), {}),
        (404, body, {"x_rag_collection": "nowhere"}),
        (413, body[:-1] + b', "x": "' + b"x" * 2_000_000 + b'"}', {}),
        (415, body, {"content_type": "text/plain"}),
        (403, body, {"origin": "https://example.com"}),
    ]
    for status, sent, headers in cases:
        reply = gateway.post(sent, client.path, **headers)
        assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json"), reply.text
        assert reply.headers["x-rag-id"]
        assert len(client.error_of(reply.content)[1]) > 20
    wrong = httpx.put(gateway.url + client.path, content=body)
    assert wrong.status_code == 405
    assert client.error_of(wrong.content)
    assert not recorder.requests


@pytest.mark.parametrize("content", ["7", "null", "{}", '["Hello."]', '[{"type": "text", "text": 7}]'])
def test_content_of_a_wrong_type_is_the_upstreams_to_judge(gateway: Served, recorder: Recorder, content: str) -> None:
    body = message_list('[{"role": "user", "content": ' + content + "}]")
    assert gateway.post(body).headers["x-rag-status"] == "skipped"
    assert recorder.body == body


def test_a_control_that_is_neither_on_nor_off_is_a_400(gateway: Served, recorder: Recorder) -> None:
    assert error_of(gateway.post(HELLO, x_rag="maybe"), 400)["code"] == "invalid_x_rag"
    assert not recorder.requests


def test_an_unknown_model_is_a_404_that_names_those_there_are(gateway: Served) -> None:
    error = error_of(gateway.ask("Hello.", model="gpt-9"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "'gpt-9'" in error["message"]
    assert all(name in error["message"] for name in ("echo", "gpt-x", "alias"))


def test_a_body_too_large_is_a_413_whether_announced_or_not(gateway: Served, recorder: Recorder) -> None:
    body = message_list('[{"role": "user", "content": "' + "x" * 2**20 + '"}]')
    announced = gateway.post(body)
    json_type = {"content-type": "application/json"}
    pieces = iter([body[: 2**19], body[2**19 :]])
    chunked = httpx.post(gateway.url + "/v1/chat/completions", content=pieces, headers=json_type, timeout=30)
    for refused in (announced, chunked):
        error = error_of(refused, 413)
        assert error["code"] == "body_too_large"
        assert "server.max_body_mb" in error["message"]
    assert not recorder.requests


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_web_page_could_send_unasked_is_a_415(gateway: Served, recorder: Recorder, media: str) -> None:
    assert error_of(gateway.post(HELLO, content_type=media), 415)["code"] == "unsupported_content_type"
    assert not recorder.requests


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/files", "/v1/knowledge/search"])
def test_a_program_may_leave_the_type_out_and_a_page_may_not(gateway: Served, recorder: Recorder, path: str) -> None:
    body = b'{"query": "Hello."}' if path.endswith("search") else HELLO
    assert httpx.post(gateway.url + path, content=body, timeout=30).status_code == 200
    for received in recorder.requests:
        assert (received.body, received.header(b"content-type")) == (body, None)
    asked = len(recorder.requests)
    page = httpx.post(gateway.url + path, content=body, headers={"origin": "null", "sec-fetch-site": "cross-site"})
    assert error_of(page, 403)["code"] == "origin_not_allowed"
    hidden = httpx.post(gateway.url + path, content=body, headers={"sec-fetch-site": "cross-site"})
    if path != "/v1/files":  # a listed path takes every type
        assert error_of(hidden, 415)["code"] == "unsupported_content_type"
        assert len(recorder.requests) == asked


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "evil.example"}, "host_not_allowed"),
        ({"host": "127.0.0.1.evil.example:8000"}, "host_not_allowed"),
        ({"origin": "https://evil.example"}, "origin_not_allowed"),
        ({"origin": "null"}, "origin_not_allowed"),
    ],
)
def test_a_web_page_elsewhere_is_a_403(gateway: Served, recorder: Recorder, headers: dict[str, str], code: str) -> None:
    assert error_of(gateway.post(HELLO, **headers), 403)["code"] == code
    assert not recorder.requests


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
def test_another_method_is_a_405(gateway: Served, path: str) -> None:
    answer = gateway.get(path)
    assert error_of(answer, 405)["code"] == "method_not_allowed"
    assert answer.headers["allow"] == "POST"


def test_embeddings_of_a_model_that_is_not_relayed_are_a_404(gateway: Served) -> None:
    error = error_of(gateway.post(b'{"model": "echo", "input": "a"}', "/v1/embeddings"), 404)
    assert error["code"] == "path_not_supported"


def test_it_serves_on_after_bytes_that_are_no_http(gateway: Served) -> None:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(b"\x16\x03\x01\x00\x00 not HTTP\r\n\r\n")
        assert raw.makefile("rb").readline().startswith(b"HTTP/1.1 400 ")
    assert gateway.ask("Hello.").status_code == 200


def test_it_serves_on_after_a_client_left_within_its_request(gateway: Served) -> None:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
        raw.sendall(b"content-length: 1000\r\n\r\n" + HELLO)
    assert gateway.ask("Hello.").status_code == 200


# The upstream


@pytest.mark.parametrize(
    "status", [b"400 Bad Request", b"401 Unauthorized", b"404 Not Found", b"429 Too Many Requests",
               b"500 Internal Server Error", b"503 Service Unavailable"],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_of_the_upstream_passes_as_it_came(
    gateway: Served, recorder: Recorder, status: bytes, stream: bool
) -> None:
    body = b'{"error":\n {"message": "no", "type": "odd_type", "param": 1.50, "code": null}, "more": 1}'
    recorder.answer = answering(
        reply(body, b"content-type: application/problem+json", b"retry-after: 17", b"x-request-id: r-1", status=status)
    )
    got = gateway.ask("Use Zephyr from Kotlin?", model="gpt-x", stream=stream)
    assert got.status_code == int(status.split()[0])
    assert got.content == body
    assert got.headers["content-type"] == "application/problem+json"
    assert got.headers["retry-after"] == "17"
    assert got.headers["x-request-id"] == "r-1"
    assert got.headers["x-rag-status"] == "augmented"
    assert len(recorder.requests) == 1  # never asked twice


def test_an_upstream_that_answers_no_http_is_a_502(gateway: Served, recorder: Recorder) -> None:
    async def garbage(wire: Wire, _received: Received) -> None:
        await wire.send(b"SSH-2.0-OpenSSH\r\n\r\n")
        await wire.close()

    recorder.answer = garbage
    assert error_of(gateway.post(HELLO), 502)["code"] == "upstream_bad_reply"


def test_an_upstream_that_closes_without_a_word_is_a_502_and_not_asked_again(
    gateway: Served, recorder: Recorder
) -> None:
    async def close(wire: Wire, _received: Received) -> None:
        await wire.close()

    recorder.answer = close
    assert error_of(gateway.post(HELLO), 502)["code"] == "upstream_closed"
    assert len(recorder.requests) == 1


@pytest.fixture(scope="module")
def impatient(_recorder: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway without retrieval, with short limits, and with a model whose upstream does not run."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    settings = f"""
        retrieval: {{enabled: false}}
        upstream: {{first_byte_timeout_s: 0.2, idle_timeout_s: 0.2}}
        models:
          gpt-x: {{api_base: "{_recorder.url}/v1"}}
          refused: {{api_base: "http://127.0.0.1:{free}/v1"}}
    """
    folder = tmp_path_factory.mktemp("impatient")
    with serving(folder / "data", folder, settings) as served:
        yield served


async def _silent(wire: Wire, _received: Received) -> None:
    await wire.gone()


def test_an_upstream_that_refuses_is_a_502_that_names_it(impatient: Served) -> None:
    error = error_of(impatient.ask("Hello.", model="refused"), 502)
    assert (error["type"], error["code"]) == ("upstream_error", "upstream_unreachable")
    assert "127.0.0.1" not in error["message"], "addresses are for the log"
    assert "'refused'" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_hangs_is_a_504(impatient: Served, recorder: Recorder, stream: bool) -> None:
    recorder.answer = _silent
    error = error_of(impatient.ask("Hello.", model="gpt-x", stream=stream), 504)
    assert error["code"] == "upstream_timeout"
    assert "upstream.first_byte_timeout_s" in error["message"]


def test_an_upstream_that_falls_silent_within_its_reply_never_looks_complete(
    impatient: Served, recorder: Recorder
) -> None:
    async def half(wire: Wire, _received: Received) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n")
        await wire.gone()

    recorder.answer = half
    with pytest.raises(httpx.RemoteProtocolError):
        impatient.ask("Hello.", model="gpt-x")


def test_without_retrieval_everything_is_off_and_no_index_runs(impatient: Served, recorder: Recorder) -> None:
    got = impatient.post(HELLO)
    assert (got.headers["x-rag-status"], got.headers["x-rag-reason"]) == ("off", "retrieval is disabled")
    assert (got.content, recorder.body) == (COMPLETION, HELLO)
    assert impatient.get("/readyz").status_code == 200
    with pytest.raises(ProcessLookupError):
        impatient.index_pid()


# Collections that come


def test_what_another_process_ingests_is_served_at_once(
    gateway: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("news")
    page = folder / "parrots.md"
    page.write_text("# Parrots\n\nThe parrot of the harbour master is called Polly.\n", "utf-8")
    question = "What is the harbour master's parrot called?"
    before = gateway.ask(question, headers={"x-rag-collection": "news"})
    assert error_of(before, 404)["code"] == "collection_not_found"
    done = ragway("ingest", str(page), "--collection", "news", "--data", str(gateway.data), folder=folder)
    assert done.returncode == 0, done.stderr
    after = gateway.ask(question, headers={"x-rag-collection": "news"})
    assert after.headers["x-rag-status"] == "augmented"
    assert "Polly" in after.text
    assert "Polly" not in gateway.ask(question).text  # the collection `docs` knows nothing of it
