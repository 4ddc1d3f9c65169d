"""How each model is asked for calls: the protocols, which one it takes (learned from refusals and replies), and
requests.

native       operations are the request's `tools`
text         instructions list the operations; the model writes a call as JSON
none         nothing is offered: set by `models.NAME.tools`, or beside structured output if the model
             refuses tools there

Clients see none of this: `protocol_replies` reads the replies. Hidden rounds are stored as tool calls and written in
whichever protocol the model is asked by now, each time with the same bytes.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from proxy.agent.conversation import HiddenMessages, edits_of
from proxy.agent.text_calls.written_calls import example
from proxy.agent.toolbox import Tool, Toolbox, member_edit
from proxy.agent.tools.operation_tool import FIND
from proxy.dialects.base import ModelRequest
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.dialects.json_body import Edit
from proxy.dialects.replies import called_tool, json_bytes, tool_name
from proxy.dialects.target import Target, ToolProtocol

LEARNED: tuple[ToolProtocol, ...] = ("native", "text")
# For the log: what a model asked by text lacks, and what the gateway does instead.
_NO_CALLS = ("tool calls", "operations are offered by text")
_MOST_TEXT_CALLS = 3  # in a row, before a model that once called by tools counts as unable to
_MOST_MODELS = 1000
_NO_TOOLS = ("tools", "no operation is offered beside tools of a client")
_NO_FORM = ("tools beside a form of the answer", "no operation is offered beside a form of the answer")
_SCHEMA = "way to read the schema of "
_NO_PROVIDER_FIELDS = ("thoughts in a request", "calls go back without thoughts")
# Words that refuse tools beside structured output.
FORM_REFUSED = (b"tool", b"function call", b"response_format", b"response mime", b"json", b"schema", b"grammar")
TOOLS_REFUSED = (b"tool",)  # words that refuse tools alone


def wants_structured_output(fields: Mapping[str, Any]) -> bool:
    """Whether a chat completion request wants structured output, such as JSON."""
    form = fields.get("response_format")
    return bool(form) and form != {"type": "text"}


# Where errors place a function: `tools[3]`, `tools.3.custom`, `"tools", 3`. Google counts function declarations in one
# tool.
_PLACES = (re.compile(r"declarations\W{1,4}(\d+)"), re.compile(r"tools\W{1,4}(\d+)"))


def refused_function(error: bytes, names: Sequence[str], before: int) -> str:
    """The function whose definition an error refuses; "": it is about all functions, or none.

    names: functions in request order, after `before` others.
    """
    text = error.decode("utf-8", "replace").lower()
    named = [one for one in names if re.search(rf"(?<![\w-]){re.escape(one.lower())}(?![\w-])", text)]
    if len(named) == 1:
        return named[0]
    found = next(filter(None, (pattern.search(text) for pattern in _PLACES)), None)
    place = int(found[1][:9]) - before if found is not None else -1
    return names[place] if 0 <= place < len(names) else ""


@dataclass(frozen=True, slots=True)
class ToolForm:
    """How a model is asked for calls in one chat."""

    protocol: ToolProtocol
    structured_output: bool  # is wanted
    refused: Collection[str]  # operations (SET/OPERATION) whose definitions the model is known to refuse


class ToolProtocols:
    """What this process has learned per upstream and model, for a time."""

    def __init__(self, unsupported: UnsupportedFeatures) -> None:
        self._unsupported = unsupported
        # Upstream and model that has made calls by tools -> calls as text since, in a row.
        self._text_calls_in_a_row: dict[tuple[str, str], int] = {}

    def form(self, target: Target, fields: Mapping[str, Any]) -> ToolForm:
        """The configured protocol, else the first that the model is not known to lack. fields: the request's.

        Beside client tools, only a model that refuses tools is asked by text.
        """
        lacks, structured_output = self._unsupported.known(target, model=target.model), wants_structured_output(fields)
        no_calls = _NO_TOOLS if fields.get("tools") else _NO_CALLS
        protocol = target.tools or ("text" if no_calls[0] in lacks else "native")
        if structured_output and _NO_FORM[0] in lacks:
            protocol = "none"
        refused = {name.removeprefix(_SCHEMA) for name in lacks if name.startswith(_SCHEMA)}
        return ToolForm(protocol, structured_output, refused)

    def calls_by_tools(self, target: Target) -> bool:
        """Whether this model has made a call by tools."""
        return (target.api_base, target.model) in self._text_calls_in_a_row

    def note_call_by_tools(self, target: Target) -> None:
        """Note that a model has made a call by tools, so that a single call as text does not change how it is asked."""
        if len(self._text_calls_in_a_row) >= _MOST_MODELS:
            self._text_calls_in_a_row.clear()
        self._text_calls_in_a_row[target.api_base, target.model] = 0

    def _counts_as_native(self, target: Target) -> bool:
        """Note one more call as text; returns whether the model still counts as calling by tools."""
        key = target.api_base, target.model
        in_a_row = self._text_calls_in_a_row.pop(key, _MOST_TEXT_CALLS)
        if in_a_row < _MOST_TEXT_CALLS:
            self._text_calls_in_a_row[key] = in_a_row + 1
        return in_a_row < _MOST_TEXT_CALLS

    def after(self, target: Target, protocol: ToolProtocol, *, refused: bool) -> ToolProtocol:
        """This chat's protocol after one that does not suit the model.

        refused: by an error, not by a call as text. A configured protocol stays; if it or the last one is refused, the
        result is "none".
        """
        if target.tools or protocol != "native":
            return "none" if refused else protocol
        return "text" if refused or self._unsupported.knows(target, _NO_CALLS[0], model=target.model) else "native"

    def learn(self, target: Target, protocol: ToolProtocol, *, refused: bool, structured_output: bool = False) -> None:
        """Learn that a protocol does not suit a model. refused: as in `after`. structured_output: was wanted, too."""
        if structured_output:
            self._learn(target, *_NO_FORM)
        # A call as text may come from one operation's refused schema, or be JSON that a person asked for.
        elif not target.tools and protocol == "native" and not self._counts_as_native(target):
            if refused:
                self._learn(target, *_NO_TOOLS)
            self._learn(target, *_NO_CALLS)

    def refuse(self, target: Target, operation: str) -> None:
        """Learn that a model refuses an operation's definition."""
        self._learn(target, _SCHEMA + operation, "the operation is left out")

    def refused_of(self, name: str) -> Sequence[tuple[str, str]]:
        """A set's operations whose definitions a model refuses, each with that model."""
        start = f"{_SCHEMA}{name}/"
        return [(one.removeprefix(start), model) for model, one in self._unsupported.names() if one.startswith(start)]

    def accepts_provider_fields(self, target: Target) -> bool:
        """Whether a model takes back its messages' provider fields."""
        return not self._unsupported.knows(target, _NO_PROVIDER_FIELDS[0], model=target.model)

    def refuse_provider_fields(self, target: Target) -> None:
        """Learn that a model refuses its messages' provider fields."""
        self._learn(target, *_NO_PROVIDER_FIELDS)

    def _learn(self, target: Target, name: str, instead: str) -> None:
        if not self._unsupported.knows(target, name, model=target.model):
            self._unsupported.learn(target, name, instead, model=target.model)


