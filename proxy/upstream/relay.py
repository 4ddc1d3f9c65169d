"""The relay lane: an ASGI app that passes requests to an upstream and replies back, byte for byte.

Request headers pass an allow-list, so that credentials, cookies and our own protocol's headers never reach a provider;
the exchange's target has the key. All reply headers pass, except hop-by-hop ones. A client that leaves, in any phase,
closes the upstream connection at once: providers then stop generating and billing.

A failure before the reply's head becomes a gateway error (502, 504). A later one ends the reply without a last ASGI
message, and the server breaks the connection: a cut stream must never look complete.
"""

import asyncio
import functools
import re
import time
from collections.abc import Awaitable
from urllib.parse import quote, unquote, unquote_to_bytes

from proxy.asgi import SENT, Receive, Scope, Send
from proxy.body import forget, read_body
from proxy.caller import carries_key
from proxy.dialects.base import X_API_KEY, KeyHeader
from proxy.dialects.errors import ApiError, Headers, upstream_error
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from runtime.http_client import (
    BadReply,
    Client,
    ConnectFailed,
    ConnectTimeout,
    FirstByteTimeout,
    PoolTimeout,
    Response,
    UpstreamError,
)
from runtime.logs import host_of

PREFIX = b"/v1"  # begins our paths; the rest is joined to a target's api_base

REQUEST_HEADERS = frozenset({
    b"accept", b"accept-encoding", b"accept-language", b"cache-control", b"content-type", b"idempotency-key",
    b"traceparent", b"tracestate", b"user-agent", b"x-client-request-id", b"x-request-id",
})  # fmt: skip
REQUEST_PREFIXES = (b"anthropic-", b"openai-", b"x-stainless-")
OF_THE_KEY = frozenset({b"openai-organization", b"openai-project"})  # belong to one key: sent only with it

# RFC 9110 §7.6.1, with the older proxy-connection and keep-alive.
HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
})  # fmt: skip

# Headers about the body on the wire: wrong if the client gets another body.
OF_THE_BODY = re.compile(rb"content-.*|etag|digest|repr-digest|accept-ranges")


class Relay:
    """Forwards each request to its exchange's target through `client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one exchange. Raises ApiError if the upstream fails before the reply's head.

        When the client leaves, the server cancels this task, which closes the upstream connection.
        """
        exchange: Exchange = scope[EXCHANGE]
        if exchange.body is None:
            exchange.body = await read_body(receive)
        response = await self._ask(scope, exchange)
        sent: Awaitable[None] = SENT
        try:
            exchange.upstream_said(response.status)
            headers = end_to_end(response.headers, response.status)
            if response.until_eof:  # may end by a cut: the client must see the same open end
                headers.append((b"connection", b"close"))
            await send({"type": "http.response.start", "status": response.status, "headers": headers})

            def pass_on(chunk: bytes, last: bool) -> bool:
                nonlocal sent
                sent = send({"type": "http.response.body", "body": chunk, "more_body": not last})
                return sent is SENT

            while not response.complete:
                await response.deliver(pass_on)
                await sent
        except UpstreamError as error:
            exchange.error = f"upstream_cut: {host_of(exchange.target.api_base) if exchange.target else ''}: {error}"
        finally:
            response.close()
            if asyncio.iscoroutine(sent):
                sent.close()  # a cancelled task has not awaited it

    async def _ask(self, scope: Scope, exchange: Exchange) -> Response:
        """The reply, from its head on. Raises ApiError."""
        target = exchange.target
        if target is None:
            raise RuntimeError("a request reached the relay without a target: the route must set exchange.target")
        url = url_of(target.api_base, scope)
        began = time.perf_counter()
        try:
            key_header = exchange.dialect.key_header
            headers = request_headers(scope["headers"], target, key_header=key_header, listed=exchange.listed)
            method, body = scope["method"].encode("ascii"), exchange.body or b""
            sent = functools.partial(forget, exchange) if exchange.granted_mb else None
            asked = self._client.request(method, url, headers, body, sent)
            del body
            response = await asked
        except (UpstreamError, ValueError) as error:
            raise answer_to(error, target) from error
        finally:
            exchange.ended_step("upstream", began, target.model)
        return response


def url_of(api_base: str, scope: Scope) -> str:
    """The upstream URL: `api_base`, what follows /v1 in the path, and the query. Raises ApiError for `..`."""
    return _url(api_base, scope["path"], scope.get("raw_path") or b"", scope.get("query_string") or b"")


@functools.lru_cache(maxsize=1024)
def _url(api_base: str, path: str, raw: bytes, query: bytes) -> str:
    """Percent-encoding stays (model and file ids may hold %2F). Dot segments are refused: some servers resolve them,
    even encoded twice or as "..;", and the request would leave `api_base` with the gateway's key.
    """
    segments = [segment.partition(";")[0] for segment in unquote(path).replace("\\", "/").split("/")]
    if ".." in segments or "." in segments:
        raise ApiError(400, f"The path {path!r} has a dot segment: send the resolved path.", code="invalid_path")
    if not raw.startswith(PREFIX + b"/"):  # the prefix is encoded, too, or there is no raw path
        raw = quote(path).encode("ascii")
    rest = raw.removeprefix(PREFIX).decode("ascii") if raw.isascii() else quote(raw.removeprefix(PREFIX), safe="/%")
    base, _, own = api_base.partition("?")
    if own:  # Azure's api-version, say: the path precedes it, and it wins over the client's
        query = _joined(own.encode("ascii"), query)
    return base.rstrip("/") + rest + (f"?{query.decode('latin-1')}" if query else "")


