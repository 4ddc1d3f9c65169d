"""One call of an operation: arguments checked, the request built, sent with the API's credentials, the result cut.

A call never raises for a fault of the API or of the arguments: the outcome is a text for the model.
"""

import asyncio
import contextlib
import functools
import itertools
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Literal, Protocol
from urllib.parse import urljoin

import httpx
import msgspec

from proxy.apis.addresses import CheckedTransport, origin_of, read_within, redirect_target, why_failed
from proxy.apis.allowed_values import forbidden_values, narrowed
from proxy.apis.credentials import (
    ApiKey,
    ClientCredentials,
    NoToken,
    longest_form_bytes,
    masked,
    sent_credentials,
    sent_once,
)
from proxy.apis.openapi.operation import (
    MCP,
    NO_WRITES,
    CallPolicy,
    Effect,
    Granted,
    Mode,
    Operation,
    Parameter,
    name_parts,
    names_method,
    query_names,
)
from proxy.apis.request import ApiRequest, BadArgument, build_request, tool_request
from proxy.apis.results import normalised, result_text
from proxy.dialects.json_body import by_size
from retrieval.errors import RetrievalError
from runtime.fair_slots import FairSlots
from runtime.http_client import BadReply, ConnectFailed, ConnectTimeout, Cut, UpstreamError
from runtime.public_addresses import ForbiddenAddress, IPNetwork

