"""The rounds of a chat whose model calls what changes something: a scripted model, a real API, a real store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.agent.tools.operation_tool import OperationTool
from proxy.agent.writes.confirming import CodeAnswer, Writes
from proxy.agent.writes.pending import PendingStore
from proxy.agent.writes.sealer import Sealer
from proxy.apis.call import Api
from proxy.apis.openapi.effects import with_effects
from proxy.apis.openapi.operation import CallPolicy, Effects, LinkedCall, Operation, Parameter
from proxy.caller import EVERYTHING
from proxy.dialects.errors import upstream_error
from tests.proxy.agent.test_loop import LOOK, STREAMED, Chat, Loop, results
from tests.proxy.apis.calling import LOOPBACK, OK, QUICK
from tests.support.api_server import ApiRequest, ApiServer, Handler, Reply, api_server
from tests.support.scripted_model import Json, calls, says

ASKED = "Cancel the order, please."
CANCEL: tuple[str, Json] = ("act_cancelOrder", {})
EMPTY = {"type": "object", "properties": {}, "required": []}


class Shop:
    """An API with one operation, and the conversations about it."""

    def __init__(self, folder: Path, server: ApiServer, mode: Any) -> None:
        self.server = server
        self.operation = Operation(name="cancelOrder", method="DELETE", path="/orders/17", schema=EMPTY)
        self.api = Api("shop", server.base_url, networks=LOOPBACK, policy=CallPolicy(mode))
        store = PendingStore(folder, sealer=Sealer(None))
        self.known: dict[tuple[str, str], Operation] = {}  # the other operations of the document
        self.writes = Writes(store, QUICK, 600.0, 300.0, 12, lambda _: self.known)

    def loop(self, *turns: Any, **more: Any) -> Loop:
        """A chat that is offered the operation."""
        tool = OperationTool(self.operation, self.api)
        more.setdefault("messages", [{"role": "user", "content": ASKED}])
        made = Loop(*turns, offered=[tool], **more)
        made.toolbox.writes, made.chat.exchange.rights = self.writes, EVERYTHING
        made.toolbox.answered = {tool.origin: tool}
        return made

    async def asked(self, **more: Any) -> list[Json]:
        """The messages of a conversation with the gateway's question."""
        chat = await self.loop(calls(CANCEL), **more).run()
        return [{"role": "user", "content": ASKED}, {"role": "assistant", "content": chat.client.text}]

    async def confirmed(self, *turns: Any, **more: Any) -> Loop:
        """A chat whose newest message is the code line."""
        messages = await self.asked()
        messages += [{"role": "user", "content": f"confirm {code_of(messages[-1]['content'])}"}]
        loop = self.loop(*turns, messages=messages, **more)
        answer = await self.writes.answer_in("", messages)
        assert isinstance(answer, CodeAnswer)
        loop.toolbox.answer = answer
        return loop


def code_of(text: str) -> str:
    return text.partition("answer: confirm ")[2][:9]


@contextlib.asynccontextmanager
async def shop(folder: Path, reply: Reply | Handler = OK, mode: str = "confirm") -> AsyncIterator[Shop]:
    async def answer(request: ApiRequest) -> Reply:
        return reply if isinstance(reply, Reply) else await reply(request)

    async with api_server(answer) as server:
        made = Shop(folder, server, mode)
        yield made
        await made.writes.close()
        await made.api.close()


@STREAMED
async def test_the_gateway_asks_in_place_of_the_model_and_sends_nothing(tmp_path: Path, stream: bool) -> None:
    async with shop(tmp_path) as one:
        chat = await one.loop(calls(LOOK, CANCEL, text="Let me see."), stream=stream).run()
    assert chat.client.text.startswith("Let me see.\n\nThis will change something. Nothing has been sent yet.")
    assert f"DELETE {one.api.base_url}/orders/17" in chat.client.text
    assert (one.server.requests, chat.looked, chat.client.finish) == ([], [{"word": "large"}], ["stop"])
    assert [call.outcome for call in chat.trace.calls] == ["ok", "waits"]
    assert chat.trace.answered_by == "gateway"
    (hidden,) = chat.memory.conversation.hidden
    assert [row["role"] for row in hidden.rows()] == ["assistant", "tool", "tool"]
    assert "".join(chat.memory.visible[-1]["content"].split()) == "".join(chat.client.text.split())


