"""The models for the official SDK: the list of all that a caller may call, and a single model by any of its names."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from cli.assembly.gateway import gateway
from cli.assembly.stores import accounts
from config.settings import load
from proxy.api.models import Models
from proxy.asgi import Receive, Scope, Send, send_json
from proxy.caller import EVERYTHING, Names, Rights
from proxy.dialects.errors import ApiError
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.upstream.routes import Routes
from retrieval.errors import IndexDown
from retrieval.knowledge import Knowledge
from retrieval.records.documents import CollectionInfo
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


async def no_collections(_names: Sequence[str], _rights: Rights) -> None:
    raise AssertionError("the test names no collection")


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
async def serving(
    tmp_path: Path,
    models: str,
    *,
    grants: Sequence[Sequence[str]] = (),
    knowledge: Knowledge | None = None,
    settings: str = "",
) -> AsyncIterator[Client]:
    """Clients of a gateway with these models: one for each grant, which has a key of its own; else one without keys.

    A key may read the collection `docs`. settings: more settings, in YAML.
    """
    file = tmp_path / "ragway.yaml"
    file.write_text(f"{{data: {tmp_path / 'data'}, models: {models}{settings}}}", "utf-8")
    loaded = load(file=file, environ={})
    secrets = {
        tuple(names): accounts(loaded).create(
            " ".join(names), rights=Rights(read=Names(["docs"]), models=Names(names))
        )[1]
        for names in grants
    }
    built = gateway(loaded, knowledge or Unasked(), ready=lambda: "", environ={})
    built.keyring.refresh()

    def client(*names: str) -> openai.AsyncOpenAI:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(built.app))
        key = secrets.get(names, "any")
        return openai.AsyncOpenAI(base_url="http://localhost/v1", api_key=key, http_client=http, max_retries=0)

    try:
        yield client
    finally:
        built.ways.client.close()


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
    ("script", "status"),
    [
        (_closes, 502), (says(b"{}"), 502), (says(b"[]"), 502), (says(b"no JSON"), 502), (says(b'{"data": {}}'), 502),
        (says(b'{"data": [7, {"id": 1}]}'), 404), (says(b'{"data": null}'), 404), (says(b"{}", b"404 Not Found"), 404),
        (says(b'{"data": ["' + b"x" * (5 << 20) + b'"]}'), 502), (says(b"{}", b"401 Unauthorized"), 502),
        (says(b"{}", b"429 Too Many Requests"), 502), (says(b"{}", b"500 Internal Server Error"), 502),
    ],
)  # fmt: skip
async def test_without_a_list_only_names_of_ours_are_known_and_a_failure_is_no_404(
    tmp_path: Path, script: Script, status: int
) -> None:
    async with upstream(script) as server, serving(tmp_path, BESIDE.format(url=server.url)) as to:
        assert await listed(to()) == ["fast", "house"]
        for name in ("fast", "house"):
            assert (await to().models.retrieve(name)).id == name
        with pytest.raises(openai.APIStatusError) as caught:
            await to().models.retrieve("gpt-4o")
        assert caught.value.status_code == status
        assert caught.value.code == ("model_not_found" if status == 404 else "upstream_error")


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
    models = Models(Routes({"own": row, "*": row}), silent, no_collections, within_s=0.05)
    scope = scope_of("/v1/models", method="GET", exchange=Exchange(rights=EVERYTHING))
    call = await Call([b""]).to(models.list, scope)
    assert [each["id"] for each in json.loads(call.body)["data"]] == ["own"]
    assert left.is_set()


@pytest.mark.parametrize(("passes", "sent"), [(True, [b"Bearer sk-mine", b"2023-06-01"]), (False, [b"2023-06-01"])])
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
        headers=[(b"authorization", b"Bearer sk-mine"), (b"cookie", b"a=b"), (b"anthropic-version", b"2023-06-01")],
    )
    await Call([b""]).to(Models(Routes({"own": row, "*": row}), noting, no_collections).list, scope)
    assert seen == sent


# A single model

OWN = b'{ "id": "gpt-4o",\r\n "object":"model", "created": 1.70e9, "owned_by": "them", "context\\u005flength": 128000 }'
NOT_FOUND = reply(b'{"error": {"code": "model_not_found"}}', status=b"404 Not Found")


class Shop:
    """An upstream with a reply for each path, 404 for other paths, and a record of the request lines."""

    def __init__(self, **replies: bytes) -> None:
        """replies: name below /v1 -> body."""
        self._replies = {f"/v1/{path}".encode(): reply(body) for path, body in replies.items()}
        self.asked: list[bytes] = []

    def at(self, path: bytes, body: bytes) -> "Shop":
        self._replies[path] = reply(body)
        return self

    async def script(self, wire: Wire) -> None:
        while True:
            received = await wire.request()
            self.asked.append(received.line)
            await wire.send(self._replies.get(received.line.split()[1], NOT_FOUND))


ONE = '{{"*": {{api_base: "{url}/v1"}}}}'
NAMED = """
  {{gpt-4o: {{api_base: "{url}/v1"}}, fast: {{model: gpt-4o, api_base: "{url}/v1"}},
    bare: {{api_base: "{url}/v1"}}, claude: {{model: anthropic/claude-x, lane: translated}}, e: {{lane: echo}}}}
