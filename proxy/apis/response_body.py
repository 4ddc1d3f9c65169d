"""The body of an API's response, unpacked within a limit: 300 bytes of gzip can unpack to 200 MB."""

import zlib

import httpx

from proxy.dialects.content_encoding import WINDOW_BITS

_GZIP = b"\x1f\x8b"  # the first bytes of a member
# Encodings that no request of the gateway asks for. Other names, such as utf-8 or none, are mistakes of servers.
_OTHERS = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip", "aes128gcm"})


async def read_within(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """The first `max_bytes` of the body, and whether the body is whole. Raises httpx.DecodingError."""
    bits = _window_bits(response.headers.get("content-encoding", ""))
    stream = zlib.decompressobj(bits) if bits else None
    content = bytearray()
    async for received in response.aiter_raw():
        piece = received
        if stream is None:
            content += piece
        while stream is not None and piece and len(content) <= max_bytes:
            if stream.eof:  # a gzip file may have several members (RFC 1952 §2.2)
                if piece[:2] != _GZIP[: len(piece)]:
                    break  # bytes after the end, which mean nothing
                stream = zlib.decompressobj(bits)
            try:
                content += stream.decompress(piece, max_bytes + 1 - len(content))
            except zlib.error as error:
                raise httpx.DecodingError("the response is damaged") from error
            piece = stream.unused_data
        if len(content) > max_bytes:
            return bytes(content[:max_bytes]), False
    if stream is not None and not stream.eof and response.num_bytes_downloaded:
        raise httpx.DecodingError("the response is cut off")
    return bytes(content), True


def _window_bits(encodings: str) -> int:
    """Of zlib; 0: not packed. Raises httpx.DecodingError for encodings that cannot be unpacked."""
    names = [one.strip().lower() for one in encodings.split(",")]
    packed = [one for one in names if one.encode() in WINDOW_BITS or one in _OTHERS]
    if len(packed) > 1 or not _OTHERS.isdisjoint(packed):
        raise httpx.DecodingError(f"the content-encoding {encodings!r} was not asked for")
    return WINDOW_BITS[packed[0].encode()] if packed else 0
