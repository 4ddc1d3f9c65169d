"""The second wall: databases opened so that they refuse by themselves what is no reading of allowed tables.

This runs in a process of its own (`executor`), which can open nothing more once its database is open.
"""

import math
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from proxy.tables.error_texts import masked
from proxy.tables.grammar import SQLITE_FUNCTIONS
from proxy.tables.queries import FailureKind, QueryLimits, QueryResult
from proxy.tables.schema import DatabaseSource
from proxy.tables.views import sqlite_reads

_AT_ONCE = 100  # rows
_SHORT = 15  # digits that a float holds exactly
_CONNECT_S = 10
_NOTHING_THERE = "there is no such table, column or function"
_STEPS = 1_000  # of SQLite's machine, between two looks at the clock

_OF_WITH = re.compile(r"_+q\d+")

Readable = Mapping[str, frozenset[str]]  # table -> columns, in lower case


class Ask(msgspec.Struct, frozen=True):
    """A question to the process. sql "": what the database's owner should know."""

    sql: str
    limits: QueryLimits
    readable: dict[str, frozenset[str]] | None = None  # None: all that the source shows


class NoResult(msgspec.Struct, frozen=True):
    """An answer without a result. broken: the process is of no further use."""

    text: str
    kind: FailureKind = "error"
    broken: bool = False


class Warnings(msgspec.Struct, frozen=True):
    """What the database's owner should know."""

    texts: tuple[str, ...]


class Engine(Protocol):
    """An open database."""

    def query(self, ask: Ask) -> QueryResult | NoResult: ...

    def warnings(self) -> tuple[str, ...]: ...

    def close(self) -> None: ...


def answerer(source: DatabaseSource, memory_mb: int) -> Callable[[Ask], QueryResult | NoResult | Warnings]:
    """Open a database, and return the function that answers."""
    try:
        engine = opened(source, memory_mb)
    except (MemoryError, RecursionError):
        raise
    except _failures() as error:
        failure = NoResult(f"the database cannot be opened now ({type(error).__name__})", broken=True)
        return lambda _: failure

    def answer(ask: Ask) -> QueryResult | NoResult | Warnings:
        return engine.query(ask) if ask.sql else Warnings(engine.warnings())

    return answer


def opened(source: DatabaseSource, memory_mb: int) -> Engine:
    """The database of a source. Raises one of `_failures`."""
    scheme = source.url.partition(":")[0].partition("+")[0]
    if source.kind == "files" or (source.kind == "sql" and scheme == "duckdb"):
        return DuckEngine(source, memory_mb)
    if source.kind == "sqlite" or scheme == "sqlite":
        return SqliteEngine(source)
    if scheme in {"postgresql", "postgres"}:
        return PostgresEngine(source)
    return OtherEngine(source)


def _failures() -> tuple[type[Exception], ...]:
    """What opening may raise: libraries' own errors, of those that are loaded."""
    import sys

    found: list[type[Exception]] = [sqlite3.Error, OSError, ValueError, ImportError]
    for module, name in (("duckdb", "Error"), ("psycopg", "Error"), ("sqlalchemy.exc", "SQLAlchemyError")):
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    if files := sys.modules.get("proxy.tables.files"):
        found.append(files.UnreadableFile)
    return tuple(found)


def _path(source: DatabaseSource, scheme: str) -> str:
    return source.url.removeprefix(f"{scheme}:///") or source.files[0]


def _collected(
    columns: Iterable[str], rows: Iterator[Any], limits: QueryLimits, started: float
) -> QueryResult | NoResult:
    """The rows within the limits."""
    kept: list[list[Any]] = []
    size, cut = 0, False
    for row in rows:
        values = [_value(one) for one in row]
        size += len(msgspec.json.encode(values))
        if len(kept) >= limits.max_rows or size > limits.result_bytes:
            cut = True
            break
        kept.append(values)
    if cut and not kept:
        return NoResult("the first row is too large: select fewer columns, or a part of a text by substr")
    return QueryResult(tuple(columns), kept, cut, round((time.monotonic() - started) * 1000, 3))


