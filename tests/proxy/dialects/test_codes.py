"""Codes, and which messages confirm."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.codes import WORDS, CodeLine, code_line, holds_code, looks_like_code_line, new_code
from tests.support.rows import all_rows


def test_codes_are_random_and_have_40_bits() -> None:
    codes = {new_code() for _ in range(1000)}
    assert len(codes) == 1000
    assert all(re.fullmatch("[A-Z2-7]{4}-[A-Z2-7]{4}", code) for code in codes)
    assert {letter for code in codes for letter in code} == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567-")


@all_rows(
    "text",
    [
        "confirm KX7M-4QPD", "  confirm KX7M-4QPD\n", "Confirm kx7m-4qpd", "CONFIRM KX7M4QPD", "confirm KX7M 4QPD",
        "confirm\u00a0KX7M\u20134QPD", "confirm  KX7M - 4QPD", "bestätigen KX7M-4QPD", "Besta\u0308tigen KX7M-4QPD",
        "BESTÄTIGEN kx7m-4qpd", "confirmer KX7M-4QPD", "confirmar KX7M-4QPD", "確認 KX7M-4QPD",
        "ｃｏｎｆｉｒｍ　ＫＸ７Ｍ－４ＱＰＤ", "確認　ｋｘ７ｍー４ｑｐｄ", "confirm KX7M—4QPD",
    ],
)  # fmt: skip
def test_a_code_line_confirms_all(text: str) -> None:
    assert code_line(text) == CodeLine("KX7M-4QPD", None)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("confirm KX7M-4QPD 1", (1,)), ("confirm KX7M-4QPD 1,3", (1, 3)), ("confirm KX7M-4QPD 3, 1 ,1", (1, 3)),
        ("confirm kx7m4qpd 12", (12,)), ("confirm KX7M 4QPD 2222", None),
        ("確認 KX7M-4QPD １、３", (1, 3)), ("confirm KX7M-4QPD １，３", (1, 3)),
    ],
)  # fmt: skip
def test_numbers_choose_some(text: str, numbers: tuple[int, ...] | None) -> None:
    assert code_line(text) == (None if numbers is None else CodeLine("KX7M-4QPD", numbers))


@all_rows(
    "text",
    [
        "", "yes", "confirm", "KX7M-4QPD", "confirm KX7M-4QP", "confirm KX7M-4QPDA", "confirm KX7M-4QP0",
        "ok KX7M-4QPD",
        "confirm KX7M-4QPD please", "confirm KX7M-4QPD.", "please confirm KX7M-4QPD", "confirm: KX7M-4QPD",
        "confirm KX7M-4QPD\nand pay", "confirm\nKX7M-4QPD", "`confirm KX7M-4QPD`", "confirm KX7M-4QPD 1 2",
        "confirm KX7M-4QPD 1,", "confirm KX7M-4QPD \u0661", "not confirm KX7M-4QPD", "confirmKX7M-4QPD",
        "con\u200bfirm KX7M-4QPD", "confirm KX7M--4QPD", "confirm K\u0425\u0037M-4QPD",
    ],
)  # fmt: skip
def test_anything_else_confirms_nothing(text: str) -> None:
    assert code_line(text) is None


@given(before=st.text(max_size=6), after=st.text(max_size=6))
def test_words_around_a_code_line_confirm_nothing(before: str, after: str) -> None:
    text = f"{before}confirm KX7M-4QPD{after}"
    numbers = r"\s*|[ \t]+[0-9]{1,3}(?: ?[,、] ?[0-9]{1,3})*\s*"
    is_line = not before.strip() and re.fullmatch(numbers, unicodedata.normalize("NFKC", after))
    assert (code_line(text) is not None) == bool(is_line)


@all_rows("word", WORDS.values())
def test_every_word_confirms_each_code(word: str) -> None:
    code = new_code()
    assert code_line(f"{word} {code}") == CodeLine(code)
    assert code_line(f"{word} {code} 2") == CodeLine(code, (2,))


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("confirm", True), ("confirm please", True), ("yes KX7M-4QPD", True), ("KX7M-4QPD.", True),
        ("confirm it", True),
        ("no", False), ("What is KX7M?", False), (f"KX7M-4QPD {'word ' * 20}", False), ("confirmation?", False),
    ],
)  # fmt: skip
def test_a_message_that_meant_to_confirm_is_told_apart(text: str, looks: bool) -> None:
    assert looks_like_code_line(text) is looks


def test_a_reply_with_a_code_is_found() -> None:
    assert holds_code("To do it, answer: confirm KX7M-4QPD\n")
    assert not holds_code("Order ABCD-12345 and abcd-efgh")
