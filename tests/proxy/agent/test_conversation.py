"""The hidden messages of a conversation: put back at their places, found by the same key and history only."""

import asyncio
import tempfile
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, time
from typing import Any, NoReturn

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.agent.actions import ToolSources
from proxy.agent.conversation import Conversation, HiddenMessages, HiddenRounds, WaitingCall, edits_of, resumed, row_id
from proxy.answer.bridged import client_chat
from proxy.caller import EVERYTHING
from proxy.dialects.chat import ChatRequest
from proxy.dialects.errors import ApiError
from proxy.dialects.responses import RESPONSES
from proxy.exchange import Exchange
from proxy.observe.metrics import Metrics
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn
from runtime.record_store import RecordStore
from tests.proxy.agent.test_baked_in import TARGET, actions
from tests.proxy.observe.test_metrics import value

SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": "Ann."},
]
KEPT = Conversation((HiddenMessages(2, '{"role":"tool"}'),), (("act_a", "atlas", "a"),))


def memory(folder: Path) -> HiddenRounds:
    store = RecordStore(folder, keep_s=3600, max_bytes=1 << 20, kind="action_rounds")
    return HiddenRounds(store, Metrics().histories)


def test_the_size_of_a_conversation_counts_all_long_texts() -> None:
    long = "x" * 1000
    waiting = WaitingCall("c1", "act_a", long, owned=True)
    large = Conversation((HiddenMessages(2, long),), waiting=(waiting,), message=long, items=long)
    assert large.size_bytes - Conversation((HiddenMessages(2, ""),), waiting=(waiting,)).size_bytes == 3000
    assert waiting.arguments
    assert large.size_bytes > 4000


async def test_another_process_finds_the_record_of_the_same_key_and_history(tmp_path: Path) -> None:
    one = memory(tmp_path)
    one.keep("key", SAID, KEPT)
    assert await one.find("key", SAID) == KEPT, "before the write"
    one.stop()
    await one.run()
    other, later = memory(tmp_path), [*SAID, {"role": "user", "content": "And?"}]
    assert await other.find("key", later) == KEPT
    assert await other.find("another key", later) is None
    assert await other.find("key", [SAID[0], {"role": "user", "content": "Whom?"}, *later[2:]]) is None
    assert await other.find("key", SAID[:2]) is None
    other.stop()
    await other.run()


async def test_a_record_that_json_cannot_hold_is_lost_alone(tmp_path: Path) -> None:
    store, metrics = RecordStore(tmp_path, keep_s=3600, max_bytes=1 << 20, kind="action_rounds"), Metrics()
    one = HiddenRounds(store, metrics.histories)
    one.keep("other", SAID, Conversation(waiting=(WaitingCall("c\ud83d", "act_a", "{}", owned=True),)))
    one.keep("key", SAID, KEPT)
    one.stop()
    await one.run()
    other = memory(tmp_path)
    assert await other.find("key", SAID) == KEPT
    assert await other.find("other", SAID) is None
    counts = {outcome: value(metrics, "histories_total", outcome=outcome) for outcome in ("written", "lost")}
    assert counts == {"written": 3, "lost": 1}, "each record has a mark"


async def test_a_write_of_lost_records_alone_does_not_end_the_queue(tmp_path: Path) -> None:
    one = memory(tmp_path)
    one.keep("other", SAID, Conversation(waiting=(WaitingCall("c\ud83d", "act_a", "{}", owned=True),)))
    one.stop()
    await one.run()


ASKED: list[dict[str, Any]] = [*SAID, {"role": "user", "content": "And?"}]
HISTORIES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "the newest reply edited": ([*SAID[:2], {**SAID[2], "content": "Bob."}, ASKED[3]], True),
    "a later question, after the edit": (
        [*SAID[:2], {**SAID[2], "content": "Bob."}, ASKED[3], {"role": "assistant", "content": "Hm."}, ASKED[3]],
        True,
    ),
    "the question edited": ([SAID[0], {**SAID[1], "content": "Whom?"}, *ASKED[2:]], False),
    "the first question": (SAID[:2], False),
}


