"""Rewriting by a model, over loopback: the model and the index are real ends of real sockets.

The same upstream plays the model that rewrites ("small") and the one that chats ("gpt-x").
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from cli.assembly.gateway import Gateway, gateway
from config.settings import load
from proxy.access.sql import SqlAccounts
from proxy.access.usage import sums, usage_query
from proxy.caller import EVERYTHING, Limits
from retrieval.errors import IndexDown
from retrieval.index.index import Index
from retrieval.knowledge import Search, SearchRequest
from retrieval.records.search import Retrieved, Turn
from tests.support.asgi_calls import Call, scope_of
from tests.support.plans import plan_for, silent
from tests.support.recording_upstream import COMPLETION
from tests.support.upstream_servers import Received, Upstream, Wire, reply, upstream

JSON = b"content-type: application/json"
HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"authorization", b"Bearer client-key")]
PURCHASE = "What was John Doe's last purchase?"
HISTORY = [
    {"role": "user", "content": PURCHASE},
    {"role": "assistant", "content": "John Doe bought a lamp for 40 dollars."},
]
EMILY = "What was Emily Doe's last purchase?"
Says = Callable[[Wire], Awaitable[None]]


def saying(text: object, *, status: bytes = b"200 OK") -> Says:
    """The model that rewrites answers with this text."""
    completion = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}

    async def says(wire: Wire) -> None:
        await wire.send(reply(json.dumps(completion).encode(), JSON, status=status))

    return says


def sending(*pieces: bytes) -> Says:
    """It answers with these bytes, and closes."""

    async def says(wire: Wire) -> None:
        await wire.send(*pieces)
        await wire.close()
        raise ConnectionResetError

    return says


async def silent_until_left(wire: Wire) -> None:
    """It says nothing until it is no longer waited for."""
    await wire.gone()
    raise ConnectionResetError


@dataclass(slots=True)
class Asked:
    """The index, and what was asked of it."""

    index: Index
    turns: list[tuple[Turn, ...]] = field(default_factory=list)
    fails: Callable[[Sequence[Turn]], bool] = lambda turns: False
    hold: asyncio.Event | None = None  # a second search waits for it

    @property
    def search(self) -> Search:
        return cast(Search, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.index, name)

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        self.turns.append(tuple(request.turns))
        if self.fails(request.turns):
            raise IndexDown("the index process does not answer")
        if self.hold is not None and len(self.turns) > 1:
            await self.hold.wait()
        return await self.index.search.retrieve(request)


@dataclass(slots=True)
class Bench:
    """A gateway between a client, an index and the two models."""

    made: Gateway
    knowledge: Asked
    model: Upstream
    asked: asyncio.Event  # the model that rewrites

    def bodies(self, model: str) -> list[dict[str, Any]]:
        """What this model was sent."""
        return [body for request in self.model.requests if (body := json.loads(request.body))["model"] == model]

    async def chat(self, question: str, history: Sequence[Mapping[str, str]] = HISTORY) -> tuple[str, str]:
        """One chat; x-rag-status and x-rag-reason. The client gets its reply whatever becomes of the rewrite."""
        messages = [*history, {"role": "user", "content": question}]
        raw = json.dumps({"model": "gpt-x", "messages": messages}).encode()
        call = await Call((raw,)).to(self.made.app, scope_of(headers=HEADERS))
        headers = dict(call.headers)
        assert (call.status, call.body) == (200, COMPLETION)
        return headers[b"x-rag-status"].decode(), headers.get(b"x-rag-reason", b"").decode()


@pytest.fixture(scope="module")
def data(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two documents."""
    folder = tmp_path_factory.mktemp("rewriting")
    docs = folder / "docs"
    docs.mkdir()
    for name, thing in (("emily", "Emily Doe bought a kettle"), ("john", "John Doe bought a lamp")):
        (docs / f"{name}.md").write_text(f"# Purchases of {name}\n\nThe last purchase: {thing}.\n", "utf-8")

    async def ingest() -> None:
        opened = await Index.open(plan_for(folder / "data", model=str(tiny_model)), serving=False)
        await opened.writing.ingest([docs], "docs", silent)
        await opened.close()

    asyncio.run(ingest())
    return folder / "data"


@pytest.fixture
async def index(data: Path, tiny_model: Path) -> AsyncIterator[Index]:
    plan = plan_for(data, model=str(tiny_model))
    search = replace(plan.search, min_relevance=0.0)  # a tiny model's vectors say little
    opened = await Index.open(replace(plan, search=search), serving=False)
    yield opened
    await opened.close()


