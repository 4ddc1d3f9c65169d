"""What a database holds, as records: an SQLite file or a server through SQLAlchemy, files through DuckDB."""

import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec.structs import replace

from proxy.tables.files import UnreadableFile, load
from proxy.tables.schema import Column, DatabaseSchema, DatabaseSource, ForeignKey, TableSchema
from proxy.tables.views import (
    POSTGRES_READS,
    POSTGRES_VIEWS,
    Reads,
    duckdb_reads,
    postgres_reads,
    sqlite_reads,
    with_joined,
)
from proxy.tables.visible import faults, visible, without_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from sqlalchemy import Connection, Inspector

_COUNTED = 100_000  # rows; a larger table is not counted
_LOOKED_AT = 200  # rows, for samples
_SAMPLES = 3  # of a column
_MOST_SAMPLE_CHARS = 40  # a longer value is no sample
_MOST_COMMENT_CHARS = 300
_TIMEOUT_MS = 60_000
_DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql"}  # SQLAlchemy's name -> sqlglot's
_SQL_COMMENT = re.compile(r"--")

# Of each relation that can be read: how many rows, -1 if unknown, NULL: counting may take long; whether it is a view.
# A partition is read through its whole.
_POSTGRES_RELATIONS = """
SELECT n.nspname, c.relname, CASE WHEN c.relkind IN ('r', 'p', 'm') THEN c.reltuples END, c.relkind IN ('v', 'm')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
AND left(n.nspname, 3) <> 'pg_' AND n.nspname <> 'information_schema'
AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
"""
_POSTGRES_CHILDREN = """
SELECT cn.nspname, c.relname, pn.nspname, p.relname FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE p.relkind IN ('r', 'p', 'f')
"""


class UnreadableDatabase(Exception):
    """A database that cannot be read; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a database."""

    description: str = ""
    samples: bool = False
    rows: Collection[str] = field(default=())  # tables with a condition on rows: without samples and number of rows


def read_database(name: str, source: DatabaseSource, how: Reading) -> DatabaseSchema:
    """What is visible of a database. Raises UnreadableDatabase."""
    whole, sampled = _read(name, source, how)
    if wrong := faults(whole, source.tables, source.hide, how.rows):
        raise UnreadableDatabase("; ".join(wrong))
    found = visible(sampled, source.tables, source.hide, how.rows)
    if not found.tables:
        raise UnreadableDatabase("there is no table that can be read")
    tables = tuple(without_rows(one) if one.name in how.rows else one for one in found.tables)
    return replace(found, tables=tables, description=how.description)


def _read(name: str, source: DatabaseSource, how: Reading) -> tuple[DatabaseSchema, DatabaseSchema]:
    """All of a database, and the visible part with samples and numbers of rows."""
    if source.kind == "files" or source.url.startswith("duckdb:"):
        return _read_duckdb(name, source, how)
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    try:
        if source.kind == "sqlite":
            engine = create_engine("sqlite://", creator=lambda: _sqlite(source.url), poolclass=NullPool)
        else:
            engine = _server(source.url)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise UnreadableDatabase(f"{error}: install the package that connects to such a database") from error
    except (ArgumentError, ValueError):  # the text may have the password
        raise UnreadableDatabase(
            "the URL is not one of a database: write postgresql://USER:PASSWORD@HOST/DATABASE, "
            "with the password's special characters as %XX"
        ) from None
    try:
        with engine.connect() as sql:
            return _read_sql(name, sql, source, how)
    except (SQLAlchemyError, sqlite3.Error) as error:
        said = " ".join(str(getattr(error, "orig", None) or error).split())
        raise UnreadableDatabase(f"the database cannot be read ({said[:_MOST_COMMENT_CHARS]})") from error
    finally:
        engine.dispose()


def _sqlite(url: str) -> sqlite3.Connection:
    path = url.removeprefix("sqlite:///")
    sql = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    sql.text_factory = lambda text: text.decode("utf-8", "replace")
    return sql


def _server(url: str) -> Any:
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.pool import NullPool

    address = make_url(url)
    options: dict[str, Any] = {}
    if address.get_backend_name() in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+psycopg")
        options = {"connect_args": {"connect_timeout": 10}}
    return create_engine(address, hide_parameters=True, poolclass=NullPool, **options)


