"""Ports of this machine where nothing goes on as it should: full, silent, or not to be come to."""

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """A port whose queue is full: the kernel answers no SYN."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@dataclass
class Silent:
    """A port that connects and never answers a handshake: it tells when one came, and when it was given up."""

    port: int
    reached: "queue.Queue[bytes]" = field(default_factory=queue.Queue)
    closed: "queue.Queue[float]" = field(default_factory=queue.Queue)  # by the monotonic clock

    def take(self, sock: socket.socket) -> None:
        """Watch this connection in a thread of its own."""
        threading.Thread(target=self._watch, args=[sock]).start()

    def _watch(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(ConnectionError):
            self.reached.put(sock.recv(1 << 16))
            while sock.recv(1 << 16):
                pass
        self.closed.put(time.monotonic())


@dataclass
class Trap:
    """A port that nobody must come to."""

    port: int
    came: list[bytes] = field(default_factory=list)

    def take(self, sock: socket.socket) -> None:
        """Keep what somebody said."""
        with sock:
            sock.settimeout(1)
            self.came.append(sock.recv(65536))


@contextlib.contextmanager
def silent_port() -> Iterator[Silent]:
    """A new one."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        made = Silent(listener.getsockname()[1])
        with _accepting(listener, made.take):
            yield made


@contextlib.contextmanager
def trap_port() -> Iterator[Trap]:
    """A new one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Trap(listener.getsockname()[1])
        with _accepting(listener, made.take):
            yield made


@contextlib.contextmanager
def _accepting(listener: socket.socket, take: Callable[[socket.socket], None]) -> Iterator[None]:
    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                take(listener.accept()[0])

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
