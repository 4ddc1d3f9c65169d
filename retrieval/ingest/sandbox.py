"""Documents parsed and split in processes of their own, each within seconds and memory that are its limits.

A document is whatever somebody wrote, and what reads it is native code and regular expressions: it may take hours, all
memory, or the process with it. Here it takes a process that nobody else needs. Several of them work at once, so that a
document which is slow to read keeps no other collection's waiting.
"""

import asyncio
import contextlib
import multiprocessing
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from retrieval.errors import Unreadable
from retrieval.ingest.splitting import File, Framing, Recipe, Split, Splitter
from retrieval.knowledge import ReadingLimits
from retrieval.records.documents import Document
from runtime.scheduling import in_the_background

_MOST = 8  # processes at once
_KEPT = 2  # of these where there is nothing to read
_TRIES = 2  # what dies without a limit reached may have been killed for what others took
_WAIT_TIMES = 4  # of its seconds: a document that uses none, or a process that others keep from the cores
_STARTING_S = 60.0
_REAPED_TRIES = 100


class Sandbox:
    """A pool of processes that read documents. Each is started on first use.

    nice: as `in_the_background` takes it; 0 where nobody asks questions beside it.
    """

    def __init__(self, recipe: Recipe, framing: Framing, limits: ReadingLimits, *, nice: int = 0) -> None:
        self._arguments = recipe, framing, limits, nice
        self._room = asyncio.Semaphore(_MOST)
        self._threads = ThreadPoolExecutor(_MOST, "reading")
        self._idle: list[_Reader] = []

    async def split(self, item: File | Document) -> Split:
        """Raises Unreadable if the file cannot become a document, within the limits."""
        async with self._room:
            for _ in range(_TRIES):
                reader = self._idle.pop() if self._idle else _Reader(*self._arguments)
                try:
                    answer = await asyncio.wrap_future(self._threads.submit(reader.ask, item))
                except BaseException:
                    reader.kill()
                    raise
                if answer is None:
                    continue
                if reader.alive and len(self._idle) < _KEPT:
                    self._idle.append(reader)
                else:
                    reader.kill()
                if isinstance(answer, Unreadable):
                    raise answer
                return answer
        raise Unreadable("the reading process died twice (out of memory?)")

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().kill()
        self._threads.shutdown(wait=False)


class _Reader:
    """A process that reads one document after the other."""

    def __init__(self, recipe: Recipe, framing: Framing, limits: ReadingLimits, nice: int) -> None:
        self._arguments = recipe, framing, limits, nice
        self._limits = limits
        self._process: Any = None
        self._killed = False

    def ask(self, item: File | Document) -> Split | Unreadable | None:
        """What it says; None where it died."""
        if self._process is None:
            self._start()
        if self._killed:  # while it started
            self._process.kill()
        try:
            self._pipe.send(item)
            if not self._pipe.poll(self._limits.seconds * _WAIT_TIMES + _STARTING_S):
                self.kill()
                return self._late()
            answer: Split | Unreadable = self._pipe.recv()
            return answer
        except (EOFError, OSError):
            return self._late() if self._exit_code() == -signal.SIGPROF else None

    def _exit_code(self) -> int | None:
        self._process.join()
        for _ in range(_REAPED_TRIES):  # a thread that starts a process reaps those of others, too
            if self._process.exitcode is not None:
                break
            time.sleep(0.01)
        code: int | None = self._process.exitcode
        return code

    @property
    def alive(self) -> bool:
        return not self._killed and bool(self._process.is_alive())

    def kill(self) -> None:
        """End it, whatever it does; who waits for its answer gets none."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *self._arguments), daemon=True)
        process.start()
        theirs.close()
        self._process = process

    def _late(self) -> Unreadable:
        return Unreadable(
            f"takes longer than {self._limits.seconds:g} s to read: split the document, or raise the limit "
            "(ingest.max_read_s)"
        )


def _work(pipe: "Connection[Any, Any]", recipe: Recipe, framing: Framing, limits: ReadingLimits, nice: int) -> None:
    """The process's life: answer until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    if nice:
        in_the_background(nice)
    splitter = Splitter(recipe, framing, max_chunks=limits.chunks)
    _limit_memory(limits.memory_mb)
    while True:
        try:
            item = pipe.recv()
        except (EOFError, OSError):
            return
        # Seconds of all cores. The signal ends the process wherever it is, in native code, too.
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        answer: Split | Unreadable
        try:
            answer = splitter.split(item)
        except Unreadable as error:
            answer = error
        try:
            pipe.send(answer)
        except MemoryError:
            pipe.send(Unreadable("needs too much memory or nesting to read (MemoryError)"))
        except OSError:
            return
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory(most_mb: int) -> None:
    """So much more than the process has now, where the system keeps such a limit."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
        most = pages * resource.getpagesize() + most_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
