"""Conversations of both dialects become messages that a server takes that checks as OpenAI does."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.errors import ApiError
from proxy.dialects.replies import json_bytes
from proxy.upstream.bridges import messages_request, responses_request
from proxy.upstream.bridges.members import Json
from proxy.upstream.bridges.response_writer import ResponseWriter
from proxy.upstream.translated.request import parameters_of

PIXEL = "data:image/png;base64," + base64.b64encode(b"a").decode()
PICTURE: Json = {"type": "input_image", "image_url": PIXEL}
BLOCK: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "YQ=="}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "YQ=="}
DOCUMENT: Json = {"type": "document", "source": PDF, "title": "a.pdf"}
FUNCTION: Json = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SPACE: Json = {"type": "namespace", "name": "agents", "description": "Others.", "tools": [{**FUNCTION, "name": "g"}]}


@pytest.mark.parametrize("texts", [("Hi.", "confirm KX7M-4QPD"), ("confirm KX7M-4QPD", "Hi."), ("confirm KX7M-4QPD",)])
def test_texts_stay_apart_where_the_last_one_confirms_a_call(texts: tuple[str, ...]) -> None:
    parts = [{"type": "text", "text": one} for one in texts]
    message = messages_request.chat_of({"model": "m", "messages": [{"role": "user", "content": parts}]})
    given = [{**one, "type": "input_text"} for one in parts]
    response = responses_request.chat_of({"model": "m", "input": [{"role": "user", "content": given}]})
    wanted = parts if len(texts) > 1 and texts[-1] != "Hi." else "\n".join(texts)
    assert [chat["messages"][0]["content"] for chat in (message, response)] == [wanted] * 2


def check(chat: Json) -> None:
    """Fail where OpenAI, or a server with strict forms, would refuse the request."""
    waiting: set[str] = set()
    for message in chat["messages"]:
        role, content, calls = message["role"], message["content"], message.get("tool_calls", [])
        if role == "tool":
            assert message["tool_call_id"] in waiting, "a result without a call"
            waiting.remove(message["tool_call_id"])
            assert isinstance(content, str)
            continue
        assert not waiting, "a call without a result"
        if isinstance(content, list):
            assert role == "user" or {part["type"] for part in content} == {"refusal"}
            assert any(part["type"] != "text" for part in content), "texts alone are a text"
        else:
            assert content or calls or role == "user"
            assert content is None or isinstance(content, str)
        waiting = {call["id"] for call in calls}
        assert len(waiting) == len(calls)
    assert not waiting
    names = [tool[tool["type"]]["name"] for tool in chat.get("tools", [])]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 for name in names)
    if not names:
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(chat)
    parameters_of(json_bytes(chat))


def pieces_of(chat: Json) -> list[str]:
    """Every word of the conversation, and every picture."""
    found: list[str] = []
    for message in chat["messages"]:
        content = message["content"]
        for part in [{"text": content}] if isinstance(content, str) else content or []:
            found += part["text"].split() if "text" in part else [json.dumps(part)]
    return found


WORDS = st.integers(0, 999).map("w{}".format)


HM: Json = {"type": "output_text", "text": "Hm"}
BETWEEN: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"role": "user", "content": "Warning"},
        {"role": "developer", "content": [{"type": "input_text", "text": "Note"}]},
        {"role": "assistant", "content": []},
        {"role": "assistant", "content": [HM, {"type": "refusal", "refusal": "no"}]},
        {"type": "reasoning", "summary": []},
        {"type": "reasoning", "summary": [], "encrypted_content": responses_request.packed([{"signature": "s"}])},
    ]
)


@st.composite
def requests_for_responses(draw: st.DrawFn) -> Json:
    items: list[Json] = []
    for turn in range(draw(st.integers(1, 3))):
        items.append({"role": "user", "content": draw(parts("input_text", PICTURE) | WORDS)})
        for _ in range(draw(st.integers(0, 2))):
            items += draw(round_of_items(f"{turn}-{len(items)}"))
        if draw(st.booleans()):
            items.append({"role": "assistant", "content": draw(parts("output_text"))})
    return {"model": "m", "input": items, **draw(tools_of_responses())}


@st.composite
def round_of_items(draw: st.DrawFn, name: str) -> list[Json]:
    """Calls, results and what stands between, in any order in which each result comes after the call."""
    rows: list[tuple[float, Json]] = []
    places = st.floats(0, 1)
    for number in range(draw(st.integers(1, 3))):
        id, place = f"{name}-{number}", draw(places)
        kind = draw(st.sampled_from(["function", "custom"]))
        space = draw(st.sampled_from([{}, {"namespace": "agents"}, {"namespace": "n" * 70}]))
        call = {
            "type": f"{kind}_call" if kind == "function" else "custom_tool_call",
            "call_id": id,
            "name": "g",
            **space,
        }
        rows.append((place, {**call, **({"arguments": "{}"} if kind == "function" else {"input": "x"})}))
        output = draw(parts("input_text", PICTURE) | WORDS | st.none())
        kind = "function_call_output" if kind == "function" else "custom_tool_call_output"
        rows.append((1 + draw(places), {"type": kind, "call_id": id, "output": output}))
    rows += draw(st.lists(st.tuples(st.floats(0, 2), BETWEEN), max_size=3))
    return [row for _, row in sorted(rows, key=lambda row: row[0])]


def parts(text: str, *others: Json) -> st.SearchStrategy[Any]:
    texts = WORDS.map(lambda word: {"type": text, "text": word})
    return st.lists(texts | st.sampled_from(others) if others else texts, max_size=3)


def tools_of_responses() -> st.SearchStrategy[Json]:
    custom = {"type": "custom", "name": "patch"}
    tools = st.lists(st.sampled_from([FUNCTION, SPACE, custom]), max_size=3, unique_by=lambda tool: str(tool["name"]))
    choices = st.sampled_from(
        [None, "auto", "none", "required", {"type": "allowed_tools", "mode": "auto", "tools": []}]
    )
    return st.fixed_dictionaries({"tools": tools, "tool_choice": choices, "parallel_tool_calls": st.booleans()})


@given(requests_for_responses())
def test_a_conversation_of_responses_passes_a_strict_server(body: Json) -> None:
    chat = responses_request.chat_of(body)
    refusals = [part for each in chat["messages"] if isinstance(each["content"], list) for part in each["content"]]
    if not any(part["type"] == "refusal" for part in refusals):  # a refusal beside texts stays a list
        check(chat)
    said = json.dumps(body["input"]).count("input_image")
    assert sum(piece.startswith("{") and "image_url" in piece for piece in pieces_of(chat)) == said


@st.composite
def requests_for_messages(draw: st.DrawFn) -> Json:
    messages: list[Json] = []
    for turn in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(parts("text", BLOCK).filter(bool) | WORDS)})
        for number in range(draw(st.integers(0, 2))):
            messages += draw(round_of_messages(f"{turn}-{number}"))
        thought = {"type": "thinking", "thinking": "t", "signature": draw(st.sampled_from(["", "s"]))}
        said = draw(parts("text") | st.just([thought]))
        messages += [{"role": "assistant", "content": said}] if draw(st.booleans()) else []
    system = draw(st.none() | WORDS | parts("text"))
    tool = {"name": "f", "input_schema": {"type": "object"}}
    tools: Json = draw(st.sampled_from([{}, {"tools": []}, {"tools": [tool]}]))
    choice = {"type": draw(st.sampled_from(["auto", "any", "none"])), "disable_parallel_tool_use": draw(st.booleans())}
    chosen: Json = draw(st.sampled_from([{}, {"tool_choice": choice}]))
    return {"model": "m", "max_tokens": 9, "system": system, "messages": messages, **tools, **chosen}


@st.composite
def round_of_messages(draw: st.DrawFn, name: str) -> list[Json]:
    ids = [f"{name}-{number}" for number in range(draw(st.integers(1, 3)))]
    said: list[Json] = draw(parts("text"))
    said += [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids]
    results = [
        {"type": "tool_result", "tool_use_id": id, "content": draw(parts("text", BLOCK, DOCUMENT) | WORDS)}
        for id in draw(st.permutations(ids))
    ]
    reminder = [{"role": "system", "content": "Reminder"}]
    between, after = draw(st.sampled_from([([], []), (reminder, []), ([], reminder)]))
    beside = draw(st.sampled_from([[], [{"type": "text", "text": "Aside"}]]))
    answer = {"role": "user", "content": draw(st.permutations([*results, *beside]))}
    return [{"role": "assistant", "content": draw(st.permutations(said))}, *between, answer, *after]


@given(requests_for_messages())
def test_a_conversation_of_messages_passes_a_strict_server(body: Json) -> None:
    chat = messages_request.chat_of(body)
    check(chat)
    found, sent = pieces_of(chat), json.dumps(body)
    assert sum("image_url" in piece for piece in found) == sent.count('"image"')
    assert sum("file_data" in piece for piece in found) == sent.count('"document"')
    assert sum(piece.startswith("w") for piece in found) == sent.count('"w')


CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}


def test_what_stands_between_a_call_and_the_result_comes_after_the_result() -> None:
    warning = {"role": "user", "content": "Use the other tool."}
    result = {"type": "function_call_output", "call_id": "a", "output": "4"}
    chat = responses_request.chat_of({"model": "m", "input": [CALL, warning, result]})
    assert [message["role"] for message in chat["messages"]] == ["assistant", "tool", "user"]


def test_a_picture_in_a_result_is_in_a_message_of_the_user_after_all_results() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": [BLOCK, {"type": "text", "text": "A dot."}]},
        {"type": "tool_result", "tool_use_id": "b", "content": "none"},
    ]
    calls = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in "ab"]
    asked = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": calls}]
    body = {"model": "m", "messages": [*asked, {"role": "user", "content": results}]}
    shown = messages_request.chat_of(body)["messages"][2:]
    assert [(each["role"], each["content"]) for each in shown] == [
        ("tool", "[The picture is in the next message.]\nA dot."),
        ("tool", "none"),
        ("user", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,YQ=="}}]),
    ]
    later = [*body["messages"], {"role": "assistant", "content": "A dot."}, {"role": "user", "content": "And?"}]
    assert messages_request.chat_of({**body, "messages": later})["messages"][2:5] == shown


@pytest.mark.parametrize("member", [
    {"client_metadata": {"x": "1"}}, {"access_programs": {}}, {"access_programs": {"cyber": "x"}}, {"generate": False},
    {"context_management": [{"type": "compaction"}]}, {"top_logprobs": 0}, {"client": "codex"}, {"session_id": "s"},
    {"request_metadata": {}}, {"originator": "codex"},
])  # fmt: skip
def test_members_about_the_client_are_left_out(member: Json) -> None:
    asking = {"model": "m", "input": "Q"}
    assert responses_request.chat_of({**asking, **member}) == responses_request.chat_of(asking)


@pytest.mark.parametrize(
    "name", ["conversation_id", "previous_request_id", "metadata_filter", "thread_id", "mock_client"]
)
def test_members_that_may_name_a_state_are_refused(name: str) -> None:
    with pytest.raises(ApiError):
        responses_request.chat_of({"model": "m", "input": "Q", name: "x"})


def test_the_data_of_a_program_about_an_item_is_left_out() -> None:
    item = {"role": "user", "content": "Q", "internal_chat_message_metadata_passthrough": {"turn_id": "1"}}
    assert responses_request.chat_of({"model": "m", "input": [item]})["messages"] == [{"role": "user", "content": "Q"}]


class TestNamespaces:
    @pytest.mark.parametrize("where", ["tools", "additional_tools"])
    @pytest.mark.parametrize("space", ["agents", "mcp__" + "server" * 12])
    def test_a_tool_of_a_namespace_goes_there_and_back(self, where: str, space: str) -> None:
        tools = [{**SPACE, "name": space}, FUNCTION]
        asked = {"role": "user", "content": "Q"}
        added = (
            [{"type": "additional_tools", "role": "developer", "tools": tools}] if where == "additional_tools" else []
        )
        body: Json = {"model": "m", "input": [*added, asked], "tools": [] if added else tools}
        chat = responses_request.chat_of(body)
        check(chat)
        name, own = (tool["function"]["name"] for tool in chat["tools"])
        assert name.startswith(f"{space}__"[:20])
        assert own == "f"
        calls = [
            {"index": index, "id": id, "function": {"name": called, "arguments": "{}"}}
            for index, (id, called) in enumerate([("a", name), ("b", "f")])
        ]
        writer = ResponseWriter(body, streamed=False)
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        writer.read({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
        writer.end()
        first, second = writer.whole["output"]
        assert (first["namespace"], first["name"]) == (space, "g")
        assert ("namespace" in second, second["name"]) == (False, "f")
        results = [{"type": "function_call_output", "call_id": id, "output": "1"} for id in "ab"]
        again = responses_request.chat_of({**body, "input": [*body["input"], first, second, *results]})
        check(again)
        assert [call["function"]["name"] for call in again["messages"][1]["tool_calls"]] == [name, "f"]

    def test_two_tools_with_one_name_in_chat_completions_are_refused(self) -> None:
        with pytest.raises(ApiError, match="agents__g"):
            responses_request.chat_of({"model": "m", "input": "Q", "tools": [SPACE, {**FUNCTION, "name": "agents__g"}]})

    def test_allowed_tools_and_a_choice_name_the_namespace(self) -> None:
        named = {"type": "function", "name": "g", "namespace": "agents"}
        asking = {"model": "m", "input": "Q", "tools": [FUNCTION, SPACE]}
        allowed = {"type": "allowed_tools", "mode": "auto", "tools": [named]}
        assert [
            each["function"]["name"] for each in responses_request.chat_of({**asking, "tool_choice": allowed})["tools"]
        ] == ["agents__g"]
        assert (
            responses_request.chat_of({**asking, "tool_choice": named})["tool_choice"]["function"]["name"]
            == "agents__g"
        )


def test_a_long_user_id_is_shortened_to_the_same_id_each_time() -> None:
    asking = {"model": "m", "messages": [{"role": "user", "content": "Q"}]}
    users = [
        messages_request.chat_of({**asking, "metadata": {"user_id": id}})["user"]
        for id in ("u", "x" * 150, "x" * 150, "y" * 65)
    ]
    assert users[0] == "u"
    assert users[1] == users[2] != users[3]
    assert {len(user) for user in users[1:]} == {64}
