"""What litellm's table says of models, with or without the provider before the name."""

import pytest

from proxy.access import prices
from proxy.access.prices import Size, price_of, size_of
from proxy.dialects.replies import Tokens
from tests.support.rows import all_rows


def test_a_model_has_a_price_and_a_size_by_both_of_its_names() -> None:
    price = price_of("gpt-4o-mini")
    assert price is not None
    assert 0 < price.prompt < price.completion
    assert price_of("openai/gpt-4o-mini") == price
    assert size_of("gpt-4o-mini") == size_of("openai/gpt-4o-mini") == Size(128_000, 16_384)


def test_of_a_model_that_nobody_knows_nothing_is_said() -> None:
    assert price_of("nobody/knows") is None
    assert size_of("nobody/knows") == Size()


ROW = {
    "input_cost_per_token": 1.0, "output_cost_per_token": 10.0, "cache_read_input_token_cost": 0.1,
    "cache_creation_input_token_cost": 1.25, "cache_creation_input_token_cost_above_1hr": 2.0,
    "input_cost_per_token_above_200k_tokens": 2.0, "output_cost_per_token_above_200k_tokens": 15.0,
    "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 4.0,
    "input_cost_per_token_above_272k_tokens": 3.0, "output_cost_per_token_above_272k_tokens": 16.0,
    "input_cost_per_token_priority": 1.8, "output_cost_per_token_priority": 18.0,
    "input_cost_per_token_above_200k_tokens_priority": 3.6,
    "input_cost_per_token_batches": 0.5, "output_cost_per_token_batches": 5.0,
}  # fmt: skip


@all_rows(
    ("tokens", "dollars"),
    [
        (Tokens(100, 10), 100 + 100),
        (Tokens(100, 0, cached=40), 60 + 4),
        (Tokens(100, 0, cache_writes=40), 60 + 50),
        (Tokens(100, 0, cache_writes=40, hour_cache_writes=30), 60 + 12.5 + 60),
        (Tokens(200_000, 0), 200_000),
        (Tokens(200_001, 1), 400_002 + 15),
        (Tokens(272_001, 1), 816_003 + 16),
        (Tokens(250_000, 0, cache_writes=10, hour_cache_writes=10), 499_980 + 40),
        (Tokens(100, 10, tier="priority"), 180 + 180),
        (Tokens(250_000, 1, tier="priority"), 900_000 + 18),
        (Tokens(100, 10, tier="batch"), 50 + 50),
        (Tokens(100, 10, tier="default"), 200),
        (Tokens(150_000, 1).plus(Tokens(150_000, 1)), 300_020),  # each prompt is below the threshold
    ],
)
def test_writes_long_prompts_and_tiers_have_prices_of_their_own(tokens: Tokens, dollars: float) -> None:
    price = prices._price(ROW)
    assert price is not None
    assert price.of(tokens) == pytest.approx(dollars)
    assert price.most(tokens.tier, tokens.prompt, tokens.completion) >= max(map(price.of, tokens.calls))


def test_the_requests_tier_counts_where_the_reply_names_none() -> None:
    price = prices._price(ROW)
    assert price is not None
    assert price.of(Tokens(100, 10), "priority") == pytest.approx(360)
    assert price.of(Tokens(100, 10, tier="default"), "priority") == pytest.approx(200)


def test_prices_by_length_may_stand_in_a_list() -> None:
    bands = [
        {"input_cost_per_token": 1.0, "output_cost_per_token": 2.0, "range": [0, 256e3]},
        {"input_cost_per_token": 3.0, "output_cost_per_token": 4.0, "range": [256e3, 1e6]},
    ]
    price = prices._price({"tiered_pricing": bands})
    assert price is not None
    assert (price.of(Tokens(10, 1)), price.of(Tokens(300_000, 1))) == (12, 900_004)
