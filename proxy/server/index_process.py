"""The index process: started with a plan, watched, and restarted after a crash or a hang.

A fault that may pass (an unreachable Qdrant server, a full disk, a crash) is retried, even at the first start, while
chats continue without context. A wrong setting or a data folder in use makes that start fail.
"""

import asyncio
import contextlib
import dataclasses
import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from proxy.server.child import MISSED_PINGS, end_of, keep_running, kill
from retrieval.errors import IndexDown, RetrievalError
from retrieval.knowledge import Plan
from retrieval.rpc.client import IndexClient, error_of
from runtime.scheduling import child_command, this_process

log = logging.getLogger("ragway")
_STOP_S = 5.0  # to close its store before we kill it
_PING_INTERVAL_S = 2.0  # between pings of a healthy process
# Put the embedder's weights in 2 MB pages, if the system grants them on request (Linux with glibc): a question reads
# all 42 MB of weights, and with 4 kB pages no TLB entry survives it. 4-5 % off a whole question.
_LARGE_PAGES = "glibc.malloc.hugetlb=1"
_OUT_OF_RESOURCES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class IndexProcess:
    """Owns the index process. `unavailable_reason` says why passages are unavailable now; "": available."""

    def __init__(self, plan: Plan, *, start_s: float, hang_s: float) -> None:
        """start_s, hang_s: the process is killed after this long without a sign of life (while starting) or an answer
        (later).
        """
        self._plan = orjson.dumps(dataclasses.asdict(plan)) + b"\n"
        self._start_s = start_s
        self._hang_s = hang_s
        self._client = IndexClient(Path(plan.data))
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.on_change: Callable[[str], None] = lambda _reason: None  # called with each new `unavailable_reason`
        self.on_problems: Callable[[Sequence[str]], None] = lambda _problems: None  # called with new `problems`
        self.problems: Sequence[str] = ()  # collections that cannot be searched
        self._unavailable_reason = "index is starting"

    @property
    def unavailable_reason(self) -> str:
        """Why passages are unavailable now; "": available."""
        return self._unavailable_reason

    @unavailable_reason.setter
    def unavailable_reason(self, reason: str) -> None:
        if reason != self._unavailable_reason:
            self._unavailable_reason = reason
            self.on_change(reason)

    @property
    def ready(self) -> bool:
        """Whether the index process answers now."""
        return not self.unavailable_reason

    @property
    def pid(self) -> int | None:
        """Its process id; None if it is not running."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the process, wait until it is ready, and watch it from then on.

        A start that fails for a temporary reason is logged and retried. Raises RetrievalError for any other reason.
        """
        try:
            await self._launch()
        except IndexDown as error:
            self._start_failed(error)
            log.warning("chats go on without passages until the index works; ragway starts the index process again")
        else:
            with contextlib.suppress(RetrievalError):  # the watcher asks again
                await self._look_for_problems()
            await self._client.close()  # so that the watcher's first ping shows whether others can connect
        self._watcher = asyncio.create_task(keep_running(self._end, self._start_again))

    async def stop_watching(self) -> None:
        """Stop supervising: from now on, an exit is expected."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait({watcher})

    async def stop(self, patience_s: float = _STOP_S) -> None:
        """Stop the process; kill it after `patience_s`, the time to close its store, or when cancelled."""
        await self.stop_watching()
        await self._client.close()
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()  # it ends with its input
        try:
            await _exit_status(process, patience_s)
        finally:
            if process.returncode is None:
                await kill(process)

    async def _launch(self) -> None:
        """Raises IndexDown for a temporary reason, RetrievalError for any other reason."""
        # Ctrl-C in a terminal is for the gateway, which then stops this process.
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
            line = await self._wait_ready(process)
        except asyncio.CancelledError:
            await kill(process)
            raise
        except TimeoutError as error:
            await kill(process)
            raise IndexDown(
                f"the index process gave no sign of life for {self._start_s:g} s, so ragway killed the process"
            ) from error
        if line == "ready":
            self.unavailable_reason = ""
            return
        code = await (kill(process) if line else _exit_status(process))
        if line.startswith("error "):
            _, kind_name, text = [*line.split(" ", 2), ""][:3]
            raise error_of(kind_name, text)
        # A signal (out of memory, a crash) may strike once; a Python that cannot run the index exits by itself, every
        # time.
        kind = IndexDown if not line and code < 0 else RetrievalError
        raise kind(line or f"the index process ended with status {code}")

    async def _wait_ready(self, process: asyncio.subprocess.Process) -> str:
        """The line that follows the signs of life; "" if the process ends without one. Raises TimeoutError."""
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

    def _start_failed(self, error: RetrievalError) -> None:
        self.unavailable_reason = f"index is down: {error}"
        log.error("the index process cannot start: %s", error)

    async def _start_again(self) -> bool:
        try:
            await self._launch()
        except RetrievalError as error:
            self._start_failed(error)
            return False
        log.warning("the index process answers again")
        return True

    async def _end(self) -> None:
        """Return once the process has ended, by itself or killed for hanging."""
        if self._process is None or self.pid is None:  # the first start failed
            return
        code = await end_of(self._process, "the index process", self._ping, self._hang_s)
        self.unavailable_reason = "index is down"
        log.warning("the index process ended (status %s); starting it again", code)

    async def _ping(self) -> bool:
        """Keep `unavailable_reason` current; return whether the process answers.

        An unreachable or slow Qdrant server makes passages unavailable, but is no reason to kill this process.
        """
        patience_s = self._hang_s / MISSED_PINGS
        await asyncio.sleep(min(_PING_INTERVAL_S, patience_s))
        answers = await self._answers(patience_s)
        self.unavailable_reason = await self._search_problem(patience_s) if answers else "index does not answer"
        return answers

    async def _answers(self, patience_s: float) -> bool:
        """Whether the process answers a ping. False only after `patience_s`, since even a refusal may pass."""
        until_s = asyncio.get_running_loop().time() + patience_s
        try:
            async with asyncio.timeout_at(until_s):
                try:
                    await self._client.ping()
                except RetrievalError:
                    await asyncio.Event().wait()
        except TimeoutError:
            return False
        return True

    async def _search_problem(self, patience_s: float) -> str:
        """Why a search would fail now; "": it would work."""
        try:
            async with asyncio.timeout(patience_s):
                await self._client.search.check()
                await self._look_for_problems()
        except TimeoutError:
            return "index does not answer"
        except RetrievalError as error:
            return f"index cannot be searched: {error}"
        return ""

    async def _look_for_problems(self) -> None:
        """Log new problems with collections. Raises RetrievalError."""
        problems = await self._client.library.problems()
        for problem in problems:
            if problem not in self.problems:
                log.warning("%s", problem)
        if problems != self.problems:
            self.problems = problems
            self.on_problems(problems)


async def _exit_status(process: asyncio.subprocess.Process, patience_s: float = _STOP_S) -> int:
    """The exit status; kills the process after `patience_s`."""
    try:
        async with asyncio.timeout(patience_s):
            return await process.wait()
    except TimeoutError:
        return await kill(process)
