"""Exact arithmetic as a tool, because models compute wrong.

Rational results are exact, others have 28 digits. The work for an expression is bounded: its length, its levels and the
digits of each number.
"""

import math
import operator
import re
import unicodedata
from collections.abc import Callable, Sequence
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    Underflow,
)
from fractions import Fraction
from typing import Any, NamedTuple

from proxy.agent.toolbox import Calling, Done, Refused, Tool, ToolResult, arguments_schema
from proxy.agent.tools.wording import WordList, question_of

_MOST_CHARS = 1_000
_MOST_LEVELS = 60
_MOST_BITS = 1_900  # of a number: 572 digits. The translated lane lets Python write whole numbers of 640 digits
_MOST_FACTORIAL = 270
_MOST_DIGITS = 570
_MOST_SHOWN = 200  # digits of a whole number
_MOST_DECIMALS = 40  # significant digits of an exact decimal fraction
_MOST_FRACTION = 60  # characters of numerator and denominator
_MOST_ANGLE = 10**15
_TRAPS = [InvalidOperation, DivisionByZero, Overflow, Underflow]
_SHOWN = Context(prec=28, rounding=ROUND_HALF_EVEN, Emax=99_999, Emin=-99_999)
_FINE = Context(prec=40, Emax=_MOST_DIGITS, Emin=-_MOST_DIGITS, traps=_TRAPS)
_FINEST = Context(prec=70, Emax=_MOST_DIGITS, Emin=-_MOST_DIGITS, traps=_TRAPS)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707")
_E = Decimal("2.718281828459045235360287471352662497757")
_TINY = Decimal("1e-36")  # a sine below is 0: π has 40 digits

Value = Fraction | Decimal  # exact, or about


class BadExpression(ValueError):
    """An expression that cannot be computed; the text says what to write."""


class Calculator(Tool):
    """Computes an expression."""

    name = "calculator"
    description = (
        "Compute an expression exactly. Use it for every calculation. Operators + - * / // % ** and parentheses; "
        "12% of 80; 80 + 5% is 84; functions sqrt, round(x, digits), abs, min, max, sum, mean, median, floor, ceil, "
        "log (natural, or log(x, base)), log10, log2, exp, factorial, sin, cos, tan, asin, acos, atan (radians); pi, "
        "e. Separate arguments by ;"
    )
    schema = arguments_schema(
        "expression",
        expression={
            "type": "string",
            "minLength": 1,
            "maxLength": _MOST_CHARS,
            "description": "For example 199,999 / 292 or round(1.05 ** 10; 2)",
        },
    )

    def suits(self, question: str) -> bool:
        """Whether a question has numbers, and a sign or a word of arithmetic."""
        asked = question_of(question)
        if not asked.numbers:
            return False
        if _SIGNS.search(asked.text) or _STRONG.within(asked):
            return True
        return asked.numbers > 1 and _WEAK.within(asked) != set()

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        try:
            return Done(shown(calculate(arguments["expression"])))
        except BadExpression as error:
            return Refused(f"Nothing was computed: {error}", "invalid_arguments")


def calculate(expression: str) -> Value:
    """The value of an expression. Raises BadExpression."""
    if len(expression) > _MOST_CHARS:
        raise BadExpression(f"the expression is longer than {_MOST_CHARS:,} characters. Compute it in parts.")
    try:
        return _Parser(_tokens(expression)).value()
    except ZeroDivisionError as error:
        raise BadExpression("a division by zero.") from error
    except (Overflow, OverflowError) as error:
        raise _too_large() from error
    except Underflow as error:
        raise BadExpression("a number is too close to zero.") from error
    except DecimalException as error:  # a logarithm of 0, for example
        raise BadExpression("a function has no value there.") from error


