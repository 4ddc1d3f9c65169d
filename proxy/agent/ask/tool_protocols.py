"""The protocols to ask a model for calls, and which one each model takes, and its requests; learned from refusals and
replies.

native       the operations are the request's `tools`
text         instructions list the operations; the model writes a call as JSON
none         no operation is offered: by the setting `models.NAME.tools`, or beside structured output that the model
             refuses with tools

The client sees no part of the protocol: `protocol_replies` reads the replies. The hidden rounds stay stored as calls of
tools, and are written by the protocol by which the model is asked now, each time with the same bytes.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson

from proxy.agent.conversation import HiddenMessages, edits_of
from proxy.agent.text_calls.spelled_calls import example
from proxy.agent.toolbox import Tool, Toolbox, member_edit
from proxy.agent.tools.operation_tool import FIND
from proxy.dialects.base import ModelRequest
from proxy.dialects.json_body import Edit
from proxy.dialects.replies import called_tool, json_bytes, tool_name
from proxy.dialects.target import Target, ToolProtocol
from proxy.dialects.unsupported_features import UnsupportedFeatures

LEARNED: tuple[ToolProtocol, ...] = ("native", "text")
# What a model lacks that is asked by text, and what the gateway does in place, for the log.
_NO_CALLS = ("tool calls", "operations are offered by text")
_MOST_TEXT_CALLS = 3  # in a row, of a model that has made calls by tools, before the model counts as a model without
_MOST_MODELS = 1000
_NO_TOOLS = ("tools", "no operation is offered beside tools of a client")
_NO_FORM = ("tools beside a form of the answer", "no operation is offered beside a form of the answer")
_SCHEMA = "way to read the schema of "
_NO_PROVIDER_FIELDS = ("thoughts in a request", "calls go back without thoughts")
# Words by which tools beside structured output are refused.
FORM_REFUSED = (b"tool", b"function call", b"response_format", b"response mime", b"json", b"schema", b"grammar")
TOOLS_REFUSED = (b"tool",)  # words by which tools alone are refused


def wants_structured_output(fields: Mapping[str, Any]) -> bool:
    """Whether a chat completion request wants structured output, such as JSON."""
    form = fields.get("response_format")
    return bool(form) and form != {"type": "text"}


# The place of a function in an error: `tools[3]`, `tools.3.custom`, `"tools", 3`. Google counts in the function
# declarations of one tool.
_PLACES = (re.compile(r"declarations\W{1,4}(\d+)"), re.compile(r"tools\W{1,4}(\d+)"))


def refused_function(error: bytes, names: Sequence[str], before: int) -> str:
    """The function whose definition an error refuses; "": the error is about all functions, or about none.

    names: the functions in the order of the request, after `before` others.
    """
    text = error.decode("utf-8", "replace").lower()
    named = [one for one in names if re.search(rf"(?<![\w-]){re.escape(one.lower())}(?![\w-])", text)]
    if len(named) == 1:
        return named[0]
    found = next(filter(None, (pattern.search(text) for pattern in _PLACES)), None)
    place = int(found[1][:9]) - before if found is not None else -1
    return names[place] if 0 <= place < len(names) else ""


class ToolProtocols:
    """The knowledge of a process: per upstream and model, for a time."""

    def __init__(self, unsupported: UnsupportedFeatures) -> None:
        self._unsupported = unsupported
        # Upstream and model that has made calls by tools -> refusals since.
        self._text_calls_in_a_row: dict[tuple[str, str], int] = {}

    def of(self, target: Target, fields: Mapping[str, Any]) -> ToolProtocol:
        """The protocol of the setting, else the first one that the model does not lack. fields: of the request.

        With tools of the client, only a model that refuses tools is not asked by tools.
        """
        if wants_structured_output(fields) and self._unsupported.knows(target, _NO_FORM[0], model=target.model):
            return "none"
        lacked = _NO_TOOLS if fields.get("tools") else _NO_CALLS
        return target.tools or ("text" if self._unsupported.knows(target, lacked[0], model=target.model) else "native")

    def calls_by_tools(self, target: Target) -> bool:
        """Whether the model has made a call by tools."""
        return (target.api_base, target.model) in self._text_calls_in_a_row

    def note_call_by_tools(self, target: Target) -> None:
        """Note that the model has made a call by tools: one other reply does not make another model of this model."""
        if len(self._text_calls_in_a_row) >= _MOST_MODELS:
            self._text_calls_in_a_row.clear()
        self._text_calls_in_a_row[target.api_base, target.model] = 0

    def _counts_as_native(self, target: Target) -> bool:
        """Note one more call as text; returns whether the model still counts as a model with calls by tools."""
        key = target.api_base, target.model
        in_a_row = self._text_calls_in_a_row.pop(key, _MOST_TEXT_CALLS)
        if in_a_row < _MOST_TEXT_CALLS:
            self._text_calls_in_a_row[key] = in_a_row + 1
        return in_a_row < _MOST_TEXT_CALLS

    def after(self, target: Target, protocol: ToolProtocol, *, refused: bool) -> ToolProtocol:
        """The protocol of this chat after one that does not suit the model.

        refused: by an error, not by a call as text. A protocol of the setting stays; a refusal of it, or of the last
        protocol, gives "none".
        """
        if target.tools or protocol != "native":
            return "none" if refused else protocol
        return "text" if refused or self._unsupported.knows(target, _NO_CALLS[0], model=target.model) else "native"

    def learn(self, target: Target, protocol: ToolProtocol, *, refused: bool, structured_output: bool = False) -> None:
        """Learn that a protocol does not suit the model. refused: as in `after`; structured_output: wanted, too."""
        if structured_output:
            self._learn(target, *_NO_FORM)
        # A call as text may be the refused schema of one operation, or the JSON of a call that a person asks for.
        elif not target.tools and protocol == "native" and not self._counts_as_native(target):
            if refused:
                self._learn(target, *_NO_TOOLS)
            self._learn(target, *_NO_CALLS)

    def refuses(self, target: Target, operation: str) -> bool:
        """Whether the model refuses the definition of an operation (SET/OPERATION)."""
        return self._unsupported.knows(target, _SCHEMA + operation, model=target.model)

    def refuse(self, target: Target, operation: str) -> None:
        """Learn that the model refuses the definition of an operation."""
        self._learn(target, _SCHEMA + operation, "the operation is left out")

    def refused_of(self, name: str) -> Sequence[tuple[str, str]]:
        """The operations of a set whose definition a model refuses, and the model."""
        start = f"{_SCHEMA}{name}/"
        return [(one.removeprefix(start), model) for model, one in self._unsupported.names() if one.startswith(start)]

    def accepts_provider_fields(self, target: Target) -> bool:
        """Whether the model takes the provider fields of its messages back."""
        return not self._unsupported.knows(target, _NO_PROVIDER_FIELDS[0], model=target.model)

    def refuse_provider_fields(self, target: Target) -> None:
        """Learn that the model refuses the provider fields of its messages."""
        self._learn(target, *_NO_PROVIDER_FIELDS)

    def _learn(self, target: Target, name: str, instead: str) -> None:
        if not self._unsupported.knows(target, name, model=target.model):
            self._unsupported.learn(target, name, instead, model=target.model)


# --- requests in each protocol ----------------------------------------------------------------------------------------


# Members of a request that the text of a call would meet: the client's tools, stop words, the odds of each token.
_UNSUITED = ("tools", "stop", "logprobs", "top_logprobs")
_MOST_SCHEMA_CHARS = 1_500

_INTRODUCTION = "You can call these operations to look up facts:"
# A form, not an example: Qwen2.5-Coder 0.5B makes the call of an example, with the words of the example.
_HOW = """To call an operation, answer with one JSON object alone, in this form:
{"name": "the operation", "arguments": {"the argument": "the value"}}

