"""The index process, kept alive: started with a plan, waited for, started again when it dies."""

import asyncio
import contextlib
import dataclasses
import logging
import sys

import orjson

from retrieval.errors import RetrievalError
from retrieval.knowledge import Plan

log = logging.getLogger("ragway")
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_STOP_S = 5.0  # to close the store before it is killed


class IndexProcess:
    """Owns the child that owns the index. `ready` says whether it answers now."""

    def __init__(self, plan: Plan) -> None:
        self._plan = orjson.dumps(dataclasses.asdict(plan)) + b"\n"
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.ready = False

    @property
    def pid(self) -> int | None:
        """Of the process now running."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start it, wait until it answers, and watch it from then on. Raises RetrievalError with its reason."""
        await self._launch()
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """End it: it closes its store first."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()  # the end of its input ends it
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            await _killed(process)

    async def _launch(self) -> None:
        # A session of its own: Ctrl-C in the terminal is for the gateway, which then ends the index.
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "retrieval.service",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:  # too many processes or open files: another try may succeed
            raise RetrievalError(f"the index process cannot be started: {error.strerror or error}") from error
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._plan)
            await process.stdin.drain()
            line = (await process.stdout.readline()).decode("utf-8", "replace").strip()
        except OSError:
            line = ""
        except asyncio.CancelledError:
            await _killed(process)
            raise
        if line != "ready":
            code = await _killed(process) if line else await process.wait()
            raise RetrievalError(line.removeprefix("error ") or f"the index process ended with status {code}")
        self.ready = True

    async def _watch(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            assert self._process is not None
            started = asyncio.get_running_loop().time()
            code = await self._process.wait()
            self.ready = False
            if asyncio.get_running_loop().time() - started > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            log.warning("the index process ended (status %s); starting it again", code)
            while not self.ready:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                try:
                    await self._launch()
                except RetrievalError as error:
                    log.error("the index process does not start: %s", error)
            log.warning("the index process answers again")


async def _killed(process: asyncio.subprocess.Process) -> int:
    """End it at once; returns its status."""
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        process.kill()
    return await process.wait()
