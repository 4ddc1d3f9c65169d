"""Relayed paths under /v1: never augmented; with the key's rights, to the model's upstream.

The body names the model, in JSON or as a form field; else the query; else, on a path in `upstream.paths`, that setting.
Without any model, a request goes to row `*` or to the relay's only upstream, and its key needs a right to every model.
The upstream reads the model that we checked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from proxy.access.auth import must_be_no_page
from proxy.api.named import in_json, named_in
from proxy.api.paths import ACCOUNT, MODEL_CALLS, WITH_MODEL, covered
from proxy.asgi import App, Receive, Scope, Send, covers
from proxy.augment.gate import split_model, split_sets
from proxy.body import DEPLOYMENT, json_body, whole_body
from proxy.dialects.errors import ApiError, forbidden, method_not_allowed
from proxy.dialects.json_body import by_size
from proxy.dialects.replies import Tokens
from proxy.dialects.responses import OWN_ID, RESPONSES, stored_id, stored_methods
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange, ModelCall, one_call, uncounted
from proxy.query import check_models, models_in
from proxy.upstream.routes import ANY_MODEL, Routes

# listed: in the settings. named: WITH_MODEL. call: MODEL_CALLS. account: ACCOUNT. stored: a stored response.
Kind = Literal["listed", "named", "call", "account", "stored"]
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def relayed_kind(path: str) -> Kind | None:
    """The kind of a path that is relayed without being in `upstream.paths`; None: another path."""
    if path in WITH_MODEL:
        return "named"
    if covered(path, MODEL_CALLS):
        return "call"
    if covered(path, ACCOUNT):
        return "account"
    return "stored" if stored_methods(path) else None


@dataclass(eq=False, repr=False)
class Passthrough:
    """Paths relayed by default (`relayed_kind`), or by setting `upstream.paths`."""

    upstream: App
    _: KW_ONLY
    routes: Routes
    paths: Mapping[str, str]  # listed path -> model for requests without one
    max_body_bytes: int
    action_sets: bool = False  # whether a model name may name action sets
    # Called with key and id when a client deletes a response or conversation.
    forget: Callable[[str, str], None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> ModelCall:
        """Prepare the upstream call: set the exchange's target and body. Raises ApiError."""
        exchange: Exchange = scope[EXCHANGE]
        path = scope["path"]
        listed, asked = self._listed(path), models_in(scope["query_string"])
        kind = "listed" if listed is not None else relayed_kind(path)
        exchange.listed = listed is not None
        if kind != "listed":
            _check(scope, exchange, kind)
        if self.forget is not None and scope["method"] == "DELETE" and (id := stored_id(path)):
            self.forget(exchange.key, id)
        if kind == "stored" and path.startswith(f"{RESPONSES.path}/{OWN_ID}"):
            message = f"{path}: ragway wrote this response and kept no copy: send the whole conversation in `input`."
            raise ApiError(404, message, code="response_not_stored")
        if kind == "named":
            body = await json_body(scope, receive, max_bytes=self.max_body_bytes)
            raw, named = body.raw, in_json(body)
        else:
            raw = await whole_body(scope, receive, max_bytes=self.max_body_bytes)
            named = await by_size(raw, lambda: named_in(scope, raw))
        exchange.fields = named.fields
        exchange.rights.check_members(named.fields)
        beside = scope.get(DEPLOYMENT) or (asked[0] if asked else listed or "")
        name = named.model or beside
        model, _, _ = split_model(split_sets(name)[0] if self.action_sets else name)
        exchange.model = model or ANY_MODEL
        # The upstream reads no model, and may call one that was not checked.
        if not named.model and not exchange.rights.models.all and (kind in ("call", "account") or not model):
            raise forbidden(
                f"{path} names no model, and this key may not call every model: {_how_to_name(path)}.", "model"
            )
        target = self._target(model, exchange, path, asked)
        exchange.body = await by_size(raw, lambda: named.renamed(target.model)) if named.model else raw
        exchange.rag_status, exchange.rag_reason = "off", "path is not augmented"
        exchange.once = True
        return one_call(self.upstream) if exchange.tokens is None else uncounted(self.upstream)

    def _listed(self, path: str) -> str | None:
        """The model for a listed path, or for one below it."""
        return next((model for listed, model in self.paths.items() if covers(listed, path)), None)

    def _target(self, model: str, exchange: Exchange, path: str, asked: Sequence[str]) -> Target:
        """Set the exchange's target. Raises ApiError 400, 404.

        model: "" if the request has none. asked: models in its query.
        """
        target = self.routes.resolve(model, exchange.rights) if model else self.routes.without_model()
        if target is None:
            message = f"{path} does not name a model, and this gateway has several upstreams: {_how_to_name(path)}."
            raise ApiError(404, message, code="model_not_found", param="model")
        exchange.target = target
        if target.lane != "relay":
            served = (
                f"{model!r} is served by the {target.lane} lane" if model else "no row of `models` is in the relay lane"
            )
            message = f"{path} is relayed only, and {served}: name a model with lane: relay."
            if stored_methods(path):
                message += " This lane does not store responses: send the whole conversation in `input`."
            raise ApiError(404, message, code="path_not_supported", param="model")
        check_models(asked, target.model)
        return target


def _check(scope: Scope, exchange: Exchange, kind: Kind | None) -> None:
    """Refuse a request by its head, on a path relayed by default. Raises ApiError 403, 405, 415."""
    path, method = scope["path"], scope["method"]
    methods = ("POST",) if kind == "named" else stored_methods(path) if kind == "stored" else _METHODS
    if method not in methods:
        raise method_not_allowed(method, path, methods)
    must_be_no_page(scope, any_type=kind in ("call", "account"))
    of_account = kind == "account" or (kind == "call" and method != "POST")
    if of_account and (exchange.limits.of_use or not exchange.rights.models.all):
        raise forbidden(
            f"{method} {path} works with the whole account at the upstream, and the work is not counted here: it "
            "takes a key with the right to every model (--model '*'), and without a limit of tokens or dollars.",
            "model",
        )
    if kind in ("account", "stored"):
        exchange.tokens = Tokens(0, 0)  # counted already, when the model was called


def _how_to_name(path: str) -> str:
    return "name a 'model' in the body" if covered(path, MODEL_CALLS) else f"add the model, as in {path}?model=NAME"