The next message has the result. Ids come from the results of other operations: call these operations first. \
Never invent a value: where only the user knows a value, ask the user. \
The user does not see the operations: make each call yourself. \
When you know enough, or no operation helps, answer the user in plain words, without JSON."""
# Without the sentence, a model calls an operation for a question that a passage answers.
_PASSAGES = "\nThe passages may answer the question, too: then answer from the passages, without a call."
_CHANGING = (
    "\nIf the user wants this, say that you cannot do it here, because only operations that read can be called: {}."
)
_FINAL = "Answer the question in plain words, from these results."


def suits(protocol: ToolProtocol, request: ModelRequest) -> bool:
    """Whether an offer by this protocol leaves the meaning of a request."""
    if protocol == "native":
        return True
    fields = request.fields
    if wants_structured_output(fields):
        return False
    return not any(fields.get(name) for name in _UNSUITED) and fields["messages"][-1].get("role") == "user"


def request_parts(
    toolbox: Toolbox, request: ModelRequest, earlier: Sequence[HiddenMessages], hidden: Sequence[bytes], *, last: bool
) -> tuple[Sequence[Edit], str]:
    """The edits of the request, and the instructions for the model ("": none).

    earlier: of earlier questions. hidden: the messages of this question so far. last: the model must answer.
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
    listed = "\n".join(_listed(one, toolbox.tools[one["name"]].asked) for one in functions)
    notes = (_PASSAGES if toolbox.passages else "") + (_CHANGING.format(toolbox.changing) if toolbox.changing else "")
    if toolbox.go_on and not hidden:
        notes += f"\n{toolbox.go_on}"
    return texts, f"{_INTRODUCTION}\n\n{listed}\n\n{_HOW}{notes}"


