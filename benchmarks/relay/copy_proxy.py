"""A proxy that copies bytes without reading: the minimum cost of a gateway in Python.

`UPSTREAM` names the server. The proxy prints the port when listening.
"""

import asyncio
import os
from typing import cast
from urllib.parse import urlsplit

import uvloop


class _Upstream(asyncio.Protocol):
    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()


class _Client(asyncio.Protocol):
    def __init__(self, port: int) -> None:
        self._port = port
        self._early: list[bytes] = []  # received before the upstream connection was open
        self._upstream: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        made, _ = await loop.create_connection(lambda: _Upstream(self._transport), "127.0.0.1", self._port)
        self._upstream = made
        self._upstream.writelines(self._early)

    def data_received(self, data: bytes) -> None:
        if self._upstream is None:
            self._early.append(data)
        else:
            self._upstream.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._upstream is not None:
            self._upstream.close()


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Client(port), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(urlsplit(os.environ["UPSTREAM"]).port or 80))
