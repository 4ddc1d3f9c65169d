"""The tools of MCP servers as operations: listed, called, and costing their calls alone; over HTTP and on stdio."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from proxy.agent.tools.operation_tool import OperationTool
from proxy.apis.call import Api, CallLimits, CallResult, call, send
from proxy.apis.mcp.lines import Lines, LongLine
from proxy.apis.mcp.results import content_of
from proxy.apis.mcp.server import McpServer
from proxy.apis.openapi.operation import CallPolicy, Operation
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.specs import ReadDocument, read_document
from tests.proxy.apis.calling import LOOPBACK, accepts, bearer
from tests.support.api_server import ApiRequest, Reply, api_server
from tests.support.mcp_servers import COMMAND, HOSTILE, ROOT, growing, many_tools, over_http, tool_server

LIMITS = CallLimits(seconds=20.0, pause_s=0.3)
TRUSTING = CallPolicy(trust_hints=True)
LISTED: dict[str, Operation] = {}
STDIO_ENV = {"PYTHONPATH": str(ROOT)}


@contextlib.asynccontextmanager
async def served(kind: str, policy: CallPolicy = TRUSTING, **more: Any) -> AsyncIterator[Api]:
    """The tool server as an API. kind: stdio, json, events, or legacy (events)."""
    if kind == "stdio":
        api = Api("box", "stdio://box", policy=policy, tools=McpServer(COMMAND, STDIO_ENV), **more)
        async with closing(api):
            yield api
        return
    async with over_http(tool_server(), legacy=kind == "legacy", json_response=kind == "json") as url:
        api = Api("box", url, policy=policy, networks=LOOPBACK, tools=McpServer(), **more)
        async with closing(api):
            yield api


@contextlib.asynccontextmanager
async def closing(api: Api) -> AsyncIterator[Api]:
    try:
        yield api
    finally:
        await api.close()


def unlisted(url: str) -> contextlib.AbstractAsyncContextManager[Api]:
    return closing(Api("box", url, policy=TRUSTING, networks=LOOPBACK, tools=McpServer()))


async def document(api: Api) -> ReadDocument:
    assert isinstance(api.tools, McpServer)
    return read_document(await api.tools.listing(api))


async def operations(api: Api) -> dict[str, Operation]:
    """The operations of the tool server, which are listed once."""
    if not LISTED:
        LISTED.update({one.name: one for one in (await document(api)).operations})
    return LISTED


async def called(api: Api, name: str, limits: CallLimits = LIMITS, **arguments: Any) -> CallResult:
    return await call(api, (await operations(api))[name], arguments, limits)


KINDS = ["stdio", "json", "events", "legacy"]


@pytest.mark.parametrize("kind", KINDS)
async def test_tools_are_listed_and_called(kind: str) -> None:
    async with served(kind) as api:
        read = await document(api)
        assert read.title == "Toolbox"
        assert read.document["info"]["description"] == "Sums, forecasts and faults."  # type: ignore[index]
        tools = {one.name: one for one in read.operations}
        assert not read.uncallable
        assert tools["add"].schema["required"] == ["a", "b"]
        assert tools["add"].names == ("add", "add", "MCP add")

        result = await call(api, tools["add"], {"a": 2, "b": 40}, LIMITS)
        assert (result.text, result.word, result.status, result.sent) == ("42", "ok", 200, True)
        result = await call(api, tools["forecast"], {"city": "Bonn"}, replace(LIMITS, max_chars=400))
        assert '"city":"Bonn"' in result.text
        assert "more" in result.text
        assert json.loads(result.whole)["days"][199] == {"day": 199, "celsius": 219}
        result = await call(api, tools["picture"], {}, LIMITS)
        assert result.text == "(image: image/png, 3,004 bytes)"
        result = await call(api, tools["fail"], {}, LIMITS)
        assert (result.word, result.status) == ("api_error", 500)
        assert "the printer is on fire" in result.text
        result = await call(api, tools["ask_model"], {}, LIMITS)
        assert result.text.startswith("refused")
        result = await call(api, tools["add"], {"a": "x"}, LIMITS)
        assert result.word == "api_error", "the server checks arguments, too"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_that_hangs_costs_its_call_alone(kind: str) -> None:
    async with served(kind) as api:
        tools = await operations(api)
        assert (await call(api, tools["add"], {"a": 1, "b": 1}, LIMITS)).text == "2"
        hanging = [call(api, tools["hang"], {}, replace(LIMITS, seconds=1.0)) for _ in range(3)]
        *hung, other = await asyncio.gather(*hanging, call(api, tools["add"], {"a": 2, "b": 2}, LIMITS))
        assert [one.word for one in hung] == ["timeout"] * 3
        assert other.text == "4"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_of_100_mb_costs_its_call_alone(kind: str) -> None:
    async with served(kind) as api:
        tools = await operations(api)
        await call(api, tools["add"], {"a": 1, "b": 1}, LIMITS)
        result = await call(api, tools["huge"], {"megabytes": 100}, LIMITS)
        assert result.word == "failed"
        assert "larger than 1,048,576 bytes" in result.text
        assert (await call(api, tools["add"], {"a": 1, "b": 1}, LIMITS)).text == "2"


async def test_a_server_that_dies_is_started_again() -> None:
    async with served("stdio") as api:
        tools = await operations(api)
        result = await call(api, tools["leave"], {}, LIMITS)
        assert (result.word, result.text) == ("failed", "The call failed: the server ended.")
        await asyncio.sleep(1)  # the pause before it is started again
        assert (await call(api, tools["add"], {"a": 1, "b": 1}, LIMITS)).text == "2"


async def test_a_call_that_changes_something_is_sent_once_and_unknown_if_the_server_dies() -> None:
    async with served("stdio", CallPolicy(writes="auto")) as api:
        tools = await operations(api)
        result = await send(api, api.request(tools["note"], {"text": "milk"}), LIMITS)
        assert (result.word, result.text) == ("ok", "noted milk: 1 in all")
        result = await send(api, api.request(tools["leave"], {}), LIMITS)
        assert (result.word, result.sent) == ("unknown", True)
        await asyncio.sleep(1)
        result = await send(api, api.request(tools["note"], {"text": "milk"}), LIMITS)
        assert result.text == "noted milk: 1 in all", "a new process"


async def test_a_server_that_does_not_start_is_not_tried_at_once_again() -> None:
    async with closing(Api("box", "stdio://box", policy=TRUSTING, tools=McpServer(("/no/such/program",)))) as api:
        one = Operation(name="add", method="MCP", path="add", schema={"properties": {}}, read_only=True)
        began = time.monotonic()
        result = await call(api, one, {}, LIMITS)
        assert result.word == "failed"
        assert not result.sent
        assert "the server cannot be started (No such file or directory)" in result.text
        assert time.monotonic() - began < 10


async def test_a_child_process_gets_no_variable_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with served("stdio") as api:
        names = (await called(api, "variables")).text
    assert "PYTHONPATH" in names
    assert "OPENAI_API_KEY" not in names


async def test_the_end_of_a_session_ends_the_child_process() -> None:
    before = children()
    async with served("stdio") as api:
        await called(api, "add", a=1, b=1)
        assert children() - before
    assert not children() - before


def children() -> set[str]:
    """The processes of this one that run."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
            found |= {file.parent.name} if parent == str(os.getpid()) and state != "Z" else set()
    return found