@contextlib.asynccontextmanager
async def bench(index: Index, says: Says, **settings: Any) -> AsyncIterator[Bench]:
    asked = asyncio.Event()

    async def script(wire: Wire) -> None:
        while True:
            received: Received = await wire.request()
            if json.loads(received.body)["model"] == "small":
                asked.set()
                await says(wire)
            else:
                await wire.send(reply(COMPLETION, JSON))

    async with upstream(script) as model:
        base = {"api_base": model.url + "/v1"}
        flags = {
            "models": {"gpt-x": base, "tiny": {**base, "model": "small", "api_key_env": "SMALL_KEY"}},
            "retrieval.rewrite": "llm",
            "retrieval.rewrite_model": "tiny",
            "retrieval.deadline_s": 60.0,
            "retrieval.rewrite_deadline_s": 50.0,
            **settings,
        }
        knowledge = Asked(index)
        made = gateway(load(environ={}, flags=flags), knowledge, ready=lambda: "", environ={"SMALL_KEY": "sk-small"})
        yield Bench(made, knowledge, model, asked)
        made.ways.client.close()


@pytest.mark.parametrize("answer", [EMILY, [{"type": "text", "text": EMILY}]], ids=["text", "parts"])
async def test_the_models_question_is_searched_for(index: Index, answer: object) -> None:
    async with bench(index, saying(answer)) as at:
        assert await at.chat("How about Emily Doe?") == ("augmented", "rewritten by the model")
        assert [turns[-1].text for turns in at.knowledge.turns] == ["How about Emily Doe?", EMILY]
        answers = [turn for turn in at.knowledge.turns[0] if turn.role == "assistant"]
        assert at.knowledge.turns[1] == (*answers, Turn("user", EMILY))
        (forwarded,) = at.bodies("gpt-x")  # the model that chats sees the client's own words
        assert forwarded["messages"][-1]["content"] == "How about Emily Doe?"
        assert EMILY not in json.dumps(forwarded)


async def test_the_rewriting_stands_in_the_usage_of_the_key_that_asked(index: Index, tmp_path: Path) -> None:
    opened = SqlAccounts(tmp_path)
    key, secret = opened.create("search-app", EVERYTHING, team="search", limits=Limits(tokens_per_day=1_000_000))
    async with bench(index, saying(EMILY), data=str(tmp_path)) as at:
        keeping = asyncio.create_task(at.made.ledger.run())
        question = [*HISTORY, {"role": "user", "content": "How about Emily Doe?"}]
        body = json.dumps({"model": "gpt-x", "messages": question}).encode()
        headers = [*HEADERS[:2], (b"authorization", f"Bearer {secret}".encode())]
        call = await Call((body,)).to(at.made.app, scope_of(headers=headers))
        assert (call.status, dict(call.headers)[b"x-rag-reason"]) == (200, b"rewritten by the model")
        at.made.ledger.stop()
        await keeping
    rows = sums(opened, usage_query(by="team,key,model", since=None, until=None))
    assert [(row["team"], row["key"], row["model"], row["requests"]) for row in rows] == [
        ("search", key.id, "gpt-x", 1),
        ("search", key.id, "tiny", 1),
    ]
    assert all(row["prompt_tokens"] > 0 for row in rows)


async def test_the_reply_says_the_tokens_of_the_rewriting(index: Index) -> None:
    async with bench(index, saying(EMILY)) as at:
        told = []
        for history in (HISTORY, []):
            messages = [*history, {"role": "user", "content": "How about Emily Doe?"}]
            raw = json.dumps({"model": "gpt-x", "messages": messages}).encode()
            call = await Call((raw,)).to(at.made.app, scope_of(headers=HEADERS))
            told.append(dict(call.headers).get(b"x-rag-rewrite-tokens"))
        asked = len(at.bodies("small")[0]["messages"][0]["content"])
    assert told[1] is None
    prompt, answer, model = (told[0] or b"").replace(b";", b",").split(b", ")
    assert asked // 4 < int(prompt) < asked
    assert (int(answer), model) == (-(-len(EMILY) // 4), b"model=tiny")


async def test_the_model_is_asked_once_with_its_own_key_and_without_passages(index: Index) -> None:
    async with bench(index, saying(EMILY)) as at:
        await at.chat("How about Emily Doe?")
        (asked,) = at.bodies("small")
        assert (asked["temperature"], asked["stream"]) == (0, False)
        assert 0 < asked["max_tokens"] <= 300
        (message,) = asked["messages"]
        assert PURCHASE in message["content"]
        assert "How about Emily Doe?" in message["content"]
        assert "kettle" not in message["content"]
        first = next(one for one in at.model.requests if json.loads(one.body)["model"] == "small")
        assert first.header(b"authorization") == b"Bearer sk-small"
        assert b"client-key" not in first.head


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("What was Jane Doe's last purchase?", "unresolved"),
        ("UNRESOLVED", "unresolved"),
        ("", "unresolved"),
        ("His wife bought a kettle.", "unresolved"),
        (None, "rewriting failed"),
        ({"text": EMILY}, "rewriting failed"),
    ],
)
async def test_an_answer_that_cannot_be_used_costs_the_rewrite_alone(index: Index, answer: object, reason: str) -> None:
    async with bench(index, saying(answer)) as at:
        assert await at.chat("How about his wife?") == ("augmented", f"leans on the conversation, {reason}")
        assert [turns[-1].text for turns in at.knowledge.turns] == ["How about his wife?"]


