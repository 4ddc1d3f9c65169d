"""Two gateways over one PostgreSQL and one Qdrant, each with a data folder of its own: together they are one."""

import asyncio
import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.gateway import Served, ragway, serving
from tests.support.postgres_server import Postgres
from tests.support.recording_upstream import recording
from tests.support.served_qdrant import SharedQdrant

pytestmark = pytest.mark.models
SETTINGS = """
retrieval: {{collections: [pumps], min_relevance: 0.0}}
qdrant: {{url: "{qdrant}"}}
models: {{echo: {{lane: echo}}}}
"""
ASKED = "What is the pump called?"


@dataclass
class Pair:
    """Both, and an admin's key."""

    one: Served
    two: Served
    admin: str

    def call(self, gateway: Served, method: str, path: str, body: Any = None, secret: str = "") -> httpx.Response:
        headers = {"authorization": f"Bearer {secret or self.admin}"}
        return httpx.request(method, gateway.url + path, headers=headers, json=body, timeout=90)

    def put(self, gateway: Served, key: str, words: str) -> None:
        """The first one of a gateway waits until its embedder is loaded, longer than a request may take."""
        path = f"/v1/knowledge/collections/pumps/documents/{key}"
        until(lambda: self.call(gateway, "PUT", path, {"text": words}).is_success)

    def chat(self, gateway: Served, secret: str = "") -> httpx.Response:
        body = {"model": "echo", "messages": [{"role": "user", "content": ASKED}]}
        return self.call(gateway, "POST", "/v1/chat/completions", body, secret)


def until(holds: Callable[[], bool]) -> None:
    """Return once it holds; within five seconds is promised, and the machine may be slow."""
    end_s = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < end_s, "it never held"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        settings = SETTINGS.format(qdrant=SharedQdrant().serve(stack.enter_context(recording())))
        environ = {"RAGWAY_CATALOG__URL": postgres.database()}
        made: list[Served] = []
        for name in ("one", "two"):
            folder = tmp_path_factory.mktemp(name)
            (folder / "data").mkdir()
            if not made:
                words = ("keys", "create", "root", "--admin", "--read", "*", "--write", "*", "--model", "*")
                done = ragway(*words, "--data", str(folder / "data"), folder=folder, environ=environ)
                assert done.returncode == 0, done.stderr
            made.append(stack.enter_context(serving(folder / "data", folder, settings, **environ)))
        pair = Pair(made[0], made[1], done.stdout.strip())
        assert pair.call(pair.one, "POST", "/v1/knowledge/collections", {"name": "pumps"}).status_code == 201
        yield pair


def test_what_one_gateway_is_given_chats_of_the_other_get(pair: Pair) -> None:
    def told(gateway: Served, name: str) -> bool:
        return name in pair.chat(gateway).text

    pair.put(pair.one, "name", "The pump is called Oskar.")
    until(lambda: "Oskar" in pair.chat(pair.two).text)
    pair.put(pair.two, "name", "The pump is called Wilma.")
    for gateway in (pair.one, pair.two):
        until(functools.partial(told, gateway, "Wilma"))
        assert not told(gateway, "Oskar")
    assert pair.call(pair.one, "DELETE", "/v1/knowledge/collections/pumps/documents/name").status_code == 200
    until(lambda: "Wilma" not in pair.chat(pair.two).text)


def test_a_key_made_by_one_is_known_and_revoked_at_the_other(pair: Pair) -> None:
    made = pair.call(pair.one, "POST", "/v1/admin/keys", {"name": "app", "models": ["echo"], "read": ["pumps"]}).json()
    until(lambda: pair.chat(pair.two, made["secret"]).status_code == 200)
    assert pair.call(pair.one, "DELETE", f"/v1/admin/keys/{made['id']}").status_code == 200
    until(lambda: pair.chat(pair.two, made["secret"]).status_code == 401)


def test_a_receipt_of_one_is_found_at_the_other(pair: Pair) -> None:
    pair.put(pair.one, "name", "The pump is called Oskar.")
    path = f"/v1/knowledge/receipts/{pair.chat(pair.one).headers['x-rag-id']}"
    told = [pair.call(gateway, "GET", path).json() for gateway in (pair.one, pair.two)]
    assert told[0] == told[1]
    assert told[0]["status"] == "augmented"


def test_a_question_to_one_is_the_history_of_a_response_continued_at_the_other(pair: Pair) -> None:
    def response(gateway: Served, **fields: str) -> httpx.Response:
        return pair.call(gateway, "POST", "/v1/responses", {"model": "echo", **fields})

    def turns(gateway: Served, id: str) -> list[str]:
        asked = response(gateway, input="And the hose?", previous_response_id=id)
        path = f"/v1/knowledge/receipts/{asked.headers['x-rag-id']}"
        return [turn["text"] for turn in pair.call(gateway, "GET", path).json()["turns"] if turn["role"] == "user"]

    pair.put(pair.one, "name", "The pump is called Oskar.")
    id = response(pair.one, input=ASKED).json()["id"]
    until(lambda: turns(pair.two, id) == [ASKED, "And the hose?"])
    pair.call(pair.two, "DELETE", f"/v1/responses/{id}?model=echo")
    until(lambda: turns(pair.one, id) == ["And the hose?"])


async def test_a_limit_is_one_for_both_and_usage_is_summed(pair: Pair) -> None:
    fields = {"name": "app", "models": ["echo"], "limits": {"tokens_per_day": 10_000_000, "rpm": 20}}
    made = pair.call(pair.one, "POST", "/v1/admin/keys", fields).json()
    until(
        lambda: all(pair.call(to, "GET", "/v1/models", None, made["secret"]).is_success for to in (pair.one, pair.two))
    )
    until(lambda: time.time() % 60 < 45)
    body = {"model": "echo", "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"authorization": f"Bearer {made['secret']}"}
    async with httpx.AsyncClient(timeout=60, headers=headers) as client:
        asked = [f"{gateway.url}/v1/chat/completions" for gateway in (pair.one, pair.two) for _ in range(40)]
        replies = await asyncio.gather(*(client.post(url, json=body) for url in asked))
    passed = [reply.status_code for reply in replies]
    assert set(passed) == {200, 429}
    assert passed.count(200) <= 20
    path = f"/v1/admin/usage?by=key&key={made['id']}"

    def summed() -> bool:
        rows = pair.call(pair.two, "GET", path).json()["data"]
        return bool(rows) and rows[0]["requests"] == passed.count(200)

    until(summed)


def test_what_a_gateway_that_died_held_the_other_goes_on_with(pair: Pair) -> None:
    """Killed within a put, with its index: the other writes the same document, and it is whole."""
    pair.put(pair.one, "story", "The old story. " * 50)
    index = pair.one.index_pid()
    with contextlib.suppress(httpx.HTTPError), httpx.Client(timeout=0.3) as client:
        url = f"{pair.one.url}/v1/knowledge/collections/pumps/documents/story"
        client.put(url, json={"text": "The lost story. " * 4000}, headers={"authorization": f"Bearer {pair.admin}"})
    pair.one.stop(signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(index, signal.SIGKILL)
    pair.put(pair.two, "story", "The pump of the new story is called Emil.")
    told = pair.call(pair.two, "GET", "/v1/knowledge/collections/pumps/documents/story").json()
    assert told["text"] == "The pump of the new story is called Emil."
    assert "Emil" in pair.chat(pair.two).text
