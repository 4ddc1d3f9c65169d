"""The translated lane: a chat completion answered by any provider that litellm knows, in OpenAI's dialect.

`request` selects what litellm gets of a client's body, `calls` restrains its HTTP clients, `reply` and `errors` turn
its replies and exceptions into OpenAI's JSON. It all works in a thread of its own (`thread`). First use imports litellm
(seconds), so `serve` calls `warm` before readiness. docs/reference/lanes.md lists differences from the relay.
"""

import asyncio
import contextlib
import functools
import logging
import os
import socket
import sys
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx

from proxy.asgi import Receive, Scope, Send, send_error, send_json
from proxy.body import read_body
from proxy.dialects import sse
from proxy.dialects.errors import ApiError, Headers, upstream_error
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.translated.calls import answered, asking_once, restrain
from proxy.upstream.translated.errors import ProviderError, headers_of, provider_errors
from proxy.upstream.translated.reply import chunks_of, completion_of
from proxy.upstream.translated.request import check_sound, parameters_of
from proxy.upstream.translated.thread import LoopThread

_EVENT_STREAM: Headers = [(b"content-type", b"text/event-stream")]


class Translated:
    """An ASGI app that answers chat completions through litellm. All limits are in seconds.

    `first_byte_timeout_s` bounds the wait for a first chunk, or for an answer that is not streamed; `idle_timeout_s`
    the silence between chunks.
    """

    def __init__(self, *, connect_timeout_s: float, first_byte_timeout_s: float, idle_timeout_s: float) -> None:
        self._first_byte_timeout_s = first_byte_timeout_s
        self._idle_timeout_s = idle_timeout_s
        # litellm's read limit must come after our own; only litellm limits connecting.
        self._timeout = httpx.Timeout(max(first_byte_timeout_s, idle_timeout_s) + 1, connect=connect_timeout_s)
        self._thread = LoopThread("litellm")

    async def warm(self) -> None:
        """Import litellm and what its first calls load (seconds), so that no request pays for it.

        Calls go to a closed local port, and to litellm's mock for a first chunk.
        """
        await self._thread.run(self._warm())

    async def _warm(self) -> None:
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
        hello: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            for model in ("openai/gpt-4o", "anthropic/claude-sonnet-4-5"):
                with contextlib.suppress(ApiError):
                    await self._ask(Target(model, "translated", address, "none"), {**hello, "stream": True})
        async for _ in await _litellm().acompletion(model=model, **hello, stream=True, mock_response="hi"):
            pass

    def window_tokens(self, model: str) -> int:
        """A model's input tokens by litellm's table; 0 if it is unknown, or before litellm is imported."""
        if not _litellm.cache_info().currsize:
            return 0
        table = _litellm().model_cost
        row = table.get(model) or table.get(model.partition("/")[2]) or {}
        most = row.get("max_input_tokens")
        return most if isinstance(most, int) else 0

    async def close(self) -> None:
        """Close litellm's connections; does nothing if it was never used."""
        if _litellm.cache_info().currsize:
            await self._thread.run(_close_clients())
        await self._thread.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the provider and send its answer, even an error.

        If the client leaves, the server cancels this task, and the provider's call ends with it.
        """
        exchange: Exchange = scope[EXCHANGE]
        body = exchange.body
        if body is None:
            body = await read_body(receive)
        target = exchange.target
        assert target is not None, "the lane was called without a resolved target"
        await self._thread.run_sending(functools.partial(self._answer, exchange, target, body), send)

    async def _answer(self, exchange: Exchange, target: Target, body: bytes, send: Send) -> None:
        asked = time.perf_counter()
        frames, first, whole = None, b"", b""
        try:
            parameters = parameters_of(body)
            check_sound(parameters, target.model)
            with asking_once():
                async with _limit(self._first_byte_timeout_s, "did not begin to answer within"):
                    reply = await self._ask(target, parameters)
                    if parameters.get("stream"):
                        frames = _frames(reply, target)
                        first = await anext(frames)
                    else:
                        whole = completion_of(reply)
                    headers = headers_of(received) if (received := answered()) is not None else []
        except ApiError as error:
            if isinstance(error, ProviderError):
                exchange.upstream_said(error.status)
            exchange.status, exchange.error = error.status, error.log_text
            await send_error(send, error, exchange.dialect.error_body(error, exchange.id))
            return
        finally:
            exchange.ended_step("upstream", asked, target.model)
        exchange.status = 200
        exchange.upstream_said(200)
        if frames is None:
            await send_json(send, 200, whole, headers)
            return
        async with aclosing(frames):
            await send({"type": "http.response.start", "status": 200, "headers": [*_EVENT_STREAM, *headers]})
            await self._stream(exchange, first, frames, send)

    async def _ask(self, target: Target, parameters: dict[str, Any]) -> Any:
        """litellm's reply: whole, or a stream that may not have begun yet."""
        litellm = await asyncio.to_thread(_litellm)
        with provider_errors(target):
            return await litellm.acompletion(
                **parameters,
                model=target.model,
                api_base=target.api_base or None,
                # Without a key, litellm takes one from the environment: it must not go to a configured address.
                api_key=target.api_key or ("none" if target.api_base else None),
                timeout=self._timeout,
                num_retries=0,
                max_retries=0,
                drop_params=False,
            )

    async def _stream(self, exchange: Exchange, first: bytes, frames: AsyncGenerator[bytes], send: Send) -> None:
        """Send frames; a stream that cannot be completed gets an error frame and no end.

        The server then breaks the connection, so that no client takes this for a whole answer.
        """
        frame: bytes | None = first
        try:
            while frame is not None:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
                async with _limit(self._idle_timeout_s, "sent nothing for"):
                    frame = await anext(frames, None)
        except ApiError as error:
            exchange.error = error.log_text
            frame = exchange.dialect.error_frame(error, exchange.id)
            await send({"type": "http.response.body", "body": frame, "more_body": True})
            return
        await send({"type": "http.response.body", "body": b""})