@pytest.mark.parametrize(
    "says",
    [
        saying(EMILY, status=b"500 Internal Server Error"),
        saying(EMILY, status=b"401 Unauthorized"),
        sending(b"garbage\r\n\r\n"),
        sending(reply(b"<html>", b"content-type: text/html")),
        sending(reply(b"[]", JSON)),
        sending(reply(b'{"choices": []}', JSON)),
        sending(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"),
        sending(reply(b'"' + b"x" * 300_000 + b'"', JSON)),
        sending(),
    ],
    ids=["500", "401", "garbage", "html", "list", "no choice", "cut", "too long", "nothing"],
)
async def test_a_model_that_fails_costs_the_rewrite_alone(index: Index, says: Says) -> None:
    async with bench(index, says) as at:
        assert await at.chat("How about Emily Doe?") == (
            "augmented",
            "leans on the conversation, rewriting failed",
        )


async def test_a_slow_model_is_not_waited_for(index: Index) -> None:
    async with bench(index, silent_until_left, **{"retrieval.rewrite_deadline_s": 0.1}) as at:
        status, reason = await at.chat("How about Emily Doe?")
        assert (status, reason) == ("augmented", "leans on the conversation, rewriting took too long")
        await at.model.until_open(1)  # its connection was closed; the chat's is kept


async def test_a_client_that_leaves_ends_the_call(index: Index) -> None:
    async with bench(index, silent_until_left) as at:
        messages = [*HISTORY, {"role": "user", "content": "How about Emily Doe?"}]
        call = Call((json.dumps({"model": "gpt-x", "messages": messages}).encode(),))
        running = asyncio.ensure_future(call.to(at.made.app, scope_of(headers=HEADERS)))
        async with asyncio.timeout(30):
            await at.asked.wait()
            call.left.set()
            await asyncio.wait({running})
            await at.model.until_open(0)
        assert at.bodies("gpt-x") == []


async def test_a_first_question_is_not_rewritten(index: Index) -> None:
    async with bench(index, saying(EMILY)) as at:
        assert await at.chat("How about Emily Doe?", []) == ("augmented", "first question")
        assert at.bodies("small") == []


async def test_a_search_that_fails_for_the_rewrite_leaves_the_local_one(index: Index) -> None:
    async with bench(index, saying(EMILY)) as at:
        at.knowledge.fails = lambda turns: turns[-1].text == EMILY
        assert (await at.chat("How about Emily Doe?"))[0] == "augmented"
        assert len(at.knowledge.turns) == 2


async def test_the_local_form_is_there_when_time_is_up(index: Index) -> None:
    async with bench(index, saying(EMILY), **{"retrieval.deadline_s": 0.5, "retrieval.rewrite_deadline_s": 0.4}) as at:
        at.knowledge.hold = asyncio.Event()
        status, reason = await at.chat("How about Emily Doe?")
        assert (status, reason.rpartition(", ")[2]) == ("augmented", "rewriting took too long")


async def test_where_the_index_fails_the_model_is_not_waited_for(index: Index) -> None:
    async with bench(index, silent_until_left) as at:
        at.knowledge.fails = lambda turns: True
        assert await at.chat("How about Emily Doe?") == ("degraded", "index is down")
        await at.model.until_open(1)


@pytest.mark.parametrize("says", [saying(EMILY), saying("What did Jane buy?"), sending(b"secret-words\r\n\r\n")])
async def test_nothing_of_it_is_logged(index: Index, says: Says, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with bench(index, says) as at:
        await at.chat("How about Emily Doe?")
    for words in ("Emily", "Jane", "John Doe", "secret-words", "sk-small", "conversation>"):
        assert words not in caplog.text


async def test_no_passages_are_looked_for_where_retrieval_is_off(index: Index) -> None:
    async with bench(index, saying(EMILY), **{"retrieval.enabled": False}) as at:
        assert (await at.chat("How about Emily Doe?"))[0] == "off"
        assert at.bodies("small") == []
