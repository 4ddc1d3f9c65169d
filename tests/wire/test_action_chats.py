"""Chats whose model calls an API, through a real gateway: the unchanged openai SDK, a scripted model, a digest API."""

import dataclasses
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.support.action_clients import CompletionsChat
from tests.support.action_team import ANSWER, CANARIES, CLIENT_TOOL, ORGS, QUESTION, USERS, Team, action_team
from tests.support.atlas_api import GROUP, MEDIA, ORG
from tests.support.delta_forms import RECORDED, FormedCall, frames, whole
from tests.support.scripted_model import USAGE, Json, calls, says
from tests.support.upstream_servers import Received, Wire, reply


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with action_team(tmp_path_factory.mktemp("actions")) as team:
        yield team


def test_the_users_of_an_organization_come_from_the_api(team: Team) -> None:
    model = team.script(calls(ORGS), calls(USERS), says(ANSWER))
    raw = team.ask()
    reply = raw.parse()
    assert reply.choices[0].message.content == ANSWER
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
    assert set(team.api.accepted) == {MEDIA}
    assert raw.headers["x-rag-actions"] == "atlas/listOrganizations,atlas/listUsers"
    assert reply.usage.prompt_tokens == 3 * USAGE["prompt_tokens"], "the usage is the sum of all rounds"
    assert reply.usage.total_tokens == 3 * USAGE["total_tokens"]
    assert model.received[0]["model"] == "gpt-x"
    assert [message["role"] for message in model.received[2]["messages"]] == [
        "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip
    assert "ben@example.com" in model.received[2]["messages"][-1]["content"]


@pytest.mark.parametrize("one_byte", [False, True], ids=["frames", "bytes"])
def test_a_stream_is_one_reply_with_one_end(team: Team, one_byte: bool) -> None:
    team.script(calls(ORGS, text="Let me look."), calls(USERS), says(ANSWER), one_byte=one_byte)
    chunks = team.stream()
    assert len({chunk.id for chunk in chunks}) == 1
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == f"Let me look.\n\n{ANSWER}"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert sum(1 for choice in choices if choice.delta.role) == 1
    assert not any(choice.delta.tool_calls for choice in choices)
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    assert usage.total_tokens == 3 * USAGE["total_tokens"]


def test_a_stream_names_the_operations_that_ran_before_the_first_text(team: Team) -> None:
    team.script(calls(ORGS), says(ANSWER))
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
    assert reply.headers["x-rag-actions"] == "atlas/listOrganizations"
    assert reply.content.count(b"data: [DONE]") == 1


@pytest.mark.parametrize("stream", [False, True])
def test_the_cost_is_the_sum_of_all_rounds(team: Team, stream: bool) -> None:
    """OpenRouter reports the cost of a reply in the usage."""
    team.script(calls(ORGS), calls(USERS), says(ANSWER), usage={**USAGE, "cost": 0.25})
    if stream:
        (usage,) = [chunk.usage for chunk in team.stream() if chunk.usage]
    else:
        usage = team.ask().parse().usage
    assert (usage.cost, usage.total_tokens) == (0.75, 3 * USAGE["total_tokens"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answered", [True, False], ids=["answer", "limit"])
def test_the_counts_of_a_provider_are_the_sums_of_all_rounds(team: Team, stream: bool, answered: bool) -> None:
    """DeepSeek names the cached tokens twice; a time is no count."""
    details = {"prompt_tokens_details": {"cached_tokens": 4}, "prompt_cache_hit_tokens": 4, "prompt_time": 0.5}
    turns = [*[calls(ORGS)] * 3, says(ANSWER)] if answered else [calls(ORGS)] * 5
    team.script(*turns, usage={**USAGE, **details})
    if stream:
        (usage,) = [chunk.usage for chunk in team.stream() if chunk.usage]
    else:
        usage = team.ask().parse().usage
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_cache_hit_tokens == 4 * len(turns)
    assert (usage.prompt_time, usage.total_tokens) == (0.5, len(turns) * USAGE["total_tokens"])


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_without_calls_passes_byte_for_byte(team: Team, stream: bool) -> None:
    model = team.script(says("I do not know."), one_byte=True)
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
    assert reply.content == model.sent[0]
    assert "x-rag-actions" not in reply.headers


def test_the_tools_follow_the_clients_and_leave_the_clients_bytes(team: Team) -> None:
    team.script(says("Hm."))
    taken = {"type": "function", "function": {"name": "act_listUsers", "parameters": {"type": "object"}}}
    team.ask(tools=[CLIENT_TOOL, taken])
    names = team.tools()
    assert names[:2] == ["weather", "act_listUsers"]
    assert "act_listUsers_2" in names, "a name of the client's is not taken"
    assert names[-1] == "find_actions"
    assert "act_createCluster" not in names, "an operation that does not read is not offered"
    assert team.model.received[0]["tools"][:2] == [CLIENT_TOOL, taken]


def test_a_call_of_the_clients_own_tool_goes_to_the_client(team: Team) -> None:
    for stream in (False, True):
        model = team.script(calls(("weather", {"city": "Bonn"})))
        body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        reply = httpx.post(f"{team.served.url}/v1/chat/completions", json={**body, "tools": [CLIENT_TOOL]}, timeout=60)
        assert reply.content == model.sent[0]


UNSUITED: list[dict[str, Any]] = [
    {"tool_choice": "required", "tools": [CLIENT_TOOL]},
    {"tool_choice": "none", "tools": [CLIENT_TOOL]},
    {"n": 2},
    {"tools": [CLIENT_TOOL], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
    {"functions": [{"name": "f"}]},
    {"web_search_options": {}},
    {"prediction": {"type": "content", "content": "Ann"}},
    {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Well,"}]},
    {"model": "gpt-x"},
]


@pytest.mark.parametrize("more", UNSUITED, ids=lambda more: next(iter(more)))
def test_a_chat_that_an_offer_could_change_goes_on_without_a_change(team: Team, more: dict[str, Any]) -> None:
    team.script(says("Hm."))
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], **more}
    assert httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60).status_code == 200
    assert team.model.received == [{**body, "model": "gpt-x"}]


@pytest.mark.parametrize("how", ["header", "body", "prefix"])
def test_the_client_names_a_set_in_three_ways(team: Team, how: str) -> None:
    team.script(says("Hm."))
    named: dict[str, dict[str, Any]] = {
        "header": {"model": "gpt-x", "extra_headers": {"x-rag-actions": "atlas"}},
        "body": {"model": "gpt-x", "extra_body": {"rag": {"actions": ["atlas"]}}},
        "prefix": {"model": "rage/atlas/raw/gpt-x"},
    }
    team.ask(**named[how])
    assert "act_listUsers" in team.tools()
    assert "rag" not in team.model.received[0]


@pytest.mark.parametrize("model", ["rage/nothing/gpt-x", "rage/atlas/", "rage/atlas"])
def test_an_unknown_set_and_half_a_prefix_are_refused(team: Team, model: str) -> None:
    team.script()
    with pytest.raises(openai.APIStatusError) as refused:
        team.ask(model=model)
    assert refused.value.status_code in (400, 404)


def test_a_value_that_the_model_makes_up_is_not_sent(team: Team) -> None:
    team.script(calls(("act_listUsers", {"orgId": "your_organization_id"})), calls(ORGS), calls(USERS), says(ANSWER))
    assert team.ask().parse().choices[0].message.content == ANSWER
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
    told = team.model.received[1]["messages"][-1]["content"]
    assert "your_organization_id" in told
    assert told.startswith("Nothing was sent")


def test_the_marks_of_passages_are_no_source_of_a_value(team: Team) -> None:
    """[1] … [end of 1]: small models make up just such small numbers."""
    collections = f"{team.served.url}/v1/knowledge/collections"
    assert httpx.post(collections, json={"name": "marks"}, timeout=60).status_code == 201
    text = {"text": "The users of organization 4711 meet on Mondays."}
    assert httpx.put(f"{collections}/marks/documents/1.md", json=text, timeout=60).status_code in (200, 201)
    team.script(calls(("act_listUsers", {"orgId": "1"})), calls(("act_listUsers", {"orgId": "4711"})), says("Hm."))
    raw = team.ask(model="rage/atlas/rag/marks/gpt-x")
    assert raw.headers["x-rag-sources"] == "1.md"
    assert team.model.received[1]["messages"][-1]["content"].startswith("Nothing was sent")
    assert team.api.seen == ["GET /orgs/4711/users"]
    assert httpx.delete(f"{collections}/marks", timeout=60).status_code == 200, "other chats are not augmented"


MADE_UP = ("act_listUsers", {"orgId": "5f0c9999"})


@pytest.mark.parametrize(
    ("refused", "then"),
    [
        pytest.param(MADE_UP, says("Hm."), id="the model gives up"),
        pytest.param(MADE_UP, calls(MADE_UP), id="the gateway asks the person"),
        pytest.param(("find_actions", {"query": MADE_UP[1]}), says("Hm."), id="a search"),
    ],
)
def test_a_value_that_the_gateway_refused_is_no_source_for_the_next_question(
    team: Team, refused: tuple[str, Json], then: Json
) -> None:
    team.script(calls(refused), then, calls(MADE_UP), says(ANSWER))
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    with team.client() as client:
        first = client.chat.completions.create(model="rage/atlas/gpt-x", messages=said)
        said += [first.choices[0].message.to_dict(), {"role": "user", "content": "Just try."}]
        client.chat.completions.create(model="rage/atlas/gpt-x", messages=said)
    assert team.model.received[3]["messages"][-1]["content"].startswith("Nothing was sent")
    assert team.api.seen == []


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_asks_the_person_where_arguments_are_missing_again(team: Team, stream: bool) -> None:
    team.script(calls(("act_findShirts", {})), calls(("act_findShirts", {"size": "huge"})))
    question = "which shirts are there?"
    if stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in team.stream(question) if chunk.choices)
    else:
        text = team.ask(question).parse().choices[0].message.content
    assert text == "For “Find shirts of a size” I need more information:\n- size: Size; one of S, M, L"
    assert team.api.seen == []


def test_the_last_round_must_answer(team: Team) -> None:
    team.script(calls(ORGS), calls(ORGS), calls(ORGS), says("That is all I know."))
    assert team.ask().parse().choices[0].message.content == "That is all I know."
    assert [asked.get("tool_choice") for asked in team.model.received] == [None, None, None, "none"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [[], [CLIENT_TOOL]])
def test_a_model_that_must_answer_and_calls_is_asked_without_tools(team: Team, stream: bool, tools: list[Any]) -> None:
    """Ollama ignores `tool_choice`."""
    team.script(*[calls(ORGS)] * 4, says(ANSWER), says(ANSWER))
    chat = CompletionsChat(team.served.url, fields={"tools": tools} if tools else {})
    assert chat.ask(QUESTION, stream=stream).text == ANSWER
    assert team.model.received[4].get("tools", []) == tools
    assert "tool_choice" not in team.model.received[4]
    assert ORG in team.model.received[4]["messages"][-1]["content"]
    assert team.api.seen == ["GET /orgs"] * 3
    chat.ask("And now?", stream=stream)
    assert [one["role"] for one in team.model.received[5]["messages"][1:]] == [
        *["assistant", "tool"] * 3, "assistant", "user",
    ]  # fmt: skip
    team.script(*[calls(ORGS)] * 4, calls(ORGS))
    assert "limit" in team.ask().parse().choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
def test_the_results_stay_known_after_the_limit_of_calls(team: Team, stream: bool) -> None:
    model = team.script(calls(ORGS, text="Well."), *[calls(ORGS)] * 4, says(ANSWER))
    chat = CompletionsChat(team.served.url)
    assert "limit" in chat.ask(QUESTION, stream=stream).text
    reply = chat.ask("And now?", stream=stream)
    assert reply.text == ANSWER
    assert reply.headers.get("x-rag-actions") is None
    before = model.received[3]["messages"]
    assert len(before) == 7
    assert model.received[5]["messages"][: len(before)] == before


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", [None, "Let me look."])
def test_a_call_that_the_limit_of_the_answer_cuts_ends_the_reply(team: Team, stream: bool, text: str | None) -> None:
    cut = calls(USERS, text=text)
    cut["tool_calls"][0]["function"]["arguments"] = '{"or'
    team.script(calls(ORGS), {**cut, "finish": "length"})
    if stream:
        chunks = team.stream(max_tokens=9)
        choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
        assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["length"]
        assert "".join(choice.delta.content or "" for choice in choices) == (text or "")
        assert not any(choice.delta.tool_calls for choice in choices)
        (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    else:
        reply = team.ask(max_tokens=9).parse()
        ((choice,), usage) = reply.choices, reply.usage
        assert (choice.finish_reason, choice.message.content) == ("length", text or "")
        assert choice.message.tool_calls is None
    assert usage.total_tokens == 2 * USAGE["total_tokens"]
    assert len(team.model.received) == 2, "the next call would be cut, too"


def test_two_calls_with_one_id_get_two_results(team: Team) -> None:
    same = calls(ORGS, USERS)
    same["tool_calls"][1]["id"] = same["tool_calls"][0]["id"]
    model = team.script(same, says(ANSWER))
    assert team.ask(f"{QUESTION} The organization is {ORG}.").parse().choices[0].message.content == ANSWER
    _, message, *results = model.received[1]["messages"]
    ids = [call["id"] for call in message["tool_calls"]]
    assert len(set(ids)) == 2
    assert [one["tool_call_id"] for one in results] == ids
    assert results[0]["content"] != results[1]["content"]


def test_the_header_names_an_operation_once_for_each_call_in_the_order_of_the_calls(team: Team) -> None:
    team.script(calls(ORGS, USERS, ORGS), calls(USERS), says(ANSWER))
    raw = team.ask(f"{QUESTION} The organization is {ORG}.")
    names = [f"atlas/{name}" for name in ("listOrganizations", "listUsers", "listOrganizations", "listUsers")]
    assert raw.headers["x-rag-actions"] == ",".join(names)


@pytest.mark.parametrize("change", ["the first question", "a cut window", "a cut window and instructions"])
def test_the_header_says_that_the_calls_are_not_seen_where_the_beginning_is_another(team: Team, change: str) -> None:
    chat = CompletionsChat(team.served.url)
    team.script(calls(ORGS), says("One."), calls(USERS), says(ANSWER), says("Hm."), says("Hm."))
    chat.ask(f"Which organizations are there? ({change})")
    chat.ask(f"{QUESTION} ({change})")
    if change == "the first question":
        chat.said[0] = {"role": "user", "content": "Which organizations?"}
    else:
        del chat.said[:2]
    if change.endswith("instructions"):
        chat.said.insert(0, {"role": "system", "content": "Be brief."})
    assert chat.ask("And the first?").headers["x-rag-actions"] == "forgotten"
    chat.said[0] = {"role": "user", "content": f"Another question. ({change})"}
    del chat.said[1:]
    assert "x-rag-actions" not in chat.ask(QUESTION).headers


def test_operations_found_by_the_model_become_tools(team: Team) -> None:
    team.script(calls(("find_actions", {"query": "wait for the slow report"})), says("Found."))
    team.ask("which shirts are there?")
    before, after = (team.tools(number)[:-1] for number in (0, 1))
    assert after[: len(before)] == before, "tools are only appended"
    assert "act_waitForReport" in team.model.received[1]["messages"][-1]["content"]


def test_a_call_that_is_no_json_reaches_the_model_as_an_error(team: Team) -> None:
    wrong = calls(ORGS)
    wrong["tool_calls"][0]["function"]["arguments"] = "{not json"
    team.script(wrong, says("Sorry."))
    assert team.ask().parse().choices[0].message.content == "Sorry."
    assert "not a JSON object" in team.model.received[1]["messages"][-1]["content"]


WRITTEN = [
    '```json\n{\n  "name": "act_listOrganizations",\n  "arguments": {}\n}\n```',
    '{"name": "act_listOrganizations", "arguments": {}}',
    '<tool_call>\n{"name": "act_listOrganizations", "arguments": {}}\n</tool_call>',
    '{"name": "act_listOrganizations", "arguments": {}}\n{"name": "act_listUsers", "arguments": {"orgI',
]


@pytest.mark.parametrize("text", WRITTEN, ids=["fenced", "bare", "tagged", "several"])
def test_a_call_that_the_model_writes_as_text_is_made_and_not_shown(team: Team, text: str) -> None:
    model = "rage/atlas/gpt-native"
    team.script(says(text), says(ANSWER))
    assert team.ask(model=model).parse().choices[0].message.content == ANSWER
    team.script(says(text), says(ANSWER), one_byte=True)
    chunks = team.stream(model=model)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert team.api.seen == ["GET /orgs"]


def test_no_two_written_calls_of_a_chat_have_the_same_id(team: Team) -> None:
    team.script(says(WRITTEN[1]), says(WRITTEN[1]), says(ANSWER))
    assert team.ask(model="rage/atlas/gpt-native").parse().choices[0].message.content == ANSWER
    messages = team.model.received[-1]["messages"]
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert len(ids) == len(set(ids)) == 2
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ids


OTHER_JSON = [
    '```json\n{"name": "Ann", "age": 3}\n```',
    '{"name": "act_listOrganizations", "arguments": {}, "note": "an example"}',
    '{"name": "act_listOrganizations", "arguments": {}} is the call.',
    "```python\nprint(1)\n```",
    "{",
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", OTHER_JSON)
def test_other_json_is_an_answer(team: Team, text: str, stream: bool) -> None:
    model = team.script(says(text), one_byte=True)
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    assert httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60).content == model.sent[0]


def test_another_refusal_passes_as_the_model_wrote_the_refusal(team: Team) -> None:
    team.script({"error": {"message": "too long", "code": "context_length_exceeded"}})
    with pytest.raises(openai.BadRequestError) as refused:
        team.ask()
    assert refused.value.code == "context_length_exceeded"


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_whose_tools_are_refused_beside_the_offer_goes_on_without_the_offer(team: Team, stream: bool) -> None:
    """OpenAI takes 128 tools, and some servers refuse a schema."""
    error = {"error": {"message": "Invalid 'tools': array too long. Expected an array with maximum length 128."}}
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    sent, url = {**body, "tools": [CLIENT_TOOL]}, f"{team.served.url}/v1/chat/completions"
    model = team.script(error, says("Hm."), says("Hm."))
    reply = httpx.post(url, json=sent, timeout=60)
    assert (reply.status_code, reply.content) == (200, model.sent[0])
    assert [len(asked["tools"]) > 1 for asked in model.received] == [True, False]
    assert model.received[1] == {**sent, "model": "gpt-x"}
    httpx.post(url, json=body, timeout=60)
    assert model.received[2]["tools"], "nothing is learned about the model"


def test_the_header_says_that_the_calls_are_not_seen_where_the_offer_is_refused(team: Team) -> None:
    error = {"error": {"message": "too many tools"}}
    team.script(calls(ORGS), says(ANSWER), error, error, says("Hm."))  # after the first error, the calls are a text
    chat = CompletionsChat(team.served.url, tools=True)
    chat.ask(QUESTION)
    reply = chat.ask("And who is Ann?")
    assert (reply.text, reply.headers["x-rag-actions"]) == ("Hm.", "forgotten")


def test_an_error_about_the_clients_own_tool_is_the_clients(team: Team) -> None:
    error = {"error": {"message": "Invalid 'tools[0].function.name'"}}
    team.script(error, error)
    with pytest.raises(openai.BadRequestError, match="Invalid 'tools"):
        team.ask(tools=[CLIENT_TOOL])


def test_the_next_question_finds_the_earlier_rounds_at_the_same_places(team: Team) -> None:
    team.script(calls(ORGS), calls(USERS), says(ANSWER), says("Two."), says("Hm."))
    said: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    with team.client() as client:
        given: Any = said
        first = client.chat.completions.create(model="rage/atlas/gpt-x", messages=given)
        said += [first.choices[0].message.to_dict(), {"role": "user", "content": "how many are the users?"}]
        client.chat.completions.create(model="rage/atlas/gpt-x", messages=given)
        asked = team.model.received
        assert asked[3]["messages"][:5] == asked[2]["messages"], "the same bytes, so that the provider's cache counts"
        assert [message["role"] for message in asked[3]["messages"][5:]] == ["assistant", "user"]
        assert asked[3]["tools"][: len(asked[2]["tools"]) - 1] == asked[2]["tools"][:-1]
        said[1]["content"] = "Something else."
        client.chat.completions.create(model="rage/atlas/gpt-x", messages=given)
        assert len(asked[4]["messages"]) == 3, "an edited history goes on without"


def test_the_header_says_that_the_calls_are_not_seen_where_another_set_has_no_operation(team: Team) -> None:
    team.script(calls(ORGS), says(ANSWER), says("Hm."))
    chat = CompletionsChat(team.served.url)
    chat.ask(QUESTION)
    reply = chat.ask("Thanks!", model="rage/weather/gpt-x")
    assert [message["role"] for message in team.model.received[2]["messages"]] == ["user", "assistant", "user"]
    assert reply.headers["x-rag-actions"] == "forgotten"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_in_parts_is_found_again(team: Team, stream: bool) -> None:
    """Mistral's reasoning models answer with a list: thoughts, and a text."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Two of them."}]}
    parts = [thought, {"type": "text", "text": ANSWER}]
    deltas = [{"content": [thought]}, *({"content": [{"type": "text", "text": letter}]} for letter in ANSWER)]
    model = team.script(calls(ORGS), {"role": "assistant", "content": parts, "deltas": deltas}, says("Hm."))
    body: dict[str, Any] = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}]}
    url = f"{team.served.url}/v1/chat/completions"
    httpx.post(url, json={**body, "stream": stream}, timeout=60)
    body["messages"] += [{"role": "assistant", "content": parts}, {"role": "user", "content": "And who is Ann?"}]
    httpx.post(url, json=body, timeout=60)
    assert [one["role"] for one in model.received[2]["messages"]] == ["user", "assistant", "tool", "assistant", "user"]


def test_two_wrong_calls_of_one_round_are_told_to_the_model_before_the_person_is_asked(team: Team) -> None:
    wrong = calls(("act_listUsers", {"orgId": "zz11"}), ("act_listUsers", {"orgId": "zz22"}))
    team.script(wrong, calls(ORGS), calls(USERS), says(ANSWER))
    assert team.ask().parse().choices[0].message.content == ANSWER
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]


@pytest.mark.parametrize("stream", [False, True])
def test_results_of_both_kinds_of_tools_come_in_the_order_of_the_calls(team: Team, stream: bool) -> None:
    team.script(
        calls(("act_listOrganizations", {}), ("weather", {"city": "Bonn"}), ("act_listUsers", {"orgId": ORG})),
        says(ANSWER),
        says("Bye."),
    )
    said: list[Any] = [{"role": "user", "content": f"{QUESTION} The organization is {ORG}. How is the weather?"}]
    with team.client() as client:
        tools: Any = [CLIENT_TOOL]
        asking: Any = {"model": "rage/atlas/gpt-x", "messages": said, "tools": tools}
        if stream:
            with client.chat.completions.stream(**asking) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**asking).choices[0].message
        (theirs,) = message.tool_calls or []
        assert theirs.function.name == "weather"
        assert json.loads(theirs.function.arguments) == {"city": "Bonn"}
        assert team.api.seen == [], "the gateway's calls wait for the client"
        said += [
            {"role": "assistant", "content": message.content, "tool_calls": [theirs.to_dict()]},
            {"role": "tool", "tool_call_id": theirs.id, "content": "sunny"},
        ]
        second = client.chat.completions.create(**asking)
        assert second.choices[0].message.content == ANSWER
        assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
        messages = team.model.received[1]["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "tool"]
        assert [one["tool_call_id"] for one in messages[2:]] == [one["id"] for one in messages[1]["tool_calls"]]
        assert messages[3]["content"] == "sunny"
        said += [second.choices[0].message.to_dict(), {"role": "user", "content": "thanks"}]
        client.chat.completions.create(**asking)
    assert team.model.received[2]["messages"][:5] == messages


@pytest.mark.parametrize("id", [{"id": ""}, {}], ids=["empty", "absent"])
def test_a_call_of_the_client_without_an_id_is_found_again(team: Team, id: dict[str, Any]) -> None:
    """Google's chat completions have written empty ids."""
    both = calls(("weather", {}), ORGS)
    del both["tool_calls"][0]["id"]
    both["tool_calls"][0].update(id)
    model = team.script(both, says(ANSWER))
    body: dict[str, Any] = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}]}
    body["tools"], url = [CLIENT_TOOL], f"{team.served.url}/v1/chat/completions"
    message = httpx.post(url, json=body, timeout=60).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "", "content": "sunny"}
    reply = httpx.post(url, json={**body, "messages": [*body["messages"], message, result]}, timeout=60)
    assert reply.headers["x-rag-actions"] == "atlas/listOrganizations"
    said = [one.get("content") for one in model.received[1]["messages"]]
    assert [one["role"] for one in model.received[1]["messages"]] == ["user", "assistant", "tool", "tool"]
    assert (said[2], "Acme" in said[3]) == ("sunny", True)