async def _frames(reply: Any, target: Target) -> AsyncGenerator[bytes]:
    """A reply's chunks as event-stream frames, at least one. Raises ApiError: it broke off."""
    with provider_errors(target):
        try:
            async with aclosing(chunks_of(reply)) as chunks:
                async for chunk in chunks:
                    yield sse.frame(chunk)
        finally:
            await reply.aclose()


async def _close_clients() -> None:
    litellm = _litellm()
    await litellm.close_litellm_async_clients()
    litellm.in_memory_llm_clients_cache.flush_cache()  # or litellm would reuse a closed client,
    vars(litellm).pop("module_level_aclient", None)  # from either place


@contextlib.asynccontextmanager
async def _limit(seconds: float, words: str) -> AsyncIterator[None]:
    """Raise ApiError 504 if the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise upstream_error(504, f"The upstream {words} {seconds:g} s.", "upstream_timeout") from None


def prices(model: str) -> tuple[float, float] | None:
    """Dollars per input and per output token by litellm's table; None for an unknown model. Imports litellm."""
    table = _litellm().model_cost
    row = table.get(model) or table.get(model.partition("/")[2]) or {}
    into, out = row.get("input_cost_per_token"), row.get("output_cost_per_token")
    return None if into is None or out is None else (float(into), float(out))


@functools.cache
def _litellm() -> Any:
    """Import litellm, set to fetch, print, report, follow and retry nothing."""
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        os.environ[name] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # or litellm loads any .env file in sight
    # pydantic warns about litellm's classes on first use; readers of the log can do nothing about that.
    warnings.filterwarnings("ignore", message="Items? .* on TypedDict class", category=UserWarning)
    import litellm

    restrain()
    sys.set_int_max_str_digits(640)  # the lowest limit: parsing time grows with the square of digits
    litellm.telemetry = False
    litellm.suppress_debug_info = True  # the "Give Feedback" banner
    litellm.disable_streaming_logging = True  # would take a thread and an event loop per chunk
    litellm.drop_params = False
    litellm.callbacks, litellm.success_callback, litellm.failure_callback = [], [], []
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # litellm's warnings quote prompts and replies
    for name in ("openai", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)  # OPENAI_LOG=debug would write bodies, headers and URLs
    return litellm
