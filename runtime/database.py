"""The databases: SQLite in a file of the data folder, or PostgreSQL; opened, brought up to date, refusals told as ours.

Each schema (the catalog's, the accounts') has its tables in one module and numbered migrations in one folder. To change
a table: change it there, and add `mNNNN_what.py` with the next number to the folder, whose `upgrade()` does the same by
Alembic's `op` to a database of the number before (in SQLite a column is changed by `op.batch_alter_table`). Name it in
the folder's map. A test compares what all migrations make with the tables, in both databases.

A database is stamped with the number it has. Only one that is behind costs the import of Alembic; one without a stamp
is from before there were any, and has some of the first migration's tables or none.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieval.errors import IndexDown, RetrievalError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, ExceptionContext, MetaData, Table

# What the disk, the folder's rights or another process refuse: nothing of it speaks against the file.
_REFUSALS = {"SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_BUSY", "SQLITE_NOMEM"}
_DAMAGE = {"SQLITE_CORRUPT", "SQLITE_NOTADB"}
_MOST_CHARS = 300  # of what a server says
# Of libpq, unless the URL says otherwise: a server that is gone without a word is noticed within these seconds.
_PATIENCE = {
    "connect_timeout": "5", "tcp_user_timeout": "10000", "keepalives_idle": "10", "keepalives_interval": "5",
    "keepalives_count": "2", "application_name": "ragway",
}  # fmt: skip
_KEPT = 5  # connections to a server


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables that belong together, and how they came about."""

    name: str
    metadata: "MetaData"
    migrations: Path

    def head(self) -> int:
        """The number of the last migration."""
        return max(int(file.stem[1:5]) for file in self.migrations.glob("m[0-9][0-9][0-9][0-9]_*.py"))

    def stamp(self) -> "Table":
        """The table of the number that a database has, as Alembic makes it."""
        from sqlalchemy import Column, MetaData, String, Table

        return Table(f"{self.name}_version", MetaData(), Column("version_num", String(32), primary_key=True))


def open_file(file: Path, *, what: str = "the catalog", durable: bool = True, pooled: bool = True) -> "Engine":
    """SQLite in a file. what: is in it, for messages. durable: whether what is written survives a power cut."""
    from sqlalchemy import URL, NullPool, create_engine, event

    def tune(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA busy_timeout=5000")

    def name_refusals(context: "ExceptionContext") -> None:
        name = getattr(context.original_exception, "sqlite_errorname", "")
        if "_".join(name.split("_")[:2]) in _REFUSALS:
            raise RetrievalError(
                f"{what} cannot be read or written ({context.original_exception}): look at the disk's free space and "
                "at the rights of the data folder; nothing that was finished is lost"
            ) from context.original_exception
        if "_".join(name.split("_")[:2]) in _DAMAGE:
            raise RetrievalError(
                f"{what} cannot be read: {file} is damaged, or no database of ours ({context.original_exception}): "
                "stop `ragway serve`, then restore the file from a backup, or move it away to begin anew (the "
                "catalog together with the folder index)"
            ) from context.original_exception

    def close(*_: Any) -> None:
        make_closed(file)

    address = URL.create("sqlite", database=str(file))  # in a text, ? and % would not be the path's
    engine = create_engine(address, hide_parameters=True, poolclass=None if pooled else NullPool)
    event.listen(engine, "do_connect", close)
    event.listen(engine, "connect", tune)
    event.listen(engine, "handle_error", name_refusals)
    return engine


def make_closed(file: Path) -> None:
    """Make an SQLite file that nobody but its owner may read, or close one that is there, with what SQLite puts beside.

    What cannot be made or closed is left to whoever opens it.
    """
    with suppress(OSError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR))
        for ending in ("", "-wal", "-shm"):  # a new one of these gets the mode of the file itself
            close_to_others(file.with_name(file.name + ending))


def close_to_others(path: Path) -> None:
    """Take the rights of group and others from a file or folder, where it is there and that may be done."""
    with suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            path.chmod(mode & stat.S_IRWXU)


