"""A model with scripted answers, behind a recording upstream: the answers are written whole, or as a stream."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.support.recording_upstream import Recorder
from tests.support.upstream_servers import Received, Wire, chunked, head, reply, single_bytes

Json = dict[str, Any]
Turn = Json | Callable[[Json], Json]  # a message; or the request's body -> a message
USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}


def says(text: str) -> Json:
    """An answer in text."""
    return {"role": "assistant", "content": text}


def thinks(thought: str, message: Json) -> Json:
    """The message after a signed thought, as litellm writes thoughts of Claude models."""
    return {**message, "thinking_blocks": [{"type": "thinking", "thinking": thought, "signature": f"by {thought}"}]}


def calls(*named: tuple[str, Json], text: str | None = None) -> Json:
    """Calls of tools."""
    rows = [
        {"id": f"call_{name}_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for number, (name, given) in enumerate(named)
    ]
    return {"role": "assistant", "content": text, "tool_calls": rows}


class ScriptedModel:
    """Answers one request after another; `received` has the bodies.

    A message may have the `deltas` of the stream, the `finish`, and the seconds from [DONE] to the end of the body
    (`end_after_s`); an error the `status`.
    """

    def __init__(
        self,
        recorder: Recorder,
        turns: Sequence[Turn],
        *,
        one_byte: bool = False,
        missing: str = "",
        usage: Mapping[str, Any] = USAGE,
    ) -> None:
        """missing: the path for which the server answers 404, or the beginning of such paths; "": none."""
        self.received: list[Json] = []
        self.sent: list[bytes] = []  # the bodies of the replies
        self._turns = list(turns)
        self._one_byte = one_byte
        self._missing = missing.encode()
        self._usage = usage
        recorder.answer = self._answer

    async def _answer(self, wire: Wire, received: Received) -> None:
        if self._missing and received.line.split()[1].startswith(self._missing):
            refusal = b'{"error": {"message": "Not Found"}}'
            await wire.send(reply(refusal, b"content-type: application/json", status=b"404 Not Found"))
            return
        asked = json.loads(received.body)
        self.received.append(asked)
        turn = self._turns.pop(0)
        message = turn(asked) if callable(turn) else turn
        number = len(self.received)
        if "error" in message:
            refusal = json.dumps({"error": message["error"]}).encode()
            status = message.get("status", "400 Bad Request").encode()
            await wire.send(reply(refusal, b"content-type: application/json", status=status))
            return
        parts = body_of(asked, message, number, self._usage)
        self.sent.append(b"".join(parts))
        if not asked.get("stream"):
            await wire.send(reply(self.sent[-1], b"content-type: application/json"))
            return
        pieces = single_bytes(self.sent[-1]) if self._one_byte else parts
        start = head(b"content-type: text/event-stream", b"transfer-encoding: chunked")
        *chunks, end = chunked(pieces)
        await wire.send(start, *chunks)
        await asyncio.sleep(message.get("end_after_s", 0))
        await wire.send(end)


def body_of(asked: Json, message: Json, number: int = 1, usage: Mapping[str, Any] = USAGE) -> list[bytes]:
    """The body of the reply to a request, in one piece; or the frames of the stream that the request asks for."""
    finish = message.get("finish") or ("tool_calls" if message.get("tool_calls") else "stop")
    envelope = {"id": f"chatcmpl-{number}", "created": 1700000000 + number, "model": "gpt-x-2024"}
    if asked.get("stream"):
        wanted = (asked.get("stream_options") or {}).get("include_usage")
        return [b"data: %b\n\n" % frame for frame in _frames(envelope, message, finish, usage if wanted else None)]
    said = {name: value for name, value in message.items() if name not in ("deltas", "finish")}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    whole = {**envelope, "object": "chat.completion", "choices": [choice], "usage": usage}
    return [json.dumps(whole, indent=1).encode()]


def _frames(envelope: Json, message: Json, finish: str, usage: Mapping[str, Any] | None) -> Iterator[bytes]:
    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return json.dumps({**envelope, "object": "chat.completion.chunk", "choices": choices}).encode()

    yield chunk({"role": "assistant", "content": ""})
    yield from map(chunk, message["deltas"] if "deltas" in message else _deltas(message))
    yield chunk({}, finish)
    if usage is not None:
        body = {**envelope, "object": "chat.completion.chunk", "choices": [], "usage": usage}
        yield json.dumps(body).encode()
    yield b"[DONE]"


def _deltas(message: Json) -> Iterator[Json]:
    for block in message.get("thinking_blocks", ()):
        yield {"reasoning_content": block["thinking"], "thinking_blocks": [{**block, "signature": None}]}
        yield {"thinking_blocks": [{**block, "thinking": ""}]}
    text = message.get("content") or ""
    yield from ({"content": text[at : at + 5]} for at in range(0, len(text), 5))
    for index, call in enumerate(message.get("tool_calls", ())):
        kind, member = ("custom", "input") if "custom" in call else ("function", "arguments")
        begun, text = {"name": call[kind]["name"], member: ""}, call[kind][member]
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": kind, kind: begun}]}
        for at in range(0, len(text), 7):
            yield {"tool_calls": [{"index": index, kind: {member: text[at : at + 7]}}]}
