"""The built-in `echo` model: answers a chat completion with the messages it received, so that one sees the context.

It is an ASGI app speaking OpenAI's chat-completions dialect (streamed or not, `n`, `stream_options.include_usage`).
It needs no key and no network, and its reply says what it is, so that nobody takes it for a model.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

import orjson

from proxy.asgi import Receive, Scope, Send, send_json
from proxy.body import by_size, read_body
from proxy.dialects import sse
from proxy.dialects.json_body import JsonBody
from proxy.errors import ApiError
from proxy.exchange import KEY, Exchange

MODEL = "echo"
GREETING = "I am the echo model: I answer with the messages I received, as a real model would have received them."
MOST_CHOICES = 128  # OpenAI's limit of `n`
MOST_BYTES = 1 << 20  # of an answer: counting the words of 24 MB takes 0.3 s, and 128 choices of them 3 GB
WHERE = re.compile(r"(?<=\n)(?=\S)")  # streamed pieces begin at the beginnings of lines

Json = dict[str, Any]  # foreign JSON


class Echo:
    """Answers POST /v1/chat/completions by itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises ApiError 404 for other paths and 400 for what is not a chat completion."""
        if scope["method"] != "POST" or not scope["path"].endswith("/chat/completions"):
            raise ApiError(
                404,
                f"The built-in echo model only does POST /v1/chat/completions, not {scope['method']} {scope['path']}. "
                "Configure a model with an upstream for anything else.",
                code="unsupported_by_echo",
            )
        began = time.perf_counter()
        exchange: Exchange | None = scope.get(KEY)
        body = exchange.body if exchange is not None else None
        raw = await read_body(receive) if body is None else body
        request = await by_size(raw, lambda: parse(raw))
        if len(raw) * (request.get("n") or 1) > MOST_BYTES:
            message = f"The built-in echo model answers with at most {MOST_BYTES >> 20} MB, all `n` choices together."
            raise ApiError(413, message, code="body_too_large")
        text = await by_size(raw, lambda: render(request["messages"]))
        if exchange is not None:
            exchange.ended_step("upstream", began, "echo")
            exchange.status = 200
        if not request.get("stream"):
            await send_json(send, 200, await by_size(raw, lambda: _as_json(completion(request, text))))
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for chunk in chunks(request, text):
            frame = b"data: %b\n\n" % _as_json(chunk)
            await send({"type": "http.response.body", "body": frame, "more_body": True})
            await asyncio.sleep(0)  # the lines of a long text take seconds: other requests go on between two of them
        await send({"type": "http.response.body", "body": sse.DONE, "more_body": False})


def parse(body: bytes) -> Json:
    """The request as far as it is needed here, checked; whatever the gateway can read can be echoed. ApiError 400."""
    request: Json = JsonBody.parse(body).fields
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise _wrong("messages", "a list of at least one message object")
    if not isinstance(request.get("model", MODEL), str):
        raise _wrong("model", "a string")
    n = request.get("n")
    if n is not None and (type(n) is not int or not 1 <= n <= MOST_CHOICES):
        raise _wrong("n", f"a whole number from 1 to {MOST_CHOICES}")
    for name, kind, expected in (("stream", bool, "true or false"), ("stream_options", dict, "an object")):
        if request.get(name) is not None and not isinstance(request[name], kind):
            raise _wrong(name, expected)
    return request


def _as_json(value: Json) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # half a surrogate pair, as cut-off texts have it: it goes back as it came, escaped
        return json.dumps(value).encode("ascii")


def _wrong(param: str, expected: str) -> ApiError:
    return ApiError(400, f"`{param}` must be {expected}.", code="invalid_value", param=param)


def render(messages: list[Json]) -> str:
    """The messages as a person reads them: `[role]`, then the text; what is not text is named."""
    return "\n\n".join([GREETING, *(render_message(message) for message in messages)])


def render_message(message: Json) -> str:
    """One message: who said it and to which call it answers, its content, the calls it makes."""
    title = str(message.get("role", "no role"))
    if message.get("name"):
        title += f", {message['name']}"
    if message.get("tool_call_id"):
        title += f", reply to {message['tool_call_id']}"
    lines = [f"[{title}]", *_content(message.get("content"))]
    if message.get("refusal"):
        lines.append(f"(refusal: {message['refusal']})")
    calls = message.get("tool_calls")
    lines += [_call(call) for call in (calls if isinstance(calls, list) else ()) if isinstance(call, dict)]
    if isinstance(message.get("function_call"), dict):
        lines.append(_call({"function": message["function_call"]}))
    return "\n".join(lines)


def _content(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield _part(part) if isinstance(part, dict) else f"(part: {part!r})"
    elif content is not None:
        yield f"(content: {content!r})"


def _part(part: Json) -> str:
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text", ""))
    if kind == "image_url":
        image = part.get("image_url")
        url = str(image.get("url", "") if isinstance(image, dict) else image)
        if url.startswith("data:"):
            return f"(image: {url.partition(',')[0]}, {len(url)} characters)"
        return f"(image: {url})"
    return f"({kind} part)"


def _call(call: Json) -> str:
    called = call.get("function") or call.get("custom")
    if not isinstance(called, dict):
        return "(a call without a function)"
    given = called.get("arguments", called.get("input", ""))
    by_id = f" as {call['id']}" if call.get("id") else ""
    return f"(calls {called.get('name', '?')}({given}){by_id})"


def usage(request: Json, text: str) -> Json:
    """Tokens as this model counts them: words, since it has no tokenizer. Good for shape, not for bills."""
    prompt = sum(len(render_message(message).split()) for message in request["messages"])
    answer = len(text.split()) * (request.get("n") or 1)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def completion(request: Json, text: str) -> Json:
    """The whole reply, `n` times the same choice."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}
        for index in range(request.get("n") or 1)
    ]
    return {**_envelope(request, "chat.completion"), "choices": choices, "usage": usage(request, text)}


def chunks(request: Json, text: str) -> Iterator[Json]:
    """The reply as a stream's chunks: the role, the text in pieces, the finish; for every choice, interleaved."""
    options = request.get("stream_options") or {}
    envelope = _envelope(request, "chat.completion.chunk")
    if options.get("include_usage"):
        envelope["usage"] = None  # in every chunk but the last, as OpenAI sends it
    deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": "", "refusal": None}, None)]
    deltas += [({"content": piece}, None) for piece in WHERE.split(text)]
    deltas.append(({}, "stop"))
    for delta, finish in deltas:
        for index in range(request.get("n") or 1):
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
            yield {**envelope, "choices": [choice]}
    if options.get("include_usage"):
        yield {**envelope, "choices": [], "usage": usage(request, text)}


def _envelope(request: Json, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": request.get("model", MODEL),
    }
