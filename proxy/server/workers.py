"""Worker processes, from the parent's side: started, handed connections, replaced after an exit, drained.

The parent accepts every connection and passes the descriptor to the worker with the fewest open connections. So a few
kept-alive connections spread evenly (the kernel's choice among accepting processes does not spread connections evenly),
and a worker that hangs or dies loses only its own connections: connections not yet accepted wait for the other workers.
The parent pings each worker's event loop, kills a worker that stops answering (no other means can end a hung worker),
and replaces the worker like a dead worker. So a single worker has a parent, too.

A worker is `python -m cli.worker` with one end of a socket pair as standard input. Lines go both ways:

    parent -> worker    the worker's number, the metrics folder and the settings as JSON, then:
                        missing TEXT (for /readyz; empty: ready)   warnings JSON (for /readyz, too)
                        connection (with a descriptor)   ping   drain   cut
    worker -> parent    up (accepts connections)   warm BYTES (memory)   error TEXT   gone N (closed connections)
                        pong (the event loop runs)   leaving (accepts no more)

The end of the channel is the end of the other process: a worker drains after any end of the parent.
"""

import asyncio
import contextlib
import logging
import socket
import tempfile
from collections.abc import Sequence

import orjson

from runtime.scheduling import child_command

log = logging.getLogger("ragway")
_BACKLOG = 2048
_ACCEPTS_PER_TURN = 64  # connections accepted in one turn of the event loop
_PAUSE_S = 0.05  # pause of accepting when no worker, or no descriptor, is free
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_MISSED_PINGS = 5  # missed pings before a kill: this process may have delayed a single ping
_GRACE_S = 0.8  # beyond the drain time, for a worker to end before the kill


class WorkerFailed(Exception):
    """A worker cannot start; the text says why."""


