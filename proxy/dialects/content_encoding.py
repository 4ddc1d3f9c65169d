"""Unpacks request bodies with a content-encoding (gzip, deflate, zstd or br), within a limit.

300 bytes can unpack to 200 MB, so each unpacker stops at the limit. C code unpacks in a thread and releases the
interpreter, so the event loop goes on.
"""

import functools
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from proxy.dialects.errors import ApiError, Headers

Unpacker = Callable[[bytes, int], tuple[bytes, bool]]
# Content-encoding -> zlib's window bits. "deflate" is zlib's format (RFC 9110 §8.4.1.2).
WINDOW_BITS = {b"gzip": 16 + zlib.MAX_WBITS, b"x-gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_ZSTD_WINDOW_BITS = 23  # 8 MB, HTTP's maximum (RFC 9659)
_MOST_MEMBERS = 10_000  # gzip members or zstd frames: parallel packers write one for 64 to 1,024 KB
_PIECE_BYTES = 1 << 16
# Text packs 3 to 20 times. 161 bytes of br unpack to 19 MB.
_MOST_RATIO, _MOST_FREE_BYTES = 100, 1 << 20
_KNOWN = ("gzip", "deflate", "zstd", "br")


class Damaged(Exception):
    """The bytes do not match their encoding."""


def content_encoding(headers: Headers) -> bytes:
    """A request body's encoding, in lower case; b"" for a plain body. Raises ApiError 415."""
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
    """The unpacked body, cut after most_bytes. encoding: from `content_encoding`.

    Raises ApiError 400, and 413 for more than `most_unpacked`: few bytes must not take much memory.
    """
    name = encoding.decode()
    most_bytes = min(most_bytes, most_unpacked(len(raw)) + 1)
    try:
        content, whole = _UNPACKERS[encoding](raw, most_bytes)
    except Damaged as error:
        message = f"The body is not {name}, which the header content-encoding names: {error}."
        raise ApiError(400, message, code="invalid_encoding") from error
    if not whole and len(content) < most_bytes:
        message = f"The body is cut off, or goes on after the end of the {name} data: send one whole stream."
        raise ApiError(400, message, code="invalid_encoding")
    if len(content) > most_unpacked(len(raw)):
        message = (
            f"The body unpacks to more than {_MOST_FREE_BYTES >> 20} MB and to more than {_MOST_RATIO} times its size: "
            f"send the body without content-encoding."
        )
        raise ApiError(413, message, code="body_too_large")
    return content[:most_bytes]


def most_unpacked(packed_bytes: int) -> int:
    """How many bytes so many packed bytes may unpack to."""
    return max(_MOST_FREE_BYTES, _MOST_RATIO * packed_bytes)


def unpacked_start(raw: bytes, encoding: bytes, most_bytes: int) -> bytes:
    """The start of the content, from the start of a body; b"" if it is damaged or its encoding unknown."""
    if encoding in (b"", b"identity"):
        return raw[:most_bytes]
    try:
        return _UNPACKERS[encoding](raw, most_bytes)[0][:most_bytes] if encoding in _UNPACKERS else b""
    except (Damaged, ImportError):  # older environments lack the libraries for zstd and br
        return b""


def _inflater(window_bits: int, most_members: int) -> Unpacker:
    def inflate(raw: bytes, most_bytes: int) -> tuple[bytes, bool]:
        try:
            return _joined(functools.partial(zlib.decompressobj, window_bits), raw, most_bytes, most_members)
        except zlib.error as error:
            raise Damaged(str(error)) from error

    return inflate


def _zstd(raw: bytes, most_bytes: int) -> tuple[bytes, bool]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_BITS}
    try:
        return _joined(lambda: zstd.ZstdDecompressor(options=options), raw, most_bytes, _MOST_MEMBERS)
    except zstd.ZstdError as error:
        raise Damaged(str(error)) from error


def _joined(made: Callable[[], Any], raw: bytes, most_bytes: int, most_members: int) -> tuple[bytes, bool]:
    """Unpack one member after another: RFC 1952 §2.2 and RFC 8878 §3 allow several."""
    content, unpacker, members = bytearray(), made(), 1
    for start in range(0, len(raw), _PIECE_BYTES):  # `unused_data` copies the rest of a piece
        piece = raw[start : start + _PIECE_BYTES]
        while piece and len(content) < most_bytes:
            if unpacker.eof:
                if members == most_members:
                    return bytes(content), False
                unpacker, members = made(), members + 1
            content += unpacker.decompress(piece, most_bytes - len(content))
            piece = unpacker.unused_data
        if len(content) >= most_bytes:
            break
    return bytes(content), unpacker.eof


def _brotli(raw: bytes, most_bytes: int) -> tuple[bytes, bool]:
    import brotli

    unpacker = brotli.Decompressor()
    try:
        content = unpacker.process(raw, output_buffer_limit=most_bytes)  # at most twice the limit
    except brotli.error as error:
        raise Damaged(str(error)) from error
    return content, unpacker.is_finished()


# An unpacker returns the content, cut near the limit, and whether the bytes were exactly one whole stream.
_UNPACKERS: Mapping[bytes, Unpacker] = {
    **{name: _inflater(bits, 1 if name == b"deflate" else _MOST_MEMBERS) for name, bits in WINDOW_BITS.items()},
    b"zstd": _zstd,
    b"br": _brotli,
}
