"""Whose key reaches an upstream, and nothing else of the client's: over the wire, in both lanes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Served, serving
from tests.support.recording_upstream import Recorder, answering, recording
from tests.support.upstream_servers import reply

SETTINGS = """
auth: {{pass_client_key: true}}
retrieval: {{enabled: false}}
models:
  echo: {{lane: echo}}
  open: {{api_base: "{upstream}/v1"}}
  keyed: {{api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
  azure-like: {{model: d, api_base: "{upstream}/openai/deployments/d?api-version=2024-10-21"}}
  claude: {{model: anthropic/claude-sonnet-4-5, api_base: "{upstream}"}}
  translated: {{model: openai/gpt-4o, lane: translated, api_base: "{upstream}/v1"}}
upstream:
  paths: {{/v1/files: open}}
"""
HELLO = [{"role": "user", "content": "Hello."}]
MINE = "Bearer sk-of-the-client"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


@pytest.fixture(scope="module")
def gateway(upstream: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("client-key")
    settings = SETTINGS.format(upstream=upstream.url)
    with serving(folder / "data", folder, settings, KEY_OF_THE_UPSTREAM="sk-of-the-gateway") as served:
        yield served


def post(gateway: Served, model: str, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
    """One request. In header names `_` stands for `-`."""
    body = {"model": model, "messages": HELLO} if "completions" in path else {"model": model, "input": "hi"}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(gateway.url + path, json=body, headers=sent, timeout=30)


def sent(upstream: Recorder) -> dict[str, str]:
    """The headers of the one request that came, names in lower case."""
    (request,) = upstream.requests
    return {name.decode().lower(): value.decode() for name, value in request.headers}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/v1/responses"])
def test_a_model_without_a_key_is_called_with_the_clients(gateway: Served, upstream: Recorder, path: str) -> None:
    upstream.fresh()
    post(gateway, "open", path, authorization=MINE, openai_organization="org-1", openai_project="p-1")
    got = sent(upstream)
    assert (got["authorization"], got["openai-organization"], got["openai-project"]) == (MINE, "org-1", "p-1")


def test_a_listed_path_takes_the_clients_key_too(gateway: Served, upstream: Recorder) -> None:
    upstream.fresh()
    httpx.get(gateway.url + "/v1/files/f-1", headers={"authorization": MINE})
    assert sent(upstream)["authorization"] == MINE


def test_a_listed_path_passes_what_clients_of_anthropic_send_and_no_other_does(
    gateway: Served, upstream: Recorder
) -> None:
    mine = {"x-api-key": "sk-ant-1", "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}
    body = {"model": "keyed", "messages": HELLO}
    for path, sends, key in (
        ("/v1/files", {**body, "model": "open"}, "sk-ant-1"),
        ("/v1/files", body, "sk-of-the-gateway"),
        ("/v1/chat/completions", body, None),
    ):
        upstream.fresh()
        httpx.post(gateway.url + path, json=sends, headers=mine)
        got = sent(upstream)
        assert (got["anthropic-version"], got["anthropic-beta"], got.get("x-api-key")) == ("2023-06-01", "a,b", key)
    upstream.fresh()
    httpx.get(gateway.url + "/v1/files/f-1", headers={"x-api-key": "sk-rag-shown-by-mistake"})
    assert "x-api-key" not in sent(upstream)


@pytest.mark.parametrize("mine", [{"x-api-key": "sk-ant-1"}, {"authorization": MINE}])
def test_a_message_takes_the_clients_key_in_either_header(
    gateway: Served, upstream: Recorder, mine: dict[str, str]
) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        for model, expected in (("open", mine), ("keyed", {"x-api-key": "sk-of-the-gateway"})):
            upstream.fresh()
            httpx.post(gateway.url + path, json={"model": model, "max_tokens": 9, "messages": HELLO}, headers=mine)
            got = sent(upstream)
            assert {name: got[name] for name in ("x-api-key", "authorization") if name in got} == expected


def test_a_configured_key_wins_and_keeps_what_belongs_to_the_clients_to_itself(
    gateway: Served, upstream: Recorder
) -> None:
    upstream.fresh()
    post(gateway, "keyed", authorization=MINE, openai_organization="org-1", openai_project="p-1")
    got = sent(upstream)
    assert got["authorization"] == "Bearer sk-of-the-gateway"
    assert not {"openai-organization", "openai-project"} & set(got)


@pytest.mark.parametrize(
    "credential",
    [{}, {"authorization": "Basic dTpw"}, {"x_api_key": "sk-x"}, {"api_key": "sk-x"}, {"proxy_authorization": MINE}],
)
def test_no_other_credential_is_taken_or_travels(
    gateway: Served, upstream: Recorder, credential: dict[str, str]
) -> None:
    upstream.fresh()
    post(gateway, "open", **credential)
    got = sent(upstream)
    assert not {"authorization", "x-api-key", "api-key", "proxy-authorization"} & set(got)


@pytest.mark.parametrize("model", ["open", "claude", "translated"])
def test_two_authorization_headers_are_a_400_and_reach_nobody(gateway: Served, upstream: Recorder, model: str) -> None:
    upstream.fresh()
    headers = [("authorization", MINE), ("authorization", "Bearer sk-second")]
    body = {"model": model, "messages": HELLO}
    refused = httpx.post(gateway.url + "/v1/chat/completions", json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_authorization")
    assert not upstream.requests


def test_an_upstream_that_wants_a_key_says_so_itself(gateway: Served, upstream: Recorder) -> None:
    upstream.fresh()
    said = b'{"error": {"message": "You did not provide an API key."}}'
    upstream.answer = answering(reply(said, b"www-authenticate: Bearer", status=b"401 Unauthorized"))
    answer = post(gateway, "open")
    assert (answer.status_code, answer.content, answer.headers["www-authenticate"]) == (401, said, "Bearer")


def test_the_echo_model_never_shows_a_key(gateway: Served) -> None:
    assert "sk-of-the-client" not in post(gateway, "echo", authorization=MINE).text


@pytest.mark.parametrize(("given", "key"), [({"authorization": MINE}, "sk-of-the-client"), ({}, "none")])
@pytest.mark.parametrize(
    ("model", "header", "prefix"), [("claude", "x-api-key", ""), ("translated", "authorization", "Bearer ")]
)
def test_the_translated_lane_uses_it_alike(
    gateway: Served, upstream: Recorder, model: str, header: str, prefix: str, given: dict[str, str], key: str
) -> None:
    upstream.fresh()
    post(gateway, model, **given)
    assert sent(upstream)[header] == prefix + key
    assert "sk-of-the-client" not in upstream.body.decode()


def test_a_configured_query_comes_behind_the_path_and_wins(gateway: Served, upstream: Recorder) -> None:
    upstream.fresh()
    post(gateway, "azure-like", "/v1/chat/completions?api-version=1999&x=1")
    (request,) = upstream.requests
    assert request.line == b"POST /openai/deployments/d/chat/completions?api-version=2024-10-21&x=1 HTTP/1.1"


ALLOWED = {
    "accept": "text/event-stream", "accept-encoding": "identity", "accept-language": "de",
    "cache-control": "no-cache", "idempotency-key": "i" * 8192, "openai-beta": "b" * 8192,
    "traceparent": "00-1-2-01", "tracestate": "a=b",
    "user-agent": "test/1", "x-client-request-id": "c", "x-stainless-lang": "python",
    "content-type": "application/json",
}  # fmt: skip
DROPPED = {
    "cookie": "a=b", "forwarded": "for=1", "x-forwarded-for": "10.0.0.1", "x-forwarded-host": "evil", "x-rag": "on",
    "x-rag-collection": "docs", "x-api-key": "sk-x", "x-request-id": "nominated", "connection": "x-request-id",
    "x_request_id": "twin", "openai_beta": "twin", "openai_organization": "twin", "referer": "https://a",
    "x-stainless_os": "twin", "te": "trailers", "x-real-ip": "10.0.0.1", "x-unknown": "u" * 8192,
    "openai-organization": "org", "openai-project": "p",
}  # fmt: skip
ROUTING = {
    "api_base": "http://127.0.0.1:9/", "base_url": "http://127.0.0.1:9/", "extra_headers": {"authorization": "x"},
    "user_config": {"model_list": [{"litellm_params": {"api_base": "http://127.0.0.1:9"}}]},
    "metadata": {"api_base": "http://127.0.0.1:9", "headers": {"host": "evil"}}, "api_key": "sk-x",
}  # fmt: skip


def test_the_upstream_gets_exactly_the_listed_headers_and_the_body_routes_nothing(
    gateway: Served, upstream: Recorder
) -> None:
    upstream.fresh()
    body: dict[str, Any] = {"model": "keyed", "messages": [{**HELLO[0], **ROUTING}], **ROUTING}
    headers = [*ALLOWED.items(), *DROPPED.items(), ("authorization", MINE), ("openai-beta", "second")]
    answer = httpx.post(gateway.url + "/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200
    (request,) = upstream.requests
    got = sorted((name.decode().lower(), value.decode()) for name, value in request.headers)
    own = [
        ("authorization", "Bearer sk-of-the-gateway"),
        ("content-length", str(len(request.body))),
        ("host", upstream.url.removeprefix("http://")),
        ("openai-beta", "second"),
    ]
    assert got == sorted([*ALLOWED.items(), *own])


def test_by_default_no_key_of_a_client_travels(upstream: Recorder, tmp_path: Path) -> None:
    upstream.fresh()
    settings = f'{{retrieval: {{enabled: false}}, models: {{open: {{api_base: "{upstream.url}/v1"}}}}}}'
    with serving(tmp_path / "data", tmp_path, settings) as gateway:
        post(gateway, "open", authorization=MINE, openai_organization="org-1")
    assert not {"authorization", "openai-organization"} & set(sent(upstream))
