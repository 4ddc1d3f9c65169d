"""Keys in SQL: made, listed, revoked and rotated by `ragway keys` and `admin`, read by every process that serves.

They are in the catalog's PostgreSQL database, or have one of their own beside an SQLite catalog, so that neither waits
for the other: `accounts.db` in the data folder, readable by its owner alone. Of a secret only its hash is kept.
"""

import os
import stat
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import orjson

from proxy.keys import Key, Lock, hash_of, new_secret
from proxy.limits import UNLIMITED, Limits, limits_of
from proxy.rights import Names, Rights, groups_of
from retrieval.errors import RetrievalError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Row

_FILE = "accounts.db"


class UnknownKey(RetrievalError):
    """No key has this id."""


class SqlAccounts:
    """The accounts in a data folder, where the file is made with the first key; or on a server."""

    def __init__(self, data: Path, url: str = "") -> None:
        """url: of a PostgreSQL database; "" = the data folder."""
        self._file, self._url = data / _FILE, url
        self._engine: Engine | None = None
        self._opening = threading.Lock()  # threads ask at the same time
        self._seen = bool(url)  # whether there has been a database

    def there(self) -> bool:
        """Whether there is, or was, a database."""
        self._seen = self._seen or self._file.exists()
        return self._seen

    def version(self) -> int:
        # Until there is a key, nobody pays for the database: importing it takes 200 ms.
        if not self.there():
            return 0
        with self.reading() as sql:
            return _last_change(sql)

    def locks(self) -> list[Lock]:
        found = []
        for row in self._rows():
            key = _key(row)
            if key.revoked_s is not None:
                continue
            until_s = inf if key.expires_s is None else key.expires_s
            found.append(Lock(row.hash, key, until_s))
            if row.previous_hash is not None:
                found.append(Lock(row.previous_hash, key, min(until_s, row.previous_until_s)))
        return found

    def keys(self) -> list[Key]:
        """All there have been, oldest first."""
        return [_key(row) for row in self._rows()] if self.version() else []

    def key(self, id: str) -> Key:
        """The one with this id. Raises UnknownKey."""
        found = next((key for key in self.keys() if key.id == id), None)
        if found is None:
            raise _unknown(id)
        return found

    def create(
        self, name: str, rights: Rights, *, team: str = "", expires_s: float | None = None, limits: Limits = UNLIMITED
    ) -> tuple[Key, str]:
        """A new key, and its secret, which is nowhere else. expires_s: seconds since the epoch."""
        key = Key(f"key-{uuid.uuid4().hex[:12]}", name, team, rights, time(), expires_s, limits=limits)
        secret = new_secret()
        from proxy.accounts_tables import keys

        with self.writing() as (sql, change):
            sql.execute(keys.insert().values(change=change, hash=hash_of(secret), **_columns(key)))
        return key, secret

    def revoke(self, id: str) -> Key:
        """From now on it opens nothing. Raises UnknownKey."""
        return self._change(id, lambda row: {"revoked_s": row.revoked_s or time(), "previous_hash": None})

    def rotate(self, id: str, *, keep_s: float = 0.0) -> tuple[Key, str]:
        """The same key with a new secret; the one before opens for `keep_s` more. Raises UnknownKey."""
        secret = new_secret()

        def changed(row: "Row[Any]") -> dict[str, object]:
            if row.revoked_s is not None:
                raise UnknownKey(f"{id} is revoked: create a new key")
            before = {"previous_hash": row.hash, "previous_until_s": time() + keep_s} if keep_s > 0 else {}
            return {"hash": hash_of(secret), "previous_hash": None, **before}

        return self._change(id, changed), secret

    def limit(self, id: str, limits: Mapping[str, object]) -> Key:
        """Change these of a key's limits; None takes one away. Raises UnknownKey, ValueError."""

        def changed(row: "Row[Any]") -> dict[str, object]:
            key = _key(row)
            return {"rights": _granted(replace(key, limits=limits_of({**key.limits.given(), **limits})))}

        return self._change(id, changed)

    def close(self) -> None:
        """Let go of the database."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _change(self, id: str, changed: Callable[["Row[Any]"], dict[str, object]]) -> Key:
        from sqlalchemy import select

        from proxy.accounts_tables import keys

        this = keys.c.id == id
        if not self._url and not self._file.exists():
            raise _unknown(id)
        with self.writing() as (sql, change):
            row = sql.execute(select(keys).where(this)).one_or_none()
            if row is None:
                raise _unknown(id)
            sql.execute(keys.update().where(this).values(change=change, **changed(row)))
            return _key(sql.execute(select(keys).where(this)).one())

    def _rows(self) -> "Sequence[Row[Any]]":
        from sqlalchemy import select

        from proxy.accounts_tables import keys

        with self.reading() as sql:
            return sql.execute(select(keys).order_by(keys.c.created_s, keys.c.id)).all()

    @contextmanager
    def reading(self) -> "Iterator[Connection]":
        """Raises RetrievalError for what the database refuses."""
        from sqlalchemy.exc import DatabaseError

        try:
            with self._opened(make=False).connect() as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"the keys in {self._where} cannot be read ({error.orig})") from error

    @contextmanager
    def writing(self) -> "Iterator[tuple[Connection, int]]":
        """A transaction without others beside it, and the number of its change. Raises RetrievalError."""
        from sqlalchemy.exc import DatabaseError

        from retrieval.database import exclusive

        try:
            with exclusive(self._opened(make=True), "accounts") as sql:
                yield sql, _last_change(sql) + 1
        except DatabaseError as error:
            raise RetrievalError(f"the keys in {self._where} cannot be written ({error.orig})") from error

    @property
    def _where(self) -> str:
        return "the database of catalog.url" if self._url else str(self._file)

    def _opened(self, *, make: bool) -> "Engine":
        with self._opening:
            if self._engine is None or not (self._url or self._file.exists()):
                self.close()
                self._engine = self._open(make=make)
            return self._engine

    def _open(self, *, make: bool) -> "Engine":
        from proxy.accounts_tables import schema
        from retrieval.database import open_file, open_server, prepare

        if self._url:
            engine = open_server(self._url, what="the keys")
        else:
            if make:
                _make(self._file)
            elif not self._file.exists():
                raise RetrievalError(f"the keys are gone: {self._file} is not there any more")
            engine = open_file(self._file, what=f"the keys in {self._file}", pooled=False)
        try:
            prepare(engine, schema)
        except BaseException:
            engine.dispose()
            raise
        return engine


def _make(file: Path) -> None:
    """An empty database that nobody else can read, not even while it is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR))


