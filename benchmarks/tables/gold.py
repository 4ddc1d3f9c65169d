"""Do judged SQL queries return the same rows through the guard and the executor as they return without?

    python benchmarks/tables/gold.py DIR [--postgres]

DIR has `questions.jsonl`, whose rows name a database and its `gold_sql` (SQLite's dialect), and `db/NAME.sqlite`. Each
query runs on SQLite as written; on DuckDB and PostgreSQL, with the same tables and rows, as sqlglot translates it. A
query counts if it runs without ragway. Rows are compared as a multiset. --postgres: start a PostgreSQL server, too.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from proxy.tables.engines import _value
from proxy.tables.executor import Executor, QueryFailed, QueryLimits
from proxy.tables.guard import NotAllowed, guarded
from proxy.tables.schema import Column, DatabaseSchema, DatabaseSource, Grant, TableSchema

LIMITS = QueryLimits(max_rows=1_000_000, max_seconds=30, memory_mb=1024, result_bytes=2**28)


@dataclass(slots=True)
class Engine:
    """A database on one engine."""

    database: DatabaseSchema
    source: DatabaseSource
    plain: Callable[[str], list[list[Any]]]  # raises any error of the engine


@dataclass(slots=True)
class Count:
    """What came of an engine's queries."""

    ran: int = 0
    equal: int = 0
    guard_ms: list[float] = field(default_factory=list)
    query_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def schema(file: Path, dialect: str, *, lower: bool) -> DatabaseSchema:
    """The tables of an SQLite file."""
    with sqlite3.connect(file) as sql:
        names = [row[0] for row in sql.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
        rows = {name: list(sql.execute(f'PRAGMA table_info("{name}")')) for name in names}
    low: Callable[[str], str] = str.lower if lower else str
    found = [TableSchema(low(name), tuple(Column(low(one[1]), one[2]) for one in rows[name])) for name in names]
    return DatabaseSchema(file.stem, dialect, tuple(found))


def contents(file: Path, dialect: str) -> Iterator[tuple[str, str, list[tuple[Any, ...]]]]:
    """CREATE TABLE for another engine, the table's name, and the rows; types that sqlglot does not know become text."""
    import sqlglot

    with sqlite3.connect(file) as sql:
        for one in schema(file, dialect, lower=True).tables:
            columns = []
            for column in one.columns:
                try:
                    kind = sqlglot.exp.DataType.build(column.type or "text", dialect="sqlite").sql(dialect)
                except sqlglot.ParseError:
                    kind = "TEXT"
                columns.append(f'"{column.name}" {kind}')
            rows = list(sql.execute(f'SELECT * FROM "{one.name}"'))
            yield f'CREATE TABLE "{one.name}" ({", ".join(columns)})', one.name, rows


def on_sqlite(file: Path, _: Path) -> Engine:
    sql = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    return Engine(
        schema(file, "sqlite", lower=False),
        DatabaseSource("sqlite", f"sqlite:///{file}"),
        lambda text: [list(row) for row in sql.execute(text)],
    )


def on_duckdb(file: Path, folder: Path) -> Engine:
    import duckdb

    place = folder / f"{file.stem}.duckdb"
    with duckdb.connect(str(place)) as made:
        for create, name, rows in contents(file, "duckdb"):
            made.execute(create)
            if rows:
                made.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(rows[0]))})', rows)
    sql = duckdb.connect(str(place), read_only=True)
    return Engine(
        schema(file, "duckdb", lower=True),
        DatabaseSource("sql", f"duckdb:///{place}"),
        lambda text: [list(row) for row in sql.execute(text).fetchall()],
    )


def on_postgres(url: str, file: Path) -> Engine:
    import psycopg

    sql = psycopg.connect(url, autocommit=True)
    for create, name, rows in contents(file, "postgres"):
        sql.execute(create.encode())
        if rows:
            texts = [[None if one is None else str(one) for one in row] for row in rows]  # cast by the server
            with sql.cursor() as cursor:
                cursor.executemany(f'INSERT INTO "{name}" VALUES ({", ".join(["%s"] * len(rows[0]))})'.encode(), texts)
    sql.execute("ANALYZE")
    return Engine(
        schema(file, "postgres", lower=True),
        DatabaseSource("sql", url),
        lambda text: [list(row) for row in sql.execute(text.encode()).fetchall()],
    )


