"""Limit shares and usage rows in SQL: every process reports and leases in one transaction."""

import os
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from proxy.access.limits import LeaseGrant, Share, granted
from proxy.access.sql import SqlAccounts
from proxy.access.usage import UsageRow, forget, money_spent, write

if TYPE_CHECKING:
    from sqlalchemy import Connection

LEASE_S = 10.0
_FORGET_EVERY_S = 3600.0
_MOST_AT_ONCE = 5_000  # sums: each takes three statement variables, and SQLite may have 32,766
_OVER_S = 120  # keeps sums after a window ends, because other clocks may be late


class _Place(NamedTuple):
    """A limit in one window."""

    key: str
    measure: str
    starts_s: int


class SqlUsageStore:
    """The accounts, for this process."""

    def __init__(self, accounts: SqlAccounts, *, keep_days: int, now_s: Callable[[], float] = time) -> None:
        self._accounts = accounts
        self._keep_s = keep_days * 86_400
        self._process = f"{os.getpid()}-{uuid4().hex[:12]}"
        self._now_s = now_s
        self._forgot_s = 0.0

    def sync(self, claims: Sequence[Share], rows: Sequence[UsageRow]) -> tuple[list[LeaseGrant], bool]:
        """Report and lease in one transaction: a grant for each claim, and whether only this process has shares.

        Raises RetrievalError.
        """
        money = money_spent(rows)
        with self._accounts.writing() as sql:
            now_s = self._now_s()
            write(sql, rows)
            forgets = now_s - self._forgot_s > _FORGET_EVERY_S
            if forgets:
                forget(sql, now_s - self._keep_s)
            used = {
                _Place(key, measure, starts_s): (amount, ends_s)
                for (key, (measure, starts_s, ends_s)), amount in money.items()
            }
            used |= {_place(claim): (claim.used, claim.ends_s) for claim in claims if claim.used}
            spent = _spend(sql, used, now_s)
            answer = self._lease(sql, claims, spent, now_s)
        if forgets:
            self._forgot_s = now_s
        return answer

    def _lease(
        self, sql: "Connection", claims: Sequence[Share], spent: Mapping[_Place, int], now_s: float
    ) -> tuple[list[LeaseGrant], bool]:
        """Replace this process's leases."""
        from sqlalchemy import func, or_, select

        from proxy.access.tables import leases

        one = leases.c
        sql.execute(leases.delete().where(or_(one.process == self._process, one.expires_s <= now_s)))
        place = (one.key, one.measure, one.starts_s)
        others = {
            _Place(*row[:3]): int(row[3]) for row in sql.execute(select(*place, func.sum(one.amount)).group_by(*place))
        }
        grants, rows = [], []
        for claim in claims:
            at = _place(claim)
            grant = granted(claim, spent=spent.get(at, 0), others=others.get(at, 0))
            grants.append(grant)
            amount = claim.running + claim.left + grant.extra
            if amount > 0 and not claim.money:
                row = {"process": self._process, "amount": amount, "expires_s": now_s + LEASE_S}
                rows.append(at._asdict() | row)
        if rows:
            sql.execute(leases.insert(), rows)
        return grants, not others


def _place(claim: Share) -> _Place:
    return _Place(claim.key, claim.measure, claim.starts_s)


def _spend(sql: "Connection", used: Mapping[_Place, tuple[int, int]], now_s: float) -> dict[_Place, int]:
    """Add to the windows' sums, and return them all."""
    from sqlalchemy import select, tuple_

    from proxy.access.tables import spent

    one = spent.c
    sql.execute(spent.delete().where(one.ends_s <= now_s - _OVER_S))
    sums = {_Place(row.key, row.measure, int(row.starts_s)): int(row.amount) for row in sql.execute(select(spent))}
    sums |= {at: sums.get(at, 0) + amount for at, (amount, _) in used.items()}
    if used:
        places = list(used)
        for at in range(0, len(places), _MOST_AT_ONCE):
            some = tuple_(one.key, one.measure, one.starts_s).in_(places[at : at + _MOST_AT_ONCE])
            sql.execute(spent.delete().where(some))
        rows = [at._asdict() | {"ends_s": ends_s, "amount": sums[at]} for at, (_, ends_s) in used.items()]
        sql.execute(spent.insert(), rows)
    return sums
