"""The middleware's order and the routes: who is answered what before a request reaches what acts on it."""

import json
import re
from pathlib import Path
from typing import cast

import pytest

from config.settings import load
from proxy.access.key_credentials import KeyCredentials
from proxy.access.ledger import Ledger
from proxy.access.shares import SqlUsageStore
from proxy.access.sql import SqlAccounts
from proxy.api.admin import Admin
from proxy.api.knowledge.api import KnowledgeApi
from proxy.api.knowledge.forms import UploadOptions
from proxy.api.passthrough import Passthrough
from proxy.api.paths import ACCOUNT, MODEL_CALLS, WITH_MODEL
from proxy.app import Parts, application
from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.middleware import already
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.messages import COUNT_PATH, MESSAGES
from proxy.dialects.paths import BY_PATH
from proxy.observe.metrics import Metrics
from proxy.upstream.routes import Routes
from retrieval.knowledge import Knowledge
from runtime.sealing import MasterKey
from tests.support.asgi_calls import Call, scope_of
from tests.support.rings import ring
from tests.support.rows import all_rows
from tests.support.unasked import no_receipts

PAGE = b"https://chat.example.com"


_NONE = KnowledgeApi(
    cast(Knowledge, None), load(environ={}, flags={"retrieval.enabled": False}).retrieval,
    max_body_bytes=1000, uploads=UploadOptions(Path("nowhere"), 1, 1), receipts=no_receipts(), actions=None, sets={},
)  # fmt: skip


class _Refusing:
    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ApiError(404, "no such model", code="model_not_found")


_ACCOUNTS, _KEYRING = SqlAccounts(Path("nowhere")), ring()


def _admin() -> Admin:
    return Admin(_ACCOUNTS, _KEYRING, KeyCredentials(_ACCOUNTS, MasterKey("", "NONE")), max_body_bytes=1000)


def _app(listed: tuple[str, ...] = ()) -> App:
    refusing, routes = _Refusing(), Routes({})
    paths = {"upstream.paths": dict.fromkeys(listed, "gpt")}
    flags = {"server.cors_origins": [PAGE.decode()], "usage.record": "never", **paths}
    relay = Passthrough(refusing, routes=routes, paths=dict.fromkeys(listed, "gpt"), max_body_bytes=1000)
    return application(
        Parts(
            chat=refusing,
            count=refusing,
            mcp=refusing,
            passthrough=relay,
            upstream=refusing,
            routes=routes,
            ready=lambda: "",
            warnings=tuple,
            begun=already,
            knowledge=_NONE,
            metrics=Metrics(),
            keyring=_KEYRING,
            admin=_admin(),
            ledger=Ledger(SqlUsageStore(_ACCOUNTS, keep_days=1), count=Metrics().usage_rows),
            settings=load(environ={}, flags=flags),
        )
    )


async def test_a_page_that_is_listed_can_read_an_error() -> None:
    headers = [(b"host", b"localhost"), (b"origin", PAGE), (b"content-type", b"application/json")]
    call = await Call().to(_app(), scope_of(headers=headers))
    assert call.status == 404
    assert (b"access-control-allow-origin", PAGE) in call.headers
    assert any(name == b"x-rag-id" for name, _ in call.headers)


_FORM = [(b"host", b"localhost"), (b"content-type", b"multipart/form-data; boundary=b")]


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/complete", "/v1", "/", "/v1/knowledge/search/"])
@pytest.mark.parametrize("headers", [_FORM, _FORM[:1]])
async def test_what_is_not_served_is_said_of_a_body_of_any_type(path: str, headers: Headers) -> None:
    call = await Call().to(_app(), scope_of(path, headers=headers))
    assert call.status == 404
    assert path in json.loads(call.body)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/knowledge", "/v1/knowledge/openapi.json"),
        ("/v1/knowlege/", "/v1/knowledge/openapi.json"),
        ("/v1/knowledge/serach", "/v1/knowledge/search"),
        ("/v1/chat", "/v1/chat/completions"),
        ("/v1/admin", "/v1/admin/keys"),
    ],
)
async def test_the_start_of_a_served_path_is_completed(path: str, meant: str) -> None:
    call = await Call().to(_app(), scope_of(path, headers=_FORM[:1]))
    assert f"did you mean {meant}?" in json.loads(call.body)["error"]["message"]


