"""Chats with actions by clients of every dialect: the official SDKs, a scripted model, a digest API."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.support.action_clients import (
    BY_CHAT,
    STREAMED,
    WEATHER,
    MessagesChat,
    ResponsesChat,
    SdkChat,
)
from tests.support.action_team import ANSWER, CANARIES, ORGS, QUESTION, USERS, Team, action_team
from tests.support.atlas_api import GROUP, ORG
from tests.support.scripted_model import USAGE, calls, says

CHAT_PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with action_team(tmp_path_factory.mktemp("actions")) as team:
        yield team


@BY_CHAT
@STREAMED
def test_the_users_of_an_organization_come_from_the_api(team: Team, kind: type[SdkChat], stream: bool) -> None:
    model = team.script(calls(ORGS), calls(USERS), says(ANSWER), one_byte=stream)
    reply = kind(team.served.url).ask(QUESTION, stream=stream)
    assert (reply.text, reply.calls) == (ANSWER, ())
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
    assert reply.headers["x-rag-actions"] == "atlas/listOrganizations,atlas/listUsers"
    assert reply.tokens == (3 * USAGE["prompt_tokens"], 3 * USAGE["completion_tokens"]), "the sum of all rounds"
    assert team.paths == [CHAT_PATH] * 3
    roles = [message["role"] for message in model.received[2]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert "ben@example.com" in model.received[2]["messages"][-1]["content"]


@pytest.mark.parametrize("one_byte", [False, True], ids=["frames", "bytes"])
def test_a_streamed_response_has_one_beginning_and_one_end(team: Team, one_byte: bool) -> None:
    team.script(calls(ORGS, text="Let me look."), calls(USERS), says(ANSWER), one_byte=one_byte)
    events = list(ResponsesChat(team.served.url).events(QUESTION))
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert (kinds.count("response.created"), kinds.count("response.completed")) == (1, 1)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].response.id == events[-1].response.id
    assert events[-1].response.output_text == f"Let me look.\n\n{ANSWER}"
    assert len(events[-1].response.output) == 1
    assert "act_" not in str(events)


@pytest.mark.parametrize("one_byte", [False, True], ids=["frames", "bytes"])
def test_a_streamed_message_has_one_beginning_and_one_end(team: Team, one_byte: bool) -> None:
    team.script(calls(ORGS, text="Let me look."), calls(USERS), says(ANSWER), one_byte=one_byte)
    events = list(MessagesChat(team.served.url).events(QUESTION))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert "".join(event.delta.text for event in events[2:-3]) == f"Let me look.\n\n{ANSWER}"
    assert events[-2].delta.stop_reason == "end_turn"


@BY_CHAT
@STREAMED
def test_results_of_both_kinds_of_tools_come_in_the_order_of_the_calls(
    team: Team, kind: type[SdkChat], stream: bool
) -> None:
    theirs = (WEATHER, {"city": "Bonn"})
    model = team.script(calls(ORGS, theirs, USERS, text="Well."), says(ANSWER), says("Bye."))
    chat = kind(team.served.url, tools=True)
    first = chat.ask(f"{QUESTION} The organization is {ORG}. How is the weather?", stream=stream)
    (call,) = first.calls
    assert (call.name, call.arguments, first.text) == (*theirs, "Well.")
    assert team.api.seen == [], "the gateway's calls wait for the client"
    assert chat.results((call.id, "sunny"), stream=stream).text == ANSWER
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
    messages = model.received[1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "tool"]
    assert [one["tool_call_id"] for one in messages[2:]] == [one["id"] for one in messages[1]["tool_calls"]]
    assert messages[3]["content"] == "sunny"
    chat.ask("thanks", stream=stream)
    assert model.received[2]["messages"][:5] == messages, "the same bytes, so that the provider's cache counts"


@BY_CHAT
@STREAMED
def test_the_next_question_finds_the_earlier_rounds_at_the_same_places(
    team: Team, kind: type[SdkChat], stream: bool
) -> None:
    model = team.script(calls(ORGS, text="Let me look."), calls(USERS), says(ANSWER), says("Two."), says("Hm."))
    chat = kind(team.served.url)
    for question in (QUESTION, "how many are the users?", "are you sure?"):
        chat.ask(question, stream=stream)
    second, third, fourth = (asked["messages"] for asked in model.received[2:])
    assert third[:5] == second, "the same bytes, so that the provider's cache counts"
    assert [message["role"] for message in third[5:]] == ["assistant", "user"]
    assert fourth[:7] == third
    assert model.received[3]["tools"][: len(model.received[2]["tools"])] == model.received[2]["tools"]


@BY_CHAT
def test_a_round_of_the_clients_tools_keeps_the_operations(team: Team, kind: type[SdkChat]) -> None:
    team.script(calls((WEATHER, {"city": "Bonn", "days": 2})), says(ANSWER), says(ANSWER))
    chat = kind(team.served.url, tools=True)
    (call,) = chat.ask(QUESTION).calls
    chat.results((call.id, "sunny"))
    assert team.tools(1) == team.tools(0)


@BY_CHAT
@STREAMED
def test_a_call_that_the_model_writes_as_text_is_made_and_not_shown(
    team: Team, kind: type[SdkChat], stream: bool
) -> None:
    team.script(says('{"name": "act_listOrganizations", "arguments": {}}'), says(ANSWER), one_byte=stream)
    assert kind(team.served.url).ask(QUESTION, stream=stream).text == ANSWER
    assert team.api.seen == ["GET /orgs"]


@BY_CHAT
@STREAMED
def test_the_gateway_asks_the_person_where_arguments_are_missing_again(
    team: Team, kind: type[SdkChat], stream: bool
) -> None:
    team.script(calls(("act_findShirts", {})), calls(("act_findShirts", {"size": "huge"})), says("Blue."))
    chat = kind(team.served.url)
    asked = chat.ask("which shirts are there?", stream=stream)
    assert asked.text == "For “Find shirts of a size” I need more information:\n- size: Size; one of S, M, L"
    assert chat.ask("M", stream=stream).text == "Blue."
    assert [message["role"] for message in team.model.received[-1]["messages"]] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip


@BY_CHAT
@STREAMED
def test_the_last_round_must_answer(team: Team, kind: type[SdkChat], stream: bool) -> None:
    team.script(calls(ORGS), calls(ORGS), calls(ORGS), says("That is all I know."))
    assert kind(team.served.url).ask(QUESTION, stream=stream).text == "That is all I know."
    assert [asked.get("tool_choice") for asked in team.model.received] == [None, None, None, "none"]


@BY_CHAT
@STREAMED
def test_a_model_that_refuses_tools_answers_without_tools(team: Team, kind: type[SdkChat], stream: bool) -> None:
    name = f"gpt-without-{kind.__name__}-{stream}"
    team.script({"error": {"message": f"{name} does not support tools"}}, says("Hi."))
    assert kind(team.served.url, f"rage/atlas/{name}").ask(QUESTION, stream=stream).text == "Hi."
    assert ["tools" in asked for asked in team.model.received] == [True, False]


@BY_CHAT
def test_another_refusal_is_the_sdks_error(team: Team, kind: type[SdkChat]) -> None:
    team.script({"error": {"message": "too long", "code": "context_length_exceeded"}})
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="too long"):
        kind(team.served.url).ask(QUESTION)


@BY_CHAT
@pytest.mark.parametrize("text", [None, "Let me look."], ids=["silent", "text"])
def test_a_later_refusal_of_the_model_ends_a_stream_with_an_error(
    team: Team, kind: type[SdkChat], text: str | None
) -> None:
    team.script(calls(ORGS, text=text), {"error": {"message": "overloaded"}})
    with pytest.raises((openai.APIError, anthropic.APIError), match="overloaded"):
        kind(team.served.url).ask(QUESTION, stream=True)


EMPTY_EVENTS = {
    "/v1/chat/completions": b'"delta":{}',
    "/v1/responses": b"response.in_progress",
    "/v1/messages": b'{"type":"ping"}',
}


@BY_CHAT
def test_a_slow_api_keeps_the_stream_alive(team: Team, kind: type[SdkChat]) -> None:
    team.script(calls(("act_waitForReport", {})), says("Done."))
    body = kind(team.served.url).body("wait for the slow report", stream=True)
    frames: list[bytes] = []
    with httpx.stream("POST", team.served.url + kind.path, json=body, timeout=60) as reply:
        for piece in reply.iter_bytes():
            frames.append(piece)
            if len(frames) == 3:
                httpx.post(f"{team.api.url}/go", timeout=60)
    early, late = b"".join(frames[:3]), b"".join(frames)
    assert b"Done" not in early
    assert early.count(EMPTY_EVENTS[kind.path]) >= 2
    assert b"Done." in late


@BY_CHAT
def test_the_sdk_reads_a_stream_that_was_kept_alive(team: Team, kind: type[SdkChat]) -> None:
    team.script(calls(("act_waitForReport", {})), says("Done."))
    events = kind(team.served.url).events("wait for the slow report")
    begun = [next(events)]
    httpx.post(f"{team.api.url}/go", timeout=60)
    assert "Done." in str([*begun, *events])


@BY_CHAT
def test_a_client_that_leaves_ends_the_call(team: Team, kind: type[SdkChat]) -> None:
    team.script(calls(("act_waitForReport", {})))
    body = kind(team.served.url).body("wait for the slow report", stream=True)
    with httpx.stream("POST", team.served.url + kind.path, json=body, timeout=60) as reply:
        next(reply.iter_bytes())
    assert team.api.left.get(timeout=60) == "/slow"


@BY_CHAT
def test_no_secret_and_no_fixed_argument_is_seen(team: Team, kind: type[SdkChat]) -> None:
    model = team.script(calls(("act_listClusters", {})), calls(("act_listClusters", {"groupId": "x1"})), says("One."))
    reply = kind(team.served.url).ask("which clusters are in the project?")
    assert reply.text == "One."
    assert team.api.seen == [f"GET /groups/{GROUP}/clusters"]
    seen = json.dumps(model.received) + repr(reply) + team.served.log.read_text()
    assert [canary for canary in CANARIES if canary in seen] == []


FUNCTION = {"type": "function", "name": WEATHER, "parameters": {"type": "object"}}
TOOL = {"name": WEATHER, "input_schema": {"type": "object"}}
SCHEMA = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
UNSUITED: list[tuple[type[SdkChat], dict[str, Any]]] = [
    (ResponsesChat, {"tools": [FUNCTION], "tool_choice": "required"}),
    (ResponsesChat, {"tools": [FUNCTION], "tool_choice": "none"}),
    (ResponsesChat, {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": WEATHER}}),
    (
        ResponsesChat,
        {"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION]}},
    ),
    (ResponsesChat, {"text": {"format": SCHEMA}}),
    (ResponsesChat, {"tools": [{"type": "web_search"}]}),
    (ResponsesChat, {"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://a.example"}]}),
    (ResponsesChat, {"tools": [{"type": "computer_use_preview"}]}),
    (ResponsesChat, {"background": True}),
    (ResponsesChat, {"conversation": "conv_1"}),
    (ResponsesChat, {"previous_response_id": "resp_1"}),
    (ResponsesChat, {"previous_response_id": "resp_ragway_unknown"}),
    (ResponsesChat, {"prompt": {"id": "pmpt_1"}}),
    (ResponsesChat, {"model": "gpt-x"}),
    (ResponsesChat, {"model": "rage/atlas/gpt-no-chat"}),
    (ResponsesChat, {"input": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Well,"}]}),
    (MessagesChat, {"tools": [TOOL], "tool_choice": {"type": "any"}}),
    (MessagesChat, {"tools": [TOOL], "tool_choice": {"type": "none"}}),
    (MessagesChat, {"tools": [TOOL], "tool_choice": {"type": "tool", "name": WEATHER}}),
    (MessagesChat, {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
    (MessagesChat, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    (MessagesChat, {"mcp_servers": [{"type": "url", "url": "https://a.example", "name": "a"}]}),
    (MessagesChat, {"container": "c_1"}),
    (MessagesChat, {"model": "gpt-x"}),
    (MessagesChat, {"model": "rage/atlas/gpt-no-chat"}),
    (MessagesChat, {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Well,"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "more"), UNSUITED, ids=lambda one: str(one)[:60])
def test_a_request_that_an_offer_could_change_goes_on_without_a_change(
    team: Team, kind: type[SdkChat], more: dict[str, Any]
) -> None:
    team.script(says("Hm."))
    body = {**kind(team.served.url).body(QUESTION), **more}
    if "conversation" in more:
        body["store"] = False
    assert httpx.post(team.served.url + kind.path, json=body, timeout=60).status_code == 200
    same = {**body, "model": body["model"].rpartition("/")[2]}
    assert team.asked == [httpx.Request("POST", team.served.url, json=same).content]
    assert team.paths == [kind.path]
