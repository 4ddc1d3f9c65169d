"""The Knowledge API's own part: what an index that fails is answered with, and an export that breaks off."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.routing import Router

from config.settings import load
from proxy.api.knowledge.api import KnowledgeApi
from proxy.api.knowledge.forms import UploadOptions
from proxy.asgi import App, Receive, Scope, Send
from proxy.caller import EVERYTHING
from proxy.exchange import EXCHANGE
from proxy.observe.metrics import Metrics
from proxy.observe.middleware import Observe
from retrieval.errors import IndexDown, RetrievalError, UnknownDocument
from retrieval.records.documents import CollectionInfo, DocumentInfo, FullDocument, Groups
from tests.support.rows import all_rows
from tests.support.served_app import served
from tests.support.unasked import Unasked, no_receipts

IDS = [f"d{i:03}" for i in range(250)]


class RecordStore(Unasked):
    """A collection of 250 documents; asking for some of them raises."""

    def __init__(self, faults: dict[str, Exception] | None = None, *, down: Exception | None = None) -> None:
        self._faults = faults or {}
        self._down = down

    async def collections(self, groups: Groups) -> list[CollectionInfo]:
        if self._down is not None:
            raise self._down
        return [CollectionInfo("docs", len(IDS), len(IDS), "tiny", 1.0)]

    async def documents(self, collection: str, *, after: str, limit: int, groups: Groups) -> list[DocumentInfo]:
        return [info(id) for id in IDS if id > after][:limit]

    async def document(self, id: str, groups: Groups = (), collections: Sequence[str] = ("*",)) -> FullDocument:
        if id in self._faults:
            raise self._faults[id]
        return FullDocument(info(id), f"text of {id}")


def info(id: str) -> DocumentInfo:
    return DocumentInfo(id, "docs", f"{id}.md", "", "markdown", 1.0, 1, 12)


@contextmanager
def api(shelf: RecordStore, *, enabled: bool = True) -> Iterator[str]:
    routes = KnowledgeApi(
        shelf,
        load(environ={}, flags={"retrieval.enabled": enabled, "retrieval.collections": ["docs"]}).retrieval,
        max_body_bytes=3_000_000,
        uploads=UploadOptions(Path("nowhere"), 1, 1),
        receipts=no_receipts(),
        actions=None,
        sets={},
    ).routes(relayed=())
    router: App = Router(routes)

    async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
        scope[EXCHANGE].rights = EVERYTHING
        await router(scope, receive, send)

    with served(Observe(admitted, Metrics())) as port:
        yield f"http://127.0.0.1:{port}/v1/knowledge"


def test_an_export_goes_over_all_pages_and_passes_over_what_was_deleted_meanwhile() -> None:
    with api(RecordStore({"d101": UnknownDocument("gone")})) as url:
        lines = httpx.get(f"{url}/collections/docs/export").text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [id for id in IDS if id != "d101"]


@pytest.mark.parametrize("fault", [IndexDown("gone"), RetrievalError("broken"), TimeoutError()])
def test_an_export_that_fails_breaks_off_and_never_looks_complete(fault: Exception) -> None:
    with api(RecordStore({"d120": fault})) as url, httpx.stream("GET", f"{url}/collections/docs/export") as reply:
        assert reply.status_code == 200
        lines: list[str] = []
        with pytest.raises(httpx.RemoteProtocolError):
            lines.extend(reply.iter_lines())
    assert [json.loads(line)["id"] for line in lines] == IDS[:120], "what is whole before the break is of use"


@all_rows("fault", [IndexDown("gone"), RetrievalError("it must be rebuilt"), TimeoutError()])
@all_rows("path", ["collections", "collections/docs", "collections/docs/documents",
                                  "collections/docs/export"])  # fmt: skip
def test_an_index_that_fails_is_a_503_that_says_when_to_ask_again(path: str, fault: Exception) -> None:
    with api(RecordStore(down=fault)) as url:
        reply = httpx.get(f"{url}/{path}")
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert reply.json()["error"]["code"] == "knowledge_unavailable"


def test_a_gateway_without_retrieval_has_no_index_to_ask() -> None:
    with api(RecordStore(), enabled=False) as url:
        for path in ("collections", "collections/docs/export"):
            reply = httpx.get(f"{url}/{path}")
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "knowledge_unavailable")


@pytest.mark.parametrize(
    "fields",
    [
        '"filter": ' + '{"type": "and", "filters": [' * 450 + "1" + "]}" * 450,
        '"collections": [' + '"docs",' * 1000 + '"docs"]',
        f'"collections": ["{"d" * 2_000_000}"]',
    ],
    ids=["deep", "many names", "a long name"],
)
def test_a_search_of_too_much_is_a_400_that_does_not_quote_it(fields: str) -> None:
    with api(RecordStore()) as url:
        reply = httpx.post(f"{url}/search", content=f'{{"query": "x", {fields}}}')
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_parameter")
    assert len(reply.content) < 1000
