"""Reading on in a result that was cut, as a tool."""

from dataclasses import dataclass
from typing import Any

from proxy.agent.toolbox import Calling, Done, Refused, Tool, ToolResult, arguments_schema
from proxy.agent.tools.result_reading import NoPlace, read_on
from proxy.agent.tools.result_store import ResultStore
from proxy.dialects.json_body import by_size
from retrieval.errors import RetrievalError

_NOT_HERE = "No result has this id, or the result is no longer kept. Call the operation again."


@dataclass(eq=False)
class ReadResult(Tool):
    """Reads stored results."""

    store: ResultStore
    name = "read_result"
    description = (
        "Read on in a result that was cut: a place in the JSON, the rows that hold some words, or the next page."
    )
    schema = arguments_schema(
        "id",
        id={"type": "string", "description": "The id that the cut result names"},
        path={
            "type": "string",
            "description": "A place, as a JSON Pointer: /results/7 is the element 7, /results/20-39 a range",
        },
        query={"type": "string", "description": "Words: the answer has the rows with the words"},
        start={"type": "integer", "minimum": 0, "description": "The first character of the page"},
    )

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        try:
            content = await self.store.content(arguments["id"])
        except RetrievalError:
            return Refused("The result cannot be read at present.", "failed")
        if content is None:
            return Done(_NOT_HERE)

        def read() -> str:
            return read_on(
                content.decode(),
                path=arguments.get("path", ""),
                query=arguments.get("query", ""),
                start=int(arguments.get("start", 0)),  # 8000.0 is a whole number, too
                max_chars=calling.max_chars,
            )

        try:
            return Done(await by_size(content, read), known=True)
        except NoPlace as error:
            return Done(f"The path names no place: {error}.", known=True)
