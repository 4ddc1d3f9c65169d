"""A stream's lines, of which none is held beyond a limit."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_HEAD, _TAIL = 200, 64  # bytes kept of a line that is too long, to find the request that it answers
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*[,}]')
TOO_LONG = -32098  # code of the JSON-RPC error in place of an answer that is too long


class LongLine(NamedTuple):
    """The ends of a line beyond the limit."""

    head: bytes
    tail: bytes

    @property
    def id(self) -> int | None:
        """The request that the line answers, as most servers write it: in front of the result, or behind."""
        if b'"method"' in self.head:
            return None
        found = _ID.findall(self.head.partition(b'"result"')[0]) or _ID.findall(self.tail)
        return int(found[-1]) if found else None


class Lines:
    """Pieces of a stream to its lines, each of at most so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._tail = b""

    def feed(self, piece: bytes) -> Iterator[bytes | LongLine]:
        """The lines that end in this piece."""
        *ends, rest = piece.split(b"\n")
        for end in ends:
            self._take(end)
            yield self._line()
        self._take(rest)

    def _take(self, piece: bytes) -> None:
        if not piece:
            return
        self._tail = (self._tail + piece[-_TAIL:])[-_TAIL:]
        if self._size <= self._max_bytes:
            self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._max_bytes and len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)[:_HEAD]]

    def _line(self) -> bytes | LongLine:
        content, tail, whole = b"".join(self._pieces), self._tail, self._size <= self._max_bytes
        self._pieces, self._size, self._tail = [], 0, b""
        return content if whole else LongLine(content[:_HEAD], tail)
