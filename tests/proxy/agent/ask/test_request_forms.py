"""The hidden rounds as texts, for a model that is not asked by `tools`."""

from typing import Any

import pytest

from proxy.agent.ask.transcript import as_texts, request_parts
from proxy.agent.tools.operation_tool import OperationTool
from proxy.apis.call import Api
from proxy.apis.openapi.operations import operations_of
from proxy.dialects.chat import ChatRequest
from tests.support.action_offers import empty_toolbox


def test_a_call_of_a_custom_tool_becomes_a_text() -> None:
    calls: list[dict[str, Any]] = [
        {"id": "call_1", "type": "function", "function": {"name": "act_a", "arguments": '{"x": 1}'}},
        {"id": "call_2", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}},
    ]
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": "Success."},
    ]
    said, results = as_texts(messages)
    assert said["content"].splitlines() == [
        '{"name": "act_a", "arguments": {"x": 1}}',
        '{"name": "apply_patch", "arguments": *** Begin Patch}',
    ]
    assert results["content"] == "Result of act_a:\none\n\nResult of apply_patch:\nSuccess."


def test_an_argument_whose_schema_is_true_is_listed() -> None:
    row = {"name": "q", "in": "query", "schema": True}
    (one,), _ = operations_of({"paths": {"/rows": {"get": {"operationId": "rows", "parameters": [row]}}}})
    toolbox = empty_toolbox()
    toolbox.tool_protocol = "text"
    toolbox.add([OperationTool(one, Api("atlas", "https://x.example"))])
    request = ChatRequest.parse(b'{"model": "m", "messages": [{"role": "user", "content": "rows?"}]}')
    _, instructions = request_parts(toolbox, request, (), (), last=False)
    assert "  q (as the JSON Schema {})" in instructions


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"anyOf": [{"type": "number"}, {"type": "null"}], "title": "Max Price"}, "number"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}], "title": "Name", "default": None}, "string"),
        ({"oneOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, 'one of "a", "b"'),
        ({"type": ["integer", "null"]}, "integer"),
        ({"type": ["string", "null"], "enum": ["a", None]}, 'one of "a"'),
        ({"type": ["integer", "string"]}, 'as the JSON Schema {"type":["integer","string"]}'),
    ],
)
def test_the_kind_of_an_argument_is_read_through_null(schema: dict[str, Any], kind: str) -> None:
    row = {"name": "q", "in": "query", "schema": schema}
    assert f"\n  q ({kind})" in instructions(row)


def instructions(row: dict[str, Any], **changes: Any) -> str:
    (one,), _ = operations_of({"paths": {"/rows": {"get": {"operationId": "rows", "parameters": [row]}}}})
    toolbox = empty_toolbox()
    toolbox.tool_protocol = "text"
    toolbox.add([OperationTool(one, Api("atlas", "https://x.example", ask=("size",)))])
    for name, value in changes.items():
        setattr(toolbox, name, value)
    request = ChatRequest.parse(b'{"model": "m", "messages": [{"role": "user", "content": "rows?"}]}')
    return request_parts(toolbox, request, (), (), last=False)[1]


SIZE = {"name": "size", "in": "query", "schema": {"type": "string"}}


def test_an_argument_that_only_a_person_knows_is_listed_so() -> None:
    assert "\n  size (string, only the user knows it)" in instructions(SIZE)
    assert "only the user knows it" not in instructions({**SIZE, "name": "sizes"})


def test_passages_may_answer_where_there_are_passages() -> None:
    assert "The passages may answer the question, too" in instructions(SIZE, passages=["a text"])
    assert "passages" not in instructions(SIZE)


def test_a_wish_for_a_change_is_named() -> None:
    text = instructions(SIZE, changing="Remove a member")
    assert "say that you cannot do it here" in text
    assert text.endswith("Remove a member.")
    assert "cannot" not in instructions(SIZE)


def test_the_way_to_go_on_is_the_last_sentence() -> None:
    assert instructions(SIZE, go_on="Go on so.").endswith("\nGo on so.")