def _last_change(sql: "Connection") -> int:
    """The number of the last change; 0 before the first."""
    from sqlalchemy import func, select

    from proxy.accounts_tables import keys

    last: int = sql.execute(select(func.coalesce(func.max(keys.c.change), 0))).scalar_one()
    return last


def _unknown(id: str) -> UnknownKey:
    return UnknownKey(f"there is no key {id!r}: `ragway keys list` has all")


def _columns(key: Key) -> dict[str, object]:
    return {
        "id": key.id, "name": key.name, "team": key.team, "created_s": key.created_s, "expires_s": key.expires_s,
        "revoked_s": key.revoked_s, "rights": _granted(key),
    }  # fmt: skip


def _granted(key: Key) -> str:
    rights = key.rights
    granted = {"read": rights.read.granted, "write": rights.write.granted, "models": rights.models.granted}
    more = {"groups": rights.group_names, "admin": rights.admin, "limits": key.limits.given()}
    return orjson.dumps({**granted, **more}).decode()


def _key(row: "Row[Any]") -> Key:
    granted = orjson.loads(row.rights)
    read, write, models = (Names(granted.get(of, ())) for of in ("read", "write", "models"))
    rights = Rights(read, write, models, groups_of(granted.get("groups", ())), admin=granted.get("admin") is True)
    limits = limits_of(granted.get("limits", {}))
    return Key(row.id, row.name, row.team, rights, row.created_s, row.expires_s, row.revoked_s, limits)
