"""A gateway for a command, on a free port of the loopback address; the gateway ends with the command."""

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
    """The address of a warm gateway with the settings.

    The documents are in the data folder. While a `serve` runs, the index process of the `serve` searches, with the
    settings of the `serve`. Raises SettingsError, RetrievalError.
    """
    # The requests of a command are not traffic: no shadow comparisons.
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
                # without the index a chat would continue without passages, and a comparison would be wrong
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
    """Whether the index process of a running `serve` answers on the data folder's socket."""
    client = IndexClient(Path(settings.data))
    try:
        await client.ping()
    except IndexDown:
        return False
    finally:
        await client.close()
    return True
