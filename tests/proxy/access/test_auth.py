"""The open gateway answers programs on this machine, and no web page."""

import json

import pytest

from proxy.access.auth import Guard, is_loopback, must_be_no_page
from proxy.asgi import Message, Receive, Scope, Send
from proxy.caller import EVERYTHING, NOTHING
from proxy.dialects.errors import ApiError
from proxy.exchange import EXCHANGE, Exchange
from tests.support.rings import key_hash_of, ring
from tests.support.rows import all_rows

PATH = "/v1/chat/completions"
JSON = "application/json"


class Inside:
    """What the guard protects: notes whether it was reached."""

    def __init__(self) -> None:
        self.reached = False

    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        self.reached = True


async def _receive() -> Message:
    raise AssertionError("the guard looks at the head of a request only")


async def _send(_message: Message) -> None:
    raise AssertionError("the guard raises, it does not answer")


async def passes(
    *headers: tuple[str, str],
    method: str = "POST",
    path: str = PATH,
    open: bool = False,
    origins: tuple[str, ...] = (),
) -> bool:
    """Whether the request gets in, to what acts on its body. Raises the ApiError that it is refused with."""
    inside = Inside()

    async def acting(scope: Scope, receive: Receive, send: Send) -> None:
        must_be_no_page(scope)
        await inside(scope, receive, send)

    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }
    guard = Guard(acting, keyring=ring(), open=open, origins=origins)
    scope[EXCHANGE] = exchange = Exchange()
    await guard(scope, _receive, _send)
    assert exchange.rights == (NOTHING if path in ("/healthz", "/readyz") else EVERYTHING)
    return inside.reached


async def refusal(*headers: tuple[str, str], open: bool = False, origins: tuple[str, ...] = ()) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await passes(*headers, open=open, origins=origins)
    assert json.loads(caught.value.body())["error"]["message"]
    return caught.value


HERE = ("host", "localhost:8000")
AS_JSON = ("content-type", JSON)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "LocalHost:8000",
        "127.0.0.1",
        "127.0.0.1:8000",
        "127.0.0.2:80",
        "127.255.255.255",
        "[::1]",
        "[::1]:8000",
        "[0:0:0:0:0:0:0:1]:8000",
    ],
)
async def test_this_machine_gets_in(host: str) -> None:
    assert await passes(("host", host), AS_JSON)


@all_rows(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8000",
        "localhost@evil.example",
        "192.168.1.5:8000",
        "0.0.0.0:8000",
        "128.0.0.1",
        "[::]:8000",
        "[fe80::1]",
        "[2001:db8::1]:8000",
        "localhost evil",
        "\xff",
        ":8000",
        "[]:8000",
        "2130706433",
    ],
)
async def test_a_host_that_is_not_this_machine_is_refused(host: str) -> None:
    error = await refusal(("host", host), AS_JSON)
    assert (error.status, error.code) == (403, "host_not_allowed")


async def test_a_request_without_a_host_is_refused() -> None:
    assert (await refusal(AS_JSON)).code == "host_not_allowed"


async def test_behind_something_that_guards_it_any_host_will_do() -> None:
    assert await passes(("host", "rag.example.com"), AS_JSON, open=True)
    assert await passes(AS_JSON, open=True)


@all_rows(
    "origin",
    [
        "https://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "null",
        "file://",
        "http://localhost:8000.evil.example",
        "https://chat.example.com.evil.example",
        "http://chat.example.com",
        "https://chat.example.com/",
        "localhost:8000",
    ],
)
@all_rows("open", [False, True])
async def test_a_foreign_origin_is_refused(origin: str, open: bool) -> None:
    error = await refusal(HERE, AS_JSON, ("origin", origin), open=open, origins=("https://chat.example.com",))
    assert (error.status, error.code) == (403, "origin_not_allowed")


async def test_an_origin_that_is_listed_gets_in() -> None:
    assert await passes(HERE, AS_JSON, ("origin", "https://chat.example.com"), origins=("https://chat.example.com",))


