"""Credentials against servers that check the credentials, and that share no code with the gateway."""

import asyncio
import base64
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import httpx
import orjson
import pytest

from proxy.apis.call import Api, CallLimits, call
from proxy.apis.credentials import ApiKey, ClientCredentials, Digest, Where
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.operations import operations_of
from tests.proxy.apis.calling import OK, QUICK, accepts, bearer, called, operation, served_api
from tests.support.api_server import ApiRequest, Reply, api_server
from tests.support.digest_gate import DigestGate
from tests.support.rows import all_rows

USER, PASSWORD = "Mufasa", 'Circle of "Life"'


async def test_a_call_without_credentials_sends_none() -> None:
    async with served_api(accepts) as (server, api):
        assert (await called(api)).succeeded
    assert not {"authorization", "cookie", "x-api-key"} & server.requests[0].headers.keys()


async def test_a_key_goes_into_the_header_that_the_configuration_names() -> None:
    async with served_api(accepts, ApiKey("k-1", "header", "X-Key")) as (server, api):
        await called(api)
    assert server.requests[0].headers["x-key"] == "k-1"


async def test_a_key_in_the_query_leaves_the_other_bytes_of_the_query_alone() -> None:
    one = operation("GET", "/things", "filter", "empty")
    async with served_api(accepts, ApiKey("k/ 1&", "query", "api key")) as (server, api):
        await called(api, one, filter="a/b ü+c'~%41", empty="")
        await called(api)
    assert server.targets == [
        "/things?filter=a%2Fb%20%C3%BC%2Bc%27~%2541&empty=&api+key=k%2F+1%26",
        "/things?api+key=k%2F+1%26",
    ]


async def test_a_key_in_a_cookie_joins_the_cookies_of_the_operation() -> None:
    async with served_api(accepts, ApiKey("k-1", "cookie", "session")) as (server, api):
        await called(api)
    assert server.requests[0].headers["cookie"] == "session=k-1"


def keyed(where: Where, name: str, schema: dict[str, Any], **more: Any) -> Operation:
    """An operation whose document declares the API key, and a parameter of the same name in another place."""
    other = "header" if where != "header" else "query"
    rows = [
        {"name": name, "in": where, "required": True, "schema": schema, **more},
        {"name": name, "in": other, "schema": {"type": "string"}},
    ]
    return operations_of({"openapi": "3.1.0", "paths": {"/things": {"get": {"parameters": rows}}}})[0][0]


def sent_keys(request: ApiRequest, where: Where) -> str:
    return {
        "query": request.target.partition("?")[2],
        "header": request.headers.get("x-api-key", ""),
        "cookie": request.headers.get("cookie", ""),
    }[where]


@pytest.mark.parametrize(
    ("where", "name", "sent"),
    [("query", "api_key", "api_key=SECRET"), ("header", "x-API-key", "SECRET"), ("cookie", "sid", "sid=SECRET")],
)
async def test_a_parameter_that_is_the_api_key_is_the_gateways_alone(where: Where, name: str, sent: str) -> None:
    one = keyed(where, name, {"type": "string"})
    key = ApiKey("SECRET", where, name.title() if where == "header" else name)
    async with served_api(accepts, key) as (server, api):
        schema = api.schema_of(one)
        assert list(schema["properties"]) == [f"{name}_2"]
        assert schema["required"] == []
        assert (await called(api, one)).succeeded
        api.fixed = {name: "fixed"}
        assert (await called(api, one, QUICK, **{name: "zz"})).succeeded
        assert "zz" not in repr(api.shown_request(one, {name: "zz"}))
    assert [sent_keys(request, where) for request in server.requests] == [sent] * 2


async def test_a_parameter_with_the_name_of_the_api_key_in_another_place_is_an_argument() -> None:
    one = keyed("query", "api_key", {"type": "string"})
    async with served_api(accepts, ApiKey("SECRET", "cookie", "api_key")) as (server, api):
        assert api.schema_of(one) == one.schema
        assert (await called(api, one, api_key="zz")).succeeded
    assert server.targets == ["/things?api_key=zz"]


