"""Where requests go: a model's name to its target, and a target's lane to the app that speaks to it."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace

from proxy.access.rights import EVERYTHING, Rights
from proxy.asgi import App, Receive, Scope, Send
from proxy.errors import ApiError, Headers
from proxy.exchange import Lane, Target, exchange_of


class Routes:
    """The configured models: an exact name wins, then the longest pattern that ends with *."""

    def __init__(self, rows: Mapping[str, Target]) -> None:
        self._exact = {
            name: replace(row, model=row.model or name) for name, row in rows.items() if not name.endswith("*")
        }
        patterns = [(name[:-1], row) for name, row in rows.items() if name.endswith("*")]
        self._patterns = sorted(patterns, key=lambda pattern: len(pattern[0]), reverse=True)

    def resolve(self, name: str, rights: Rights) -> Target:
        """The target for a model. An empty `Target.model` takes the name asked for.

        Raises ApiError 404, the same for a model that is not there and for one that may not be called.
        """
        target = self.row_of(name) if name in rights.models else None
        if target is None:
            raise self.absent(name, rights)
        return target if target.model else replace(target, model=name)

    def row_of(self, name: str) -> Target | None:
        """The row that a model's requests take."""
        target = self._exact.get(name)
        if target is not None:
            return target
        return next((row for prefix, row in self._patterns if name.startswith(prefix)), None)

    def absent(self, name: str, rights: Rights) -> ApiError:
        """The answer to a name that means no model here: 404, with those that do."""
        listed = ", ".join(self.names(rights)) or "none by name"
        message = f"The model {name!r} is not configured on this gateway; it has: {listed}."
        return ApiError(404, message, code="model_not_found", param="model")

    def names(self, rights: Rights = EVERYTHING) -> Sequence[str]:
        """What may be called and is known by name.

        The configured names, those that stand for a pattern (an echo is "echo", a pattern with a model of its own that
        model), and those that the caller was granted one by one.
        """
        stand_ins = [(row.model or "echo", row) for _, row in self._patterns if row.model or row.lane == "echo"]
        names = [*self._exact, *(name for name, row in stand_ins if self.row_of(name) is row)]
        granted = sorted(name for name in rights.models.exact if self.row_of(name) is not None)
        return list(dict.fromkeys([*(name for name in names if name in rights.models), *granted]))

    def listers(self) -> Sequence[Target]:
        """The patterns' rows whose upstream knows the models behind them."""
        return [row for _, row in self._patterns if row.lane == "relay" and not row.model]


class Upstream:
    """The last app: hands the request to the lane of its target, with the client's key where that is the one to use."""

    def __init__(self, lanes: Mapping[Lane, App]) -> None:
        self._lanes = lanes

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        exchange = exchange_of(scope)
        target = exchange.target
        assert target is not None, "whoever is in front sets the target"
        if target.key_of_client:
            exchange.target = target = replace(target, api_key=client_key(scope["headers"]))
        return self._lanes[target.lane](scope, receive, send)


def client_key(headers: Headers) -> str:
    """The key of `Authorization: Bearer KEY`, the only place a client's key is looked for; "" where there is none.

    Raises ApiError 400 for two of them, or for one that is no key: passed on, it would be another than was meant.
    """
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) > 1:
        message = f"The request has {len(given)} Authorization headers: send one."
        raise ApiError(400, message, code="invalid_authorization")
    scheme, _, key = given[0].strip().partition(b" ") if given else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        return ""
    key = key.strip()
    if any(not 0x21 <= byte <= 0x7E for byte in key):
        message = "The key in 'Authorization: Bearer KEY' must be printable ASCII without spaces."
        raise ApiError(400, message, code="invalid_authorization")
    return key.decode("ascii")
