"""A child process of the gateway: its end awaited or forced, and its replacement after an unexpected end."""

import asyncio
import contextlib
import logging
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from typing import Any

log = logging.getLogger("ragway")
MISSED_PINGS = 5  # before a kill: this process may have delayed a single ping
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0


async def ends_first(work: Awaitable[Any], other: Awaitable[Any]) -> bool:
    """Whether `work` ends no later than `other`; cancels what still runs. Raises what `work` raised."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(other)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if tasks[0] in done:
        tasks[0].result()
    return tasks[0] in done


async def kill(process: Process) -> int:
    """Kill the process and return its exit status."""
    with contextlib.suppress(ProcessLookupError):  # it had already ended
        process.kill()
    return await process.wait()


async def end_of(process: Process, name: str, ping: Callable[[], Awaitable[bool]], hang_s: float) -> int:
    """The exit status of a process, which is killed if it misses several pings. name: for the log.

    ping: waits about `hang_s / MISSED_PINGS` for an answer, and returns whether there was one.
    """

    async def silent() -> None:
        unanswered = 0
        while unanswered < MISSED_PINGS:
            unanswered = 0 if await ping() else unanswered + 1

    if not await ends_first(process.wait(), silent()):
        log.error("%s did not answer for %g s: ragway kills the process", name, hang_s)
    return await kill(process)


async def keep_running(end: Callable[[], Awaitable[None]], start: Callable[[], Awaitable[bool]]) -> None:
    """Start a process again after each end, with growing pauses. start: returns whether it started."""
    clock, pause_s = asyncio.get_running_loop().time, _FIRST_PAUSE_S
    while True:
        started_s = clock()
        await end()
        if clock() - started_s > _LONGEST_PAUSE_S:
            pause_s = _FIRST_PAUSE_S
        started = False
        while not started:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            started = await start()
