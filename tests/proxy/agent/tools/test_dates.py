"""The tool for dates, against Python's datetime and zoneinfo; and hostile arguments."""

import re
import time
import zoneinfo
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.agent.toolbox import Refused
from proxy.agent.tools.dates import BadDate, Dates, business_days, zone_of
from tests.support.action_offers import calling

NOW = datetime(2026, 11, 27, 20, 41, 3, tzinfo=UTC)
DATES = Dates(lambda: NOW)
DAYS = st.dates(date(1900, 1, 1), date(2100, 12, 31))
MOMENTS = st.integers(0, 29_000_000).map(lambda one: datetime.fromisoformat("1980-01-01") + timedelta(minutes=one))
ZONES = st.sampled_from(
    ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo"]
)


@settings(max_examples=100)
@given(DAYS, DAYS, st.lists(DAYS, max_size=3))
def test_days_between_two_dates_are_counted(first: date, last: date, off: list[date]) -> None:
    text = DATES.answer("between", date=str(first), to=str(last), holidays=[str(one) for one in off])
    days = (last - first).days
    assert f"{days:,} day{'' if abs(days) == 1 else 's'}" in text
    start, end = min(first, last), max(first, last)
    counted = sum(
        (start + timedelta(days=at)).weekday() < 5 and start + timedelta(days=at) not in off
        for at in range((end - start).days)
    )
    assert business_days(start, end, set(off)) == counted
    assert f"{counted if days >= 0 else -counted:,} business day" in text


@settings(max_examples=100)
@given(DAYS, st.integers(-600, 600), st.integers(-3000, 3000))
def test_amounts_are_added_by_the_calendar(day: date, months: int, days: int) -> None:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    moved = date(year, month + 1, min(day.day, monthrange(year, month + 1)[1])) + timedelta(days=days)
    text = DATES.answer("add", date=str(day), amount=f"{months} months, {days:+} days")
    iso = moved.isocalendar()
    assert text.startswith(f"{moved} ({moved:%A}, ISO week {iso.year}-W{iso.week:02}, ")


@settings(max_examples=50)
@given(DAYS, st.integers(-300, 300), st.lists(DAYS, max_size=2))
def test_business_days_are_added_one_by_one(day: date, number: int, off: list[date]) -> None:
    moved, left = day, abs(number)
    while left:
        moved += timedelta(days=1 if number > 0 else -1)
        left -= moved.weekday() < 5 and moved not in off
    text = DATES.answer("add", date=str(day), amount=f"{number} business days", holidays=[str(one) for one in off])
    assert text.startswith(f"{moved} ")


@settings(max_examples=100)
@given(MOMENTS, ZONES, ZONES, st.integers(-5_000, 5_000))
def test_times_go_from_zone_to_zone_and_hours_pass_as_they_do(
    moment: datetime, zone: str, other: str, minutes: int
) -> None:
    here = moment.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    there = here.astimezone(zoneinfo.ZoneInfo(other))
    text = DATES.answer("convert", date=f"{moment:%Y-%m-%d %H:%M}", zone=zone, to_zone=other)
    assert text.startswith(f"{there:%Y-%m-%d %H:%M:%S} {other}, UTC")
    odd = here.replace(fold=1).utcoffset() != here.utcoffset()
    assert ("local time" in text) == odd
    later = (here.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(zoneinfo.ZoneInfo(zone))
    text = DATES.answer("add", date=f"{moment:%Y-%m-%d %H:%M}", zone=zone, amount=f"{minutes} minutes")
    if minutes:
        assert text.startswith(f"{later:%Y-%m-%d %H:%M:%S} {zone}")
    seconds = round((later.astimezone(UTC) - here.astimezone(UTC)).total_seconds())
    if later.fold == 0:
        text = DATES.answer("between", date=f"{moment:%Y-%m-%d %H:%M}", to=f"{later:%Y-%m-%d %H:%M}", zone=zone)
        assert f"({seconds:,} seconds)" in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"do": "now"}, "2026-11-27 20:41:03 UTC (Friday, ISO week 2026-W48, day 331 of 365)"),
        ({"do": "now", "zone": "new york"}, "2026-11-27 15:41:03 America/New_York, UTC-05:00"),
        ({"do": "now", "zone": "UTC+5:30"}, "2026-11-28 02:11:03 UTC+05:30"),
        ({"do": "about", "date": "today"}, "2026-11-27 (Friday"),
        ({"do": "about", "date": "tomorrow"}, "2026-11-28 (Saturday"),
        ({"do": "add", "date": "2024-01-31", "amount": "1 month"}, "2024-02-29 (Thursday, ISO week 2024-W09"),
        ({"do": "add", "date": "2024-02-29", "amount": "P1Y"}, "2025-02-28"),
        ({"do": "add", "amount": "1h 30m"}, "2026-11-27 22:11:03 UTC"),
        ({"do": "add", "date": "2024-05-05", "amount": "-1 year and 2 months"}, "2023-03-05"),
        ({"do": "convert", "date": "3 pm", "zone": "Berlin", "to_zone": "tokyo"}, "2026-11-27 23:00:00 Asia/Tokyo"),
        ({"do": "between", "date": "2024-01-31", "to": "2024-03-01"}, "From 2024-01-31 to 2024-03-01: 30 days"),
        ({"do": "between", "date": "2024-02-01", "to": "2024-01-01"}, "From 2024-02-01 to 2024-01-01, which is before"),
    ],
)
def test_what_models_write_is_understood(arguments: dict[str, Any], text: str) -> None:
    assert DATES.answer(**arguments).startswith(text)


