"""Records of a database: where it is, what it holds, and what a caller may read of it."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    type: str  # as the database writes it
    comment: str = ""
    nullable: bool = True
    samples: tuple[str, ...] = ()  # a few values, if the settings allow them


class ForeignKey(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]
    table: str  # that it refers to
    referred: tuple[str, ...]


class TableSchema(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table or view. Columns that nobody may see are not here."""

    name: str  # unique in the database; SCHEMA.TABLE if it is not in the default schema
    columns: tuple[Column, ...]
    comment: str = ""
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    rows: int | None = None  # about how many; None: not known
    view: bool = False
    reads: tuple[str, ...] | None = None  # TABLE.COLUMN of what a view reads, also through others; None: not known
    relatives: tuple[str, ...] = ()  # tables whose rows are also rows of this one, or the reverse, by inheritance


class DatabaseSchema(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str  # of the setting
    dialect: str  # of its SQL, as sqlglot names it: sqlite, duckdb, postgres, mysql…
    tables: tuple[TableSchema, ...]
    description: str = ""  # what words mean and how to count, by its owner


class DatabaseSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a database is. One of `url` and `files` is given."""

    kind: Literal["sqlite", "files", "sql"]  # files: read through DuckDB; sql: a server, by SQLAlchemy
    url: str = ""  # with its password: never shown
    files: tuple[str, ...] = ()  # absolute paths
    tables: tuple[str, ...] | None = None  # None: all
    hide: tuple[str, ...] = ()  # TABLE.COLUMN or *.COLUMN


class Grant(msgspec.Struct, frozen=True):
    """What a caller may read of one table."""

    columns: tuple[str, ...]
    rows: str = ""  # SQL predicate over the table's columns, with the caller's values as literals; "": all rows


Grants = Mapping[str, Grant]  # by table
