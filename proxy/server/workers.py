"""Worker processes, as their parent sees them: started, handed connections, replaced after an exit, drained.

The parent accepts every connection and passes its descriptor to the worker with the fewest open. The kernel would not
spread a few kept connections: of 16, two workers that accept from one socket get 14 and 2, and four with SO_REUSEPORT
8, 4, 3 and 1. And a worker that hangs or dies loses only its own connections: those not yet accepted wait for other
workers. The parent pings each worker's event loop, kills a worker that stops answering (nothing else can end a hung
one), and replaces it like a dead one. So a single worker has a parent, too.

A worker is `python -m cli.worker`. Lines go both ways, connections over a socket of their own, one byte with each:

    standard input     its number, metrics folder, socket descriptor and settings as JSON, then:
                       status JSON (for /readyz: the missing part, and warnings)   ping   drain   cut
    standard output    up (accepts connections)   warm BYTES (memory)   error TEXT   gone (a connection closed)
                       pong (the event loop runs)   leaving (accepts no more)

When its input ends, the parent has ended, and the worker drains.
"""

import asyncio
import contextlib
import logging
import socket
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

import orjson

from proxy.server.child import MISSED_PINGS, end_of, ends_first, keep_running, kill
from runtime.scheduling import child_command

log = logging.getLogger("ragway")
_BACKLOG = 2048
_PAUSE_S = 0.05  # before accepting again, when no worker or descriptor is free
_GRACE_S = 0.8  # beyond the drain time, before a worker is killed


class WorkerFailed(Exception):
    """A worker cannot start; the text says why."""


class Worker:
    """One worker process."""

    def __init__(self, number: int, process: Process, connections: socket.socket) -> None:
        self.number = number
        self.process = process
        self.up = asyncio.Event()
        self.warm = asyncio.Event()
        self.accepting = False  # whether it takes connections now
        self.open_connections = 0
        self.passed = 0  # connections passed to it so far
        self._connections = connections
        self._pong = asyncio.Event()
        self._fault = ""
        self._memory_bytes = 0
        self._reading = asyncio.create_task(self._read())

    @staticmethod
    async def launch(number: int, settings: bytes, counts: str) -> "Worker":
        """Start a worker; counts: its folder for metrics (`proxy.observe.metrics`). Raises WorkerFailed."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                # Ctrl-C in a terminal is for the parent.
                process = await asyncio.create_subprocess_exec(
                    *child_command("cli.worker"), stdin=PIPE, stdout=PIPE, pass_fds=(theirs.fileno(),)
                )
            except OSError as error:
                text = f"a worker process cannot be started: {error.strerror or error}"
                raise WorkerFailed(text) from error
            worker = Worker(number, process, ours)
            worker.send(orjson.dumps([number, counts, theirs.fileno(), orjson.Fragment(settings)]))
        return worker

    def send(self, line: bytes) -> None:
        """Send one line, now or as soon as the worker reads."""
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(line + b"\n")

    def pass_connection(self, connection: socket.socket) -> bool:
        """Pass a connection to the worker; returns whether it got through."""
        try:
            socket.send_fds(self._connections, [b"\n"], [connection.fileno()])
        except OSError:  # it does not read, or has ended
            return False
        self.open_connections += 1
        self.passed += 1
        return True

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word, _, rest = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
            if word == "gone":
                self.open_connections -= 1
            elif word == "up":
                self.up.set()
            elif word == "warm":
                self._memory_bytes = int(rest)
                self.warm.set()
            elif word == "pong":
                self._pong.set()
            elif word == "leaving":
                self.accepting = False
            elif word == "error":
                self._fault = rest
        self.accepting = False

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for an event. Raises WorkerFailed if the worker ends first."""
        if not await ends_first(event.wait(), self.process.wait()):
            await self._reading  # the last lines
            raise WorkerFailed(self._fault or f"a worker process ended with status {self.process.returncode}")

    async def end(self, hang_s: float) -> int:
        """Its exit status, once it has ended or was killed for hanging."""

        async def ping() -> bool:
            self._pong.clear()
            self.send(b"ping")
            await asyncio.sleep(hang_s / MISSED_PINGS)
            return self._pong.is_set()

        code = await end_of(self.process, f"worker {self.number}", ping, hang_s)
        self.close()
        return code

    def close(self) -> None:
        """Pass no more connections."""
        self.accepting = False
        self._connections.close()

    def log_start(self) -> None:
        memory = self._memory_bytes / 1e6
        log.info("worker %d (process %d) serves, in %.0f MB of memory", self.number, self.process.pid, memory)


