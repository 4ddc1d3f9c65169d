"""Limits and usage over the wire, in every dialect: two workers, and an upstream that counts what it was asked."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from sqlalchemy import text

from proxy.access.limits import limits_of
from proxy.access.sql import SqlAccounts
from proxy.access.usage import sums, usage_query
from proxy.caller import Names, Rights
from proxy.dialects.replies import Tokens, estimated_tokens
from tests.support.completions import refusal
from tests.support.dialect_clients import BY_DIALECT, CHAT_CLIENT, CLIENTS, DialectClient
from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Recorder, answering, recording
from tests.support.upstream_servers import Received, Wire, reply

SETTINGS = """
server: {{workers: 2}}
retrieval: {{enabled: false}}
models:
  gpt-4o: {{api_base: "{upstream}/v1"}}
  chats: {{model: gpt-4o, api_base: "{upstream}/v1", dialects: [chat]}}
  echo: {{lane: echo}}
"""
ALL = Rights(Names(["*"]), Names(["*"]), Names(["*"]))
USED = Tokens(100, 20, cached=40)


class Shared:
    """A gateway of two workers, its keys and its upstream."""

    def __init__(self, served: Served, upstream: Recorder) -> None:
        self.served = served
        self.upstream = upstream
        self.accounts = SqlAccounts(served.data)

    def key(self, **limits: float) -> tuple[str, str]:
        """Id and secret of a key that both workers know."""
        key, secret = self.accounts.create("k", ALL, team="blue", limits=limits_of(limits))
        until(lambda: all(self.get("/v1/models", secret).status_code == 200 for _ in range(8)))
        return key.id, secret

    def get(self, path: str, secret: str) -> httpx.Response:
        return httpx.get(self.served.url + path, headers={"authorization": f"Bearer {secret}"}, timeout=30)

    def ask(self, secret: str, client: DialectClient = CHAT_CLIENT, **fields: Any) -> httpx.Response:
        """One request, on a connection of its own: the workers take turns."""
        model = fields.pop("model", "gpt-4o")
        return client.post(self.served.url, client.body(model, "Hi", **fields), secret)

    async def ask_at_once(self, secret: str, times: int, client: DialectClient = CHAT_CLIENT) -> list[int]:
        """The statuses of so many requests at the same time, each on its own connection."""
        body, headers = client.body("gpt-4o", "Hi"), {"authorization": f"Bearer {secret}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(limits=limits, timeout=30) as http:
            url = self.served.url + client.path
            replies = await asyncio.gather(*(http.post(url, json=body, headers=headers) for _ in range(times)))
        return [reply.status_code for reply in replies]

    def used(self, id: str) -> dict[str, Any]:
        """The sums of a key, once there are any; by then a settled second has passed."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = sums(self.accounts, usage_query(by="key", since=None, until=None, key=id))
            return bool(found)

        until(there)
        return found[0]

    def logged(self, *words: str) -> list[str]:
        """The log lines with these words, once there are any; other workers may write lines in between."""
        found: list[str] = []

        def there() -> bool:
            lines = self.served.log.read_text().splitlines()
            found[:] = [line for line in lines if all(word in line for word in words)]
            return bool(found)

        until(there)
        return found


def until(holds: Callable[[], bool], *, within_s: float = 30) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + within_s, "it never held"
        time.sleep(0.05)


def clear_of_the_turn() -> None:
    """Return in a minute that has some seconds left."""
    while time.time() % 60 > 50:
        time.sleep(0.2)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("limits")
    SqlAccounts(folder / "data").create("first", ALL)
    with recording() as upstream, serving(folder / "data", folder, SETTINGS.format(upstream=upstream.url)) as served:
        yield Shared(served, upstream)


@pytest.fixture(autouse=True)
def _fresh(shared: Shared) -> None:
    shared.upstream.fresh().answer = answers


