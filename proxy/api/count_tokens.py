"""`POST /v1/messages/count_tokens`: how many tokens a request for a message has, as the upstream counts them."""

from dataclasses import KW_ONLY, dataclass

import orjson

from proxy.asgi import App, Receive, Scope, Send, send_json
from proxy.dialects.json_body import by_size
from proxy.dialects.messages import MESSAGES
from proxy.dialects.paths import DIALECT_NAMES
from proxy.dialects.replies import Tokens, estimated_tokens
from proxy.exchange import EXCHANGE, Exchange, ModelCall, ModelRoute, uncounted, unmetered
from proxy.upstream.bridges.missing_paths import FirstLook, NoSuchPathError


@dataclass(eq=False, repr=False)
class CountTokens:
    """The route for counts: a request goes the way of a message.

    Outside the relay lane, or if the upstream has no such path, the answer is an estimate.
    """

    augment: ModelRoute  # prepares the model call, as for a message
    _: KW_ONLY
    with_passages: bool  # whether `augment` adds passages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> ModelCall | None:
        """Prepare the count. Raises ApiError."""
        exchange: Exchange = scope[EXCHANGE]
        exchange.tokens = Tokens(0, 0)  # a count is not usage
        call = await self.augment(scope, receive, send)
        if not self.with_passages:
            exchange.rag_reason = "inject.augment_count is false"
        assert exchange.target is not None, "the route sets the target"
        dialects = exchange.target.dialects
        if exchange.target.lane != "relay" or (dialects and DIALECT_NAMES[MESSAGES.path] not in dialects):
            return uncounted(_estimate)
        return None if call is None else uncounted(_or_estimate(call(unmetered)))


def _or_estimate(upstream: App) -> App:
    """The app, with an estimate if it answers that the path is missing."""

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await upstream(scope, receive, FirstLook(scope["path"], send).send)
        except NoSuchPathError:
            await _estimate(scope, receive, send)

    return counted


async def _estimate(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with an estimate from the request's bytes."""
    exchange: Exchange = scope[EXCHANGE]
    body = exchange.body or b""
    tokens = await by_size(body, lambda: estimated_tokens(body))
    exchange.status = 200
    await send_json(send, 200, orjson.dumps({"input_tokens": tokens}))
