"""Where requests go: a model's name to its target, and a target's lane to the app that speaks to it."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace

from proxy.accounts.rights import Rights
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
        target = self._find(name) if name in rights.models else None
        if target is None:
            listed = ", ".join(one for one in self.names() if one in rights.models) or "none by name"
            message = f"The model {name!r} is not configured on this gateway; it has: {listed}."
            raise ApiError(404, message, code="model_not_found", param="model")
        return target if target.model else replace(target, model=name)

    def _find(self, name: str) -> Target | None:
        target = self._exact.get(name)
        if target is not None:
            return target
        return next((row for prefix, row in self._patterns if name.startswith(prefix)), None)

    def names(self) -> Sequence[str]:
        """What can be asked for by name; patterns are left out, an echo behind one is "echo"."""
        names = list(self._exact)
        if not names and any(row.lane == "echo" for _, row in self._patterns):
            names.append("echo")
        return names

    def lister(self) -> Target | None:
        """The upstream that knows the models behind a pattern, where no model is configured by name."""
        if self._exact:
            return None
        return next((row for _, row in self._patterns if row.lane == "relay"), None)


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
