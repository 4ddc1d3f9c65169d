"""A new tool is one class: offered to chats without an action set, too, and called like every other tool."""

from pathlib import Path
from typing import Any

import pytest

from proxy.agent.actions import ToolSources
from proxy.agent.execution import Execution
from proxy.agent.toolbox import Calling, Done, NeedsPerson, Tool, Toolbox, ToolResult, arguments_schema
from proxy.apis.library import ActionLibrary, ActionStore
from proxy.caller import EVERYTHING
from proxy.dialects.chat import ChatRequest
from proxy.dialects.replies import ToolCall
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from retrieval.records.search import Turn
from tests.proxy.agent.test_loop import LIMITS, Loop
from tests.support.action_offers import actions_of
from tests.support.scripted_model import calls, says
from tests.support.unasked import Unasked

REQUEST = ChatRequest.parse(b'{"model":"m","messages":[{"role":"user","content":"Double 21."}]}')
TARGET = Target("m", "relay", "http://model.example/v1", "")


class Double(Tool):
    name = "double"
    description = "Twice a number"
    schema = arguments_schema("number", number={"type": "integer"})

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        return Done(str(2 * arguments["number"]), known=True)


class Picky(Double):
    name = "picky"

    def suits(self, question: str) -> bool:
        if "fault" in question:
            raise RuntimeError("of the tool")
        return "picky" in question


class Erase(Tool):
    name = "erase"
    description = "Erase everything"
    schema = arguments_schema("what", what={"type": "string"})
    effect = "changes"

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        raise AssertionError("a tool that changes something is called")


class Confirm(Tool):
    name = "confirm"
    description = "Ask the person"
    schema = arguments_schema("what", what={"type": "string"})

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        return NeedsPerson(f"Really {arguments['what']}?", "Wait for the answer.", "invalid_arguments")


async def test_a_chat_without_an_action_set_has_the_tools_of_every_chat(tmp_path: Path) -> None:
    actions = actions_of(tmp_path, ActionLibrary(ActionStore(tmp_path), Unasked()), {}, tools=[Double()])
    exchange = Exchange(rights=EVERYTHING)
    toolbox = await actions.offer(
        REQUEST,
        [Turn("user", "Double 21.")],
        ToolSources(),
        exchange,
        actions.tool_protocols.form(TARGET, REQUEST.fields),
    )
    assert toolbox is not None
    assert list(toolbox.tools) == ["double"]
    running = Execution(toolbox, LIMITS, exchange, ())
    assert await running.results([ToolCall("c1", "double", '{"number": 21}')]) == ["42"]
    assert running.chat.known == ["42"], "later calls may use the result"
    (refused,) = await running.results([ToolCall("c2", "double", '{"number": "x"}')])
    assert refused.startswith("Nothing was done: number must be a whole number")
    await actions.close()


@pytest.mark.parametrize(
    ("question", "always", "offered"),
    [
        ("a picky one", (), ["double", "picky"]),
        ("another", (), ["double"]),
        ("another", ["picky"], ["double", "picky"]),
        ("a fault", (), ["double"]),
    ],
)
async def test_a_chat_has_the_tools_that_suit_its_question(
    tmp_path: Path, question: str, always: list[str], offered: list[str]
) -> None:
    library = ActionLibrary(ActionStore(tmp_path), Unasked())
    actions = actions_of(tmp_path, library, {}, tools=[Double(), Picky()], always=always)
    form = actions.tool_protocols.form(TARGET, REQUEST.fields)
    turns = [Turn("user", "a picky one"), Turn("assistant", "Hm."), Turn("user", question)]
    toolbox = await actions.offer(REQUEST, turns, ToolSources(), Exchange(rights=EVERYTHING), form)
    assert toolbox is not None
    assert list(toolbox.tools) == offered
    await actions.close()


async def test_a_chat_without_a_tool_that_suits_has_no_offer(tmp_path: Path) -> None:
    actions = actions_of(tmp_path, ActionLibrary(ActionStore(tmp_path), Unasked()), {}, tools=[Picky()])
    exchange, form = Exchange(rights=EVERYTHING), actions.tool_protocols.form(TARGET, REQUEST.fields)
    assert await actions.offer(REQUEST, [Turn("user", "another")], ToolSources(), exchange, form) is None
    assert exchange.action_trace is not None
    assert exchange.action_trace.offer == "nothing found"
    await actions.close()


async def test_a_tool_that_changes_something_is_not_called() -> None:
    toolbox = Toolbox()
    toolbox.add([Erase()])
    exchange = Exchange()
    (text,) = await Execution(toolbox, LIMITS, exchange, ()).results([ToolCall("c1", "erase", '{"what": "all"}')])
    assert text == "Nothing was sent: erase could change something. This gateway only reads."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_tool_that_needs_a_person_ends_the_chat_with_the_question(stream: bool) -> None:
    chat = await Loop(calls(("confirm", {"what": "go"})), stream=stream, offered=[Confirm()]).run()
    assert (chat.client.text, chat.trace.answered_by) == ("Really go?", "gateway")


async def test_the_loop_calls_a_new_tool() -> None:
    chat = await Loop(calls(("double", {"number": 4})), says("Eight."), offered=[Double()]).run()
    assert chat.model.asked[-1]["messages"][-1]["content"] == "8"
    assert chat.client.text == "Eight."
