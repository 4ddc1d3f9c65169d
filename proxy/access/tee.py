"""How many tokens a call of a model took, read from its reply as it passes.

The reply's bytes go on as they are, the same objects; kept of them are the last few, in which an upstream says its
`usage`: at the end of a whole reply, and in one of the last frames of a stream (where the client asked for it by
`stream_options.include_usage`). An upstream that says none leaves an estimate.
"""

import json
import re
import zlib
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from proxy.asgi import Message, Send
from proxy.exchange import Tokens

_TAIL_BYTES = 16 * 1024  # an upstream may say more behind its usage
_MOST_PACKED_BYTES = 256 * 1024  # of a compressed reply, which is of use only whole
_MOST_UNPACKED_BYTES = 4 * 1024 * 1024
BYTES_A_TOKEN = 4
_ENVELOPE_BYTES = 300  # of a whole reply, around its text
_ATTACHMENT_TOKENS = 1000  # an image or a sound, which no count of bytes tells
# To find base64 in one pass: its signs become one letter, all others a space. An expression that finds runs took 0.5 s
# for 14 MB of text, and 20 s for 4 MB of words of 1,900 letters.
_BASE64 = bytes(ord("x" if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/=") else " ")
                for code in range(256))  # fmt: skip
_LONG_RUN = b"x" * 2000
# Within a text its quotes would be escaped, so it is a member's name.
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
PACKED = {b"gzip": 16 + zlib.MAX_WBITS, b"x-gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_MOST_TOKENS = 10**12  # of one call: what is said beyond it is no count, and its price would fit nowhere
_DECODER = json.JSONDecoder()


def tokens_in(body: bytes) -> int:
    """About how many tokens a request's body is: four bytes each, an attachment a thousand."""
    if len(body) < 4000:
        return -(-len(body) // BYTES_A_TOKEN)
    signs, size, attachments = body.translate(_BASE64), len(body), 0
    at = signs.find(_LONG_RUN)
    while at >= 0:
        end = signs.find(b" ", at)
        end = len(signs) if end < 0 else end
        size, attachments = size - (end - at), attachments + 1
        at = signs.find(_LONG_RUN, end)
    return -(-size // BYTES_A_TOKEN) + attachments * _ATTACHMENT_TOKENS


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
        return Tokens(tokens_in(body), self._answered(), estimated=True)

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
            return max(0, self._size - _ENVELOPE_BYTES) // BYTES_A_TOKEN
        text_bytes = self._size - self._frames * self._envelope
        return max(0, self._frames - 3, text_bytes // BYTES_A_TOKEN)  # the role, the reason to finish and [DONE]


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
        if (tokens := tokens_of(usage)) is not None:
            return tokens
    return None


def tokens_of(usage: Mapping[str, Any]) -> Tokens | None:
    """What a `usage` says, in the words of chat completions or of responses; None: nothing."""
    prompt = _number(usage, "prompt_tokens", "input_tokens")
    completion = _number(usage, "completion_tokens", "output_tokens")
    if prompt is None and completion is None:
        return None
    cached = _detail(usage, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    reasoning = _detail(usage, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    prompt, completion = prompt or 0, completion or 0
    return Tokens(prompt, completion, min(cached, prompt), min(reasoning, completion))


def _number(usage: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return value
    return None


def _detail(usage: Mapping[str, Any], groups: Sequence[str], name: str) -> int:
    for group in groups:
        details = usage.get(group)
        if isinstance(details, dict):
            return _number(details, name) or 0
    return 0
