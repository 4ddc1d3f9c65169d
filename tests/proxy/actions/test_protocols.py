"""The hidden rounds as texts, for a model that is not asked by `tools`."""

from typing import Any

import pytest

from proxy.actions.call import Api
from proxy.actions.offer import OfferedOperation
from proxy.actions.openapi.operations import operations_of
from proxy.actions.protocols import as_texts, request_parts
from proxy.dialects.chat import ChatRequest
from proxy.exchange import ToolsWay
from tests.support.action_offers import empty_offer


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


@pytest.mark.parametrize("way", ["text", "json_schema"])
def test_an_argument_whose_schema_is_true_is_listed(way: ToolsWay) -> None:
    row = {"name": "q", "in": "query", "schema": True}
    (one,), _ = operations_of({"paths": {"/rows": {"get": {"operationId": "rows", "parameters": [row]}}}})
    offer = empty_offer()
    offer.way = way
    offer.add([OfferedOperation("atlas", one, Api("atlas", "https://x.example"), one.schema)])
    request = ChatRequest.parse(b'{"model": "m", "messages": [{"role": "user", "content": "rows?"}]}')
    _, instructions = request_parts(offer, request, (), (), last=False)
    assert "  q (as the JSON Schema {})" in instructions
