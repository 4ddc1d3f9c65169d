"""Thoughts and signatures of a model's message: as sent, whatever the pieces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.deviations import ProviderFields

Json = dict[str, Any]


def read(*pieces: Json) -> ProviderFields:
    fields = ProviderFields()
    for piece in pieces:
        fields.read(piece, [call["index"] for call in piece.get("tool_calls", [])])
    return fields


def details(**members: Any) -> Json:
    return {"reasoning_details": [members]}


STREAMS: dict[str, tuple[list[Json], Json]] = {
    "a text in pieces, two of them equal": (
        [{"reasoning_content": "ha"}, {"reasoning_content": "ha"}, {"reasoning_content": None}],
        {"reasoning_content": "haha"},
    ),
    "an empty text": ([{"reasoning_content": ""}, {"reasoning_content": None}], {"reasoning_content": ""}),
    "a value that comes with each piece": (
        [{"x_seal": "abc", "x_number": 1}, {"x_seal": "abc", "x_number": 2}], {"x_seal": "abc", "x_number": 2},
    ),
    "a text, then the signature, by index": (
        [
            details(type="reasoning.text", text="So", format="f", index=0),
            details(type="reasoning.text", text="So", format="f", index=0),
            details(type="reasoning.text", signature="s", format="f", index=0),
            details(type="reasoning.text", text="Next", index=1),
        ],
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "SoSo", "format": "f", "index": 0, "signature": "s"},
                {"type": "reasoning.text", "text": "Next", "index": 1},
            ]
        },
    ),
    "one index for a summary and for a sealed text": (
        [
            details(type="reasoning.summary", summary="So", index=0),
            details(type="reasoning.encrypted", data="xyz", id="r1", index=0),
            details(type="reasoning.encrypted", data="zyx", id="r2", index=0),
        ],
        {
            "reasoning_details": [
                {"type": "reasoning.summary", "summary": "So", "index": 0},
                {"type": "reasoning.encrypted", "data": "xyz", "id": "r1", "index": 0},
                {"type": "reasoning.encrypted", "data": "zyx", "id": "r2", "index": 0},
            ]
        },
    ),
    "blocks without an index": (
        [
            {"thinking_blocks": [{"type": "thinking", "thinking": "One", "signature": None}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": ".", "signature": ""}]},
            {"thinking_blocks": [{"type": "thinking", "signature": "s"}]},
            {"thinking_blocks": [{"type": "redacted_thinking", "data": "d"}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "Two."}]},
        ],
        {
            "thinking_blocks": [
                {"type": "thinking", "thinking": "One.", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "thinking", "thinking": "Two."},
            ]
        },
    ),
    "two texts in one piece": (
        [{"reasoning_details": [{"text": "a"}, {"text": "b"}]}], {"reasoning_details": [{"text": "a"}, {"text": "b"}]},
    ),
    "members of the gateway's own, and members for people": (
        [{"role": "assistant", "content": "Hm.", "refusal": None, "annotations": [], "audio": {"id": "a"}}],
        {},
    ),
    "a value of another type": ([{"x": "a"}, {"x": ["b"]}, {"x": {"c": 1}}], {"x": {"c": 1}}),
}  # fmt: skip


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_pieces_of_a_stream_are_joined(stream: tuple[list[Json], Json]) -> None:
    pieces, whole = stream
    assert read(*pieces).message == whole


def test_each_call_has_the_members_of_the_call() -> None:
    signed = {"index": 1, "id": "b", "type": "function", "extra_content": {"google": {"thought_signature": "s"}}}
    fields = read(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "", "x_seal": "z"}}]},
        {"tool_calls": [{**signed, "function": {"name": "g", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": ""}, "extra_content": None}]},
    )
    assert fields.call(0) == {"function": {"x_seal": "z"}}
    assert fields.call(1) == {"extra_content": {"google": {"thought_signature": "s"}}}
    assert fields.call(2) == {}


LEAVES = st.booleans() | st.integers() | st.text(max_size=3)
JSONS = st.recursive(
    LEAVES | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["index", "type", "text", "x"]), inner),
)


@given(st.lists(st.dictionaries(st.sampled_from(["reasoning", "x", "tool_calls"]), JSONS), max_size=4))
def test_any_pieces_are_read(pieces: list[Json]) -> None:
    fields = ProviderFields()
    for piece in pieces:
        fields.read(piece, [0, 1, 0])
    assert fields.message.keys() <= {"reasoning", "x"}


VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["index", "type", "x"]), inner)
)


@given(st.dictionaries(st.sampled_from(["reasoning", "extra_content", "x"]), VALUES))
def test_a_whole_message_goes_back_as_sent(members: Json) -> None:
    assert read(members).message == members


def test_a_value_without_a_bottom_is_cut() -> None:
    value: Any = "x"
    for _ in range(900):
        value = {"a": value}
    fields = read({"x": value})
    assert str(fields.message).count("'a'") < 60
