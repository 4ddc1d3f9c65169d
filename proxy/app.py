"""Route table and middleware list: a request's path, top to bottom.

CanonicalPaths  other spellings of a path become the served path
CORS      only with server.cors_origins; outside Observe, or pages could not read gateway errors
Observe   opens the exchange, answers gateway errors, logs
Guard     a valid key and its rights; without keys, programs on this machine, not web pages
Metering  key limits: admits the request, calls the model that its route chose, settles its usage
_Routes   dialect paths, then all other routes; `_Others` has paths without a route
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match, Route

from config.sections import Settings
from proxy.access.auth import Guard, must_be_no_page, origin_refused
from proxy.access.keys import Keyring, secret_of
from proxy.access.ledger import Ledger
from proxy.access.metering import Metering, within_ceiling
from proxy.api import admin, mcp
from proxy.api.admin import Admin
from proxy.api.advice import Advice
from proxy.api.knowledge import files, stores
from proxy.api.knowledge.access import ACTIONS
from proxy.api.knowledge.api import KnowledgeApi
from proxy.api.models import Models
from proxy.api.passthrough import relayed_kind
from proxy.api.paths import ACCOUNT, EXACT, MODEL_CALLS, WITH_MODEL, rewrite
from proxy.asgi import App, Receive, Scope, Send, covers, send_json, send_whole
from proxy.caller import Rights
from proxy.dialects.errors import ApiError, method_not_allowed
from proxy.dialects.messages import COUNT_PATH, MESSAGES
from proxy.dialects.paths import BY_PATH
from proxy.exchange import EXCHANGE, ModelCall, ModelRoute
from proxy.observe.metrics import CONTENT_TYPE, Metrics
from proxy.observe.middleware import Observe
from proxy.upstream.routes import Routes

if TYPE_CHECKING:
    from proxy.agent.actions import Actions

_EXPOSED = [
    "x-rag-id",
    "x-rag-status",
    "x-rag-reason",
    "x-rag-sources",
    "x-rag-actions",
    "x-rag-pending",
    "x-rag-compare",
    "x-rag-patterns",
    "x-rag-upstream-status",
    "server-timing",
]
_WITHHELD = "there are problems: send a key made with --metrics or --admin, or read the log"


@dataclass(frozen=True, slots=True)
class Parts:
    """What the application consists of; `cli.assembly.gateway` makes it from settings."""

    chat: ModelRoute
    count: ModelRoute  # of tokens
    knowledge: KnowledgeApi
    mcp: App
    admin: Admin
    passthrough: ModelRoute
    upstream: App
    routes: Routes
    ready: Callable[[], str]  # "" when ready, else the missing part
    warnings: Callable[[], Sequence[str]]  # problems of a ready gateway
    begun: Callable[[], Awaitable[None]]  # returns once the index can be searched
    metrics: Metrics
    keyring: Keyring
    ledger: Ledger
    settings: Settings
    actions: "Actions | None" = None  # None: no API is configured


def application(parts: Parts) -> App:
    """The gateway as an ASGI app."""
    settings, listed = parts.settings, tuple(parts.settings.upstream.paths)
    relayed = {
        path for path in (stores.PATH, files.PATH, admin.USAGE, ACTIONS) if any(covers(each, path) for each in listed)
    }
    if stores.PATH in relayed:  # files belong to vector stores
        relayed.add(files.PATH)

    async def check_collections(names: Sequence[str], rights: Rights) -> None:
        await parts.begun()
        await parts.knowledge.check_readable(names, rights)

    check_sets = None if parts.actions is None else parts.actions.sets_of
    models = Models(parts.routes, parts.upstream, check_collections, check_sets=check_sets)
    asking = [*parts.knowledge.routes(relayed=relayed), Route(mcp.PATH, parts.mcp)]
    guarded = [
        *(Route(route.path, _Begun(route.app, parts.begun)) for route in asking),
        *parts.admin.routes(usage=admin.USAGE not in relayed),
    ]
    ours = [
        Route("/v1/models", _Only(models.list, "GET", "HEAD")),
        Route("/v1/models/{name:path}", _Only(models.one, "GET", "HEAD")),
        *(Route(route.path, _NoPage(route.app)) for route in guarded),
        Route("/metrics", _Only(_MetricsPage(parts.metrics, parts.ready), "GET", "HEAD")),
        Route("/healthz", _Only(_health, "GET", "HEAD")),
        Route("/readyz", _Only(_Readiness(parts), "GET", "HEAD")),
    ]
    relays = _below([*MODEL_CALLS, *ACCOUNT, *listed])
    advice = Advice([*BY_PATH, COUNT_PATH, *WITH_MODEL, *relays, *(one.path for one in ours)])
    others = _Others(parts.passthrough, listed, advice)
    chat, count = (_Only(_NoPage(one), "POST") for one in (parts.chat, parts.count))
    calls: dict[str, ModelRoute] = {path: chat for path in BY_PATH if path not in listed}
    if not {MESSAGES.path, COUNT_PATH} & set(listed):
        calls[COUNT_PATH] = count
    metered = Metering(_Routes(calls, ours, others), parts.ledger, settings.usage.record, relayed=listed)
    origins = settings.server.cors_origins
    guarded_app = Guard(metered, keyring=parts.keyring, open=settings.auth.open, origins=origins)
    app = Observe(guarded_app, parts.metrics, within_ceiling)
    return CanonicalPaths(_cors(app, origins) if origins else app)


class CanonicalPaths:
    """The outermost app: gives each request the served path."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and scope["path"] not in EXACT:
            rewrite(scope)
        return self._app(scope, receive, send)


