"""The model's replies as they pass: whatever the upstream sends, in whatever pieces, the reply is sound."""

from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.agent.ask.model import ChatModel, ModelApi, ModelTurn
from proxy.agent.ask.tool_protocols import ToolProtocols
from proxy.agent.ask.transcript import Transcript
from proxy.agent.events import ClientReply
from proxy.agent.text_calls.written_calls import stands_nowhere
from proxy.agent.toolbox import Toolbox
from proxy.agent.tools.operation_tool import FindActions, OperationTool
from proxy.apis.call import Api
from proxy.apis.openapi.operation import Operation
from proxy.asgi import Message, Receive, Scope, Send
from proxy.dialects.chat import CHAT, ChatRequest
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.dialects.sse import DONE
from proxy.dialects.target import Target
from proxy.exchange import Exchange, unmetered
from tests.support.action_offers import empty_toolbox, nothing
from tests.support.call_spellings import ANSWERS, SPELLINGS, WITHOUT_ARGUMENTS
from tests.support.rows import all_rows

SCHEMA = {"type": "object", "properties": {}, "required": []}


def offer(*taken: str) -> Toolbox:
    made = empty_toolbox(*(taken or ("weather",)))
    made.add([OperationTool(Operation("a", "GET", "/a", SCHEMA), Api("atlas", "https://x.example"))])
    made.add([FindActions(nothing)])
    return made


class Chat:
    """A chat whose upstream answers with bodies of the test, round after round; `sent` has what the client gets."""

    def __init__(self, *taken: str, memory: Any = None, stream: bool = True) -> None:
        request = ChatRequest.parse(orjson.dumps({"model": "m", "messages": [], "stream": stream}))
        exchange, toolbox = Exchange(target=Target("m", "relay", "http://model.example/v1", "")), offer(*taken)
        self.sent = bytearray()
        self.client = ClientReply(self._send, request, "x")
        self._body, self._size, self._media, self._breaks = b"", 1, b"", False
        transcript = Transcript(request, toolbox, memory, "", dict, accepts_fields=True)
        api = ModelApi(self._answer, lambda *_: b"", unmetered)
        self._model = ChatModel(
            api, toolbox, transcript, exchange, ToolProtocols(UnsupportedFeatures(60)), stands_nowhere
        )

    async def _send(self, message: Message) -> None:
        self.sent.extend(message.get("body", b""))

    async def _answer(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", self._media)]})
        for at in range(0, len(self._body), self._size):
            part = self._body[at : at + self._size]
            await send({"type": "http.response.body", "body": part, "more_body": True})
        self.sent_before_the_end = bytes(self.sent)
        if not self._breaks:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def answered(
        self, body: bytes, size: int = 10_000, *, streamed: bool = True, breaks: bool = False
    ) -> ModelTurn:
        """One round, whose reply comes in pieces of this size. breaks: the connection, before the body's end."""
        self._body, self._size, self._breaks = body, size, breaks
        self._media = b"text/event-stream" if streamed else b"application/json"
        return await self._model.ask({}, nobody, self.client, last=False)


async def nobody() -> Message:
    raise AssertionError("the body is read")


async def passed(
    body: bytes, size: int, *, streamed: bool, rounds: int = 1, taken: tuple[str, ...] = ()
) -> tuple[bytes, list[ModelTurn]]:
    """What the client gets of the same reply in so many rounds, received in pieces of this size."""
    chat = Chat(*taken)
    turns = [await chat.answered(body, size, streamed=streamed) for _ in range(rounds)]
    return bytes(chat.sent), turns


def stream(*events: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % orjson.dumps(event) for event in events) + DONE


def chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(name: str | None, arguments: str, index: int = 0) -> dict[str, Any]:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}


texts = st.lists(st.text(min_size=1, max_size=8), max_size=4)
names = st.lists(st.sampled_from(["act_a", "weather", "find_actions", "act_unknown"]), max_size=4)


