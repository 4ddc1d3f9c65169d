"""A team's databases as tools: one queries them in SQL, one finds further tables, and a chat is offered both."""

import datetime
import logging
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from proxy.agent.toolbox import Calling, Done, Refused, Tool, ToolResult, arguments_schema
from proxy.agent.tools.read_result import ReadResult
from proxy.dialects.quoting import quoted
from proxy.dialects.replies import BYTES_PER_TOKEN
from proxy.exchange import ActionCall, Exchange, TableSearch
from proxy.tables.access import Caller, Permitted, TableQueries
from proxy.tables.executor import QueryFailed, QueryResult
from proxy.tables.guard import NotAllowed
from proxy.tables.hints import similar_values
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn

log = logging.getLogger("ragway")
QUERY, FIND = "query_tables", "find_tables"
_MOST_CELL_CHARS = 300
_MOST_LOGGED_CHARS = 500
_SQL = re.compile(r"sql|\bselect\b", re.IGNORECASE)
_AGAIN = "Correct the query and call again."
_OTHER_VALUE = "If such a value is meant, query again with it, spelled as here."
_FAILED_ENOUGH = "The query failed again. Do not query again: tell the user what could not be found out."


@dataclass(frozen=True, slots=True)
class TableOffers:
    """Which chats are offered the tools."""

    queries: TableQueries
    card_tokens: int  # of the tables that a chat is shown
    retries: int  # failed queries whose error a model may mend

    async def close(self) -> None:
        await self.queries.close()

    def names(self, named: Sequence[str] | None) -> list[str]:
        """The databases of a chat. named: by the client; None: those of the settings."""
        configured = self.queries.configured
        return [name for name, row in configured.items() if (row.offer if named is None else name in named)]

    async def tools(
        self, names: Sequence[str], turns: Sequence[Turn], exchange: Exchange, *, named: bool, answered: float
    ) -> list[Tool]:
        """The tools for the latest question. named: by the client, so the question may be about anything.

        answered: probability that a passage in the request answers the question. Raises RetrievalError.
        """
        permitted = await self.queries.permitted(caller_of(exchange), names)
        if not permitted:
            return []
        found = await self.queries.find(turns, permitted, self.card_tokens)
        offered = named or found.relevant_beside(answered)
        if exchange.action_trace is not None:
            tables = [f"{one.database}/{one.table.name}" for one in found.tables]
            exchange.action_trace.table_search = TableSearch(list(permitted), tables, found.relevance, offered)
        if not offered:
            return []
        code = "" if _SQL.search(turns[-1].text) else "sql"
        tools: list[Tool] = [QueryTables(self.queries, permitted, found.text, self.retries, code=code)]
        if not found.whole:
            tools.append(FindTables(self.queries, permitted))
        return tools


def caller_of(exchange: Exchange) -> Caller:
    """The caller of a request, for queries."""
    values = {"key.id": exchange.key, "key.team": exchange.team, "key.name": exchange.key_name}
    return Caller(exchange.rights.query, values)


async def queried(
    queries: TableQueries, permitted: Permitted, sql: str, exchange: Exchange, within: ActionCall | None = None
) -> QueryResult:
    """The rows, with a step in the record of the request, and a line in the log. Raises NotAllowed, QueryFailed."""
    name, began, told = permitted.database.name, time.perf_counter(), "no rows"
    try:
        result = await queries.query(permitted, sql)
        told = f"{len(result.rows)} rows{' or more' if result.cut else ''}"
    except (NotAllowed, QueryFailed) as error:
        told = error.kind if isinstance(error, QueryFailed) else "refused"
        raise
    finally:
        exchange.ended_step("query", began, name, within)
        taken_ms = (time.perf_counter() - began) * 1000
        log.info("%s query of %s: %s, %.0f ms: %s", exchange.id, name, told, taken_ms, _one_line(sql))
    return result


