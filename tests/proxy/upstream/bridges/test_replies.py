"""Any chunks of a chat completion become a reply that the official SDK of the dialect accumulates to the same texts."""

import contextlib
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects import sse
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from proxy.dialects.replies import json_bytes
from proxy.dialects.responses import RESPONSES
from proxy.upstream.bridges.message_writer import MessageWriter
from proxy.upstream.bridges.reply_writer import ReplyWriter
from proxy.upstream.bridges.response_writer import ResponseWriter
from tests.support.anthropic_server import Json
from tests.support.recording_upstream import answering, recording
from tests.support.upstream_servers import reply

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@st.composite
def deltas(draw: st.DrawFn, *, custom: bool = True) -> list[Json]:
    """The deltas of a reply: texts, refusals, reasoning, nothing and whole calls, in pieces of any size."""
    made: list[Json] = [{"role": "assistant", "content": draw(st.sampled_from([None, ""]))}]
    for number in range(draw(st.integers(0, 6))):
        kind = draw(
            st.sampled_from(
                ["content", "refusal", "reasoning_content", "reasoning", "call", "custom", "signed", "empty"]
            )
        )
        if kind in ("call", "custom"):
            made += _call(draw, number, custom=custom and kind == "custom")
        elif kind == "signed":
            made.append({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]})
        elif kind == "empty":
            made.append({})  # keeps the connection alive
        else:
            made += [{kind: draw(TEXT)} for _ in range(draw(st.integers(1, 3)))]
    return made


def _call(draw: st.DrawFn, number: int, *, custom: bool) -> list[Json]:
    member, arguments = ("custom", "input") if custom else ("function", "arguments")
    index = draw(st.sampled_from([0, number, None]))  # some providers give each call the index 0, or null
    named = {"index": index, "id": f"call_{number}", "type": member, member: {"name": "f", arguments: ""}}
    pieces = ["{", '"a":', "1", "}"] if not custom else [draw(TEXT)]
    return [
        {"tool_calls": [named]},
        *({"tool_calls": [{"index": index, member: {arguments: piece}}]} for piece in pieces),
    ]


