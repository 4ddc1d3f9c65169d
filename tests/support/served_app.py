"""The server as we serve, in a thread of its own: real sockets, another event loop than the test's."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import uvloop

from proxy.asgi import App
from proxy.server.http1 import Connections, Timeouts

LIMITS = Timeouts(receive_s=30.0, keepalive_s=30.0, send_s=30.0)


@contextlib.contextmanager
def served(app: App, close: Callable[[], None] = lambda: None) -> Iterator[int]:
    """The port of 127.0.0.1 on which `app` answers. close: called at the end, in the server's event loop."""
    loop, stop, up = uvloop.new_event_loop(), asyncio.Event(), threading.Event()

    async def serve(listener: socket.socket) -> None:
        connections = Connections(app, LIMITS)
        await connections.listen(listener, 100)
        up.set()
        await stop.wait()
        await connections.drain(5)
        close()

    def run(listener: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve(listener))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run, args=(listener,), name="server")
        thread.start()
        try:
            if not up.wait(30):
                raise RuntimeError("the server did not start within 30 s")
            yield listener.getsockname()[1]
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(30)
