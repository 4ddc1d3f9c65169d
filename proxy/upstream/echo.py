"""The built-in `echo` model: it answers with the messages it received, so that people see the context.

It is an ASGI app; the dialect of the path writes the reply (whole or streamed). It needs neither key nor network. Its
reply names the echo model, so that nobody takes it for a real one's.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

from proxy.asgi import Receive, Scope, Send, send_json
from proxy.body import read_body
from proxy.dialects.base import ConversationMessage, Dialect, ModelRequest
from proxy.dialects.chat import ChatRequest
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import by_size
from proxy.dialects.paths import BY_PATH
from proxy.dialects.replies import Tokens, called_tool
from proxy.exchange import EXCHANGE, Exchange

MODEL = "echo"
GREETING = "I am the echo model: I answer with the messages I received, as a real model would have received them."
MOST_CHOICES = 128  # OpenAI's limit for `n`
MOST_BYTES = 1 << 20  # per answer: counting words in 24 MB takes 0.3 s, and 128 choices of 24 MB take 3 GB
WHERE = re.compile(r"(?<=\n)(?=\S)")  # a stream is cut where lines begin

Json = dict[str, Any]  # JSON from elsewhere


class Echo:
    """Answers a request in its path's dialect."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises ApiError 404 for a path without a dialect, 400 for one that is not a chat."""
        dialect = BY_PATH.get(scope["path"])
        if scope["method"] != "POST" or dialect is None:
            raise ApiError(
                404,
                f"The built-in echo model only does POST {', '.join(BY_PATH)}, not {scope['method']} "
                f"{scope['path']}. Configure a model with an upstream for anything else.",
                code="unsupported_by_echo",
            )
        began = time.perf_counter()
        exchange: Exchange | None = scope.get(EXCHANGE)
        body = exchange.body if exchange is not None else None
        raw = await read_body(receive) if body is None else body
        request = await by_size(raw, lambda: parse(dialect, raw))
        if len(raw) * (request.fields.get("n") or 1) > MOST_BYTES:
            message = f"The built-in echo model answers with at most {MOST_BYTES >> 20} MB, all `n` choices together."
            raise ApiError(413, message, code="body_too_large")
        text, tokens = await by_size(raw, lambda: answer(request))
        if exchange is not None:
            exchange.ended_step("upstream", began, "echo")
            exchange.status = 200
        if not request.streamed:
            await send_json(send, 200, await by_size(raw, lambda: dialect.reply(request, text, tokens)))
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for frame in dialect.reply_frames(request, WHERE.split(text), tokens):
            await send({"type": "http.response.body", "body": frame, "more_body": True})
            await asyncio.sleep(0)  # a long text takes seconds: let others go on between frames
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def parse(dialect: Dialect, body: bytes) -> ModelRequest:
    """The request; only members that the reply needs are checked. Raises ApiError 400."""
    request = dialect.parse(body)
    fields = request.fields
    messages = fields.get("messages")
    if not isinstance(request, ChatRequest):
        request.messages()
    elif not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise _wrong("messages", "a list of at least one message object")
    if not isinstance(fields.setdefault("model", MODEL), str):
        raise _wrong("model", "a string")
    n = fields.get("n")
    if n is not None and (type(n) is not int or not 1 <= n <= MOST_CHOICES):
        raise _wrong("n", f"a whole number from 1 to {MOST_CHOICES}")
    for name, kind, expected in (("stream", bool, "true or false"), ("stream_options", dict, "an object")):
        if fields.get(name) is not None and not isinstance(fields[name], kind):
            raise _wrong(name, expected)
    return request


def _wrong(param: str, expected: str) -> ApiError:
    return ApiError(400, f"`{param}` must be {expected}.", code="invalid_value", param=param)


def answer(request: ModelRequest) -> tuple[str, Tokens]:
    """Messages for people: `[role]`, then text; other parts are named.

    Echo has no tokenizer, so token counts are word counts: a shape without a price.
    """
    rows = request.fields["messages"] if isinstance(request, ChatRequest) else map(_row_of, request.messages())
    messages = [render_message(row) for row in rows]
    text = "\n\n".join([GREETING, *messages])
    prompt = sum(len(message.split()) for message in messages)
    return text, Tokens(prompt, len(text.split()) * (request.fields.get("n") or 1))


def _row_of(message: ConversationMessage) -> Json:
    """A message of another dialect in chat completion shape; its calls are that dialect's items or blocks."""
    calls = message.calls if isinstance(message.calls, list) else [message.calls]
    rows = [{"id": call.get("call_id") or call.get("id"), "function": call} for call in calls if isinstance(call, dict)]
    return {"role": message.role, "content": message.text, "tool_calls": rows}


def render_message(message: Json) -> str:
    """One message: role and name, the call that it answers, its content, its tool calls."""
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
    called = called_tool(call)
    if not called:
        return "(a call without a function)"
    given = called.get("arguments", called.get("input", ""))
    by_id = f" as {call['id']}" if call.get("id") else ""
    return f"(calls {called.get('name', '?')}({given}){by_id})"
