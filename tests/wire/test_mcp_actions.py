"""Actions over MCP: found and run within a key's rights; what changes something is confirmed by the client's person."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitResult, InputRequiredResult, TextContent

from config.settings import KEY
from proxy.access.sql import SqlAccounts
from proxy.access.usage import UsageQuery, sums
from proxy.caller import Acts, Limits, Rights
from tests.support.dialogues import ShopTeam, shop_team
from tests.support.gateway import ROOT, environment
from tests.wire.test_pending_calls import SETTINGS

CANCEL = {"set": "shop", "operation": "cancelOrder", "arguments": {"orderId": "17"}}
OTHER = {"set": "shop", "operation": "cancelOrder", "arguments": {"orderId": "19"}}
REFUND = {"orderId": "18", "body": {"cents": 500, "reason": "broken"}}
YES = ElicitResult(action="accept", content={"do_it": True})
NOES = [
    ElicitResult(action="accept", content={"do_it": False}),
    ElicitResult(action="accept", content={}),
    ElicitResult(action="decline"),
    ElicitResult(action="cancel"),
]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopTeam]:
    with shop_team(tmp_path_factory.mktemp("mcp-actions"), SETTINGS) as team:
        yield team


@pytest.fixture(autouse=True)
def fresh(team: ShopTeam) -> None:
    team.shop.fresh()


class Person:
    """Answers the client's questions."""

    def __init__(self, answer: ElicitResult) -> None:
        self.answer = answer
        self.read: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.read.append(params.message)
        return self.answer


@asynccontextmanager
async def client(
    team: ShopTeam, person: Person | None = None, key: str = "agent", mode: Any = "auto", **headers: str
) -> AsyncIterator[Client]:
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {team.secrets[key]}", **headers}, timeout=60)
    transport = streamable_http_client(team.served.url + "/mcp", http_client=http)
    async with http, Client(transport, mode=mode, elicitation_callback=person) as opened:
        yield opened


def words(called: CallToolResult, *, failed: bool = False) -> str:
    assert called.is_error == failed, called.content
    (text,) = called.content
    assert isinstance(text, TextContent)
    return text.text


def sent(team: ShopTeam) -> list[str]:
    return [str(one) for one in team.shop.writes]


async def test_actions_are_found_and_read_within_the_rights(team: ShopTeam) -> None:
    async with client(team) as mcp, client(team, key="reader") as reader:
        assert {tool.name for tool in (await mcp.list_tools()).tools} == {
            "search", "fetch", "find_actions", "run_action",
        }  # fmt: skip
        asked = {"query": "cancel an order", "k": 20}
        found = (await mcp.call_tool("find_actions", asked)).structured_content or {}
        changing = {one["operation"]: one["changes"] for one in found["results"]}
        assert changing["cancelOrder"]
        readers = (await reader.call_tool("find_actions", asked)).structured_content or {}
        assert readers["results"]
        assert not any(one["changes"] for one in readers["results"])
        few = (await reader.call_tool("find_actions", {**asked, "k": 2})).structured_content or {}
        assert len(few["results"]) == 2, "an action that the key may not run takes no place"
        order = {"set": "shop", "operation": "getOrder", "arguments": {"orderId": "17"}}
        assert "MUG-BLUE" in words(await reader.call_tool("run_action", order))
        refused = words(await reader.call_tool("run_action", CANCEL), failed=True)
        absent = words(await reader.call_tool("run_action", {**CANCEL, "operation": "absent"}), failed=True)
        assert refused.replace("cancelOrder", "absent") == absent
        assert "'arguments'" in words(await mcp.call_tool("run_action", {**CANCEL, "arguments": {}}), failed=True)
    assert sent(team) == []


async def test_a_call_that_changes_something_is_sent_once_the_person_accepts(team: ShopTeam) -> None:
    person = Person(YES)
    async with client(team, person) as mcp:
        assert "Done: DELETE" in words(await mcp.call_tool("run_action", CANCEL))
    (shown,) = person.read
    assert f"DELETE {team.shop.url}/orders/17" in shown
    assert sent(team) == ["DELETE /orders/17"]


async def test_the_person_reads_the_language_that_the_client_accepts(team: ShopTeam) -> None:
    person = Person(YES)
    async with client(team, person, **{"accept-language": "de-DE"}) as mcp:
        assert "Ausgeführt: DELETE" in words(await mcp.call_tool("run_action", CANCEL))
        refund = {"set": "shop", "operation": "refundOrder", "arguments": REFUND}
        assert "Eine Person muss dies bestätigen" in words(await mcp.call_tool("run_action", refund))
    assert person.read[0].startswith("Das wird etwas ändern.")


@pytest.mark.parametrize("answer", NOES)
async def test_without_a_clear_yes_nothing_is_sent(team: ShopTeam, answer: ElicitResult) -> None:
    async with client(team, Person(answer)) as mcp:
        assert "declined" in words(await mcp.call_tool("run_action", CANCEL))
    assert sent(team) == []