@all_rows("name", ["api key", "API_KEY", "api_key[]", "api.key", "api-key", "Api_Key[0]", "api key\0x", " api_key"])
@all_rows(("where", "style"), [("query", "form"), ("query", "deepObject"), ("cookie", "form")])
async def test_the_members_of_an_object_add_no_second_key(where: Where, style: str, name: str) -> None:
    deep = style == "deepObject"
    one = keyed(where, "api" if deep else "filter", {"type": "object"}, style=style, explode=True)
    member = {"key": "zz"} if deep else {name: "zz"}
    key = ApiKey("SECRET", where, "api[key]" if deep else "api key")
    async with served_api(accepts, key) as (server, api):
        outcome = await call(api, one, {one.parameters[0].argument: {**member, "a": 1}}, QUICK)
    assert server.targets == []
    assert outcome.text.startswith("Nothing was sent: ")


@pytest.mark.parametrize(
    ("where", "key", "twin"),
    [("query", "api_key", "API-KEY"), ("query", "api_key", "api.key"), ("header", "X-API-Key", "x_api_key"),
     ("cookie", "sess", "SESS")],
)  # fmt: skip
async def test_a_parameter_that_servers_may_read_as_the_key_is_no_argument(where: Where, key: str, twin: str) -> None:
    one = keyed(where, twin, {"type": "string"})
    async with served_api(accepts, ApiKey("SECRET", where, key)) as (server, api):
        argument = one.parameters[0].argument
        assert argument not in api.schema_of(one)["properties"]
        assert (await call(api, one, {argument: "zz"}, QUICK)).succeeded
    assert "zz" not in repr(server.requests[0])


def in_query(*rows: dict[str, Any]) -> Operation:
    """An operation with parameters in the query."""
    parameters = [{"in": "query", "schema": {"type": "string"}, **row} for row in rows]
    return operations_of({"openapi": "3.1.0", "paths": {"/things": {"get": {"parameters": parameters}}}})[0][0]


@pytest.mark.parametrize("name", ["$filter", "filter[org]"])
async def test_a_fixed_argument_has_the_name_in_the_document_too(name: str) -> None:
    one = in_query({"name": name, "required": True}, {"name": "q"})
    async with served_api(accepts, fixed={name: "org eq 5"}) as (server, api):
        assert api.schema_of(one)["properties"].keys() == {"q"}
        assert (await called(api, one, q="a")).succeeded
    assert parse_qs(server.targets[0].partition("?")[2]) == {name: ["org eq 5"], "q": ["a"]}


def test_the_name_in_the_document_comes_before_the_name_for_the_model() -> None:
    one = in_query({"name": "$filter"}, {"name": "filter"})
    api = Api("things", "https://x.example", fixed={"filter": "5"})
    assert api.schema_of(one)["properties"].keys() == {"filter"}, "$filter"
    assert api.request(one, {"filter": "a"}).url == "https://x.example/things?%24filter=a&filter=5"


@pytest.mark.parametrize(
    "member",
    ["my_tenant", "My_Tenant", "my_tenant[]", "my.tenant", "my tenant", "my[tenant", "my_tenant[0]", "version"],
)
async def test_the_members_of_an_object_add_no_second_value_of_another_parameter(member: str) -> None:
    one = in_query({"name": "my_tenant"}, {"name": "more", "schema": {"type": "object"}})
    async with served_api(accepts, fixed={"my_tenant": "5"}) as (server, api):
        api.base_url += "?version=2"
        outcome = await called(api, one, more={member: "9"})
        assert (await called(api, one, more={"a": "9"})).succeeded
    assert outcome.text == f"Nothing was sent: more must not have the member {member}, which is another parameter."
    assert server.targets == ["/things?version=2&my_tenant=5&a=9"]


