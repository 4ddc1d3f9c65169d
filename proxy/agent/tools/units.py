"""Units of measurement as a tool, by pint, which is imported on first use.

pint reads a unit only after a check of its form: names, products, quotients and small whole powers. So its work is
bounded.
"""

import asyncio
import difflib
import functools
import re
import threading
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

from proxy.agent.toolbox import Calling, Done, Refused, Tool, ToolResult, arguments_schema
from proxy.agent.tools.calculator import BadExpression, calculate
from proxy.agent.tools.wording import WordList, question_of

if TYPE_CHECKING:
    from pint import UnitRegistry

_MOST_CHARS = 100
_MOST_NAMES = 8  # of units in one quantity
_MOST_POWER = 9
_MOST_NUMBER_DIGITS = 100
_SHOWN_DIGITS = 15
_PART = re.compile(
    r"\s*([+-]?(?:\d{1,3}(?:[ '_]\d{3})+(?!\d)(?:[.,]\d+)?|\d+/\d+(?=\s)|[\d.][\d.,]*)(?:[eE][+-]?\d+)?)"
    r"\s*([^\d\s.+-](?:[^\d]|(?<![\s,'\"′″])\d)*)"
)
_TERM = re.compile(
    r"\s*([*·×/]|per\b)?\s*([^\W\d]\w*?|[°µμΩ%′″'\"][^\W\d]?\w*?)\s*"
    r"(?:(?:\*\*|\^)([+-]?\d+)|(⁻?[¹²³⁴⁵⁶⁷⁸⁹])|([23])(?![\d.]))?(?=[\s*·×/]|$)"
)
_POWER_SIGN = re.compile(r"\s*(\*\*|\^)\s*")
_JOINED = re.compile(r"(?i)\b(fluid|nautical|metric|imperial|light|survey|kilowatt|watt)\s+(\w+)")
_SUPERSCRIPTS = str.maketrans("⁻¹²³⁴⁵⁶⁷⁸⁹", "-123456789")
_ALIKE = {
    "°c": "degC", "celsius": "degC", "centigrade": "degC", "°f": "degF", "fahrenheit": "degF", "°k": "kelvin",
    "°": "degree", "'": "foot", "′": "foot", '"': "inch", "″": "inch", "%": "percent", "sqft": "foot**2",
    "sqm": "meter**2", "lbs": "pound", "kmh": "kilometer/hour", "kmph": "kilometer/hour", "cc": "centimeter**3",
    "kwh": "kilowatt_hour", "hrs": "hour", "mins": "minute", "secs": "second", "sec": "second",
}  # fmt: skip
_LETTERS = {"c": "degC", "f": "degF", "k": "kelvin"}  # of temperatures, if both units are one of these
_CURRENCY = re.compile(
    r"[$€£¥₹₩₺₽]|\b(?:USD|EUR|GBP|JPY|CNY|RMB|CHF|INR|KRW|TRY|RUB|BRL|CAD|AUD|NZD|MXN|SEK|NOK|DKK|PLN|CZK|HUF|ZAR|BTC)\b"
    r"|\b(?i:dollars?|euros?|pounds? sterling|yen|yuan|renminbi|swiss francs?|rupees?|roubles?|rubles?|pesos?|"
    r"bitcoins?)\b"
)
_NO_RATES = (
    "amounts of money have no fixed rate, and this tool knows no rates. Find the rate elsewhere, and multiply by it."
)
_WRITE = "Write a number with its unit, such as 5.3 miles or 60 km/h, and in `to` a unit alone."


class BadUnit(ValueError):
    """A quantity or a unit that cannot be read or converted; the text says what to write."""


class Units(Tool):
    """Converts a quantity."""

    name = "units"
    description = (
        "Convert a quantity into another unit: lengths, weights, volumes, areas, speeds, temperatures, energy, data "
        "and compound units such as kg*m/s^2. Gallons, pints and cups are those of the US (imperial_gallon for the "
        "British one). No currencies."
    )
    schema = arguments_schema(
        "quantity",
        "to",
        quantity={
            "type": "string",
            "minLength": 1,
            "maxLength": _MOST_CHARS,
            "description": "A number with its unit: 5.3 miles, 100 °F, 6 ft 2 in, 60 km/h",
        },
        to={"type": "string", "minLength": 1, "maxLength": _MOST_CHARS, "description": "The unit wanted: km"},
    )

    def suits(self, question: str) -> bool:
        """Whether a question has a number and two units, or a unit and a word of conversion."""
        asked = question_of(question)
        if not asked.numbers:
            return False
        found = _NAMES.within(asked) | {one.strip() for one in _SHORT.findall(asked.text)}
        return len(found) > 1 or (found != set() and _CONVERT.within(asked) != set())

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        try:
            return Done(await asyncio.to_thread(converted, arguments["quantity"], arguments["to"]))
        except BadUnit as error:
            return Refused(f"Nothing was converted: {error}", "invalid_arguments")


