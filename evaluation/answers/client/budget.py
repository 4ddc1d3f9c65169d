"""A run's budget: what each attempt may cost and did cost, and a ceiling that is never exceeded.

A request is sent only if all costs so far, the maximum for all requests in flight and its own maximum add up to less
than the ceiling. A token is at least one byte of UTF-8, so a prompt has at most as many tokens as bytes, with any
tokenizer.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from evaluation.answers.records import BenchError, MaxCost, Variant
from evaluation.answers.run_folder import Run
from proxy.access.prices import Price, Size
from proxy.dialects.json_body import LENGTHS
from proxy.dialects.replies import BYTES_PER_TOKEN, Tokens

# Upper bound for model tokens per embedder token in passages; ordinary text has about 1.
_TOKENS_OF_ONE = 4
_BLOCK_TOKENS = 2000  # text around passages, with titles and sources
PriceOf = Callable[[str], Price | None]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one attempt counts towards the ceiling."""

    usd: float
    tokens: int

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.usd - other.usd, self.tokens - other.tokens)


NO_COST = Cost(0.0, 0)


class Ended(Protocol):
    """What is known about a finished attempt: a reply or a judgement."""

    @property
    def usage(self) -> Tokens | None: ...
    @property
    def cost_usd(self) -> float | None: ...
    @property
    def error(self) -> str | None: ...


def answer_cap(settings: Mapping[str, Any], size: Size) -> int | None:
    """How many tokens an answer may have: as the request says, else as the model can; None: not known."""
    asked = [settings[name] for name in LENGTHS if name in settings]
    caps = [cap for cap in asked if isinstance(cap, int) and not isinstance(cap, bool) and cap > 0]
    return max(caps, default=size.answer_tokens)


@dataclass(frozen=True, slots=True)
class Operations:
    """Chats may call API operations: the model is asked again after each round of calls."""

    rounds: int
    result_tokens: int  # for all results


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A model that rewrites follow-up questions."""

    price: Price | None
    prompt_bytes: int  # without a conversation
    answer_tokens: int


def max_cost_of(
    body: Mapping[str, Any],
    variant: Variant,
    *,
    budget_tokens: int,
    cap: int | None,
    price: Price | None,
    operations: Operations | None = None,
    rewriting: Rewriting | None = None,
) -> MaxCost:
    """The maximum cost of a request. budget_tokens: for injected passages; cap: the longest answer, in tokens.

    operations: each round of calls sends the prompt again, with all answers and results so far. rewriting: for
    follow-up questions with passages.
    """
    written = len(orjson.dumps(body))
    prompt, answer, calls = written, cap, 1
    if variant.mode == "rag":
        prompt += budget_tokens * _TOKENS_OF_ONE + _BLOCK_TOKENS
    if operations is not None:
        calls = operations.rounds + 1
        prompt = prompt * calls + operations.rounds * (operations.result_tokens + (cap or 0))
        answer = None if cap is None else cap * calls
    tier = body.get("service_tier")
    usd = None if price is None or answer is None else price.most(tier if isinstance(tier, str) else "", prompt, answer)
    if rewriting is None or variant.mode != "rag":
        return MaxCost(prompt, answer, usd, calls)
    asked = rewriting.prompt_bytes + written
    if usd is not None:
        usd = None if rewriting.price is None else usd + rewriting.price.most("", asked, rewriting.answer_tokens)
    return MaxCost(prompt + asked, None if answer is None else answer + rewriting.answer_tokens, usd, calls)


def cost_of(ended: Ended, max_cost: MaxCost, price: Price | None) -> Cost:
    """What a finished attempt cost: as the upstream reported, else the maximum."""
    usage = ended.usage
    if usage is None:
        return NO_COST
    if not usage.estimated:
        return Cost(ended.cost_usd or 0.0, usage.prompt + usage.completion)
    if ended.error is not None or max_cost.calls > 1:  # the upstream may have made more than arrived
        return cost_at_max(max_cost)
    said = usage.completion * BYTES_PER_TOKEN  # inverts the estimate
    answer = said if max_cost.answer_tokens is None else min(said, max_cost.answer_tokens)
    usd = max_cost.usd or 0.0 if price is None else price.most("", max_cost.prompt_tokens, answer)
    return Cost(usd, max_cost.prompt_tokens + answer)


def cost_at_max(max_cost: MaxCost) -> Cost:
    """The cost of an attempt in flight or cut off."""
    return Cost(max_cost.usd or 0.0, max_cost.prompt_tokens + (max_cost.answer_tokens or 0))


@dataclass(frozen=True, slots=True)
class Spend:
    """What all attempts in a folder have cost so far."""

    cost: Cost
    cut_off: int  # attempts without an end, counted at their maximum: the provider may have charged for them

    @property
    def warnings(self) -> list[str]:
        """Warnings to show before the next request, one line each."""
        return (
            [f"{self.cut_off} requests were cut off in flight: possibly charged by the provider, and sent again"]
            if self.cut_off
            else []
        )


def spend(run: Run, price_of: PriceOf) -> Spend:
    """The sum over all attempts in a run's folder."""
    models = {variant.name: variant.model for variant in run.manifest.variants}
    sent = (((asked, at_s), max_cost, price_of(models[asked[1]])) for asked, at_s, max_cost in run.sent_requests())
    return spend_of(sent, {(reply.asked, reply.at_s): reply for reply in run.attempts()})


