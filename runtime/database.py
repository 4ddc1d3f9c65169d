"""Databases: SQLite in a data folder file, or PostgreSQL. Opens, migrates, and explains database errors.

`Database` is a gateway's: its file is readable only by its owner, and the first write creates it. A gateway that never
writes does not import SQLAlchemy, which takes 200 ms.

Each schema (catalog, accounts) has its tables in one module and numbered migrations in one folder. To change a table,
change the module, and add `mNNNN_what.py` with the next number to the folder; its `upgrade()` makes the same change
with Alembic's `op` in a database of the previous number (in SQLite, `op.batch_alter_table` changes a column). Add it
to the folder's map. A test compares the result of all migrations with the tables, in both databases.

A database stores its last migration's number. Alembic is imported only for an outdated one. A database without a
number is older than the first migration and has some of its tables, or none.
"""

import asyncio
import fcntl
import importlib
import logging
import os
import runpy
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from runtime.errors import Busy, IndexDown, RetrievalError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, ExceptionContext, MetaData, Select, Table

# Errors of disk, permissions or another process: the file itself is not damaged.
_REFUSALS = {"SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_BUSY", "SQLITE_NOMEM"}
_DAMAGE = {"SQLITE_CORRUPT", "SQLITE_NOTADB"}
_MOST_CHARS = 300  # of a server's message
# For libpq, unless the URL sets other values: a dead server is noticed within these times.
_PATIENCE = {
    "connect_timeout": "5", "tcp_user_timeout": "10000", "keepalives_idle": "10", "keepalives_interval": "5",
    "keepalives_count": "2", "application_name": "ragway",
}  # fmt: skip
_KEPT = 5  # connections to a server
_BUSY_S = 5.0  # how long a connection to a file waits for another's lock
_BUSY_AGAIN_S = 0.005


@dataclass(frozen=True, slots=True)
class Schema:
    """Related tables and their migrations."""

    name: str
    metadata: "MetaData"
    migrations: Path

    def files(self) -> dict[int, Path]:
        """Number -> file of each migration, by number."""
        return {int(file.stem[1:5]): file for file in sorted(self.migrations.glob("m[0-9][0-9][0-9][0-9]_*.py"))}

    def head(self) -> int:
        """The last migration's number."""
        return max(self.files())

    def stamp(self) -> "Table":
        """The table that holds the migration number, in Alembic's form."""
        from sqlalchemy import Column, MetaData, String, Table

        return Table(f"{self.name}_version", MetaData(), Column("version_num", String(32), primary_key=True))


def open_file(file: Path, *, what: str = "the catalog", durable: bool = True, pooled: bool = True) -> "Engine":
    """Open SQLite in a file. what: its content, for messages. durable: whether writes survive a power cut."""
    from sqlalchemy import URL, NullPool, create_engine, event

    def tune(connection: Any, _record: Any) -> None:
        write_ahead(connection)
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA busy_timeout={int(_BUSY_S * 1000)}")

    def name_refusals(context: "ExceptionContext") -> None:
        name = getattr(context.original_exception, "sqlite_errorname", "")
        if "_".join(name.split("_")[:2]) in _REFUSALS:
            raise RetrievalError(
                f"{what} cannot be read or written ({context.original_exception}): check the disk's free space and "
                "the data folder's permissions; no finished work is lost"
            ) from context.original_exception
        if "_".join(name.split("_")[:2]) in _DAMAGE:
            raise RetrievalError(
                f"{what} cannot be read: {file} is damaged, or is not a database of ragway "
                f"({context.original_exception}): stop `ragway serve`, then restore the file from a backup, or move "
                "the file away to start again (move the catalog together with the folder index)"
            ) from context.original_exception

    def close(*_: Any) -> None:
        make_closed(file)

    address = URL.create("sqlite", database=str(file))  # in a text, ? and % would not belong to the path
    engine = create_engine(address, hide_parameters=True, poolclass=None if pooled else NullPool)
    event.listen(engine, "do_connect", close)
    event.listen(engine, "connect", tune)
    event.listen(engine, "handle_error", name_refusals)
    return engine


