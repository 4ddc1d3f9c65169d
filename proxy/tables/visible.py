"""Which tables and columns of a database are visible: by its settings, and by what a caller may read."""

import difflib
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from proxy.tables.schema import DatabaseSchema, Grants, TableSchema


def is_hidden(place: str, hide: Sequence[str]) -> bool:
    """Whether `hide` (TABLE.COLUMN, *.COLUMN) names a TABLE.COLUMN, in any case: databases differ in what they see."""
    return any(fnmatchcase(place.casefold(), one.casefold()) for one in hide)


def visible(
    database: DatabaseSchema, tables: Sequence[str] | None, hide: Sequence[str], rows: Collection[str] = ()
) -> DatabaseSchema:
    """A database as its settings show it. tables: names, or begin*; None: all.

    rows: tables with a condition on rows, which no view of them has: then only those views are visible that `tables`
    or `rows` names. A view that reads a hidden column, or may do so, is visible if `tables` names it. A relative of a
    table in `rows` is not visible without a condition of its own, and has the hidden columns of its relatives.
    """

    def keep(table: TableSchema) -> Collection[str] | None:
        if not _is_listed(table.name, tables):
            return None
        if table.name not in rows and any(one in rows for one in table.relatives):
            return None
        unconditional = table.view and rows and table.name not in rows
        if (unconditional or _reads_hidden(table, hide)) and table.name not in (tables or ()):
            return None
        names = (table.name, *table.relatives)
        return [one.name for one in table.columns if not any(is_hidden(f"{name}.{one.name}", hide) for name in names)]

    found = narrowed(database, keep)
    return replace(
        found, tables=tuple(replace(one, reads=None) if _reads_hidden(one, hide) else one for one in found.tables)
    )


def _reads_hidden(table: TableSchema, hide: Sequence[str]) -> bool:
    """Whether it is a view that reads a hidden column, as far as is known."""
    return table.view and bool(hide) and (table.reads is None or any(is_hidden(one, hide) for one in table.reads))


def _is_listed(table: str, tables: Sequence[str] | None) -> bool:
    return tables is None or any(fnmatchcase(table, one) for one in tables)


def granted(database: DatabaseSchema, grants: Grants) -> DatabaseSchema:
    """A database as a caller sees it. Samples and number of rows tell of rows that the caller may not read."""
    own = narrowed(database, lambda table: grants[table.name].columns if table.name in grants else None)
    return replace(own, tables=tuple(without_rows(one) if grants[one.name].rows else one for one in own.tables))


def without_rows(table: TableSchema) -> TableSchema:
    """A table without samples and number of rows."""
    return replace(table, rows=None, columns=tuple(replace(one, samples=()) for one in table.columns))


def narrowed(database: DatabaseSchema, keep: Callable[[TableSchema], Collection[str] | None]) -> DatabaseSchema:
    """A database with the columns that `keep` names; None, or no column: without the table.

    A key is left out if one of its columns is not kept.
    """
    kept = {table.name: frozenset(keep(table) or ()) for table in database.tables}

    def part(table: TableSchema) -> TableSchema:
        own = kept[table.name]
        return replace(
            table,
            columns=tuple(one for one in table.columns if one.name in own),
            primary_key=table.primary_key if own.issuperset(table.primary_key) else (),
            foreign_keys=tuple(
                one
                for one in table.foreign_keys
                if own.issuperset(one.columns)
                and kept.get(one.table, frozenset()).issuperset(one.referred)
                and kept.get(one.table)
            ),
        )

    parts = (part(table) for table in database.tables)
    return replace(database, tables=tuple(one for one in parts if one.columns))


def faults(
    database: DatabaseSchema, tables: Sequence[str] | None, hide: Sequence[str], rows: Collection[str]
) -> list[str]:
    """What these settings name that is not in the whole database: a mistyped name would hide nothing.

    rows: tables with a condition on rows.
    """
    names = [table.name for table in database.tables]
    places = [f"{table.name}.{one.name}" for table in database.tables for one in table.columns]
    no_table = [one for one in tables or () if not any(fnmatchcase(name, one) for name in names)]
    no_column = [
        one for one in hide if not one.startswith("*.") and not any(is_hidden(place, [one]) for place in places)
    ]
    wrong = [f"tables: there is no table {one!r}{_nearest(one, names)}" for one in no_table]
    wrong += [f"hide: there is no column {one!r}{_nearest(one, places)}" for one in no_column]
    return wrong + unknown_rows([name for name in names if _is_listed(name, tables)], rows)


def unknown_rows(names: Sequence[str], rows: Collection[str]) -> list[str]:
    """The faults of `rows` alone: a mistyped name would show all rows. names: of tables."""
    return [f"rows: there is no table {one!r}{_nearest(one, names)}" for one in rows if one not in names]


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