@example(["{"], ["act_a"], 1)
@example(["``", "`"], ["act_a", "weather"], 1)
@given(texts, names, st.integers(1, 40))
async def test_the_client_gets_all_text_and_all_own_calls_and_no_other(
    said: list[str], called: list[str], size: int
) -> None:
    events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": text}) for text in said)]
    for index, name in enumerate(called):
        events += [chunk(piece(name, "", index)), chunk(piece(None, "{}", index))]
    body = stream(*events, chunk({}, "tool_calls" if called else "stop"))
    got, (reply,) = await passed(body, size, streamed=True)
    reader = CHAT.reader(streamed=True)
    reader.feed(got)
    reader.close()
    theirs = [name for name in called if name == "weather"]
    assert [call.name for call in reader.tool_calls] == theirs
    assert [call.name for call in reply.calls] == [name for name in called if name != "weather"]
    text = "".join(said)
    hidden = called and not theirs and not text.strip()  # spaces alone, before calls that the client does not see
    assert (reader.answer or "") == ("" if hidden else text)
    if len(theirs) == len(called):
        assert got == body
    elif theirs:
        assert reader.finish_reason == "tool_calls"
    else:
        assert b"[DONE]" not in got


@given(st.sampled_from(["act_a", "weather"]), st.booleans(), st.integers(1, 40))
async def test_a_call_whose_name_comes_late_goes_to_the_client_whole_or_not_at_all(
    name: str, said: bool, size: int
) -> None:
    pieces = [{"index": 0, "id": "c0", "function": {}}, {"index": 0, "function": {"name": name, "arguments": "{}"}}]
    texts = [chunk({"content": "Well."})] if said else []
    body = stream(*texts, *(chunk({"tool_calls": [one]}) for one in pieces), chunk({}, "tool_calls"))
    got, (reply,) = await passed(body, size, streamed=True)
    if name == "weather":
        assert got == body
    else:
        assert got == (stream(*texts).removesuffix(DONE) if said else b"")
        assert [call.name for call in reply.calls] == [name]


@given(
    st.lists(st.sampled_from(["act_a", "weather", "weather_of_city", "act_unknown"]), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 3),
    st.booleans(),
    st.randoms(use_true_random=False),
)
@example(["weather_of_city"], 5, 1, False, Random(0))
async def test_calls_in_pieces_by_turns_are_joined_by_the_index(
    names: list[str], name_chars: int, cuts: int, said: bool, order: Random
) -> None:
    """Some servers write the names in pieces, and the pieces of several calls by turns."""
    given = [orjson.dumps({"number": number}).decode() for number in range(len(names))]
    queues: list[list[Any]] = []
    for number, name in enumerate(names):
        parts = [name[at : at + name_chars] for at in range(0, len(name), name_chars)]
        size = -(-len(given[number]) // cuts)
        arguments = [given[number][at : at + size] for at in range(0, len(given[number]), size)]
        first, *more = [{"function": {"name": part}} for part in parts]
        rest = [{"function": {"arguments": part}} for part in arguments]
        queues.append([{**first, "id": f"c{number}"}, *more, *rest])
    events = [chunk({"role": "assistant", "content": "Well." if said else ""})]
    begun = 0  # the calls begin in the order of the index
    while any(queues):
        at = order.choice([at for at, queue in enumerate(queues) if queue and at <= begun])
        begun = max(begun, at + 1)
        events.append(chunk({"tool_calls": [{"index": at, **queues[at].pop(0)}]}))
    body = stream(*events, chunk({}, "tool_calls"))
    got, (reply,) = await passed(body, 50, streamed=True, taken=("weather", "weather_of_city"))
    assert [(call.name, call.arguments) for call in reply.all_calls] == list(zip(names, given, strict=True))
    theirs = [one for one in zip(names, given, strict=True) if one[0].startswith("weather")]
    reader = CHAT.reader(streamed=True)
    reader.feed(got)
    reader.close()
    assert [(call.name, call.arguments) for call in reader.tool_calls] == theirs
    assert (reader.answer or "") == ("Well." if said else "")
    if len(theirs) == len(names):
        assert got == body


class Memory:
    """Notes what the client had when the conversation was kept."""

    def __init__(self) -> None:
        self.chat: Chat | None = None
        self.sent: list[bytes] = []

    def keep(self, *_: object) -> None:
        assert self.chat is not None
        self.sent.append(bytes(self.chat.sent))


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_gateway_remembers_before_the_client_has_the_end(streamed: bool) -> None:
    """A program asks again as soon as the program has the end of a reply."""
    memory = Memory()
    memory.chat = chat = Chat(memory=memory, stream=streamed)
    whole = {"id": "1", "choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]}
    body = stream(chunk({"content": "Hi."}, "stop")) if streamed else orjson.dumps(whole)
    await chat.answered(body, streamed=streamed)
    assert (bytes(chat.sent), len(memory.sent)) == (body, 1)
    assert b"[DONE]" not in memory.sent[0]
    assert streamed or memory.sent == [b""]


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.just("act_a")
words = ["choices", "delta", "message", "tool_calls", "function", "name", "index", "content", "usage", "finish_reason"]
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=4)
)


