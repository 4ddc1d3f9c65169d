"""The search for further operations, as a tool."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from proxy.actions.operation_tool import OperationTool
from proxy.actions.toolbox import Calling, Done, Refused, Tool, ToolResult, arguments_schema
from proxy.dialects.quoting import quoted_label
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn

FIND = "find_actions"


class FindActions(Tool):
    """Makes tools of the operations that are found."""

    name = FIND
    description = (
        "Search for further operations of the APIs, where no other tool fits. "
        "The operations found are tools afterwards."
    )
    schema = arguments_schema(
        "query",
        query={"type": "string", "minLength": 1, "description": "What the operation should do, in a few words"},
    )

    def __init__(
        self, search: Callable[[Sequence[Turn]], Awaitable[Sequence[OperationTool]]], seconds: float | None = None
    ) -> None:
        """seconds: for a search; None: no limit."""
        self._search = search
        self._seconds = seconds

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        """Add the operations for a query to the tools of the chat."""
        toolbox = calling.chat.toolbox
        try:
            async with asyncio.timeout(self._seconds):
                found = await self._search([Turn("user", arguments["query"])])
        except (RetrievalError, TimeoutError):
            return Refused("The search does not work at present.", "failed")
        rows = [f"{name}: {quoted_label(one.summary)}" for one in found for name in toolbox.add([one])]
        return Done("These tools can be called now:\n" + "\n".join(rows) if rows else "No operation was found.")