def shown(value: Value) -> str:
    """A value for the model: exact, or marked by "about"."""
    if isinstance(value, Decimal):
        return f"about {_plain(_SHOWN.plus(value))}"
    top, bottom = value.numerator, value.denominator
    rounded = _SHOWN.divide(Decimal(top), Decimal(bottom))
    if bottom == 1:
        return str(top) if abs(top) < 10**_MOST_SHOWN else f"about {_plain(rounded)}"
    if (places := _places(bottom)) is not None and places <= _MOST_DECIMALS:
        digits = str(abs(top) * 10**places // bottom)
        if len(digits) <= _MOST_DECIMALS:
            digits = digits.zfill(places + 1)
            return f"{'-' * (top < 0)}{digits[:-places]}.{digits[-places:]}"
    fraction = f" (exactly {top}/{bottom})" if len(f"{top}{bottom}") <= _MOST_FRACTION else ""
    return f"about {_plain(rounded)}{fraction}"


def _places(bottom: int) -> int | None:
    """The decimal places of a fraction with this denominator; None: they do not end."""
    twos = (bottom & -bottom).bit_length() - 1
    rest, fives = bottom >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def _plain(value: Decimal) -> str:
    if not value:
        return "0"
    value = value.normalize(_SHOWN)
    return f"{value:f}" if -20 < value.adjusted() < _MOST_DECIMALS else f"{value}"


def _too_large() -> BadExpression:
    return BadExpression(f"a number has more than {_MOST_DIGITS:,} digits. Use smaller numbers, or logarithms.")


# --- tokens -----------------------------------------------------------------------------------------------------------

_ALIKE = {
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # full width
    **dict.fromkeys("×⋅·∙", "*"),
    **dict.fromkeys("÷∕⁄", "/"),
    **dict.fromkeys("−–—", "-"),
    **dict.fromkeys("\u00a0\u202f\u2009\u3000", " "),
    "²": "**2",
    "³": "**3",
    "π": "pi",
    "٫": ".",
    "٬": ",",
    "٪": "%",
    "‰": "/1000",
    "’": "'",
    "^": "**",
}
_CURRENCIES = "$€£¥₹₩₺₽"
_EXPONENT = r"(?:[eE](?P<exponent>[+-]?\d+))?(?![\w.])"
_GROUPED = re.compile(rf"\d{{1,3}}(?:([ '_])\d{{3}}(?:\1\d{{3}})*|(?:,\d{{3}})+)(?!\d)(?:\.\d+)?{_EXPONENT}")
_NUMBER = re.compile(rf"(?:\d+(?:\.\d*)?|\.\d+){_EXPONENT}")
_COMMAS = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)")
_SIGN = re.compile(r"\*\*|//|[-+*/%(),;!°√\[\]]")
_NAME = re.compile(r"[^\W\d]\w*")


class _Token(NamedTuple):
    kind: str  # number, name, end, or the sign
    text: str = ""


def _tokens(expression: str) -> list[_Token]:
    """Raises BadExpression."""
    text = "".join(_ALIKE.get(char) or _digit(char) for char in expression).strip().rstrip("= ")
    currencies = {char for char in text if char in _CURRENCIES}
    if len(currencies) > 1:
        raise BadExpression("amounts in two currencies. Convert one of them by its rate first.")
    text = text.translate(dict.fromkeys(map(ord, currencies), ""))
    found, calls, at = list[_Token](), list[bool](), 0
    while at < len(text):
        in_call = bool(calls) and calls[-1]
        if number := _number(text, at, in_call=in_call):
            found.append(_Token("number", re.sub(r"[ ,'_]", "", number[0])))
        elif name := _NAME.match(text, at):
            found.append(_Token("name", name[0].casefold()))
        elif sign := _SIGN.match(text, at):
            if sign[0] in "([":
                calls.append(bool(found) and (found[-1].kind == "name" or (sign[0] == "[" and in_call)))
            elif sign[0] in ")]" and calls:
                calls.pop()
            found.append(_Token(sign[0]))
        elif not text[at].isspace():
            advice = "Write 1234.5 or 1,234.5." if text[at].isdigit() else "Write numbers, operators and functions."
            raise BadExpression(f"{text[at : at + 20]!r} cannot be read. {advice}")
        taken = number or name or sign
        at = taken.end() if taken is not None else at + 1
    return [*found, _Token("end")]