function = values | st.fixed_dictionaries({}, optional={"name": scalars, "arguments": scalars})
call = values | st.fixed_dictionaries({}, optional={"index": scalars, "id": scalars, "function": function})
said = {"role": scalars, "content": values, "tool_calls": values | st.lists(call, max_size=2)}
message = values | st.fixed_dictionaries({}, optional=said)
choice = st.fixed_dictionaries({}, optional={"delta": message, "message": message, "finish_reason": scalars})
odd = values | st.fixed_dictionaries({"choices": values | st.lists(choice, max_size=2)}, optional={"usage": values})


@example([{"choices": [{"delta": {"tool_calls": [{"function": "f"}]}}]}], 5, 1)
@given(st.lists(odd, max_size=4), st.integers(1, 20), st.integers(1, 2))
async def test_odd_events_of_an_upstream_break_nothing(events: list[Any], size: int, rounds: int) -> None:
    await passed(stream(*events), size, streamed=True, rounds=rounds)
    for event in events:
        await passed(orjson.dumps(event), size, streamed=False, rounds=1)


@pytest.mark.parametrize("said", ['{"name": "act_a", "arguments": {}}', '{"name": "act'])
async def test_a_call_that_the_model_also_writes_as_text_is_not_shown(said: str) -> None:
    body = stream(chunk({"role": "assistant", "content": said}), chunk(piece("act_a", "{}")), chunk({}, "tool_calls"))
    got, (reply,) = await passed(body, 7, streamed=True)
    assert (got, [call.name for call in reply.calls]) == (b"", ["act_a"])


AZURE = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": []}
NAMED = {"object": "chat.completion.chunk", "created": 9, "model": "m-1"}


@pytest.mark.parametrize("between", ["", "keep-alive", "note"])
@pytest.mark.parametrize("size", [1, 1000])
async def test_a_first_event_without_an_id_does_not_become_the_head_of_the_reply(size: int, between: str) -> None:
    """Azure begins each stream with the results of the filters, in an event whose id and model are empty."""
    head = [AZURE, {**NAMED, **chunk({"role": "assistant", "content": ""})}]
    call, answer = ({**NAMED, **chunk(one, "stop")} for one in (piece("act_a", "{}"), {"content": "Hi."}))
    chat = Chat()
    for last in (call, answer):
        turn = await chat.answered(stream(*head, last), size)
        if turn.goes_on and between == "keep-alive":
            await chat.client.keep_alive()
        elif turn.goes_on and between == "note":
            await chat.client.note("atlas/a")
    sent = chat.sent
    events = [orjson.loads(one[6:]) for one in sent.split(b"\n\n") if one.startswith(b"data: {")]
    with_choices = [one for one in events if one["choices"]]
    assert {(one["id"], one["object"], one["model"]) for one in with_choices} == {("1", NAMED["object"], "m-1")}
    assert [one["choices"][0]["delta"]["role"] for one in with_choices if "role" in one["choices"][0]["delta"]] == [
        "assistant"
    ]
    assert "".join(one["choices"][0]["delta"].get("content") or "" for one in with_choices).endswith("Hi.")


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_comment_after_the_end_of_a_hidden_round_ends_no_reply(size: int) -> None:
    body = stream(chunk({"role": "assistant", "content": "Hm."}), chunk(piece("act_a", "{}"), "tool_calls"))
    got, _ = await passed(body + b": keep-alive\n\n", size, streamed=True)
    assert b"Hm." in got
    assert b"[DONE]" not in got