@pytest.mark.parametrize("history", HISTORIES)
async def test_an_edited_conversation_with_hidden_messages_is_known_as_such(tmp_path: Path, history: str) -> None:
    messages, forgotten = HISTORIES[history]
    for written in (False, True):
        one = memory(tmp_path)
        if not written:
            one.mark("key", SAID[:2])
            one.keep("key", SAID, KEPT)
        assert await one.had_hidden_rounds("key", messages) is forgotten
        assert not await one.had_hidden_rounds("another key", messages)
        one.stop()
        await one.run()


async def test_an_expired_conversation_is_known_for_as_long_again(tmp_path: Path) -> None:
    past_s = [0.0]
    store = RecordStore(
        tmp_path, keep_s=3600, max_bytes=1 << 20, kind="action_rounds", now_s=lambda: time() + past_s[-1]
    )
    one = HiddenRounds(store, Metrics().histories)
    one.mark("key", SAID[:2])
    one.keep("key", SAID, KEPT)
    one.stop()
    await one.run()
    for later_s, found, forgotten in ((0.0, KEPT, True), (3700.0, None, True), (7300.0, None, False)):
        past_s.append(later_s)
        store.prune()
        assert await one.find("key", ASKED) == found
        assert await one.had_hidden_rounds("key", ASKED) is forgotten


async def test_a_question_right_after_the_reply_finds_the_record_that_another_process_is_about_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.write_behind._LOOK_AGAIN_S", 1.0)  # a busy machine may write late
    before, other, made = memory(tmp_path), memory(tmp_path), actions(tmp_path, {"atlas": ["list"]})
    made.hidden_rounds = memory(tmp_path)
    before.mark("", SAID[:2])  # while the model answered
    before.stop()
    await before.run()
    other.keep("", SAID, KEPT)  # written after 50 ms
    writing = asyncio.create_task(other.run())
    request = ChatRequest.parse(orjson.dumps({"model": "m", "messages": ASKED}))
    exchange = Exchange(rights=EVERYTHING)
    toolbox = await made.offer(
        request,
        [Turn("user", "And?")],
        ToolSources(["atlas"]),
        exchange,
        made.tool_protocols.form(TARGET, request.fields),
    )
    assert toolbox is not None
    assert toolbox.conversation == KEPT
    assert exchange.action_trace is not None
    assert not exchange.action_trace.forgotten
    other.stop()
    await writing


@pytest.mark.parametrize("fault", ["database", "index", "none"])
async def test_a_conversation_whose_hidden_messages_are_not_put_back_is_known_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def fails(*_: object) -> NoReturn:
        raise RetrievalError("the database is away")

    made = actions(tmp_path, {"atlas": ["list"]} if fault == "none" else {})
    made.hidden_rounds = one = memory(tmp_path)
    one.keep("", SAID, KEPT)
    request = ChatRequest.parse(orjson.dumps({"model": "m", "messages": ASKED}))
    exchange = Exchange(rights=EVERYTHING)
    if fault == "database":
        one.stop()
        await one.run()
        monkeypatch.setattr(RecordStore, "read", fails)
    with pytest.raises(RetrievalError) if fault != "none" else nullcontext():
        assert (
            await made.offer(
                request,
                [Turn("user", "And?")],
                ToolSources(["atlas"]),
                exchange,
                made.tool_protocols.form(TARGET, request.fields),
            )
            is not None
        )
    assert exchange.action_trace is not None
    assert exchange.action_trace.forgotten is (fault != "none")


@pytest.mark.parametrize(
    "fields",
    [
        {"input": "And?", "previous_response_id": "resp_ragway_1"},
        {"input": [{"type": "item_reference", "id": "msg_ragway_1_0"}]},
    ],
)
async def test_a_response_whose_conversation_cannot_be_read_at_present_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    def fails(*_: object) -> NoReturn:
        raise RetrievalError("the database is away")

    made = actions(tmp_path, {})
    made.hidden_rounds = memory(tmp_path)
    monkeypatch.setattr(RecordStore, "read", fails)
    request = RESPONSES.parse(orjson.dumps({"model": "m", **fields}))
    with pytest.raises(ApiError) as caught:
        await client_chat(request, "m", TARGET, Exchange(dialect=RESPONSES, rights=EVERYTHING), made)
    assert (caught.value.status, caught.value.code) == (503, "response_unavailable")


