"""The tool for units, against pint; and hostile quantities."""

import re
import time
from typing import Any

import pint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.agent.toolbox import Refused
from proxy.agent.tools.units import BadUnit, Units, converted
from tests.support.action_offers import calling

PINT: pint.UnitRegistry[Any] = pint.UnitRegistry(autoconvert_offset_to_baseunit=False)
KINDS = (
    ("meter", "km", "mile", "foot", "inch", "nautical_mile", "light_year"),
    ("kg", "pound", "ounce", "metric_ton", "stone", "mg"),
    ("liter", "gallon", "cup", "m**3", "fluid_ounce", "imperial_pint"),
    ("m/s", "km/h", "mph", "knot", "ft/min"),
    ("joule", "kWh", "kcal", "BTU", "N*m", "kg*m**2/s**2"),
    ("pascal", "psi", "bar", "N/m^2", "atm"),
    ("byte", "kB", "MiB", "GB", "bit"),
    ("degC", "degF", "kelvin"),
    ("m^2", "acre", "hectare", "ft**2"),
)
PAIRS = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.sampled_from(kind), st.sampled_from(kind)))


@settings(max_examples=250)
@given(st.decimals("-1000000", "1000000", places=4), PAIRS)
def test_quantities_are_converted_as_pint_does(number: Any, units: tuple[str, str]) -> None:
    given_unit, wanted = units
    expected = PINT.Quantity(float(number), given_unit).to(wanted).magnitude
    text = converted(f"{number} {given_unit}", wanted)
    value = re.fullmatch(r".* = (?:about )?(\S+) .*", text)
    assert value is not None
    assert float(value[1]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("quantity", "to", "text"),
    [
        ("5 miles", "km", "5 mile = 8.04672 kilometer"),
        ("5 Miles", "KM", "5 mile = 8.04672 kilometer"),
        ("100 °F", "°C", "100 degree_Fahrenheit = about 37.7777777777778 degree_Celsius"),
        ("100 F", "C", "100 degree_Fahrenheit = about 37.7777777777778 degree_Celsius"),
        ("37 celsius", "fahrenheit", "37 degree_Celsius = 98.6 degree_Fahrenheit"),
        ("6 ft 2 in", "cm", "6 foot 2 inch = 187.96 centimeter"),
        ("5' 3\"", "cm", "5 foot 3 inch = 160.02 centimeter"),
        ("1/2 inch", "mm", "0.5 inch = 12.7 millimeter"),
        ("1,234.5 kg", "g", "1234.5 kilogram = 1234500 gram"),
        ("5 meters per second", "km/h", "5 meter / second = 18 kilometer / hour"),
        ("3 cubic meters", "liters", "3 meter ** 3 = 3000 liter"),
        ("2 m²", "cm^2", "2 meter ** 2 = 20000 centimeter ** 2"),
        ("1 kg*m/s^2", "newton", "1 kilogram * meter / second ** 2 = 1 newton"),
        ("1 hour 30 min", "s", "1 hour 30 minute = 5400 second"),
    ],
)
def test_what_models_write_is_understood(quantity: str, to: str, text: str) -> None:
    assert converted(quantity, to) == text


@pytest.mark.parametrize(
    ("quantity", "to", "says"),
    [
        ("100 USD", "EUR", "this tool knows no rates"),
        ("100 pounds", "dollars", "this tool knows no rates"),
        ("5 €", "km", "this tool knows no rates"),
        ("5 miles", "kg", "mile ([length]) cannot become kilogram ([mass])"),
        ("5 meterz", "km", "Is meter"),
        ("5", "km", "Write a number with its unit"),
        ("5 km", " ", "a unit is missing"),
        ("3,5 kg", "lb", "Write 3.5, not 3,5"),
        ("20 °C 5 °C", "K", "one number with one unit"),
        ("5 m^99", "km", "the power 99 of a unit"),
    ],
)
def test_an_error_says_what_to_write(quantity: str, to: str, says: str) -> None:
    with pytest.raises(BadUnit, match=re.escape(says)):
        converted(quantity, to)


HOSTILE = (
    ("9**9**9 m", "km"), ("1e999999999 m", "km"), ("1e90 m^9", "mm^9"), ("5 m" + "*m" * 45, "km"),
    ("5 m^" + "9" * 90, "m"), ("5 " + "(" * 90, "km"), ("1 m " * 2_000_000, "km"), ("1 m", "k" * 100),
    ("1 __class__", "m"), ("1 m", "m; import os"), ("1 " + "a" * 98, "m"), ("1 \x00", "m"), ("1 m " * 25, "km"),
    ("1 " + "m/" * 48, "m"), ("1 m", "9" * 100),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_the_work_for_a_hostile_quantity_is_bounded(number: int) -> None:
    tool, (quantity, to) = Units(), HOSTILE[number]
    converted("1 m", "km")  # pint is imported on first use
    times = []
    for _ in range(3):
        began = time.process_time()
        checked = tool.checked({"quantity": quantity, "to": to})
        result = checked if isinstance(checked, Refused) else await tool.call(checked, calling())
        times.append(time.process_time() - began)
        assert 0 < len(result.text) < 1_000
    assert min(times) < 0.1


@pytest.mark.parametrize(
    "question",
    [
        "how many km is 5 miles?", "100 F to C", "convert 5 kg", "What is 5 GB in MiB?", "5英里是多少公里", "5 ft in m",
        "3 Meilen in Kilometer",
    ],
)  # fmt: skip
def test_units_suit_a_question_with_two_units(question: str) -> None:
    assert Units().suits(question)


@pytest.mark.parametrize(
    "question",
    ["how far is 5 km?", "what does the 3 in one plan cost?", "the plan with 10 GB storage", "100 dollars in euros"],
)  # fmt: skip
def test_units_suit_no_other_question(question: str) -> None:
    assert not Units().suits(question)
