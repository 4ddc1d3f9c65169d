"""The tools that the gateway adds to one chat, and the entries of the body's `tools`.

The entries follow the client's own tools, so the client's bytes stay.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.actions.memory import NEW, Conversation, edits_of
from proxy.actions.own_tools import OwnTool, tool_entry
from proxy.actions.shelf import Shelf
from proxy.actions.spelled_calls import typed
from proxy.apis.call import Api
from proxy.apis.openapi.operation import Operation
from proxy.apis.schema_check import problems
from proxy.dialects.base import ModelRequest
from proxy.dialects.json_body import Edit, member_span, unescaped
from proxy.dialects.quoting import quoted, quoted_label
from proxy.dialects.replies import ToolCall
from proxy.exchange import ToolsWay
from retrieval.records.search import Turn

PREFIX = "act_"
_MOST_NAME_CHARS = 64  # OpenAI's limit
_MOST_DESCRIPTION_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class OfferedOperation:
    """An operation that a chat may call."""

    set: str
    operation: Operation
    api: Api
    schema: dict[str, Any]  # of the arguments, without the fixed arguments

    @property
    def label(self) -> str:
        """The set and the operation, for logs and headers."""
        return f"{self.set}/{self.operation.name}"

    @property
    def origin(self) -> tuple[str, str]:
        """The set and the operation, for the record of the conversation."""
        return self.set, self.operation.name

    @property
    def path(self) -> str:
        """The path for the model, without the names of fixed arguments."""
        path = self.operation.path
        for one in self.operation.parameters:
            if one.place == "path" and one.argument not in self.schema["properties"]:
                path = path.replace(f"{{{one.name}}}", "…")
        return path

    def definition(self, tool: str) -> bytes:
        """The entry of the body's `tools`."""
        one = self.operation
        words = ". ".join(text.strip(". \n") for text in (one.summary, one.description) if text.strip(". \n"))
        description = quoted(f"{words or one.operation_id or one.name} ({self.set}: {one.method} {self.path})")
        if len(description) > _MOST_DESCRIPTION_CHARS:
            description = description[: _MOST_DESCRIPTION_CHARS - 1] + "…"
        return tool_entry(tool, description, self.schema)


