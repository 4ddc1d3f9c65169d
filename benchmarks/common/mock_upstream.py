"""The mock upstream: a server as cheap as Python allows, so that the measurement shows the proxy.

A chat completion gets the same 600 bytes at once. A stream gets the same 200 chunks: at once, or 20 ms apart if the
path begins with /paced. Requests for responses and for messages get the same text in the form of the dialect. `GET
/stats` returns counts. The server listens on a free port of 127.0.0.1, prints the port, and ends when standard input
ends.
"""

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from typing import Any, cast

import httptools

CHUNKS = 200
PACE_S = 0.02
WORDS = frozenset(b"word%d" % i for i in range(CHUNKS - 2))  # of a streamed reply; the first and last chunk have none
_STREAMED = re.compile(rb'"stream":\s*true')


TEXT = (
    "Set the address of the server and the name of the model in the settings file, then start the service again. "
    "It reads the file once, at the start, and names a key it does not know together with the nearest known one."
)


def completion() -> bytes:
    """The body of a reply without streaming."""
    usage = {"prompt_tokens": 214, "completion_tokens": 48, "total_tokens": 262}
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "logprobs": None, "finish_reason": "stop"}
    return json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def events() -> list[bytes]:
    """The events of a streamed reply: CHUNKS events, the last with `[DONE]`."""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _words()]
    made = [_event(delta, None) for delta in deltas] + [_event({}, "stop")]
    made[-1] += b"data: [DONE]\n\n"
    return made


def response() -> bytes:
    """The body of a response without streaming."""
    return json.dumps(_response(TEXT)).encode()


def response_events() -> list[bytes]:
    """The events of a streamed response: CHUNKS pieces, with the events of the begin and of the end in two pieces."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    words = [{"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in _words()]
    begun = {**_response(""), "status": "in_progress", "output": [], "usage": None}
    begin = [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    end = [{"type": "response.completed", "response": _response("".join(_words()))}]
    return [_named(*begin), *map(_named, words), _named(*end)]


def message() -> bytes:
    """The body of a message without streaming."""
    return json.dumps(_message(TEXT, 48)).encode()


def message_events() -> list[bytes]:
    """The events of a streamed message: CHUNKS pieces, with the events of the begin and of the end in two pieces."""
    begin: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**_message("", 1), "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    deltas = ({"type": "text_delta", "text": word} for word in _words())
    words: list[dict[str, Any]] = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    end: list[dict[str, Any]] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 48}},
        {"type": "message_stop"},
    ]
    return [_named(*begin), *map(_named, words), _named(*end)]


def _words() -> list[str]:
    return [" " + word.decode() for word in sorted(WORDS, key=lambda word: int(word[4:]))]


def _response(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 214, "output_tokens": 48, "total_tokens": 262}
    head = {"id": "resp_AbCdEfGhIjKlMnOpQrStUvWxYz012", "object": "response", "created_at": 1700000000}
    return {**head, "model": "bench", "status": "completed", "output": [item], "usage": usage}


def _message(text: str, tokens: int) -> dict[str, Any]:
    head = {"id": "msg_AbCdEfGhIjKlMnOpQrStUvWxYz012", "type": "message", "role": "assistant", "model": "bench"}
    usage = {"input_tokens": 214, "output_tokens": tokens}
    return {**head, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}


def _named(*made: dict[str, Any]) -> bytes:
    """The events, with the name of the event in each frame."""
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in made)


_HEAD = {"id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012", "created": 1700000000, "model": "bench"}


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"


def _reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _frames(pieces: list[bytes]) -> list[bytes]:
    frames = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    frames[-1] += b"0\r\n\r\n"
    return frames


_CHAT = (_reply(completion()), _frames(events()))
# The end of a path -> the whole reply, and the pieces of a stream.
_REPLIES = {
    b"completions": _CHAT,
    b"responses": (_reply(response()), _frames(response_events())),
    b"messages": (_reply(message()), _frames(message_events())),
}


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
        whole, frames = _REPLIES.get(url.rpartition(b"/")[2], _CHAT)
        if not _STREAMED.search(body):
            self._transport.write(whole)
        elif url.startswith(b"/paced/"):
            self._pace(frames, 0, asyncio.get_running_loop().time())
        else:
            self._transport.write(_STREAM_HEAD)
            for frame in frames:
                self._transport.write(frame)

    def _pace(self, frames: list[bytes], number: int, start: float) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(frames[number] if number else _STREAM_HEAD + frames[0])
        if number + 1 < CHUNKS:
            # Relative to the start of the stream: a late frame does not delay later frames.
            due = start + (number + 1) * PACE_S
            asyncio.get_running_loop().call_at(due, self._pace, frames, number + 1, start)


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
