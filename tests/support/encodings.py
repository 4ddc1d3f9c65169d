"""Compressors of request bodies, by content-encoding. An environment from before zstd and br lacks their libraries."""

import gzip
import importlib.util
import zlib
from collections.abc import Callable

import pytest

Compressor = Callable[[bytes], bytes]


def _zstd(content: bytes) -> bytes:
    from backports import zstd

    packed: bytes = zstd.compress(content)
    return packed


def _brotli(content: bytes) -> bytes:
    import brotli

    packed: bytes = brotli.compress(content, quality=5)
    return packed


def _installed(module: str) -> bool:
    package = module.partition(".")[0]
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec(module) is not None


COMPRESSORS: dict[str, Compressor] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": _zstd,
    "br": _brotli,
}
_LIBRARIES = {"zstd": "backports.zstd", "br": "brotli"}

# For `parametrize("encoding", ENCODINGS)`.
ENCODINGS = [
    pytest.param(
        name,
        marks=[pytest.mark.skipif(not _installed(library), reason=f"{library} is not installed: run make install-dev")]
        if (library := _LIBRARIES.get(name))
        else [],
    )
    for name in COMPRESSORS
]
