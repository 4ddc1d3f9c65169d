"""The calculator, against Python's own fractions, decimals and floats; and hostile expressions."""

import math
import re
import sys
import time
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.agent.tools.calculator import BadExpression, Calculator, calculate, shown
from tests.support.action_offers import calling

NUMBERS = st.one_of(
    st.integers(0, 10**9).map(str),
    st.integers(1_000, 10**9).map(lambda one: f"{one:,}"),
    st.decimals("0", "100000", places=3).map(str),
)
WHOLE = st.integers(0, 12).map(str)


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger expressions, in Python's syntax."""
    spaced = st.sampled_from([" {} ", "{}"])
    binary = st.tuples(parts, spaced, st.sampled_from(["+", "-", "*", "/", "//"]), parts)
    return st.one_of(
        binary.map(lambda one: f"{one[0]}{one[1].format(one[2])}{one[3]}"),
        st.tuples(parts, parts).map(lambda one: f"({one[0]}) % ({one[1]})"),
        parts.map("({})".format),
        parts.map("-{}".format),
        st.tuples(parts, WHOLE).map(lambda one: f"({one[0]}) ** {one[1]}"),
    )


def by_python(expression: str) -> Fraction:
    """Python's own value: its grammar, over fractions."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", expression)
    value = eval(re.sub(r"\d+(?:\.\d+)?", lambda one: f"Fraction('{one[0]}')", text), {"Fraction": Fraction})
    return Fraction(value)


@settings(max_examples=350)
@given(st.recursive(NUMBERS, joined, max_leaves=6))
def test_expressions_have_the_value_that_python_gives(expression: str) -> None:
    try:
        wanted = by_python(expression)
    except ZeroDivisionError:
        with pytest.raises(BadExpression, match="a division by zero"):
            calculate(expression)
        return
    try:
        found = calculate(expression)
    except BadExpression:
        if expression.count("**") < 2:  # a power of a power has too many digits
            raise
        return
    if isinstance(found, Fraction):
        assert found == wanted
    else:  # too long to be exact
        assert abs(Fraction(found) - wanted) <= abs(wanted) / 10**35


@settings(max_examples=100)
@given(st.lists(st.fractions(-1000, 1000, max_denominator=50), min_size=1, max_size=9), st.integers(-3, 6))
def test_functions_of_lists_and_roundings_are_exact(values: list[Fraction], digits: int) -> None:
    text = "; ".join(f"({one})" for one in values)
    ordered, half = sorted(values), len(values) // 2
    median = ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
    assert calculate(f"sum({text})") == sum(values)
    assert calculate(f"mean([{text}])") == sum(values) / len(values)
    assert (calculate(f"min({text})"), calculate(f"max({text})")) == (min(values), max(values))
    assert calculate(f"median({text})") == median
    one = values[0]
    assert calculate(f"floor({one})") == math.floor(one)
    assert calculate(f"ceil({one})") == math.ceil(one)
    rounded = calculate(f"round({one}; {digits})")
    scale = Fraction(10) ** digits
    assert isinstance(rounded, Fraction)
    assert (rounded * scale).denominator == 1
    assert abs(rounded - one) <= 1 / scale / 2
    if abs(rounded - one) == 1 / scale / 2:
        assert abs(rounded) > abs(one), "halves away from zero"


@settings(max_examples=100)
@given(st.decimals("0.001", "100", places=4))
def test_functions_have_28_digits(number: Decimal) -> None:
    with localcontext() as context:
        context.prec = 60
        for name, wanted in (("sqrt", number.sqrt()), ("exp", number.exp()), ("log", number.ln())):
            found = calculate(f"{name}({number})")
            assert abs(Decimal(found.numerator) / found.denominator - wanted if isinstance(found, Fraction)
                       else found - wanted) <= abs(wanted) * Decimal("1e-37") + Decimal("1e-39")  # fmt: skip
        sine, cosine = calculate(f"sin({number})"), calculate(f"cos({number})")
        assert abs(Fraction(sine) ** 2 + Fraction(cosine) ** 2 - 1) < Fraction(1, 10**37)
    for name in ("sin", "cos", "tan", "atan"):
        assert float(calculate(f"{name}({number})")) == pytest.approx(getattr(math, name)(float(number)), rel=1e-9)
    inverse = number / 100
    for name in ("asin", "acos"):
        assert float(calculate(f"{name}({inverse})")) == pytest.approx(getattr(math, name)(float(inverse)), rel=1e-9)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("199,999 / 292", "about 684.9280821917808219178082192 (exactly 199999/292)"),
        ("12 % of 80", "9.6"),
        ("80 + 5%", "84"),
        ("80 - 5%", "76"),
        ("200 * 5%", "10"),
        ("100% + 5%", "1.05"),
        ("17 % 5", "2"),
        ("-2**2", "-4"),
        ("2**-1", "0.5"),
        ("2 ^ 10", "1024"),
        ("0.1 + 0.2", "0.3"),
        ("$1,200.50 + $3", "1203.5"),
        ("1 000 000 × 3 ÷ 2 =", "1500000"),
        ("5² + √16", "29"),
        ("２＋３", "5"),
        ("sqrt(2)", "about 1.414213562373095048801688724"),
        ("floor(sqrt(2) ** 2)", "2"),
        ("log10(1000)", "3"),
        ("sum(1,200; 3,400)", "4600"),
        ("max(3, 5)", "5"),
        ("4 ** 0.5", "2"),
        ("cos(60°)", "about 0.5"),
        ("factorial(20)", "2432902008176640000"),
        ("2 ** 300", str(2**300)),
        ("factorial(250) + 0", "about 3.232856260909107732320814552E+492"),
    ],
)
def test_what_people_write_is_understood(expression: str, text: str) -> None:
    assert shown(calculate(expression)) == text


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("3,5 + 1", "Write 3.5, not 3,5"),
        ("1.234,56", "Write 3.5, not 3,5"),
        ("sum(1,200, 3,400)", "is 1,200 one number?"),
        ("2(3)", "Write an operator between two numbers"),
        ("price * 2", "'price' is not known. Write numbers for names"),
        ("$5 + €6", "two currencies"),
        ("", "a number is missing"),
        ("(1 + 2", "')' is missing before the end"),
        ("sqrt 4", "write sqrt(…) with parentheses"),
        ("sqrt(1; 2)", "sqrt takes 1 values, got 2"),
        ("sqrt(-1)", "no square root"),
        ("log(0)", "a positive number"),
        ("1 / 0", "a division by zero"),
        ("0 ** -1", "a division by zero"),
        ("(-8) ** (1/3)", "Use a whole exponent"),
        ("asin(2)", "from -1 to 1"),
        ("tan(90°)", "the tangent has no value there"),
        ("__import__('os').system('id')", "cannot be read"),
    ],
)
def test_an_error_says_what_to_write(expression: str, says: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(says)):
        calculate(expression)


HOSTILE = (
    "9**9**9", "9**9**9**9", "2**" * 300 + "2", "factorial(99999999)", "(" * 100_000, "(" * 400 + ")" * 400,
    "-" * 900 + "1", "√" * 900 + "2", "1e999999999", "1e" + "9" * 900, "1e3000 * 1e3000", "1.0000001 ** 10**900",
    "0.5 ** 10**6", "exp(10**900)", "exp(exp(exp(9)))", "sin(1e15) + sin(1e16)", "1 " * 5_000_000, "9" * 999,
    "*".join(["99999999"] * 110), "/".join(["7777777"] * 120), "+".join(f"1/{n}" for n in range(900, 1040)),
    "sum(" + ";".join("1" * 480) + ")", "round(1; 10**99)", "1_" * 500, "1,111" * 200, "!" * 999, "5" + "!" * 900,
    "5" + "%" * 900, "[" * 900, "sum(" * 240, "1e-3000 ** 3000", "𝟗**𝟗**𝟗", "٩" * 900, "\x00" * 1000,
    "log(1e3000; 1.0001)",
)  # fmt: skip


@pytest.fixture
def fewest_digits() -> Iterator[None]:
    """Python writes and reads as few digits of whole numbers as where the translated lane runs."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("fewest_digits")
