"""The outermost layer: one answer to each request whatever fails, its own headers alone, and one line in the log."""

import asyncio
import json
import logging

import pytest

from proxy.asgi import Receive, Scope, Send, send_json
from proxy.dialects.errors import ApiError
from proxy.exchange import EXCHANGE
from proxy.observe.metrics import Metrics
from proxy.observe.middleware import Observe
from tests.support.asgi_calls import Call, scope_of


async def test_a_fault_between_the_status_and_the_reply_is_answered() -> None:
    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        scope[EXCHANGE].status = 200
        raise KeyError("text")

    call = await Call().to(Observe(app, Metrics()), scope_of())
    assert (call.status, call.whole) == (500, True)
    assert json.loads(call.body)["error"]["code"] == "internal_error"


@pytest.mark.parametrize("error", [KeyError("text"), ApiError(400, "no", code="no")])
async def test_a_reply_that_has_begun_gets_no_second_one(error: Exception) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    call = await Call().to(Observe(app, Metrics()), scope_of())
    assert [message["type"] for message in call.sent] == ["http.response.start"]


async def test_what_an_upstream_says_of_its_own_retrieval_is_not_ours() -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        scope[EXCHANGE].rag_status = "empty"
        await send_json(send, 200, b"{}", [(b"x-rag-status", b"augmented"), (b"x-request-id", b"1")])

    call = await Call().to(Observe(app, Metrics()), scope_of())
    assert [value for name, value in call.headers if name == b"x-rag-status"] == [b"empty"]
    assert (b"x-request-id", b"1") in call.headers


async def test_a_path_cannot_begin_another_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send_json(send, 200, b"{}")

    with caplog.at_level(logging.INFO, "ragway"):
        await Call().to(Observe(app, Metrics()), scope_of("/v1/x\nPOST /v1/chat/completions 200"))
    assert [("\n" in record.getMessage(), record.getMessage()[:9]) for record in caplog.records] == [
        (False, "POST '/v1")
    ]


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_client_that_leaves_is_told_apart_from_a_server_that_stops(
    leaves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    reached = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        reached.set()
        await asyncio.Event().wait()

    with caplog.at_level(logging.INFO, "ragway"):
        call = Call()
        running = asyncio.create_task(call.to(Observe(app, Metrics()), scope_of()))
        await reached.wait()
        if leaves:
            call.left.set()
        else:
            running.cancel()
        await asyncio.wait({running})
    assert call.sent == []
    assert ("error='the client left'" in caplog.text, "the server stops" in caplog.text) == (leaves, not leaves)


async def test_of_a_long_name_or_path_the_log_tells_the_beginning(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        scope[EXCHANGE].model = "m" * 200 + "pasted"
        await send_json(send, 200, b"{}")

    with caplog.at_level(logging.INFO, "ragway"):
        await Call().to(Observe(app, Metrics()), scope_of("/v1/" + "p" * 200 + "pasted"))
        await Call().to(Observe(app, Metrics()), scope_of("/v1/x model=forged"))
    assert "pasted" not in caplog.text
    assert f"model='{'m' * 100}…'" in caplog.text
    assert "POST '/v1/x model=forged' " in caplog.text
