"""Chats with models that are not asked for calls by tools, through a real gateway: learned, and by the setting."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.support.action_clients import CompletionsChat
from tests.support.action_team import ANSWER, CLIENT_TOOL, ORGS, QUESTION, Team, action_team
from tests.support.atlas_api import ORG
from tests.support.scripted_model import USAGE, calls, says

CALL_ORGS = '{"name": "act_listOrganizations", "arguments": {}}'
CALL_USERS = f'{{"name": "act_listUsers", "arguments": {{"orgId": "{ORG}"}}}}'
NO_TOOLS = {"error": {"message": "this model does not support tools"}}


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with action_team(tmp_path_factory.mktemp("ways")) as running:
        yield running


def way(asked: dict[str, Any]) -> str:
    """The way in which the model was asked."""
    listed = any(
        "act_listUsers" in str(message["content"]) for message in asked["messages"] if message["role"] == "system"
    )
    if "tools" in asked:
        return "native"
    return "text" if listed else "none"


def answer(team: Team, model: str, *, stream: bool, one_byte: bool = False) -> str:
    """The text of the answer; the client sees no calls, one role and one end."""
    if not stream:
        message = team.ask(model=model).parse().choices[0].message
        assert not message.tool_calls
        return message.content or ""
    chunks = team.stream(model=model)
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert not any(choice.delta.tool_calls for choice in choices)
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert sum(1 for choice in choices if choice.delta.role) == 1
    assert len({chunk.id for chunk in chunks}) == 1
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    assert usage.total_tokens == len(team.model.received) * USAGE["total_tokens"]
    return "".join(choice.delta.content or "" for choice in choices)


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_finds_the_users_without_tools(team: Team, stream: bool) -> None:
    team.script(says(CALL_ORGS), says(CALL_USERS), says(ANSWER), one_byte=stream)
    assert answer(team, "rage/atlas/gpt-text", stream=stream) == ANSWER
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
    assert [way(asked) for asked in team.model.received] == ["text"] * 3
    messages = team.model.received[2]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert messages[2]["content"] == CALL_ORGS, "as the model wrote the call"
    assert messages[3]["content"].startswith("Result of act_listOrganizations:")
    assert ORG in messages[3]["content"]
    assert messages[4]["content"] == CALL_USERS


@pytest.mark.parametrize("text", ["Let me look.", None])
@pytest.mark.parametrize("stream", [False, True])
def test_a_later_round_that_is_refused_ends_the_reply_with_an_error(team: Team, stream: bool, text: str | None) -> None:
    team.script({**calls(ORGS), "content": text}, NO_TOOLS, says("Hi."))
    with pytest.raises(openai.APIError, match="does not support tools"):
        answer(team, "rage/atlas/gpt-native", stream=stream)
    assert len(team.model.received) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_is_asked_by_text_where_the_server_refuses_tools(team: Team, stream: bool) -> None:
    model = f"rage/atlas/gpt-without-all-{stream}"
    team.script(NO_TOOLS, says(CALL_ORGS), says("One."), says("Hm."))
    assert answer_after_refusals(team, model, stream=stream) == "One."
    assert [way(asked) for asked in team.model.received] == ["native", "text", "text"]
    team.ask(model=model)
    assert way(team.model.received[-1]) == "text", "the next chat is asked in the way that works"


def test_an_error_that_no_way_mends_teaches_nothing_about_the_model(team: Team) -> None:
    """A client's faulty history, or a conversation that is too long: the words may name tools."""
    name = "rage/atlas/gpt-without-fault"
    wrong = {"error": {"message": "'tool_calls' must be followed by tool messages"}}
    team.script(wrong, wrong, says(ANSWER))
    with pytest.raises(openai.BadRequestError, match="must be followed by tool messages"):
        team.ask(model=name)
    assert answer_after_refusals(team, name, stream=False) == ANSWER
    assert [way(asked) for asked in team.model.received] == ["native", "text", "native"]


NO_JINJA: dict[str, Any] = {
    "status": "500 Internal Server Error",
    "error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"},
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_refuses_tools_with_500_is_asked_by_text(team: Team, stream: bool) -> None:
    """The server of llama.cpp, without --jinja."""
    model = f"rage/atlas/gpt-without-jinja-{stream}"
    team.script(NO_JINJA, says(CALL_ORGS), says(ANSWER))
    assert answer_after_refusals(team, model, stream=stream) == ANSWER
    assert [way(asked) for asked in team.model.received] == ["native", "text", "text"]


