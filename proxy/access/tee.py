"""How many tokens a call of a model took, read from its reply as it passes.

The reply's bytes go on as they are, the same objects; kept of them are the last few, in which an upstream says its
`usage`: at the end of a whole reply, and in one of the last frames of a stream (where the client asked for it by
`stream_options.include_usage`). An upstream that says none leaves an estimate.
"""

import json
import re
import zlib
from collections import deque
from collections.abc import Awaitable

from proxy.asgi import Message, Send
from proxy.dialects.token_counts import BYTES_PER_TOKEN, Tokens, estimated_tokens, reported_tokens

_TAIL_BYTES = 16 * 1024  # an upstream may say more behind its usage
_MOST_PACKED_BYTES = 256 * 1024  # of a compressed reply, which is of use only whole
_MOST_UNPACKED_BYTES = 4 * 1024 * 1024
_ENVELOPE_BYTES = 300  # of a whole reply, around its text
# Within a text its quotes would be escaped, so it is a member's name.
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
PACKED = {b"gzip": 16 + zlib.MAX_WBITS, b"x-gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_DECODER = json.JSONDecoder()


class Tee:
    """Sends a reply on, and keeps its end."""

    __slots__ = (
        "_encoding",
        "_envelope",
        "_frames",
        "_kept",
        "_kept_bytes",
        "_most_bytes",
        "_send",
        "_size",
        "_status",
        "_stream",
    )

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._encoding = b""
        self._stream = False
        self._size = self._frames = self._envelope = 0
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._most_bytes = _TAIL_BYTES

    def send(self, message: Message) -> Awaitable[None]:
        """What the upstream's lane sends."""
        if message["type"] != "http.response.body":
            self._begin(message)
        elif chunk := message.get("body", b""):
            self._size += len(chunk)
            if self._stream:
                self._frames += chunk.count(b"data:")
                self._envelope = self._envelope or len(chunk) // max(self._frames, 1)
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
            elif name == b"content-encoding":
                self._encoding = value.lower()
        if self._encoding:
            self._most_bytes = _MOST_PACKED_BYTES

    def tokens(self, body: bytes) -> Tokens:
        """What the call took. body: of the request. Of a refusal: nothing."""
        if self._status >= 400:
            return Tokens(0, 0)
        said = _said(self._end())
        if said is not None:
            return said
        # A client that left before the reply: the upstream has read the request.
        return Tokens(estimated_tokens(body), self._answered(), estimated=True)

    def _end(self) -> bytes:
        whole = self._kept_bytes == self._size
        kept = b"".join(self._kept)
        if not self._encoding or self._encoding == b"identity":
            return kept[-_TAIL_BYTES:] if len(kept) > 4 * _TAIL_BYTES else kept
        bits = PACKED.get(self._encoding)
        return _unpacked_end(kept, bits) if whole and bits is not None else b""

    def _answered(self) -> int:
        """About how many tokens the reply has: a frame each, or more where frames are longer than the first."""
        if not self._stream:
            return max(0, self._size - _ENVELOPE_BYTES) // BYTES_PER_TOKEN
        text_bytes = self._size - self._frames * self._envelope
        return max(0, self._frames - 3, text_bytes // BYTES_PER_TOKEN)  # the role, the reason to finish and [DONE]


def _unpacked_end(packed: bytes, bits: int) -> bytes:
    """The last bytes of what was compressed; b"" where that is too much or damaged."""
    unpacker, end, total = zlib.decompressobj(bits), b"", 0
    try:
        while packed and total < _MOST_UNPACKED_BYTES:
            part = unpacker.decompress(packed, _TAIL_BYTES)
            end, total = (end + part)[-_TAIL_BYTES:], total + len(part)
            if not part:
                break
            packed = unpacker.unconsumed_tail
    except zlib.error:
        return b""
    return end if total < _MOST_UNPACKED_BYTES else b""


def _said(end: bytes) -> Tokens | None:
    """The last usage in the end of a reply."""
    for found in reversed(list(_USAGE.finditer(end))):
        text = end[found.end() - 1 :].decode("utf-8", "replace")
        try:
            usage, _ = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        if (tokens := reported_tokens(usage)) is not None:
            return tokens
    return None
