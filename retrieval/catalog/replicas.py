"""Several index processes over one PostgreSQL catalog and one Qdrant server: each process soon sees all writes.

Searches read catalog data from memory. So each process reads other processes' changes once a second, in a thread apart
from searches (`changes`). A search that finds a point newer than memory reads them at once. Only one process uses an
SQLite catalog, so there this is off.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from retrieval.catalog import changes
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.changes import Change
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_LOOK_S = 1.0
_FORGET_EVERY_S = 60.0
_KEPT_S = 600.0  # a change is kept; a process that has not looked for longer takes all collections for changed


class Replicas:
    """Changes that other processes make."""

    def __init__(self, catalog: Catalog) -> None:
        """To be made before catalog data is read into memory. Raises RetrievalError."""
        self._catalog = catalog
        self._on_changes: Callable[[Sequence[Change]], None] = lambda _: None
        self._thread = ThreadPoolExecutor(1, "changes")  # a thread apart: the shared threads may all be busy
        self._looking = asyncio.Lock()
        self._seen = 0
        self._forgot_s = time.monotonic()
        self._watching: asyncio.Task[None] | None = None
        if catalog.shared:
            with catalog.engine.connect() as sql:
                self._seen = changes.last(sql)

    def watch(self, on_changes: Callable[[Sequence[Change]], None]) -> None:
        """Start reading changes. on_changes: called after the catalog has taken them over."""
        self._on_changes = on_changes
        if self._catalog.shared:
            self._watching = asyncio.create_task(self._watch())

    async def look(self) -> None:
        """Take over all changes that other processes have made by now. Raises RetrievalError."""
        if not self._catalog.shared:
            return
        async with self._looking:
            self._seen, changed = await asyncio.get_running_loop().run_in_executor(self._thread, self._read)
            if changed:
                self._catalog.apply_changes(changed)
                self._on_changes(changed)

    async def close(self) -> None:
        """Stop reading changes."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        self._thread.shutdown(wait=False)

    async def _watch(self) -> None:
        trouble = ""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.look()
                trouble = ""
            except RetrievalError as error:
                if str(error) != trouble:
                    log.error("cannot read what other gateways change: %s", error)
                trouble = str(error)

    def _read(self) -> tuple[int, list[Change]]:
        if time.monotonic() - self._forgot_s > _FORGET_EVERY_S:
            self._forgot_s = time.monotonic()
            with self._catalog.writing() as sql:
                changes.prune(sql, time.time() - _KEPT_S)
        with self._catalog.engine.connect() as sql:
            return changes.since(sql, self._seen, self._catalog.process)
