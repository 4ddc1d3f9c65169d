"""Asks one variant one question: a streamed request, measured, becomes a Reply. So does a failure."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

import httpx
import orjson

from evaluation.answers.client.receipt_reader import ReceiptReader
from evaluation.answers.client.request_bodies import BODIES, RequestBodies
from evaluation.answers.records import BenchError, MaxCost, Rag, Reply, RequestKey
from proxy.access.auth import is_loopback
from proxy.access.prices import Price, price_of
from proxy.dialects.replies import BYTES_PER_TOKEN, ReplyTooLong, Tokens, read_error
from proxy.exchange import HEADER_WORDS

_COLLECTIONS, _ACTION_SETS = "/v1/knowledge/collections", "/v1/actions/sets"
_CONNECT_S = 10.0
_REWRITING = re.compile(r"(\d{1,12}), (\d{1,12}); model=(\S+)")
_MOST_ERROR_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """A request to the gateway, for one work item."""

    key: RequestKey
    row: Mapping[str, Any]  # identifies it in the folder
    model: str
    body: Mapping[str, Any]
    stored_body: Mapping[str, Any]  # as written to the folder
    max_cost: MaxCost
    price: Price | None
    headers: Mapping[str, str] = field(default_factory=dict)
    bodies: RequestBodies = BODIES["chat"]  # the dialect
    rewrite_price_of: Callable[[str], Price | None] = price_of  # for the model that rewrites questions


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """A reply, and what the next attempt needs to know."""

    reply: Reply
    code: str = ""  # of an error
    wait_s: float | None = None  # how long the gateway asks to wait


class GatewayClient:
    """The gateway, over HTTP."""

    def __init__(self, base_url: str, key: str, *, timeout_s: float, concurrency: int) -> None:
        """Raises BenchError: base_url is not a valid address.

        key: "" sends no key. timeout_s: how long no byte may arrive.
        """
        headers = {"authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=concurrency + 1, max_keepalive_connections=concurrency + 1)
        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
        base = _address(base_url)
        # Proxies in the environment are for addresses elsewhere.
        self.client = httpx.AsyncClient(
            base_url=base, headers=headers, limits=limits, timeout=timeout, trust_env=not is_loopback(base.host)
        )
        self.receipts = ReceiptReader(self.client)

    async def close(self) -> None:
        await self.client.aclose()

    async def described(self) -> dict[str, Any]:
        """Facts about the gateway: our version, and its collections if the key may list them.

        Raises BenchError: the gateway does not answer.
        """
        try:
            response = await self.client.get(_COLLECTIONS)
        except httpx.RequestError as error:
            raise BenchError(
                f"{self.client.base_url} does not answer ({_error_text(error)}): is the gateway running?"
            ) from error
        facts: dict[str, Any] = {"version": version("ragway")}
        with contextlib.suppress(ValueError, AttributeError):  # not a ragway server
            if response.status_code == 200:
                facts["collections"] = response.json().get("data")
        return facts

    async def has_action_sets(self) -> bool:
        """Whether the key may read any action set."""
        try:
            response = await self.client.get(_ACTION_SETS)
            return response.status_code == 200 and bool(response.json().get("data"))
        except (httpx.RequestError, ValueError, AttributeError):  # not a ragway server
            return False

    async def ask(self, request: BenchRequest, at_s: float) -> AttemptResult:
        """Send the request and return its result. Only cancellation raises."""
        stopwatch = _Stopwatch()
        headers_sent = {"content-type": "application/json", "accept-encoding": "identity", **request.headers}
        dialect = request.bodies.dialect
        reader, received, response, error = dialect.reader(streamed=True), bytearray(), None, ""
        try:
            async with self.client.stream(
                "POST", dialect.path, content=orjson.dumps(request.body), headers=headers_sent
            ) as response:
                if response.status_code != 200:
                    return await _refused(request, at_s, response, stopwatch)
                reader = dialect.reader(
                    streamed=not response.headers.get("content-type", "").startswith("application/json")
                )
                async for piece in response.aiter_bytes():
                    received += piece
                    reader.feed(piece, stopwatch.ms())
                reader.close(stopwatch.ms())
        except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
            return AttemptResult(
                _connection_failure(request, at_s, f"cannot connect to {self.client.base_url}: {_error_text(failure)}")
            )
        except (httpx.RequestError, ReplyTooLong) as failure:
            error = _error_text(failure)
        total_ms = stopwatch.ms()
        error = error or reader.error or ("" if reader.whole else "the reply broke off before its end")
        status, headers = (0, httpx.Headers()) if response is None else (response.status_code, response.headers)
        rag = _rag_header(headers)
        rag = await self.receipts.of(rag) if rag.status == "augmented" else rag
        usage = reader.tokens(_prompt_of(request, rag)) if status in (0, 200) else None
        cost, (model, rewriting) = _cost(usage, request.price), _rewriting(headers)
        if usage is not None and rewriting is not None:
            usage = replace(usage.plus(rewriting), parts=())
            rewrite_cost = _cost(rewriting, request.rewrite_price_of(model))
            cost = None if cost is None or rewrite_cost is None else cost + rewrite_cost
        reply = Reply(
            *request.key,
            at_s,
            status,
            reader.answer,
            reader.finish_reason,
            error or None,
            rag,
            usage,
            cost,
            reader.first_text_ms,
            total_ms,
            stages_of(headers.get("server-timing", "")),
            request.stored_body,
            received.decode("utf-8", "replace"),
            reader.refused,
            rewriting,
        )
        return AttemptResult(reply)


class _Stopwatch:
    """Milliseconds since the start."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()

    def ms(self) -> float:
        return (time.perf_counter() - self._begun) * 1000


