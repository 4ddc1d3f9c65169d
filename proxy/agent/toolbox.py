"""The tools of one chat: what a tool is, and which tools the model may call.

The entries of the body's `tools` follow the client's own tools, so the client's bytes stay. A new tool is a file with a
`Tool`, and a setting.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import orjson

from config.sections import ActionCallsSettings
from proxy.agent.conversation import NEW, Conversation
from proxy.agent.text_calls.quotes import BLOCK_MARK
from proxy.agent.text_calls.written_calls import typed
from proxy.agent.tools.result_store import ResultStore
from proxy.agent.writes.confirming import CodeAnswer, Proposed, Writes
from proxy.agent.writes.pending import PendingWrite
from proxy.apis.call import CallLimits
from proxy.apis.openapi.operation import Effect
from proxy.apis.results import cut_middle
from proxy.apis.schema_check import problems
from proxy.dialects.base import ModelRequest
from proxy.dialects.json_body import Edit, member_span, unescaped
from proxy.dialects.replies import BYTES_PER_TOKEN, ToolCall, estimated_tokens
from proxy.dialects.target import ToolProtocol
from proxy.exchange import ActionCall, ActionTrace, CallOutcome, Exchange

PREFIX = "act_"  # of the name of an operation
_MOST_NAME_CHARS = 64  # OpenAI's limit
_LEAST_CHARS = 400  # of a result: enough for the shape of a list
_LEAST_BYTES = 1 << 16  # of a response
Owner = Literal["gateway", "client", "nobody"]  # nobody: the gateway answers that there is no such tool


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a call."""

    text: str  # for the model
    outcome: CallOutcome = "ok"
    known: bool = False  # the text is of a result or a document: later calls may use values of the text
    fits: bool = False  # the text is cut to the call's share already


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was not made, with the reason for the model."""

    text: str
    outcome: CallOutcome


@dataclass(frozen=True, slots=True)
class NeedsPerson:
    """A call that cannot be made without a person's answer: the chat ends with the question."""

    question: str
    text: str  # for the model
    outcome: CallOutcome


@dataclass(frozen=True, slots=True)
class NeedsConfirmation:
    """A call that changes something, which a person has to confirm: the chat ends with the gateway's question."""

    proposed: Proposed
    text: str = "Waits for the person's confirmation; nothing was sent."  # for the model
    outcome: CallOutcome = "waits"


ToolResult = Done | Refused | NeedsPerson | NeedsConfirmation


class Tool(Protocol):
    """Something that a model may call. Tools are values: subclass, and give the members without a value."""

    name: str  # of the tool, unless the client has a tool of this name
    description: str
    schema: Mapping[str, Any]  # of the arguments
    effect: Effect = "reads"
    asked: Collection[str] = ()  # the arguments that only a person knows
    code: str = ""  # argument that a model may write as a code block of this language, in place of a call

    async def call(self, arguments: dict[str, Any], calling: "Calling") -> ToolResult:
        """Make a call. An exception is a gateway fault, and a text for the model."""

    @cached_property
    def confirms(self) -> bool:
        """Whether a call that changes something can be confirmed by a person; else no call is made."""
        return False

    @cached_property
    def origin(self) -> tuple[str, str]:
        """The set ("": no set) and the name there, for the record of the conversation."""
        return "", self.name

    @cached_property
    def label(self) -> str:
        """SET/OPERATION, or the name, for logs and headers."""
        return "/".join(filter(None, self.origin))

    @property
    def secrets(self) -> Collection[str]:
        """What no receipt may show."""
        return ()

    def checked(self, arguments: dict[str, Any]) -> dict[str, Any] | Refused:
        """A call's arguments, without half surrogate pairs, which no search takes."""
        if wrong := problems(self.schema, arguments):
            return Refused(f"Nothing was done: {'; '.join(wrong)}.", "invalid_arguments")
        texts = {name: one for name, one in arguments.items() if isinstance(one, str)}
        return arguments | {name: one.encode("utf-8", "replace").decode() for name, one in texts.items()}

    def suits(self, _question: str) -> bool:
        """Whether a chat is offered the tool for a question, if the setting `tools` names the tool."""
        return True

    def after_question(self, _reply: str, _chat: "ChatState") -> str:
        """How a model goes on after the person has answered the tool's question in a reply; "": another question."""
        return ""

    def definition(self, name: str) -> bytes:
        """The entry of the body's `tools`. name: in this chat."""
        function = {"name": name, "description": self.description, "parameters": self.schema}
        return orjson.dumps({"type": "function", "function": function})