@pytest.mark.parametrize("body", [stream(chunk({"content": "Hi."}, "stop")), stream(chunk(piece("weather", "{}")))])
async def test_the_client_has_the_end_although_the_upstream_ends_the_body_later(body: bytes) -> None:
    memory = Memory()
    memory.chat = chat = Chat(memory=memory)
    turn = await chat.answered(body)
    assert chat.sent_before_the_end == body
    assert b"[DONE]" not in memory.sent[0], "the gateway remembers before the end"
    assert (bytes(chat.sent), len(memory.sent), turn.goes_on) == (body, 1, False)


async def test_no_call_of_a_reply_that_broke_off_is_made() -> None:
    called = [chunk({"role": "assistant", "content": "Hm."}), chunk(piece("act_a", "{}")), chunk({}, "tool_calls")]
    assert (await Chat().answered(stream(*called))).goes_on
    assert not (await Chat().answered(stream(*called), breaks=True)).goes_on


async def test_thoughts_in_a_member_of_the_providers_own_pass_as_they_come() -> None:
    """MiniMax streams `reasoning_details` alone."""
    thought = {"reasoning_details": [{"type": "reasoning.text", "text": "So."}]}
    chat = Chat()
    await chat.answered(stream(chunk({"role": "assistant", "content": ""}), chunk(thought)).removesuffix(DONE))
    assert b"So." in chat.sent_before_the_end


WRITTEN = '<tool_call>{"name": "act_a", "arguments": {}}</tool_call>'
THOUGHTS = {
    "reasoning_content": [chunk({"role": "assistant", "content": ""}), chunk({"reasoning_content": "So."})],
    "in the first event": [chunk({"role": "assistant", "content": None, "reasoning": "So."})],
    "the results of filters": [AZURE, chunk({"role": "assistant", "content": ""})],
    "white space after thoughts": [chunk({"reasoning_content": "So."}), chunk({"content": "\n\n"})],
}


@pytest.mark.parametrize("before", THOUGHTS.values(), ids=THOUGHTS.keys())
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_written_call_after_thoughts_is_made_and_not_shown(before: list[Any], size: int) -> None:
    texts = [chunk({"content": one}) for one in WRITTEN]
    got, (reply,) = await passed(stream(*before, *texts, chunk({}, "stop")), size, streamed=True)
    assert (reply.written, [call.name for call in reply.calls]) == (True, ["act_a"])
    reader = CHAT.reader(streamed=True)
    reader.feed(got)
    reader.close()
    assert (reader.answer or "").strip() == ""
    assert (b"So." in got) == (b"So." in stream(*before)), "thoughts pass"
    for other in ("Hi.", '{"name": "act_a", "note": 1}', f"{WRITTEN} is the call."):
        body = stream(*before, *(chunk({"content": one}) for one in other), chunk({}, "stop"))
        assert (await passed(body, size, streamed=True))[0] == body


