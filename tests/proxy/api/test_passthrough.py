"""Paths that are not augmented: whose model is checked, what is changed of the body, and where the request goes."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.api.passthrough import Passthrough, relayed_kind
from proxy.api.paths import ACCOUNT, MODEL_CALLS
from proxy.asgi import Receive, Scope, Send, send_json
from proxy.body import DEPLOYMENT, end_grant
from proxy.caller import EVERYTHING, UNLIMITED, Limits, Names, Rights
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import _READ
from proxy.dialects.replies import Tokens
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.routes import Routes
from tests.support.asgi_calls import Call, called, scope_of
from tests.support.rows import all_rows

AS_JSON = (b"content-type", b"application/json")
ROUTES = Routes({
    "mini": Target("mini-2024", "relay", "http://mini/v1", "key"),
    "big": Target("big", "relay", "http://big/v1", "key"),
    "claude": Target("anthropic/claude", "translated", "", "key"),
})  # fmt: skip
MINI_ONLY = Rights(models=Names(["mini"]))
BIG_ONLY = Rights(models=Names(["big"]))


@dataclass(slots=True)
class Upstream:
    """Notes the exchanges that reach it."""

    seen: list[Exchange] = field(default_factory=list)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.seen.append(scope[EXCHANGE])
        await send_json(send, 200, b"{}")


async def passed(
    body: bytes,
    path: str = "/v1/responses",
    *headers: tuple[bytes, bytes],
    rights: Rights = EVERYTHING,
    paths: Mapping[str, str] | None = None,
    method: str = "POST",
    query: bytes = b"",
    limits: Limits = UNLIMITED,
    routes: Routes = ROUTES,
    deployment: str | None = None,
) -> Exchange:
    """The exchange of a request as it reaches the upstream, where every path below /v1/responses goes to mini."""
    upstream = Upstream()
    listed = {"/v1/responses": "mini", "/v1/files": "mini"} if paths is None else paths
    app = Passthrough(upstream, routes=routes, paths=listed, max_body_bytes=2 * 10**6)
    exchange = Exchange(rights=rights, limits=limits)
    scope = scope_of(path, method=method, headers=headers or [AS_JSON], query=query, exchange=exchange)
    scope[DEPLOYMENT] = deployment
    call = Call([body])
    try:
        prepared = await app(scope, call.receive, call.send)
    finally:
        end_grant(exchange)  # as at the end of a reply
    assert called(prepared) is upstream
    return exchange


async def refused(
    body: bytes, *headers: tuple[bytes, bytes], rights: Rights = EVERYTHING, query: bytes = b""
) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        await passed(body, "/v1/responses", *headers, rights=rights, query=query)
    return caught.value.status, caught.value.code


def base_of(exchange: Exchange) -> str:
    assert exchange.target is not None
    return exchange.target.api_base


FORM = (b"content-type", b"multipart/form-data; boundary=b")
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\x00RIFF "model"\r\n'
NAMES = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n'
END = b"--b--\r\n"
BIG = b'{"model": "big", "input": "a"}'
CODES = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
TYPES: list[list[tuple[bytes, bytes]]] = [
    [AS_JSON], [], [(b"content-type", b"application/vnd.api+json; charset=utf-8")], [(b"content-type", b"text/plain")],
    [(b"content-type", b"")],
]  # fmt: skip


@all_rows("headers", TYPES)
@all_rows("name", ["big", "raw/big", "rag/docs/big", "none"])
@all_rows("below", ["", "/resp-1/input"])
async def test_a_key_for_the_listed_model_calls_no_other(
    headers: list[tuple[bytes, bytes]], name: str, below: str
) -> None:
    body = json.dumps({"input": "a", "model": name}).encode()
    upstream = Upstream()
    app = Passthrough(upstream, routes=ROUTES, paths={"/v1/responses": "mini"}, max_body_bytes=2 * 10**6)
    scope = scope_of("/v1/responses" + below, headers=headers, exchange=Exchange(rights=MINI_ONLY))
    with pytest.raises(ApiError) as caught:
        await Call([body]).to(app, scope)
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


async def test_the_bodys_model_decides_where_a_listed_path_goes() -> None:
    exchange = await passed(BIG)
    assert (base_of(exchange), exchange.model, exchange.body) == ("http://big/v1", "big", BIG)
    assert exchange.fields == {"model": "big", "input": "a"}, "the limits reserve by what is read once"
    assert (await passed(b'{"max_output_tokens": 5}')).fields == {"max_output_tokens": 5}
    assert (await passed(b"RIFF", "/v1/files", (b"content-type", b"audio/wav"))).fields == {}


@all_rows("path", ["/v1/embeddings", "/v1/completions"])
@all_rows("name", ["mini", "raw/mini", "rag/docs/mini"])
@all_rows("paths", [{}, {"/v1": "big"}])
async def test_an_alias_and_a_prefix_are_all_that_changes(path: str, name: str, paths: Mapping[str, str]) -> None:
    body = b'{ "n":1.50, "model" : "%b","odd\\u0041":[ {"model":"x"}] }' % name.encode()
    exchange = await passed(body, path, paths=paths)
    assert exchange.body == body.replace(b'"%b"' % name.encode(), b'"mini-2024"')
    assert (base_of(exchange), exchange.model) == ("http://mini/v1", "mini")
    assert (exchange.rag_status, exchange.rag_reason) == ("off", "path is not augmented")


@all_rows(
    ("body", "code"),
    [
        (b'{"model": "mini", "model": "big"}', "duplicate_field"),
        (b'{"model": "mini", "m\\u006fdel": "big"}', "duplicate_field"),
        (b'{"model": null, "model": "big"}', "duplicate_field"),
        (b'{"model": 7}', "missing_model"),
        (b'{"model": ""}', "missing_model"),
        (b'{"model": "raw/"}', "invalid_model_prefix"),
        (b'{"model": "mini"', "invalid_json"),
        (b' {"model": "mini", "x": [' + b"[]," * 101_000 + b"[]]}", "invalid_body"),  # more than is parsed
        (b'{"Model": "big", "model": "mini"}', "ambiguous_field"),
        (b'{"model": "mini", "n": NaN}', "invalid_json"),
        ('{"model": "big"}'.encode("utf-16"), "invalid_json"),
    ],
)
@all_rows("headers", [[AS_JSON], []])
async def test_a_body_that_two_readers_could_read_differently_is_refused(
    body: bytes, code: str, headers: list[tuple[bytes, bytes]]
) -> None:
    assert await refused(body, *headers) == (400, code)


@all_rows(
    "body",
    [
        BIG + b" x", BIG + BIG, BIG + b"\0", b'{"model": "big", "n": NaN}', b'{"model": "big", "n": "\xff"}',
        b"\n{\n" + BIG[1:] + b"\n{}", *(BIG.decode().encode(code) for code in CODES),
    ],
)  # fmt: skip
@all_rows("media", [b"text/plain", b"application/octet-stream", b"application/x-ndjson", b"audio/wav"])
async def test_an_object_that_some_readers_find_in_what_is_no_json_is_refused(body: bytes, media: bytes) -> None:
    assert await refused(body, (b"content-type", media), rights=MINI_ONLY) == (400, "invalid_json")


@pytest.mark.parametrize("name", [b"model", b"Model", b"mod%65l", b"+model", b"model[]", b"a=b&model", b"a;model"])
async def test_a_model_in_a_query_needs_its_right_and_stands_alone(name: bytes) -> None:
    assert await refused(b"", rights=MINI_ONLY, query=name + b"=big") == (404, "model_not_found")
    assert await refused(b'{"model": "mini"}', query=name + b"=big") == (400, "ambiguous_field")
    assert await refused(b"", query=name + b"=big&model=mini") == (400, "ambiguous_field")
    assert await refused(b"", query=name + b"=raw/big") == (400, "ambiguous_field"), "a query travels as it came"
    for body in (b"", b"v=0", BIG):
        exchange = await passed(body, "/v1/files", (b"content-type", b"application/sdp"), query=name + b"=big")
        assert (base_of(exchange), exchange.model, exchange.body) == ("http://big/v1", "big", body)


async def test_no_url_encoded_form_is_relayed() -> None:
    for body in (b"model=big&x=1", b'{"model": "mini", "x": "&model=big&"}'):
        url_encoded = (b"content-type", b"application/x-www-form-urlencoded; charset=utf-8")
        assert await refused(body, url_encoded) == (415, "unsupported_content_type")


@pytest.mark.parametrize("media", [b"multipart/mixed; boundary=b", b"Multipart/Related;boundary=b"])
async def test_a_form_by_another_name_is_read_as_one(media: bytes) -> None:
    assert await refused(NAMES % b"big" + END, (b"content-type", media), rights=MINI_ONLY) == (404, "model_not_found")
    two = (b"content-type", b"text/plain, " + media)
    assert await refused(NAMES % b"big" + END, two, rights=MINI_ONLY) == (400, "conflicting_header")


async def test_a_model_that_is_not_relayed_is_none_for_a_listed_path() -> None:
    assert await refused(b'{"model": "claude"}') == (404, "path_not_supported")


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"", b"application/json"),
        (b'{"input": {"model": "big"}}', b"application/json"),
        (b'{"model": null}', b"application/json"),
        (b'["model"]', b"application/json"),
        (b"[" + b"[]," * 101_000 + b"[]]", b"application/json"),
        (b"RIFF" + b"[" * 400_000, b"audio/wav"),
        (b'[{"model": "a"}]\n', b"application/x-ndjson"),
        (b"{\\rtf1 model}", b"application/rtf"),
        (b"\x00\xff{", b"application/octet-stream"),
        (FILE + END, FORM[1]),
        (FILE.replace(b"a.wav", b"x; name=model") + b"Content: model\r\n" + END, FORM[1]),
    ],
)
async def test_what_names_no_model_goes_as_it_came_to_the_listed_one(body: bytes, media: bytes) -> None:
    for method in ("POST", "PUT", "DELETE"):
        exchange = await passed(body, "/v1/files", (b"content-type", media), rights=MINI_ONLY, method=method)
        assert (base_of(exchange), exchange.model, exchange.body) == ("http://mini/v1", "mini", body)


@pytest.mark.parametrize(
    "names", [NAMES, NAMES.replace(b'"model"', b"model"), NAMES.lower(), NAMES.replace(b": ", b":")]
)
@pytest.mark.parametrize("big", [b"", b"x" * (1 << 20)])
async def test_a_form_goes_by_its_model_and_nothing_else_of_it_changes(names: bytes, big: bytes) -> None:
    for body in (FILE + big + b"\r\n" + names + END, names + FILE + big + b"\r\n" + END):
        for name, base, as_named in (
            ("mini", "mini", b"mini-2024"),
            ("raw/mini", "mini", b"mini-2024"),
            ("big", "big", b"big"),
        ):
            exchange = await passed(body % name.encode(), "/v1/files", FORM)
            assert (base_of(exchange), exchange.body) == (f"http://{base}/v1", body % as_named)
        for forbidden in (b"big", b"none", b"raw/big"):
            assert await refused(body % forbidden, FORM, rights=MINI_ONLY) == (404, "model_not_found")


@all_rows(
    ("body", "code"),
    [
        (NAMES % b"mini" + NAMES % b"big" + END, "duplicate_field"),
        (NAMES % b"mini" + FILE + NAMES % b"mini" + END, "duplicate_field"),
        (NAMES % b"" + END, "missing_model"),
        (NAMES % b"raw/" + END, "invalid_model_prefix"),
        (NAMES % b"raw/--b\r\nx" + END, "invalid_form"),
        (NAMES % b"\xff" + END, "invalid_form"),
        (NAMES % (b"m" * 1001) + END, "invalid_form"),
        *(
            ((NAMES % b"big").replace(b'"model"', b'"%b"' % name) + END, "ambiguous_field")
            for name in (
                b"Model",
                b"model[]",
                b"model ",
                b"mod%65l",
                b"mod\\el",
                "ｍodel".encode(),
                b"'model'",
                "mo\u00addel".encode(),
                b"model\0",
            )
        ),
        (NAMES.replace(b'"model"', b"'model'") % b"big" + END, "ambiguous_field"),
        (NAMES.replace(b'"model"', b'"=?utf-8?b?bW9kZWw=?="') % b"big" + END, "invalid_form"),
        (NAMES.replace(b'"model"', b"=?utf-8?q?model?=") % b"big" + END, "invalid_form"),
        (NAMES % b"mini" + END + NAMES % b"big" + END, "invalid_form"),
        (NAMES % b"mini" + END + NAMES.replace(b"\r\n", b"\n") % b"big", "invalid_form"),
        (
            NAMES % b"mini"
            + NAMES.replace(b'"model"', b'"x"\r\nContent-Type: multipart/mixed; boundary=c') % b""
            + END,
            "invalid_form",
        ),
        (NAMES % b"mini", "invalid_form"),
        (b"no form", "invalid_form"),
        (b'{"model": "big"}', "invalid_form"),
        (FILE * 1001 + END, "invalid_form"),
        (NAMES.replace(b'"model"', b'"model"; name="x"') % b"big" + END, "invalid_form"),
        (NAMES.replace(b'"model"', b"\"x\"; name*=utf-8''model") % b"big" + END, "invalid_form"),
        (NAMES.replace(b'name="model"', b"name*=utf-8''model") % b"big" + END, "invalid_form"),
        (NAMES.replace(b'form-data; name="model"', b"form-data") % b"big" + END, "invalid_form"),
        (
            NAMES.replace(b"\r\n\r\n", b"\r\nContent-Disposition: form-data; name=x\r\n\r\n") % b"big" + END,
            "invalid_form",
        ),
        (
            NAMES.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n") % b"=62ig" + END,
            "invalid_form",
        ),
    ],
)
async def test_a_form_that_two_readers_could_read_differently_is_refused(body: bytes, code: str) -> None:
    assert await refused(body, FORM) == (400, code)


@pytest.mark.parametrize(
    "media",
    [
        b"multipart/form-data",
        b"multipart/form-data; boundary=a; boundary=b",
        b"multipart/form-data; boundary=",
        b"multipart/form-data; boundary=b" + b";" * 1000,
    ],
)
async def test_so_is_one_whose_parts_nobody_can_tell(media: bytes) -> None:
    assert await refused(NAMES % b"big" + END, (b"content-type", media)) == (400, "invalid_form")


async def test_two_types_are_refused() -> None:
    assert await refused(BIG, FORM, AS_JSON) == (400, "conflicting_header")


@given(
    st.lists(
        st.tuples(st.sampled_from(["model", "file", "Model", "prompt"]), st.sampled_from(["mini", "big", "", "x"]))
    )
)
async def test_the_upstream_reads_of_a_form_what_was_checked(parts: list[tuple[str, str]]) -> None:
    request = httpx.Request("POST", "http://a", files=[(name, (None, value)) for name, value in parts] or None)
    body = request.read()
    if not body:
        return
    names = [value for name, value in parts if name == "model"]
    sent = passed(body, "/v1/files", (b"content-type", request.headers["content-type"].encode()))
    if any(name == "Model" for name, _ in parts):
        with pytest.raises(ApiError):
            await sent
    elif not names:
        assert (await sent).body == body
    elif len(names) > 1 or not names[0] or names[0] == "x":
        with pytest.raises(ApiError):
            await sent
    else:
        exchange = await sent
        assert exchange.target is not None
        assert exchange.target.model == {"mini": "mini-2024", "big": "big"}[names[0]]
        head = b'name="model"\r\n\r\n'
        assert exchange.body == body.replace(head + names[0].encode(), head + exchange.target.model.encode())


STORED = [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]


@pytest.mark.parametrize(("method", "below"), STORED)
async def test_a_stored_response_goes_to_the_model_of_the_query_and_counts_no_tokens(method: str, below: str) -> None:
    path = "/v1/responses/resp_1" + below
    exchange = await passed(b"", path, method=method, paths={}, query=b"model=big&limit=2", rights=BIG_ONLY)
    assert (base_of(exchange), exchange.model, exchange.body) == ("http://big/v1", "big", b"")
    assert exchange.tokens == Tokens(0, 0)
    for query, rights in (
        (b"model=big", MINI_ONLY),
        (b"", EVERYTHING),
    ):  # no right to the model; no row for every model
        with pytest.raises(ApiError) as caught:
            await passed(b"", path, method=method, paths={}, query=query, rights=rights)
        assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    assert "?model=NAME" in caught.value.message


@pytest.mark.parametrize(("method", "below"), STORED)
async def test_without_a_query_a_stored_response_goes_to_the_row_for_every_model(method: str, below: str) -> None:
    routes = Routes(
        {"*": Target("", "relay", "http://any/v1", "key"), "big": Target("big", "relay", "http://big/v1", "")}
    )
    app = Passthrough(upstream := Upstream(), routes=routes, paths={}, max_body_bytes=1000)
    scope = scope_of(
        "/v1/responses/resp_1" + below, method=method, headers=[AS_JSON], exchange=Exchange(rights=EVERYTHING)
    )
    call = Call([b""])
    assert called(await app(scope, call.receive, call.send)) is upstream
    assert base_of(scope[EXCHANGE]) == "http://any/v1"
    scope[EXCHANGE] = Exchange(rights=BIG_ONLY)
    with pytest.raises(ApiError, match="add the model") as caught:
        await Call([b""]).to(app, scope)
    assert (caught.value.status, caught.value.code) == (403, "forbidden")


@pytest.mark.parametrize(
    ("method", "below"), [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]
)
async def test_a_response_of_the_gateway_itself_is_not_stored(method: str, below: str) -> None:
    path = "/v1/responses/resp_ragway_1" + below
    with pytest.raises(ApiError, match="send the whole conversation") as caught:
        await passed(b"", path, method=method, paths={}, query=b"model=big")
    assert (caught.value.status, caught.value.code) == (404, "response_not_stored")


@pytest.mark.parametrize(("method", "below"), [("POST", ""), ("GET", "/cancel"), ("DELETE", "/input_items")])
async def test_another_method_on_a_stored_response_is_a_405(method: str, below: str) -> None:
    with pytest.raises(ApiError) as caught:
        await passed(b"", "/v1/responses/resp_1" + below, method=method, paths={}, query=b"model=big")
    assert caught.value.status == 405


async def test_a_model_of_the_bodys_own_takes_no_right_to_the_listed_one() -> None:
    big_only = Rights(models=Names(["big"]))
    assert base_of(await passed(BIG, rights=big_only)) == "http://big/v1"
    for body in (b"", b'{"input": "a"}'):
        assert await refused(body, rights=big_only) == (404, "model_not_found")


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("big"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("model"), inner),
    max_leaves=8,
)


def _another(key: str) -> bool:
    """Whether no reader takes it for ours, or for another spelling of a member that is read here."""
    folded = unicodedata.normalize("NFKC", key).casefold().strip()
    return folded not in ("model", "messages", "rag") and (key == folded or folded not in _READ)


@given(
    before=st.dictionaries(st.text(max_size=8), _VALUES, max_size=3),
    after=st.dictionaries(st.text(max_size=8), _VALUES, max_size=3),
    name=st.sampled_from(["mini", "big", "raw/mini"]),
    ascii_only=st.booleans(),
)
async def test_whatever_else_is_in_the_body_the_upstream_reads_the_model_that_was_checked(
    before: dict[str, Any], after: dict[str, Any], name: str, ascii_only: bool
) -> None:
    kept = {key: value for key, value in (before | after).items() if _another(key)}
    fields = {**kept, "model": name} if ascii_only else {"model": name, **kept}
    body = json.dumps(fields, ensure_ascii=ascii_only).encode()
    exchange = await passed(body)
    assert exchange.target is not None
    assert exchange.body is not None
    assert json.loads(exchange.body) == {**kept, "model": exchange.target.model}
    assert exchange.target.model == {"mini": "mini-2024", "raw/mini": "mini-2024", "big": "big"}[name]


# The paths that are relayed without a row in `upstream.paths`

ONE_UPSTREAM = Routes({
    "mini": Target("mini-2024", "relay", "http://one/v1", "key"),
    "big": Target("big", "relay", "http://one/v1", "key"),
    "echo": Target("", "echo", "", ""),
})  # fmt: skip
CALLS = [
    "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/generations",
    "/v1/images/edits", "/v1/images/variations", "/v1/moderations", "/v1/rerank", "/v1/responses/input_tokens",
]  # fmt: skip
WORK = [
    ("POST", "/v1/batches"), ("GET", "/v1/batches/batch_1"), ("POST", "/v1/uploads/upload_1/parts"),
    ("POST", "/v1/fine_tuning/jobs"), ("POST", "/v1/assistants"), ("DELETE", "/v1/threads/thread_1"),
    ("GET", "/v1/messages/batches/msgbatch_1/results"), ("GET", "/v1/videos/video_1/content"),
    ("POST", "/v1/conversations"), ("GET", "/v1/containers"), ("POST", "/v1/evals"),
]  # fmt: skip


@pytest.mark.parametrize("path", CALLS)
async def test_a_call_goes_by_its_model_with_the_keys_right(path: str) -> None:
    json_body, form = b'{"prompt":"a",  "model":"%b"}', FILE + NAMES + END
    for body, media in ((json_body, AS_JSON), (form, FORM)):
        exchange = await passed(body % b"mini", path, media, paths={}, rights=MINI_ONLY, limits=Limits(tpm=9))
        assert (base_of(exchange), exchange.body) == ("http://mini/v1", body % b"mini-2024")
        assert exchange.tokens is None, "the tokens are read from the reply"
        for name in (b"big", b"none", b"raw/big"):
            with pytest.raises(ApiError) as caught:
                await passed(body % name, path, media, paths={}, rights=MINI_ONLY)
            assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    for body, code in ((b'{"model":"mini","model":"big"}', "duplicate_field"), (b'{"Model":"big"}', "ambiguous_field")):
        with pytest.raises(ApiError) as caught:
            await passed(body, path, paths={}, rights=MINI_ONLY)
        assert (caught.value.status, caught.value.code) == (400, code)


@pytest.mark.parametrize("path", CALLS)
async def test_a_call_without_a_model_needs_the_right_to_every_model_and_one_upstream(path: str) -> None:
    for body, media in ((b'{"input": "a" }', AS_JSON), (FILE + END, FORM)):
        exchange = await passed(body, path, media, paths={}, routes=ONE_UPSTREAM)
        assert (base_of(exchange), exchange.model, exchange.body) == ("http://one/v1", "*", body)
        for routes, rights, query, status in (
            (ONE_UPSTREAM, MINI_ONLY, b"", 403),
            (ONE_UPSTREAM, MINI_ONLY, b"model=mini-2024", 403),  # the upstream does not read the query
            (ROUTES, EVERYTHING, b"", 404),
        ):
            with pytest.raises(ApiError, match="'model' in the body") as caught:
                await passed(body, path, media, paths={}, routes=routes, rights=rights, query=query)
            assert caught.value.status == status
        exchange = await passed(body, path, media, paths={}, query=b"model=big")
        assert (base_of(exchange), exchange.body) == ("http://big/v1", body)


@pytest.mark.parametrize(("method", "path"), WORK)
async def test_work_of_the_whole_account_needs_a_key_for_every_model(method: str, path: str) -> None:
    body = b"" if method != "POST" else b'{"input_file_id": "file-1" }'
    exchange = await passed(body, path, method=method, paths={}, routes=ONE_UPSTREAM, limits=Limits(rpm=1))
    assert (base_of(exchange), exchange.body, exchange.tokens) == ("http://one/v1", body, Tokens(0, 0))
    exchange = await passed(body, path, method=method, paths={}, query=b"after=1&model=big")
    assert base_of(exchange) == "http://big/v1", "a query chooses among several upstreams"
    with pytest.raises(ApiError, match=r"\?model=NAME") as caught:
        await passed(body, path, method=method, paths={})
    assert caught.value.status == 404
    for rights, limits in (
        (MINI_ONLY, UNLIMITED),
        (EVERYTHING, Limits(tpm=10**9)),
        (EVERYTHING, Limits(rpm=5, usd_per_day=1.0)),
    ):
        for query in (b"", b"model=mini"):
            with pytest.raises(ApiError, match="--model") as caught:
                await passed(body, path, method=method, paths={}, query=query, rights=rights, limits=limits)
            assert (caught.value.status, caught.value.code) == (403, "forbidden")
    listed = await passed(body, path, method=method, paths={path: "mini"}, rights=MINI_ONLY)
    assert base_of(listed) == "http://mini/v1", "a row in upstream.paths gives the path to keys for the row's model"


async def test_a_model_in_the_body_of_such_work_is_aliased() -> None:
    exchange = await passed(b'{"model":"mini", "name":"a"}', "/v1/assistants", paths={})
    assert (base_of(exchange), exchange.body) == ("http://mini/v1", b'{"model":"mini-2024", "name":"a"}')


async def test_a_deployment_serves_a_form_that_names_no_model_for_a_key_for_every_model() -> None:
    path = "/v1/audio/transcriptions"
    assert base_of(await passed(FILE + END, path, FORM, paths={}, deployment="mini")) == "http://mini/v1"
    body = NAMES % b"big" + FILE + END
    assert base_of(await passed(body, path, FORM, paths={}, deployment="mini", rights=BIG_ONLY)) == "http://big/v1"
    for form, status in ((FILE + END, 403), (body, 404)):
        with pytest.raises(ApiError) as caught:
            await passed(form, path, FORM, paths={}, deployment="mini", rights=MINI_ONLY)
        assert caught.value.status == status


async def test_what_is_no_call_within_the_sections_of_calls_is_work_of_the_account() -> None:
    for method, path in (("GET", "/v1/audio/voices"), ("DELETE", "/v1/audio/voices/voice_1")):
        assert base_of(await passed(b"", path, method=method, paths={}, routes=ONE_UPSTREAM)) == "http://one/v1"
        with pytest.raises(ApiError, match="--model"):
            await passed(b"", path, method=method, paths={}, query=b"model=big", rights=BIG_ONLY)


async def test_no_method_but_the_usual_is_relayed() -> None:
    for path in ("/v1/batches", "/v1/audio/speech"):
        with pytest.raises(ApiError) as caught:
            await passed(b"", path, method="TRACE", paths={}, routes=ONE_UPSTREAM)
        assert caught.value.status == 405


def test_the_gateways_own_paths_are_never_relayed_by_default() -> None:
    assert all(relayed_kind(path) and relayed_kind(path + "/x") for path in (*MODEL_CALLS, *ACCOUNT))
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/files", "/v1/files/f-1", "/v1/models"):
        assert not relayed_kind(path)
    for path in ("/v1/vector_stores", "/v1/knowledge/search", "/v1/admin/keys", "/v1/usage", "/v1/realtime", "/mcp"):
        assert not relayed_kind(path)
    assert not relayed_kind("/v1/audios")


async def test_a_deleted_response_is_forgotten_and_a_read_response_is_not() -> None:
    forgotten: list[tuple[str, str]] = []
    app = Passthrough(
        Upstream(),
        routes=ROUTES,
        paths={"/v1/conversations": "big"},
        max_body_bytes=1000,
        forget=lambda key, id: forgotten.append((key, id)),
    )
    for method, path in (
        ("GET", "responses/resp_1"),
        ("DELETE", "responses/resp_1"),
        ("DELETE", "conversations/conv_1"),
        ("DELETE", "conversations/conv_1/items/i"),
    ):
        exchange = Exchange(rights=EVERYTHING, key="key-1")
        scope = scope_of(f"/v1/{path}", method=method, headers=[AS_JSON], query=b"model=big", exchange=exchange)
        await Call([b""]).to(app, scope)
    assert forgotten == [("key-1", "resp_1"), ("key-1", "conv_1")]
    scope = scope_of("/v1/responses/resp_2", method="DELETE", query=b"model=claude", exchange=exchange)
    with pytest.raises(ApiError):
        await Call([b""]).to(app, scope)
    assert forgotten[2:] == [("key-1", "resp_2")], "the gateway forgets where no provider can delete"


FURTHER = [
    {"models": ["big"]}, {"fallbacks": [{"mini": ["big"]}]}, {"mock_testing_fallbacks": True}, {"Fallbacks": ["big"]},
    {"context_window_fallbacks": ["big"]}, {"fallback_model": "big"}, {"model_list": [{}]}, {"ｍodels": ["big"]},
]  # fmt: skip


@pytest.mark.parametrize("more", FURTHER, ids=lambda one: next(iter(one)))
async def test_a_key_for_some_models_names_no_further_models(more: dict[str, object]) -> None:
    body = json.dumps({"model": "mini", **more}, ensure_ascii=False).encode()
    assert await refused(body, rights=MINI_ONLY) == (403, "forbidden")
    exchange = await passed(body, "/v1/embeddings")
    assert orjson.loads(exchange.body or b"") == {**orjson.loads(body), "model": "mini-2024"}


@pytest.mark.parametrize(
    "more", [{"models": None}, {"models": []}, {"modalities": ["text"]}, {"tools": [{"model": "x"}]}]
)
async def test_other_members_pass_for_a_key_for_some_models(more: dict[str, object]) -> None:
    exchange = await passed(json.dumps({"model": "mini", **more}).encode(), "/v1/embeddings", rights=MINI_ONLY)
    assert exchange.model == "mini"


@pytest.mark.parametrize(
    "name", ["mini\0", "mini ", " mini", "mi\u00adni", "mini\ufeff", "mini\u2028", "raw/ mini", "mini\n", "\u00a0mini"]
)
async def test_a_name_that_upstreams_may_read_as_another_is_no_model(name: str) -> None:
    assert await refused(json.dumps({"model": name}).encode()) == (404, "model_not_found")
