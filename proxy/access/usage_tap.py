"""How many tokens a model call took, read from its reply in passing.

The tap sends every piece on, the same object. In a stream, a dialect reader counts bytes of texts and calls, and reads
usage if the upstream reports it (in chat completions, clients ask for it by `stream_options.include_usage`). From a
whole reply the tap keeps the end, which has the usage. Without a report, it estimates tokens by bytes.
"""

from collections import deque
from collections.abc import Awaitable

from proxy.asgi import Message, Send
from proxy.dialects import sse
from proxy.dialects.base import Dialect
from proxy.dialects.content_encoding import unpacked_start
from proxy.dialects.replies import ATTACHMENT_TOKENS, BYTES_PER_TOKEN, Tokens, estimated_tokens, holds_attachment

_START_BYTES = 4 * 1024
_END_BYTES = 16 * 1024  # upstreams may send more after the usage
_LONGEST_FRAME_BYTES = 1024 * 1024  # a longer frame is not read, and counts by its bytes
_MOST_PACKED_BYTES = 256 * 1024  # of a compressed reply: only a whole one can be unpacked
_MOST_UNPACKED_BYTES = 4 * 1024 * 1024
_ENVELOPE_BYTES = 300  # JSON around the text of a whole reply


class UsageTap:
    """Sends a reply on, reads streams, and keeps its end."""

    def __init__(self, send: Send, dialect: Dialect) -> None:
        self._send = send
        self._dialect = dialect
        self.status = 0
        self._encoding = b""
        self._stream = False
        self._text = True  # no image and no sound
        self._size = 0
        self._start = b""
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._most_bytes = _END_BYTES
        self._reader = dialect.reader(streamed=True, keep_text=False)
        self._frames = sse.FrameSplitter()
        self._unread_bytes = 0  # of frames that are too long

    def send(self, message: Message) -> Awaitable[None]:
        """Send on a message of the upstream's reply."""
        if message["type"] != "http.response.body":
            self._begin(message)
        elif chunk := message.get("body", b""):
            if self._size < _START_BYTES:
                self._start += chunk[: _START_BYTES - self._size]
            self._size += len(chunk)
            if self._stream and not self._encoding:
                self._read(chunk)
            self._kept.append(chunk)
            self._kept_bytes += len(chunk)
            while self._kept_bytes - len(self._kept[0]) >= self._most_bytes:
                self._kept_bytes -= len(self._kept.popleft())
        return self._send(message)

    def _begin(self, message: Message) -> None:
        self.status = message["status"]
        for name, value in message.get("headers", ()):
            if name == b"content-type":
                self._stream = value.startswith(b"text/event-stream")
                self._text = value.startswith((b"text/", b"application/json"))
            elif name == b"content-encoding":
                self._encoding = value.lower().replace(b"identity", b"")
        if self._encoding:
            self._most_bytes = _MOST_PACKED_BYTES

    def _read(self, chunk: bytes) -> None:
        """Read frames that this piece completes."""
        for frame in self._frames.whole(chunk):
            self._reader.read_frame(frame)
        if self._frames.rest_bytes > _LONGEST_FRAME_BYTES:
            self._unread_bytes += self._frames.rest_bytes
            self._frames = sse.FrameSplitter()

    def tokens(self, body: bytes) -> Tokens:
        """The call's tokens; none for a refusal. body: the request's, for an estimate."""
        if self.status >= 400:
            return Tokens(0, 0)
        start, end, size = self._ends()
        if self._stream:
            self._reader.read_frame(self._frames.rest())
            if not self._unread_bytes and (size or not self._encoding):
                return self._reader.tokens(body)
        reported = self._dialect.usage_in(start, end)
        # If the client left before the reply: the upstream has read the request.
        return reported or Tokens(estimated_tokens(body), self._estimated_answer(start, size), estimated=True)

    def _ends(self) -> tuple[bytes, bytes, int]:
        """The reply's first and last bytes, and its size, unpacked; empty if it cannot be unpacked.

        Reads a compressed stream.
        """
        kept = b"".join(self._kept)
        if not self._encoding:
            return self._start, kept[-_END_BYTES:] if len(kept) > 4 * _END_BYTES else kept, self._size
        if self._kept_bytes < self._size:
            return b"", b"", 0
        whole = unpacked_start(kept, self._encoding, _MOST_UNPACKED_BYTES + 1)
        if len(whole) > _MOST_UNPACKED_BYTES:
            return b"", b"", 0
        if self._stream:
            self._read(whole)
        return whole[:_START_BYTES], whole[-_END_BYTES:], len(whole)

    def _estimated_answer(self, start: bytes, size: int) -> int:
        """About how many tokens an answer has, by its reply's bytes."""
        if self._stream:
            return (self._reader.text_bytes + self._unread_bytes or self._size) // BYTES_PER_TOKEN
        tokens = max(0, (size or self._size) - _ENVELOPE_BYTES) // BYTES_PER_TOKEN
        return tokens if self._text and not holds_attachment(start) else min(tokens, ATTACHMENT_TOKENS)
