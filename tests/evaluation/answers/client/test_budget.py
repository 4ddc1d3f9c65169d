"""The ceiling of a run: for any requests in any order, never passed, and no slot of it lost."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.answers.client.budget import Charge, Purse, answer_cap, charge_of, worst_of
from evaluation.answers.records import Rag, Reply, Variant, Worst
from evaluation.answers.run.matrix import request_of
from proxy.access.prices import Price, Size
from proxy.dialects.token_counts import Tokens

PRICE = Price(1e-6, 2e-6, 5e-7, 2e-6)
MESSAGES = [{"role": "user", "content": "Why?"}]
shares = st.floats(0, 1)
calls = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), shares, st.integers(0, 3)), max_size=20)


@given(calls, st.integers(0, 600), st.integers(0, 300), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
async def test_a_ceiling_is_never_passed_and_what_fits_is_asked(
    asked: list[tuple[int, int, float, int]], usd: int, tokens: int, workers: int
) -> None:
    """Each call uses a share of its worst, and ends some turns of the event loop later."""
    purse = Purse(float(usd), tokens)
    left, flying, refused = list(asked), [Charge(0.0, 0)], []

    async def work() -> None:
        while left:
            prompt, dollars, share, turns = left.pop()
            worst = Worst(prompt, 0, float(dollars))
            if not await purse.take(worst):
                refused.append(worst)
                continue
            held = Charge(float(dollars), prompt)
            flying.append(held)
            together = sum(flying, purse.spent)
            assert together.usd <= usd
            assert together.tokens <= tokens
            for _ in range(turns):
                await asyncio.sleep(0)
            flying.remove(held)
            await purse.settle(worst, Charge(dollars * share, int(prompt * share)))

    await asyncio.gather(*(work() for _ in range(workers)))
    assert purse.spent.usd <= usd
    assert purse.spent.tokens <= tokens
    for worst in refused:
        assert worst.usd is not None
        assert purse.spent.usd + worst.usd > usd or purse.spent.tokens + worst.prompt_tokens > tokens


async def test_without_a_ceiling_everything_fits_and_is_summed() -> None:
    purse = Purse(None, None)
    purse.spent = Charge(1.0, 5)
    worst = Worst(10**9, None, None)
    assert await purse.take(worst)
    await purse.settle(worst, Charge(0.5, 7))
    assert purse.spent == Charge(1.5, 12)


@pytest.mark.parametrize(
    ("said", "cap"),
    [({}, 9), ({"max_tokens": 5}, 5), ({"max_completion_tokens": 4, "max_tokens": 3}, 4), ({"max_tokens": "x"}, 9)],
)
def test_an_answer_is_as_long_as_the_request_says_or_else_as_the_model_can(said: dict[str, object], cap: int) -> None:
    assert answer_cap(said, Size(100, 9)) == cap


def worst(mode: str, **known: int) -> Worst:
    variant = Variant("v", "m", "rag" if mode == "rag" else "raw")
    body = request_of(variant, MESSAGES, usage=True)
    return worst_of(body, variant, budget_tokens=1000, cap=known.get("cap"), price=PRICE)


def test_the_worst_holds_every_byte_and_the_passages() -> None:
    assert worst("rag").prompt_tokens >= worst("raw").prompt_tokens + 4000
    assert worst("raw").prompt_tokens >= len("Why?")
    assert worst("raw").usd is None
    bounded = worst("raw", cap=10)
    assert bounded.usd == pytest.approx(bounded.prompt_tokens * 1e-6 + 10 * 2e-6)


def reply(usage: Tokens | None, *, error: str | None = None) -> Reply:
    cost = None if usage is None else PRICE.of(usage)
    return Reply("q", "v", 0, 0.0, 200, "a", None, error, Rag(), usage, cost, 1.0, 1.0, {}, {}, "")


def test_what_the_upstream_said_is_charged_and_what_it_did_not_say_at_the_most_it_can_be() -> None:
    most = Worst(50, 100, 50e-6 + 200e-6)
    assert charge_of(reply(None, error="refused"), most, PRICE) == Charge(0.0, 0)
    guessed = Tokens(10, 5, estimated=True)
    for charge, usd, tokens in (
        (charge_of(reply(Tokens(10, 5)), most, PRICE), 20e-6, 15),
        (charge_of(reply(guessed), most, PRICE), 50e-6 + 40e-6, 70),
        (charge_of(reply(guessed, error="it broke off"), most, PRICE), 250e-6, 150),
    ):
        assert charge.usd == pytest.approx(usd)
        assert charge.tokens == tokens
