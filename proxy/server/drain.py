"""The connections of one process: taken, and when it stops drained, then cut.

While it drains no connection is taken, what runs may finish, and a new request on a connection that was kept is
refused: nothing begins that might have to be cut. /healthz, /readyz and /metrics answer on, /readyz with "stopping".
What is left after the drain time is cancelled, whereupon the server breaks its connection off: a cut reply never looks
whole.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from proxy.asgi import App, Message, Receive, Scope, Send, send_error
from proxy.errors import ApiError
from proxy.server.http1 import Connection, Timeouts

log = logging.getLogger("ragway")
_ANSWERED = ("/healthz", "/readyz", "/metrics")
_CUT_S = 0.5  # for what is cut to clean up


class Refusing:
    """Passes requests on; once `stopping` is set, refuses them and ends their connections."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.stopping = False

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (self._refuse if self.stopping else self._app)(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if scope["path"] in _ANSWERED:
            await self._app(scope, receive, send_last)
            return
        while (await receive()).get("more_body", False):
            pass  # a client that still sends may not read
        text = "The gateway is stopping and takes no new requests: send it again, on a new connection."
        await send_error(send_last, ApiError(503, text, code="stopping", type="server_error"))


class _Open(set[Connection]):
    """The open connections, as the server's protocol keeps them; calls `gone` for each that ended."""

    def __init__(self, gone: Callable[[], None]) -> None:
        super().__init__()
        self._gone = gone

    def discard(self, connection: object) -> None:
        if connection in self:
            super().discard(cast(Connection, connection))
            self._gone()


class Connections:
    """What one process serves."""

    def __init__(self, app: App, limits: Timeouts, gone: Callable[[], None] = lambda: None) -> None:
        """gone: called for each that ended."""
        self._refusing = Refusing(app)
        self._limits = limits
        self._listening: asyncio.Server | None = None
        self._gone = gone
        self._none_left = asyncio.Event()
        self.connections: set[Connection] = _Open(self._one_gone)
        self.tasks: set[asyncio.Task[None]] = set()

    def _connection(self) -> Connection:
        return Connection(self._refusing, self._limits, connections=self.connections, tasks=self.tasks)

    def _one_gone(self) -> None:
        self._gone()
        if not self.connections:
            self._none_left.set()

    async def listen(self, listener: socket.socket, backlog: int) -> None:
        """Take connections from a bound socket."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._connection, sock=listener, backlog=backlog)

    async def take(self, accepted: socket.socket) -> None:
        """Serve a connection that somebody else accepted. Raises OSError when it is gone already."""
        await asyncio.get_running_loop().connect_accepted_socket(self._connection, accepted)

    async def drain(self, patience_s: float) -> None:
        """Let what runs finish, and cut it after `patience_s` or when cancelled. Returns when nothing is left."""
        self._refusing.stopping = True
        if self._listening is not None:
            self._listening.close()
        try:
            async with asyncio.timeout(patience_s):
                while self.tasks:
                    await asyncio.wait(set(self.tasks))  # others may have begun meanwhile: refusals
                for connection in list(self.connections):
                    connection.shutdown()
                self._none_left.clear()
                if self.connections:  # what was sent may still be on its way
                    await self._none_left.wait()
        except TimeoutError:
            pass
        finally:
            await self._cut()

    async def _cut(self) -> None:
        tasks = set(self.tasks)
        for task in tasks:
            task.cancel()
        for connection in list(self.connections):
            connection.shutdown()
        if tasks:
            log.warning("stopping: %d replies were cut before their end", len(tasks))
            await asyncio.wait(tasks, timeout=_CUT_S)
