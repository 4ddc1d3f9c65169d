"""The body of an API's response, unpacked within a limit: 300 bytes of gzip can unpack to 200 MB."""

import zlib

import httpx

from proxy.content_encoding import WINDOW_BITS


async def read_within(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """The first `max_bytes` of the body, and whether the body is whole. Raises httpx.DecodingError."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding.encode() not in WINDOW_BITS:
        raise httpx.DecodingError(f"the content-encoding {encoding!r} was not asked for")
    unpacker = None if encoding == "identity" else zlib.decompressobj(WINDOW_BITS[encoding.encode()])
    content = bytearray()
    async for piece in response.aiter_raw():
        try:
            content += piece if unpacker is None else unpacker.decompress(piece, max_bytes + 1 - len(content))
        except zlib.error as error:
            raise httpx.DecodingError("the response is damaged") from error
        if len(content) > max_bytes:
            return bytes(content[:max_bytes]), False
    return bytes(content), True
