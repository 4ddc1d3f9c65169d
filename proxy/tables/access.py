"""Queries within a caller's rights: one way to a team's databases for chats, HTTP, MCP and the command line."""

import asyncio
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from proxy.tables.executor import Executor, QueryLimits, QueryResult
from proxy.tables.library import FoundTables, TableLibrary
from proxy.tables.schema import DatabaseSchema, DatabaseSource, Grant
from proxy.tables.visible import granted
from retrieval.records.search import Turn

_PLACEHOLDER = re.compile(r"\{(key\.[a-z]+)\}")  # checked with the settings


class NoSuchDatabase(LookupError):
    """No database of this name for the caller; the message lists those it may query."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    query: Container[str]  # the tables it may read, as DATABASE.TABLE
    values: Mapping[str, str] = field(default_factory=dict)  # by placeholder, such as key.team; "": not known


@dataclass(frozen=True, slots=True)
class Configured:
    """One row of `tables`."""

    # Where the database is now, of where it was when it was read.
    source: Callable[[DatabaseSource], DatabaseSource | None]
    visible: Callable[[DatabaseSchema], DatabaseSchema]  # what the settings show of it
    rows: Mapping[str, str]  # table -> condition with placeholders
    offer: bool  # to chats that do not name it


@dataclass(frozen=True, slots=True)
class Permitted:
    """A database as a caller sees it."""

    database: DatabaseSchema  # the tables and columns that it may read
    grants: Mapping[str, Grant]  # by table
    source: DatabaseSource
    key: str  # of the caller


@dataclass(frozen=True, slots=True)
class TableQueries:
    """The configured databases."""

    library: TableLibrary
    executor: Executor
    configured: Mapping[str, Configured]
    limits: QueryLimits

    async def close(self) -> None:
        await self.executor.close()
        self.library.store.close()

    async def permitted(self, caller: Caller, names: Sequence[str] | None = None) -> dict[str, Permitted]:
        """Name -> database, for those with a table that the caller may read. Raises RetrievalError.

        names: None: all.
        """
        stored = await asyncio.to_thread(self.library.store.databases)
        found = {}
        for name, row in self.configured.items():
            if name not in stored or (names is not None and name not in names):
                continue
            source = row.source(stored[name].source)
            database, grants = seen_by(row.visible(stored[name].database), row.rows, caller)
            if grants and source is not None:
                found[name] = Permitted(database, grants, source, caller.values.get("key.id", ""))
        return found

    async def database(self, name: str | None, caller: Caller) -> Permitted:
        """A database by name; None: the only one. Raises NoSuchDatabase, RetrievalError."""
        permitted = await self.permitted(caller)
        if name is None:
            name = next(iter(permitted)) if len(permitted) == 1 else ""
        if name not in permitted:
            known = ", ".join(permitted) or "none"
            raise NoSuchDatabase(
                f"There is no database {name!r} for this request; there are: {known}. A database needs a row in the "
                "setting `tables` and `ragway tables add`, and a key needs `--query DATABASE.TABLE`."
            )
        return permitted[name]

    async def find(self, turns: Sequence[Turn], permitted: Mapping[str, Permitted], budget_tokens: int) -> FoundTables:
        """The permitted tables for the latest question. Raises RetrievalError."""
        return await self.library.find(
            turns, list(permitted), budget_tokens=budget_tokens, narrow=lambda one: permitted[one.name].database
        )

    async def query(self, permitted: Permitted, sql: str) -> QueryResult:
        """The rows of a statement. Raises NotAllowed, QueryFailed."""
        from proxy.tables.guard import guarded  # sqlglot: 0.2 s

        statement = await asyncio.to_thread(guarded, sql, permitted.database, permitted.grants)
        source, grants = permitted.source, permitted.grants
        return await self.executor.query(source, statement, self.limits, grants=grants, owner=permitted.key)


def seen_by(
    database: DatabaseSchema, rules: Mapping[str, str], caller: Caller
) -> tuple[DatabaseSchema, dict[str, Grant]]:
    """A database with the tables that the caller may read. A rule that needs an unknown value closes its table."""
    grants = {}
    for table in database.tables:
        rows = filled(rules.get(table.name, ""), caller.values)
        if rows is not None and f"{database.name}.{table.name}" in caller.query:
            grants[table.name] = Grant(tuple(column.name for column in table.columns), rows)
    return granted(database, grants), grants


def unusable(database: DatabaseSchema, rules: Mapping[str, str]) -> str:
    """Why no query can be written with these conditions; "": it can."""
    from proxy.tables.cards import quoted_table
    from proxy.tables.guard import NotAllowed, guarded

    values = dict.fromkeys((name for rule in rules.values() for name in _PLACEHOLDER.findall(rule)), "x")
    for table in database.tables:
        grant = Grant(tuple(column.name for column in table.columns), filled(rules.get(table.name, ""), values) or "")
        try:
            if grant.rows:
                guarded(f"SELECT 1 FROM {quoted_table(table.name, database.dialect)}", database, {table.name: grant})
        except NotAllowed as error:
            return f"rows: {table.name}: {error}"
    return ""


def filled(rule: str, values: Mapping[str, str]) -> str | None:
    """A rule with SQL literals in place of placeholders; None: a value is not known, or no plain text."""
    if not all(is_plain(values.get(name, "")) for name in _PLACEHOLDER.findall(rule)):
        return None
    return _PLACEHOLDER.sub(lambda match: "'" + values[match[1]].replace("'", "''") + "'", rule)


def is_plain(value: str) -> bool:
    """Whether a value can be a literal of every dialect: some read a backslash as the beginning of an escape."""
    return bool(value) and value.isprintable() and "\\" not in value