def _read_sql(
    name: str, sql: "Connection", source: DatabaseSource, how: Reading
) -> tuple[DatabaseSchema, DatabaseSchema]:
    from sqlalchemy import inspect

    backend = sql.dialect.name
    relations: dict[tuple[str | None, str], float | None] | None = None
    inspector = inspect(sql)
    schemas: list[str | None] = [None]
    if backend == "postgresql":
        sql.exec_driver_sql("SET TRANSACTION READ ONLY")
        sql.exec_driver_sql(f"SET LOCAL statement_timeout = {_TIMEOUT_MS}")
        default = inspector.default_schema_name
        rows = [
            ((None if schema == default else schema, table), estimate, view)
            for schema, table, estimate, view in sql.exec_driver_sql(_POSTGRES_RELATIONS)
        ]
        relations = {place: estimate for place, estimate, _ in rows}
        views = {place for place, _, view in rows if view}
        schemas = sorted({schema for schema, _ in relations}, key=lambda schema: schema or "")
    else:
        views = {(None, one) for one in inspector.get_view_names()}
        if backend == "sqlite":  # a virtual table may show the rows of another, and its shadow tables keep them
            listed = sql.exec_driver_sql("SELECT name FROM pragma_table_list WHERE type IN ('virtual', 'shadow')")
            views |= {(None, row.name) for row in listed}
    comments = _sqlite_comments(sql) if backend == "sqlite" else {}
    tables: list[TableSchema] = []
    places: dict[str, tuple[str | None, str]] = {}
    for schema in schemas:
        for place, table in _reflected(inspector, schema, comments):
            if relations is None or place in relations:
                tables.append(replace(table, view=place in views))
                places[table.name] = place
    tables = sorted(_related(sql, tables, inspector.default_schema_name), key=lambda one: one.name)
    whole = DatabaseSchema(name, _DIALECTS.get(backend, backend), tuple(tables))

    def read(table: TableSchema) -> TableSchema:
        place = places[table.name]
        if table.name in how.rows:
            return table
        estimate = None if relations is None else relations[place]
        count = place not in views if relations is None else estimate is not None
        return _with_rows(sql, table, place, estimate, how, count=count)

    shown = tuple(map(read, visible(whole, source.tables, source.hide, how.rows).tables))
    return whole, replace(whole, tables=shown)


def _related(sql: "Connection", tables: Sequence[TableSchema], default: str | None) -> list[TableSchema]:
    """Tables with what their views read, and which tables share their rows."""
    relatives: dict[str, set[str]] = {}
    if sql.dialect.name == "postgresql":

        def names(query: str) -> list[tuple[str, str, str]]:
            """The rows of a query for two relations and a text, which may be left out."""
            return [
                (_full_name(None if a == default else a, b), _full_name(None if c == default else c, d), "".join(more))
                for a, b, c, d, *more in sql.exec_driver_sql(query)
            ]

        relatives = _relatives([(child, parent) for child, parent, _ in names(_POSTGRES_CHILDREN)])
        texts = {
            _full_name(None if schema == default else schema, view): text
            for schema, view, text in sql.exec_driver_sql(POSTGRES_VIEWS)
        }
        read = names(POSTGRES_READS)
        read += [(view, other, column) for view, table, column in read for other in relatives.get(table, ())]
        reads = postgres_reads(texts, read)
    elif sql.dialect.name == "sqlite":
        views = sql.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'view'")
        texts = {row.name: row.sql for row in views}
        opened = sql.connection.driver_connection
        assert isinstance(opened, sqlite3.Connection)
        reads = with_joined(sqlite_reads(opened, texts), texts)
    else:
        reads = {}
    return [replace(_with_reads(one, reads), relatives=tuple(sorted(relatives.get(one.name, ())))) for one in tables]


def _relatives(children: Sequence[tuple[str, str]]) -> dict[str, set[str]]:
    """Table -> tables that it inherits from, or that inherit from it, through others, too. children: with parents."""
    parents: dict[str, set[str]] = {}
    for child, parent in children:
        parents.setdefault(child, set()).add(parent)
    found: dict[str, set[str]] = {}
    for child in parents:
        above = [child]
        for one in above:
            above += parents.get(one, set()).difference(above)
        for one in above[1:]:
            found.setdefault(child, set()).add(one)
            found.setdefault(one, set()).add(child)
    return found


def _with_reads(table: TableSchema, reads: Reads) -> TableSchema:
    """A table; a view with what it reads, if that is known."""
    found = reads.get(table.name)
    if not table.view or found is None:
        return table
    return replace(table, reads=tuple(sorted(f"{of}.{column}" for of, column in found if column)))