"""


@pytest.mark.parametrize("models", [ONE, NAMED])
async def test_the_upstreams_own_object_comes_byte_for_byte(tmp_path: Path, models: str) -> None:
    shop = Shop(models=LIST).at(b"/v1/models/gpt-4o", OWN)
    async with upstream(shop.script) as server, serving(tmp_path, models.format(url=server.url)) as to:
        told = await to().models.with_raw_response.retrieve("gpt-4o")
        assert told.content == OWN
        assert told.parse().owned_by == "them"
        assert shop.asked == [b"GET /v1/models/gpt-4o HTTP/1.1"]


async def test_another_name_of_a_model_has_the_upstreams_object_under_this_name(tmp_path: Path) -> None:
    shop = Shop().at(b"/v1/models/gpt-4o", OWN)
    async with upstream(shop.script) as server, serving(tmp_path, NAMED.format(url=server.url)) as to:
        for name in ("fast", "raw/gpt-4o", "raw/fast"):
            assert json.loads((await to().models.with_raw_response.retrieve(name)).content) == {
                **json.loads(OWN),
                "id": name,
            }


async def test_a_named_model_without_an_object_is_described(tmp_path: Path) -> None:
    async with upstream(Shop().script) as server, serving(tmp_path, NAMED.format(url=server.url)) as to:
        for name in ("bare", "claude", "e", "raw/e"):
            told = await to().models.retrieve(name)
            assert (told.id, told.object, told.owned_by) == (name, "model", "ragway")


@pytest.mark.parametrize("spelling", ["org/llama", "org%2Fllama", "org%2fllama"])
@pytest.mark.parametrize("single", [True, False])
async def test_a_name_with_a_slash_is_one_name_at_the_upstream(tmp_path: Path, spelling: str, single: bool) -> None:
    own = b'{"id": "org/llama", "owned_by": "them"}'
    shop = Shop(models=LIST) if not single else Shop().at(b"/v1/models/org%2Fllama", own)
    async with upstream(shop.script) as server, serving(tmp_path, ONE.format(url=server.url)) as to:
        told = await to()._client.get(f"http://localhost/v1/models/{spelling}")
        assert (told.status_code, told.json()["id"], told.json()["owned_by"]) == (200, "org/llama", "them")
        assert shop.asked[0] == b"GET /v1/models/org%2Fllama HTTP/1.1"


@pytest.mark.parametrize("name", ["nope", "org/nope", "gpt-4", "gpt-4o/x", "gpt-4o?x=1", "é", "a\\b", "x" * 5000])
@pytest.mark.parametrize("shop", [Shop(models=LIST), Shop().at(b"/v1/models/gpt-4o", OWN)])
async def test_a_name_that_the_upstream_does_not_know_is_a_404(tmp_path: Path, name: str, shop: Shop) -> None:
    shop.asked.clear()
    async with upstream(shop.script) as server, serving(tmp_path, ONE.format(url=server.url)) as to:
        with pytest.raises(openai.NotFoundError) as caught:
            await to().models.retrieve(name)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
        assert caught.value.response.headers["x-rag-patterns"] == "*"
        assert all(line.startswith(b"GET /v1/models") for line in shop.asked)


async def test_a_dead_upstream_is_no_missing_model(tmp_path: Path) -> None:
    models = '{"*": {api_base: "http://127.0.0.1:1/v1"}, mine: {api_base: "http://127.0.0.1:1/v1"}}'
    async with serving(tmp_path, models) as to:
        with pytest.raises(openai.InternalServerError, match="upstream_unreachable") as caught:
            await to().models.retrieve("gpt-4o")
        assert caught.value.status_code == 502
        assert (await to().models.retrieve("mine")).owned_by == "ragway"


async def test_a_silent_upstream_is_a_504() -> None:
    async def silent(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await asyncio.Event().wait()

    models = Models(Routes({"*": Target("", "relay", "http://a/v1", "")}), silent, no_collections, within_s=0.05)
    scope = scope_of("/v1/models/m", method="GET", exchange=Exchange(rights=EVERYTHING))
    with pytest.raises(ApiError) as caught:
        await Call([b""]).to(models.one, {**scope, "path_params": {"name": "m"}})
    assert (caught.value.status, caught.value.code) == (504, "upstream_timeout")


async def test_a_model_that_a_key_may_not_call_is_not_looked_up(tmp_path: Path) -> None:
    shop = Shop(models=LIST).at(b"/v1/models/gpt-4o", OWN)
    async with (
        upstream(shop.script) as server,
        serving(tmp_path, ONE.format(url=server.url), grants=[["gpt-4o-*"]]) as to,
    ):
        for name in ("gpt-4o", "raw/gpt-4o", "rag/docs/gpt-4o", "nope"):
            with pytest.raises(openai.NotFoundError) as caught:
                await to("gpt-4o-*").models.retrieve(name)
            assert caught.value.code == "model_not_found"
        assert not shop.asked


class Library(Unasked):
    """Has the collections `docs` and `hr`, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure

    async def collections(self, _groups: Sequence[str] | None) -> list[CollectionInfo]:
        if self._failure is not None:
            raise self._failure
        return [CollectionInfo(name, 1, 1, "hash", 0.0) for name in ("docs", "hr")]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("rag/docs/gpt-4o", True), ("rag/docs,docs/gpt-4o", True), ("rag/none/gpt-4o", False),
        ("rag/docs,none/gpt-4o", False), ("rag/hr/gpt-4o", False),
    ],
)  # fmt: skip
async def test_the_collection_of_a_name_must_be_one_that_the_key_reads(tmp_path: Path, name: str, found: bool) -> None:
    shop = Shop().at(b"/v1/models/gpt-4o", OWN)
    async with (
        upstream(shop.script) as server,
        serving(tmp_path, ONE.format(url=server.url), grants=[["*"]], knowledge=Library()) as to,
    ):
        if found:
            assert (await to("*").models.retrieve(name)).id == name
            return
        with pytest.raises(openai.NotFoundError) as caught:
            await to("*").models.retrieve(name)
        assert (caught.value.code, caught.value.param) == ("collection_not_found", "collection")
        assert "there are: docs" in caught.value.message
        assert not shop.asked


