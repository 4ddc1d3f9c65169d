"""How the gateway itself calls models: metered, traced, and ended by cancellation.

Question rewriting, enrichment at ingest and shadow comparisons use it. A call goes through the same `Metering` as a
client's request: tokens are reserved, counted and written to its `Owner`'s usage, and it ends at the owner's limits. It
passes no other middleware: no passages, no log line, no request of the key.

Cancelling the awaiting task (a deadline, a client that left) closes the upstream connection.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from proxy.access.ledger import Ledger
from proxy.access.metering import Metering, Record
from proxy.access.usage import OPERATOR
from proxy.asgi import App, Message, Receive, Scope, Send
from proxy.caller import UNLIMITED, Limits
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.replies import Tokens
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange, ModelCall, one_call, unmetered

_MOST_BYTES = 256 * 1024  # of an answer
_MODELS = "/v1/models"
_NO_LIST = ("status 404", "status 405")  # of upstreams without a list
_MOST_LIST_BYTES = 4 * 2**20  # some hundred models with descriptions are 700 KB


class NoAnswer(Exception):
    """No usable answer. The message quotes neither question nor answer."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who pays for a call: a key, or a name in its place. Its limits are the budget."""

    key: str  # in usage rows; "": no keys, so no rows by default
    limits: Limits = UNLIMITED
    request: str = ""  # id of the causing request; "": none


COMMAND_LINE = Owner(OPERATOR)


def owner_of(exchange: Exchange) -> Owner:
    """Calls caused by a client's request belong to its key."""
    return Owner(exchange.key, exchange.limits, exchange.id)


class ModelCalls:
    """Calls models for the gateway itself."""

    def __init__(self, upstream: App, ledger: Ledger, record: Record) -> None:
        """upstream: `proxy.upstream.routes.Upstream`, without any middleware."""
        call = one_call(upstream)

        async def prepared(_scope: Scope, _receive: Receive, _send: Send) -> ModelCall:
            return call  # `call_of` has prepared everything

        self._metering = Metering(prepared, ledger, record)

    async def complete(
        self,
        model: str,
        target: Target,
        messages: Sequence[Mapping[str, str]],
        *,
        owner: Owner,
        max_tokens: int,
        headers: Headers | None = None,
        spent: Callable[[Tokens], object] | None = None,
    ) -> str:
        """Return a model's answer, in one piece, at temperature 0.

        model: its name in usage rows. headers: of a client's request, for targets that take the client's own key.
        spent: called with the used tokens, also after cancellation. Raises NoAnswer: the upstream failed, refused or
        broke off; the model refused; the owner has no tokens left.
        """
        fields = {
            "model": target.model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": max_tokens,
            "stream": False,
        }
        reply, reader = _WholeReply(_MOST_BYTES), CHAT.reader(streamed=False)
        body = orjson.dumps(fields)
        try:
            call = self.call_of(model, target, body, owner, fields=fields)
            await self.send(call, _scope(call, headers or []), reply.take)
            reader.feed(reply.body())
            reader.close()
        except (ApiError, NoAnswer) as error:
            spent = None
            raise NoAnswer(error.log_text if isinstance(error, ApiError) else str(error)) from None
        finally:
            if spent is not None:
                spent(reader.tokens(body))
        if not reader.whole:
            raise NoAnswer("the reply is not a chat completion")
        if reader.refused:
            raise NoAnswer("the model refused")
        if not reader.has_text:
            raise NoAnswer("the reply has no text")
        return reader.answer or ""

    def call_of(
        self,
        model: str,
        target: Target,
        body: bytes,
        owner: Owner,
        *,
        fields: Mapping[str, Any],
        dialect: Dialect = CHAT,
    ) -> Exchange:
        """Prepare a call. body: a request in the dialect; fields: its members."""
        call = Exchange(
            method="POST",
            path=dialect.path,
            dialect=dialect,
            key=owner.key,
            limits=owner.limits,
            by_gateway=True,
            model=model,
            target=target,
            body=body,
            fields=fields,
        )
        if owner.request:
            call.id = owner.request
        return call

    async def send(self, call: Exchange, scope: Scope, send: Send) -> None:
        """Make a call; its reply goes to `send`.

        scope: of a client's request, for headers and query. Raises ApiError: no reply, or the owner's limits are used
        up (`call.limited`).
        """
        scope = {**scope, EXCHANGE: call}
        if (uncounted := await self._metering(scope, _nothing_more, send)) is not None:
            await uncounted(unmetered)(scope, _nothing_more, send)


