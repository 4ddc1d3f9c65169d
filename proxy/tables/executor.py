"""The third wall: queries in processes of their own, with limits of time, memory, rows and bytes.

A process opens one database and gives up all else (`runtime.sandbox`), stays for the next query, and is killed when its
caller leaves or a limit is passed. A server that watches its connections then ends the query, too.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from proxy.tables.engines import Ask, NoResult, Warnings, answerer
from proxy.tables.guard import readable
from proxy.tables.queries import FailureKind, QueryFailed, QueryLimits, QueryResult
from proxy.tables.schema import DatabaseSource, Grant
from runtime.sandbox import Sandbox, SandboxJob

__all__ = ["Executor", "FailureKind", "QueryFailed", "QueryLimits", "QueryResult"]

_AFTER_S = 1.0  # in which a database ends a query that is too slow by itself, before its process is killed
_SLOW = "the query was too slow"
_DIED = "the query used too much memory, or broke the database's library: ask for less"

_Answer = QueryResult | NoResult | Warnings


class _Refused(Exception):
    """Raised by the sandbox at a limit."""


class _Key(NamedTuple):
    source: DatabaseSource
    memory_mb: int
    answer_mb: int
    files: tuple[object, ...]  # as they are now: other files are another database


@dataclass(slots=True)
class _Pool:
    """The processes of one database."""

    processes: Sandbox[Ask, _Answer]
    running: int = 0  # queries, also those that wait


class Executor:
    """Runs queries on any source. processes: of one database at a time. kept: databases that stay open."""

    def __init__(self, *, processes: int = 4, kept: int = 8) -> None:
        self._processes = processes
        self._kept = kept
        self._pools: dict[_Key, _Pool] = {}  # the last used one last

    async def query(
        self,
        source: DatabaseSource,
        sql: str,
        limits: QueryLimits,
        *,
        grants: Mapping[str, Grant] | None = None,
        owner: str = "",
    ) -> QueryResult:
        """The rows of a query that `guarded` has written. Raises QueryFailed.

        grants: let SQLite itself refuse everything else; None: what the source hides. owner: whoever shares the
        processes with others, such as a key.
        """
        allowed = None
        if grants is not None and source.kind == "sqlite":
            allowed = readable("sqlite", grants)
        found = await self._ask(source, Ask(sql, limits, allowed), owner)
        assert isinstance(found, QueryResult)
        return found

    async def warnings(self, source: DatabaseSource, limits: QueryLimits) -> tuple[str, ...]:
        """What the database's owner should know, such as that the role may write. Raises QueryFailed."""
        found = await self._ask(source, Ask("", limits))
        assert isinstance(found, Warnings)
        return found.texts

    async def close(self) -> None:
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.processes.close()

    async def _ask(self, source: DatabaseSource, ask: Ask, owner: str = "") -> QueryResult | Warnings:
        key = _Key(
            source, ask.limits.memory_mb, ask.limits.result_bytes // 2**19 + 8, await asyncio.to_thread(_stamps, source)
        )
        pool = self._pools.pop(key, None) or _Pool(Sandbox(_job(key), processes=self._processes, idle=2))
        self._pools[key] = pool
        pool.running += 1
        try:
            most_s = ask.limits.max_seconds + _AFTER_S
            found = await pool.processes.run(ask, owner=owner, most_s=most_s, too_slow=_SLOW)
            if isinstance(found, NoResult) and found.broken and self._pools.get(key) is pool:
                del self._pools[key]  # the next query opens the database again
        except _Refused as refused:
            if _SLOW in str(refused):
                raise QueryFailed(
                    f"the query takes longer than {ask.limits.max_seconds:g} s: ask for less", "timeout"
                ) from None
            raise QueryFailed(_DIED, "memory") from None
        finally:
            pool.running -= 1
            if not pool.running and self._pools.get(key) is not pool:
                await pool.processes.close()
        if isinstance(found, NoResult):
            raise QueryFailed(found.text, found.kind)
        await self._close_old()
        return found

    async def _close_old(self) -> None:
        unused = [key for key, pool in self._pools.items() if not pool.running]
        for key in unused[: max(len(self._pools) - self._kept, 0)]:
            await self._pools.pop(key).processes.close()


def _job(key: _Key) -> SandboxJob[Ask, _Answer]:
    return SandboxJob(
        partial(answerer, key.source, key.memory_mb),
        _Refused,
        too_slow=_SLOW,
        died=_DIED,
        memory_mb=key.memory_mb,
        confined=True,
        answer_mb=key.answer_mb,
        waits=True,
    )


def _stamps(source: DatabaseSource) -> tuple[object, ...]:
    """What changes if a file is replaced, or a file that was read is written; SQLite itself sees what is written."""
    url = source.url.partition(":///")
    places = source.files or ((url[2],) if url[0].partition("+")[0] in {"sqlite", "duckdb"} else ())
    found: list[object] = []
    for place in places or ((source.url,) if source.kind == "sqlite" else ()):
        try:
            state = Path(place).stat()
        except OSError:
            found.append(None)
            continue
        changes = (state.st_mtime_ns, state.st_size) if source.kind != "sqlite" else ()
        found.append((state.st_dev, state.st_ino, *changes))
    return tuple(found)