async def test_thousands_of_tools_are_listed_page_by_page() -> None:
    async with over_http(many_tools(3_000, 250)) as url, unlisted(url) as api:
        read = await document(api)
    assert len(read.operations) == 3_000
    assert read.operations[2_999].schema["properties"] == {"order": {"$ref": "#/$defs/o"}}


async def followed(api: Api) -> AsyncIterator[bytes]:
    """The first two lists of the tools."""
    assert isinstance(api.tools, McpServer)
    listings = asyncio.Queue[bytes]()

    async def took(listing: bytes) -> bool:
        listings.put_nowait(listing)
        return True

    following = asyncio.create_task(api.tools.follow(api, took))
    yield await asyncio.wait_for(listings.get(), 15)
    yield await asyncio.wait_for(listings.get(), 15)
    following.cancel()


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_a_change_of_the_list_is_followed(kind: str) -> None:
    async with served(kind) as api:
        tools, lists = await operations(api), followed(api)
        assert b'"grown"' not in await anext(lists)
        assert (await call(api, tools["grow"], {}, LIMITS)).text == "grown"
        assert b'"grown"' in await anext(lists)
        assert [one async for one in lists] == []


async def test_a_change_that_an_older_server_tells_unasked_is_followed() -> None:
    async with over_http(growing(), legacy=True) as url, unlisted(url) as api:
        lists = [one async for one in followed(api)]
    assert [one.count(b'"tool_') for one in lists] == [1, 2]


