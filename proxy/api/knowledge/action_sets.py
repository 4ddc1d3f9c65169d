"""Action sets and operations: listed, written from documents, searched, and called without a chat.

The rights are the rights of `actions.NAME`: a reader lists, searches and calls, a writer puts and deletes. A document
from a client never chooses the address of the API, because credentials go to the address. The gateway imports the
module only where an API is configured.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from proxy.agent.execution import traced_call, traced_work
from proxy.agent.writes.confirming import Asker, Proposed
from proxy.agent.writes.mode import mode_of
from proxy.api.knowledge.access import ACTIONS, Deleted, KnowledgeCall, Page, must_write
from proxy.api.knowledge.declarations import Closed, Open, doc, must, operation
from proxy.api.knowledge.parameters import After, K, QueryText, invalid, query_text
from proxy.apis.call import Api, CallResult
from proxy.apis.library import ActionSet as StoredSet
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.request import BadArgument
from proxy.apis.schema_check import problems
from proxy.apis.specs import OF_CLIENT
from proxy.body import end_grant, whole_body
from proxy.caller import collection_of
from proxy.dialects.errors import ApiError, forbidden
from proxy.exchange import ActionCall, ActionTrace
from retrieval.records.search import Turn, View
from runtime.public_addresses import ForbiddenAddress

_SET = ACTIONS + "/sets/{set}"
_OPERATION = _SET + "/operations/{operation}"
_CHANGED = "The set, and the changes"


class UncallableOperation(Closed, frozen=True):
    method: Annotated[str, doc("`*`: the whole path cannot be read.")]
    path: str
    reason: str


class _RefusedOperation(Closed, frozen=True):
    operation: str
    model: str


class ActionSet(Open, frozen=True, tag_field="object", tag="action_set"):
    id: Annotated[str, doc("The set's name")]
    title: Annotated[str, doc("Of the OpenAPI document")]
    base_url: Annotated[str, doc("The address of the API; empty: not known yet")]
    operations: int
    uncallable: list[UncallableOperation]
    refused: Annotated[
        list[_RefusedOperation],
        doc("The operations whose definition a model refuses; the model's chats go on without the operation"),
    ]
    updated_at: Annotated[int | None, doc("Seconds since 1970; null: the set has no document yet")]


class _Changes(Closed, frozen=True):
    added: int
    changed: int
    unchanged: int
    removed: int


class ChangedActionSet(ActionSet, frozen=True, kw_only=True):
    changes: _Changes


class ActionOperation(Open, frozen=True, tag_field="object", tag="action.operation"):
    id: Annotated[str, doc("Of the operationId, else of method and path")]
    set: str
    method: str
    path: str
    summary: str
    description: str
    callable: Annotated[bool, doc("Whether a run calls the operation: without a person's confirmation")]


class OperationWithArguments(ActionOperation, frozen=True, kw_only=True):
    arguments: Annotated[dict[str, Any], doc("A JSON Schema (2020-12) without the fixed arguments")]


class FoundOperations(Closed, frozen=True, tag_field="object", tag="action.search"):
    query: str
    data: list[OperationWithArguments]


class ActionResult(Closed, frozen=True, tag_field="object", tag="action.result"):
    set: str
    operation: str
    outcome: Annotated[str, doc("ok, api_error, timeout, failed, no_credentials, limit, unknown")]
    status: Annotated[int | None, doc("Of the API's response; null: no response")]
    sent: Annotated[bool, doc("Whether a request left the gateway")]
    text: Annotated[str, doc("The result as a model reads the result, or what went wrong")]
    bytes: Annotated[int, doc("Of the API's response")]
    ms: float


class _Header(Closed, frozen=True):
    name: str
    value: str


class ActionRequest(Closed, frozen=True, tag_field="object", tag="action.request"):
    set: str
    operation: str
    method: str
    url: Annotated[str, doc("FIXED stands in place of each fixed argument")]
    headers: list[_Header]
    body: str


class ActionSetPage(Page, frozen=True, kw_only=True):
    data: list[ActionSet]


class OperationPage(Page, frozen=True, kw_only=True):
    data: list[ActionOperation]


class _OperationsQuery(Closed, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: After | None = None


class _Run(Closed, frozen=True):
    dry: Annotated[bool, doc("true: answer with the request, and send nothing")] = False
    arguments: Annotated[dict[str, Any], doc("By the JSON Schema of the operation")] | UnsetType = UNSET


class _OperationQuestion(Closed, frozen=True):
    query: QueryText
    sets: Annotated[list[str], doc("Default: all sets that the key may read"), must("a list of names")] | UnsetType = (
        UNSET
    )
    k: K = 8


@operation(f"GET {ACTIONS}/sets", "actions", "In the order of the settings")
async def list_action_sets(call: KnowledgeCall) -> ActionSetPage:
    """The configured action sets that the key may read."""
    return ActionSetPage.of([ActionSet(*_set(call, row)) for row in await _rows(call, _readable(call, []))])


@operation(f"GET {_SET}", "actions", "The set")
async def read_action_set(call: KnowledgeCall) -> ActionSet:
    """An action set, with the operations that cannot be called and the reasons."""
    (row,) = await _rows(call, [_name(call)])
    return ActionSet(*_set(call, row))


@operation(
    f"PUT {_SET}",
    "actions",
    _CHANGED,
    also={201: (ChangedActionSet, _CHANGED)},
    body=dict[str, Any],
    told={
        "description": "An OpenAPI document of version 3.0 or 3.1, or of Swagger 2.0; JSON, or YAML with any "
        "content type"
    },
    slow=True,
)
async def put_action_set(call: KnowledgeCall) -> tuple[int, ChangedActionSet]:
    """Read an OpenAPI document into the set; the address and the credentials of the API stay.

    201 for the first document.
    """
    name = _writable(call)
    raw = await whole_body(call.scope, call.receive, max_bytes=call.rules.max_body_bytes)
    end_grant(call.exchange)  # the work may take minutes
    _must_take_documents(call, name)
    async with call.rules.set_locks[name]:
        (before,) = await _rows(call, [name])
        if not before.base_url:
            message = (
                f"The gateway does not know the address of {name}: set actions.{name}.base_url. A document from a "
                "client does not choose the address that credentials go to."
            )
            raise ApiError(409, message, code="action_set_without_address", param="set")
        address = (call.rules.sets[name].base_url or "").partition("?")[0] or before.base_url  # a query may have a key
        try:
            owner = call.exchange.key
            report = await call.actions.library.add(name, raw, base_url=address, limits=OF_CLIENT, owner=owner)
        except UnreadableSpec as error:
            message = f"The document cannot be read: {error}. Nothing is changed."
            raise ApiError(422, message, code="document_unreadable") from error
    call.actions.read_sets_again()
    (row,) = await _rows(call, [name])
    changes = _Changes(report.added, report.changed, report.unchanged, report.removed)
    return 200 if before.updated_s else 201, ChangedActionSet(*_set(call, row), changes=changes)


@operation(f"DELETE {_SET}", "actions", "Deleted")
async def delete_action_set(call: KnowledgeCall) -> Deleted:
    """Delete the operations of a set."""
    name = _writable(call)
    _must_take_documents(call, name)
    async with call.rules.set_locks[name]:
        existed = await call.actions.library.remove(name)
    call.actions.read_sets_again()
    if not existed:
        raise ApiError(404, f"The action set {name!r} has no operation.", code="action_set_not_found", param="set")
    return Deleted(name, "action_set.deleted", deleted=True)


@operation(f"GET {_SET}/operations", "actions", "A page")
async def list_operations(call: KnowledgeCall, query: _OperationsQuery) -> OperationPage:
    """The operations of a set, by name, without arguments."""
    name, after, limit = _name(call), query.after or "", query.limit
    api = (await _apis(call, [name])).get(name)
    shown: list[Operation] = []
    while len(shown) <= limit:
        rows = await asyncio.to_thread(call.actions.library.store.operations, name, after=after, limit=limit + 1)
        shown += [one for one in rows if _exists(call, name, one, api)]
        if len(rows) <= limit:
            break
        after = rows[-1].name
    return OperationPage.of([ActionOperation(*_members(call, name, one, api)) for one in shown[: limit + 1]], limit)


@operation(f"GET {_OPERATION}", "actions", "The operation")
async def read_operation(call: KnowledgeCall) -> OperationWithArguments:
    """An operation, with the JSON Schema of the arguments."""
    return _with_arguments(call, *await _operation(call))


@operation(f"POST {ACTIONS}/search", "actions", "Operations, best first")
async def search_operations(call: KnowledgeCall, body: _OperationQuestion) -> FoundOperations:
    """Operations for a question."""
    query = query_text(body.query)
    names, view = _readable(call, body.sets or []), View(call.rights.groups)
    apis = await _apis(call, names)
    found = await call.actions.library.find(
        [Turn("user", query)],
        names,
        k=body.k,
        view=view,
        exists=lambda name, one: _exists(call, name, one, apis.get(name)),
    )
    rows = [(one.set, one.operation, apis.get(one.set)) for one in found.actions]
    return FoundOperations(query, [_with_arguments(call, *row) for row in rows])


@operation(f"POST {_OPERATION}/run", "actions", "The result, or the request", slow=True)
async def run_operation(call: KnowledgeCall, body: _Run) -> ActionResult | ActionRequest:
    """Call an operation, or show the request.

    A call that changes something is made if neither the settings nor the key want a person's confirmation.
    """
    arguments = body.arguments or {}
    async with call.rules.asking():
        name, operation, api = await _operation(call)
    if api is None:
        raise forbidden(f"This key has no credentials for {name} (ragway keys credentials set).", "set")
    return _dry(api, operation, arguments) if body.dry else await _run(api, operation, arguments, call)


async def _run(api: Api, operation: Operation, arguments: Mapping[str, Any], call: KnowledgeCall) -> ActionResult:
    """The result of a call, as in a chat. Raises ApiError for a call that is refused."""
    exchange, label = call.exchange, f"{api.name}/{operation.name}"
    traced = ActionCall(exchange.elapsed_ms(), set=api.name, operation=label)
    exchange.action_trace = ActionTrace((api.name,), "", calls=[traced])
    if wrong := problems(api.schema_of(operation), arguments):
        traced.outcome = "invalid_arguments"
        raise invalid(f"'arguments': {'; '.join(wrong)}", "arguments")
    try:
        outcome = await _outcome(api, operation, arguments, call, traced)
    finally:
        traced.duration_ms = exchange.elapsed_ms() - traced.started_ms
    if outcome.word == "invalid_arguments":
        raise invalid(f"'arguments': {outcome.text}", "arguments")
    if outcome.word == "could_change":
        raise forbidden(outcome.text, "operation")
    return ActionResult(
        *(api.name, operation.name, outcome.word, outcome.status or None),
        *(outcome.sent, outcome.text, outcome.size, outcome.ms),
    )


async def _outcome(
    api: Api, operation: Operation, arguments: Mapping[str, Any], call: KnowledgeCall, traced: ActionCall
) -> CallResult:
    """What became of a call. Raises ApiError for a call that changes something and that a person has to confirm."""
    exchange, writes = call.exchange, call.actions.writes
    mode, reads = mode_of(exchange.rights, api, operation), api.policy.effect_of(operation) == "reads"
    if reads or mode == "refuse" or writes is None or api.refusal:
        return await traced_call(api, operation, arguments, call.actions.limits.call, exchange, traced)
    try:
        request = api.request(operation, arguments)
        again = await writes.sent_before(exchange.key, request) is not None
        if mode == "confirm" or again:
            traced.outcome = "waits"
            raise _unconfirmed(operation, again=again)
        work = writes.kept(writes.at_once(Proposed(api, operation, arguments, request), Asker(exchange, "")))
        return await traced_work(work, traced.operation, exchange, traced, changes=True)
    except (BadArgument, ForbiddenAddress) as error:
        traced.outcome = "invalid_arguments"
        return CallResult(api.masked_text(f"Nothing was sent: {error}"), word="invalid_arguments")


def _unconfirmed(operation: Operation, *, again: bool) -> ApiError:
    """again: the same call was sent lately."""
    why = "was made a short time ago, so a person has to confirm it" if again else "needs a person's confirmation"
    message = f"Nothing was sent: this call of {operation.name} {why}. Ask for it in a chat, whose reply has the code."
    return ApiError(409, message, code="confirmation_required", param="operation")


def _set(call: KnowledgeCall, row: StoredSet) -> Any:
    """The members of an `ActionSet`."""
    uncallable = [UncallableOperation(one.method, one.path, one.reason) for one in row.uncallable]
    refuses = call.actions.tool_protocols.refused_of(row.name)
    refused = [_RefusedOperation(operation, model) for operation, model in refuses]
    updated = int(row.updated_s) if row.updated_s else None
    return row.name, row.title, row.base_url.partition("?")[0], row.count, uncallable, refused, updated


def _readable(call: KnowledgeCall, named: Sequence[str]) -> Sequence[str]:
    """The named sets, else all sets, that the caller may read. Raises ApiError 404."""
    rights = call.rights
    if named:
        return call.actions.sets_of(named, rights)
    return [name for name in call.rules.sets if rights.may_use(name)]


async def _rows(call: KnowledgeCall, names: Sequence[str]) -> list[StoredSet]:
    """The sets, also sets without a document. The addresses are those that are called."""
    known = {row.name: row for row in await asyncio.to_thread(call.actions.library.store.sets)}
    found = [known.get(name, StoredSet(name, "", "", 0.0, ())) for name in names]
    return [replace(row, base_url=call.rules.sets[row.name].base_url or row.base_url) for row in found]


def _name(call: KnowledgeCall) -> str:
    """The set in the path. Raises ApiError 404, also for a set that the caller may not read."""
    (name,) = _readable(call, [call.path["set"]])
    return name


def _writable(call: KnowledgeCall) -> str:
    name = _name(call)
    must_write(collection_of(name), call.rights)
    return name


def _must_take_documents(call: KnowledgeCall, name: str) -> None:
    if call.rules.sets[name].spec is not None:
        message = f"The document of {name} comes from the setting actions.{name}.spec: change the document there."
        raise ApiError(409, message, code="action_set_of_settings", param="set")
    if call.rules.sets[name].mcp is not None:
        message = f"The operations of {name} are the tools of its MCP server, which lists them."
        raise ApiError(409, message, code="action_set_of_settings", param="set")


async def _operation(call: KnowledgeCall) -> tuple[str, Operation, Api | None]:
    """The set, the operation, and the API as the caller's key calls it. Raises ApiError 404."""
    name, wanted = _name(call), call.path["operation"]
    api = (await _apis(call, [name])).get(name)
    for one in (await asyncio.to_thread(call.actions.library.store.found, [(name, wanted)])).values():
        if _exists(call, name, one, api):
            return name, one, api
    message = f"{name} has no operation {wanted!r}: GET {ACTIONS}/sets/{name}/operations lists the operations."
    raise ApiError(404, message, code="operation_not_found", param="operation")