async def test_the_gateways_own_origin_gets_in() -> None:
    assert await passes(HERE, AS_JSON, ("origin", "http://localhost:8000"))


async def test_an_own_origin_by_another_name_does_not_help() -> None:
    """DNS rebinding: the page's origin and the Host agree, and both are the attacker's."""
    error = await refusal(("host", "evil.example:8000"), AS_JSON, ("origin", "http://evil.example:8000"))
    assert error.code == "host_not_allowed"


async def test_nor_does_it_where_any_host_will_do() -> None:
    """The port of an open gateway in a container is published on loopback: a rebound page reaches it all the same."""
    rebound = (("host", "evil.example:8000"), AS_JSON, ("origin", "http://evil.example:8000"))
    assert (await refusal(*rebound, open=True)).code == "origin_not_allowed"
    assert await passes(HERE, AS_JSON, ("origin", "http://localhost:8000"), open=True)


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
async def test_a_foreign_origin_is_refused_whatever_the_method(method: str) -> None:
    with pytest.raises(ApiError, match="web origin"):
        await passes(HERE, ("origin", "https://evil.example"), method=method)


@pytest.mark.parametrize(
    "content_type", [JSON, "application/json; charset=utf-8", "Application/JSON", " application/json ;x"]
)
async def test_json_by_any_spelling_gets_in(content_type: str) -> None:
    assert await passes(HERE, ("content-type", content_type))


@all_rows("method", ["POST", "PUT", "PATCH"])
@all_rows(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain;application/json",
        "application/jsonx",
        "application/json, text/plain",
    ],
)
async def test_what_a_form_can_send_is_refused(method: str, content_type: str) -> None:
    with pytest.raises(ApiError, match="application/json") as caught:
        await passes(HERE, ("content-type", content_type), method=method)
    assert (caught.value.status, caught.value.code) == (415, "unsupported_content_type")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_program_need_not_name_the_type(method: str) -> None:
    assert await passes(HERE, ("user-agent", "Go-http-client/1.1"), method=method)


@pytest.mark.parametrize(
    "sign",
    [
        ("origin", "http://localhost:8000"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "none"),
        ("sec-fetch-dest", "empty"),
    ],
)
@pytest.mark.parametrize("open", [False, True])
async def test_a_page_has_to_name_the_type(sign: tuple[str, str], open: bool) -> None:
    """A page sends no type with `fetch(url, {method: "POST", mode: "no-cors", body: new Blob([text])})`."""
    assert (await refusal(HERE, sign, open=open)).status == 415
    assert await passes(HERE, AS_JSON, sign, open=open)


async def test_a_body_without_a_type_from_nodes_fetch_gets_in() -> None:
    """The openai SDK for Node cancels a response this way; Node names the mode of each request."""
    assert await passes(HERE, ("sec-fetch-mode", "cors"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
async def test_a_request_without_a_body_needs_no_type(method: str) -> None:
    assert await passes(HERE, method=method)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_get_in_from_anywhere(path: str) -> None:
    assert await passes(("host", "10.0.0.7:8000"), method="GET", path=path)


@pytest.mark.parametrize("path", ["/healthz/", "/Healthz", "/v1/models", "/"])
async def test_other_paths_do_not(path: str) -> None:
    with pytest.raises(ApiError, match="not this machine"):
        await passes(("host", "10.0.0.7:8000"), method="GET", path=path)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("", False)],
)
def test_knows_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


async def test_no_header_with_a_key_of_the_gateway_passes() -> None:
    own, kept = b"sk-rag-0123", (b"x-api-key", b"sk-ant-1")
    headers = [(b"authorization", b"Bearer " + own), (b"x-api-key", own), (b"api-key", own), (b"openai-key", own), kept]
    scope: Scope = {"type": "http", "method": "GET", "path": PATH, "headers": headers, EXCHANGE: Exchange()}
    await Guard(Inside(), keyring=ring(key_hash_of(own.decode(), EVERYTHING)), open=False, origins=())(
        scope, _receive, _send
    )
    assert scope["headers"] == [kept]
