"""Dates, durations and time zones as a tool: what day it is, how long until, which weekday.

The work is bounded: years from 1 to 9999, and business days one by one only up to a limit.
"""

import difflib
import functools
import re
import zoneinfo
from calendar import isleap, monthrange
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any

from proxy.agent.toolbox import Calling, Done, Refused, Tool, ToolResult, arguments_schema
from proxy.agent.tools.wording import WordList, question_of

_MOST_CHARS = 60
_MOST_HOLIDAYS = 200
_MOST_BUSINESS_DAYS = 10_000
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ]+(.+))?", re.IGNORECASE)
_TIME = re.compile(
    r"(\d{1,2})(?::(\d{2}))?(?::(\d{2})(?:\.\d+)?)?\s*(am|pm|a\.m\.|p\.m\.)?\s*(z|utc|[+-]\d{2}:?\d{2})?", re.IGNORECASE
)
_OFFSET = re.compile(r"(?:utc|gmt)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_AMOUNT = re.compile(r"([+-]?)\s*(\d{1,7}(?:\.\d{1,6})?)\s*([a-z]+(?: days?)?)", re.IGNORECASE)
_ISO_DURATION = re.compile(
    r"([+-]?)P(?:(\d{1,7})Y)?(?:(\d{1,7})M)?(?:(\d{1,7})W)?(?:(\d{1,7})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,7})M)?(?:(\d{1,7})S)?)?",
    re.IGNORECASE,
)
_ISO_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_UNITS = {
    **dict.fromkeys(("year", "years", "y", "yr", "yrs"), "year"),
    **dict.fromkeys(("month", "months", "mo"), "month"),
    **dict.fromkeys(("week", "weeks", "w", "wk"), "week"),
    **dict.fromkeys(("day", "days", "d"), "day"),
    **dict.fromkeys(("business day", "business days", "working day", "working days", "workdays"), "business day"),
    **dict.fromkeys(("hour", "hours", "h", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "minute"),
    **dict.fromkeys(("second", "seconds", "s", "sec", "secs"), "second"),
}
_SECONDS = {"hour": 3_600, "minute": 60, "second": 1}
_NAMED = {"today": 0, "tomorrow": 1, "yesterday": -1}
_WRITE_DATE = "Write YYYY-MM-DD, YYYY-MM-DD HH:MM, today or now."
_WRITE_AMOUNT = "Write 90 days, -3 months, 10 business days or 1 hour 30 minutes."


class BadDate(ValueError):
    """Arguments that name no date; the text says what to write."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(eq=False)
class Dates(Tool):
    """Computes with dates."""

    now: Callable[[], datetime] = _now
    name = "dates"
    description = (
        "The current date and time, and exact computations with dates. do=now: the present; do=about: weekday and ISO "
        "week of a date; do=between: time and business days from date to `to`; do=add: date plus an amount; "
        "do=convert: a time in another time zone."
    )
    schema = arguments_schema(
        "do",
        do={"type": "string", "enum": ["now", "about", "between", "add", "convert"]},
        date={
            "type": "string",
            "maxLength": _MOST_CHARS,
            "description": "YYYY-MM-DD or YYYY-MM-DD HH:MM, or today, tomorrow, yesterday, now (default)",
        },
        to={"type": "string", "maxLength": _MOST_CHARS, "description": "Of between: the second date"},
        amount={
            "type": "string",
            "maxLength": _MOST_CHARS,
            "description": "Of add: 90 days, -3 months, 10 business days",
        },
        zone={
            "type": "string",
            "maxLength": _MOST_CHARS,
            "description": "Time zone of date, such as Europe/Berlin (default: UTC)",
        },
        to_zone={"type": "string", "maxLength": _MOST_CHARS, "description": "Of convert: the other time zone"},
        holidays={
            "type": "array",
            "items": {"type": "string", "maxLength": _MOST_CHARS},
            "maxItems": _MOST_HOLIDAYS,
            "description": "Days off (YYYY-MM-DD) beside Saturdays and Sundays",
        },
    )

    def suits(self, question: str) -> bool:
        """Whether a question is about the present day, or has two dates, or a date and a span."""
        asked = question_of(question)
        if _PRESENT.within(asked):
            return True
        dates = len(_SOME_DATE.findall(asked.text)) if asked.numbers else 0
        return dates > 1 or (dates > 0 and _SPAN.within(asked) != set())

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        try:
            return Done(self.answer(**arguments), known=True)
        except BadDate as error:
            return Refused(f"Nothing was computed: {error}", "invalid_arguments")
        except OverflowError:
            return Refused("Nothing was computed: years go from 1 to 9999.", "invalid_arguments")

    def answer(
        self,
        do: str,
        date: str = "now",
        to: str = "",
        amount: str = "",
        zone: str = "",
        to_zone: str = "",
        holidays: Collection[str] = (),
    ) -> str:
        """The text for the model. Raises BadDate, OverflowError."""
        own_zone = zone_of(zone) if zone.strip() else UTC
        if do == "now":
            return _described(self.now().astimezone(own_zone))
        moment = self._moment(date, own_zone)
        if do == "convert":
            if not to_zone.strip():
                raise BadDate("to_zone is missing. Write a zone such as Asia/Tokyo.")
            there = _with_zone(moment, own_zone).astimezone(zone_of(to_zone))
            return f"{_described(there)}{_doubt(moment, own_zone)}"
        days_off = {_day(self._moment(one, own_zone)) for one in holidays}
        if do == "between":
            if not to.strip():
                raise BadDate(f"the second date is missing. {_WRITE_DATE}")
            return _between(moment, self._moment(to, own_zone), own_zone, days_off)
        if do == "add":
            return _added(moment, amounts_of(amount), own_zone, days_off)
        return _described(moment)

    def _moment(self, text: str, zone: tzinfo) -> "date | datetime":
        """A day, or a time with its zone. Raises BadDate."""
        text = " ".join(text.casefold().split())
        present = self.now().astimezone(zone)
        if text in ("now", ""):
            return present
        word, _, clock = text.partition(" ")
        try:
            if word in _NAMED:
                day = present.date() + timedelta(days=_NAMED[word])
                return _at(day, clock.removeprefix("at "), zone) if clock else day
            if found := _DATE.fullmatch(text):
                day = date(int(found[1]), int(found[2]), int(found[3]))
                return _at(day, found[4], zone) if found[4] else day
            if ":" in text or text.endswith(("am", "pm", "a.m.", "p.m.")):
                return _at(present.date(), text, zone)
        except ValueError as error:
            raise BadDate(f"{text!r}: {error}. {_WRITE_DATE}") from error
        raise BadDate(f"{text!r} is not a date. {_WRITE_DATE}")


def _at(day: date, clock: str, zone: tzinfo) -> datetime:
    """Raises ValueError."""
    found = _TIME.fullmatch(clock.strip())
    if found is None:
        raise ValueError("the time cannot be read")
    hour = int(found[1])
    if half := (found[4] or "")[:1]:
        if not 1 <= hour <= 12:
            raise ValueError("an hour with am or pm goes from 1 to 12")
        hour = hour % 12 + (12 if half == "p" else 0)
    if offset := found[5]:
        zone = UTC if offset in ("z", "utc") else _fixed(offset)
    return datetime.combine(day, time(hour, int(found[2] or 0), int(found[3] or 0)), zone)


# --- zones ------------------------------------------------------------------------------------------------------------


def zone_of(name: str) -> tzinfo:
    """A time zone by its name, by its city, or by a distance from UTC. Raises BadDate."""
    name = name.strip()
    if name.casefold() in ("utc", "gmt", "z"):
        return UTC
    if _OFFSET.fullmatch(name):
        return _fixed(name)
    known = _zones()
    wanted = name.casefold().replace(" ", "_")
    if wanted in known:
        return zoneinfo.ZoneInfo(known[wanted])
    close = [known[one] for one in difflib.get_close_matches(wanted, known, 3, 0.7)]
    hint = f"Is {' or '.join(dict.fromkeys(close))} meant?" if close else "Write a name such as America/New_York."
    raise BadDate(f"there is no time zone {name!r}. {hint}")


@functools.cache
def _zones() -> dict[str, str]:
    """Names in small letters, and their cities alone, with the names."""
    names = sorted(zoneinfo.available_timezones())
    cities = {name.rpartition("/")[2].casefold(): name for name in reversed(names) if "/" in name}
    return cities | {name.casefold(): name for name in names}


def _fixed(text: str) -> tzinfo:
    found = _OFFSET.fullmatch(text)
    assert found is not None, "the callers have matched it"
    offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    if offset >= timedelta(hours=24):
        raise BadDate(f"{text!r} is more than a day from UTC. Write UTC+02:00.")
    return timezone(-offset if found[1] == "-" else offset)


def _with_zone(moment: date, zone: tzinfo) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time(), zone)


def _doubt(moment: date, zone: tzinfo) -> str:
    """What is odd about a local time at a change of the clocks."""
    if not isinstance(moment, datetime) or moment.tzinfo is not zone:
        return ""
    first, second = moment.replace(fold=0).utcoffset(), moment.replace(fold=1).utcoffset()
    if first == second or first is None or second is None:
        return ""
    if first < second:
        return ". The clocks skip this local time: they go forward"
    return ". This local time comes twice, because the clocks go back: the first one is meant"


# --- answers ----------------------------------------------------------------------------------------------------------


def _described(moment: date) -> str:
    year, week, _ = moment.isocalendar()
    day = moment.timetuple().tm_yday
    days = 366 if isleap(moment.year) else 365
    words = f"{moment:%A}, ISO week {year}-W{week:02}, day {day} of {days}"
    if not isinstance(moment, datetime):
        return f"{moment.isoformat()} ({words})"
    return f"{_shown(moment)} ({words})"


def _shown(moment: date) -> str:
    if not isinstance(moment, datetime):
        return moment.isoformat()
    name = moment.tzinfo.key if isinstance(moment.tzinfo, zoneinfo.ZoneInfo) else ""
    offset = moment.strftime("%z")
    offset = "UTC" if offset in ("+0000", "") else f"UTC{offset[:3]}:{offset[3:5]}"
    return f"{moment.date().isoformat()} {moment:%H:%M:%S} {f'{name}, ' if name else ''}{offset}"


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _between(first: date, last: date, zone: tzinfo, days_off: Collection[date]) -> str:
    parts = []
    if isinstance(first, datetime) or isinstance(last, datetime):
        passed = _with_zone(last, zone).astimezone(UTC) - _with_zone(first, zone).astimezone(UTC)
        seconds = round(passed.total_seconds())
        parts.append(f"{_clock_span(seconds)} ({seconds:,} seconds)")
    start, end = _day(first), _day(last)
    days = (end - start).days
    parts.append(f"{_counted(days, 'day')}")
    if abs(days) >= 7:
        weeks, rest = divmod(abs(days), 7)
        parts.append(f"{_counted(weeks, 'week')} and {_counted(rest, 'day')}")
        parts.append(_calendar_span(min(start, end), max(start, end)))
    business = business_days(start, end, days_off)
    without = f" and {_counted(len({*days_off}), 'holiday')}" if days_off else ""
    parts.append(
        f"{_counted(business, 'business day')} (from the first date, without the second, without Saturdays, "
        f"Sundays{without})"
    )
    before = ", which is before" if days < 0 else ""
    return f"From {_shown(first)} to {_shown(last)}{before}: {'; '.join(parts)}"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if abs(number) == 1 else 's'}"


def _clock_span(seconds: int) -> str:
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{'-' if seconds < 0 else ''}{hours:,} h {minutes} min {rest} s"


def _calendar_span(start: date, end: date) -> str:
    """Years, months and days."""
    months = (end.year - start.year) * 12 + end.month - start.month
    months -= _months_later(start, months) > end
    days = (end - _months_later(start, months)).days
    years, rest = divmod(months, 12)
    named = ((years, "year"), (rest, "month"), (days, "day"))
    return " ".join(_counted(number, word) for number, word in named if number) or "0 days"


def _months_later(day: date, months: int) -> date:
    """The same day of another month, or the last day of a shorter one. Raises OverflowError."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return day.replace(year=year, month=month + 1, day=min(day.day, monthrange(year, month + 1)[1]))


def business_days(start: date, end: date, days_off: Collection[date] = ()) -> int:
    """Mondays to Fridays from the start, without the end and without days off; below 0 if the end is before."""
    if end < start:
        return -business_days(end, start, days_off)
    weeks, rest = divmod((end - start).days, 7)
    found = weeks * 5 + sum((start.weekday() + at) % 7 < 5 for at in range(rest))
    return found - sum(start <= one < end and one.weekday() < 5 for one in {*days_off})


def amounts_of(text: str) -> list[tuple[float, str]]:
    """Numbers with their units. Raises BadDate."""
    text = " ".join(text.split())
    found = _ISO_DURATION.fullmatch(text)
    if found is not None and any(found.groups()[1:]):
        sign = -1 if found[1] == "-" else 1
        pairs = zip(found.groups()[1:], _ISO_UNITS, strict=True)
        return [(sign * int(number), unit) for number, unit in pairs if number]
    amounts, at, sign = list[tuple[float, str]](), 0, 1
    while at < len(text):
        part = _AMOUNT.match(text, at)
        unit = _UNITS.get(part[3].casefold(), "") if part is not None else ""
        if part is not None and not unit:  # a month, or a minute
            hours = any(unit == "hour" for _, unit in amounts)
            unit = "minute" if hours and part[3].casefold() == "m" else ""
        if part is None or not unit:
            raise BadDate(f"the amount {text!r} cannot be read. {_WRITE_AMOUNT}")
        sign = (-1 if part[1] == "-" else 1) if part[1] else sign  # of all that follow, as in -1 year 2 months
        amounts.append((sign * float(part[2]), unit))
        at = part.end()
        while at < len(text) and text[at] in " ,":
            at += 1
        if text[at : at + 4].casefold() == "and ":
            at += 4
    if not amounts:
        raise BadDate(f"the amount is missing. {_WRITE_AMOUNT}")
    return amounts


def _added(moment: date, amounts: list[tuple[float, str]], zone: tzinfo, days_off: Collection[date]) -> str:
    """Years and months first, then weeks and days, by the calendar; then hours, as they pass. Raises BadDate."""
    sums: dict[str, float] = {}
    for number, unit in amounts:
        sums[unit] = sums.get(unit, 0) + number
    for unit, number in sums.items():
        if unit not in _SECONDS and number % 1:
            raise BadDate(f"{number:g} {unit}s is not a whole number. {_WRITE_AMOUNT}")
    moved, notes = moment, ""
    if months := round(sums.get("year", 0) * 12 + sums.get("month", 0)):
        moved = _months_later(moved, months)
        if moved.day != moment.day:
            notes = f". The month has no day {moment.day}"
    moved += timedelta(days=sums.get("week", 0) * 7 + sums.get("day", 0))
    if business := round(sums.get("business day", 0)):
        moved += timedelta(days=_business_distance(_day(moved), business, days_off))
    if seconds := sum(number * _SECONDS[unit] for unit, number in sums.items() if unit in _SECONDS):
        aware = _with_zone(moved, zone)
        moved = (aware.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(aware.tzinfo)
    elif isinstance(moved, datetime) and moved.tzinfo is not None:
        notes += _doubt(moved, moved.tzinfo)
    return f"{_described(moved)}{notes}"


def _business_distance(day: date, number: int, days_off: Collection[date]) -> int:
    """How many days a number of business days is. Raises BadDate, OverflowError."""
    if abs(number) > _MOST_BUSINESS_DAYS:
        raise BadDate(f"more than {_MOST_BUSINESS_DAYS:,} business days. Add weeks, of 5 business days each.")
    step, left, moved = (1 if number > 0 else -1), abs(number), day
    off = {*days_off}
    while left:
        moved += timedelta(days=step)
        left -= moved.weekday() < 5 and moved not in off
    return (moved - day).days


# --- questions that need it -------------------------------------------------------------------------------------------

_SOME_DATE = re.compile(
    r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\d{1,4}\s?[年년]"
    r"|\b\d{1,2}(?:\.|st|nd|rd|th|º)?\s(?:de\s)?[^\W\d_]{3,}\.?,?\s(?:de\s)?\d{4}\b"  # 1 May 2024, 1 de mayo de 2024
    r"|\b[^\W\d_]{3,}\.?\s\d{1,2}(?:st|nd|rd|th)?,?\s\d{4}\b"  # May 1, 2024
)
_PRESENT = WordList.of(
    "today, tomorrow, yesterday, what time, time is it, what date, what day, which day, current time",
    "current date, weekday, day of the week, business day*, working day*, workday*, calendar week, week number",
    "time zone*, timezone*, days ago, weeks ago, months ago, years ago, from now, days until, days till",
    "how long until, how long ago, this week, this month, this year, last week, last month, last year",
    "next week, next month, next year, last # days, past # days, heute, morgen, gestern, wie spät, wieviel uhr",
    "wie viel uhr, welches datum, wochentag, werktag*, arbeitstag*, kalenderwoche, zeitzone*, vor # tagen",
    "in # tagen, wie lange noch, diese woche, diesen monat, letzte woche, letzten monat, letztes jahr",
    "nächste woche, nächsten monat, nächstes jahr, letzten # tagen, aujourd'hui, demain, hier, quelle heure",
    "quel jour, quelle date, jours ouvrés, jours ouvrables, fuseau*, il y a, semaine dernière, mois dernier",
    "semaine prochaine, mois prochain, hoy, ayer, qué hora, qué día, qué fecha, día hábil, días hábiles",
    "días laborables, zona horaria, hace # días, semana pasada, mes pasado, próxima semana, oggi, domani, ieri",
    "che ora, che ore, che giorno, giorni lavorativi, fuso orario, settimana scorsa, mese scorso, hoje, amanhã",
    "ontem, que horas, que dia, dias úteis, fuso horário, semana passada, mês passado, vandaag, gisteren",
    "hoe laat, welke dag, welke datum, werkdag*, tijdzone*, vorige week, vorige maand, сегодня, завтра, вчера",
    "который час, сколько времени, какой день, какая дата, рабочих дн*, часовой пояс, на прошлой неделе",
    "в прошлом месяце, bugün, yarın, dün, saat kaç, hangi gün, iş günü, saat dilimi, geçen hafta, 今天, 明天",
    "昨天, 几点, 星期几, 几号, 工作日, 时区, 天前, 上周, 上个月, 下周, 今日, 明日, 昨日, 何時, 何曜日, 営業日",
    "タイムゾーン, 日前, 先週, 先月, 来週, 오늘, 내일, 어제, 몇 시, 무슨 요일, 영업일, 시간대, 일 전, 지난주",
    "지난달, اليوم, غدا, أمس, كم الساعة, أي يوم, أيام عمل, المنطقة الزمنية, الأسبوع الماضي, الشهر الماضي, आज",
    "बीता कल, आने वाला कल, कितने बजे, कौन सा दिन, कार्य दिवस, समय क्षेत्र, पिछले सप्ताह, पिछले महीने",
)
_SPAN = WordList.of(
    "day*, week*, month*, year*, how long, before, after, until, since, between, later, tag*, woche*, monat*",
    "jahr*, wie lange, vor, nach, bis, seit, zwischen, jour*, semaine*, mois, année*, avant, après, jusqu*",
    "depuis, entre, día*, semana*, mes*, año*, antes, después, hasta, desde, giorn*, settiman*, mesi, anni",
    "prima, dopo, fino, tra, dia*, mês, meses, ano*, depois, até, dag*, weken, maand*, jaar, jaren, voor, na",
    "tot, sinds, tussen, hoe lang, день, дня, дней, недел*, месяц*, год*, лет, до, после, между, gün*, hafta*",
    "ay, yıl*, önce, sonra, arasında, 天, 周, 月后, 年后, 多久, 日間, 週間, か月, いつ, 일, 주, 개월, يوم",
    "أسبوع, شهر, سنة, दिन, सप्ताह, महीने, साल",
)
