"""The list of models: what each caller may call, merged, for the official SDK; and every name of it is there alone."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from cli.build import accounts, gateway
from config.settings import load
from proxy.access.rights import EVERYTHING, Names, Rights
from proxy.api.models import Models
from proxy.asgi import Receive, Scope, Send, send_json
from proxy.exchange import Exchange, Target
from proxy.upstream.routes import Routes
from tests.support.asgi_calls import Call, scope_of
from tests.support.unasked import Unasked
from tests.support.upstream_servers import Wire, reply, upstream

THEIRS = [
    {"id": "gpt-4o", "object": "model", "created": 1_700_000_000, "owned_by": "them", "context_length": 128_000},
    {"id": "gpt-4o-mini", "object": "model", "created": 1_700_000_001, "owned_by": "them"},
    {"id": "house", "object": "model", "created": 1, "owned_by": "them"},
    {"id": "org/llama", "object": "model", "created": 1, "owned_by": "them"},
    {"id": "org/llama", "object": "model", "created": 2, "owned_by": "them"},
]
LIST = json.dumps({"object": "list", "data": THEIRS, "odd": 1}).encode()
Script = Callable[[Wire], Any]
Client = Callable[..., openai.AsyncOpenAI]


def says(body: bytes, status: bytes = b"200 OK") -> Script:
    async def script(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(reply(body, b"content-type: application/json", status=status))

    return script


async def _closes(wire: Wire) -> None:
    await wire.request()
    await wire.close()


@asynccontextmanager
async def serving(tmp_path: Path, models: str, *, grants: Sequence[Sequence[str]] = ()) -> AsyncIterator[Client]:
    """Clients of a gateway with these models: one for each grant, which has a key of its own; else one without keys."""
    file = tmp_path / "ragway.yaml"
    file.write_text(f"{{data: {tmp_path / 'data'}, models: {models}}}", "utf-8")
    settings = load(file=file, environ={})
    secrets = {
        tuple(names): accounts(settings).create(" ".join(names), rights=Rights(models=Names(names)))[1]
        for names in grants
    }
    built = gateway(settings, Unasked(), ready=lambda: "", environ={})
    built.keyring.refresh()

    def client(*names: str) -> openai.AsyncOpenAI:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(built.app))
        key = secrets.get(names, "any")
        return openai.AsyncOpenAI(base_url="http://localhost/v1", api_key=key, http_client=http, max_retries=0)

    try:
        yield client
    finally:
        built.client.close()


async def listed(client: openai.AsyncOpenAI) -> list[str]:
    return [model.id async for model in client.models.list()]


async def agreed(client: openai.AsyncOpenAI, *others: str) -> list[str]:
    """The names listed: no name twice, each of them is there by its name, and none of the others."""
    names = await listed(client)
    assert len(set(names)) == len(names)
    for name in names:
        assert (await client.models.retrieve(name)).id == name
    for name in {*others, "none", "gpt-4o-min"} - set(names):
        with pytest.raises(openai.NotFoundError) as caught:
            await client.models.retrieve(name)
        assert caught.value.code == "model_not_found"
    return names


ALL = ["gpt-4o", "gpt-4o-mini", "house", "org/llama"]
BESIDE = """
  {{house: {{model: llama, api_base: "{url}/v1"}}, fast: {{model: gpt-4o-mini, api_base: "{url}/v1"}},
    "*": {{api_base: "{url}/v1"}}}}
