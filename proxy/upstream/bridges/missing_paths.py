"""The relay with a bridge: an upstream that lacks the path of the client's dialect is asked by a chat completion.

Which paths an upstream lacks is learned from its answers, once in `relearn_after_s` per address, path and process. A
row of `models` may state its dialects: then nothing needs to be tried.
"""

import re
import time
from collections.abc import Awaitable

from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.dialects.chat import CHAT
from proxy.dialects.content_encoding import unpacked_start
from proxy.dialects.deviations import UnsupportedFeatures
from proxy.dialects.errors import ApiError
from proxy.dialects.paths import DIALECT_NAMES
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.bridges.bridge import bridged

_INSTEAD = f"its models are asked by {CHAT.path} (models.NAME.dialects states the dialects)"
_NO_SUCH_PATH = (404, 405, 501)
# Words in a 404 that is not about the path: from https://platform.openai.com/docs/api-reference and answers by
# Anthropic, OpenRouter, vLLM, Ollama and llama.cpp ("File Not Found" for a path).
_ANOTHER_THING = re.compile(
    rb"\b((model|deployment|engine|conversation|prompt|response|item|store|container|skill|tool|policy|file object)s?\b"
    rb"|file with|file not found:|no endpoints found)",
    re.IGNORECASE,
)
_MOST_ERROR_BYTES = 16 * 1024


class Bridge:
    """Wraps a lane, and answers by chat completions if the upstream lacks a path."""

    def __init__(self, lane: App, *, relearn_after_s: float, chat_only: bool = False) -> None:
        """chat_only: this lane's upstreams are asked only by chat completions."""
        self._lane = lane
        self._stated = (DIALECT_NAMES[CHAT.path],) if chat_only else ()
        self._unsupported = UnsupportedFeatures(relearn_after_s)
        self._relearn_after_s = relearn_after_s
        self._present_until: dict[tuple[str, str], float] = {}  # (address, path) -> monotonic time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises as the lane and `bridged` do; ApiError 404 if the upstream has neither path."""
        exchange: Exchange = scope[EXCHANGE]
        target, path = exchange.target, exchange.dialect.path
        if target is None or exchange.listed or scope["path"] != path:
            await self._lane(scope, receive, send)
        elif stated := self._stated or target.dialects:
            if DIALECT_NAMES[path] in stated:
                await self._lane(scope, receive, send)
            elif DIALECT_NAMES[CHAT.path] in stated:
                await bridged(self._lane, scope, receive, send, self._unsupported)
            else:
                raise _not_spoken(exchange, target)
        elif path == CHAT.path or self._present_until.get((target.api_base, path), 0.0) > time.monotonic():
            await self._lane(scope, receive, send)  # it has answered before: a 404 is about something else
        elif self._unsupported.knows(target, path):
            await bridged(self._lane, scope, receive, send, self._unsupported)
        else:
            await self._try(target, scope, receive, send)

    async def _try(self, target: Target, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay the request; if the upstream lacks the path, ask by a chat completion.

        Only an answer to that confirms that the path is missing: the whole address might be wrong.
        """
        path = scope["path"]
        look = FirstLook(path, send)
        try:
            await self._lane(scope, receive, look.send)
            if look.well:
                self._present_until[target.api_base, path] = time.monotonic() + self._relearn_after_s
            return
        except NoSuchPathError:
            pass

        async def confirm(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] not in _NO_SUCH_PATH:
                self._unsupported.learn(target, path, _INSTEAD)
            await send(message)

        await bridged(self._lane, scope, receive, confirm, self._unsupported)


def _not_spoken(exchange: Exchange, target: Target) -> ApiError:
    message = (
        f"The upstream of {exchange.model!r} has neither {exchange.dialect.path} nor {CHAT.path} (models.NAME.dialects "
        f"is {', '.join(target.dialects)}): ask over one of these dialects, or let litellm translate with "
        "`lane: translated` and litellm's model name, such as anthropic/claude-sonnet-4-5."
    )
    return ApiError(404, message, code="path_not_supported", param="model")


class NoSuchPathError(Exception):
    """The upstream lacks the path; nothing was sent to the client yet."""


class FirstLook:
    """Passes answers on, but holds one back that may say that the path is missing."""

    def __init__(self, path: str, to: Send) -> None:
        self._path = path
        self._to = to
        self._held: list[Message] = []
        self._passed = False
        self.well = False  # the answer is a success

    def send(self, message: Message) -> Awaitable[None]:
        """Pass a message on, or hold it back. The awaitable raises NoSuchPathError.

        An ordinary answer costs one plain call per message.
        """
        if not self._passed:
            if message["type"] != "http.response.start" or message["status"] in _NO_SUCH_PATH:
                return self._look(message)
            self._passed, self.well = True, message["status"] < 300
        return self._to(message)

    async def _look(self, message: Message) -> None:
        self._held.append(message)
        if sum(len(each.get("body", b"")) for each in self._held) <= _MOST_ERROR_BYTES:
            if message["type"] == "http.response.start" or message.get("more_body", False):
                return
            if self._is_about_path(self._held[0]["status"]):
                raise NoSuchPathError
        self._passed = True
        for each in self._held:
            await self._to(each)

    def _is_about_path(self, status: int) -> bool:
        """Whether the error says that there is no such path; a 404 may be about a model or a stored response."""
        encoding = dict(self._held[0].get("headers", ())).get(b"content-encoding", b"")
        body = unpacked_start(b"".join(each.get("body", b"") for each in self._held), encoding, _MOST_ERROR_BYTES)
        return status != 404 or not _ANOTHER_THING.search(body.replace(self._path.encode(), b""))
