"""A count of tokens: the upstream's in the relay lane, else an estimate; never a usage."""

import json

import pytest

from proxy.api.count_tokens import CountTokens
from proxy.asgi import App, Receive, Scope, Send, send_json
from proxy.dialects.messages import COUNT_PATH
from proxy.dialects.replies import Tokens
from proxy.dialects.target import Lane, Target
from proxy.exchange import EXCHANGE, Exchange, ModelCall, one_call, unmetered
from tests.support.asgi_calls import Call, scope_of

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hello."}]}'


async def upstream(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_json(send, 200, b'{"input_tokens": 7}')


async def without_counts(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_json(send, 404, b'{"error":{"message":"File Not Found"}}')


async def without_model(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_json(send, 404, b'{"error":{"message":"model: m"}}')


async def counted(
    lane: Lane, *, with_passages: bool, app: App = upstream, dialects: tuple[str, ...] = ()
) -> tuple[Exchange, int]:
    """The exchange, and the counted tokens; 0: an error."""

    async def augment(scope: Scope, _receive: Receive, _send: Send) -> ModelCall:
        exchange: Exchange = scope[EXCHANGE]
        exchange.target, exchange.body = Target("m", lane, "", "", dialects=dialects), BODY
        exchange.rag_status, exchange.rag_reason = ("augmented", "first question") if with_passages else ("off", "")
        return one_call(app)

    exchange = Exchange()
    scope, call = scope_of(COUNT_PATH, exchange=exchange), Call()
    prepared = await CountTokens(augment, with_passages=with_passages)(scope, call.receive, call.send)
    assert prepared is not None
    await call.to(prepared(unmetered), scope)
    return exchange, json.loads(call.body).get("input_tokens", 0)


@pytest.mark.parametrize("lane", ["translated", "echo"])
async def test_a_lane_without_counts_gives_an_estimate(lane: Lane) -> None:
    exchange, tokens = await counted(lane, with_passages=True)
    assert (exchange.tokens, exchange.rag_reason) == (Tokens(0, 0), "first question")
    assert tokens == -(-len(BODY) // 4)


async def test_the_upstream_of_a_relay_counts() -> None:
    exchange, tokens = await counted("relay", with_passages=False)
    assert (exchange.tokens, tokens) == (Tokens(0, 0), 7)
    assert (exchange.rag_status, exchange.rag_reason) == ("off", "inject.augment_count is false")


async def test_an_upstream_without_the_path_gets_an_estimate_and_another_error_passes() -> None:
    estimate = -(-len(BODY) // 4)
    assert (await counted("relay", with_passages=False, app=without_counts))[1] == estimate
    assert (await counted("relay", with_passages=False, app=without_model))[1] == 0
    assert (await counted("relay", with_passages=False, dialects=("chat",)))[1] == estimate
    assert (await counted("relay", with_passages=False, dialects=("chat", "messages")))[1] == 7
