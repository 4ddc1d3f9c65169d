"""The document of an MCP tool: taken out of a large request, decoded, and written without a reader's deadline."""

import asyncio
import base64
import contextlib
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.settings import load
from proxy.api import tools
from proxy.api.mcp import _DOCUMENT, _without_document
from proxy.api.tools import ADD, Tools, _decoded
from proxy.caller import EVERYTHING
from proxy.dialects.errors import ApiError
from proxy.exchange import EXCHANGE, Exchange
from retrieval.records.jobs import DocumentInput, WriteResult

WRITER = Exchange(method="POST", path="/mcp", rights=EVERYTHING)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["text", "data", "name", "collection", "x"]), VALUES)


@given(st.binary(max_size=300), st.integers(1, 80), st.sampled_from(["\n", "\r\n", " "]))
def test_base64_is_decoded_however_it_is_wrapped(data: bytes, width: int, between: str) -> None:
    plain = base64.b64encode(data).decode()
    assert _decoded(between.join(plain[at : at + width] for at in range(0, len(plain), width))) == data


def test_base64_is_decoded_over_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_BASE64_STEP", 8)
    for size in range(40):
        assert _decoded(base64.b64encode(bytes(range(size))).decode()) == bytes(range(size))


@given(st.text(max_size=30) | st.text("AQ=+/-_", max_size=12))
def test_what_is_no_base64_is_refused(text: str) -> None:
    with contextlib.suppress(ApiError):
        assert base64.b64encode(_decoded(text))[:-4].decode() == "".join(text.split())[:-4]


@given(ARGUMENTS, st.sampled_from([ADD, "search", "run_action"]))
def test_only_the_document_is_taken_out(arguments: dict[str, Any], name: str) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    scope: dict[str, Any] = {EXCHANGE: WRITER}
    left = json.loads(_without_document(json.dumps(request).encode(), scope))
    content, small = scope.get(_DOCUMENT, {}), left["params"]["arguments"]
    assert {**small, **content} == arguments
    assert not (name == ADD and {"text", "data"} & set(small))
    assert name == ADD or not content
    assert {**left, "params": {**left["params"], "arguments": arguments}} == request


@given(VALUES, VALUES)
def test_any_large_request_is_passed_on(params: Any, arguments: Any) -> None:
    for one in (params, {"name": ADD, "arguments": arguments}, {"name": params, "arguments": arguments}):
        request, scope = {"params": one}, {EXCHANGE: WRITER}
        left = json.loads(_without_document(json.dumps(request).encode(), scope))
        if _DOCUMENT not in scope:
            assert left == request


async def test_a_write_may_take_longer_than_a_search() -> None:
    written: list[DocumentInput] = []

    async def put(_collection: str, given: list[DocumentInput]) -> tuple[WriteResult, ...]:
        await asyncio.sleep(0.2)
        written.extend(given)
        return (WriteResult(given[0].key, "created", "1"),)

    async def collections(_groups: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="red")]

    knowledge: Any = SimpleNamespace(writing=SimpleNamespace(put=put), library=SimpleNamespace(collections=collections))
    exchange = Exchange(method="POST", path="/mcp", rights=replace(EVERYTHING, groups=("hr",)))
    settings = replace(load().retrieval, deadline_s=0.05)
    asked = {"collection": "red", "name": "a.md", "text": "A text."}
    assert (await Tools(knowledge, settings).add(asked, exchange)).__struct_fields__
    (one,) = written
    assert (one.key, one.source, one.content, one.writer, one.owner) == ("a.md", "a.md", b"A text.", ("hr",), "")


async def test_a_document_that_takes_too_long_is_told_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def put(_collection: str, _given: object) -> None:
        await asyncio.sleep(60)

    async def collections(_groups: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="red")]

    monkeypatch.setattr(tools, "WRITE_DEADLINE_S", 0.01)
    knowledge: Any = SimpleNamespace(writing=SimpleNamespace(put=put), library=SimpleNamespace(collections=collections))
    with pytest.raises(ApiError, match="takes long to read: upload it by POST /v1/knowledge/collections/red/files"):
        await Tools(knowledge, load().retrieval).add({"collection": "red", "name": "a.md", "text": "A"}, WRITER)
