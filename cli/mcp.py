"""ragway mcp: the tools of /mcp on stdin and stdout, for programs that start MCP servers."""

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from cli.assembly.stores import accounts, key_credentials
from cli.common import echo, knowledge, with_settings
from config.sections import Settings
from config.settings import KEY, SettingsError
from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts
from proxy.api.mcp import server
from proxy.caller import EVERYTHING, Rights
from proxy.dialects.errors import ApiError
from proxy.exchange import Exchange
from retrieval.knowledge import Knowledge

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from proxy.api.action_tools import ActionTools


@click.command("mcp")
@with_settings
async def command(settings: Settings) -> int:
    """Offer `search` and `fetch` over the Model Context Protocol on standard input and output.

    If an API has the setting `writes`, the tools `find_actions` and `run_action`, too.

    For programs that start MCP servers as child processes. Programs that connect to an address use /mcp of a running
    gateway. The command searches through a running gateway on the same data folder, or else opens the data folder.

    If the data folder has keys, the environment variable RAGWAY_KEY must hold a key; search finds only collections that
    the key may read.
    """
    from mcp.server.stdio import stdio_server

    stored = accounts(settings)
    keyring = Keyring(stored, required=settings.auth.required)

    def caller(_context: "ServerRequestContext[Any, Any] | None" = None) -> Exchange:
        keyring.refresh()
        if not keyring.closed:
            return Exchange(rights=EVERYTHING)
        key = keyring.key_of(os.environ.get(KEY, ""))
        if key is None:
            raise ApiError(401, f"No valid key: set {KEY} to one of this gateway's.", code="invalid_api_key")
        return Exchange(key=key.id, key_name=key.name, rights=key.rights)

    def rights(context: "ServerRequestContext[Any, Any] | None" = None) -> Rights:
        return caller(context).rights

    try:
        rights()
    except ApiError as error:  # known before any program waits for an answer
        raise click.ClickException(error.message) from error
    async with knowledge(settings) as documents, AsyncExitStack() as stack:
        tools = _action_tools(settings, documents, stored, keyring)
        if tools is not None:
            tools.caller = caller
            stack.push_async_callback(tools.actions.close)
        offered = server(documents, settings.retrieval, rights, tools)
        async with stdio_server() as (read, write):
            await offered.run(read, write, offered.create_initialization_options())
    return 0


def _action_tools(
    settings: Settings, documents: Knowledge, stored: SqlAccounts, keyring: Keyring
) -> "ActionTools | None":
    """The tools that call operations; None: no API has calls that a person confirms, or a variable is not set."""
    if all(api.writes == "refuse" for api in (settings.actions or {}).values()):
        return None
    from cli.assembly.apis import chat_actions  # 25 MB and 0.3 s, only for data folders with such APIs
    from proxy.agent.writes.approving import Approvals
    from proxy.api.action_tools import ActionTools

    try:
        actions = chat_actions(settings, documents, key_credentials(stored), None, os.environ)
    except SettingsError as error:  # programs that only search need no variable of an API
        echo(f"find_actions and run_action are not offered: {error}", err=True)
        return None
    assert actions.writes is not None, "an API allows writes"
    return ActionTools(actions, Approvals(actions.writes, actions.library, actions.apis, keyring.rights_of))
