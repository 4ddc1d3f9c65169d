"""Keys in SQL: created, listed, revoked and rotated by `ragway keys` and `admin`, read by every serving process.

They are in the catalog's PostgreSQL database, or have one of their own beside an SQLite catalog, so that neither waits
for the other: `accounts.db` in the data folder, readable by its owner alone. Of a secret only its hash is kept.

A gateway whose keys are lost looks like a gateway before the first key, which is open. So the data folder notes which
databases have held a key, and a database that lost them is refused.
"""

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import orjson

from proxy.access.keys import Key, KeyHash, hash_of, new_secret
from proxy.access.limits import limits_of
from proxy.caller import UNLIMITED, Acts, Limits, Names, Rights, groups_of
from retrieval.errors import RetrievalError
from runtime.database import Database

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

_FILE = "accounts.db"
_NOTE = "keys.made"  # a line for each database that has held a key


class UnknownKey(RetrievalError):
    """No key has this id."""


class KeysLost(RetrievalError):
    """The database has held keys, and has none."""


class SqlAccounts(Database):
    """The accounts of a data folder or of a server. The first key creates the file."""

    def __init__(self, data: Path, url: str = "") -> None:
        """url: of a PostgreSQL database; "" = the data folder."""
        super().__init__(data / _FILE, url, what="the keys", tables="proxy.access.tables")
        self._note, self._place, self._noted = data / _NOTE, _place(url), False

    def version(self) -> int:
        """The number of the last change. Raises RetrievalError, also for a database that has lost all keys."""
        last = 0
        if self.there():
            with self.reading() as sql:
                last = _last_change(sql)
        if last:
            self._note_keys()
        elif self._place in self._places():
            where = self._place if self._url else self._note.parent / _FILE
            raise KeysLost(
                f"all keys are gone from {where}: restore a backup, or "
                f"delete {self._note} to begin without keys, which opens the gateway to every program on this machine"
            )
        return last

    def _places(self) -> list[str]:
        try:
            return self._note.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            return []

    def _note_keys(self) -> None:
        """Note that the database holds keys. A failed write is repeated at the next look."""
        if self._noted:
            return
        with suppress(OSError):
            if self._place not in self._places():
                self._note.parent.mkdir(parents=True, exist_ok=True)
                with open(self._note, "a", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
                    file.write(f"{self._place}\n")
            self._noted = True

    def key_hashes(self) -> list[KeyHash]:
        found = []
        for row in self._rows():
            key = _key(row)
            until_s = inf if key.expires_s is None else key.expires_s
            if key.revoked_s is not None:
                until_s = 0.0
            found.append(KeyHash(row.hash, key, until_s))
            if row.previous_hash is not None:
                found.append(KeyHash(row.previous_hash, key, min(until_s, row.previous_until_s)))
        return found

    def keys(self) -> list[Key]:
        """All keys, revoked keys included, oldest first."""
        return [_key(row) for row in self._rows()] if self.version() else []

    def key(self, id: str) -> Key:
        """The key of an id. Raises UnknownKey."""
        found = next((key for key in self.keys() if key.id == id), None)
        if found is None:
            raise _unknown(id)
        return found

    def create(
        self, name: str, rights: Rights, *, team: str = "", expires_s: float | None = None, limits: Limits = UNLIMITED
    ) -> tuple[Key, str]:
        """A new key and the secret, which is not stored. expires_s: seconds since the epoch."""
        key = Key(f"key-{uuid.uuid4().hex[:12]}", name, team, rights, time(), expires_s, limits=limits)
        secret = new_secret()
        from proxy.access.tables import keys

        self.version()  # never begins a new list in place of a lost one
        with self.writing() as sql:
            sql.execute(keys.insert().values(change=_last_change(sql) + 1, hash=hash_of(secret), **_columns(key)))
        self._note_keys()
        return key, secret

    def revoke(self, id: str) -> Key:
        """Revoke a key for good, and delete the key's credentials. Raises UnknownKey."""
        key = self._change(id, lambda row: {"revoked_s": row.revoked_s or time()})
        from proxy.access.tables import credentials

        with self.writing() as sql:
            sql.execute(credentials.delete().where(credentials.c.key == id))
        return key

    def rotate(self, id: str, *, keep_s: float = 0.0) -> tuple[Key, str]:
        """The key with a new secret; the old secret stays valid for `keep_s`. Raises UnknownKey."""
        secret = new_secret()

        def changed(row: "Row[Any]") -> dict[str, object]:
            if row.revoked_s is not None:
                raise UnknownKey(f"{id} is revoked: create a new key")
            until_s = time() + keep_s if keep_s > 0 else 0.0
            return {"hash": hash_of(secret), "previous_hash": row.hash, "previous_until_s": until_s}

        return self._change(id, changed), secret

    def change(self, id: str, limits: Mapping[str, object] | None = None, act: Acts | None = None) -> Key:
        """Change some limits of a key (None removes a limit), and all its grants of calls.

        Raises UnknownKey, ValueError.
        """

        def changed(row: "Row[Any]") -> dict[str, object]:
            key = _key(row)
            rights = key.rights if act is None else replace(key.rights, act=act)
            changed_limits = limits_of({**key.limits.given(), **(limits or {})})
            return {"rights": _granted(replace(key, rights=rights, limits=changed_limits))}

        return self._change(id, changed)

    def _change(self, id: str, changed: Callable[["Row[Any]"], dict[str, object]]) -> Key:
        from sqlalchemy import select

        from proxy.access.tables import keys

        this = keys.c.id == id
        if self.empty():
            raise _unknown(id)
        with self.writing() as sql:
            row = sql.execute(select(keys).where(this)).one_or_none()
            if row is None:
                raise _unknown(id)
            sql.execute(keys.update().where(this).values(change=_last_change(sql) + 1, **changed(row)))
            return _key(sql.execute(select(keys).where(this)).one())

    def _rows(self) -> "Sequence[Row[Any]]":
        from sqlalchemy import select

        from proxy.access.tables import keys

        with self.reading() as sql:
            return sql.execute(select(keys).order_by(keys.c.created_s, keys.c.id)).all()


def _place(url: str) -> str:
    """The name of the database in the note: without user and password."""
    if not url:
        return _FILE
    from runtime.database import address_of

    return address_of(url)


def _last_change(sql: "Connection") -> int:
    """The number of the last change; 0 before the first."""
    from sqlalchemy import func, select

    from proxy.access.tables import keys

    last: int = sql.execute(select(func.coalesce(func.max(keys.c.change), 0))).scalar_one()
    return last


def _unknown(id: str) -> UnknownKey:
    return UnknownKey(f"there is no key {id!r}: `ragway keys list` has all")


def _columns(key: Key) -> dict[str, object]:
    names = ("id", "name", "team", "created_s", "expires_s", "revoked_s")
    return {name: getattr(key, name) for name in names} | {"rights": _granted(key)}


def _granted(key: Key) -> str:
    return orjson.dumps({**key.rights.as_json(), "limits": key.limits.given()}).decode()


def _key(row: "Row[Any]") -> Key:
    granted = orjson.loads(row.rights)
    read, write, models, query = (Names(granted.get(of, ())) for of in ("read", "write", "models", "query"))
    rights = Rights(
        read,
        write,
        models,
        groups_of(granted.get("groups", ())),
        admin=granted.get("admin") is True,
        metrics=granted.get("metrics") is True,
        act=Acts(granted.get("act", ())),
        query=query,
    )
    limits = limits_of(granted.get("limits", {}))
    return Key(row.id, row.name, row.team, rights, row.created_s, row.expires_s, row.revoked_s, limits)
