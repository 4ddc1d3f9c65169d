"""A key's limits: requests, tokens and dollars in a window, and concurrent requests; counted in memory.

A window is a clock minute, a day or a month, in UTC; for concurrent requests it never ends. For each limit this process
has a `Share`: units that no other process can use, leased from the accounts by the ledger. Taking units from it is a
subtraction, exact whatever other processes do. Dollars are not leased: the accounts report what is left, requests
reserve none, and the price is known after a call.

This module never waits, reads a clock or uses a database.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import ceil, inf

from proxy.caller import MEASURES, UNLIMITED, Limits, Period
from proxy.dialects.errors import ApiError
from proxy.dialects.replies import Tokens

NANO = 1_000_000_000  # billionths of a dollar: a token costs some hundred
_FOR_EVER_S = 2**40
_NO_TOKENS = Tokens(0, 0)
_MOST = 10**15  # largest limit: sums fit into 64 bits
# Limit name -> its words, such as "requests a minute".
WORDS = {
    name: f"{unit} {period if period == 'at once' else f'a {period}'}" for name, (unit, period) in MEASURES.items()
}


def limits_of(given: Mapping[str, object]) -> Limits:
    """Limits from foreign JSON. Raises ValueError for an unknown name or a value out of range."""
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
    """A limit in counted units: dollars in billionths."""
    return round(limit * NANO) if MEASURES[measure][0] == "dollars" else int(limit)


def window(period: Period, now_s: float) -> tuple[int, int]:
    """Begin and end of the window around a time, in seconds since the epoch."""
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
    """This process's part of a key's limit in one window, in units; a copy claims units from the accounts."""

    key: str
    measure: str
    limit: int
    starts_s: int
    ends_s: int
    left: int = 0  # units this process may still use; dollars: left for all at the last synchronisation
    running: int = 0  # concurrent requests
    used: int = 0  # unreported units; negative if a reservation was too large
    need: int = 0  # units that waiting requests need
    rest: int = 0  # unused by all processes at the last synchronisation
    dry_until_s: float = -inf  # until then a larger share is refused
    used_s: float = -inf  # the last use

    @property
    def at_once(self) -> bool:
        """Whether the limit counts concurrent requests."""
        return self.starts_s == 0

    @property
    def money(self) -> bool:
        """Whether the limit counts dollars."""
        return MEASURES[self.measure][0] == "dollars"

    def has(self, amount: int) -> bool:
        """Whether this process may use the amount now."""
        return self.left > 0 if self.money else self.left >= max(amount, 1)

    def rests(self, amount: int) -> bool:
        """Whether the amount is unused: a process or running request holds it."""
        return self.rest - self.used >= max(amount, 1)

    def take(self, amount: int) -> None:
        """Use units of the share; a negative amount gives units back."""
        if self.at_once:
            self.running += amount
        elif not self.money:
            self.used += amount
        else:
            return
        self.left -= amount


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """The answer to a share's claim."""

    extra: int  # additional units for this process; dollars: what is left
    rest: int  # unused units