async def answers(wire: Wire, received: Received) -> None:
    """The same answer in the dialect of the path, with the usage."""
    client = CLIENTS[received.line.split()[1].decode()]
    await wire.send(client.reply("Yes.", USED))


@BY_DIALECT
async def test_of_200_at_once_no_more_pass_than_the_limit_says(shared: Shared, client: DialectClient) -> None:
    """Over two workers: never more; those that one worker holds and the other lacks pass a little later."""
    _, secret = shared.key(rpm=50)
    clear_of_the_turn()
    statuses = await shared.ask_at_once(secret, 200, client)
    assert set(statuses) == {200, 429}
    assert len(shared.upstream.requests) == statuses.count(200) <= 50
    until(lambda: [shared.ask(secret, client).status_code for _ in range(4)] == [429] * 4)
    assert len(shared.upstream.requests) == 50


@BY_DIALECT
def test_a_refusal_has_the_form_of_the_dialect_and_says_when_to_try_again(
    shared: Shared, client: DialectClient
) -> None:
    _, secret = shared.key(rpm=1)
    clear_of_the_turn()
    assert shared.ask(secret, client).status_code == 200
    refused = shared.ask(secret, client)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    kind, message = client.error_of(refused.content)
    assert kind in ("requests", "rate_limit_error")
    assert message.startswith("This key has 1 requests a minute")


@BY_DIALECT
def test_requests_of_all_dialects_count_towards_the_same_limit(shared: Shared, client: DialectClient) -> None:
    _, secret = shared.key(rpm=len(CLIENTS))
    clear_of_the_turn()
    until(lambda: {shared.ask(secret, each).status_code for each in CLIENTS.values()} == {429})
    assert len(shared.upstream.requests) == len(CLIENTS)
    assert shared.ask(secret, client).status_code == 429


def test_the_sdk_gets_a_rate_limit_error_that_says_when(shared: Shared) -> None:
    _, secret = shared.key(rpm=1)
    client = openai.OpenAI(base_url=shared.served.url + "/v1", api_key=secret, max_retries=0)
    clear_of_the_turn()
    hello: Any = [{"role": "user", "content": "Hi"}]
    assert client.chat.completions.create(model="gpt-4o", messages=hello).usage is not None
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="gpt-4o", messages=hello)
    error = caught.value
    assert (error.code, error.type) == ("rate_limit_exceeded", "requests")
    assert 1 <= int(error.response.headers["retry-after"]) <= 60
    assert len(shared.upstream.requests) == 1


def test_searches_count_and_lists_do_not(shared: Shared) -> None:
    _, secret = shared.key(rpm=2)
    clear_of_the_turn()
    for _ in range(3):
        assert shared.get("/v1/models", secret).status_code == 200
    headers = {"authorization": f"Bearer {secret}"}
    url = shared.served.url + "/v1/knowledge/search"
    told = [httpx.post(url, json={"query": "x"}, headers=headers).status_code for _ in range(12)]
    assert told.count(503) == 2, "there is no index here"
    assert told.count(429) == 10


@BY_DIALECT
def test_tokens_of_a_day_are_reserved_and_settled(shared: Shared, client: DialectClient) -> None:
    id, secret = shared.key(tokens_per_day=1000)
    refused = shared.ask(secret, client, **{client.length: 5000})
    assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")
    assert "send less" in client.error_of(refused.content)[1]
    passed = 0
    for _ in range(40):
        if shared.ask(secret, client, **{client.length: 100}).status_code == 200:
            passed += 1
    assert passed <= 8, "each reserves some 100 tokens and takes 120"
    until(lambda: shared.ask(secret, client, **{client.length: 100}).status_code != 200)
    assert "1000 tokens a day" in client.error_of(shared.ask(secret, client, **{client.length: 100}).content)[1]
    total = shared.used(id)
    assert total["prompt_tokens"] + total["completion_tokens"] <= 1000 + 120