def _number(text: str, at: int, *, in_call: bool) -> "re.Match[str] | None":
    """The number that begins there. Raises BadExpression for one with two meanings, or that is too large."""
    if in_call and ";" not in text and (commas := _COMMAS.match(text, at)):
        raise BadExpression(f"is {commas[0]} one number? Then leave out the comma, else write ; for the comma.")
    number = _GROUPED.match(text, at) or _NUMBER.match(text, at)
    if number is None:
        return None
    if not in_call and text[number.end() : number.end() + 1] == "," and text[number.end() + 1 :].strip():
        raise BadExpression("a comma within a number. Write 3.5, not 3,5, and 1,234.5 or 1234.5.")
    exponent = (number["exponent"] or "").lstrip("+-0")
    if len(number[0]) > _MOST_DIGITS or len(exponent) > len(str(_MOST_DIGITS)) or int(exponent or 0) > _MOST_DIGITS:
        raise _too_large()
    return number


def _digit(char: str) -> str:
    value = unicodedata.decimal(char, None)
    return char if value is None else str(value)


# --- the grammar ------------------------------------------------------------------------------------------------------


class _Parser:
    """A parser by descent, which computes as it reads."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._levels = 0

    def value(self) -> Value:
        """Raises BadExpression, ArithmeticError."""
        value, _ = self._sum()
        if self._kind != "end":
            raise BadExpression(f"{self._shown} is not expected there. Write an operator between two numbers, 2 * 3.")
        return value

    @property
    def _kind(self) -> str:
        return self._tokens[self._at].kind

    @property
    def _shown(self) -> str:
        token = self._tokens[self._at]
        return "the end" if token.kind == "end" else repr((token.text or token.kind)[:30])

    def _took(self, *kinds: str) -> str:
        """The kind of the next token, which is taken if it is one of these; else ""."""
        if (kind := self._kind) not in kinds:
            return ""
        self._at += 1
        return kind

    def _named(self, *names: str) -> bool:
        """Whether the next token, which is then taken, has one of these names."""
        token = self._tokens[self._at]
        found = token.kind == "name" and token.text in names
        self._at += found
        return found

    def _sum(self) -> tuple[Value, bool]:
        """A sum's value, and whether it is a percentage: 80 + 5% is 84."""
        self._levels += 1
        if self._levels > _MOST_LEVELS:
            raise BadExpression(f"more than {_MOST_LEVELS} levels of parentheses or signs. Compute it in parts.")
        left, percents = self._product()
        while sign := self._took("+", "-"):
            right, percent = self._product()
            if percent and not percents:
                right = _binary(operator.mul, left, right)
            left = _binary(operator.add if sign == "+" else operator.sub, left, right)
            percents = percents and percent
        self._levels -= 1
        return left, percents

    def _product(self) -> tuple[Value, bool]:
        left, percent = self._signed()
        while True:
            if self._took("*") or self._named("of", "x", "times"):
                left = _binary(operator.mul, left, self._signed()[0])
            elif sign := self._took("/", "//", "%") or ("%" if self._named("mod") else ""):
                made = {"/": operator.truediv, "//": operator.floordiv, "%": operator.mod}[sign]
                left = _binary(made, left, self._signed()[0])
            else:
                return left, percent
            percent = False

    def _signed(self) -> tuple[Value, bool]:
        minus = False
        while sign := self._took("+", "-"):
            minus ^= sign == "-"
        value, percent = self._power()
        return (-value if isinstance(value, Fraction) else value.copy_negate()) if minus else value, percent

    def _power(self) -> tuple[Value, bool]:
        base, percent = self._postfix()
        if not self._took("**"):
            return base, percent
        self._levels += 1
        if self._levels > _MOST_LEVELS:
            raise BadExpression(f"more than {_MOST_LEVELS} powers of powers. Compute it in parts.")
        exponent, _ = self._signed()
        self._levels -= 1
        return _power(base, exponent), False

    def _postfix(self) -> tuple[Value, bool]:
        value, percent = self._atom(), False
        while True:
            if self._kind == "%" and not self._modulo():
                self._at += 1
                value, percent = _binary(operator.truediv, value, Fraction(100)), True
            elif self._took("°"):
                value, percent = _degrees_to_radians(value), False
            elif self._took("!"):
                value, percent = _factorial(value), False
            else:
                return value, percent

    def _modulo(self) -> bool:
        """Whether the % stands between two values; else it is a percent sign."""
        after = self._tokens[self._at + 1]
        return after.kind in ("number", "(", "√") or (
            after.kind == "name" and after.text not in ("of", "x", "times", "mod")
        )

    def _atom(self) -> Value:
        if self._took("√"):
            roots = 1
            while self._took("√"):
                roots += 1
            value = self._atom()
            for _ in range(roots):
                value = _sqrt(value)
            return value
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        if token.kind == "number":
            return _bounded(Fraction(token.text))
        if token.kind == "(":
            value, _ = self._sum()
            self._close(")")
            return value
        if token.kind == "name" and token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        if token.kind == "name" and token.text in _FUNCTIONS:
            return self._called(token.text)
        if token.kind == "name":
            known = ", ".join([*_FUNCTIONS, *_CONSTANTS])
            raise BadExpression(f"{token.text[:30]!r} is not known. Write numbers for names; the functions: {known}.")
        self._at -= token.kind != "end"
        raise BadExpression(f"a number is missing before {self._shown}.")

    def _called(self, name: str) -> Value:
        function, least, most = _FUNCTIONS[name]
        if not self._took("("):
            raise BadExpression(f"write {name}(…) with parentheses.")
        listed = bool(self._took("["))
        values = [] if self._kind in (")", "]") else [self._sum()[0]]
        while self._took(",", ";"):
            values.append(self._sum()[0])
        if listed:
            self._close("]")
        self._close(")")
        if not least <= len(values) <= most:
            wanted = f"{least}" if least == most else f"at least {least}" if most > 2 else f"{least} or {most}"
            raise BadExpression(f"{name} takes {wanted} values, got {len(values)}.")
        return function(*values)

    def _close(self, kind: str) -> None:
        if not self._took(kind):
            raise BadExpression(f"{kind!r} is missing before {self._shown}.")


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _bounded(value: Fraction) -> Value:
    """An exact value, or about the value where the exact one is too long. Raises BadExpression."""
    top, bottom = value.numerator.bit_length(), value.denominator.bit_length()
    if max(top, bottom) <= _MOST_BITS:
        return value
    if abs(top - bottom) > _MOST_BITS:
        raise _too_large()
    return _decimal(value)


