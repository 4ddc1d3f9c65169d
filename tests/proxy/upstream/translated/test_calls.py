"""What litellm's clients may not do: no redirect is followed, nothing is asked twice, in whatever dialect."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from proxy.upstream.translated.calls import answered, asking_once, restrain
from tests.proxy.upstream.translated.provider_lane import (
    QUIET_PYDANTIC,
    keyless,
    raw_answer,
    serving,
    silent,
)
from tests.support.anthropic_server import Json, json_reply, scripted
from tests.support.upstream_servers import Upstream, Wire, head, reply, upstream

__all__ = ["keyless", "silent"]  # fixtures that every test here uses
pytestmark = QUIET_PYDANTIC

# A model of each of litellm's ways to a provider, and what `api_base` needs behind the address.
WAYS = {
    "openai/gpt-4o": "/v1",
    "nvidia_nim/model": "/v1",  # the openai client, to which litellm passes no number of retries
    "azure/deployment": "",
    "openai/responses/gpt-5": "/v1",
    "anthropic/claude-sonnet-4-5": "",
    "deepseek/deepseek-chat": "/v1",
    "groq/llama": "/v1",
    "gemini/gemini-2.0-flash": "",
    "cohere_chat/command-r": "/v2/chat",
    "ollama_chat/llama3": "",
    "bedrock/anthropic.claude-3-sonnet-20240229-v1:0": "",
    "aiohttp_openai/model": "/v1/chat/completions",
}
REDIRECTS = [301, 302, 303, 307, 308]
REASONS = {**dict.fromkeys(REDIRECTS, b"Moved"), 101: b"Switching Protocols", 204: b"No Content", 304: b"Not Modified"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "an-aws-credential")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")


@contextlib.asynccontextmanager
async def moved_to_a_trap(status: int) -> AsyncIterator[tuple[Upstream, Upstream]]:
    """An upstream that answers with a redirect to another port, and that port."""

    async def trapped(wire: Wire) -> None:
        await wire.request()

    async with upstream(trapped) as trap:

        async def move(wire: Wire) -> None:
            await wire.request()
            location = b"location: http://127.0.0.1:%d/a-secret-place" % trap.port
            await wire.send(reply(b"moved", location, status=b"%d %b" % (status, REASONS[status])))

        async with upstream(move) as moving:
            yield moving, trap


def error_in(answer: bytes) -> Json:
    error: Json = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    return error


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", REDIRECTS)
@pytest.mark.parametrize("model", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5", "deepseek/deepseek-chat"])
async def test_a_redirect_is_told_and_not_followed(model: str, status: int, stream: bool) -> None:
    async with moved_to_a_trap(status) as (moving, trap), serving(moving.url + WAYS[model], model) as gateway:
        answer = await raw_answer(gateway, {"stream": stream})
    assert (len(moving.requests), trap.connections) == (1, 0)
    assert answer.startswith(b"HTTP/1.1 502 ")
    error = error_in(answer)
    assert (error["type"], error["code"]) == ("upstream_error", "upstream_redirect")
    assert f"{status}, a redirect, and redirects are not followed" in error["message"]
    assert b"a-secret-place" not in answer
    assert b"location" not in answer.lower()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", WAYS)
async def test_no_way_to_a_provider_follows_one(model: str, stream: bool) -> None:
    async with moved_to_a_trap(307) as (moving, trap), serving(moving.url + WAYS[model], model) as gateway:
        answer = await raw_answer(gateway, {"stream": stream})
    assert (len(moving.requests) <= 1, trap.connections) == (True, 0)
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"a-secret-place" not in answer


@pytest.mark.parametrize("status", [101, 304])
@pytest.mark.parametrize("model", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"])
async def test_a_status_that_is_no_answer_is_a_502(model: str, status: int) -> None:
    async def odd(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(b"upgrade: websocket", status=b"%d %b" % (status, REASONS[status])))

    async with upstream(odd) as server, serving(server.url + WAYS[model], model) as gateway:
        answer = await raw_answer(gateway, {})
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert str(status) in error_in(answer)["message"]
    assert b"websocket" not in answer


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", WAYS)
async def test_a_request_whose_connection_broke_is_not_sent_again(model: str, stream: bool) -> None:
    async def reset(wire: Wire) -> None:
        await wire.request()
        wire.reset()

    async with upstream(reset) as server, serving(server.url + WAYS[model], model) as gateway:
        answer = await raw_answer(gateway, {"stream": stream})
    assert len(server.requests) <= 1
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"asked once" not in answer  # the first failure is told, not that litellm tried again


@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"500 Oops", b"503 Unavailable"])
@pytest.mark.parametrize("model", ["nvidia_nim/model", "openai/gpt-4o", "anthropic/claude-sonnet-4-5"])
async def test_an_error_is_asked_for_once_and_keeps_its_words(model: str, status: bytes) -> None:
    async def refuse(wire: Wire) -> None:
        await wire.request()
        body = b'{"error": {"message": "Not now.", "type": "busy", "param": null, "code": null}}'
        await wire.send(reply(body, b"content-type: application/json", status=status))

    async with upstream(refuse) as server, serving(server.url + WAYS[model], model) as gateway:
        answer = await raw_answer(gateway, {})
    assert len(server.requests) == 1
    assert answer.startswith(b"HTTP/1.1 %b" % status[:3])
    assert error_in(answer) == {"message": "Not now.", "type": "busy", "param": None, "code": None}


async def test_a_request_that_litellm_would_mend_and_send_again_is_not() -> None:
    words = "Conversation roles must alternate user/assistant/user/assistant"  # litellm puts empty messages between
    async with (
        scripted(*[json_reply({"error": {"message": words}}, status=400)] * 2) as server,
        serving(server.url + "/v1", "openai/gpt-4o") as gateway,
    ):
        answer = await raw_answer(gateway, {})
    assert server.connections == 1
    assert error_in(answer)["message"] == words


class TestAskingOnce:
    """By itself, on a client of httpx's."""

    @pytest.fixture(autouse=True)
    async def loaded(self) -> None:
        """As the lane does it where it imports litellm."""
        await asyncio.to_thread(restrain)

    async def test_holds_within_the_block_only(self) -> None:
        replies = [json_reply({"n": n}) for n in range(4)]
        async with scripted(*replies) as server, httpx.AsyncClient() as client:
            await client.post(server.url)
            assert answered() is None
            with asking_once():
                assert answered() is None
                first = await client.post(server.url)
                assert answered() is first
                with pytest.raises(httpx.RequestError) as again:
                    await client.post(server.url)
                assert (await client.post(server.url + "/other")).json() == {"n": 2}
            await client.post(server.url)
        assert isinstance(again.value.__cause__, httpx.HTTPStatusError)
        assert again.value.__cause__.response is first

    async def test_a_get_may_be_repeated(self) -> None:
        async with scripted(json_reply({}), json_reply({})) as server, httpx.AsyncClient() as client:
            with asking_once():
                assert [(await client.get(server.url)).status_code for _ in range(2)] == [200, 200]
                assert answered() is None

    async def test_a_client_told_to_follow_does_not(self) -> None:
        async with moved_to_a_trap(302) as (moving, trap), httpx.AsyncClient(follow_redirects=True) as client:
            assert (await client.get(moving.url, follow_redirects=True)).status_code == 302
        assert trap.connections == 0