async def test_a_written_call_beside_thoughts_in_a_whole_reply_is_made() -> None:
    said = {"role": "assistant", "content": WRITTEN, "reasoning_content": "So."}
    body = orjson.dumps({"id": "1", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]})
    got, (reply,) = await passed(body, 7, streamed=False)
    assert (got, [call.name for call in reply.calls]) == (b"", ["act_a"])


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_call_of_the_gateway_never_has_the_id_of_another_call(streamed: bool) -> None:
    """Some models count the calls of each name. The client's own calls keep the ids that the client got."""
    rows = [("c0", "act_a"), ("c1", "weather"), ("c1", "act_a"), ("c0", "act_a"), ("", "act_a"), ("c2", "act_a")]
    called = [
        {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for index, (id, name) in enumerate(rows)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": called}
    whole = {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    body = stream(chunk(message), chunk({}, "tool_calls")) if streamed else orjson.dumps(whole)
    _, (reply,) = await passed(body, 50, streamed=streamed)
    ids = [call.id for call in reply.all_calls]
    assert len(set(ids)) == len(rows)
    assert [ids[0], ids[1], ids[5]] == ["c0", "c1", "c2"]


def text_reply(text: str, *, streamed: bool, piece: int) -> bytes:
    if streamed:
        texts = [chunk({"content": text[at : at + piece]}) for at in range(0, len(text), piece)]
        return stream(chunk({"role": "assistant", "content": ""}), *texts, chunk({}, "stop"))
    said = {"role": "assistant", "content": text}
    return orjson.dumps({"id": "1", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]})


@all_rows("kind", SPELLINGS)
@all_rows(("streamed", "piece"), [(True, 1), (True, 7), (True, 10_000), (False, 0)])
async def test_a_call_in_the_spelling_of_another_model_is_made_and_not_shown(
    kind: str, streamed: bool, piece: int
) -> None:
    for before in ("", "I will look this up.\n"):
        text = before + SPELLINGS[kind]
        got, (reply,) = await passed(text_reply(text, streamed=streamed, piece=piece), 50, streamed=streamed)
        assert [call.name for call in reply.calls] == ["act_a"]
        assert orjson.loads(reply.calls[0].arguments) in ({"x": 1}, {"x": "1"})
        reader = CHAT.reader(streamed=True)
        reader.feed(got)
        reader.close()
        words = (before.strip(), f"{before}Action: ```json") if streamed else ("",)
        assert (reader.answer or "").strip() in words


@pytest.mark.parametrize("kind", WITHOUT_ARGUMENTS)
async def test_a_call_without_arguments_in_the_spelling_of_another_model_is_made(kind: str) -> None:
    body = text_reply(WITHOUT_ARGUMENTS[kind], streamed=True, piece=3)
    got, (reply,) = await passed(body, 50, streamed=True)
    assert [(call.name, call.arguments) for call in reply.calls] == [("act_a", "{}")]
    assert b"act_a" not in got


@all_rows("text", ANSWERS)
@all_rows(("streamed", "piece"), [(True, 1), (True, 7), (True, 10_000), (False, 0)])
async def test_answers_with_marks_of_templates_pass_byte_for_byte(text: str, streamed: bool, piece: int) -> None:
    for whole in (text, f"Well.\n{text}", f"{text}\n\nThat is all.", f"Well, {text}"):
        body = text_reply(whole, streamed=streamed, piece=piece)
        assert (await passed(body, 50, streamed=streamed))[0] == body


@all_rows("kind", [kind for kind, text in SPELLINGS.items() if text.startswith(("<", "[TOOL"))])
async def test_a_template_may_begin_anywhere_in_a_line(kind: str) -> None:
    for after in ("", "\nThe result is made up."):
        body = text_reply(f"I look this up.{SPELLINGS[kind]}{after}", streamed=True, piece=5)
        got, (reply,) = await passed(body, 50, streamed=True)
        assert [call.name for call in reply.calls] == ["act_a"]
        reader = CHAT.reader(streamed=True)
        reader.feed(got)
        reader.close()
        assert reader.answer == "I look this up."