def test_a_key_in_use_is_limited_anew_within_seconds(shared: Shared, tmp_path: Path) -> None:
    id, secret = shared.key()
    done = ragway("keys", "limit", id, "--tokens-per-day", "1", "--data", str(shared.served.data), folder=tmp_path)
    assert "1 tokens a day" in done.stderr
    until(lambda: all(shared.ask(secret).status_code == 429 for _ in range(4)))
    done = ragway("keys", "limit", id, "--tokens-per-day", "none", "--data", str(shared.served.data), folder=tmp_path)
    assert "no limits" in done.stderr
    until(lambda: all(shared.ask(secret).status_code == 200 for _ in range(4)))


@BY_DIALECT
def test_usage_is_what_the_upstream_said(shared: Shared, client: DialectClient) -> None:
    id, secret = shared.key()
    assert shared.ask(secret, client).content == client.whole("Yes.", USED)
    used = shared.used(id)
    assert (used["prompt_tokens"], used["completion_tokens"], used["cached_tokens"]) == (100, 20, 40)
    assert (used["requests"], used["estimated"], used["unpriced"]) == (1, 0, 0)
    assert used["cost_usd"] == pytest.approx(60 * 2.5e-6 + 40 * 1.25e-6 + 20 * 1e-5)
    assert used["mean_total_ms"] >= used["mean_upstream_ms"] > 0
    (line,) = shared.logged(f"POST {client.path} 200", f"key={id}")
    assert "model='gpt-4o'" in line
    assert "tokens=100+20" in line


@BY_DIALECT
def test_a_refusal_of_the_upstream_counts_as_a_failed_request_without_tokens(
    shared: Shared, client: DialectClient
) -> None:
    id, secret = shared.key(tokens_per_day=100_000)
    shared.upstream.answer = answering(refusal(503))
    assert shared.ask(secret, client).status_code == 503
    used = shared.used(id)
    assert (used["requests"], used["failed"], used["prompt_tokens"], used["completion_tokens"]) == (1, 1, 0, 0)


