"""Documents that programs add over MCP, by a real client over HTTP and on stdio."""

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from config.settings import KEY
from tests.support.gateway import Served, environment, ragway, serving
from tests.support.pdfs import pdf, said
from tests.wire.test_mcp import MODES, client, result, wait_for, words

SETTINGS = """
embedder: {model: hash}
retrieval: {collections: [red], min_relevance: 0.0}
models: {echo: {lane: echo}}
"""
DOCX = Path(__file__).parents[1] / "retrieval" / "ingest" / "formats" / "office" / "handbook.docx"
ADD = "add_document"
MB = 1 << 20
KEYS = {
    "writer": ("--read=red", "--read=blue", "--write=red"),
    "reader": ("--read=red",),
    "boss": ("--read=red", "--write=red", "--group=boss"),
}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("add")
    (folder / "ragway.yaml").write_text(SETTINGS)
    with serving(folder / "data", folder, SETTINGS) as gateway:
        for name in ("red", "blue", "secret"):
            url = gateway.url + "/v1/knowledge/collections"
            assert httpx.post(url, json={"name": name}, timeout=60).status_code == 201
        yield gateway


@pytest.fixture(scope="module")
def keys(served: Served) -> dict[str, str]:
    folder, made = served.data.parent, {}
    for name, rights in KEYS.items():
        made[name] = ragway("keys", "create", name, *rights, "--data", str(served.data), folder=folder).stdout.strip()
    wait_for(served, made["boss"])
    return made


async def texts(mcp: Client, query: str, **more: Any) -> str:
    found = result(await mcp.call_tool("search", {"query": query, **more}))["results"]
    return "\n".join(one["text"] for one in found)


@pytest.mark.parametrize("mode", MODES)
async def test_without_keys_a_text_and_a_file_are_found(served: Served, mode: str) -> None:
    async with client(served, mode=mode) as mcp:
        tool = next(one for one in (await mcp.list_tools()).tools if one.name == ADD)
        assert "Collections: blue, red, secret." in (tool.description or "")
        hints = tool.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint) == (False, True, False)
        given = {"collection": "red", "name": f"pumps-{mode}", "title": "Pumps", "attributes": {"mode": mode}}
        first = result(await mcp.call_tool(ADD, {**given, "text": f"The {mode} pump is called Oskar."}))
        assert (first["status"], first["key"], first["collection"]) == ("created", f"pumps-{mode}", "red")
        again = result(await mcp.call_tool(ADD, {**given, "text": f"The {mode} pump is called Wilma."}))
        assert (again["status"], again["id"]) == ("replaced", first["id"])
        same = result(await mcp.call_tool(ADD, {**given, "text": f"The {mode} pump is called Wilma."}))
        assert same["status"] == "unchanged"
        wanted = {"type": "eq", "key": "mode", "value": mode}
        assert await texts(mcp, "pump", filter=wanted) == f"The {mode} pump is called Wilma."
        file = {"collection": "blue", "name": f"{mode}.docx", "data": encoded(DOCX.read_bytes())}
        assert result(await mcp.call_tool(ADD, file))["status"] == "created"
        assert "max_pressure" in await texts(mcp, "max_pressure", collections=["blue"])


