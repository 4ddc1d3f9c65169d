"""The MCP server: `tools` for programs that speak the Model Context Protocol, at /mcp and on stdio.

The official SDK speaks it. Importing that takes most of a second: the first request waits, in a thread. No state is
kept between requests (no MCP sessions), so any worker can answer any request.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from config.sections import RetrievalSettings
from proxy.api.knowledge.access import index_errors, no_index
from proxy.api.tools import ADD, LARGE, Tools, exchange_of, tool_schemas
from proxy.asgi import Message, Receive, Scope, Send, send_whole
from proxy.body import whole_body
from proxy.dialects.errors import ApiError, method_not_allowed
from proxy.dialects.json_body import LARGE_BYTES, JsonBody
from proxy.exchange import EXCHANGE, Exchange
from retrieval.errors import RetrievalError
from retrieval.knowledge import Knowledge

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from proxy.api.action_tools import ActionTools
    from proxy.api.table_tools import TableTools

PATH = "/mcp"
_MOST_MB = 6  # per request: a file of 4 MB in base64, read in a thread in some 10 ms
_DOCUMENT = "ragway.document"  # in the ASGI scope: a request's arguments with the document
_INVALID_REQUEST = -32600  # of JSON-RPC
_SEARCH = "Find passages in the team's own documents."
_FETCH = "Read one of the documents that a search found, in full."
_ADD = (
    "Write a document into a collection, so that search finds it; replaces the collection's document of the same name."
)


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
        body = await whole_body(scope, receive, max_bytes=self.max_body_bytes)
        if len(body) > LARGE_BYTES:  # the SDK parses in the event loop: 1 MB of lists takes 0.4 s
            try:
                body = await asyncio.to_thread(_without_document, body, scope)
            except ApiError as error:
                await _send_error(send, error)
                return
        await manager.handle_request(scope, _received(body, receive), send)

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
                server(self.knowledge, self.settings, exchange_of, self.actions, self.tables),
                stateless=True,
                json_response=True,
                max_request_body_size=self.max_body_bytes,  # of the header; the body is small by then
            )

        manager = await asyncio.to_thread(made)
        up = asyncio.Event()
        self._running = asyncio.create_task(_run(manager, up))
        await up.wait()
        return manager


def _received(body: bytes, receive: Receive) -> Receive:
    """A `receive` that first returns the body."""
    waiting = [body]

    async def unpacked() -> Message:
        return {"type": "http.request", "body": waiting.pop()} if waiting else await receive()

    return unpacked


def server(
    knowledge: Knowledge,
    settings: RetrievalSettings,
    caller: "Callable[[ServerRequestContext[Any, Any]], Exchange]",
    actions: "ActionTools | None" = None,
    tables: "TableTools | None" = None,
) -> "Server[Any]":
    """The tools' server. caller: finds the exchange of a request, or raises ApiError.

    actions: tools that call operations. tables: tools that query databases.
    """
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    logging.getLogger("mcp").setLevel(logging.WARNING)  # logs every request
    tools = Tools(knowledge, settings)
    answers = {"search": tools.search, "fetch": tools.fetch, ADD: tools.add}
    more = [one for one in (actions, tables) if one is not None]

    async def list_tools(context: "ServerRequestContext[Any, Any]", _params: object) -> types.ListToolsResult:
        names, rights = list[str](), caller(context).rights
        with suppress(ApiError, RetrievalError, TimeoutError):  # tools are listed even without an index
            async with asyncio.timeout(settings.deadline_s):
                names = await tools.readable(rights)
        reading = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        writing = types.ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
        )
        texts = {"search": _SEARCH + _there(names), "fetch": _FETCH}
        if rights.write.granted:
            texts[ADD] = _ADD + _there([name for name in names if name in rights.write])
        schemas = tool_schemas()
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    title=name.replace("_", " ").capitalize(),
                    description=text,
                    input_schema=schemas[name][0],
                    output_schema=schemas[name][1],
                    annotations=writing if name == ADD else reading,
                )
                for name, text in texts.items()
            ]
            + [tool for one in more for tool in one.tools()]
        )

    async def call_tool(
        context: "ServerRequestContext[Any, Any]", params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        exchange, asked = caller(context), {**(params.arguments or {}), **_document(context)}
        offered = answers if exchange.rights.write.granted else {name: answers[name] for name in answers if name != ADD}
        answer = offered.get(params.name)
        other = next((one for one in more if params.name in {tool.name for tool in one.tools()}), None)
        if answer is None and other is None:
            *names, last = [*offered, *(tool.name for one in more for tool in one.tools())]
            known = f"{', '.join(names)} and {last}"
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are {known}")
        try:
            with index_errors():
                if answer is None:
                    assert other is not None
                    return await other.call(context, params, settings.deadline_s)
                async with asyncio.timeout(None if params.name == ADD else settings.deadline_s):  # it has its own
                    found = await answer(asked, exchange)
        except ApiError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=error.message)], is_error=True)
        text = types.TextContent(type="text", text=msgspec.json.encode(found).decode())  # some programs read only text
        return types.CallToolResult(content=[text], structured_content=msgspec.to_builtins(found))

    made: Server[Any] = Server("ragway", version=version("ragway"), on_list_tools=list_tools, on_call_tool=call_tool)
    if actions is not None:
        made.middleware.append(actions.seal)
    return made


def _there(names: Sequence[str]) -> str:
    return f" Collections: {', '.join(names)}." if names else ""


def _without_document(body: bytes, scope: Scope) -> bytes:
    """A large request without its document, which goes into the scope. Raises ApiError, also if it stays large."""
    may_write = bool(scope[EXCHANGE].rights.write.granted)
    most = f"{_MOST_MB} MB: upload larger files by POST /v1/knowledge/collections/NAME/files"
    message = f"A request has at most {most if may_write else f'{LARGE_BYTES >> 10} KB'}."
    too_large = ApiError(413, message, code="body_too_large")
    if not may_write or len(body) > _MOST_MB << 20:
        raise too_large
    request = JsonBody.parse(body).fields
    match request.get("params"):
        case {"name": name, "arguments": dict(arguments)} if name == ADD:
            scope[_DOCUMENT] = {one: arguments.pop(one) for one in LARGE if one in arguments}
    try:
        left = orjson.dumps(request)
    except TypeError as error:
        raise ApiError(400, f"The request is not valid JSON: {error}.", code="invalid_json") from error
    if len(left) > LARGE_BYTES:
        raise too_large
    return left


def _document(context: "ServerRequestContext[Any, Any]") -> Mapping[str, Any]:
    """Arguments that `_without_document` took out."""
    document: Mapping[str, Any] = {} if context.request is None else context.request.scope.get(_DOCUMENT, {})
    return document


async def _send_error(send: Send, error: ApiError) -> None:
    """In JSON-RPC: a client program tells its model no other error."""
    answer = {"jsonrpc": "2.0", "id": None, "error": {"code": _INVALID_REQUEST, "message": error.message}}
    await send_whole(send, error.status, orjson.dumps(answer), b"application/json")


async def _run(manager: "StreamableHTTPSessionManager", up: asyncio.Event) -> None:
    async with manager.run():
        up.set()
        await asyncio.Event().wait()
