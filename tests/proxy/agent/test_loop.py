"""The rounds of a chat in one process, with a scripted model and a tool that counts; and the messages of the rounds."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from proxy.access.metering import within_ceiling
from proxy.agent.actions import Actions
from proxy.agent.ask.model import ModelApi
from proxy.agent.ask.transcript import as_plain_text, result_messages
from proxy.agent.conversation import NEW, Conversation, HiddenMessages
from proxy.agent.loop import ActionLoop
from proxy.agent.toolbox import ActionLimits, Calling, Done, Tool, ToolResult, arguments_schema
from proxy.agent.tools.operation_tool import OperationTool
from proxy.asgi import Message, Receive, Scope, Send
from proxy.caller import EVERYTHING
from proxy.dialects.chat import ChatRequest
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.dialects.errors import ApiError, upstream_error
from proxy.dialects.json_body import Edit
from proxy.dialects.replies import ToolCall, json_bytes
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, ActionTrace, Exchange
from tests.proxy.apis.calling import accepts, operation, served_api
from tests.support.action_offers import action_limits, empty_toolbox
from tests.support.action_team import CLIENT_TOOL
from tests.support.scripted_model import Json, body_of, calls, says

TARGET = Target("m", "relay", "http://model.example/v1", "")
LIMITS = action_limits(rounds=3, calls=4)
QUESTION = "Which shirts are large?"
LOOK = ("look", {"word": "large"})
RESULT = "Two shirts: r7 and s8."
ANSWER = "The shirts r7 and s8 are large."
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@dataclass
class Model:
    """An upstream with scripted messages; `asked` has the requests."""

    exchange: Exchange
    turns: list[Json | ApiError]
    asked: list[Json] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.asked.append(json.loads(self.exchange.body or b""))
        turn = self.turns.pop(0)
        if isinstance(turn, ApiError):
            raise turn
        streamed = self.asked[-1].get("stream", False)
        status, kind = 200, b"text/event-stream" if streamed else b"application/json"
        parts = body_of(self.asked[-1], turn, len(self.asked)) if "error" not in turn else [json_bytes(turn)]
        if "error" in turn:
            status, kind = turn.get("status", 400), b"application/json"
        self.sent.append(b"".join(parts))
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def roles(self, number: int) -> list[str]:
        return [one["role"] for one in self.asked[number]["messages"]]

    def tools(self, number: int) -> list[str]:
        return [one["function"]["name"] for one in self.asked[number].get("tools", [])]


@dataclass
class Memory:
    """Keeps the newest conversation; knows whether the client had the end of the reply by then."""

    client: "Client"
    conversation: Conversation = NEW
    visible: Sequence[Mapping[str, Any]] = ()
    ended_before: bool = False
    marks: int = 0

    def keep(self, _key: str, messages: Sequence[Mapping[str, Any]], conversation: Conversation) -> None:
        self.conversation, self.visible, self.ended_before = conversation, messages, self.client.ended

    def mark(self, _key: str, _messages: object) -> None:
        self.marks += 1


@dataclass
class Client:
    """What the client gets."""

    status: int = 0
    body: bytes = b""
    ended: bool = False

    async def send(self, message: Message) -> None:
        assert not self.ended, "nothing follows the end"
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
        self.ended = message["type"] == "http.response.body" and not message.get("more_body", False)

    @property
    def frames(self) -> list[Any]:
        """The events of a stream, [DONE] left out; or the whole reply."""
        if not self.body.startswith(b"data:"):
            return [json.loads(self.body)]
        rows = [row.removeprefix(b"data: ") for row in self.body.split(b"\n\n") if row]
        assert rows.pop() == b"[DONE]"
        return [json.loads(row) for row in rows]

    def _members(self, name: str) -> list[Any]:
        choices = [choice for frame in self.frames for choice in frame.get("choices", ())]
        return [
            one[name] for choice in choices if (one := choice.get("delta") or choice.get("message") or {}).get(name)
        ]

    @property
    def text(self) -> str:
        return "".join(self._members("content"))

    @property
    def called(self) -> list[str]:
        """The names of the calls."""
        rows = [row for rows in self._members("tool_calls") for row in rows]
        return [row["function"]["name"] for row in rows if row["function"].get("name")]

    @property
    def finish(self) -> list[str]:
        choices = [choice for frame in self.frames for choice in frame.get("choices", ())]
        return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]


@dataclass
class Chat:
    """One chat after its end."""

    model: Model
    client: Client
    memory: Memory
    looked: list[Json]
    trace: ActionTrace
    exchange: Exchange


class Loop:
    """A loop with the tool `look`, ready to run."""

    def __init__(
        self,
        *turns: Json | ApiError,
        stream: bool = False,
        messages: Sequence[Mapping[str, Any]] = ({"role": "user", "content": QUESTION},),
        conversation: Conversation = NEW,
        offered: Sequence[Tool] = (),
        look: Callable[[], Any] = lambda: RESULT,
        limits: ActionLimits = LIMITS,
        headers: Sequence[tuple[bytes, bytes]] = (),
        **fields: Any,
    ) -> None:
        """look: the text for the model, or what is awaited for the text."""
        body = json_bytes({"model": "m", "messages": messages, "stream": stream, **fields})
        request = ChatRequest.parse(body)
        exchange = Exchange(rights=EVERYTHING, target=TARGET, action_trace=ActionTrace())
        client = Client()
        memory, looked, model = Memory(client), list[Json](), Model(exchange, list(turns))

        class Look(Tool):
            name = "look"
            description = "Look up"
            schema = arguments_schema("word", word={"type": "string"})

            async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
                looked.append(arguments)
                text = look()
                return Done(await text if asyncio.iscoroutine(text) else text, known=True)

        toolbox = empty_toolbox(*(one["function"]["name"] for one in fields.get("tools", ())))
        toolbox.add([Look(), *offered])
        toolbox.conversation = conversation
        anything = cast(Any, None)  # no set is searched
        actions = Actions(anything, anything, {}, limits, cast(Any, memory), UnsupportedFeatures(60))

        def forwarded(edits: Sequence[Edit], instructions: str = "") -> bytes:
            return request.edited(context=instructions, position="lead", model="m", without_rag=True, edits=edits)

        self.chat = Chat(model, client, memory, looked, exchange.action_trace or ActionTrace(), exchange)
        self._run = ActionLoop(ModelApi(model, forwarded, within_ceiling), request, toolbox, exchange, actions)
        self._scope = {"type": "http", "headers": list(headers), EXCHANGE: exchange}
        self.toolbox = toolbox

    async def run(self) -> Chat:
        await self._run(self._scope, receive, self.chat.client.send)
        assert not self.chat.model.turns, "the model is asked in each turn"
        return self.chat


async def receive() -> Message:
    raise AssertionError("the body is read")


def results(chat: Chat, number: int = -1) -> list[str]:
    """The results that the model gets in a request."""
    return [one["content"] for one in chat.model.asked[number]["messages"] if one["role"] == "tool"]


@STREAMED
async def test_one_call_is_made_and_the_client_gets_the_answer_alone(stream: bool) -> None:
    chat = await Loop(calls(LOOK), says(ANSWER), stream=stream).run()
    assert chat.looked == [{"word": "large"}]
    assert chat.model.tools(0) == chat.model.tools(1) == ["look"]
    assert chat.model.roles(1) == ["user", "assistant", "tool"]
    assert results(chat) == [RESULT]
    assert (chat.client.status, chat.client.text, chat.client.called) == (200, ANSWER, [])
    assert (chat.client.finish, chat.client.ended) == (["stop"], True)
    assert (len(chat.trace.rounds), chat.trace.answered_by) == (2, "model")
    assert [(one.operation, one.outcome) for one in chat.trace.calls] == [("look", "ok")]
    assert chat.exchange.tokens is not None
    assert chat.exchange.tokens.prompt == 20 if not stream else chat.exchange.tokens.prompt > 0


@STREAMED
async def test_an_answer_without_a_call_passes_byte_for_byte(stream: bool) -> None:
    chat = await Loop(says(ANSWER), stream=stream).run()
    assert chat.client.body == chat.model.sent[0]
    assert chat.memory.conversation.hidden == ()


@STREAMED
async def test_two_rounds_are_kept_before_the_client_has_the_end(stream: bool) -> None:
    chat = await Loop(calls(LOOK, text="Let me look."), calls(LOOK), says(ANSWER), stream=stream).run()
    assert len(chat.looked) == 2
    assert chat.model.roles(2) == ["user", "assistant", "tool", "assistant", "tool"]
    assert chat.client.text == f"Let me look.\n\n{ANSWER}"
    (hidden,) = chat.memory.conversation.hidden
    assert [row["role"] for row in hidden.rows()] == ["assistant", "tool", "assistant", "tool"]
    assert chat.memory.conversation.tools == (("look", "", "look"),)
    assert (chat.memory.visible[-1]["content"], chat.memory.ended_before) == (chat.client.text, False)
    assert chat.memory.marks == 2


@STREAMED
async def test_calls_of_the_clients_and_of_our_tools_wait_for_the_clients_results(stream: bool) -> None:
    both = calls(LOOK, ("weather", {"city": "Bonn"}))
    first = await Loop(both, stream=stream, tools=[CLIENT_TOOL]).run()
    assert first.model.tools(0) == ["weather", "look"]
    assert (first.client.called, first.client.finish) == (["weather"], ["tool_calls"])
    assert first.looked == []
    waiting = first.memory.conversation.waiting
    assert [(one.name, one.owned) for one in waiting] == [("look", True), ("weather", False)]

    given = {"role": "tool", "tool_call_id": waiting[1].id, "content": "Sun."}
    more: dict[str, Any] = {"stream": stream, "tools": [CLIENT_TOOL], "conversation": first.memory.conversation}
    chat = await Loop(says(ANSWER), messages=[*first.memory.visible, given], **more).run()
    assert chat.looked == [{"word": "large"}]
    assert results(chat) == [RESULT, "Sun."]
    assert chat.client.text == ANSWER


@STREAMED
async def test_after_the_rounds_of_the_settings_the_model_must_answer(stream: bool) -> None:
    rounds = [calls(LOOK) for _ in range(LIMITS.settings.rounds)]
    chat = await Loop(*rounds, says(ANSWER), stream=stream).run()
    assert "tool_choice" not in chat.model.asked[-2]
    assert chat.model.asked[-1]["tool_choice"] == "none"
    assert (chat.client.text, len(chat.looked)) == (ANSWER, LIMITS.settings.rounds)


@STREAMED
async def test_a_model_that_calls_on_at_the_limit_gets_no_tools_and_then_the_gateway_answers(stream: bool) -> None:
    chat = await Loop(*(calls(LOOK) for _ in range(LIMITS.settings.rounds + 2)), stream=stream).run()
    assert chat.model.tools(-1) == []
    assert chat.client.text == "The limit of calls for one answer is reached, and the model gave no answer."
    assert (chat.trace.answered_by, len(chat.looked)) == ("gateway", LIMITS.settings.rounds)


@STREAMED
async def test_calls_beyond_the_limit_of_calls_are_not_made(stream: bool) -> None:
    chat = await Loop(calls(*[LOOK] * 6), says(ANSWER), stream=stream).run()
    assert len(chat.looked) == LIMITS.settings.calls
    assert [one.startswith("Nothing was sent: the limit") for one in results(chat)] == [False] * 4 + [True] * 2
    assert chat.model.asked[-1]["tool_choice"] == "none"
    assert chat.client.text == ANSWER


@STREAMED
async def test_a_model_that_refuses_tools_is_asked_by_text(stream: bool) -> None:
    refusal = {"error": {"message": "this model does not support tools"}}
    call = {"name": "look", "arguments": {"word": "large"}}
    chat = await Loop(refusal, says(json.dumps(call)), says(ANSWER), stream=stream).run()
    assert ["tools" in one for one in chat.model.asked] == [True, False, False]
    assert chat.looked == [{"word": "large"}]
    assert RESULT in chat.model.asked[-1]["messages"][-1]["content"]
    assert (chat.client.text, chat.client.status) == (ANSWER, 200)
    assert [one.tool_protocol for one in chat.trace.rounds] == ["native", "text", "text"]


@STREAMED
async def test_a_model_that_refuses_tools_beside_the_clients_is_asked_without_an_offer(stream: bool) -> None:
    refusal = {"error": {"message": "too many tools"}}
    chat = await Loop(refusal, says(ANSWER), stream=stream, tools=[CLIENT_TOOL]).run()
    assert chat.model.tools(1) == ["weather"]
    assert chat.client.body == chat.model.sent[-1]
    assert chat.trace.offer == "model refuses tools"


@STREAMED
async def test_a_call_that_the_clients_limit_cuts_is_not_made(stream: bool) -> None:
    cut = calls(LOOK, text="Hm.")
    cut["tool_calls"][0]["function"]["arguments"] = '{"word": "la'
    chat = await Loop({**cut, "finish": "length"}, stream=stream, max_tokens=5).run()
    assert chat.looked == []
    assert (chat.client.finish, chat.client.called, chat.client.ended) == (["length"], [], True)
    assert chat.client.text.strip() == "Hm."


async def test_a_client_that_leaves_ends_the_call_under_way() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    loop = Loop(calls(LOOK), stream=True, look=slow)
    running = asyncio.create_task(loop.run())
    await began.wait()
    running.cancel()
    await asyncio.wait({running})
    assert (running.cancelled(), ended.is_set()) == (True, True)
    assert (loop.chat.trace.answered_by, loop.chat.client.ended) == ("", False)


@STREAMED
async def test_a_client_with_a_stream_hears_of_a_long_call(stream: bool) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.1)
        return RESULT

    quick = action_limits(rounds=3, calls=4, keepalive_s=0.02)
    chat = await Loop(calls(LOOK), says(ANSWER), stream=stream, look=slow, limits=quick).run()
    assert chat.client.text == ANSWER
    assert (sum(not one["choices"][0].get("finish_reason") for one in chat.client.frames) > 9) is stream


@STREAMED
async def test_an_error_of_the_first_request_is_the_answer(stream: bool) -> None:
    with pytest.raises(ApiError, match="gone"):
        await Loop(upstream_error(502, "gone", "upstream_closed"), stream=stream).run()


@STREAMED
@pytest.mark.parametrize("how", ["raised", "status"])
async def test_an_error_after_a_call_ends_the_reply(stream: bool, how: str) -> None:
    error = upstream_error(502, "gone", "upstream_closed")
    failed: Json | ApiError = error if how == "raised" else {"error": {"message": "gone"}, "status": 503}
    chat = await Loop(calls(LOOK, text="Let me look."), failed, stream=stream).run()
    assert b"gone" in chat.client.body
    assert chat.client.ended
    assert chat.client.status == (200 if stream else 503 if how == "status" else 502)
    assert chat.trace.answered_by == "error"


@STREAMED
async def test_a_person_is_asked_for_a_value_that_a_model_leaves_out_twice(stream: bool) -> None:
    async with served_api(accepts) as (server, api):
        needs = operation("GET", "/users", "team")
        needs.schema["required"].append("team")
        offered = OperationTool(needs, api)
        without = ("act_listThings", dict[str, Any]())
        chat = await Loop(calls(without), calls(without), stream=stream, offered=[offered]).run()
    assert server.requests == []
    assert chat.client.text == "For “listThings” I need more information:\n- team"
    assert (chat.trace.answered_by, chat.client.finish) == ("gateway", ["stop"])
    assert chat.memory.visible[-1]["content"] == chat.client.text


@STREAMED
async def test_a_model_that_only_makes_up_tools_gets_no_third_round(stream: bool) -> None:
    chat = await Loop(calls(("act_a", {})), calls(("act_b", {})), stream=stream).run()
    assert "no tool has the name 'act_a'" in results(chat)[0]
    assert chat.model.asked[-1]["tool_choice"] == "none"
    assert chat.client.text == "The model called tools that do not exist, and gave no answer."


async def test_a_client_that_wants_progress_gets_a_line_for_each_call_that_was_sent() -> None:
    async with served_api(accepts) as (_, api):
        reads = operation("GET", "/users")
        offered = OperationTool(reads, api)
        named = ("act_listThings", dict[str, Any]())
        on = [(b"x-rag-progress", b"On")]
        chat = await Loop(calls(named), says(ANSWER), stream=True, offered=[offered], headers=on).run()
    assert chat.client.text == f"→ things/listThings 200\n\n{ANSWER}"


def test_a_result_with_half_a_pair_of_surrogates_becomes_a_message_in_each_way() -> None:
    """An error for the model names the wrong argument, as the model wrote the argument."""
    text = "Nothing was sent: \ud83d is unknown."
    messages = result_messages([ToolCall("c1", "act_a", "{}")], [text])
    assert json.loads(messages["c1"]) == {"role": "tool", "tool_call_id": "c1", "content": text}
    (row,) = as_plain_text(HiddenMessages(1, messages["c1"].decode())).rows()
    assert row["content"].endswith(text)
