"""A real uvicorn, set up as we serve, in a thread of its own: real sockets, another event loop than the test's."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn

from proxy.asgi import App


class _Server(uvicorn.Server):
    """Says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextlib.contextmanager
def served(app: App) -> Iterator[int]:
    """The port of 127.0.0.1 on which `app` answers. Its lifespan runs."""
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="uvicorn")
        thread.start()
        try:
            if not server.up.wait(30):
                raise RuntimeError("uvicorn did not start within 30 s")
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)
