"""The connections of one process: accepted, and at the end drained, then cut.

During the drain the process accepts no connection, running requests may finish, and a new request on a kept-alive
connection gets a 503: no request starts that might be cut. /healthz, /readyz and /metrics still answer, /readyz with
"stopping". After the drain time the remaining requests are cancelled, and the server resets their connections: a cut
reply must never look complete.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from proxy.asgi import App, Message, Receive, Scope, Send, send_error
from proxy.errors import ApiError
from proxy.server.http1 import ClientConnection, Timeouts

log = logging.getLogger("ragway")
_SERVED_PATHS = ("/healthz", "/readyz", "/metrics")
_CUT_S = 0.5  # for cancelled requests to clean up


class DrainGuard:
    """Passes requests on; once `stopping` is set, refuses requests and closes their connections."""

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

        if scope["path"] in _SERVED_PATHS:
            await self._app(scope, receive, send_last)
            return
        while (await receive()).get("more_body", False):
            pass  # a client that is sending may not read yet
        text = "The gateway is stopping and takes no new requests: send the request again, on a new connection."
        await send_error(send_last, ApiError(503, text, code="stopping", type="server_error"))


class _OpenConnections(set[ClientConnection]):
    """The set of open connections; calls `on_close` for each closed connection."""

    def __init__(self, on_close: Callable[[], None]) -> None:
        super().__init__()
        self._on_close = on_close

    def discard(self, connection: object) -> None:
        if connection in self:
            super().discard(cast(ClientConnection, connection))
            self._on_close()


class Connections:
    """The connections of one process."""

    def __init__(self, app: App, timeouts: Timeouts, on_close: Callable[[], None] = lambda: None) -> None:
        """on_close: called for each closed connection."""
        self._guard = DrainGuard(app)
        self._timeouts = timeouts
        self._server: asyncio.Server | None = None
        self._on_close = on_close
        self._all_closed = asyncio.Event()
        self.connections: set[ClientConnection] = _OpenConnections(self._connection_closed)
        self.tasks: set[asyncio.Task[None]] = set()

    def _new_connection(self) -> ClientConnection:
        return ClientConnection(self._guard, self._timeouts, connections=self.connections, tasks=self.tasks)

    def _connection_closed(self) -> None:
        self._on_close()
        if not self.connections:
            self._all_closed.set()

    async def listen(self, listener: socket.socket, backlog: int) -> None:
        """Accept connections from a bound socket."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_connection, sock=listener, backlog=backlog)

    async def take(self, accepted: socket.socket) -> None:
        """Serve a connection accepted by another process. Raises OSError if the connection is already closed."""
        await asyncio.get_running_loop().connect_accepted_socket(self._new_connection, accepted)

    async def drain(self, patience_s: float) -> None:
        """Let running requests finish; cut requests after `patience_s` or when cancelled. Returns with no connection
        left.
        """
        self._guard.stopping = True
        if self._server is not None:
            self._server.close()
        try:
            async with asyncio.timeout(patience_s):
                while self.tasks:
                    await asyncio.wait(set(self.tasks))  # new tasks may have started: refusals
                for connection in list(self.connections):
                    connection.shutdown()
                self._all_closed.clear()
                if self.connections:  # sent bytes may still be on their way
                    await self._all_closed.wait()
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