async def test_a_collection_that_cannot_be_looked_up_is_a_503(tmp_path: Path) -> None:
    shop = Shop().at(b"/v1/models/gpt-4o", OWN)
    async with upstream(shop.script) as server:
        models = ONE.format(url=server.url)
        async with serving(tmp_path, models, knowledge=Library(IndexDown("down"))) as to:
            with pytest.raises(openai.InternalServerError) as caught:
                await to().models.retrieve("rag/docs/gpt-4o")
            assert caught.value.status_code == 503
        async with serving(tmp_path, models, settings=", retrieval: {enabled: false}") as to:  # as for a chat
            assert (await to().models.retrieve("rag/docs/gpt-4o")).id == "rag/docs/gpt-4o"


@pytest.mark.parametrize(
    ("grant", "of_list", "of_names"),
    [
        (["*"], "gpt-*, *", {"gpt-4o": "gpt-*", "house": "*", "mine": ""}),
        (["gpt-4o*"], "gpt-*, *", {"gpt-4o": "gpt-*"}),
        (["h*"], "*", {"house": "*"}),
        (["mine", "house"], "", {"mine": "", "house": "*"}),
    ],
)
async def test_the_patterns_of_an_answer_are_named(
    tmp_path: Path, grant: list[str], of_list: str, of_names: dict[str, str]
) -> None:
    async with upstream(says(LIST)) as server:
        row = f'{{api_base: "{server.url}/v1"}}'
        async with serving(tmp_path, f'{{"*": {row}, "gpt-*": {row}, mine: {row}}}', grants=[grant]) as to:
            told = await to(*grant).models.with_raw_response.list()
            assert told.headers.get("x-rag-patterns", "") == of_list
            for name, pattern in of_names.items():
                one = await to(*grant).models.with_raw_response.retrieve(name)
                assert one.headers.get("x-rag-patterns", "") == pattern


async def test_a_head_request_asks_the_upstream_by_get(tmp_path: Path) -> None:
    shop = Shop(models=LIST).at(b"/v1/models/gpt-4o", OWN)
    async with upstream(shop.script) as server, serving(tmp_path, ONE.format(url=server.url)) as to:
        for path in ("/models", "/models/gpt-4o"):
            assert (await to()._client.head(f"http://localhost/v1{path}")).status_code == 200
        assert all(line.startswith(b"GET ") for line in shop.asked)
