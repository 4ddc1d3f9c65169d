"""Read documents in separate processes, each within limits of time and memory.

Documents come from anywhere, and native code and regular expressions read the documents: a document may take hours,
use all memory, or crash the process. Here a document can only crash a process that serves no other purpose. Several
processes work at the same time, so that a slow document delays no other collection.
"""

import asyncio
import contextlib
import math
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from retrieval.errors import Unreadable
from runtime.fair_slots import FairSlots
from runtime.scheduling import in_the_background

_ATTEMPTS = 2  # a process that dies within the limits may have been killed because of other processes' memory
_WAIT_TIMES = 4  # times the time limit: for a document that uses no CPU, or a process that gets no CPU
_START_S = 60.0
_REAPED_TRIES = 100

Item = TypeVar("Item")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class ReadingJob(Generic[Item, Read]):
    """The work of the processes.

    reader: makes the function that reads an item, within the process; the function may raise Unreadable. Everything
    here crosses to the process by pickle.
    """

    reader: Callable[[], Callable[[Item], Read]]
    seconds: float  # of processor time for one item
    memory_mb: int
    nice: int = 0  # as in `in_the_background`; 0 if no questions are answered on the same machine


class Sandbox(Generic[Item, Read]):
    """A pool of processes that read documents. Each process starts on first use.

    processes: at the same time. idle: processes kept for the next document.
    """

    def __init__(self, job: ReadingJob[Item, Read], *, processes: int = 8, idle: int = 2) -> None:
        self._job = job
        self._slots = FairSlots(processes)
        self._threads = ThreadPoolExecutor(processes, "reading")
        self._most_idle = idle
        self._idle: list[_ReadingProcess[Item, Read]] = []

    async def read(self, item: Item, *, owner: str = "", most_s: float = math.inf) -> Read:
        """Raises Unreadable if the item cannot be read within the limits.

        A caller that is cancelled gives its process up at once.

        owner: whoever shares the processes with others, such as a key.
        most_s: of processor time, if less than the job's limit: for a caller that cannot wait that long.
        """
        seconds = min(most_s, self._job.seconds)
        async with self._slots.slot(owner):
            for _ in range(_ATTEMPTS):
                process = self._idle.pop() if self._idle else _ReadingProcess(self._job)
                try:
                    answer = await asyncio.wrap_future(self._threads.submit(process.ask, item, seconds))
                except BaseException:
                    process.kill()
                    raise
                if answer is None:
                    continue
                if process.alive and len(self._idle) < self._most_idle:
                    self._idle.append(process)
                else:
                    process.kill()
                if isinstance(answer, Unreadable):
                    raise answer
                return answer
        raise Unreadable(
            "the reading process died twice, perhaps out of memory: split the document, or raise the limit "
            "(ingest.max_read_mb)"
        )

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().kill()
        self._threads.shutdown(wait=False)


class _ReadingProcess(Generic[Item, Read]):
    """A process that reads one document after the other."""

    def __init__(self, job: ReadingJob[Item, Read]) -> None:
        self._job = job
        self._process: Any = None
        self._killed = False

    def ask(self, item: Item, seconds: float) -> Read | Unreadable | None:
        """Return the process's answer; None if the process died. seconds: of processor time."""
        if self._process is None:
            self._start()
        if self._killed:  # during the start
            self._process.kill()
        try:
            self._pipe.send((item, seconds))
            if not self._pipe.poll(seconds * _WAIT_TIMES + _START_S):
                self.kill()
                return self._too_slow(seconds)
            answer: Read | Unreadable = self._pipe.recv()
            return answer
        except (EOFError, OSError):
            return self._too_slow(seconds) if self._exit_code() == -signal.SIGPROF else None

    def _exit_code(self) -> int | None:
        self._process.join()
        for _ in range(_REAPED_TRIES):  # a thread that starts a process also reaps the processes of other threads
            if self._process.exitcode is not None:
                break
            time.sleep(0.01)
        code: int | None = self._process.exitcode
        return code

    @property
    def alive(self) -> bool:
        return not self._killed and bool(self._process.is_alive())

    def kill(self) -> None:
        """Kill the process; a waiting caller gets no answer."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child_pipe = context.Pipe()
        process = context.Process(target=_work, args=(child_pipe, self._job), daemon=True)
        process.start()
        child_pipe.close()
        self._process = process

    def _too_slow(self, seconds: float) -> Unreadable:
        remedy = "raise the limit (ingest.max_read_s)"
        if seconds < self._job.seconds:
            remedy = f"upload it as a file, which may take {self._job.seconds:g} s"
        return Unreadable(f"takes longer than {seconds:g} s to read: split the document, or {remedy}")


def _work(pipe: "Connection[Any, Any]", job: ReadingJob[Any, Any]) -> None:
    """The main function of the process: answer until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    if job.nice:
        in_the_background(job.nice)
    read = job.reader()
    _limit_memory(job.memory_mb)
    while True:
        try:
            item, seconds = pipe.recv()
        except (EOFError, OSError):
            return
        # CPU seconds of all cores. The signal ends the process anywhere, also in native code.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer: Any
        try:
            answer = read(item)
        except Unreadable as error:
            answer = error
        except (MemoryError, RecursionError) as error:
            answer = _too_large(error)
        try:
            pipe.send(answer)
        except MemoryError as error:
            pipe.send(_too_large(error))
        except OSError:
            return
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_large(error: Exception) -> Unreadable:
    return Unreadable(f"needs too much memory or too deep nesting to read ({type(error).__name__})")


def _limit_memory(limit_mb: int) -> None:
    """Limit the memory to `limit_mb` above the present use, if the system supports such a limit."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
        limit_bytes = pages * resource.getpagesize() + limit_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