def _shown(toolbox: Toolbox) -> Iterator[tuple[str, Tool]]:
    """The tools that the instructions list, by name, without the search for operations if operations are offered.

    Qwen2.5-Coder 0.5B searched in 7 of 10 questions for which the right operation was in the list.
    """
    for name, one in toolbox.tools.items():
        if one.origin != ("", FIND) or not toolbox.operations:
            yield name, one


def as_plain_text(hidden: HiddenMessages) -> HiddenMessages:
    """Hidden messages as texts."""
    return hidden.with_rows(as_texts(hidden.rows()))


def as_texts(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Messages with calls and results as messages of the model and the user, in turns; texts stay."""
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
    """The message with a result as a text. names: as `_names`."""
    return f"Result of {names.get(message['tool_call_id'], 'the call')}:\n{message['content']}"


def _names(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Id of each call -> the called operation."""
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return {call["id"]: tool_name(call) for call in calls}


def _messages(joined: bytes) -> list[dict[str, Any]]:
    """Messages, separated by commas."""
    return HiddenMessages(0, joined.decode()).rows()


def _written(call: Mapping[str, Any]) -> str:
    """A call as the model writes a call."""
    called = called_tool(call) or {}
    return example(tool_name(call), called.get("arguments", called.get("input")) or "{}")


def _listed(function: Mapping[str, Any], asked: Collection[str] = ()) -> str:
    """The lines of an operation in the instructions. asked: arguments that only a person knows."""
    schema = function["parameters"]
    members = ", ".join(f'"{name}": …' for name in schema["properties"])
    rows = [f"{function['name']}: {' '.join(function['description'].split())}", f"  arguments: {{{members}}}"]
    for name, given in schema["properties"].items():
        one = given if isinstance(given, dict) else {}  # true
        required = ", required" if name in schema["required"] else ""
        required += ", only the user knows it" if name in asked else ""
        meaning = ": " + " ".join(str(one["description"]).split()) if one.get("description") else ""
        rows.append(f"  {name} ({_kind(one)}{required}){meaning}")
    if "$defs" in schema:
        rows.append("  definitions: " + orjson.dumps(schema["$defs"]).decode()[:_MOST_SCHEMA_CHARS])
    return "\n".join(rows)


def _kind(schema: Mapping[str, Any]) -> str:
    """The kind of an argument in words, else the schema. An argument that may be null can be left out."""
    schema = _without_null(schema)
    kind = schema.get("type")
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(orjson.dumps(value).decode() for value in schema["enum"])[:_MOST_SCHEMA_CHARS]
    if isinstance(kind, str) and kind not in ("array", "object"):
        return kind
    shown = {name: value for name, value in schema.items() if name != "description"}
    return "as the JSON Schema " + orjson.dumps(shown).decode()[:_MOST_SCHEMA_CHARS]


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the values but null."""
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