class Worker:
    """One worker process and the channel to it."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self.number = number
        self.process = process
        self.up = asyncio.Event()
        self.warm = asyncio.Event()
        self.accepting = False  # whether the worker takes connections now
        self.answered = True  # whether the worker answered the last ping
        self.memory_bytes = 0
        self.open_connections = 0
        self.passed = 0  # connections passed to the worker so far
        self._channel = channel
        self._fault = ""
        self._received = b""
        self._unsent = b""
        asyncio.get_running_loop().add_reader(channel, self._read)

    @staticmethod
    async def launch(number: int, settings: bytes, counts: str) -> "Worker":
        """Start a worker; counts: the folder for metrics (`proxy.observe.metrics`). Raises WorkerFailed."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                # Ctrl-C in the terminal is for the parent. The parent's standard output is for people.
                process = await asyncio.create_subprocess_exec(
                    *child_command("cli.worker"), stdin=theirs.fileno(), stdout=2
                )
        except OSError as error:
            ours.close()
            raise WorkerFailed(f"a worker process cannot be started: {error.strerror or error}") from error
        except BaseException:
            ours.close()  # the closed channel ends the worker
            raise
        worker = Worker(number, process, ours)
        worker.send_line(orjson.dumps([number, counts, orjson.Fragment(settings)]))
        return worker

    def send_line(self, line: bytes) -> None:
        """Send one line, now or as soon as the worker reads."""
        waiting = bool(self._unsent)
        self._unsent += line + b"\n"
        if not waiting:
            self._send()

    def _send(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._unsent = self._unsent[self._channel.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the worker has ended
            self._unsent = b""
        if self._unsent:
            loop.add_writer(self._channel, self._send)
        elif self._channel.fileno() >= 0:
            loop.remove_writer(self._channel)

    def pass_connection(self, connection: socket.socket) -> bool:
        """Pass a connection to the worker; returns whether the worker got the connection."""
        if self._unsent:
            return False
        try:
            socket.send_fds(self._channel, [b"connection\n"], [connection.fileno()])
        except OSError:  # the worker does not read, or has ended
            return False
        self.open_connections += 1
        self.passed += 1
        return True

    def _read(self) -> None:
        try:
            data = self._channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.accepting = False
            asyncio.get_running_loop().remove_reader(self._channel)
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._take(*line.decode("utf-8", "replace").partition(" ")[::2])

    def _take(self, word: str, rest: str) -> None:
        if word == "gone":
            self.open_connections -= int(rest)
        elif word == "up":
            self.up.set()
        elif word == "warm":
            self.memory_bytes = int(rest)
            self.warm.set()
        elif word == "pong":
            self.answered = True
        elif word == "leaving":
            self.accepting = False
        elif word == "error":
            self._fault = rest

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for an event of the worker. Raises WorkerFailed if the worker ends first."""
        coming = asyncio.ensure_future(event.wait())
        ending = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming.cancel()
            ending.cancel()
        if not event.is_set():
            self._read()  # the last lines
            raise WorkerFailed(self._fault or f"a worker process ended with status {self.process.returncode}")

    async def wait_unresponsive(self, hang_s: float) -> None:
        """Return after `hang_s` without an answer to a ping."""
        unanswered = 0
        while unanswered < _MISSED_PINGS:
            self.answered = False
            self.send_line(b"ping")
            await asyncio.sleep(hang_s / _MISSED_PINGS)
            unanswered = 0 if self.answered else unanswered + 1

    def close(self) -> None:
        """Close the channel."""
        if self._channel.fileno() >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._channel)
            loop.remove_writer(self._channel)
            self._channel.close()

    async def kill(self) -> None:
        """Kill the worker at once."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        self.close()


class Workers:
    """Worker processes that share a listening socket. A worker that ends unexpectedly, or hangs, is replaced."""

    def __init__(self, count: int, settings: bytes, hang_s: float) -> None:
        """settings: one line, passed to each worker. hang_s: time without an answer before a worker is killed."""
        self._count = count
        self._hang_s = hang_s
        self._settings = settings
        self._metrics_folder = tempfile.TemporaryDirectory(prefix="ragway-")
        self._workers: list[Worker] = []
        self._supervisors: list[asyncio.Task[None]] = []
        self._listener: socket.socket | None = None
        self._pending: socket.socket | None = None  # accepted, and not passed yet
        self._out_of_descriptors = False
        self._paused: asyncio.TimerHandle | None = None
        self._missing = "starting"
        self._warnings = b"[]"

    async def start(self, listener: socket.socket) -> None:
        """Start all workers; return when all are warm. Connections are accepted earlier. Raises WorkerFailed."""
        for number in range(1, self._count + 1):
            self._workers.append(await Worker.launch(number, self._settings, self._metrics_folder.name))
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self._listener = listener
        self._start_accepting()
        starting = [asyncio.create_task(self._wait_started(worker)) for worker in self._workers]
        try:
            await asyncio.gather(*starting)
        finally:
            for task in starting:
                task.cancel()
        self._supervisors = [asyncio.create_task(self._supervise(worker)) for worker in self._workers]

    async def _wait_started(self, worker: Worker) -> None:
        await worker.wait_for(worker.up)
        worker.accepting = True  # /healthz answers during the warm-up
        await worker.wait_for(worker.warm)

    def set_status(self, missing: str) -> None:
        """Set the answer of /readyz: the missing part; "": ready."""
        if self._missing == "starting":
            for worker in self._workers:
                _log_start(worker)
        self._missing = " ".join(missing.split())
        for worker in self._workers:
            worker.send_line(f"missing {self._missing}".encode())

    def set_warnings(self, warnings: Sequence[str]) -> None:
        """Set the problems that /readyz tells of while the gateway is ready."""
        self._warnings = orjson.dumps(warnings)
        for worker in self._workers:
            worker.send_line(b"warnings " + self._warnings)

    async def drain(self, patience_s: float) -> None:
        """Stop accepting, let the workers drain, and kill the workers after `patience_s` or when cancelled."""
        self._stop_accepting()
        for supervisor in self._supervisors:
            supervisor.cancel()
        if self._supervisors:
            await asyncio.wait(self._supervisors)
        for worker in self._workers:
            worker.send_line(b"drain")
        try:
            async with asyncio.timeout(patience_s + _GRACE_S):
                await self._wait_all_exits()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            for worker in self._workers:
                worker.send_line(b"cut")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self._wait_all_exits()
            raise
        finally:
            for worker in self._workers:
                await worker.kill()
            self._metrics_folder.cleanup()

    async def _wait_all_exits(self) -> None:
        for worker in self._workers:
            await worker.process.wait()

    # --- connections -------------------------------------------------------------------------------------------------

    def _start_accepting(self) -> None:
        assert self._listener is not None
        self._paused = None
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _stop_accepting(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        if self._paused is not None:
            self._paused.cancel()
        if self._pending is not None:
            self._pending.close()

    def _accept(self) -> None:
        """Accept waiting connections and pass each to a worker; keep a connection that finds no worker, and pause."""
        assert self._listener is not None
        for _ in range(_ACCEPTS_PER_TURN):
            if self._pending is None and any(worker.accepting for worker in self._workers):
                self._pending = self._accept_one(self._listener)
                if self._pending is None:
                    return
            if self._pending is None or not self._hand_over(self._pending):
                self._pause()
                return
            self._pending.close()
            self._pending = None

    def _accept_one(self, listener: socket.socket) -> socket.socket | None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:  # no descriptor is free: without a pause the event loop would call again at once
            if not self._out_of_descriptors:
                log.warning("cannot accept connections now: %s", error.strerror or error)
            self._out_of_descriptors = True
            self._pause()
            return None
        self._out_of_descriptors = False
        return connection

    def _hand_over(self, connection: socket.socket) -> bool:
        accepting = [worker for worker in self._workers if worker.accepting]
        accepting.sort(key=lambda worker: (worker.open_connections, worker.passed))
        return any(worker.pass_connection(connection) for worker in accepting)

    def _pause(self) -> None:
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._paused = loop.call_later(_PAUSE_S, self._resume_accepting)

    def _resume_accepting(self) -> None:
        self._start_accepting()
        self._accept()

    # --- replacing ---------------------------------------------------------------------------------------------------

    async def _supervise(self, worker: Worker) -> None:
        """Replace the worker after every exit."""
        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        while True:
            started_s = loop.time()
            code = await self._wait_exit(worker)
            worker.accepting = False
            worker.close()
            if loop.time() - started_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            log.warning(
                "worker %d (process %d) ended (status %s); starting another", worker.number, worker.process.pid, code
            )
            while True:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                try:
                    worker = await self._replace(worker)
                except WorkerFailed as error:
                    log.error("worker %d does not start: %s", worker.number, error)
                else:
                    break

    async def _wait_exit(self, worker: Worker) -> int:
        """The exit status of the worker, after an exit or after a kill because of a hang."""
        ended = asyncio.ensure_future(worker.process.wait())
        silent = asyncio.ensure_future(worker.wait_unresponsive(self._hang_s))
        try:
            await asyncio.wait({ended, silent}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                log.error("worker %d did not answer for %g s: ragway kills the process", worker.number, self._hang_s)
                with contextlib.suppress(ProcessLookupError):
                    worker.process.kill()
            return await ended
        finally:
            for task in (ended, silent):
                task.cancel()
            await asyncio.wait({ended, silent})

    async def _replace(self, dead: Worker) -> Worker:
        """A warm worker in place of a dead worker. Raises WorkerFailed."""
        worker = await Worker.launch(dead.number, self._settings, self._metrics_folder.name)
        self._workers[dead.number - 1] = worker
        worker.send_line(f"missing {self._missing}".encode())
        worker.send_line(b"warnings " + self._warnings)
        await worker.wait_for(worker.warm)  # the other workers serve meanwhile
        worker.accepting = True
        _log_start(worker)
        return worker


def _log_start(worker: Worker) -> None:
    log.info(
        "worker %d (process %d) serves, in %.0f MB of memory",
        worker.number,
        worker.process.pid,
        worker.memory_bytes / 1e6,
    )
