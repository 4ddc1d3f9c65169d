"""Keeps litellm from following a redirect, asking twice, fetching, and checking a reply against a client's schema.

litellm's clients follow redirects to any host, with the prompt and now and then the key, and repeat a request whose
connection broke, though the provider may have begun work. litellm has no switch for either, and its providers use
several clients. So this module stops such calls in httpx, where all clients but one pass, and in aiohttp.

litellm also fetches pictures whose addresses a provider does not take, checks replies against a client's JSON schema
(`jsonschema` opens every `$ref`, and runs any regex) and writes out a schema's references one by one (ten lines make a
billion). `request` lets little of this through; `calls` replaces the functions themselves.
"""

import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass(slots=True)
class _PostedRequests:
    """What became of each POST for one client request, by URL."""

    outcomes: dict[str, httpx.HTTPError] = field(default_factory=dict)
    newest: httpx.Response | None = None


class TooLarge(httpx.RequestError):
    """An answer or a streamed event is too large: litellm's work on it would hold up the worker."""

    def __init__(self, request: httpx.Request) -> None:
        words = f"{LARGEST_BYTES >> 20} MB or {_MOST_OBJECTS:,} objects and lists"
        super().__init__(f"The upstream sent more than {words} as one answer or event.", request=request)


LARGEST_BYTES = 32 << 20  # per answer or streamed event: one with pictures or sound has 20 MB
# Opening braces and brackets in an answer, even within texts. 168,000 are 4,000 tokens with 20 alternatives each. Part
# of litellm's work on objects holds Python's lock, so a thread does not help: 0.25 s for 90,000.
_MOST_OBJECTS = 200_000
# litellm searches error texts by regular expressions: 112 s for 20 MB, 0.3 s for 64 KB.
_LARGEST_ERROR_BYTES = 16 << 10
_STREAMS = (
    "text/event-stream",
    "application/x-ndjson",
    "application/stream+json",
    "application/vnd.amazon.eventstream",
)
_asked: ContextVar[_PostedRequests | None] = ContextVar("asked", default=None)
_LARGEST_SCHEMA_BYTES = 1_000_000  # with references written out: a second's work for litellm
_restraining, _restrained = threading.Lock(), threading.Event()  # two threads may load litellm at once


@contextlib.contextmanager
def asking_once() -> Iterator[None]:
    """Within the block, and tasks and threads begun in it, allow a single POST per URL.

    A second one raises httpx.RequestError, caused by the first one's error or its reply's HTTPStatusError.
    """
    asked = _PostedRequests()
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)
        asked.outcomes, asked.newest = {}, None  # a litellm task may live on and keep the record


def answered() -> httpx.Response | None:
    """The newest reply to a POST within `asking_once`: the provider's own, before litellm changes it."""
    asked = _asked.get()
    return asked.newest if asked is not None else None


def asked_nothing() -> bool:
    """Whether no POST was made within `asking_once`: litellm failed on the request itself."""
    asked = _asked.get()
    return asked is not None and not asked.outcomes


def restrain() -> None:
    """Keep every httpx and aiohttp client in this process from following redirects, whatever its caller sets.

    Also: no retries in litellm's openai clients, and nothing fetched, checked or written out without end. A second call
    changes nothing.
    """
    with _restraining:
        if not _restrained.is_set():
            _replace_calls()
            _restrained.set()


