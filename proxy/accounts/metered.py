"""The two places where a request meets its key's limits: where it enters, and where a model is called.

At its entry it needs a request of the limits, and some tokens and money to be left. Before the model is called it
reserves the tokens that the call may take; what it took is read from the reply as it passes (`tee`).
"""

import re
from collections.abc import Awaitable, Collection

from proxy.accounts.ledger import Ledger
from proxy.asgi import App, Receive, Scope, Send, covers
from proxy.errors import ApiError
from proxy.exchange import Tokens, exchange_of
from proxy.tee import Tee, tokens_in

_CHAT = "/v1/chat/completions"
# What is ours and calls no model: it counts as no request. A search does.
_FREE = ("/v1/models", "/v1/knowledge", "/v1/vector_stores", "/v1/files", "/v1/admin", "/v1/usage")
_SEARCH = "/search"
_TOOLS = "/mcp"  # where searches are called as tools
_ANSWER_TOKENS = 500  # reserved where the request does not say how long the answer may become
_LENGTH = re.compile(rb'"max_(?:completion_|output_)?tokens"\s*:\s*(\d{1,9})(?![\d.eE])')
_CHOICES = re.compile(rb'"n"\s*:\s*(\d{1,3})(?![\d.eE])')


class Entry:
    """Admits what counts as a request."""

    def __init__(self, app: App, ledger: Ledger, *, relayed: Collection[str]) -> None:
        """relayed: paths that go to an upstream, whatever they would mean here."""
        self._app = app
        self._ledger = ledger
        self._relayed = tuple(relayed)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        path = scope["path"]
        if path == _CHAT or self._counts(scope["method"], path):
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
            await self._ledger.reserve(exchange, *_needs(body, answers=not scope["path"].endswith("/embeddings")))
        tee = Tee(send)
        try:
            await self._app(scope, receive, tee.send)
        except ApiError:  # the upstream gave no reply
            exchange.tokens = Tokens(0, 0)
            raise
        finally:
            exchange.tokens = exchange.tokens or tee.tokens(body)


def _needs(body: bytes, *, answers: bool) -> tuple[int, int]:
    """The tokens that a call will take if its answer becomes as long as it may, and those that it surely asks for.

    Both are the same where the request bounds the answer. What stands deeper in the body can only make them larger.
    """
    prompt = tokens_in(body)
    if not answers:
        return prompt, prompt
    longest = max((int(found[1]) for found in _LENGTH.finditer(body)), default=0)
    choices = max((int(found[1]) for found in _CHOICES.finditer(body)), default=1) if b'"n"' in body else 1
    least = prompt + longest * max(choices, 1)
    return least if longest else prompt + _ANSWER_TOKENS * max(choices, 1), least
