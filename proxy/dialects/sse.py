"""Event-stream frames (text/event-stream) built and split; no I/O.

A frame is everything up to and including its blank line, byte for byte as it came; joining the frames and the rest
gives back the input. Line ends are LF, CRLF or CR: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

import re

from proxy.errors import ApiError

DONE = b"data: [DONE]\n\n"

# One line end; a CR that closes the input is not one yet, because its LF may still be on the way.
_LINE_END = rb"(?:\r\n|\n|\r(?!\n|\Z))"
_BLANK_LINE = re.compile(_LINE_END + _LINE_END)
_ANY_LINE_END = re.compile(rb"\r\n|\n|\r")


def frame(data: bytes) -> bytes:
    """One frame that carries `data`, which holds no line end."""
    return b"data: " + data + b"\n\n"


def error_frame(error: ApiError) -> bytes:
    """The frame that ends a stream which cannot be completed: OpenAI's error body, never followed by [DONE]."""
    return frame(error.body())


def split(received: bytes) -> tuple[list[bytes], bytes]:
    """The whole frames of what was received so far, and the rest: the beginning of the next frame."""
    frames, start = [], 0
    for blank in _BLANK_LINE.finditer(received):
        frames.append(received[start : blank.end()])
        start = blank.end()
    return frames, received[start:]


class Frames:
    """Whole frames out of pieces, in time that is linear to what comes, however long a frame is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the frame that is not whole yet
        self._end = b""  # as much of them as may belong to a blank line
        self.rest_bytes = 0

    def whole(self, received: bytes) -> list[bytes]:
        """The frames that are whole with this piece."""
        seam = self._end + received
        self._parts.append(received)
        if _BLANK_LINE.search(seam) is None:
            self._end = seam[-3:]
            self.rest_bytes += len(received)
            return []
        frames, rest = split(self.rest())
        self._parts, self._end, self.rest_bytes = [rest], rest[-3:], len(rest)
        return frames

    def rest(self) -> bytes:
        """The beginning of the next frame."""
        return b"".join(self._parts)


def data_of(one_frame: bytes) -> bytes | None:
    """The data of a frame, its lines joined by LF; None where it carries none (a comment, an event without data)."""
    lines = []
    for line in _ANY_LINE_END.split(one_frame.removeprefix(b"\xef\xbb\xbf")):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None
