"""A small OpenAI-dialect upstream behind our server: it answers with what it received, so a test sees both ends.

Which answer it gives follows from the request: `tools` without a result yet make it call the first one, `n` is obeyed,
the model `limited` is out of quota, and streams of the model `in-step` send a chunk only after `POST /go` has said that
the one before has arrived. Without the key it answers 401.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.served_app import served

KEY = "sk-of-the-upstream"
REQUEST_ID = "req-of-the-upstream"

Json = dict[str, Any]
_HEAD = {"id": "chatcmpl-1", "created": 1700000000, "model": "gpt-2024-08-06", "system_fingerprint": "fp_1"}
_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class OpenAIServer:
    """The application's state; the app itself is `app`."""

    def __init__(self) -> None:
        self._arrived = asyncio.Semaphore(0)
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/go", self._go, methods=["POST"]),
            ]
        )

    async def _go(self, _request: Request) -> Response:
        self._arrived.release()
        return Response(status_code=204)

    async def _chat(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _refused(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")
        asked: Json = await request.json()
        if asked["model"] == "limited":
            return _refused(429, "Rate limit reached.", "requests", "rate_limit_exceeded")
        if asked.get("stream"):
            return StreamingResponse(self._stream(asked), headers=_headers(), media_type="text/event-stream")
        choices = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
            for index, (message, finish) in enumerate(_messages(asked))
        ]
        reply = {**_HEAD, "object": "chat.completion", "choices": choices, "usage": _USAGE}
        return JSONResponse(reply, headers=_headers())

    async def _stream(self, asked: Json) -> AsyncIterator[bytes]:
        for chunk in _chunks(asked):
            yield b"data: " + json.dumps({**_HEAD, "object": "chat.completion.chunk", **chunk}).encode() + b"\n\n"
            if asked["model"] == "in-step":
                await asyncio.wait_for(self._arrived.acquire(), 100)
        yield b"data: [DONE]\n\n"


@contextlib.contextmanager
def openai_server() -> Iterator[str]:
    """Serve it on a free port of 127.0.0.1; its URL, without /v1."""
    with served(OpenAIServer().app) as port:
        yield f"http://127.0.0.1:{port}"


def _headers() -> dict[str, str]:
    return {"x-request-id": REQUEST_ID, "openai-processing-ms": "12"}


def _refused(status: int, message: str, kind: str, code: str) -> Response:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status, headers={**_headers(), "retry-after": "1"})


def _messages(asked: Json) -> Iterator[tuple[Json, str]]:
    """Each choice's message and its finish reason."""
    if asked.get("tools") and asked["messages"][-1]["role"] != "tool":
        call = {"id": "call_1", "type": "function", "function": {"name": _tool(asked), "arguments": '{"city": "Bonn"}'}}
        yield {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}, "tool_calls"
        return
    for number in range(asked.get("n") or 1):
        yield {"role": "assistant", "content": _echoed(asked, number), "refusal": None}, "stop"


def _chunks(asked: Json) -> Iterator[Json]:
    """The same as chunks: of each choice the role, the content in three pieces, the finish; then the usage."""
    for index, (message, finish) in enumerate(_messages(asked)):
        deltas: list[Json] = [{"role": "assistant", "content": message["content"] and ""}]
        for call in message.get("tool_calls", ()):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            named = {"id": call["id"], "type": "function", "function": {"name": name, "arguments": ""}}
            pieces = [{"function": {"arguments": piece}} for piece in _thirds(arguments)]
            deltas += [{"tool_calls": [{"index": 0, **part}]} for part in [named, *pieces]]
        deltas += [{"content": piece} for piece in _thirds(message["content"] or "")]
        for delta in deltas:
            yield {"choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}]}
        yield {"choices": [{"index": index, "delta": {}, "logprobs": None, "finish_reason": finish}]}
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield {"choices": [], "usage": _USAGE}


def _echoed(asked: Json, number: int) -> str:
    return json.dumps({"number": number, "received": {**asked, "stream": None}}, sort_keys=True)


def _tool(asked: Json) -> str:
    return str(asked["tools"][0]["function"]["name"])


def _thirds(text: str) -> list[str]:
    third = len(text) // 3
    return [piece for piece in (text[:third], text[third : 2 * third], text[2 * third :]) if piece]
