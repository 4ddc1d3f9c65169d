"""Sessions with one MCP server, its list of tools, and calls of its tools, by the official SDK's client.

A session opens with the first call. Over HTTP each set of credentials has its own, which closes when it is idle; a
child process serves all keys, and stays. A server that ends or does not start is tried again after a growing pause.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from proxy.apis.addresses import NotReady
from proxy.apis.call import Api, CallLimits, CallResult, Sending
from proxy.apis.credentials import ClientCredentials
from proxy.apis.mcp.lines import TOO_LONG
from proxy.apis.mcp.listing import ListedTool, Listing
from proxy.apis.openapi.read import MAX_BYTES, UnreadableSpec
from proxy.apis.request import ApiRequest
from proxy.apis.results import normalised, result_text
from proxy.dialects.json_body import by_size
from runtime.http_client import ConnectFailed, Cut

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp import Client, types
    from mcp.client._transport import TransportStreams
    from mcp.client.session import MessageHandlerFnT
    from mcp.shared.exceptions import MCPError
    from mcp.types import ServerNotification
    from pydantic import TypeAdapter

    from proxy.apis.mcp.http_transport import GatewayTransport

log = logging.getLogger("ragway")
_IDLE_S = 600.0  # of a session over HTTP
_TRUSTED_S = 5.0  # after an answer; later, a session is asked whether it lives before a call that changes something
_PING_S = 5.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0  # before a server is tried again; twice as long after each failure
_MARGIN_S = 1.0  # by which a request may outlive its call
_ENDED = CallResult("The call failed: the server ended.", word="failed")  # perhaps by the call: it is not tried again
LISTING = CallLimits(seconds=60.0, max_bytes=16 * 2**20)
_MOST_TOOLS, _MOST_PAGES = 25_000, 2_500
_RELIST_S = 600.0  # after which a list is read again, although its server says nothing
_CHANGES_S = 2.0  # a list is read again at most so often, however often a server says that it changed
_REFUSED = frozenset({-32700, -32600, -32601, -32602})  # codes of JSON-RPC for requests that are not carried out
_DONE, _REFUSED_AS, _FAILED = 200, 400, 500  # as a status: a failed call may have changed something


@dataclass(eq=False)
class _Session:
    """One session, kept by a task of its own."""

    ready: "asyncio.Future[Client]"
    over: asyncio.Event = field(default_factory=asyncio.Event)
    calls: int = 0  # under way
    used_s: float = 0.0  # the last answer
    transport: "GatewayTransport | None" = None  # over HTTP
    task: "asyncio.Task[None] | None" = None


@dataclass(eq=False)
class McpServer:
    """An MCP server over HTTP, at its API's address, or as a child process."""

    command: Sequence[str] = ()  # (): over HTTP
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the child process
    limits: CallLimits = field(default_factory=CallLimits)  # of a session; a call may have less
    _session: _Session | None = field(default=None, init=False, repr=False)
    _failures: int = field(default=0, init=False, repr=False)
    _again_s: float = field(default=0.0, init=False, repr=False)  # before, no session is tried
    _why: str = field(default="", init=False, repr=False)

    @property
    def shared(self) -> bool:
        return bool(self.command)

    async def call(self, api: Api, request: ApiRequest, limits: CallLimits, sending: Sending) -> CallResult:
        """Raises UpstreamError."""
        result = await self._call(api, request, limits, sending)
        expired = result.status == HTTPStatus.UNAUTHORIZED and isinstance(api.auth, ClientCredentials)
        return await self._call(api, request, limits, sending) if expired and not sending.once else result

    async def _call(self, api: Api, request: ApiRequest, limits: CallLimits, sending: Sending) -> CallResult:
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        asked = orjson.loads(request.body)
        session, client = await self._connected(api, sure=sending.once or self.shared)
        session.calls += 1
        try:
            sending.sent()
            result = await _called(client, asked["name"], asked["arguments"])
        except MCPError as error:
            return self._failed(api, session, error, limits, sending)
        except ValidationError:
            self._heard(session)
            return CallResult("The answer of the server is no result of a tool.", _FAILED, word="api_error")
        except _closed_errors():
            self._drop(session)
            return _ENDED
        finally:
            session.calls -= 1
            session.used_s = time.monotonic()
        self._heard(session)
        return await _outcome(api, result, limits)

    async def close(self) -> None:
        """End the session."""
        session = self._session
        if session is not None and session.task is not None:
            session.over.set()
            if not session.ready.done():
                session.task.cancel()
            await asyncio.wait({session.task})

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def _connected(self, api: Api, *, sure: bool) -> "tuple[_Session, Client]":
        """A session. sure: one that has just answered. Raises NotReady."""
        session = self._session or self._opened(api)
        client = await asyncio.shield(session.ready)
        if sure and time.monotonic() - session.used_s > _TRUSTED_S and not await _lives(client):
            self._drop(session)
            session = self._session or self._opened(api)
            client = await asyncio.shield(session.ready)
        return session, client

    def _opened(self, api: Api) -> _Session:
        if time.monotonic() < self._again_s:
            raise NotReady(self._why)
        session = _Session(asyncio.get_running_loop().create_future())
        session.ready.add_done_callback(lambda ready: ready.exception())  # is in the log
        self._session = session
        session.task = asyncio.create_task(self._keep(session, api))
        return session

    async def _keep(self, session: _Session, api: Api) -> None:
        """Open a session, and close it once it is over or idle."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                session.transport, streams = self._streams(api, self.limits)
                async with asyncio.timeout(self.limits.seconds):
                    client = await stack.enter_async_context(_client(streams))
                session.used_s = time.monotonic()
                session.ready.set_result(client)
                await self._until_over(session)
        except _session_errors() as error:
            self._note_failure(api, _reason(api, error, session.transport))
        finally:
            self._forget(session)
            if not session.ready.done():
                session.ready.set_exception(NotReady(self._why))

    def _streams(
        self, api: Api, limits: CallLimits, *, listens: bool = False
    ) -> "tuple[GatewayTransport | None, AbstractAsyncContextManager[TransportStreams]]":
        """The streams of a session. listens: whether the server may send what no request asked for."""
        if self.command:
            from proxy.apis.mcp.stdio import stdio

            return None, stdio(self.command, self.env, limits.max_bytes)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from proxy.apis.mcp.http_transport import GatewayTransport

        seconds = limits.seconds + _MARGIN_S
        transport = GatewayTransport(api, max_bytes=limits.max_bytes, seconds=seconds, listens=listens)
        client = httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False)
        return transport, streamable_http_client(api.base_url, http_client=client, max_sse_event_size=limits.max_bytes)

    async def _until_over(self, session: _Session) -> None:
        while self.command or session.calls or time.monotonic() - session.used_s < _IDLE_S:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(session.over.wait(), None if self.command else _IDLE_S)
                return

    def _drop(self, session: _Session) -> None:
        """Close a session whose server ended: the next call opens another."""
        if self._session is session:
            self._failures += 1
            self._pause("the server ended, and is tried again soon")
        self._forget(session)

    def _forget(self, session: _Session) -> None:
        if self._session is session:
            self._session = None
        session.over.set()

    def _note_failure(self, api: Api, reason: str) -> None:
        self._failures += 1
        self._pause(reason)
        log.warning("actions.%s: no session with the MCP server: %s", api.name, api.masked_text(reason))

    def _pause(self, reason: str) -> None:
        pause_s = min(_LONGEST_PAUSE_S, _PAUSE_S * 2 ** (self._failures - 1))
        self._again_s, self._why = time.monotonic() + pause_s, reason

    def _heard(self, session: _Session) -> None:
        if self._session is session:
            self._failures = 0

    # --- what became of a call ----------------------------------------------------------------------------------------

    def _failed(
        self, api: Api, session: _Session, error: "MCPError", limits: CallLimits, sending: Sending
    ) -> CallResult:
        """The outcome of an error. Raises UpstreamError."""
        from mcp import types

        text = api.masked_text(error.message)[: limits.max_chars]
        found = session.transport.failure(error.data) if session.transport is not None else None
        if found is not None:
            return self._broke(session, *found, text, sending)
        if error.code == types.CONNECTION_CLOSED:
            if error.message.startswith("SSE stream failed"):
                return self._too_long()
            if not error.message.startswith("SSE"):  # the session, not the stream of one answer
                self._drop(session)
                return _ENDED
            raise Cut("the answer broke off")
        self._heard(session)
        if error.code == TOO_LONG:
            return self._too_long()
        if error.code == types.PARSE_ERROR:
            return CallResult("The answer of the server cannot be read.", _FAILED, word="api_error")
        status = _REFUSED_AS if error.code in _REFUSED else _FAILED
        return CallResult(f"The server refused the call (error {error.code}): {text}", status, word="api_error")

    def _too_long(self) -> CallResult:
        most = f"{self.limits.max_bytes:,} bytes"
        return CallResult(f"The call failed: the answer is larger than {most}, or cannot be read.", word="failed")

    def _broke(self, session: _Session, kind: str, status: int, text: str, sending: Sending) -> CallResult:
        """Raises UpstreamError."""
        match kind:
            case "unsent":
                sending.began = False
                raise ConnectFailed(text)
            case "lost":
                raise Cut(text)
            case "status":
                if status in (401, 403, 404):  # the session is not known any more, or not to these credentials
                    self._forget(session)
                if status == HTTPStatus.NOT_FOUND and not sending.once:
                    raise Cut("the server has forgotten the session")
                return CallResult(f"The API answered with status {status}. {text}", status, word="api_error")
            case "forbidden":
                sending.began = False
        return CallResult(f"The call failed: {text}.", word="failed")

    # --- the list of tools --------------------------------------------------------------------------------------------

    async def listing(self, api: Api) -> bytes:
        """The server's tools as a document. Raises UnreadableSpec."""
        found = list[bytes]()

        async def took(listing: bytes) -> bool:
            found.append(listing)
            return False

        await self.follow(api, took)
        return found[0]

    async def follow(self, api: Api, took: Callable[[bytes], Awaitable[bool]]) -> None:
        """Hand on the server's tools as a document, and again after each change while `took` wants more.

        took: must not raise. Raises UnreadableSpec, also if the server ends.
        """
        changed, transport = asyncio.Event(), None

        async def heard(message: "ServerNotification | Exception") -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                changed.set()

        try:
            async with contextlib.AsyncExitStack() as stack:
                transport, streams = self._streams(api, LISTING, listens=True)
                async with asyncio.timeout(LISTING.seconds):
                    client = await stack.enter_async_context(_client(streams, heard))
                    await stack.enter_async_context(_listening(client, changed))
                wanted = True
                while wanted:
                    changed.clear()
                    async with asyncio.timeout(LISTING.seconds):
                        listing = await _listed(client)
                    if wanted := await took(listing):
                        await asyncio.sleep(_CHANGES_S)
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(changed.wait(), _RELIST_S)
        except UnreadableSpec:
            raise
        except Exception as error:
            if (inner := _first(error)) is not error and isinstance(inner, UnreadableSpec):
                raise inner from error
            raise UnreadableSpec(f"the tools are not listed: {_reason(api, error, transport)}") from error


