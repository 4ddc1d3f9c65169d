"""A key's limits: a middleware, from a request's admission to its usage row.

A route sends its answer, or prepares a model call and returns it; the middleware then makes the call. So a request is
admitted and settled in the same function. Every model call, be it the only one or one of several rounds, goes through
the request's meter, which reserves tokens before the call and counts them after it. If a request does not count, the
middleware returns the route's call unmade, and `Observe` makes it: one function fewer waits for the reply.
"""

import math
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import replace
from typing import Any, Literal

from proxy.access.ledger import Ledger
from proxy.access.limits import Admission
from proxy.access.usage_tap import UsageTap
from proxy.asgi import App, Receive, Scope, Send, covers
from proxy.caller import UNLIMITED
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import LENGTHS, by_size, values_of
from proxy.dialects.paths import BY_PATH
from proxy.dialects.replies import ATTACHMENT_TOKENS, BYTES_PER_TOKEN, Tokens, estimated_tokens
from proxy.dialects.responses import RESPONSES
from proxy.exchange import EXCHANGE, Exchange, ModelCall, ModelRoute

# Gateway routes that call no model and do not count as requests, except searches, runs, queries and approvals.
_FREE = (
    "/v1/models",
    "/v1/knowledge",
    "/v1/vector_stores",
    "/v1/files",
    "/v1/admin",
    "/v1/usage",
    "/v1/actions",
    "/v1/tables",
)
_SEARCH = "/search"
_OPERATIONS, _RUN, _PENDING = "/v1/actions/", "/run", "/v1/actions/pending/"
_DATABASES, _QUERY = "/v1/tables/databases/", "/query"
_TOOLS = "/mcp"  # searches as tools
_ANSWER_TOKENS = 500  # reserved if the request sets no answer length
_CHOICES = ("n", "best_of")  # members for how many answers, in all dialects
_NONE = Tokens(0, 0)
_MOST_TOKENS = 10**9  # a larger number counts as _MOST_TOKENS, which fits every counter


Record = Literal["with_keys", "always", "never"]  # which requests get a usage row


def keeps_row(record: Record, exchange: Exchange) -> bool:
    """Whether a request gets a usage row."""
    return record == "always" or (record == "with_keys" and exchange.key != "")


class Metering:
    """Runs every request that counts, within the limits of its key."""

    def __init__(self, routes: ModelRoute, ledger: Ledger, record: Record, *, relayed: Collection[str] = ()) -> None:
        """relayed: paths that go to an upstream, even if the gateway has a route of the same path."""
        self._routes = routes
        self._ledger = ledger
        self._record = record
        self._relayed = tuple(relayed)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[ModelCall | None]:
        """The call of a request that does not count; None: answered.

        Raises ApiError 429 if a limit is used up, 503 if the accounts cannot be reached.
        """
        exchange: Exchange = scope[EXCHANGE]
        kept = keeps_row(self._record, exchange)
        if (exchange.limits is UNLIMITED and not kept) or not self._counts(scope["method"], scope["path"]):
            return self._routes(scope, receive, send)
        return self._counted(scope, receive, send, kept=kept)

    async def _counted(self, scope: Scope, receive: Receive, send: Send, *, kept: bool) -> None:
        exchange: Exchange = scope[EXCHANGE]
        admission = None
        try:
            # Admit: a request, tokens and money must be left.
            admission = await self._ledger.admit(exchange)

            # The route answers, or prepares a call of a model.
            if (call := await self._routes(scope, receive, send)) is not None:
                _must_report_use(scope["path"], exchange)
                await call(RequestMeter(exchange, self._ledger, admission))(scope, receive, send)
        except ApiError as error:  # `Observe` sends the error after settlement
            exchange.status = exchange.status or error.status
            raise
        finally:
            # Settle: count used tokens in place of reserved ones, and write a usage row.
            self._ledger.settle(exchange, admission, kept=kept)

    def _counts(self, method: str, path: str) -> bool:
        """Whether a request to this path counts for the key."""
        if path in BY_PATH:
            return True
        if not path.startswith("/v1/"):
            return path == _TOOLS and method == "POST"
        if any(covers(listed, path) for listed in self._relayed):
            return True
        if path.startswith(_PENDING):  # an answer may send calls
            return method == "POST"
        if path.endswith(_SEARCH) or (path.startswith(_OPERATIONS) and path.endswith(_RUN)):
            return True
        if path.startswith(_DATABASES) and path.endswith(_QUERY):
            return True
        return not any(covers(free, path) for free in _FREE)


