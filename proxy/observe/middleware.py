"""Outermost: opens an exchange, answers with our own errors, writes one log line per request."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Sequence
from urllib.parse import quote

from proxy.asgi import CLIENT_LEFT, Message, Receive, Scope, Send, send_error
from proxy.body import ClientGone, end_grant
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from proxy.dialects.paths import BY_PATH
from proxy.exchange import EXCHANGE, HEADER_WORDS, CallMeter, Exchange, ModelRoute, unmetered
from proxy.observe.metrics import Metrics
from runtime import logs
from runtime.logs import truncate

log = logging.getLogger("ragway")
_MAX_SOURCES_BYTES = 1000  # for a header that names sources or operations


class Observe:
    """Wraps every HTTP request in an `Exchange`; other ASGI traffic passes untouched."""

    def __init__(self, app: ModelRoute, metrics: Metrics, meter: CallMeter = unmetered) -> None:
        """meter: for a prepared call that the app returns."""
        self._app = app
        self._metrics = metrics
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        exchange = Exchange(method=scope["method"], path=path, dialect=_dialect_of(path))
        scope[EXCHANGE] = exchange
        self._metrics.begun()
        started = False

        def send_with_headers(message: Message) -> Awaitable[None]:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                exchange.status = message["status"]
                if exchange.granted_mb:
                    end_grant(exchange)
                # An upstream may be such a gateway, too: two sets of headers would contradict each other.
                theirs = [pair for pair in message.get("headers", ()) if not pair[0].startswith(b"x-rag-")]
                message["headers"] = [*theirs, *_headers(exchange)]
            return send(message)

        try:
            if (call := await self._app(scope, receive, send_with_headers)) is not None:
                await call(self._meter)(scope, receive, send_with_headers)
        except ClientGone:
            exchange.error = CLIENT_LEFT
        except asyncio.CancelledError as cancelled:
            exchange.error = CLIENT_LEFT if CLIENT_LEFT in cancelled.args else "cut off: the server stops"
            raise
        except ApiError as error:
            exchange.error = error.log_text
            if not started:
                await _send_error(send_with_headers, exchange, error)
        except Exception:  # the last line of defence: a 500, and a log entry
            log.exception("%s failed", exchange.id)
            exchange.error = exchange.error or "internal error"
            if not started:
                message = f"Internal error of the gateway; its log has more under {exchange.id}."
                await _send_error(
                    send_with_headers, exchange, ApiError(500, message, code="internal_error", type="server_error")
                )
        finally:
            self._ended(exchange)

    def _ended(self, exchange: Exchange) -> None:
        if exchange.granted_mb:
            end_grant(exchange)
        for listener in exchange.after_reply:
            listener()
        self._metrics.ended(exchange)
        if exchange.path.startswith(("/v1/", "/mcp")):
            logs.write_line(_line(exchange))


def _dialect_of(path: str) -> Dialect:
    """Anthropic's even below `/v1/messages`; paths without a dialect get OpenAI's errors."""
    return BY_PATH.get(path) or (MESSAGES if path.startswith(MESSAGES.path + "/") else CHAT)


async def _send_error(send: Send, exchange: Exchange, error: ApiError) -> None:
    await send_error(send, error, exchange.dialect.error_body(error, exchange.id))


def _headers(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    headers = [(b"x-rag-id", exchange.id.encode())]
    if exchange.comparison:
        headers.append((b"x-rag-compare", exchange.comparison.encode()))
    if exchange.rewriting is not None:
        model, tokens = exchange.rewriting
        words = f"{tokens.prompt}, {tokens.completion}; model={quote(model, safe='/.-_~:@+')}"
        headers.append((b"x-rag-rewrite-tokens", words.encode()))
    if exchange.patterns:
        headers.append(
            (b"x-rag-patterns", ", ".join(quote(each, safe="/.-_~:@+*") for each in exchange.patterns).encode())
        )
    if exchange.upstream_status >= 400:
        headers.append((b"x-rag-upstream-status", b"%d" % exchange.upstream_status))
    if ran := _ran(exchange):
        headers.append((b"x-rag-actions", names_header(ran)))
    if exchange.pending:
        headers.append((b"x-rag-pending", exchange.pending.encode()))
    if not exchange.rag_status:
        return headers
    headers.append((b"x-rag-status", exchange.rag_status.encode()))
    if exchange.rag_reason:
        headers.append((b"x-rag-reason", exchange.rag_reason.encode("ascii", "replace")))
    if exchange.sources:
        headers.append((b"x-rag-sources", sources_header(exchange.sources)))
    headers.append((b"server-timing", exchange.server_timing().encode()))
    return headers


def _ran(exchange: Exchange) -> tuple[str, ...]:
    """Operations that ran, one entry per call and in call order, after words of our own."""
    trace = exchange.action_trace
    if trace is None:
        return exchange.actions
    holds = (trace.forgotten, trace.offer == "not suited", trace.not_ready)
    words = itertools.compress(HEADER_WORDS, holds)
    ran = [one.operation for one in trace.calls if one.operation in exchange.actions and (one.sent or not one.set)]
    return (*words, *(ran if len(ran) == len(exchange.actions) else exchange.actions))


def sources_header(sources: Sequence[str]) -> bytes:
    """Distinct sources, best first, as in `names_header`."""
    return names_header(list(dict.fromkeys(sources)))


def names_header(names: Sequence[str]) -> bytes:
    """Names, percent-encoded and comma-separated; cut after a whole one."""
    header = b""
    for name in names:
        entry = (b"," if header else b"") + quote(name, safe="/.-_~ #", errors="replace").encode()
        if len(header) + len(entry) > _MAX_SOURCES_BYTES:
            break
        header += entry
    return header


def _line(exchange: Exchange) -> str:
    ran, lasted_ms = _ran(exchange), exchange.elapsed_ms()
    rounds = [] if exchange.action_trace is None else exchange.action_trace.words()
    path = truncate(exchange.path)
    if not path.isprintable() or " " in path:  # clients must not forge log lines
        path = repr(path)
    parts = [exchange.method, path, str(exchange.status or "-"), f"{lasted_ms:.0f}ms"]
    if exchange.model:
        parts += [f"model={truncate(exchange.model)!r}", f"rag={exchange.rag_status or '-'}"]
        if exchange.sources:
            parts.append(f"passages={len(exchange.sources)}")
        if exchange.rag_reason and exchange.rag_status != "augmented":
            parts.append(f"({exchange.rag_reason})")
    if ran:
        parts.append(f"actions={','.join(ran)}")
    parts += rounds
    if exchange.tokens is not None:
        about = "~" if exchange.tokens.estimated else ""
        parts.append(f"tokens={about}{exchange.tokens.prompt}+{exchange.tokens.completion}")
    if exchange.key:
        parts.append(f"key={exchange.key}")
    if exchange.error:
        parts.append(f"error={exchange.error!r}")
    return " ".join([*parts, exchange.id])