def write_ahead(connection: Any) -> None:
    """Set SQLite's write-ahead log on an `sqlite3.Connection`: readers and writer do not wait for each other.

    A new file can get a first writer between SQLite's read and write of the mode: SQLite then raises at once, whatever
    the busy timeout.
    """
    end_s = monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > end_s:
                raise
        sleep(_BUSY_AGAIN_S)


def make_closed(file: Path) -> None:
    """Create an SQLite file for its owner alone, or remove others' rights from it and from SQLite's side files.

    An existing file is never opened here: closing it would end the locks that SQLite holds for this process
    (https://www.sqlite.org/howtocorrupt.html, 2.2), and commits were lost. Errors are left to whoever opens the file.
    """
    with suppress(OSError):
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR))
        for ending in ("", "-wal", "-shm"):  # SQLite gives new side files the main file's mode
            close_to_others(file.with_name(file.name + ending))


def close_to_others(path: Path) -> None:
    """Remove group's and others' rights from a file or folder, if possible."""
    with suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            path.chmod(mode & stat.S_IRWXU)


def open_server(url: str, *, what: str = "the catalog") -> "Engine":
    """An engine for a PostgreSQL server, not yet connected. Raises RetrievalError for an invalid address."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.exc import InterfaceError, OperationalError

    address = _address(url)
    where = f"PostgreSQL at {address_of(url)}"

    def name_refusals(context: "ExceptionContext") -> None:
        if context.is_pre_ping:  # the pool then makes another connection
            return
        if context.is_disconnect or isinstance(context.sqlalchemy_exception, OperationalError | InterfaceError):
            said = " ".join(str(context.original_exception).split())[:_MOST_CHARS]
            raise IndexDown(
                f"{where}, which holds {what}, is not reachable ({said}): is the server running, and is "
                "catalog.url right?"
            ) from context.original_exception

    engine = create_engine(
        address,
        hide_parameters=True,
        pool_pre_ping=True,
        pool_size=_KEPT,
        max_overflow=-1,
        connect_args={name: value for name, value in _PATIENCE.items() if name not in address.query},
    )
    event.listen(engine, "handle_error", name_refusals)
    return engine


def address_of(url: str) -> str:
    """Host, port and database in a PostgreSQL URL: neither user nor password. Raises RetrievalError."""
    address = _address(url)
    host = address.host or address.query.get("host") or "localhost"
    return f"{host}:{address.port or 5432}/{address.database or ''}"


def _address(url: str) -> "URL":
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        address = make_url(url)
    except (ArgumentError, ValueError):  # the error text may contain the password
        raise RetrievalError(
            "catalog.url is not a database address: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with "
            "the password's special characters as %XX"
        ) from None
    return address.set(drivername="postgresql+psycopg")


@contextmanager
def exclusive(engine: "Engine", name: str) -> "Iterator[Connection]":
    """A transaction that never overlaps with another `exclusive` one of the same name, in any process."""
    with engine.begin() as sql:
        if engine.dialect.name == "sqlite":
            sql.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            from sqlalchemy import text

            from runtime.locks import lock_number

            sql.execute(text(f"SELECT pg_advisory_xact_lock({lock_number(name)} + hashtext(current_schema()))"))
        yield sql


def prepare(engine: "Engine", schema: Schema) -> None:
    """Create a schema's tables, or migrate those of an earlier version.

    Raises RetrievalError for a later version's tables; SQLAlchemy's DatabaseError for foreign tables with these names.
    """
    head = schema.head()
    with engine.connect() as sql:
        if _version(sql, schema) == head:
            _check(sql, schema)
            return
    with _alone(engine, schema) as sql:
        _migrate(sql, schema, head)


def is_current(engine: "Engine", schema: Schema) -> bool:
    """Whether a schema's tables have the current version."""
    with engine.connect() as sql:
        return _version(sql, schema) == schema.head()


