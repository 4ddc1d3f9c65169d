"""Reads a recorded reply, once it is over, as one side of a comparison."""

import zlib
from collections.abc import Iterator

from proxy.access.prices import price_of
from proxy.asgi import Send
from proxy.dialects.base import Dialect
from proxy.dialects.content_encoding import WINDOW_BITS
from proxy.dialects.replies import ReplyTooLong, Tokens, read_error
from proxy.kept_reply import KeptReply
from proxy.observe.shadow.comparison import Side

_MOST_BYTES = 1 << 20  # recorded; longer replies are not compared
_MOST_UNPACKED_BYTES = 8 << 20
_UNPACKED = (b"", b"identity")


class UnreadableReply(Exception):
    """A reply cannot be compared; the text says why."""


class ReplyRecorder(KeptReply):
    """Passes a reply on, and keeps its pieces with their times."""

    def __init__(self, send: Send, began: float, dialect: Dialect) -> None:
        """began: by `time.perf_counter`; all times count from then."""
        super().__init__(send, _MOST_BYTES, began)
        self._dialect = dialect

    def side(self, body: bytes, model: str, error: str = "") -> Side:
        """The reply as one side of a comparison. Raises UnreadableReply.

        body: the request's. model: as the upstream names it. error: why there was no reply.
        """
        if self.size > _MOST_BYTES:
            raise UnreadableReply(f"the reply is longer than {_MOST_BYTES >> 20} MB")
        pieces = list(self._unpacked())
        if self.status and self.status != 200:
            error = read_error(b"".join(piece for _, piece in pieces))[0] or f"status {self.status}"
        end_ms = pieces[-1][0] if pieces else 0.0
        reader = self._dialect.reader(streamed=self.streamed)
        try:
            for at_ms, piece in pieces:
                reader.feed(piece, at_ms)
        except ReplyTooLong as too_long:
            raise UnreadableReply(str(too_long)) from too_long
        reader.close(end_ms)
        error = error or reader.error or ("" if self.whole and reader.whole else "the reply broke off before its end")
        tokens = Tokens(0, 0)
        if self.status == 200:
            tokens = reader.tokens(body)
        price = price_of(model)
        return Side(
            self.status,
            None if error else reader.answer,
            _encodable(reader.finish_reason),
            _encodable(error) or None,
            tokens,
            None if price is None else price.of(tokens),
            None if error else reader.first_text_ms,
            None if error else end_ms,
        )

    def _unpacked(self) -> Iterator[tuple[float, bytes]]:
        """The pieces, decompressed. Raises UnreadableReply."""
        if self.encoding in _UNPACKED:
            yield from self.pieces
            return
        if self.encoding not in WINDOW_BITS:
            raise UnreadableReply(f"the reply is encoded as {self.encoding.decode('latin-1')}")
        unpacker, left = zlib.decompressobj(WINDOW_BITS[self.encoding]), _MOST_UNPACKED_BYTES
        try:
            for at_ms, packed in self.pieces:
                piece = unpacker.decompress(packed, left)
                left -= len(piece)
                if left <= 0:
                    raise UnreadableReply(f"the reply is longer than {_MOST_UNPACKED_BYTES >> 20} MB")
                yield at_ms, piece
        except zlib.error as error:
            raise UnreadableReply("the reply is compressed and damaged") from error


def _encodable(text: str | None) -> str | None:
    """Remove half surrogate pairs: JSON may spell one, but no encoding can hold it."""
    return None if text is None else text.encode("utf-8", "replace").decode()
