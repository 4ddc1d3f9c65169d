"""One gateway process, and a worker process's `main`.

`ragway serve` starts one or more workers and hands over settings and connections. `proxy.server.workers` describes how
parent and worker talk.
"""

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import orjson
import uvloop

from cli.assembly.gateway import gateway, metrics_of
from config.sections import Settings
from config.settings import SettingsError, load
from proxy.observe.metrics import Metrics
from proxy.server.child import ends_first
from proxy.server.http1 import Connections, Timeouts
from retrieval.errors import RetrievalError
from retrieval.rpc.client import IndexClient
from runtime import garbage, logs, scheduling

_BACKLOG = 2048
_LINE_BYTES = 1 << 24  # for a line from the parent: the settings
_PATIENCE_S = 60.0  # from the start, while searches wait for a starting index: 2 to 15 s on a fast machine


class Serving:
    """A gateway and its connections, in this process."""

    def __init__(
        self, settings: Settings, gone: Callable[[], None] = lambda: None, metrics: Metrics | None = None
    ) -> None:
        """gone: called for each closed connection. metrics: shared with other processes.

        Raises SettingsError, RetrievalError.
        """
        self._missing = "starting"
        self._warnings: Sequence[str] = ()
        self._knowledge = IndexClient(Path(settings.data))
        self._knowledge.expect_start(_PATIENCE_S)
        self._made = gateway(
            settings,
            self._knowledge,
            ready=lambda: self._missing,
            warnings=lambda: self._warnings,
            begun=self._knowledge.until_started,
            metrics=metrics,
        )
        server = settings.server
        limits = Timeouts(server.receive_timeout_s, server.keepalive_s, server.send_timeout_s)
        self.connections = Connections(self._made.app, limits, gone)
        self._watching: asyncio.Task[None] | None = None
        self._writing: asyncio.Future[list[None]] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve connections to a bound socket and load all models. Returns when warm."""
        await self.connections.listen(listener, _BACKLOG)
        await self.warm()

    async def warm(self) -> None:
        """Load models in advance and start tasks that keep keys and accounts up to date."""
        made = self._made
        self._watching = asyncio.create_task(made.keyring.watch())
        await asyncio.to_thread(made.receipts.warm)
        await asyncio.to_thread(made.histories.warm)
        if made.actions is not None:
            await made.actions.start()
        self._writing = asyncio.gather(*(writer.run() for writer in made.writers))
        if made.ways.translated is not None:
            await made.ways.translated.warm()
        garbage.tune_gc()

    def set_status(self, missing: str, warnings: Sequence[str] = ()) -> None:
        """Set what /readyz answers: the missing part, "" if ready, and problems that leave the gateway ready."""
        self._missing, self._warnings = missing, warnings
        if missing != "starting":
            self._knowledge.end_start()

    async def drain(self, patience_s: float) -> None:
        """Accept no more connections, let running requests finish, cut them after `patience_s` or when cancelled, close
        all.
        """
        self._missing = "stopping"
        self._knowledge.end_start()
        try:
            await self.connections.drain(patience_s)
        finally:
            if self._watching is not None:
                self._watching.cancel()
            await self._made.mcp.close()
            await self._made.shadow.close()
            if self._writing is not None:
                for writer in self._made.writers:
                    writer.stop()
                await self._writing
            if self._made.actions is not None:
                await self._made.actions.close()
            await self._knowledge.close()
            await self._made.ways.close()


class _WorkerProcess:
    """A worker process's life, directed by its parent."""

    def __init__(self, commands: asyncio.StreamReader, reports: asyncio.WriteTransport) -> None:
        self._commands = commands
        self._reports = reports
        self._taking: set[asyncio.Task[None]] = set()
        self._leave = asyncio.Event()
        self._cut = asyncio.Event()

    async def run(self) -> int:
        """Serve until told to drain; returns the exit code."""
        line = await self._commands.readline()
        if not line:  # the parent is gone
            return 0
        number, counts, descriptor, flags = orjson.loads(line)
        settings = load(environ={}, flags=flags)
        logs.to_stderr(settings.server.log_level, logs.TIMED)
        scheduling.prefer_low_latency()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leave.set)
        try:
            metrics = metrics_of(settings, folder=Path(counts), worker=number)
            serving = Serving(settings, partial(self._report, "gone"), metrics)
        except (SettingsError, RetrievalError) as error:
            self._report("error " + " ".join(str(error).split()))
            self._reports.close()
            return 1
        obeying = asyncio.create_task(self._obey(serving))
        with socket.socket(fileno=descriptor) as connections:
            connections.setblocking(False)
            loop.add_reader(connections, self._take_connection, connections, serving)
            self._report("up")
            await ends_first(self._warm(serving), self._leave.wait())
            await self._leave.wait()
            self._report("leaving")
            await ends_first(serving.drain(settings.server.shutdown_s), self._cut.wait())
            loop.remove_reader(connections)
        obeying.cancel()
        return 0

    async def _warm(self, serving: Serving) -> None:
        await serving.warm()
        self._report(f"warm {_memory_bytes()}")

    async def _obey(self, serving: Serving) -> None:
        """Obey the parent's lines."""
        async for line in self._commands:
            word, _, rest = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
            if word == "status":
                if not self._leave.is_set():
                    serving.set_status(*orjson.loads(rest))
            elif word == "ping":
                self._report("pong")
            else:
                self._leave.set()
                if word == "cut":
                    self._cut.set()
        self._leave.set()  # the parent is gone

    def _take_connection(self, connections: socket.socket, serving: Serving) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(connections, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if descriptors:
            taking = asyncio.create_task(self._serve(socket.socket(fileno=descriptors[0]), serving))
            self._taking.add(taking)
            taking.add_done_callback(self._taking.discard)
        elif data:  # no descriptor was free, so the system closed it
            self._report("gone")
        else:  # the parent is gone
            asyncio.get_running_loop().remove_reader(connections)

    async def _serve(self, accepted: socket.socket, serving: Serving) -> None:
        accepted.setblocking(False)
        try:
            await serving.connections.take(accepted)
        except OSError:  # already closed
            accepted.close()
            self._report("gone")

    def _report(self, line: str) -> None:
        """Send a line to the parent."""
        if not self._reports.is_closing():
            self._reports.write(line.encode() + b"\n")


def _memory_bytes() -> int:
    """This process's resident memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:  # not Linux: peak memory
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


async def _run() -> int:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    reports, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(os.dup(1), "wb", buffering=0))
    os.dup2(2, 1)  # what libraries print goes to the log, so that the parent never takes it for a report
    return await _WorkerProcess(commands, reports).run()


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run())
