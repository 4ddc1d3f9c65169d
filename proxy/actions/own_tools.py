"""The gateway's own tools: tools that the gateway answers without a call of an API."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from proxy.action_trace import CallOutcome
from proxy.dialects.replies import called_tool
from retrieval.errors import RetrievalError

FIND = "find_actions"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of a tool for the model."""

    text: str
    known: bool = False  # the text is of a result or a document: later calls may use values of the text
    outcome: CallOutcome = "ok"


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool of the gateway."""

    name: str
    description: str
    schema: Mapping[str, Any]  # of the arguments, which are checked before the call
    answer: Callable[[dict[str, Any], int], Awaitable[ToolAnswer]]  # of the arguments, at most so many characters

    @property
    def origin(self) -> tuple[str, str]:
        """The set ("": no set) and the name, for the record of the conversation."""
        return "", self.name

    def definition(self, tool: str) -> bytes:
        """The entry of the body's `tools`. tool: the name in this chat."""
        return tool_entry(tool, self.description, self.schema)


def tool_entry(name: str, description: str, schema: Mapping[str, Any]) -> bytes:
    """An entry of the body's `tools`."""
    function = {"name": name, "description": description, "parameters": schema}
    return orjson.dumps({"type": "function", "function": function})


def tool_name(row: Any) -> str:
    """The name in an entry of `tools`, in a call of a tool, or in a piece of a call; "": no name."""
    return str((called_tool(row) or {}).get("name") or "")


def arguments_schema(required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the arguments of a tool of the gateway, with one required argument."""
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


def find_actions(find: Callable[[str], Awaitable[Mapping[str, str]]], seconds: float | None = None) -> OwnTool:
    """The search for further operations.

    find: makes tools of the operations for a query; returns the name of each tool -> what the operation does.
    seconds: for a search; None: no limit.
    """

    async def answer(arguments: dict[str, Any], _max_chars: int) -> ToolAnswer:
        try:
            async with asyncio.timeout(seconds):
                found = await find(arguments["query"])
        except (RetrievalError, TimeoutError):
            return ToolAnswer("The search does not work at present.", outcome="failed")
        if not found:
            return ToolAnswer("No operation was found.")
        rows = (f"{name}: {summary}" for name, summary in found.items())
        return ToolAnswer("These tools can be called now:\n" + "\n".join(rows))

    return OwnTool(
        FIND,
        "Search for further operations of the APIs, where no other tool fits. "
        "The operations found are tools afterwards.",
        arguments_schema(
            "query",
            query={"type": "string", "minLength": 1, "description": "What the operation should do, in a few words"},
        ),
        answer,
    )
