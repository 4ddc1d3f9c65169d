"""How each model is asked for calls: the protocols, and which one it takes (learned from refusals and replies).

native       operations are the request's `tools`
text         instructions list the operations; the model writes a call as JSON
none         nothing is offered: set by `models.NAME.tools`, or beside structured output if the model
             refuses tools there

Clients see none of this: `transcript` writes the requests, and `protocol_replies` reads the replies. Hidden rounds are
stored as tool calls and written in whichever protocol the model is asked by now, each time with the same bytes.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.dialects.base import ModelRequest
from proxy.dialects.deviations import UnsupportedFeatures
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


# Request members that would clash with calls as text: client tools, stop words, token probabilities.
_UNSUITED = ("tools", "stop", "logprobs", "top_logprobs")


def suits(protocol: ToolProtocol, request: ModelRequest) -> bool:
    """Whether an offer by this protocol leaves a request's meaning unchanged."""
    if protocol == "native":
        return True
    fields = request.fields
    if wants_structured_output(fields):
        return False
    return not any(fields.get(name) for name in _UNSUITED) and fields["messages"][-1].get("role") == "user"


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