class Workers:
    """Worker processes that share a listening socket. A worker that ends unexpectedly, or hangs, is replaced."""

    def __init__(self, count: int, settings: bytes, hang_s: float) -> None:
        """settings: one line, passed to each worker. hang_s: a worker that does not answer for this long is killed."""
        self._count = count
        self._hang_s = hang_s
        self._settings = settings
        self._metrics_folder = tempfile.TemporaryDirectory(prefix="ragway-")
        self._workers: list[Worker] = []
        self._tasks: list[asyncio.Task[None]] = []  # accept connections, and replace workers
        self._missing = "starting"
        self._warnings: Sequence[str] = ()

    async def start(self, listener: socket.socket) -> None:
        """Start all workers; return when all are warm. They accept connections earlier. Raises WorkerFailed."""
        for number in range(1, self._count + 1):
            self._workers.append(await Worker.launch(number, self._settings, self._metrics_folder.name))
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self._tasks.append(asyncio.create_task(self._accept(listener)))
        await asyncio.gather(*map(self._wait_started, self._workers))
        self._tasks += [asyncio.create_task(self._supervise(number)) for number in range(self._count)]

    async def _wait_started(self, worker: Worker) -> None:
        await worker.wait_for(worker.up)
        worker.accepting = True  # /healthz answers during the warm-up
        await worker.wait_for(worker.warm)

    def set_status(self, missing: str) -> None:
        """Set what /readyz answers: the missing part; "": ready."""
        if self._missing == "starting":
            for worker in self._workers:
                worker.log_start()
        self._missing = " ".join(missing.split())
        self._send(self._status())

    def set_warnings(self, warnings: Sequence[str]) -> None:
        """Set problems for /readyz to mention while the gateway is ready."""
        self._warnings = warnings
        self._send(self._status())

    def _status(self) -> bytes:
        return b"status " + orjson.dumps([self._missing, self._warnings])

    def _send(self, line: bytes) -> None:
        for worker in self._workers:
            worker.send(line)

    async def drain(self, patience_s: float) -> None:
        """Stop accepting, let workers drain, and kill them after `patience_s` or when cancelled."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._send(b"drain")
        try:
            await self._wait_all_exits(patience_s + _GRACE_S)
        except asyncio.CancelledError:
            self._send(b"cut")
            await self._wait_all_exits(_GRACE_S)
            raise
        finally:
            for worker in self._workers:
                await kill(worker.process)
                worker.close()
            self._metrics_folder.cleanup()

    async def _wait_all_exits(self, patience_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for worker in self._workers:
                    await worker.process.wait()

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections while any worker takes them, and pass each one on."""
        loop, out_of_descriptors = asyncio.get_running_loop(), False
        with listener:
            while True:
                if not any(worker.accepting for worker in self._workers):
                    await asyncio.sleep(_PAUSE_S)
                    continue
                try:
                    connection, _ = await loop.sock_accept(listener)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    if not out_of_descriptors:
                        log.warning("cannot accept connections now: %s", error.strerror or error)
                    out_of_descriptors = True
                    await asyncio.sleep(_PAUSE_S)
                    continue
                out_of_descriptors = False
                with connection:
                    while not self._pass_on(connection):  # noqa: ASYNC110 - no worker tells when it has room
                        await asyncio.sleep(_PAUSE_S)
                await asyncio.sleep(0)  # a burst must not starve this process's other tasks

    def _pass_on(self, connection: socket.socket) -> bool:
        accepting = [worker for worker in self._workers if worker.accepting]
        accepting.sort(key=lambda worker: (worker.open_connections, worker.passed))
        return any(worker.pass_connection(connection) for worker in accepting)

    async def _supervise(self, at: int) -> None:
        """Replace a worker after every exit."""

        async def end() -> None:
            worker = self._workers[at]
            code, pid = await worker.end(self._hang_s), worker.process.pid
            log.warning("worker %d (process %d) ended (status %s); starting another", worker.number, pid, code)

        async def replace() -> bool:
            try:
                worker = await Worker.launch(at + 1, self._settings, self._metrics_folder.name)
                self._workers[at] = worker
                worker.send(self._status())
                await worker.wait_for(worker.warm)  # others serve meanwhile
            except WorkerFailed as error:
                log.error("worker %d does not start: %s", at + 1, error)
                return False
            worker.accepting = True
            worker.log_start()
            return True

        await keep_running(end, replace)
