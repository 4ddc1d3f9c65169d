"""ragway serve: the gateway and the index process, until Ctrl-C or SIGTERM."""

import asyncio
import contextlib
import json
import logging
import os
import resource
import shlex
import shutil
import signal
import socket
import textwrap
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import orjson
import uvloop

from cli.assembly.index import index_process
from cli.assembly.targets import targets
from cli.common import WholeNumber, run, with_settings
from cli.syncs.scheduled import ScheduledSyncs
from config.sections import Settings
from config.settings import SettingsError
from evaluation.text_tables import first_of
from proxy.access.auth import is_loopback
from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts
from proxy.server.child import ends_first, kill
from proxy.server.index_process import IndexProcess
from proxy.server.workers import WorkerFailed, Workers
from proxy.upstream.routes import Routes
from retrieval.errors import RetrievalError
from retrieval.records.documents import is_reserved
from retrieval.rpc.client import IndexClient
from runtime import logs, scheduling
from runtime.scheduling import child_command

log = logging.getLogger("ragway")
_MOST_FILES = 65536
_INDEX_STOP_S = 5.0  # to close the store, if the drain time leaves enough
_SOON_S = 0.5
_LOOK_S = 10.0  # between looks at free space
_LOW_BYTES, _AMPLE_BYTES = 1_000_000_000, 1_100_000_000  # of free space: where a warning begins and ends
_MOST_NAMED = 5  # collections, in a message
_TITLE_CHARS = 80  # for a title in the example


@click.command("serve")
@click.option("--host", "server__host", help="Address to listen on (default: server.host, 127.0.0.1).")
@click.option(
    "--port", "server__port", type=WholeNumber(0, 65535), help="Port (default: server.port, 8000); 0 takes a free port."
)
@click.option(
    "--workers",
    "server__workers",
    type=WholeNumber(1),
    help="Number of serving processes (default: server.workers, 1).",
)
@click.option(
    "--sync-every",
    "server__sync_every",
    metavar="TIME",
    help="Sync each declared source so often, such as 30m or 1h (default: its own `every`, or server.sync_every).",
)
@click.option(
    "--log-level", "server__log_level", help="debug, info, warning or error (default: server.log_level, info)."
)
@with_settings
def command(settings: Settings) -> None:
    """Serve the gateway on http://HOST:PORT/v1 until Ctrl-C.

    The `models` setting routes models to upstreams. Without `models`, requests go to OPENAI_BASE_URL with
    OPENAI_API_KEY; without these variables, to the built-in model `echo`, which answers with the received messages.
    """
    logs.to_stderr(settings.server.log_level, logs.TIMED)
    run(_serve(settings), loop=uvloop.new_event_loop)


async def _serve(settings: Settings) -> int:
    _check_bind(settings)
    _allow_many_files()
    scheduling.prefer_low_latency()
    index = index_process(settings) if settings.retrieval.enabled else None
    index_ready = asyncio.Event()
    beside = asyncio.ensure_future(_beside(settings, index_ready))
    models = Routes(targets(settings, os.environ)).names()
    front = Workers(settings.server.workers, orjson.dumps(settings.as_flags()), settings.server.hang_s)
    stop, warnings = _Stop(), _Warnings(front)
    with _listen(settings) as listener:
        try:
            if await stop.unless_asked(_warm_up(index, front, listener)):
                topic = _NO_TOPIC
                if index is not None:

                    def changed(reason: str) -> None:
                        if not stop.asked.is_set():
                            front.set_status(reason)
                        if not reason:
                            index_ready.set()

                    index.on_change = changed
                    index.on_problems = warnings.of_index
                    warnings.of_index(index.problems)
                    topic = await _topic(settings, index)
                    changed(index.unavailable_reason)
                else:
                    front.set_status("")
                _greet(listener, models, settings, topic)
                warnings.watch_disk(Path(settings.data))
                await stop.asked.wait()
                if settings.server.drain_s:
                    front.set_status("stopping")
                    await ends_first(stop.at_once.wait(), asyncio.sleep(settings.server.drain_s))
        except WorkerFailed as error:
            raise click.ClickException(str(error)) from error
        finally:
            beside.cancel()
            warnings.close()
            await asyncio.wait({beside})
            await _end(settings, front, index, stop)
    return 0