_LOCK = threading.Lock()


@functools.cache
def _registry() -> "UnitRegistry[Any]":
    from pint import UnitRegistry  # 0.6 s

    return UnitRegistry(non_int_type=Decimal, autoconvert_offset_to_baseunit=False)


def converted(quantity: str, to: str) -> str:
    """The quantity in another unit, for the model. Raises BadUnit."""
    if max(len(quantity), len(to)) > _MOST_CHARS:
        raise BadUnit(f"a text of more than {_MOST_CHARS} characters. {_WRITE}")
    if _CURRENCY.search(quantity) or _CURRENCY.search(to):
        raise BadUnit(_NO_RATES)
    parts = _parts(quantity)
    units = [unit for _, unit in parts]
    if {unit.casefold() for unit in (*units, to.strip())} <= {*_LETTERS, *_ALIKE, "kelvin", "degc", "degf"}:
        units, to = [_LETTERS.get(unit.casefold(), unit) for unit in units], _LETTERS.get(to.strip().casefold(), to)
    with _LOCK, localcontext() as context:  # one registry for all threads
        context.prec = 50
        return _converted([number for number, _ in parts], [_form(unit) for unit in units], _form(to))


def _known(name: str) -> str:
    """A name as pint knows it: Km and kms are km."""
    registry = _registry()
    forms = (name, name.casefold(), name.removesuffix("s"), name.casefold().removesuffix("s"))
    return next((form for form in forms if form and registry.parse_unit_name(form)), name)


def _converted(numbers: list[Decimal], units: list[str], to: str) -> str:
    from pint.errors import DimensionalityError, OffsetUnitCalculusError, UndefinedUnitError

    registry = _registry()
    try:
        wanted = registry.Unit(to)
        given = [registry.Quantity(number, unit) for number, unit in zip(numbers, units, strict=True)]
        if len(given) > 1 and not all(one._is_multiplicative for one in given):
            raise BadUnit(f"a temperature is one number with one unit. {_WRITE}")
        found = [one.to(wanted).magnitude for one in given]
        shown = " ".join(f"{_plain(one.magnitude)} {one.units}" for one in given)
        value, about = _rounded(sum(found, Decimal(0)))
        return f"{shown} = {'about ' if about else ''}{value} {wanted}"
    except UndefinedUnitError as error:
        raise BadUnit(_unknown(registry, error.unit_names)) from error
    except DimensionalityError as error:
        raise BadUnit(
            f"{error.units1} ({error.dim1 or 'a number'}) cannot become {error.units2} ({error.dim2 or 'a number'}). "
            "Check both units."
        ) from error
    except OffsetUnitCalculusError as error:
        raise BadUnit("a temperature within a compound unit. Write delta_degC or kelvin there.") from error
    except ArithmeticError as error:
        raise BadUnit("the numbers are too large. Use smaller ones.") from error


def _parts(quantity: str) -> list[tuple[Decimal, str]]:
    """Numbers with their units, as they stand. Raises BadUnit."""
    text, at, parts = _POWER_SIGN.sub("^", quantity.strip()), 0, list[tuple[Decimal, str]]()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise BadUnit(f"{quantity!r} cannot be read. {_WRITE}")
        try:
            number = calculate(part[1].strip())
        except BadExpression as error:
            raise BadUnit(f"the number {part[1].strip()!r}: {error}") from error
        value = number if isinstance(number, Decimal) else Decimal(number.numerator) / Decimal(number.denominator)
        if value and abs(value.adjusted()) > _MOST_NUMBER_DIGITS:
            raise BadUnit("the number is too large. Use a smaller one.")
        parts.append((value, part[2].strip(" ,")))
        at = part.end()
    if not parts:
        raise BadUnit(f"the quantity is missing. {_WRITE}")
    return parts


def _form(unit: str) -> str:
    """A unit as pint reads it. Raises BadUnit."""
    text = re.sub(r"(?i)\b(square|sq\.?|cubic|cu\.?)\s+(\w+)", _powered, unit.strip())
    text = re.sub(r"(?i)\b(\w+)\s+(squared|cubed)\b", lambda found: _powered(found, 2, 1), text)
    text = re.sub(
        r"(?i)\b(fluid|nautical|metric|imperial|light|survey|kilowatt|watt)\s+(\w+)",
        r"\1_\2",
        _POWER_SIGN.sub("^", text),
    )
    at, terms = 0, list[str]()
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None or len(terms) == _MOST_NAMES:
            raise BadUnit(f"the unit {unit.strip()!r} cannot be read. {_WRITE}")
        name = _ALIKE.get(term[2].casefold()) or _known(term[2])
        power = term[3] or (term[4] or "").translate(_SUPERSCRIPTS) or term[5] or "1"
        if len(power) > 3 or abs(int(power)) > _MOST_POWER:
            raise BadUnit(f"the power {power[:20]} of a unit. Write one from -{_MOST_POWER} to {_MOST_POWER}.")
        sign = "/" if term[1] in ("/", "per") else "*"
        if term[1] in ("/", "per") and not terms:
            terms.append("1")
        whole = f"({name})**{power}" if power != "1" else f"({name})" if "/" in name else name
        terms.append(f"{sign if terms else ''}{whole}")
        at = term.end()
        at += len(text[at:]) - len(text[at:].lstrip())
    if not terms:
        raise BadUnit(f"a unit is missing. {_WRITE}")
    return "".join(terms)


