"""Syncs of declared sources while the gateway serves: when they are due, and when a watched folder changes."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from cli.assembly.sources import Schedule, schedules
from cli.common import ProgressLines
from cli.syncs.sync import log_line, problems
from config.sections import Settings
from retrieval.errors import Busy, RetrievalError
from retrieval.rpc.client import IndexClient
from runtime import logs

log = logging.getLogger("ragway")
_LOOK_S = 30.0  # at most, between two looks whether a source is due: another gateway may have synced it
_RETRY_S = 5.0  # after a fault, such as an index that starts again
_LINE_S = 60.0  # between lines of progress
_QUIET_MS = 300  # without a change, before a changed folder is synced


class ScheduledSyncs:
    """One task for each source that is due from time to time, and one for each watched folder."""

    def __init__(self, settings: Settings) -> None:
        self._index = IndexClient(Path(settings.data))
        self._data = str(Path(settings.data).absolute())
        self._schedules = schedules(settings)
        self._told: dict[str, list[str]] = {}  # a source's problems as last logged

    async def run(self, index_ready: asyncio.Event) -> None:
        """Sync until cancelled; an interrupted sync keeps what is done."""
        await index_ready.wait()
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in self._schedules:
                    if one.every_s:
                        tasks.create_task(self._repeat(one))
                    if one.watch:
                        tasks.create_task(self._watch(one))
        finally:
            await self._index.close()

    async def _repeat(self, one: Schedule) -> None:
        while True:
            await self._sync(one, due_after_s=one.every_s)
            await asyncio.sleep(min(_LOOK_S, one.every_s))

    async def _watch(self, one: Schedule) -> None:
        """Sync at the start, then after each change; those during a sync lead to another one."""
        async for _ in self._changes(one):
            ended = await self._sync(one)
            while not ended:
                await asyncio.sleep(_RETRY_S)
                ended = await self._sync(one)

    async def _changes(self, one: Schedule) -> AsyncIterator[None]:
        from watchfiles import DefaultFilter, awatch

        within = DefaultFilter(ignore_paths=[self._data])  # the index itself may lie below the folder
        yield
        while True:
            try:
                async for _ in awatch(*one.source.places, watch_filter=within, step=_QUIET_MS):
                    yield
            except OSError as error:  # it does not exist now, or there are too many folders for the system
                self._tell(one, [f"{one.source.name} is not watched: {error.strerror or error}"])
            await asyncio.sleep(_LOOK_S)
            yield

    async def _sync(self, one: Schedule, due_after_s: float | None = None) -> bool:
        """Sync a source; returns whether it ended, with or without failures."""
        lines = ProgressLines(f"sync {one.collection}, {one.source.name}", "documents", _LINE_S, _log)
        try:
            with contextlib.closing(lines):
                report = await self._index.writing.sync(one.collection, one.source, lines, due_after_s=due_after_s)
        except Busy:  # another gateway syncs it: this one looks again
            return False
        except RetrievalError as error:  # the index is starting
            self._tell(one, [str(error)])
            return False
        if line := log_line(one.collection, report):
            _log(line)
        if report.outcome != "not due":
            self._tell(one, problems(report))
        return True

    def _tell(self, one: Schedule, found: list[str]) -> None:
        """Log problems, unless they were the same last time."""
        key = f"{one.collection} {one.source.name}"
        for problem in found if found != self._told.get(key) else ():
            log.warning("sync %s: %s", one.collection, logs.printable(problem))
        self._told[key] = found


def _log(line: str) -> None:
    log.info("%s", logs.printable(line))
