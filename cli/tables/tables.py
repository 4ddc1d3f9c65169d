"""ragway tables: databases and files whose tables are asked in SQL."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from cli.assembly.tables import (
    query_limits,
    read_tables,
    source_at,
    table_library,
    table_source,
    table_store,
    visible_database,
)
from cli.common import WholeNumber, arms_text, as_text, echo, echo_json, errors_as, progress_bar, run, with_settings
from cli.options import Commands
from config.sections import Settings, TableSource
from config.settings import SettingsError, check_database_name, database_url, table_files
from proxy.tables.cards import card, heading
from proxy.tables.library import MIN_RELEVANCE, FoundTable, StoredDatabase, TableStore
from proxy.tables.reading import UnreadableDatabase
from proxy.tables.schema import DatabaseSchema, DatabaseSource, Grant, TableSchema
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn
from runtime import logs

_WIDEST = 60  # column of a result
_PASSWORD = re.compile(r"://[^/]*@")


@click.group("tables", cls=Commands)
def command() -> None:
    """Keep the tables of databases and files, find tables by a question, and ask them in SQL.

    The setting `tables.NAME` says where a database is, and what may be seen of it.
    """


@command.command()
@click.argument("name")
@click.argument("places", nargs=-1, metavar="[URL|FILE...]")
@with_settings
def add(name: str, places: Sequence[str], settings: Settings) -> None:
    """Read the tables of the database NAME; run again after changes.

    The database is that of the setting `tables.NAME`; without one, a URL without a password (sqlite:///shop.db) or
    files (CSV, TSV, Parquet, JSONL, JSON, spreadsheets). Without URL and FILE, the database is read again.

    A database that cannot be read changes nothing.
    """
    with errors_as(click.UsageError, SettingsError):
        check_database_name(as_text(name), "NAME")
        given = _given([as_text(one) for one in places])
    row = settings.tables.get(name, TableSource())
    if given is not None and (row.url or row.url_env or row.files):
        raise click.ClickException(
            f"the setting tables.{name} says where the database is: run `ragway tables add {name}`"
        )
    run(_add(settings, name, row, given))


def _given(places: Sequence[str]) -> DatabaseSource | None:
    """The source that a command names. Raises SettingsError."""
    if not places:
        return None
    if len(places) == 1 and "://" in places[0]:
        return source_at(database_url(places[0], "URL", Path()), ())
    return source_at("", table_files(places, "FILE", Path()))


async def _add(settings: Settings, name: str, row: TableSource, given: DatabaseSource | None) -> int:
    async with table_library(settings, make=True) as library:
        stored = library.store.databases().get(name)
        before = given or (None if stored is None else stored.source)
        source = table_source(row, before, os.environ, name)
        if source is None:
            raise click.UsageError(f"give a URL or files, or set tables.{name}.url, .url_env or .files")
        try:
            report = await read_tables(library, settings, name, source, progress_bar(f"tables {name}", "texts"))
        except UnreadableDatabase as error:
            raise click.ClickException(logs.printable(f"{name}: {error}; nothing is changed")) from error
    changes = f"{report.added} added, {report.changed} changed, {report.unchanged} unchanged, {report.removed} removed"
    echo(f"{name}: {changes}")
    if name not in settings.tables:
        echo(f"no chat can use the tables yet: add the row `{name}: {{}}` to the setting `tables`", err=True)
    return 0


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[TableStore]:
    """Stored databases; an error becomes one line."""
    shown = errors_as(click.ClickException, RetrievalError, SettingsError)
    with contextlib.closing(table_store(settings)) as store, shown:
        yield store


def _seen(settings: Settings, stored: StoredDatabase) -> DatabaseSchema:
    row = settings.tables.get(stored.database.name, TableSource())
    return visible_database(row, stored.database) if stored.database.name in settings.tables else stored.database


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@with_settings
def list_databases(as_json: bool, settings: Settings) -> None:
    """List the databases."""
    with _opened(settings) as store:
        rows = [_database_row(settings, one) for one in store.databases().values()]
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        echo(f"{row['name']}  {len(row['tables'])} tables  {row['dialect']}  {row['source']}")
    if not rows:
        echo("no database: ragway tables add NAME URL", err=True)


@command.command()
@click.argument("name")
@click.argument("table", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON.")
@with_settings
def show(name: str, table: str | None, as_json: bool, settings: Settings) -> None:
    """Show the tables of a database as a model reads them, or one TABLE."""
    with _opened(settings) as store:
        found = _seen(settings, _database_of(store, as_text(name)))
    tables = found.tables if table is None else [_table_of(found, as_text(table))]
    if as_json:
        echo_json([_table_row(one) for one in tables])
        return
    if table is None:
        echo(heading(found) + "\n")
    echo("\n\n".join(card(one, found.dialect) for one in tables))


@command.command()
@click.argument("name")
@with_settings
async def remove(name: str, settings: Settings) -> int:
    """Forget a database: what is known of its tables, not the database itself."""
    name = as_text(name)
    async with table_library(settings) as library:
        if not await library.remove(name):
            raise click.ClickException(_no_database(library.store, name))
    echo(f"{name} is forgotten; the database itself is unchanged")
    return 0


@command.command()
@click.argument("question")
@click.option("--database", "names", multiple=True, help="Database to search; may be repeated (default: all).")
@click.option(
    "--tokens", type=WholeNumber(1, 1_000_000), help="Budget of the cards (default: table_queries.card_tokens)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@with_settings
async def search(question: str, names: Sequence[str], tokens: int | None, as_json: bool, settings: Settings) -> int:
    """Find the tables that a chat would be given for a question.

    All tables if they fit the budget; else the best, and tables that their foreign keys refer to. The last line has
    the probability that a table answers.
    """
    if not question.strip():
        raise click.UsageError("the question is empty")
    async with table_library(settings) as library:
        stored = library.store.databases()
        wanted = [as_text(name) for name in names] or [*stored]
        for name in wanted:
            _database_of(library.store, name)
        found = await library.find(
            [Turn("user", as_text(question))],
            wanted,
            budget_tokens=tokens or settings.table_queries.card_tokens,
            narrow=lambda one: _seen(settings, stored[one.name]),
        )
    if as_json:
        echo_json([_found_row(one) for one in found.tables])
        return 0
    for number, one in enumerate(found.tables, 1):
        arms = arms_text(one.ranks, one.scores) or "by other tables"
        echo(f"{number}. {one.database}/{one.table.name}  {len(one.table.columns)} columns  ({arms})")
    if not found.tables:
        echo("nothing found", err=True)
        return 0
    which = "all tables" if found.whole else "the best tables"
    relevance = "" if found.relevance is None else f"; one is relevant with probability {found.relevance:.2g}"
    echo(f"{which}, about {found.tokens:,} tokens{relevance}")
    if not found.relevant:
        echo(f"a chat is offered none: the least probability is {MIN_RELEVANCE:g}", err=True)
    return 0


def _found_row(one: FoundTable) -> dict[str, Any]:
    found = {"score": one.score, "ranks": one.ranks, "scores": one.scores}
    return {"database": one.database, **_table_row(one.table), **found}


def _database_of(store: TableStore, name: str) -> StoredDatabase:
    """The database with this name. Raises click.ClickException."""
    found = store.databases().get(name)
    if found is None:
        raise click.ClickException(_no_database(store, name))
    return found


def _no_database(store: TableStore, name: str) -> str:
    return f"there is no database {name!r}; known: {', '.join(store.databases()) or 'none'}"


def _table_of(database: DatabaseSchema, name: str) -> TableSchema:
    for one in database.tables:
        if one.name == name:
            return one
    raise click.ClickException(
        f"{database.name} has no table {name!r}: `ragway tables show {database.name}` lists them"
    )


def _database_row(settings: Settings, one: StoredDatabase) -> dict[str, Any]:
    found = _seen(settings, one)
    return {
        "name": found.name,
        "dialect": found.dialect,
        "source": _place(settings.tables.get(found.name, TableSource()), one.source),
        "tables": [table.name for table in found.tables],
    }


def _place(row: TableSource, stored: DatabaseSource) -> str:
    """Where a database is, without a user and a password."""
    if row.url_env:
        return f"${row.url_env}"
    files = row.files or stored.files
    return ", ".join(files) if files else _PASSWORD.sub("://", row.url or stored.url)


def _table_row(one: TableSchema) -> dict[str, Any]:
    return {
        "name": one.name,
        "comment": one.comment,
        "rows": one.rows,
        "primary_key": list(one.primary_key),
        "foreign_keys": [
            {"columns": list(key.columns), "table": key.table, "referred": list(key.referred)}
            for key in one.foreign_keys
        ],
        "columns": [
            {
                "name": column.name,
                "type": column.type,
                "comment": column.comment,
                "nullable": column.nullable,
                "samples": list(column.samples),
            }
            for column in one.columns
        ],
    }


@command.command()
@click.argument("name")
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help="A JSON object: columns, rows, whether rows were cut, ms.")
@with_settings
async def query(name: str, sql: str, as_json: bool, settings: Settings) -> int:
    """Ask the database NAME in SQL, and print the rows.

    As for a model, the query is one SELECT, within the limits of the setting `table_queries`, and hidden tables and
    columns do not exist. Conditions of `tables.NAME.rows` do not hold.
    """
    from proxy.tables.executor import Executor
    from proxy.tables.guard import NotAllowed, guarded
    from proxy.tables.queries import QueryFailed

    name = as_text(name)
    with _opened(settings) as store:
        stored = _database_of(store, name)
        found = _seen(settings, stored)
    with errors_as(click.ClickException, SettingsError):
        source = table_source(settings.tables.get(name, TableSource()), stored.source, os.environ, name)
    if source is None:
        raise click.ClickException(f"set tables.{name}.url_env, or run `ragway tables add {name} URL`")
    grants = {one.name: Grant(tuple(column.name for column in one.columns)) for one in found.tables}
    executor = Executor()
    try:
        with errors_as(click.ClickException, NotAllowed, QueryFailed):
            text = guarded(as_text(sql), found, grants)
            result = await executor.query(source, text, query_limits(settings), grants=grants)
    finally:
        await executor.close()
    if as_json:
        echo_json({"columns": result.columns, "rows": result.rows, "cut": result.cut, "ms": result.ms})
        return 0
    _print_rows(result.columns, result.rows)
    more = f", cut to the first {len(result.rows):,}" if result.cut else ""
    echo(f"{len(result.rows):,} rows{more}, {result.ms:.0f} ms", err=True)
    return 0


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows in columns; an empty value is a NULL."""
    cells = [[*columns], *([" ".join(("" if value is None else str(value)).split()) for value in row] for row in rows)]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*cells, strict=True)]
    for row in cells:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
