"""Messages to a model's answer, through the gateway's own lanes: for the gateway's own questions, not for clients'.

An upstream is asked for the list of its models in the same way.

What is asked goes to the lanes directly, so it meets no middleware: it is never augmented, counted or logged as a
request of its own, and cannot ask again in turn. Whoever stops waiting (a deadline, a client that left) cancels the
call, and the upstream's connection with it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from proxy.asgi import App, Message, Scope
from proxy.errors import ApiError, Headers
from proxy.exchange import KEY, Exchange, Target

_CHAT = "/v1/chat/completions"
_MOST_BYTES = 256 * 1024  # of an answer
_MODELS = "/v1/models"
_MOST_LIST_BYTES = 4 * 2**20  # some hundred models, each with a text about it, are 700 KB


class NoAnswer(Exception):
    """The model gave no answer that can be used. Its text holds nothing of what was asked or answered."""


async def ask(
    upstream: App, target: Target, messages: Sequence[Mapping[str, str]], *, max_tokens: int, headers: Headers
) -> str:
    """The model's answer, asked for in one piece and at temperature 0.

    headers: of the client's request, for a target that is called with the client's own key.
    Raises NoAnswer: the upstream failed, refused, broke off, or answered something else than text.
    """
    body = {
        "model": target.model,
        "messages": list(messages),
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": False,
    }
    exchange = Exchange(method="POST", path=_CHAT, target=target, body=orjson.dumps(body))
    completion = await _answer(upstream, exchange, headers, most_bytes=_MOST_BYTES)
    try:
        text = completion["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        raise NoAnswer("the reply is no chat completion") from None
    if not isinstance(text, str):
        raise NoAnswer("the reply has no text")
    return text


async def models(upstream: App, target: Target, *, headers: Headers) -> Sequence[Mapping[str, Any]]:
    """The upstream's own list of its models, each an object with an `id`.

    headers: as for `ask`. Raises NoAnswer: the upstream failed, refused, broke off, or answered no list of models.
    """
    exchange = Exchange(method="GET", path=_MODELS, target=target, body=b"")
    answer = await _answer(upstream, exchange, headers, most_bytes=_MOST_LIST_BYTES)
    rows = answer.get("data", ()) if isinstance(answer, dict) else ()
    if not isinstance(rows, list | None):  # null: an upstream that has none yet
        raise NoAnswer("the reply is no list of models")
    named = [row for row in rows or () if isinstance(row, dict)]
    return [row for row in named if isinstance(row.get("id"), str) and row["id"]]


async def _answer(upstream: App, exchange: Exchange, headers: Headers, *, most_bytes: int) -> Any:
    """The reply's JSON. Raises NoAnswer."""
    target = exchange.target
    assert target is not None, "whoever asks says whom"
    own = [pair for pair in headers if target.key_of_client and pair[0] == b"authorization"]
    if exchange.body:
        own.append((b"content-type", b"application/json"))
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": exchange.method,
        "path": exchange.path,
        "raw_path": exchange.path.encode(),
        "query_string": b"",
        "headers": own,
        KEY: exchange,
    }
    reply = _Reply(most_bytes)
    try:
        await upstream(scope, _nothing_more, reply.take)
    except ApiError as error:
        raise NoAnswer(error.code) from None  # its text may quote the upstream's
    return reply.read()


async def _nothing_more() -> Message:
    raise AssertionError("the body travels with the exchange")


class _Reply:
    """A response, received whole."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._status = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._whole = False

    async def take(self, message: Message) -> None:
        """What the lane sends. Raises NoAnswer as soon as there is no use in more of it."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            return
        part = message.get("body", b"")
        self._parts.append(part)
        self._size += len(part)
        self._whole = not message.get("more_body", False)
        if self._size > self._most_bytes:
            raise NoAnswer("the reply is too long")

    def read(self) -> Any:
        """Its JSON. Raises NoAnswer."""
        if self._status != 200:
            raise NoAnswer(f"status {self._status}")
        if not self._whole:
            raise NoAnswer("the reply broke off")
        try:
            return orjson.loads(b"".join(self._parts))
        except orjson.JSONDecodeError:
            raise NoAnswer("the reply is no JSON") from None
