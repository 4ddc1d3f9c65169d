"""Bodies with a content-encoding: unpacked within the limit, or refused with the reason."""

import contextlib
import random
from collections.abc import Sequence

import pytest

from proxy.body import whole_body
from proxy.errors import ApiError
from tests.support.asgi_calls import Call, scope_of
from tests.support.encodings import COMPRESSORS, ENCODINGS

LIMIT_BYTES = 100_000
CONTENT = b'{"model": "m", "n": 1.50, "text": "' + "Grüße, \U0001f600 ".encode() * 500 + b'"}'


async def content_of(body: bytes, *encodings: str, limit_bytes: int = LIMIT_BYTES, pieces: int = 3) -> bytes:
    """The content of a request's body with these content-encoding headers."""
    step = len(body) // pieces + 1
    call = Call([body[start : start + step] for start in range(0, len(body), step)] or [b""])
    scope = scope_of(headers=[(b"content-encoding", encoding.encode("latin-1")) for encoding in encodings])
    return await whole_body(scope, call.receive, max_bytes=limit_bytes)


async def refusal(body: bytes, *encodings: str, limit_bytes: int = LIMIT_BYTES) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await content_of(body, *encodings, limit_bytes=limit_bytes)
    return caught.value


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("content", [CONTENT, b"", b"{}", random.Random(1).randbytes(LIMIT_BYTES)])
async def test_a_body_is_unpacked_whatever_the_encoding(encoding: str, content: bytes) -> None:
    packed = COMPRESSORS[encoding](content)
    limit_bytes = max(len(packed), LIMIT_BYTES)
    assert await content_of(packed, encoding, limit_bytes=limit_bytes) == content
    assert await content_of(packed, encoding.upper(), "identity", limit_bytes=limit_bytes) == content
    assert await content_of(packed, f" {encoding} ,", limit_bytes=limit_bytes, pieces=50) == content


@pytest.mark.parametrize("encodings", [[], ["identity"], [""], ["Identity", "identity"]])
async def test_a_plain_body_stays(encodings: Sequence[str]) -> None:
    assert await content_of(CONTENT, *encodings) == CONTENT


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_no_body_needs_no_unpacking(encoding: str) -> None:
    assert await content_of(b"", encoding) == b""


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_the_limit_holds_for_the_unpacked_body(encoding: str) -> None:
    assert await content_of(COMPRESSORS[encoding](b" " * LIMIT_BYTES), encoding) == b" " * LIMIT_BYTES
    for over in (LIMIT_BYTES + 1, 1000 * LIMIT_BYTES):
        error = await refusal(COMPRESSORS[encoding](b" " * over), encoding)
        assert (error.status, error.code) == (413, "body_too_large")


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_damaged_bytes_are_a_400_that_names_the_encoding(encoding: str) -> None:
    whole = COMPRESSORS[encoding](CONTENT)
    for damaged in (CONTENT, whole[:-1], whole[:9], whole + b"more", whole + whole, b"\0" * 100):
        error = await refusal(damaged, encoding)
        assert (error.status, error.code) == (400, "invalid_encoding"), damaged[:20]
        assert encoding in error.message


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_any_flipped_bit_gives_some_content_or_a_refusal(encoding: str) -> None:
    whole, draw = COMPRESSORS[encoding](CONTENT), random.Random(2)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        with contextlib.suppress(ApiError):
            assert len(await content_of(bytes(damaged), encoding)) <= LIMIT_BYTES


@pytest.mark.parametrize(
    "encodings", [["compress"], ["gzip, gzip"], ["gzip", "br"], ["aws-chunked"], ["\xff"], ["g zip"]]
)
async def test_other_encodings_are_a_415_that_names_the_known(encodings: Sequence[str]) -> None:
    error = await refusal(CONTENT, *encodings)
    assert (error.status, error.code) == (415, "unsupported_encoding")
    assert "gzip, deflate, zstd, br" in error.message
    assert error.headers == [(b"accept-encoding", b"gzip, deflate, zstd, br")]


async def test_a_window_above_8_mb_is_refused() -> None:
    zstd = pytest.importorskip("backports.zstd")
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    packer = zstd.ZstdCompressor(options=options)
    packed = packer.compress(b"a" * 100) + packer.flush()
    assert (await refusal(packed, "zstd")).code == "invalid_encoding"
