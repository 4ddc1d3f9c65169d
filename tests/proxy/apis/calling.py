"""What the tests of calls share: an API on loopback, and an operation that reads."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

from proxy.apis.call import Api, CallLimits, CallResult, call
from proxy.apis.credentials import ApiKey
from proxy.apis.openapi.operation import Operation, Parameter
from runtime.public_addresses import networks_of
from tests.support.api_server import ApiRequest, ApiServer, Handler, Reply, api_server

LOOPBACK = networks_of(["127.0.0.0/8", "::1/128"])
QUICK = CallLimits(pause_s=0)
OK = Reply(body=b'{"ok": true}', headers=[("Content-Type", "application/json")])


def operation(method: str = "GET", path: str = "/things", *query: str) -> Operation:
    """An operation with text parameters in the query."""
    return Operation(
        name="listThings",
        method=method,
        path=path,
        schema={"type": "object", "properties": {name: {"type": "string"} for name in query}, "required": []},
        parameters=tuple(Parameter(name, name, "query", "form", explode=True) for name in query),
    )


def bearer(token: str) -> ApiKey:
    return ApiKey(f"Bearer {token}", "header", "authorization")


@contextlib.asynccontextmanager
async def served_api(
    handler: Handler, auth: httpx.Auth | None = None, **more: Any
) -> AsyncIterator[tuple[ApiServer, Api]]:
    """A server that answers by `handler`, and the API as configured for the server."""
    async with api_server(handler) as server:
        api = Api("things", server.base_url, auth, networks=LOOPBACK, **more)
        try:
            yield server, api
        finally:
            await api.close()


async def called(api: Api, one: Operation | None = None, limits: CallLimits = QUICK, **arguments: Any) -> CallResult:
    return await call(api, one or operation(), arguments, limits)


def replies(*given: Reply) -> Handler:
    """A server that gives these replies, one after the other; the last again and again."""
    left: Iterator[Reply] = iter(given)

    async def handler(_: ApiRequest) -> Reply:
        return next(left, given[-1])

    return handler


async def accepts(_: object) -> Reply:
    return OK
