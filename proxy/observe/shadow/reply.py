"""A reply's bytes as they pass, with the time of each, and what they say: read once it is over, off its way."""

import time
import zlib
from collections.abc import Awaitable, Iterator

from proxy.access.prices import price_of
from proxy.access.tee import PACKED
from proxy.asgi import Message, Send
from proxy.dialects.reply import Reading, TooLong, error_of
from proxy.dialects.token_counts import BYTES_PER_TOKEN, Tokens, estimated_tokens
from proxy.observe.shadow.comparison import Side

_MOST_BYTES = 1 << 20  # kept of a reply; a longer one is not compared
_MOST_UNPACKED_BYTES = 8 << 20
_PLAIN = (b"", b"identity")


class Unreadable(Exception):
    """A reply that cannot be compared; the text says why."""


class Passing:
    """Sends a reply on, and keeps it."""

    def __init__(self, send: Send, began: float) -> None:
        """began: by `time.perf_counter`; times are counted from there."""
        self._send = send
        self.began = began
        self.status = 0
        self.whole = False
        self._encoding = b""
        self._stream = False
        self._pieces: list[tuple[float, bytes]] = []
        self._size = 0

    @property
    def too_long(self) -> bool:
        return self._size > _MOST_BYTES

    def send(self, message: Message) -> Awaitable[None]:
        """What the upstream's lane sends."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message.get("headers", ()):
                if name == b"content-type":
                    self._stream = value.startswith(b"text/event-stream")
                elif name == b"content-encoding":
                    self._encoding = value.lower()
        else:
            self._keep(message.get("body", b""))
            self.whole = not message.get("more_body", False)
        return self._send(message)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self.too_long:
            self._pieces.clear()
        else:
            self._pieces.append((self._ms(), piece))

    def _ms(self) -> float:
        return (time.perf_counter() - self.began) * 1000

    def side(self, body: bytes, model: str, error: str = "") -> Side:
        """What the reply was. body: of the request; model: by the upstream's name; error: why there is none.

        Raises Unreadable.
        """
        if self.too_long:
            raise Unreadable(f"the reply is longer than {_MOST_BYTES >> 20} MB")
        reading, end_ms, answered = Reading(streamed=self._stream), 0.0, self.status == 200
        for end_ms, piece in self._plain():
            try:
                reading.take(piece, end_ms)
            except TooLong as too_long:
                raise Unreadable(str(too_long)) from too_long
        reading.end(end_ms)
        if self.status and not answered:
            error = error_of(reading.raw.encode())[0] or f"status {self.status}"
        elif not error:
            error = reading.error or ("" if self.whole and reading.whole else "the reply broke off before its end")
        tokens = Tokens(0, 0)
        if answered:
            said = -(-reading.said_bytes() // BYTES_PER_TOKEN)
            tokens = reading.usage or Tokens(estimated_tokens(body), said, estimated=True)
        price = price_of(model)
        return Side(
            self.status,
            None if error else reading.answer,
            _plain_text(reading.finish_reason),
            _plain_text(error) or None,
            tokens,
            None if price is None else price.of(tokens),
            None if error else reading.first_ms,
            None if error else end_ms,
        )

    def _plain(self) -> Iterator[tuple[float, bytes]]:
        """The pieces as they were before they were compressed. Raises Unreadable."""
        if self._encoding in _PLAIN:
            yield from self._pieces
            return
        if self._encoding not in PACKED:
            raise Unreadable(f"the reply is encoded as {self._encoding.decode('latin-1')}")
        unpacker, left = zlib.decompressobj(PACKED[self._encoding]), _MOST_UNPACKED_BYTES
        try:
            for at_ms, piece in self._pieces:
                plain = unpacker.decompress(piece, left)
                left -= len(plain)
                if left <= 0:
                    raise Unreadable(f"the reply is longer than {_MOST_UNPACKED_BYTES >> 20} MB")
                yield at_ms, plain
        except zlib.error as error:
            raise Unreadable("the reply is compressed and damaged") from error


def _plain_text(text: str | None) -> str | None:
    """Without half surrogate pairs, which JSON may name and no encoding holds."""
    return None if text is None else text.encode("utf-8", "replace").decode()
