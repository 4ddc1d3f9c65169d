"""A reply's bytes to its answer, however they come."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.chat import CHAT
from proxy.dialects.replies import ReplyReader, ReplyTooLong, Tokens, ToolCall, read_error
from tests.support.completions import USAGE, events
from tests.support.delta_forms import FORMS, DeltaForm, FormedCall, frames, whole
from tests.support.rows import all_rows

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4)


def read(*pieces: bytes, streamed: bool = True) -> ReplyReader:
    reading = CHAT.reader(streamed=streamed)
    for at_ms, piece in enumerate(pieces):
        reading.feed(piece, float(at_ms))
    reading.close(99.0)
    return reading


@given(texts, st.lists(st.integers(0, 2000), max_size=6))
@settings(deadline=None)
def test_where_the_bytes_are_cut_changes_nothing(said: list[str], cuts: list[int]) -> None:
    stream = events(*said)
    places = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    reading = read(*(stream[start:end] for start, end in itertools.pairwise(places)))
    assert (reading.answer, reading.finish_reason, reading.whole) == ("".join(said), "stop", True)
    assert reading.usage == Tokens(100, 10)
    assert reading.text_bytes == len("".join(said).encode())


def test_the_first_text_is_timed_and_no_role_or_empty_text_before_it() -> None:
    pieces = events("", "a", "b").split(b"\n\n")
    assert read(*(piece + b"\n\n" for piece in pieces)).first_text_ms == 2.0


def test_reasoning_counts_as_first_text_and_is_no_answer() -> None:
    row = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}
    reading = read(b"data: " + json.dumps(row).encode() + b"\n\n", events("yes"))
    assert (reading.first_text_ms, reading.answer, reading.text_bytes) == (0.0, "yes", 5)


def test_a_stream_that_stops_in_the_middle_is_not_whole() -> None:
    reading = read(events("half", usage=None, finish="", done=False))
    assert (reading.answer, reading.whole, reading.usage) == ("half", False, None)
    assert not read().whole


def test_an_error_in_the_stream_is_told() -> None:
    reading = read(b'data: {"error": {"message": "too\\nmuch", "code": "x"}}\n\n')
    assert reading.error == "too much"


def test_a_reply_in_one_piece_is_read_and_timed_at_its_end() -> None:
    message = {"role": "assistant", "content": "yes"}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE}
    reading = read(json.dumps(body, indent=1).replace("\n", "\n\n").encode(), streamed=False)
    assert (reading.answer, reading.whole, reading.first_text_ms, reading.usage) == ("yes", True, 99.0, Tokens(100, 10))
    assert not read(b'{"status": "ok"}', streamed=False).whole


def test_other_choices_and_what_is_no_completion_are_left_out() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    odd = [b"data: 1\n\n", b"data: {\n\n", b": comment\n\n", b'data: {"choices": [3], "usage": 4}\n\n']
    reading = read(b"data: " + json.dumps(other).encode() + b"\n\n", *odd, events("yes"))
    assert reading.answer == "yes"


def test_half_a_surrogate_pair_can_be_kept() -> None:
    reading = read(b'data: {"choices": [{"index": 0, "delta": {"content": "a\\ud800"}, "finish_reason": "stop"}]}\n\n')
    assert reading.answer == "a?"


def test_a_reader_without_texts_knows_the_end_and_the_usage() -> None:
    reading = CHAT.reader(streamed=True, keep_text=False)
    reading.feed(calls({"index": 0, "id": "c1", "function": {"name": "find"}}) + events("yes", "no"), 5.0)
    reading.close()
    assert (reading.whole, reading.usage, reading.first_text_ms) == (True, Tokens(100, 10), 5.0)
    assert (reading.answer, reading.tool_calls, reading.text_bytes) == (None, [], 5)


def test_a_reply_without_end_is_given_up() -> None:
    reading = CHAT.reader(streamed=False)
    for _ in range(64):
        reading.feed(bytes(2**20))
    with pytest.raises(ReplyTooLong, match="longer than 64 MB"):
        reading.feed(b"x")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error": {"message": "no", "code": "c"}}', ("no", "c")), (b'{"error": "no"}', ("no", "")),
        (b'{"detail": "no"}', ("no", "")), (b"<html>\n no", ("<html> no", "")), (b"", ("", "")),
        (b'{"error": {"message": "no", "code": 5}}', ("no", "")),
    ],
)  # fmt: skip
def test_what_a_refusal_says_is_found_in_any_shape(body: bytes, told: tuple[str, str]) -> None:
    assert read_error(body) == told


def calls(*pieces: dict[str, object]) -> bytes:
    """One frame for each list of tool-call pieces."""
    rows = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    return b"".join(b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows)


def test_tool_calls_of_a_stream_are_put_together() -> None:
    reading = read(
        calls(
            {"index": 0, "id": "c1", "type": "function", "function": {"name": "find", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"q": '}},
            {"index": 1, "id": "c2", "type": "custom", "custom": {"name": "run", "input": "ls"}},
            {"index": 0, "function": {"arguments": '"tls"}'}},
        )
    )
    assert reading.tool_calls == [ToolCall("c1", "find", '{"q": "tls"}'), ToolCall("c2", "run", "ls", custom=True)]


TWO = [FormedCall("c1", "find", '{"q": "tls"}'), FormedCall("c2", "find", '{"q": "{}"}')]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_two_tool_calls_are_read_in_every_form(form: DeltaForm) -> None:
    body = b"".join(frames(form, TWO)) if form.streamed else whole(form, TWO)
    calls = read(body, streamed=form.streamed).tool_calls
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        (call.name, json.loads(call.arguments)) for call in TWO
    ]


def test_tool_calls_of_a_whole_reply_are_read() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    choice = {"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    reading = read(json.dumps({"choices": [choice]}).encode(), streamed=False)
    assert reading.tool_calls == [ToolCall("c1", "find", "{}")]
    assert (reading.answer, reading.whole, reading.finish_reason) == (None, True, "tool_calls")


@pytest.mark.parametrize(
    "piece",
    [{"index": 7}, {"index": "x"}, {"index": 0, "function": 3}, {"index": 0, "id": 5, "function": {"name": []}}],
)
def test_an_odd_piece_of_a_tool_call_breaks_nothing(piece: dict[str, object]) -> None:
    assert read(calls(piece), events("yes")).answer == "yes"


@all_rows(("body", "words"), [
    (b'{"detail":[{"loc":["body","model"],"msg":"field required","type":"missing"}]}', "body.model: field required"),
    (b'{"detail":[{"loc":["body",0],"msg":"a"},{"msg":"b"}]}', "body.0: a; b"),
    (b'{"error":{"message":["a","b"],"code":7}}', "a; b"), (b'{"message":"no"}', "no"), (b'{"error":"no"}', "no"),
    (b'{"errors":[{"message":"no"}]}', "no"), (b'{"error":{"message":{"detail":"no"}}}', "no"),
    (b'{"error":{"message":"","detail":"no"}}', "no"), (b'{"error":{"code":"x"}}', '{"code":"x"}'),
    (b"", ""), (b"{}", ""), (b'{"error":{}}', ""), (b'{"error":null}', ""), (b'{"error":{"message":""}}', ""),
    (b"[]", "[]"), (b"Bad\r\nGateway", "Bad Gateway"), (b'{"detail":[]}', ""), (b'{"error":{"message":null}}', ""),
])  # fmt: skip
def test_an_error_of_any_shape_has_words_on_one_line(body: bytes, words: str) -> None:
    assert read_error(body)[0] == words
