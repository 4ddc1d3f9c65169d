"""What litellm's HTTP clients may not do for a client of ours: follow a redirect, or ask a second time.

They follow a redirect to any host, with the prompt and now and then the key, and send a request again whose connection
broke, though the provider may have begun to work on it. litellm has no switch for either, and its providers go through
several clients: so it is stopped where all of them pass, in httpx, and in aiohttp for the one that does without.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass(slots=True)
class _Asked:
    """What became of the POST requests made for the client's request at hand, by their URL."""

    outcomes: dict[str, httpx.HTTPError] = field(default_factory=dict)
    newest: httpx.Response | None = None


_asked: ContextVar[_Asked | None] = ContextVar("asked", default=None)
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


def restrain() -> None:
    """Make every httpx and aiohttp client of this process follow no redirect, whatever it was told.

    And give litellm's clients of the openai library no retries. What litellm fetches by itself, a picture, it still
    follows step by step, each address checked. Calling it again changes nothing.
    """
    with _restraining:
        if not _restrained.is_set():
            _replace_calls()
            _restrained.set()


def _replace_calls() -> None:
    import aiohttp
    from litellm.llms.openai.openai import OpenAIChatCompletion

    send_async, send = httpx.AsyncClient.send, httpx.Client.send
    ask, client_of = aiohttp.ClientSession._request, OpenAIChatCompletion._get_openai_client

    async def send_async_once(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        with _noted(request) as note:
            return note(await send_async(self, request, **{**options, "follow_redirects": False}))

    def send_once(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        with _noted(request) as note:
            return note(send(self, request, **{**options, "follow_redirects": False}))

    async def ask_directly(self: aiohttp.ClientSession, *where: Any, **options: Any) -> aiohttp.ClientResponse:
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
