"""Secrets in texts that are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.actions.masking import masked_ends

SECRET = "S3cr3t-of/the+API==with=signs"


@given(before=st.integers(0, 3_000), after=st.integers(0, 3_000), times=st.integers(1, 40))
def test_no_part_of_a_secret_is_left_at_a_cut(before: int, after: int, times: int) -> None:
    text = "." * before + SECRET * times + "," * after
    shown = masked_ends(text, [SECRET, "another"], 200)
    assert len(shown) < 300
    assert not any(SECRET[start : start + 4] in shown for start in range(len(SECRET) - 4))


@pytest.mark.parametrize("text", ["", "short", "x" * 200])
def test_a_short_text_stays(text: str) -> None:
    assert masked_ends(text, [SECRET], 200) == text


def test_a_long_text_keeps_both_ends() -> None:
    shown = masked_ends("a" * 5_000_000 + "z" * 5_000_000, [SECRET], 200)
    assert shown == "a" * 100 + " … 9,999,800 characters left out … " + "z" * 100