def test_a_round_of_the_clients_tools_keeps_the_operations(team: Team) -> None:
    team.script(calls(("weather", {})), says(ANSWER), says(ANSWER))
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    with team.client() as client:
        tools: Any = [CLIENT_TOOL]
        first = client.chat.completions.create(model="rage/atlas/gpt-x", messages=said, tools=tools)
        (call,) = first.choices[0].message.tool_calls or []
        said += [first.choices[0].message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        client.chat.completions.create(model="rage/atlas/gpt-x", messages=said, tools=tools)
        assert team.tools(1) == team.tools(0)
        said[1] = {**said[1], "tool_calls": [{**call.to_dict(), "id": "another"}]}
        client.chat.completions.create(model="rage/atlas/gpt-x", messages=said, tools=tools)
        assert team.tools(2) == ["weather"], "not a round that the gateway took part in"


@pytest.mark.parametrize("stream", [False, True])
def test_a_later_refusal_of_the_model_ends_the_reply(team: Team, stream: bool) -> None:
    for text in (None, "Let me look."):
        team.script(calls(ORGS, text=text), {"error": {"message": "overloaded"}})
        body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        reply = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
        assert "overloaded" in reply.text
        assert (reply.status_code == 200) is (stream and text is not None)
        assert "[DONE]" not in reply.text


def test_a_trip_uses_two_apis_and_asks_for_the_size(team: Team) -> None:
    """The shop needs a size: the model guesses twice, the gateway asks, and the answer completes the call."""
    team.script(
        calls(("act_weatherOfCity", {"size": "Bonn"})),
        calls(("act_findShirts", {})),
        calls(("act_findShirts", {})),
        calls(("act_findShirts", {"size": "M"})),
        says("Take the blue shirt."),
    )
    said: list[Any] = [{"role": "user", "content": "Which shirt of the shop fits the weather of the city Bonn?"}]
    with team.client() as client:
        first = client.chat.completions.create(model="rage/atlas,weather/gpt-x", messages=said)
        asked = first.choices[0].message.content or ""
        assert "size: Size; one of S, M, L" in asked
        said += [first.choices[0].message.to_dict(), {"role": "user", "content": "M"}]
        second = client.chat.completions.create(model="rage/atlas,weather/gpt-x", messages=said)
    assert second.choices[0].message.content == "Take the blue shirt."
    assert team.api.seen == ["GET /shirts?size=Bonn", "GET /shirts?size=M"]
    assert "blue Bonn" in team.model.received[3]["messages"][2]["content"], "the weather is known in the next turn"


def test_a_slow_api_keeps_the_stream_alive(team: Team) -> None:
    team.script(calls(("act_waitForReport", {})), says("Done."))
    with team.client() as client:
        given: Any = [{"role": "user", "content": "wait for the slow report"}]
        chunks: Any = client.chat.completions.create(model="rage/atlas/gpt-x", messages=given, stream=True)
        first = next(chunks)
        assert chunks.response.headers["server-timing"].rpartition(", ")[2].startswith("call-1;dur=")
        assert "desc=" not in chunks.response.headers["server-timing"], "the call is not over"
        assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
        assert not next(chunks).choices[0].delta.role
        httpx.post(f"{team.api.url}/go", timeout=60)
        rest = list(chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in rest) == "Done."
    assert {chunk.id for chunk in rest} == {first.id}


def test_a_whole_reply_in_place_of_a_stream_stays_whole_while_an_api_is_slow(team: Team) -> None:
    """Some upstreams do not know `stream`."""
    turns = [calls(("act_waitForReport", {})), says(ANSWER)]

    async def answer(wire: Wire, _received: Received) -> None:
        whole = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": turns.pop(0)}]}
        await wire.send(reply(json.dumps(whole).encode(), b"content-type: application/json"))

    team.answered_by(answer)
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    timer = threading.Timer(2.5, httpx.post, [f"{team.api.url}/go"])  # twice as long as `keepalive_s`
    timer.start()
    got = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
    timer.join()
    assert got.json()["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.parametrize(
    ("call", "text"),
    [((USERS[0], {}), "I need more information"), (ORGS, "The limit of calls")],
    ids=["question", "limit"],
)
def test_a_text_of_the_gateway_is_whole_where_the_upstream_sends_whole_replies(
    team: Team, call: tuple[str, dict[str, Any]], text: str
) -> None:
    """Some upstreams do not know `stream`."""

    async def answer(wire: Wire, _received: Received) -> None:
        whole = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": calls(call)}]}
        await wire.send(reply(json.dumps(whole).encode(), b"content-type: application/json"))

    team.answered_by(answer)
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    url, headers = f"{team.served.url}/v1/chat/completions", {"x-rag-progress": "on"}
    got = httpx.post(url, json=body, headers=headers, timeout=60)
    assert text in got.json()["choices"][0]["message"]["content"]


def test_a_stream_of_a_known_length_becomes_a_reply_of_another_length(team: Team) -> None:
    """Some upstreams send a whole stream with a content-length."""
    turns = [frames(RECORDED[0], [FormedCall("c1", ORGS[0], "{}")]), frames(RECORDED[0], [], ANSWER)]

    async def answer(wire: Wire, _received: Received) -> None:
        await wire.send(reply(b"".join(turns.pop(0)), b"content-type: text/event-stream"))

    team.answered_by(answer)
    assert ANSWER in "".join(chunk.choices[0].delta.content or "" for chunk in team.stream() if chunk.choices)


@pytest.mark.parametrize("failed", [False, True], ids=["answer", "error"])
def test_a_whole_reply_after_the_beginning_of_a_stream_becomes_a_part_of_the_stream(team: Team, failed: bool) -> None:
    """Some upstreams answer a stream with an error as JSON, and status 200."""
    begun = frames(dataclasses.replace(RECORDED[0], text="Let me look."), [FormedCall("c1", ORGS[0], "{}")])
    calling = whole(RECORDED[3], [FormedCall("c2", ORGS[0], "{}")])
    end = b'{"error": {"message": "overloaded"}}' if failed else whole(RECORDED[3], [], ANSWER)
    turns = [(b"text/event-stream", b"".join(begun)), (b"application/json", calling), (b"application/json", end)]

    async def answer(wire: Wire, _received: Received) -> None:
        kind, body = turns.pop(0)
        await wire.send(reply(body, b"content-type: " + kind))

    team.answered_by(answer)
    if failed:
        with pytest.raises(openai.APIError, match="overloaded"):
            team.stream()
        return
    choices = [chunk.choices[0] for chunk in team.stream()]
    assert "".join(choice.delta.content or "" for choice in choices) == f"Let me look.\n\n{ANSWER}"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]