def _value(value: Any) -> Any:
    """A JSON value."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): _value(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_value(one) for one in value]
    return str(value)  # a date, a time, an interval, a UUID: as Python writes them, which is as ISO 8601 does


def _number(value: Decimal) -> int | float | str:
    if not value.is_finite() or len(value.as_tuple().digits) > _SHORT or abs(value.adjusted()) > _SHORT:
        return str(value)
    return int(value) if value == value.to_integral_value() else float(value)


def _too_slow(limits: QueryLimits) -> NoResult:
    return NoResult(f"the query takes longer than {limits.max_seconds:g} s: ask for less", "timeout")


def _too_large(limits: QueryLimits) -> NoResult:
    return NoResult(f"the query needs more than {limits.memory_mb} MB of memory: ask for less", "memory")


class SqliteEngine:
    """An SQLite file, opened for reading, with an authorizer that knows tables, columns and functions."""

    def __init__(self, source: DatabaseSource) -> None:
        self._sql = sqlite3.connect(
            f"file:{quote(str(Path(_path(source, 'sqlite')).absolute()))}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        for pragma in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY", "cell_size_check = ON"):
            self._sql.execute(f"PRAGMA {pragma}")
        for limit, most in _SQLITE_LIMITS.items():
            self._sql.setlimit(limit, most)
        self._sql.text_factory = lambda text: text.decode("utf-8", "replace")
        self._hidden = source.hide
        self._shown = None if source.tables is None else {name.lower() for name in source.tables}
        self._read: dict[str, set[tuple[str, str]]] = {}  # view -> what it reads
        self._tables: set[str] = set()
        self._version = -1  # of the catalog that was read
        self._read_catalog()

    def _read_catalog(self) -> None:
        """Note the tables and views, if they are others than before."""
        (version,) = self._sql.execute("PRAGMA schema_version").fetchone()
        if version == self._version:
            return
        found = self._sql.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table','view')").fetchall()
        views = [name for name, kind in found if kind == "view"]
        reads = sqlite_reads(self._sql, views)
        self._read = {one.lower(): {(a.lower(), b.lower()) for a, b in reads.get(one, ())} for one in views}
        self._tables = {name.lower() for name, kind in found if kind != "view"}
        self._version = version

    def close(self) -> None:
        self._sql.close()

    def warnings(self) -> tuple[str, ...]:
        return ()

    def query(self, ask: Ask) -> QueryResult | NoResult:
        started = time.monotonic()
        until = started + ask.limits.max_seconds
        denied: list[str] = []
        self._sql.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        cursor = self._sql.cursor()
        try:
            self._read_catalog()
            self._sql.set_authorizer(lambda *what: self._decide(ask.readable, denied, *what))
            cursor.execute(ask.sql)
            if cursor.description is None:
                return NoResult(_NOTHING_THERE)
            names = [one[0] for one in cursor.description]
            return _collected(names, _batches(cursor), ask.limits, started)
        except MemoryError:
            return _too_large(ask.limits)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            text = str(error)
            if time.monotonic() > until and "interrupted" in text:
                return _too_slow(ask.limits)
            if "out of memory" in text:
                return _too_large(ask.limits)
            broken = "unable to open" in text or "disk I/O" in text or ("malformed" in text and "disk" in text)
            absent = text.startswith("no such") and "function" not in text  # YEAR(…), which other databases have
            if denied or absent:  # what is forbidden looks as if it were not there
                return NoResult(_NOTHING_THERE)
            return NoResult(masked(text, ask.sql), broken=broken)
        finally:
            cursor.close()
            self._sql.set_authorizer(None)
            self._sql.set_progress_handler(None, 0)

    def _decide(
        self, readable: Readable | None, denied: list[str], action: int, first: Any, second: Any, _: Any, within: Any
    ) -> int:
        ok: bool = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
        if action == sqlite3.SQLITE_FUNCTION:
            ok = str(second).lower() in SQLITE_FUNCTIONS
        elif action == sqlite3.SQLITE_READ:
            table, column = str(first).lower(), str(second).lower()
            ok = self._may(readable, table, column) or (not column and self._is_of_with(table))
            if not ok and within is not None and self._may(readable, str(within).lower(), ""):
                ok = (table, column) in self._read.get(str(within).lower(), ())
                ok = ok and not (readable is None and _any_match(f"{table}.{column}", self._hidden))
        if not ok:
            denied.append(str(first))
        return sqlite3.SQLITE_OK if ok else sqlite3.SQLITE_DENY

    def _is_of_with(self, name: str) -> bool:
        """Whether it is a name that the guard gives to a name of WITH."""
        return bool(_OF_WITH.fullmatch(name)) and name not in self._tables and name not in self._read

    def _may(self, readable: Readable | None, table: str, column: str) -> bool:
        if table not in self._tables and table not in self._read:
            return False  # catalogs and table functions
        if readable is not None:
            return table in readable and (column == "" or column in readable[table])
        return (self._shown is None or _any_match(table, self._shown)) and not (
            column and _any_match(f"{table}.{column}", self._hidden)
        )


def _any_match(name: str, patterns: Iterable[str]) -> bool:
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, one.lower()) for one in patterns)


_SQLITE_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 16 * 2**20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 2**20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def _batches(cursor: Any) -> Iterator[Any]:
    while rows := cursor.fetchmany(_AT_ONCE):
        yield from rows


class DuckEngine:
    """Files or a DuckDB file, read first; afterwards DuckDB reaches no file and no network, and keeps its settings."""

    def __init__(self, source: DatabaseSource, memory_mb: int) -> None:
        import duckdb

        config: dict[str, Any] = {
            "threads": "1",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
        }
        if source.kind == "files":
            from proxy.tables.files import load

            self._sql = duckdb.connect(":memory:", config={**config, "temp_directory": ""})
            load(self._sql, source.files)
        else:
            self._sql = duckdb.connect(_path(source, "duckdb"), read_only=True, config=config)
            self._sql.execute("SELECT 1 FROM duckdb_columns() LIMIT 1").fetchall()
        (used,) = self._sql.execute("SELECT coalesce(sum(memory_usage_bytes), 0) FROM duckdb_memory()").fetchone() or (
            0,
        )
        allowed_mb = int(used) // 2**20 + max(memory_mb // 2, 64)  # of the process's limit, which would end the process
        for setting in (
            f"memory_limit = '{allowed_mb}MB'",
            "python_enable_replacements = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._sql.execute(f"SET {setting}")

    def close(self) -> None:
        self._sql.close()

    def warnings(self) -> tuple[str, ...]:
        return ()

    def query(self, ask: Ask) -> QueryResult | NoResult:
        import duckdb

        started = time.monotonic()
        timer = threading.Timer(ask.limits.max_seconds, self._sql.interrupt)
        timer.daemon = True
        try:
            statements = self._sql.extract_statements(ask.sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                return NoResult("this is not one SELECT")
            timer.start()
            found = self._sql.execute(statements[0])
            names = [one[0] for one in found.description or ()]
            return _collected(names, _batches(found), ask.limits, started)
        except duckdb.InterruptException:
            return _too_slow(ask.limits)
        except (duckdb.OutOfMemoryException, MemoryError):
            return _too_large(ask.limits)
        except duckdb.FatalException as error:
            return NoResult(masked(str(error), ask.sql), broken=True)
        except (duckdb.CatalogException, duckdb.PermissionException) as error:
            function = "Function with name" in str(error)
            return NoResult(masked(str(error), ask.sql) if function else _NOTHING_THERE)
        except (duckdb.Error, ValueError, OverflowError) as error:
            return NoResult(masked(str(error), ask.sql))
        finally:
            timer.cancel()


class PostgresEngine:
    """A PostgreSQL server: one statement in a read-only transaction with fixed settings, and nothing left after it."""

    def __init__(self, source: DatabaseSource) -> None:
        import psycopg

        address = "postgresql:" + source.url.partition(":")[2]
        self._sql = psycopg.connect(
            address,
            connect_timeout=_CONNECT_S,
            application_name="ragway tables",
            autocommit=True,
            prepare_threshold=None,  # DISCARD ALL drops what is prepared
        )
        self._settings = [
            "standard_conforming_strings = on",
            "backslash_quote = off",
            "idle_in_transaction_session_timeout = '60s'",
            "max_parallel_workers_per_gather = 0",
            "work_mem = '32MB'",
        ]
        (schema,) = self._sql.execute("SELECT quote_ident(current_schema())").fetchone() or (None,)
        self._settings.append(f"search_path = {schema or 'pg_catalog'}")
        try:  # a query ends soon after this process
            self._sql.execute("SET client_connection_check_interval = 250")
            self._settings.append("client_connection_check_interval = 250")
        except psycopg.Error:  # before PostgreSQL 14
            pass

    def close(self) -> None:
        self._sql.close()

    def warnings(self) -> tuple[str, ...]:
        (superuser,) = self._sql.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() or (
            0,
        )
        if superuser:
            return ("the role is a superuser, and could read files and end other connections: use one that only reads",)
        (writes,) = self._sql.execute(_POSTGRES_WRITES).fetchone() or (0,)
        return (f"the role may change {writes} tables: use one that only reads",) if writes else ()

    def query(self, ask: Ask) -> QueryResult | NoResult:
        import psycopg
        from psycopg import errors

        started = time.monotonic()
        most_ms = max(int(ask.limits.max_seconds * 1000), 1)
        settings = [*self._settings, f"statement_timeout = {most_ms}", f"lock_timeout = {min(most_ms, 1000)}"]
        text = ask.sql.encode()
        try:
            self._sql.execute("BEGIN READ ONLY")
            self._sql.execute(";".join(f"SET LOCAL {one}" for one in settings).encode())
            if ask.limits.max_cost:
                # With binary results, a text is one statement to the server: two are refused.
                ((plan,),) = self._sql.cursor(binary=True).execute(b"EXPLAIN (FORMAT JSON) " + text)
                cost = float(plan[0]["Plan"]["Total Cost"])
                if cost > ask.limits.max_cost:
                    return NoResult(  # without the estimate, which comes from rows of others, too
                        "the database estimates that the query costs too much: filter or aggregate more, and give each "
                        "JOIN its condition",
                        "too_expensive",
                    )
            with self._sql.cursor("ragway", withhold=False) as cursor:
                cursor.itersize = _AT_ONCE
                cursor.execute(text)
                return _collected([one.name for one in cursor.description or ()], _batches(cursor), ask.limits, started)
        except errors.QueryCanceled:
            return _too_slow(ask.limits)
        except (errors.OutOfMemory, errors.DiskFull, errors.ConfigurationLimitExceeded, MemoryError):
            return _too_large(ask.limits)
        except (
            errors.InsufficientPrivilege,
            errors.UndefinedTable,
            errors.InvalidSchemaName,
        ):
            return NoResult(_NOTHING_THERE)
        except (psycopg.Error, ValueError, OverflowError) as error:
            if self._sql.closed or self._sql.broken:
                os._exit(1)  # the sandbox asks again, in a new process
            said = error.diag.message_primary if isinstance(error, psycopg.Error) else ""
            return NoResult(masked(said or str(error), ask.sql))
        finally:
            if not self._sql.closed:
                self._sql.execute("ROLLBACK")
                self._sql.execute("DISCARD ALL")


_POSTGRES_WRITES = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
"""


