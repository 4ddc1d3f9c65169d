"""Keys over the wire: what each may read and call, that nothing else can be told apart, and that revoking counts."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.dialect_clients import BY_DIALECT, CHAT_CLIENT, DialectClient
from tests.support.gateway import ROOT, Served, ragway, refused, serving
from tests.support.recording_upstream import Recorder, recording

SETTINGS = """
auth: {{pass_client_key: true}}
server: {{workers: 2}}
retrieval: {{collections: [red, blue], min_relevance: 0.0}}
models:
  echo: {{lane: echo}}
  costly: {{api_base: "{upstream}/v1"}}
"""
TEXTS = {
    "red": "The red pump is called Oskar and runs at 40 bar.",
    "blue": "The blue pump is called Wilma.",
    "green": "The green pump is called Agnes.",  # not in retrieval.collections
    "grey": "The grey pump is called Emil.",  # the same
}
ASKED = "What is the pump called?"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


class Guarded:
    """A gateway of two collections, and the keys to it."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self._folder = folder

    def key(self, name: str, *rights: str) -> str:
        """The secret of a new key."""
        done = self._keys("create", name, *rights)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def revoke(self, name: str) -> None:
        listed = httpx.Response(200, content=self._keys("list", "--json").stdout).json()
        (id,) = [key["id"] for key in listed if key["name"] == name]
        assert self._keys("revoke", id).returncode == 0

    def ask(self, key: str, model: str = "echo", client: DialectClient = CHAT_CLIENT, **headers: Any) -> httpx.Response:
        """Headers with `_` for `-`; `rag` is the member of the body."""
        fields = {"rag": headers.pop("rag")} if "rag" in headers else {}
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post(self.served.url, client.body(model, ASKED, **fields), key, sent)

    def get(self, path: str, key: str) -> httpx.Response:
        return httpx.get(self.served.url + path, headers={"authorization": f"Bearer {key}"}, timeout=30)

    def _keys(self, *words: str) -> subprocess.CompletedProcess[str]:
        return ragway("keys", *words, "--data", str(self.served.data), folder=self._folder)


