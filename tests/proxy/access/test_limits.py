"""Limits in memory: what passes is what a brute-force count lets pass, whatever runs, ends and settles in between."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.access.limits import NANO, LeaseGrant, Meter, Share, granted, limits_of, refusal, window
from proxy.caller import MEASURES, UNLIMITED, Limits

NOON_S = datetime(2026, 11, 22, 12, 0, 30, tzinfo=UTC).timestamp()


def stocked(limits: Limits, now_s: float = NOON_S) -> Meter:
    """A meter that holds all there is of each limit."""
    meter = Meter("key-1", limits).at(now_s, limits)
    for share in meter.shares.values():
        share.left = share.rest = share.limit
    return meter


@pytest.mark.parametrize(
    ("at", "period", "begin", "end"),
    [
        ("2026-11-22T12:00:59.9", "minute", "2026-11-22T12:00", "2026-11-22T12:01"),
        ("2026-11-22T12:01:00", "minute", "2026-11-22T12:01", "2026-11-22T12:02"),
        ("2026-11-22T23:59:59", "day", "2026-11-22T00:00", "2026-11-23T00:00"),
        ("2026-12-31T23:59:59", "month", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("2028-02-29T10:00:00", "month", "2028-02-01T00:00", "2028-03-01T00:00"),
    ],
)
def test_windows_are_the_calendars_in_utc(at: str, period: str, begin: str, end: str) -> None:
    def seconds(text: str) -> float:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()

    assert window(period, seconds(at)) == (seconds(begin), seconds(end))  # type: ignore[arg-type]


def test_what_is_limited_at_once_has_no_end() -> None:
    begin, end = window("at once", NOON_S)
    assert begin == 0
    assert end > NOON_S * 100


def test_no_limit_is_no_limit() -> None:
    assert limits_of({}) is UNLIMITED
    assert limits_of({"rpm": None}) is UNLIMITED
    assert limits_of({"rpm": 3, "usd_per_day": 1}).given() == {"rpm": 3, "usd_per_day": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [("rpm", 0), ("rpm", -1), ("rpm", 1.5), ("rpm", True), ("rpm", "3"), ("tpm", 10**16), ("usd_per_day", 0),
     ("usd_per_day", float("nan")), ("usd_per_day", float("inf")), ("usd_per_month", 1e-12), ("rps", 1)],
)  # fmt: skip
def test_what_is_no_limit_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        limits_of({name: value})


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "reserve", "settle", "close", "wait"]), st.integers(0, 40)), max_size=60
)


@given(STEPS, st.integers(1, 6), st.integers(1, 3), st.integers(1, 60))
def test_what_passes_is_what_a_brute_force_count_lets_pass(
    steps: Sequence[Step], rpm: int, concurrency: int, tpm: int
) -> None:
    """The oracle keeps every event with its minute and counts anew for each step."""
    limits = Limits(rpm=rpm, tpm=tpm, concurrency=concurrency)
    now_s = NOON_S
    meter = stocked(limits, now_s)
    requests: list[tuple[int, int]] = []  # (minute, 1)
    tokens: list[tuple[int, int]] = []  # (minute, tokens)
    running: list[dict[str, int]] = []
    admissions = []
    for what, n in steps:
        minute = int(now_s // 60)
        meter.at(now_s, limits)
        for share in meter.shares.values():  # a new window's share is leased whole
            if share.rest == 0:
                share.left = share.rest = share.limit
        used = sum(amount for at, amount in tokens if at == minute)
        if what == "enter":
            passes = sum(1 for at, _ in requests if at == minute) < rpm and len(running) < concurrency and used < tpm
            assert meter.enough(None) is passes
            if passes:
                admissions.append(meter.enter(0.0))
                requests.append((minute, 1))
                running.append({"minute": minute, "tokens": 0, "settled": 0})
        elif what == "reserve" and admissions and not admissions[-1].reserved:
            passes = used + max(n, 1) <= tpm
            assert meter.enough(n) is passes
            if passes:
                meter.reserve(admissions[-1], n)
                tokens.append((minute, n))
                running[-1] |= {"minute": minute, "tokens": n, "reserved": 1}
        elif what == "settle" and admissions and admissions[-1].reserved:
            running[-1]["settled"] += n
            admissions[-1].settle(running[-1]["settled"])  # of all calls of the request
            more = n - running[-1]["tokens"]
            if running[-1]["minute"] == minute or more > 0:
                tokens.append((minute, more))
        elif what == "close" and admissions:
            admissions.pop().close()
            running.pop()
        elif what == "wait":
            now_s += n


def test_a_ticket_gives_its_slot_back_once() -> None:
    meter = stocked(Limits(concurrency=1))
    admission = meter.enter(0.0)
    assert not meter.enough(None)
    admission.close()
    admission.close()
    assert meter.shares["concurrency"].left == 1
    assert meter.shares["concurrency"].running == 0


def test_other_limits_count_from_the_next_request_on() -> None:
    meter = stocked(Limits(rpm=5, concurrency=2))
    admission = meter.enter(0.0)
    meter.at(NOON_S, Limits(rpm=9, concurrency=2, tpm=7))
    assert meter.shares["rpm"].left == 0, "a share of another limit goes back"
    assert meter.shares["concurrency"].left == 1
    meter.at(NOON_S, Limits(tpm=7))
    assert set(meter.shares) == {"tpm"}
    admission.close()


def claim(limit: int, *, left: int = 0, running: int = 0, need: int = 0, money: bool = False) -> Share:
    return Share("key-1", "usd_per_day" if money else "rpm", limit, 0, 60, left, running, need=need)


@given(
    st.integers(1, 50), st.integers(0, 60), st.integers(0, 60), st.integers(0, 20), st.integers(0, 20),
    st.integers(0, 60),
)  # fmt: skip
def test_a_grant_never_makes_more_than_the_limit(
    limit: int, spent: int, others: int, left: int, running: int, need: int
) -> None:
    grant = granted(claim(limit, left=left, running=running, need=need), spent=spent, others=others)
    assert grant.extra >= 0
    if grant.extra:
        assert spent + others + running + left + grant.extra <= limit
    free = limit - spent - others - running - left
    if free > 0 and need > left:
        assert grant.extra >= min(free, need - left), "whoever waits gets what there is"


def test_half_is_left_for_whoever_comes_next() -> None:
    assert granted(claim(100), spent=0, others=0) == LeaseGrant(50, 100)
    assert granted(claim(100, left=50), spent=0, others=25) == LeaseGrant(0, 100)
    assert granted(claim(1), spent=0, others=0) == LeaseGrant(1, 1)
    assert granted(claim(5 * NANO, money=True), spent=2 * NANO, others=0) == LeaseGrant(3 * NANO, 3 * NANO)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_refusal_says_when_it_would_pass(measure: str) -> None:
    begin, end = window(MEASURES[measure][1], NOON_S)
    share = Share("key-1", measure, 10, begin, end)
    error = refusal(share, 1, now_s=NOON_S)
    after_s = {"minute": 30, "at once": 1}.get(MEASURES[measure][1], end - NOON_S)
    assert (error.status, error.headers) == (429, [(b"retry-after", b"%d" % after_s)])
    assert error.code == ("insufficient_quota" if "per" in measure else "rate_limit_exceeded")
    share.rest = 10  # another process holds it
    if not share.money:
        assert refusal(share, 1, now_s=NOON_S).headers == [(b"retry-after", b"1")]


def test_what_can_never_pass_says_so() -> None:
    error = refusal(Share("key-1", "tpm", 10, *window("minute", NOON_S)), 11, now_s=NOON_S)
    assert error.headers == [(b"x-should-retry", b"false")]
    assert "needs about 11 tokens" in error.message
