"""Worker processes as their parent sees them: started, handed connections, replaced when they die, drained.

The parent accepts every connection and passes it, by its descriptor, to the worker with the fewest open ones. So a few
kept-alive connections spread evenly (the kernel's choice among processes that accept does not), and a worker that hangs
or dies takes only what it had: connections that wait to be accepted wait for the others. Its event loop is pinged: one
that answers no more is killed, because nothing else can end it, and replaced like one that died. So there is a parent
where there is one worker, too.

A worker is `python -m cli.worker` with one end of a socket pair as its standard input. Lines go both ways:

    parent -> worker    its number, the folder to count in and the settings as JSON, then:
                        missing TEXT (what /readyz says; empty: ready)   connection (with a descriptor)   ping
                        drain   cut
    worker -> parent    up (takes connections)   warm BYTES (its memory)   error TEXT   gone N (connections that ended)
                        pong (its event loop runs)   leaving (takes no more)

The end of the channel is the end of the other: a worker drains when its parent is gone, whatever ended it.
"""

import asyncio
import contextlib
import logging
import socket
import tempfile

import orjson

from runtime.scheduling import child_command

log = logging.getLogger("ragway")
_BACKLOG = 2048
_AT_A_TIME = 64  # connections accepted in one turn of the event loop
_PAUSE_S = 0.05  # in which nothing is accepted, where nothing can be
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_TRIES = 5  # pings in a row without an answer: one alone may have been held up by this process
_GRACE_S = 0.8  # beyond the drain time, for a worker to end before it is killed


class WorkerFailed(Exception):
    """A worker cannot start; the text says why."""


class Worker:
    """One worker process and the channel to it."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self.number = number
        self.process = process
        self.up = asyncio.Event()
        self.warm = asyncio.Event()
        self.takes = False  # connections, now
        self.answered = True  # the newest ping
        self.memory_bytes = 0
        self.open = 0  # connections it has
        self.given = 0  # connections it was ever handed
        self._channel = channel
        self._fault = ""
        self._said = b""
        self._unsent = b""
        asyncio.get_running_loop().add_reader(channel, self._read)

    @staticmethod
    async def launch(number: int, settings: bytes, counts: str) -> "Worker":
        """Start one; counts: the folder in which it counts (`proxy.observe.metrics`). Raises WorkerFailed."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                # Ctrl-C in the terminal is for the parent. Its standard output is for people.
                process = await asyncio.create_subprocess_exec(
                    *child_command("cli.worker"), stdin=theirs.fileno(), stdout=2
                )
        except OSError as error:
            ours.close()
            raise WorkerFailed(f"a worker process cannot be started: {error.strerror or error}") from error
        except BaseException:
            ours.close()  # its end ends the worker
            raise
        worker = Worker(number, process, ours)
        worker.tell(orjson.dumps([number, counts, orjson.Fragment(settings)]))
        return worker

    def tell(self, line: bytes) -> None:
        """Say one line, at once or as soon as the worker listens."""
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
        except OSError:  # it is gone
            self._unsent = b""
        if self._unsent:
            loop.add_writer(self._channel, self._send)
        elif self._channel.fileno() >= 0:
            loop.remove_writer(self._channel)

    def give(self, connection: socket.socket) -> bool:
        """Hand a connection over; whether that was possible."""
        if self._unsent:
            return False
        try:
            socket.send_fds(self._channel, [b"connection\n"], [connection.fileno()])
        except OSError:  # it does not read, or is gone
            return False
        self.open += 1
        self.given += 1
        return True

    def _read(self) -> None:
        try:
            data = self._channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.takes = False
            asyncio.get_running_loop().remove_reader(self._channel)
            return
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            self._take(*line.decode("utf-8", "replace").partition(" ")[::2])

    def _take(self, word: str, rest: str) -> None:
        if word == "gone":
            self.open -= int(rest)
        elif word == "up":
            self.up.set()
        elif word == "warm":
            self.memory_bytes = int(rest)
            self.warm.set()
        elif word == "pong":
            self.answered = True
        elif word == "leaving":
            self.takes = False
        elif word == "error":
            self._fault = rest

    async def until(self, event: asyncio.Event) -> None:
        """Wait until the worker is so far. Raises WorkerFailed when it ends instead."""
        coming = asyncio.ensure_future(event.wait())
        ending = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming.cancel()
            ending.cancel()
        if not event.is_set():
            self._read()  # its last words
            raise WorkerFailed(self._fault or f"a worker process ended with status {self.process.returncode}")

    async def until_silent(self, hang_s: float) -> None:
        """Return when it has answered no ping for `hang_s`."""
        unanswered = 0
        while unanswered < _TRIES:
            self.answered = False
            self.tell(b"ping")
            await asyncio.sleep(hang_s / _TRIES)
            unanswered = 0 if self.answered else unanswered + 1

    def close(self) -> None:
        """Close the channel."""
        if self._channel.fileno() >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._channel)
            loop.remove_writer(self._channel)
            self._channel.close()

    async def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        self.close()