def _powered(found: "re.Match[str]", word: int = 1, unit: int = 2) -> str:
    return f"{found[unit]}^{3 if found[word].casefold().startswith('cu') else 2}"


def _unknown(registry: "UnitRegistry[Any]", names: Any) -> str:
    name = str(names if isinstance(names, str) else next(iter(names), ""))
    close = difflib.get_close_matches(name, _names(), 3, 0.7)
    hint = f"Is {' or '.join(close)} meant?" if close else "Write its English name."
    return f"there is no unit {name!r}. {hint}"


@functools.cache
def _names() -> list[str]:
    return [name for name in dir(_registry()) if not name.startswith("_")]


def _rounded(value: Decimal) -> tuple[str, bool]:
    """A value with at most 15 significant digits, and whether digits are left out."""
    with localcontext() as context:
        context.prec = _SHOWN_DIGITS
        rounded = +value
    # The last digits of a quotient of 50 digits are noise.
    return _plain(rounded), abs(rounded - value) > abs(value) * Decimal("1e-40")


def _plain(value: Decimal) -> str:
    if not value:
        return "0"
    value = value.normalize()
    return f"{value:f}" if -12 < value.adjusted() < 21 else f"{value}"


# --- questions that need it -------------------------------------------------------------------------------------------

_CONVERT = WordList.of(
    "convert*, conversion, umrechn*, umgerechnet, convertir, convertis, convierte, convertire, converti",
    "converter, converta, omrekenen, конвертир*, переве*, çevir*, 换算, 转换, 換算, 変換, 변환, 환산, حول",
    "تحويل, बदलें",
)
_NAMES = WordList.of(
    "km, cm, mm, kg, mg, lb, lbs, oz, ft, yd, ml, dl, gal, mph, kph, kmh, km/h, m/s, psi, kpa, hpa, kwh, mwh",
    "kw, mw, hp, ps, btu, kcal, kj, kb, mb, gb, tb, kib, mib, gib, tib, mbit, gbit, m², m2, m³, m3, sqm, sqft",
    "°c, °f, ℃, ℉, knots, metre*, meter*, kilomet*, centimet*, millimet*, inch*, foot, feet, yard*, mile*",
    "gram*, kilogram*, kilos, kilo, pound*, ounce*, ton, tons, tonne*, liter*, litre*, millilit*, gallon*",
    "pint*, quart*, cup, cups, teaspoon*, tablespoon*, celsius, fahrenheit, kelvin, acre*, hectare*, joule*",
    "calorie*, horsepower, kilobyte*, megabyte*, gigabyte*, terabyte*, zoll, fuß, meile*, pfund, unze*",
    "hektar*, mètre*, pouce*, pied*, livre*, once*, mille, metro*, pulgada*, pie, pies, milla*, libra*, onza*",
    "litro*, galón*, pollici, piedi, miglia, libbre, polegada*, pés, milha*, mijl*, voet, pond, метр*",
    "километр*, сантиметр*, дюйм*, фут*, мил*, фунт*, унци*, литр*, градус*, по цельсию, по фаренгейту",
    "килограмм*, тонн*, mil, fit, inç, galon*, 公里, 千米, 英里, 厘米, 英寸, 英尺, 公斤, 千克, 磅, 盎司, 升",
    "加仑, 摄氏, 华氏, 公顷, 英亩, キロ, マイル, メートル, インチ, フィート, ポンド, オンス, リットル, ガロン",
    "摂氏, 華氏, 킬로, 마일, 미터, 인치, 피트, 파운드, 온스, 리터, 갤런, 섭씨, 화씨, كيلو, ميل, متر, بوصة, قدم",
    "رطل, أوقية, لتر, غالون, مئوية, فهرنهايت, किलो, मील, मीटर, इंच, फुट, पाउंड, औंस, लीटर, गैलन, सेल्सियस",
    "फ़ारेनहाइट",
)
_SHORT = re.compile(
    r"(?:(?<=\d)|(?<=\d )|(?<=\bto )|(?<=\binto )|(?<=\bin ))[mgltfckjw]\b(?!['’])|\d\s?in(?=\s(?:to|into|in|=|→)\s)"
)