"""
LONE = '{{"*": {{api_base: "{url}/v1"}}}}'


@pytest.mark.parametrize("models", [LONE, BESIDE])
@pytest.mark.parametrize(
    ("grant", "of_lone", "of_beside"),
    [
        (["gpt-4o"], ["gpt-4o"], ["gpt-4o"]),
        (["private"], ["private"], ["private"]),  # granted by name: the upstream may serve more than it lists
        (["house"], ["house"], ["house"]),
        (["fast"], ["fast"], ["fast"]),
        (["gpt-4o*"], ["gpt-4o", "gpt-4o-mini"], ["gpt-4o", "gpt-4o-mini"]),
        (["gpt-4o*", "house"], ["house", "gpt-4o", "gpt-4o-mini"], ["house", "gpt-4o", "gpt-4o-mini"]),
        (["*"], [*ALL, "org/llama"], ["fast", "house", "gpt-4o", "gpt-4o-mini", "org/llama"]),
        (["*", "private"], ["private", *ALL], ["fast", "house", "private", "gpt-4o", "gpt-4o-mini", "org/llama"]),
        (["none-*"], [], []),
    ],
)
async def test_a_key_sees_what_it_may_call_and_nothing_else(
    tmp_path: Path, models: str, grant: list[str], of_lone: list[str], of_beside: list[str]
) -> None:
    async with upstream(says(LIST)) as server, serving(tmp_path, models.format(url=server.url), grants=[grant]) as to:
        if grant == ["*"] and models is LONE:  # the upstream's own list, as it comes
            assert await listed(to(*grant)) == of_lone
        else:
            names = of_lone if models is LONE else of_beside
            assert await agreed(to(*grant), "fast", "private", *ALL) == names


async def test_without_keys_everything_is_listed(tmp_path: Path) -> None:
    async with upstream(says(LIST)) as server, serving(tmp_path, BESIDE.format(url=server.url)) as to:
        assert await agreed(to()) == ["fast", "house", "gpt-4o", "gpt-4o-mini", "org/llama"]
        assert (await to().models.retrieve("gpt-4o")).model_dump() == THEIRS[0], "as its upstream describes it"
        assert (await to().models.retrieve("house")).owned_by == "ragway"


async def test_all_of_one_upstream_comes_as_it_tells_it(tmp_path: Path) -> None:
    refusal = b'{"error": {"message": "no", "code": "odd"}}'
    async with upstream(says(LIST)) as server, serving(tmp_path, LONE.format(url=server.url)) as to:
        assert (await to().models.with_raw_response.list()).content == LIST
    async with (
        upstream(says(refusal, b"401 Unauthorized")) as server,
        serving(tmp_path, LONE.format(url=server.url)) as to,
    ):
        with pytest.raises(openai.AuthenticationError) as caught:
            await listed(to())
        assert caught.value.response.content == refusal


async def test_each_pattern_lists_what_goes_there(tmp_path: Path) -> None:
    other = says(b'{"data": [{"id": "gpt-9"}, {"id": "gpt-4o"}, {"id": "house"}]}')
    async with upstream(says(LIST)) as one, upstream(other) as two:
        models = f'{{"gpt-*": {{api_base: "{two.url}/v1"}}, "*": {{api_base: "{one.url}/v1"}}}}'
        async with serving(tmp_path, models) as to:
            assert await agreed(to()) == ["gpt-9", "gpt-4o", "house", "org/llama"]
            assert not (await to().models.retrieve("gpt-4o")).model_dump().get("context_length")


@pytest.mark.parametrize(
    ("models", "names"),
    [
        ("{}", ["echo"]),
        ('{"*": {lane: echo}, a: {lane: echo}}', ["a", "echo"]),
        ('{"e*": {lane: echo}}', ["echo"]),
        ('{"test-*": {lane: echo}}', []),
        ('{"*": {model: llama, api_base: "http://127.0.0.1:1/v1"}}', ["llama"]),
        ('{"local/*": {model: llama, api_base: "http://127.0.0.1:1/v1"}}', []),
    ],
)
async def test_what_stands_for_a_pattern_is_listed(tmp_path: Path, models: str, names: list[str]) -> None:
    async with serving(tmp_path, models) as to:
        assert await agreed(to(), "echo", "llama") == names


@pytest.mark.parametrize(
    "script",
    [
        _closes, says(b"{}"), says(b"[]"), says(b"no JSON"), says(b'{"data": {}}'), says(b'{"data": [7, {"id": 1}]}'),
        says(b'{"data": null}'), says(b"{}", b"404 Not Found"), says(b'{"data": ["' + b"x" * (5 << 20) + b'"]}'),
    ],
)  # fmt: skip
async def test_an_upstream_that_gives_no_list_hides_no_name_of_ours(tmp_path: Path, script: Script) -> None:
    async with upstream(script) as server, serving(tmp_path, BESIDE.format(url=server.url)) as to:
        assert await agreed(to(), "gpt-4o") == ["fast", "house"]


async def test_a_key_that_sees_nothing_because_its_upstream_is_away_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, '{"*": {api_base: "http://127.0.0.1:1/v1"}}', grants=[["gpt-*"]]) as to:
        with pytest.raises(openai.InternalServerError, match="upstream_unreachable"):
            await listed(to("gpt-*"))


async def test_an_upstream_that_says_nothing_is_waited_for_within_limits() -> None:
    left = asyncio.Event()

    async def silent(_scope: Scope, _receive: Receive, _send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    row = Target("", "relay", "http://a/v1", "key")
    models = Models(Routes({"own": row, "*": row}), silent, within_s=0.05)
    scope = scope_of("/v1/models", method="GET", exchange=Exchange(rights=EVERYTHING))
    call = await Call([b""]).to(models.list, scope)
    assert [each["id"] for each in json.loads(call.body)["data"]] == ["own"]
    assert left.is_set()


@pytest.mark.parametrize(("passes", "sent"), [(True, [b"Bearer sk-mine"]), (False, [])])
async def test_only_an_upstream_that_takes_the_clients_key_sees_it(passes: bool, sent: list[bytes]) -> None:
    seen: list[bytes] = []

    async def noting(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.extend(value for _, value in scope["headers"])
        await send_json(send, 200, LIST)

    row = Target("", "relay", "http://a/v1", "", key_of_client=passes)
    scope = scope_of(
        "/v1/models",
        method="GET",
        exchange=Exchange(rights=EVERYTHING),
        headers=[(b"authorization", b"Bearer sk-mine"), (b"cookie", b"a=b")],
    )
    await Call([b""]).to(Models(Routes({"own": row, "*": row}), noting).list, scope)
    assert seen == sent
