"""The ceiling of a run: for any requests in any order, never passed, and no slot of it lost."""

import asyncio

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.answers.client.budget import Budget, Cost, Operations, Rewriting, answer_cap, cost_of, max_cost_of
from evaluation.answers.records import MaxCost, Rag, Reply, Variant
from evaluation.answers.run.matrix import request_of
from proxy.access.prices import Price, Size
from proxy.dialects.replies import Tokens

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
    budget = Budget(float(usd), tokens)
    left, flying, refused = list(asked), [Cost(0.0, 0)], []

    async def work() -> None:
        while left:
            prompt, dollars, share, turns = left.pop()
            max_cost = MaxCost(prompt, 0, float(dollars))
            if not await budget.reserve(max_cost):
                refused.append(max_cost)
                continue
            held = Cost(float(dollars), prompt)
            flying.append(held)
            together = sum(flying, budget.spent)
            assert together.usd <= usd
            assert together.tokens <= tokens
            for _ in range(turns):
                await asyncio.sleep(0)
            flying.remove(held)
            await budget.charge(max_cost, Cost(dollars * share, int(prompt * share)))

    await asyncio.gather(*(work() for _ in range(workers)))
    assert budget.spent.usd <= usd
    assert budget.spent.tokens <= tokens
    for max_cost in refused:
        assert max_cost.usd is not None
        assert budget.spent.usd + max_cost.usd > usd or budget.spent.tokens + max_cost.prompt_tokens > tokens


async def test_without_a_ceiling_everything_fits_and_is_summed() -> None:
    budget = Budget(None, None)
    budget.spent = Cost(1.0, 5)
    max_cost = MaxCost(10**9, None, None)
    assert await budget.reserve(max_cost)
    await budget.charge(max_cost, Cost(0.5, 7))
    assert budget.spent == Cost(1.5, 12)


def test_the_worst_case_with_operations_counts_every_call_of_the_model() -> None:
    """Each round sends the prompt again, with the results and the answers so far."""
    raw, rag, body = Variant("m raw", "m", "raw"), Variant("m rag", "m", "rag"), {"messages": MESSAGES}
    size, operations = len(orjson.dumps(body)), Operations(6, 6000)
    one = max_cost_of(body, raw, budget_tokens=1000, cap=50, price=PRICE)
    all_ = max_cost_of(body, raw, budget_tokens=1000, cap=50, price=PRICE, operations=operations)
    assert (one.prompt_tokens, one.answer_tokens, one.calls) == (size, 50, 1)
    assert (all_.prompt_tokens, all_.answer_tokens, all_.calls) == (7 * size + 6 * 6050, 350, 7)
    rewritten = max_cost_of(
        body, rag, budget_tokens=0, cap=50, price=PRICE, rewriting=Rewriting(PRICE, prompt_bytes=700, answer_tokens=200)
    )
    alone = max_cost_of(body, rag, budget_tokens=0, cap=50, price=PRICE)
    assert rewritten.prompt_tokens == alone.prompt_tokens + 700 + size
    assert rewritten.answer_tokens == 250
    assert rewritten.usd == pytest.approx((alone.usd or 0) + (700 + size) * 1e-6 + 200 * 2e-6)


@pytest.mark.parametrize(
    ("said", "cap"),
    [
        ({}, 9),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 4, "max_tokens": 3}, 4),
        ({"max_tokens": "x"}, 9),
        ({"max_output_tokens": 2}, 2),
    ],
)
def test_an_answer_is_as_long_as_the_request_says_or_else_as_the_model_can(said: dict[str, object], cap: int) -> None:
    assert answer_cap(said, Size(100, 9)) == cap


def max_cost(mode: str, **known: int) -> MaxCost:
    variant = Variant("v", "m", "rag" if mode == "rag" else "raw")
    body = request_of(variant, MESSAGES, usage=True)
    return max_cost_of(body, variant, budget_tokens=1000, cap=known.get("cap"), price=PRICE)


def test_the_worst_holds_every_byte_and_the_passages() -> None:
    assert max_cost("rag").prompt_tokens >= max_cost("raw").prompt_tokens + 4000
    assert max_cost("raw").prompt_tokens >= len("Why?")
    assert max_cost("raw").usd is None
    bounded = max_cost("raw", cap=10)
    assert bounded.usd == pytest.approx(bounded.prompt_tokens * 1e-6 + 10 * 2e-6)


def reply(usage: Tokens | None, *, error: str | None = None) -> Reply:
    cost = None if usage is None else PRICE.of(usage)
    return Reply("q", "v", 0, 0.0, 200, "a", None, error, Rag(), usage, cost, 1.0, 1.0, {}, {}, "")


def test_what_the_upstream_said_is_charged_and_what_it_did_not_say_at_the_most_it_can_be() -> None:
    most = MaxCost(50, 100, 50e-6 + 200e-6)
    assert cost_of(reply(None, error="refused"), most, PRICE) == Cost(0.0, 0)
    guessed = Tokens(10, 5, estimated=True)
    for cost, usd, tokens in (
        (cost_of(reply(Tokens(10, 5)), most, PRICE), 20e-6, 15),
        (cost_of(reply(guessed), most, PRICE), 50e-6 + 40e-6, 70),
        (cost_of(reply(guessed, error="it broke off"), most, PRICE), 250e-6, 150),
    ):
        assert cost.usd == pytest.approx(usd)
        assert cost.tokens == tokens
