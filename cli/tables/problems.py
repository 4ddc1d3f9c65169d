"""What is wrong with the databases of the settings, for `ragway doctor`."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from msgspec.structs import replace

from cli.assembly.tables import reading_of, table_source, table_store, visible_database
from config.sections import Settings
from config.settings import SettingsError
from proxy.tables.access import unusable
from proxy.tables.reading import UnreadableDatabase, read_database
from proxy.tables.schema import DatabaseSchema
from proxy.tables.visible import without_rows

Problem = tuple[str, str, str]  # subject, problem, advice


async def problems(settings: Settings) -> AsyncIterator[Problem]:
    """Each fault of a row of `tables`; every database is read. Raises RetrievalError."""
    with contextlib.closing(table_store(settings)) as store:
        stored = store.databases()
    for name, row in settings.tables.items():
        subject, again = f"tables.{name}", f"`ragway tables add {name}`"
        known = stored.get(name)
        try:
            source = table_source(row, None if known is None else known.source, os.environ, name)
            if source is None:
                yield (
                    subject,
                    "nothing says where the database is",
                    f"set {subject}.url, or `ragway tables add {name} URL`",
                )
                continue
            if known is None:
                yield subject, "no table was read", again
                continue
            now = await asyncio.to_thread(read_database, name, source, reading_of(row, name))
            if wrong := unusable(now, row.rows or {}):
                raise UnreadableDatabase(wrong)
            if _shape(now) != _shape(visible_database(row, known.database)):
                yield subject, "the tables are others than those that were read", again
        except (SettingsError, UnreadableDatabase) as error:
            yield subject, str(error).removeprefix(f"{subject}: "), "correct the setting, or the database"


def _shape(database: DatabaseSchema) -> DatabaseSchema:
    """What only a change of tables, comments or description changes."""
    return replace(database, tables=tuple(map(without_rows, database.tables)))