@pytest.fixture(scope="module")
def guarded(upstream: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("keys")
    data = folder / "data"
    data.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
        done = ragway("ingest", f"{name}.md", "--collection", name, "--data", str(data), folder=folder)
        assert done.returncode == 0, done.stderr
    first = ragway("keys", "create", "first", "--admin", "--data", str(data), folder=folder)
    with serving(data, folder, SETTINGS.format(upstream=upstream.url)) as served:
        made = Guarded(served, folder)
        assert made.get("/metrics", first.stdout.strip()).status_code == 200
        yield made


@pytest.fixture(scope="module")
def red(guarded: Guarded) -> str:
    """A key that reads `red` and calls `echo`; known to both workers."""
    secret = guarded.key("red", "--read", "red", "--model", "echo")
    _until(lambda: all(guarded.ask(secret).status_code == 200 for _ in range(8)))
    return secret


@pytest.fixture(scope="module", name="all")
def every(guarded: Guarded) -> str:
    """A key that reads everything and calls `echo`; known to both workers."""
    secret = guarded.key("all", "--read", "*", "--model", "echo")
    _until(lambda: all(guarded.ask(secret).status_code == 200 for _ in range(8)))
    return secret


@pytest.fixture(scope="module")
def green(guarded: Guarded) -> str:
    """A key that reads `green`, which is searched for nobody unasked; known to both workers."""
    secret = guarded.key("green", "--read", "green", "--model", "echo")
    _until(lambda: all(guarded.ask(secret).status_code == 200 for _ in range(8)))
    return secret


def _until(holds: Callable[[], bool]) -> None:
    """Return once it holds; within five seconds is promised, and the machine may be slow."""
    end_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end_s, "it never held"
        time.sleep(0.1)


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/models/echo", "/v1/files", "/"])
def test_nothing_is_told_without_a_key(guarded: Guarded, path: str) -> None:
    for reply in (httpx.get(guarded.served.url + path), guarded.get(path, "sk-rag-guess")):
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert reply.json()["error"]["code"] == "invalid_api_key"
    assert guarded.served.ask(ASKED).status_code == 401
    assert httpx.get(guarded.served.url + "/readyz").status_code == 200


@BY_DIALECT
def test_a_request_without_a_key_is_refused_in_the_form_of_the_dialect(guarded: Guarded, client: DialectClient) -> None:
    for key in ("", "sk-rag-guess"):
        reply = guarded.ask(key, client=client)
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert client.error_of(reply.content)[1].startswith("No valid key")


@BY_DIALECT
def test_a_chat_gets_what_its_key_may_read_and_nothing_else(guarded: Guarded, red: str, client: DialectClient) -> None:
    for headers in ({}, {"x_rag_collection": "red"}):
        reply = guarded.ask(red, client=client, **headers)
        assert (reply.status_code, reply.headers["x-rag-status"]) == (200, "augmented")
        assert "Oskar" in client.answer_of(reply)
        assert "Wilma" not in reply.text
        assert "blue" not in reply.text, "not even its name"


@pytest.mark.parametrize(
    ("begins", "asked", "reads", "searched"),
    [
        ("names collections in the body",
         {"rag": {"collections": ["green"]}, "x_rag_collection": "red", "model": "rag/blue/echo"}, "all", "green"),
        ("names collections in the header", {"x_rag_collection": "red,grey", "model": "rag/blue/echo"}, "all",
         "red grey"),
        ("names collections in the model", {"model": "rag/blue,green/echo"}, "all", "blue green"),
        ("names no collection, and the key may read some", {}, "all", "red blue"),
        ("names no collection, and the key may read some", {}, "red", "red"),
        ("names no collection, and none of `retrieval.collections`", {}, "green", "green"),
    ],
)  # fmt: skip
@BY_DIALECT
def test_a_chat_searches_what_the_table_says(
    guarded: Guarded,
    begins: str,
    asked: dict[str, Any],
    reads: str,
    searched: str,
    request: pytest.FixtureRequest,
    client: DialectClient,
) -> None:
    page = (ROOT / "docs/use/asking.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| names ")]
    assert len(rows) == 5, "each line of the table is tested"
    assert sum(row.startswith(f"| {begins}") for row in rows) == 1
    reply = guarded.ask(request.getfixturevalue(reads), client=client, **asked)
    assert reply.headers["x-rag-status"] == "augmented"
    assert set(reply.headers["x-rag-sources"].split(",")) == {f"{name}.md" for name in searched.split()}
    told = reply.text.partition("own documents (")[2].partition(")")[0]
    assert told.split(", ") == searched.split(), "and the model is told so"


def test_what_a_key_reads_is_searched_by_all_that_name_no_collection(guarded: Guarded, green: str) -> None:
    headers = {"authorization": f"Bearer {green}"}
    body: dict[str, Any] = {"query": ASKED}
    reply = httpx.post(guarded.served.url + "/v1/knowledge/search", json=body, headers=headers, timeout=30)
    assert "Agnes" in reply.text
    assert not {"Oskar", "Wilma", "Emil"} & set(re.findall(r"\w+", reply.text))
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": ASKED}},
    }
    headers["accept"] = "application/json, text/event-stream"
    assert "Agnes" in httpx.post(guarded.served.url + "/mcp", json=body, headers=headers, timeout=60).text
    receipt = guarded.get(f"/v1/knowledge/receipts/{guarded.ask(green).headers['x-rag-id']}", green).json()
    assert [one["name"] for one in receipt["collections"]] == ["green"]


@BY_DIALECT
def test_a_forbidden_collection_is_an_absent_one(guarded: Guarded, red: str, client: DialectClient) -> None:
    told = []
    for name in ("blue", "none"):
        for wish in (
            guarded.ask(red, client=client, x_rag_collection=name),
            guarded.ask(red, client=client, x_rag_collection=f"red,{name}"),
            guarded.ask(red, client=client, model=f"rag/{name}/echo"),
        ):
            kind, message = client.error_of(wish.content)
            told.append((wish.status_code, kind, message.replace(name, "NAME")))
    assert told[:3] == told[3:]
    assert {(status, message) for status, _, message in told} == {
        (404, "there is no collection 'NAME'; there are: red.")
    }