def test_the_command_sums_up_what_a_running_gateway_served(shared: Shared, tmp_path: Path) -> None:
    id, secret = shared.key()
    for _ in range(3):
        assert shared.ask(secret).status_code == 200
    assert shared.ask(secret, model="none").status_code == 404
    until(lambda: shared.used(id)["requests"] == 4)
    words = ("usage", "--by", "team,key,model", "--key", id, "--data", str(shared.served.data))
    done = ragway(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    header, *lines = [line.split() for line in done.stdout.splitlines()]
    assert header[:4] == ["team", "key", "model", "requests"]
    assert [line[:6] for line in lines[:2]] == [
        ["blue", id, "-", "1", "1", "0"],
        ["blue", id, "gpt-4o", "3", "0", "300"],
    ]
    assert lines[2][:3] == ["all", "4", "1"]


@BY_DIALECT
@pytest.mark.parametrize("reported", [True, False])
def test_a_streams_usage_is_what_the_upstream_said_or_estimated(
    shared: Shared, client: DialectClient, reported: bool
) -> None:
    texts, tokens = ["Yes. "] * 20, USED if reported else None
    shared.upstream.answer = answering(client.stream(*texts, tokens=tokens))
    id, secret = shared.key()
    reply = shared.ask(secret, client, stream=True)
    assert reply.content == client.events(*texts, tokens=tokens), "not a byte is changed"
    used = shared.used(id)
    assert used["estimated"] == (0 if reported else 1)
    if reported:
        assert (used["prompt_tokens"], used["completion_tokens"], used["cached_tokens"]) == (100, 20, 40)
    else:
        assert used["prompt_tokens"] == estimated_tokens(shared.upstream.body)
        assert used["completion_tokens"] == 25, "a token for four bytes"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", [client for client in CLIENTS.values() if client is not CHAT_CLIENT], ids=str)
def test_the_usage_and_the_limits_hold_where_the_upstream_is_asked_by_a_chat_completion(
    shared: Shared, client: DialectClient, stream: bool
) -> None:
    if stream:
        shared.upstream.answer = answering(CHAT_CLIENT.stream("Yes.", tokens=USED))
    id, secret = shared.key(tokens_per_day=100_000)
    reply = shared.ask(secret, client, model="chats", stream=stream)
    assert (reply.status_code, client.answer_of(reply)) == (200, "Yes.")
    assert client.read(reply.content, streamed=stream).usage == USED
    used = shared.used(id)
    assert (used["prompt_tokens"], used["completion_tokens"], used["cached_tokens"]) == (100, 20, 40)
    assert (used["requests"], used["estimated"], used["cost_usd"]) == (1, 0, pytest.approx(0.0004))
    assert shared.upstream.requests[-1].line.split()[1].decode() == CHAT_CLIENT.path
    refused = shared.ask(secret, client, model="chats", **{client.length: 200_000})
    assert (refused.status_code, len(shared.upstream.requests)) == (429, 1)
    assert client.error_of(refused.content)


@BY_DIALECT
def test_a_stream_that_breaks_off_has_used_what_was_passed_on(shared: Shared, client: DialectClient) -> None:
    async def breaks_off(wire: Wire, _received: Received) -> None:
        await wire.send(client.stream(*["Yes. "] * 20, tokens=None, ends=False).removesuffix(b"0\r\n\r\n"))
        await wire.close()

    shared.upstream.answer = breaks_off
    id, secret = shared.key(tokens_per_day=100_000)
    with pytest.raises(httpx.RemoteProtocolError):
        shared.ask(secret, client, stream=True)
    used = shared.used(id)
    assert (used["requests"], used["estimated"]) == (1, 1)
    assert used["completion_tokens"] == 25


@BY_DIALECT
async def test_a_client_that_leaves_has_used_what_was_read(shared: Shared, client: DialectClient) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang(wire: Any, _received: Any) -> None:
        loop.call_soon_threadsafe(reached.set)
        await wire.gone()

    id, secret = shared.key(concurrency=1)
    shared.upstream.answer = hang
    async with httpx.AsyncClient(timeout=30) as http:
        body, headers = client.body("gpt-4o", "Hi " * 400), {"authorization": f"Bearer {secret}"}
        url = shared.served.url + client.path
        asking = asyncio.create_task(http.post(url, json=body, headers=headers))
        await asyncio.wait_for(reached.wait(), 100)
        refused = await http.post(url, json=body, headers=headers)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        asking.cancel()
        await asyncio.wait([asking])
    used = await asyncio.to_thread(shared.used, id)
    assert (used["estimated"], used["completion_tokens"]) == (1, 0)
    assert used["prompt_tokens"] > 300
    shared.upstream.fresh().answer = answers
    await asyncio.to_thread(until, lambda: shared.ask(secret, client).status_code == 200)


@BY_DIALECT
@pytest.mark.parametrize("model", ["gpt-4o", "chats"])
async def test_a_client_that_leaves_in_the_middle_has_used_what_came(
    shared: Shared, client: DialectClient, model: str
) -> None:
    """A message reports the prompt in the first event; the reply is an estimate all the same."""
    asked = CHAT_CLIENT if model == "chats" else client
    left = asked.stream("word " * 400, tokens=Tokens(25, 900)).split(b"data: ")

    async def half(wire: Wire, _received: Received) -> None:
        text_at = next(at for at, frame in enumerate(left) if b"word word" in frame)
        await wire.send(b"data: ".join(left[: text_at + 1]))
        await wire.gone()

    shared.upstream.answer = half
    id, secret = shared.key()
    body, headers = client.body(model, "Hi", stream=True), {"authorization": f"Bearer {secret}"}
    received = b""
    async with (
        httpx.AsyncClient(timeout=30) as http,
        http.stream("POST", shared.served.url + client.path, json=body, headers=headers) as reply,
    ):
        async for piece in reply.aiter_raw():
            received += piece
            if received.count(b"word ") >= 400:
                break
    used = await asyncio.to_thread(shared.used, id)
    assert (used["estimated"], used["completion_tokens"]) == (1, 500)


async def test_200_clients_that_leave_leave_no_slot_taken(shared: Shared) -> None:
    """In whatever phase they are: some wait for the upstream, some for a share, some are being refused."""
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang(wire: Any, _received: Any) -> None:
        loop.call_soon_threadsafe(reached.set)
        await wire.gone()

    id, secret = shared.key(concurrency=7)
    shared.upstream.answer = hang
    asking = asyncio.create_task(shared.ask_at_once(secret, 200))
    await asyncio.wait_for(reached.wait(), 100)
    asking.cancel()
    await asyncio.wait([asking])

    def leased() -> int:
        with shared.accounts.reading() as sql:
            query = text("SELECT coalesce(sum(amount), 0) FROM leases WHERE key = :key")
            return int(sql.execute(query, {"key": id}).scalar_one())

    # The last process to hold anything keeps it for a minute: nobody else asks.
    await asyncio.to_thread(until, lambda: leased() == 0, within_s=90)
    shared.upstream.fresh().answer = answers
    assert (await asyncio.to_thread(shared.ask, secret)).status_code == 200


def test_a_count_of_tokens_reserves_and_costs_no_tokens(shared: Shared) -> None:
    client = CLIENTS["/v1/messages"]
    id, secret = shared.key(tokens_per_day=1000)
    body, path = client.body("gpt-4o", "Hi", max_tokens=5000), "/v1/messages/count_tokens"
    shared.upstream.answer = answering(reply(b'{"input_tokens":9}', b"content-type: application/json"))
    headers = {"authorization": f"Bearer {secret}"}
    counted = httpx.post(shared.served.url + path, json=body, headers=headers, timeout=30)
    assert (counted.status_code, counted.content) == (200, b'{"input_tokens":9}')
    used = shared.used(id)
    assert (used["requests"], used["prompt_tokens"], used["completion_tokens"]) == (1, 0, 0)


def test_a_stored_response_costs_no_tokens(shared: Shared) -> None:
    client = CLIENTS["/v1/responses"]
    id, secret = shared.key(tokens_per_day=100_000)
    assert shared.ask(secret, client).status_code == 200
    shared.upstream.answer = answering(client.reply("Yes.", USED))
    assert shared.get("/v1/responses/resp_1?model=gpt-4o", secret).status_code == 200
    until(lambda: shared.used(id)["requests"] == 2)
    assert shared.used(id)["prompt_tokens"] == 100, "the response was counted when the model was called"


@pytest.mark.parametrize("members", ['"background": true', '"background": true, "background": false'])
def test_a_key_with_a_limit_of_tokens_gets_no_response_in_the_background(shared: Shared, members: str) -> None:
    _, limited = shared.key(tokens_per_day=100_000)
    _, free = shared.key(rpm=1000)
    body, statuses = f'{{"model": "gpt-4o", "input": "Q", {members}}}'.encode(), []
    for secret in (limited, free):
        headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
        answer = httpx.post(shared.served.url + "/v1/responses", content=body, headers=headers, timeout=30)
        statuses.append(answer.status_code)
    assert statuses == [403, 200]
    assert shared.ask(limited, CLIENTS["/v1/responses"], background=False).status_code == 200


def test_a_request_that_never_fits_keeps_no_tokens_from_the_next_request(shared: Shared) -> None:
    """The worker that refused holds tokens for a while; the other worker reserves the tokens that are left."""
    for _ in range(3):
        _, secret = shared.key(tokens_per_day=1000)
        statuses = [shared.ask(secret, max_tokens=5000).status_code, shared.ask(secret).status_code]
        assert statuses == [429, 200]
