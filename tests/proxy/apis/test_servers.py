"""Credentials and fixed arguments go to the origin of the API alone, wherever a document sends an operation."""

import pytest

from proxy.apis.addresses import why_refused
from proxy.apis.call import Api
from proxy.apis.openapi.operation import Operation
from tests.proxy.apis.calling import accepts, bearer, called, operation, served_api
from tests.support.api_server import api_server

SECRET = "s3cret-value"


def served_at(server: str) -> Operation:
    """An operation whose document names a server for the operation."""
    return Operation(
        "listThings", "GET", "/things", {"type": "object", "properties": {}, "required": []}, server=server
    )


async def test_an_operation_of_another_origin_is_not_called() -> None:
    async with api_server(accepts) as other, served_api(accepts, bearer(SECRET)) as (server, api):
        outcome = await called(api, served_at(f"{other.base_url}/v2"))
    assert (other.requests, server.requests, outcome.sent) == ([], [], False)
    assert (
        f"{other.base_url}/v2 is not the address of this API (allow the address in actions.things.servers)"
        in outcome.text
    )


async def test_an_operation_of_an_allowed_origin_is_called() -> None:
    async with api_server(accepts) as other, served_api(accepts, bearer(SECRET), servers=[other.base_url]) as (_, api):
        assert (await called(api, served_at(f"{other.base_url}/v2"))).succeeded
    assert other.targets == ["/v2/things"]


@pytest.mark.parametrize(
    ("base_url", "server", "address"),
    [
        ("https://a.example/api?v=1", "", "https://a.example/api?v=1"),
        ("https://a.example/api", "/v2", "https://a.example/v2"),
        ("https://a.example/api", "v2", "https://a.example/api/v2"),
        ("https://a.example", "https://A.example:443/v2", "https://A.example:443/v2"),
        ("https://a.example/api?key=1&v=2", "/v2", "https://a.example/v2?key=1&v=2"),
        ("https://a.example?key=1", "https://A.example:443/v2?w=3", "https://A.example:443/v2?w=3&key=1"),
    ],
)
def test_a_server_within_the_origin_counts(base_url: str, server: str, address: str) -> None:
    api = Api("things", base_url)
    assert api.address_of(served_at(server)) == address
    assert api.serves(served_at(server))


def test_the_query_of_the_address_stays_with_the_origin() -> None:
    api = Api("things", "https://a.example/api?key=1", servers=["https://b.example"])
    assert api.address_of(served_at("https://b.example/v2")) == "https://b.example/v2"
    assert api.shown_request(served_at("/v2"), {}).url == "https://a.example/v2/things?key=FIXED"


@pytest.mark.parametrize(
    "server",
    [
        "https://evil.example", "//evil.example", "http://a.example", "https://a.example:8443", "https://a.example.evil",
        "https://a.example@evil.example", "https://[", "ftp://a.example",
    ],
)  # fmt: skip
def test_a_server_of_another_origin_does_not_count(server: str) -> None:
    assert not Api("things", "https://a.example/api").serves(served_at(server))
    assert not Api("things", "https://xn--a").serves(served_at(server))  # no valid address either


async def test_an_api_without_a_valid_address_is_told() -> None:
    assert await why_refused("https://xn--a", [], api="things") == "the address is not valid"


async def test_the_path_of_an_operation_cannot_name_another_host() -> None:
    async with api_server(accepts) as other, served_api(accepts, bearer(SECRET)) as (server, api):
        for path in (f"//127.0.0.1:{other.port}/x", f"/@127.0.0.1:{other.port}/", "/\\evil.example/"):
            await called(api, operation("GET", path))
    assert other.requests == []
    assert {one.headers["host"] for one in server.requests} == {f"127.0.0.1:{server.port}"}