# --- requests in each protocol ----------------------------------------------------------------------------------------


# Request members that would clash with calls as text: client tools, stop words, token probabilities.
_UNSUITED = ("tools", "stop", "logprobs", "top_logprobs")
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


def suits(protocol: ToolProtocol, request: ModelRequest) -> bool:
    """Whether an offer by this protocol leaves a request's meaning unchanged."""
    if protocol == "native":
        return True
    fields = request.fields
    if wants_structured_output(fields):
        return False
    return not any(fields.get(name) for name in _UNSUITED) and fields["messages"][-1].get("role") == "user"


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
    listed = "\n".join(_listed(one, toolbox.tools[one["name"]].asked) for one in functions)
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


def _listed(function: Mapping[str, Any], asked: Collection[str] = ()) -> str:
    """An operation's lines in the instructions. asked: arguments that only a person knows."""
    schema = function["parameters"]
    members = ", ".join(f'"{name}": …' for name in schema["properties"])
    rows = [f"{function['name']}: {' '.join(function['description'].split())}", f"  arguments: {{{members}}}"]
    for name, given in schema["properties"].items():
        one = given if isinstance(given, dict) else {}  # the schema `true`
        required = ", required" if name in schema["required"] else ""
        required += ", only the user knows it" if name in asked else ""
        meaning = ": " + " ".join(str(one["description"]).split()) if one.get("description") else ""
        rows.append(f"  {name} ({_kind(one)}{required}){meaning}")
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
