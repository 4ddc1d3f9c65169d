"""HTTPS upstreams: whom the client believes, and how it tells an end from a cut."""

import asyncio
from pathlib import Path

import pytest

from runtime.http_client import ConnectFailed, Cut
from tests.support.clients import chunks_of, client, fetch
from tests.support.upstream_servers import Wire, answering, certificate, closing, head, reply, resetting, upstream

OK = answering(reply(b"ok"))


async def test_tls_with_a_trusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, pem = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    body = b"data: 1\n\n" * 50_000
    async with upstream(answering(reply(body)), tls=context) as server, client() as http:
        for _ in range(3):
            assert (await fetch(http, server.url, b"y" * 500_000))[2] == body
        assert server.connections == 1
        assert server.requests[0].body == b"y" * 500_000


async def test_tls_with_a_certificate_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    context, _ = certificate(tmp_path)
    async with upstream(OK, tls=context) as server, client(max_connections=1) as http:
        for _ in range(2):
            with pytest.raises(ConnectFailed, match="certificate"):
                await fetch(http, server.url)
        assert server.requests == []


async def test_tls_with_another_hosts_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, pem = certificate(tmp_path, host="other.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    async with upstream(OK, tls=context) as server, client() as http:
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            with pytest.raises(ConnectFailed, match="certificate"):
                await fetch(http, url)
        assert server.requests == []


async def test_tls_to_a_plain_server_is_connect_failed() -> None:
    async with upstream(answering_anything) as server, client() as http:
        with pytest.raises(ConnectFailed):
            await fetch(http, server.url.replace("http:", "https:"))


async def answering_anything(wire: Wire) -> None:
    """What a plain HTTP server says to a TLS handshake."""
    await wire.reader.read(1)
    await wire.send(reply(b"", status=b"400 Bad Request"))


async def test_tls_tells_an_end_from_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, pem = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    proceed = asyncio.Event()

    async def end(wire: Wire) -> None:
        await proceed.wait()
        if wire.number == 1:
            await closing(wire)
        wire.writer.transport.abort()  # the socket ends without TLS saying so: anybody on the way can do that
        await resetting(wire)

    async with upstream(answering(head() + b"abc", then=end), tls=context) as server, client() as http:
        proceed.set()
        assert (await fetch(http, server.url))[2] == b"abc"
        proceed.clear()
        response = await http.request(b"POST", server.url, [], b"")
        chunks = chunks_of(response)
        assert await anext(chunks) == b"abc"
        proceed.set()
        with pytest.raises(Cut):
            await anext(chunks)
