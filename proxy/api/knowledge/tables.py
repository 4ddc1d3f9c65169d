"""A team's databases: listed, found by a question, and queried in SQL, within the caller's rights.

The gateway imports the module only where a database is configured.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from proxy.agent.tools.query_tables import caller_of, distinct, queried
from proxy.api.knowledge.access import TABLES, KnowledgeCall, Page
from proxy.api.knowledge.declarations import Closed, Open, doc, operation
from proxy.api.knowledge.parameters import QueryText, invalid, query_text
from proxy.dialects.errors import ApiError
from proxy.tables.access import NoSuchDatabase, Permitted, TableQueries
from proxy.tables.executor import QueryFailed
from proxy.tables.guard import NotAllowed
from retrieval.records.search import Turn

_DATABASES = TABLES + "/databases"
_DATABASE = _DATABASES + "/{database}"
_MOST_SQL_CHARS = 20_000
_CARD_TOKENS = 4_000


class DatabaseColumn(Closed, frozen=True):
    name: str
    type: str
    comment: str
    samples: Annotated[list[str], doc("A few values, if the settings show them")]


class DatabaseKey(Closed, frozen=True):
    columns: list[str]
    table: Annotated[str, doc("The table that it refers to")]
    referred: list[str]


class DatabaseTable(Open, frozen=True):
    name: str
    comment: str
    columns: list[DatabaseColumn]
    primary_key: list[str]
    foreign_keys: list[DatabaseKey]
    rows: Annotated[int | None, doc("About how many, for all keys; null: not known")]


class DatabaseInfo(Open, frozen=True, tag_field="object", tag="database"):
    id: Annotated[str, doc("The name in the settings")]
    dialect: Annotated[str, doc("Of its SQL")]
    description: str
    tables: Annotated[list[str], doc("Those that the key may query")]


class DatabaseWithTables(Open, frozen=True, tag_field="object", tag="database.tables"):
    id: str
    dialect: str
    description: str
    tables: list[DatabaseTable]


class DatabasePage(Page, frozen=True, kw_only=True):
    data: list[DatabaseInfo]


class FoundTableCards(Closed, frozen=True, tag_field="object", tag="tables.search"):
    query: str
    all: Annotated[bool, doc("Whether these are all tables that the key may query")]
    text: Annotated[str, doc("The tables, as a model reads them")]


class TableRows(Closed, frozen=True, tag_field="object", tag="tables.result"):
    database: str
    columns: list[str]
    rows: Annotated[list[dict[str, Any]], doc("By column; of columns with one name, the second is name_2")]
    cut: Annotated[bool, doc("Whether there are more rows")]
    ms: float


class _TableQuestion(Closed, frozen=True):
    query: QueryText
    databases: Annotated[list[str], doc("Default: all that the key may query")] | UnsetType = UNSET


class _Query(Closed, frozen=True):
    sql: Annotated[str, Meta(min_length=1, max_length=_MOST_SQL_CHARS), doc("One SELECT")]


@operation(f"GET {_DATABASES}", "tables", "In the order of the settings")
async def list_databases(call: KnowledgeCall) -> DatabasePage:
    """The databases with a table that the key may query."""
    permitted = await _queries(call).permitted(caller_of(call.exchange))
    found = [one.database for one in permitted.values()]
    return DatabasePage.of(
        [DatabaseInfo(one.name, one.dialect, one.description, [each.name for each in one.tables]) for one in found]
    )


@operation(f"GET {_DATABASE}", "tables", "The database")
async def read_database(call: KnowledgeCall) -> DatabaseWithTables:
    """A database, with the tables and columns that the key may query."""
    database = (await _permitted(call)).database
    tables = [
        DatabaseTable(
            table.name,
            table.comment,
            [DatabaseColumn(one.name, one.type, one.comment, list(one.samples)) for one in table.columns],
            list(table.primary_key),
            [DatabaseKey(list(one.columns), one.table, list(one.referred)) for one in table.foreign_keys],
            table.rows,
        )
        for table in database.tables
    ]
    return DatabaseWithTables(database.name, database.dialect, database.description, tables)


@operation(f"POST {TABLES}/search", "tables", "Tables, best first")
async def search_tables(call: KnowledgeCall, body: _TableQuestion) -> FoundTableCards:
    """Tables for a question."""
    query, queries, caller = query_text(body.query), _queries(call), caller_of(call.exchange)
    for name in body.databases or ():
        await _database(call, name)
    permitted = await queries.permitted(caller, body.databases or None)
    found = await queries.find([Turn("user", query)], permitted, _CARD_TOKENS)
    return FoundTableCards(query, found.whole, found.text)


@operation(f"POST {_DATABASE}/query", "tables", "The rows", slow=True)
async def query_table(call: KnowledgeCall, body: _Query) -> TableRows:
    """Query a database with one SELECT."""
    async with call.rules.asking():
        permitted = await _permitted(call)
    try:
        result = await queried(_queries(call), permitted, body.sql, call.exchange)
    except NotAllowed as error:
        raise invalid(f"'sql': {error}", "sql") from error
    except QueryFailed as error:
        status = 504 if error.kind == "timeout" else 422
        raise ApiError(status, f"The query failed: {error}", code=f"query_{error.kind}", param="sql") from error
    names = distinct(result.columns)
    rows = [dict(zip(names, row, strict=True)) for row in result.rows]
    return TableRows(permitted.database.name, names, rows, result.cut, result.ms)


async def _permitted(call: KnowledgeCall) -> Permitted:
    return await _database(call, call.path["database"])


async def _database(call: KnowledgeCall, name: str) -> Permitted:
    """Raises ApiError 404, also for a database that the key may not query."""
    try:
        return await _queries(call).database(name, caller_of(call.exchange))
    except NoSuchDatabase as error:
        raise ApiError(404, str(error), code="database_not_found", param="database") from error


def _queries(call: KnowledgeCall) -> TableQueries:
    tables = call.actions.tables
    assert tables is not None, "the routes of databases need one"
    return tables.queries
