"""The messages of one chat with hidden rounds: what the client sends, and those beside that only the model gets.

Before the client has a reply's end, the hidden messages are kept for its next request.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from proxy.agent.ask.tool_protocols import as_plain_text, request_parts
from proxy.agent.conversation import Conversation, HiddenMessages, HiddenRounds, WaitingCall, resumed
from proxy.agent.events import Json
from proxy.agent.grounding.arguments import without_marks
from proxy.agent.toolbox import Toolbox
from proxy.dialects.base import ConversationMessage, ModelRequest
from proxy.dialects.deviations import ProviderFields, provider_field_names, strip_provider_fields
from proxy.dialects.json_body import Edit
from proxy.dialects.replies import ToolCall, json_bytes, json_of


class ModelMessage(Protocol):
    """A model's message, which may call tools."""

    text: str | None
    all_calls: list[ToolCall]
    calls: list[ToolCall]  # of the gateway's tools
    provider_fields: ProviderFields


class Transcript:
    """The messages of one chat, in the form in which the model takes them."""

    def __init__(
        self,
        request: ModelRequest,
        toolbox: Toolbox,
        hidden_rounds: HiddenRounds | None,
        key: str,
        sendable: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        accepts_fields: bool,
    ) -> None:
        """hidden_rounds: None keeps nothing. sendable: a message without members that the upstream's lane refuses.

        accepts_fields: whether the model takes the provider fields of its messages.
        """
        self.request = request
        self._toolbox = toolbox
        self._hidden_rounds = hidden_rounds
        self._key = key
        self._sendable = sendable
        self._accepts_fields = accepts_fields
        self.field_names: set[str] = set()  # of the provider fields that an error may refuse
        self.flattened = False  # the messages of earlier questions are texts
        self.hidden: list[bytes] = []  # messages of this question
        self.earlier = self._taken(toolbox.conversation.hidden)  # messages of earlier questions
        # An error may refuse calls or thoughts of another model, which the client asked before.
        self.may_flatten = (
            toolbox.tool_protocol == "native"
            and any('"role":"tool"' in one.messages for one in self.earlier)
            and not any(one.get("tool_calls") or one.get("role") == "tool" for one in request.fields["messages"])
        )
        self._note_fields()

    def parts(self, *, last: bool) -> tuple[Sequence[Edit], str]:
        """As `request_parts`."""
        return request_parts(self._toolbox, self.request, self.earlier, self.hidden, last=last)

    def add(self, turn: ModelMessage, results: Sequence[str]) -> None:
        """Add the model's message, and the results of its calls."""
        rows = _result_rows(turn.calls, results)
        self.hidden += map(json_bytes, [self._message(turn), *rows])
        self.may_flatten = False
        self._mark()

    def add_calls(self, calls: Sequence[ToolCall], results: Sequence[str]) -> None:
        """Add calls that the gateway made by itself, and their results."""
        functions = [{"name": one.name, "arguments": one.arguments} for one in calls]
        rows = [
            {"id": one.id, "type": "function", "function": each} for one, each in zip(calls, functions, strict=True)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": rows}
        self.hidden += map(json_bytes, [self._sendable(message), *_result_rows(calls, results)])
        self.may_flatten = False
        self._mark()

    def resume(self, results: Sequence[str]) -> None:
        """Add the results of the calls that waited for the client's results."""
        conversation = self._toolbox.conversation
        messages = result_messages(self.waiting, results)
        self.earlier = self._taken(resumed(conversation, self.request.fields["messages"], messages))
        self._note_fields()
        # The calls wait no more, even if a bridge repeats the request without a member that the upstream refuses.
        self._toolbox.conversation = Conversation(self.earlier, conversation.tools)

    @property
    def waiting(self) -> list[ToolCall]:
        """The gateway's calls that waited for the client's results."""
        waiting = self._toolbox.conversation.waiting
        return [ToolCall(one.id, one.name, one.arguments) for one in waiting if one.owned]

    def flatten(self) -> bool:
        """Write the messages of earlier questions as texts, from now on; returns whether this changes something."""
        if not self.may_flatten:
            return False
        self.earlier = tuple(as_plain_text(one) for one in self.earlier)
        self.may_flatten, self.flattened = False, True
        return True

    def drop_fields(self) -> None:
        """Write the messages without provider fields, from now on."""
        self.field_names, self._accepts_fields = set(), False
        self.earlier = self._taken(self.earlier)
        self.hidden = [json_bytes(strip_provider_fields(json_of(one))) for one in self.hidden]

    def remember(self, text: str, turn: ModelMessage | None = None) -> None:
        """Keep hidden messages and tools for the next request, before the client has the reply's end.

        text: for the client. turn: None for a text of the gateway.
        """
        if self._hidden_rounds is None:
            return
        messages = self.request.fields["messages"]
        calls = [] if turn is None else turn.all_calls
        theirs = [call for call in calls if self._toolbox.owner(call.name) == "client"]
        hidden = self.earlier
        if self.hidden:
            hidden = (*hidden, HiddenMessages(len(messages), b",".join(self.hidden).decode()))
        mixed = 0 < len(theirs) < len(calls)
        if mixed:
            self._mark()
        functions = [{"id": one.id, "function": {"name": one.name, "arguments": one.arguments}} for one in theirs]
        visible = {"role": "assistant", "content": text, "tool_calls": functions}
        waiting = [WaitingCall(one.id, one.name, one.arguments, one not in theirs) for one in calls] if mixed else ()
        tools = tuple((name, *one.origin) for name, one in self._toolbox.tools.items())
        message = ""
        if turn is not None and (mixed or (self.hidden and turn.provider_fields.message)):
            message = json_bytes(self._message(turn)).decode()
        if message and not mixed:
            # Of all rounds of a question, the model gets the message with the members that the model sent. The client
            # has the texts and the thoughts of all rounds as one reply, or has no thoughts.
            hidden = (*hidden, HiddenMessages(len(messages), message, replaces=True))
        conversation = Conversation(hidden, tools, tuple(waiting), message if mixed else "")
        self._hidden_rounds.keep(self._key, [*messages, visible], conversation)

    def private_sets(
        self,
        private: Collection[str],
        sets: Sequence[str],
        messages: Sequence[ConversationMessage],
        *,
        forgotten: bool,
    ) -> set[str]:
        """The private sets of which the conversation has results, or may have: not all rounds are known."""
        if not private:
            return set()
        known = self._toolbox.conversation.private_results(private)
        replies = any(message.role == "assistant" for message in messages)
        unknown = forgotten or (replies and self._hidden_rounds is None)
        return known | (set(sets) & set(private) if unknown else set())

    def known_texts(self, messages: Sequence[ConversationMessage]) -> list[str]:
        """The texts in which a call's value may stand; of earlier questions, only the results."""
        said = (message.text for message in messages)
        hidden = (row["content"] for one in self.earlier for row in one.rows() if row["role"] != "assistant")
        return [*map(without_marks, [*said, *hidden])]

    def results(self) -> list[str]:
        """The results of earlier questions."""
        return [row["content"] for one in self.earlier for row in one.rows() if row["role"] == "tool"]

    def call_ids(self) -> list[str]:
        """The ids of all calls of earlier questions."""
        rows = [*self.request.fields["messages"], *(row for one in self.earlier for row in one.rows())]
        return [str(call.get("id")) for row in rows for call in row.get("tool_calls") or () if isinstance(call, dict)]

    def _message(self, turn: ModelMessage) -> Json:
        """The model's message with all calls, as the model sent it."""
        calls = []
        for number, call in enumerate(turn.all_calls):
            fields = turn.provider_fields.call(number)
            kind = "custom" if call.custom else "function"
            given = {"input": call.arguments} if call.custom else {"arguments": call.arguments or "{}"}
            called = {"name": call.name, **given, **fields.pop("function", {})}
            calls.append({"id": call.id, "type": kind, kind: called, **fields})
        message = {"role": "assistant", "content": turn.text, **({"tool_calls": calls} if calls else {})}
        message |= turn.provider_fields.message
        if not self._accepts_fields:
            return strip_provider_fields(message)
        self.field_names |= provider_field_names(message)
        return self._sendable(message)

    def _mark(self) -> None:
        """Note that the conversation has messages that the client does not see, even if it leaves now."""
        if self._hidden_rounds is not None:
            self._hidden_rounds.mark(self._key, self.request.fields["messages"])

    def _note_fields(self) -> None:
        if self._accepts_fields and not self.may_flatten:
            self.field_names.update(*(provider_field_names(row) for one in self.earlier for row in one.rows()))

    def _taken(self, hidden: Sequence[HiddenMessages]) -> tuple[HiddenMessages, ...]:
        """The messages without provider fields, if the model refuses them."""
        if self._accepts_fields:
            return tuple(hidden)
        return tuple(one.with_rows(map(strip_provider_fields, one.rows())) for one in hidden)


def result_messages(calls: Sequence[ToolCall], results: Sequence[str]) -> dict[str, bytes]:
    """Id of each call -> the message with the result."""
    return {row["tool_call_id"]: json_bytes(row) for row in _result_rows(calls, results)}


def _result_rows(calls: Sequence[ToolCall], results: Sequence[str]) -> list[Json]:
    return [
        {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, results, strict=True)
    ]
