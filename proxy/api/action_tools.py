"""The MCP tools `find_actions` and `run_action`, within the caller's rights.

A call that changes something is shown to the person by the protocol's elicitation, and sent after the person has
accepted it: the answer comes from the client, never from arguments, which a model writes. Between the two requests the
client keeps the sealed `requestState`, so any worker can go on. A client without elicitation gets a text, and nothing
is sent: an application with the key can answer by /v1/actions/pending.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from proxy.agent.actions import Actions
from proxy.agent.execution import traced_call
from proxy.agent.tools.operation_tool import OperationTool
from proxy.agent.writes.approving import Approvals, ApprovedCall
from proxy.agent.writes.confirming import Asker, Proposed
from proxy.agent.writes.pending import Denied, PendingWrite
from proxy.agent.writes.sentences import language_in, sentences
from proxy.agent.writes.shown import CannotShow, in_block, states_of
from proxy.api.knowledge.access import PENDING
from proxy.api.knowledge.declarations import Closed, Open, doc
from proxy.api.knowledge.parameters import K, QueryText, checked, invalid, query_text, read_as
from proxy.api.knowledge.schemas import Schemas
from proxy.api.tools import exchange_of
from proxy.apis.call import Api
from proxy.apis.openapi.operation import Operation
from proxy.apis.request import BadArgument
from proxy.apis.schema_check import problems
from proxy.dialects.base import person_in
from proxy.dialects.errors import ApiError
from proxy.dialects.quoting import quoted
from proxy.exchange import ActionCall, ActionTrace, Exchange
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn, View
from runtime.public_addresses import ForbiddenAddress

if TYPE_CHECKING:
    from mcp import types
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.request_state import RequestStateBoundary

FIND, RUN = "find_actions", "run_action"
_WAY = "mcp"
_QUESTION, _YES = "confirm", "do_it"
_NOTHING = "Nothing was sent"
_MOST = 8


class _FoundAction(Open, frozen=True):
    set: str
    operation: str
    description: str
    changes: Annotated[bool, doc("Whether a call changes something: a person is asked before it is sent.")]
    arguments: Annotated[dict[str, Any], doc("A JSON Schema.")]


class _FoundActions(Open, frozen=True):
    results: list[_FoundAction]


class _Find(Closed, frozen=True):
    query: Annotated[QueryText, doc("What the action should do, in full: nothing is remembered.")]
    k: Annotated[K, doc("Actions at most.")] | UnsetType = UNSET


class _Run(Closed, frozen=True):
    set: Annotated[str, doc("As find_actions returned it.")]
    operation: Annotated[str, doc("As find_actions returned it.")]
    arguments: Annotated[dict[str, Any], doc("By the JSON Schema of the action.")] | UnsetType = UNSET


@dataclass(eq=False, repr=False)
class ActionTools:
    """The tools, and how they answer."""

    actions: Actions
    approvals: Approvals
    caller: "Callable[[ServerRequestContext[Any, Any]], Exchange]" = exchange_of
    _boundary: "RequestStateBoundary | None" = field(default=None, init=False)

    def tools(self) -> "list[types.Tool]":
        """As a client lists them."""
        from mcp import types

        of = Schemas(formats=False).schema
        find = "Find actions of the team's APIs. Call one with run_action."
        run = "Call an action that find_actions returned. A person confirms a call that changes something."
        return [
            types.Tool(
                name=FIND,
                title="Find actions",
                description=find,
                input_schema=of(_Find),
                annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
            ),
            types.Tool(
                name=RUN,
                title="Run an action",
                description=run,
                input_schema=of(_Run),
                annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
            ),
        ]

    async def seal(self, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext") -> "HandlerResult":
        """Middleware: seals and opens the `requestState` of a call, for the same key, tool and arguments alone."""
        if ctx.method != "tools/call" or (ctx.params or {}).get("name") != RUN:
            return await call_next(ctx)
        if self._boundary is None:
            from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
            from mcp.shared.exceptions import MCPError
            from mcp.types import INTERNAL_ERROR

            writes = self.approvals.writes
            try:
                key = await asyncio.to_thread(writes.store.state_key)
            except RetrievalError as error:
                raise MCPError(INTERNAL_ERROR, "calls cannot be made at present: try again later") from error
            security = RequestStateSecurity(
                keys=[key], ttl=writes.confirm_s, bind_principal=lambda one: self.caller(one).key or None
            )
            self._boundary = RequestStateBoundary(security, default_audience="ragway")
        return await self._boundary(ctx, call_next)

    async def call(
        self, context: "ServerRequestContext[Any, Any]", params: "types.CallToolRequestParams", deadline_s: float
    ) -> "types.CallToolResult | types.InputRequiredResult":
        """The result of one of the tools. Raises ApiError, RetrievalError, TimeoutError."""
        exchange = self.caller(context)
        if params.name == FIND:
            async with asyncio.timeout(deadline_s):
                return _result(await self._find(params.arguments or {}, exchange))
        if params.request_state is not None:
            return await self._answered(params, exchange, _person(context))
        asked = read_as(_Run, checked(params.arguments or {}, _Run.__struct_fields__))
        arguments = asked.arguments or {}
        async with asyncio.timeout(deadline_s):
            api, operation = await self._operation(asked.set, asked.operation, exchange)
        if wrong := problems(api.schema_of(operation), arguments):
            raise invalid(f"'arguments': {'; '.join(wrong)}", "arguments")
        if api.policy.effect_of(operation) == "reads":
            return await self._read(api, operation, arguments, exchange)
        asker = Asker(exchange, _person(context), language_in(_header(context, b"accept-language")))
        write = await self._asked(api, operation, arguments, asker)
        four_eyes = api.policy.needs_four_eyes(operation)
        return _confirmation(write) if _asks(context) and not four_eyes else _waits(context, write)

    async def _find(self, asked: Mapping[str, Any], exchange: Exchange) -> Open:
        wanted = read_as(_Find, checked(asked, _Find.__struct_fields__))
        names = [name for name in self.actions.configured if exchange.rights.may_use(name)]
        turns, view = [Turn("user", query_text(wanted.query))], View(exchange.rights.groups)
        apis = await self._apis({*names}, exchange)
        found = await self.actions.library.find(
            turns,
            [*apis],
            k=wanted.k or _MOST,
            view=view,
            exists=lambda name, one: not apis[name].why_not_called(one, exchange.rights),
        )
        tools = [OperationTool(one.operation, apis[one.set]) for one in found.actions]
        return _FoundActions(
            [_FoundAction(*one.origin, one.description, one.effect == "changes", dict(one.schema)) for one in tools]
        )

    async def _apis(self, names: set[str], exchange: Exchange) -> Mapping[str, Api]:
        rows = await asyncio.to_thread(self.actions.library.store.sets)
        return await self.actions.apis.of(exchange.key, [row for row in rows if row.name in names])

    async def _operation(self, name: str, wanted: str, exchange: Exchange) -> tuple[Api, Operation]:
        """Raises ApiError 404, also for an operation that the key may not call."""
        if exchange.rights.may_use(name) and name in self.actions.configured:
            api = (await self._apis({name}, exchange)).get(name)
            known = await asyncio.to_thread(self.actions.library.store.found, [(name, wanted)])
            for one in known.values():
                if api is not None and not api.why_not_called(one, exchange.rights):
                    return api, one
        message = f"There is no action {wanted!r} in {name!r}: call {FIND}, and take set and operation from a result."
        raise ApiError(404, message, code="operation_not_found", param="operation")

    async def _read(
        self, api: Api, operation: Operation, arguments: Mapping[str, Any], exchange: Exchange
    ) -> "types.CallToolResult":
        traced = ActionCall(exchange.elapsed_ms(), set=api.name, operation=f"{api.name}/{operation.name}")
        exchange.action_trace = ActionTrace((api.name,), "", calls=[traced])
        outcome = await traced_call(api, operation, arguments, self.actions.limits.call, exchange, traced)
        traced.duration_ms = exchange.elapsed_ms() - traced.started_ms
        return _text(quoted(outcome.text), failed=outcome.word != "ok")

    async def _asked(self, api: Api, operation: Operation, arguments: Mapping[str, Any], asker: Asker) -> PendingWrite:
        """Seal a call that changes something. What a model has read is not known here, so no such call is automatic."""
        writes = self.approvals.writes
        if api.refusal:
            raise ApiError(403, api.refusal, code="forbidden", type="permission_error")
        try:
            request = api.request(operation, arguments)
            proposed = Proposed(api, operation, arguments, request)
            proposed = await writes.looked_up(proposed, asker.exchange)
            return await writes.ask_beside(proposed, asker)
        except (BadArgument, ForbiddenAddress, CannotShow) as error:
            raise invalid(api.masked_text(f"'arguments': {error}"), "arguments") from error

    async def _answered(
        self, params: "types.CallToolRequestParams", exchange: Exchange, person: str
    ) -> "types.CallToolResult":
        """The result after the person's answer. Only the sealed state names the call."""
        from mcp import types

        given = (params.input_responses or {}).get(_QUESTION)
        content = given.content if isinstance(given, types.ElicitResult) and given.action == "accept" else None
        accepted = content is not None and content.get(_YES) is True
        group = await self.approvals.group(params.request_state or "", exchange)
        if group is None or group.writes[0].person != person:
            return _text(f"{_NOTHING}: no such call waits for this key and person.", failed=True)
        if not accepted and await self.approvals.decline(group):
            return _text(f"{_NOTHING}: the person declined.")
        sent: Sequence[ApprovedCall] | Denied = Denied("used")
        if accepted:
            sent = await self.approvals.approve(group, exchange, person=person, numbers=None, way=_WAY)
        if isinstance(sent, Denied) and sent.why == "used":
            now = await self.approvals.group(group.id, exchange) or group
            return _text(f"This call was answered before. {_NOTHING} again.\n\n{states_of(now.writes)}", failed=True)
        if isinstance(sent, Denied):
            return _text(f"{_NOTHING}: {sent.why.replace('_', ' ')}.", failed=True)
        return _text("\n\n".join(f"{one.report}\n\n{quoted(one.text)}" for one in sent))


