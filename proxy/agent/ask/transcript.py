"""The messages of one chat with hidden rounds: what the client sends, and those beside that only the model gets.

Before the client has a reply's end, the hidden messages are kept for its next request.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from proxy.agent.conversation import Conversation, HiddenMessages, HiddenRounds, WaitingCall, edits_of, resumed
from proxy.agent.events import Json
from proxy.agent.grounding.arguments import without_marks
from proxy.agent.text_calls.written_calls import example
from proxy.agent.toolbox import Tool, Toolbox, member_edit
from proxy.agent.tools.operation_tool import FIND
from proxy.dialects.base import ConversationMessage, ModelRequest
from proxy.dialects.deviations import ProviderFields, provider_field_names, strip_provider_fields
from proxy.dialects.json_body import Edit
from proxy.dialects.replies import ToolCall, called_tool, json_bytes, json_of, tool_name


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

    def body(self, write: Callable[[Sequence[Edit], str], bytes], *, last: bool) -> bytes:
        """A request's bytes. write: makes them from edits and instructions. last: the model must answer."""
        return write(*request_parts(self._toolbox, self.request, self.earlier, self.hidden, last=last))

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


# --- requests in each protocol ----------------------------------------------------------------------------------------


_MOST_SCHEMA_CHARS = 1_500

_INTRODUCTION = "You can call these operations to look up facts:"
# A form, not an example: Qwen2.5-Coder 0.5B makes the example's call, word for word.
_HOW = """To call an operation, answer with one JSON object alone, in this form:
{"name": "the operation", "arguments": {"the argument": "the value"}}

The next message has the result. Ids come from the results of other operations: call these operations first. \
Never invent a value: where only the user knows a value, ask the user. \
The user does not see the operations: make each call yourself. \
When you know enough, or no operation helps, answer the user in plain words, without JSON."""
# Without this sentence, models call operations for questions that a passage answers.
_PASSAGES = "\nThe passages may answer the question, too: then answer from the passages, without a call."
_CHANGING = (
    "\nIf the user wants this, say that you cannot do it here, because only operations that read can be called: {}."
)
_FINAL = "Answer the question in plain words, from these results."


def request_parts(
    toolbox: Toolbox, request: ModelRequest, earlier: Sequence[HiddenMessages], hidden: Sequence[bytes], *, last: bool
) -> tuple[Sequence[Edit], str]:
    """Edits for the request, and instructions for the model ("": none).

    earlier: hidden messages from earlier questions. hidden: this question's so far. last: the model must answer.
    """
    if toolbox.tool_protocol == "native":
        edits = [toolbox.edit(request), *edits_of(request, earlier, hidden)]
        return [*edits, member_edit(request, "tool_choice", b'"none"')] if last else edits, ""
    before = [as_plain_text(one) for one in earlier]
    if last:
        results = "\n\n".join(_result_texts(_messages(b",".join(hidden))))
        final = request.insertion(f"{results}\n\n{_FINAL}", "tail") if results else ()
        return [*edits_of(request, before, []), *final], ""
    texts = edits_of(request, before, [json_bytes(one) for one in as_texts(_messages(b",".join(hidden)))])
    functions = [orjson.loads(one.definition(name))["function"] for name, one in _shown(toolbox)]
    listed = "\n".join(_listed(one, toolbox.tools[one["name"]]) for one in functions)
    notes = (_PASSAGES if toolbox.passages else "") + (_CHANGING.format(toolbox.changing) if toolbox.changing else "")
    if toolbox.go_on and not hidden:
        notes += f"\n{toolbox.go_on}"
    return texts, f"{_INTRODUCTION}\n\n{listed}\n\n{_HOW}{notes}"


def _shown(toolbox: Toolbox) -> Iterator[tuple[str, Tool]]:
    """Tools that the instructions list, by name; without the operation search if any operation is offered.

    Qwen2.5-Coder 0.5B searched in 7 of 10 questions although the right operation was listed.
    """
    for name, one in toolbox.tools.items():
        if one.origin != ("", FIND) or not toolbox.operations:
            yield name, one


