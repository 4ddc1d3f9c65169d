"""Routes for declared handlers: an endpoint reads what a handler declares, calls it, and sends what it returns."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from msgspec import Struct
from starlette.routing import Route

from proxy.api.knowledge.declarations import Declaration, handlers_of
from proxy.api.knowledge.parameters import query_of, read_as
from proxy.asgi import Receive, Scope, Send, send_whole
from proxy.caller import Rights
from proxy.dialects.errors import Headers
from proxy.exchange import EXCHANGE, Exchange


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request for a declared operation."""

    scope: Scope
    receive: Receive
    rules: "Rules"
    exchange: Exchange
    path: Mapping[str, str]  # path parameters

    @property
    def rights(self) -> Rights:
        return self.exchange.rights


class Rules(ABC):
    """What an API's operations share."""

    headers: ClassVar[Headers] = []  # for all answers
    call: ClassVar[type[ApiCall]] = ApiCall

    @abstractmethod
    def check(self, scope: Scope, methods: Sequence[str]) -> None:
        """Refuse a caller, or a method without a handler."""

    async def admit(self, call: ApiCall, *, writes: bool) -> None:
        """Refuse a caller without a right to the collection in the path; only called if a `right` is declared."""
        raise NotImplementedError

    @abstractmethod
    async def fields(self, call: ApiCall, kind: type[Struct]) -> Mapping[str, Any]:
        """The body's fields, all among those of `kind`, with values unchecked."""

    @abstractmethod
    def asking(self, *, writing: bool = False, slow: bool = False) -> AbstractAsyncContextManager[None]:
        """Turn errors inside into ApiErrors, within a deadline; slow: without one."""


def routes_of(rules: Rules, *owners: object) -> list[Route]:
    """Routes for all handlers that the owners declare."""
    return [Route(path, _Endpoint(rules, handlers)) for path, handlers in handlers_of(*owners).items()]


class _Endpoint:
    """A route: a handler for each method, and an answer to others."""

    def __init__(self, rules: Rules, handlers: Mapping[str, tuple[Declaration, Callable[..., Any]]]) -> None:
        get = handlers.get("GET")
        self._handlers = handlers if get is None or get[0].streams else {**handlers, "HEAD": get}
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rules = self._rules
        rules.check(scope, list(self._handlers))
        declared, handler = self._handlers[scope["method"]]
        call = rules.call(scope, receive, rules, scope[EXCHANGE], scope["path_params"])
        arguments: dict[str, Any] = {}
        if declared.query is not None:
            arguments["query"] = query_of(scope, declared.query)
        writing = declared.writing or declared.method in ("PUT", "DELETE")
        async with rules.asking(writing=writing, slow=declared.slow or declared.streams):
            if declared.right:
                async with rules.asking(writing=writing):
                    await rules.admit(call, writes=declared.right == "write")
            if declared.streams:
                await handler(call, send=send, **arguments)
                return
            if isinstance(declared.body, type) and issubclass(declared.body, Struct):
                fields = await rules.fields(call, declared.body)
                arguments["body"] = fields if declared.raw else read_as(declared.body, fields)
            found = await handler(call, **arguments)
        status, body = found if isinstance(found, tuple) else (next(iter(declared.gives)), found)
        if isinstance(body, str):
            await send_whole(send, status, body.encode(), b"text/csv; charset=utf-8", rules.headers)
        else:
            await send_whole(send, status, msgspec.json.encode(body), b"application/json", rules.headers)
