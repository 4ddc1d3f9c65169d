"""ragway mcp: tools `search` and `fetch` on stdin and stdout, for programs that start MCP servers."""

import os
from typing import TYPE_CHECKING, Any

import click

from cli.assembly.stores import accounts
from cli.common import knowledge, with_settings
from config.sections import Settings
from config.settings import KEY
from proxy.access.keys import Keyring
from proxy.api.mcp import server
from proxy.caller import EVERYTHING, Rights
from proxy.dialects.errors import ApiError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext


@click.command("mcp")
@with_settings
async def command(settings: Settings) -> int:
    """Offer `search` and `fetch` over the Model Context Protocol on standard input and output.

    For programs that start MCP servers as child processes. Programs that connect to an address use /mcp of a running
    gateway. The command searches through a running gateway on the same data folder, or else opens the data folder.

    If the data folder has keys, the environment variable RAGWAY_KEY must hold a key; search finds only collections that
    the key may read.
    """
    from mcp.server.stdio import stdio_server

    keyring = Keyring(accounts(settings), required=settings.auth.required)

    def rights(_context: "ServerRequestContext[Any, Any] | None" = None) -> Rights:
        keyring.refresh()
        if not keyring.closed:
            return EVERYTHING
        key = keyring.key_of(os.environ.get(KEY, ""))
        if key is None:
            raise ApiError(401, f"No valid key: set {KEY} to one of this gateway's.", code="invalid_api_key")
        return key.rights

    try:
        rights()
    except ApiError as error:  # known before any program waits for an answer
        raise click.ClickException(error.message) from error
    async with knowledge(settings) as documents:
        offered = server(documents, settings.retrieval, rights)
        async with stdio_server() as (read, write):
            await offered.run(read, write, offered.create_initialization_options())
    return 0
