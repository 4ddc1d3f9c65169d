"""Shared by all bench commands: options, a gateway, facts about models, Ctrl-C."""

import asyncio
import contextlib
import functools
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import uvloop

from cli.assembly.targets import targets
from cli.common import Number, WholeNumber, confirm, errors_as, run, with_settings
from cli.options import option
from config.sections import Settings
from config.settings import BENCH_KEY
from proxy.access.prices import Price, Size, price_of, size_of
from proxy.caller import EVERYTHING
from proxy.dialects.errors import ApiError
from proxy.dialects.target import Target
from proxy.upstream.routes import Routes
from runtime import logs

if TYPE_CHECKING:  # imported on use, because httpx loads slowly
    from evaluation.answers.client.gateway_client import GatewayClient
    from evaluation.answers.client.sender import Outcome, Sender
    from evaluation.answers.records import Variant
    from evaluation.answers.run_folder import RunManifest

INTERRUPTED = "interrupted"
FAILURES = 3  # exit code: all requests were sent, but so many failed that this may decide the result
_KEY_VARIABLES = (BENCH_KEY, "OPENAI_API_KEY")
_A_MILLION = 1_000_000
_FREE = Price(0.0, 0.0, 0.0, 0.0)  # for the built-in echo


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Options for sending requests, ceilings, and starting without confirmation."""

    # fmt: off
    concurrency: int = option(
        "--concurrency", type=WholeNumber(1, 256), default=4, show_default=True, help="Most requests at once."
    )
    retries: int = option(
        "--retries", type=WholeNumber(0, 20), default=4, show_default=True,
        help="Retries of a request after an error that may pass.",
    )
    timeout_s: float = option(
        "--timeout", type=Number(1), default=300.0, show_default=True,
        help="Seconds without a byte of the reply before a request counts as failed.",
    )
    base_url: str | None = option(
        "--base-url", help="Address of a running gateway (default: start a gateway on this machine)."
    )
    max_usd: float | None = option("--max-usd", type=Number(0, min_open=True), help="Most dollars to spend.")
    max_tokens: int | None = option("--max-tokens", type=WholeNumber(1), help="Most tokens to use, in and out.")
    prices: Sequence[str] = option(
        "--price", multiple=True, metavar="MODEL=IN,OUT",
        help="Dollars per million tokens in and out, for a model without a known price.",
    )
    yes: bool = option("--yes", is_flag=True, help="Start without asking for confirmation.")
    # fmt: on


def bench_work(work: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., None]:
    """`with_settings`, for work with a gateway: a BenchError becomes one line, and requests are not logged."""

    @functools.wraps(work)
    def command(**given: Any) -> None:
        from evaluation.answers.records import BenchError

        logs.to_stderr("warning", "%(message)s")
        with errors_as(click.ClickException, BenchError):
            run(work(**given), loop=uvloop.new_event_loop)

    return with_settings(command)


@contextlib.asynccontextmanager
async def opened_gateway(args: SendOptions, settings: Settings) -> AsyncIterator["GatewayClient"]:
    """The named gateway, else one started for this command."""
    from evaluation.answers.client.gateway_client import GatewayClient

    names = _KEY_VARIABLES if args.base_url else _KEY_VARIABLES[:1]  # OPENAI_API_KEY is for our gateway's upstream
    key = next((os.environ[name] for name in names if os.environ.get(name)), "")
    async with contextlib.AsyncExitStack() as stack:
        url = args.base_url
        if not url:
            from cli.bench.loopback import loopback_gateway

            url = await stack.enter_async_context(loopback_gateway(settings))
        gateway = GatewayClient(url, key, timeout_s=args.timeout_s, concurrency=args.concurrency)
        stack.push_async_callback(gateway.close)
        yield gateway


def manifest_of(
    args: SendOptions,
    file: Path,
    variants: "Sequence[Variant]",
    seed: int,
    *,
    repeats: int = 1,
    draft: Mapping[str, Any] | None = None,
) -> "RunManifest":
    """A new run's manifest."""
    from evaluation.answers.run_folder import RunManifest, new_id

    return RunManifest(
        new_id(), time.time(), str(file), args.base_url, repeats, seed, variants,
        ceiling_usd=args.max_usd, ceiling_tokens=args.max_tokens, draft=draft,
    )  # fmt: skip


def say_and_confirm(lines: Iterable[str], args: SendOptions) -> None:
    """Print what is about to be sent. Raises click.Abort unless --yes is given or the user confirms."""
    for line in lines:
        click.echo(line, err=True)
    if not args.yes:
        confirm()