def _client(
    streams: "AbstractAsyncContextManager[TransportStreams]", heard: "MessageHandlerFnT | None" = None
) -> "Client":
    """The SDK's client. heard: gets what the server says without a request."""
    from mcp import Client, types

    for name in ("mcp.client", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they log what servers send
    info = types.Implementation(name="ragway", version=version("ragway"))
    return Client(streams, cache=None, client_info=info, message_handler=heard)


@contextlib.asynccontextmanager
async def _listening(client: "Client", changed: asyncio.Event) -> AsyncIterator[None]:
    """Ask for changes of the list; servers of older protocols send them unasked."""
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
    from mcp.shared.exceptions import MCPError

    async def listen() -> None:
        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError):  # some servers do not offer it
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    changed.set()

    listening = asyncio.create_task(listen())
    try:
        yield
    finally:
        listening.cancel()
        await asyncio.wait({listening})


async def _listed(client: "Client") -> bytes:
    """Raises UnreadableSpec, MCPError, pydantic.ValidationError."""
    tools, size, cursor, seen = list[ListedTool](), 0, None, set[str]()
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for one in page.tools:
            title = one.title or (one.annotations.title if one.annotations is not None else None) or ""
            reads = one.annotations is not None and one.annotations.read_only_hint is True
            tools.append(ListedTool(one.name, one.input_schema, title, one.description or "", reads))
        size += len(msgspec.json.encode(tools[-len(page.tools) :] if page.tools else []))
        cursor = page.next_cursor
        if len(tools) > _MOST_TOOLS or size > MAX_BYTES:
            raise UnreadableSpec(f"the server has more than {_MOST_TOOLS:,} tools, or {MAX_BYTES >> 20} MB of them")
        if not cursor:
            break
        if cursor in seen:
            raise UnreadableSpec("the list of tools has no end: a page comes again")
        seen.add(cursor)
    else:
        raise UnreadableSpec(f"the list of tools has more than {_MOST_PAGES:,} pages")
    about = client.server_info
    title = (about.title or about.name) if about is not None else ""
    return msgspec.json.encode(Listing({"title": title, "description": client.instructions or ""}, tools))


