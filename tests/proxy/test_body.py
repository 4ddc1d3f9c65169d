"""Bodies with a content-encoding: unpacked within the limit, or refused with the reason."""

import asyncio
import contextlib
import random
from collections.abc import Sequence

import pytest

from proxy.body import end_grant, forget, whole_body
from proxy.dialects.errors import ApiError
from proxy.exchange import EXCHANGE, Exchange
from tests.support.asgi_calls import Call, scope_of
from tests.support.encodings import COMPRESSORS, ENCODINGS

LIMIT_BYTES = 100_000
CONTENT = b'{"model": "m", "n": 1.50, "text": "' + "Grüße, \U0001f600 ".encode() * 500 + b'"}'


async def content_of(body: bytes, *encodings: str, limit_bytes: int = LIMIT_BYTES, pieces: int = 3) -> bytes:
    """The content of a request's body with these content-encoding headers."""
    step = len(body) // pieces + 1
    call = Call([body[start : start + step] for start in range(0, len(body), step)] or [b""])
    scope = scope_of(headers=[(b"content-encoding", encoding.encode("latin-1")) for encoding in encodings])
    scope[EXCHANGE] = exchange = Exchange()
    try:
        return await whole_body(scope, call.receive, max_bytes=limit_bytes)
    finally:
        end_grant(exchange)


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
    twice = [whole + whole] if encoding in ("deflate", "br") else []
    for damaged in (CONTENT, whole[:-1], whole[:9], whole + b"more", b"\0" * 100, *twice):
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


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "zstd"])
async def test_members_of_a_body_are_joined(encoding: str) -> None:
    parts = [b'{"text": "', b"", "Grüße".encode() * 9_000, random.Random(3).randbytes(70_000), b'"}']
    packed = b"".join(map(COMPRESSORS[encoding], parts))
    assert await content_of(packed, encoding, limit_bytes=200_000) == b"".join(parts)
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc" if encoding == "zstd" else b""
    assert await content_of(skippable + packed, encoding, limit_bytes=200_000) == b"".join(parts)
    assert (await refusal(packed[:-1], encoding, limit_bytes=200_000)).code == "invalid_encoding"
    assert (await refusal(COMPRESSORS[encoding](b"") * 20_000, encoding, limit_bytes=10**6)).code == "invalid_encoding"


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_few_bytes_do_not_unpack_to_many(encoding: str) -> None:
    """161 bytes of br unpack to 19 MB, where the limit is 20 MB."""
    limit_bytes = 20 << 20
    for content in (b" " * (19 << 20), b'{"a": "' + b"abcdefgh" * (1 << 20) + b'"}'):
        packed = COMPRESSORS[encoding](content)
        assert len(packed) * 100 < len(content)
        error = await refusal(packed, encoding, limit_bytes=limit_bytes)
        assert (error.status, error.code) == (413, "body_too_large")
        assert "100 times" in error.message
    small = b" " * (1 << 20)
    assert await content_of(COMPRESSORS[encoding](small), encoding, limit_bytes=limit_bytes) == small
    dense = random.Random(4).randbytes(3 << 19).hex().encode()  # packs to the half
    assert await content_of(COMPRESSORS[encoding](dense), encoding, limit_bytes=limit_bytes) == dense


async def test_large_bodies_wait_for_memory_and_are_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key takes at most half of the memory; what is given back serves the next."""
    body, exchanges = b" " * (20 << 20), []

    async def asked(key: str, body: bytes = body) -> Exchange:
        exchange = Exchange(key=key)
        exchanges.append(exchange)
        await whole_body({**scope_of(), EXCHANGE: exchange}, Call([body]).receive, max_bytes=len(body))
        return exchange

    greedy = [await asked("a") for _ in range(3)]
    waiting = asyncio.create_task(asked("a"))
    async with asyncio.timeout(10):
        small, other = await asked("a", b"{}"), await asked("b")
    assert small.granted_mb == 0
    assert other.granted_mb == 60
    assert not waiting.done()
    end_grant(greedy[0])
    async with asyncio.timeout(10):
        await waiting
    monkeypatch.setattr("proxy.body._WAIT_S", 0.01)
    with pytest.raises(ApiError) as caught:
        await asked("a")
    assert (caught.value.status, caught.value.code, caught.value.headers) == (503, "busy", [(b"retry-after", b"5")])
    for exchange in exchanges:
        end_grant(exchange)


async def test_a_sent_request_is_forgotten_where_nothing_needs_it() -> None:
    for once, large in ((True, True), (True, False), (False, True)):
        exchange = Exchange(body=b"{}", fields={"a": 1}, once=once)
        if large:
            await whole_body({**scope_of(), EXCHANGE: exchange}, Call([b" " * (1 << 20)]).receive, max_bytes=1 << 20)
        forget(exchange)
        assert (exchange.body is None and exchange.fields is None) is (once and large)
        assert bool(exchange.granted_mb) is (large and not once)
        end_grant(exchange)
