"""The mock upstream: an OpenAI-dialect server as cheap as Python allows, so that the measurement shows the proxy.

A chat completion gets the same 600 bytes at once. A stream gets the same 200 chunks: at once, or 20 ms apart if the
path begins with /paced. `GET /stats` returns counts. The server listens on a free port of 127.0.0.1, prints the port,
and ends when standard input ends.
"""

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from typing import cast

import httptools

CHUNKS = 200
PACE_S = 0.02
WORDS = frozenset(b"word%d" % i for i in range(CHUNKS - 2))  # of a streamed reply; the first and last chunk have none
_STREAMED = re.compile(rb'"stream":\s*true')


def completion() -> bytes:
    """The body of a reply without streaming."""
    text = (
        "Set the address of the server and the name of the model in the settings file, then start the service again. "
        "It reads the file once, at the start, and names a key it does not know together with the nearest known one."
    )
    usage = {"prompt_tokens": 214, "completion_tokens": 48, "total_tokens": 262}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "stop"}
    return json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def events() -> list[bytes]:
    """The events of a streamed reply: CHUNKS events, the last with `[DONE]`."""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": " " + word.decode()} for word in sorted(WORDS, key=lambda word: int(word[4:]))]
    made = [_event(delta, None) for delta in deltas] + [_event({}, "stop")]
    made[-1] += b"data: [DONE]\n\n"
    return made


_HEAD = {"id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012", "created": 1700000000, "model": "bench"}


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"


def _reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


_COMPLETION = _reply(completion())
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_FRAMES = [b"%x\r\n%b\r\n" % (len(event), event) for event in events()]
_FRAMES[-1] += b"0\r\n\r\n"


@dataclass(slots=True)
class Stats:
    """Counts since the start."""

    requests: int = 0
    body_bytes: int = 0


class _Connection(asyncio.Protocol):
    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has another type

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        url, body = self._url, self._body
        self._url = self._body = b""
        if url == b"/stats":
            told = {"requests": self._stats.requests, "body_bytes": self._stats.body_bytes}
            self._transport.write(_reply(json.dumps(told).encode()))
            return
        self._stats.requests += 1
        self._stats.body_bytes += len(body)
        if not _STREAMED.search(body):
            self._transport.write(_COMPLETION)
        elif url.startswith(b"/paced/"):
            self._pace(0, asyncio.get_running_loop().time())
        else:
            self._transport.write(_STREAM_HEAD)
            for frame in _FRAMES:
                self._transport.write(frame)

    def _pace(self, number: int, start: float) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(_FRAMES[number] if number else _STREAM_HEAD + _FRAMES[0])
        if number + 1 < CHUNKS:
            # Relative to the start of the stream: a late frame does not delay later frames.
            due = start + (number + 1) * PACE_S
            asyncio.get_running_loop().call_at(due, self._pace, number + 1, start)


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    stats = Stats()
    server = await loop.create_server(lambda: _Connection(stats), "127.0.0.1", 0)
    async with server:
        print(server.sockets[0].getsockname()[1], flush=True)
        stdin = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
        await stdin.read()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve())