def chunks_of(made: list[Json], finish: str) -> list[Json]:
    ends = [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
    return [*({"model": "u", "choices": [{"index": 0, "delta": each}]} for each in made), *ends, usage]


def written(writer: ReplyWriter, chunks: list[Json]) -> bytes:
    for chunk in chunks:
        writer.read(chunk)
    writer.end()
    return writer.taken()


def texts_of(made: list[Json], *names: str) -> str:
    return "".join(each.get(name) or "" for each in made for name in names)


def calls_of(made: list[Json]) -> list[str]:
    calls = [call for each in made for call in each.get("tool_calls", [])]
    return [call["id"] for call in calls if "id" in call]


def data_of(frames: bytes) -> list[Json]:
    return [json.loads(sse.data_of(frame) or b"") for frame in sse.split(frames)[0]]


FINISHES = st.sampled_from(["stop", "tool_calls", "length", "content_filter", "odd"])


@given(deltas(), FINISHES)
def test_the_events_of_a_response_hold_every_text_once_and_agree_with_the_whole(made: list[Json], finish: str) -> None:
    writer = ResponseWriter({"model": "m", "tools": []}, streamed=True)
    frames = written(writer, chunks_of(made, finish))
    events = data_of(frames)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    whole = events[-1]["response"]
    assert whole == writer.whole
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert whole["output"] == done
    assert [event["output_index"] for event in events if event["type"] == "response.output_item.added"] == [
        *range(len(done))
    ]
    reader = RESPONSES.reader(streamed=True)
    reader.feed(frames)
    reader.close()
    assert reader.answer == (texts_of(made, "content") or texts_of(made, "refusal") or None)
    assert [call.id for call in reader.tool_calls] == calls_of(made)
    assert reader.usage is not None
    assert (reader.whole, reader.usage.prompt) == (True, 3)
    again = RESPONSES.reader(streamed=False)
    again.feed(json.dumps(whole).encode())
    again.close()
    assert (again.answer, again.tool_calls, again.text_bytes) == (
        reader.answer,
        reader.tool_calls,
        reader.text_bytes,
    )


@given(deltas(), FINISHES)
def test_a_whole_completion_becomes_the_same_texts(made: list[Json], finish: str) -> None:
    calls: list[Json] = []
    for call in (call for each in made for call in each.get("tool_calls", [])):
        if "id" in call:
            calls.append(json.loads(json.dumps(call)))
        else:
            member = "custom" if "custom" in call else "function"
            for name, piece in call[member].items():
                calls[-1][member][name] += piece
    for call in calls:
        del call["index"]
    message: Json = {
        "role": "assistant",
        "content": texts_of(made, "content"),
        "refusal": texts_of(made, "refusal") or None,
    }
    message |= {"tool_calls": calls} if calls else {}
    writer = ResponseWriter({"model": "m"}, streamed=False)
    assert (
        written(writer, [{"model": "u", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}]) == b""
    )
    items = writer.whole["output"]
    assert [item["call_id"] for item in items if "call_id" in item] == calls_of(made)
    assert writer.whole["status"] == ("incomplete" if finish in ("length", "content_filter") else "completed")


def test_the_openai_sdk_accumulates_every_stream() -> None:
    with recording() as recorder, openai.OpenAI(base_url=recorder.url + "/v1", api_key="k", max_retries=0) as client:

        @given(deltas(), st.sampled_from(["stop", "tool_calls"]))
        def read(made: list[Json], finish: str) -> None:
            frames = written(ResponseWriter({"model": "m"}, streamed=True), chunks_of(made, finish))
            recorder.answer = answering(reply(frames, b"content-type: text/event-stream"))
            with client.responses.stream(model="m", input="Q") as stream:
                snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
                whole = stream.get_final_response()
            assert whole.output_text == texts_of(made, "content")
            assert not snapshots or texts_of(made, "content").endswith(snapshots[-1])
            assert [item.call_id for item in whole.output if "call_id" in item.to_dict()] == calls_of(made)  # type: ignore[union-attr]

        read()


@given(deltas(custom=False), FINISHES)
def test_the_events_of_a_message_are_block_after_block_and_agree_with_the_whole(made: list[Json], finish: str) -> None:
    writer = MessageWriter({"model": "m"}, streamed=True)
    frames = written(writer, chunks_of(made, finish))
    first, *events, stopped, last = (event for event in data_of(frames) if event != {"type": "ping"})
    assert (first["type"], stopped["type"], last["type"]) == ("message_start", "message_delta", "message_stop")
    index, open_block = -1, False
    for event in events:
        begins = event["type"] == "content_block_start"
        assert begins != open_block, "a block begins after the end of the block before"
        index, open_block = index + begins, event["type"] != "content_block_stop"
        assert event["index"] == index
    assert not open_block
    assert len(writer.whole["content"]) == index + 1
    reader = MESSAGES.reader(streamed=True)
    reader.feed(frames)
    reader.close()
    assert reader.answer == (texts_of(made, "content", "refusal") or None)
    assert [call.id for call in reader.tool_calls] == calls_of(made)
    assert reader.usage is not None
    assert (reader.whole, reader.usage.prompt) == (True, 3)
    again = MESSAGES.reader(streamed=False)
    again.feed(json.dumps(writer.whole).encode())
    again.close()
    assert (again.answer, again.finish_reason, again.usage) == (reader.answer, reader.finish_reason, reader.usage)
    assert again.text_bytes == reader.text_bytes


def test_the_anthropic_sdk_accumulates_every_stream() -> None:
    with recording() as recorder, anthropic.Anthropic(base_url=recorder.url, api_key="k", max_retries=0) as client:

        @given(deltas(custom=False), FINISHES)
        def read(made: list[Json], finish: str) -> None:
            writer = MessageWriter({"model": "m"}, streamed=True)
            recorder.answer = answering(
                reply(written(writer, chunks_of(made, finish)), b"content-type: text/event-stream")
            )
            with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "Q"}]) as stream:
                texts = "".join(stream.text_stream)
                whole = stream.get_final_message()
            assert texts == texts_of(made, "content", "refusal")
            blocks = [block.to_dict() for block in whole.content]
            assert [block["id"] for block in blocks if block["type"] == "tool_use"] == calls_of(made)
            assert all(block["input"] == {"a": 1} for block in blocks if block["type"] == "tool_use")
            assert [block["type"] for block in blocks] == [block["type"] for block in writer.whole["content"]]
            assert (whole.stop_reason, whole.usage.input_tokens) == (writer.whole["stop_reason"], 3)

        read()


