"""The room that a model's context window leaves for passages."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.augment.context_window import conversation_tokens, room_tokens
from proxy.dialects.base import ModelRequest
from proxy.dialects.chat import CHAT
from tests.support.dialect_clients import BY_DIALECT, CHAT_CLIENT, DialectClient


def request(messages: list[dict[str, Any]], **more: Any) -> ModelRequest:
    return CHAT.parse(json.dumps({"messages": messages, **more}).encode())


def chat(*texts: str, **more: Any) -> ModelRequest:
    return request([{"role": "user", "content": text} for text in texts], **more)


def room(asked: ModelRequest, window_tokens: int = 1000, share: float = 0.5) -> int:
    return room_tokens(asked, window_tokens=window_tokens, share=share)


def test_half_of_an_empty_window() -> None:
    assert room(chat("")) == pytest.approx(500, abs=2)


def test_what_the_conversation_takes_is_not_left() -> None:
    assert room(chat("x" * 1500)) == pytest.approx(250, abs=2)
    assert room(chat("x" * 3000)) == 0
    assert room(chat("x" * 10_000)) == 0


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_what_is_reserved_for_the_answer_is_not_left(key: str) -> None:
    assert room(chat("", **{key: 400})) == pytest.approx(300, abs=2)


@BY_DIALECT
def test_the_same_conversation_leaves_the_same_room_in_every_dialect(client: DialectClient) -> None:
    turns = [("system", "Be brief. " * 20), ("user", "Who is Bruno?"), ("assistant", "A dog. " * 50)]
    body = client.body("m", "Whose dog?", *turns, **{client.length: 100})
    chats = CHAT_CLIENT.body("m", "Whose dog?", *turns, max_tokens=100)
    read = [each.parse(json.dumps(fields).encode()) for each, fields in ((client.dialect, body), (CHAT, chats))]
    assert room(read[0]) == room(read[1]) == pytest.approx((1000 - 100 - 201 - 16 - 8) / 2, abs=20)


def test_tools_take_room_too() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "x" * 1500}}
    assert conversation_tokens(chat("", tools=[tool])) > 500


def test_every_round_of_a_tool_loop_leaves_the_same_room() -> None:
    asked = chat("how do I connect?")
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"arguments": "x" * 900}}]}
    answered = {"role": "tool", "tool_call_id": "1", "content": "y" * 900}
    assert room(request([*asked.fields["messages"], called, answered])) == room(asked)


def test_an_image_is_not_counted_by_its_bytes() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    asked = request([{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}])
    assert conversation_tokens(asked) < 20


def test_a_script_of_three_bytes_a_letter_counts_a_token_a_letter() -> None:
    assert conversation_tokens(chat("数据库" * 100)) == pytest.approx(300, abs=5)


@given(st.dictionaries(st.text("xyz", max_size=5), st.integers() | st.text(max_size=5)), st.integers(0, 10**6))
def test_never_negative_nor_more_than_the_share(more: dict[str, Any], window_tokens: int) -> None:
    fields = {**more, "messages": [{"role": "user", "content": "hi \ud800"}], "tools": [{"big": 2**70}]}
    asked = CHAT.parse(json.dumps(fields).encode())
    assert 0 <= room(asked, window_tokens) <= window_tokens / 2


def test_a_conversation_without_a_user_takes_nothing() -> None:
    assert conversation_tokens(request([{"role": "assistant", "content": "Hello."}])) == 0


def test_tools_nested_deeper_than_any_reader_goes_are_no_error() -> None:
    deep = b"[" * 1000 + b"]" * 1000
    asked = CHAT.parse(b'{"messages": [{"role": "user", "content": "hi"}], "tools": %b}' % deep)
    assert room(asked) <= 500
