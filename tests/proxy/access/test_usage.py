"""A request that is over to its row of usage: what was injected is a part of the prompt, and the echo is free."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from proxy.access.usage import cost_of, row_of
from proxy.dialects.replies import Tokens
from proxy.dialects.target import Lane, Target
from proxy.exchange import Exchange


def ended(
    *, question: str = "Hi", block: str = "", prompt: int = 100, lane: Lane = "relay", counted: int = 0
) -> Exchange:
    """A chat with a gpt-4o that was shown a block. counted: the tokens of its passages, as an embedder counts."""
    exchange = Exchange(key="key-1", path="/v1/chat/completions", model="m", injected_tokens=counted)
    exchange.target = Target("gpt-4o", lane, "", "")
    exchange.tokens = Tokens(prompt, 10)
    exchange.body = orjson.dumps({"model": "gpt-4o", "messages": [{"role": "system", "content": block + question}]})
    exchange.injected_bytes = len(orjson.dumps(block)) if block else 0
    return exchange


@given(st.text(), st.text(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_injected_tokens_are_never_more_than_the_prompt(question: str, block: str, prompt: int, counted: int) -> None:
    row = row_of(ended(question=question, block=block, prompt=prompt, counted=counted), 0.0, [], kept=True)
    assert 0 <= row.injected_tokens <= row.tokens.prompt
    assert block or not row.injected_tokens


def test_injected_tokens_are_as_much_of_the_prompt_as_their_bytes_are_of_the_request() -> None:
    row = row_of(ended(question="ask " * 750, block="say " * 1500, prompt=1000, counted=9999), 0.0, [], kept=True)
    assert 650 < row.injected_tokens < 670
    with_picture = ended(question="ask " * 750 + "A" * 1_000_000, block="say " * 1500, prompt=3250)
    assert 1450 < row_of(with_picture, 0.0, [], kept=True).injected_tokens < 1550


def test_a_request_that_gave_nothing_back_booked_no_passages() -> None:
    refused = ended(block="say " * 1500, prompt=0, counted=1500)
    assert row_of(refused, 0.0, [], kept=True).injected_tokens == 0


def test_the_echo_is_free_whatever_model_it_stands_for() -> None:
    assert cost_of(row_of(ended(lane="echo"), 0.0, [], kept=True)) == 0.0
    assert (cost_of(row_of(ended(), 0.0, [], kept=True)) or 0.0) > 0
