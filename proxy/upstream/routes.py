"""Routing: from a model's name to a target, and from its lane to an ASGI app."""

import unicodedata
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace

from proxy.asgi import App, Receive, Scope, Send
from proxy.caller import EVERYTHING, Rights
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.target import Lane, Target
from proxy.exchange import exchange_of
from proxy.upstream.asked_model import AskedModel, renamed, uncoded

_NO_LETTERS = ("Cc", "Cf", "Zl", "Zp")  # Unicode categories: control and format characters, line ends
ANY_MODEL = "*"  # stands for the model, if a request names none


class Routes:
    """Configured models: an exact name wins, else the longest pattern that ends with *."""

    def __init__(self, rows: Mapping[str, Target]) -> None:
        self._exact = {
            name: replace(row, model=row.model or name) for name, row in rows.items() if not name.endswith("*")
        }
        patterns = [(name[:-1], row) for name, row in rows.items() if name.endswith("*")]
        self._patterns = sorted(patterns, key=lambda pattern: len(pattern[0]), reverse=True)

    def resolve(self, name: str, rights: Rights) -> Target:
        """A model's target. If its row has no model name, it gets the requested one.

        Raises ApiError 404, the same for an unknown model and for one that the caller may not use. Names that upstreams
        may read differently are unknown: some cut off blanks, or end at a control character.
        """
        plain = name == name.strip() and not any(unicodedata.category(letter) in _NO_LETTERS for letter in name)
        target = self.row_of(name) if plain and name in rights.models else None
        if target is None:
            raise self.absent(name, rights)
        return target if target.model else replace(target, model=name)

    def without_model(self) -> Target | None:
        """Where requests go that name no model; None: there are several upstreams.

        The relay's row for every model, else its only upstream. Without relay rows: any row, which relays nothing.
        """
        every = [row for prefix, row in self._patterns if not prefix and row.lane == "relay"]
        rows = [*self._exact.values(), *(row for _, row in self._patterns)]
        found = every or [row for row in rows if row.lane == "relay"] or rows[:1]
        upstreams = {(row.api_base, row.api_key, row.key_of_client) for row in found}
        return replace(found[0], model=ANY_MODEL) if len(upstreams) == 1 else None

    def row_of(self, name: str) -> Target | None:
        """A model's configured row; None: none matches."""
        target = self._exact.get(name)
        if target is not None:
            return target
        return next((row for prefix, row in self._patterns if name.startswith(prefix)), None)

    def pattern_of(self, name: str) -> str:
        """The pattern that decides where a model's requests go; "": it has its own row, or none."""
        if name in self._exact:
            return ""
        return next((f"{prefix}*" for prefix, _ in self._patterns if name.startswith(prefix)), "")

    def patterns(self, rights: Rights) -> tuple[str, ...]:
        """Patterns that overlap with one in the caller's rights."""
        granted = rights.models.patterns
        return tuple(
            f"{prefix}*"
            for prefix, _ in self._patterns
            if any(prefix.startswith(each) or each.startswith(prefix) for each in granted)
        )

    def absent(self, name: str, rights: Rights) -> ApiError:
        """The 404 for an unknown model; it lists the known ones."""
        listed = ", ".join(self.names(rights)) or "none by name"
        message = f"The model {name!r} is not configured on this gateway; configured models: {listed}."
        return ApiError(404, message, code="model_not_found", param="model")

    def names(self, rights: Rights = EVERYTHING) -> Sequence[str]:
        """Names of the models that the caller may use.

        Configured names; for a pattern, its model ("echo" for an echo); names that the caller's rights list one by one.
        """
        stand_ins = [(row.model or "echo", row) for _, row in self._patterns if row.model or row.lane == "echo"]
        names = [*self._exact, *(name for name, row in stand_ins if self.row_of(name) is row)]
        granted = sorted(name for name in rights.models.exact if self.row_of(name) is not None)
        return list(dict.fromkeys([*(name for name in names if name in rights.models), *granted]))

    def listers(self) -> Sequence[Target]:
        """Patterns whose model names only the upstream knows."""
        return [row for _, row in self._patterns if row.lane == "relay" and not row.model]


class Upstream:
    """The last app: passes a request to its target's lane, with the client's key if the target asks for one."""

    def __init__(self, lanes: Mapping[Lane, App], bridges: Mapping[Lane, App] | None = None) -> None:
        """bridges: lanes for dialects that an upstream may not speak; ordinary chats pass none."""
        self._lanes = lanes
        self._bridged = {**lanes, **(bridges or {})}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        exchange = exchange_of(scope)
        target = exchange.target
        assert target is not None, "the route sets the target"
        if target.key_of_client:
            exchange.target = target = replace(target, api_key=client_key(scope["headers"]))
        lanes = self._lanes if exchange.dialect is CHAT and not target.dialects else self._bridged
        exchange.once = exchange.once and lanes is self._lanes  # a bridge may ask again
        lane, asked = lanes[target.lane], renamed(exchange, target, scope)
        return lane(scope, receive, send) if not asked else _answer_as(asked, lane, scope, receive, send)


async def _answer_as(asked: str, lane: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer by the lane, and name the model as the client did."""
    reply = AskedModel(send, asked)
    await lane(uncoded(scope), receive, reply.send)
    await reply.close()


def client_key(headers: Headers) -> str:
    """The key in `Authorization: Bearer KEY`; "": none. A key in `x-api-key` stays there (`relay.request_headers`).

    Raises ApiError 400 for two keys, or one that is not printable ASCII.
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
