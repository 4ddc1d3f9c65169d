"""Calls with a limit, counted for each key: of an operation in an hour (`actions.SET.calls_per_hour`), and of all that
change something in a day (the limit `changes_per_day` of the key).

All processes count in the accounts' table `spent`, each call in a transaction of its own: few calls have a limit, and a
call of an API takes longer than the transaction.
"""

from collections.abc import Callable
from time import time

from proxy.access.sql import SqlAccounts
from proxy.caller import Limits

_HOUR_S, _DAY_S = 3600, 86_400
_CHANGES = "changes_per_day"


class CallCounts:
    def __init__(self, accounts: SqlAccounts, *, now_s: Callable[[], float] = time) -> None:
        self._accounts = accounts
        self._now_s = now_s

    def take(self, key: str, label: str, most: int) -> float:
        """Count a call; for a call above the limit, the seconds until the hour ends. Raises RetrievalError.

        key: the id; "": no key. label: SET/OPERATION.
        """
        return self._take(key, f"calls of {label}", most, _HOUR_S)

    def over_changes(self, key: str, limits: Limits) -> str:
        """Count a call that changes something; why it is not sent: "" within the limit. Raises RetrievalError."""
        most = limits.changes_per_day
        waits_s = self._take(key, _CHANGES, most, _DAY_S) if most is not None else 0.0
        if not waits_s:
            return ""
        return f"this key may make {most} calls a day that change something, and again in {waits_s / _HOUR_S:.1f} h"

    def _take(self, key: str, measure: str, most: int, window_s: int) -> float:
        from proxy.access.tables import spent

        now_s = self._now_s()
        starts_s = int(now_s // window_s) * window_s
        place = {"key": key, "measure": measure, "starts_s": starts_s}
        this = [spent.c[column] == value for column, value in place.items()]
        with self._accounts.writing() as sql:
            made = sql.execute(spent.select().where(*this)).one_or_none()
            if made is not None and made.amount >= most:
                return starts_s + window_s - now_s
            if made is None:
                sql.execute(spent.insert().values(**place, ends_s=starts_s + window_s, amount=1))
            else:
                sql.execute(spent.update().where(*this).values(amount=made.amount + 1))
        return 0.0