async def test_a_parameter_in_the_query_of_the_address_is_no_argument() -> None:
    one = in_query({"name": "api-version", "required": True}, {"name": "q"})
    async with served_api(accepts) as (server, api):
        api.base_url += "?api-version=2023-01-01"
        schema = api.schema_of(one)
        assert schema["properties"].keys() == {"q"}
        assert schema["required"] == []
        assert (await called(api, one, q="a")).succeeded
    assert server.targets == ["/things?api-version=2023-01-01&q=a"]


async def test_a_redirect_with_the_key_in_the_query_adds_no_second_key() -> None:
    async def redirects(request: ApiRequest) -> Reply:
        location = request.target.replace("/things", "/next")
        return OK if location == request.target else Reply(307, b"", [("Location", location)])

    async with served_api(redirects, ApiKey("SECRET", "query", "key")) as (server, api):
        assert (await called(api, operation("GET", "/things", "q"), q="a&b")).succeeded
    assert server.targets == ["/things?q=a%26b&key=SECRET", "/next?q=a%26b&key=SECRET"]


async def test_basic_and_bearer_credentials_are_sent() -> None:
    for auth, expected in (
        (httpx.BasicAuth("ann", "pä:ss"), "Basic " + base64.b64encode("ann:pä:ss".encode()).decode()),
        (bearer("t-1"), "Bearer t-1"),
    ):
        async with served_api(accepts, auth) as (server, api):
            await called(api)
        assert server.requests[0].headers["authorization"] == expected


# --- digest ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256"])
async def test_digest_answers_one_challenge_and_uses_the_nonce_again(algorithm: str, session: bool) -> None:
    gate = DigestGate(USER, PASSWORD, algorithm, session=session)
    async with served_api(gate, Digest(USER, PASSWORD)) as (server, api):
        for _ in range(3):
            assert (await called(api, operation("GET", "/a", "q"), q="x/y")).text == "in"
    assert list(gate.counts.values()) == [[1, 2, 3]]
    assert len(server.requests) == 4
    assert server.connections == 1


async def test_digest_takes_the_new_nonce_when_the_old_nonce_is_stale() -> None:
    gate = DigestGate(USER, PASSWORD, uses=2)
    async with served_api(gate, Digest(USER, PASSWORD)) as (server, api):
        for _ in range(5):
            assert (await called(api)).text == "in"
    assert list(gate.counts.values()) == [[1, 2], [1, 2], [1]]
    assert len(server.requests) == 5 + 3


async def test_digest_reports_a_wrong_password_after_one_answer() -> None:
    async with served_api(DigestGate(USER, PASSWORD), Digest(USER, "other"), secrets=["other"]) as (server, api):
        outcome = await called(api)
    assert outcome.status == 401
    assert outcome.text == "The API answered with status 401. who are you?"
    assert len(server.requests) == 2


async def test_digest_answers_the_challenge_that_the_gateway_knows() -> None:
    unknown = ('Basic realm="x, y", Digest realm="r", nonce="n", qop="auth", algorithm=SHA-999', "Negotiate")
    for others in (unknown, ('Digest realm="r", nonce="n", qop="auth-int"',), ('Digest realm="r"', "Digest", '="')):
        gate = DigestGate(USER, PASSWORD, other_challenges=others)
        async with served_api(gate, Digest(USER, PASSWORD)) as (_, api):
            assert (await called(api)).text == "in"


async def test_digest_hides_the_user_where_the_api_wants_the_hash_of_the_user() -> None:
    gate = DigestGate(USER, PASSWORD, hides_user=True)
    async with served_api(gate, Digest(USER, PASSWORD)) as (server, api):
        assert (await called(api)).text == "in"
    assert USER not in server.requests[1].headers["authorization"]


async def test_digest_with_an_unknown_algorithm_is_a_401() -> None:
    async def refuses(_: ApiRequest) -> Reply:
        return Reply(401, b"", [("WWW-Authenticate", 'Digest realm="r", nonce="n", algorithm=SHA-999')])

    async with served_api(refuses, Digest(USER, PASSWORD)) as (server, api):
        assert (await called(api)).status == 401
    assert len(server.requests) == 1


