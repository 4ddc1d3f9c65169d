"""The SDK's requests over the gateway's connections: checked addresses, the API's credentials, bounded bodies.

No request raises: a failure becomes a JSON-RPC error of our own, so that it costs its call and not the session.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any, Literal

import httpx
import httpx2
import orjson

from proxy.apis.addresses import read_within, why_failed
from proxy.apis.call import Api, Sending, response_to
from proxy.apis.credentials import NoToken
from proxy.apis.request import ApiRequest
from runtime.http_client import UpstreamError
from runtime.public_addresses import ForbiddenAddress

Kind = Literal["forbidden", "unsent", "lost", "large", "status"]
_CODE = -32097  # of our own errors; `Failures` tells them from a server's
_OWN_HEADERS = frozenset({"host", "content-length", "accept-encoding", "user-agent", "connection"})
_PASSED_HEADERS = ("content-type", "mcp-session-id", "location", "retry-after")
_EVENTS = "text/event-stream"
_ERRORS = (TimeoutError, UpstreamError, httpx.HTTPError, httpx.InvalidURL, NoToken, ForbiddenAddress, UnicodeError)
_SHOWN_BYTES = 2_000  # of the body of a refusal


class GatewayTransport(httpx2.AsyncBaseTransport):
    """One session's requests."""

    def __init__(self, api: Api, *, max_bytes: int, seconds: float, listens: bool = False) -> None:
        """seconds: for the answer to a request. listens: whether the server may send what no request asked for."""
        self._api, self._max_bytes, self._seconds, self._listens = api, max_bytes, seconds, listens
        self._mark = secrets.token_hex(8)

    def failure(self, data: Any) -> tuple[Kind, int] | None:
        """What kind of failure an error's data names, with the status of the answer; None: the error is a server's."""
        if not isinstance(data, dict) or data.get("mark") != self._mark:
            return None
        return data["kind"], data["status"]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        waits = request.method == "GET"
        if waits and not self._listens:
            return httpx2.Response(405)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS]
        given = ApiRequest(request.method, str(request.url), tuple(headers), request.content)
        sending = Sending("", once=_calls_tool(given))
        seconds = None if waits else self._seconds
        until_s = None if seconds is None else asyncio.get_running_loop().time() + seconds
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._seconds):  # up to the head, and for a body that is read at once
                    answer = response_to(self._api, given, httpx.URL(given.url), sending, encodings=b"identity")
                    response = await stack.enter_async_context(answer)
                    if _streams(response):
                        passed = _passed(response)
                        body = _Events(response, stack.pop_all(), None if waits else self._max_bytes * 2, until_s)
                        return httpx2.Response(response.status_code, headers=passed, stream=body)
                    content, whole = await read_within(response, self._max_bytes)
            except _ERRORS as error:
                if isinstance(error, ForbiddenAddress | NoToken):
                    return self._failed(
                        "forbidden", why_failed(error) if isinstance(error, ForbiddenAddress) else str(error)
                    )
                reason = "no answer in time" if isinstance(error, TimeoutError) else why_failed(error)
                return self._failed("lost" if sending.began else "unsent", reason)
        if not whole:
            return self._failed("large", f"the answer is larger than {self._max_bytes:,} bytes")
        if response.status_code >= httpx.codes.BAD_REQUEST and not _is_error(content):
            text = content[:_SHOWN_BYTES].decode("utf-8", "replace")
            return self._failed("status", text, response.status_code)
        return httpx2.Response(response.status_code, headers=_passed(response), content=content)

    def _failed(self, kind: Kind, message: str, status: int = 502) -> httpx2.Response:
        data = {"mark": self._mark, "kind": kind, "status": status}
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": _CODE, "message": message, "data": data}}
        content = orjson.dumps(error)
        return httpx2.Response(status, headers={"content-type": "application/json"}, content=content)


def _calls_tool(request: ApiRequest) -> bool:
    """Whether a request may change something, and is sent once only."""
    try:
        return bool(orjson.loads(request.body)["method"] == "tools/call")
    except (ValueError, TypeError, KeyError):
        return False


def _streams(response: httpx.Response) -> bool:
    """Whether the body is events, which are handed on as they come; a packed body is read at once."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == _EVENTS and response.is_success and "content-encoding" not in response.headers


def _passed(response: httpx.Response) -> dict[str, str]:
    return {name: response.headers[name] for name in _PASSED_HEADERS if name in response.headers}


def _is_error(content: bytes) -> bool:
    """Whether a body is a JSON-RPC error."""
    try:
        return isinstance(orjson.loads(content)["error"]["code"], int)
    except (ValueError, TypeError, KeyError):
        return False


class _Events(httpx2.AsyncByteStream):
    """A body of events, up to a limit of bytes and of time."""

    def __init__(
        self, response: httpx.Response, stack: contextlib.AsyncExitStack, max_bytes: int | None, until_s: float | None
    ) -> None:
        self._response, self._stack, self._max_bytes, self._until_s = response, stack, max_bytes, until_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, pieces = 0, aiter(self._response.aiter_raw())
        while True:
            try:
                async with asyncio.timeout_at(self._until_s):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except (TimeoutError, UpstreamError, httpx.HTTPError) as error:
                raise httpx2.ReadError("the stream of events broke off") from error
            size += len(piece)
            if self._max_bytes is not None and size > self._max_bytes:
                raise httpx2.ReadError("the stream of events is too long")
            yield piece

    async def aclose(self) -> None:
        await self._stack.aclose()