async def _apis(call: KnowledgeCall, names: Sequence[str]) -> Mapping[str, Api]:
    """Name of each set with a document that the caller's key may call -> the API."""
    rows = await asyncio.to_thread(call.actions.library.store.sets)
    return await call.actions.apis.of(call.exchange.key, [row for row in rows if row.name in names])


def _dry(api: Api, operation: Operation, arguments: Mapping[str, Any]) -> ActionRequest:
    """The request that a call would send, as `Api.shown_request`."""
    if wrong := problems(api.schema_of(operation), arguments):
        raise invalid(f"'arguments': {'; '.join(wrong)}", "arguments")
    try:
        request = api.shown_request(operation, arguments)
    except (BadArgument, ForbiddenAddress) as error:
        raise invalid(f"'arguments': {error}", "arguments") from error
    headers = [_Header(name, value) for name, value in request.headers]
    body = request.body.decode("utf-8", "backslashreplace")
    return ActionRequest(api.name, operation.name, request.method, request.url, headers, body)


def _exists(call: KnowledgeCall, name: str, one: Operation, api: Api | None) -> bool:
    """Whether there is such an operation for the caller."""
    if api is None:
        return call.rights.mode_of(name, one.names, "reads") != "refuse"
    return api.why_not_called(one, call.rights) != "not_granted"


def _members(call: KnowledgeCall, name: str, one: Operation, api: Api | None) -> Any:
    """The members of an `ActionOperation`. api: as the caller's key calls the API; None: the key may not."""
    callable = api is not None and mode_of(call.rights, api, one) == "auto"
    return one.name, name, one.method, one.path, one.summary, one.description, callable


def _with_arguments(call: KnowledgeCall, name: str, operation: Operation, api: Api | None) -> OperationWithArguments:
    """The operation with the JSON Schema of the arguments, without the fixed arguments and the API key."""
    schema = api.schema_of(operation) if api is not None else operation.schema
    return OperationWithArguments(*_members(call, name, operation, api), arguments=schema)
