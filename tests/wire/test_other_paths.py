"""The paths beside /v1/chat/completions as clients write them: Azure's form, and other spellings of a base_url."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Recorder

KOTLIN = "How do I use Zephyr from Kotlin?"
DRIVER = "zephyr-driver-kotlin-coroutine"
VERSION = "2024-10-21"
SETTINGS = """
models:
  gpt-x: {{api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
  alias: {{model: gpt-x-2024-08-06, api_base: "{upstream}/v1"}}
"""


@pytest.fixture(scope="module")
def keyed(
    learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, _upstream: Recorder
) -> Iterator[tuple[Served, str]]:
    """A gateway with keys, and a key for the model gpt-x."""
    folder, data = tmp_path_factory.mktemp("keyed"), learned()
    options = ["--read", "*", "--model", "gpt-x", "--data", str(data)]
    made = ragway("keys", "create", "app", *options, folder=folder)
    assert made.returncode == 0, made.stderr
    settings = SETTINGS.format(upstream=_upstream.url)
    with serving(data, folder, settings, KEY_OF_THE_UPSTREAM="sk-upstream") as served:
        yield served, made.stdout.strip()


def azure(url: str, key: str, deployment: str | None = None) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(
        azure_endpoint=url, azure_deployment=deployment, api_version=VERSION, api_key=key, max_retries=0, timeout=60
    )


@pytest.mark.parametrize("deployment", [None, "gpt-x"])
def test_azures_client_class_asks_an_augmented_chat(
    keyed: tuple[Served, str], upstream: Recorder, deployment: str | None
) -> None:
    gateway, key = keyed
    with azure(gateway.url, key, deployment) as client:
        model = "gpt-4o-by-microsoft" if deployment else "gpt-x"  # Azure's API, too, takes the model from the path
        messages = [{"role": "user", "content": KOTLIN}]
        raw = client.chat.completions.with_raw_response.create(model=model, messages=messages, seed=7)  # type: ignore[arg-type]
    assert raw.headers["x-rag-status"] == "augmented"
    (request,) = upstream.requests
    assert request.line == b"POST /v1/chat/completions HTTP/1.1"
    assert request.header(b"authorization") == b"Bearer sk-upstream"
    assert request.header(b"api-key") is None
    sent = json.loads(request.body)
    assert (sent["model"], sent["seed"]) == ("gpt-x", 7)
    assert DRIVER in sent["messages"][0]["content"]


def test_azures_client_class_asks_for_embeddings_responses_and_models(
    keyed: tuple[Served, str], upstream: Recorder
) -> None:
    gateway, key = keyed
    with azure(gateway.url, key) as client:
        client.embeddings.create(model="gpt-x", input="Kotlin", encoding_format="float")
        client.responses.create(model="gpt-x", input=KOTLIN)
        assert [model.id for model in client.models.list()] == ["gpt-x"]
        with pytest.raises(openai.NotFoundError, match="configured models: gpt-x"):
            client.chat.completions.create(model="alias", messages=[{"role": "user", "content": "Hi"}])
    lines = [request.line for request in upstream.requests]
    assert lines == [b"POST /v1/embeddings HTTP/1.1", b"POST /v1/responses HTTP/1.1"]


def test_a_deployment_is_checked_as_the_model_whatever_the_body_names(
    keyed: tuple[Served, str], upstream: Recorder
) -> None:
    gateway, key = keyed
    body = b'{ "messages" : [{"role":"user","content":"Hi"}] }'
    for named, deployment in ((body, "alias"), (body.replace(b"{ ", b'{ "model": "gpt-x", '), "alias")):
        url = f"{gateway.url}/openai/deployments/{deployment}/chat/completions?api-version={VERSION}"
        headers = {"api-key": key, "content-type": "application/json"}
        assert httpx.post(url, content=named, headers=headers).json()["error"]["code"] == "model_not_found"
    url = f"{gateway.url}/openai/deployments/raw/gpt-x/chat/completions"
    assert httpx.post(url, content=body, headers={"content-type": "application/json"}).status_code == 401
    assert not upstream.requests
    headers = {"api-key": key, "content-type": "application/json"}
    assert httpx.post(url, content=body, headers=headers).status_code == 200
    assert upstream.body == b'{"model":"gpt-x", "messages" : [{"role":"user","content":"Hi"}] }'


@pytest.mark.parametrize("base", ["", "/", "/v1/", "/v1//", "/v1/v1", "/openai/v1/"])
def test_a_base_url_may_lack_v1_or_end_in_a_slash(gateway: Served, recorder: Recorder, base: str) -> None:
    body = b'{"model": "gpt-x", "messages": [{"role": "user", "content": "Hello there, how are you today?"}]}'
    reply = gateway.post(body, f"{base}/chat/completions", x_rag="off")
    assert reply.status_code == 200, reply.text
    assert recorder.requests[0].line == b"POST /v1/chat/completions HTTP/1.1"
    assert recorder.body == body


def test_other_spellings_reach_no_other_part(gateway: Served, recorder: Recorder) -> None:
    for path in ("/v1/%2e%2e/v1/chat/completions", "/v1//knowledge/search", "/openai/v1/admin/keys", "/v1/mcp/"):
        reply = gateway.post(b'{"model": "gpt-x"}', path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "unknown_path"), path
    assert not recorder.requests