@dataclass(slots=True)
class Offer:
    """The tools that the gateway adds to one chat. Tools are only appended, because providers cache by prefix."""

    search: Callable[[Sequence[Turn]], Awaitable[Sequence[OfferedOperation]]]
    taken: Collection[str]  # names of the client's tools
    tools: dict[str, OfferedOperation | OwnTool] = field(default_factory=dict)  # by the name of the tool
    conversation: Conversation = NEW  # the record of the earlier rounds
    others: bool = False  # whether the client has tools without a name, such as a provider's search
    shelf: Shelf = field(default_factory=Shelf)
    way: ToolsWay = "native"  # in which the model is asked for calls
    refuses: Callable[[str], bool] = lambda _: False  # whether the model refuses the definition of SET/OPERATION
    left_out: set[str] = field(default_factory=set)  # SET/OPERATION that the model has refused in this chat
    passages: bool = False  # the model gets passages, too
    sure: bool = False  # the search is sure that an operation answers the question
    go_on: str = ""  # how the model goes on after the person's answer to a question of the gateway
    changing: str = ""  # what the best operation for the question would change, which no chat is offered
    form: bool = False  # the client wants a form of the answer: the answer is the model's text of one round alone

    def handles(self, name: str) -> bool:
        """Whether the gateway answers a call: of a tool of the gateway's, or of a tool that does not exist."""
        return name in self.tools or not (self.others or name in self.taken)

    def owns(self, name: str) -> bool:
        """Whether a tool is the gateway's."""
        return name in self.tools

    def names_call(self, name: str) -> bool:
        """Whether an answer of JSON with this name is a call for the gateway: small models make names up."""
        return self.owns(name) or (name.startswith(PREFIX) and name not in self.taken)

    def may_name_call(self, letters: str) -> bool:
        """Whether a name that begins with these letters may be the name of such a call."""
        return self.owns_beginning(letters) or self.names_call(letters)

    def named(self, name: str) -> OfferedOperation | OwnTool | None:
        """The tool with this name. Models that write calls as text leave out the prefix: getOrder, not act_getOrder."""
        tool = self.tools.get(name)
        return tool if tool is not None or self.way == "native" else self.tools.get(PREFIX + name)

    def typed(self, call: ToolCall) -> ToolCall:
        """A call that came as text, with the values that the tool's schema wants: some spellings have only texts."""
        tool = self.named(call.name)
        if tool is None:
            return call
        loose = {**tool.schema, "required": []}
        return typed(call, lambda name, value: not problems(loose, {name: value}))

    def owns_beginning(self, letters: str) -> bool:
        """Whether the name of a tool of the gateway's begins with these letters."""
        return any(name.startswith(letters) for name in self.tools)

    def may_go_on(self, name: str) -> bool:
        """Whether a name may be the first piece of another name of a tool, of the client's, too."""
        return any(one != name and one.startswith(name) for one in (*self.tools, *self.taken))

    @property
    def operations(self) -> list[OfferedOperation]:
        """The offered operations."""
        return [one for one in self.tools.values() if isinstance(one, OfferedOperation)]

    def add(self, found: Sequence[OfferedOperation]) -> list[str]:
        """Append operations, each once; returns the names of the tools."""
        return [self._added(PREFIX + one.operation.name, one) for one in self.taking(found)]

    def taking(self, found: Sequence[OfferedOperation]) -> list[OfferedOperation]:
        """The operations whose definitions the model takes."""
        return [one for one in found if one.label not in self.left_out and not self.refuses(one.label)]

    def leave_out(self, name: str) -> str:
        """Offer an operation no longer; returns SET/OPERATION, or "" for another tool."""
        if not isinstance(one := self.tools.get(name), OfferedOperation):
            return ""
        del self.tools[name]
        self.left_out.add(one.label)
        return one.label

    def add_own(self, tool: OwnTool) -> str:
        """Append a tool of the gateway, once; returns the name of the tool."""
        return self._added(tool.name, tool)

    async def find(self, query: str) -> Mapping[str, str]:
        """Append the operations for a query; returns the name of each tool -> what the operation does.

        Raises RetrievalError.
        """
        found = self.taking(await self.search([Turn("user", query)]))
        summaries = (quoted_label(one.operation.summary or one.path) for one in found)
        return dict(zip(self.add(found), summaries, strict=True))

    def edit(self, request: ModelRequest) -> Edit:
        """The edit that appends the entries to the body's `tools`."""
        entries = b",".join([one.definition(name) for name, one in self.tools.items()])
        tools = request.fields.get("tools")
        if not tools:
            return member_edit(request, "tools", b"[" + entries + b"]")
        plain = unescaped(request.raw)
        _, end = member_span(request.raw, plain, plain.index(b"{"), "tools")
        return Edit(end - 1, end - 1, b"," + entries)

    def edits(self, request: ModelRequest) -> Sequence[Edit]:
        """The edits for the tools and for the hidden messages of earlier rounds."""
        return [self.edit(request), *edits_of(request, self.conversation.hidden, [])]

    def _added(self, wanted: str, tool: OfferedOperation | OwnTool) -> str:
        """The name of a tool, which is appended unless the tool is offered: the wanted name, or a similar name."""
        for name, one in self.tools.items():
            if one.origin == tool.origin:
                return name
        base = name = wanted[:_MOST_NAME_CHARS]
        number = 2
        while name in self.tools or name in self.taken:
            end = f"_{number}"
            name, number = base[: _MOST_NAME_CHARS - len(end)] + end, number + 1
        self.tools[name] = tool
        return name


def member_edit(request: ModelRequest, name: str, value: bytes) -> Edit:
    """The edit that gives a member of the body a value, in place of the client's value or as the first member."""
    plain = unescaped(request.raw)
    opening = plain.index(b"{")
    if name in request.fields:
        return Edit(*member_span(request.raw, plain, opening, name), value)
    return Edit(opening + 1, opening + 1, b'"%b":%b,' % (name.encode(), value))
