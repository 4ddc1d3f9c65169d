"""What litellm may not do for a client of ours: follow a redirect, ask a second time, fetch, check a reply's schema.

They follow a redirect to any host, with the prompt and now and then the key, and send a request again whose connection
broke, though the provider may have begun to work on it. litellm has no switch for either, and its providers go through
several clients: so it is stopped where all of them pass, in httpx, and in aiohttp for the one that does without.

litellm also fetches a picture whose address the provider does not take, checks replies against a client's JSON schema
(`jsonschema` opens what a `$ref` names, and runs any regex) and writes out a schema's references one by one (ten lines
make a billion). `translated_request` lets little of that through; here the functions themselves are replaced.
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
class _Asked:
    """What became of the POST requests made for the client's request at hand, by their URL."""

    outcomes: dict[str, httpx.HTTPError] = field(default_factory=dict)
    newest: httpx.Response | None = None


class TooLarge(httpx.RequestError):
    """An answer, or one event of a stream, is more than can be worked on without holding up the worker."""

    def __init__(self, request: httpx.Request) -> None:
        words = f"{LARGEST_BYTES >> 20} MB or {_MOST_OBJECTS:,} objects and lists"
        super().__init__(f"The upstream sent more than {words} as one answer or event.", request=request)


LARGEST_BYTES = 32 << 20  # of an answer or of one event of a stream: one with pictures or sound has 20 MB
# Opening braces and brackets in it, those within texts, too. 168,000 are 4,000 tokens with the 20 likeliest others of
# each. Parts of litellm's work on objects keep Python's lock, so that a thread is no help: 0.25 s for 90,000.
_MOST_OBJECTS = 200_000
_LARGEST_ERROR_BYTES = 16 << 10  # litellm's expressions look through an error's text: 112 s for 20 MB, 0.3 s for 64 KB
_STREAMS = (
    "text/event-stream",
    "application/x-ndjson",
    "application/stream+json",
    "application/vnd.amazon.eventstream",
)
_asked: ContextVar[_Asked | None] = ContextVar("asked", default=None)
_LARGEST_SCHEMA_BYTES = 1_000_000  # a schema with its references written out: a second's work for litellm
_restraining, _restrained = threading.Lock(), threading.Event()  # litellm may be loaded by two threads at once


@contextlib.contextmanager
def asking_once() -> Iterator[None]:
    """Within the block, and in the tasks and threads begun there, no URL is posted to twice.

    The second time raises httpx.RequestError, its cause being the first one's error or the HTTPStatusError of its
    reply.
    """
    asked = _Asked()
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)
        asked.outcomes, asked.newest = {}, None  # a task of litellm's that lives on may keep the record


def answered() -> httpx.Response | None:
    """The newest reply to a POST request within `asking_once`: the provider's, before litellm's hands are on it."""
    asked = _asked.get()
    return asked.newest if asked is not None else None


def asked_nothing() -> bool:
    """Whether no provider was asked within `asking_once`: litellm stumbled over the request itself."""
    asked = _asked.get()
    return asked is not None and not asked.outcomes


def restrain() -> None:
    """Make every httpx and aiohttp client of this process follow no redirect, whatever it was told.

    And give litellm's clients of the openai library no retries, and litellm nothing to fetch, check or write out
    without end. Calling it again changes nothing.
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

    litellm.user_url_validation = True  # without it `validate_url` is passed over
    vars(url_utils)["validate_url"] = fetch_nothing  # before every fetch of an address that stands in a request
    vars(json_validation_rule)["validate_schema"] = check_nothing
    unpack_defs.__defaults__ = (_LARGEST_SCHEMA_BYTES,)  # most of its callers set no limit

    send_async, send = httpx.AsyncClient.send, httpx.Client.send
    ask, client_of = aiohttp.ClientSession._request, OpenAIChatCompletion._get_openai_client

    async def send_async_once(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        with _noted(request) as note:
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
        with _noted(request) as note:
            return note(send(self, request, **{**options, "follow_redirects": False}))

    async def ask_directly(self: aiohttp.ClientSession, *where: Any, **options: Any) -> aiohttp.ClientResponse:
        if (asked := _asked.get()) is not None:
            asked.outcomes.setdefault(str(where[-1]), httpx.RequestError("The upstream was asked."))
        return await ask(self, *where, **{**options, "allow_redirects": False})

    def client_without_retries(self: OpenAIChatCompletion, *args: Any, **options: Any) -> Any:
        client: Any = client_of(self, *args, **options)
        client.max_retries = 0  # the call's own `max_retries` does not reach all providers
        return client

    for owner, name, restrained in (
        (httpx.AsyncClient, "send", send_async_once),
        (httpx.Client, "send", send_once),
        (aiohttp.ClientSession, "_request", ask_directly),
        (OpenAIChatCompletion, "_get_openai_client", client_without_retries),
    ):
        setattr(owner, name, functools.wraps(getattr(owner, name))(restrained))


def _bound(response: httpx.Response) -> None:
    """Have no more read of the response than litellm can work on; what counts are unpacked bytes, whoever reads them.

    An error's text is cut, a larger answer or line of a stream (litellm reads lines) raises TooLarge.
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
def _noted(request: httpx.Request) -> Iterator[Callable[[httpx.Response], httpx.Response]]:
    """Refuse a second POST to the same URL. What is yielded notes the reply to the first, and gives it back."""
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
