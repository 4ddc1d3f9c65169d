"""Shares of limits and rows of usage in SQL: every process reports and leases in one transaction."""

import os
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import TYPE_CHECKING
from uuid import uuid4

from proxy.access.ledger import LEASE_S
from proxy.access.limits import Claim, LeaseGrant, granted
from proxy.access.sql import SqlAccounts
from proxy.access.usage import UsageRow, forget, money_spent, write

if TYPE_CHECKING:
    from sqlalchemy import Connection

_FORGET_EVERY_S = 3600.0
_OVER_S = 120  # keeps the sum after the end of a window, because other clocks may be late

Place = tuple[str, str, int]  # a key, a measure, the beginning of the window


class SqlUsageStore:
    """The accounts, for the local process."""

    def __init__(self, accounts: SqlAccounts, *, keep_days: int, now_s: Callable[[], float] = time) -> None:
        self._accounts = accounts
        self._keep_s = keep_days * 86_400
        self._process = f"{os.getpid()}-{uuid4().hex[:12]}"
        self._now_s = now_s
        self._forgot_s = 0.0

    def sync(self, claims: Sequence[Claim], rows: Sequence[UsageRow]) -> tuple[list[LeaseGrant], bool]:
        """Report and lease in one transaction: a grant for each claim, and whether only the local process has shares.

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
                (key, measure, starts_s): (amount, ends_s)
                for (key, (measure, starts_s, ends_s)), amount in money.items()
            }
            used |= {_place(claim): (claim.used, claim.ends_s) for claim in claims if claim.used}
            spent = _spend(sql, used, now_s)
            answer = self._lease(sql, claims, spent, now_s)
        if forgets:
            self._forgot_s = now_s
        return answer

    def _lease(
        self, sql: "Connection", claims: Sequence[Claim], spent: Mapping[Place, int], now_s: float
    ) -> tuple[list[LeaseGrant], bool]:
        """Replace the leases of the local process."""
        from sqlalchemy import func, or_, select

        from proxy.access.tables import leases

        one = leases.c
        sql.execute(leases.delete().where(or_(one.process == self._process, one.expires_s <= now_s)))
        place = (one.key, one.measure, one.starts_s)
        others = {
            tuple(row[:3]): int(row[3]) for row in sql.execute(select(*place, func.sum(one.amount)).group_by(*place))
        }
        grants, rows = [], []
        for claim in claims:
            at = _place(claim)
            grant = granted(claim, spent=spent.get(at, 0), others=others.get(at, 0))
            grants.append(grant)
            amount = claim.running + claim.left + grant.extra
            if amount > 0 and not claim.money:
                rows.append(
                    {
                        "process": self._process,
                        "key": claim.key,
                        "measure": claim.measure,
                        "starts_s": claim.starts_s,
                        "amount": amount,
                        "expires_s": now_s + LEASE_S,
                    }
                )
        if rows:
            sql.execute(leases.insert(), rows)
        return grants, not others


def _place(claim: Claim) -> Place:
    return claim.key, claim.measure, claim.starts_s


def _spend(sql: "Connection", used: Mapping[Place, tuple[int, int]], now_s: float) -> dict[Place, int]:
    """Add to the sums of the windows, and return all sums."""
    from sqlalchemy import bindparam, select

    from proxy.access.tables import spent

    one = spent.c
    sql.execute(spent.delete().where(one.ends_s <= now_s - _OVER_S))
    before = {(row.key, row.measure, int(row.starts_s)): int(row.amount) for row in sql.execute(select(spent))}
    after = {**before, **{at: before.get(at, 0) + amount for at, (amount, _) in used.items()}}
    known = [{"k": at[0], "m": at[1], "s": at[2], "amount": after[at]} for at in used if at in before]
    if known:
        here = (one.key == bindparam("k")) & (one.measure == bindparam("m")) & (one.starts_s == bindparam("s"))
        sql.execute(spent.update().where(here).values(amount=bindparam("amount")), known)
    new = [
        {"key": at[0], "measure": at[1], "starts_s": at[2], "ends_s": ends_s, "amount": after[at]}
        for at, (_, ends_s) in used.items()
        if at not in before
    ]
    if new:
        sql.execute(spent.insert(), new)
    return after
