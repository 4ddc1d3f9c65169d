"""An OpenAPI document's bytes, from a file or from a URL on an allowed host."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

import httpx

from proxy.apis.addresses import CheckedTransport, origin_of, read_within, redirect_target, why_failed
from proxy.apis.openapi.read import MAX_BYTES, UnreadableSpec
from runtime.http_client import UpstreamError
from runtime.public_addresses import ForbiddenAddress, IPNetwork

_FETCH_S = 60.0
_MOST_REDIRECTS = 3
_HEADERS = {
    "user-agent": "ragway",
    "accept": "application/json, application/yaml, */*;q=0.5",
    "accept-encoding": "gzip",
}


def is_url(source: str) -> bool:
    """Whether a source is a URL, not a file."""
    return source.startswith(("http://", "https://"))


def shown_source(source: str) -> str:
    """A source for a message: a URL without its query, which may have a key."""
    return source.partition("?")[0] if is_url(source) else source


async def read_source(
    source: str,
    *,
    hosts: Sequence[str],
    networks: Sequence[IPNetwork] = (),
    api: str = "NAME",
    seconds: float = _FETCH_S,
) -> bytes:
    """The document. hosts: allowed in a URL. networks: the API's, allowed although not public.

    Raises UnreadableSpec; its message has no URL query.
    """
    if is_url(source):
        return await _fetched(source, hosts, CheckedTransport(networks, api=api), seconds)
    try:
        return await asyncio.to_thread(_read, Path(source))
    except OSError as error:
        raise UnreadableSpec(f"the file cannot be read ({error.strerror})") from error


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MAX_BYTES + 1)  # `read_spec` refuses more


async def _fetched(source: str, hosts: Sequence[str], connections: CheckedTransport, seconds: float) -> bytes:
    try:
        url = httpx.URL(source)
        if url.host not in (host.lower() for host in hosts):
            raise UnreadableSpec(
                f"documents are not fetched from {url.host}: add the host to the setting action_calls.spec_hosts "
                f"(spec_hosts: [{url.host}])"
            )
        async with asyncio.timeout(seconds), connections as transport:
            return await _followed(transport, url)
    except TimeoutError as error:
        raise UnreadableSpec(f"the document did not come within {seconds:g} s") from error
    except ForbiddenAddress as error:
        raise UnreadableSpec(str(error)) from error
    except (UpstreamError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreadableSpec(f"the document cannot be fetched: {why_failed(error)}") from error


async def _followed(transport: CheckedTransport, url: httpx.URL) -> bytes:
    """A URL's document, after redirects within its origin."""
    for _ in range(_MOST_REDIRECTS + 1):
        asked = httpx.Request("GET", url, headers=_HEADERS)
        async with contextlib.aclosing(await transport.handle_async_request(asked)) as response:
            if response.has_redirect_location:
                target = redirect_target(response, url)
                if origin_of(target) != origin_of(url):
                    raise UnreadableSpec(f"the server redirects to {target.host}, which is not followed")
                url = target
                continue
            if response.status_code != 200:
                raise UnreadableSpec(f"the server answered with status {response.status_code}")
            content, whole = await read_within(response, MAX_BYTES)
        if not whole:
            raise UnreadableSpec(f"the document is larger than {MAX_BYTES >> 20} MB")
        return content
    raise UnreadableSpec("the server redirects without an end")
