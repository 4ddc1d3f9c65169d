"""A small upstream behind our server, in the dialects of OpenAI and Anthropic.

A chat completion repeats the request, so a test sees both ends: `tools` without a result make a call of the first tool,
`n` is obeyed, and streams of the model `in-step` send a chunk only after `POST /go` reports the chunk before.
`scripted_responses` and `scripted_messages` write the replies of the two other dialects, `scripted_chat` the
completions of the models in SCRIPTED.

The model `limited` is out of quota. A stream of the model `endless` stops after five events until the client leaves. A
request without the key gets a 401.
"""

import asyncio
import contextlib
import json
import queue
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support import scripted_chat, scripted_messages, scripted_responses
from tests.support.served_app import served

KEY = "sk-of-the-upstream"
SCRIPTED = ("gpt-5", "endless")  # chat completions of these models do not repeat the request
REQUEST_ID = "req-of-the-upstream"

Json = dict[str, Any]
_HEAD = {"id": "chatcmpl-1", "created": 1700000000, "model": "gpt-2024-08-06", "system_fingerprint": "fp_1"}
_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request of one of the scripted dialects."""

    target: str  # path and query
    headers: Json  # names in lower case
    body: bytes


class OpenAIServer:
    """The application's state; the app itself is `app`."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[ReceivedRequest] = []  # of /v1/responses and /v1/messages
        self.left: queue.SimpleQueue[str] = queue.SimpleQueue()  # paths of endless streams whose client left
        self._arrived = asyncio.Semaphore(0)
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/go", self._go, methods=["POST"]),
                Route("/v1/responses", self._response, methods=["POST"]),
                Route("/v1/responses/{id}", self._stored, methods=["GET", "DELETE"]),
                Route("/v1/responses/{id}/cancel", self._stored, methods=["POST"]),
                Route("/v1/responses/{id}/input_items", self._input_items),
                Route("/v1/messages", self._message, methods=["POST"]),
                Route("/v1/messages/count_tokens", self._count, methods=["POST"]),
            ]
        )

    async def _record(self, request: Request) -> Json:
        body = await request.body()
        query = f"?{request.url.query}" if request.url.query else ""
        self.requests.append(ReceivedRequest(request.url.path + query, dict(request.headers), body))
        return json.loads(body) if body else {}

    async def _response(self, request: Request) -> Response:
        asked = await self._record(request)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _refused(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")
        if asked["model"] == "limited":
            return _refused(429, "Rate limit reached.", "requests", "rate_limit_exceeded")
        if asked.get("stream"):
            return self._streamed(asked, scripted_responses.frames_to(asked), "/v1/responses")
        return JSONResponse(scripted_responses.response_to(asked), headers=_headers())

    async def _stored(self, request: Request) -> Response:
        await self._record(request)
        if request.method == "DELETE":
            return JSONResponse({"id": request.path_params["id"], "object": "response", "deleted": True})
        whole = scripted_responses.response_to({"model": "gpt-5", "input": "", "background": True})
        return JSONResponse({**whole, "status": "queued" if request.method == "GET" else "cancelled"})

    async def _input_items(self, request: Request) -> Response:
        await self._record(request)
        return JSONResponse({"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False})

    async def _message(self, request: Request) -> Response:
        asked = await self._record(request)
        if KEY not in (request.headers.get("x-api-key"), request.headers.get("authorization", "")[len("Bearer ") :]):
            return _anthropic_refusal(401, "authentication_error", "invalid x-api-key")
        if asked["model"] == "limited":
            return _anthropic_refusal(429, "rate_limit_error", "This request would exceed your rate limit.")
        if asked.get("stream"):
            return self._streamed(asked, scripted_messages.frames_to(asked), "/v1/messages")
        return JSONResponse(scripted_messages.message_to(asked), headers=_ANTHROPIC_HEADERS)

    async def _count(self, request: Request) -> Response:
        await self._record(request)
        return JSONResponse({"input_tokens": scripted_messages.COUNTED}, headers=_ANTHROPIC_HEADERS)

    def _streamed(self, asked: Json, frames: Iterable[bytes], path: str) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            for number, frame in enumerate(frames):
                if asked["model"] == "endless" and number == 5:
                    try:
                        await asyncio.Event().wait()
                    finally:
                        self.left.put(path)
                yield frame

        headers = _ANTHROPIC_HEADERS if path == "/v1/messages" else _headers()
        return StreamingResponse(stream(), headers=headers, media_type="text/event-stream")

    async def _go(self, _request: Request) -> Response:
        self._arrived.release()
        return Response(status_code=204)

    async def _chat(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _refused(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key")
        asked: Json = await request.json()
        if asked["model"] == "limited":
            return _refused(429, "Rate limit reached.", "requests", "rate_limit_exceeded")
        if asked["model"] in SCRIPTED and asked.get("stream"):
            return self._streamed(asked, scripted_chat.frames_to(asked), "/v1/chat/completions")
        if asked["model"] in SCRIPTED:
            return JSONResponse(scripted_chat.completion_to(asked), headers=_headers())
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
def openai_server() -> Iterator[OpenAIServer]:
    """The server on a free port of 127.0.0.1; `url` is without /v1."""
    server = OpenAIServer()
    with served(server.app) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


_ANTHROPIC_HEADERS = {"request-id": REQUEST_ID, "anthropic-organization-id": "org-1"}


def _anthropic_refusal(status: int, kind: str, message: str) -> Response:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": REQUEST_ID}
    return JSONResponse(body, status, headers={**_ANTHROPIC_HEADERS, "retry-after": "1"})


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
