"""The middleware's order: a web page that may call the gateway can read its errors, too."""

from pathlib import Path
from typing import cast

from proxy.accounts.ledger import Ledger
from proxy.accounts.shares import SqlBook
from proxy.accounts.sql import SqlAccounts
from proxy.admin import Admin
from proxy.app import Parts, application
from proxy.asgi import App, Receive, Scope, Send
from proxy.errors import ApiError
from proxy.knowledge.api import KnowledgeApi
from proxy.knowledge.forms import UploadOptions
from proxy.knowledge.searches import SearchSettings
from proxy.metrics import Metrics
from proxy.upstream.base import Routes
from retrieval.knowledge import Knowledge
from tests.asgi_calls import Call, scope_of
from tests.rings import ring
from tests.unasked import no_receipts

PAGE = b"https://chat.example.com"


_NONE = KnowledgeApi(
    cast(Knowledge, None), enabled=False, searches=SearchSettings((), 1, reranker=False), deadline_s=1.0,
    max_body_bytes=1000, uploads=UploadOptions(Path("nowhere"), 1, 1), receipts=no_receipts(),
)  # fmt: skip


class _Refusing:
    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ApiError(404, "no such model", code="model_not_found")


def _app() -> App:
    refusing = _Refusing()
    accounts, keyring = SqlAccounts(Path("nowhere")), ring()
    return application(
        Parts(
            chat=refusing, mcp=refusing, passthrough=refusing, upstream=refusing, routes=Routes({}), ready=lambda: "",
            knowledge=_NONE, metrics=Metrics(), keyring=keyring,
            admin=Admin(accounts, keyring, max_body_bytes=1000),
            ledger=Ledger(SqlBook(accounts, keep_days=1), record="never", metrics=Metrics()),
            open=False, cors_origins=(PAGE.decode(),), any_type_paths=(),
        )
    )  # fmt: skip


async def test_a_page_that_is_listed_can_read_an_error() -> None:
    headers = [(b"host", b"localhost"), (b"origin", PAGE), (b"content-type", b"application/json")]
    call = await Call().to(_app(), scope_of(headers=headers))
    assert call.status == 404
    assert (b"access-control-allow-origin", PAGE) in call.headers
    assert any(name == b"x-rag-id" for name, _ in call.headers)


async def test_a_page_that_is_not_cannot() -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"https://evil.example"), (b"content-type", b"application/json")]
    call = await Call().to(_app(), scope_of(headers=headers))
    assert call.status == 403
    assert not any(name == b"access-control-allow-origin" for name, _ in call.headers)
