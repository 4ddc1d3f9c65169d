"""The paths under /v1 that are relayed, to the upstream of the `model` in their body, and never augmented."""

from collections.abc import Callable, Mapping, Sequence

from proxy.access.auth import must_be_no_page
from proxy.api.named import in_json, models_in, named_in
from proxy.asgi import App, Receive, Scope, Send, covers
from proxy.augment.gate import split_model
from proxy.augment.middleware import Resolve
from proxy.body import by_size, json_body, whole_body
from proxy.dialects.responses import stored_id, stored_methods
from proxy.dialects.token_counts import Tokens
from proxy.errors import ApiError, method_not_allowed
from proxy.exchange import Exchange, Target, exchange_of

_ANY_MODEL = "*"  # the name that only the row for every model matches


class Passthrough:
    """WITH_MODEL by the model of their body; stored responses; paths that are listed by the `upstream.paths` setting.

    A stored response has no model in its path: the request goes by the model in the query, else to the row for every
    model.

    A listed path, too, goes by the model where its body, or else its query, names one: what the upstream reads is what
    was checked.
    """

    def __init__(
        self,
        upstream: App,
        *,
        resolve: Resolve,
        paths: Mapping[str, str],
        max_body_bytes: int,
        forget: Callable[[str, str], None] | None = None,
    ) -> None:
        """forget: called with the key and the id of a response or conversation that the client deletes."""
        self._forget = forget
        self._upstream = upstream
        self._resolve = resolve
        self._paths = paths
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        path = scope["path"]
        if self._forget is not None and scope["method"] == "DELETE" and (id := stored_id(path)):
            self._forget(exchange.key, id)
        listed, asked = self._listed(path), models_in(scope["query_string"])
        exchange.listed = listed is not None
        if listed is None and (methods := stored_methods(path)):
            if scope["method"] not in methods:
                raise method_not_allowed(scope["method"], path, methods)
            must_be_no_page(scope)
            listed = _ANY_MODEL
            exchange.tokens = Tokens(0, 0)  # the usage in a stored response was counted when the model was called
        if listed is not None:
            raw = await whole_body(scope, receive, max_bytes=self._max_body_bytes)
            named = await by_size(raw, lambda: named_in(scope, raw, asked[0] if asked else listed))
        elif scope["method"] == "POST":
            must_be_no_page(scope)
            body = await json_body(scope, receive, max_bytes=self._max_body_bytes)
            raw, named = body.raw, in_json(body)
        else:
            raise method_not_allowed(scope["method"], path, ["POST"])
        exchange.fields = named.fields
        exchange.model, _, _ = split_model(named.model)
        target = self._target(exchange, path, asked)
        exchange.body = await by_size(raw, lambda: named.renamed(target.model))
        exchange.rag_status, exchange.rag_reason = "off", "path is not augmented"
        if target.lane != "relay":
            message = f"{path} is relayed only, and {exchange.model!r} is served by the {target.lane} lane."
            if stored_methods(path):
                message += " This lane stores no response: send the whole conversation in `input`."
            raise ApiError(404, message, code="path_not_supported", param="model")
        exchange.upstream = self._upstream

    def _target(self, exchange: Exchange, path: str, asked: Sequence[str]) -> Target:
        """Set the target of the exchange's model. asked: the models in the query. Raises ApiError 404, 400."""
        try:
            exchange.target = target = self._resolve(exchange.model, exchange.rights)
        except ApiError as error:
            if exchange.model != _ANY_MODEL:
                raise
            message = f"{path} names no model: add the model that wrote the response, as in {path}?model=NAME."
            raise ApiError(404, message, code="model_not_found", param="model") from error
        if any(model != target.model for model in asked):  # a query travels as it came
            message = f"The query names another model than the one that is called, {target.model!r}: name it alone."
            raise ApiError(400, message, code="ambiguous_field", param="model")
        return target

    def _listed(self, path: str) -> str | None:
        """The model for a listed path or one below it."""
        return next((model for listed, model in self._paths.items() if covers(listed, path)), None)