def _joined(own: bytes, query: bytes) -> bytes:
    """The configured query, then the client's other parameters, as sent."""
    named = {unquote_to_bytes(pair.partition(b"=")[0].replace(b"+", b" ")) for pair in own.split(b"&")}
    pairs = [pair for pair in query.split(b"&") if pair]
    others = [pair for pair in pairs if unquote_to_bytes(pair.partition(b"=")[0].replace(b"+", b" ")) not in named]
    return b"&".join([own, *others])


def request_headers(
    headers: Headers, target: Target, *, key_header: KeyHeader = b"authorization", listed: bool = False
) -> Headers:
    """Client headers that may go upstream, plus the target's key. ValueError: the key is not ASCII.

    key_header: belongs to the path's dialect, and carries a configured key. On a listed path, clients may speak
    Anthropic's dialect. Without a configured key, the client's `x-api-key` is sent: on a listed path, and in a dialect
    with that header if the target asks for the client's key.

    Headers named by the client's `Connection` end here. Organization and project belong to a key: they are sent only
    with the client's own.
    """
    ending = {token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")}
    kept = [
        header
        for header in headers
        if (name := header[0]) in REQUEST_HEADERS
        or (name.startswith(REQUEST_PREFIXES) and b"_" not in name and name not in OF_THE_KEY)
    ]
    if ending:
        kept = [header for header in kept if header[0] not in ending]
    key, configured = target.api_key.encode("ascii"), bool(target.api_key) and not target.key_of_client
    by_x_api_key = key_header == X_API_KEY
    if not configured and (listed or (by_x_api_key and target.key_of_client)) and X_API_KEY not in ending:
        kept += [pair for pair in headers if pair[0] == X_API_KEY and not carries_key(*pair)]
    if listed and any(name in (X_API_KEY, b"anthropic-version") for name, _ in headers):
        by_x_api_key = True
    if configured and by_x_api_key:
        kept.append((X_API_KEY, key))
    elif key:
        owned = [header for header in headers if header[0] in OF_THE_KEY and header[0] not in ending]
        if owned and any(name == b"authorization" and value.split()[1:] == [key] for name, value in headers):
            kept += owned
        kept.append((b"authorization", b"Bearer " + key))
    return kept


def end_to_end(headers: Headers, status: int) -> Headers:
    """Reply headers without hop-by-hop ones, which include those that `Connection` names."""
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = HOP_BY_HOP
    for name, value in lowered:
        if name == b"connection":
            dropped = dropped.union(token.strip().lower() for token in value.split(b","))
    if status in (204, 304):
        dropped = dropped | {b"content-length"}  # another reply's length; servers would expect such a body
    return [header for header in lowered if header[0] not in dropped]


def answer_to(error: UpstreamError | ValueError, target: Target) -> ApiError:
    """What to tell the client if there was no reply: the next step. Address and reason are for the log."""
    of_model = f"of model {target.model!r}"
    address = f"the address {of_model} (api_base, or OPENAI_BASE_URL)"
    match error:
        case ConnectFailed():
            status, code, what = 502, "upstream_unreachable", "cannot be reached"
            check = f"Check that the upstream runs, and {address}"
        case ConnectTimeout():
            status, code, what = 504, "upstream_timeout", "did not take the connection in time"
            check = f"Check the network and {address}, or raise upstream.connect_timeout_s"
        case PoolTimeout():
            status, code, what = 504, "upstream_timeout", "has no free connection"
            check = "Try again later, or raise upstream.max_connections"
        case FirstByteTimeout():
            status, code, what = 504, "upstream_timeout", "did not answer in time"
            check = "Check the load of the upstream, or raise upstream.first_byte_timeout_s"
        case BadReply():
            status, code, what = 502, "upstream_bad_reply", "did not answer in HTTP/1.1"
            check = f"Check that {address} is an HTTP/1.1 server (http or https as it expects)"
        case UpstreamError():
            status, code, what = 502, "upstream_closed", "closed the connection before the reply"
            check = "Try again; if the error repeats, read the upstream's log"
        case _:  # the request could not be written
            status, code, what = 502, "upstream_unreachable", "got no request: its head cannot be sent"
            check = f"Check that the key {of_model} is plain ASCII without spaces or line breaks"
    cause = str(error) if isinstance(error, UpstreamError) else "the request's head cannot be sent"
    host = host_of(target.api_base)
    message = f"The upstream {of_model} {what}. {check}; the gateway's log has the reason."
    return upstream_error(status, message, code, cause=cause if host in cause else f"{host}: {cause}")
