"""What a person has said: values that only a person knows, and names in a message."""

from typing import Any

import pytest

from proxy.agent.grounding.said import name_in, says
from tests.support.rows import all_rows

SIZES = {"type": "string", "enum": ["XS", "S", "M", "L", "XL"]}
TITLED = {"oneOf": [{"const": "e", "title": "economy"}, {"const": "b", "title": "business class"}]}
DESCRIBED = {"type": "string", "enum": ["V", "G"], "description": "The diet: V = vegan, G (gluten free)"}
SAID: list[tuple[str, Any, Any, bool]] = [
    ("I wear M.", "M", SIZES, True),
    ("size xl please", "XL", SIZES, True),
    ("What would fit me? I'm tall, and what's there?", "M", SIZES, False),
    ("What would fit me? I'm tall, and what’s there?", "S", SIZES, False),
    ("Do you have a coat?", "A", {}, False),
    ("A seat in class A, please", "A", {}, True),
    ("I wear large", "L", SIZES, True),
    ("I wear large", "XL", SIZES, False),
    ("extra large, usually", "XL", SIZES, True),
    ("Show me suits of this shop", "S", SIZES, False),
    ("I fly business class", "b", TITLED, True),
    ("I fly on Monday", "b", TITLED, False),
    ("I eat vegan food", "V", DESCRIBED, True),
    ("I eat gluten free food", "G", DESCRIBED, True),
    ("I eat everything", "G", DESCRIBED, False),
    ("two kayaks for us", "kayak", {}, True),
    ("a boat for us", "kayak", {}, False),
    ("From Ålesund to Zürich", "Zurich", {}, True),
    ("a table for four", 4, {}, True),
    ("a table for 4", 4.0, {}, True),
    ("a table", 4, {}, False),
    ("for 14 people", 4, {}, False),
    ("on 3 March", "2027-03-03", {"format": "date"}, True),
    ("tomorrow", "2027-03-03", {"format": "date"}, True),
    ("in March", "2027-03-03", {"format": "date"}, False),
    ("with breakfast", True, {}, True),
    ("a room", True, {}, False),
    ("Korsnes and Ravnholm", ["Korsnes", "Ravnholm"], {}, True),
    ("Korsnes", ["Korsnes", "Ravnholm"], {}, False),
    ("从上海出发", "上海", {}, True),
    ("从北京出发", "上海", {}, False),
    ("", "M", SIZES, False),
]


@all_rows(("message", "value", "schema", "said"), SAID)
def test_a_value_is_said_by_the_value_or_by_a_word_for_the_value(
    message: str, value: Any, schema: Any, said: bool
) -> None:
    assert says([message], "with_breakfast", value, schema, {}) is said


def test_any_message_of_the_person_counts() -> None:
    assert says(["I wear M", "And in blue?"], "size", "M", SIZES)
    assert not says([], "size", "M", SIZES)


def test_a_deep_value_is_not_said() -> None:
    deep: Any = "M"
    for _ in range(5000):
        deep = [deep]
    assert not says(["M"], "size", deep, SIZES)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("How much does Pia Lund owe the club?", "Pia Lund"),
        ("When does Elin Dahl's trip depart?", "Elin Dahl"),
        ("Is North Star longer than ten metres?", "North Star"),
        ("Who directed The Lord of the Rings?", "The Lord of the Rings"),
        ("Show “the quiet sea” please", "the quiet sea"),
        ("And I? I'm new.", ""),
        ("How much do I still owe?", ""),
        ("Hello. How are you?", ""),
        ("Show routes to the island of Værøy", "Værøy"),
        ("", ""),
    ],
)
def test_a_message_names_what_stands_in_quotes_or_in_capital_letters(message: str, name: str) -> None:
    assert name_in(message) == name