async def test_concurrent_digest_calls_with_one_nonce_never_repeat_a_count() -> None:
    gate = DigestGate(USER, PASSWORD, one_nonce="shared", any_order=True)
    async with served_api(gate, Digest(USER, PASSWORD)) as (_, api):
        outcomes = await asyncio.gather(*(called(api) for _ in range(10)))
    assert [one.text for one in outcomes] == ["in"] * 10
    assert len(gate.counts["shared"]) == len(set(gate.counts["shared"])) == 10


def test_the_server_of_these_tests_expects_the_response_of_the_rfcs_example() -> None:
    row = {
        "username": "Mufasa",
        "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        "nc": "00000001",
        "cnonce": "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
        "qop": "auth",
    }
    for algorithm, response in (
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ):
        gate = DigestGate("Mufasa", "Circle of Life", algorithm, realm="http-auth@example.org")
        request = ApiRequest("GET", "/dir/index.html", {}, b"", 1)
        assert gate.expected(request, {**row, "algorithm": algorithm}) == response


# --- OAuth 2.0 client credentials ------------------------------------------------------------------------------------


class TokenServer:
    """An API with a token endpoint: /token gives token-1, token-2 …; another path wants a token that is still good."""

    def __init__(self, *, expires_in: object = 3600) -> None:
        self.given: list[str] = []
        self.expires_in = expires_in
        self.refused: set[str] = set()
        self.grants: list[dict[str, list[str]]] = []

    async def __call__(self, request: ApiRequest) -> Reply:
        if request.target == "/token":
            pair = base64.b64encode(b"id%2F1:s%3Acret+1").decode()
            assert (request.method, request.headers["authorization"]) == ("POST", f"Basic {pair}")
            self.grants.append(parse_qs(request.body.decode()))
            self.given.append(f"token-{len(self.given) + 1}")
            return Reply(body=orjson.dumps({"access_token": self.given[-1], "expires_in": self.expires_in}))
        token = request.headers["authorization"].removeprefix("Bearer ")
        return Reply(200 if token in self.given and token not in self.refused else 401, b"in")


@pytest.fixture
def token_server() -> TokenServer:
    return TokenServer()


def client_credentials(token_url: str, scope: str = "") -> ClientCredentials:
    return ClientCredentials(token_url, "id/1", "s:cret 1", scope)


async def test_a_token_is_fetched_once_for_twenty_calls_at_a_time(token_server: TokenServer) -> None:
    async with served_api(token_server) as (server, api):
        api.auth = client_credentials(f"{server.base_url}/token", "read all")
        outcomes = await asyncio.gather(*(called(api) for _ in range(20)))
        assert all(one.succeeded for one in outcomes)
        await called(api)
    assert token_server.grants == [{"grant_type": ["client_credentials"], "scope": ["read all"]}]


@pytest.mark.parametrize("at_a_time", [20, 50])  # the pool has 20 connections
async def test_a_refused_token_is_fetched_again_once_for_many_calls(token_server: TokenServer, at_a_time: int) -> None:
    limits = CallLimits(seconds=5, pause_s=0)
    async with served_api(token_server) as (server, api):
        api.auth = client_credentials(f"{server.base_url}/token")
        await called(api)
        token_server.refused.add("token-1")
        outcomes = await asyncio.gather(*(called(api, limits=limits) for _ in range(at_a_time)))
    assert all(one.succeeded for one in outcomes)
    assert len(token_server.given) == 2


async def test_a_second_401_is_the_outcome(token_server: TokenServer) -> None:
    token_server.refused |= {"token-1", "token-2", "token-3"}
    async with served_api(token_server) as (server, api):
        api.auth = client_credentials(f"{server.base_url}/token")
        assert (await called(api)).status == 401
    assert len(token_server.given) == 2