def test_a_record_is_found_by_what_clients_send_back() -> None:
    whole: dict[str, Any] = {"role": "assistant", "content": "Ann. ", "refusal": None, "tool_calls": None}
    parts = {"role": "assistant", "content": [{"type": "text", "text": "Ann."}]}
    timed = {"role": "system", "content": "It is noon."}
    for history in ([*SAID[:2], whole], [*SAID[:2], parts], [timed, *SAID[1:]], SAID[1:], [*SAID, timed]):
        assert row_id("key", history) == row_id("key", SAID)
    assert row_id("key", SAID[2:]) != row_id("key", SAID)


NOTE = {"role": "system", "content": "It is noon."}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.booleans(), min_size=9, max_size=9), st.lists(st.booleans(), min_size=9, max_size=9))
async def test_instructions_that_come_and_go_move_no_hidden_message(before: list[bool], after: list[bool]) -> None:
    """Coding agents write reminders behind questions and behind results, and drop reminders later."""
    said = [
        {"role": role, "content": f"{role} {number}", **({"tool_call_id": "c"} if role == "tool" else {})}
        for number, role in enumerate(["user", "assistant", "user", "assistant", "tool", "assistant", "user"])
    ]

    def noted(notes: list[bool], count: int) -> list[dict[str, Any]]:
        rows = zip(said[:count], notes, strict=False)
        return [row for one, note in rows for row in ([NOTE, one] if note else [one])]

    with tempfile.TemporaryDirectory() as folder:
        one, first = memory(Path(folder)), noted(before, 6)
        places = [first.index(said[1]), first.index(said[5])]
        one.keep("key", first, Conversation(tuple(HiddenMessages(at, "{}") for at in places)))
        one.stop()
        await one.run()
        asked = noted(after, 7)
        found = await memory(Path(folder)).find("key", asked)
        assert found is not None
        assert [asked[hidden.at] for hidden in found.hidden] == [said[1], said[5]]


messages = st.lists(st.integers(0, 9).map(lambda number: {"role": "user", "content": f'"{number}],'}), min_size=1)


@given(messages, st.data())
def test_hidden_messages_stand_before_their_visible_messages(said: list[dict[str, Any]], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(said)), max_size=4))
    replaced = data.draw(st.sets(st.integers(0, len(said) - 1), max_size=2))
    hidden = [HiddenMessages(at, f'{{"hidden":{number}}},{{"also":{number}}}') for number, at in enumerate(places)]
    hidden += [HiddenMessages(at, '{"in":"place"}', replaces=True) for at in replaced]
    expected: list[Any] = []
    for at in range(len(said) + 1):
        for number, place in enumerate(places):
            expected += [{"hidden": number}, {"also": number}] if place == at else []
        expected += [{"in": "place"} if at in replaced else said[at]] if at < len(said) else [{"last": 1}]
    request = ChatRequest.parse(orjson.dumps({"model": "m", "messages": said, "x": 1}))
    edited = request.edited(edits=edits_of(request, hidden, [b'{"last":1}']))
    assert orjson.loads(edited) == {"model": "m", "messages": expected, "x": 1}


def test_a_long_conversation_is_edited_in_one_pass() -> None:
    """Looked up one by one, the places of so many messages take half a minute."""
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}] * 1500
    request = ChatRequest.parse(orjson.dumps({"model": "m", "messages": said}))
    hidden = [HiddenMessages(at, '{"hidden":1}') for at in range(0, len(said), 2)]
    began = perf_counter()
    assert len(edits_of(request, hidden, [])) == 1500
    assert perf_counter() - began < 2


def test_a_reply_that_comes_back_in_parts_is_replaced_whole() -> None:
    """Clients of responses send the text and the calls of a reply as messages of their own."""
    call = {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    said = [
        *SAID[:2],
        {"role": "assistant", "content": "Let me look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c2", "content": "sunny"},
    ]
    waiting = (WaitingCall("c1", "act_a", "{}", owned=True), WaitingCall("c2", "weather", "{}", owned=False))
    hidden = HiddenMessages(2, '{"hidden":1}')
    conversation = Conversation((hidden,), waiting=waiting, message='{"whole":"reply"}')
    request = ChatRequest.parse(orjson.dumps({"model": "m", "messages": said}))
    edits = edits_of(request, resumed(conversation, said, {"c1": b'{"result":1}'}), [])
    assert orjson.loads(request.edited(edits=edits))["messages"] == [
        *SAID[:2], {"hidden": 1}, {"whole": "reply"}, {"result": 1}, said[4],
    ]  # fmt: skip