@contextmanager
def _alone(engine: "Engine", schema: Schema) -> "Iterator[Connection]":
    """`exclusive`, and SQLite allows dropping a referenced table: changed tables are created again."""
    if engine.dialect.name != "sqlite":
        with exclusive(engine, schema.name) as sql:
            yield sql
        return
    with engine.connect() as sql:
        sql.exec_driver_sql("PRAGMA foreign_keys=OFF")  # has no effect within a transaction
        sql.commit()
        sql.detach()
        with sql.begin():
            sql.exec_driver_sql("BEGIN IMMEDIATE")
            yield sql


def _migrate(sql: "Connection", schema: Schema, head: int) -> None:
    from sqlalchemy import inspect

    found = _version(sql, schema)
    stamp = schema.stamp()
    if found == head:  # another process was quicker
        return
    if found is not None and found > head:
        raise RetrievalError(
            f"the {schema.name} was written by a later version of ragway (schema {found}, this one knows {head}): "
            "update ragway, or restore the backup from before"
        )
    stamp.create(sql, checkfirst=True)
    if found is None and not set(schema.metadata.tables) & set(inspect(sql).get_table_names()):
        schema.metadata.create_all(sql)
    else:
        _upgrade(sql, schema, found)
    sql.execute(stamp.delete())
    sql.execute(stamp.insert().values(version_num=f"{head:04}"))
    _check(sql, schema)


def _upgrade(sql: "Connection", schema: Schema, found: int | None) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    with Operations.context(MigrationContext.configure(sql)):
        for number, file in schema.files().items():
            if number > (found or 0):
                runpy.run_path(str(file))["upgrade"]()


def examined(engine: "Engine", schema: Schema) -> list[str]:
    """What is wrong with a database. Changes nothing and disposes of the engine."""
    from sqlalchemy.exc import DatabaseError

    try:
        with engine.connect() as sql:
            return _examined(sql, schema)
    except RetrievalError as error:
        return [str(error)]
    except DatabaseError as error:
        return [f"the database cannot be read ({error.orig})"]
    finally:
        engine.dispose()


def _examined(sql: "Connection", schema: Schema) -> list[str]:
    wrong = []
    found, head = _version(sql, schema), schema.head()
    if found is not None and found > head:
        wrong.append(f"the database was written by a later version of ragway (schema {found}, this one knows {head})")
    if sql.dialect.name == "sqlite":
        said = [str(row[0]) for row in sql.exec_driver_sql("PRAGMA integrity_check(5)")]
        wrong += [f"integrity_check: {' '.join(line.split())}" for line in said if line != "ok"]
        loose = len(sql.exec_driver_sql("PRAGMA foreign_key_check").fetchall())
        wrong += [f"{loose} rows refer to missing rows"] if loose else []
    return wrong


def _version(sql: "Connection", schema: Schema) -> int | None:
    from sqlalchemy import inspect, select

    stamp = schema.stamp()
    if not inspect(sql).has_table(stamp.name):
        return None
    found = sql.scalar(select(stamp.c.version_num))
    return None if found is None else int(found)


def _check(sql: "Connection", schema: Schema) -> None:
    """Check columns: foreign tables may have the same names."""
    from sqlalchemy import select

    for table in schema.metadata.tables.values():
        sql.execute(select(table).limit(0))


# --- a database that is opened on first use ---------------------------------------------------------------------------


log = logging.getLogger("ragway")
_LOOK_S = 0.1  # between two looks whether a lock is free
_TAKE_S = 0.05  # a look at a server's lock
_TELL_S = 1.0  # of silent waiting

Release = Callable[[], None]


