"""Frames on the index process' socket: four bytes of length (big endian), then a JSON object of that many bytes.

One connection carries one call at a time: a call {"call", "args"} is answered by any number of {"progress"} and then
one {"result"} or {"error"}. A caller that leaves closes its connection, which ends the call.
"""

from collections.abc import Mapping
from typing import Any

import orjson

Frame = dict[str, Any]
_HEAD = 4
_MAX_FRAME = 64 * 1024 * 1024


def framed(frame: Mapping[str, Any]) -> bytes:
    """A frame's bytes."""
    payload = orjson.dumps(frame)
    return len(payload).to_bytes(_HEAD, "big") + payload


class Frames:
    """What comes in, in whatever pieces, as the frames that it consists of."""

    def __init__(self) -> None:
        self._read = bytearray()

    def feed(self, data: bytes) -> None:
        self._read += data

    def next(self) -> Frame | None:
        """The next frame; None where it is not complete. Raises OSError for what cannot be one."""
        if len(self._read) < _HEAD:
            return None
        end = _HEAD + int.from_bytes(self._read[:_HEAD], "big")
        if end - _HEAD > _MAX_FRAME:
            raise OSError(f"a frame of {end - _HEAD} bytes")
        if len(self._read) < end:
            return None
        payload = bytes(self._read[_HEAD:end])
        del self._read[:end]
        try:
            frame = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise OSError("a frame that is no JSON") from error
        if not isinstance(frame, dict):
            raise OSError("a frame that is no object")
        return frame
