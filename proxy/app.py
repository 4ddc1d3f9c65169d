"""The route table and the middleware list: a request's path, top to bottom.

CORS      only where server.cors_origins names somebody; outermost, or a page could not read our errors
Observe   opens the exchange, answers our errors, logs
Guard     a valid key and its rights; without keys, programs on this machine and no web page
Entry     what the key's limits allow
_Chats    chat completions; all other paths by the router
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router

from proxy import admin, mcp
from proxy.accounts.keys import Keyring
from proxy.accounts.ledger import Ledger
from proxy.accounts.metered import Entry
from proxy.admin import Admin
from proxy.asgi import App, Receive, Scope, Send, covers, send_json, send_whole
from proxy.auth import Guard
from proxy.errors import ApiError, method_not_allowed
from proxy.exchange import exchange_of
from proxy.knowledge import files, stores
from proxy.knowledge.api import KnowledgeApi
from proxy.metrics import CONTENT_TYPE, Metrics
from proxy.observe import Observe
from proxy.upstream.base import Routes

_EXPOSED = ["x-rag-id", "x-rag-status", "x-rag-reason", "x-rag-sources", "x-rag-compare", "server-timing"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the application is made of; `build` makes them from settings."""

    chat: App
    knowledge: KnowledgeApi
    mcp: App
    admin: Admin
    passthrough: App
    upstream: App
    routes: Routes
    ready: Callable[[], str]  # "" when ready, else what is still missing
    metrics: Metrics
    keyring: Keyring
    ledger: Ledger
    open: bool
    cors_origins: tuple[str, ...]
    any_type_paths: tuple[str, ...]


def application(parts: Parts) -> App:
    """The gateway as an ASGI app."""
    listed = parts.any_type_paths
    relayed = {path for path in (stores.PATH, files.PATH, admin.USAGE) if any(covers(each, path) for each in listed)}
    if stores.PATH in relayed:  # files are for vector stores
        relayed.add(files.PATH)
    # Starlette's router alone: its application would wrap `send` twice more, for every chunk of every stream.
    routes = Router(
        [
            Route("/v1/models", _Only(_Models(parts.routes, parts.upstream), "GET", "HEAD")),
            Route("/v1/models/{name:path}", _Only(_Model(parts.routes), "GET", "HEAD")),
            *parts.knowledge.routes(relayed=relayed),
            *parts.admin.routes(usage=admin.USAGE not in relayed),
            Route("/v1/{path:path}", parts.passthrough),
            Route(mcp.PATH, parts.mcp),
            Route("/metrics", _Only(_Metrics(parts.metrics, parts.ready), "GET", "HEAD")),
            Route("/healthz", _Only(_Status("ok", lambda: ""), "GET", "HEAD")),
            Route("/readyz", _Only(_Status("ready", parts.ready), "GET", "HEAD")),
        ],
        redirect_slashes=False,  # /v1 is an unknown path, not a redirect to /v1/
        default=_unknown_path,
    )
    app: App = _Chats(_Only(parts.chat, "POST"), routes)
    app = Entry(app, parts.ledger, relayed=parts.any_type_paths)
    app = Guard(
        app, keyring=parts.keyring, open=parts.open, origins=parts.cors_origins, any_type_paths=parts.any_type_paths
    )
    app = Observe(app, parts.metrics)
    return _cors(app, parts.cors_origins) if parts.cors_origins else app


def _cors(app: App, origins: tuple[str, ...]) -> App:
    return CORSMiddleware(
        app, allow_origins=list(origins), allow_methods=["GET", "POST", "PUT", "DELETE"], allow_headers=["*"],
        expose_headers=_EXPOSED,
    )  # fmt: skip


class _Chats:
    """The one path that nearly all requests ask for, in front of the others: the router takes 7 µs to find it."""

    def __init__(self, chat: App, others: App) -> None:
        self._chat = chat
        self._others = others

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (self._chat if scope["path"] == "/v1/chat/completions" else self._others)(scope, receive, send)


class _Models:
    """GET /v1/models: the configured names that may be called, or the upstream's own list behind a lone pattern."""

    def __init__(self, routes: Routes, upstream: App) -> None:
        self._routes = routes
        self._upstream = upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        may_call = exchange_of(scope).rights.models
        lister = self._routes.lister()
        if lister is not None and may_call.all:
            exchange_of(scope).target = lister
            await self._upstream(scope, receive, send)
            return
        # Behind a lone pattern the names that the caller was granted one by one are those that are known.
        names = may_call.exact if lister is not None else {n for n in self._routes.names() if n in may_call}
        data = [_described(name) for name in sorted(names)]
        await send_json(send, 200, orjson.dumps({"object": "list", "data": data}))


class _Model:
    """GET /v1/models/NAME: whether a request for this model would be served."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["name"]
        self._routes.resolve(name, exchange_of(scope).rights)
        await send_json(send, 200, orjson.dumps(_described(name)))


def _described(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "ragway"}


class _Status:
    """200 while nothing is missing, else 503 with what is."""

    def __init__(self, well: str, missing: Callable[[], str]) -> None:
        self._well = well
        self._missing = missing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        missing = self._missing()
        await send_json(send, 503 if missing else 200, orjson.dumps({"status": missing or self._well}))


class _Metrics:
    """Everything counted, as Prometheus reads it."""

    def __init__(self, metrics: Metrics, missing: Callable[[], str]) -> None:
        self._metrics = metrics
        self._missing = missing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not exchange_of(scope).rights.admin:
            message = "This key may not read the gateway's metrics: that takes one made with --admin."
            raise ApiError(403, message, code="forbidden", type="permission_error")
        await send_whole(send, 200, self._metrics.text(ready=not self._missing()), CONTENT_TYPE)


class _Only:
    """An app for these methods alone."""

    def __init__(self, app: App, *methods: str) -> None:
        self._app = app
        self._methods = methods

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["method"] not in self._methods:
            raise method_not_allowed(scope["method"], scope["path"], self._methods)
        return self._app(scope, receive, send)


async def _unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    message = f"{scope['path']} is not served here; try POST /v1/chat/completions."
    raise ApiError(404, message, code="unknown_path")
