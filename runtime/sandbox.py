"""Heavy work in child processes: reading documents within limits, and embedding.

Documents come from anywhere, and native code and regular expressions read them: one may take hours, use all memory,
crash the process, or take it over. Here it can only crash a process that serves no other purpose, and that can open no
file but code, make no connection and start no process (`confinement`). Several work at the same time, so that a slow
document delays no other collection.
"""

import asyncio
import contextlib
import io
import logging
import math
import multiprocessing
import pickle
import resource
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from runtime.confinement import confine, lacking
from runtime.fair_slots import FairSlots
from runtime.scheduling import in_the_background

# How processes start; tests set forkserver, because they start hundreds of processes.
CONTEXT: SpawnContext | ForkServerContext = multiprocessing.get_context("spawn")
_WAIT_TIMES = 4  # times the time limit: for an item that uses no CPU, or a process that gets none
_START_S = 60.0
_REAPED_TRIES = 100

log = logging.getLogger("ragway")

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class SandboxJob(Generic[Item, Answer]):
    """The processes' work. Everything here crosses to the process by pickle."""

    worker: Callable[[], Callable[[Item], Answer]]  # makes the function that answers an item, within the process
    refusal: type[Exception]  # raised by this function for an item that it refuses, and by the sandbox at a limit
    too_slow: str  # what a person can do about the time limit
    died: str  # message if the process dies at every attempt
    attempts: int = 2  # a process that dies within its limits may have been killed because of others' memory
    seconds: float = math.inf  # of processor time for one item
    waits: bool = False  # time in which it waits counts, too: `seconds` are those of a clock
    memory_mb: int | None = None  # above what a process that has just started uses
    nice: int = 0  # as in `in_the_background`; 0 if no questions are answered on the same machine
    confined: bool = False  # once the worker is made: no files but code, no network, no other processes
    answer_mb: int = 512  # of a confined process; a document of 50,000 chunks takes some 100 MB


class Sandbox(Generic[Item, Answer]):
    """A pool of processes, which start on first use and end with this one.

    processes: at the same time. idle: how many are kept for the next item.
    """

    def __init__(self, job: SandboxJob[Item, Answer], *, processes: int = 8, idle: int = 2) -> None:
        self._job = job
        self._slots = FairSlots(processes)
        self._threads = ThreadPoolExecutor(processes, "sandbox")
        self._most_idle = idle
        if job.confined:
            _tell_lacking()
        self._idle: list[_Child[Item, Answer]] = []
        self._busy: set[_Child[Item, Answer]] = set()

    async def run(self, item: Item, *, owner: str = "", most_s: float = math.inf, too_slow: str = "") -> Answer:
        """Return the answer. Raises the job's `refusal` if there is none within the limits.

        A caller that is cancelled gives its process up at once.

        owner: whoever shares the processes with others, such as a key.
        most_s: of processor time, if less than the job's limit: for a caller that cannot wait that long.
        too_slow: as in the job, for this limit.
        """
        seconds = min(most_s, self._job.seconds)
        async with self._slots.slot(owner):
            for _ in range(self._job.attempts):
                child = self._idle.pop() if self._idle else _Child(self._job)
                self._busy.add(child)
                try:
                    answer = await asyncio.wrap_future(self._threads.submit(child.ask, item, seconds))
                except _TooSlow:
                    remedy = too_slow if seconds < self._job.seconds else self._job.too_slow
                    raise self._job.refusal(f"takes longer than {seconds:g} s to read: {remedy}") from None
                except BaseException:
                    child.kill()
                    raise
                finally:
                    self._busy.discard(child)
                if answer is None:
                    continue
                if child.alive and len(self._idle) < self._most_idle:
                    self._idle.append(child)
                else:
                    child.kill()
                if isinstance(answer, self._job.refusal):
                    raise answer
                return cast("Answer", answer)
        raise self._job.refusal(self._job.died)

    async def close(self) -> None:
        for child in (*self._idle, *self._busy):
            child.kill()
        self._idle.clear()
        self._threads.shutdown(wait=False)