async def _called(
    client: "Client", name: str, arguments: Mapping[str, Any]
) -> "types.CallToolResult | types.InputRequiredResult":
    """The result, not checked by the server's schema: `Client.call_tool` lists all tools for it, and runs its patterns.

    Raises MCPError, pydantic.ValidationError.
    """
    from mcp import types
    from mcp.shared.exceptions import MCPError

    asked = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(arguments)))
    try:
        return await client.session.send_request(asked, _results())
    except MCPError as error:
        if error.code != types.HEADER_MISMATCH:
            raise
    # The server wants some arguments in headers, too, which the list names; it has refused the call.
    cursor = None
    while cursor := (page := await client.list_tools(cursor=cursor)).next_cursor:
        if any(one.name == name for one in page.tools):
            break
    return await client.session.send_request(asked, _results())


@functools.cache
def _results() -> "TypeAdapter[types.CallToolResult | types.InputRequiredResult]":
    from mcp import types
    from pydantic import TypeAdapter

    return TypeAdapter(types.CallToolResult | types.InputRequiredResult)


async def _outcome(
    api: Api, result: "types.CallToolResult | types.InputRequiredResult", limits: CallLimits
) -> CallResult:
    from mcp import types

    from proxy.apis.mcp.results import content_of

    if isinstance(result, types.InputRequiredResult):
        text = "The tool asks for further input, which this gateway does not give."
        return CallResult(text, _REFUSED_AS, word="api_error")
    content = content_of(result)
    whole = len(content) <= limits.max_bytes

    def cut() -> CallResult:
        is_json = whole and content[:1] in (b"{", b"[")
        kind = "application/json" if is_json else "text/plain"
        plain, media_type = normalised(content[: limits.max_bytes], kind)
        text = result_text(api.masked(plain, whole=whole), media_type, max_chars=limits.max_chars)
        shown = text.text if whole else f"(the first {limits.max_bytes:,} bytes of a longer result)\n{text.text}"
        made = CallResult(shown, _DONE, size=len(content), whole=api.masked_text(text.whole))
        if result.is_error:
            return replace(made, text=f"The tool reports an error. {shown}", status=_FAILED, word="api_error")
        return made

    return await by_size(content, cut)


