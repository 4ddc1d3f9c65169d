"""Spellings of a path: the served path, and one path for all parts of the gateway."""

import json
from contextlib import suppress
from posixpath import normpath
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.api.passthrough import relayed_kind
from proxy.api.paths import canonical
from proxy.app import CanonicalPaths
from proxy.asgi import Receive, Scope, Send
from proxy.body import DEPLOYMENT, whole_body
from proxy.dialects.errors import ApiError, Headers
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.relay import url_of
from tests.support.asgi_calls import Call, scope_of
from tests.support.rows import all_rows

AS_JSON = (b"content-type", b"application/json")
OTHER_SPELLINGS = [
    ("/v1/chat/completions/", "/v1/chat/completions"),
    ("//chat/completions", "/v1/chat/completions"),
    ("/v1//chat//completions", "/v1/chat/completions"),
    ("/v1/v1/chat/completions", "/v1/chat/completions"),
    ("/chat/completions", "/v1/chat/completions"),
    ("/embeddings/", "/v1/embeddings"),
    ("/models", "/v1/models"),
    ("/models/org/name", "/v1/models/org/name"),
    ("/responses", "/v1/responses"),
    ("/v1/v1/responses/resp_1/input_items", "/v1/responses/resp_1/input_items"),
    ("/openai/v1/responses", "/v1/responses"),
    ("/openai/models", "/v1/models"),
    ("/v1/openai/v1/files/file-1//x/", "/v1/files/file-1//x/"),
]
DEPLOYMENTS = [
    ("/openai/deployments/gpt-4o/chat/completions", "/v1/chat/completions", "gpt-4o"),
    ("/openai/deployments/rag/docs/gpt-4o/chat/completions", "/v1/chat/completions", "rag/docs/gpt-4o"),
    ("/v1/openai/deployments/emb-3/embeddings/", "/v1/embeddings", "emb-3"),
    ("/v1/deployments/gpt-4o//completions", "/v1/completions", "gpt-4o"),
]
UNCHANGED = [
    "/", "/v1", "/v1/", "/mcp", "/mcp/", "/metrics", "/v1/models/a//b/", "/v1/knowledge/search/",
    "/v1//knowledge/search", "/knowledge/search", "/v1/v1/admin/keys", "/openai/v1/usage", "/v1/../chat/completions",
    "/v1/./chat/completions", "/v1/chat/../completions",
    "/api/v1/models", "/openai/deployments/x/files", "/openai/deployments//embeddings",
]  # fmt: skip


class Seen:
    """An app: keeps the scope."""

    def __init__(self) -> None:
        self.scope: Scope = {}

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        self.scope = scope


async def seen(raw: bytes, headers: Headers | None = None, query: bytes = b"") -> Scope:
    """The scope inside, for a request with this encoded path."""
    app = Seen()
    path = unquote(raw.decode("ascii"))
    await Call().to(CanonicalPaths(app), scope_of(path, raw_path=raw, headers=headers or [], query=query))
    return app.scope


@all_rows(("path", "served"), OTHER_SPELLINGS)
def test_another_spelling_is_the_served_path(path: str, served: str) -> None:
    assert canonical(path) == (served, "")


@pytest.mark.parametrize(("path", "served", "deployment"), DEPLOYMENTS)
def test_a_path_of_azures_form_names_the_model(path: str, served: str, deployment: str) -> None:
    assert canonical(path) == (served, deployment)


@all_rows("path", UNCHANGED)
def test_every_other_path_stays(path: str) -> None:
    assert canonical(path) == (path, "")


SEGMENTS = st.sampled_from(
    ["", "v1", "openai", "deployments", "chat", "completions", "models", "files", "knowledge", "admin", "mcp", "..",
     ".", "metrics", "a b", "a%2Fb", "é"]
)  # fmt: skip
PATHS = st.lists(SEGMENTS, max_size=9).map(lambda segments: "/" + "/".join(segments)) | st.text(max_size=60).map(
    lambda text: "/" + text
)


@given(PATHS)
def test_the_served_path_of_a_served_path_is_itself(path: str) -> None:
    served, _ = canonical(path)
    assert canonical(served) == (served, "")