@dataclass(slots=True, eq=False)
class Admission:
    """Units of a key's limits that a request holds."""

    meter: "Meter"
    slot: Share | None
    reserved_tokens: int = 0
    reserved: tuple[Share, ...] = ()
    settled_tokens: int = 0  # of earlier calls
    charged: Tokens = _NO_TOKENS  # whose cost is reported

    def settle(self, tokens: int) -> None:
        """Count used tokens in place of reserved ones. A past window keeps its reservation.

        tokens: of all calls so far.
        """
        more = tokens - self.settled_tokens - self.reserved_tokens
        for share in self.reserved:
            now = self.meter.shares.get(share.measure)
            if now is share or (now is not None and more > 0):
                now.left -= more
                now.used += more
        self.reserved, self.settled_tokens = (), tokens

    def close(self) -> None:
        """Return the slot: the request is over."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.take(-1)


@dataclass(slots=True, eq=False)
class Meter:
    """One key's shares. `now_s`: since the epoch, for windows. `clock_s`: a monotonic clock's."""

    key: str
    limits: Limits
    shares: dict[str, Share] = field(default_factory=dict)
    ends_s: float = 0.0  # end of the first window

    def at(self, now_s: float, limits: Limits) -> "Meter":
        """The meter, with windows around `now_s` and these limits."""
        if limits is not self.limits or now_s >= self.ends_s:
            before, self.shares, self.limits = self.shares, {}, limits
            metered = {name: one for name, one in limits.given().items() if MEASURES[name][0] != "changes"}
            for name, limit in metered.items():
                share, most = before.get(name), units(name, limit)
                if share is None or now_s >= share.ends_s:
                    share = Share(self.key, name, most, *window(MEASURES[name][1], now_s))
                elif share.limit != most:  # unused units of the old limit go back
                    share.limit, share.left, share.dry_until_s = most, 0, -inf
                self.shares[name] = share
            self.ends_s = min((share.ends_s for share in self.shares.values()), default=inf)
        return self

    def wanted(self, tokens: int | None, requests: int = 1) -> Iterator[tuple[Share, int]]:
        """Shares that a request needs, and how many units.

        tokens: for a model call, for which dollars must be left, too. None: at admission, which takes `requests` from
        each request limit; other limits must not be used up.
        """
        for name, share in self.shares.items():
            unit = MEASURES[name][0]
            if tokens is not None:
                if unit != "requests":
                    yield share, 0 if share.money else tokens
            elif unit != "requests":
                yield share, 0
            elif requests:
                yield share, requests

    def enough(self, tokens: int | None, requests: int = 1) -> bool:
        """Whether a request may go on; tokens, requests: as in `wanted`."""
        return all(share.has(amount) for share, amount in self.wanted(tokens, requests))

    def of_tokens(self) -> Iterator[Share]:
        """Shares of token limits."""
        return (share for share in self.shares.values() if MEASURES[share.measure][0] == "tokens")

    def enter(self, clock_s: float, requests: int = 1) -> Admission:
        """Take a request's units at admission. Call `enough` first."""
        slot = None
        for share, amount in self.wanted(None, requests):
            share.take(amount)
            share.used_s = clock_s
            if share.at_once:
                slot = share
        return Admission(self, slot)

    def reserve(self, admission: Admission, tokens: int) -> None:
        """Reserve a call's tokens. Call `enough` first."""
        shares = []
        for share, amount in self.wanted(tokens):
            share.take(amount)
            if not share.money:
                shares.append(share)
        admission.reserved_tokens, admission.reserved = tokens, tuple(shares)

    def claims(self, clock_s: float, *, keep_s: float) -> Iterator[tuple[Share, Share]]:
        """Shares to report, each with a copy that claims units; their usage then counts as reported.

        keep_s: how long an unused share is kept.
        """
        for share in self.shares.values():
            idle = clock_s - share.used_s > keep_s
            if share.left < 0 or idle:
                share.left = 0  # negative: more used than reserved, as its claim reports
            if share.used or share.need or share.running or share.left:
                yield share, replace(share)
                share.used = share.need = 0


def granted(claim: Share, *, spent: int, others: int) -> LeaseGrant:
    """The grant for a claim. spent: by all processes, with the claim; others: units leased to other processes.

    Grants half of the free units, so that the next process gets some; more if waiting requests need more.
    """
    rest = claim.limit - spent
    if claim.money:
        return LeaseGrant(max(rest, 0), rest)
    pool = max(0, rest - others - claim.running - claim.left)
    half = ceil((pool + claim.left) / 2)
    return LeaseGrant(max(0, min(pool, max(claim.need, half) - claim.left)), rest - claim.running)


def refusal(share: Share, amount: int, *, now_s: float) -> ApiError:
    """The 429 for a used-up limit: when to try again, or why the request never fits."""
    words, limit = WORDS[share.measure], f"{share.limit / NANO:g}" if share.money else str(share.limit)
    if amount > share.limit:
        message = f"The request needs about {amount} tokens, and this key has {limit} {words}: send less of it."
        never = [(b"x-should-retry", b"false")]  # OpenAI's clients obey
        return ApiError(429, message, code="rate_limit_exceeded", type="tokens", headers=never)
    # Running requests or other processes hold unused units, and return the units soon.
    soon = share.at_once or share.rests(amount)
    after_s = 1 if soon else max(1, ceil(share.ends_s - now_s))
    message = f"This key has {limit} {words}, and they are used up: try again in {after_s} s."
    headers = [(b"retry-after", b"%d" % after_s)]
    unit, period = MEASURES[share.measure]
    if period in ("day", "month"):
        return ApiError(429, message, code="insufficient_quota", type="insufficient_quota", headers=headers)
    return ApiError(429, message, code="rate_limit_exceeded", type=unit, headers=headers)
