"""What every command shares: its options, its settings, its way to the documents and to the accounts, its errors."""

import asyncio
import functools
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from config.settings import Settings, SettingsError, load
from retrieval import logs
from retrieval.errors import DataInUse, IndexDown, RetrievalError
from retrieval.knowledge import Library

if TYPE_CHECKING:
    from proxy.accounts.sql import SqlAccounts

_STARTING_S = 15.0  # how long a serve that is just starting may take to answer
_CONFIG = "ragway.yaml"


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--config and --data."""
    config = click.option(
        "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False),
        help=f"Settings file (default: {_CONFIG} where it exists).",
    )  # fmt: skip
    data = click.option("--data", type=click.Path(file_okay=False), help="Data folder (default: data/).")
    return config(data(command))


def settings_of(config_file: Path | None, **flags: Any) -> Settings:
    """The effective settings; flags by dotted key with `.` written `__`. Raises click.ClickException."""
    if config_file is None and Path(_CONFIG).exists():
        config_file = Path(_CONFIG)
    try:
        return load(file=config_file, flags={key.replace("__", "."): value for key, value in flags.items()})
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def opened_accounts(config_file: Path | None, data: str | None) -> "Iterator[SqlAccounts]":
    """The accounts, beside a running gateway or without one; what they refuse becomes one line."""
    from proxy.build import accounts as opened

    accounts = opened(settings_of(config_file, data=data))
    try:
        yield accounts
    except RetrievalError as error:
        raise click.ClickException(str(error)) from error
    finally:
        accounts.close()


def as_text(argument: str) -> str:
    """A command-line argument as text: bytes of it that are not UTF-8 become "?"."""
    return argument.encode("utf-8", "replace").decode("utf-8")


def run(work: Coroutine[Any, Any, int], *, loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Run a command's work and end with its exit code; what retrieval refuses becomes one line.

    loop: makes the event loop to run it on (default: asyncio's own).
    """
    if not logging.getLogger().hasHandlers():  # serve has set its own before
        logs.to_stderr("info", "%(message)s")
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            code = runner.run(work)
    except (RetrievalError, SettingsError) as error:
        raise click.ClickException(logs.blanked(str(error))) from error
    except KeyboardInterrupt:
        click.echo("interrupted; what was finished is kept", err=True)
        code = 130
    sys.exit(code)


@asynccontextmanager
async def knowledge(settings: Settings) -> AsyncIterator[Library]:
    """The documents: through the running `serve` where there is one, else opened by this process.

    Raises RetrievalError; DataInUse if another process holds the data folder and answers no questions.
    """
    opened = await _connect(settings)
    try:
        yield opened
    finally:
        await opened.close()


async def _connect(settings: Settings) -> Library:
    from proxy.build import plan
    from retrieval.index import Index
    from retrieval.remote import Client

    loop = asyncio.get_running_loop()
    deadline = loop.time() + _STARTING_S
    while True:
        client = Client(Path(settings.data))
        try:
            await client.collections()
            return client
        except IndexDown:
            await client.close()
        try:
            return await Index.open(plan(settings), serving=False)
        except DataInUse:
            if loop.time() > deadline:
                raise
        await asyncio.sleep(0.1)  # its holder may be a serve that is starting and has no socket yet


def confirm() -> None:
    """Raises click.Abort unless somebody at a terminal agrees."""
    if not sys.stdin.isatty():
        click.echo("not asked, for nobody can agree: run it at a terminal, or with --yes", err=True)
        raise click.Abort
    click.confirm("Go on?", abort=True, err=True)


def progress_bar(what: str, unit: str = "documents") -> Callable[[int, int, int], None]:
    """A progress callback that draws a bar on standard error; silent where that is no terminal."""
    from tqdm import tqdm

    make = functools.partial(tqdm, desc=what, unit=f" {unit}", disable=not sys.stderr.isatty(), leave=False)
    bar: Any = None

    def progress(done: int, total: int, chunks: int) -> None:
        nonlocal bar
        if bar is None:
            bar = make(total=total)
        if chunks:
            bar.set_postfix_str(f"{chunks} chunks", refresh=False)
        bar.update(done - bar.n)
        bar.refresh()
        if done >= total:
            bar.close()

    return progress
