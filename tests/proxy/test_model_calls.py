"""The gateway's own calls of a model, over loopback: an owner in the usage, a budget, and an end by cancellation."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.access.ledger import Ledger
from proxy.access.shares import SqlUsageStore
from proxy.access.sql import SqlAccounts
from proxy.access.usage import sums, usage_query
from proxy.caller import UNLIMITED, Limits
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.model_calls import COMMAND_LINE, ModelCalls, NoAnswer, Owner, owner_of
from proxy.observe.metrics import Metrics
from proxy.upstream.relay import Relay
from tests.support.clients import client
from tests.support.upstream_servers import Upstream, Wire, reply, upstream

MESSAGES = [{"role": "user", "content": "Say yes."}]
USAGE = {"prompt_tokens": 40, "completion_tokens": 10}
COMPLETION = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}], "usage": USAGE}
PATIENCE_S = 60.0  # for a share of a limit: no test here is about a slow disk


@contextlib.asynccontextmanager
async def calls(folder: Path) -> AsyncIterator[ModelCalls]:
    """Calls through a real client and a real ledger; at the end the usage is written."""
    store = SqlUsageStore(SqlAccounts(folder), keep_days=9)
    ledger = Ledger(store, count=Metrics().usage_rows, patience_s=PATIENCE_S)
    keeping = asyncio.create_task(ledger.run())
    async with client() as opened:
        yield ModelCalls(Relay(opened), ledger, "with_keys")
    ledger.stop()
    await keeping


async def answers(wire: Wire) -> None:
    while True:
        await wire.request()
        await wire.send(reply(json.dumps(COMPLETION).encode(), b"content-type: application/json"))


def used(folder: Path) -> list[tuple[str, str, str, int, int, int]]:
    """Rows of usage by team, key and model."""
    rows = sums(SqlAccounts(folder), usage_query(by="team,key,model", since=None, until=None))
    columns = ("team", "key", "model", "requests", "prompt_tokens", "completion_tokens")
    return [tuple(row[column] for column in columns) for row in rows]


async def ask(models: ModelCalls, server: Upstream, owner: Owner, max_tokens: int = 10) -> str:
    target = Target("small", "relay", server.url + "/v1", "")
    return await models.complete("tiny", target, MESSAGES, owner=owner, max_tokens=max_tokens)


async def test_a_call_stands_in_the_usage_of_the_owner(tmp_path: Path) -> None:
    caller = owner_of(Exchange(key="key-1"))
    async with upstream(answers) as server, calls(tmp_path) as models:
        for owner in (caller, caller, COMMAND_LINE, Owner("")):
            assert await ask(models, server, owner) == "Yes."
    assert used(tmp_path) == [("", "key-1", "tiny", 2, 80, 20), ("operator", "operator", "tiny", 1, 40, 10)]


async def test_a_budget_that_is_used_up_ends_the_calls(tmp_path: Path) -> None:
    owner = Owner("key-1", Limits(tokens_per_day=120))
    async with upstream(answers) as server, calls(tmp_path) as models:
        assert [await ask(models, server, owner) for _ in range(2)] == ["Yes.", "Yes."]
        for _ in range(3):
            with pytest.raises(NoAnswer, match="insufficient_quota"):
                await ask(models, server, owner)
        assert len(server.requests) == 2, "a refused call reaches no upstream"
    assert used(tmp_path) == [("", "key-1", "tiny", 2, 80, 20)]


async def test_a_call_takes_no_request_of_the_key(tmp_path: Path) -> None:
    owner = Owner("key-1", Limits(rpm=1, concurrency=1, tpm=1_000_000))
    async with upstream(answers) as server, calls(tmp_path) as models:
        assert await asyncio.gather(*(ask(models, server, owner) for _ in range(5))) == ["Yes."] * 5


@pytest.mark.parametrize("limits", [UNLIMITED, Limits(tokens_per_day=1_000_000)])
async def test_cancelling_ends_the_call_of_the_upstream(tmp_path: Path, limits: Limits) -> None:
    asked = asyncio.Event()

    async def holds(wire: Wire) -> None:
        await wire.request()
        asked.set()
        await wire.gone()

    async with upstream(holds) as server, calls(tmp_path) as models:
        asking = asyncio.create_task(ask(models, server, Owner("key-1", limits)))
        await asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        await server.until_open(0)
    ((team, key, model, requests, prompt, completion),) = used(tmp_path)
    assert (team, key, model, requests, completion) == ("", "key-1", "tiny", 1, 0)
    assert prompt > 0, "an estimate: the upstream has read the request"


@pytest.mark.parametrize("status", [b"500 Internal Server Error", b"401 Unauthorized"])
async def test_a_refusal_costs_nothing_and_its_words_stay_unsaid(tmp_path: Path, status: bytes) -> None:
    async def refuses(wire: Wire) -> None:
        while True:
            await wire.request()
            body = b'{"error": {"message": "Say yes. is no question"}}'
            await wire.send(reply(body, b"content-type: application/json", status=status))

    async with upstream(refuses) as server, calls(tmp_path) as models:
        with pytest.raises(NoAnswer, match=rf"^status {status[:3].decode()}$"):
            await ask(models, server, Owner("key-1"))
    assert used(tmp_path) == [("", "key-1", "tiny", 1, 0, 0)]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "not a chat completion"),
        (b'{"error": {"message": "Say yes. is no question"}}', "not a chat completion"),
        (b'{"choices": []}', "not a chat completion"),
        (b'{"choices": [{"index": 0, "message": {"content": null, "refusal": "I cannot."}}]}', "the model refused"),
    ],
)
async def test_a_reply_without_an_answer_says_why(tmp_path: Path, body: bytes, why: str) -> None:
    async def sends(wire: Wire) -> None:
        await wire.request()
        await wire.send(reply(body, b"content-type: application/json"))

    async with upstream(sends) as server, calls(tmp_path) as models:
        with pytest.raises(NoAnswer, match=why):
            await ask(models, server, COMMAND_LINE)