@given(PATHS)
def test_a_changed_path_leads_to_no_other_part_of_the_gateway(path: str) -> None:
    served, deployment = canonical(path)
    if served != path:
        names = [name for name in path.split("/") if name]
        kept = [name for name in served.split("/")[2:] if name]
        assert names[-len(kept) :] == kept, "all other segments stay"
        assert kept[0] in ("chat", "completions", "embeddings", "responses", "messages", "models", "files")
        assert set(names[: -len(kept)]) <= {"v1", "openai"} or deployment


@given(PATHS, st.booleans())
async def test_the_encoded_path_says_the_same_as_the_path(path: str, all_encoded: bool) -> None:
    raw = quote(path, safe="" if all_encoded else "/").replace("%2F", "/", 1).encode("ascii")
    scope = await seen(raw)
    assert unquote(scope["raw_path"].decode("ascii")) == scope["path"] == canonical(path)[0]


@given(
    st.lists(
        st.sampled_from(
            ["v1", "audio", "batches", "files", "..", ".", "", "..%2fbatches", "%2e%2e", "x", "\\..\\", "é"]
        )
    )
)
async def test_what_is_asked_of_an_upstream_is_of_the_kind_that_was_checked(segments: list[str]) -> None:
    scope = await seen(("/" + quote("/".join(segments), safe="/%")).encode("ascii"))
    kind = relayed_kind(scope["path"])
    with suppress(ApiError):  # a path with dot segments is refused
        url = urlsplit(url_of("http://upstream/base", scope))
        assert kind is None or relayed_kind("/v1" + normpath(unquote(url.path)).removeprefix("/base")) == kind


async def test_the_clients_percent_encoding_stays() -> None:
    assert (await seen(b"/files/a%2Fb%20c"))["raw_path"] == b"/v1/files/a%2Fb%20c"
    assert (await seen(b"/f%69les/a%2Fb"))["raw_path"] == b"/v1/files/a/b", "one form for both readers"


@pytest.mark.parametrize("path", ["/openai/deployments/m/chat/completions", "/openai/v1/models", "/openai/models"])
async def test_a_client_of_azures_sends_its_key_and_version_in_azures_way(path: str) -> None:
    scope = await seen(path.encode(), [(b"api-key", b"sk-rag-1")], b"a=1&api-version=2024-10-21&b=%20")
    assert (b"authorization", b"Bearer sk-rag-1") in scope["headers"]
    assert scope["query_string"] == b"a=1&b=%20"


async def test_one_key_counts() -> None:
    path, bearer, key = b"/openai/models", (b"authorization", b"Bearer a"), (b"api-key", b"b")
    for headers in ([bearer, key], [key, key]):
        assert (await seen(path, headers))["headers"] == headers
    assert (await seen(b"/v1/models", [key], b"api-version=1"))["query_string"] == b"api-version=1"
    assert (await seen(b"/models", [key]))["headers"] == [key]


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b"{}", b'{"model":"m"}'),
        (b' { "n" : 1.0 }', b' {"model":"m", "n" : 1.0 }'),
        (b'{"a":[1],"model": "other" ,"b":2}', b'{"a":[1],"model": "m" ,"b":2}'),
        (b'{"model":null}', b'{"model":"m"}'),
        (b'{"model":{"a":"}"},"b":2}', b'{"model":"m","b":2}'),
        (b'{"m\\u006fdel":7}', b'{"m\\u006fdel":"m"}'),
        (b'{"b":2, "model":"m"}', b'{"b":2, "model":"m"}'),
    ],
)
async def test_the_deployment_is_the_model_of_the_body_and_all_other_bytes_stay(body: bytes, sent: bytes) -> None:
    scope = scope_of(headers=[AS_JSON])
    scope[DEPLOYMENT], scope[EXCHANGE] = "m", Exchange()
    found = await whole_body(scope, Call([body]).receive, max_bytes=1000)
    assert found == sent
    assert json.loads(found)["model"] == "m"


async def test_a_body_that_two_readers_could_read_differently_is_refused() -> None:
    scope = scope_of(headers=[AS_JSON])
    scope[DEPLOYMENT], scope[EXCHANGE] = "m", Exchange()
    for body, code in ((b'{"model":"a","model":"b"}', "duplicate_field"), (b'{"Model":"a"}', "ambiguous_field")):
        with pytest.raises(ApiError) as caught:
            await whole_body(scope, Call([body]).receive, max_bytes=1000)
        assert caught.value.code == code
