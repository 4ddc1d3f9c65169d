"""Any JSON, form, query or path to any route: it is answered, and never as a fault of ours."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.api.knowledge.description import whole_document
from tests.support.gateway import Served, ragway, serving

SETTINGS = """
models: {echo: {lane: echo}, translated: {model: "openai/x", api_base: "http://127.0.0.1:9/v1", lane: translated}}
retrieval: {deadline_s: 20}
"""
METHODS = ("get", "put", "post", "delete", "patch")
ROUTES = [(method, path) for path, told in whole_document()["paths"].items() for method in METHODS if method in told]
CHATS = [
    ("post", path)
    for path in (
        *(
            "/v1/chat/completions",
            "/v1/embeddings",
            "/v1/completions",
            "/v1/responses",
            "/mcp",
            "/v1/images/generations",
        ),
        *("/v1/batches", "/openai/deployments/echo/chat/completions"),
    )
]
WAITING = ("/v1/knowledge/receipts/{id}",)  # looks for seconds, so that its time tells nothing
# What an upstream that is not there is answered with, and the one thing that waits for others.
ALLOWED = (502, 503, 504)

TEXTS = st.sampled_from(
    ["\ud800", "a\udfffb", "\0", "", "docs", "x" * 5000, "1" * 5000, "-1", "../..", "\u202e", "ſ", "é" * 300, "auto",
     "echo", "eq", "and", "user", "2024-13-45", "0001-01-01", "9" * 400]
) | st.text(max_size=20)  # fmt: skip
NUMBERS = st.sampled_from(
    [0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, -0.0, 1e-320, 0.5]
) | st.integers()  # fmt: skip
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
NAMES = ["model", "messages", "rag", "Model", "tools", "role", "content", "type", "key", "value", "filters", "filter"]
NAMES += ["jsonrpc", "method", "params", "id", "name", "text", "attributes", "groups", "collections", "anchor"]
NAMES += ["tool_calls", "function_call", "function", "refusal", "tool_call_id"]
KEYS = st.sampled_from(NAMES) | TEXTS
DEEP = st.integers(min_value=1, max_value=600).map(lambda depth: json.loads("[" * depth + "]" * depth))
VALUES = st.recursive(
    LEAVES | DEEP, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=12
)
SETTLED = settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


class Asked:
    """A gateway of one collection, asked by a key that may do all."""

    def __init__(self, served: Served, key: str) -> None:
        self.client = httpx.Client(base_url=served.url, headers={"authorization": f"Bearer {key}"}, timeout=60)

    def __call__(self, method: str, path: str, **sent: Any) -> None:
        reply = self.client.request(method, path, **sent)  # a connection that is dropped raises here
        assert reply.status_code < 500 or reply.status_code in ALLOWED, reply.text
        if reply.status_code >= 400 and not path.startswith(("/mcp", "/v1/messages")):
            error = reply.json()["error"]
            assert error["message"], reply.text
            assert "internal" not in (error.get("code") or ""), reply.text


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory, learned: Callable[[], Path]) -> Iterator[Asked]:
    folder, data = tmp_path_factory.mktemp("any"), learned()
    made = ragway(
        "keys",
        "create",
        "root",
        "--read",
        "*",
        "--write",
        "*",
        "--model",
        "*",
        "--admin",
        "--data",
        str(data),
        folder=folder,
    )
    assert made.returncode == 0, made.stderr
    with serving(data, folder, SETTINGS) as served:
        asked = Asked(served, made.stdout.strip())
        yield asked
        asked.client.close()


def filled(path: str, names: list[str]) -> str:
    """The path with these names in its places."""
    given_names = iter(names)
    return re.sub(r"\{\w+\}", lambda _: quote(next(given_names).encode("utf-8", "replace"), safe="") or "docs", path)


def told(method: str, path: str) -> dict[str, Any]:
    paths = whole_document()["paths"]
    operation: dict[str, Any] = paths.get(path, {}).get(method, {})
    return operation


def fields_of(method: str, path: str) -> list[str]:
    """The names of the body's fields, as described."""
    text = json.dumps(told(method, path).get("requestBody", {}))
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        text += json.dumps(whole_document()["components"]["schemas"].get(name, {}))
    return sorted(set(re.findall(r'"(\w+)": \{', text)) - {"content", "schema", "properties", "items"}) or ["model"]


@SETTLED
@given(data=st.data())
@pytest.mark.parametrize(("method", "path"), [pair for pair in ROUTES if pair[0] != "get"] + CHATS)
def test_any_json_is_answered(ask: Asked, method: str, path: str, data: st.DataObject) -> None:
    own = st.dictionaries(st.sampled_from(fields_of(method, path)), VALUES, max_size=6)
    chat = st.fixed_dictionaries(
        {
            "model": st.sampled_from(["echo", "translated"]) | TEXTS,
            "messages": st.lists(st.dictionaries(st.sampled_from(["role", "content"]), VALUES), max_size=3) | VALUES,
        }
    )
    body = data.draw((own | chat | VALUES) if (method, path) in CHATS else (own | VALUES))
    names = ["docs" if data.draw(st.booleans()) else data.draw(TEXTS) for _ in range(2)]
    sent = json.dumps(body, ensure_ascii=True).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    ask(method, filled(path, names), content=sent, headers=headers)


@SETTLED
@given(data=st.data())
@pytest.mark.parametrize("path", [path for method, path in ROUTES if method == "get" and path not in WAITING])
def test_any_query_and_any_name_are_answered(ask: Asked, path: str, data: st.DataObject) -> None:
    parameters = [one["name"] for one in told("get", path).get("parameters", ()) if one.get("in") == "query"]
    parameters += ["limit", "after", "order", "filter", "since", "by"]
    query = data.draw(
        st.dictionaries(st.sampled_from(parameters), TEXTS | NUMBERS.map(str) | VALUES.map(json.dumps), max_size=4)
    )
    names = ["docs" if data.draw(st.booleans()) else data.draw(TEXTS) for _ in range(2)]
    encoded = urlencode({name: value.encode("utf-8", "replace") for name, value in query.items()})
    ask("get", f"{filled(path, names)}?{encoded}"[:8000])


@SETTLED
@given(data=st.data())
@pytest.mark.parametrize("path", ["/v1/knowledge/collections/docs/files", "/v1/files"])
def test_any_form_is_answered(ask: Asked, path: str, data: st.DataObject) -> None:
    names = [
        "file",
        "key",
        "title",
        "attributes",
        "groups",
        "purpose",
        "background",
        "format",
        "expires_after[seconds]",
    ]
    fields = data.draw(st.dictionaries(st.sampled_from(names), TEXTS | VALUES.map(json.dumps), max_size=4))
    fields.pop("file", None)
    sent = {name: value.encode("utf-8", "replace") for name, value in fields.items()}
    name = data.draw(TEXTS).encode("utf-8", "replace").decode()
    ask("post", path, data=sent, files={"file": (name or "a.md", data.draw(st.binary(max_size=200)))})