def _replace_calls() -> None:
    import aiohttp
    import litellm
    from litellm.litellm_core_utils import json_validation_rule, url_utils
    from litellm.litellm_core_utils.prompt_templates.common_utils import unpack_defs
    from litellm.llms.openai.openai import OpenAIChatCompletion

    def fetch_nothing(url: str) -> Any:
        words = "The gateway fetches no pictures or files, and this provider takes none by address: send it as data:."
        raise litellm.ImageFetchError(words)  # type: ignore[attr-defined]

    def check_nothing(schema: Any, response: Any) -> None:
        return None

    litellm.user_url_validation = True  # else litellm skips `validate_url`
    vars(url_utils)["validate_url"] = fetch_nothing  # called before every fetch of an address in a request
    vars(json_validation_rule)["validate_schema"] = check_nothing
    unpack_defs.__defaults__ = (_LARGEST_SCHEMA_BYTES,)  # most callers set no limit

    send_async, send = httpx.AsyncClient.send, httpx.Client.send
    ask, client_of = aiohttp.ClientSession._request, OpenAIChatCompletion._get_openai_client

    async def send_async_once(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        with _posted_once(request) as note:
            options["follow_redirects"] = False
            if _asked.get() is None:
                return await send_async(self, request, **options)
            response = await send_async(self, request, **{**options, "stream": True})
            _bound(response)
            if not options.get("stream"):
                try:
                    await response.aread()
                except BaseException:
                    await response.aclose()
                    raise
            return note(response)

    def send_once(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        with _posted_once(request) as note:
            return note(send(self, request, **{**options, "follow_redirects": False}))

    async def ask_directly(self: aiohttp.ClientSession, *where: Any, **options: Any) -> aiohttp.ClientResponse:
        if (asked := _asked.get()) is not None:
            asked.outcomes.setdefault(str(where[-1]), httpx.RequestError("The upstream was asked."))
        return await ask(self, *where, **{**options, "allow_redirects": False})

    def client_without_retries(self: OpenAIChatCompletion, *args: Any, **options: Any) -> Any:
        client: Any = client_of(self, *args, **options)
        client.max_retries = 0  # a call's own `max_retries` does not reach all providers
        return client

    for owner, name, restrained in (
        (httpx.AsyncClient, "send", send_async_once),
        (httpx.Client, "send", send_once),
        (aiohttp.ClientSession, "_request", ask_directly),
        (OpenAIChatCompletion, "_get_openai_client", client_without_retries),
    ):
        setattr(owner, name, functools.wraps(getattr(owner, name))(restrained))


def _bound(response: httpx.Response) -> None:
    """Limit how many unpacked bytes anyone reads from the response, to a size that litellm can handle.

    Longer error texts are cut. Longer answers, or lines in a stream (litellm reads lines), raise TooLarge.
    """
    read, failed = response.aiter_bytes, response.status_code >= 400
    streamed = response.headers.get("content-type", "").lower().startswith(_STREAMS)

    async def bounded(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        size = objects = 0
        async for part in read(chunk_size):
            if failed and size + len(part) >= _LARGEST_ERROR_BYTES:
                yield part[: _LARGEST_ERROR_BYTES - size]
                await response.aclose()
                return
            size, objects = size + len(part), objects + _objects_in(part)
            if streamed and (newest := part.rfind(b"\n")) >= 0:
                size, objects = len(part) - newest - 1, _objects_in(part[newest:])
            if size > LARGEST_BYTES or objects > _MOST_OBJECTS:
                raise TooLarge(response.request)
            yield part

    vars(response)["aiter_bytes"] = bounded


def _objects_in(part: bytes) -> int:
    return part.count(b"{") + part.count(b"[")


@contextlib.contextmanager
def _posted_once(request: httpx.Request) -> Iterator[Callable[[httpx.Response], httpx.Response]]:
    """Refuse a second POST to the same URL. The yielded function notes and returns the first one's reply."""
    asked, url = _asked.get(), str(request.url)
    if asked is None or request.method != "POST":
        yield lambda response: response
        return
    if first := asked.outcomes.get(url):
        raise httpx.RequestError("The upstream was asked once already.", request=request) from first
    asked.outcomes[url] = httpx.RequestError("The upstream has not answered yet.", request=request)

    def note(response: httpx.Response) -> httpx.Response:
        words = f"The upstream answered {response.status_code}."
        asked.outcomes[url] = httpx.HTTPStatusError(words, request=request, response=response)
        asked.newest = response
        return response

    try:
        yield note
    except httpx.HTTPError as error:
        asked.outcomes[url] = error
        raise
