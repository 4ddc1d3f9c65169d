"""The body of an API's response, unpacked within a limit: 300 bytes of gzip can unpack to 200 MB."""

import zlib

import httpx

from proxy.dialects.content_encoding import WINDOW_BITS

_GZIP = b"\x1f\x8b"  # the first bytes of a member
# Encodings that no request of the gateway asks for. Other names, such as utf-8 or none, are mistakes of servers.
_OTHERS = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip", "aes128gcm"})


async def read_within(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """The first `max_bytes` of the body, and whether the body is whole. Raises httpx.DecodingError."""
    unpacker = _Unpacker(response.headers.get("content-encoding", ""))
    content = bytearray()
    async for piece in response.aiter_raw():
        content += unpacker.unpacked(piece, max_bytes + 1 - len(content))
        if len(content) > max_bytes:
            return bytes(content[:max_bytes]), False
    unpacker.check_end()
    return bytes(content), True


class _Unpacker:
    """Unpacks the pieces of a body."""

    def __init__(self, encodings: str) -> None:
        """Raises httpx.DecodingError for encodings that cannot be unpacked."""
        names = [one.strip().lower() for one in encodings.split(",")]
        packed = [one for one in names if one.encode() in WINDOW_BITS or one in _OTHERS]
        if len(packed) > 1 or not _OTHERS.isdisjoint(packed):
            raise httpx.DecodingError(f"the content-encoding {encodings!r} was not asked for")
        self._window_bits = WINDOW_BITS[packed[0].encode()] if packed else 0
        self._stream = zlib.decompressobj(self._window_bits) if packed else None
        self._began = False

    def unpacked(self, piece: bytes, most_bytes: int) -> bytes:
        """At most `most_bytes` of the content. Raises httpx.DecodingError."""
        if self._stream is None:
            return piece
        content = bytearray()
        try:
            while piece and len(content) < most_bytes:
                if self._stream.eof:  # a gzip file may have several members (RFC 1952 §2.2)
                    if piece[:2] != _GZIP[: len(piece)]:
                        break  # bytes after the end, which mean nothing
                    self._stream = zlib.decompressobj(self._window_bits)
                self._began = True
                content += self._stream.decompress(piece, most_bytes - len(content))
                piece = self._stream.unused_data
        except zlib.error as error:
            raise httpx.DecodingError("the response is damaged") from error
        return bytes(content)

    def check_end(self) -> None:
        """Raises httpx.DecodingError where the packed bytes are not whole."""
        if self._stream is not None and self._began and not self._stream.eof:
            raise httpx.DecodingError("the response is cut off")
