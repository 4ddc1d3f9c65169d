"""What a run may use and has used: the worst of each attempt, what it was charged, and a ceiling that is never passed.

A request is only sent when all that was charged, all that is in flight at its worst, and its own worst stay below the
ceiling. A token is at least one byte of UTF-8, so bytes bound the tokens of a prompt whatever the tokenizer.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from evaluation.answers.records import BenchError, Variant, Worst
from evaluation.answers.run_folder import Run
from proxy.access.prices import Price, Size
from proxy.dialects.token_counts import BYTES_PER_TOKEN, Tokens

# Of the model asked, for one of the embedder's that the passages' budget counts; ordinary text has about one.
_TOKENS_OF_ONE = 4
_BLOCK_TOKENS = 2000  # the text around the passages, and their titles and sources
PriceOf = Callable[[str], Price | None]


@dataclass(frozen=True, slots=True)
class Charge:
    """What counts of an attempt."""

    usd: float
    tokens: int

    def __add__(self, other: "Charge") -> "Charge":
        return Charge(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Charge") -> "Charge":
        return Charge(self.usd - other.usd, self.tokens - other.tokens)


NOTHING = Charge(0.0, 0)


class Ended(Protocol):
    """What is known of an attempt that ended: a reply, or a judgement."""

    @property
    def usage(self) -> Tokens | None: ...
    @property
    def cost_usd(self) -> float | None: ...
    @property
    def error(self) -> str | None: ...


def answer_cap(settings: Mapping[str, Any], size: Size) -> int | None:
    """The most tokens an answer may have: as the request says, else as the model can; None: not known."""
    said = [settings[name] for name in ("max_completion_tokens", "max_tokens") if name in settings]
    caps = [each for each in said if isinstance(each, int) and not isinstance(each, bool) and each > 0]
    return max(caps) if caps else size.answer_tokens


def worst_of(
    body: Mapping[str, Any], variant: Variant, *, budget_tokens: int, cap: int | None, price: Price | None
) -> Worst:
    """The most that a request may use. budget_tokens: of the gateway's passages; cap: of the answer's tokens."""
    prompt = len(orjson.dumps(body))
    if variant.mode == "rag":
        prompt += budget_tokens * _TOKENS_OF_ONE + _BLOCK_TOKENS
    usd = None if price is None or cap is None else _dollars(prompt, cap, price)
    return Worst(prompt, cap, usd)


def charge_of(ended: Ended, worst: Worst, price: Price | None) -> Charge:
    """What counts of an attempt that ended: what the upstream said, else the most that it can have been."""
    usage = ended.usage
    if usage is None:
        return NOTHING
    if not usage.estimated:
        return Charge(ended.cost_usd or 0.0, usage.prompt + usage.completion)
    if ended.error is not None:  # more may have been made than came
        return at_worst(worst)
    said = usage.completion * BYTES_PER_TOKEN  # as it was estimated
    answer = said if worst.answer_tokens is None else min(said, worst.answer_tokens)
    usd = worst.usd or 0.0 if price is None else _dollars(worst.prompt_tokens, answer, price)
    return Charge(usd, worst.prompt_tokens + answer)


def at_worst(worst: Worst) -> Charge:
    """What counts of an attempt in flight, or cut off."""
    return Charge(worst.usd or 0.0, worst.prompt_tokens + (worst.answer_tokens or 0))


def _dollars(prompt: int, answer: int, price: Price) -> float:
    return prompt * max(price.prompt, price.cached) + answer * max(price.completion, price.reasoning)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a folder's attempts have used so far."""

    charged: Charge
    cut_off: int  # attempts without an end, which count at their worst: they may have been paid for nothing

    @property
    def told(self) -> list[str]:
        """What of it a user must know before more is asked, as lines."""
        return (
            [f"{self.cut_off} were cut off in flight: they may have been paid, and are asked again"]
            if self.cut_off
            else []
        )


