"""`POST /v1/messages/count_tokens`: the tokens of a request for a message, as the upstream counts the tokens."""

import orjson

from proxy.asgi import App, Receive, Scope, Send, send_json
from proxy.body import by_size
from proxy.dialects.token_counts import Tokens, estimated_tokens
from proxy.exchange import exchange_of


class CountTokens:
    """The route of counts: the request goes the way of a message; outside the relay lane, an estimate answers."""

    def __init__(self, augment: App, *, with_passages: bool) -> None:
        """augment: prepares the call of the model, as for a message. with_passages: whether `augment` adds passages."""
        self._augment = augment
        self._with_passages = with_passages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Prepare the count. Raises ApiError."""
        exchange = exchange_of(scope)
        exchange.tokens = Tokens(0, 0)  # a count is no usage
        await self._augment(scope, receive, send)
        if not self._with_passages:
            exchange.rag_reason = "inject.augment_count is false"
        assert exchange.target is not None, "the route sets the target"
        if exchange.target.lane != "relay":
            exchange.upstream = _estimate


async def _estimate(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with an estimate by the bytes of the request."""
    exchange = exchange_of(scope)
    body = exchange.body or b""
    tokens = await by_size(body, lambda: estimated_tokens(body))
    exchange.status = 200
    await send_json(send, 200, orjson.dumps({"input_tokens": tokens}))
