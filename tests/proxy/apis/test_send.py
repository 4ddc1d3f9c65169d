"""Requests that change something: sent once, byte for byte, and "unknown" if the answer is lost."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import httpx
import pytest

from proxy.apis.call import Api, CallLimits, CallResult, send
from proxy.apis.credentials import ApiKey, ClientCredentials, Digest
from proxy.apis.openapi.operation import Body, CallPolicy, Encoding, Operation, Parameter
from proxy.apis.request import ApiRequest as Given
from tests.proxy.apis.calling import OK, QUICK, accepts, bearer, replies, served_api
from tests.support.api_server import ApiRequest, ApiServer, Reply
from tests.support.digest_gate import DigestGate

JSON = '{"name": "Ünï", "n": 1}'.encode()


def given(api: Api, method: str = "POST", body: bytes = JSON, media_type: str = "application/json") -> Given:
    headers = (("x-tenant", "t-1"), *([("content-type", media_type)] if body else []))
    return Given(method, f"{api.base_url}/orders/a%2Fb?x=1%20", headers, body)


async def sent(api: Api, one: Given, limits: CallLimits = QUICK) -> CallResult:
    return await send(api, one, limits)


def writes(server: ApiServer) -> Sequence[ApiRequest]:
    """The requests that a server got with a body."""
    return [one for one in server.requests if one.body]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_request_goes_out_byte_for_byte(method: str) -> None:
    async with served_api(accepts, bearer("S")) as (server, api):
        outcome = await sent(api, given(api, method))
    (one,) = server.requests
    assert (one.method, one.target, one.body) == (method, "/orders/a%2Fb?x=1%20", JSON)
    assert (one.headers["x-tenant"], one.headers["authorization"]) == ("t-1", "Bearer S")
    assert (outcome.word, outcome.status, outcome.sent, outcome.tries) == ("ok", 200, True, 1)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (Body("b", "application/x-www-form-urlencoded"), {"a": "x y", "b": [1, 2]}),
        (
            Body("b", "multipart/form-data", binary=("f",), encodings={"f": Encoding("text/csv")}),
            {"f": "YSxi", "t": "u"},
        ),
        (Body("b", "application/octet-stream", base64=True), "AAH/"),
        (Body("b", "application/vnd.atlas.2023-02-01+json"), {"name": "test-7"}),
        (Body("b", "text/plain"), "Grüße"),
    ],
    ids=["form", "multipart", "octets", "vendor", "text"],
)
async def test_each_kind_of_body_arrives_as_it_was_built(body: Body, value: object) -> None:
    schema = {"type": "object", "properties": {"b": {}}, "required": []}
    one = Operation(name="put", method="PUT", path="/things", schema=schema, body=body)
    async with served_api(accepts) as (server, api):
        request = api.request(one, {"b": value})
        await sent(api, request)
    (got,) = server.requests
    assert got.body == request.body
    assert got.headers["content-type"] == dict(request.headers)["content-type"]


@pytest.mark.parametrize("status", [400, 401, 403, 409, 429, 500, 503])
async def test_a_refusal_is_the_outcome_of_the_only_try(status: int) -> None:
    async with served_api(replies(Reply(status, b"no"), OK)) as (server, api):
        outcome = await sent(api, given(api))
    assert len(server.requests) == 1
    assert (outcome.word, outcome.status, outcome.unsure) == ("api_error", status, status >= 500)
    assert ("does not prove that nothing was done" in outcome.text) == (status >= 500)


@pytest.mark.parametrize("status", [301, 302, 502, 504])
async def test_a_status_that_says_nothing_about_the_effect_is_unknown(status: int) -> None:
    elsewhere = [("Location", "/orders/7")] if status < 400 else []
    async with served_api(replies(Reply(status, headers=elsewhere), OK)) as (server, api):
        outcome = await sent(api, given(api))
    assert len(server.requests) == 1, "no redirect is followed"
    assert (outcome.word, outcome.status, outcome.unsure) == ("unknown", status, True)
    assert "is not known" in outcome.text


@pytest.mark.parametrize(("status", "word"), [(303, "ok"), (307, "api_error"), (308, "api_error")])
async def test_another_redirect_says_whether_the_request_took_effect(status: int, word: str) -> None:
    async with served_api(replies(Reply(status, headers=[("Location", "/orders/7")]), OK)) as (server, api):
        outcome = await sent(api, given(api))
    assert (len(server.requests), outcome.word) == (1, word)


@pytest.mark.parametrize(
    "reply",
    [Reply(raw=b""), Reply(raw=b"HTTP/1.1 20"), Reply(raw=b"nonsense\r\n\r\n"), Reply(hold=True)],
    ids=["closed", "cut", "garbage", "silence"],
)
async def test_a_lost_answer_is_unknown_and_nothing_is_sent_again(reply: Reply) -> None:
    async with served_api(replies(reply, OK)) as (server, api):
        outcome = await sent(api, given(api), replace(QUICK, seconds=0.5))
    assert len(server.requests) == 1
    assert (outcome.word, outcome.sent, outcome.status) == ("unknown", True, 0)


async def test_a_status_whose_body_is_lost_tells_the_outcome() -> None:
    raw = b"HTTP/1.1 201 X\r\nContent-Length: 9\r\n\r\n{"
    async with served_api(replies(Reply(raw=raw))) as (_, api):
        outcome = await sent(api, given(api))
    assert (outcome.word, outcome.status) == ("ok", 201)


async def test_a_server_that_is_gone_got_nothing() -> None:
    async with served_api(accepts) as (server, api):
        server.close()
        outcome = await sent(api, given(api))
    assert (outcome.word, outcome.sent) == ("failed", False)
    assert outcome.text.startswith("The call failed: no connection")


async def test_a_request_to_another_address_is_not_sent() -> None:
    async with served_api(accepts, bearer("S")) as (server, api):
        moved = replace(api, base_url="http://127.0.0.1:9")
        outcome = await sent(moved, given(api))
    assert (server.requests, outcome.sent, outcome.word) == ([], False, "failed")


async def test_no_request_takes_a_connection_that_was_used() -> None:
    """An API may close an idle connection at the moment of the request, and the request would be lost."""
    async with served_api(accepts) as (server, api):
        await sent(api, given(api))
        await sent(api, given(api))
    assert [one.connection for one in server.requests] == [1, 2]


@pytest.mark.parametrize(
    "auth",
    [
        None,
        bearer("S"),
        httpx.BasicAuth("u", "p"),
        ApiKey("k", "header", "X-Key"),
        ApiKey("k", "query", "key"),
        ApiKey("k", "cookie", "sid"),
    ],
    ids=["none", "bearer", "basic", "header", "query", "cookie"],
)
async def test_credentials_that_the_api_refuses_cost_one_request(auth: httpx.Auth | None) -> None:
    async with served_api(replies(Reply(401), OK), auth) as (server, api):
        outcome = await sent(api, given(api))
    assert (len(server.requests), outcome.word, outcome.status) == (1, "api_error", 401)


# --- digest ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uses", [1, 1000], ids=["one use", "many"])
@pytest.mark.parametrize("body", [JSON, b""], ids=["body", "empty"])
async def test_digest_sends_a_request_once_after_its_challenge(uses: int, body: bytes) -> None:
    gate = DigestGate("u", "p", uses=uses)
    async with served_api(gate, Digest("u", "p")) as (server, api):
        for _ in range(3):
            assert (await sent(api, given(api, "PUT", body))).word == "ok"
    assert [one.method for one in server.requests] == ["GET", "PUT"] * 3
    assert [one.body for one in server.requests] == [b"", body] * 3


async def test_digest_with_a_wrong_password_sends_the_body_once() -> None:
    async with served_api(DigestGate("u", "p"), Digest("u", "wrong")) as (server, api):
        outcome = await sent(api, given(api))
    assert (len(writes(server)), outcome.word, outcome.status) == (1, "api_error", 401)


async def test_digest_for_writes_alone_gets_its_challenge_from_the_refused_request() -> None:
    gate = DigestGate("u", "p")

    async def handler(request: ApiRequest) -> Reply:
        return OK if request.method == "GET" else await gate(request)

    async with served_api(handler, Digest("u", "p")) as (server, api):
        assert (await sent(api, given(api))).word == "ok"
        assert (await sent(api, given(api))).word == "ok"
    assert [one.method for one in server.requests] == ["GET", "POST", "POST", "GET", "POST"]


async def test_a_challenge_that_does_not_come_in_time_leaves_the_request_unsent() -> None:
    async def handler(request: ApiRequest) -> Reply:
        return Reply(hold=True)

    async with served_api(handler, Digest("u", "p")) as (server, api):
        outcome = await sent(api, given(api), replace(QUICK, seconds=0.3))
    assert (writes(server), outcome.word, outcome.sent) == ([], "timeout", False)


# --- tokens ----------------------------------------------------------------------------------------------------------


async def test_a_refused_token_is_fetched_for_the_next_request_alone() -> None:
    tokens = iter(["t-1", "t-2"])

    async def handler(request: ApiRequest) -> Reply:
        if request.target == "/token":
            return Reply(body=f'{{"access_token": "{next(tokens)}"}}'.encode())
        return OK if request.headers["authorization"] == "Bearer t-2" else Reply(401)

    async with served_api(handler) as (server, api):
        api.auth = ClientCredentials(f"{api.base_url}/token", "id", "s")
        assert (await sent(api, given(api))).status == 401
        assert (await sent(api, given(api))).word == "ok"
    assert [one.target.partition("?")[0] for one in server.requests] == ["/token", "/orders/a%2Fb"] * 2


async def test_a_token_endpoint_that_fails_leaves_the_request_unsent() -> None:
    async with served_api(replies(Reply(500))) as (server, api):
        api.auth = ClientCredentials(f"{api.base_url}/token", "id", "s")
        outcome = await sent(api, given(api))
    assert (outcome.word, outcome.sent) == ("failed", False)
    assert [one.target for one in server.requests] == ["/token"]


async def test_a_cancelled_request_is_over() -> None:
    async with served_api(replies(Reply(hold=True))) as (server, api):
        task = asyncio.create_task(sent(api, given(api)))
        await server.arrived.wait()
        task.cancel()
        await asyncio.wait({task})
        await server.left.wait()
    assert task.cancelled()


# --- idempotency -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "name"), [("", "Idempotency-Key"), ("X-Once", "X-Once")])
def test_no_model_gives_the_idempotency_key(setting: str, name: str) -> None:
    schema = {"type": "object", "properties": {"once": {"type": "string"}}, "required": ["once"]}
    header = Parameter(name, "once", "header", "simple", explode=False, required=True)
    one = Operation(name="pay", method="POST", path="/pay", schema=schema, parameters=(header,))
    api = Api("shop", "http://127.0.0.1", policy=CallPolicy("confirm", idempotency_header=setting))
    assert api.schema_of(one)["properties"] == {}
    assert api.schema_of(one)["required"] == []
    assert (api.request(one, {}).headers, api.idempotency_header(one)) == ((), name)


def test_the_same_form_has_the_same_bytes() -> None:
    schema = {"type": "object", "properties": {"b": {}}, "required": []}
    one = Operation(name="put", method="PUT", path="/x", schema=schema, body=Body("b", "multipart/form-data"))
    api = Api("shop", "http://127.0.0.1")
    assert api.request(one, {"b": {"a": "x"}}) == api.request(one, {"b": {"a": "x"}})
    assert api.request(one, {"b": {"a": "x"}}) != api.request(one, {"b": {"a": "y"}})