class OtherEngine:
    """Any database that SQLAlchemy knows: in a transaction that is rolled back, read-only if the database has such."""

    def __init__(self, source: DatabaseSource) -> None:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        self._sql = create_engine(source.url, hide_parameters=True, poolclass=NullPool).connect()
        self._begin = _OTHER_BEGIN.get(self._sql.dialect.name, "")

    def close(self) -> None:
        self._sql.close()

    def warnings(self) -> tuple[str, ...]:
        if self._begin:
            return ()
        return ("this database has no transaction that ragway can make read-only: use a role that only reads",)

    def query(self, ask: Ask) -> QueryResult | NoResult:
        from sqlalchemy.exc import SQLAlchemyError

        started = time.monotonic()
        try:
            for one in self._begin.format(ms=int(ask.limits.max_seconds * 1000)).split(";"):
                if one:
                    self._sql.exec_driver_sql(one)
            found = self._sql.execution_options(stream_results=True).exec_driver_sql(ask.sql)
            if not found.returns_rows:
                return NoResult("this is not one SELECT")
            return _collected(found.keys(), _batches(found), ask.limits, started)
        except MemoryError:
            return _too_large(ask.limits)
        except (SQLAlchemyError, ValueError, OverflowError) as error:
            return NoResult(masked(str(getattr(error, "orig", None) or error), ask.sql), broken=self._sql.invalidated)
        finally:
            self._sql.rollback()


_OTHER_BEGIN = {
    "mysql": "SET SESSION MAX_EXECUTION_TIME={ms};START TRANSACTION READ ONLY",
    "mariadb": "SET SESSION max_statement_time={ms}/1000;START TRANSACTION READ ONLY",
    "oracle": "SET TRANSACTION READ ONLY",
}