@pytest.mark.parametrize(("expires_in", "good_s"), [(3600, 3569.0), (20, 9.0), (None, 269.0), ("3600", 3569.0)])
async def test_a_token_is_renewed_before_the_end(expires_in: object, good_s: float) -> None:
    tokens, seconds = TokenServer(expires_in=expires_in), [0.0]
    async with served_api(tokens) as (server, api):
        token_url = f"{server.base_url}/token"
        api.auth = ClientCredentials(token_url, "id/1", "s:cret 1", clock=lambda: seconds[0])
        for now_s, fetched in ((0.0, 1), (good_s, 1), (good_s + 2, 2)):
            seconds[0] = now_s
            assert (await called(api)).succeeded
            assert len(tokens.given) == fetched


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, b"s:cret 1"),
        Reply(200, b"<html>"),
        Reply(200, b"[]"),
        Reply(200, b'{"access_token": null}'),
        Reply(200, b'{"access_token": 5}'),
        Reply(200, b'{"access_token": "x", "expires_in": "soon"}'),
        Reply(302, b"", [("Location", "http://example.com/")]),
        Reply(400, b'{"error": "invalid_client"}'),
    ],
)
async def test_a_token_endpoint_without_a_token_gives_a_plain_sentence(reply: Reply) -> None:
    async def broken(_: ApiRequest) -> Reply:
        return reply

    async with served_api(broken) as (server, api):
        api.auth = client_credentials(f"{server.base_url}/token")
        outcome = await called(api)
        again = await called(api)
    expected = f"The call failed: the token endpoint answered with status {reply.status} and no token."
    assert outcome.text == again.text == expected
    assert server.targets == ["/token"] * 2


async def test_a_token_comes_with_any_status_of_success(token_server: TokenServer) -> None:
    """Some token endpoints make a token as a thing: 201."""

    async def created(request: ApiRequest) -> Reply:
        reply = await token_server(request)
        return replace(reply, status=201) if request.target == "/token" else reply

    async with served_api(created) as (server, api):
        api.auth = client_credentials(f"{server.base_url}/token")
        assert (await called(api)).succeeded


async def test_a_refusal_of_the_token_endpoint_counts_for_all_waiting_calls() -> None:
    async def refuses(_: ApiRequest) -> Reply:
        await asyncio.sleep(0.2)
        return Reply(400, b'{"error": "invalid_client"}')

    async with served_api(refuses) as (server, api):
        api.auth = client_credentials(f"{server.base_url}/token")
        outcomes = await asyncio.gather(*(called(api) for _ in range(10)))
        assert {one.text for one in outcomes} == {
            "The call failed: the token endpoint answered with status 400 and no token."
        }
        assert server.targets == ["/token"]
        await called(api)
    assert server.targets == ["/token"] * 2, "a later call asks again"


async def test_a_call_that_ends_while_the_token_is_fetched_blocks_no_other_call(token_server: TokenServer) -> None:
    held: list[ApiRequest] = []

    async def holds_first(request: ApiRequest) -> Reply:
        if not held:
            held.append(request)
            return Reply(hold=True)
        return await token_server(request)

    async with served_api(holds_first) as (server, api):
        api.auth = client_credentials(f"{server.base_url}/token")
        leaving = asyncio.create_task(called(api))
        await server.arrived.wait()
        leaving.cancel()
        await asyncio.wait({leaving})
        assert (await called(api)).succeeded


# --- redirects -------------------------------------------------------------------------------------------------------


async def test_credentials_stay_away_from_another_origin() -> None:
    async with api_server(accepts) as other:

        async def redirects(_: ApiRequest) -> Reply:
            return Reply(302, b"", [("Location", f"{other.base_url}/next")])

        async with served_api(redirects, bearer("t-1")) as (_, api):
            outcome = await called(api)
    assert outcome.text == "The API answered with status 302. The API redirects to another server, which is not called."
    assert other.requests == []


async def test_credentials_go_with_a_redirect_within_the_origin() -> None:
    async def redirects(request: ApiRequest) -> Reply:
        return OK if request.target == "/next?x=1" else Reply(307, b"", [("Location", "/next?x=1")])

    async with served_api(redirects, bearer("t-1")) as (server, api):
        assert (await called(api)).succeeded
    assert [one.headers["authorization"] for one in server.requests] == ["Bearer t-1"] * 2
