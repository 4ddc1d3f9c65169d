"""What a run will use, told before it starts."""

import pytest

from evaluation.answers.records import Question
from evaluation.answers.run.estimate import (
    Estimate,
    estimates,
    table,
    unknown_caps,
    unknown_prices,
)
from evaluation.answers.run.matrix import variants
from evaluation.answers.run.runner import RunOptions, WholeText, order_of
from proxy.access.prices import Price, Size

WAYS = variants(["m", "n"], ["raw", "rag", "whole"], ["docs"], ["max_tokens=100"])
QUESTIONS = [Question(str(n), [{"role": "user", "content": "Why?" * 10}]) for n in range(3)]
WHOLES = {"m whole docs max_tokens=100": WholeText("yes " * 10_000, "whole.txt")}
TERMS = RunOptions(
    4, 0, 1000, {"m": Price(1e-6, 1e-6, 1e-6, 1e-6)}.get, {"n": Size(9000, 500), "m": Size()}.__getitem__, WHOLES
)  # fmt: skip


def test_each_variant_is_estimated_by_what_is_left_of_it() -> None:
    order = [one for one in order_of(QUESTIONS, WAYS, 2, 0) if one != ("0", "m raw max_tokens=100", 1)]
    found = {one.variant.removesuffix(" max_tokens=100"): one for one in estimates(order, QUESTIONS, WAYS, TERMS)}
    raw, rag, whole, unpriced = (found[name] for name in ("m raw", "m rag docs", "m whole docs", "n raw"))
    assert [one.requests for one in (raw, rag, whole, unpriced)] == [5, 6, 6, 6]
    assert (raw.answer_tokens, rag.answer_tokens) == (500, 600)
    assert rag.prompt_tokens / 6 == raw.prompt_tokens / 5 + 1000
    assert whole.prompt_tokens > 6 * 10_000
    assert raw.usd == pytest.approx((raw.prompt_tokens + 500) * 1e-6)
    for one in (raw, rag, whole):
        assert one.usd is not None
        assert one.most_usd is not None
        assert one.usd < one.most_usd
    assert (unpriced.usd, unpriced.most_usd) == (None, None)


def test_what_is_not_known_of_models_is_named() -> None:
    ways = variants(["m", "n"], ["raw", "rag"], [], [])
    assert unknown_prices(ways, TERMS) == ["n"]
    assert unknown_caps(ways, TERMS) == ["m"]
    assert unknown_caps(WAYS, TERMS) == []


def test_the_table_has_a_sum_that_is_unknown_where_a_part_is() -> None:
    rows = [Estimate("m raw", 2, 1000, 600, 0.5, 1.0), Estimate("n raw", 2, 1000, 600, None, None)]
    lines = table(rows).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["m", "raw", "2", "1,000", "600", "0.5000", "1.0000"],
        ["n", "raw", "2", "1,000", "600", "unknown", "unknown"],
        ["all", "4", "2,000", "1,200", "unknown", "unknown"],
    ]
    assert len({len(line) for line in lines}) == 1
    assert len(table(rows[:1]).splitlines()) == 2
