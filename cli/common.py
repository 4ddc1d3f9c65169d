"""Shared by all commands: options, settings, access to documents and accounts, errors."""

import asyncio
import functools
import inspect
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import orjson

from cli.options import CONFIG, options
from config.sections import Settings
from config.settings import SettingsError, load
from retrieval.errors import DataInUse, IndexDown, RetrievalError
from retrieval.knowledge import Knowledge
from retrieval.records.ingest import Secret
from runtime import logs

if TYPE_CHECKING:
    from proxy.access.sql import SqlAccounts

_SERVING = "(ragway serve)"  # in the name of a process that will answer
_STARTING_S = 600.0  # how long a starting `ragway serve` may take to answer: it may prepare an embedder
_OTHERS_S = 15.0  # how long another command may still use the data folder
_PATIENT_S = 1.0  # silent waiting before a message
_LINE_S = 15.0  # between lines of progress, without a terminal


class WholeNumber(click.IntRange):
    """click's own name is "valid integer range"."""

    name = "whole number"


class Number(click.FloatRange):
    name = "number"


@contextmanager
def errors_as(shown: type[click.ClickException], *kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into click's: one line, and an exit code."""
    try:
        yield
    except kinds as error:
        raise shown(str(error)) from error


def settings_of(config_file: Path | None, **flags: Any) -> Settings:
    """Effective settings; flags by dotted key, with `.` written `__`. Raises click.ClickException."""
    if config_file is None and Path(CONFIG).exists():
        config_file = Path(CONFIG)
    with errors_as(click.ClickException, SettingsError):
        return load(file=config_file, flags={key.replace("__", "."): value for key, value in flags.items()})


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """--config and --data, for a command that takes `settings`. If it is async, `run` runs it.

    An option named like a settings key, with `.` written `__`, sets that key.
    """

    @options
    @functools.wraps(command)
    def wrapper(*args: Any, config_file: Path | None, data: str | None, **given: Any) -> None:
        flags = {name: given.pop(name) for name in [*given] if "__" in name}
        work = command(*args, settings=settings_of(config_file, data=data, **flags), **given)
        if inspect.iscoroutine(work):
            run(work)

    return wrapper


def must_exist(settings: Settings) -> None:
    """Raise click.ClickException without a data folder: commands that only read create none."""
    if not settings.catalog.url and not Path(settings.data).exists():
        where = Path(settings.data).absolute()
        raise click.ClickException(
            f"there is no data folder {where}: name another folder with --data, or run `ragway ingest`"
        )


@contextmanager
def opened_accounts(settings: Settings, *, make: bool = False) -> "Iterator[SqlAccounts]":
    """The accounts, with or without a running gateway; an error becomes one line.

    make: create a missing data folder.
    """
    from cli.assembly.stores import accounts as opened

    if not make:
        must_exist(settings)
    with closing(opened(settings)) as accounts, errors_as(click.ClickException, RetrievalError):
        yield accounts


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text that may quote documents or name files or keys; control characters are escaped."""
    click.echo(logs.printable(text, lines=True), err=err, nl=nl)


def echo_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def minute_text(seconds: float) -> str:
    """A time, in seconds since the epoch, to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def arms_text(ranks: Mapping[str, int], scores: Mapping[str, float]) -> str:
    """Rank and score of each arm that found a passage."""
    return ", ".join(f"{arm} #{rank} {scores[arm]:.3g}" for arm, rank in sorted(ranks.items()))


def as_text(argument: str) -> str:
    """A command-line argument as text: invalid UTF-8 bytes become "?"."""
    return argument.encode("utf-8", "replace").decode("utf-8")


def run(work: Coroutine[Any, Any, int], *, loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Run a command's work and exit with the code it returns; retrieval errors become one line.

    loop: makes the event loop (default: asyncio's own).
    """
    if not logging.getLogger().hasHandlers():  # `ragway serve` has already set up logging
        logs.to_stderr("info", "%(message)s")
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            code = runner.run(work)
    except (RetrievalError, SettingsError) as error:
        raise click.ClickException(logs.printable(logs.blanked(str(error)), lines=True)) from error
    except KeyboardInterrupt:
        click.echo("interrupted; finished work is kept", err=True)
        code = 130
    sys.exit(code)


@asynccontextmanager
async def knowledge(settings: Settings, *, make: bool = False) -> AsyncIterator[Knowledge]:
    """Documents, through a running `serve`, else opened by this process.

    make: create a missing data folder. Raises click.ClickException, RetrievalError; DataInUse if another process holds
    the data folder without answering.
    """
    if not make:
        must_exist(settings)
    opened = await _connect(settings)
    try:
        yield opened
    finally:
        await opened.close()


SECRETS = click.option(
    "--secrets",
    "ingest__secrets",
    type=click.Choice(["warn", "skip", "mask"]),
    help="Keys, tokens and passwords in documents: name them, refuse the document, or replace them by their kind "
    "(default: ingest.secrets).",
)


def check_reading_options(settings: Settings, documents: Knowledge) -> None:
    """Raise click.ClickException if --secrets or --fields is given, but `ragway serve` reads the documents."""
    from retrieval.rpc.client import IndexClient

    for option, key in (("--secrets", "ingest.secrets"), ("--fields", "ingest.rules")):
        if settings.origins[key] == "command line" and isinstance(documents, IndexClient):
            raise click.ClickException(
                f"{option} has no effect while `ragway serve` runs, which reads the documents by its own settings: "
                f"set {key} in ragway.yaml and restart it"
            )


def secret_lines(secrets: Sequence[Secret]) -> list[str]:
    """Where each secret is."""
    return [f"secret: {one.document}, line {one.line}: {one.kind}" for one in secrets]


async def _connect(settings: Settings) -> Knowledge:
    from cli.assembly.index import plan
    from retrieval.index.index import Index
    from retrieval.rpc.client import IndexClient

    loop = asyncio.get_running_loop()
    began, told = loop.time(), False
    while True:
        client = IndexClient(Path(settings.data))
        try:
            await client.library.collections()
            return client
        except IndexDown:
            await client.close()
        try:
            return await Index.open(plan(settings), serving=False)
        except DataInUse as error:
            waited_s, serving = loop.time() - began, _SERVING in error.holder
            if waited_s > (_STARTING_S if serving else _OTHERS_S):
                raise
            if waited_s > _PATIENT_S and not told:
                told = True
                how = "is starting: waiting for its index" if serving else f"uses {settings.data}: waiting"
                echo(f"{error.holder} {how}, for at most {_STARTING_S if serving else _OTHERS_S:g} s", err=True)
        await asyncio.sleep(0.1)  # the holder may be a starting `serve` without a socket yet


def confirm() -> None:
    """Raise click.Abort unless a user at a terminal confirms."""
    if not sys.stdin.isatty():
        click.echo("confirmation needed: run the command in a terminal, or pass --yes", err=True)
        raise click.Abort
    click.confirm("Go on?", abort=True, err=True)


def progress_bar(what: str, unit: str = "documents") -> "ShowProgress":
    """A progress callback: draws a bar on standard error or, without a terminal, prints a line from time to time.

    Call it from the work's event loop.
    """
    return ProgressBar(what, unit) if sys.stderr.isatty() else ProgressLines(what, unit)


class ShowProgress(Protocol):
    """Shows progress: done, in all, chunks so far, current source."""

    def __call__(self, done: int, total: int, chunks: int, source: str = "") -> None: ...

    def close(self) -> None:
        """Show nothing more, also if the work was not done."""
        ...


class ProgressBar:
    """A progress callback that draws a bar, with rate and remaining time."""

    def __init__(self, what: str, unit: str) -> None:
        from tqdm import tqdm

        self._make = functools.partial(tqdm, desc=what, unit=f" {unit}", leave=False)
        self._bar: Any = None

    def __call__(self, done: int, total: int, chunks: int, source: str = "") -> None:
        if self._bar is None:
            self._bar = self._make(total=total)
        shown = ", ".join(filter(None, [f"{chunks} chunks" if chunks else "", source]))
        if shown:
            self._bar.set_postfix_str(shown, refresh=False)
        self._bar.total = total  # archives turn out to hold more
        self._bar.update(done - self._bar.n)
        self._bar.refresh()
        if done >= total:
            self._bar.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class ProgressLines:
    """A progress callback that prints a line at a fixed interval, until work or event loop end."""

    def __init__(
        self,
        what: str,
        unit: str,
        every_s: float = _LINE_S,
        say: Callable[[str], None] = functools.partial(echo, err=True),  # noqa: B008  # a constant
    ) -> None:
        self._what, self._unit, self._every_s, self._print = what, unit, every_s, say
        self._done, self._total, self._chunks, self._source = 0, 0, 0, ""
        self._told, self._told_s = 0, asyncio.get_running_loop().time()
        self._wait()

    def __call__(self, done: int, total: int, chunks: int, source: str = "") -> None:
        self._done, self._total, self._chunks, self._source = done, total, chunks, source
        if done >= total:
            self._next.cancel()
        elif self._next.cancelled():  # only part of the work was done
            self._wait()

    def close(self) -> None:
        self._next.cancel()

    def _wait(self) -> None:
        self._next = asyncio.get_running_loop().call_later(self._every_s, self._say)

    def _say(self) -> None:
        far = f"{self._done:,} of {self._total:,} {self._unit}" if self._total else "started"
        written = f", {self._chunks:,} chunks" if self._chunks else ""
        present = f"; now {self._source}" if self._source else ""
        self._print(f"{self._what}: {far}{written}{self._pace()}{present}")
        self._wait()

    def _pace(self) -> str:
        """The rate since the last line, and how long the rest takes at this rate; "" if nothing was done."""
        done, now_s = self._done - self._told, asyncio.get_running_loop().time()
        taken_s = now_s - self._told_s
        self._told, self._told_s = self._done, now_s
        if done <= 0:
            return ""
        left_s = (self._total - self._done) * taken_s / done
        return f", {60 * done / taken_s:,.0f} a minute, about {_span_text(left_s)} left"


def _span_text(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