def open_server(url: str, *, what: str = "the catalog") -> "Engine":
    """PostgreSQL at that address; nothing is asked of it yet. Raises RetrievalError for what is no address of one."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.exc import InterfaceError, OperationalError

    address = _address(url)
    where = f"PostgreSQL at {shown(address)}"

    def name_refusals(context: "ExceptionContext") -> None:
        if context.is_pre_ping:  # the pool makes another connection then
            return
        if context.is_disconnect or isinstance(context.sqlalchemy_exception, OperationalError | InterfaceError):
            said = " ".join(str(context.original_exception).split())[:_MOST_CHARS]
            raise IndexDown(
                f"{what} cannot be had from {where} ({said}): does it run, and does catalog.url lead to it?"
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


def shown(address: "URL") -> str:
    """Host, port and database of an address: neither user nor password."""
    host = address.host or address.query.get("host") or "localhost"
    return f"{host}:{address.port or 5432}/{address.database or ''}"


def _address(url: str) -> "URL":
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        address = make_url(url)
    except (ArgumentError, ValueError):  # its text may hold the password
        raise RetrievalError(
            "catalog.url is no address of a database: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with "
            "special characters of the password as %XX"
        ) from None
    return address.set(drivername="postgresql+psycopg")


@contextmanager
def exclusive(engine: "Engine", name: str) -> "Iterator[Connection]":
    """A transaction that never overlaps with another `exclusive` one of that name, of whatever process."""
    with engine.begin() as sql:
        if engine.dialect.name == "sqlite":
            sql.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            from sqlalchemy import text

            sql.execute(text(f"SELECT pg_advisory_xact_lock({lock_number(name)} + hashtext(current_schema()))"))
        yield sql


def lock_number(name: str) -> int:
    """The number by which PostgreSQL knows a lock of ours."""
    return int.from_bytes(sha256(f"ragway {name}".encode()).digest()[:7])


def prepare(engine: "Engine", schema: Schema) -> None:
    """Make the schema's tables where there are none, and bring those of an earlier version up to date.

    Raises RetrievalError where they are of a later one; SQLAlchemy's DatabaseError where they are somebody else's.
    """
    head = schema.head()
    with engine.connect() as sql:
        if _version(sql, schema) == head:
            _check(sql, schema)
            return
    with _alone(engine, schema) as sql:
        _migrate(sql, schema, head)


def is_current(engine: "Engine", schema: Schema) -> bool:
    """Whether the schema's tables are there as this version knows them."""
    with engine.connect() as sql:
        return _version(sql, schema) == schema.head()


@contextmanager
def _alone(engine: "Engine", schema: Schema) -> "Iterator[Connection]":
    """`exclusive`, and in SQLite a table may go to which others refer: one that is changed is made anew."""
    if engine.dialect.name != "sqlite":
        with exclusive(engine, schema.name) as sql:
            yield sql
        return
    with engine.connect() as sql:
        sql.exec_driver_sql("PRAGMA foreign_keys=OFF")  # means nothing within a transaction
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
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(schema.migrations), version_locations=[str(schema.migrations)])
    after = "base" if found is None else f"{found:04}"
    with Operations.context(MigrationContext.configure(sql)):
        for script in reversed(list(scripts.iterate_revisions("head", after))):
            script.module.upgrade()


def examined(engine: "Engine", schema: Schema) -> list[str]:
    """What is wrong with a database, as it stands: nothing is changed. The engine is closed."""
    from sqlalchemy.exc import DatabaseError

    try:
        with engine.connect() as sql:
            return _examined(sql, schema)
    except RetrievalError as error:
        return [str(error)]
    except DatabaseError as error:
        return [f"it cannot be read ({error.orig})"]
    finally:
        engine.dispose()


def _examined(sql: "Connection", schema: Schema) -> list[str]:
    wrong = []
    found, head = _version(sql, schema), schema.head()
    if found is not None and found > head:
        wrong.append(f"it was written by a later version of ragway (schema {found}, this one knows {head})")
    if sql.dialect.name == "sqlite":
        said = [str(row[0]) for row in sql.exec_driver_sql("PRAGMA integrity_check(5)")]
        wrong += [f"integrity_check: {' '.join(line.split())}" for line in said if line != "ok"]
        loose = len(sql.exec_driver_sql("PRAGMA foreign_key_check").fetchall())
        wrong += [f"{loose} rows refer to rows that are not there"] if loose else []
    return wrong


def _version(sql: "Connection", schema: Schema) -> int | None:
    from sqlalchemy import inspect, select

    stamp = schema.stamp()
    if not inspect(sql).has_table(stamp.name):
        return None
    found = sql.scalar(select(stamp.c.version_num))
    return None if found is None else int(found)


def _check(sql: "Connection", schema: Schema) -> None:
    """Tables of those names may be others'."""
    from sqlalchemy import select

    for table in schema.metadata.tables.values():
        sql.execute(select(table).limit(0))
