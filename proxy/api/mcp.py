"""The MCP server: `tools` for programs that speak the Model Context Protocol, at /mcp and on stdio.

The official SDK speaks it. Importing that takes most of a second: the first request waits, in a thread. No state is
kept between requests (no MCP sessions), so any worker can answer any request.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from config.sections import RetrievalSettings
from proxy.api.knowledge.access import index_errors, no_index
from proxy.api.tools import Tools, exchange_of, tool_schemas
from proxy.asgi import Message, Receive, Scope, Send
from proxy.body import whole_body
from proxy.caller import Rights
from proxy.dialects.content_encoding import content_encoding
from proxy.dialects.errors import ApiError, method_not_allowed
from retrieval.errors import RetrievalError
from retrieval.knowledge import Knowledge

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from proxy.api.action_tools import ActionTools
    from proxy.api.table_tools import TableTools

PATH = "/mcp"
_MOST_BYTES = 1 << 18  # per request: a question and a filter; the SDK parses in the event loop
_SEARCH = "Find passages in the team's own documents."
_FETCH = "Read one of the documents that a search found, in full."


@dataclass(eq=False, repr=False)
class Mcp:
    """MCP over HTTP: one answer per request."""

    knowledge: Knowledge
    settings: RetrievalSettings
    _: KW_ONLY
    max_body_bytes: int
    actions: "ActionTools | None" = None  # None: no API has calls that a person confirms
    tables: "TableTools | None" = None  # None: no database can be queried
    _starting: "asyncio.Task[StreamableHTTPSessionManager] | None" = field(default=None, init=False)
    _running: "asyncio.Task[None] | None" = field(default=None, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # other methods are for sessions
            raise method_not_allowed(scope["method"], scope["path"], ["POST"])
        if not self.settings.enabled:
            raise no_index()
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        manager = await asyncio.shield(self._starting)
        if content_encoding(scope["headers"]):
            receive = _received(await whole_body(scope, receive, max_bytes=self.max_body_bytes), receive)
        await manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """Cancel running requests."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _start(self) -> "StreamableHTTPSessionManager":
        def made() -> "StreamableHTTPSessionManager":
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

            # `auth` has checked caller and origin.
            return StreamableHTTPSessionManager(
                server(self.knowledge, self.settings, _rights, self.actions, self.tables),
                stateless=True,
                json_response=True,
                max_request_body_size=min(self.max_body_bytes, _MOST_BYTES),
            )

        manager = await asyncio.to_thread(made)
        up = asyncio.Event()
        self._running = asyncio.create_task(_run(manager, up))
        await up.wait()
        return manager


def _received(body: bytes, receive: Receive) -> Receive:
    """A `receive` that first returns the unpacked body."""
    waiting = [body]

    async def unpacked() -> Message:
        return {"type": "http.request", "body": waiting.pop()} if waiting else await receive()

    return unpacked


def server(
    knowledge: Knowledge,
    settings: RetrievalSettings,
    rights: "Callable[[ServerRequestContext[Any, Any]], Rights]",
    actions: "ActionTools | None" = None,
    tables: "TableTools | None" = None,
) -> "Server[Any]":
    """The tools' server. rights: finds a caller's rights, or raises ApiError.

    actions: tools that call operations. tables: tools that query databases.
    """
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    logging.getLogger("mcp").setLevel(logging.WARNING)  # logs every request
    tools = Tools(knowledge, settings)
    answers = {"search": tools.search, "fetch": tools.fetch}
    more = [one for one in (actions, tables) if one is not None]

    async def list_tools(context: "ServerRequestContext[Any, Any]", _params: object) -> types.ListToolsResult:
        names: list[str] = []
        with suppress(ApiError, RetrievalError, TimeoutError):  # tools are listed even without an index
            async with asyncio.timeout(settings.deadline_s):
                names = await tools.readable(rights(context))
        reading = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        there = f" Collections: {', '.join(names)}." if names else ""
        texts = {"search": _SEARCH + there, "fetch": _FETCH}
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    title=name.capitalize(),
                    description=texts[name],
                    input_schema=taken,
                    output_schema=given,
                    annotations=reading,
                )
                for name, (taken, given) in tool_schemas().items()
            ]
            + [tool for one in more for tool in one.tools()]
        )

    async def call_tool(
        context: "ServerRequestContext[Any, Any]", params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        answer = answers.get(params.name)
        other = next((one for one in more if params.name in {tool.name for tool in one.tools()}), None)
        if answer is None and other is None:
            *names, last = [*answers, *(tool.name for one in more for tool in one.tools())]
            known = f"{', '.join(names)} and {last}"
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are {known}")
        try:
            with index_errors():
                if answer is None:
                    assert other is not None
                    return await other.call(context, params, settings.deadline_s)
                async with asyncio.timeout(settings.deadline_s):
                    found = await answer(params.arguments or {}, rights(context))
        except ApiError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=error.message)], is_error=True)
        text = types.TextContent(type="text", text=msgspec.json.encode(found).decode())  # some programs read only text
        return types.CallToolResult(content=[text], structured_content=msgspec.to_builtins(found))

    made: Server[Any] = Server("ragway", version=version("ragway"), on_list_tools=list_tools, on_call_tool=call_tool)
    if actions is not None:
        made.middleware.append(actions.seal)
    return made


def _rights(context: "ServerRequestContext[Any, Any]") -> Rights:
    return exchange_of(context).rights


async def _run(manager: "StreamableHTTPSessionManager", up: asyncio.Event) -> None:
    async with manager.run():
        up.set()
        await asyncio.Event().wait()