async def _lives(client: "Client") -> bool:
    """Whether a session answers."""
    from mcp import types
    from mcp.shared.exceptions import MCPError

    try:
        async with asyncio.timeout(_PING_S):
            if client.session.initialize_result is None:  # protocols from 2026 on have no ping
                await client.session.send_discover(client.protocol_version)
            else:
                await client.session.send_ping()
    except MCPError as error:
        return error.code == types.METHOD_NOT_FOUND
    except _closed_errors():
        return False
    return True


def _session_errors() -> tuple[type[Exception], ...]:
    """What the SDK raises for a server that breaks off or breaks the protocol, mostly in groups."""
    from mcp.shared.exceptions import MCPError

    of_data = (ValueError, TypeError, AttributeError, LookupError)
    return (ExceptionGroup, MCPError, OSError, *of_data, *_closed_errors())


def _closed_errors() -> tuple[type[Exception], ...]:
    import anyio

    return (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError, TimeoutError)


def _first(error: BaseException) -> BaseException:
    """The error within groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _reason(api: Api, error: BaseException, transport: "GatewayTransport | None") -> str:
    """Why there is no session, without secrets."""
    from mcp.shared.exceptions import MCPError

    error = _first(error)
    if isinstance(error, MCPError):
        found = transport.failure(error.data) if transport is not None else None
        text = api.masked_text(" ".join(error.message.split())[:300])
        if found is not None and found[0] == "status":
            return f"the server answered with status {found[1]}"
        return text if found is not None else f"the server refused: {text}"
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    if isinstance(error, OSError):
        return f"the server cannot be started ({error.strerror})"
    return f"the server does not speak MCP ({type(error).__name__})"