class Workers:
    """Worker processes that share a listening socket. What ends unasked, or hangs, is replaced."""

    def __init__(self, count: int, settings: bytes, hang_s: float) -> None:
        """settings: one line, handed to each worker. hang_s: without an answer, before one is killed."""
        self._count = count
        self._hang_s = hang_s
        self._settings = settings
        self._counts = tempfile.TemporaryDirectory(prefix="ragway-")
        self._workers: list[Worker] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._listener: socket.socket | None = None
        self._held: socket.socket | None = None  # accepted, and not taken yet
        self._short = False  # of descriptors
        self._paused: asyncio.TimerHandle | None = None
        self._missing = "starting"

    async def start(self, listener: socket.socket) -> None:
        """Start them, and return when all are warm; connections are taken before. Raises WorkerFailed."""
        for number in range(1, self._count + 1):
            self._workers.append(await Worker.launch(number, self._settings, self._counts.name))
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self._listener = listener
        self._accept_on()
        beginning = [asyncio.create_task(self._begin(worker)) for worker in self._workers]
        try:
            await asyncio.gather(*beginning)
        finally:
            for each in beginning:
                each.cancel()
        self._keepers = [asyncio.create_task(self._keep(worker)) for worker in self._workers]

    async def _begin(self, worker: Worker) -> None:
        await worker.until(worker.up)
        worker.takes = True  # /healthz answers while the rest warms up
        await worker.until(worker.warm)

    def tell(self, missing: str) -> None:
        """What /readyz answers from now on; "" is ready."""
        if self._missing == "starting":
            for worker in self._workers:
                _introduce(worker)
        self._missing = " ".join(missing.split())
        for worker in self._workers:
            worker.tell(f"missing {self._missing}".encode())

    async def drain(self, patience_s: float) -> None:
        """Accept nothing more, let the workers drain, and end them after `patience_s` or when cancelled."""
        self._stop_accepting()
        for keeper in self._keepers:
            keeper.cancel()
        if self._keepers:
            await asyncio.wait(self._keepers)
        for worker in self._workers:
            worker.tell(b"drain")
        try:
            async with asyncio.timeout(patience_s + _GRACE_S):
                await self._ended()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            for worker in self._workers:
                worker.tell(b"cut")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self._ended()
            raise
        finally:
            for worker in self._workers:
                await worker.kill()
            self._counts.cleanup()

    async def _ended(self) -> None:
        for worker in self._workers:
            await worker.process.wait()

    # --- connections -------------------------------------------------------------------------------------------------

    def _accept_on(self) -> None:
        assert self._listener is not None
        self._paused = None
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _stop_accepting(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        if self._paused is not None:
            self._paused.cancel()
        if self._held is not None:
            self._held.close()

    def _accept(self) -> None:
        """Accept what waits and hand it over. What no worker takes now is kept, and the rest stays in the queue."""
        assert self._listener is not None
        for _ in range(_AT_A_TIME):
            if self._held is None and any(worker.takes for worker in self._workers):
                self._held = self._accepted(self._listener)
                if self._held is None:
                    return
            if self._held is None or not self._hand_over(self._held):
                self._pause()
                return
            self._held.close()
            self._held = None

    def _accepted(self, listener: socket.socket) -> socket.socket | None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:  # no descriptor is free: the event loop would call again at once
            if not self._short:
                log.warning("cannot accept connections now: %s", error.strerror or error)
            self._short = True
            self._pause()
            return None
        self._short = False
        return connection

    def _hand_over(self, connection: socket.socket) -> bool:
        taking = [worker for worker in self._workers if worker.takes]
        taking.sort(key=lambda worker: (worker.open, worker.given))
        return any(worker.give(connection) for worker in taking)

    def _pause(self) -> None:
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._paused = loop.call_later(_PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._accept_on()
        self._accept()

    # --- replacing ---------------------------------------------------------------------------------------------------

    async def _keep(self, worker: Worker) -> None:
        """Start another whenever the worker ends."""
        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        while True:
            began_s = loop.time()
            code = await self._outlived(worker)
            worker.takes = False
            worker.close()
            if loop.time() - began_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            log.warning(
                "worker %d (process %d) ended (status %s); starting another", worker.number, worker.process.pid, code
            )
            while True:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                try:
                    worker = await self._replaced(worker)
                except WorkerFailed as error:
                    log.error("worker %d does not start: %s", worker.number, error)
                else:
                    break

    async def _outlived(self, worker: Worker) -> int:
        """The status of the worker, once it has ended by itself or because it hung."""
        ended = asyncio.ensure_future(worker.process.wait())
        silent = asyncio.ensure_future(worker.until_silent(self._hang_s))
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

    async def _replaced(self, dead: Worker) -> Worker:
        """A warm worker in the place of one that ended. Raises WorkerFailed."""
        worker = await Worker.launch(dead.number, self._settings, self._counts.name)
        self._workers[dead.number - 1] = worker
        worker.tell(f"missing {self._missing}".encode())
        await worker.until(worker.warm)  # the others are: nothing waits for this one's start
        worker.takes = True
        _introduce(worker)
        return worker


def _introduce(worker: Worker) -> None:
    log.info(
        "worker %d (process %d) serves, in %.0f MB of memory",
        worker.number,
        worker.process.pid,
        worker.memory_bytes / 1e6,
    )
