"""MCP over the wire: a real client finds and reads what its key lets it, over HTTP and on stdio."""

import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent

from config.settings import KEY
from proxy.access.sql import SqlAccounts
from proxy.caller import Names, Rights
from tests.support.gateway import ROOT, Served, environment, ragway, refused, serving
from tests.support.postgres_server import Postgres

PAGE = Path(__file__).resolve().parents[2] / "docs" / "use" / "clients.md"
SETTINGS = """
retrieval: {collections: [red, blue], min_relevance: 0.0}
models: {echo: {lane: echo}}
"""
TEXTS = {"red": "The red pump is called Oskar and runs at 40 bar.", "blue": "The blue pump is called Wilma."}
ASKED = {"query": "What is the pump called?"}
FASTMCP = Path(sys.prefix) / "clients" / "bin" / "fastmcp"
MODES = ("auto", "legacy")  # with the handshake of older programs, and without


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two collections, and a long document in one of them."""
    folder = tmp_path_factory.mktemp("shelf")
    for name, text in TEXTS.items():
        (folder / name).mkdir()
        (folder / name / "pumps.md").write_text(f"# Pumps\n\n{text}\n")
    (folder / "red" / "long.md").write_text("# Valves\n\n" + "A valve opens and closes. " * 8000)
    for name in TEXTS:
        done = ragway("ingest", name, "--collection", name, folder=folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def served(shelf: Path) -> Iterator[Served]:
    with serving(shelf / "data", shelf, SETTINGS) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def keys(served: Served, shelf: Path) -> dict[str, str]:
    """Secrets of keys that may read red, blue and nothing."""
    made = {}
    for name, rights in (("red", ["--read", "red"]), ("blue", ["--read", "blue"]), ("none", ["--read", "absent"])):
        done = ragway("keys", "create", name, *rights, "--data", str(served.data), folder=shelf)
        made[name] = done.stdout.strip()
    wait_for(served, made["none"])
    return made


def wait_for(served: Served, key: str) -> None:
    for _ in range(200):
        answer = httpx.get(served.url + "/v1/models", headers={"authorization": f"Bearer {key}"}, timeout=30)
        if answer.status_code == 200 and httpx.get(served.url + "/v1/models", timeout=30).status_code == 401:
            return
        time.sleep(0.05)
    raise AssertionError("the gateway does not know the key")


@asynccontextmanager
async def client(served: Served, key: str = "", mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    transport = streamable_http_client(served.url + "/mcp", http_client=http)
    async with http, Client(transport, mode=mode) as opened:
        yield opened


def result(called: CallToolResult) -> dict[str, Any]:
    """What a tool answered; both forms of it say the same."""
    assert not called.is_error, called.content
    (text,) = called.content
    assert isinstance(text, TextContent)
    found: dict[str, Any] = json.loads(text.text)
    assert called.structured_content == found
    return found


def words(called: CallToolResult) -> str:
    assert called.is_error
    (text,) = called.content
    assert isinstance(text, TextContent)
    return text.text


@pytest.mark.parametrize("mode", MODES)
async def test_without_keys_a_program_here_finds_and_reads(served: Served, mode: str) -> None:
    async with client(served, mode=mode) as mcp:
        tools = {tool.name: tool for tool in (await mcp.list_tools()).tools}
        assert set(tools) == {"search", "fetch", "add_document"}
        assert "Collections: blue, red." in (tools["search"].description or "")
        found = result(await mcp.call_tool("search", ASKED))["results"]
        assert {"Oskar", "Wilma"} <= {name for one in found for name in ("Oskar", "Wilma") if name in one["text"]}
        document = result(await mcp.call_tool("fetch", {"id": found[0]["id"]}))
        assert document["id"] == found[0]["id"]
        assert document["title"] == "Pumps"
        assert document["metadata"]["collection"] in TEXTS
        assert "next_start" not in document["metadata"]


async def test_a_document_is_found_once_whatever_passages_of_it_are(served: Served) -> None:
    async with client(served) as mcp:
        found = result(await mcp.call_tool("search", {"query": "When does a valve open?", "k": 5}))["results"]
    assert len({one["id"] for one in found}) == len(found)


async def test_a_long_document_is_read_in_pieces(served: Served) -> None:
    async with client(served) as mcp:
        found = result(await mcp.call_tool("search", {"query": "valve", "collections": ["red"]}))["results"]
        (id,) = {one["id"] for one in found if one["title"] == "Valves"}
        text, start = "", 0
        while start is not None:
            piece = result(await mcp.call_tool("fetch", {"id": id, "start": start}))
            text, start = text + piece["text"], piece["metadata"].get("next_start")
    assert text.strip() == ("# Valves\n\n" + "A valve opens and closes. " * 8000).strip()


@pytest.mark.parametrize(
    ("tool", "asked", "said"),
    [
        ("search", {}, "'query' must be text"),
        ("search", {"query": "x", "k": 0}, "'k' must be a whole number from 1 to 100"),
        ("search", {"query": "x", "collection": "red"}, "There is no parameter 'collection' here"),
        ("search", {"query": "x", "collections": ["green"]}, "there is no collection 'green'; there are: blue, red"),
        ("fetch", {"id": "nowhere"}, "there is no document 'nowhere'"),
        ("fetch", {"id": "nowhere", "start": -1}, "'start' must be a whole number from 0 up"),
    ],
)
async def test_what_cannot_be_asked_is_told_to_the_model(
    served: Served, tool: str, asked: dict[str, Any], said: str
) -> None:
    async with client(served) as mcp:
        assert said in words(await mcp.call_tool(tool, asked))


async def test_an_unknown_tool_is_an_error_of_the_protocol(served: Served) -> None:
    async with client(served) as mcp:
        with pytest.raises(MCPError, match="there are search, fetch and add_document"):
            await mcp.call_tool("delete", {})


def test_only_post_is_taken(served: Served) -> None:
    answer = httpx.get(served.url + "/mcp", timeout=30)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


def test_a_web_page_cannot_call_it(served: Served) -> None:
    answer = httpx.post(served.url + "/mcp", json={}, headers={"origin": "https://evil.example"}, timeout=30)
    assert answer.status_code == 403


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_finds_and_reads_what_it_may_and_the_rest_does_not_exist(
    served: Served, keys: dict[str, str], mode: str
) -> None:
    async with client(served, keys["red"], mode) as mcp:
        assert "Collections: red." in ((await mcp.list_tools()).tools[0].description or "")
        found = result(await mcp.call_tool("search", ASKED))["results"]
        assert "Oskar" in str(found)
        assert "Wilma" not in str(found)
    async with client(served, keys["blue"], mode) as mcp:
        assert "Wilma" in str(result(await mcp.call_tool("search", ASKED)))
        foreign = words(await mcp.call_tool("fetch", {"id": found[0]["id"]}))
        absent = words(await mcp.call_tool("fetch", {"id": "0" * 32}))
        assert foreign.replace(found[0]["id"], "0" * 32) == absent
        named = words(await mcp.call_tool("search", {**ASKED, "collections": ["red"]}))
        assert named == words(await mcp.call_tool("search", {**ASKED, "collections": ["not"]})).replace("not", "red")
    async with client(served, keys["none"], mode) as mcp:
        assert "there are: none yet" in words(await mcp.call_tool("search", ASKED))


def test_without_a_key_nothing_is_answered_once_there_are_keys(served: Served, keys: dict[str, str]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for headers in ({}, {"authorization": "Bearer sk-rag-guessed"}):
        answer = httpx.post(served.url + "/mcp", json=body, headers=headers, timeout=30)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"


def documented_files() -> dict[str, str]:
    """Transport -> the file of docs/use/clients.md for client programs."""
    found = re.findall(r"^```json\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return {"http" if "url" in text else "stdio": text for text in found}


def documented() -> dict[str, dict[str, Any]]:
    """Transport -> the server in the file of docs/use/clients.md."""
    return {how: json.loads(text)["mcpServers"]["documents"] for how, text in documented_files().items()}


@pytest.mark.skipif(not FASTMCP.exists(), reason="FastMCP is not installed: `make test-all` installs the program")
@pytest.mark.parametrize("how", ["http", "stdio"])
def test_a_client_program_reads_the_documented_file(
    how: str, served: Served, keys: dict[str, str], tmp_path: Path
) -> None:
    """FastMCP's command line, with the file as documented but for the key and the places."""
    command = tmp_path / "ragway"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m cli "$@"\n')
    command.chmod(0o755)
    text = documented_files()[how]
    places = {"http://127.0.0.1:8000": served.url, "/srv/ragway/data": str(served.data), '"ragway"': f'"{command}"'}
    for before, after in {**places, "sk-rag-...": keys["red"]}.items():
        text = text.replace(before, after)
    file = tmp_path / "mcp.json"
    file.write_text(text)
    environ = environment({"FASTMCP_CHECK_FOR_UPDATES": "off", "NO_COLOR": "1"})
    asked: list[str | Path] = [FASTMCP, "call", file, "search", f"query={ASKED['query']}", "--json"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=100, env=environ)
    assert done.returncode == 0, done.stderr
    assert "Oskar" in done.stdout
    assert "Wilma" not in done.stdout


