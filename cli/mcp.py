"""ragway mcp: the tools of /mcp on stdin and stdout, for programs that start MCP servers."""

import asyncio
import os
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from cli.assembly.stores import accounts, key_credentials, ledger_of
from cli.common import echo, knowledge, with_settings
from config.sections import Settings
from config.settings import KEY, SettingsError
from proxy.access.keys import Keyring
from proxy.access.ledger import Ledger
from proxy.access.metering import Record, keeps_row
from proxy.access.sql import SqlAccounts
from proxy.api.mcp import PATH, server
from proxy.caller import EVERYTHING
from proxy.dialects.errors import ApiError
from proxy.exchange import Exchange
from proxy.observe.metrics import Metrics
from retrieval.knowledge import Knowledge

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from proxy.api.action_tools import ActionTools
    from proxy.api.table_tools import TableTools


@click.command("mcp")
@with_settings
async def command(settings: Settings) -> int:
    """Offer `search` and `fetch` over the Model Context Protocol on standard input and output.

    A key that may write a collection has the tool `add_document`, too. If an API has the setting `writes`, there are
    `find_actions` and `run_action`; with the setting `tables`, `find_tables` and `query_tables`.

    For programs that start MCP servers as child processes. Programs that connect to an address use /mcp of a running
    gateway. The command searches through a running gateway on the same data folder, or else opens the data folder.

    If the data folder has keys, the environment variable RAGWAY_KEY must hold a key; search finds only collections that
    the key may read. Each request counts for the key, as one to /mcp does.
    """
    from mcp.server.stdio import stdio_server

    stored = accounts(settings)
    keyring, ledger = Keyring(stored, required=settings.auth.required), ledger_of(settings, stored, Metrics())
    caller = _Caller(keyring, ledger, settings.usage.record)
    try:
        caller.begin()
    except ApiError as error:  # known before any program waits for an answer
        raise click.ClickException(error.message) from error
    async with knowledge(settings) as documents, AsyncExitStack() as stack:
        tools = _action_tools(settings, documents, stored, keyring)
        if tools is not None:
            tools.caller = caller.exchange
            stack.push_async_callback(tools.actions.close)
        tables = _table_tools(settings, documents)
        if tables is not None:
            tables.caller = caller.exchange
            stack.push_async_callback(tables.queries.close)
        offered = server(documents, settings.retrieval, caller.exchange, tools, tables)
        offered.middleware.insert(0, caller.counted)
        stack.push_async_callback(asyncio.wait, [asyncio.create_task(ledger.run())])
        stack.callback(ledger.stop)
        async with stdio_server() as (read, write):
            await offered.run(read, write, offered.create_initialization_options())
    return 0


@dataclass(frozen=True, slots=True)
class _Caller:
    """The program, by the key of the environment, with the limits and the usage of POST /mcp."""

    keyring: Keyring
    ledger: Ledger
    record: Record
    _now: ContextVar[Exchange] = field(default_factory=lambda: ContextVar("exchange"), init=False)  # of the request

    def begin(self) -> Exchange:
        """The exchange of a new request, with the rights of now. Raises ApiError 401."""
        self.keyring.refresh()
        exchange = Exchange(method="POST", path=PATH, rights=EVERYTHING)
        if self.keyring.closed:
            key = self.keyring.key_of(os.environ.get(KEY, ""))
            if key is None:
                raise ApiError(401, f"No valid key: set {KEY} to one of this gateway's.", code="invalid_api_key")
            key.admit(exchange)
        self._now.set(exchange)
        return exchange

    def exchange(self, _context: "ServerRequestContext[Any, Any]") -> Exchange:
        return self._now.get()

    async def counted(self, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext") -> "HandlerResult":
        """Middleware: admits a request, and counts it."""
        from mcp.shared.exceptions import MCPError
        from mcp.types import INTERNAL_ERROR

        admission = exchange = None
        try:
            exchange = self.begin()
            admission = await self.ledger.admit(exchange)
            result = await call_next(ctx)
            exchange.status = 200
        except ApiError as error:
            raise MCPError(INTERNAL_ERROR, error.message) from error
        finally:
            if exchange is not None:
                self.ledger.settle(exchange, admission, kept=keeps_row(self.record, exchange))
        return result


def _table_tools(settings: Settings, documents: Knowledge) -> "TableTools | None":
    """The tools that query databases; None: none is configured, or a variable is not set."""
    if not settings.tables:
        return None
    from cli.assembly.tables import table_offers  # as below
    from proxy.api.table_tools import TableTools

    try:
        offers = table_offers(settings, documents, os.environ)
    except SettingsError as error:
        echo(f"find_tables and query_tables are not offered: {error}", err=True)
        return None
    return None if offers is None else TableTools(offers.queries)


def _action_tools(
    settings: Settings, documents: Knowledge, stored: SqlAccounts, keyring: Keyring
) -> "ActionTools | None":
    """The tools that call operations; None: no API has calls that a person confirms, or a variable is not set."""
    if all(api.writes == "refuse" for api in (settings.actions or {}).values()):
        return None
    from cli.assembly.apis import approvals, chat_actions  # 25 MB and 0.3 s, only for data folders with such APIs
    from proxy.api.action_tools import ActionTools

    try:
        actions = chat_actions(settings, documents, key_credentials(stored), None, os.environ)
    except SettingsError as error:  # programs that only search need no variable of an API
        echo(f"find_actions and run_action are not offered: {error}", err=True)
        return None
    answers = approvals(actions, keyring, stored)
    return ActionTools(actions, answers) if answers is not None else None
