"""A client of a served gateway that is a bare socket, and what the kernel tells of the gateway's process.

with calling(gateway) as caller:
    caller.ask("gpt-x", stream=True)
    ... caller.head() ... caller.rest() ... caller.leave("RST")
"""

import contextlib
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from tests.support.gateway import Served

PATIENCE_S = 100.0
How = Literal["FIN", "RST"]
BOTH_WAYS: tuple[How, How] = ("FIN", "RST")
QUESTION = "How do I use Zephyr from Kotlin?"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for 0 seconds


def post(body: bytes, *headers: bytes, path: bytes = b"/v1/chat/completions") -> bytes:
    """A POST of JSON with a content-length."""
    lines = [b"POST %b HTTP/1.1" % path, b"host: localhost", b"content-type: application/json", *headers]
    return b"\r\n".join([*lines, b"content-length: %d" % len(body), b"", body])


def chat(model: str, **fields: object) -> bytes:
    """The body of a chat completion."""
    return orjson.dumps({"model": model, "messages": [{"role": "user", "content": QUESTION}], **fields})


@dataclass(slots=True)
class Caller:
    """A connection to the gateway."""

    sock: socket.socket
    reset: bool = False  # whether the gateway ended the connection by RST
    _read: bytes = b""

    def send(self, data: bytes) -> None:
        """These bytes; what the gateway no longer takes is dropped."""
        with contextlib.suppress(ConnectionError):
            self.sock.sendall(data)

    def ask(self, model: str, *headers: bytes, **fields: object) -> None:
        """Send a chat completion."""
        self.send(post(chat(model, **fields), *headers))

    def until(self, mark: bytes) -> bytes:
        """What comes up to and with these bytes. Raises EOFError when it ends before."""
        while mark not in self._read:
            if not self._more():
                raise EOFError(self._read[-300:])
        found, _, self._read = self._read.partition(mark)
        return found + mark

    def head(self) -> tuple[int, bytes]:
        """Status and head of a reply."""
        head = self.until(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), head

    def answer(self) -> tuple[int, bytes]:
        """Status and body of a reply with a content-length."""
        status, head = self.head()
        return status, self.reply_body(head)

    def reply_body(self, head: bytes) -> bytes:
        """The body behind this head, which says its length or that it comes in chunks."""
        if b"\r\ntransfer-encoding: chunked\r\n" in head:
            return self.until(b"0\r\n\r\n")
        found = re.search(rb"\r\ncontent-length: (\d+)\r\n", head)
        assert found, head
        while len(self._read) < int(found[1]):
            if not self._more():
                raise EOFError(self._read[-300:])
        body, self._read = self._read[: int(found[1])], self._read[int(found[1]) :]
        return body

    def rest(self) -> bytes:
        """All that comes until the connection ends, whichever way."""
        while self._more():
            pass
        return self._read

    def _more(self) -> bool:
        try:
            part = self.sock.recv(1 << 16)
        except ConnectionError:
            self.reset = True
            return False
        self._read += part
        return bool(part)

    def leave(self, how: How) -> None:
        """Close it, in order or by a reset."""
        if how == "RST":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.close()


@contextlib.contextmanager
def calling(gateway: Served, receive_buffer_bytes: int = 0) -> Iterator[Caller]:
    """A connection, closed with the block. receive_buffer_bytes: of the kernel's, for clients that read slowly."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    with socket.socket() as sock:
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.settimeout(PATIENCE_S)
        sock.connect((host, int(port)))
        yield Caller(sock)


def error_of(body: bytes) -> dict[str, Any]:
    """The error in a body, which must have OpenAI's shape."""
    said = orjson.loads(body)
    assert set(said) == {"error"}, body
    error: dict[str, Any] = said["error"]
    assert set(error) == {"message", "type", "param", "code"}, body
    assert isinstance(error["message"], str)
    assert error["message"]
    return error


def until(what: str, true: Callable[[], bool]) -> None:
    """Return when `true()` is; fail when it never gets there."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.005)


def descriptors(pid: int) -> int:
    """How many files and sockets a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def peak_mb(pid: int) -> float:
    """The most resident memory it had since `forget_peak`."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def forget_peak(pid: int) -> None:
    """Begin anew with what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")
