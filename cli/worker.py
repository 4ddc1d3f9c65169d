"""One process of the gateway, and `main` of a worker process.

`ragway serve` starts one or more workers and hands over settings and connections. `proxy.server.workers` describes the
messages between parent and worker.
"""

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import uvloop

from cli.assembly.gateway import gateway, metrics_of
from config.sections import Settings
from config.settings import SettingsError, load
from proxy.observe.metrics import Metrics
from proxy.server.http1 import Connections, Timeouts
from retrieval.errors import RetrievalError
from retrieval.rpc.client import IndexClient
from runtime import garbage, logs, scheduling

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_BACKLOG = 2048
_AT_A_TIME = 64  # connections accepted per turn of the event loop
_AGAIN_S = 0.05
_PATIENCE_S = 60.0  # from the start, while a search waits for a starting index: 2 to 15 s on a fast machine


class Serving:
    """A gateway and the connections to the gateway, in this process."""

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
        self._keeping: asyncio.Future[tuple[None, None, None, None]] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve connections to a bound socket and load all models. Returns when warm."""
        await self.connections.listen(listener, _BACKLOG)
        await self.warm()

    async def warm(self) -> None:
        """Load models in advance and start the tasks that keep keys and accounts up to date."""
        self._watching = asyncio.create_task(self._made.keyring.watch())
        made = self._made
        await asyncio.to_thread(made.receipts.warm)
        await asyncio.to_thread(made.histories.warm)
        if made.actions is not None:
            await made.actions.start()
        self._keeping = asyncio.gather(
            made.ledger.run(), made.receipts.run(), made.histories.run(), made.shadow.keeper.run()
        )
        if self._made.translated is not None:
            await self._made.translated.warm()
        garbage.tune_gc()

    def set_status(self, missing: str) -> None:
        """Set the answer of /readyz; "" is ready."""
        self._missing = missing
        if missing != "starting":
            self._knowledge.end_start()

    def set_warnings(self, warnings: Sequence[str]) -> None:
        """Set the problems that /readyz tells of."""
        self._warnings = warnings

    async def drain(self, patience_s: float) -> None:
        """Accept no more connections, let running requests finish, cut after `patience_s` or on cancellation, close
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
            if self._keeping is not None:
                self._made.ledger.stop()
                self._made.receipts.stop()
                self._made.histories.stop()
                self._made.shadow.keeper.stop()
                await self._keeping
            if self._made.actions is not None:
                await self._made.actions.close()
            await self._knowledge.close()
            self._made.client.close()
            if self._made.translated is not None:
                await self._made.translated.close()


class _WorkerProcess:
    """The life of a worker process, directed by the parent."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._unread = b""
        self._descriptors: list[int] = []
        self._taking: set[asyncio.Task[None]] = set()
        self._gone = 0
        self._report_scheduled = False
        self._serving: Serving | None = None
        self.leave = asyncio.Event()
        self.cut = asyncio.Event()

    async def run(self) -> int:
        """Serve until told to drain; returns the exit code."""
        settings, metrics = await self._first_line()
        logs.to_stderr(settings.server.log_level, LOG_FORMAT)
        scheduling.prefer_low_latency()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.leave.set)
        try:
            self._serving = Serving(settings, self._count_gone, metrics)
        except (SettingsError, RetrievalError) as error:
            self._send("error " + " ".join(str(error).split()))
            return 1
        loop.add_reader(self._channel, self._receive)
        self._read_lines(b"")  # bytes received together with the settings
        self._send("up")
        cut = asyncio.ensure_future(self.cut.wait())
        leaving = asyncio.ensure_future(self.leave.wait())
        warming = asyncio.ensure_future(self._warm(self._serving))
        await asyncio.wait({warming, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if warming.done():
            warming.result()
        await leaving
        self._send("leaving")
        draining = asyncio.ensure_future(self._serving.drain(settings.server.shutdown_s))
        await asyncio.wait({draining, cut}, return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            draining.cancel()
            await asyncio.wait({draining})
        return 0

    async def _first_line(self) -> tuple[Settings, Metrics]:
        """The first line. Connections come only after we said `up`."""
        line = b""
        while b"\n" not in line:
            part = await asyncio.get_running_loop().sock_recv(self._channel, 1 << 16)
            if not part:
                raise SystemExit(0)  # the parent is gone
            line += part
        line, self._unread = line.split(b"\n", 1)
        number, counts, flags = orjson.loads(line)
        settings = load(environ={}, flags=flags)
        return settings, metrics_of(settings, folder=Path(counts), worker=number)

    async def _warm(self, serving: Serving) -> None:
        await serving.warm()
        self._send(f"warm {_memory_bytes()}")

    def _receive(self) -> None:
        for _ in range(_AT_A_TIME):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._channel, 1 << 12, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:  # the parent is gone
                asyncio.get_running_loop().remove_reader(self._channel)
                self.leave.set()
                return
            self._descriptors += descriptors
            self._read_lines(data)

    def _read_lines(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._take(*line.decode("utf-8", "replace").partition(" ")[::2])

    def _take(self, word: str, rest: str) -> None:
        assert self._serving is not None  # made before the channel is read
        if word == "connection":
            if not self._descriptors:  # no descriptor was free, so the system closed the connection
                self._count_gone()
                return
            taking = asyncio.ensure_future(self._take_connection(self._serving, self._descriptors.pop(0)))
            self._taking.add(taking)
            taking.add_done_callback(self._taking.discard)
        elif word == "missing":
            if not self.leave.is_set():
                self._serving.set_status(rest)
        elif word == "warnings":
            self._serving.set_warnings(orjson.loads(rest))
        elif word == "ping":
            self._send("pong")
        elif word == "drain":
            self.leave.set()
        elif word == "cut":
            self.leave.set()
            self.cut.set()

    async def _take_connection(self, serving: Serving, descriptor: int) -> None:
        accepted = socket.socket(fileno=descriptor)
        accepted.setblocking(False)
        try:
            await serving.connections.take(accepted)
        except OSError:  # the connection is already closed
            accepted.close()
            self._count_gone()

    def _count_gone(self) -> None:
        self._gone += 1
        if not self._report_scheduled:
            self._report_scheduled = True
            asyncio.get_running_loop().call_soon(self._report_gone)

    def _report_gone(self) -> None:
        self._report_scheduled = False
        gone, self._gone = self._gone, 0
        if not self._send(f"gone {gone}"):
            self._gone += gone
            self._report_scheduled = True
            asyncio.get_running_loop().call_later(_AGAIN_S, self._report_gone)

    def _send(self, line: str) -> bool:
        """Send a line to the parent. False: the channel is full. Lines are short, so no line is sent in part."""
        try:
            self._channel.send(line.encode() + b"\n")
        except BlockingIOError:
            return False
        except OSError:  # the parent has ended; the end of the channel reports the same
            return True
        return True


def _memory_bytes() -> int:
    """The resident memory of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:  # not Linux: the peak memory
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent
    channel = socket.socket(fileno=os.dup(0))
    channel.setblocking(False)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with channel, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_WorkerProcess(channel).run())