async def test_the_documented_server_over_http_is_this_one(served: Served, keys: dict[str, str]) -> None:
    told = documented()["http"]
    headers = {name: value.replace("sk-rag-...", keys["red"]) for name, value in told["headers"].items()}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    url = told["url"].replace("http://127.0.0.1:8000", served.url)
    async with http, Client(streamable_http_client(url, http_client=http)) as mcp:
        assert "Oskar" in str(result(await mcp.call_tool("search", ASKED)))


async def test_on_stdio_a_key_finds_what_it_may(served: Served, keys: dict[str, str], shelf: Path) -> None:
    (shelf / "ragway.yaml").write_text(SETTINGS)
    told = documented()["stdio"]
    assert (told["command"], told["env"]) == ("ragway", {KEY: "sk-rag-..."})
    words = [word.replace("/srv/ragway/data", str(served.data)) for word in told["args"]]
    process = StdioServerParameters(
        command=sys.executable, args=["-m", "cli", *words], cwd=str(shelf), env=environment({KEY: keys["blue"]})
    )
    async with Client(stdio_client(process)) as mcp:
        found = str(result(await mcp.call_tool("search", ASKED)))
        assert "Wilma" in found
        assert "Oskar" not in found


def test_on_stdio_a_missing_key_is_told_at_once(served: Served, keys: dict[str, str], shelf: Path) -> None:
    done = ragway("mcp", "--data", str(served.data), folder=shelf)
    assert done.returncode == 1
    assert f"set {KEY}" in done.stderr
    assert not done.stdout


def test_on_stdio_keys_in_postgresql_are_asked_for_too(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.database()
    with closing(SqlAccounts(tmp_path, url)) as accounts:
        accounts.create("team", Rights(read=Names(["red"])))
    done = ragway("mcp", "--data", str(tmp_path), folder=tmp_path, environ={"RAGWAY_CATALOG__URL": url})
    assert f"set {KEY}" in refused(done)
