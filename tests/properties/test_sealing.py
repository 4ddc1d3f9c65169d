"""Sealed values: any text opens to the same text, at the same place alone, and no changed byte opens."""

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.sealing import MasterKey, SealingError


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


KEY = base64.b64encode(bytes(range(32))).decode()  # the same in all test processes: names of tests hold the key
MASTER = MasterKey(KEY, "THE_VARIABLE")
PLACES = st.lists(st.text(max_size=20), min_size=1, max_size=4)


@given(st.text(), PLACES)
def test_any_text_opens_to_the_same_text(value: str, place: list[str]) -> None:
    sealed = MASTER.seal(value, place)
    assert MASTER.open(sealed, place) == value
    assert MASTER.seal(value, place) != sealed, "each value has a nonce of its own"


@given(st.text(), PLACES, PLACES)
def test_a_value_opens_at_the_same_place_alone(value: str, place: list[str], other: list[str]) -> None:
    if place != other:
        with pytest.raises(SealingError):
            MASTER.open(MASTER.seal(value, place), other)


@given(st.text(max_size=50), st.data())
def test_no_changed_byte_opens(value: str, data: st.DataObject) -> None:
    sealed = bytearray(MASTER.seal(value, ["key", "set", "name"]))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealingError):
        MASTER.open(bytes(sealed), ["key", "set", "name"])


@given(st.binary(max_size=60))
def test_no_other_bytes_open(sealed: bytes) -> None:
    with pytest.raises(SealingError):
        MASTER.open(sealed, ["key", "set", "name"])


@given(st.text(max_size=50))
def test_an_older_key_opens_and_the_newest_seals(value: str) -> None:
    newest = new_key()
    both, place = MasterKey(f"{newest}, {KEY}", "V"), ["key"]
    assert both.open(MASTER.seal(value, place), place) == value
    assert MasterKey(newest, "V").open(both.seal(value, place), place) == value
    with pytest.raises(SealingError):
        MASTER.open(both.seal(value, place), place)


@pytest.mark.parametrize("text", ["", "  ", "short", "c2hvcnQ=", KEY + ",", f"{KEY},x", KEY[:-2], KEY + KEY])
def test_a_bad_master_key_is_an_error_that_names_the_variable_and_no_key(text: str) -> None:
    for use in (lambda: MasterKey(text, "THE_VARIABLE").seal("v", ["p"]), lambda: MasterKey(text, "V").open(b"", [""])):
        with pytest.raises(SealingError) as error:
            use()
        assert KEY[:8] not in str(error.value)
    with pytest.raises(SealingError, match="THE_VARIABLE"):
        MasterKey(text, "THE_VARIABLE").seal("v", ["p"])
