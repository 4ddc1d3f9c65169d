"""A scripted upstream on loopback: plays back prepared replies byte by byte and records what it was asked.

It is written on bare sockets because a test must decide how a reply ends: complete, at a clean end of file, or broken
off. The builders below it speak Anthropic's Messages dialect; the server itself knows no dialect.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Ending = Literal["complete", "eof", "broken"]


@dataclass(slots=True)
class Reply:
    """One prepared reply. `ending`: complete (chunked, terminated), eof (close-delimited), broken (chunked, cut)."""

    pieces: Sequence[bytes]
    status: int = 200
    content_type: str = "application/json"
    headers: Sequence[tuple[str, str]] = ()
    ending: Ending = "complete"
    hold_before: int = -1  # wait before this piece, 0 being before the head, until `release` is set or the peer leaves
    release: asyncio.Event = field(default_factory=asyncio.Event)
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    peer_left: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    def json(self) -> Json:
        """The body as a JSON object."""
        value: Json = json.loads(self.body)
        return value


class ScriptedServer:
    """Answers the n-th request with the n-th reply; `asked` holds the requests."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)
        self.asked: list[Asked] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, one request: every reply closes it."""
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                self.asked.append(await _read_request(reader))
                await _play(self.replies.pop(0), reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def scripted(*replies: Reply) -> AsyncIterator[ScriptedServer]:
    """Run a scripted upstream on a free loopback port."""
    script = ScriptedServer(replies)
    serving: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.ensure_future(script.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()
        for connection in serving:
            connection.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> Asked:
    """Read a head and, by its content-length, a body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


async def _play(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write the reply, as far as it goes."""
    chunked = reply.ending != "eof"
    head = [f"HTTP/1.1 {reply.status} Scripted", f"content-type: {reply.content_type}", "connection: close"]
    head += ["transfer-encoding: chunked"] if chunked else []
    head += [f"{name}: {value}" for name, value in reply.headers]
    if reply.hold_before == 0 and not await _released(reply, reader):
        return
    writer.write(("\r\n".join(head) + "\r\n\r\n").encode("latin-1"))
    for number, piece in enumerate(reply.pieces, start=1):
        await writer.drain()
        if reply.hold_before == number and not await _released(reply, reader):
            return
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
    if reply.ending == "complete":
        writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _released(reply: Reply, reader: asyncio.StreamReader) -> bool:
    """Wait until the test lets the reply go on (True) or the peer leaves (False)."""
    reply.holding.set()
    waiting = [asyncio.ensure_future(reply.release.wait()), asyncio.ensure_future(reader.read())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if waiting[1].done():
            reply.peer_left.set()
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return reply.release.is_set()


def json_reply(value: Json, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Reply:
    """A whole JSON reply."""
    return Reply([json.dumps(value).encode()], status=status, headers=headers)


def message(*content: Json, stop_reason: str = "end_turn") -> Json:
    """A whole reply of the Messages API."""
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-scripted-20990101",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }


def text(value: str) -> Json:
    """A text block."""
    return {"type": "text", "text": value}


def tool_use(id: str, name: str, arguments: Json) -> Json:
    """A tool-use block."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def error(kind: str, words: str) -> Json:
    """An error of the Messages API."""
    return {"type": "error", "error": {"type": kind, "message": words}}


def text_stream(*pieces: str) -> list[bytes]:
    """The events of a streamed text reply, one per list element."""
    deltas = [_delta(0, {"type": "text_delta", "text": piece}) for piece in pieces]
    return [_start(), _block(0, {"type": "text", "text": ""}), *deltas, _block_stop(0), *_end("end_turn")]


def tool_stream(id: str, name: str, *argument_pieces: str) -> list[bytes]:
    """The events of a streamed tool call whose arguments arrive in pieces."""
    block = {"type": "tool_use", "id": id, "name": name, "input": {}}
    deltas = [_delta(0, {"type": "input_json_delta", "partial_json": piece}) for piece in argument_pieces]
    return [_start(), _block(0, block), *deltas, _block_stop(0), *_end("tool_use")]


def error_event(kind: str, words: str) -> bytes:
    """An error that arrives inside a stream."""
    return _event("error", error(kind, words))


def _start() -> bytes:
    usage = {"input_tokens": 11, "output_tokens": 1}
    return _event(
        "message_start",
        {
            "type": "message_start",
            "message": {**message(), "stop_reason": None, "usage": usage},
        },
    )


def _block(index: int, block: Json) -> bytes:
    return _event("content_block_start", {"type": "content_block_start", "index": index, "content_block": block})


def _delta(index: int, delta: Json) -> bytes:
    return _event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})


def _block_stop(index: int) -> bytes:
    return _event("content_block_stop", {"type": "content_block_stop", "index": index})


def _end(stop_reason: str) -> list[bytes]:
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        _event("message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}),
        _event("message_stop", {"type": "message_stop"}),
    ]


def _event(name: str, value: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
