"""Which private sets a conversation has data of: after such data, no call of a public set is sent.

A model may put a text of one API into a call of another, by mistake or because a text of an attacker asks for it. The
settings say which sets are private and which are public.
"""

from collections.abc import Collection

from proxy.actions.known_texts import is_refusal
from proxy.actions.memory import Conversation
from proxy.actions.own_tools import tool_name


def private_results(conversation: Conversation, private: Collection[str]) -> set[str]:
    """The private sets of which the hidden rounds of a conversation have results."""
    set_of = {name: in_set for name, in_set, _ in conversation.tools}
    rows = [row for one in conversation.hidden for row in one.rows()]
    sent = {row.get("tool_call_id") for row in rows if row["role"] == "tool" and not is_refusal(row["content"])}
    calls = [call for row in rows for call in row.get("tool_calls") or () if call.get("id") in sent]
    return {in_set for call in calls if (in_set := set_of.get(tool_name(call), "")) in private}