def test_a_client_that_leaves_ends_the_call(team: Team) -> None:
    team.script(calls(("act_waitForReport", {})))
    with team.client() as client:
        given: Any = [{"role": "user", "content": "wait for the slow report"}]
        chunks: Any = client.chat.completions.create(model="rage/atlas/gpt-x", messages=given, stream=True)
        next(chunks)
        chunks.close()
    assert team.api.left.get(timeout=60) == "/slow"


def test_no_secret_and_no_fixed_argument_is_seen(team: Team) -> None:
    clusters = "which clusters are in the project?"
    model = team.script(calls(("act_listClusters", {})), calls(("act_listClusters", {"groupId": "x1"})), says("One."))
    raw = team.ask(clusters)
    assert team.api.seen == [f"GET /groups/{GROUP}/clusters"]
    assert raw.parse().choices[0].message.content == "One."
    seen = json.dumps(model.received) + raw.text + repr(raw.headers) + team.served.log.read_text()
    seen += team.served.get("/metrics").text
    assert "groupId" not in json.dumps(model.received[0]["tools"][0]["function"]["parameters"])
    assert [canary for canary in CANARIES if canary in seen] == []
    assert "actions=atlas/listClusters" in team.served.log.read_text()


def test_nothing_follows_the_end_where_the_upstream_ends_the_body_later(team: Team) -> None:
    team.script(calls(ORGS), {**says(ANSWER), "end_after_s": 2.5})
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, timeout=60)
    assert reply.text.endswith("data: [DONE]\n\n")
