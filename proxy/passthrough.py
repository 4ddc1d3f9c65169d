"""The other paths under /v1: relayed to the upstream of the `model` in their body, never augmented."""

from collections.abc import Mapping

from proxy.asgi import App, Receive, Scope, Send, covers
from proxy.augment import Resolve
from proxy.body import whole_body
from proxy.chat import model_of, parse
from proxy.errors import ApiError, method_not_allowed
from proxy.exchange import exchange_of

_WITH_MODEL = ("/v1/embeddings", "/v1/completions", "/v1/responses")


class Passthrough:
    """Embeddings, completions and responses by their model; other paths by the `upstream.paths` setting."""

    def __init__(self, app: App, *, resolve: Resolve, paths: Mapping[str, str], max_body_bytes: int) -> None:
        self._app = app
        self._resolve = resolve
        self._paths = paths
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        path = scope["path"]
        listed = self._listed(path)
        if listed is not None:
            exchange.model = listed
            exchange.target = self._resolve(listed, exchange.rights)
            exchange.body = await whole_body(scope, receive, max_bytes=self._max_body_bytes)
        elif path in _WITH_MODEL and scope["method"] == "POST":
            body = parse(await whole_body(scope, receive, max_bytes=self._max_body_bytes))
            exchange.model = model_of(body)
            exchange.target = self._resolve(exchange.model, exchange.rights)
            exchange.body = body.edited(model=exchange.target.model, without_rag=True)
        elif path in _WITH_MODEL:
            raise method_not_allowed(scope["method"], path, ["POST"])
        else:
            message = f"{scope['method']} {path} is not served here; list it in upstream.paths to relay it."
            raise ApiError(404, message, code="unknown_path")
        exchange.rag_status, exchange.rag_reason = "off", "path is not augmented"
        if exchange.target.lane != "relay":
            message = f"{path} is relayed only, and {exchange.model!r} is served by the {exchange.target.lane} lane."
            raise ApiError(404, message, code="path_not_supported", param="model")
        await self._app(scope, receive, send)

    def _listed(self, path: str) -> str | None:
        """The model for a listed path or one below it."""
        return next((model for listed, model in self._paths.items() if covers(listed, path)), None)
