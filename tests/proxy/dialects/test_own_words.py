"""What counts as the words of a person."""

from collections.abc import Mapping
from typing import Any

import pytest

from proxy.dialects.base import own_text, own_words
from tests.support.rows import all_rows

Message = Mapping[str, Any]


def text(value: str) -> Message:
    return {"type": "text", "text": value}


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}


@all_rows(
    ("message", "said"),
    [
        (user("a"), "a"),
        (user([text("a")]), "a"),
        (user([IMAGE, text("a")]), "a"),
        (user([text("x"), text("a")]), "a"),
        (user([text("a"), text("x")]), "x"),
        (user([IMAGE]), ""),
        (user([text("a"), {"type": "file", "file": {"file_data": "a"}}]), ""),
        (user([{"type": "tool_result", "content": "a"}, text("a")]), ""),
        (user(["a"]), ""),
        (user(None), ""),
        ({"role": "tool", "content": "a"}, ""),
        ({"role": "assistant", "content": "a"}, ""),
        ({"role": "system", "content": "a"}, ""),
    ],
)
def test_the_last_text_of_a_persons_message_counts(message: Message, said: str) -> None:
    assert own_text(message) == said


NOTES = "<system-reminder>Read this:\n</system-reminder> a\n</system-reminder>"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (user([text(NOTES), text("a")]), "a"),
        (user([text("a"), text(NOTES)]), "a"),
        (user([text(NOTES)]), ""),
        (user([text("a <system-reminder>")]), "a <system-reminder>"),
        (user([{"type": "document", "source": {"type": "text", "data": "a"}}]), ""),
        (user([text("a"), {"type": "document", "source": {"type": "text", "data": "x"}}]), ""),
        (user([{"type": "input_text", "text": "x"}, {"type": "input_text", "text": "a"}]), "a"),
        ({"type": "function_call_output", "output": "a"}, ""),
    ],
)
def test_no_document_and_no_program_is_the_person(message: Message, said: str) -> None:
    assert own_text(message) == said


def test_the_words_of_a_person_are_without_documents_and_what_programs_add() -> None:
    said = [
        {"role": "system", "content": "s"},
        user("a"),
        {"role": "assistant", "content": "b"},
        user([text(NOTES), text("c"), IMAGE, text("d")]),
        user([{"type": "document", "source": {"type": "text", "data": "x"}}, {"type": "tool_result", "content": "x"}]),
        user(f"e {NOTES} f"),
        user("g <environment_context> never closed"),
        {"type": "function_call_output", "output": "x"},
        "x",
    ]
    assert own_words(said) == ["a", "c\nd", "e  f", "g"]