async def test_hints_are_believed_only_if_the_owner_says_so() -> None:
    async with served("json") as api:
        tools = await operations(api)
        assert TRUSTING.mode_of(tools["note"]) == "auto"
        assert CallPolicy().mode_of(tools["note"]) == "refuse"
        assert CallPolicy(writes="confirm").mode_of(tools["note"]) == "confirm"
        assert CallPolicy(writes="confirm", reads=("add",)).mode_of(tools["add"]) == "auto"
        assert CallPolicy(trust_hints=True, confirm=("note",), writes="auto").mode_of(tools["note"]) == "confirm"
        cautious = replace(api, policy=CallPolicy())
        assert (await call(cautious, tools["add"], {"a": 1, "b": 1}, LIMITS)).word == "could_change"


async def test_a_description_cannot_pose_as_another_speaker() -> None:
    async with served("json") as api:
        tool = OperationTool((await operations(api))["add"], api)
        assert "<|im_start|>" in HOSTILE
        assert "<|im_start|>" not in tool.description
        assert "Ignore the user" in tool.description


def test_keys_share_a_process_and_no_session_over_http() -> None:
    for command in ((), COMMAND):
        first, other = (Api("box", "http://a.example", tools=McpServer(command)) for _ in range(2))
        own = other.tools
        other.share(first)
        assert other.tools is (first.tools if command else own)


async def test_a_long_result_is_cut_to_the_share_of_a_call() -> None:
    async with served("json") as api:
        tools = await operations(api)
        result = await call(api, tools["huge"], {"megabytes": 0}, LIMITS)
        assert result.text == "(empty)"
        result = await call(api, tools["forecast"], {"city": "Bonn"}, replace(LIMITS, max_bytes=100))
        assert result.text.startswith("(the first 100 bytes of a longer result)\n{")
        assert '"Bonn"' in result.text
        assert len(result.text) < 200


async def test_fixed_arguments_and_allowed_values_hold() -> None:
    policy = replace(TRUSTING, allowed={"a": ("1", "2")})
    async with served("json", policy, fixed={"b": 40}) as api:
        tools = await operations(api)
        assert api.schema_of(tools["add"])["properties"].keys() == {"a"}
        assert (await call(api, tools["add"], {"a": 2}, LIMITS)).text == "42"
        assert (await call(api, tools["add"], {"a": 3}, LIMITS)).word == "invalid_arguments"


# --- HTTP -------------------------------------------------------------------------------------------------------------


async def test_an_address_that_is_not_allowed_is_not_called() -> None:
    async with over_http(tool_server()) as url, closing(Api("box", url, tools=McpServer())) as api:
        with pytest.raises(UnreadableSpec, match=r"127.0.0.1 is not a public address"):
            await document(api)


async def test_credentials_are_sent_and_a_refusal_is_told() -> None:
    async def refuses(request: ApiRequest) -> Reply:
        return Reply(401, b"who are you", [("Content-Type", "text/plain")])

    async with api_server(refuses) as server:
        api = Api("box", f"{server.base_url}/mcp", bearer("s3cret-token"), networks=LOOPBACK, tools=McpServer())
        async with closing(api):
            with pytest.raises(UnreadableSpec, match="the server answered with status 401"):
                await document(api)
        assert {one.headers["authorization"] for one in server.requests} == {"Bearer s3cret-token"}


@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_to_another_server_is_not_followed(status: int) -> None:
    async with api_server(accepts) as other:

        async def redirects(_: ApiRequest) -> Reply:
            return Reply(status, headers=[("Location", f"{other.base_url}/mcp")])

        async with api_server(redirects) as server, unlisted(f"{server.base_url}/mcp") as api:
            with pytest.raises(UnreadableSpec, match="not followed"):
                await document(api)
        assert other.requests == []