_PASSING = frozenset({429, 502, 503, 504})
_BROKEN = (ConnectFailed, ConnectTimeout, Cut, BadReply)
_FIXED = "FIXED"  # in place of a secret value, in a request that is shown and not sent
_MOST_REDIRECTS = 3
_MOST_URL_CHARS = 300
_TOTALS = ("x-total-count", "x-total", "total-count")
_WHOLE = re.compile(r"[0-9]{1,15}")
_MOST_DIGITS = 12  # of Retry-After
_CALLS, _CALLS_OF_KEY = 24, 12  # at a time for one API
_MOST_DRAINED_BYTES = 1 << 16  # of a refused try: a longer body costs the connection
# Statuses after which a request may have taken effect: of redirects to a page about the result, and of proxies that
# lost the answer.
_UNCLEAR = frozenset({301, 302, 502, 504})
_NO_PROOF = "This does not prove that nothing was done."
_IDEMPOTENCY_KEY = "idempotency-key"
_SEE_OTHER = 303  # after a request that took effect (RFC 9110 §15.4.4)
# The key's id, SET/OPERATION and the most calls an hour -> 0.0 and the call counts, or seconds to wait. Blocks.
CountCall = Callable[[str, str, int], float]
# What became of a call. The trace of a chat has these words, and more for calls that were not made. "unknown": a
# request that changes something was sent, and its answer was lost.
OutcomeWord = Literal[
    "ok", "api_error", "timeout", "failed", "invalid_arguments", "could_change", "no_credentials", "limit", "unknown"
]


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The limits of one call."""

    seconds: float = 30.0
    max_bytes: int = 1 << 20  # of a response
    max_chars: int = 8_000  # of a result
    pause_s: float = 0.3  # before the second try; twice as long before the third


@dataclass(frozen=True, slots=True)
class CallResult:
    """What became of a call. `status` is 0 where no response came."""

    text: str  # for the model: the result, or what went wrong and what to do
    status: int = 0
    sent: bool = False  # whether the request of the operation, or a part of the request, left the gateway
    ms: float = 0.0
    size: int = 0  # bytes of the response
    whole: str = field(default="", repr=False)  # the whole result, where the text is cut
    word: OutcomeWord = "ok"  # for the log and the metrics
    tries: int = 0  # 0: none, or not known
    location: str = field(default="", repr=False)  # the header of the response

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def unsure(self) -> bool:
        """Whether a request that changes something may have taken effect, although no answer says so."""
        return self.word == "unknown" or (self.word == "api_error" and self.status >= HTTPStatus.INTERNAL_SERVER_ERROR)


class ToolServer(Protocol):
    """An MCP server, by whose sessions an API's tools are called (`proxy.apis.mcp`)."""

    @property
    def shared(self) -> bool:
        """Whether one serves all keys: it gets no credentials of a key."""
        ...

    async def call(self, api: "Api", request: ApiRequest, limits: CallLimits, sending: "Sending") -> CallResult:
        """Raises UpstreamError."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Api:
    """A configured API, with one pool of connections and one number of calls at a time.

    Credentials and fixed arguments go to the origin of `base_url` and to the origins of `servers`, whatever the
    document says.
    """

    name: str
    base_url: str
    auth: httpx.Auth | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)  # arguments that no model sees
    networks: Sequence[IPNetwork] = ()  # that are not public, and allowed
    secrets: Sequence[str] = field(default=(), repr=False)  # masked where the API sends a secret back
    servers: Sequence[str] = ()  # further addresses, of operations with servers of their own
    only: Sequence[str] | None = None  # the operations that may be called; None: all but `never`
    never: Sequence[str] = ()
    ask: Sequence[str] = ()  # arguments that only a person knows, beside those of the document
    policy: CallPolicy = NO_WRITES  # for calls that change something
    count: CountCall | None = field(default=None, repr=False)  # a call with a limit an hour; None: no limit counts
    refusal: str = ""  # the outcome of every call, where no call can be made
    tools: ToolServer | None = field(default=None, repr=False)  # None: an HTTP API
    transport: CheckedTransport = field(init=False, repr=False)
    _slots: FairSlots = field(default_factory=lambda: FairSlots(_CALLS, _CALLS_OF_KEY), init=False, repr=False)
    _lane: object = field(default_factory=object, init=False, repr=False)  # of connections with the same credentials

    def __post_init__(self) -> None:
        self.transport = CheckedTransport(self.networks, api=self.name)

    def address_of(self, operation: Operation) -> str:
        """The address at which an operation is called: the operation's own server, or the API's.

        The query of `base_url`, such as a key or a version, goes along within the origin.
        """
        base, _, query = self.base_url.partition("?")
        if not operation.server:
            return self.base_url
        try:
            url = urljoin(base.rstrip("/") + "/", operation.server)
        except ValueError:
            return operation.server  # no URL, and so no address of the API
        if not query or origin_of(url) != origin_of(base):
            return url
        return f"{url}{'&' if '?' in url else '?'}{query}"

    def allows(self, operation: Operation) -> bool:
        """Whether the settings let the operation be called. They name operations as documents do."""
        if not self.never and self.only is None:
            return True
        names = set(operation.names)
        return names.isdisjoint(self.never) and (self.only is None or not names.isdisjoint(self.only))

    def serves(self, operation: Operation) -> bool:
        """Whether the operation may be called, and has an address of the API."""
        return self._has(operation) and self.allows(operation) and self.owns(self.address_of(operation))

    def _has(self, operation: Operation) -> bool:
        """Whether the operation is of an MCP server, as the API is, or of neither."""
        return (operation.method == MCP) == (self.tools is not None)

    def owns(self, url: str) -> bool:
        """Whether a URL is at an address of the API."""
        return origin_of(url) in {origin_of(one) for one in (self.base_url, *self.servers)} - {None}

    def why_not_called(
        self, operation: Operation, granted: Granted | None = None
    ) -> Literal["", "not_granted", "could_change", "not_allowed", "other_server"]:
        """Why no call of an operation is made; "": calls are, perhaps after a person's confirmation.

        granted: to the caller; None: everything. not_granted: for the caller, there is no such operation.
        """
        called = self.mode_and_effect(operation, granted)
        if called is None:
            return "not_granted"
        if called[0] == "refuse":
            return "could_change"
        if not self.allows(operation):
            return "not_allowed"
        return "" if self.serves(operation) else "other_server"

    def mode_and_effect(self, operation: Operation, granted: Granted | None) -> tuple[Mode, Effect] | None:
        """How the settings let an operation be called, and what a call does; None: not granted to the caller."""
        mode, effect = self.policy.mode_and_effect(operation)
        known = "reads" if mode == "refuse" else effect  # a reader may know what nobody may call
        if granted is not None and granted.mode_of(self.name, operation.names, known) == "refuse":
            return None
        return mode, effect

    def share(self, other: "Api") -> None:
        """Share the pool and the calls at a time with another `Api` of the same address."""
        self.transport, self._slots = other.transport, other._slots
        if self.tools is not None and self.tools.shared:
            self.tools = other.tools

    def schema_of(self, operation: Operation) -> dict[str, Any]:
        """The schema of the arguments that a model gives: without fixed arguments, the API key, the address's query."""
        own = {one.argument for one in operation.parameters if self._is_own_parameter(one, operation)}
        hidden = own.union(*(arguments_named(operation, name) for name in self.fixed))
        properties = {name: one for name, one in operation.schema["properties"].items() if name not in hidden}
        for argument, members, values in self._allowed(operation):
            if argument in properties:
                properties[argument] = narrowed(properties[argument], members, values)
        required = [name for name in operation.schema["required"] if name not in hidden]
        return {**operation.schema, "properties": properties, "required": required}

    def _allowed(self, operation: Operation) -> Iterator[tuple[str, Sequence[str], Collection[str]]]:
        """The arguments with allowed values, the members within the argument, and the values."""
        for name, values in self.policy.allowed.items():
            if whole := arguments_named(operation, name):
                yield from ((one, (), values) for one in whole)
            else:
                first, *members = name.split(".")
                yield from ((one, members, values) for one in arguments_named(operation, first) if members)

    def asked_of(self, operation: Operation) -> set[str]:
        """The arguments that only a person knows."""
        marked = (one.argument for one in operation.parameters if one.ask)
        return {*marked, *(one for name in self.ask for one in arguments_named(operation, name))}

    def _is_own_parameter(self, parameter: Parameter, operation: Operation) -> bool:
        """Whether a parameter is the API key or the idempotency key, or stands in the query of the address."""
        if isinstance(self.auth, ApiKey) and self.auth.is_written_as(parameter):
            return True
        if self._names_idempotency(parameter):
            return True
        own = set(map(name_parts, query_names(self.base_url)))
        within = not operation.server or origin_of(self.address_of(operation)) == origin_of(self.base_url)
        return parameter.place == "query" and name_parts(parameter.name) in own and within

    def _names_idempotency(self, parameter: Parameter) -> bool:
        named = (self.policy.idempotency_header.lower(), _IDEMPOTENCY_KEY)
        return parameter.place == "header" and parameter.name.lower() in named

    def idempotency_header(self, operation: Operation) -> str:
        """The header by which the API knows a call again, of the settings or of the document; "": none."""
        of_document = (one.name for one in operation.parameters if self._names_idempotency(one))
        return self.policy.idempotency_header or next(of_document, "")

    def request(self, operation: Operation, arguments: Mapping[str, Any]) -> ApiRequest:
        """The request with the fixed arguments, without credentials. Raises BadArgument, ForbiddenAddress."""
        if not self.allows(operation):
            raise ForbiddenAddress(f"actions.{self.name}.only or .never keeps {operation.name} from being called")
        if not self._has(operation):
            raise ForbiddenAddress(f"actions.{self.name} has another kind of operations now (ragway actions update)")
        if operation.server and not self.serves(operation):
            where = operation.server.partition("?")[0]
            raise ForbiddenAddress(
                f"{where} is not the address of this API (allow the address in actions.{self.name}.servers)"
            )
        for argument, members, values in self._allowed(operation):
            if argument in arguments and (wrong := [*forbidden_values(arguments[argument], members, values)]):
                named = ".".join([argument, *members])
                raise BadArgument(f"{named} must be one of {', '.join(sorted(values))}, not {', '.join(wrong)}")
        fixed = {one: value for name, value in self.fixed.items() for one in arguments_named(operation, name)}
        if operation.method == MCP:
            return tool_request(operation, {**arguments, **fixed}, self.base_url)
        parameters = tuple(one for one in operation.parameters if not self._is_own_parameter(one, operation))
        operation = msgspec.structs.replace(operation, parameters=parameters)
        key = (self.auth.where, self.auth.name) if isinstance(self.auth, ApiKey) else None
        return build_request(operation, {**arguments, **fixed}, self.address_of(operation), fixed=fixed.keys(), key=key)

    def shown_request(self, operation: Operation, arguments: Mapping[str, Any]) -> ApiRequest:
        """The request for people: FIXED in place of fixed arguments and of the values in the query of `base_url`.

        Raises BadArgument, ForbiddenAddress.
        """
        base, mark, query = self.base_url.partition("?")
        hidden = "&".join(f"{one.partition('=')[0]}={_FIXED}" for one in query.split("&"))
        shown = replace(self, base_url=base + mark + (hidden if query else ""), fixed=_without_values(self.fixed))
        return shown.request(operation, arguments)

    def masked(self, content: bytes, sent: Iterable[str] = (), *, whole: bool = True) -> bytes:
        """The content without the API's secrets and fixed arguments, as written or encoded in a usual way.

        sent: the credentials of the request. whole: False cuts the end, which may be the beginning of a secret.
        """
        secrets = [one for one in (*sent, *self.known_secrets()) if one]
        if not secrets:
            return content
        content = masked(content, secrets)
        return content if whole else content[: max(0, len(content) - longest_form_bytes(secrets))]

    def known_secrets(self) -> Sequence[str]:
        """What is masked: the secrets of the settings, and the token at present."""
        return [*self.secrets, self.auth.token if isinstance(self.auth, ClientCredentials) else ""]

    def masked_text(self, text: str) -> str:
        """`masked`, of a text."""
        return self.masked(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    async def close(self) -> None:
        """Close the connections."""
        if self.tools is not None:
            await self.tools.close()
        await self.transport.aclose()


def arguments_named(operation: Operation, name: str) -> list[str]:
    """The arguments that a name means: of the parameters with the name in the document, else of the model's name."""
    found = [one.argument for one in operation.parameters if one.name == name]
    if name in found or not found:
        return [name] if name in operation.schema["properties"] else []
    return found


def _without_values(value: Any) -> Any:
    """The value with FIXED in place of each text and number."""
    if isinstance(value, Mapping):
        return {name: _without_values(one) for name, one in value.items()}
    return [_without_values(one) for one in value] if isinstance(value, list) else _FIXED


async def call(
    api: Api,
    operation: Operation,
    arguments: Mapping[str, Any],
    limits: CallLimits,
    *,
    owner: str = "",
    granted: Granted | None = None,
) -> CallResult:
    """Call an operation. arguments: checked (`schema_check.problems`), without the fixed arguments. owner: the key.

    granted: as in `Api.why_not_called`. Only reading calls are tried again. Only cancellation raises.
    """
    called = api.mode_and_effect(operation, granted)
    if called is None:
        text = f"Nothing was sent: this key may not call {api.name}/{operation.name}."
        return CallResult(text, word="no_credentials")
    if called[1] == "changes":
        return CallResult(
            f"{operation.method} {operation.path} could change something. This gateway only reads: nothing was sent.",
            word="could_change",
        )
    if api.refusal:
        return CallResult(api.refusal, word="no_credentials")
    try:
        request = api.request(operation, arguments)
    except (BadArgument, ForbiddenAddress) as error:
        return CallResult(api.masked_text(f"Nothing was sent: {error}."), word="invalid_arguments")
    if over := await over_limit(api, operation, owner):
        return over
    return await _limited(api, request, limits, Sending(owner))


async def over_limit(api: Api, operation: Operation, owner: str) -> CallResult | None:
    """Count a call that is about to be sent; the outcome of a call above the operation's limit an hour. owner: the key.

    Without the count, no call is made.
    """
    if api.count is None or not api.policy.calls_per_hour:
        return None
    if (most := api.policy.most_calls_an_hour(operation)) is None:
        return None
    try:
        waits_s = await asyncio.to_thread(api.count, owner, f"{api.name}/{operation.name}", most)
    except RetrievalError:
        return CallResult("Nothing was sent: the gateway cannot count the calls at present.", word="limit")
    if not waits_s:
        return None
    text = (
        f"Nothing was sent: {operation.name} may be called {most} times an hour, and again in {waits_s / 60:.0f} min."
    )
    return CallResult(text, word="limit")


async def send(api: Api, request: ApiRequest, limits: CallLimits, *, owner: str = "") -> CallResult:
    """Send a request exactly as given, with the API's credentials, and never twice.

    Tries that sent no byte are made again. A redirect is not followed. The word is "unknown" if the request may have
    taken effect and no answer says so; a server error stays an "api_error" that is `unsure`. Only cancellation raises.
    """
    if api.refusal:
        return CallResult(api.refusal, word="no_credentials")
    if not api.owns(request.url):
        return CallResult("Nothing was sent: the address is not an address of the API any more.", word="failed")
    sending = Sending(owner, once=True)
    outcome = await _limited(api, request, limits, sending)
    if not sending.began or outcome.succeeded:
        return outcome
    if not outcome.status and sending.status:  # the head of the answer came, and the body broke off
        took_effect = 200 <= sending.status < 300
        text = f"The API answered with status {sending.status}, and the rest of its answer was lost."
        outcome = replace(outcome, text=text, status=sending.status, word="ok" if took_effect else "api_error")
    if outcome.status == _SEE_OTHER:
        return replace(outcome, word="ok", text="The API answered with status 303: it has taken the request.")
    if outcome.status and outcome.status not in _UNCLEAR:
        return replace(outcome, text=f"{outcome.text} {_NO_PROOF}") if outcome.unsure else outcome
    text = f"{outcome.text} Whether the request took effect is not known: it was sent, and was not sent again."
    return replace(outcome, word="unknown", text=text)


async def _limited(api: Api, request: ApiRequest, limits: CallLimits, sending: "Sending") -> CallResult:
    """The outcome of a request within the time. Only cancellation raises."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(limits.seconds):
            outcome = await _with_retries(api, request, limits, sending)
    except TimeoutError:
        outcome = CallResult(f"{sending.stage} within {limits.seconds:g} s.", word="timeout")
    except (UpstreamError, httpx.HTTPError, httpx.InvalidURL, NoToken, ForbiddenAddress, UnicodeError) as error:
        outcome = _failure(error, tries=1)
    ms = (time.perf_counter() - began) * 1000
    return replace(outcome, text=api.masked_text(outcome.text), sent=sending.began, ms=ms)


class Sending:
    """How far the tries of a call have come."""

    def __init__(self, owner: str, *, once: bool = False) -> None:
        """once: a request that may be sent once only."""
        self.owner = owner
        self.once = once
        self.status = 0  # of the answer to the request of the operation; 0: none
        self.waits = False  # for other calls of the API
        self.began = False  # whether a request of the operation was sent

    @property
    def stage(self) -> str:
        """What did not come."""
        if self.began:
            return "The API did not answer"
        if self.waits:
            return "Nothing was sent: other calls of this API, which are under way, did not end"
        return "Nothing was sent: no connection to the API was ready"

    def sent(self) -> None:
        self.began = True


async def _with_retries(api: Api, request: ApiRequest, limits: CallLimits, sending: Sending) -> CallResult:
    """The outcome of the last try. A try that would begin after the limit of time is not waited for."""
    end_s = time.monotonic() + limits.seconds
    pauses_s = (limits.pause_s, limits.pause_s * 2, math.inf)  # before the next try, at least
    for tries, least_s in enumerate(pauses_s, 1):
        pause_s = least_s
        try:
            sending.waits = True
            async with api._slots.slot(sending.owner):
                sending.waits = False
                outcome, asked_s = await _once(api, request, limits, sending)
        except _BROKEN as error:
            if time.monotonic() + pause_s > end_s or (sending.once and sending.began):
                return _failure(error, tries)
        else:
            pause_s = max(pause_s, asked_s)
            if outcome.status not in _PASSING or time.monotonic() + pause_s > end_s or sending.once:
                return replace(outcome, tries=tries)
        await asyncio.sleep(pause_s)
    raise AssertionError("the last try returns")


async def _once(api: Api, given: ApiRequest, limits: CallLimits, sending: Sending) -> tuple[CallResult, float]:
    """The outcome, and the seconds that the API asks to wait. Redirects within the origin are followed."""
    if api.tools is not None:
        return await api.tools.call(api, given, limits, sending), 0.0
    url = httpx.URL(given.url)
    for _ in range(_MOST_REDIRECTS + 1):
        async with response_to(api, given, url, sending) as response:
            follows = response.has_redirect_location and not sending.once
            target = _redirect_target(response, url, given.method) if follows else None
            if target is None:
                content, whole = await read_within(response, limits.max_bytes)
                outcome = await by_size(content, functools.partial(_outcome, api, response, content, whole, limits))
                return outcome, _retry_after_s(response)
        url = target
    return CallResult("The API redirects without an end.", word="failed"), 0.0


@contextlib.asynccontextmanager
async def response_to(
    api: Api, given: ApiRequest, url: httpx.URL, sending: Sending, *, encodings: bytes = b"gzip"
) -> AsyncIterator[httpx.Response]:
    """The response to the request with credentials, not yet read."""
    given_headers = [(name.encode(), _header_bytes(value)) for name, value in given.headers]
    headers = [(b"user-agent", b"ragway"), (b"accept-encoding", encodings), *given_headers]
    first = httpx.Request(given.method, url, headers=headers, content=given.body or None)
    flow = sent_once(api.auth, first) if sending.once else (api.auth or httpx.Auth()).async_auth_flow(first)
    async with contextlib.aclosing(flow) as tries:
        request = await anext(tries)
        while True:
            request.extensions = {"lane": api._lane}
            if request is first:  # not the request for a token
                request.extensions["begun"] = sending.sent
                if sending.once:  # a connection of its own: the API may just close one that was used
                    request.extensions["lane"] = object()
            async with contextlib.aclosing(await api.transport.handle_async_request(request)) as response:
                with contextlib.suppress(StopAsyncIteration):
                    request = await tries.asend(response)
                    if not response.is_stream_consumed:
                        await read_within(response, _MOST_DRAINED_BYTES)
                    continue
                response.request, sending.status = request, response.status_code
                yield response
                return


def _header_bytes(value: str) -> bytes:
    """The value in Latin-1, which most servers read, as browsers send it; other letters in UTF-8 (RFC 9110 §5.5)."""
    with contextlib.suppress(UnicodeEncodeError):
        return value.encode("latin-1")
    return value.encode()


def _redirect_target(response: httpx.Response, url: httpx.URL, method: str) -> httpx.URL | None:
    """The address to call next, within the origin and by the same method; None: none. Raises httpx.InvalidURL."""
    target = redirect_target(response, url)
    if any(map(names_method, query_names(str(target)) - query_names(str(url)))):
        return None
    kept = method in ("GET", "HEAD") or response.status_code in (307, 308)
    return target if kept and origin_of(target) == origin_of(url) else None


def _outcome(api: Api, response: httpx.Response, content: bytes, whole: bool, limits: CallLimits) -> CallResult:
    size_bytes = len(content)
    content, media_type = normalised(content, response.headers.get("content-type", ""))
    content = api.masked(content, sent_credentials(response.request), whole=whole)
    if not whole and "json" in media_type:
        media_type = "text/plain"
    result = result_text(content, media_type, max_chars=limits.max_chars)
    text, status = f"{result.text}{_further_pages(response)}", response.status_code
    if not whole:
        text = f"(the first {limits.max_bytes:,} bytes of a longer response)\n{text}"
    elif response.has_redirect_location:
        text = "The API redirects to another server, which is not called."
    if not 200 <= status < 300:
        again_s = _retry_after_s(response)
        wait = f" and asks for a pause of {again_s:.0f} s" if again_s else ""
        text = f"The API answered with status {status}{wait}. {text}"
    elif not content:
        text = f"The API answered with status {status} and no content."
    cut = "" if response.has_redirect_location else api.masked_text(result.whole)
    word: OutcomeWord = "ok" if 200 <= status < 300 else "api_error"
    location = api.masked_text(response.headers.get("location", ""))
    return CallResult(text, status, size=size_bytes, whole=cut, word=word, location=location)


def _further_pages(response: httpx.Response) -> str:
    """What the headers say of a list with more rows: else a model takes the first page for all."""
    links = (one.get("url", "") for one in response.links.values() if "next" in one.get("rel", "").lower().split())
    words = [f"the next page is {url[:_MOST_URL_CHARS]}" for url in itertools.islice(links, 1) if url]
    totals = (response.headers.get(name, "") for name in _TOTALS)
    words += [f"there are {total} rows in all" for total in itertools.islice(filter(_WHOLE.fullmatch, totals), 1)]
    return f"\n(By the headers of the response, {' and '.join(words)}.)" if words else ""


def _retry_after_s(response: httpx.Response) -> float:
    """The seconds of Retry-After, a number or a date; 0: none."""
    text = response.headers.get("retry-after", "")
    if text.isdecimal():
        return float(text[:_MOST_DIGITS])
    try:
        date = parsedate_to_datetime(text)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)  # C's asctime names no zone (RFC 9110 §5.6.7)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _failure(error: Exception, tries: int) -> CallResult:
    reason = str(error) if isinstance(error, NoToken) else why_failed(error)
    return CallResult(f"The call failed: {reason}.", word="failed", tries=tries)
