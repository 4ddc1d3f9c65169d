"""Limits of a key: how many requests, tokens and dollars in a window, how many requests at once; counted in memory.

A window is a minute of the clock, a day or a month, in UTC; for what is limited at once it has no end. Of each limit
this process holds a `Share`: units that no other process can use, leased from the accounts by the ledger. So what is
taken from a share is exact, whatever other processes do, and costs a subtraction. Money is told by the accounts and not
leased: a request takes none of it, its price is known after it.

Nothing here waits, reads a clock or knows of a database.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from math import ceil, inf
from typing import Literal

from proxy.errors import ApiError

Period = Literal["minute", "day", "month", "at once"]
Unit = Literal["requests", "tokens", "dollars"]

NANO = 1_000_000_000  # dollars are counted in billionths: a token costs some hundred of them
_FOR_EVER_S = 2**40
_MOST = 10**15  # of anything: sums of it fit into 64 bits


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a key; None: no limit."""

    rpm: int | None = None
    tpm: int | None = None
    concurrency: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    usd_per_day: float | None = None
    usd_per_month: float | None = None

    def given(self) -> dict[str, int | float]:
        """Those that there are."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


UNLIMITED = Limits()

# What each limit counts, in which window.
MEASURES: Mapping[str, tuple[Unit, Period]] = {
    "rpm": ("requests", "minute"),
    "tpm": ("tokens", "minute"),
    "concurrency": ("requests", "at once"),
    "tokens_per_day": ("tokens", "day"),
    "tokens_per_month": ("tokens", "month"),
    "usd_per_day": ("dollars", "day"),
    "usd_per_month": ("dollars", "month"),
}
WORDS = {
    "rpm": "requests a minute", "tpm": "tokens a minute", "concurrency": "requests at once",
    "tokens_per_day": "tokens a day", "tokens_per_month": "tokens a month", "usd_per_day": "dollars a day",
    "usd_per_month": "dollars a month",
}  # fmt: skip


def limits_of(given: Mapping[str, object]) -> Limits:
    """Limits from foreign JSON. Raises ValueError: a name that there is not, a value that is no limit."""
    for name, value in given.items():
        if name not in MEASURES:
            raise ValueError(f"there is no limit {name!r}; there are {', '.join(MEASURES)}")
        whole = MEASURES[name][0] != "dollars"
        fits = isinstance(value, int) if whole else isinstance(value, int | float)
        if value is None:
            continue
        if not fits or isinstance(value, bool) or not 0 < value <= _MOST / (1 if whole else NANO):  # type: ignore[operator]
            raise ValueError(f"{name} must be a {'whole ' if whole else ''}number above 0, got {value!r}")
        if not whole and units(name, value) < 1:  # type: ignore[arg-type]
            raise ValueError(f"{name} must be a billionth of a dollar at least, got {value!r}")
    found = Limits(**given)  # type: ignore[arg-type]
    return found if found.given() else UNLIMITED


def units(measure: str, limit: float) -> int:
    """A limit as it is counted: dollars in billionths."""
    return round(limit * NANO) if MEASURES[measure][0] == "dollars" else int(limit)


def window(period: Period, now_s: float) -> tuple[int, int]:
    """Begin and end of the window that a time is in, in seconds since the epoch."""
    if period == "at once":
        return 0, _FOR_EVER_S
    if period == "month":
        begin = datetime.fromtimestamp(now_s, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        return int(begin.timestamp()), int(end.timestamp())
    length_s = 60 if period == "minute" else 86_400
    begin_s = int(now_s // length_s) * length_s
    return begin_s, begin_s + length_s


@dataclass(slots=True, eq=False)
class Share:
    """What this process has of one limit in one window, in units."""

    measure: str
    limit: int
    starts_s: int
    ends_s: int
    left: int = 0  # may still be used here. Of money: what is left for everybody, as last told
    running: int = 0  # in use now, of what is limited at once
    used: int = 0  # and not reported yet; below 0 where less was used than had been reserved
    need: int = 0  # of requests that wait for more
    rest: int = 0  # what nobody had used yet, as last told
    dry_until_s: float = -inf  # until then it is of no use to ask for more
    used_s: float = -inf  # when something was last wanted of it

    @property
    def at_once(self) -> bool:
        """Whether it limits what runs at the same time."""
        return self.starts_s == 0

    @property
    def money(self) -> bool:
        """Whether it counts dollars."""
        return MEASURES[self.measure][0] == "dollars"

    def has(self, amount: int) -> bool:
        """Whether so much may be used here now."""
        return self.left > 0 if self.money else self.left >= max(amount, 1)

    def take(self, amount: int) -> None:
        """Use some of what is left."""
        if self.at_once:
            self.running += amount
        elif not self.money:
            self.used += amount
        else:
            return
        self.left -= amount

    def give_back(self) -> None:
        """One request fewer runs."""
        self.running -= 1
        self.left += 1


@dataclass(frozen=True, slots=True)
class Claim:
    """What a process says of a share, and wants of it."""

    key: str
    measure: str
    limit: int
    starts_s: int
    ends_s: int
    left: int
    running: int
    used: int
    need: int
    money: bool


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer: so much more may be used here (of money: is left), and so much nobody has used yet."""

    extra: int
    rest: int