_FIXED = (
    "/mcp", *BY_PATH, COUNT_PATH, *WITH_MODEL, *MODEL_CALLS, *ACCOUNT, "/v1/audio/transcriptions",
    "/v1/uploads/upload-1/parts", "/v1/usage",
)  # fmt: skip
_SERVED = [*_FIXED, *(route.path for route in [*_NONE.routes(relayed=()), *_admin().routes(usage=True)])]


@all_rows("path", sorted({re.sub(r"\{.*?\}", "x", path) for path in _SERVED}))
@all_rows("listed", [(), ("/v1/skills",)])
async def test_nothing_that_is_served_takes_a_body_that_a_page_may_send_unasked(
    path: str, listed: tuple[str, ...]
) -> None:
    for method in ("POST", "PUT", "PATCH"):
        for media in (b"text/plain", b"multipart/form-data; boundary=b", b"application/x-www-form-urlencoded"):
            headers = [_FORM[0], (b"content-type", media), (b"sec-fetch-site", b"cross-site")]
            call = await Call().to(_app(listed), scope_of(path, method=method, headers=headers))
            assert call.status in (403, 405, 415), (method, media)


async def test_a_listed_path_and_those_below_it_take_any_type() -> None:
    for path in ("/v1/files", "/v1/files/file-1", "/v1/files/file-1/content"):
        form = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nA text.\r\n--b--\r\n'
        call = await Call([form]).to(_app(("/v1/files",)), scope_of(path, headers=_FORM))
        assert json.loads(call.body)["error"]["code"] == "model_not_found", "it reached the relay"
    assert (await Call().to(_app(("/v1/files",)), scope_of("/v1/filesystem", headers=_FORM))).status == 404
    for listed in ("/v1", "/v1/chat"):  # they list no chat
        assert (await Call().to(_app((listed,)), scope_of(headers=_FORM))).status == 415


async def test_a_dialects_path_is_relayed_where_the_setting_names_the_path_itself() -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nA text.\r\n--b--\r\n'
    for path, listed, status in (  # 404: the relay knows no model
        ("/v1/responses", "/v1/responses", 404),
        ("/v1/responses", "/v1", 415),
        (COUNT_PATH, MESSAGES.path, 404),
        (COUNT_PATH, COUNT_PATH, 404),
        (MESSAGES.path, COUNT_PATH, 415),
        (COUNT_PATH, "/v1", 415),
    ):
        assert (await Call([form]).to(_app((listed,)), scope_of(path, headers=_FORM))).status == status


async def test_a_page_that_is_not_cannot() -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"https://evil.example"), (b"content-type", b"application/json")]
    call = await Call().to(_app(), scope_of(headers=headers))
    assert call.status == 403
    assert not any(name == b"access-control-allow-origin" for name, _ in call.headers)


def _preflight(origin: bytes, method: bytes, *more: tuple[bytes, bytes]) -> Scope:
    asked = [(b"host", b"localhost"), (b"origin", origin), (b"access-control-request-method", method), *more]
    return scope_of(method="OPTIONS", headers=asked)


@pytest.mark.parametrize(
    ("scope", "says"),
    [
        (_preflight(b"https://evil.example", b"POST"), "refused for its origin"),
        (_preflight(PAGE, b"TRACE"), "refused for its method (methods are GET, POST, PUT, DELETE)"),
        (_preflight(PAGE, b"POST", (b"access-control-request-private-network", b"true")), "private-network"),
    ],
)
async def test_a_page_that_is_refused_leave_gets_an_error_of_ours(scope: Scope, says: str) -> None:
    call = await Call().to(_app(), scope)
    assert (call.status, dict(call.headers)[b"content-type"]) == (403, b"application/json")
    error = json.loads(call.body)["error"]
    assert (error["code"], error["type"]) == ("origin_not_allowed", "permission_error")
    assert says in error["message"]


async def test_a_page_that_is_listed_gets_leave() -> None:
    call = await Call().to(_app(), _preflight(PAGE, b"POST", (b"access-control-request-headers", b"authorization")))
    assert call.status == 200
    assert dict(call.headers)[b"access-control-allow-origin"] == PAGE
