"""Token prices: litellm's table, read from its package file, because importing litellm takes 4 s and 170 MB."""

import functools
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from proxy.dialects.replies import Tokens

_TABLE = "model_prices_and_context_window_backup.json"
_ABOVE = re.compile(r"_above_(\d+)k_tokens")
# Service tier, as replies name it -> suffix of names in the table.
_TIERS = {
    "priority": "_priority", "flex": "_flex", "batch": "_batches", "ultrafast": "_ultrafast", "balanced": "_balanced",
}  # fmt: skip
_DEARER_TIERS = ("priority",)  # a provider's project may choose these if the request names no tier


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per token of each kind, in a service tier and up to a prompt length."""

    prompt: float
    completion: float
    cached: float  # prompt tokens from the provider's cache
    reasoning: float
    cache_write: float | None = None  # prompt tokens to the provider's cache; None: as `prompt`
    hour_cache_write: float | None = None  # kept for an hour; None: as `cache_write`
    longer: tuple[tuple[int, "Price"], ...] = ()  # (tokens, price for prompts with more), rising
    tiers: Mapping[str, "Price"] = field(default_factory=dict)  # other service tiers

    def of(self, tokens: Tokens, tier: str = "") -> float:
        """Dollars for the calls, each at the price for its own tier and length. tier: if the reply names none."""
        return sum((self.at(call.tier or tier, call.prompt)._of_call(call) for call in tokens.calls), 0.0)

    def at(self, tier: str, prompt_tokens: int) -> "Price":
        """The price in a tier for a prompt of this length."""
        price = self.tiers.get(tier, self)
        return next((longer for above, longer in reversed(price.longer) if prompt_tokens > above), price)

    def most(self, tier: str, prompt_tokens: int, answer_tokens: int) -> float:
        """The most dollars that a call with so many tokens can cost. tier: the request's; "": the provider chooses."""
        tiers = (tier, "") if tier else ("", *_DEARER_TIERS)
        return max(self.at(name, prompt_tokens)._most_of_call(prompt_tokens, answer_tokens) for name in tiers)

    def _most_of_call(self, prompt_tokens: int, answer_tokens: int) -> float:
        writes = [rate for rate in (self.cache_write, self.hour_cache_write) if rate is not None]
        prompt = max(self.prompt, self.cached, *writes)
        return prompt_tokens * prompt + answer_tokens * max(self.completion, self.reasoning)

    def _of_call(self, tokens: Tokens) -> float:
        write = self.prompt if self.cache_write is None else self.cache_write
        hour_write = write if self.hour_cache_write is None else self.hour_cache_write
        return (
            (tokens.prompt - tokens.cached - tokens.cache_writes) * self.prompt
            + tokens.cached * self.cached
            + (tokens.cache_writes - tokens.hour_cache_writes) * write
            + tokens.hour_cache_writes * hour_write
            + (tokens.completion - tokens.reasoning) * self.completion
            + tokens.reasoning * self.reasoning
        )


@dataclass(frozen=True, slots=True)
class Size:
    """A model's most input and output tokens; None: not known."""

    window_tokens: int | None = None
    answer_tokens: int | None = None


def price_of(model: str) -> Price | None:
    """A model's price by its upstream name, with or without a provider prefix; None: not known."""
    table = _prices()
    return table.get(model) or table.get(model.partition("/")[2])


def size_of(model: str) -> Size:
    """A model's size by its upstream name, with or without a provider prefix."""
    table = _sizes()
    return table.get(model) or table.get(model.partition("/")[2]) or Size()


@functools.cache
def _prices() -> Mapping[str, Price]:
    """All models with token prices. Takes some 50 ms."""
    return {name: price for name, row in _rows().items() if (price := _price(row)) is not None}


@functools.cache
def _sizes() -> Mapping[str, Size]:
    """All models. Read apart from prices: the gateway does not use sizes."""
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
    """A row's price: `input_cost_per_token`, and so on, with suffixes such as `_above_200k_tokens` and `_priority`.

    Some rows have a list of prices by length, `tiered_pricing`, instead.
    """
    bands = row.get("tiered_pricing")
    if isinstance(bands, list):
        row = {**row, **_named(bands)}
    if _number(row.get("input_cost_per_token")) is None or _number(row.get("output_cost_per_token")) is None:
        return None
    lengths = sorted({int(found[1]) for name in row if (found := _ABOVE.search(name))})
    tiers = {tier: _tier(row, end, lengths) for tier, end in _TIERS.items() if f"input_cost_per_token{end}" in row}
    return replace(_tier(row, "", lengths), tiers=tiers)


def _tier(row: Mapping[str, object], tier: str, lengths: Sequence[int]) -> Price:
    """A service tier's price. tier: its suffix."""
    longer = tuple((each * 1000, _rates(row, f"_above_{each}k_tokens", tier)) for each in lengths)
    return replace(_rates(row, "", tier), longer=longer)


def _rates(row: Mapping[str, object], length: str, tier: str) -> Price:
    """The price for a length and a tier. If a kind of token has no price for both: the larger of its prices for the
    length and for the tier.
    """

    def rate(name: str) -> float | None:
        exact = _number(row.get(name + length + tier))
        known = [value for end in {length, tier} if (value := _number(row.get(name + end))) is not None]
        return max(known, default=_number(row.get(name))) if exact is None else exact

    prompt, completion = rate("input_cost_per_token") or 0.0, rate("output_cost_per_token") or 0.0
    cached, reasoning = rate("cache_read_input_token_cost"), rate("output_cost_per_reasoning_token")
    if reasoning is not None and f"output_cost_per_reasoning_token{length}{tier}" not in row:
        reasoning = max(reasoning, completion)
    write, hour_write = rate("cache_creation_input_token_cost"), rate("cache_creation_input_token_cost_above_1hr")
    return Price(
        prompt,
        completion,
        prompt if cached is None else cached,
        completion if reasoning is None else reasoning,
        None if write is None else max(write, prompt),
        hour_write if write is None or hour_write is None else max(write, hour_write),
    )


def _named(bands: Sequence[object]) -> dict[str, object]:
    """A list of prices by length, under the names that other rows use."""
    found: dict[str, object] = {}
    for band in bands:
        if isinstance(band, dict) and isinstance(band.get("range"), list) and band["range"]:
            start = _number(band["range"][0]) or 0.0
            end = f"_above_{start / 1000:.0f}k_tokens" if start else ""
            found |= {f"{name}{end}": value for name, value in band.items() if name != "range"}
    return found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
