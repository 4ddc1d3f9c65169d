"""Action sets and operations: listed, written from documents, searched, and called without a chat.

The rights are the rights of `actions.NAME`: a reader lists, searches and calls, a writer puts and deletes. A document
from a client never chooses the address of the API, because credentials go to the address. The gateway imports the
module only where an API is configured.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.routing import Route

from proxy.action_trace import ActionCall, ActionTrace
from proxy.actions.actions import Actions
from proxy.actions.execution import traced_call
from proxy.api.knowledge.access import ACTIONS, Access, ApiReply, forbidden, listed, must_write, rights_of
from proxy.api.knowledge.parameters import invalid, k_of, query_of, query_text, whole_number, yes_or_no
from proxy.apis.addresses import ForbiddenAddress
from proxy.apis.call import Api
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.request import BadArgument
from proxy.apis.schema_check import problems
from proxy.apis.specs import OF_CLIENT
from proxy.apis.store import ActionSet, collection_of
from proxy.asgi import Receive, Scope
from proxy.dialects.errors import ApiError
from proxy.exchange import exchange_of
from retrieval.records.search import Turn, View

_LISTED, _MOST_LISTED = 100, 1000
_K = 8


@dataclass(frozen=True, slots=True)
class SetSettings:
    """The settings of one set that decide about its document."""

    base_url: str = ""  # "": the address that the owner gave with the document
    spec: bool = False  # whether the document comes from the settings


@dataclass(frozen=True, slots=True)
class ActionSets:
    """The configured action sets."""

    actions: Actions
    settings: Mapping[str, SetSettings]  # of each set that has a row in the setting `actions`

    def routes(self, access: Access) -> list[Route]:
        """The routes, for the callers of `access`."""
        one, routes = ACTIONS + "/sets/{set}", _Routes(self.actions, self.settings, access)
        return [
            access.route(ACTIONS + "/sets", GET=routes.list_sets),
            access.route(one, slow=("PUT",), GET=routes.read_set, PUT=routes.put_set, DELETE=routes.delete_set),
            access.route(one + "/operations", GET=routes.list_operations),
            access.route(one + "/operations/{operation}", GET=routes.read_operation),
            access.route(one + "/operations/{operation}/run", slow=("POST",), POST=routes.run_operation),
            access.route(ACTIONS + "/search", POST=routes.search),
        ]


class _Routes:
    """The handlers of the routes."""

    def __init__(self, actions: Actions, settings: Mapping[str, SetSettings], access: Access) -> None:
        self._actions = actions
        self._library = actions.library
        self._settings = settings
        self._access = access
        self._writing = {name: asyncio.Lock() for name in settings}  # so that a put knows whether its set existed

    async def list_sets(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        return listed([self._set(row) for row in await self._rows(self._readable(scope, []))])

    async def read_set(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        (row,) = await self._rows([self._name(scope)])
        return self._set(row)

    async def put_set(self, scope: Scope, receive: Receive) -> ApiReply:
        """Bring a set up to date with the document in the body: 201 for the first document."""
        name = self._writable(scope)
        raw = await self._access.body(scope, receive)
        self._must_take_documents(name)
        async with self._writing[name]:
            (before,) = await self._rows([name])
            if not before.base_url:
                message = (
                    f"The gateway does not know the address of {name}: set actions.{name}.base_url. A document from a "
                    "client does not choose the address that credentials go to."
                )
                raise ApiError(409, message, code="action_set_without_address", param="set")
            address = self._settings[name].base_url.partition("?")[0] or before.base_url  # a query may have a key
            try:
                owner = exchange_of(scope).key
                report = await self._library.add(name, raw, base_url=address, limits=OF_CLIENT, owner=owner)
            except UnreadableSpec as error:
                message = f"The document cannot be read: {error}. Nothing is changed."
                raise ApiError(422, message, code="document_unreadable") from error
        self._actions.read_sets_again()
        counts = {
            "added": report.added,
            "changed": report.changed,
            "unchanged": report.unchanged,
            "removed": report.removed,
        }
        (row,) = await self._rows([name])
        return ApiReply(200 if before.updated_s else 201, {**self._set(row), "changes": counts})

    async def delete_set(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        """Delete the operations of a set."""
        name = self._writable(scope)
        self._must_take_documents(name)
        async with self._writing[name]:
            existed = await self._library.remove(name)
        self._actions.read_sets_again()
        if not existed:
            raise ApiError(404, f"The action set {name!r} has no operation.", code="action_set_not_found", param="set")
        return {"id": name, "object": "action_set.deleted", "deleted": True}

    async def list_operations(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        asked = query_of(scope, "limit", "after")
        limit = whole_number(asked.get("limit", str(_LISTED)), "limit", _MOST_LISTED)
        name, after = self._name(scope), asked.get("after", "")
        rows = await asyncio.to_thread(self._library.store.operations, name, after=after, limit=limit + 1)
        apis = await self._apis(scope, [name])
        page = [_operation(name, one, apis.get(name)) for one in rows[:limit]]
        return listed(page, more=len(rows) > limit)

    async def read_operation(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        name, operation = await self._operation(scope)
        return _with_arguments(name, operation, (await self._apis(scope, [name])).get(name))

    async def search(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        fields = await self._access.fields(scope, receive, "query", "sets", "k")
        named = fields.get("sets") or []
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            raise invalid("'sets' must be a list of names", "sets")
        query, k = query_text(fields.get("query")), k_of(fields, "k", _K)
        names, view = self._readable(scope, named), View(rights_of(scope).groups)
        found = (await self._library.find([Turn("user", query)], names, k=k, view=view)).actions
        apis = await self._apis(scope, list({one.set for one in found}))
        data = [_with_arguments(one.set, one.operation, apis.get(one.set)) for one in found]
        return {"object": "action.search", "query": query, "data": data}

    async def run_operation(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        fields = await self._access.fields(scope, receive, "arguments", "dry")
        arguments, dry = fields.get("arguments") or {}, yes_or_no(fields, "dry") is True
        if not isinstance(arguments, dict):
            raise invalid("'arguments' must be an object", "arguments")
        async with self._access.asking():
            name, operation = await self._operation(scope)
            api = (await self._apis(scope, [name])).get(name)
        if api is None:
            raise forbidden(f"This key has no credentials for {name} (ragway keys credentials set).", "set")
        return _dry(api, operation, arguments) if dry else await self._call(api, operation, arguments, scope)

    async def _call(self, api: Api, operation: Operation, arguments: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
        """The result of a call, as in a chat. Raises ApiError for a call that is refused."""
        exchange, label = exchange_of(scope), f"{api.name}/{operation.name}"
        traced = ActionCall(0, exchange.elapsed_ms(), api.name, label)
        exchange.action_trace = ActionTrace((api.name,), "", calls=[traced])
        if wrong := problems(api.schema_of(operation), arguments):
            traced.outcome = "invalid_arguments"
            raise invalid(f"'arguments': {'; '.join(wrong)}", "arguments")
        try:
            outcome = await traced_call(api, operation, arguments, self._actions.limits.call, exchange, traced)
        finally:
            traced.duration_ms = exchange.elapsed_ms() - traced.started_ms
        if outcome.word == "invalid_arguments":
            raise invalid(f"'arguments': {outcome.text}", "arguments")
        if outcome.word == "could_change":
            raise forbidden(outcome.text, "operation")
        return {
            "object": "action.result",
            "set": api.name,
            "operation": operation.name,
            "outcome": outcome.word,
            "status": outcome.status or None,
            "sent": outcome.sent,
            "text": outcome.text,
            "bytes": outcome.size,
            "ms": outcome.ms,
        }

    def _set(self, row: ActionSet) -> dict[str, Any]:
        refused = self._actions.ways.refused_of(row.name)
        return {
            "id": row.name,
            "object": "action_set",
            "title": row.title,
            "base_url": row.base_url.partition("?")[0],
            "operations": row.count,
            "uncallable": [{"method": one.method, "path": one.path, "reason": one.reason} for one in row.uncallable],
            "refused": [{"operation": operation, "model": model} for operation, model in refused],
            "updated_at": int(row.updated_s) if row.updated_s else None,
        }

    def _readable(self, scope: Scope, named: Sequence[str]) -> Sequence[str]:
        """The named sets, else all sets, that the caller may read. Raises ApiError 404."""
        rights = rights_of(scope)
        if named:
            return self._actions.sets_of(named, rights)
        return [name for name in self._settings if collection_of(name) in rights.read]

    async def _rows(self, names: Sequence[str]) -> list[ActionSet]:
        """The sets, also sets without a document. The addresses are those that are called."""
        known = {row.name: row for row in await asyncio.to_thread(self._library.store.sets)}
        found = [known.get(name, ActionSet(name, "", "", 0.0, ())) for name in names]
        return [replace(row, base_url=self._settings[row.name].base_url or row.base_url) for row in found]

    def _name(self, scope: Scope) -> str:
        """The set in the path. Raises ApiError 404, also for a set that the caller may not read."""
        (name,) = self._readable(scope, [scope["path_params"]["set"]])
        return name

    def _writable(self, scope: Scope) -> str:
        name = self._name(scope)
        must_write(collection_of(name), rights_of(scope))
        return name

    def _must_take_documents(self, name: str) -> None:
        if self._settings[name].spec:
            message = f"The document of {name} comes from the setting actions.{name}.spec: change the document there."
            raise ApiError(409, message, code="action_set_of_settings", param="set")

    async def _operation(self, scope: Scope) -> tuple[str, Operation]:
        name, wanted = self._name(scope), scope["path_params"]["operation"]
        for operation in (await asyncio.to_thread(self._library.store.found, [(name, wanted)])).values():
            return name, operation
        message = f"{name} has no operation {wanted!r}: GET {ACTIONS}/sets/{name}/operations lists the operations."
        raise ApiError(404, message, code="operation_not_found", param="operation")

    async def _apis(self, scope: Scope, names: Sequence[str]) -> Mapping[str, Api]:
        """Name of each set with a document that the caller's key may call -> the API."""
        rows = await asyncio.to_thread(self._library.store.sets)
        return await self._actions.apis.of(exchange_of(scope).key, [row for row in rows if row.name in names])


