"""The calls of operations with a limit an hour (`actions.SET.calls_per_hour`), counted for each key.

All processes count in the accounts' table `spent`, each call in a transaction of its own: few operations have a limit,
and a call of an API takes longer than the transaction.
"""

from collections.abc import Callable
from time import time

from proxy.access.sql import SqlAccounts

_HOUR_S = 3600


class CallCounts:
    def __init__(self, accounts: SqlAccounts, *, now_s: Callable[[], float] = time) -> None:
        self._accounts = accounts
        self._now_s = now_s

    def take(self, key: str, label: str, most: int) -> float:
        """Count a call; for a call above the limit, the seconds until the hour ends. Raises RetrievalError.

        key: the id; "": no key. label: SET/OPERATION.
        """
        from proxy.access.tables import spent

        now_s = self._now_s()
        starts_s = int(now_s // _HOUR_S) * _HOUR_S
        place = {"key": key, "measure": f"calls of {label}", "starts_s": starts_s}
        this = [spent.c[column] == value for column, value in place.items()]
        with self._accounts.writing() as sql:
            made = sql.execute(spent.select().where(*this)).one_or_none()
            if made is not None and made.amount >= most:
                return starts_s + _HOUR_S - now_s
            if made is None:
                sql.execute(spent.insert().values(**place, ends_s=starts_s + _HOUR_S, amount=1))
            else:
                sql.execute(spent.update().where(*this).values(amount=made.amount + 1))
        return 0.0
