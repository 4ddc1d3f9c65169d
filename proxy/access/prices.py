"""Prices of tokens: litellm's table, read from the package's file; to import litellm takes 4 s and 170 MB."""

import functools
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from proxy.dialects.token_counts import Tokens

_TABLE = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars of one token of each kind."""

    prompt: float
    completion: float
    cached: float  # of the prompt, from the provider's cache
    reasoning: float

    def of(self, tokens: Tokens) -> float:
        """Dollars of a call."""
        return (
            (tokens.prompt - tokens.cached) * self.prompt
            + tokens.cached * self.cached
            + (tokens.completion - tokens.reasoning) * self.completion
            + tokens.reasoning * self.reasoning
        )


@dataclass(frozen=True, slots=True)
class Size:
    """The most tokens of a model's input and output; None: not known."""

    window_tokens: int | None = None
    answer_tokens: int | None = None


def price_of(model: str) -> Price | None:
    """The price of a model by its upstream's name, with or without the provider before it; None: not known."""
    table = _prices()
    return table.get(model) or table.get(model.partition("/")[2])


def size_of(model: str) -> Size:
    """The size of a model by its upstream's name, with or without the provider before it."""
    table = _sizes()
    return table.get(model) or table.get(model.partition("/")[2]) or Size()


@functools.cache
def _prices() -> Mapping[str, Price]:
    """Every model with a price for each token. Takes some 50 ms."""
    return {name: price for name, row in _rows().items() if (price := _price(row)) is not None}


@functools.cache
def _sizes() -> Mapping[str, Size]:
    """All models. Read apart from the prices: the gateway does not use sizes."""
    wanted = ("max_input_tokens", "max_output_tokens")
    return {name: Size(*(_whole(row.get(each)) for each in wanted)) for name, row in _rows().items()}


def _rows() -> Mapping[str, Mapping[str, object]]:
    """litellm's table; empty without litellm."""
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        return {}
    try:
        rows: dict[str, dict[str, object]] = orjson.loads((Path(package.origin).parent / _TABLE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return rows


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _price(row: Mapping[str, object]) -> Price | None:
    prompt, completion = row.get("input_cost_per_token"), row.get("output_cost_per_token")
    if not isinstance(prompt, int | float) or not isinstance(completion, int | float):
        return None
    cached, reasoning = row.get("cache_read_input_token_cost"), row.get("output_cost_per_reasoning_token")
    return Price(
        float(prompt),
        float(completion),
        float(cached) if isinstance(cached, int | float) else float(prompt),
        float(reasoning) if isinstance(reasoning, int | float) else float(completion),
    )