class _Cors(CORSMiddleware):
    """Starlette's CORS with refusals of preflights in the shape of the gateway's errors."""

    def preflight_response(self, request_headers: Headers) -> Response:
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            return answer
        refused = bytes(answer.body).decode().removeprefix("Disallowed CORS ")
        methods = ", ".join(self.allow_methods)
        error = origin_refused(request_headers["origin"], f"; refused for its {refused} (methods are {methods})")
        kept = {name: value for name, value in answer.headers.items() if not name.startswith("content-")}
        return Response(error.body(), error.status, kept, "application/json")


def _cors(app: App, origins: tuple[str, ...]) -> App:
    return _Cors(
        app,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["*"],
        expose_headers=_EXPOSED,
    )


@dataclass(frozen=True, slots=True)
class _Routes:
    """The paths of dialects, before all others: most requests are chats, and the other routes are matched in turn.

    A path that `upstream.paths` names itself is relayed without passages.
    """

    calls: Mapping[str, ModelRoute]
    ours: Sequence[Route]
    others: ModelRoute

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[ModelCall | None]:
        if (call := self.calls.get(scope["path"])) is not None:
            return call(scope, receive, send)
        for route in self.ours:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route.handle(scope, receive, send)
        return self.others(scope, receive, send)


async def _health(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_json(send, 200, b'{"status":"ok"}')


@dataclass(frozen=True, slots=True)
class _Readiness:
    """200 while nothing is missing, else 503 with the missing part; and problems that leave the gateway ready.

    The path takes no key. Once keys exist, only callers with a key for the metrics read names, paths and addresses.
    """

    parts: Parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        missing, warnings = self.parts.ready(), list(self.parts.warnings())
        if not self._trusted(scope):
            missing = missing.partition(":")[0]
            warnings = [_WITHHELD] if warnings else []
        said: dict[str, object] = {"status": missing or "ready"}
        if warnings:
            said["warnings"] = warnings
        await send_json(send, 503 if missing else 200, orjson.dumps(said))

    def _trusted(self, scope: Scope) -> bool:
        keyring = self.parts.keyring
        if not keyring.closed:
            return True
        key = keyring.key_of(secret_of(scope["headers"]))
        return key is not None and (key.rights.admin or key.rights.metrics)


@dataclass(frozen=True, slots=True)
class _MetricsPage:
    """All counters, in the text format of Prometheus."""

    metrics: Metrics
    missing: Callable[[], str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rights: Rights = scope[EXCHANGE].rights
        if not (rights.admin or rights.metrics):
            message = "This key may not read the gateway's metrics: that takes one made with --metrics or --admin."
            raise ApiError(403, message, code="forbidden", type="permission_error")
        await send_whole(send, 200, self.metrics.text(ready=not self.missing()), CONTENT_TYPE)


class _Only:
    """A route that answers these methods alone."""

    def __init__(self, app: ModelRoute, *methods: str) -> None:
        self._app = app
        self._methods = methods

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[ModelCall | None]:
        if scope["method"] not in self._methods:
            raise method_not_allowed(scope["method"], scope["path"], self._methods)
        return self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _NoPage:
    """A route that no web page reaches with a body without a preflight."""

    app: ModelRoute

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[ModelCall | None]:
        must_be_no_page(scope)
        return self.app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Begun:
    """An app that uses the index: while the gateway starts, callers wait."""

    app: App
    begun: Callable[[], Awaitable[None]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.begun()
        await self.app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Others:
    """Paths without a route: relayed, or refused."""

    relay: ModelRoute
    listed: Collection[str]
    advice: Advice

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[ModelCall | None]:
        path = scope["path"]
        listed = path.startswith("/v1/") and any(covers(each, path) for each in self.listed)
        if listed or relayed_kind(path):
            return self.relay(scope, receive, send)
        raise self.advice.unknown(scope)


def _below(listed: Collection[str]) -> list[str]:
    """These paths, and templates of the paths below. A path with a brace would be a template itself."""
    return [template for path in listed if "{" not in path for template in (path, path + "/{rest:path}")]
