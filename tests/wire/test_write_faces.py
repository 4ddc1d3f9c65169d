"""Buttons, MCP and approval items over two gateways and PostgreSQL: shown at one, approved at the other, sent once."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import psycopg
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ElicitResult, InputRequiredResult, TextContent

from tests.support.action_clients import HTTP, CompletionsChat
from tests.support.action_team import serving_sets
from tests.support.dialogues import CODE
from tests.support.gateway import Served, ragway, serving
from tests.support.postgres_server import Postgres
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, calls, says
from tests.support.served_qdrant import SharedQdrant
from tests.support.shop_api import ShopApi, document, shop_api

SETTINGS = """
embedder: {{model: hash}}
qdrant: {{url: "{qdrant}"}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions: {{shop: {{networks: ["127.0.0.0/8"], writes: confirm, always: [cancelOrder]}}}}
"""
ORDERS = ("17", "19", "21")  # the open ones
QUESTION = "Please cancel the orders 17, 19 and 21."
ACCEPTED = {"confirm": ElicitResult(action="accept", content={"do_it": True})}


@dataclass
class Pair:
    """Two gateways over one PostgreSQL and one Qdrant, the shop, the model, and a key."""

    one: Served
    two: Served
    shop: ShopApi
    recorder: Recorder
    key: str
    database: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def sent(self) -> list[str]:
        return [str(one) for one in self.shop.writes]

    def let_all_be_stale(self) -> None:
        """Let claimed calls be older than a call may take: the clock of a gateway cannot be moved."""
        with psycopg.connect(self.database, autocommit=True) as sql:
            sql.execute("UPDATE writes SET claimed_s = claimed_s - 100000 WHERE state = 'claimed'")

    def states(self) -> list[str]:
        with psycopg.connect(self.database) as sql:
            return [state for (state,) in sql.execute("SELECT state FROM writes ORDER BY created_s, number")]


@pytest.fixture
def pair(tmp_path: Path, postgres: Postgres) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        shop, recorder = stack.enter_context(shop_api(tmp_path / "shop.db")), stack.enter_context(recording())
        qdrant = SharedQdrant().serve(stack.enter_context(recording()))
        settings = SETTINGS.format(model=recorder.url, qdrant=qdrant)
        database = postgres.database()
        environ = {"RAGWAY_CATALOG__URL": database}
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            (folder / "data").mkdir(parents=True)
        words = ("keys", "create", "agent", "--model", "*", "--act", "shop:*", "--data", str(folders[0] / "data"))
        made = ragway(*words, folder=folders[0], environ=environ)
        assert made.returncode == 0, made.stderr
        one = stack.enter_context(serving_sets(folders[0], settings, {"shop": document(shop.url)}, **environ))
        two = stack.enter_context(serving(folders[1] / "data", folders[1], settings, **environ))
        yield Pair(one, two, shop, recorder, made.stdout.strip(), database)


class Face:
    """A call that one gateway has shown, and how it is approved."""

    def __init__(self, pair: Pair, order: str) -> None:
        self.pair, self.order = pair, order
        self.show(pair.one)

    def show(self, gateway: Served) -> None:
        raise NotImplementedError

    def approve(self, gateway: Served) -> str:
        """What the client hears."""
        raise NotImplementedError


class Line(Face):
    """A code line in a chat."""

    def show(self, gateway: Served) -> None:
        ScriptedModel(self.pair.recorder.fresh(), [calls(("act_cancelOrder", {"orderId": self.order}))])
        self.chat = CompletionsChat(gateway.url, "rage/shop/gpt-x", fields={"extra_headers": self.pair.headers})
        reply = self.chat.ask(QUESTION)
        (self.code,), self.id = {*CODE.findall(reply.text)}, reply.headers["x-rag-pending"]

    def approve(self, gateway: Served) -> str:
        copy = CompletionsChat(gateway.url, self.chat.model, list(self.chat.said), self.chat.fields)
        return copy.ask(f"confirm {self.code}").text


class Button(Line):
    def approve(self, gateway: Served) -> str:
        url = f"{gateway.url}/v1/actions/pending/{self.id}"
        return httpx.post(url, json={"approve": True}, headers=self.pair.headers, timeout=60).text


class Item(Face):
    """An approval item of a response."""

    def show(self, gateway: Served) -> None:
        ScriptedModel(self.pair.recorder.fresh(), [calls(("act_cancelOrder", {"orderId": self.order}))])
        self.shown = self.respond(gateway, QUESTION)
        (self.request,) = [one for one in self.shown.output if one.type == "mcp_approval_request"]
        (self.code,) = {*CODE.findall(self.shown.output_text)}

    def approve(self, gateway: Served) -> str:
        item = {"type": "mcp_approval_response", "approval_request_id": self.request.id, "approve": True}
        return str(self.respond(gateway, [item], previous_response_id=self.shown.id).output_text)

    def respond(self, gateway: Served, given: Any, **more: Any) -> Any:
        headers = {**self.pair.headers, "x-rag-approvals": "items"}
        with openai.OpenAI(base_url=gateway.url + "/v1", **HTTP) as client:
            return client.responses.create(model="rage/shop/gpt-x", input=given, extra_headers=headers, **more)


class ItemsLine(Item):
    """The code line in a chat that was shown an approval item."""

    def approve(self, gateway: Served) -> str:
        line = f"confirm {self.code}"
        return str(self.respond(gateway, line, previous_response_id=self.shown.id).output_text)


class Elicited(Face):
    """A question of MCP."""

    def show(self, gateway: Served) -> None:
        asked = asyncio.run(self.call(gateway, allow_input_required=True))
        assert isinstance(asked, InputRequiredResult)
        self.state = asked.request_state

    def approve(self, gateway: Served) -> str:
        done = asyncio.run(self.call(gateway, input_responses=ACCEPTED, request_state=self.state))
        assert isinstance(done, CallToolResult)
        return "".join(one.text for one in done.content if isinstance(one, TextContent))

    async def call(self, gateway: Served, **more: Any) -> Any:
        async with self.client(gateway) as mcp:
            asked = {"set": "shop", "operation": "cancelOrder", "arguments": {"orderId": self.order}}
            return await mcp.session.call_tool("run_action", asked, **more)

    @contextlib.asynccontextmanager
    async def client(self, gateway: Served) -> AsyncIterator[Client]:
        async def person(context: Any, params: Any) -> ElicitResult:
            raise AssertionError("the test answers")

        http = httpx2.AsyncClient(headers=self.pair.headers, timeout=60)
        transport = streamable_http_client(gateway.url + "/mcp", http_client=http)
        async with http, Client(transport, elicitation_callback=person) as opened:
            yield opened


def at_once(approvals: Sequence[Callable[[], str]]) -> list[str]:
    with ThreadPoolExecutor(len(approvals)) as pool:
        return [one.result() for one in [pool.submit(approve) for approve in approvals]]


def heard_of_it(text: str) -> bool:
    """Whether a client that came late hears so, and what became of the call."""
    return ("before" in text or "pending_used" in text) and ("done (200)" in text or "is being sent" in text)


def test_what_one_gateway_has_shown_is_approved_at_the_other_and_sent_once(pair: Pair) -> None:
    faces = [Button(pair, "17"), Item(pair, "19"), Elicited(pair, "21")]
    assert pair.sent == []
    ScriptedModel(pair.recorder.fresh(), [says("Done.")])
    for face in faces:
        assert "Done" in face.approve(pair.two)
    assert pair.sent == [f"DELETE /orders/{one}" for one in ORDERS]
    for face in faces:
        assert heard_of_it(face.approve(pair.one)), face
    assert len(pair.sent) == len(ORDERS)

    for kinds in ((Button, Line), (Item, ItemsLine), (Elicited, Elicited)):
        pair.shop.fresh()
        first = kinds[0](pair, "17")
        other = kinds[1].__new__(kinds[1])
        other.__dict__.update(first.__dict__)
        ScriptedModel(pair.recorder.fresh(), [says("Done.")])
        gateways = (pair.one, pair.two)
        texts = at_once([functools.partial(one.approve, at) for one in (first, other) for at in gateways])
        assert pair.sent == ["DELETE /orders/17"], kinds
        assert sorted(map(heard_of_it, texts)) == [False, True, True, True], texts


def test_a_killed_gateway_sends_nothing_twice(pair: Pair) -> None:
    """The other gateway sends what waits. A call whose gateway dies over it is unknown, and never sent again."""
    waiting = [Button(pair, "17"), Item(pair, "19"), Elicited(pair, "21")]
    held = [Button(pair, "17"), Item(pair, "19"), Elicited(pair, "21")]
    pair.shop.holds = True
    with ThreadPoolExecutor(len(held)) as pool:
        lost = [pool.submit(face.approve, pair.one) for face in held]
        for _ in held:
            assert pair.shop.held.acquire(timeout=60)
        pair.one.kill()
        pair.shop.release()
        assert all(one.exception() is not None for one in lost)
    before = sorted(pair.sent)
    assert before == [f"DELETE /orders/{one}" for one in ORDERS]
    ScriptedModel(pair.recorder.fresh(), [])
    for face in held:
        assert "is being sent" in face.approve(pair.two)
    pair.let_all_be_stale()
    for face in held:
        assert "unknown" in face.approve(pair.two)
    assert sorted(pair.sent) == before
    assert sorted(pair.states()) == ["pending"] * 3 + ["unknown"] * 3
    ScriptedModel(pair.recorder.fresh(), [says("Done.")])
    for face in waiting:
        assert "Done" in face.approve(pair.two)
    assert sorted(pair.sent) == sorted([*before, *before])