@pytest.mark.parametrize("mode", MODES)
async def test_a_large_document_is_written(served: Served, keys: dict[str, str], mode: str) -> None:
    long = f"The {mode} walrus is \U0001f600 and called Olga.\n" + "Nothing else.  \n" * (3 * MB // 16)
    async with client(served, keys["writer"], mode) as mcp:
        placed = result(await mcp.call_tool(ADD, {"collection": "red", "name": f"{mode}.txt", "text": long}))
        assert "Olga" in await texts(mcp, f"{mode} walrus")
        document = result(await mcp.call_tool("fetch", {"id": placed["id"]}))
    assert document["metadata"]["chars"] > 3 * MB - 200_000


async def test_on_stdio_a_key_adds_what_it_may(served: Served, keys: dict[str, str]) -> None:
    process = StdioServerParameters(
        command=sys.executable,
        args=["-m", "cli", "mcp", "--data", str(served.data)],
        cwd=str(served.data.parent),
        env=environment({KEY: keys["writer"]}),
    )
    file = {
        "name": "zebra.pdf",
        "data": base64.encodebytes(pdf(said(50, 700, "The zebra pump runs at 7 bar."))).decode(),
    }
    async with Client(stdio_client(process)) as mcp:
        assert result(await mcp.call_tool(ADD, {"collection": "red", **file}))["status"] == "created"
        assert "zebra pump runs" in await texts(mcp, "zebra")
        assert "not write it" in words(await mcp.call_tool(ADD, {"collection": "blue", **file}))
        large = {"collection": "red", "name": "a.pdf", "data": encoded(b"x" * (4 * MB + 1))}
        assert "upload it by POST /v1/knowledge/collections/red/files" in words(await mcp.call_tool(ADD, large))


@pytest.mark.parametrize("mode", MODES)
async def test_without_the_right_there_is_no_such_tool(served: Served, keys: dict[str, str], mode: str) -> None:
    given = {"name": "a", "text": "A text."}
    async with client(served, keys["reader"], mode) as mcp:
        assert [one.name for one in (await mcp.list_tools()).tools] == ["search", "fetch"]
        with pytest.raises(MCPError, match="there are search and fetch"):
            await mcp.call_tool(ADD, {"collection": "red", **given})
        with pytest.raises(MCPError, match="at most 256 KB"):
            await mcp.call_tool(ADD, {"collection": "red", "name": "a", "text": "long " * 60_000})
    async with client(served, keys["writer"], mode) as mcp:
        tool = (await mcp.list_tools()).tools[2]
        assert "Collections: red." in (tool.description or "")
        assert "may read 'blue' but not write it" in words(await mcp.call_tool(ADD, {"collection": "blue", **given}))
        foreign = words(await mcp.call_tool(ADD, {"collection": "secret", **given}))
        absent = words(await mcp.call_tool(ADD, {"collection": "absent", **given}))
        assert foreign.replace("secret", "absent") == absent
        assert absent == "there is no collection 'absent'; there are: blue, red."


async def test_a_document_hidden_from_the_key_stays(served: Served, keys: dict[str, str]) -> None:
    given = {"collection": "red", "name": "plan", "text": "The plan is called Egon."}
    async with client(served, keys["boss"]) as mcp:
        assert result(await mcp.call_tool(ADD, {**given, "groups": ["boss"]}))["status"] == "created"
    async with client(served, keys["writer"]) as mcp:
        assert "was not written" in words(await mcp.call_tool(ADD, {**given, "text": "It has another name."}))
        assert "Egon" not in await texts(mcp, "plan")
    async with client(served, keys["boss"]) as mcp:
        assert "Egon" in await texts(mcp, "plan")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "a"}, "Either 'text' or 'data' is needed"),
        ({"name": "a", "text": "A", "data": "QQ=="}, "Either 'text' or 'data' is needed"),
        ({"name": "a", "data": "QQ="}, "'data' must be a file in base64"),
        ({"name": "a", "data": "?" * 400_000}, "'data' must be a file in base64"),
        ({"name": "a", "text": ["A" * 20] * 20_000}, "'text' must be text"),
        ({"name": "a", "text": " "}, "'text' must be text, and not empty"),
        ({"name": "a\nb", "text": "A"}, "'name' must be 1 to 512 printable characters"),
        ({"name": "a", "text": "A", "attributes": []}, "'attributes' must be an object"),
        ({"name": "a", "text": "A", "source": "b"}, "no parameter 'source' here"),
        ({"name": "a.docx", "data": encoded(b"PK\3\4 no archive")}, "cannot be read"),
        ({"name": "a.pdf", "data": ""}, "cannot be read"),
        ({"name": "a.xyz", "data": "QUFB"}, "cannot be read"),
        ({"name": "a.pdf", "data": encoded(b"x" * (4 * MB + 1))}, "by POST /v1/knowledge/collections/red/files"),
    ],
)
async def test_what_cannot_be_added_is_told_to_the_model(
    served: Served, keys: dict[str, str], given: dict[str, Any], told: str
) -> None:
    async with client(served, keys["writer"]) as mcp:
        assert told in words(await mcp.call_tool(ADD, {"collection": "red", **given}))


@pytest.mark.parametrize("mode", MODES)
async def test_a_request_beyond_the_limit_is_told_the_way(served: Served, keys: dict[str, str], mode: str) -> None:
    way = "by POST /v1/knowledge/collections/NAME/files"
    for given, told in (
        ({"data": "Q" * (6 * MB)}, way),
        ({"text": "A", "attributes": {"a": "long " * 60_000}}, way),
        ({"text": ["A"] * 200_000}, "too many values"),
    ):
        async with client(served, keys["writer"], mode) as mcp:
            with pytest.raises(MCPError, match=told):
                await mcp.call_tool(ADD, {"collection": "red", "name": "a", **given})