@dataclass(slots=True, eq=False)
class Ticket:
    """What one request holds of its key's limits."""

    meter: "Meter"
    slot: Share | None
    reserved_tokens: int = 0
    reserved: tuple[Share, ...] = ()

    def settle(self, tokens: int) -> None:
        """Count what was really used instead of what was reserved. A window that is over keeps its reservation."""
        for share in self.reserved:
            now = self.meter.shares.get(share.measure)
            more = tokens - self.reserved_tokens
            if now is share or (now is not None and more > 0):
                now.left -= more
                now.used += more
        self.reserved = ()

    def close(self) -> None:
        """The request is over."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.give_back()


@dataclass(slots=True, eq=False)
class Meter:
    """The shares of one key. `now_s`: since the epoch, for windows; `clock_s`: of a clock that only goes forward."""

    key: str
    limits: Limits
    shares: dict[str, Share] = field(default_factory=dict)
    ends_s: float = 0.0  # when the first of the windows is over

    def at(self, now_s: float, limits: Limits) -> "Meter":
        """Itself, with the windows of this time and these limits."""
        if limits is not self.limits:
            self._adopt(limits)
        if now_s >= self.ends_s:
            for name, limit in limits.given().items():
                share = self.shares.get(name)
                if share is None or now_s >= share.ends_s:
                    self.shares[name] = Share(name, units(name, limit), *window(MEASURES[name][1], now_s))
            self.ends_s = min((share.ends_s for share in self.shares.values()), default=inf)
        return self

    def _adopt(self, limits: Limits) -> None:
        """Count by other limits from now on: what is left by the old ones goes back."""
        given = limits.given()
        self.shares = {name: share for name, share in self.shares.items() if name in given}
        for name, share in self.shares.items():
            limit = units(name, given[name])
            if limit != share.limit:
                share.limit, share.left, share.dry_until_s = limit, 0, -inf
        self.limits, self.ends_s = limits, 0.0

    def wanted(self, tokens: int | None, requests: int = 1) -> Iterator[tuple[Share, int]]:
        """The shares that a request needs something of, and how much.

        tokens: of a call of a model; None: at the admission, where `requests` of each limit of requests are taken, and
        of the other limits something must be left.
        """
        for name, share in self.shares.items():
            unit = MEASURES[name][0]
            if tokens is not None:
                if unit == "tokens":
                    yield share, tokens
            elif unit != "requests":
                yield share, 0
            elif requests:
                yield share, requests

    def enough(self, tokens: int | None, requests: int = 1) -> bool:
        """Whether a request may go on; tokens, requests: as of `wanted`."""
        return all(share.has(amount) for share, amount in self.wanted(tokens, requests))

    def most_tokens(self) -> int:
        """The least of the limits of tokens."""
        limits = (share.limit for share in self.shares.values() if MEASURES[share.measure][0] == "tokens")
        return min(limits, default=_MOST)

    def enter(self, clock_s: float, requests: int = 1) -> Ticket:
        """Take what one request needs at the admission. `enough` was asked before."""
        slot = None
        for share, amount in self.wanted(None, requests):
            share.take(amount)
            share.used_s = clock_s
            if share.at_once:
                slot = share
        return Ticket(self, slot)

    def reserve(self, ticket: Ticket, tokens: int) -> None:
        """The same for the tokens of a call."""
        shares = []
        for share, amount in self.wanted(tokens):
            share.take(amount)
            shares.append(share)
        ticket.reserved_tokens, ticket.reserved = tokens, tuple(shares)

    def claims(self, clock_s: float, *, keep_s: float) -> Iterator[tuple[Share, Claim]]:
        """What to report now, and as reported from here on. keep_s: how long a share is kept that nobody uses."""
        for share in self.shares.values():
            idle = clock_s - share.used_s > keep_s
            if share.left < 0 or idle:
                share.left = 0  # below 0: more was used than had been reserved, which is told now
            if share.used or share.need or share.running or share.left:
                yield (
                    share,
                    Claim(
                        self.key,
                        share.measure,
                        share.limit,
                        share.starts_s,
                        share.ends_s,
                        share.left,
                        share.running,
                        share.used,
                        share.need,
                        share.money,
                    ),
                )
                share.used = share.need = 0


def granted(claim: Claim, *, spent: int, others: int) -> Grant:
    """What a claim gets. spent: by all, this claim's included; others: units leased to other processes.

    Half of what is free, so that whoever comes next finds some, and all that requests wait for if there is as much.
    """
    rest = claim.limit - spent
    if claim.money:
        return Grant(max(rest, 0), rest)
    pool = max(0, rest - others - claim.running - claim.left)
    half = ceil((pool + claim.left) / 2)
    return Grant(max(0, min(pool, max(claim.need, half) - claim.left)), rest - claim.running)


def refusal(share: Share, amount: int, *, now_s: float) -> ApiError:
    """429: when it is worth another try, and that it never is."""
    words, limit = WORDS[share.measure], f"{share.limit / NANO:g}" if share.money else str(share.limit)
    if amount > share.limit:
        message = f"The request needs about {amount} tokens, and this key has {limit} {words}: send less of it."
        never = [(b"x-should-retry", b"false")]  # OpenAI's clients heed it
        return ApiError(429, message, code="rate_limit_exceeded", type="tokens", headers=never)
    # What nobody has used is held by requests that run, or by another process, which gives it back.
    soon = share.at_once or share.rest - share.used >= max(amount, 1)
    after_s = 1 if soon else max(1, ceil(share.ends_s - now_s))
    message = f"This key has {limit} {words}, and they are used up: try again in {after_s} s."
    headers = [(b"retry-after", b"%d" % after_s)]
    unit, period = MEASURES[share.measure]
    if period in ("day", "month"):
        return ApiError(429, message, code="insufficient_quota", type="insufficient_quota", headers=headers)
    return ApiError(429, message, code="rate_limit_exceeded", type=unit, headers=headers)