def as_plain_text(hidden: HiddenMessages) -> HiddenMessages:
    """Hidden messages as texts."""
    return hidden.with_rows(as_texts(hidden.rows()))


def as_texts(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Calls and results as alternating text messages of model and user; texts stay."""
    written: list[dict[str, str]] = []
    names = _names(messages)
    for message in messages:
        if message["role"] == "assistant":
            calls = [_written(call) for call in message.get("tool_calls") or ()]
            text = "\n".join(filter(None, [message.get("content"), *calls]))
            written.append({"role": "assistant", "content": text})
            continue
        text = _result(message, names) if message["role"] == "tool" else message["content"]
        if written and written[-1]["role"] == "user":
            written[-1]["content"] += "\n\n" + text
        else:
            written.append({"role": "user", "content": text})
    return written


def _result_texts(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = _names(messages)
    for message in messages:
        if message["role"] == "tool":
            yield _result(message, names)


def _result(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """A result message as text. names: as in `_names`."""
    return f"Result of {names.get(message['tool_call_id'], 'the call')}:\n{message['content']}"


def _names(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Each call's id -> its operation."""
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return {call["id"]: tool_name(call) for call in calls}


def _messages(joined: bytes) -> list[dict[str, Any]]:
    """Messages, separated by commas."""
    return HiddenMessages(0, joined.decode()).rows()


def _written(call: Mapping[str, Any]) -> str:
    """A call as the model writes it."""
    called = called_tool(call) or {}
    return example(tool_name(call), called.get("arguments", called.get("input")) or "{}")


def _listed(function: Mapping[str, Any], tool: Tool) -> str:
    """An operation's lines in the instructions."""
    schema = function["parameters"]
    members = ", ".join(f'"{name}": …' for name in schema["properties"])
    rows = [f"{function['name']}: {' '.join(function['description'].split())}", f"  arguments: {{{members}}}"]
    for name, given in schema["properties"].items():
        one = given if isinstance(given, dict) else {}  # the schema `true`
        required = ", required" if name in schema["required"] else ""
        required += ", only the user knows it" if name in tool.asked else ""
        words = str(one.get("description", ""))
        meaning = f": {words if name == tool.code else ' '.join(words.split())}" if words else ""
        rows.append(f"  {name} ({_kind(one)}{required}){meaning}")
    if tool.code:
        rows.append(f"  in place of the JSON object, you may answer with a code block alone:\n```{tool.code}\n…\n```")
    if "$defs" in schema:
        rows.append("  definitions: " + orjson.dumps(schema["$defs"]).decode()[:_MOST_SCHEMA_CHARS])
    return "\n".join(rows)


def _kind(schema: Mapping[str, Any]) -> str:
    """An argument's type in words, else its schema. Null does not count: such an argument can be left out."""
    schema = _without_null(schema)
    kind = schema.get("type")
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(orjson.dumps(value).decode() for value in schema["enum"])[:_MOST_SCHEMA_CHARS]
    if isinstance(kind, str) and kind not in ("array", "object"):
        return kind
    shown = {name: value for name, value in schema.items() if name != "description"}
    return "as the JSON Schema " + orjson.dumps(shown).decode()[:_MOST_SCHEMA_CHARS]


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without null."""
    for name in ("anyOf", "oneOf"):
        some = [one for one in schema.get(name, ()) if one != {"type": "null"}]
        if len(some) == 1 and isinstance(some[0], dict):
            return {**{key: value for key, value in schema.items() if key not in (name, "title")}, **some[0]}
    made = dict(schema)
    if isinstance(kinds := made.get("type"), list):
        some = [one for one in kinds if one != "null"]
        made["type"] = some[0] if len(some) == 1 else some
    if isinstance(values := made.get("enum"), list):
        made["enum"] = [one for one in values if one is not None]
    return made