class Database:
    """One schema's tables, opened on first use."""

    def __init__(self, file: Path, url: str, *, what: str, tables: str) -> None:
        """url: of a PostgreSQL database; "": the file. what: its content, in messages.

        tables: their module, with a `schema`; imported on first use.
        """
        self._file, self._url = file, url
        self._what, self._tables = what, tables
        self._engine: Engine | None = None
        self._opening = threading.Lock()  # several threads may open it at the same time
        self._seen = bool(url)  # whether it existed at any time

    def there(self) -> bool:
        """Whether a database exists, or existed."""
        self._seen = self._seen or self._file.exists()
        return self._seen

    @property
    def schema(self) -> "Schema":
        schema: Schema = importlib.import_module(self._tables).schema
        return schema

    def empty(self) -> bool:
        """Whether the file does not exist: not yet written, or deleted."""
        return not self._url and not self._file.exists()

    @contextmanager
    def reading(self) -> "Iterator[Connection]":
        """A connection for reading. Raises RetrievalError if the database refuses."""
        from sqlalchemy.exc import DatabaseError

        try:
            with self._opened(make=False).connect() as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be read ({error.orig})") from error

    def rows(self, query: "Select[Any]") -> Sequence[Any]:
        """Rows that a query finds; none without a database. Raises RetrievalError."""
        if self.empty():
            return []
        with self.reading() as sql:
            return sql.execute(query).all()

    @contextmanager
    def writing(self) -> "Iterator[Connection]":
        """An exclusive transaction. Raises RetrievalError."""
        from sqlalchemy.exc import DatabaseError

        from runtime.database import exclusive

        try:
            with exclusive(self._opened(make=True), self.schema.name) as sql:
                yield sql
        except DatabaseError as error:
            raise RetrievalError(f"{self._what} in {self._where} cannot be written ({error.orig})") from error

    @asynccontextmanager
    async def turn(self, part: str) -> AsyncIterator[None]:
        """Keep other turns on a part of the content waiting, in all processes, while it is written.

        For a database file, another file beside it, named after the part, keeps turns apart. Raises RetrievalError.
        """
        loop = asyncio.get_running_loop()
        begun, told, release = loop.time(), False, None
        while release is None:
            taking = loop.run_in_executor(None, self._take, part)
            try:
                release = await asyncio.shield(taking)
            except asyncio.CancelledError:  # the thread continues
                taking.add_done_callback(_release)
                raise
            if release is None:
                if loop.time() - begun > _TELL_S and not told:
                    told = True
                    log.info("another process writes %s of %s: waiting", self._what, part)
                await asyncio.sleep(_LOOK_S)
        try:
            yield
        finally:
            await asyncio.shield(loop.run_in_executor(None, release))

    def _take(self, part: str) -> Release | None:
        """Take the lock for the part's turns; None: another turn has it. Raises RetrievalError."""
        if self._url:
            from runtime import locks

            try:
                held = locks.take(self._opened(make=True), f"{self.schema.name} turn {part}", patience_s=_TAKE_S)
            except Busy:
                return None
            return lambda: locks.release(held)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._file.with_suffix(f".{part}.lock"), os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR)
        except OSError as error:
            raise RetrievalError(f"{self._what} cannot be written: {error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        return lambda: os.close(file)

    def close(self) -> None:
        """Close all connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    @property
    def _where(self) -> str:
        return "the database of catalog.url" if self._url else str(self._file)

    def _opened(self, *, make: bool) -> "Engine":
        with self._opening:
            if self._engine is None or self.empty():
                self.close()
                self._engine = self._open(make=make)
            return self._engine

    def _open(self, *, make: bool) -> "Engine":
        from runtime.database import open_file, open_server, prepare

        if self._url:
            engine = open_server(self._url, what=self._what)
        else:
            if make:
                self._make()
            elif self.empty():
                raise RetrievalError(f"{self._what} are gone: the file {self._file} does not exist any more")
            engine = open_file(self._file, what=f"{self._what} in {self._file}", pooled=False)
        try:
            prepare(engine, self.schema)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _make(self) -> None:
        """Create an empty database with mode 0600 from the first moment."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # not opened: closing it would end this process's SQLite locks
                os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR))
        except OSError as error:
            raise RetrievalError(f"{self._what} cannot be written: {error}") from error


def _release(taking: "asyncio.Future[Release | None]") -> None:
    """Release the lock that a thread took for a task that ended."""
    if not taking.cancelled() and taking.exception() is None and (release := taking.result()) is not None:
        release()
