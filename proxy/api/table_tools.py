"""The MCP tools `find_tables` and `query_tables`, within the caller's rights."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from proxy.agent.tools.query_tables import FIND, QUERY, caller_of, queried
from proxy.api.knowledge.declarations import Closed, Open, doc
from proxy.api.knowledge.parameters import QueryText, checked, invalid, query_text, read_as
from proxy.api.knowledge.schemas import Schemas
from proxy.api.tools import exchange_of
from proxy.dialects.errors import ApiError
from proxy.dialects.quoting import quoted
from proxy.exchange import Exchange
from proxy.tables.access import NoSuchDatabase, TableQueries
from proxy.tables.executor import QueryFailed
from proxy.tables.guard import NotAllowed
from retrieval.records.search import Turn

if TYPE_CHECKING:
    from mcp import types
    from mcp.server.context import ServerRequestContext

_CARD_TOKENS = 4_000


class _FoundTables(Open, frozen=True):
    databases: Annotated[list[str], doc("Names for query_tables.")]
    tables: Annotated[str, doc("The tables with their columns, best first.")]


class _Rows(Open, frozen=True):
    columns: list[str]
    rows: list[list[Any]]
    cut: Annotated[bool, doc("Whether there are more rows.")]


class _Find(Closed, frozen=True):
    query: Annotated[QueryText, doc("What the tables should hold, in full: nothing is remembered.")]


class _Query(Closed, frozen=True):
    sql: Annotated[str, Meta(min_length=1, max_length=20_000), doc("One SELECT over tables of find_tables.")]
    database: Annotated[str, doc("As find_tables names it; may be left out if there is one.")] | UnsetType = UNSET


@dataclass(eq=False, repr=False)
class TableTools:
    """The tools, and how they answer."""

    queries: TableQueries
    caller: "Callable[[ServerRequestContext[Any, Any]], Exchange]" = exchange_of

    def tools(self) -> "Sequence[types.Tool]":
        """As a client lists them."""
        from mcp import types

        of, reading = Schemas(formats=False).schema, types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        texts = {
            FIND: (
                "Find tables",
                "Find tables of the team's databases. Query them with query_tables.",
                _Find,
                _FoundTables,
            ),
            QUERY: ("Query tables", "Query a database of the team with one SELECT.", _Query, _Rows),
        }
        return [
            types.Tool(
                name=name,
                title=title,
                description=text,
                input_schema=of(asked),
                output_schema=of(answer),
                annotations=reading,
            )
            for name, (title, text, asked, answer) in texts.items()
        ]

    async def call(
        self, context: "ServerRequestContext[Any, Any]", params: "types.CallToolRequestParams", deadline_s: float
    ) -> "types.CallToolResult":
        """The result of one of the tools. Raises ApiError, RetrievalError, TimeoutError."""
        from mcp import types

        exchange, given = self.caller(context), params.arguments or {}
        found = await (self._find(given, exchange, deadline_s) if params.name == FIND else self._query(given, exchange))
        text = types.TextContent(type="text", text=quoted(msgspec.json.encode(found).decode()))
        return types.CallToolResult(content=[text], structured_content=msgspec.to_builtins(found))

    async def _find(self, given: dict[str, Any], exchange: Exchange, deadline_s: float) -> Open:
        asked = read_as(_Find, checked(given, _Find.__struct_fields__))
        async with asyncio.timeout(deadline_s):
            permitted = await self.queries.permitted(caller_of(exchange))
            found = await self.queries.find([Turn("user", query_text(asked.query))], permitted, _CARD_TOKENS)
        return _FoundTables(list(permitted), found.text)

    async def _query(self, given: dict[str, Any], exchange: Exchange) -> Open:
        asked = read_as(_Query, checked(given, _Query.__struct_fields__))
        try:
            permitted = await self.queries.database(asked.database or None, caller_of(exchange))
            result = await queried(self.queries, permitted, asked.sql, exchange)
        except NoSuchDatabase as error:
            raise ApiError(404, str(error), code="database_not_found", param="database") from error
        except (NotAllowed, QueryFailed) as error:
            raise invalid(f"'sql': {error}", "sql") from error
        return _Rows(list(result.columns), [list(row) for row in result.rows], result.cut)