REPLIES = {
    "no JSON": Reply(body=b"<html>", headers=[("Content-Type", "application/json")]),
    "another type": Reply(body=b"<html>", headers=[("Content-Type", "text/html")]),
    "no MCP": Reply(body=b'{"ok": true}', headers=[("Content-Type", "application/json")]),
    "cut off": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"),
    "no HTTP": Reply(raw=b"hello\r\n\r\n"),
    "no gzip": Reply(body=b"abc", headers=[("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip")]),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_what_does_not_speak_mcp_is_a_sentence(reply: Reply) -> None:
    async def answers(_: ApiRequest) -> Reply:
        return reply

    async with api_server(answers) as server, unlisted(f"{server.base_url}/mcp") as api:
        with pytest.raises(UnreadableSpec):
            await document(api)
        one = Operation(name="add", method="MCP", path="add", schema={"properties": {}}, read_only=True)
        assert (await call(api, one, {}, LIMITS)).word == "failed"


async def test_operations_of_http_and_tools_are_not_exchanged() -> None:
    get = Operation(name="get", method="GET", path="/x", schema={"properties": {}, "required": []})
    tool = Operation(name="t", method="MCP", path="t", schema={"properties": {}, "required": []}, read_only=True)
    plain, tools = Api("a", "http://a.example"), Api("a", "http://a.example", policy=TRUSTING, tools=McpServer())
    assert plain.why_not_called(get) == tools.why_not_called(tool) == ""
    assert tools.why_not_called(get) == "other_server"
    assert (await call(tools, get, {}, LIMITS)).word == "invalid_arguments"
    assert (await call(replace(plain, policy=TRUSTING), tool, {}, LIMITS)).word == "invalid_arguments"


# --- parts ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_lines_are_the_same_however_the_bytes_come(pieces: list[bytes], most: int) -> None:
    stream = b"".join(pieces)
    lines = Lines(most)
    found = [line for piece in pieces for line in lines.feed(piece)]
    wanted = stream.split(b"\n")[:-1]
    assert len(found) == len(wanted)
    for line, whole in zip(found, wanted, strict=True):
        if len(whole) <= most:
            assert line == whole
        else:
            assert isinstance(line, LongLine)
            assert whole.startswith(line.head)
            assert whole.endswith(line.tail)


def test_a_long_line_names_its_request() -> None:
    for line in (
        b'{"jsonrpc":"2.0","id":17,"result":{"x":"%s"}}',
        b'{"result":{"x":"%s","id":3},"jsonrpc":"2.0","id":17}',
    ):
        (found,) = Lines(50).feed(line % (b"y" * 500) + b"\n")
        assert isinstance(found, LongLine)
        assert found.id == 17
    (found,) = Lines(50).feed(b'{"method":"notifications/message","params":"%s","id":1}\n' % (b"y" * 500))
    assert isinstance(found, LongLine)
    assert found.id is None


TEXT = types.TextContent(type="text", text='{"n": 1}')
LINK = types.ResourceLink(type="resource_link", uri="file:///a.pdf", name="a", description="The plan")
BLOB = types.BlobResourceContents(uri="file:///b", blob="AAAA", mime_type="application/pdf")


@pytest.mark.parametrize(
    ("content", "structured", "wanted"),
    [
        ([TEXT], {"n": 1}, '{"n": 1}'),
        ([], {"n": 1}, '{"n":1}'),
        ([types.TextContent(type="text", text="one")], {"n": 1}, 'one\n{"n":1}'),
        ([types.TextContent(type="text", text="5")], {"result": 5}, "5"),
        ([types.TextContent(type="text", text="[1]")], {"rows": [1]}, "[1]"),
        ([types.AudioContent(type="audio", data="AAAA", mime_type="audio/wav")], None, "(audio: audio/wav, 3 bytes)"),
        ([LINK], None, "(resource file:///a.pdf: The plan)"),
        (
            [types.EmbeddedResource(type="resource", resource=BLOB)],
            None,
            "(resource file:///b: application/pdf, 3 bytes)",
        ),
        ([], None, ""),
    ],
)
def test_a_result_has_texts_and_names_other_content(content: list[Any], structured: Any, wanted: str) -> None:
    assert content_of(types.CallToolResult(content=content, structured_content=structured)).decode() == wanted


HOSTILE_SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}, "required": ["a"]},
    {"properties": 5},
    {"type": "object", "properties": {"a\n": {}}, "required": ["a\n"]},
    {"type": "object", "properties": {"a": {"enum": ["x" * 30_000]}}, "required": ["a"]},
]


def test_a_tool_with_a_fault_costs_this_tool_alone() -> None:
    tools = [{"name": f"bad_{at}", "schema": schema} for at, schema in enumerate(HOSTILE_SCHEMAS)]
    tools += [{"name": "good", "schema": {"type": "object", "properties": {"x": {"type": "strnig"}, "y z": {}}}}]
    tools += [{"name": "good", "schema": {}}, {"name": "größe/ändern", "schema": {}}]
    read = read_document(b'{"mcp":{"title":"T","description":""},"tools":' + json.dumps(tools).encode() + b"}")
    assert [one.name for one in read.operations] == ["good", "grosse_andern"]
    assert read.operations[0].schema["properties"].keys() == {"x"}
    assert len(read.uncallable) == len(HOSTILE_SCHEMAS) + 1