def test_a_chat_with_calls_goes_on_with_a_server_that_refuses_tools_with_500(team: Team) -> None:
    chat = CompletionsChat(team.served.url)
    team.script(calls(ORGS), says(ANSWER), NO_JINJA, NO_JINJA, says(ANSWER))
    chat.ask(QUESTION)
    chat.model = "rage/atlas/gpt-without-jinja-later"
    assert chat.ask("Again?").text == ANSWER
    assert [way(asked) for asked in team.model.received[2:]] == ["native", "native", "text"]


@pytest.mark.parametrize("stream", [False, True])
def test_another_fault_of_the_server_reaches_the_client(team: Team, stream: bool) -> None:
    team.script({**NO_JINJA, "error": {"message": "out of memory"}})
    with pytest.raises(openai.APIError, match="out of memory"):
        answer_after_refusals(team, "rage/atlas/gpt-without-memory", stream=stream)
    assert len(team.model.received) == 1


def answer_after_refusals(team: Team, model: str, *, stream: bool) -> str:
    if not stream:
        return team.ask(model=model).parse().choices[0].message.content or ""
    return "".join(chunk.choices[0].delta.content or "" for chunk in team.stream(model=model) if chunk.choices)


@pytest.mark.parametrize("fenced", ["```json\n{}\n```", "{}", "<tool_call>\n{}\n</tool_call>"])
def test_a_model_that_writes_calls_in_place_of_tool_calls_is_asked_by_text(team: Team, fenced: str) -> None:
    name = f"rage/atlas/gpt-without-calls-{len(fenced)}"
    team.script(says(fenced.replace("{}", CALL_ORGS)), says(ANSWER))
    assert answer(team, name, stream=True) == ANSWER
    assert [way(asked) for asked in team.model.received] == ["native", "text"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_written_call_of_a_made_up_name_is_not_shown(team: Team, stream: bool) -> None:
    """Qwen2.5-Coder 0.5B, asked by tools, makes up names in 2 of 20 first answers."""
    made_up = '{"name": "act_findOrganizations", "arguments": {}}'  # with the prefix of the gateway's tools
    team.script(says(f"```json\n{made_up}\n```"), says(ANSWER), one_byte=stream)
    assert answer(team, f"rage/atlas/gpt-without-names-{stream}", stream=stream) == ANSWER
    assert [way(asked) for asked in team.model.received] == ["native", "text"]


@pytest.mark.parametrize("one_byte", [False, True])
@pytest.mark.parametrize("written", ["```json\n{}\n```", "{}", "<tool_call>\n{}\n</tool_call>"])
def test_a_call_that_a_model_writes_after_words_is_made_and_not_shown(team: Team, written: str, one_byte: bool) -> None:
    """A model without tool calls often says what the model does before the model writes the call."""
    name = f"rage/atlas/gpt-without-words-{len(written)}-{one_byte}"
    team.script(says(f"Let me look.\n{written.replace('{}', CALL_ORGS)}"), says(ANSWER), one_byte=one_byte)
    assert answer(team, name, stream=True) == f"Let me look.\n{ANSWER}"
    assert team.api.seen == ["GET /orgs"]
    assert [way(asked) for asked in team.model.received] == ["native", "text"]


def test_a_call_that_a_model_writes_after_words_in_a_whole_reply_is_made(team: Team) -> None:
    whole = {"role": "assistant", "content": f"I look.\n```json\n{CALL_ORGS}\n```"}
    team.script({**whole, "deltas": [{"content": whole["content"]}]}, says(ANSWER), says(ANSWER))
    assert answer(team, "rage/atlas/gpt-without-words-in-one-piece", stream=True) == f"I look.\n{ANSWER}"
    team.script(whole, says(ANSWER))
    assert answer(team, "rage/atlas/gpt-without-words-whole", stream=False) == f"I look.\n{ANSWER}"
    assert team.api.seen == ["GET /orgs"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_written_call_of_a_tool_of_the_client_is_shown(team: Team, stream: bool) -> None:
    tool = json.loads(json.dumps(CLIENT_TOOL).replace("weather", "act_of_client"))
    written = '{"name": "act_of_client", "arguments": {}}'
    team.script(says(written), one_byte=stream)
    body = {"model": "rage/atlas/gpt-native", "messages": [{"role": "user", "content": QUESTION}], "tools": [tool]}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json={**body, "stream": stream}, timeout=60)
    assert reply.content == team.model.sent[0]


def test_a_model_with_calls_by_tools_is_asked_by_tools_after_a_slip(team: Team) -> None:
    name = "rage/atlas/gpt-without-slips"
    slip: dict[str, Any] = {"error": {"message": "tools are busy"}}
    team.script(calls(ORGS), says("One."), *[slip, says(ANSWER)] * 4, says(ANSWER))
    for _ in range(6):
        team.ask(model=name)
    ways = [way(asked) for asked in team.model.received]
    assert ways == ["native", "native", *["native", "text"] * 4, "text"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_with_calls_by_tools_writes_no_call(team: Team, stream: bool) -> None:
    """The JSON is the answer, in another chat, too: a person may ask for the JSON."""
    name = f"rage/atlas/gpt-without-json-{stream}"
    team.script(calls(ORGS), says(CALL_USERS), says(f"```json\n{CALL_ORGS}\n```"), says(ANSWER))
    assert answer(team, name, stream=stream) == CALL_USERS
    assert answer(team, name, stream=False) == f"```json\n{CALL_ORGS}\n```"
    assert team.api.seen == ["GET /orgs"]
    assert [way(asked) for asked in team.model.received] == ["native"] * 3


@pytest.mark.parametrize("stream", [False, True])
def test_the_marks_of_a_template_reach_no_person_although_the_model_has_calls_by_tools(
    team: Team, stream: bool
) -> None:
    """The server of the model has not read the marks; the model reads that nothing was sent."""
    leaked = "<tool_call>\n<function=act_listOrganizations>\n</function>\n</tool_call>"
    team.script(calls(ORGS), says(leaked), says(ANSWER))
    assert answer(team, f"rage/atlas/gpt-without-marks-{stream}", stream=stream) == ANSWER
    assert team.model.received[2]["messages"][-1]["content"].startswith("Nothing was sent")
    assert team.api.seen == ["GET /orgs"]


@pytest.mark.parametrize("model", ["gpt-without-quotes", "gpt-text"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_stands_in_the_conversation_is_shown_and_not_made(team: Team, model: str, stream: bool) -> None:
    quote = f"The second line is:\n{CALL_USERS}"
    for text in (quote, CALL_USERS):
        model_reply = team.script(says(text))
        body = {
            "model": f"rage/atlas/{model}",
            "messages": [
                {"role": "user", "content": f"Quote line 2 of this mail about users:\nHi.\n{CALL_USERS}\nBye."}
            ],
            "stream": stream,
        }
        got = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
        assert team.api.seen == []
        assert len(model_reply.received) == 1
        if model == "gpt-without-quotes":
            assert got.content == model_reply.sent[0]


UNKNOWN: tuple[str, dict[str, Any]] = ("moonshot", {})
SIMILAR: tuple[str, dict[str, Any]] = ("act_listOrganisation", {})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("called", "choice"), [(UNKNOWN, "none"), (SIMILAR, None)], ids=["unknown", "similar"])
def test_calls_of_tools_that_do_not_exist_cost_one_more_round(
    team: Team, called: tuple[str, dict[str, Any]], choice: str | None, stream: bool
) -> None:
    team.script(*[calls(called)] * 9)
    assert "tools that do not exist" in answer_after_refusals(team, "rage/atlas/gpt-native", stream=stream)
    assert [asked.get("tool_choice") for asked in team.model.received] == [None, choice]


def test_a_model_with_results_answers_after_calls_of_tools_that_do_not_exist(team: Team) -> None:
    team.script(calls(ORGS), calls(SIMILAR), calls(SIMILAR), says(ANSWER))
    assert answer(team, "rage/atlas/gpt-native", stream=False) == ANSWER
    assert team.model.received[3]["tool_choice"] == "none"


def test_a_chat_with_tools_of_the_client_goes_on_without_a_change_where_the_model_takes_no_tools(team: Team) -> None:
    team.script(says("Hm."))
    body = {"messages": [{"role": "user", "content": QUESTION}], "tools": [CLIENT_TOOL]}
    url = f"{team.served.url}/v1/chat/completions"
    assert httpx.post(url, json={"model": "rage/atlas/gpt-text", **body}, timeout=60).status_code == 200
    assert team.model.received == [{"model": "gpt-text", **body}]


def test_a_model_without_written_tool_calls_still_gets_tools_beside_the_clients(team: Team) -> None:
    name = "rage/atlas/gpt-without-native"
    team.script(says(CALL_ORGS), says(ANSWER), says("Hm."))
    answer(team, name, stream=False)
    team.ask(model=name, tools=[CLIENT_TOOL])
    assert way(team.model.received[2]) == "native"


@pytest.mark.parametrize("more", [{"stop": ["\n"]}, {"logprobs": True}], ids=lambda more: next(iter(more)))
def test_a_request_that_the_protocol_could_change_goes_on_without_a_change(team: Team, more: dict[str, Any]) -> None:
    team.script(says("Hm."))
    body = {"messages": [{"role": "user", "content": QUESTION}], **more}
    url = f"{team.served.url}/v1/chat/completions"
    assert httpx.post(url, json={"model": "rage/atlas/gpt-text", **body}, timeout=60).status_code == 200
    assert team.model.received == [{"model": "gpt-text", **body}]


def test_a_model_with_the_setting_none_is_offered_nothing(team: Team) -> None:
    team.script(says("Hm."))
    team.ask(model="rage/atlas/gpt-none")
    assert way(team.model.received[0]) == "none"


def test_a_way_of_the_setting_stays_and_a_refusal_costs_the_offer_alone(team: Team) -> None:
    for _ in range(2):
        team.script(NO_TOOLS, says("Hi."))
        assert team.ask(model="rage/atlas/gpt-native").parse().choices[0].message.content == "Hi."
        assert [way(asked) for asked in team.model.received] == ["native", "none"]


BROKEN = [
    '{"name": "act_listUsers", "arguments": {"orgId": ',
    '{"name": "act_listUsers", "arguments": }',
    '{"name": "act_li',
]


IN_PROSE = [
    "I will call act_listOrganizations: {}",
    'I will call {"function": "act_listOrganizations", "parameters": {}}',
    "I will call act_listOrganizations({})",
]


@pytest.mark.parametrize("text", IN_PROSE)
def test_a_call_between_other_words_is_made_and_not_shown(team: Team, text: str) -> None:
    team.script(says(text), says(ANSWER), one_byte=True)
    assert answer(team, "rage/atlas/gpt-text", stream=True) == f"I will call \n\n{ANSWER}"
    assert team.api.seen == ["GET /orgs"]


@pytest.mark.parametrize("text", BROKEN)
def test_broken_json_of_a_call_never_reaches_the_client(team: Team, text: str) -> None:
    team.script(says(text), says(ANSWER), one_byte=True)
    got = answer(team, "rage/atlas/gpt-text", stream=True)
    assert got == (ANSWER if "arguments" in text else "")
    if "arguments" in text:
        assert "not a JSON object" in team.model.received[1]["messages"][-1]["content"]


@pytest.mark.parametrize("stream", [False, True])
def test_text_around_a_call_is_shown_before_the_call_and_dropped_after_the_call(team: Team, stream: bool) -> None:
    call = f"Let me look.\n```json\n{CALL_ORGS}\n```\nThe result is made up."
    team.script(says(call), says("One."), one_byte=True)
    got = answer(team, "rage/atlas/gpt-text", stream=stream)
    assert got == "Let me look.\nOne."
    assert "made up" not in json.dumps(team.model.received[1])


OTHER_JSON = [
    '```json\n{"name": "Ann", "age": 3}\n```',
    '{"users": []}',
    "```python\nprint(1)\n```",
    "{",
    "a < b `c`",
    "[1]",
]


@pytest.mark.parametrize("text", [*OTHER_JSON, f"```json\n{CALL_ORGS}\n```\nlists them", "<div>", "[a](b)"])
def test_other_lines_after_words_are_an_answer_byte_for_byte(team: Team, text: str) -> None:
    model = team.script(says(f"This is the text:\n{text}\n\nEnd."), one_byte=True)
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
    assert reply.content == model.sent[0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", OTHER_JSON)
def test_other_json_is_an_answer_byte_for_byte(team: Team, text: str, stream: bool) -> None:
    model = team.script(says(text), one_byte=True)
    body = {"model": "rage/atlas/gpt-text", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
    if stream:
        seen = [json.loads(line[6:]) for line in reply.text.split("\n\n") if line.startswith("data: {")]
        assert "".join(one["choices"][0]["delta"].get("content") or "" for one in seen if one["choices"]) == text
    else:
        assert reply.content == model.sent[0]


def test_a_call_that_has_brought_a_result_is_not_made_twice(team: Team) -> None:
    """The model must answer from the results: small models repeat a call for ever."""
    team.script(says(CALL_ORGS), says(CALL_ORGS), says("One."))
    assert answer(team, "rage/atlas/gpt-text", stream=False) == "One."
    assert team.api.seen == ["GET /orgs"]
    (question,) = team.model.received[2]["messages"]
    assert question["content"].startswith(QUESTION)
    assert ORG in question["content"]
    assert way(team.model.received[2]) == "none"


@pytest.mark.parametrize("arguments", ['{"orgId": "your_organization_id"}', "{}"], ids=["made up", "missing"])
def test_a_refused_value_names_the_operation_that_finds_the_value(team: Team, arguments: str) -> None:
    made_up = f'{{"name": "act_listUsers", "arguments": {arguments}}}'
    team.script(says(made_up), says(CALL_ORGS), says("One."))
    assert answer(team, "rage/atlas/gpt-text", stream=False) == "One."
    assert CALL_ORGS in team.model.received[1]["messages"][-1]["content"]
    assert "Now call act_listUsers" in team.model.received[2]["messages"][-1]["content"]


def test_the_next_question_finds_the_earlier_rounds_in_the_way_of_the_model(team: Team) -> None:
    team.script(says(CALL_ORGS), says("One."), says("Hm."))
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    with team.client() as client:
        first = client.chat.completions.create(model="rage/atlas/gpt-text", messages=said)
        said += [first.choices[0].message.to_dict(), {"role": "user", "content": "how many are there?"}]
        client.chat.completions.create(model="rage/atlas/gpt-text", messages=said)
    before, after = team.model.received[1]["messages"], team.model.received[2]["messages"]
    assert after[1 : len(before)] == before[1:]
    assert [message["role"] for message in after[len(before) :]] == ["assistant", "user"]


def test_the_clients_bytes_stay(team: Team) -> None:
    team.script(says("Hm."))
    body = '{"model":"rage/atlas/gpt-text", "top_p" : 1.50,"messages":[ {"role":"user","content":"%s \\u00e9"}]}'
    headers = {"content-type": "application/json"}
    httpx.post(f"{team.served.url}/v1/chat/completions", content=body % QUESTION, headers=headers, timeout=60)
    assert b'"top_p" : 1.50,"messages":[' in team.asked[0]
    assert b' {"role":"user","content":"' + QUESTION.encode() + b' \\u00e9"}]' in team.asked[0]


def test_a_call_without_the_prefix_of_the_name_is_made(team: Team) -> None:
    team.script(says('{"name": "listOrganizations", "arguments": {}}'), says(ANSWER))
    assert answer(team, "rage/atlas/gpt-text", stream=True) == ANSWER
    assert team.api.seen == ["GET /orgs"]


def test_the_instructions_list_the_operations_and_not_the_search_for_operations(team: Team) -> None:
    team.script(says(ANSWER))
    answer(team, "rage/atlas/gpt-text", stream=False)
    asked = json.dumps(team.model.received[0])
    assert "act_listOrganizations" in asked
    assert "find_actions" not in asked


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('{"name": "getOrganizations", "arguments": {}}', CALL_ORGS),
        ('{"name": "act_listOrganizations", "arguments": {"date": "today"}}', CALL_ORGS),
    ],
    ids=["name", "argument"],
)
def test_the_model_reads_the_call_that_a_wrong_call_may_mean(team: Team, wrong: str, right: str) -> None:
    team.script(says(wrong), says(right), says(ANSWER))
    assert answer(team, "rage/atlas/gpt-text", stream=False) == ANSWER
    assert team.model.received[1]["messages"][-1]["content"].replace(" ", "").endswith(right.replace(" ", ""))
    assert team.api.seen == ["GET /orgs"]


@pytest.mark.parametrize("asked_by", ["native", "text"])
@pytest.mark.parametrize(("value", "sent"), [("vienna", True), ("5f0c99", False), ("your_id", False)])
def test_a_word_may_be_the_answer_of_the_person_to_the_gateways_question(
    team: Team, asked_by: str, value: str, sent: bool
) -> None:
    """The person answers "Wien", and the model calls with "vienna": the gateway does not ask for ever."""
    written = json.dumps({"name": "act_listUsers", "arguments": {"orgId": value}})
    call = calls(("act_listUsers", {"orgId": value})) if asked_by == "native" else says(written)
    answered = says(ANSWER)
    team.script(call, call, call, answered, answered)
    model = f"rage/atlas/gpt-{asked_by}"
    said: list[Any] = [{"role": "user", "content": "Who are the users of the organization of Wien?"}]
    with team.client() as client:
        question = client.chat.completions.create(model=model, messages=said).choices[0].message
        assert question.content == "For “Return all users of one organization” I need more information:\n" + (
            "- orgId: The organization"
        )
        assert team.api.seen == []
        said += [question.to_dict(), {"role": "user", "content": "Wien"}]
        answer = client.chat.completions.create(model=model, messages=said).choices[0].message
    assert team.api.seen == ([f"GET /orgs/{value}/users"] if sent else [])
    assert answer.content == ANSWER


@pytest.mark.parametrize("name", ["fly_to_the_moon", "act_listOrganizations"])
def test_a_refused_call_that_is_repeated_ends_the_calls(team: Team, name: str) -> None:
    wrong = json.dumps({"name": name, "arguments": {"date": "today"}})
    team.script(says(wrong), says(wrong), says(ANSWER))
    assert answer(team, "rage/atlas/gpt-text", stream=False) == ANSWER
    assert way(team.model.received[2]) == "none"
    assert team.api.seen == []


@pytest.mark.parametrize("before", [[], [calls(ORGS)]], ids=["first-round", "later-round"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_the_model_wrote_wrongly_is_no_refusal_of_tools(
    team: Team, before: list[dict[str, Any]], stream: bool
) -> None:
    """Groq's server reads the calls, and answers 400 where a call cannot be read."""
    name = f"rage/atlas/gpt-without-failures-{len(before)}-{stream}"
    failed = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<function=x"}
    team.script(*before, {"error": failed}, says(ANSWER))
    with pytest.raises(openai.APIError, match="Failed to call a function"):
        answer_after_refusals(team, name, stream=stream)
    assert answer_after_refusals(team, name, stream=stream) == ANSWER
    assert {way(asked) for asked in team.model.received} == {"native"}


@pytest.mark.parametrize("value", ['"caf\\ud83d"', "9" * 30, "[" * 300 + "]" * 300], ids=["half-pair", "large", "deep"])
@pytest.mark.parametrize("tool", ["find_actions", "act_listUsers", "read_result", "act_unknown"])
@pytest.mark.parametrize("model", ["native", "text"])
def test_an_argument_that_cannot_be_written_ends_no_chat(team: Team, model: str, tool: str, value: str) -> None:
    arguments = f'{{"query": {value}}}'
    call = calls((tool, {}))
    call["tool_calls"][0]["function"]["arguments"] = arguments
    wrong = call if model == "native" else says(f'{{"name": "{tool}", "arguments": {arguments}}}')
    team.script(wrong, says(ANSWER))
    assert answer(team, f"rage/atlas/gpt-{model}", stream=False) == ANSWER
    assert team.api.seen == []


BAD_SCHEMA = {
    "error": {
        "message": "Invalid schema for function 'act_listUsers': In context=('properties', 'names'), array schema "
        "missing items.",
        "type": "invalid_request_error",
        "param": "tools[0].function.parameters",
        "code": "invalid_function_parameters",
    }
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_schema_costs_its_operation_alone(team: Team, stream: bool) -> None:
    model = f"rage/atlas/gpt-without-strict-{stream}"
    team.script(BAD_SCHEMA, says(ANSWER), says(ANSWER))
    assert answer_after_refusals(team, model, stream=stream) == ANSWER
    assert answer_after_refusals(team, model, stream=stream) == ANSWER
    assert [way(asked) for asked in team.model.received] == ["native"] * 3, "nothing is learned about the model"
    first, *others = (team.tools(number) for number in range(3))
    assert others == [[name for name in first if name != "act_listUsers"]] * 2
    (row,) = httpx.get(f"{team.served.url}/v1/actions/sets", timeout=60).json()["data"][:1]
    assert {"operation": "listUsers", "model": model.removeprefix("rage/atlas/")} in row["refused"]


def test_a_refused_place_in_the_tools_costs_the_operation_there(team: Team) -> None:
    team.script({"error": {"message": "tools.1.custom.input_schema: JSON schema is invalid"}}, says(ANSWER))
    team.ask(model="rage/atlas/gpt-without-strict-place", tools=[CLIENT_TOOL])
    first, second = team.tools(0), team.tools(1)
    assert second == [first[0], *first[2:]]
