"""A path that is not served: each client is told what it takes, in words and in a form that it reads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.api.advice import Advice
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.messages import MESSAGES
from proxy.exchange import Exchange
from tests.support.asgi_calls import scope_of
from tests.support.rows import all_rows

SERVED = (
    "/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/models",
    "/v1/models/{name:path}", "/v1/knowledge/search", "/v1/knowledge/collections", "/v1/knowledge/collections/{name}",
    "/v1/knowledge/collections/{name}/documents", "/v1/knowledge/collections/{name}/documents/{key:path}",
    "/v1/knowledge/documents/{id}", "/v1/knowledge/jobs/{id}/cancel", "/v1/files", "/v1/files/{id}",
    "/v1/vector_stores/{name}/search", "/v1/admin/keys", "/v1/admin/keys/{id}", "/mcp", "/metrics", "/healthz",
)  # fmt: skip
ADVICE = Advice(SERVED)


def told(
    path: str, headers: Headers | None = None, advice: Advice = ADVICE, exchange: Exchange | None = None
) -> ApiError:
    error = advice.unknown(scope_of(path, headers=headers or [], exchange=exchange or Exchange()))
    assert error.status == 404
    assert error.message.startswith(f"POST {path} is not served here: ")
    return error


@all_rows(
    ("path", "meant", "why"),
    [
        ("/v1/chat/completions/", "/v1/chat/completions", "none at its end"),
        ("/v1//chat/completions", "/v1/chat/completions", "single slashes"),
        ("//v1/chat/completions", "/v1/chat/completions", "single slashes"),
        ("/mcp/", "/mcp", "none at its end"),
        ("/v1/knowledge/documents/d-1/", "/v1/knowledge/documents/d-1", "none at its end"),
        ("/v1/v1/chat/completions", "/v1/chat/completions", "base_url ends in /v1, once"),
        ("/v1/v1/models/org/name", "/v1/models/org/name", "base_url ends in /v1, once"),
        ("/v1/v1/v1/models/", "/v1/models", "base_url ends in /v1, once"),
        ("/chat/completions", "/v1/chat/completions", "base_url ends in /v1, once"),
        ("/embeddings/", "/v1/embeddings", "base_url ends in /v1, once"),
        ("/knowledge/search", "/v1/knowledge/search", "base_url ends in /v1, once"),
        ("/openai/v1/responses", "/v1/responses", "base_url ends in /v1, once"),
        ("/api/v1/models", "/v1/models", "base_url ends in /v1, once"),
        ("/v1/mcp", "/mcp", "not below /v1"),
    ],
)
def test_the_right_path_is_named_with_what_was_wrong(path: str, meant: str, why: str) -> None:
    error = told(path)
    assert error.code == "unknown_path"
    assert f": the path is {meant}. " in error.message
    assert why in error.message


@all_rows(
    ("path", "meant"),
    [
        ("/v1/knowledge/serach", "/v1/knowledge/search"),
        ("/v1/knowlege/search", "/v1/knowledge/search"),
        ("/v1/knowledge/collection/docs/document/a.md", "/v1/knowledge/collections/docs/documents/a.md"),
        ("/v1/knowledge/collections/Docs/document", "/v1/knowledge/collections/Docs/documents"),
        ("/v1/knowledge/job/j-1/cancel", "/v1/knowledge/jobs/j-1/cancel"),
        ("/v1/knowledge/collections/docs/serch", "/v1/knowledge/collections"),
        ("/v1/knowledge/docs/documents/a.md", "/v1/knowledge/documents/"),
        ("/v1/knowledge", "/v1/knowledge/search"),
        ("/v1/chat", "/v1/chat/completions"),
        ("/v1/admin/key", "/v1/admin/keys"),
        ("/v1/vector_store/docs/search", "/v1/vector_stores/docs/search"),
        ("/v1/chat/completion", "/v1/chat/completions"),
        ("/V1/Chat/Completions", "/v1/chat/completions"),
        ("/v1/embedding", "/v1/embeddings"),
        ("/v1/model", "/v1/models"),
        ("/healtz", "/healthz"),
    ],
)
def test_a_name_that_is_mistyped_is_corrected(path: str, meant: str) -> None:
    assert f"did you mean {meant}" in told(path).message


@pytest.mark.parametrize(
    "path",
    ["/v1/skills", "/v1/filesystem", "/v1/organization/costs", "/v1/chat/completions/chatcmpl-1"],
)
def test_what_an_upstream_may_serve_can_be_listed(path: str) -> None:
    assert told(path).message.endswith("list it in upstream.paths to relay it.")


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/realtime/client_secrets"])
def test_a_realtime_session_belongs_to_the_upstream(path: str) -> None:
    assert told(path).message.endswith("does not speak WebSocket. Connect realtime clients to the upstream itself.")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/api/generate", "/v1beta/models/x:generateContent", "/favicon.ico", "/x" * 8000]
)
def test_the_rest_is_told_what_there_is(path: str) -> None:
    error = ADVICE.unknown(scope_of(path, exchange=Exchange()))
    assert "POST /v1/chat/completions" in error.message
    assert len(error.message) < 600


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/anthropic/v1/messages", "the path is /v1/messages. A client's base_url ends in /v1, once."),
        ("/v1/messages/batches", "list it in upstream.paths to relay it."),
    ],
)
def test_a_client_of_anthropics_reads_its_own_form(path: str, why: str) -> None:
    exchange = Exchange(id="rag-1")
    error = told(path, exchange=exchange)
    body = json.loads(exchange.dialect.error_body(error, exchange.id))
    assert body == {
        "type": "error",
        "error": {"type": "not_found_error", "message": error.message},
        "request_id": "rag-1",
    }
    assert error.message.endswith(why)


def test_a_client_that_sends_anthropics_version_reads_that_form_on_any_path() -> None:
    exchange = Exchange()
    told("/v1/complete", [(b"anthropic-version", b"2023-06-01")], exchange=exchange)
    assert exchange.dialect is MESSAGES


def test_what_is_listed_is_served() -> None:
    advice = Advice([*SERVED, "/v1/rerank", "/v1/rerank/{rest:path}"])
    assert "the path is /v1/rerank/x. " in told("/v1/v1/rerank/x", advice=advice).message


@given(
    st.text(max_size=400).map(lambda text: "/" + text)
    | st.lists(st.sampled_from(["", "v1", "models", "x", "messages", "deployments"])).map("/".join)
)
def test_whatever_is_asked_for_gets_an_answer_that_can_be_sent(path: str) -> None:
    error = ADVICE.unknown(scope_of(path, exchange=Exchange()))
    assert error.status == 404
    json.loads(error.body())
