"""Addresses that a server may be called at: public ones, and networks that a setting allows.

Whoever connects resolves a name once, checks every address, and connects to a checked one: a second resolution could
give another address (DNS rebinding).
"""

import ipaddress
import socket
from collections.abc import Iterable, Iterator, Sequence

from runtime.http_client import ConnectFailed

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # may hold any public host's IPv4 address
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all public IPv6 addresses (RFC 4291 §2.4) but for NAT64
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")  # bytes 8 to 11, before an IPv4 address
# Cloud metadata addresses, which give credentials: refused even if their network is allowed.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        "169.254.169.254 169.254.170.2 169.254.170.23 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 100.100.100.200 "
        "168.63.129.16 192.0.0.192".split(),
    )
)


class ForbiddenAddress(Exception):
    """An address that must not be called."""


class UnknownName(ConnectFailed):
    """A host name has no address."""


def networks_of(texts: Iterable[str]) -> tuple[IPNetwork, ...]:
    """Networks from a setting, such as 10.0.0.0/8. Raises ValueError."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def check(address: str, allowed: Sequence[IPNetwork] = (), *, setting: str = "actions.NAME.networks") -> None:
    """Raise ForbiddenAddress for an address that is neither public nor in an allowed network.

    An IPv6 address that contains an IPv4 address (mapped, 6to4, Teredo, NAT64, ISATAP) is checked as both.
    setting: the one that allows networks, for the message.
    """
    given = ipaddress.ip_address(address.partition("%")[0])
    for ip in (given, *_embedded(given)):
        if ip in _METADATA or ipaddress.IPv4Address(ip.packed[-4:]) in _METADATA:  # translators may use any prefix
            raise ForbiddenAddress(f"{given} is the address of a cloud's metadata, which is never called")
        if not (_is_public(ip) or any(ip.version == network.version and ip in network for network in allowed)):
            network = f'"{ip}/128"' if ip.version == 6 else f"{ip}/32"  # YAML refuses a bare :: in a list
            wanted = f"{setting}: [{'…, ' if allowed else ''}{network}]"
            raise ForbiddenAddress(f"{given} is not a public address (to allow: {wanted})")


def _is_public(ip: IPAddress) -> bool:
    if isinstance(ip, ipaddress.IPv6Address):
        return ip in _NAT64 or (ip in _GLOBAL_UNICAST and ip.is_global)
    return ip.is_global and not ip.is_multicast


def _embedded(ip: IPAddress) -> Iterator[ipaddress.IPv4Address]:
    if isinstance(ip, ipaddress.IPv4Address):
        return
    if ip.ipv4_mapped is not None:
        yield ip.ipv4_mapped
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip.teredo is not None:
        yield from ip.teredo
    if ip in _NAT64 or ip.packed[8:12] in _ISATAP:
        yield ipaddress.IPv4Address(ip.packed[12:])


def checked_addresses(host: str, port: int, allowed: Sequence[IPNetwork], *, setting: str) -> list[str]:
    """A name's addresses, all checked; waits for the resolver. Raises ForbiddenAddress, UnknownName."""
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownName(f"the name {host} is not known") from error
    addresses = list(dict.fromkeys(str(row[4][0]) for row in rows))
    for address in addresses:
        check(address, allowed, setting=setting)
    if not addresses:
        raise UnknownName(f"the name {host} has no address")
    return addresses
