"""The messages of the rounds of a chat."""

import json

from proxy.actions.loop import _result_messages
from proxy.actions.memory import HiddenMessages
from proxy.actions.protocols import spoken
from proxy.dialects.replies import ToolCall


def test_a_result_with_half_a_pair_of_surrogates_becomes_a_message_in_each_way() -> None:
    """An error for the model names the wrong argument, as the model wrote the argument."""
    text = "Nothing was sent: \ud83d is unknown."
    messages = _result_messages([ToolCall("c1", "act_a", "{}")], [text])
    assert json.loads(messages["c1"]) == {"role": "tool", "tool_call_id": "c1", "content": text}
    (row,) = spoken(HiddenMessages(1, messages["c1"].decode())).rows()
    assert row["content"].endswith(text)