class _TooSlow(Exception):
    """A process used up its time, and is dead."""


class _Child(Generic[Item, Answer]):
    """A process that answers one item after another."""

    def __init__(self, job: SandboxJob[Item, Answer]) -> None:
        self._job = job
        self._process: Any = None
        self._killed = False

    def ask(self, item: Item, seconds: float) -> Answer | Exception | None:
        """Return its answer or refusal; None if it died. seconds: of processor time.

        Raises _TooSlow.
        """
        if self._process is None:
            self._start()
        if self._killed:  # during the start
            self._process.kill()
        try:
            self._pipe.send((item, seconds))
            if math.isfinite(seconds) and not self._pipe.poll(seconds * _WAIT_TIMES + _START_S):
                self.kill()
                raise _TooSlow
            if not self._job.confined:
                return cast("Answer | Exception", self._pipe.recv())
            return cast("Answer | Exception", Answers(self._pipe.recv_bytes(self._job.answer_mb * 2**20)).load())
        except pickle.UnpicklingError as error:
            log.error("ended a process that reads documents: %s", error)
            self.kill()
            return None
        except (EOFError, OSError):
            if self._exit_code() in {-signal.SIGPROF, -signal.SIGALRM}:
                raise _TooSlow from None
            return None

    def _exit_code(self) -> int | None:
        self._process.join()
        for _ in range(_REAPED_TRIES):  # a thread that starts a process also reaps other threads' processes
            if self._process.exitcode is not None:
                break
            time.sleep(0.01)
        code: int | None = self._process.exitcode
        return code

    @property
    def alive(self) -> bool:
        return not self._killed and bool(self._process.is_alive())

    def kill(self) -> None:
        """Kill it; a waiting caller gets no answer."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        self._pipe, child_pipe = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_work, args=(child_pipe, self._job), daemon=True)
        process.start()
        child_pipe.close()
        self._process = process


class Answers(pickle.Unpickler):
    """Makes values only: a process that foreign bytes have taken over must not have this process call anything."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))

    def find_class(self, module: str, name: str) -> Any:
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, type) and (is_dataclass(found) or issubclass(found, tuple | Exception | Struct)):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no value")


def _work(pipe: "Connection[Any, Any]", job: SandboxJob[Any, Any]) -> None:
    """The process's main function: answer until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    clock = signal.ITIMER_REAL if job.waits else signal.ITIMER_PROF
    if job.nice:
        in_the_background(job.nice)
    work = job.worker()
    if job.memory_mb is not None:
        _limit_memory(job.memory_mb)
    if job.confined:
        confine()
    while True:
        try:
            item, seconds = pipe.recv()
        except (EOFError, OSError):
            return
        # CPU seconds on all cores. The signal ends the process anywhere, even in native code.
        signal.setitimer(clock, seconds if math.isfinite(seconds) else 0)
        answer: Any
        try:
            answer = work(item)
        except job.refusal as error:
            answer = error
        except (MemoryError, RecursionError) as error:
            answer = _too_large(job, error)
        try:
            pipe.send_bytes(_answer_bytes(job, answer))
        except OSError:
            return
        signal.setitimer(clock, 0)


def _answer_bytes(job: SandboxJob[Any, Any], answer: object) -> bytes:
    try:
        data = pickle.dumps(answer)
    except MemoryError as error:
        return pickle.dumps(_too_large(job, error))
    if job.confined and len(data) > job.answer_mb * 2**20:
        return pickle.dumps(job.refusal(f"its text takes more than {job.answer_mb} MB in memory: split the document"))
    return data


def _too_large(job: SandboxJob[Any, Any], error: Exception) -> Exception:
    return job.refusal(f"needs too much memory or too deep nesting to read ({type(error).__name__})")


@cache
def _tell_lacking() -> None:
    """Say it once in the log."""
    if lacking():
        log.warning("documents are read without a full sandbox: this system cannot keep a process from %s", lacking())


def _limit_memory(limit_mb: int) -> None:
    """Limit memory to `limit_mb` above present use, if the system can."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
        limit_bytes = pages * resource.getpagesize() + limit_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