def _dry(api: Api, operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The request that a call would send, as `Api.shown_request`."""
    if wrong := problems(api.schema_of(operation), arguments):
        raise invalid(f"'arguments': {'; '.join(wrong)}", "arguments")
    try:
        request = api.shown_request(operation, arguments)
    except (BadArgument, ForbiddenAddress) as error:
        raise invalid(f"'arguments': {error}", "arguments") from error
    return {
        "object": "action.request",
        "set": api.name,
        "operation": operation.name,
        "method": request.method,
        "url": request.url,
        "headers": [{"name": name, "value": value} for name, value in request.headers],
        "body": request.body.decode("utf-8", "backslashreplace"),
    }


def _operation(name: str, operation: Operation, api: Api | None) -> dict[str, Any]:
    """api: as the caller's key calls the API; None: the key may not."""
    return {
        "id": operation.name,
        "object": "action.operation",
        "set": name,
        "method": operation.method,
        "path": operation.path,
        "summary": operation.summary,
        "description": operation.description,
        "callable": operation.reads and api is not None and api.serves(operation),
    }


def _with_arguments(name: str, operation: Operation, api: Api | None) -> dict[str, Any]:
    """The operation with the JSON Schema of the arguments, without the fixed arguments and the API key."""
    schema = api.schema_of(operation) if api is not None else operation.schema
    return {**_operation(name, operation, api), "arguments": schema}