def _confirmation(write: PendingWrite) -> "types.InputRequiredResult":
    """The protocol's question to the person."""
    from mcp import types

    say = sentences(write.language)
    schema = {
        "type": "object",
        "properties": {_YES: {"type": "boolean", "title": say.do_it, "default": False}},
        "required": [_YES],
    }
    message = f"{say.nothing_sent}\n\n{in_block([write.shown])}"
    asked = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
    return types.InputRequiredResult(input_requests={_QUESTION: asked}, request_state=write.group)


def _waits(context: "ServerRequestContext[Any, Any]", write: PendingWrite) -> "types.CallToolResult":
    """The result for a client that cannot ask its person."""
    base = str(context.request.base_url).rstrip("/") if context.request is not None else ""  # on stdio: of a gateway
    url = f"{base}{PENDING}/{write.group}"
    say = sentences(write.language)
    return _text("\n\n".join([say.nothing_sent, in_block([write.shown]), say.elsewhere.format(url=url)]))


def _asks(context: "ServerRequestContext[Any, Any]") -> bool:
    """Whether the client can ask its person within a call: by the protocol of 2026-07-28, with forms."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    capabilities = context.session.client_capabilities
    can = capabilities.elicitation if capabilities is not None else None
    by_form = can is not None and (can.form is not None or can.url is None)
    return by_form and context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS


def _person(context: "ServerRequestContext[Any, Any]") -> str:
    return person_in(_headers(context))


def _header(context: "ServerRequestContext[Any, Any]", wanted: bytes) -> str:
    """The values of a header, with commas."""
    return b",".join(value for name, value in _headers(context) if name == wanted).decode("latin-1")


def _headers(context: "ServerRequestContext[Any, Any]") -> Sequence[tuple[bytes, bytes]]:
    headers: Sequence[tuple[bytes, bytes]] = context.request.scope["headers"] if context.request is not None else ()
    return headers


def _text(text: str, *, failed: bool = False) -> "types.CallToolResult":
    from mcp import types

    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)


def _result(found: Open) -> "types.CallToolResult":
    from mcp import types

    text = types.TextContent(type="text", text=msgspec.json.encode(found).decode())
    return types.CallToolResult(content=[text], structured_content=msgspec.to_builtins(found))
