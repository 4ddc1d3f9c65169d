"""Texts in the forms in which answers are compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.answers.scoring.normalize import holds, numbers, terms, words
from tests.support.rows import all_rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat, a dog.", ["cat", "dog"]),
        ("4.2", ["42"]),  # as SQuAD's script has it
        ("an  apple\tand the\nother", ["apple", "and", "other"]),
        ("theatre", ["theatre"]),
        ("数据库 4", ["数", "据", "库", "4"]),
        ("", []),
    ],
)  # fmt: skip
def test_words_are_squads(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@all_rows(
    ("text", "expected"),
    [
        ("MongoDB v4.2.", ["mongodb", "4.2"]),
        ("version 4.2", ["4.2"]),
        ("1,000 and 1,000,000.5", ["1000", "and", "1000000.5"]),
        ("ports 1,2", ["ports", "1", "2"]),
        ("007", ["7"]),
        ("4.20", ["4.20"]),
        ("-5 degrees, 3-5 and w-1", ["-5", "degrees", "3", "5", "and", "w", "1"]),
        ("5 %", ["5", "%"]),
        ("5 percent", ["5", "%"]),
        ("maxPoolSize=100", ["maxpoolsize", "100"]),
        ("allow_disk_use", ["allow", "disk", "use"]),
        ("GPT-4o", ["gpt", "4", "o"]),
        ("日本 3", ["日", "本", "3"]),
        ("²", ["2"]),
        ("-- =>", []),
    ],
)  # fmt: skip
def test_terms_keep_numbers_and_versions(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_numbers_are_those_of_the_text() -> None:
    assert numbers("From v4.2 on 1,000 clients, at 27017: -1 is none.") == {"4.2", "1000", "27017", "-1"}
    assert numbers("none at all") == set()


@pytest.mark.parametrize("phrase", ["4.2", "v4.2", "Version 4.2", "in 4.2"])
def test_a_version_is_found_however_it_is_written(phrase: str) -> None:
    assert holds(terms("It came in version 4.2, not before."), terms(phrase))


@pytest.mark.parametrize("phrase", ["42", "4", "2", "4.2.1", "4.20", "-4.2", ""])
def test_another_version_is_not_found(phrase: str) -> None:
    assert not holds(terms("It came in version 4.2, not before."), terms(phrase))


@given(st.lists(st.sampled_from("abc"), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_every_part_of_a_text_is_held(text: list[str], start: int, end: int) -> None:
    assert holds(text, text[start:end]) == bool(text[start:end])


@given(st.text())
def test_terms_are_without_spaces_and_never_empty(text: str) -> None:
    assert all(term and not term.isspace() for term in terms(text))
