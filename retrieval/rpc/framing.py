"""Frames on the index process's socket: four bytes of length (big endian), then a message of the given length.

A connection carries a call at a time: any number of `ProgressReport` messages answer a `Call`, then an `Answer` or a
`Failed` (see `operations`). A client cancels a call by closing the connection.
"""

_HEAD = 4
_MAX_FRAME = 64 * 1024 * 1024


def framed(message: bytes) -> bytes:
    """The message as a frame."""
    return len(message).to_bytes(_HEAD, "big") + message


class Frames:
    """Cuts received bytes into messages."""

    def __init__(self) -> None:
        self._read = bytearray()

    def feed(self, data: bytes) -> None:
        self._read += data

    def next(self) -> bytes | None:
        """The next message; None while the frame is incomplete. Raises OSError for a frame over the limit."""
        if len(self._read) < _HEAD:
            return None
        end = _HEAD + int.from_bytes(self._read[:_HEAD], "big")
        if end - _HEAD > _MAX_FRAME:
            raise OSError(f"a frame of {end - _HEAD} bytes")
        if len(self._read) < end:
            return None
        message = bytes(self._read[_HEAD:end])
        del self._read[:end]
        return message
