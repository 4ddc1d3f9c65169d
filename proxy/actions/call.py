"""One call of an operation: arguments checked, the request built, sent with the API's credentials, the result cut.

A call never raises for a fault of the API or of the arguments: the outcome is a text for the model.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from proxy.actions.addresses import CheckedTransport, ForbiddenAddress, IPNetwork
from proxy.actions.credentials import NoToken
from proxy.actions.openapi.operation import Operation
from proxy.actions.request import ActionRequest, BadArgument, build_request
from proxy.actions.results import result_text

_TRIES = 3
_PASSING = frozenset({429, 502, 503, 504})
_MOST_REDIRECTS = 3
_FIRST_PAUSE_S = 0.3


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The limits of one call."""

    seconds: float = 30.0
    max_bytes: int = 1 << 20  # of a response
    max_chars: int = 8_000  # of a result


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call. `status` is 0 where no response came."""

    text: str  # for the model: the result, or what went wrong and what to do
    status: int = 0
    sent: bool = False  # whether a request left the gateway
    ms: float = 0.0
    size: int = 0  # bytes of the response
    content: bytes = field(default=b"", repr=False)  # the response as read
    media_type: str = ""

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


@dataclass(slots=True)
class Api:
    """A configured API, with one pool of connections."""

    name: str
    base_url: str
    auth: httpx.Auth | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)  # arguments that no model sees
    networks: Sequence[IPNetwork] = ()  # that are not public, and allowed
    secrets: Sequence[str] = field(default=(), repr=False)  # masked where the API sends a secret back
    _client: httpx.AsyncClient | None = field(default=None, repr=False)

    @property
    def client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(transport=CheckedTransport(self.networks), trust_env=False)
        return self._client

    def request(self, operation: Operation, arguments: Mapping[str, Any]) -> ActionRequest:
        """The request with the fixed arguments, without credentials. Raises BadArgument."""
        fixed = {name: value for name, value in self.fixed.items() if name in operation.schema["properties"]}
        return build_request(operation, {**arguments, **fixed}, operation.server or self.base_url)

    def masked(self, text: str) -> str:
        """The text without the API's secrets and fixed arguments."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


async def call(api: Api, operation: Operation, arguments: Mapping[str, Any], limits: CallLimits) -> Outcome:
    """Call an operation. arguments: checked (`arguments.problems`), without the fixed arguments.

    Only reading calls are tried again. Only cancellation raises.
    """
    if not operation.reads:
        return Outcome(
            f"{operation.method} {operation.path} could change something. This gateway only reads: nothing was sent."
        )
    try:
        request = api.request(operation, arguments)
    except BadArgument as error:
        return Outcome(f"Nothing was sent: {error}.")
    began = time.perf_counter()
    try:
        async with asyncio.timeout(limits.seconds):
            outcome = await _with_retries(api, request, limits)
    except TimeoutError:
        outcome = Outcome(f"The API did not answer within {limits.seconds:g} s.", sent=True)
    except (httpx.HTTPError, httpx.InvalidURL, NoToken, ForbiddenAddress, UnicodeError) as error:
        outcome = Outcome(f"The API cannot be reached: {_reason(error)}.")
    return Outcome(
        api.masked(outcome.text),
        outcome.status,
        outcome.sent or outcome.status > 0,
        (time.perf_counter() - began) * 1000,
        outcome.size,
        outcome.content,
        outcome.media_type,
    )


async def _with_retries(api: Api, request: ActionRequest, limits: CallLimits) -> Outcome:
    pause_s = _FIRST_PAUSE_S
    for attempt in range(1, _TRIES + 1):
        try:
            outcome, again_s = await _once(api, request, limits)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError, httpx.ReadError):
            if attempt == _TRIES:
                raise
        else:
            if outcome.status not in _PASSING or attempt == _TRIES:
                return outcome
            pause_s = max(pause_s, again_s)
            if pause_s > limits.seconds / 2:
                return outcome
        await asyncio.sleep(pause_s)
        pause_s *= 2
    raise AssertionError("the last attempt returns or raises")


async def _once(api: Api, given: ActionRequest, limits: CallLimits) -> tuple[Outcome, float]:
    """The outcome, and the seconds that the API asks to wait. Redirects within the origin are followed."""
    timeout = httpx.Timeout(limits.seconds, connect=min(10.0, limits.seconds))
    request = httpx.Request(
        given.method,
        given.url,
        headers=given.headers,
        content=given.body or None,
        extensions={"timeout": timeout.as_dict()},
    )
    for _ in range(_MOST_REDIRECTS + 1):
        response = await api.client.send(request, auth=api.auth or httpx.Auth(), stream=True)
        try:
            target = response.next_request
            if target is not None and _origin(target.url) == _origin(request.url) and target.method == request.method:
                request = httpx.Request(
                    given.method, target.url, headers=given.headers, extensions={"timeout": timeout.as_dict()}
                )
                continue
            content, whole = await _read(response, limits.max_bytes)
        finally:
            await response.aclose()
        break
    else:
        return Outcome("The API redirects without an end.", sent=True), 0.0
    return _outcome(response, content, whole, limits), _retry_after_s(response)


async def _read(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """The body, and whether the body is whole."""
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > max_bytes:
            return bytes(content[:max_bytes]), False
    return bytes(content), True


def _outcome(response: httpx.Response, content: bytes, whole: bool, limits: CallLimits) -> Outcome:
    media_type = response.headers.get("content-type", "")
    status = response.status_code
    if not whole:
        text = f"(the first {limits.max_bytes:,} bytes of a longer response)\n"
        text += result_text(
            content, media_type if "json" not in media_type else "text/plain", max_chars=limits.max_chars
        )
    elif response.is_redirect:
        text = "The API redirects to another server, which is not called."
    else:
        text = result_text(content, media_type, max_chars=limits.max_chars)
    if not 200 <= status < 300:
        again = response.headers.get("retry-after", "")
        text = f"The API answered with status {status}{f', Retry-After: {again}' if again.isdecimal() else ''}. {text}"
    return Outcome(text, status, True, 0.0, len(content), content, media_type)


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _reason(error: Exception) -> str:
    """The kind of failure: the text of a library's error may quote the request with its secrets."""
    if isinstance(error, NoToken | ForbiddenAddress):
        return str(error)
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return "no connection"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return "the connection broke off" if isinstance(error, httpx.TransportError) else "the address is not valid"