def test_who_may_read_nothing_gets_an_answer_without_passages(guarded: Guarded) -> None:
    secret = guarded.key("mute", "--model", "echo")
    _until(lambda: all(guarded.ask(secret).status_code == 200 for _ in range(8)))  # both workers know it
    reply = guarded.ask(secret)
    assert (reply.headers["x-rag-status"], reply.headers["x-rag-reason"]) == ("empty", "no such collection yet")
    assert not {"Oskar", "Wilma"} & set(reply.text.split())


@BY_DIALECT
def test_a_model_that_may_not_be_called_is_not_there(
    guarded: Guarded, red: str, upstream: Recorder, client: DialectClient
) -> None:
    upstream.fresh()
    told = []
    for name in ("costly", "absent"):
        reply, listed = guarded.ask(red, model=name, client=client), guarded.get(f"/v1/models/{name}", red)
        error = listed.json()["error"]
        told.append((reply.status_code, *(text.replace(name, "NAME") for text in client.error_of(reply.content))))
        told.append((listed.status_code, error["code"], error["message"].replace(name, "NAME")))
    assert told[:2] == told[2:]
    assert upstream.requests == []
    assert [row["id"] for row in guarded.get("/v1/models", red).json()["data"]] == ["echo"]
    assert guarded.get("/metrics", red).status_code == 403


@BY_DIALECT
def test_no_key_of_ours_reaches_an_upstream(guarded: Guarded, upstream: Recorder, client: DialectClient) -> None:
    secret = guarded.key("caller", "--read", "*", "--model", "*")
    _until(lambda: guarded.get("/v1/models", secret).status_code == 200)
    upstream.fresh()
    _until(lambda: guarded.ask(secret, model="costly", client=client).status_code != 401)
    seen = upstream.requests[-1]
    assert not {"authorization", "x-api-key"} & {name.decode().lower() for name, _ in seen.headers}
    assert secret.encode() not in seen.body + b"".join(name + value for name, value in seen.headers)
    told = guarded.served.log.read_text()
    assert secret not in told
    assert " key=key-" in told, "whose request it was is"


def test_the_openai_sdk_shows_its_key_and_understands_the_refusal(guarded: Guarded, red: str) -> None:
    client = openai.OpenAI(base_url=guarded.served.url + "/v1", api_key=red, max_retries=0)
    reply = client.chat.completions.create(model="echo", messages=[{"role": "user", "content": ASKED}])
    assert "Oskar" in str(reply.choices[0].message.content)
    with pytest.raises(openai.AuthenticationError, match="No valid key"):
        client.with_options(api_key="sk-wrong").models.list()


def test_a_revoked_key_ends_soon_at_every_worker(guarded: Guarded) -> None:
    secret = guarded.key("short", "--model", "echo")
    _until(lambda: all(guarded.get("/v1/models", secret).status_code == 200 for _ in range(8)))
    guarded.revoke("short")
    _until(lambda: all(guarded.get("/v1/models", secret).status_code == 401 for _ in range(8)))


def test_other_addresses_are_for_gateways_with_keys(tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = ragway("serve", "--host", "0.0.0.0", "--port", "0", "--data", str(data), folder=tmp_path)
    assert "ragway keys create" in refused(done)
    assert ragway("keys", "create", "a", "--model", "*", "--data", str(data), folder=tmp_path).returncode == 0
    with serving(data, tmp_path, "server: {host: 0.0.0.0}\nretrieval: {enabled: false}") as served:
        port = served.url.rpartition(":")[2]
        assert httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 401


def test_a_gateway_closes_when_its_first_key_is_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, tmp_path, "retrieval: {enabled: false}\nmodels: {echo: {lane: echo}}") as served:
        assert served.get("/v1/models").status_code == 200
        done = ragway("keys", "create", "a", "--model", "*", "--data", str(data), folder=tmp_path)
        assert "answers only requests with a key" in done.stderr
        _until(lambda: served.get("/v1/models").status_code == 401)


def test_damaged_keys_keep_the_gateway_from_starting(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "accounts.db").write_bytes(b"no database" * 1000)
    alone = {"RAGWAY_RETRIEVAL__ENABLED": "false"}  # an index would tell meanwhile that it prepares its embedder
    done = ragway("serve", "--port", "0", "--data", str(data), folder=tmp_path, environ=alone)
    assert "accounts.db cannot be read" in refused(done)
