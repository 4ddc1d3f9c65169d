"""From settings to the databases and files that are asked in SQL."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cli.common import knowledge as opened_knowledge
from config.sections import Settings, TableSource
from config.settings import SettingsError
from proxy.agent.tools.query_tables import TableOffers
from proxy.tables.access import Configured, TableQueries, unusable
from proxy.tables.executor import Executor
from proxy.tables.library import TableLibrary, TablesReport, TableStore
from proxy.tables.reading import Reading, UnreadableDatabase, read_database
from proxy.tables.schema import DatabaseSchema, DatabaseSource
from proxy.tables.visible import unknown_rows, visible, without_rows
from retrieval.knowledge import Knowledge, Progress

if TYPE_CHECKING:
    from proxy.tables.queries import QueryLimits

_MOST_DESCRIPTION_CHARS = 20_000


@contextlib.asynccontextmanager
async def table_library(settings: Settings, *, make: bool = False) -> AsyncIterator[TableLibrary]:
    """Databases and documents, through a running `serve` or opened by this process.

    make: create a missing data folder.
    """
    with contextlib.closing(table_store(settings)) as store:
        async with opened_knowledge(settings, make=make) as documents:
            yield TableLibrary(store, documents)


def table_store(settings: Settings) -> TableStore:
    """Where databases are described."""
    return TableStore(Path(settings.data), settings.catalog.url)


def table_source(
    row: TableSource, stored: DatabaseSource | None, environ: Mapping[str, str], name: str
) -> DatabaseSource | None:
    """Where a database is: by the settings, else as stored; None: neither says. Raises SettingsError."""
    if row.url_env:
        url = environ.get(row.url_env, "").strip()
        if not url:
            raise SettingsError(f"tables.{name}: the environment variable {row.url_env} is not set")
        if "://" not in url:
            raise SettingsError(
                f"tables.{name}: the environment variable {row.url_env} has no database URL: write "
                "postgresql://USER:PASSWORD@HOST/DATABASE"
            )
        place = source_at(url, ())
    elif row.url or row.files:
        place = source_at(row.url or "", row.files or ())
    elif stored is not None:
        place = stored
    else:
        return None
    return DatabaseSource(place.kind, place.url, place.files, row.tables, row.hide or ())


def source_at(url: str, files: tuple[str, ...]) -> DatabaseSource:
    """A source with all tables."""
    if files:
        return DatabaseSource("files", files=files)
    return DatabaseSource("sqlite" if url.startswith("sqlite:") else "sql", url)


def query_limits(settings: Settings) -> "QueryLimits":
    """What one query may use."""
    from proxy.tables.queries import QueryLimits

    row = settings.table_queries
    return QueryLimits(row.max_rows, row.max_seconds, row.memory_mb, row.result_max_mb * 2**20, row.max_cost)


def table_offers(settings: Settings, knowledge: Knowledge, environ: Mapping[str, str]) -> TableOffers | None:
    """The databases that chats can query; None: none is configured. Raises SettingsError."""
    if not settings.tables:
        return None
    for name, row in settings.tables.items():  # a missing variable must fail at the start
        table_source(row, None, environ, name)
    configured = {
        name: Configured(
            partial(_source_now, row, environ, name), partial(visible_database, row), row.rows or {}, row.offer
        )
        for name, row in settings.tables.items()
    }
    library = TableLibrary(table_store(settings), knowledge)
    queries = TableQueries(library, Executor(), configured, query_limits(settings))
    return TableOffers(queries, settings.table_queries.card_tokens, settings.table_queries.retries)


def _source_now(
    row: TableSource, environ: Mapping[str, str], name: str, stored: DatabaseSource
) -> DatabaseSource | None:
    return table_source(row, stored, environ, name)


def visible_database(row: TableSource, database: DatabaseSchema) -> DatabaseSchema:
    """A stored database as the settings show it now: they may hide more than when it was read. Raises SettingsError."""
    if wrong := unknown_rows([one.name for one in database.tables], row.rows or {}):
        raise SettingsError(f"tables.{database.name}.{'; '.join(wrong)}")
    shown = visible(database, row.tables, row.hide or (), row.rows or ())
    unsampled = {one.name for one in shown.tables if not row.samples or one.name in (row.rows or {})}
    tables = tuple(without_rows(one) if one.name in unsampled else one for one in shown.tables)
    return DatabaseSchema(shown.name, shown.dialect, tables, shown.description)


def reading_of(row: TableSource, name: str) -> Reading:
    """How to read a database. Raises UnreadableDatabase."""
    description = ""
    if row.description:
        try:
            description = Path(row.description).read_bytes().decode("utf-8", "replace")
        except OSError as error:
            raise UnreadableDatabase(f"tables.{name}.description: {row.description}: {error.strerror}") from error
        if len(description) > _MOST_DESCRIPTION_CHARS:
            raise UnreadableDatabase(
                f"tables.{name}.description: {row.description} has more than {_MOST_DESCRIPTION_CHARS:,} characters"
            )
    return Reading(description, row.samples, tuple(row.rows or ()))


async def read_tables(
    library: TableLibrary, settings: Settings, name: str, source: DatabaseSource, progress: Progress | None = None
) -> TablesReport:
    """Read a database, and bring what is stored of it up to date. Raises UnreadableDatabase, RetrievalError.

    A URL from an environment variable is not stored.
    """
    row = settings.tables.get(name, TableSource())
    how = reading_of(row, name)
    database = await asyncio.to_thread(read_database, name, source, how)
    if wrong := unusable(database, row.rows or {}):
        raise UnreadableDatabase(wrong)
    kept = DatabaseSource(source.kind, "" if row.url_env else source.url, source.files)
    return await library.add(kept, database, progress=progress)