def within_ceiling(upstream: App, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    """The `CallMeter` of a request that does not count: only the request's own ceiling limits its calls."""
    exchange: Exchange = scope[EXCHANGE]
    if exchange.most_tokens:
        _check_ceiling(exchange, exchange.body or b"", exchange.fields or {}, exchange.tokens or _NONE)
    return upstream(scope, receive, send)


class RequestMeter:
    """The `CallMeter` of one request that counts."""

    def __init__(self, exchange: Exchange, ledger: Ledger, admission: Admission | None) -> None:
        """admission: None for a caller without limits."""
        self._exchange = exchange
        self._ledger = ledger
        self._admission = admission

    async def __call__(self, upstream: App, scope: Scope, receive: Receive, send: Send) -> None:
        exchange, used = self._exchange, self._exchange.tokens
        body = await self._reserve(scope["path"], used)
        tap = UsageTap(send, exchange.dialect)
        try:
            await within_ceiling(upstream, scope, receive, tap.send)
        except ApiError:  # the upstream gave no reply
            exchange.tokens = exchange.tokens or _NONE
            raise
        finally:
            if exchange.tokens is used:  # nobody has read the reply
                tokens = _with_prompt(tap.tokens(body), exchange.body_tokens)
                exchange.tokens = tokens if used is None else used.plus(tokens)

    async def _reserve(self, path: str, used: Tokens | None) -> bytes:
        """Reserve tokens that the call may take. used: by earlier calls; None: this is the first.

        Returns the body for a token estimate; b"" for a large body, which may be forgotten.
        """
        exchange, ledger, admission = self._exchange, self._ledger, self._admission
        body = exchange.body or b""
        if exchange.fields is not None and not exchange.fields:  # a form with a file: an attachment
            body = body[: ATTACHMENT_TOKENS * BYTES_PER_TOKEN]
        if admission is not None:
            fields = exchange.fields or {}
            answers = not path.endswith("/embeddings")
            wanted_tokens, least_tokens = await by_size(body, lambda: tokens_to_reserve(body, fields, answers=answers))
            if used is None:
                admission.settle(0)  # a call of an upstream that lacks its path keeps no tokens
                await ledger.reserve(exchange, admission, wanted_tokens, least_tokens)
            else:
                await ledger.reserve_next(exchange, admission, used, wanted_tokens, least_tokens)
        if not exchange.granted_mb:
            return body
        exchange.body_tokens = await by_size(body, lambda: estimated_tokens(body))
        return b""


def _with_prompt(tokens: Tokens, body_tokens: int) -> Tokens:
    """A call's tokens; body_tokens: a forgotten body's, in place of an estimate from the body."""
    return replace(tokens, prompt=body_tokens) if tokens.estimated and not tokens.prompt else tokens


def _must_report_use(path: str, exchange: Exchange) -> None:
    """Refuse a background response to a key with a usage limit. Raises ApiError 403.

    The answer reports no tokens, and goes on after a client has left.
    """
    fields = exchange.fields or {}
    if path != RESPONSES.path or "background" not in fields or not exchange.limits.of_use:
        return
    if any(value not in (False, None) for value in values_of(exchange.body or b"", fields, ("background",))):
        message = (
            "A response with `background` reports no tokens, so this key, which has a limit of tokens or dollars, may "
            "not ask for one: wait for the response, or ask for a stream."
        )
        raise ApiError(403, message, code="forbidden", type="permission_error", param="background")


def _check_ceiling(exchange: Exchange, body: bytes, fields: Mapping[str, Any], used: Tokens) -> None:
    """Raise ApiError 400 if a model call could bring a request above its own ceiling.

    The largest prompt has a token for every byte, so the ceiling holds with any tokenizer. used: by the calls so far.
    """
    so_far = used.prompt + used.completion
    longest = _largest(body, fields, LENGTHS) * max(1, _largest(body, fields, _CHOICES))
    needed = so_far * (BYTES_PER_TOKEN if used.estimated else 1) + len(body) + longest
    if needed > exchange.most_tokens:
        message = (
            f"The next call of the model could bring this request to {needed} tokens, above the "
            f"{exchange.most_tokens} of x-rag-max-tokens: allow more, or ask for fewer operations."
        )
        raise ApiError(400, message, code="max_tokens_reached", param="x-rag-max-tokens")


def tokens_to_reserve(body: bytes, fields: Mapping[str, Any], *, answers: bool) -> tuple[int, int]:
    """Tokens to reserve for a call: (wanted, least).

    least: the prompt, and for each choice the longest answer that the client allows. wanted: the same; if the client
    sets no length, _ANSWER_TOKENS more for each choice. fields: body members, parsed, because names may have escapes
    and numbers may be written as 1e6. If a member is repeated, its largest value counts.
    """
    prompt = estimated_tokens(body)
    if not answers:
        return prompt, prompt
    longest = _largest(body, fields, LENGTHS)
    choices = max(1, _largest(body, fields, _CHOICES))
    least = min(prompt + longest * choices, _MOST_TOKENS)
    return least if longest else min(prompt + _ANSWER_TOKENS * choices, _MOST_TOKENS), least


def _largest(body: bytes, fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    if not fields:  # not a JSON object
        return 0
    return max(map(_count_of, values_of(body, fields, names)), default=0)


def _count_of(value: object) -> int:
    """A number of tokens or choices, as an upstream may read it; 0: not a number.

    Some upstreams take "100" for 100.
    """
    if isinstance(value, str) and len(value) < 20:
        try:
            value = float(value)
        except ValueError:
            return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0
    return math.ceil(value) if value < _MOST_TOKENS else _MOST_TOKENS
