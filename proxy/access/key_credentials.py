"""Key credentials: a secret, a user and fixed arguments, for one key and one action set.

The accounts database has a row for each value, sealed (`sealing`), under key id, set name and value name: `secret`,
`user` or `fixed.ARGUMENT`. Only `opened`, for API calls, returns values.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from proxy.access.sql import SqlAccounts, UnknownKey
from runtime.sealing import MasterKey

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

FIXED = "fixed."
_MOST_CHARS = 10_000  # of a value
_NAME = re.compile(r"secret|user|fixed\..{1,200}")
_SET = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class BadCredential(ValueError):
    """A credential is not valid. The message says which are, and has no value."""


class CredentialName(NamedTuple):
    """Where a credential stands."""

    key: str  # the key's id
    set: str
    name: str


class KeyCredentials:
    """All keys' sealed credentials."""

    def __init__(self, accounts: SqlAccounts, master: MasterKey) -> None:
        self.accounts = accounts
        self._master = master

    def names(self, key: str | None = None) -> list[CredentialName]:
        """Credential names of one key, or of all keys, without values. Raises RetrievalError."""
        return list(self.sealed(key))

    def change(self, key: str, set_name: str, values: Mapping[str, str | None]) -> None:
        """Seal and store values by name; None removes a value. Raises BadCredential, RetrievalError."""
        for name, value in values.items():
            _check(set_name, name, value)
        if self.accounts.key(key).revoked_s is not None:
            raise UnknownKey(f"{key} is revoked: create a new key")
        places = {name: CredentialName(key, set_name, name) for name in values}
        sealed = {name: self._master.seal(one, places[name]) for name, one in values.items() if one is not None}
        from proxy.access.tables import credentials

        with self.accounts.writing() as sql:
            for name, place in places.items():
                sql.execute(credentials.delete().where(*_is(place)))
                if name in sealed:
                    sql.execute(credentials.insert().values(**place._asdict(), sealed=sealed[name]))

    def remove(self, key: str, set_name: str, name: str | None = None) -> int:
        """Delete a key's credentials for a set (name: one of these); returns how many. Raises RetrievalError."""
        found = {one.name: None for one in self.names(key) if one.set == set_name and name in (None, one.name)}
        if found:
            self.change(key, set_name, found)
        return len(found)

    def reseal(self) -> int:
        """Seal all values again with the newest master key; returns how many. Raises RetrievalError.

        If one value does not open, no value changes.
        """
        if not self.accounts.there():
            return 0
        from proxy.access.tables import credentials

        with self.accounts.writing() as sql:
            rows = _rows(sql, None)
            for place, sealed in rows.items():
                again = self._master.seal(self._master.open(sealed, place), place)
                sql.execute(credentials.update().where(*_is(place)).values(sealed=again))
        return len(rows)

    def sealed(self, key: str | None = None) -> dict[CredentialName, bytes]:
        """Sealed credentials of one key, or all keys. Raises RetrievalError."""
        if not self.accounts.there():
            return {}
        with self.accounts.reading() as sql:
            return _rows(sql, key)

    def opened(self, sealed: Mapping[CredentialName, bytes]) -> dict[str, str]:
        """Each credential's name -> value. Raises SealingError."""
        return {place.name: self._master.open(value, place) for place, value in sealed.items()}


def _rows(sql: "Connection", key: str | None) -> dict[CredentialName, bytes]:
    from sqlalchemy import select

    from proxy.access.tables import credentials

    query = select(credentials).order_by(credentials.c.key, credentials.c.set, credentials.c.name)
    if key is not None:
        query = query.where(credentials.c.key == key)
    return {CredentialName(row.key, row.set, row.name): row.sealed for row in sql.execute(query)}


def _is(place: CredentialName) -> "Sequence[ColumnElement[bool]]":
    """The condition for one row."""
    from proxy.access.tables import credentials

    return [credentials.c[column] == value for column, value in place._asdict().items()]


def _check(set_name: str, name: str, value: str | None) -> None:
    """Raises BadCredential."""
    if not _SET.fullmatch(set_name):
        raise BadCredential("the name of an action set has small letters, digits, - and _, at most 64")
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise BadCredential("a credential is secret, user or fixed.ARGUMENT, with the name of an argument")
    if value is not None and not (0 < len(value) <= _MOST_CHARS and value.isprintable()):
        raise BadCredential(f"{name} must be a text that can be printed, of 1 to {_MOST_CHARS:,} characters")