@STREAMED
async def test_the_code_line_sends_the_call_and_the_model_reports(tmp_path: Path, stream: bool) -> None:
    async with shop(tmp_path) as one:
        chat = await (await one.confirmed(says("It is cancelled."), stream=stream)).run()
    assert [(got.method, got.target) for got in one.server.requests] == [("DELETE", "/orders/17")]
    assert chat.client.text == "It is cancelled."
    assert chat.model.roles(0)[-3:] == ["user", "assistant", "tool"]
    assert results(chat)[-1].startswith(f"Done: DELETE {one.api.base_url}/orders/17 (status 200).")
    assert [(call.outcome, call.sent) for call in chat.trace.calls] == [("ok", True)]
    assert chat.exchange.actions == ("shop/cancelOrder",)


@STREAMED
async def test_the_gateway_reports_if_the_model_fails(tmp_path: Path, stream: bool) -> None:
    async with shop(tmp_path) as one:
        for turn in (upstream_error(502, "gone", "upstream_error"), {"error": {"message": "no"}, "status": 500}):
            loop = await one.confirmed(turn, stream=stream)
            chat = await loop.run()
            assert chat.client.status == 200
            assert chat.client.text == f"Done: DELETE {one.api.base_url}/orders/17 (status 200)."
            assert chat.client.ended


@STREAMED
async def test_a_lost_answer_is_said_before_the_model_says_anything(tmp_path: Path, stream: bool) -> None:
    async with shop(tmp_path, Reply(raw=b"")) as one:
        chat = await (await one.confirmed(says("It is cancelled."), stream=stream)).run()
    assert len(one.server.requests) == 1
    assert chat.client.text.startswith("It is not known whether this was done: DELETE ")
    assert chat.client.text.endswith("\n\nIt is cancelled.")
    assert [call.outcome for call in chat.trace.calls] == ["unknown"]


async def test_the_report_says_what_has_changed_and_what_takes_it_back(tmp_path: Path) -> None:
    state = ["open"]

    async def orders(request: ApiRequest) -> Reply:
        state[0] = "cancelled" if request.method == "DELETE" else state[0]
        return Reply(body=b'{"id": 17, "state": "%b"}' % state[0].encode(), headers=OK.headers)

    async with shop(tmp_path, orders) as one:
        named = {"getOrder": "GET", "reopenOrder": "POST"}
        one.known = {("shop", name): Operation(name, way, "/orders/17", EMPTY) for name, way in named.items()}
        effects = Effects(LinkedCall("getOrder", "same"), undo=LinkedCall("reopenOrder", "opposite"))
        one.operation = msgspec.structs.replace(one.operation, effects=effects)
        asked = await one.asked()
        chat = await (await one.confirmed(says("It is cancelled."))).run()
    assert 'now: {"id": 17, "state": "open"}' in asked[-1]["content"]
    assert "state: open → cancelled" in results(chat)[-1]
    assert "reopenOrder {}" in results(chat)[-1]


@pytest.mark.parametrize("private", [(), ("shop",)])
@pytest.mark.parametrize(
    "answer", [Reply(201, b'{"id": 4}', OK.headers), Reply(201, headers=[("Location", "/orders/4")]), Reply(204)]
)
async def test_the_report_shows_what_was_created(tmp_path: Path, answer: Reply, private: Sequence[str]) -> None:
    async def orders(request: ApiRequest) -> Reply:
        return answer if request.method == "POST" else Reply(body=b'{"id": 4, "state": "new"}', headers=OK.headers)

    async with shop(tmp_path, orders) as one:
        one.writes.private = private
        id = Parameter("orderId", "orderId", "path", "simple", explode=False, required=True)
        read = Operation("getOrder", "GET", "/orders/{orderId}", {**EMPTY, "required": ["orderId"]}, parameters=(id,))
        one.known = {("shop", "getOrder"): read}
        write = msgspec.structs.replace(one.operation, method="POST", path="/orders")
        one.operation = with_effects([write, read])[0]
        chat = await (await one.confirmed(says("It is there."))).run()
    shown = 'created: {"id": 4, "state": "new"}' in results(chat)[-1]
    assert shown == (answer.status == 201 and not private)
    assert [got.target for got in one.server.requests] == ["/orders", *["/orders/4"] * shown]


UNSURE = [Reply(raw=b""), Reply(status=500), Reply(status=502)]