async def interruptible(asker: "Sender[Any]", work: Coroutine[Any, Any, object]) -> "Outcome":
    """Handle Ctrl-C and SIGTERM: the first lets paid requests in flight end, the second stops at once.

    Returns how far the work came.
    """
    loop, going = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def signalled() -> None:
        if asker.stopping:
            going.cancel()
        else:
            click.echo("stopping after the requests in flight (Ctrl-C again: stop at once)", err=True)
            asker.stop(INTERRUPTED)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    await asyncio.wait({going})
    if not going.cancelled():
        going.result()
    return asker.outcome


def report_progress(
    folder: Path, outcome: "Outcome", what: str, *, failures: int = 0, of: int | None = None, many: bool = False
) -> int:
    """Say how far the work came; returns the exit code. what: said of finished requests, such as "are judged".

    failures: how many of `of` requests failed; of: None for all in this command, else all in the folder. many: whether
    failures may decide the result.
    """
    if why := unfinished(outcome):
        click.echo(f"{folder}: {outcome.done} of {outcome.total} {what}; {why}", err=True)
        verdict = "no verdict before every request is answered; " if outcome.stopped else ""
        click.echo(f"{verdict}the same command goes on from here", err=True)
        return code_of(why)
    if failures:
        total = outcome.total if of is None else of
        click.echo(f"{folder}: {total - failures} of {total} {what}; {failures} failed", err=True)
    else:
        click.echo(f"{folder}: all {outcome.total} {what}", err=True)
    return FAILURES if many else 0


def unfinished(outcome: "Outcome") -> str:
    """Why work did not finish; "" if it did."""
    return "" if outcome.done == outcome.total else outcome.stopped or "some requests got no answer"


def code_of(why: str) -> int:
    """The exit code for unfinished work."""
    return 130 if why == INTERRUPTED else 1


class ModelFacts:
    """What is known about models, by their names in requests."""

    def __init__(
        self, names: Sequence[str], args: SendOptions, settings: Settings, windows: Sequence[str] = ()
    ) -> None:
        """settings: the gateway's, unless it is elsewhere. windows: MODEL=TOKENS.

        Raises BenchError: an option cannot be read; SettingsError.
        """
        from evaluation.answers.records import BenchError

        self._prices = dict(_price(text) for text in args.prices)
        self._windows = dict(_window(text) for text in windows)
        self._targets: dict[str, Target] = {}
        self._rewriting_prices: dict[str, Price] = {}
        if args.base_url is None:
            routes = Routes(targets(settings, os.environ))
            rewriter = settings.retrieval.rewrite_model if settings.retrieval.rewrite == "llm" else ""
            if rewriter and (price := price_of(routes.resolve(rewriter, EVERYTHING).model)) is not None:
                self._rewriting_prices[rewriter] = price
            try:
                self._targets = {name: routes.resolve(name, EVERYTHING) for name in names}
            except ApiError as error:
                raise BenchError(f"--model: {error}") from error

    def price_of(self, name: str) -> Price | None:
        target = self._targets.get(name)
        if name in self._prices:
            return self._prices[name]
        if target is not None and target.lane == "echo":
            return _FREE
        return price_of(name if target is None else target.model)

    def rewrite_price_of(self, name: str) -> Price | None:
        """The price of rewriting questions, by the model's name at the gateway or upstream."""
        return self._prices.get(name) or self._rewriting_prices.get(name) or price_of(name)

    def size_of(self, name: str) -> Size:
        target = self._targets.get(name)
        size = size_of(name if target is None else target.model)
        window = self._windows.get(name) or (target.window_tokens if target is not None else 0) or size.window_tokens
        return Size(window, size.answer_tokens)


def _price(text: str) -> tuple[str, Price]:
    """MODEL=IN,OUT."""
    name, _, both = text.rpartition("=")
    try:
        given, made = (float(each) / _A_MILLION for each in both.split(","))
    except ValueError:
        given = made = -1.0
    if not name or not (0 <= given < math.inf and 0 <= made < math.inf):
        from evaluation.answers.records import BenchError

        raise BenchError(f"--price {text!r}: write MODEL=IN,OUT, in dollars per million tokens")
    return name, Price(given, made, given, made)


def _window(text: str) -> tuple[str, int]:
    """MODEL=TOKENS."""
    name, _, tokens = text.rpartition("=")
    if not name or not tokens.isdecimal() or not int(tokens):
        from evaluation.answers.records import BenchError

        raise BenchError(f"--window {text!r}: write MODEL=TOKENS")
    return name, int(tokens)
