"""The paths beside the chats, asked by official SDKs: relayed byte for byte with the key's rights, never with passages.

And the paths as other clients write the paths: Azure's form, and other spellings of a base_url.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import anthropic
import httpx
import openai
import pytest

from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Recorder, answering
from tests.support.upstream_servers import reply

KOTLIN = "How do I use Zephyr from Kotlin?"
DRIVER = "zephyr-driver-kotlin-coroutine"
VERSION = "2024-10-21"
SOUND = b"\0ID3\xff\r\n--"
SETTINGS = """
models:
  gpt-x: {{api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
  alias: {{model: gpt-x-2024-08-06, api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
"""
KEYS = {
    "app": ["--model", "gpt-x"],
    "all": ["--model", "*", "--rpm", "1000"],
    "limited": ["--model", "*", "--tpm", "100000"],
}


class Keyed:
    """A gateway with keys, and the bytes that an SDK sent."""

    def __init__(self, url: str, keys: dict[str, str]) -> None:
        self.url = url
        self.keys = keys
        self.sent: list[httpx.Request] = []
        self.http = httpx.Client(event_hooks={"request": [self._keep]}, timeout=60)

    def _keep(self, request: httpx.Request) -> None:
        request.read()
        self.sent.append(request)

    def sdk(self, key: str = "app") -> openai.OpenAI:
        secret = self.keys[key]
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=secret, max_retries=0, http_client=self.http)

    def anthropic(self, key: str) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.url, api_key=self.keys[key], max_retries=0)

    def arrived(self, upstream: Recorder, line: str, model: bytes = b"", renamed: bytes = b"") -> None:
        """Assert that the one request arrived as sent, but for the model's name."""
        (request,), (sent,) = upstream.requests, self.sent
        upstream.requests.clear()
        self.sent.clear()
        assert request.line == f"{line} HTTP/1.1".encode()
        assert request.body == sent.content.replace(model, renamed) if model else request.body == sent.content
        assert (request.header(b"content-type") or b"").decode() == sent.headers.get("content-type", "")
        assert request.header(b"authorization") == b"Bearer sk-upstream"


@pytest.fixture(scope="module")
def _keyed(
    learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, _upstream: Recorder
) -> Iterator[tuple[str, dict[str, str]]]:
    folder, data = tmp_path_factory.mktemp("keyed"), learned()
    keys = {}
    for name, options in KEYS.items():
        made = ragway("keys", "create", name, "--read", "*", *options, "--data", str(data), folder=folder)
        assert made.returncode == 0, made.stderr
        keys[name] = made.stdout.strip()
    settings = SETTINGS.format(upstream=_upstream.url)
    with serving(data, folder, settings, KEY_OF_THE_UPSTREAM="sk-upstream") as served:
        yield served.url, keys


@pytest.fixture
def keyed(_keyed: tuple[str, dict[str, str]]) -> Iterator[Keyed]:
    opened = Keyed(*_keyed)
    with opened.http:
        yield opened


def azure(url: str, key: str, deployment: str | None = None) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(
        azure_endpoint=url, azure_deployment=deployment, api_version=VERSION, api_key=key, max_retries=0, timeout=60
    )


@pytest.mark.parametrize("deployment", [None, "gpt-x"])
def test_azures_client_class_asks_an_augmented_chat(keyed: Keyed, upstream: Recorder, deployment: str | None) -> None:
    with azure(keyed.url, keyed.keys["app"], deployment) as client:
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


def test_azures_client_class_asks_for_embeddings_responses_and_models(keyed: Keyed, upstream: Recorder) -> None:
    with azure(keyed.url, keyed.keys["app"]) as client:
        client.embeddings.create(model="gpt-x", input="Kotlin", encoding_format="float")
        client.responses.create(model="gpt-x", input=KOTLIN)
        assert [model.id for model in client.models.list()] == ["gpt-x"]
        with pytest.raises(openai.NotFoundError, match="configured models: gpt-x"):
            client.chat.completions.create(model="alias", messages=[{"role": "user", "content": "Hi"}])
    lines = [request.line for request in upstream.requests]
    assert lines == [b"POST /v1/embeddings HTTP/1.1", b"POST /v1/responses HTTP/1.1"]


def test_a_deployment_is_checked_as_the_model_whatever_the_body_names(keyed: Keyed, upstream: Recorder) -> None:
    body = b'{ "messages" : [{"role":"user","content":"Hi"}] }'
    for named, deployment in ((body, "alias"), (body.replace(b"{ ", b'{ "model": "gpt-x", '), "alias")):
        url = f"{keyed.url}/openai/deployments/{deployment}/chat/completions?api-version={VERSION}"
        headers = {"api-key": keyed.keys["app"], "content-type": "application/json"}
        assert httpx.post(url, content=named, headers=headers).json()["error"]["code"] == "model_not_found"
    url = f"{keyed.url}/openai/deployments/raw/gpt-x/chat/completions"
    assert httpx.post(url, content=body, headers={"content-type": "application/json"}).status_code == 401
    assert not upstream.requests
    headers = {"api-key": keyed.keys["app"], "content-type": "application/json"}
    assert httpx.post(url, content=body, headers=headers).status_code == 200
    assert upstream.body == b'{"model":"gpt-x", "messages" : [{"role":"user","content":"Hi"}] }'


def test_azures_client_class_sends_sound(keyed: Keyed, upstream: Recorder) -> None:
    upstream.answer = answering(reply(b'{"text": "Hello."}', b"content-type: application/json"))
    with azure(keyed.url, keyed.keys["app"]) as client:
        heard = client.audio.transcriptions.create(model="gpt-x", file=("a.wav", SOUND))
    assert heard.text == "Hello."
    assert upstream.requests[0].line == b"POST /v1/audio/transcriptions HTTP/1.1"
    assert SOUND in upstream.body


# The rest of the API


def test_sound_goes_by_its_model_both_ways(keyed: Keyed, upstream: Recorder) -> None:
    client = keyed.sdk("all")
    upstream.answer = answering(reply(SOUND, b"content-type: audio/mpeg"))
    raw = client.audio.speech.with_raw_response.create(model="alias", voice="alloy", input="Hello.")
    assert raw.content == SOUND
    assert raw.headers["x-rag-status"] == "off"
    keyed.arrived(upstream, "POST /v1/audio/speech", b'"alias"', b'"gpt-x-2024-08-06"')
    upstream.answer = answering(reply(b'{"text": "Hello."}', b"content-type: application/json"))
    for name in ("transcriptions", "translations"):
        file = ("a b.wav", SOUND * 100_000)
        assert getattr(client.audio, name).create(model="alias", file=file, prompt="alias").text == "Hello."
        named = b'name="model"\r\n\r\n'
        keyed.arrived(upstream, f"POST /v1/audio/{name}", named + b"alias", named + b"gpt-x-2024-08-06")


def test_images_and_moderations_go_by_their_model(keyed: Keyed, upstream: Recorder) -> None:
    client = keyed.sdk()
    upstream.answer = answering(reply(b'{"created": 1, "data": []}', b"content-type: application/json"))
    client.images.generate(model="gpt-x", prompt="An otter")
    keyed.arrived(upstream, "POST /v1/images/generations")
    client.images.edit(model="gpt-x", image=("a.png", SOUND), prompt="A hat")
    keyed.arrived(upstream, "POST /v1/images/edits")
    client.images.create_variation(model="gpt-x", image=("a.png", SOUND))
    keyed.arrived(upstream, "POST /v1/images/variations")
    client.moderations.create(model="gpt-x", input="Hello")
    keyed.arrived(upstream, "POST /v1/moderations")
    for call in (
        lambda: client.images.generate(model="alias", prompt="An otter"),
        lambda: client.audio.transcriptions.create(model="alias", file=("a.wav", SOUND)),
        lambda: client.moderations.create(model="alias", input="Hello"),
    ):
        with pytest.raises(openai.NotFoundError, match="configured models: gpt-x"):
            call()
    with pytest.raises(openai.PermissionDeniedError, match="name a 'model' in the body"):
        client.moderations.create(input="Hello")
    assert not upstream.requests


def test_the_work_of_the_account_takes_a_key_for_every_model(keyed: Keyed, upstream: Recorder) -> None:
    client = keyed.sdk("all")
    upstream.answer = answering(reply(b'{"id": "x", "data": []}', b"content-type: application/json"))
    client.moderations.create(input="Hello")
    keyed.arrived(upstream, "POST /v1/moderations")
    client.batches.create(input_file_id="file-1", endpoint="/v1/chat/completions", completion_window="24h")
    keyed.arrived(upstream, "POST /v1/batches")
    client.batches.list(limit=2, extra_query={"model": "gpt-x"})
    keyed.arrived(upstream, "GET /v1/batches?limit=2&model=gpt-x")
    client.batches.cancel("batch_1")
    keyed.arrived(upstream, "POST /v1/batches/batch_1/cancel")
    client.uploads.parts.create("upload_1", data=SOUND)
    keyed.arrived(upstream, "POST /v1/uploads/upload_1/parts")
    client.fine_tuning.jobs.create(model="alias", training_file="file-1")
    keyed.arrived(upstream, "POST /v1/fine_tuning/jobs", b'"alias"', b'"gpt-x-2024-08-06"')
    client.conversations.delete("conv_1")
    keyed.arrived(upstream, "DELETE /v1/conversations/conv_1")
    for key in ("app", "limited"):
        with pytest.raises(openai.PermissionDeniedError, match="without a limit of tokens"):
            keyed.sdk(key).batches.list(extra_query={"model": "gpt-x"})
    assert not upstream.requests


def test_anthropics_batches_are_relayed_in_their_dialect(keyed: Keyed, upstream: Recorder) -> None:
    upstream.answer = answering(reply(b'{"id": "msgbatch_1"}', b"content-type: application/json"))
    params = {"model": "gpt-x", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    requests = [{"custom_id": "a", "params": params}]
    with keyed.anthropic("all") as client:
        client.messages.batches.create(requests=requests)  # type: ignore[arg-type]
    assert upstream.requests[0].line == b"POST /v1/messages/batches HTTP/1.1"
    assert upstream.requests[0].header(b"x-api-key") == b"sk-upstream"
    assert json.loads(upstream.body) == {"requests": requests}
    with keyed.anthropic("app") as client, pytest.raises(anthropic.PermissionDeniedError) as caught:
        client.messages.batches.list()
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"


def test_a_form_of_a_few_megabytes_is_one_attachment_for_the_limits(keyed: Keyed, upstream: Recorder) -> None:
    upstream.answer = answering(reply(b'{"text": "Hello."}', b"content-type: application/json"))
    client = keyed.sdk("limited")  # 100,000 tokens a minute
    for _ in range(3):
        client.audio.transcriptions.create(model="gpt-x", file=("a.wav", SOUND * 100_000))


def test_with_several_upstreams_a_path_without_a_model_takes_one_in_the_query(
    gateway: Served, recorder: Recorder
) -> None:
    refused = gateway.get("/v1/batches")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert "/v1/batches?model=NAME" in refused.json()["error"]["message"]
    assert gateway.get("/v1/batches?model=gpt-x").status_code == 200
    assert recorder.requests[0].line == b"GET /v1/batches?model=gpt-x HTTP/1.1"


def test_files_are_the_upstreams_where_the_settings_list_the_path(gateway: Served, recorder: Recorder) -> None:
    recorder.answer = answering(reply(b'{"id": "file-1"}', b"content-type: application/json"))
    keyless = Keyed(gateway.url, {"none": "sk-none"})
    with keyless.http:
        client = keyless.sdk("none")
        client.files.create(file=("a.jsonl", b'{"custom_id": "a"}\n'), purpose="batch")
        keyless.arrived(recorder, "POST /v1/files")
        client.files.retrieve("file-1")
        keyless.arrived(recorder, "GET /v1/files/file-1")


def test_a_file_for_a_batch_is_refused_with_what_to_do(keyed: Keyed, upstream: Recorder) -> None:
    with pytest.raises(openai.PermissionDeniedError, match="the right to write"):
        keyed.sdk().files.create(file=("a.jsonl", b"{}"), purpose="batch")
    with pytest.raises(openai.NotFoundError, match="does not speak WebSocket"):
        keyed.sdk().get("/realtime", cast_to=object)
    assert not upstream.requests


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
