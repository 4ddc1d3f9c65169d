"""A gateway of one command's own, on a free port of this machine, ended with the command."""

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from cli.build import plan
from cli.worker import Serving
from config.settings import Settings
from proxy.server.index_process import IndexProcess
from retrieval.errors import IndexDown
from retrieval.rpc.client import Client


@contextlib.asynccontextmanager
async def loopback_gateway(settings: Settings) -> AsyncIterator[str]:
    """The address of a gateway that serves these settings, warm.

    Its documents are those of the data folder, by the index process of a running `serve` where there is one, which
    then searches by that one's settings. Raises SettingsError, RetrievalError.
    """
    # What a command asks is no traffic.
    settings = replace(settings, bench=replace(settings.bench, shadow=0.0, compare="off"))
    index = None
    if settings.retrieval.enabled and not await _answers(settings):
        limits = {"start_s": settings.retrieval.start_s, "hang_s": settings.retrieval.hang_s}
        index = IndexProcess(plan(settings), **limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        serving = Serving(settings)
        try:
            if index is not None:
                await index.start()
                if not index.ready:  # a chat would go on without passages; whoever begins a gateway to compare must not
                    raise IndexDown(index.trouble)
                index.on_trouble(serving.tell)
            await serving.start(listener)
            serving.tell(index.trouble if index is not None else "")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            try:
                await serving.drain(0)
            finally:
                if index is not None:
                    await index.stop()


async def _answers(settings: Settings) -> bool:
    """Whether the index process of a running `serve` answers on the data folder's socket."""
    client = Client(Path(settings.data))
    try:
        await client.ping()
    except IndexDown:
        return False
    finally:
        await client.close()
    return True