def _reflected(
    inspector: "Inspector", schema: str | None, comments: Mapping[tuple[str, str], str]
) -> list[tuple[tuple[str | None, str], TableSchema]]:
    """Tables and views of a schema. A view whose table is gone is left out. comments: of columns, by table."""
    from sqlalchemy.engine.reflection import ObjectKind
    from sqlalchemy.exc import DatabaseError

    kind = ObjectKind.ANY
    try:
        columns = inspector.get_multi_columns(schema=schema, kind=kind)
    except DatabaseError:
        if inspector.dialect.name != "sqlite":
            raise
        kind = ObjectKind.TABLE
        columns = inspector.get_multi_columns(schema=schema, kind=kind)
    primary = inspector.get_multi_pk_constraint(schema=schema, kind=kind)
    foreign = inspector.get_multi_foreign_keys(schema=schema, kind=kind)
    try:
        texts = inspector.get_multi_table_comment(schema=schema, kind=kind)
    except NotImplementedError:
        texts = {}
    found = []
    for place, rows in columns.items():
        if not rows:
            continue
        table = place[1]
        key: Any = primary.get(place) or {}
        found.append(
            (
                (schema, table),
                TableSchema(
                    _full_name(schema, table),
                    tuple(_column(row, comments.get((table, row["name"]), ""), inspector) for row in rows),
                    _line(dict(texts.get(place) or {}).get("text")),
                    tuple(key.get("constrained_columns") or ()),
                    tuple(_foreign_key(one) for one in foreign.get(place) or ()),
                ),
            )
        )
    return found


def _full_name(schema: str | None, table: str) -> str:
    return table if schema is None else f"{schema}.{table}"


def _column(row: Any, comment: str, inspector: "Inspector") -> Column:
    from sqlalchemy.exc import CompileError, UnsupportedCompilationError

    try:
        kind = row["type"].compile(dialect=inspector.dialect)
    except (CompileError, UnsupportedCompilationError):  # SQLite allows a column without a type
        kind = ""
    return Column(row["name"], kind, _line(row.get("comment")) or _line(comment), bool(row.get("nullable", True)))


def _foreign_key(row: Any) -> ForeignKey:
    table = _full_name(row["referred_schema"], row["referred_table"])
    return ForeignKey(tuple(row["constrained_columns"]), table, tuple(row["referred_columns"]))


def _line(text: object) -> str:
    return " ".join(text.split())[:_MOST_COMMENT_CHARS] if isinstance(text, str) else ""


def _sqlite_comments(sql: "Connection") -> dict[tuple[str, str], str]:
    """(table, column) -> the comment beside the column in CREATE TABLE: SQLite keeps a table's text."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    found = {}
    for name, text in sql.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        if not text or not _SQL_COMMENT.search(text):
            continue
        try:
            made = sqlglot.parse_one(text, dialect="sqlite")
        except (SqlglotError, RecursionError):
            continue
        for column in made.find_all(exp.ColumnDef):
            comment = " ".join(one for part in column.walk() for one in part.comments or ())
            found[name, column.name] = comment
    return found


def _with_rows(
    sql: "Connection",
    table: TableSchema,
    place: tuple[str | None, str],
    estimate: float | None,
    how: Reading,
    *,
    count: bool,
) -> TableSchema:
    """A table with its number of rows, if that is cheap, and samples, if they are wanted."""
    from sqlalchemy import column, func, literal, select
    from sqlalchemy import table as named

    source = named(place[1], *(column(one.name) for one in table.columns), schema=place[0])
    rows: int | None = None
    if estimate is not None and estimate > _COUNTED:
        rows = round(estimate)
    elif count:
        some = select(literal(1).label("one")).select_from(source).limit(_COUNTED + 1).subquery()
        number = sql.execute(select(func.count()).select_from(some)).scalar_one()
        rows = number if number <= _COUNTED else None
    if how.samples:
        read = sql.execute(select(*source.columns).limit(_LOOKED_AT)).all()
        table = _sampled(table, read)
    return replace(table, rows=rows)


def _sampled(table: TableSchema, rows: Sequence[Sequence[object]]) -> TableSchema:
    """A table with the first values of each column."""
    columns = []
    for number, one in enumerate(table.columns):
        values = dict.fromkeys(text for row in rows if (text := _sample(row[number])))
        columns.append(replace(one, samples=tuple(values)[:_SAMPLES]))
    return replace(table, columns=tuple(columns))


def _sample(value: object) -> str:
    """A text or a time as a short line; "": any other value."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, date | datetime) else ""
    return text if len(text) <= _MOST_SAMPLE_CHARS and text.isprintable() and text.strip() else ""


