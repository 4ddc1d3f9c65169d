"""Shared by the tests of the translated lane, which runs behind our server, between scripted upstreams and the SDK."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from proxy.asgi import Receive, Scope, Send, send_error
from proxy.dialects import sse
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.paths import BY_PATH
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.server.http1 import Connections, Timeouts
from proxy.upstream.bridges.missing_paths import Bridge
from proxy.upstream.translated.lane import Translated
from tests.support import anthropic_server as anthropic
from tests.support.anthropic_server import Json, Reply, ScriptedServer, json_reply, scripted

# What pydantic says of classes of litellm's, which no user sees; here it would be an error inside a request.
QUIET_PYDANTIC = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
]

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]
WEATHER: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "strict": True,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
API_KEY = "key-of-the-provider"
LIMITS = Timeouts(receive_s=30.0, keepalive_s=30.0, send_s=30.0)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Gateway:
    """A served lane and what it noted about each request."""

    def __init__(self, lane: Translated, target: Target) -> None:
        self.lane = lane
        self.app = Bridge(lane, relearn_after_s=100, chat_only=True)
        self.target = target
        self.port = 0
        self.exchanges: list[Exchange] = []
        self.answered = asyncio.Event()
        self.cancelled = 0  # requests that ended so, by their client's leaving
        self.client = openai.AsyncOpenAI(base_url="http://unserved", api_key="client-key", max_retries=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the exchange and answer with errors, as the gateway's outermost layer does."""
        exchange = Exchange(path=scope["path"], dialect=BY_PATH.get(scope["path"], CHAT), target=self.target)
        self.exchanges.append(exchange)
        scope[EXCHANGE] = exchange
        try:
            await self.app(scope, receive, send)
        except ApiError as error:
            await send_error(send, error, exchange.dialect.error_body(error, exchange.id))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.answered.set()


@contextlib.asynccontextmanager
async def serving(
    upstream: str, model: str, *, patience_s: float = 100.0, api_key: str = API_KEY
) -> AsyncIterator[Gateway]:
    """Serve the lane for one model."""
    target = Target(model=model, lane="translated", api_base=upstream, api_key=api_key)
    lane = Translated(connect_timeout_s=patience_s, first_byte_timeout_s=patience_s, idle_timeout_s=patience_s)
    gateway = Gateway(lane, target)
    listener = socket.create_server(("127.0.0.1", 0))
    gateway.port = listener.getsockname()[1]
    gateway.client.base_url = f"http://127.0.0.1:{gateway.port}/v1"
    connections = Connections(gateway, LIMITS)
    await connections.listen(listener, 100)
    try:
        yield gateway
    finally:
        await gateway.client.close()
        await connections.drain(5)
        await lane.close()


@contextlib.asynccontextmanager
async def claude(*replies: Reply, patience_s: float = 100.0) -> AsyncIterator[tuple[ScriptedServer, Gateway]]:
    """An Anthropic-dialect upstream and the lane in front of it; `api_base` without /v1, as litellm wants it there."""
    async with (
        scripted(*replies) as upstream,
        serving(upstream.url, "anthropic/claude-sonnet-4-5", patience_s=patience_s) as gateway,
    ):
        yield upstream, gateway


@contextlib.asynccontextmanager
async def gpt(*replies: Reply, patience_s: float = 100.0) -> AsyncIterator[tuple[ScriptedServer, Gateway]]:
    """An OpenAI-dialect upstream and the lane in front of it; `api_base` with /v1."""
    async with (
        scripted(*replies) as upstream,
        serving(upstream.url + "/v1", "openai/gpt-4o", patience_s=patience_s) as gateway,
    ):
        yield upstream, gateway


def events(pieces: Sequence[bytes], *, ending: anthropic.Ending = "complete", hold_before: int = -1) -> Reply:
    """An event stream."""
    return Reply(pieces, content_type="text/event-stream", ending=ending, hold_before=hold_before)


def completion(*contents: str) -> Json:
    """A whole answer in OpenAI's dialect, one choice for each content."""
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
        for index, content in enumerate(contents)
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-4o-2024-08-06"}
    return {**head, "choices": choices, "usage": usage}


def chunk(delta: Json, *, index: int = 0, finish_reason: str | None = None, **more: Any) -> Json:
    """One chunk in OpenAI's dialect."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-4o-2024-08-06"}
    return {**head, "choices": [choice], **more}


def frames(*chunks: Json, done: bool = True) -> list[bytes]:
    """Chunks as event-stream frames."""
    return [sse.frame(json.dumps(each).encode()) for each in chunks] + ([sse.DONE] if done else [])


async def raw_answer(gateway: Gateway, body: Json, path: str = CHAT.path) -> bytes:
    """All bytes of an answer as they came over the wire, head included."""
    sent = json.dumps({"model": "m", **({"messages": HELLO} if path == CHAT.path else {}), **body}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"POST %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" % path.encode())
    writer.write(b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(sent), sent))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def connections_opened(
    model: str, shapes: Callable[[str], Sequence[Json]], path: str = CHAT.path, **members: Any
) -> tuple[int, int, int]:
    """Connections to an address inside requests, and to the upstream, and the number of requests, all answered.

    shapes: the bodies with the address; members: of every body.
    """
    async with scripted() as inside:
        bodies = shapes(f"{inside.url}/secret")
        answers = [json_reply(anthropic.message(anthropic.text("{}")), status=status) for status in [400] * 40]
        async with scripted(*answers) as upstream, serving(upstream.url, model) as gateway:
            for body in bodies:
                assert await raw_answer(gateway, {**members, **body}, path)
    return inside.connections, upstream.connections, len(bodies)


def data_in(answer: bytes) -> list[Json]:
    """The JSON objects of an answer's event-stream frames."""
    lines = [line for line in answer.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


A_TEXT = anthropic.text_stream("Hel", "lo.")
AN_ANSWER = frames(
    chunk({"role": "assistant", "content": "Hel"}),
    chunk({"content": "lo."}),
    chunk({}, finish_reason="stop"),
    done=False,
)


@pytest.fixture(autouse=True)
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def with_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials without which litellm asks no model of Bedrock."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION_NAME"):
        monkeypatch.setenv(name, "us-east-1")


@pytest.fixture(autouse=True)
def silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Nothing is ever printed: no banner, no prompt, no key."""
    yield
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""
