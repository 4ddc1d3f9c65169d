"""ragway serve: the gateway and its index process, until Ctrl-C or SIGTERM."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import uvicorn
import uvloop

from config.settings import Settings, SettingsError
from proxy.auth import is_loopback
from proxy.build import Gateway, gateway, plan
from proxy.cli.common import options, run, settings_of
from proxy.supervise import IndexProcess
from retrieval.errors import IndexDown
from retrieval.records import CollectionInfo
from retrieval.remote import Client

log = logging.getLogger("ragway")


@click.command("serve")
@click.option("--host", help="Address to listen on (default: server.host, 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port (default: server.port, 8000); 0 takes a free one.")
@options
def command(host: str | None, port: int | None, config_file: Path | None, data: str | None) -> None:
    """Serve the gateway on http://HOST:PORT/v1 until Ctrl-C.

    Models go where the `models` setting says; without it to OPENAI_BASE_URL with OPENAI_API_KEY, and without
    these to the built-in model `echo`, which answers with the messages it received.
    """
    settings = settings_of(config_file, data=data, server__host=host, server__port=port)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    run(_serve(settings), loop=uvloop.new_event_loop)


async def _serve(settings: Settings) -> int:
    _check_bind(settings)
    index = IndexProcess(plan(settings)) if settings.retrieval.enabled else None
    knowledge = Client(Path(settings.data))
    warm = asyncio.Event()

    def missing() -> str:
        if not warm.is_set():
            return "starting"
        return "index is down" if index is not None and not index.ready else ""

    made = gateway(settings, knowledge, ready=missing)
    with _listen(settings) as listener:
        server = _Server(_uvicorn_config(made, settings))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await _warm_up(index, made, serving)
            if not serving.done():
                warm.set()
                with contextlib.suppress(IndexDown):  # it died just now, and is started again
                    if index is not None:
                        _warn_of_missing(settings, await knowledge.collections())
                _greet(listener, made)
            await serving
        finally:
            server.should_exit = True
            await asyncio.wait({serving})
            await knowledge.close()
            made.client.close()
            if made.translated is not None:
                await made.translated.close()
            if index is not None:
                await index.stop()
    return 0


async def _warm_up(index: IndexProcess | None, made: Gateway, serving: "asyncio.Task[None]") -> None:
    """Start the index and litellm where a model needs it, unless the server is told to stop first."""

    async def warm() -> None:
        if index is not None:
            await index.start()
        if made.translated is not None:
            await made.translated.warm()

    warming = asyncio.create_task(warm())
    await asyncio.wait({warming, serving}, return_when=asyncio.FIRST_COMPLETED)
    if warming.done():
        warming.result()
    else:
        warming.cancel()
        await asyncio.wait({warming})


def _check_bind(settings: Settings) -> None:
    host = settings.server.host
    if not settings.auth.open and not is_loopback(host):
        raise SettingsError(
            f"server.host {host!r} can be reached by others, and the gateway has no keys: listen on 127.0.0.1, or set "
            "auth.open: true if something else guards this address"
        )


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
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: no frame waits for the next
        try:
            listener.bind(address)
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; name another with --port"
            ) from error
        yield listener


def _uvicorn_config(made: Gateway, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        made.app, http="httptools", lifespan="off", log_config=None, access_log=False,
        # The upstream's own `date` and `server` are relayed: a second pair would not be the upstream's reply.
        server_header=False, date_header=False, proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(settings.server.shutdown_s)),
    )  # fmt: skip


class _Server(uvicorn.Server):
    """Ends on the first SIGINT or SIGTERM with running replies finished, on the second at once; exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again when it has stopped, which would skip closing the index.
        # Its `handle_exit` ends at once on a second SIGINT only.
        def stop() -> None:
            if not self.should_exit:
                click.echo("stopping; running replies may finish (again: stop at once)", err=True)
            self.force_exit = self.should_exit
            self.should_exit = True

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        yield


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's says something: a reply cut on purpose and its own life do not."""
    message = record.getMessage()
    return record.levelno >= logging.WARNING and "returned without completing response" not in message


def _warn_of_missing(settings: Settings, collections: Sequence[CollectionInfo]) -> None:
    known = {row.name for row in collections}
    for name in settings.retrieval.collections:
        if name not in known:
            click.echo(f"nothing ingested in {name!r} yet: ragway ingest PATH --collection {name}", err=True)


def _greet(listener: socket.socket, made: Gateway) -> None:
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    model = next(iter(made.routes.names()), "gpt-4o-mini")
    click.echo(f"ragway serves on {address}/v1 (Ctrl-C ends it). Try:\n", err=True)
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "How do I use my own documents?"}}]}}'
    click.echo(f"curl {address}/v1/chat/completions -H 'content-type: application/json' -d '{body}'\n")
