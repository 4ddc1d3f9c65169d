"""`all_rows` stands before thousands of checks: every row is checked, and each that fails is reported."""

import pytest

from tests.support.rows import all_rows


def test_each_row_that_fails_is_reported_with_its_values() -> None:
    @all_rows(("text", "number"), [("1", 1), ("2", 0), ("x", 3), ("4", 4)])
    def same(text: str, number: int) -> None:
        assert int(text) == number

    with pytest.raises(BaseExceptionGroup) as raised:
        same()
    wrong, unreadable = raised.value.exceptions
    assert isinstance(wrong, AssertionError)
    assert wrong.__notes__ == ["the row: {'text': '2', 'number': 0}"]
    assert isinstance(unreadable, ValueError)


async def test_a_coroutine_is_awaited_for_each_row_of_two_tables_and_gets_the_fixtures() -> None:
    seen: list[tuple[int, str, str]] = []

    @all_rows("number", [1, 2])
    @all_rows("letter", "ab")
    async def noted(number: int, letter: str, fixture: str) -> None:
        seen.append((number, letter, fixture))
        with pytest.raises(ZeroDivisionError):
            1 / (number - 2)

    with pytest.raises(BaseExceptionGroup) as raised:
        await noted(fixture="f")
    assert seen == [(1, "a", "f"), (1, "b", "f"), (2, "a", "f"), (2, "b", "f")]
    (of_one_number,) = raised.value.exceptions
    assert of_one_number.__notes__ == ["the row: {'number': 1}"]
    assert isinstance(of_one_number, BaseExceptionGroup)
    assert [error.__notes__ for error in of_one_number.exceptions] == [
        ["the row: {'letter': 'a'}"],
        ["the row: {'letter': 'b'}"],
    ]


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="empty"):
        all_rows("line", [])