def spend_of(sent: Iterable[tuple[Hashable, MaxCost, Price | None]], ended: Mapping[Hashable, Ended]) -> Spend:
    """The sum over attempts.

    sent: each attempt's name and maximum cost. ended: finished attempts by the same names.
    """
    total, cut_off = NO_COST, 0
    for name, max_cost, price in sent:
        end = ended.get(name)
        cut_off += end is None
        total += cost_at_max(max_cost) if end is None else cost_of(end, max_cost, price)
    return Spend(total, cut_off)


def check_ceiling(usd: float | None, tokens: int | None, *, unpriced: Sequence[str], uncapped: Sequence[str]) -> None:
    """Raise BenchError if a ceiling cannot be kept, because a model has no price or no longest answer."""
    if usd is not None and unpriced:
        names = ", ".join(unpriced)
        raise BenchError(f"--max-usd needs the price of {names}: give the price with --price, or use --max-tokens")
    if (usd or tokens) and uncapped:
        names = ", ".join(uncapped)
        raise BenchError(f"a ceiling needs the longest answer of {names}: set --set max_tokens=NUMBER")


def check_request_fits(usd: float | None, tokens: int | None, max_cost: MaxCost, what: str) -> None:
    """Raise BenchError if the ceiling is below one request's maximum cost.

    what: the variant, for the message.
    """
    needed = cost_at_max(max_cost)
    for option, ceiling, need in (("--max-usd", usd, needed.usd), ("--max-tokens", tokens, needed.tokens)):
        if ceiling is not None and need > ceiling:
            raise BenchError(
                f"{option} {ceiling:g} is too small for one request of {what}, which may use up to "
                f"{describe_max_cost(max_cost)}: raise {option}"
            )


def describe_max_cost(max_cost: MaxCost) -> str:
    """A request's maximum cost, in words."""
    answer = "" if max_cost.answer_tokens is None else f" and {max_cost.answer_tokens:,} out"
    tokens = f"{max_cost.prompt_tokens:,} tokens in{answer}"
    return tokens if max_cost.usd is None else f"${max_cost.usd:,.6f} ({tokens})"


class Budget:
    """A ceiling and the cost so far. Belongs to one event loop."""

    def __init__(self, usd: float | None, tokens: int | None) -> None:
        """usd, tokens: ceilings; None: no ceiling."""
        self._usd = usd
        self._tokens = tokens
        self.spent = NO_COST
        self._held = NO_COST
        self._in_flight = 0
        self._changed = asyncio.Condition()

    async def reserve(self, max_cost: MaxCost) -> bool:
        """Reserve a request's maximum cost; if it does not fit yet, wait for requests in flight.

        Returns False if it does not fit and nothing is in flight.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._fits(max_cost) or not self._in_flight)
            if not self._fits(max_cost):
                return False
            self._held += cost_at_max(max_cost)
            self._in_flight += 1
            return True

    def refusal(self, max_cost: MaxCost) -> str:
        """Why a request that does not fit is not sent."""
        left = [] if self._usd is None else [f"${max(0.0, self._usd - self.spent.usd):,.6f}"]
        left += [] if self._tokens is None else [f"{max(0, self._tokens - self.spent.tokens):,} tokens"]
        return (
            f"the ceiling does not allow for another request: the next request may use up to "
            f"{describe_max_cost(max_cost)}, and {' and '.join(left)} are left"
        )

    async def charge(self, max_cost: MaxCost, cost: Cost) -> None:
        """Replace a finished request's reservation by its actual cost."""
        async with self._changed:
            self._held -= cost_at_max(max_cost)
            self._in_flight -= 1
            self.spent += cost
            if not self._in_flight:
                self._held = NO_COST  # leave no rounding rest
            self._changed.notify_all()

    def _fits(self, max_cost: MaxCost) -> bool:
        total = self.spent + self._held + cost_at_max(max_cost)
        return (self._usd is None or total.usd <= self._usd) and (self._tokens is None or total.tokens <= self._tokens)
