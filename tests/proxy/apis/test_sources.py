"""The document of a set from a file or a URL: real servers, allowed hosts, limits."""

import gzip
from pathlib import Path

import pytest

from proxy.apis.openapi import read
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.sources import read_source, shown_source
from proxy.apis.specs import address_of
from tests.proxy.apis.calling import LOOPBACK, replies
from tests.support.api_server import ApiRequest, ApiServer, Reply, api_server

HOSTS = ["127.0.0.1"]
DOCUMENT = b'{"openapi": "3.1.0", "paths": {}}'


async def fetched(server: ApiServer, path: str = "/openapi.json?token=s3cret", seconds: float = 30.0) -> bytes:
    return await read_source(server.base_url + path, hosts=HOSTS, networks=LOOPBACK, seconds=seconds)


async def refused(server: ApiServer, path: str = "/openapi.json?token=s3cret", seconds: float = 30.0) -> str:
    with pytest.raises(UnreadableSpec) as caught:
        await fetched(server, path, seconds)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        Reply(body=DOCUMENT),
        Reply(body=DOCUMENT, headers=[("Content-Type", "image/png")]),
        Reply(body=gzip.compress(DOCUMENT), headers=[("Content-Encoding", "gzip")]),
    ],
    ids=["plain", "another type", "gzip"],
)
async def test_a_document_is_fetched_whatever_its_type(given: Reply) -> None:
    async with api_server(replies(given)) as server:
        assert await fetched(server) == DOCUMENT
    assert server.targets == ["/openapi.json?token=s3cret"]
    assert "authorization" not in server.requests[0].headers


async def test_a_host_that_is_not_allowed_is_not_asked() -> None:
    async with api_server(replies(Reply(body=DOCUMENT))) as server:
        with pytest.raises(UnreadableSpec, match=r"action_calls.spec_hosts \(spec_hosts: \[127.0.0.1\]\)"):
            await read_source(server.base_url + "/x", hosts=["api.example.com"], networks=LOOPBACK)
    assert server.requests == []


async def test_an_address_that_is_not_public_is_not_asked() -> None:
    async with api_server(replies(Reply(body=DOCUMENT))) as server:
        with pytest.raises(
            UnreadableSpec, match=r"127.0.0.1 is not a public address .*actions.NAME.networks: \[127.0.0.1/32\]"
        ):
            await read_source(server.base_url + "/x", hosts=HOSTS)
    assert server.connections == 0


async def test_a_proxy_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with api_server(replies(Reply(body=DOCUMENT))) as server, api_server(replies(Reply(502))) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url)
        assert await fetched(server) == DOCUMENT
    assert proxy.connections == 0


async def test_a_redirect_within_the_origin_is_followed() -> None:
    async def handler(request: ApiRequest) -> Reply:
        return Reply(body=DOCUMENT) if request.target == "/v2" else Reply(302, headers=[("Location", "/v2")])

    async with api_server(handler) as server:
        assert await fetched(server, "/v1") == DOCUMENT


async def test_a_redirect_to_another_server_is_not_followed() -> None:
    async with api_server(replies(Reply(body=DOCUMENT))) as other:
        to_other = Reply(302, headers=[("Location", other.base_url + "/v2")])
        async with api_server(replies(to_other)) as server:
            assert "the server redirects to 127.0.0.1, which is not followed" in await refused(server)
    assert other.requests == []


@pytest.mark.parametrize("location", ["http://[::1/", "http:////[::1", "https://xn--a/"])
async def test_a_redirect_to_an_address_that_is_not_valid_is_refused(location: str) -> None:
    async with api_server(replies(Reply(302, headers=[("Location", location)]))) as server:
        assert "the document cannot be fetched: the address is not valid" in await refused(server)


async def test_a_circle_of_redirects_has_an_end() -> None:
    async with api_server(replies(Reply(302, headers=[("Location", "/again")]))) as server:
        assert "redirects without an end" in await refused(server)


async def test_what_a_server_answers_instead_of_a_document_is_named() -> None:
    async with api_server(replies(Reply(404, b"no"))) as server:
        assert await refused(server) == "the server answered with status 404"
    async with api_server(replies(Reply(hold=True))) as server:
        assert await refused(server, seconds=0.2) == "the document did not come within 0.2 s"
    async with api_server(replies(Reply(raw=b"nonsense\r\n\r\n"))) as server:
        assert "the document cannot be fetched: the connection broke off" in await refused(server)


async def test_a_document_that_unpacks_beyond_the_limit_is_refused() -> None:
    packed = gzip.compress(b" " * (read.MAX_BYTES + 1))
    async with api_server(replies(Reply(body=packed, headers=[("Content-Encoding", "gzip")]))) as server:
        assert await refused(server) == "the document is larger than 64 MB"


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSpec, match="No such file"):
        await read_source(str(tmp_path / "openapi.yaml"), hosts=[])
    (tmp_path / "openapi.yaml").write_bytes(DOCUMENT)
    assert await read_source(str(tmp_path / "openapi.yaml"), hosts=[]) == DOCUMENT


def test_a_shown_url_has_no_query() -> None:
    assert shown_source("https://a.example/openapi.json?token=1") == "https://a.example/openapi.json"
    assert shown_source("/srv/what?.yaml") == "/srv/what?.yaml"


# --- the address of the API ------------------------------------------------------------------------------------------

URL = "https://a.example/docs/openapi.json?token=1"


@pytest.mark.parametrize(
    ("server", "address"),
    [
        (None, "https://a.example/"),
        ("/api", "https://a.example/api"),
        ("v2", "https://a.example/docs/v2"),
        ("https://a.example/v3", "https://a.example/v3"),
    ],
)
def test_a_server_counts_from_the_documents_url(server: str | None, address: str) -> None:
    assert address_of({"servers": [{"url": server}]} if server else {}, URL) == address


@pytest.mark.parametrize(
    "server", ["https://evil.example", "//evil.example", "http://a.example", "https://a.example:8"]
)
def test_a_document_from_a_url_names_no_server_of_another_origin(server: str) -> None:
    with pytest.raises(UnreadableSpec, match="another origin than the document's URL.* --base-url"):
        address_of({"servers": [{"url": server}]}, URL)


@pytest.mark.parametrize("source", ["", URL])
@pytest.mark.parametrize(
    "server", ["https://[::1", "https://[api.example]/v1", "https://xn--a/", "https://a.example:x"]
)
def test_a_server_that_is_no_address_is_refused(server: str, source: str) -> None:
    with pytest.raises(UnreadableSpec, match="--base-url"):
        address_of({"servers": [{"url": server}]}, source)