async def _beside(settings: Settings, index_ready: asyncio.Event) -> None:
    """What begins once the index works."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_read_specs(settings, index_ready))
        tasks.create_task(ScheduledSyncs(settings).run(index_ready))


async def _read_specs(settings: Settings, index_ready: asyncio.Event) -> None:
    """Read changed documents and tables of the settings, and follow MCP servers' tools, in a process of their own.

    It begins once the index works.
    """
    if not settings.tables and not any(row.spec or row.mcp for row in settings.actions.values()):
        return
    await index_ready.wait()
    try:
        process = await asyncio.create_subprocess_exec(
            *child_command("cli.actions.specs"), stdin=asyncio.subprocess.PIPE, stdout=2
        )
    except OSError as error:
        log.error("neither actions.NAME.spec nor tables.NAME are read: %s", error.strerror or error)
        return
    try:
        assert process.stdin is not None
        process.stdin.write(orjson.dumps(settings.as_flags()) + b"\n")  # stays open: it ends with the gateway
        await process.wait()
        if process.returncode is not None and process.returncode < 0:  # other ends are logged
            log.error("signal %d ended the reading of actions.NAME.spec and tables.NAME", -process.returncode)
    finally:
        await kill(process)  # if the gateway ends: its next start reads the documents


async def _warm_up(index: IndexProcess | None, front: Workers, listener: socket.socket) -> None:
    """Start all processes; meanwhile, /healthz answers."""
    steps = [asyncio.ensure_future(front.start(listener))]
    if index is not None:
        steps.append(asyncio.ensure_future(index.start()))
    try:
        await asyncio.gather(*steps)
    finally:
        for step in steps:
            step.cancel()
        await asyncio.wait(steps)


async def _end(settings: Settings, front: Workers, index: IndexProcess | None, stop: "_Stop") -> None:
    """Let running requests finish within the drain time, unless a second signal comes; meanwhile, stop the index."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + settings.server.shutdown_s
    if index is not None:
        await index.stop_watching()
    ends = [asyncio.ensure_future(front.drain(settings.server.shutdown_s))]
    hurry = asyncio.ensure_future(stop.at_once.wait())
    # Running requests may still search, for at most the retrieval deadline.
    await asyncio.wait({hurry, *ends}, timeout=settings.retrieval.deadline_s, return_when=asyncio.FIRST_COMPLETED)
    if index is not None:
        patience_s = min(_INDEX_STOP_S, max(_SOON_S, until_s + _SOON_S - clock()))
        ends.append(asyncio.ensure_future(index.stop(patience_s)))
    ended = asyncio.gather(*ends, return_exceptions=True)  # if one fails, the other keeps its time
    if await ends_first(ended, hurry):
        for end in ends:
            end.result()


class _Warnings:
    """A ready gateway's problems, for /readyz."""

    def __init__(self, front: Workers) -> None:
        self._front = front
        self._index: Sequence[str] = ()
        self._disk = ""
        self._next: asyncio.TimerHandle | None = None

    def of_index(self, problems: Sequence[str]) -> None:
        self._index = problems
        self._tell()

    def watch_disk(self, data: Path) -> None:
        """From now on, warn once if little space is left: the index, which needs 128 MB, could not start again."""
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(data).free
            if self._disk and free >= _AMPLE_BYTES:
                self._disk = ""
                self._tell()
            elif not self._disk and free < _LOW_BYTES:
                self._disk = f"the disk of the data folder {data} has less than {_LOW_BYTES / 1e9:g} GB free: free some"
                log.warning("%s; the index does not start with less than 128 MB", self._disk)
                self._tell()
        self._next = asyncio.get_running_loop().call_later(_LOOK_S, self.watch_disk, data)

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def _tell(self) -> None:
        self._front.set_warnings([*self._index, *([self._disk] if self._disk else [])])