@pytest.mark.parametrize("lost", UNSURE, ids=["no answer", "500", "502"])
async def test_an_unchanged_state_does_not_prove_that_nothing_is_done(tmp_path: Path, lost: Reply) -> None:
    async def orders(request: ApiRequest) -> Reply:
        return lost if request.method == "DELETE" else Reply(body=b'{"state": "open"}', headers=OK.headers)

    async with shop(tmp_path, orders) as one:
        one.known = {("shop", "getOrder"): Operation("getOrder", "GET", "/orders/17", EMPTY)}
        one.operation = msgspec.structs.replace(one.operation, effects=Effects(LinkedCall("getOrder", "same")))
        chat = await (await one.confirmed(says("It failed."))).run()
    still = 'getOrder {} still shows {"state": "open"}; it may still be done.'
    for text in (results(chat)[-1], chat.client.text):
        assert still in text
        assert "nothing changed" not in text
    assert [got.method for got in one.server.requests].count("DELETE") == 1


@pytest.mark.parametrize("after", [OK, *UNSURE, Reply(status=409)], ids=["200", "no answer", "500", "502", "409"])
async def test_a_call_at_once_is_made_once_and_asked_the_second_time(tmp_path: Path, after: Reply) -> None:
    """But for a call that the API has refused."""
    async with shop(tmp_path, after, mode="auto") as one:
        first = await one.loop(calls(CANCEL), says("Done.")).run()
        refused = after.status == 409
        second = await one.loop(calls(CANCEL), *[says("Done.")] * refused).run()
    assert len(one.server.requests) == (2 if refused else 1)
    assert first.client.text == "Done."
    before = "done already: " if after is OK else "sent before: "
    assert (before in second.client.text) != refused


async def test_the_model_reads_what_a_call_at_once_has_changed(tmp_path: Path) -> None:
    state = ["open"]

    async def orders(request: ApiRequest) -> Reply:
        state[0] = "cancelled" if request.method == "DELETE" else state[0]
        return Reply(body=b'{"state": "%b"}' % state[0].encode(), headers=OK.headers)

    async with shop(tmp_path, orders, mode="auto") as one:
        one.known = {("shop", "getOrder"): Operation("getOrder", "GET", "/orders/17", EMPTY)}
        one.operation = msgspec.structs.replace(one.operation, effects=Effects(LinkedCall("getOrder", "same")))
        chat = await one.loop(calls(CANCEL), says("Done.")).run()
    assert "state: open → cancelled" in results(chat)[-1]


async def test_the_same_call_twice_in_a_round_is_shown_once(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        chat = await one.loop(calls(CANCEL, CANCEL)).run()
    assert chat.client.text.count("DELETE ") == 1
    assert [call.outcome for call in chat.trace.calls] == ["waits", "invalid_arguments"]


async def test_the_model_reads_that_it_need_not_ask(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        chat = await one.loop(says("No.")).run()
    (description,) = [
        row["function"]["description"] for row in chat.model.asked[0]["tools"] if row["function"]["name"] == CANCEL[0]
    ]
    assert description.endswith("call without asking first.")


async def test_structured_output_gets_no_question(tmp_path: Path) -> None:
    async with shop(tmp_path) as one:
        loop = one.loop(calls(CANCEL), says('{"a": 1}'))
        loop.toolbox.structured_output = True
        chat = await loop.run()
    assert (chat.client.text, one.server.requests) == ('{"a": 1}', [])


async def test_a_call_that_is_sent_is_noted_although_the_client_left(tmp_path: Path) -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slow(_request: ApiRequest) -> Reply:
        arrived.set()
        await go.wait()
        return OK

    async with shop(tmp_path, slow) as one:
        loop = await one.confirmed()
        task: asyncio.Task[Chat] = asyncio.create_task(loop.run())
        await arrived.wait()
        task.cancel()
        await asyncio.wait({task})
        go.set()
        await one.writes.close()
        answer = loop.toolbox.answer
        assert answer is not None
        (write,) = one.writes.store.group(answer.writes[0].group, "")
    assert (task.cancelled(), write.state, write.status) == (True, "done", 200)


@pytest.mark.parametrize("mode", ["refuse", "confirm"])
async def test_without_a_store_nothing_is_sent(tmp_path: Path, mode: str) -> None:
    async with shop(tmp_path, mode=mode) as one:
        loop = one.loop(calls(CANCEL), says("No."))
        loop.toolbox.writes = None
        chat = await loop.run()
    assert (chat.client.text, one.server.requests) == ("No.", [])
    assert [call.outcome for call in chat.trace.calls] == ["could_change"]
