"""A value of a list's row: the person has named the row, or the choice is open."""

from typing import Any

import pytest

from proxy.agent.grounding.chosen_rows import ListedRows, json_in, open_choice
from tests.support.rows import all_rows

STAFF = [
    {"id": 31, "name": "Oda Brekke", "team": "Harbour"},
    {"id": 32, "name": "Tom Iversen", "team": "Harbour"},
    {"id": 33, "name": "Oda Lund", "team": "Workshop"},
]
CLOSED: list[tuple[Any, str, str]] = [
    (STAFF, "31", "What does Oda Brekke earn?"),
    (STAFF, "31", "what does oda brekke earn?"),
    (STAFF, "32", "And Iversen?"),
    (STAFF, "33", "Who leads the workshop?"),
    (STAFF, "32", "What does number 32 earn?"),
    (STAFF[:1], "31", "What do I earn?"),
    ({"results": STAFF[:1], "total": 1}, "31", "What do I earn?"),
    ({"id": 31, "name": "Oda Brekke"}, "31", "What do I earn?"),
    (STAFF, "99", "What do I earn?"),
    ([{"id": 1, "boat_id": 7}, {"id": 2, "boat_id": 7}], "7", "What did I book?"),
    ({"31": {"name": "Oda"}, "32": {"name": "Tom"}}, "32", "What does Tom earn?"),
    ([{"id": "a", "members": [{"id": 5, "name": "Ann"}, {"id": 6, "name": "Ben"}]}], "6", "Is Ben there?"),
    ([{"id": 1, "label": "李伟"}, {"id": 2, "label": "王芳"}], "2", "王芳的假期有几天?"),
]
OPEN: list[tuple[Any, str, str]] = [
    (STAFF, "31", "What do I earn?"),
    (STAFF, "31", ""),
    (STAFF, "31", "How much does the harbour pay me?"),  # in several rows
    (STAFF, "33", "What does Oda Brekke earn?"),  # another row has more of the words
    (STAFF, "31", "What does Tom Iversen earn?"),
    ({"results": STAFF, "total": 3}, "32", "What do I earn?"),
    ({"31": {"name": "Oda"}, "32": {"name": "Tom"}}, "32", "What do I earn?"),
    ([{"id": 1, "title": "The Boss"}, {"id": 2, "title": "My Sea"}], "1", "What is the price of my ticket?"),
    ([{"id": 1, "stars": 3}, {"id": 2, "stars": 4}], "1", "A room for 3 nights"),
    ([{"id": "a", "members": [{"id": 5, "name": "Ann"}, {"id": 6, "name": "Ben"}]}], "6", "Am I a member?"),
    (["red-1", "red-2"], "red-2", "Which one is mine?"),
]


@all_rows(("result", "value", "message"), CLOSED)
def test_a_row_that_the_person_named_and_an_only_row_are_no_open_choice(result: Any, value: str, message: str) -> None:
    assert open_choice(value, [ListedRows(result)], [message]) is None


@pytest.mark.parametrize(("result", "value", "message"), OPEN)
def test_a_row_that_the_person_has_not_named_is_an_open_choice(result: Any, value: str, message: str) -> None:
    choice = open_choice(value, [ListedRows(result)], [message])
    assert choice is not None
    assert choice.value == value


def test_the_row_that_the_person_named_is_the_right_one() -> None:
    choice = open_choice("31", [ListedRows(STAFF)], ["What does Tom Iversen earn?"])
    assert choice is not None
    assert choice.right == 32
    unnamed = open_choice("31", [ListedRows(STAFF)], ["What do I earn?"])
    assert unnamed is not None
    assert (unnamed.right, unnamed.labels) == (None, ["name", "team"])


def test_an_only_row_that_the_model_found_by_a_word_of_its_own_is_an_open_choice() -> None:
    assert open_choice("31", [ListedRows(STAFF[:1], narrowed=True)], ["What do I earn?"]) is not None
    assert open_choice("31", [ListedRows(STAFF[:1], narrowed=True)], ["What does Oda earn?"]) is None


def test_an_earlier_message_names_a_row() -> None:
    assert open_choice("32", [ListedRows(STAFF)], ["Who is Tom Iversen?", "And what does he earn?"]) is None


def test_a_deep_result_and_a_text_without_json_have_no_rows() -> None:
    deep: Any = [{"id": 31}, {"id": 32}]
    for _ in range(3000):
        deep = [deep]
    assert open_choice("31", [ListedRows(deep)], ["mine?"]) is None
    assert open_choice("31", [ListedRows(json_in("31 members"))], ["mine?"]) is None


@pytest.mark.parametrize("text", ['Result of a:\n[{"id": 1}]\n\nNow', '[{"id": 1}]'])
def test_json_is_found_in_a_result(text: str) -> None:
    assert json_in(text) == [{"id": 1}]
    assert json_in("[{" + text) is None
