"""The index process, kept alive: started with a plan, waited for, watched, started again when it dies or hangs.

What may pass by itself (a Qdrant server that is away, a disk that is full, a crash) is tried again, from the first
start on, while chats go on without context. A wrong setting or a data folder in use ends the first start.
"""

import asyncio
import contextlib
import dataclasses
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import orjson

from retrieval.errors import IndexDown, RetrievalError
from retrieval.knowledge import Plan
from retrieval.rpc.client import IndexClient, error_of
from runtime.scheduling import child_command, this_process

log = logging.getLogger("ragway")
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_STOP_S = 5.0  # to close the store before it is killed
_PULSE_S = 2.0  # between two looks at a healthy index
_TRIES = 5  # pings in a row without an answer: one alone may have been held up by this process
# The embedder's weights in pages of 2 MB, where the system gives them on request (Linux with glibc): a question reads
# all 42 MB of them, and with pages of 4 kB no entry of the TLB outlives that. 4-5 % off a whole question.
_LARGE_PAGES = "glibc.malloc.hugetlb=1"
_OUT_OF_RESOURCES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class IndexProcess:
    """Owns the child that owns the index. `trouble` says why no passages can be had now; "" when they can."""

    def __init__(self, plan: Plan, *, start_s: float, hang_s: float) -> None:
        """start_s: without a sign of life while it starts, hang_s: without an answer later, before it is killed."""
        self._plan = orjson.dumps(dataclasses.asdict(plan)) + b"\n"
        self._start_s = start_s
        self._hang_s = hang_s
        self._client = IndexClient(Path(plan.data))
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._tell: Callable[[str], None] = lambda _trouble: None
        self._trouble = "index is starting"

    def on_trouble(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called whenever `trouble` changes."""
        self._tell = tell

    @property
    def trouble(self) -> str:
        """Why no passages can be had now; "" when they can."""
        return self._trouble

    @trouble.setter
    def trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._tell(trouble)

    @property
    def ready(self) -> bool:
        """Whether it answers now."""
        return not self.trouble

    @property
    def pid(self) -> int | None:
        """Of the process now running."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start it, wait until it answers, and watch it from then on.

        Where it does not start for a reason that may pass, that is logged and tried again. Raises RetrievalError for
        any other.
        """
        try:
            await self._launch()
        except IndexDown as error:
            self._not_started(error)
            log.warning("chats go on without passages until the index works; ragway starts the index process again")
        self._watcher = asyncio.create_task(self._watch())

    async def leave(self) -> None:
        """Watch it no more: from now on its end is no news."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait({watcher})

    async def stop(self, patience_s: float = _STOP_S) -> None:
        """End it: it closes its store first, if it can within `patience_s`; when cancelled it is killed."""
        await self.leave()
        await self._client.close()
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()  # the end of its input ends it
        try:
            await _ended(process, patience_s)
        finally:
            if process.returncode is None:
                await _killed(process)

    async def _launch(self) -> None:
        """Raises IndexDown where the reason may pass, RetrievalError for any other."""
        # Ctrl-C in the terminal is for the gateway, which then ends the index.
        try:
            process = await asyncio.create_subprocess_exec(
                *child_command("retrieval.rpc.server", this_process()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={"GLIBC_TUNABLES": _LARGE_PAGES, **os.environ},
            )
        except OSError as error:
            kind = IndexDown if error.errno in _OUT_OF_RESOURCES else RetrievalError
            raise kind(f"the index process cannot be started: {error.strerror or error}") from error
        self._process = process
        try:
            line = await self._first_word(process)
        except asyncio.CancelledError:
            await _killed(process)
            raise
        except TimeoutError as error:
            await _killed(process)
            raise IndexDown(f"nothing was heard of it for {self._start_s:g} s, so it was killed") from error
        if line == "ready":
            self.trouble = ""
            return
        code = await (_killed(process) if line else _ended(process))
        if line.startswith("error "):
            _, kind_name, text = [*line.split(" ", 2), ""][:3]
            raise error_of(kind_name, text)
        # A signal (out of memory, a crash) may strike once; a Python that cannot run it ends by itself, every time.
        kind = IndexDown if not line and code < 0 else RetrievalError
        raise kind(line or f"the index process ended with status {code}")

    async def _first_word(self, process: asyncio.subprocess.Process) -> str:
        """What it says after its signs of life; "" when it ends without a word. Raises TimeoutError."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._plan)
            await process.stdin.drain()
            line = b"step\n"
            while line == b"step\n":
                async with asyncio.timeout(self._start_s):
                    line = await process.stdout.readline()
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            return ""
        return line.decode("utf-8", "replace").strip()

    async def _watch(self) -> None:
        pause_s, clock = _FIRST_PAUSE_S, asyncio.get_running_loop().time
        while True:
            if self.pid is not None:
                started = clock()
                await self._outlive()
                if clock() - started > _LONGEST_PAUSE_S:
                    pause_s = _FIRST_PAUSE_S
            while self.pid is None:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                try:
                    await self._launch()
                except RetrievalError as error:
                    self._not_started(error)
            log.warning("the index process answers again")

    def _not_started(self, error: RetrievalError) -> None:
        self.trouble = f"index is down: {error}"
        log.error("the index process cannot start: %s", error)

    async def _outlive(self) -> None:
        """Return when the process has ended, by itself or because it hung."""
        assert self._process is not None
        ended = asyncio.create_task(self._process.wait())
        pulse = asyncio.create_task(self._until_silent())
        try:
            await asyncio.wait({ended, pulse}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                log.error("the index process did not answer for %g s: ragway kills the process", self._hang_s)
                await _killed(self._process)
            code = await ended
        finally:
            for task in (ended, pulse):
                task.cancel()
            await asyncio.wait({ended, pulse})
        self.trouble = "index is down"
        log.warning("the index process ended (status %s); starting it again", code)

    async def _until_silent(self) -> None:
        """Keep `trouble` true; return when the process has not answered for `hang_s`.

        A Qdrant server that is away or slow is trouble, and no reason to kill the index process.
        """
        patience_s, unanswered = self._hang_s / _TRIES, 0
        while unanswered < _TRIES:
            await asyncio.sleep(min(_PULSE_S, patience_s))
            if await self._answers(patience_s):
                unanswered = 0
                self.trouble = await self._told(patience_s)
            else:
                unanswered += 1
                self.trouble = "index does not answer"

    async def _answers(self, patience_s: float) -> bool:
        """Whether the process answers a ping. False after `patience_s`, never sooner: a refusal may pass as well."""
        until = asyncio.get_running_loop().time() + patience_s
        try:
            async with asyncio.timeout_at(until):
                try:
                    await self._client.ping()
                except RetrievalError:
                    await asyncio.Event().wait()
        except TimeoutError:
            return False
        return True

    async def _told(self, patience_s: float) -> str:
        """What the process says of itself: "" when a search would work."""
        try:
            async with asyncio.timeout(patience_s):
                await self._client.search.check()
        except TimeoutError:
            return "index does not answer"
        except RetrievalError as error:
            return f"index cannot be searched: {error}"
        return ""


async def _ended(process: asyncio.subprocess.Process, patience_s: float = _STOP_S) -> int:
    """Its status once it ends; killed where it takes too long."""
    try:
        async with asyncio.timeout(patience_s):
            return await process.wait()
    except TimeoutError:
        return await _killed(process)


async def _killed(process: asyncio.subprocess.Process) -> int:
    """End it at once; returns its status."""
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        process.kill()
    return await process.wait()