@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_the_work_for_a_hostile_expression_is_bounded(number: int) -> None:
    tool, given = Calculator(), {"expression": HOSTILE[number]}
    times = []
    for _ in range(3):
        began = time.process_time()
        checked = tool.checked(given)
        text = (await tool.call(checked, calling())).text if isinstance(checked, dict) else checked.text
        times.append(time.process_time() - began)
        assert text
        assert len(text) < 2_000
    assert min(times) < 0.1


@pytest.mark.parametrize(
    "question",
    [
        "what is 199,999/292?", "Was ist 12 % von 80?", "3*4", "average of 3 and 5?", "how much is 5 and 6",
        "25 + 17 = ?", "15% of the budget", "сколько будет 3 + 4?", "计算 3 和 4", "3과 4의 합계", "what is 7 x 8",
        "If the 3 plans cost $10, $20 and $30, what is the total?",
    ],
)  # fmt: skip
def test_the_calculator_suits_a_question_with_arithmetic(question: str) -> None:
    assert Calculator().suits(question)


@pytest.mark.parametrize(
    "question",
    [
        "do you have 24/7 support?", "how many users signed up in 2024?", "what does error 404 mean?", "12/05/2024",
        "does it support 1920x1080?", "what happened on 2024-05-01?", "call +49 30 1234", "how do I calculate tax?",
        "is C++11 supported?", "pages 10-12",
    ],
)  # fmt: skip
def test_the_calculator_suits_no_other_question(question: str) -> None:
    assert not Calculator().suits(question)
