"""How many tokens a model call took, read from the reply as the reply passes.

The tap sends every piece of the reply on, the same object, and keeps the two ends of the reply: an upstream reports
usage in a frame near an end. So a piece costs the tap no parsing. Where the upstream reports no usage (in a stream of
chat completions, a client asks for usage by `stream_options.include_usage`), the tap estimates the tokens.
"""

import zlib
from collections import deque
from collections.abc import Awaitable

from proxy.asgi import Message, Send
from proxy.content_encoding import WINDOW_BITS
from proxy.dialects.base import Dialect
from proxy.dialects.token_counts import ATTACHMENT_TOKENS, BYTES_PER_TOKEN, Tokens, estimated_tokens, holds_attachment

_START_BYTES = 4 * 1024
_END_BYTES = 16 * 1024  # an upstream may send more after the usage
_MOST_PACKED_BYTES = 256 * 1024  # of a compressed reply: only a whole one can be unpacked
_MOST_UNPACKED_BYTES = 4 * 1024 * 1024
_ENVELOPE_BYTES = 300  # of a reply in one piece: the JSON around the text


class UsageTap:
    """Sends a reply on, and keeps the two ends."""

    __slots__ = (
        "_dialect",
        "_encoding",
        "_frame_bytes",
        "_frames",
        "_kept",
        "_kept_bytes",
        "_most_bytes",
        "_send",
        "_size",
        "_start",
        "_status",
        "_stream",
        "_text",
    )

    def __init__(self, send: Send, dialect: Dialect) -> None:
        self._send = send
        self._dialect = dialect
        self._status = 0
        self._encoding = b""
        self._stream = False
        self._text = True  # no image and no sound
        self._size = self._frames = 0
        self._frame_bytes = 0  # of the first frame, which carries next to no text
        self._start = b""
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._most_bytes = _END_BYTES

    def send(self, message: Message) -> Awaitable[None]:
        """Send a message of the upstream's reply on."""
        if message["type"] != "http.response.body":
            self._begin(message)
        elif chunk := message.get("body", b""):
            if self._size < _START_BYTES:
                self._start += chunk[: _START_BYTES - self._size]
            self._size += len(chunk)
            if self._stream:
                self._frames += chunk.count(b"data:")
                self._frame_bytes = self._frame_bytes or len(chunk) // max(self._frames, 1)
            self._kept.append(chunk)
            self._kept_bytes += len(chunk)
            while self._kept_bytes - len(self._kept[0]) >= self._most_bytes:
                self._kept_bytes -= len(self._kept.popleft())
        return self._send(message)

    def _begin(self, message: Message) -> None:
        self._status = message["status"]
        for name, value in message.get("headers", ()):
            if name == b"content-type":
                self._stream = value.startswith(b"text/event-stream")
                self._text = value.startswith((b"text/", b"application/json"))
            elif name == b"content-encoding":
                self._encoding = value.lower()
        if self._encoding:
            self._most_bytes = _MOST_PACKED_BYTES

    def tokens(self, body: bytes) -> Tokens:
        """The tokens of the call; none for a refusal. body: of the request, for an estimate."""
        if self._status >= 400:
            return Tokens(0, 0)
        reported = self._dialect.usage_in(*self._ends())
        if reported is not None:
            return reported
        # If the client left before the reply: the upstream has read the request.
        return Tokens(estimated_tokens(body), self._estimated_answer(), estimated=True)

    def _ends(self) -> tuple[bytes, bytes]:
        """The first and the last bytes of the reply, unpacked; empty where the reply cannot be unpacked."""
        kept = b"".join(self._kept)
        if not self._encoding or self._encoding == b"identity":
            return self._start, kept[-_END_BYTES:] if len(kept) > 4 * _END_BYTES else kept
        window_bits = WINDOW_BITS.get(self._encoding)
        if window_bits is None or self._kept_bytes < self._size:
            return b"", b""
        return _unpacked_ends(kept, window_bits)

    def _estimated_answer(self) -> int:
        """About how many tokens the answer has: a token for each frame; more where frames are longer than the first."""
        if not self._stream:
            tokens = max(0, self._size - _ENVELOPE_BYTES) // BYTES_PER_TOKEN
            return tokens if self._text and not holds_attachment(self._start) else min(tokens, ATTACHMENT_TOKENS)
        text_bytes = self._size - self._frames * self._frame_bytes
        return max(0, self._frames - self._dialect.frames_without_text, text_bytes // BYTES_PER_TOKEN)


def _unpacked_ends(packed: bytes, window_bits: int) -> tuple[bytes, bytes]:
    """The first and the last bytes of compressed bytes; empty where the bytes are damaged or too many."""
    unpacker, start, end, total = zlib.decompressobj(window_bits), b"", b"", 0
    try:
        while packed and total < _MOST_UNPACKED_BYTES:
            part = unpacker.decompress(packed, _END_BYTES)
            start, end, total = start or part[:_START_BYTES], (end + part)[-_END_BYTES:], total + len(part)
            if not part:
                break
            packed = unpacker.unconsumed_tail
    except zlib.error:
        return b"", b""
    return (start, end) if total < _MOST_UNPACKED_BYTES else (b"", b"")