async def list_models(upstream: App, target: Target, *, headers: Headers) -> Sequence[Mapping[str, Any]]:
    """List an upstream's own models, each an object with an `id`. A list costs no tokens and is not metered.

    headers: as in `complete`. Raises NoAnswer: the upstream failed, refused, broke off, or sent no list.
    """
    exchange = Exchange(method="GET", path=_MODELS, target=target, body=b"")
    reply = _WholeReply(_MOST_LIST_BYTES)
    try:
        await upstream(_scope(exchange, headers), _nothing_more, reply.take)
    except ApiError as error:
        raise NoAnswer(error.log_text) from None
    try:
        answer = orjson.loads(reply.body())
    except orjson.JSONDecodeError:
        raise NoAnswer("the reply is not JSON") from None
    rows = answer.get("data", "") if isinstance(answer, dict) else ""
    if not isinstance(rows, list | None):  # null: an upstream without models
        raise NoAnswer("the reply is not a list of models")
    return [row for row in rows or () if _has_id(row)]


async def find_model(upstream: App, target: Target, *, headers: Headers) -> bytes | None:
    """Find the upstream's own object for the target's model, in JSON, byte for byte if it answers for a single model.

    None: no such model. Many upstreams have only a list, and some only single models: if the first request finds none,
    the list decides. headers: as in `complete`. Raises NoAnswer if the list cannot be read.
    """
    exchange = Exchange(method="GET", path=f"{_MODELS}/{target.model}", target=target, body=b"")
    scope = _scope(exchange, headers)
    scope["raw_path"] = f"{_MODELS}/{quote(target.model, safe='')}".encode()
    reply, refused = _WholeReply(_MOST_BYTES), ""
    try:
        await upstream(scope, _nothing_more, reply.take)
        answer = orjson.loads(reply.body())
        if _has_id(answer) and answer.get("object", "model") == "model":
            return reply.body()
    except orjson.JSONDecodeError:
        pass
    except (ApiError, NoAnswer) as error:
        refused = error.code if isinstance(error, ApiError) else str(error)
    try:
        listed = await list_models(upstream, target, headers=headers)
    except NoAnswer as error:
        if refused == "status 404" and str(error) in _NO_LIST:
            return None
        raise
    return next((orjson.dumps(row) for row in listed if row["id"] == target.model), None)


def _has_id(answer: Any) -> bool:
    """Whether a JSON value is an object with an id."""
    return isinstance(answer, dict) and isinstance(answer.get("id"), str) and answer["id"] != ""


def _scope(exchange: Exchange, headers: Headers) -> Scope:
    """The ASGI scope of a request without a client."""
    target = exchange.target
    own = [pair for pair in headers if target is not None and target.key_of_client and pair[0] == b"authorization"]
    if exchange.body:
        own.append((b"content-type", b"application/json"))
    else:  # for a list: Anthropic's API needs the version
        own += [pair for pair in headers if pair[0] == b"anthropic-version"]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": exchange.method,
        "path": exchange.path,
        "raw_path": exchange.path.encode(),
        "query_string": b"",
        "headers": own,
        EXCHANGE: exchange,
    }


async def _nothing_more() -> Message:
    raise AssertionError("the body travels with the exchange")


class _WholeReply:
    """A response, received whole."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._status = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._whole = False

    async def take(self, message: Message) -> None:
        """Receive one message. Raises NoAnswer beyond the limit."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            return
        part = message.get("body", b"")
        self._parts.append(part)
        self._size += len(part)
        self._whole = not message.get("more_body", False)
        if self._size > self._most_bytes:
            raise NoAnswer("the reply is too long")

    def body(self) -> bytes:
        """Return the body. Raises NoAnswer: an error, or a reply that broke off."""
        if self._status != 200:
            raise NoAnswer(f"status {self._status}")
        if not self._whole:
            raise NoAnswer("the reply broke off")
        return b"".join(self._parts)
