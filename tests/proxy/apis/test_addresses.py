"""Which addresses an API may have, and that a connection goes to a checked address."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from proxy.apis.call import Api, CallLimits
from runtime.public_addresses import ForbiddenAddress, check, networks_of
from tests.proxy.apis.calling import LOOPBACK, OK, accepts, called
from tests.support.api_server import api_server
from tests.support.rows import all_rows
from tests.support.upstream_servers import certificate

FORBIDDEN = {
    "private": "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fd12::1 fec0::1",
    "loopback": "127.0.0.1 127.255.255.255 ::1",
    "link-local": "169.254.1.1 fe80::1 fe80::1%eth0",
    "metadata": "169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254",
    "carrier-grade NAT": "100.64.0.1 100.127.255.255",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "unspecified, broadcast and reserved": "0.0.0.0 0.1.2.3 :: 255.255.255.255 240.0.0.1 192.0.0.1 4000::1",
    "documentation and benchmarks": "192.0.2.1 198.51.100.1 203.0.113.1 198.18.0.1 2001:db8::1",
    "IPv4-mapped": "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254",
    "IPv4-compatible": "::127.0.0.1 ::10.0.0.1",
    "6to4": "2002:7f00:1:: 2002:a00:1:: 2002:a9fe:a9fe::",
    "Teredo": "2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "NAT64": "64:ff9b::127.0.0.1 64:ff9b::a00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::7f00:1 64:ff9b:1::808:808",
    "ISATAP": "fe80::5efe:7f00:1 2600::5efe:a00:1 2600::200:5efe:a00:1",
}
PUBLIC = "8.8.8.8 1.1.1.1 2606:4700::1111 64:ff9b::8.8.8.8 2a00:1450:4001:80e::200e"


@all_rows("kind", FORBIDDEN)
def test_an_address_that_is_not_public_is_forbidden(kind: str) -> None:
    for address in FORBIDDEN[kind].split():
        with pytest.raises(ForbiddenAddress):
            check(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_a_public_address_may_be_called(address: str) -> None:
    check(address)


def test_an_allowed_network_may_be_called_and_no_other_network() -> None:
    allowed = networks_of(["10.1.0.0/16", "fd12::/64"])
    check("10.1.2.3", allowed)
    check("fd12::1", allowed)
    for address in ("10.2.0.1", "127.0.0.1", "fd13::1", "::ffff:10.1.2.3", "2002:a02:1::"):
        with pytest.raises(ForbiddenAddress, match=r"actions\.NAME\.networks"):
            check(address, allowed)


def test_a_clouds_metadata_is_forbidden_even_in_an_allowed_network() -> None:
    allowed = networks_of(["0.0.0.0/0", "::/0"])
    check("169.254.1.1", allowed)
    others = "64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe ::ffff:169.254.169.254 ::a9fe:a9fe fe80::a9fe:a9fe".split()
    for address in [*FORBIDDEN["metadata"].split(), *others]:
        with pytest.raises(ForbiddenAddress, match="metadata"):
            check(address, allowed)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::ffff:7f00:1]", "0", "localhost"],
)
async def test_no_spelling_of_a_loopback_host_is_called(host: str) -> None:
    async with api_server(accepts) as server:
        api = Api("things", f"http://{host}:{server.port}")
        outcome = await called(api)
        await api.close()
    assert server.connections == 0
    assert not outcome.sent
    assert "is not a public address" in outcome.text or "address is not valid" in outcome.text


class Resolver:
    """Names to addresses, in place of the system's resolver; a later answer to the same name may differ."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.names: list[str] = []

    def getaddrinfo(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.names.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]


def resolve_by(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)


def test_the_message_adds_the_network_to_the_setting_as_yaml() -> None:
    """`localhost` has two addresses, and YAML refuses a bare `::1/128` in a list."""
    for allowed, networks in (([], '["::1/128"]'), (["127.0.0.0/8"], '[…, "::1/128"]')):
        with pytest.raises(ForbiddenAddress) as refused:
            check("::1", networks_of(allowed), setting="actions.atlas.networks")
        assert str(refused.value).endswith(f"(to allow: actions.atlas.networks: {networks})")


async def test_a_name_with_one_forbidden_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async with api_server(accepts) as server:
        resolve_by(Resolver(["127.0.0.1", "10.0.0.1"]), monkeypatch)
        api = Api("things", f"http://api.example.com:{server.port}", networks=LOOPBACK)
        outcome = await called(api)
        await api.close()
    assert server.connections == 0
    assert outcome.text.startswith("The call failed: 10.0.0.1 is not a public address")


async def test_the_connection_goes_to_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(["127.0.0.2"], ["10.0.0.1"])
    async with api_server(accepts, host="127.0.0.2") as server:
        resolve_by(resolver, monkeypatch)
        api = Api("things", f"http://api.example.com:{server.port}", networks=LOOPBACK)
        outcome = await called(api)
        await api.close()
    assert outcome.succeeded
    assert resolver.names == ["api.example.com"]
    assert server.requests[0].headers["host"] == f"api.example.com:{server.port}"


async def test_a_name_is_checked_again_for_each_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def closes(_: object) -> Any:
        return type(OK)(body=b"{}", headers=[("Connection", "close")])

    async with api_server(closes) as server:
        resolve_by(Resolver(["127.0.0.1"], ["10.0.0.1"]), monkeypatch)
        api = Api("things", f"http://api.example.com:{server.port}", networks=LOOPBACK)
        first, second = await called(api), await called(api)
        await api.close()
    assert first.succeeded
    assert second.text.startswith("The call failed: 10.0.0.1 is not a public address")


async def test_the_next_address_is_called_where_the_first_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with api_server(accepts) as server:
        resolve_by(Resolver(["127.0.0.9", "127.0.0.1"]), monkeypatch)  # no server listens at 127.0.0.9
        api = Api("things", f"http://api.example.com:{server.port}", networks=LOOPBACK)
        assert (await called(api)).succeeded
        await api.close()


async def test_a_name_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_by(Resolver([]), monkeypatch)
    api = Api("things", "http://api.example.com", networks=LOOPBACK)
    assert (await called(api)).text == "The call failed: no connection (the name of the host has no address)."
    await api.close()


async def test_a_resolver_that_hangs_blocks_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def hangs(*_: Any, **__: Any) -> list[Any]:
        answers.wait(10)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    api = Api("things", "http://api.example.com")
    calls = [asyncio.create_task(called(api, limits=CallLimits(seconds=0.5))) for _ in range(50)]
    await asyncio.wait(calls)
    try:
        async with asyncio.timeout(2):
            await asyncio.to_thread(len, "work of another request")
    finally:
        answers.set()
    await api.close()


async def test_the_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with api_server(accepts) as proxy, api_server(accepts) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.base_url)
        api = Api("things", server.base_url, networks=LOOPBACK)
        assert (await called(api)).succeeded
        await api.close()
    assert proxy.connections == 0


async def test_tls_verifies_the_name_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, pem = certificate(tmp_path, host="api.example.com")
    async with api_server(accepts, tls=context) as server:
        resolve_by(Resolver(["127.0.0.1"]), monkeypatch)
        for host, trusted, expected in (
            ("api.example.com", True, True),
            ("other.example.com", True, False),
            ("api.example.com", False, False),
        ):
            if trusted:
                monkeypatch.setenv("SSL_CERT_FILE", str(pem))
            else:
                monkeypatch.delenv("SSL_CERT_FILE")
            api = Api("things", f"https://{host}:{server.port}", networks=LOOPBACK)
            assert (await called(api)).succeeded is expected
            await api.close()
    assert len(server.requests) == 1
