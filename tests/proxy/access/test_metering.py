"""The tokens that are reserved for a call: those of the values that an upstream reads, however the body spells them."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.access.metering import tokens_to_reserve
from tests.support.rows import all_rows

_LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def reserved(body: bytes) -> tuple[int, int]:
    """The tokens of the answers alone."""
    wanted, least = tokens_to_reserve(body, orjson.loads(body), answers=True)
    prompt = -(-len(body) // 4)
    return wanted - prompt, least - prompt


@pytest.mark.parametrize(
    "body",
    [
        b'{"max_tokens": 1000000}',
        b'{"max_tokens": 1e6}',
        b'{"max_tokens": 1.0E+6}',
        b'{"max_tokens": 999999.5}',
        b'{"max_tokens": "1000000"}',
        b'{"max\\u005ftokens": 1e6}',
        b'{"\\u006dax_completion_tokens": 1000000}',
        b'{"max_output_tokens" : 1000000, "max_tokens": 5}',
    ],
)
def test_a_length_counts_however_it_is_written(body: bytes) -> None:
    assert reserved(body) == (1_000_000, 1_000_000)


@all_rows(
    ("body", "expected"),
    [
        (b"{}", (500, 0)),
        (b'{"n": 3}', (1500, 0)),
        (b'{"\\u006e": 3e0, "max_tokens": 10}', (30, 30)),
        (b'{"best_of": 4, "n": 2, "max_tokens": 10}', (40, 40)),
        (b'{"max_tokens": 90000, "max_tokens": 1}', (90_000, 90_000)),
        (b'{"max_tokens": 1, "max_tokens": 90000}', (90_000, 90_000)),
        (b'{"max_tokens": 90000, "max\\u005ftokens": 1}', (90_000, 90_000)),
        (b'{"max_tokens": "90", "max_tokens": "a"}', (90, 90)),
        (b'{"max_tokens": 10, "n": 3, "n": [9], "n": 1, "tools": [{"n": 7}]}', (30, 30)),
        (b'{"max_tokens": null, "n": null}', (500, 0)),
        (b'{"max_tokens": true, "n": true}', (500, 0)),
        (b'{"max_tokens": -5, "n": -1}', (500, 0)),
        (b'{"max_tokens": "many", "n": []}', (500, 0)),
        (b'{"messages": [{"max_tokens": 9}]}', (500, 0)),
    ],
)
def test_what_bounds_no_answer_is_no_length(body: bytes, expected: tuple[int, int]) -> None:
    assert reserved(body) == expected


def test_embeddings_answer_with_no_tokens() -> None:
    body = b'{"input": "x", "max_tokens": 9}'
    assert tokens_to_reserve(body, orjson.loads(body), answers=False) == (8, 8)


numbers = (
    st.integers() | st.floats(allow_nan=True) | st.booleans() | st.text("0123456789.eE+-_inf ", max_size=30) | st.none()
)


@given(st.dictionaries(st.sampled_from([*_LENGTHS, "n", "best_of"]), numbers))
def test_every_value_gives_a_number_that_fits(fields: dict[str, object]) -> None:
    wanted, least = tokens_to_reserve(json.dumps(fields).encode(), fields, answers=True)
    assert 0 < least <= wanted <= 10**9
