"""Bodies with a content-encoding at the served gateway: every path takes the same bytes, packed or plain."""

import json

import httpx
import pytest

from tests.support.encodings import COMPRESSORS, ENCODINGS
from tests.support.gateway import Served
from tests.support.recording_upstream import COMPLETION, Recorder

KOTLIN = "How do I use Zephyr from Kotlin?"
QUESTION = b'{ "model":"gpt-x", "n": 1.50,"messages":[{"role":"user","content":"How do I use Zephyr from Kotlin?"}]}'
FORM = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\ngpt-x\r\n--b\r\n' + (
    b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n\x00\xffnot JSON\r\n--b--'
)
AS_FORM = "multipart/form-data; boundary=b"
JSON = "application/json"


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("path", "body", "media", "status"),
    [
        ("/v1/chat/completions", QUESTION, JSON, "augmented"),
        ("/v1/chat/completions", QUESTION.replace(b"gpt-x", b"raw/gpt-x"), JSON, "off"),
        ("/v1/chat/completions", QUESTION.replace(b"gpt-x", b"alias"), JSON, "augmented"),
        ("/v1/responses", b'{"model": "gpt-x", "input": "How do I use Zephyr from Kotlin?"}', JSON, "augmented"),
        ("/v1/messages", QUESTION, JSON, "augmented"),
        ("/v1/messages/count_tokens", QUESTION, JSON, "off"),
        ("/v1/moderations", b'{"input": "Kotlin",  "model": "gpt-x"}', JSON, "off"),
        ("/v1/audio/transcriptions", FORM, AS_FORM, "off"),
        ("/v1/embeddings", b'{"input":  ["Kotlin"], "model": "gpt-x", "dimensions": 2.0}', JSON, "off"),
        ("/v1/completions", b'{"prompt":  "Kotlin", "model": "gpt-x"}', JSON, "off"),
        ("/openai/deployments/gpt-x/chat/completions?api-version=1", QUESTION, JSON, "augmented"),
        ("/v1/files", FORM, AS_FORM, "off"),
        ("/v1/files", b"\x00\xffnot JSON", "application/octet-stream", "off"),
        ("/v1/files", b'{"model": "gpt-x"}', JSON, "off"),
    ],
)
def test_the_upstream_gets_the_request_of_a_plain_body(
    gateway: Served, recorder: Recorder, encoding: str, path: str, body: bytes, media: str, status: str
) -> None:
    for packed in (body, COMPRESSORS[encoding](body)):
        named = {} if packed is body else {"content_encoding": encoding}
        reply = gateway.post(packed, path, content_type=media, **named)
        assert (reply.status_code, reply.content) == (200, COMPLETION)
        assert reply.headers["x-rag-status"] == status
    plain, unpacked = recorder.requests
    assert unpacked == plain
    assert int(unpacked.header(b"content-length") or 0) == len(unpacked.body)
    assert status == "augmented" or unpacked.body == body.replace(b"raw/", b"")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_gateways_own_paths_take_packed_bodies(gateway: Served, encoding: str) -> None:
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    called["params"] = {"name": "search", "arguments": {"query": KOTLIN}}
    for path, asked in (
        ("/v1/knowledge/search", {"query": KOTLIN}),
        ("/v1/vector_stores/docs/search", {"query": KOTLIN}),
        ("/mcp", called),
    ):
        body, accept = json.dumps(asked).encode(), "application/json, text/event-stream"
        plain = gateway.post(body, path, accept=accept)
        packed = gateway.post(COMPRESSORS[encoding](body), path, accept=accept, content_encoding=encoding)
        assert (packed.status_code, plain.status_code) == (200, 200), packed.text
        assert "zephyr-driver-kotlin-coroutine" in packed.text
        assert _without_times(packed) == _without_times(plain)


def _without_times(reply: httpx.Response) -> object:
    said = reply.json()
    return {name: value for name, value in said.items() if name not in ("id", "timings_ms")}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/embeddings", "/v1/files", "/v1/knowledge/search", "/mcp"]
)
def test_every_path_refuses_damaged_and_unknown_encodings(
    gateway: Served, recorder: Recorder, encoding: str, path: str
) -> None:
    packed = COMPRESSORS[encoding](QUESTION)
    bomb = COMPRESSORS[encoding](b" " * 10_000_000)  # the limit of this gateway is 1 MB
    for body, named, status, code in (
        (packed[:-1], encoding, 400, "invalid_encoding"),
        (bomb, encoding, 413, "body_too_large"),
        (packed, f"{encoding}, {encoding}", 415, "unsupported_encoding"),
        (packed, "compress", 415, "unsupported_encoding"),
    ):
        reply = gateway.post(body, path, content_encoding=named)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
    assert not recorder.requests


def test_a_form_of_files_is_read_plain_only(gateway: Served) -> None:
    reply = gateway.post(
        COMPRESSORS["gzip"](FORM),
        "/v1/knowledge/collections/docs/files",
        content_type=AS_FORM,
        content_encoding="gzip",
    )
    assert (reply.status_code, reply.json()["error"]["code"]) == (415, "unsupported_encoding")
    assert "without content-encoding" in reply.json()["error"]["message"]