def translated(text: str, database: DatabaseSchema) -> str:
    """A query of SQLite's dialect, in which "…" may be a text, for another engine."""
    import sqlglot
    from sqlglot import exp

    columns = {column.name for one in database.tables for column in one.columns}
    tree = sqlglot.parse_one(text, dialect="sqlite")
    for column in list(tree.find_all(exp.Column)):
        if column.this.args.get("quoted") and not column.table and column.name.lower() not in columns:
            column.replace(exp.Literal.string(column.name))
    return tree.sql(database.dialect)


def multiset(rows: Sequence[Sequence[Any]]) -> Counter[str]:
    return Counter(json.dumps([_value(one) for one in row]) for row in rows)


async def compare(engine: Engine, queries: Sequence[str], executor: Executor, count: Count) -> None:
    grants = {one.name: Grant(tuple(column.name for column in one.columns)) for one in engine.database.tables}
    for query in queries:
        try:
            text = query if engine.database.dialect == "sqlite" else translated(query, engine.database)
            plain = engine.plain(text)
        except Exception:  # noqa: BLE001 - whatever an engine refuses does not count
            continue
        count.ran += 1
        started = time.perf_counter()
        try:
            safe = guarded(text, engine.database, grants)
            count.guard_ms.append((time.perf_counter() - started) * 1000)
            started = time.perf_counter()
            found = await executor.query(engine.source, safe, LIMITS, grants=grants)
            count.query_ms.append((time.perf_counter() - started) * 1000)
        except (NotAllowed, QueryFailed) as error:
            count.failures.append(f"{engine.database.name}: {error}\n    {text}")
            continue
        if multiset(plain) == multiset(found.rows):
            count.equal += 1
        else:
            count.failures.append(
                f"{engine.database.name}: {len(plain)} and {len(found.rows)} rows\n    {text}\n    {safe}"
            )


def percentile(values: Sequence[float], share: float) -> str:
    return f"{sorted(values)[int(share * (len(values) - 1))]:.1f}" if values else "–"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=Path)
    parser.add_argument("--postgres", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in (asked.dir / "questions.jsonl").read_text("utf-8").splitlines()]
    queries: dict[str, list[str]] = {}
    for row in rows:
        queries.setdefault(row["db"], []).extend(row["gold_sql"])
    files = {name: asked.dir / "db" / f"{name}.sqlite" for name in queries}
    there = [name for name in queries if files[name].exists()]
    say(f"{len(there)} of {len(queries)} databases are there: {sum(len(queries[name]) for name in there)} queries")
    results: dict[str, Count] = {}
    executor = Executor()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds: dict[str, Callable[[Path], Engine]] = {
            "SQLite": lambda file: on_sqlite(file, folder),
            "DuckDB": lambda file: on_duckdb(file, folder),
        }
        if asked.postgres:
            from tests.support.postgres_server import running

            server = stack.enter_context(running())
            kinds["PostgreSQL"] = lambda file: on_postgres(server.database(), file)
        for kind, opened in kinds.items():
            for name in there:
                await compare(opened(files[name]), queries[name], executor, results.setdefault(kind, Count()))
        await executor.close()
    for kind, count in results.items():
        for failure in count.failures:
            say(f"{kind}: {failure}")
    total = sum(len(queries[name]) for name in there)
    print(
        table(
            ["engine", "queries", "run plainly", "rows equal", "share", "guard p50 ms", "query p50 ms", "query p99 ms"],
            [
                [
                    kind, f"{total:,}", f"{count.ran:,}", f"{count.equal:,}", f"{count.equal / max(count.ran, 1):.4f}",
                    percentile(count.guard_ms, 0.5), percentile(count.query_ms, 0.5), percentile(count.query_ms, 0.99),
                ]
                for kind, count in results.items()
            ],
        )
    )  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