def spent(run: Run, price_of: PriceOf) -> Spent:
    """The sum of all attempts in a run's folder."""
    models = {variant.name: variant.model for variant in run.head.variants}
    sent = (((asked, at_s), worst, price_of(models[asked[1]])) for asked, at_s, worst in run.sent())
    return spent_of(sent, {(reply.asked, reply.at_s): reply for reply in run.attempts()})


def spent_of(sent: Iterable[tuple[Hashable, Worst, Price | None]], ended: Mapping[Hashable, Ended]) -> Spent:
    """The sum of attempts. sent: each by a name, with the most that it may have used. ended: by the same names."""
    total, cut_off = NOTHING, 0
    for name, worst, price in sent:
        end = ended.get(name)
        cut_off += end is None
        total += at_worst(worst) if end is None else charge_of(end, worst, price)
    return Spent(total, cut_off)


def check_ceiling(usd: float | None, tokens: int | None, *, unpriced: Sequence[str], uncapped: Sequence[str]) -> None:
    """Raise BenchError where a ceiling could not be kept: of models without a price, or without a longest answer."""
    if usd is not None and unpriced:
        names = ", ".join(unpriced)
        raise BenchError(f"--max-usd needs the price of {names}: give it with --price, or use --max-tokens")
    if (usd or tokens) and uncapped:
        names = ", ".join(uncapped)
        raise BenchError(f"a ceiling needs the longest answer of {names}: say it with --set max_tokens=NUMBER")


def must_fit(usd: float | None, tokens: int | None, worst: Worst, what: str) -> None:
    """Raise BenchError where a ceiling does not allow for one request: what it may use at most, and whose it is."""
    one = at_worst(worst)
    for option, ceiling, needs in (("--max-usd", usd, one.usd), ("--max-tokens", tokens, one.tokens)):
        if ceiling is not None and needs > ceiling:
            raise BenchError(
                f"{option} {ceiling:g} does not allow for one request of {what}: it may use up to {needs_of(worst)}"
            )


def needs_of(worst: Worst) -> str:
    """What a request may use, in words."""
    answer = "" if worst.answer_tokens is None else f" and {worst.answer_tokens:,} out"
    tokens = f"{worst.prompt_tokens:,} tokens in{answer}"
    return tokens if worst.usd is None else f"${worst.usd:,.6f} ({tokens})"


class Purse:
    """A ceiling, and what of it is taken. Lives in one event loop."""

    def __init__(self, usd: float | None, tokens: int | None) -> None:
        """usd, tokens: None is no ceiling of that kind."""
        self._usd = usd
        self._tokens = tokens
        self.spent = NOTHING
        self._held = NOTHING
        self._in_flight = 0
        self._changed = asyncio.Condition()

    async def take(self, worst: Worst) -> bool:
        """Hold the worst of a request until it is settled; waits for others to settle where it does not fit now.

        False: it does not fit, and nothing is in flight that could make room.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._fits(worst) or not self._in_flight)
            if not self._fits(worst):
                return False
            self._held += at_worst(worst)
            self._in_flight += 1
            return True

    def refusal(self, worst: Worst) -> str:
        """Why a request that does not fit is not sent."""
        left = [] if self._usd is None else [f"${max(0.0, self._usd - self.spent.usd):,.6f}"]
        left += [] if self._tokens is None else [f"{max(0, self._tokens - self.spent.tokens):,} tokens"]
        return (
            f"the ceiling does not allow for another request: the next may use up to {needs_of(worst)}, and "
            f"{' and '.join(left)} are left"
        )

    async def settle(self, worst: Worst, charge: Charge) -> None:
        """What was held for a request is no more; this is what it used."""
        async with self._changed:
            self._held -= at_worst(worst)
            self._in_flight -= 1
            self.spent += charge
            if not self._in_flight:
                self._held = NOTHING  # no rest of rounded sums
            self._changed.notify_all()

    def _fits(self, worst: Worst) -> bool:
        all_ = self.spent + self._held + at_worst(worst)
        return (self._usd is None or all_.usd <= self._usd) and (self._tokens is None or all_.tokens <= self._tokens)
