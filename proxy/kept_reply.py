"""A reply that passes and is kept, to be read once it is over."""

import time
from collections.abc import Awaitable

from proxy.asgi import Message, Send


class KeptReply:
    """Sends a reply on, and keeps its first bytes in pieces, each with its time in milliseconds."""

    def __init__(self, send: Send, most_bytes: int, began: float = 0.0) -> None:
        """began: by `time.perf_counter`; all times count from this moment."""
        self._send = send
        self._most_bytes = most_bytes
        self._began = began
        self.status = 0  # 0: no reply
        self.whole = False
        self.encoding = b""
        self.streamed = False
        self.pieces: list[tuple[float, bytes]] = []
        self.size = 0  # in bytes, of the whole reply

    def send(self, message: Message) -> Awaitable[None]:
        """Send a message of the upstream's reply on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message.get("headers", ()):
                if name == b"content-type":
                    self.streamed = value.startswith(b"text/event-stream")
                elif name == b"content-encoding":
                    self.encoding = value.lower()
        else:
            piece = message.get("body", b"")
            if self.size < self._most_bytes and piece:
                self.pieces.append(((time.perf_counter() - self._began) * 1000, piece))
            self.size += len(piece)
            self.whole = not message.get("more_body", False)
        return self._send(message)
