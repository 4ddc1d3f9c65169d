"""The route table and the middleware list: a request's path, top to bottom.

CORS      only where server.cors_origins names somebody; outermost, or a page could not read our errors
Observe   opens the exchange, answers our errors, logs
Guard     no keys yet: programs on this machine, and no web page
routes    below
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proxy.asgi import App, Receive, Scope, Send, send_json
from proxy.auth import Guard
from proxy.errors import ApiError
from proxy.exchange import exchange_of
from proxy.observe import Observe
from proxy.upstream.base import Routes

_EXPOSED = ["x-rag-id", "x-rag-status", "x-rag-reason", "x-rag-sources", "server-timing"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the application is made of; `build` makes them from settings."""

    chat: App
    passthrough: App
    upstream: App
    routes: Routes
    ready: Callable[[], str]  # "" when ready, else what is still missing
    open: bool
    cors_origins: tuple[str, ...]
    any_type_paths: tuple[str, ...]


def application(parts: Parts) -> App:
    """The gateway as an ASGI app."""
    routes = [
        Route("/healthz", _healthz),
        Route("/readyz", _readyz(parts.ready)),
        Route("/v1/models", _Models(parts.routes, parts.upstream), methods=["GET"]),
        Route("/v1/models/{name:path}", _Model(parts.routes), methods=["GET"]),
        Route("/v1/chat/completions", parts.chat, methods=["POST"]),
        Route("/v1/{path:path}", parts.passthrough),
    ]
    middleware = [
        *([_cors(parts.cors_origins)] if parts.cors_origins else []),
        Middleware(Observe),
        Middleware(Guard, open=parts.open, origins=parts.cors_origins, any_type_paths=parts.any_type_paths),
    ]
    app = Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _not_served})
    app.router.redirect_slashes = False  # /v1 is an unknown path, not a redirect to /v1/
    return app


def _cors(origins: tuple[str, ...]) -> Middleware:
    return Middleware(
        CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST", "DELETE"], allow_headers=["*"],
        expose_headers=_EXPOSED,
    )  # fmt: skip


class _Models:
    """GET /v1/models: the configured names, or the upstream's own list behind a lone pattern."""

    def __init__(self, routes: Routes, upstream: App) -> None:
        self._routes = routes
        self._upstream = upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lister = self._routes.lister()
        if lister is not None:
            exchange_of(scope).target = lister
            await self._upstream(scope, receive, send)
            return
        data = [_described(name) for name in sorted(self._routes.names())]
        await send_json(send, 200, orjson.dumps({"object": "list", "data": data}))


class _Model:
    """GET /v1/models/NAME: whether a request for this model would be served."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["name"]
        self._routes.resolve(name)
        await send_json(send, 200, orjson.dumps(_described(name)))


def _described(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "ragway"}


async def _healthz(_request: Request) -> Response:
    """200 while the process serves."""
    return Response(b'{"status":"ok"}', media_type="application/json")


def _readyz(ready: Callable[[], str]) -> Callable[[Request], Awaitable[Response]]:
    """200 once everything that will be used is warm, else 503 with what is missing."""

    async def readyz(_request: Request) -> Response:
        missing = ready()
        body = orjson.dumps({"status": missing or "ready"})
        return Response(body, status_code=503 if missing else 200, media_type="application/json")

    return readyz


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        text, code = f"{request.url.path} does not take {request.method}.", "method_not_allowed"
    else:
        text = f"{request.url.path} is not served here; try POST /v1/chat/completions."
        code = "unknown_path"
    answer = ApiError(error.status_code, text, code=code)
    return Response(answer.body(), error.status_code, error.headers, "application/json")