def _decimal(value: Value, context: Context = _FINE) -> Decimal:
    if isinstance(value, Decimal):
        return value
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _exactly(value: Value) -> Fraction:
    return Fraction(value)


def _binary(made: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    """Exact for exact values. Raises BadExpression, ArithmeticError."""
    value = Fraction(made(Fraction(left), Fraction(right)))
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return _bounded(value)
    return _decimal(value)


def _power(base: Value, exponent: Value) -> Value:
    if isinstance(exponent, Fraction) and exponent.denominator == 1 and isinstance(base, Fraction):
        times = exponent.numerator
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(times) <= 2 * _MOST_BITS or abs(base) in (0, 1):
            return _bounded(base**times) if abs(base) > 1 or base.denominator > 1 else _power_of_unit(base, times)
    if isinstance(exponent, Fraction) and exponent.denominator == 2 and base >= 0:
        return _power(_sqrt(base), Fraction(exponent.numerator))
    if base < 0 and not (isinstance(exponent, Fraction) and exponent.denominator == 1):
        raise BadExpression("a negative number has no such power. Use a whole exponent.")
    return _FINE.power(_decimal(base), _decimal(exponent))


def _power_of_unit(base: Fraction, times: int) -> Fraction:
    """A power of 0, 1 or -1."""
    if not base and times < 0:
        raise ZeroDivisionError
    return Fraction(times == 0) if not base else base if times % 2 else Fraction(1)


def _sqrt(value: Value) -> Value:
    if value < 0:
        raise BadExpression("a negative number has no square root.")
    if isinstance(value, Fraction):
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    return _FINE.sqrt(_decimal(value))


def _whole(value: Value, name: str, most: int) -> int:
    exact = _settled(value)
    if exact.denominator != 1 or abs(exact) > most:
        raise BadExpression(f"{name} takes a whole number up to {most:,}.")
    return exact.numerator


def _settled(value: Value) -> Fraction:
    """About 1.999… is 2, where a digit more would decide about a whole number."""
    return value if isinstance(value, Fraction) else Fraction(_SHOWN.plus(value))


def _round(value: Value, digits: Value = Fraction(0)) -> Value:
    """Halves away from zero, as people round."""
    places = Fraction(10) ** _whole(digits, "the number of digits", 100)
    exact = _settled(value) * places
    return _bounded(Fraction(math.floor(abs(exact) + Fraction(1, 2)) * (-1 if exact < 0 else 1)) / places)


def _factorial(value: Value) -> Value:
    number = _whole(value, "factorial", _MOST_FACTORIAL)
    if number < 0:
        raise BadExpression("a negative number has no factorial.")
    return Fraction(math.factorial(number))


def _total(*values: Value) -> Value:
    total: Value = Fraction(0)
    for one in values:
        total = _binary(operator.add, total, one)
    return total


def _mean(*values: Value) -> Value:
    return _binary(operator.truediv, _total(*values), Fraction(len(values)))


def _median(*values: Value) -> Value:
    ordered = sorted(values, key=_exactly)
    return _mean(*ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1])


