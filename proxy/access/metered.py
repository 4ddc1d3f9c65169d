"""The two places where a request meets its key's limits: where it enters, and where a model is called.

At its entry it needs a request of the limits, and some tokens and money to be left. Before the model is called it
reserves the tokens that the call may take; what it took is read from the reply as it passes (`usage_tap`).
"""

import math
from collections.abc import Awaitable, Collection, Mapping
from typing import Any

import orjson

from proxy.access.ledger import Ledger
from proxy.access.usage_tap import UsageTap
from proxy.asgi import App, Receive, Scope, Send, covers
from proxy.dialects.paths import BY_PATH
from proxy.dialects.token_counts import Tokens, estimated_tokens
from proxy.errors import ApiError
from proxy.exchange import exchange_of

# What is ours and calls no model: it counts as no request. A search does.
_FREE = ("/v1/models", "/v1/knowledge", "/v1/vector_stores", "/v1/files", "/v1/admin", "/v1/usage")
_SEARCH = "/search"
_TOOLS = "/mcp"  # where searches are called as tools
_ANSWER_TOKENS = 500  # reserved where the request does not say how long the answer may become
# What says how long an answer may become, in the dialects that pass here, and how many answers there are.
_LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_CHOICES = ("n", "best_of")
_MOST_TOKENS = 10**9  # a number beyond is reserved as this one: it fits every counter


class Entry:
    """Admits what counts as a request."""

    def __init__(self, app: App, ledger: Ledger, *, relayed: Collection[str]) -> None:
        """relayed: paths that go to an upstream, whatever they would mean here."""
        self._app = app
        self._ledger = ledger
        self._relayed = tuple(relayed)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        path = scope["path"]
        if path in BY_PATH or self._counts(scope["method"], path):
            return self._ledger.admit(self._app, scope, receive, send)
        return self._app(scope, receive, send)

    def _counts(self, method: str, path: str) -> bool:
        if not path.startswith("/v1/"):
            return path == _TOOLS and method == "POST"
        if any(covers(listed, path) for listed in self._relayed):
            return True
        return path.endswith(_SEARCH) or not any(covers(free, path) for free in _FREE)


class Metered:
    """In front of the upstreams: reserves tokens, and reads from the reply how many there were."""

    def __init__(self, app: App, ledger: Ledger) -> None:
        self._app = app
        self._ledger = ledger

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if exchange_of(scope).counted_by is not None:
            return self._metered(scope, receive, send)
        return self._app(scope, receive, send)

    async def _metered(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        body = exchange.body or b""
        if exchange.ticket is not None:
            fields = exchange.fields if exchange.fields is not None else _fields_of(body)
            answers = not scope["path"].endswith("/embeddings")
            await self._ledger.reserve(exchange, *tokens_to_reserve(body, fields, answers=answers))
        tap = UsageTap(send, exchange.dialect)
        try:
            await self._app(scope, receive, tap.send)
        except ApiError:  # the upstream gave no reply
            exchange.tokens = Tokens(0, 0)
            raise
        finally:
            exchange.tokens = exchange.tokens or tap.tokens(body)


def tokens_to_reserve(body: bytes, fields: Mapping[str, Any], *, answers: bool) -> tuple[int, int]:
    """The tokens to reserve for one call: those it may take, and those it surely asks for.

    The second is the prompt, and the longest answer that the client allows, once for each choice. A client that sets no
    length is taken to want _ANSWER_TOKENS a choice: the first number only. fields: the body's members. The members are
    read as their parsed values: a name may be written with escapes, and a number as 1e6.
    """
    prompt = estimated_tokens(body)
    if not answers:
        return prompt, prompt
    longest = max(_count_of(fields.get(name)) for name in _LENGTHS)
    choices = max(1, *(_count_of(fields.get(name)) for name in _CHOICES))
    least = min(prompt + longest * choices, _MOST_TOKENS)
    return least if longest else min(prompt + _ANSWER_TOKENS * choices, _MOST_TOKENS), least


def _count_of(value: object) -> int:
    """A number of tokens or choices as an upstream may read the value; 0 where the value is no such number.

    Some upstreams take "100" for 100.
    """
    if isinstance(value, str) and len(value) < 20:
        try:
            value = float(value)
        except ValueError:
            return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0
    return math.ceil(value) if value < _MOST_TOKENS else _MOST_TOKENS


def _fields_of(body: bytes) -> Mapping[str, Any]:
    """The members of a body that nobody has read yet; none where the body is no JSON object."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}