def test_a_month_that_is_too_short_and_odd_hours_are_said() -> None:
    assert DATES.answer("add", date="2024-01-31", amount="1 month").endswith("The month has no day 31")
    skipped = DATES.answer("convert", date="2024-03-31 02:30", zone="Europe/Berlin", to_zone="UTC")
    assert skipped.endswith("The clocks skip this local time: they go forward")
    twice = DATES.answer("convert", date="2024-10-27 02:30", zone="Europe/Berlin", to_zone="UTC")
    assert "This local time comes twice" in twice


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"do": "about", "date": "05/06/2024"}, "is not a date. Write YYYY-MM-DD"),
        ({"do": "about", "date": "2024-02-30"}, "day is out of range"),
        ({"do": "about", "date": "2024-02-03 25:00"}, "hour must be in"),
        ({"do": "now", "zone": "Berlim"}, "Is Europe/Berlin or "),
        ({"do": "now", "zone": "../../etc/passwd"}, "there is no time zone"),
        ({"do": "now", "zone": "UTC+99"}, "more than a day from UTC"),
        ({"do": "between", "date": "2024-01-01"}, "the second date is missing"),
        ({"do": "add", "date": "2024-01-01"}, "the amount is missing. Write 90 days"),
        ({"do": "add", "date": "2024-01-01", "amount": "soon"}, "cannot be read. Write 90 days"),
        ({"do": "add", "date": "2024-01-01", "amount": "1.5 days"}, "not a whole number"),
        ({"do": "add", "date": "2024-01-01", "amount": "30 m"}, "cannot be read"),
        ({"do": "convert", "date": "15:00"}, "to_zone is missing"),
    ],
)
def test_an_error_says_what_to_write(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(BadDate, match=re.escape(says)):
        DATES.answer(**arguments)


HOSTILE: tuple[dict[str, Any], ...] = (
    {"do": "add", "amount": "9999999 years"},
    {"do": "add", "amount": "9999999 days"},
    {"do": "add", "amount": "10000 business days", "holidays": ["2030-01-01"] * 200},
    {"do": "add", "amount": "10001 business days"},
    {"do": "add", "amount": "9999999 business days"},
    {"do": "add", "amount": "1 day " * 2_000_000},
    {"do": "add", "amount": "P" + "9" * 40 + "Y"},
    {"do": "add", "amount": "1 d" * 19},
    {"do": "between", "date": "0001-01-01", "to": "9999-12-31", "holidays": ["2030-01-01"] * 200},
    {"do": "between", "date": "0001-01-01", "to": "2024-01-01", "holidays": ["2030-01-01"] * 100_000},
    {"do": "now", "zone": "/" * 60},
    {"do": "now", "zone": "a" * 10_000_000},
    {"do": "now", "zone": "\x00"},
    {"do": "convert", "date": "0001-01-01 00:00", "zone": "Asia/Tokyo", "to_zone": "America/New_York"},
    {"do": "about", "date": "9" * 60},
    {"do": "about", "date": "2024-01-01 " + " " * 40 + "x"},
)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
async def test_the_work_for_hostile_arguments_is_bounded(number: int) -> None:
    zone_of("Tokyo")  # the list of zones is read once
    times = []
    for _ in range(3):
        began = time.process_time()
        checked = DATES.checked(HOSTILE[number])
        result = checked if isinstance(checked, Refused) else await DATES.call(checked, calling())
        times.append(time.process_time() - began)
        assert 0 < len(result.text) < 1_000
    assert min(times) < 0.1


@pytest.mark.parametrize(
    "question",
    [
        "how many units of Fruity Fedora were sold in the last 7 days?", "What time is it in Tokyo?", "今天星期几?",
        "How long is it from 1 May 2024 to 3 June 2024?", "What is 3 days after 2024-05-01?", "Welcher Wochentag?",
        "Wie viele Tage bis 24.12.2026?", "quel jour sommes-nous aujourd'hui?", "오늘 무슨 요일?", "Который час?",
    ],
)  # fmt: skip
def test_dates_suit_a_question_about_time(question: str) -> None:
    assert DATES.suits(question)


@pytest.mark.parametrize(
    "question",
    ["how many vacation days do I get?", "what happened on 2024-05-01?", "version 2.10.3", "who is on call?"],
)
def test_dates_suit_no_other_question(question: str) -> None:
    assert not DATES.suits(question)