@pytest.mark.parametrize("writer", [ResponseWriter, MessageWriter])
@pytest.mark.parametrize("chunks", [
    [], [{}], [{"choices": []}], [{"choices": [{"index": 0, "delta": {"content": "a"}}]}],
    [{"choices": [{"index": 1, "delta": {"content": "a"}, "finish_reason": "stop"}]}],
])  # fmt: skip
def test_a_reply_without_a_finish_is_cut(chunks: list[Json], writer: Callable[..., ReplyWriter]) -> None:
    with pytest.raises(ApiError) as caught:
        written(writer({}, streamed=True), chunks)
    assert (caught.value.status, caught.value.code) == (502, "upstream_cut")


JSONS: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["index", "id", "function", "custom", "arguments", "name", "text", "type", "signature"]),
            inner,
        )
    ),
    max_leaves=8,
)
MEMBERS = ["content", "refusal", "reasoning", "reasoning_content", "thinking_blocks", "tool_calls", "x"]


@given(st.lists(st.dictionaries(st.sampled_from(MEMBERS), JSONS, max_size=3), max_size=4), JSONS, JSONS)
def test_odd_chunks_are_read_or_a_502(made: list[Json], usage: Any, choices: Any) -> None:
    chunks = [*chunks_of(made, "stop"), {"usage": usage}, {"choices": choices}]
    for writer in (ResponseWriter({}, streamed=True), MessageWriter({}, streamed=False)):
        with contextlib.suppress(ApiError):
            written(writer, chunks)


def _calls_in(writer: ReplyWriter) -> list[tuple[str, Any]]:
    """The name and the arguments of each call in the whole reply."""
    rows = writer.whole.get("output") or writer.whole["content"]
    return [(row["name"], row["input"] if "input" in row else json.loads(row["arguments"])) for row in rows]