def _connection_failure(request: BenchRequest, at_s: float, error: str) -> Reply:
    """The reply for an attempt that could not connect."""
    return Reply(*request.key, at_s, 0, error=error, cost_usd=0.0, request=request.stored_body)


async def _refused(
    request: BenchRequest, at_s: float, response: httpx.Response, stopwatch: _Stopwatch
) -> AttemptResult:
    """The result for a status other than 200."""
    body = b""
    async for received in response.aiter_bytes():
        body = (body + received)[:_MOST_ERROR_BYTES]
    message, code = read_error(body)
    stages = stages_of(response.headers.get("server-timing", ""))
    # In a chat with operations, a refusal after a round is not free: the tokens of earlier rounds are not known.
    spent = any(stage.startswith("round-") for stage in stages)
    reply = Reply(
        *request.key,
        at_s,
        response.status_code,
        error=f"{response.status_code}: {message}",
        rag=_rag_header(response.headers),
        usage=Tokens(0, 0, estimated=True) if spent else None,
        cost_usd=None if spent else 0.0,
        total_ms=stopwatch.ms(),
        stages_ms=stages,
        request=request.stored_body,
        reply=body.decode("utf-8", "replace"),
    )
    return AttemptResult(reply, code, wait_s(response.headers.get("retry-after", ""), time.time()))


def _address(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.rstrip("/").removesuffix("/v1"))
    except httpx.InvalidURL as error:
        raise BenchError(f"--base-url {base_url!r}: {error}; write http://HOST:PORT/v1") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise BenchError(f"--base-url {base_url!r}: write http://HOST:PORT/v1")
    return url


def wait_s(header: str, now_s: float) -> float | None:
    """Seconds in a Retry-After header, which may be a date (RFC 9110, 10.2.3); None: not valid."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now_s)
    except (ValueError, TypeError):
        return None


def _rag_header(headers: Mapping[str, str]) -> Rag:
    sources = [unquote(each) for each in headers.get("x-rag-sources", "").split(",") if each]
    actions = operations_in(headers.get("x-rag-actions", ""))
    status, reason, id = (headers.get(name, "") for name in ("x-rag-status", "x-rag-reason", "x-rag-id"))
    return Rag(status, reason, id, sources, actions=actions)


def operations_in(header: str) -> list[str]:
    """Operations in `x-rag-actions`, without the gateway's own words."""
    return [unquote(each) for each in header.split(",") if each and each not in HEADER_WORDS]


def _rewriting(headers: Mapping[str, str]) -> tuple[str, Tokens | None]:
    """Which model rewrote the question, and its tokens, from the header; None: none did."""
    found = _REWRITING.fullmatch(headers.get("x-rag-rewrite-tokens", ""))
    return ("", None) if found is None else (unquote(found[3]), Tokens(int(found[1]), int(found[2])))


def stages_of(server_timing: str) -> Mapping[str, float]:
    """Milliseconds of each stage in a Server-Timing header; entries of another form are left out."""
    found: dict[str, float] = {}
    for entry in server_timing.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            try:
                if name and key == "dur":
                    found[name] = float(value.strip('"'))
            except ValueError:
                continue
    return found


def _prompt_of(request: BenchRequest, rag: Rag) -> bytes:
    """A text as long as the prompt, for an estimate: the conversation plus what the gateway injected."""
    injected = (rag.injected_tokens or 0) * BYTES_PER_TOKEN if rag.injected_bytes is None else rag.injected_bytes
    return orjson.dumps(request.bodies.prompt_of(request.body)) + b" " * injected


def _cost(usage: Tokens | None, price: Price | None) -> float | None:
    if usage is None:
        return 0.0
    return None if price is None else price.of(usage)


def _error_text(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
