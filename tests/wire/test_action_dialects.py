"""Chats with actions by clients of every dialect: the official SDKs, a scripted model, a digest API."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.support.action_clients import (
    BY_CHAT,
    HTTP,
    STREAMED,
    WEATHER,
    CompletionsChat,
    MessagesChat,
    ReferringResponsesChat,
    ResponsesChat,
    SdkChat,
    StoredResponsesChat,
)
from tests.support.action_team import ANSWER, CANARIES, ORGS, QUESTION, USERS, Team, action_team
from tests.support.agent_bodies import QUESTION as CODING_QUESTION
from tests.support.agent_bodies import codex_body
from tests.support.atlas_api import GROUP, ORG
from tests.support.dialect_clients import CHAT_CLIENT
from tests.support.recording_upstream import answering
from tests.support.scripted_model import USAGE, calls, says, thinks

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
    ran = ["atlas/listOrganizations", "atlas/listUsers"]
    named = reply.headers["x-rag-actions"].split(",")
    assert named == ran[: len(named)] if stream else named == ran, "in a stream, the operations before the first event"
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
    assert kind(team.served.url, "rage/atlas/gpt-native").ask(QUESTION, stream=stream).text == ANSWER
    assert team.api.seen == ["GET /orgs"]


@BY_CHAT
@STREAMED
def test_a_model_without_tools_finds_the_users(team: Team, kind: type[SdkChat], stream: bool) -> None:
    team.script(says('{"name": "act_listOrganizations", "arguments": {}}'), says(ANSWER), one_byte=stream)
    reply = kind(team.served.url, "rage/atlas/gpt-text").ask(QUESTION, stream=stream)
    assert (reply.text, reply.calls, team.api.seen) == (ANSWER, (), ["GET /orgs"])
    assert "tools" not in team.model.received[0]


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
    reply = httpx.post(team.served.url + kind.path, json=body, timeout=60)
    assert reply.status_code == 200
    assert reply.headers.get("x-rag-actions") == ("unsuited" if body["model"] != "gpt-x" else None)
    same = {**body, "model": body["model"].rpartition("/")[2]}
    assert team.asked == [httpx.Request("POST", team.served.url, json=same).content]
    assert team.paths == [kind.path]


REMINDER = {"role": "system", "content": "Agent types: explorer."}


@pytest.mark.parametrize("stream", [False, True])
def test_an_instruction_behind_the_question_hides_no_question(team: Team, stream: bool) -> None:
    """Claude Code writes such messages, and drops them later."""
    model = team.script(calls(ORGS), calls(USERS), says(ANSWER), says("Two."))
    asked: dict[str, Any] = {"role": "user", "content": QUESTION}
    body = {**MessagesChat(team.served.url).body(QUESTION), "model": "rage/atlas/gpt-x", "stream": stream}
    url = team.served.url + MessagesChat.path
    first = httpx.post(url, json={**body, "messages": [asked, REMINDER]}, timeout=60)
    assert "atlas/listOrganizations" in first.headers["x-rag-actions"]
    assert '"model":"rage/atlas/gpt-x"' in first.text
    for history in ([asked], [REMINDER, asked]):
        answered = [*history, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": "How many?"}]
        team.script(says("Two."))
        later = httpx.post(url, json={**body, "messages": [*answered, REMINDER]}, timeout=60)
        assert "forgotten" not in later.headers.get("x-rag-actions", "")
        roles = [message["role"] for message in team.model.received[-1]["messages"]]
        assert [role for role in roles if role != "system"] == [
            *"user assistant tool assistant tool".split(),
            "assistant",
            "user",
        ]
    assert model.received


@pytest.mark.parametrize("seed", range(4))
def test_codex_gets_operations(team: Team, seed: int) -> None:
    asked = json.loads(codex_body(seed, model="rage/atlas/gpt-x", own_tools=True))
    questions = [item for item in asked["input"] if CODING_QUESTION in str(item)]
    questions[-1]["content"][0]["text"] = QUESTION
    del asked["input"][asked["input"].index(questions[-1]) + 1 :]  # rounds of Codex's own tools
    model = team.script(calls(ORGS), says(ANSWER))
    reply = httpx.post(team.served.url + "/v1/responses", json=asked, timeout=60)
    assert reply.headers["x-rag-actions"] == "atlas/listOrganizations"
    names = [tool.get(tool["type"])["name"] for tool in model.received[0]["tools"]]
    assert [name for name in names if name.startswith("act_")]
    assert {"__" in name for name in names} == ({True, False} if "multi_agent_v1" in str(asked["tools"]) else {False})


NAMES = ["rage/atlas/gpt-x", "rage/atlas,weather/raw/gpt-x", "rage%2Fatlas%2Fgpt-x", "rage/atlas/gpt-without-x"]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_can_be_asked_for_by_the_name_that_a_chat_uses(team: Team, name: str) -> None:
    team.script(missing="/v1/models")
    answer = httpx.get(f"{team.served.url}/v1/models/{name}", timeout=60)
    listed = "without" not in name
    assert answer.status_code == (200 if listed else 404)
    assert not listed or answer.json()["id"] == name.replace("%2F", "/")


def test_an_unknown_set_is_the_404_of_a_chat(team: Team) -> None:
    team.script(missing="/v1/models")
    with openai.OpenAI(base_url=team.served.url + "/v1", max_retries=0, api_key="placeholder") as client:
        with pytest.raises(openai.NotFoundError) as of_model:
            client.models.retrieve("rage/nothing/gpt-x")
        with pytest.raises(openai.NotFoundError) as of_chat:
            client.responses.create(model="rage/nothing/gpt-x", input="Who?")
        assert of_model.value.body == of_chat.value.body
        assert of_model.value.code == "action_set_not_found"
        assert not any(model.id.startswith("rage/") for model in client.models.list())


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/embeddings", "/v1/responses/input_tokens"])
def test_other_paths_take_the_name_that_a_chat_uses(team: Team, path: str) -> None:
    team.script(says("2"))
    body = {"model": "rage/atlas/raw/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "input": QUESTION}
    assert httpx.post(team.served.url + path, json=body, timeout=60).status_code == 200
    assert team.asked == [httpx.Request("POST", team.served.url, json={**body, "model": "gpt-x"}).content]
    assert team.paths == [path]


@pytest.mark.parametrize(
    "path", ["/responses", "/v1/v1/responses/", "/openai/deployments/rage/atlas/gpt-x/chat/completions?api-version=1"]
)
def test_other_spellings_of_a_path_get_actions(team: Team, path: str) -> None:
    team.script(calls(ORGS), says(ANSWER))
    body = {"input": QUESTION} if "responses" in path else {"messages": [{"role": "user", "content": QUESTION}]}
    model = {} if "deployments" in path else {"model": "rage/atlas/gpt-x"}
    answer = httpx.post(team.served.url + path, json={**model, **body}, timeout=60)
    assert ANSWER in answer.text
    assert team.api.seen == ["GET /orgs"]


@BY_CHAT
@pytest.mark.parametrize("model", ["rage/atlas/raw/gpt-x", "rage/atlas,weather/gpt-x"])
def test_the_prefix_of_a_set_stands_before_every_other_prefix(team: Team, kind: type[SdkChat], model: str) -> None:
    team.script(calls(ORGS), says(ANSWER))
    assert kind(team.served.url, model).ask(QUESTION).text == ANSWER
    assert team.model.received[0]["model"] == "gpt-x"


BRIDGED = pytest.mark.parametrize("kind", [ResponsesChat, MessagesChat], ids=["responses", "messages"])


@BRIDGED
def test_an_upstream_without_chat_completions_gets_the_clients_request(team: Team, kind: type[SdkChat]) -> None:
    name = f"gpt-without-chat-{kind.__name__}"
    team.script(says("Hm."), says("Hm."), missing=CHAT_PATH)
    body = kind(team.served.url, f"rage/atlas/{name}").body(QUESTION)
    for _ in range(2):
        assert httpx.post(team.served.url + kind.path, json=body, timeout=60).status_code == 200
    assert team.paths == [CHAT_PATH, kind.path, kind.path], "the gateway has learned"
    same = httpx.Request("POST", team.served.url, json={**body, "model": name}).content
    assert team.asked[1:] == [same, same]


@BRIDGED
def test_a_refusal_after_the_head_of_a_stream_ends_the_stream_with_an_error(team: Team, kind: type[SdkChat]) -> None:
    name = f"rage/atlas/gpt-without-chat-later-{kind.__name__}"
    team.script(calls(("act_waitForReport", {}), (WEATHER, {"city": "Bonn"})))
    chat = kind(team.served.url, name, tools=True)
    (call,) = chat.ask("wait for the slow report").calls
    team.script(says("Hm."), missing=CHAT_PATH)
    results = {
        ResponsesChat: {"type": "function_call_output", "call_id": call.id, "output": "sunny"},
        MessagesChat: {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}],
        },
    }
    chat.said.append(results[kind])
    received = b""
    with httpx.stream("POST", team.served.url + kind.path, json=chat.body("", stream=True), timeout=60) as reply:
        pieces = reply.iter_bytes()
        while EMPTY_EVENTS[kind.path] not in received:
            received += next(pieces)
        httpx.post(f"{team.api.url}/go", timeout=60)
        with contextlib.suppress(httpx.RemoteProtocolError):  # after the error, the gateway breaks the stream off
            for piece in pieces:
                received += piece
    assert b"status 404: Not Found" in received
    assert team.paths == [CHAT_PATH], "no other request, whose reply would have a second head"
    team.script(calls(ORGS), says(ANSWER))
    assert kind(team.served.url, name).ask(QUESTION).text == ANSWER, "the gateway has learned nothing"


@BRIDGED
def test_a_stream_that_was_not_asked_for_is_the_upstreams_fault(team: Team, kind: type[SdkChat]) -> None:
    team.answered_by(answering(CHAT_CLIENT.stream("Hm.")))
    reply = httpx.post(team.served.url + kind.path, json=kind(team.served.url).body(QUESTION), timeout=60)
    assert reply.status_code == 502
    assert "none was asked for" in reply.text


@BRIDGED
def test_an_unknown_model_is_the_upstreams_404(team: Team, kind: type[SdkChat]) -> None:
    team.script(says("Hm."), missing="/v1/")
    name = f"rage/atlas/gpt-without-{kind.__name__}-anything"
    with pytest.raises((openai.NotFoundError, anthropic.NotFoundError)):
        kind(team.served.url, name).ask(QUESTION)
    team.script(calls(ORGS), says(ANSWER))
    assert kind(team.served.url, name).ask(QUESTION).text == ANSWER, "the gateway has learned nothing"


def test_a_stored_response_is_continued_without_an_offer(team: Team) -> None:
    model = team.script(calls(ORGS), says(ANSWER), says("{}"), says("Bye."))
    chat = StoredResponsesChat(team.served.url)
    first = chat.ask(QUESTION)
    chat.model = "gpt-x"
    chat.ask("Now as JSON.", text={"format": SCHEMA})
    assert "tools" not in model.received[2]
    roles = [message["role"] for message in model.received[2]["messages"]]
    assert roles == ["user", "assistant", "user"], "without tools, the hidden rounds stay away"
    chat.ask("Bye.")
    assert [message["content"] for message in model.received[3]["messages"]] == [
        QUESTION, ANSWER, "Now as JSON.", "{}", "Bye.",
    ]  # fmt: skip
    assert httpx.get(f"{team.served.url}/v1/responses/{first.id}", timeout=60).status_code == 404


def test_a_client_that_leaves_after_the_last_event_can_continue_the_response(team: Team) -> None:
    """Some upstreams end the body after the end of the reply."""
    model = team.script({**says(ANSWER), "end_after_s": 30}, says("Bye."))
    chat = ResponsesChat(team.served.url)
    events = chat.events(QUESTION)
    completed = next(one for one in events if one.type == "response.completed")
    events.close()  # type: ignore[attr-defined]  # a generator
    chat.said = []
    chat.ask("Bye.", previous_response_id=completed.response.id)
    assert [one["content"] for one in model.received[1]["messages"]] == [QUESTION, ANSWER, "Bye."]


def test_a_response_that_the_client_does_not_store_or_deletes_cannot_be_continued(team: Team) -> None:
    team.script(says("One."), says("Two."), says("no such response"), says("no such response"))
    chat = ResponsesChat(team.served.url)
    unstored, deleted = chat.ask(QUESTION, store=False), chat.ask("And?")
    httpx.delete(f"{team.served.url}/v1/responses/{deleted.id}", timeout=60)
    for id in (unstored.id, deleted.id):
        body = {**chat.body("More?"), "previous_response_id": id}
        httpx.post(team.served.url + chat.path, json=body, timeout=60)
        assert team.paths[-1] == chat.path, "the upstream answers that the response is not known"


@BRIDGED
def test_the_log_says_why_no_operation_is_offered(team: Team, kind: type[SdkChat]) -> None:
    team.script(says("Hm."))
    more: dict[str, Any] = {"tools": [{"type": "web_search"}]}
    assert httpx.post(
        team.served.url + kind.path, json={**kind(team.served.url).body(QUESTION), **more}, timeout=60
    ).is_success
    assert "no operation is offered: `tools[0].type` 'web_search' is not supported" in team.served.log.read_text()


@STREAMED
def test_each_round_of_a_thinking_model_has_the_thoughts_of_the_round(team: Team, stream: bool) -> None:
    first, second = thinks("First.", calls(ORGS)), thinks("Second.", calls((WEATHER, {"city": "Bonn"}), text="Hm."))
    model = team.script(first, second, thinks("Third.", says(ANSWER)), says("Bye."))
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
    chat = MessagesChat(team.served.url, "rage/atlas/claude-x", fields=thinking, tools=True)
    (call,) = chat.ask(QUESTION, stream=stream).calls
    assert chat.results((call.id, "sunny"), stream=stream).text == ANSWER
    assert model.received[1]["messages"][1]["thinking_blocks"] == first["thinking_blocks"]
    messages = model.received[2]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [one["thinking_blocks"] for one in messages if one["role"] == "assistant"] == [
        first["thinking_blocks"], second["thinking_blocks"],
    ]  # fmt: skip
    assert messages[3]["content"] == "Hm."
    chat.ask("thanks", stream=stream)
    assert model.received[3]["messages"][:5] == messages
    assert model.received[0]["thinking"] == thinking["thinking"]


def test_an_unknown_hint_is_left_out_and_the_operations_stay(team: Team) -> None:
    name = "gpt-without-hints"
    unknown = {"error": {"message": "Unknown parameter: 'prompt_cache_key'"}}
    model = team.script(unknown, calls(ORGS), says(ANSWER))
    chat = ResponsesChat(team.served.url, f"rage/atlas/{name}", fields={"prompt_cache_key": "k"})
    assert chat.ask(QUESTION).text == ANSWER
    assert ["prompt_cache_key" in asked for asked in model.received] == [True, False, False]
    assert team.api.seen == ["GET /orgs"]


def test_an_unknown_hint_repeats_no_call_that_waited(team: Team) -> None:
    team.script(calls(ORGS, (WEATHER, {"city": "Bonn"})))
    chat = ResponsesChat(team.served.url, "rage/atlas/gpt-without-hints-later", tools=True)
    (call,) = chat.ask(QUESTION).calls
    chat.fields = {"prompt_cache_key": "k"}
    model = team.script({"error": {"message": "Unknown parameter: 'prompt_cache_key'"}}, says(ANSWER))
    assert chat.results((call.id, "sunny")).text == ANSWER
    assert team.api.seen == ["GET /orgs"]
    refused, answered = model.received
    assert answered["messages"] == refused["messages"]


def test_a_conversation_above_a_megabyte_is_not_kept(team: Team) -> None:
    team.script(says("Long."), says("no such response"))
    chat = StoredResponsesChat(team.served.url)
    chat.ask(f"{QUESTION} {'x' * (1 << 20)}")
    assert httpx.post(team.served.url + chat.path, json=chat.body("More?"), timeout=60).status_code == 200
    assert team.paths == [CHAT_PATH, chat.path], "the upstream answers that the response is not known"


@STREAMED
def test_a_stored_item_may_be_named_in_place_of_the_text(team: Team, stream: bool) -> None:
    model = team.script(
        calls(ORGS, (WEATHER, {"city": "Bonn"}), text="Well."), says(ANSWER), says("Two."), says("Bye.")
    )
    chat = ReferringResponsesChat(team.served.url, tools=True)
    (call,) = chat.ask(QUESTION, stream=stream).calls
    assert chat.results((call.id, "sunny"), stream=stream).text == ANSWER
    assert chat.ask("how many are the users?", stream=stream).text == "Two."
    chat.ask("Bye.", stream=stream)
    assert team.paths == [CHAT_PATH] * 4
    second, third, fourth = (asked["messages"] for asked in model.received[1:])
    assert [message["role"] for message in second] == ["user", "assistant", "tool", "tool"]
    assert third[:4] == second
    assert [message["content"] for message in fourth[4:]] == [ANSWER, "how many are the users?", "Two.", "Bye."]


def test_an_item_that_the_gateway_does_not_know_is_for_the_upstream(team: Team) -> None:
    team.script(says("no such item"), says("no such item"))
    chat = ResponsesChat(team.served.url)
    for id in ("msg_1", "msg_ragway_0123456789abcdef01234567_0"):
        reference = {"type": "item_reference", "id": id}
        body = {**chat.body("More?"), "input": [reference, {"role": "user", "content": "More?"}]}
        httpx.post(team.served.url + chat.path, json=body, timeout=60)
        assert team.paths[-1] == chat.path


FORMED: dict[type[SdkChat], dict[str, Any]] = {
    CompletionsChat: {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
    ResponsesChat: {"text": {"format": SCHEMA}},
    StoredResponsesChat: {"text": {"format": {"type": "json_object"}}},
    MessagesChat: {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
}
NAMES_AS_JSON = '{"names": ["Ann", "Ben"]}'


@BY_CHAT
@STREAMED
def test_an_answer_in_a_form_comes_from_the_api_without_another_text(
    team: Team, kind: type[SdkChat], stream: bool
) -> None:
    wrong = calls(("act_findShirts", {}))
    model = team.script(calls(ORGS, text="{}"), wrong, wrong, says(NAMES_AS_JSON), one_byte=stream)
    chat = kind(team.served.url, fields={**FORMED[kind], "extra_headers": {"x-rag-progress": "on"}})
    reply = chat.ask(QUESTION, stream=stream)
    assert (reply.text, team.api.seen) == (NAMES_AS_JSON, ["GET /orgs"])
    assert all(asked["response_format"]["type"].startswith("json_") for asked in model.received)
    assert reply.tokens == (4 * USAGE["prompt_tokens"], 4 * USAGE["completion_tokens"])


@BY_CHAT
@STREAMED
def test_a_model_that_refuses_tools_beside_a_form_answers_without_operations(
    team: Team, kind: type[SdkChat], stream: bool
) -> None:
    name = f"rage/atlas/gpt-without-form-{kind.__name__}-{stream}"
    refusal = {"error": {"message": "Function calling with a response mime type 'application/json' is unsupported"}}
    model = team.script(refusal, says(NAMES_AS_JSON), says(NAMES_AS_JSON), calls(ORGS), says(ANSWER))
    chat = kind(team.served.url, name, fields=FORMED[kind])
    body = chat.body(QUESTION)
    assert chat.ask(QUESTION, stream=stream).text == NAMES_AS_JSON
    assert httpx.post(team.served.url + kind.path, json=body, timeout=60).is_success
    assert team.paths[1:] == [CHAT_PATH, kind.path], "the gateway has learned"
    assert kind(team.served.url, name).ask(QUESTION, stream=stream).text == ANSWER
    assert ["tools" in asked for asked in model.received] == [True, False, False, True, True]
    assert "response_format" in model.received[1]


def test_a_model_without_tool_calls_is_offered_nothing_beside_a_form(team: Team) -> None:
    team.script(says(NAMES_AS_JSON))
    body = CompletionsChat(team.served.url).body(QUESTION, **FORMED[CompletionsChat], model="rage/atlas/gpt-text")
    httpx.post(team.served.url + CHAT_PATH, json=body, timeout=60)
    assert team.model.received == [{**body, "model": "gpt-text"}]


def test_a_wrong_schema_of_a_client_costs_no_other_client_the_operations(team: Team) -> None:
    wrong = {"error": {"message": "Invalid schema for response_format 'n'"}}
    model = team.script(wrong, wrong, calls(ORGS), says(NAMES_AS_JSON))
    chat = CompletionsChat(team.served.url, "rage/atlas/gpt-without-a-right-schema", fields=FORMED[CompletionsChat])
    with pytest.raises(openai.BadRequestError, match="Invalid schema"):
        chat.ask(QUESTION)
    chat.said.clear()
    assert chat.ask(QUESTION).text == NAMES_AS_JSON
    assert ["tools" in asked for asked in model.received] == [True, False, True, True]


@STREAMED
def test_a_client_leaves_the_thread_out_where_the_upstream_has_chat_completions_alone(team: Team, stream: bool) -> None:
    @anthropic.beta_tool
    def weather(city: str) -> str:
        """Return the weather."""
        return f"sunny in {city}"

    model = team.script(calls(ORGS, (WEATHER, {"city": "Bonn"})), says(ANSWER))
    asking: Any = {"model": "rage/atlas/gpt-chat-alone", "max_tokens": 99, "stream": stream}
    with anthropic.Anthropic(base_url=team.served.url, **HTTP) as client:
        replies = client.beta.messages.tool_runner(
            tools=[weather], messages=[{"role": "user", "content": QUESTION}], **asking
        )
        last: Any = None
        for reply in replies:
            last = reply.get_final_message() if stream else reply
    assert last.content[0].text == ANSWER
    assert [message["role"] for message in model.received[1]["messages"]] == ["user", "assistant", "tool", "tool"]
    assert team.paths == [CHAT_PATH, CHAT_PATH]


@STREAMED
def test_an_upstream_without_custom_tools_gets_the_clients_request(team: Team, stream: bool) -> None:
    name = f"gpt-without-custom-{stream}"
    refusal = {"error": {"message": "tools[0].type must be function"}}
    model = team.script(refusal, says("Hm."), says("Hm."), calls(ORGS), says(ANSWER))
    chat = ResponsesChat(team.served.url, f"rage/atlas/{name}")
    body = {**chat.body(QUESTION, stream=stream), "tools": [{"type": "custom", "name": "apply_patch"}]}
    for _ in range(2):
        assert httpx.post(team.served.url + chat.path, json=body, timeout=60).is_success
    assert team.paths == [CHAT_PATH, chat.path, chat.path], "the gateway has learned"
    assert model.received[1] == {**body, "model": name}
    assert chat.ask(QUESTION).text == ANSWER, "a request without custom tools gets operations"


def test_a_refusal_after_waiting_calls_is_not_about_custom_tools(team: Team) -> None:
    name = "rage/atlas/gpt-without-anything-learned"
    team.script(calls(ORGS, (WEATHER, {"city": "Bonn"})))
    tools = [{"type": "function", "name": WEATHER, "parameters": {}}, {"type": "custom", "name": "apply_patch"}]
    chat = ResponsesChat(team.served.url, name, fields={"tools": tools})
    (call,) = chat.ask(QUESTION).calls
    team.script({"error": {"message": "The prompt is too long."}}, says("Hm."))
    chat.said.append({"type": "function_call_output", "call_id": call.id, "output": "sunny"})
    assert httpx.post(team.served.url + chat.path, json=chat.body(""), timeout=60).is_success
    assert team.paths == [CHAT_PATH, chat.path]
    team.script(calls(ORGS), says(ANSWER))
    assert ResponsesChat(team.served.url, name, fields={"tools": tools}).ask(QUESTION).text == ANSWER


@STREAMED
@pytest.mark.parametrize("name", ["gpt-x", "gpt-translated"])
def test_a_call_of_a_custom_tool_goes_back_as_the_model_wrote_the_call(team: Team, name: str, stream: bool) -> None:
    patch = "*** Begin Patch\n*** End Patch"
    written = calls(ORGS)
    written["tool_calls"].append({"id": "call_p", "type": "custom", "custom": {"name": "apply_patch", "input": patch}})
    model = team.script(written, says(ANSWER), says("Bye."))
    tools = [{"type": "custom", "name": "apply_patch"}]
    chat = ResponsesChat(team.served.url, f"rage/atlas/{name}", fields={"tools": tools})
    with openai.OpenAI(base_url=team.served.url + "/v1", **HTTP) as client:
        asking = chat.body(QUESTION)
        if stream:
            with client.responses.stream(**asking) as events:
                events.until_done()
                first: Any = events.get_final_response()
        else:
            first = client.responses.create(**asking)
        (call,) = first.output
        assert (call.type, call.name, call.input) == ("custom_tool_call", "apply_patch", patch)
        result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Success."}
        said = [*asking["input"], call.to_dict(), result]
        second = client.responses.create(**{**asking, "input": said})
        assert second.output_text == ANSWER
    messages = model.received[1]["messages"]
    assert messages[1]["tool_calls"] == written["tool_calls"]
    assert [message["tool_call_id"] for message in messages[2:]] == [one["id"] for one in written["tool_calls"]]