# Of each column of tables and views, in order: schema, table, column, type, nullable, comments, whether of a view.
_DUCKDB_COLUMNS = """
SELECT c.schema_name, c.table_name, c.column_name, c.data_type, c.is_nullable, c.comment, t.comment, t.view
FROM duckdb_columns() c JOIN (
    SELECT table_oid AS oid, schema_name, comment, false AS view FROM duckdb_tables() WHERE NOT internal
    UNION ALL SELECT view_oid, schema_name, comment, true FROM duckdb_views() WHERE NOT internal
) t ON t.oid = c.table_oid AND t.schema_name = c.schema_name
WHERE c.database_name = current_database() AND NOT c.internal
ORDER BY c.schema_name, c.table_name, c.column_index
"""
_DUCKDB_KEYS = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,
       referenced_column_names
FROM duckdb_constraints()
WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
"""


def _read_duckdb(name: str, source: DatabaseSource, how: Reading) -> tuple[DatabaseSchema, DatabaseSchema]:
    """Files, as views of DuckDB, or a DuckDB file."""
    import duckdb

    file = "" if source.kind == "files" else source.url.removeprefix("duckdb:///")
    try:
        connection = duckdb.connect(
            file or ":memory:", read_only=bool(file), config={"autoinstall_known_extensions": "false"}
        )
    except duckdb.Error as error:
        raise UnreadableDatabase(f"the database cannot be read ({str(error).splitlines()[0]})") from error
    try:
        if not file:
            load(connection, source.files, views=True)
        views, tables = _duckdb_tables(connection)
        if file:  # else the files themselves are views here
            reads = duckdb_reads(connection, {_place(one.name): [c.name for c in one.columns] for one in tables})
            lower = {name: reads[name.lower()] for name in views if name.lower() in reads}
            tables = tuple(_with_reads(replace(one, view=one.name in views), lower) for one in tables)
        whole = DatabaseSchema(name, "duckdb", tables)
        shown = visible(whole, source.tables, source.hide, how.rows).tables
        counted = {one.name for one in tables if not file or one.name not in views}
        read = [
            one if one.name in how.rows else _duckdb_rows(connection, one, how, count=one.name in counted)
            for one in shown
        ]
    except UnreadableFile as error:
        raise UnreadableDatabase(str(error)) from error
    except duckdb.Error as error:
        raise UnreadableDatabase(f"the database cannot be read ({str(error).splitlines()[0]})") from error
    finally:
        connection.close()
    return whole, replace(whole, tables=tuple(read))


def _duckdb_tables(connection: "DuckDBPyConnection") -> tuple[set[str], tuple[TableSchema, ...]]:
    """Names of views; all tables and views."""
    columns: dict[str, list[Column]] = {}
    comments: dict[str, str] = {}
    views = set()
    for schema, table, column, kind, nullable, comment, of_table, view in connection.execute(
        _DUCKDB_COLUMNS
    ).fetchall():
        name = _full_name(None if schema == "main" else schema, table)
        columns.setdefault(name, []).append(Column(column, kind, _line(comment), bool(nullable)))
        comments[name] = _line(of_table)
        if view:
            views.add(name)
    primary: dict[str, tuple[str, ...]] = {}
    foreign: dict[str, list[ForeignKey]] = {}
    for schema, table, kind, own, other, referred in connection.execute(_DUCKDB_KEYS).fetchall():
        prefix = None if schema == "main" else schema
        name = _full_name(prefix, table)
        if kind == "PRIMARY KEY":
            primary[name] = tuple(own)
        else:
            key = ForeignKey(tuple(own), _full_name(prefix, other), tuple(referred))
            foreign.setdefault(name, []).append(key)
    return views, tuple(
        TableSchema(name, tuple(some), comments[name], primary.get(name, ()), tuple(foreign.get(name, ())))
        for name, some in columns.items()
    )


def _duckdb_rows(connection: "DuckDBPyConnection", table: TableSchema, how: Reading, *, count: bool) -> TableSchema:
    place = ".".join(map(_identifier, _place(table.name)))
    number: int | None = None
    if count:
        first = connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {place} LIMIT {_COUNTED + 1})").fetchone()
        assert first is not None
        number = first[0] if first[0] <= _COUNTED else None
    if how.samples:
        names = ", ".join(_identifier(one.name) for one in table.columns)
        table = _sampled(table, connection.execute(f"SELECT {names} FROM {place} LIMIT {_LOOKED_AT}").fetchall())
    return replace(table, rows=number)


def _place(name: str) -> tuple[str, str]:
    """Schema and own name of a table of DuckDB."""
    schema, dot, own = name.partition(".")
    return (schema, own) if dot else ("main", name)


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