def _log(value: Value, base: Value | None = None) -> Value:
    if value <= 0 or (base is not None and (base <= 0 or base == 1)):
        raise BadExpression("a logarithm takes a positive number, and a positive base other than 1.")
    if base == 10:
        context = _FINE.copy()
        context.clear_flags()
        found = context.log10(_decimal(value))
        return Fraction(found) if isinstance(value, Fraction) and not context.flags[Inexact] else found
    natural = _FINEST.ln(_decimal(value, _FINEST))
    return _FINE.plus(natural if base is None else _FINEST.divide(natural, _FINEST.ln(_decimal(base, _FINEST))))


def _exp(value: Value) -> Value:
    return _FINE.exp(_decimal(value))


def _degrees_to_radians(value: Value) -> Value:
    return _FINE.multiply(_decimal(value, _FINEST), _FINEST.divide(_PI, Decimal(180)))


def _sine(value: Value, turned: Decimal = Decimal(0)) -> Decimal:
    """The sine of an angle and a turn, with 70 digits."""
    if abs(_exactly(value)) > _MOST_ANGLE:
        raise BadExpression(f"an angle beyond {_MOST_ANGLE:g}. Leave out whole turns.")
    angle = _FINEST.add(_decimal(value, _FINEST), turned)
    angle = _FINEST.remainder_near(angle, _FINEST.multiply(_PI, Decimal(2)))
    square = _FINEST.multiply(angle, angle)
    total = term = angle
    number = 1
    while abs(term) > Decimal("1e-65"):
        number += 2
        term = _FINEST.divide(_FINEST.multiply(term, square), Decimal(-number * (number - 1)))
        total = _FINEST.add(total, term)
    return Decimal(0) if abs(total) < _TINY else total


def _sin(value: Value) -> Value:
    return _FINE.plus(_sine(value))


def _cos(value: Value) -> Value:
    return _FINE.plus(_sine(value, _FINEST.divide(_PI, Decimal(2))))


def _tan(value: Value) -> Value:
    below = _sine(value, _FINEST.divide(_PI, Decimal(2)))
    if not below:
        raise BadExpression("the tangent has no value there.")
    return _FINE.divide(_sine(value), below)


def _atan(value: Value) -> Value:
    return _FINE.plus(_arctangent(_decimal(value, _FINEST)))


def _arctangent(value: Decimal) -> Decimal:
    for _ in range(3):  # halved, so that the series is short
        root = _FINEST.sqrt(_FINEST.add(1, _FINEST.multiply(value, value)))
        value = _FINEST.divide(value, _FINEST.add(1, root))
    square = _FINEST.multiply(value, value)
    total = term = value
    number = 1
    while abs(term) > Decimal("1e-65"):
        number += 2
        term = _FINEST.multiply(term, -square)
        total = _FINEST.add(total, _FINEST.divide(term, Decimal(number)))
    return _FINEST.multiply(total, Decimal(8))


def _asin(value: Value) -> Value:
    return _FINE.plus(_arcsine(value))


def _acos(value: Value) -> Value:
    return _FINE.subtract(_FINEST.divide(_PI, Decimal(2)), _arcsine(value))


def _arcsine(value: Value) -> Decimal:
    if abs(_exactly(value)) > 1:
        raise BadExpression("asin and acos take a number from -1 to 1.")
    sine = _decimal(value, _FINEST)
    if abs(sine) == 1:
        return _FINEST.divide(_PI, Decimal(2)).copy_sign(sine)
    return _arctangent(_FINEST.divide(sine, _FINEST.sqrt(_FINEST.subtract(1, _FINEST.multiply(sine, sine)))))