@dataclass(eq=False)
class QueryTables(Tool):
    """Queries one of the databases.

    The tables stand in the description of the argument: that of a function may have 1,024 characters (OpenAI).
    """

    queries: TableQueries
    permitted: Mapping[str, Permitted]
    cards: str  # of the tables that the model is shown
    retries: int
    today: datetime.date = field(default_factory=datetime.date.today)
    failures: int = 0
    code: str = "sql"  # "": the person asks for SQL, so SQL is the answer
    name = QUERY

    def __post_init__(self) -> None:
        dialects = {name: one.database.dialect for name, one in self.permitted.items()}
        where = ", ".join(f"{name} (SQL of {dialect})" for name, dialect in dialects.items())
        self.description = (
            f"Query the team's data with one SELECT: {where}. Today is {self.today:%A, %Y-%m-%d}. "
            "Answer the user from the rows, and say so if there are none."
        )[:1000]
        sql = {"type": "string", "minLength": 1, "description": f"One SELECT over these tables:\n{quoted(self.cards)}"}
        if len(dialects) == 1:
            self.schema = arguments_schema("sql", sql=sql)
        else:
            database = {"type": "string", "enum": list(dialects), "description": "The database of the tables"}
            self.schema = arguments_schema("sql", database=database, sql=sql)

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        if self.failures > self.retries:
            return Refused(_FAILED_ENOUGH, "limit")
        exchange, traced, sql = calling.chat.exchange, calling.traced, arguments["sql"]
        name = arguments.get("database") or self._database_of(sql)
        permitted = self.permitted[name]
        traced.operation = f"{name}/{QUERY}"
        try:
            result = await queried(self.queries, permitted, sql, exchange, traced)
        except (NotAllowed, QueryFailed) as error:
            self.failures += 1
            more = "\n" + (_FAILED_ENOUGH if self.failures > self.retries else _AGAIN)
            text = quoted(f"No rows: {error}") + more
            if isinstance(error, NotAllowed):
                return Refused(text, "invalid_arguments")
            return Refused(text, "timeout" if error.kind == "timeout" else "api_error")
        traced.sent = True
        exchange.actions = (*exchange.actions, traced.operation)
        return Done(await self._text(result, sql, permitted, calling), known=True, fits=True)

    def _database_of(self, sql: str) -> str:
        """The database that most words of a query name tables of."""
        words = Counter(re.findall(r"\w+", sql.lower()))

        def named(name: str) -> int:
            return sum(words[one.name.lower()] for one in self.permitted[name].database.tables)

        return max(self.permitted, key=named)

    async def _text(self, result: QueryResult, sql: str, permitted: Permitted, calling: Calling) -> str:
        """The rows for the model; a result without values says which values are similar to those asked for."""
        text, shown = table_text(result, calling.max_chars)
        cut = any(_cell(one).endswith("…") for row in result.rows[:shown] for one in row)
        if shown < len(result.rows) or cut:
            toolbox, names = calling.chat.toolbox, distinct(result.columns)
            rows = [dict(zip(names, row, strict=True)) for row in result.rows]
            id = toolbox.result_store.put(orjson.dumps(rows, default=str).decode())
            (read,) = toolbox.add([ReadResult(toolbox.result_store)])
            how = ", long values cut" if cut else ""
            text += f"\n({shown} of {len(result.rows)} rows are shown{how}. {read} with the id {id} has all.)"
        if result.cut:
            text += "\n(There are more rows than a query returns: count or sum in SQL, or narrow the query.)"
        if is_empty(result) and (similar := await similar_values(self.queries, permitted, sql)):
            text += "\n" + quoted("\n".join(similar)) + f"\n{_OTHER_VALUE}"
        return text


@dataclass(eq=False)
class FindTables(Tool):
    """Finds tables that the chat is not shown."""

    queries: TableQueries
    permitted: Mapping[str, Permitted]
    name = FIND
    description = "Find further tables of the team's data, if those that query_tables names do not answer the question."
    schema = arguments_schema(
        "query", query={"type": "string", "minLength": 1, "description": "What the tables should hold, in words"}
    )

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        turns = [Turn("user", arguments["query"])]
        try:
            found = await self.queries.find(turns, self.permitted, calling.max_chars // BYTES_PER_TOKEN)
        except RetrievalError:
            return Refused("The tables cannot be searched at present.", "failed")
        exchange = calling.chat.exchange
        exchange.actions = (*exchange.actions, FIND)
        return Done(quoted(found.text) or "No table was found.", known=True)


def table_text(result: QueryResult, max_chars: int) -> tuple[str, int]:
    """The first rows that fit, as lines with columns between bars; and how many fit. The first row may be cut."""
    if not result.rows:
        return f"{' | '.join(map(quoted, result.columns))}\n(no rows)", 0
    lines = [_line(result.columns)]
    left = max_chars - len(lines[0])
    for row in result.rows:
        line = _line(row)
        left -= len(line) + 1
        if left < 0 and len(lines) > 1:
            break
        lines.append(line)
    text = "\n".join(lines)
    return text[:max_chars], len(lines) - 1 - (len(text) > max_chars)


def distinct(names: Sequence[str]) -> list[str]:
    """Names of columns for an object: a name that is there already gets a number."""
    found: dict[str, None] = {}
    for name in names:
        unique, number = name, 2
        while unique in found:
            unique, number = f"{name}_{number}", number + 1
        found[unique] = None
    return list(found)


def is_empty(result: QueryResult) -> bool:
    """Whether a result has no rows, or a single one of nulls and zeros, as an aggregate over no rows has."""
    return not result.rows or (len(result.rows) == 1 and not any(result.rows[0]))


def _line(cells: Sequence[Any]) -> str:
    return quoted(" | ".join(_cell(cell) for cell in cells))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= _MOST_CELL_CHARS else text[:_MOST_CELL_CHARS] + "…"


def _one_line(sql: str) -> str:
    text = " ".join(sql.split())
    text = text if len(text) <= _MOST_LOGGED_CHARS else text[:_MOST_LOGGED_CHARS] + "…"
    return text if text.isprintable() else repr(text)
