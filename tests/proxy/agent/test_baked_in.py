"""Baked-in operations: offered without a search, and faults of the setting in the log."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn

import pytest

from config.sections import ActionsApi
from proxy.agent.actions import Actions, ToolSources
from proxy.apis.library import ActionLibrary, ActionSet, ActionStore, baked_in
from proxy.apis.openapi.operation import Operation
from proxy.apis.specs import stored
from proxy.caller import EVERYTHING, Acts
from proxy.dialects.chat import ChatRequest
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn
from tests.support.action_offers import actions_of, calling
from tests.support.unasked import Unasked

SCHEMA = {"type": "object", "properties": {}, "required": []}
OPERATIONS = [Operation(name, method, "/users", SCHEMA) for name, method in (("list", "GET"), ("add", "POST"))]
OTHERS = [Operation("listRooms", "GET", "/rooms", SCHEMA)]
REQUEST = ChatRequest.parse(b'{"model":"m","messages":[{"role":"user","content":"Who?"}]}')
TARGET = Target("m", "relay", "http://127.0.0.1:1", "")


class DownIndex(Unasked):
    """An index that does not work."""

    async def retrieve(self, *_args: object, **_named: object) -> NoReturn:
        raise RetrievalError("the index is down")


class SilentIndex(Unasked):
    """An index that does not answer."""

    async def retrieve(self, *_args: object, **_named: object) -> None:
        await asyncio.Event().wait()


def actions(folder: Path, always: dict[str, list[str]], index: type[Unasked] = DownIndex) -> Actions:
    store = ActionStore(folder)
    store.put(ActionSet("atlas", "", "https://x.example", 0, ()), [stored(one, "") for one in OPERATIONS])
    store.put(ActionSet("rooms", "", "https://y.example", 0, ()), [stored(one, "") for one in OTHERS])
    configured = {name: ActionsApi(always=tuple(always.get(name, ()))) for name in ("atlas", *always)}
    return actions_of(folder, ActionLibrary(store, index()), configured, search_s=0.05)


async def offered(made: Actions, *sets: str) -> list[str]:
    found = await made.offer(
        REQUEST,
        [Turn("user", "Who?")],
        ToolSources(sets),
        Exchange(rights=EVERYTHING),
        made.tool_protocols.form(TARGET, REQUEST.fields),
    )
    return [] if found is None else list(found.tools)


@pytest.mark.parametrize("index", [DownIndex, SilentIndex])
async def test_baked_in_operations_of_the_chats_sets_are_offered_without_the_index(
    tmp_path: Path, index: type[Unasked]
) -> None:
    made = actions(tmp_path, {"atlas": ["list"], "rooms": ["listRooms"]}, index)
    await made.start()
    assert await offered(made, "atlas") == ["act_list", "find_actions"]
    assert await offered(made, "rooms", "atlas") == ["act_list", "act_listRooms", "find_actions"]
    await made.close()


async def test_an_operation_that_the_caller_has_no_right_to_is_not_offered(tmp_path: Path) -> None:
    made = actions(tmp_path, {"atlas": ["list"], "rooms": ["listRooms"]})
    await made.start()
    exchange = Exchange(rights=replace(EVERYTHING, act=Acts(["rooms:*", "!atlas:list"])))
    found = await made.offer(
        REQUEST,
        [Turn("user", "Who?")],
        ToolSources(["atlas", "rooms"]),
        exchange,
        made.tool_protocols.form(TARGET, REQUEST.fields),
    )
    assert found is not None
    assert list(found.tools) == ["act_listRooms", "find_actions"]
    await made.close()


async def test_a_search_of_the_model_ends_where_the_index_does_not_answer(tmp_path: Path) -> None:
    made = actions(tmp_path, {"atlas": ["list"]}, SilentIndex)
    await made.start()
    toolbox = await made.offer(
        REQUEST,
        [Turn("user", "Who?")],
        ToolSources(["atlas"]),
        Exchange(rights=EVERYTHING),
        made.tool_protocols.form(TARGET, REQUEST.fields),
    )
    assert toolbox is not None
    find = toolbox.tools["find_actions"]
    async with asyncio.timeout(5):
        answer = await find.call({"query": "rooms"}, calling(toolbox))
    assert (answer.text, answer.outcome) == ("The search does not work at present.", "failed")
    await made.close()


async def test_a_set_without_baked_in_operations_needs_the_index(tmp_path: Path) -> None:
    made = actions(tmp_path, {"rooms": ["listRooms"]})
    with pytest.raises(RetrievalError, match="the index is down"):
        await offered(made, "atlas")
    await made.close()


async def test_a_chat_whose_sets_cannot_be_used_says_so(tmp_path: Path) -> None:
    made, exchange = actions(tmp_path, {}, Unasked), Exchange(rights=EVERYTHING)
    assert (
        await made.offer(
            REQUEST,
            [Turn("user", "Who?")],
            ToolSources(["unread"]),
            exchange,
            made.tool_protocols.form(TARGET, REQUEST.fields),
        )
        is None
    )
    assert exchange.action_trace is not None
    assert exchange.action_trace.offer == "no usable set"
    await made.close()


@pytest.mark.parametrize("writes", ["refuse", "confirm"])
def test_an_operation_that_changes_something_is_baked_in_if_the_set_has_writes(
    tmp_path: Path, writes: Literal["refuse", "confirm"]
) -> None:
    store = actions(tmp_path, {}).library.store
    operations, faults = baked_in(store, {"atlas": ActionsApi(always=("add",), writes=writes)})
    assert [one.name for one in operations.get("atlas", ())] == (["add"] if writes == "confirm" else [])
    assert [one.operation for one in faults] == (["add"] if writes == "refuse" else [])
    store.close()


async def test_a_name_that_cannot_be_offered_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = actions(tmp_path, {"atlas": ["list", "add", "lists"], "unread": ["x"]})
    with caplog.at_level(logging.WARNING):
        await made.start()
        made._read_s = float("-inf")
        assert await offered(made, "atlas") == ["act_list", "find_actions"]
    assert [record.message for record in caplog.records if "always" in record.message] == [
        "actions.atlas.always: add could change something; set actions.atlas.writes, or name operations that only read",
        "actions.atlas.always: lists is not an operation of the set; `ragway actions show atlas` lists the operations",
    ]
    await made.close()