def arguments_schema(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's argument schema. required: names of arguments."""
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


@dataclass(slots=True)
class Toolbox:
    """The tools that the gateway adds to one chat. Tools are only appended, because providers cache by prefix."""

    taken: Collection[str] = ()  # names of the client's tools
    tools: dict[str, Tool] = field(default_factory=dict)  # by the name in this chat
    conversation: Conversation = NEW  # the record of the earlier rounds
    others: bool = False  # whether the client has tools without a name, such as a provider's search
    result_store: ResultStore = field(default_factory=ResultStore)
    tool_protocol: ToolProtocol = "native"  # how the model is asked for calls
    refused: Collection[str] = ()  # SET/OPERATION whose definitions the model is known to refuse
    left_out: set[str] = field(default_factory=set)  # SET/OPERATION that the model has refused in this chat
    passages: Sequence[str] = ()  # the injected texts, without titles and marks
    sure: bool = False  # the search is sure that an operation answers the question
    go_on: str = ""  # how the model goes on after the person's answer to a question of the gateway
    changing: str = ""  # what the best operation for the question would change, which no chat is offered
    structured_output: bool = False  # structured output was requested: send only the last round's text
    instructions: Sequence[str] = ()  # the application's, of the request
    writes: Writes | None = None  # the calls that change something; None: no set allows such calls
    person: str = ""  # as the client names the person; "": unknown
    said: Sequence[str] | None = None  # by the person; None: the texts of all user messages
    answer: CodeAnswer | None = None  # the code line with which the conversation ends
    answered: Mapping[tuple[str, str], Tool] = field(default_factory=dict)  # by set and operation, of the answer
    ended: Sequence[PendingWrite] = ()  # calls that waited, and that a button has answered

    def owner(self, name: str) -> Owner:
        """Who answers a call. A client's tool without a name may have any name."""
        if self.name_here(name) in self.tools:
            return "gateway"
        return "client" if self.others or name in self.taken else "nobody"

    def claims(self, letters: str, *, begun: bool = False, made_up: bool = False) -> bool:
        """Whether a call as text with this name is for the gateway.

        begun: the name may go on. made_up: any name with the prefix counts, because small models make names up.
        """
        if made_up and letters.startswith(PREFIX) and letters not in self.taken:
            return True
        return any(name.startswith(letters) for name in self.tools) if begun else self.name_here(letters) in self.tools

    def name_here(self, name: str) -> str:
        """The name of a call's tool; a code block is called by its opening, such as ```sql."""
        if not name.startswith(BLOCK_MARK):
            return name
        return next((one for one, tool in self.tools.items() if tool.code and name == BLOCK_MARK + tool.code), name)

    def named(self, name: str) -> Tool | None:
        """The tool with this name. Models that write calls as text leave out the prefix: getOrder, not act_getOrder."""
        tool = self.tools.get(name)
        return tool if tool is not None or self.tool_protocol == "native" else self.tools.get(PREFIX + name)

    def typed(self, call: ToolCall) -> ToolCall:
        """A call that came as text, with the values that the tool's schema wants: some spellings have only texts."""
        tool = self.named(call.name)
        if tool is None:
            return call
        loose = {**tool.schema, "required": []}
        return typed(call, lambda name, value: not problems(loose, {name: value}))

    def may_go_on(self, name: str) -> bool:
        """Whether a name may be the first piece of another name of a tool, of the client's, too."""
        return any(one != name and one.startswith(name) for one in (*self.tools, *self.taken))

    @property
    def operations(self) -> list[Tool]:
        """The offered operations."""
        return [one for one in self.tools.values() if one.origin[0]]

    def name_of(self, tool: Tool) -> str:
        """The name of an offered tool in this chat."""
        return next(name for name, one in self.tools.items() if one is tool)

    def add(self, found: Sequence[Tool]) -> list[str]:
        """Append tools, each once, without those that the model refuses; returns the names."""
        return [self._added(one) for one in self.taking(found)]

    def taking(self, found: Sequence[Tool]) -> list[Tool]:
        """The tools whose definitions the model takes."""
        return [one for one in found if one.label not in self.left_out and one.label not in self.refused]

    def leave_out(self, name: str) -> str:
        """Offer an operation no longer; returns SET/OPERATION, or "" for another tool."""
        tool = self.tools.get(name)
        if tool is None or not tool.origin[0]:
            return ""
        del self.tools[name]
        self.left_out.add(tool.label)
        return tool.label

    def edit(self, request: ModelRequest) -> Edit:
        """The edit that appends the entries to the body's `tools`."""
        entries = b",".join([one.definition(name) for name, one in self.tools.items()])
        tools = request.fields.get("tools")
        if not tools:
            return member_edit(request, "tools", b"[" + entries + b"]")
        plain = unescaped(request.raw)
        _, end = member_span(request.raw, plain, plain.index(b"{"), "tools")
        return Edit(end - 1, end - 1, b"," + entries)

    def _added(self, tool: Tool) -> str:
        """The name of a tool, which is appended unless the tool is offered: the tool's name, or a similar name."""
        for name, one in self.tools.items():
            if one.origin == tool.origin:
                return name
        base = name = tool.name[:_MOST_NAME_CHARS]
        number = 2
        while name in self.tools or name in self.taken:
            end = f"_{number}"
            name, number = base[: _MOST_NAME_CHARS - len(end)] + end, number + 1
        self.tools[name] = tool
        return name


@dataclass(frozen=True, slots=True)
class ActionLimits:
    """The settings of a chat's calls."""

    settings: ActionCallsSettings
    call: CallLimits
    search_s: float | None = None  # time for the search if a chat has operations; None: no limit
    private: Collection[str] = ()  # sets after whose results no call of a public set is sent
    public: Collection[str] = ()
    total_bytes: int = sys.maxsize  # of all responses
    tools: Sequence[Tool] = ()  # of the setting `tools`, also for a chat without a set
    always: Collection[str] = ()  # names of those that every chat is offered

    def has_tool_of(self, toolbox: Toolbox) -> bool:
        """Whether a chat has one of the tools, because of an earlier question."""
        return any(one in self.tools for one in toolbox.tools.values())


@dataclass(frozen=True, slots=True)
class CallShare:
    """The share of one call."""

    call: CallLimits
    text_bytes: int  # of the result's text
    short: bool  # the remaining budget allows less than a whole result

    def fitted(self, text: str) -> str:
        """The text within the share: letters outside ASCII take several bytes."""
        size = len(text.encode("utf-8", "replace"))
        return text if size <= self.text_bytes else cut_middle(text, len(text) * self.text_bytes // size)


@dataclass(slots=True)
class ResultBudget:
    """The remaining budget of one chat."""

    tokens: int
    size_bytes: int

    def share(self, calls: int, limits: CallLimits) -> CallShare:
        """The share of each call, if so many run together."""
        text_bytes = max(_LEAST_CHARS, self.tokens * BYTES_PER_TOKEN // calls)
        max_bytes = max(_LEAST_BYTES, self.size_bytes // calls)
        limited = replace(
            limits, max_chars=min(limits.max_chars, text_bytes), max_bytes=min(limits.max_bytes, max_bytes)
        )
        return CallShare(limited, text_bytes, text_bytes < limits.max_chars)

    def spend(self, text: str) -> None:
        """Count a text that the model reads."""
        self.tokens = max(0, self.tokens - estimated_tokens(text.encode("utf-8", "replace")))


@dataclass(slots=True)
class ChatState:
    """What the calls of one chat share."""

    toolbox: Toolbox
    limits: ActionLimits
    exchange: Exchange
    trace: ActionTrace
    known: list[str]  # the texts in which a value of a call may stand
    said: Sequence[str]  # by the person alone
    listed: list[tuple[str, bool]]  # results, and whether a word of the model narrows the rows
    private: set[str]  # the private sets of which the conversation has results, also of calls that run
    budget: ResultBudget
    until_s: float
    calls_left: int
    private_before: Sequence[str] = ()  # private sets of which the model has read results
    round: int = 0
    proposed: set[str] = field(default_factory=set)  # digests of the calls of this question that change something
    failures: dict[str, set[int]] = field(default_factory=dict)  # tool -> rounds with wrong arguments
    incomplete: set[str] = field(default_factory=set)  # tools that were called without a value
    wanted: dict[str, str] = field(
        default_factory=dict
    )  # tool -> name of the tool that waits for a value of the result

    def note_private(self, name: str) -> None:
        """Note that the conversation has a result of a set."""
        if name in self.limits.private:
            self.private.add(name)
            self.trace.private = sorted(self.private)


@dataclass(frozen=True, slots=True)
class Calling:
    """One call of a tool in a chat."""

    chat: ChatState
    traced: ActionCall
    share: CallShare  # of the limits

    @property
    def max_chars(self) -> int:
        """Of the result's text."""
        return self.share.call.max_chars


def member_edit(request: ModelRequest, name: str, value: bytes) -> Edit:
    """The edit that gives a member of the body a value, in place of the client's value or as the first member."""
    plain = unescaped(request.raw)
    opening = plain.index(b"{")
    if name in request.fields:
        return Edit(*member_span(request.raw, plain, opening, name), value)
    return Edit(opening + 1, opening + 1, b'"%b":%b,' % (name.encode(), value))
