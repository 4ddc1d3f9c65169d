"""The hidden rounds as texts, for a model that is not asked by `tools`."""

from typing import Any

from proxy.actions.protocols import as_texts


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