_CONSTANTS: dict[str, Value] = {"pi": _FINE.plus(_PI), "e": _E}
_MANY = _MOST_CHARS
# Name -> the function, its least and its most values.
_FUNCTIONS: dict[str, tuple[Callable[..., Value], int, int]] = {
    "sqrt": (_sqrt, 1, 1),
    "round": (_round, 1, 2),
    "abs": (lambda value: abs(value) if isinstance(value, Fraction) else value.copy_abs(), 1, 1),
    "min": (lambda *values: min(values, key=_exactly), 1, _MANY),
    "max": (lambda *values: max(values, key=_exactly), 1, _MANY),
    "sum": (_total, 1, _MANY),
    "mean": (_mean, 1, _MANY),
    "average": (_mean, 1, _MANY),
    "median": (_median, 1, _MANY),
    "floor": (lambda value: Fraction(math.floor(_settled(value))), 1, 1),
    "ceil": (lambda value: Fraction(math.ceil(_settled(value))), 1, 1),
    "log": (_log, 1, 2),
    "ln": (_log, 1, 1),
    "log10": (lambda value: _log(value, Fraction(10)), 1, 1),
    "log2": (lambda value: _log(value, Fraction(2)), 1, 1),
    "exp": (_exp, 1, 1),
    "pow": (_power, 2, 2),
    "factorial": (_factorial, 1, 1),
    "sin": (_sin, 1, 1),
    "cos": (_cos, 1, 1),
    "tan": (_tan, 1, 1),
    "asin": (_asin, 1, 1),
    "acos": (_acos, 1, 1),
    "atan": (_atan, 1, 1),
}

# --- questions that need it -------------------------------------------------------------------------------------------

_SIGNS = re.compile(
    r"\d\)?\s*(?:\*\*?|[×÷·^])\s*[(\d]"  # 3*4
    r"|\d\)?\s*\+\s*[($€£¥]*\d"
    r"|\d\)?\s+[-−/x]\s+[($€£¥]*\d"  # not 2024-05-01, 24/7 or 1920x1080
    r"|(?<![\d/])\d[\d,.]{2,}/\d+(?![\d/])"  # 199,999/292
    r"|\d\s*[%٪％]\s*(?:of|off|von|de|des|du|di|del|do|da|van|от|的)\b"
    r"|√|\bsqrt\b"
)
# One number is enough beside these words, two are needed beside the others.
_STRONG = WordList.of(
    "calculat*, comput*, square root, divided by, multipl*, percent of, per cent of, percentage of",
    "how much is, berechne*, ausrechn*, rechne*, wurzel aus, geteilt durch, prozent von, wie viel ist",
    "wieviel ist, calcul*, racine carrée, divisé par, pour cent de, combien font, combien fait, raíz cuadrada",
    "dividido entre, dividido por, por ciento de, cuánto es, cuánto son, calcol*, radice quadrata, diviso per",
    "per cento di, quanto fa, raiz quadrada, por cento de, quanto é, bereken*, wortel van, gedeeld door",
    "procent van, hoeveel is, вычисл*, посчита*, рассчита*, корень из, сколько будет, 计算, 算一下, 平方根",
    "除以, 乘以, 計算, 割る, 掛ける, 계산, 제곱근, 나누기, 곱하기, 퍼센트, احسب, الجذر التربيعي, مقسوم",
    "بالمئة من, गणना, वर्गमूल, प्रतिशत, hesapla*, karekök*, bölü, çarpı, yüzde",
)
_WEAK = WordList.of(
    "%, total*, sum, average*, median, mean of, plus, minus, times, difference, ratio, percent*, altogether",
    "discount*, summe, insgesamt, durchschnitt*, mittelwert, differenz, prozent, rabatt, mal, zusammen, somme",
    "moyenne, pourcent*, suma, promedio, media, diferencia, porcentaje, descuento, somma, differenza",
    "percentuale, sconto, soma, desconto, som, gemiddeld*, verschil, korting, сумм*, средн*, разниц*, процент*",
    "скидк*, toplam*, ortalama*, fark, indirim, 总, 平均, 差, 折, 合計, 割引, 합계, 평균, 차이, 할인, مجموع",
    "متوسط, الفرق, خصم, कुल, औसत, अंतर, छूट",
)