class _Stop:
    """SIGINT or SIGTERM: the first asks to finish running requests, the second to end at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self.asked.is_set():
            self.at_once.set()
        else:
            click.echo("stopping; running replies may finish (again: stop at once)", err=True)
            self.asked.set()

    async def unless_asked(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run the work, or cancel it if a signal comes first. Returns whether it finished."""
        return await ends_first(work, self.asked.wait())


def _allow_many_files() -> None:
    """Raise the limit of open files as far as allowed: each client needs two, one of them for its upstream."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    with contextlib.suppress(ValueError, OSError):  # the system may have a lower limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _check_bind(settings: Settings) -> None:
    host = settings.server.host
    if settings.auth.open or is_loopback(host):
        return
    if not _has_keys(settings):
        raise SettingsError(
            f"server.host {host!r} can be reached by others, and the gateway has no keys: make one (ragway keys "
            "create), listen on 127.0.0.1, or set auth.open: true if something else guards this address"
        )


def _has_keys(settings: Settings) -> bool:
    accounts = SqlAccounts(Path(settings.data), settings.catalog.url)
    return Keyring(accounts, required=settings.auth.required).closed


@contextlib.contextmanager
def _listen(settings: Settings) -> Iterator[socket.socket]:
    host, port = settings.server.host, settings.server.port
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host!r}: {error.strerror or error}") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: no frame waits for another
        try:
            listener.bind(address)
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; name another with --port"
            ) from error
        yield listener


_NO_TOPIC = ("", "Hello!")


async def _topic(settings: Settings, index: IndexProcess) -> tuple[str, str]:
    """A collection, and a question that one of its documents answers; if there is none, prints what to ingest.

    The collection is "" if the example need not name it.
    """
    knowledge = IndexClient(Path(settings.data))
    try:
        if not index.ready:
            return _NO_TOPIC
        wanted = settings.retrieval.collections
        rows = await knowledge.library.collections()
        filled = [row.name for row in rows if row.documents and not is_reserved(row.name)]
        for name in wanted:
            if name not in {row.name for row in rows}:
                more = f", or name {first_of(filled, _MOST_NAMED)} in retrieval.collections" if filled else ""
                click.echo(f"nothing ingested in {name!r} yet: ragway ingest PATH --collection {name}{more}", err=True)
        if filled and not any(row.name in wanted for row in rows):
            click.echo(f"until then, chats search what there is: {first_of(filled, _MOST_NAMED)}", err=True)
        for name in sorted(filled, key=lambda name: name not in wanted):
            for document in await knowledge.library.documents(name, after="", limit=1):
                return "" if name in wanted else name, _question(document.title)
    except RetrievalError:  # the index process died and restarts, or a collection was deleted
        pass
    finally:
        await knowledge.close()
    return _NO_TOPIC


def _question(title: str) -> str:
    title = textwrap.shorten(title, _TITLE_CHARS, placeholder=" …")
    return title if title.endswith("?") else f'What is said about "{title}"?'


def _greet(listener: socket.socket, models: Sequence[str], settings: Settings, topic: tuple[str, str]) -> None:
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    workers, keyed = settings.server.workers, _has_keys(settings)
    by = f" with {workers} workers" if workers > 1 else ""
    key = " with a key in RAGWAY_KEY (ragway keys create)" if keyed else ""
    click.echo(f"ragway serves on {address}/v1{by} (Ctrl-C ends it). Try{key}:\n", err=True)
    model = next(iter(models), "gpt-4o-mini")
    collection, question = topic
    model = f"rag/{collection}/{model}" if collection else model
    body = {"model": model, "messages": [{"role": "user", "content": question}]}
    shown = ' -H "authorization: Bearer $RAGWAY_KEY"' if keyed else ""
    said = shlex.quote(json.dumps(body, ensure_ascii=False))
    click.echo(f"curl {address}/v1/chat/completions{shown} -H 'content-type: application/json' -d {said}\n")