async def test_the_state_counts_once_for_its_key_and_arguments(team: ShopTeam) -> None:
    async with client(team, Person(YES)) as mcp, client(team, Person(YES), key="other") as other:
        asked = await mcp.session.call_tool("run_action", CANCEL, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        state = asked.request_state or ""
        assert "pg-" not in state
        with pytest.raises(MCPError):
            await other.call_tool("run_action", CANCEL, input_responses={"confirm": YES}, request_state=state)
        with pytest.raises(MCPError):
            await mcp.call_tool("run_action", OTHER, input_responses={"confirm": YES}, request_state=state)
        with pytest.raises(MCPError):
            await mcp.call_tool("run_action", CANCEL, input_responses={"confirm": YES}, request_state="pg-" + "0" * 24)
        assert sent(team) == []
        done = await mcp.call_tool("run_action", CANCEL, input_responses={"confirm": YES}, request_state=state)
        assert "Done" in words(done)
        again = await mcp.call_tool("run_action", CANCEL, input_responses={"confirm": YES}, request_state=state)
        assert "answered before. Nothing was sent again.\n\n1. done (200)" in words(again, failed=True)
        no = await mcp.call_tool("run_action", CANCEL, input_responses={"confirm": NOES[2]}, request_state=state)
        assert words(no, failed=True) == words(again, failed=True)
    assert sent(team) == ["DELETE /orders/17"]


@pytest.mark.parametrize(("mode", "person"), [("auto", None), ("legacy", None), ("legacy", Person(YES))])
async def test_a_client_that_cannot_ask_gets_the_address_of_the_button(
    team: ShopTeam, mode: str, person: Person | None
) -> None:
    async with client(team, person, mode=mode) as mcp:
        text = words(await mcp.call_tool("run_action", CANCEL))
    assert "Nothing has been sent yet." in text
    assert sent(team) == []
    url = text.split()[-1].removesuffix(".")
    headers = {"authorization": f"Bearer {team.secrets['agent']}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as button:
        done = await button.post(url, json={"approve": True})
    assert done.json()["calls"][0]["state"] == "done"
    assert sent(team) == ["DELETE /orders/17"]


async def test_with_four_eyes_the_client_that_asks_cannot_accept(team: ShopTeam) -> None:
    person = Person(YES)
    async with client(team, person) as mcp:
        asked = {"set": "shop", "operation": "refundOrder", "arguments": REFUND}
        assert "/v1/actions/pending/pg-" in words(await mcp.call_tool("run_action", asked))
    assert person.read == []
    assert sent(team) == []


def on_stdio(team: ShopTeam, secret: str) -> Any:
    """`ragway mcp` as a program starts it. secret: of the key."""
    folders = ["--data", str(team.served.data), "--config", str(team.served.log.parent / "ragway.yaml")]
    environ = environment({KEY: secret})
    return stdio_client(
        StdioServerParameters(command=sys.executable, args=["-m", "cli", "mcp", *folders], env=environ, cwd=str(ROOT))
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_on_stdio_a_call_is_sent_once_the_person_accepts(team: ShopTeam, mode: Any) -> None:
    person = Person(YES)
    async with Client(on_stdio(team, team.secrets["agent"]), mode=mode, elicitation_callback=person) as mcp:
        assert {"search", "find_actions", "run_action"} <= {tool.name for tool in (await mcp.list_tools()).tools}
        found = (await mcp.call_tool("find_actions", {"query": "cancel an order"})).structured_content or {}
        assert "cancelOrder" in {one["operation"] for one in found["results"]}
        order = {"set": "shop", "operation": "getOrder", "arguments": {"orderId": "17"}}
        assert "MUG-BLUE" in words(await mcp.call_tool("run_action", order))
        text = words(await mcp.call_tool("run_action", CANCEL))
    if mode == "auto":
        assert "Done: DELETE" in text
        assert len(person.read) == 1
        assert sent(team) == ["DELETE /orders/17"]
    else:  # the handshake of 2025 has no way to ask within a call
        assert "/v1/actions/pending/pg-" in text
        assert sent(team) == []


LIMITS: list[tuple[dict[str, int], str]] = [({"rpm": 3}, "3 requests a minute"), ({"concurrency": 1}, "1 requests at")]


@pytest.mark.parametrize(("limits", "told"), LIMITS, ids=str)
async def test_on_stdio_the_limits_of_the_key_hold(team: ShopTeam, limits: dict[str, int], told: str) -> None:
    with closing(SqlAccounts(team.served.data)) as accounts:
        _, secret = accounts.create("few", Rights(act=Acts(["shop:*"])), limits=Limits(**limits))
    asked = {"set": "shop", "operation": "getOrder", "arguments": {"orderId": "17"}}
    async with Client(on_stdio(team, secret), mode="auto") as mcp:
        more = [mcp.call_tool("run_action", asked) for _ in range(9)]  # a minute may end meanwhile
        with pytest.raises(MCPError, match=f"This key has {told}"):
            await asyncio.gather(*more)


async def test_on_stdio_changes_and_usage_count_for_the_key(team: ShopTeam) -> None:
    with closing(SqlAccounts(team.served.data)) as accounts:
        key, secret = accounts.create("one", Rights(act=Acts(["shop:*"])), limits=Limits(changes_per_day=1))
        async with Client(on_stdio(team, secret), mode="auto", elicitation_callback=Person(YES)) as mcp:
            assert "Done: DELETE" in words(await mcp.call_tool("run_action", CANCEL))
            assert "may make 1 calls a day" in words(await mcp.call_tool("run_action", OTHER))
        assert sent(team) == ["DELETE /orders/17"]
        (used,) = sums(accounts, UsageQuery(("key",), key=key.id))
    assert (used["failed"], used["changes"]) == (0, 1)
    assert used["requests"] >= 4
