"""What litellm's table says of models, with or without the provider before the name."""

from proxy.access.prices import Size, price_of, size_of


def test_a_model_has_a_price_and_a_size_by_both_of_its_names() -> None:
    price = price_of("gpt-4o-mini")
    assert price is not None
    assert 0 < price.prompt < price.completion
    assert price_of("openai/gpt-4o-mini") == price
    assert size_of("gpt-4o-mini") == size_of("openai/gpt-4o-mini") == Size(128_000, 16_384)


def test_of_a_model_that_nobody_knows_nothing_is_said() -> None:
    assert price_of("nobody/knows") is None
    assert size_of("nobody/knows") == Size()
