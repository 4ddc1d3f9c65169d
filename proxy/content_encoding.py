"""Request bodies with a content-encoding: gzip, deflate, zstd or br, unpacked within a limit.

300 bytes can unpack to 200 MB, so each unpacker stops at the limit. One call in C unpacks the body, in a thread, and
leaves the interpreter to other threads: the event loop goes on.
"""

import sys
import zlib
from collections.abc import Callable, Mapping

from proxy.errors import ApiError, Headers

Unpacker = Callable[[bytes, int], tuple[bytes, bool]]
# Content-encoding -> the window bits of zlib. "deflate" is zlib's format (RFC 9110 §8.4.1.2).
WINDOW_BITS = {b"gzip": 16 + zlib.MAX_WBITS, b"x-gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_ZSTD_WINDOW_BITS = 23  # 8 MB, the most that HTTP allows (RFC 9659)
_KNOWN = ("gzip", "deflate", "zstd", "br")


class Damaged(Exception):
    """The bytes are not in the format of the encoding."""


def content_encoding(headers: Headers) -> bytes:
    """The encoding of a request's body, in lower case; b"" for a plain body. Raises ApiError 415."""
    named = b",".join(value for name, value in headers if name == b"content-encoding")
    encodings = [encoding for part in named.lower().split(b",") if (encoding := part.strip()) not in (b"", b"identity")]
    if not encodings:
        return b""
    if len(encodings) > 1 or encodings[0] not in _UNPACKERS:
        message = (
            f"The content-encoding {named.decode('latin-1')!r} is not supported: send the body without "
            f"content-encoding, or with one of {', '.join(_KNOWN)}."
        )
        accepted = [(b"accept-encoding", ", ".join(_KNOWN).encode())]
        raise ApiError(415, message, code="unsupported_encoding", headers=accepted)
    return encodings[0]


def unpacked(raw: bytes, encoding: bytes, most_bytes: int) -> bytes:
    """The content of a body, cut after most_bytes. encoding: of `content_encoding`. Raises ApiError 400."""
    name = encoding.decode()
    try:
        content, whole = _UNPACKERS[encoding](raw, most_bytes)
    except Damaged as error:
        message = f"The body is not {name}, which the header content-encoding names: {error}."
        raise ApiError(400, message, code="invalid_encoding") from error
    if not whole and len(content) < most_bytes:
        message = f"The body is cut off, or goes on after the end of the {name} data: send one whole stream."
        raise ApiError(400, message, code="invalid_encoding")
    return content[:most_bytes]


def unpacked_start(raw: bytes, encoding: bytes, most_bytes: int) -> bytes:
    """The first bytes of a content, from the first bytes of the body; b"" for damaged bytes or an unknown encoding."""
    if encoding in (b"", b"identity"):
        return raw[:most_bytes]
    try:
        return _UNPACKERS[encoding](raw, most_bytes)[0][:most_bytes] if encoding in _UNPACKERS else b""
    except (Damaged, ImportError):  # an environment from before zstd and br lacks their libraries
        return b""


def _inflater(window_bits: int) -> Unpacker:
    def inflate(raw: bytes, most_bytes: int) -> tuple[bytes, bool]:
        unpacker = zlib.decompressobj(window_bits)
        try:
            content = unpacker.decompress(raw, most_bytes)
        except zlib.error as error:
            raise Damaged(str(error)) from error
        return content, unpacker.eof and not unpacker.unused_data

    return inflate


def _zstd(raw: bytes, most_bytes: int) -> tuple[bytes, bool]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    unpacker = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_BITS})
    try:
        content = unpacker.decompress(raw, most_bytes)
    except zstd.ZstdError as error:
        raise Damaged(str(error)) from error
    return content, unpacker.eof and not unpacker.unused_data


def _brotli(raw: bytes, most_bytes: int) -> tuple[bytes, bool]:
    import brotli

    unpacker = brotli.Decompressor()
    try:
        content = unpacker.process(raw, output_buffer_limit=most_bytes)  # at most twice the limit
    except brotli.error as error:
        raise Damaged(str(error)) from error
    return content, unpacker.is_finished()


# An unpacker returns the content, cut at about the limit, and whether the bytes are exactly one whole stream.
_UNPACKERS: Mapping[bytes, Unpacker] = {
    **{encoding: _inflater(window_bits) for encoding, window_bits in WINDOW_BITS.items()},
    b"zstd": _zstd,
    b"br": _brotli,
}
