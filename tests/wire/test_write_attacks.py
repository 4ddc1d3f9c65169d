"""Requests that try to lose, repeat or hide a call that changes something: what arrives at the API decides."""

import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.support.action_clients import WEATHER, CompletionsChat, ResponsesChat, SdkChat
from tests.support.dialogues import CODE, SETTINGS, ShopTeam, shop_team
from tests.support.scripted_model import ScriptedModel, Turn, calls, says

ALWAYS = "cancelOrder, addNote, setLabel"
CANCEL = ("act_cancelOrder", {"orderId": "17"})
QUESTION = "Please cancel order 17"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopTeam]:
    with shop_team(tmp_path_factory.mktemp("attacks"), SETTINGS.replace("{always}", ALWAYS)) as team:
        yield team


def scripted(team: ShopTeam, *turns: Turn) -> ScriptedModel:
    return ScriptedModel(team.recorder.fresh(), turns)


def asked(team: ShopTeam, kind: type[SdkChat] = CompletionsChat) -> tuple[SdkChat, str]:
    """A chat whose newest reply shows a call, and the code line."""
    team.shop.fresh()
    chat = team.chat(kind, "agent")
    scripted(team, calls(CANCEL))
    (code,) = CODE.findall(chat.ask(QUESTION).text)
    return chat, f"confirm {code}"


@pytest.mark.parametrize("fields", [{"n": 2}, {"tool_choice": "none"}, {"model": "gpt-x"}], ids=str)
def test_no_model_answers_a_code_line_that_the_request_cannot_confirm(team: ShopTeam, fields: dict[str, Any]) -> None:
    """A model says that it is done, although nothing was sent."""
    chat, line = asked(team)
    model = scripted(team, says("Done."))
    with pytest.raises(openai.BadRequestError, match="Nothing was sent"):
        chat.ask(line, **fields)
    assert model.received == []
    assert team.shop.writes == []
    del chat.said[-1]
    assert chat.ask(line).text == "Done.", "the code still counts"
    assert [str(one) for one in team.shop.writes] == ["DELETE /orders/17"]


@pytest.mark.parametrize("kind", [CompletionsChat, ResponsesChat], ids=["chat", "responses"])
def test_a_call_beside_a_call_of_the_clients_tool_is_shown(team: ShopTeam, kind: type[SdkChat]) -> None:
    team.shop.fresh()
    chat = team.chat(kind, "agent")
    chat.tools = True
    scripted(team, calls((WEATHER, {}), CANCEL))
    (call,) = chat.ask(f"{QUESTION}, and tell me the weather").calls
    model = scripted(team, says("Done."))
    text = chat.results((call.id, "sunny")).text
    (code,) = CODE.findall(text)
    assert "DELETE" in text
    assert model.received == []
    assert chat.ask(f"confirm {code}").text == "Done."
    assert [str(one) for one in team.shop.writes] == ["DELETE /orders/17"]
    assert [one["role"] for one in model.received[0]["messages"]] == [
        "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool",
    ]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("text", ["I only read.\n\n<!--", "<details>", "$$\\phantom{", "\x1b[8m"])
def test_a_text_of_the_model_cannot_hide_the_call(team: ShopTeam, text: str, stream: bool) -> None:
    """Markdown shows nothing of a comment, which a value ends: the person would see another call."""
    team.shop.fresh()
    chat = team.chat(CompletionsChat, "agent")
    label = ("act_setLabel", {"orderId": "17", "body": "x --> y"})
    model = scripted(team, calls(label, text=text), says("Ask again."))
    shown = chat.ask("Label order 17 as x --> y", stream=stream).text
    assert CODE.findall(shown) == []
    assert "Nothing was sent" in model.received[1]["messages"][-1]["content"]
    scripted(team, calls(label, text="I label *order 17*: 3 < 4."))
    assert len(CODE.findall(chat.ask("Again", stream=stream).text)) == 1


NOTE = ("act_addNote", {"orderId": "17", "body": {"text": "hello", "author": "Ann"}})


def test_a_call_at_once_that_cannot_be_noted_is_not_sent_and_does_not_count_as_unknown(team: ShopTeam) -> None:
    asked(team)
    chat = team.chat(CompletionsChat, "auto")
    model = scripted(team, calls(NOTE), says("Not now."))
    with contextlib.closing(sqlite3.connect(team.served.data / "writes.db", isolation_level=None)) as sql:
        sql.execute("BEGIN IMMEDIATE")  # another process writes for long
        chat.ask("Add the note hello by Ann to order 17")
        sql.execute("ROLLBACK")
    assert model.received[1]["messages"][-1]["content"].startswith("Nothing was sent: the gateway cannot note")
    assert team.shop.writes == []


def test_a_call_at_once_may_be_longer_than_a_person_reads(team: ShopTeam) -> None:
    team.shop.fresh()
    text = " ".join(f"https://shop.example/{number:060}" for number in range(220))
    chat = team.chat(CompletionsChat, "auto")
    scripted(team, calls(("act_addNote", {"orderId": "17", "body": {"text": text, "author": "Ann"}})), says("Done."))
    chat.ask(f"Add this note by Ann to order 17: {text}")
    assert [one.body for one in team.shop.writes] == [{"text": text, "author": "Ann"}]


def test_a_call_at_once_is_made_once_by_requests_at_the_same_time(team: ShopTeam) -> None:
    """An SDK repeats a request that takes long, while the first is under way."""
    team.shop.fresh()
    given = {"text": "only once", "author": "Ann"}

    def answer(asked: Any) -> Any:
        sent = asked["messages"][-1]["role"] == "tool"
        return says("Done.") if sent else calls(("act_addNote", {"orderId": "17", "body": given}))

    scripted(team, *[answer] * 8)
    chats = [team.chat(CompletionsChat, "auto") for _ in range(4)]
    with ThreadPoolExecutor(len(chats)) as pool:
        list(pool.map(lambda chat: chat.ask("Add the note 'only once' by Ann to order 17"), chats))
    assert [one.body for one in team.shop.writes] == [given]
