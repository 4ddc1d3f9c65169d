"""A gateway for one command, on a free loopback port; it ends with the command."""

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from cli.assembly.index import index_process
from cli.worker import Serving
from config.sections import Settings
from retrieval.errors import IndexDown
from retrieval.rpc.client import IndexClient


@contextlib.asynccontextmanager
async def loopback_gateway(settings: Settings) -> AsyncIterator[str]:
    """The address of a warm gateway with these settings.

    Its documents are in the data folder. While a `serve` runs, that one's index process searches, with its own
    settings. Raises SettingsError, RetrievalError.
    """
    # A command's requests are not traffic: no shadow comparisons.
    settings = replace(settings, bench=replace(settings.bench, shadow=0.0, compare="off"))
    index = None
    if settings.retrieval.enabled and not await _answers(settings):
        index = index_process(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        serving = Serving(settings)
        try:
            if index is not None:
                await index.start()
                # without it, chats would continue without passages, and comparisons would be wrong
                if not index.ready:
                    raise IndexDown(index.unavailable_reason)
                index.on_change = serving.set_status
            await serving.start(listener)
            serving.set_status(index.unavailable_reason if index is not None else "")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            try:
                await serving.drain(0)
            finally:
                if index is not None:
                    await index.stop()


async def _answers(settings: Settings) -> bool:
    """Whether a running `serve`'s index process answers on the data folder's socket."""
    client = IndexClient(Path(settings.data))
    try:
        await client.ping()
    except IndexDown:
        return False
    finally:
        await client.close()
    return True
