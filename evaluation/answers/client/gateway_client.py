"""Ask one variant one question: a streamed chat completion, measured, as a Reply. A failure is a Reply, too."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

import httpx
import orjson

from evaluation.answers.client.receipt_reader import ReceiptReader
from evaluation.answers.records import BenchError, Rag, Reply, RequestKey
from proxy.access.auth import is_loopback
from proxy.access.prices import Price
from proxy.dialects.chat import CHAT
from proxy.dialects.replies import ReplyReader, ReplyTooLong, read_error
from proxy.dialects.token_counts import BYTES_PER_TOKEN, Tokens, estimated_tokens

CHATS = "/v1/chat/completions"
_COLLECTIONS = "/v1/knowledge/collections"
_CONNECT_S = 10.0
_MOST_ERROR_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt."""

    asked: RequestKey
    at_s: float
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    kept: Mapping[str, Any]  # the body as written to the folder
    price: Price | None


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """A reply, and the information for the next attempt."""

    reply: Reply
    code: str = ""  # of the error
    wait_s: float | None = None  # the gateway asks to wait so long


class GatewayClient:
    """The gateway, over HTTP."""

    def __init__(self, base_url: str, key: str, *, timeout_s: float, concurrency: int) -> None:
        """key:

        "" sends no key. timeout_s: the longest time without a byte. Raises BenchError: base_url is not a valid address.
        """
        headers = {"authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=concurrency + 1, max_keepalive_connections=concurrency + 1)
        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
        base = _address(base_url)
        # Proxies of the environment are for addresses elsewhere.
        self.client = httpx.AsyncClient(
            base_url=base, headers=headers, limits=limits, timeout=timeout, trust_env=not is_loopback(base.host)
        )
        self.receipts = ReceiptReader(self.client)

    async def close(self) -> None:
        await self.client.aclose()

    async def described(self) -> dict[str, Any]:
        """The facts about the gateway: our version, and the collections if the key may list collections.

        Raises BenchError: the gateway does not answer.
        """
        try:
            got = await self.client.get(_COLLECTIONS)
        except httpx.RequestError as error:
            raise BenchError(f"{self.client.base_url} does not answer: {_told(error)}") from error
        told: dict[str, Any] = {"version": version("ragway")}
        with contextlib.suppress(ValueError, AttributeError):  # the server is not ragway
            if got.status_code == 200:
                told["collections"] = got.json().get("data")
        return told

    async def ask(self, call: Call) -> AttemptResult:
        """Send the request and return the result. Only cancellation raises."""
        clock = _Clock()
        sent = {"content-type": "application/json", "accept-encoding": "identity", **call.headers}
        reader, received, head, error = CHAT.reader(streamed=True), bytearray(), None, ""
        try:
            async with self.client.stream("POST", CHATS, content=orjson.dumps(call.body), headers=sent) as head:
                if head.status_code != 200:
                    return await _refused(call, head, clock)
                reader = CHAT.reader(streamed=not head.headers.get("content-type", "").startswith("application/json"))
                async for piece in head.aiter_bytes():
                    received += piece
                    reader.feed(piece, clock.ms())
                reader.close(clock.ms())
        except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
            return AttemptResult(_unsent(call, f"cannot connect to {self.client.base_url}: {_told(failure)}"))
        except (httpx.RequestError, ReplyTooLong) as failure:
            error = _told(failure)
        total_ms = clock.ms()
        error = error or reader.error or ("" if reader.whole else "the reply broke off before its end")
        rag = await self._rag(head)
        status = 0 if head is None else head.status_code
        usage = reader.usage or _estimated(call, reader, rag) if status in (0, 200) else None
        reply = Reply(
            *call.asked,
            call.at_s,
            status,
            reader.answer,
            reader.finish_reason,
            error or None,
            rag,
            usage,
            _cost(usage, call.price),
            reader.first_text_ms,
            total_ms,
            _stages(head),
            call.kept,
            received.decode("utf-8", "replace"),
            reader.refused,
        )
        return AttemptResult(reply)

    async def _rag(self, head: httpx.Response | None) -> Rag:
        rag = _rag_of(head)
        return rag if rag.status != "augmented" else await self.receipts.of(rag)


class _Clock:
    """Milliseconds since the start."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()

    def ms(self) -> float:
        return (time.perf_counter() - self._begun) * 1000


def _unsent(call: Call, error: str) -> Reply:
    """The reply of an attempt that could not connect."""
    return Reply(*call.asked, call.at_s, 0, None, None, error, Rag(), None, 0.0, None, None, {}, call.kept, "")


async def _refused(call: Call, head: httpx.Response, clock: _Clock) -> AttemptResult:
    """The result of a reply whose status is not 200."""
    body = b""
    async for received in head.aiter_bytes():
        body = (body + received)[:_MOST_ERROR_BYTES]
    told, code = read_error(body)
    reply = Reply(
        *call.asked,
        call.at_s,
        head.status_code,
        None,
        None,
        f"{head.status_code}: {told}",
        _rag_of(head),
        None,
        0.0,
        None,
        clock.ms(),
        _stages(head),
        call.kept,
        body.decode("utf-8", "replace"),
    )
    return AttemptResult(reply, code, wait_s(head.headers.get("retry-after", ""), time.time()))


def _address(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.rstrip("/").removesuffix("/v1"))
    except httpx.InvalidURL as error:
        raise BenchError(f"--base-url {base_url!r}: {error}; write http://HOST:PORT/v1") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise BenchError(f"--base-url {base_url!r}: write http://HOST:PORT/v1")
    return url


def wait_s(header: str, now_s: float) -> float | None:
    """The seconds of a Retry-After header, which may be a date (RFC 9110, 10.2.3); None: no valid value."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now_s)
    except (ValueError, TypeError):
        return None


def _rag_of(head: httpx.Response | None) -> Rag:
    if head is None:
        return Rag()
    told = head.headers
    sources = [unquote(each) for each in told.get("x-rag-sources", "").split(",") if each]
    return Rag(told.get("x-rag-status", ""), told.get("x-rag-reason", ""), told.get("x-rag-id", ""), sources)


def _stages(head: httpx.Response | None) -> Mapping[str, float]:
    return {} if head is None else stages_of(head.headers.get("server-timing", ""))


def stages_of(server_timing: str) -> Mapping[str, float]:
    """The milliseconds of each stage in a Server-Timing header; an entry of another form is left out."""
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


def _estimated(call: Call, reader: ReplyReader, rag: Rag) -> Tokens:
    """About what it took, where the upstream does not say: four bytes a token."""
    prompt = estimated_tokens(orjson.dumps(call.body["messages"])) + (rag.injected_tokens or 0)
    return Tokens(prompt, -(-reader.text_bytes() // BYTES_PER_TOKEN), estimated=True)


def _cost(usage: Tokens | None, price: Price | None) -> float | None:
    if usage is None:
        return 0.0
    return None if price is None else price.of(usage)


def _told(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
