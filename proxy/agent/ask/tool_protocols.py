"""The protocols to ask a model for calls, and which one each model takes, learned from refusals and replies.

native       the operations are the request's `tools`
text         instructions list the operations; the model writes a call as JSON
none         no operation is offered: by the setting `models.NAME.tools`, or beside structured output that the model
             refuses with tools
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