@pytest.mark.parametrize("kind", [ResponseWriter, MessageWriter])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("arguments", [{"city": "Bonn"}, '{"city": "Bonn"}'], ids=["object", "text"])
@pytest.mark.parametrize("id", [{}, {"id": ""}, {"id": None}], ids=str)
def test_two_calls_with_the_index_0_and_without_an_id_stay_two_calls(
    kind: Callable[..., ReplyWriter], streamed: bool, arguments: Any, id: Json
) -> None:
    calls = [{"index": 0, **id, "function": {"name": name, "arguments": arguments}} for name in ("a", "b")]
    message = {"message": {"role": "assistant", "content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
    writer = kind({"model": "m"}, streamed=streamed)
    chunks = chunks_of([{"tool_calls": [call]} for call in calls], "tool_calls")
    written(writer, chunks if streamed else [{"choices": [{"index": 0, **message}]}])
    assert _calls_in(writer) == [("a", {"city": "Bonn"}), ("b", {"city": "Bonn"})]


@st.composite
def turns_of_calls(draw: st.DrawFn) -> tuple[list[Json], list[tuple[str, Any]]]:
    """Deltas with the pieces of several calls, in turn, and the calls."""
    calls, rows = [], []
    for number in range(draw(st.integers(1, 4))):
        name, arguments = (
            "".join(draw(st.permutations("abc_"))[draw(st.integers(0, 2)) :]),
            {"x": draw(st.text('{}"a', max_size=5))},
        )
        calls.append((name, arguments))
        written, at = json.dumps(arguments), draw(st.integers(1, len(name)))
        cuts = sorted({0, len(written), *draw(st.lists(st.integers(0, len(written)), max_size=3))})
        places = sorted(draw(st.lists(st.floats(0, 1), min_size=9, max_size=9)))
        head = {
            "index": number,
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name[:at], "arguments": ""},
        }
        pieces = [head, *([{"index": number, "function": {"name": name[at:]}}] if name[at:] else [])]
        pieces += [{"index": number, "function": {"arguments": written[start:end]}} for start, end in pairwise(cuts)]
        first = number if draw(st.booleans()) else number / 10  # after the calls before, or in turn with the calls
        rows += [(first + place, piece) for place, piece in zip(places, pieces, strict=False)]
        rows.sort(key=lambda row: row[0])
    return [{"tool_calls": [piece]} for _, piece in rows], calls


@given(turns_of_calls(), st.sampled_from([ResponseWriter, MessageWriter]))
def test_pieces_of_several_calls_in_turn_are_whole_calls(
    made: tuple[list[Json], list[tuple[str, Any]]], kind: Callable[..., ReplyWriter]
) -> None:
    deltas, calls = made
    begun = [int(delta["tool_calls"][0]["id"][1:]) for delta in deltas if "id" in delta["tool_calls"][0]]
    writer = kind({"model": "m"}, streamed=True)
    frames = written(writer, chunks_of(deltas, "tool_calls"))
    assert _calls_in(writer) == [calls[number] for number in begun]
    dialect = RESPONSES if kind is ResponseWriter else MESSAGES
    reader = dialect.reader(streamed=True)
    reader.feed(frames)
    reader.close()
    assert [(call.name, json.loads(call.arguments)) for call in reader.tool_calls] == _calls_in(writer)
    reader = CHAT.reader(streamed=True)
    for chunk in chunks_of(deltas, "tool_calls"):
        reader.feed(sse.frame(json.dumps(chunk).encode()))
    assert [(call.name, json.loads(call.arguments)) for call in reader.tool_calls] == _calls_in(writer)


def test_a_call_is_written_as_the_call_arrives() -> None:
    writer = MessageWriter({"model": "m"}, streamed=True)
    seen = []
    for piece in ({"name": "f"}, {"arguments": "{"}, {"arguments": "}"}):
        writer.read({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": piece}]}}]})
        seen.append([event["type"] for event in data_of(writer.taken())])
    assert seen == [["message_start"], ["content_block_start", "content_block_delta"], ["content_block_delta"]]


@pytest.mark.parametrize("kind", [ResponseWriter, MessageWriter])
@pytest.mark.parametrize("choice", [{}, {"finish_reason": None}, {"finish_reason": ""}])
def test_a_whole_reply_without_a_finish_is_an_answer(kind: Callable[..., ReplyWriter], choice: Json) -> None:
    writer = kind({"model": "m"}, streamed=False)
    written(writer, [{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, **choice}]}])
    assert "Hello" in json.dumps(writer.whole)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
@pytest.mark.parametrize("beside", ["", '"x": 12345678901234567890123, '])
def test_a_number_that_json_has_not_is_an_error_of_the_arguments(number: str, beside: str) -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": f'{{{beside}"z": {number}}}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    with pytest.raises(ApiError, match="not a JSON object"):
        written(MessageWriter({"model": "m"}, streamed=False), [{"choices": [{"index": 0, "message": message}]}])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**30, "NaN", "\ud83d Infinity"])
def test_json_that_the_gateway_writes_is_json(value: object) -> None:
    def refused(constant: str) -> None:
        raise AssertionError(constant)

    read = json.loads(json_bytes({"a": value, "b": 10**30, "c": float("inf")}), parse_constant=refused)
    assert read["c"] is None
    assert read["a"] == (None if isinstance(value, float) else value)
