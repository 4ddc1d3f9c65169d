"""The default store: Qdrant Edge, the Qdrant engine inside this process, one shard on disk for all tenants.

What a reader must know of the engine (qdrant-edge-py 0.9):

- One process may have a shard open. It holds the GIL for as long as it works: a query takes about 1 ms and runs on
  the event loop; writes go to one thread of their own, in batches with a pause behind each, so that the loop gets a
  turn between two of them. That thread also puts writes in order, and goes on with a write whose caller was cancelled.
- A write is in the write-ahead log when the engine returns and survives `kill -9`. `flush` puts it into the segments,
  so that the next start has no log to replay; it waits for the disk (10-240 ms), so it is done when nothing is written.
- `optimize()` builds the graphs, makes vectors small and frees the space of deleted points, and no other thread runs
  meanwhile (28 s for 100,000 points). So a process of its own does it to a copy (`retrieval.stores.optimise`), and
  this one switches to that when it has caught up with what was written since. Until then new points are scanned.
- Errors are bare `Exception`s: `shard.engine` gives them our classes, in one place.
"""

import asyncio
import contextlib
import logging
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from retrieval.errors import RetrievalError
from retrieval.lexical.terms import query_vectors
from retrieval.records.documents import Passage
from retrieval.records.points import Point, Sparse, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View
from retrieval.stores import optimise, shard
from retrieval.stores.schema import (
    BM25,
    DENSE,
    MOST_INDEXED,
    PAGE,
    TENANT,
    by_arm,
    checked,
    checked_k,
    checked_points,
    indexed,
    limits,
    longer,
    passage_of,
    payload_of,
    tied,
    vectors_of,
)
from retrieval.stores.shard import engine, only

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, UpdateOperation

log = logging.getLogger("ragway")

_BATCH = 64  # points a write: 2-4 ms in which no other thread runs, and as long a pause behind it
_SETTLED_S = 1.0  # without a write, before it is worthwhile to learn whose statistics the shard's are
_NO_WORD = 0  # id of a term
_SAME_SCORE = 2e-7  # 32-bit scores of one word in equal statistics; a point more among 100,000 changes them by 1e-6
_MOST_COSINE = 1.01  # of unit vectors, with room for rounding; beyond it, or no number: the file was damaged
_LOOK_S = 1.0  # between two looks at whether there is something to tend
_QUIET_S = 5.0  # without a write: time to flush, and to optimise
_MOST_UNFLUSHED = 50_000  # points; more are flushed in the middle of an ingest, since a start would replay them: 5 s
# Optimise from so many points that are only scanned (some .5 ms a question), if they are a tenth of all.
_LEAST_SCANNED = 5_000
_LEAST_SHARE = 0.1
_BUSY_SCANNED = 20_000  # while an ingest goes on, from so many, if they are a quarter
_BUSY_SHARE = 0.25


@dataclass(slots=True)
class _Journal:
    """What was written since the copy was made that is being optimised."""

    points: set[str] = field(default_factory=set)  # ids written or deleted
    dropped: list[str] = field(default_factory=list)  # tenants


class EdgeStore:
    """Points in one Qdrant Edge shard; see `retrieval.stores.base.Store` for the promises."""

    def __init__(self, opened: "EdgeShard", home: Path, used: Path, *, dimension: int) -> None:
        self._shard = opened
        self._home = home
        self._used = used  # the shard's folder: `home` or a generation in it
        self._dimension = dimension
        self._closed = False
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="edge-writer")
        self._scanned = shard.scanned(opened)  # points that no graph holds yet
        self._part = shard.part(opened)  # as of the last start or switch: graphs grow by no more until the next
        self._indexed: set[str] = set()  # fields of numbers and dates, in this shard by this process
        self._unflushed = 0
        self._written_s = time.monotonic()
        self._alone: dict[tuple[str, View], bool] = {}  # whether the shard's statistics are those of what is seen, ...
        self._alone_at = 0.0  # ... as of the write of that time
        self._journal: _Journal | None = None  # there is one while a copy is being optimised
        self._child: subprocess.Popen[bytes] | None = None
        self._tending: asyncio.Task[None] | None = None

    @classmethod
    def open(cls, path: Path, *, dimension: int) -> Self:
        """The store in the folder `path`, made if there is none; blocks 20-430 ms, by size.

        Raises DataInUse if another process has it open, DiskFull, RetrievalError if it cannot be read or was made for
        vectors of another dimension.
        """
        used = shard.current(path)
        return cls(shard.open_shard(used, dimension), path, used, dimension=dimension)

    def tend(self) -> None:
        """From now on flush and optimise when it is worthwhile; to be called where an event loop runs."""
        self._tending = asyncio.create_task(self._tend())

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        await self._write(self._upsert, tenant, points)

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        await self._write(self._delete, tenant, set(ids))

    async def drop(self, tenant: str) -> None:
        await self._write(self._drop, tenant)

    async def search(
        self,
        tenants: Sequence[str],
        vector: Vector | None,
        terms: Sequence[tuple[str, float]],
        *,
        k: int,
        view: View = PUBLIC,
    ) -> Mapping[str, list[ScoredId]]:
        numbers = [] if vector is None else checked(vector, self._dimension)
        sparse = query_vectors(tenants, terms)
        checked_k(k)
        found = self._ask(limits(tenants, k, dense=vector is not None, sparse=sparse), numbers, sparse, view, k)
        if again := longer(found, k):
            found |= self._ask(again, numbers, sparse, view, k)
        return by_arm(found, k)

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        with engine("read"):
            records = self._shard.retrieve(list(ids), True, False)
        return {str(record.id): passage_of(record.payload or {}) for record in records}

    async def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        with engine("read"):
            records = self._shard.retrieve(list(ids), False, [DENSE])
        return vectors_of(records)

    async def count(self, tenant: str) -> int:
        from qdrant_edge import CountRequest

        with engine("count points"):
            return self._shard.count(CountRequest(exact=True, filter=only(tenant)))

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        found: list[tuple[str, Passage]] = []
        offset: Any = None
        while True:  # by the writing thread, page by page: never while it switches to another shard
            records, offset = await self._write(self._page, tenant, view, offset)
            found += [(str(record.id), passage_of(record.payload or {})) for record in records]
            if offset is None:
                return sorted(found, key=lambda pair: pair[0])

    async def close(self) -> None:
        """Finish the writes under way, flush, and let go of the shard; a second call does nothing."""
        if self._closed:
            return
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait({self._tending})
        self._closed = True
        if self._child is not None:
            self._child.kill()
        await asyncio.get_running_loop().run_in_executor(self._writer, self._close)
        self._writer.shutdown()

    def _ask(
        self,
        lists: Mapping[tuple[str, str], int],
        numbers: list[float],
        sparse: Mapping[str, Sparse],
        view: View,
        k: int,
    ) -> dict[tuple[str, str], list[ScoredId]]:
        """(arm, tenant) -> its points, best first, as by `tied`. All lists in one call."""
        from qdrant_edge import Query, QueryBatchRequest, SparseVector

        queries = []
        for (arm, tenant), limit in lists.items():
            if arm == DENSE:
                query = Query.Nearest(numbers, using=DENSE)
                queries.append(shard.vector_query(query, tenant, limit, view, part=self._part))
            else:
                words = SparseVector(list(sparse[tenant].indices), list(sparse[tenant].values))
                alone = self._is_alone(tenant, replace(view, filter=""), sparse[tenant])
                queries.append(shard.words_query(Query.Nearest(words, using=BM25), tenant, limit, view, alone=alone))
        with engine("search"):
            answers = self._shard.query_batch(QueryBatchRequest(queries))
        found = {of: tied(answer, k) for of, answer in zip(lists, answers, strict=True)}
        cosines = [point.score for (arm, _), points in found.items() if arm == DENSE for point in points]
        if not all(-_MOST_COSINE <= cosine <= _MOST_COSINE for cosine in cosines):
            raise RetrievalError("a vector in the index is damaged: run `ragway rebuild` for this collection")
        return found

    def _is_alone(self, tenant: str, view: View, sparse: Sparse) -> bool:
        """Whether the shard's statistics are those of what is seen of the tenant: there is nothing else here.

        That is: no other tenant has points here, none of these is for others alone, and none deleted still counts.

        To count within a tenant takes 1.5 ms of 100,000 points, 15 of a million. So one word is searched both ways once
        after the last write: a point more or less changes the rarity of every word.
        """
        from qdrant_edge import Query, QueryBatchRequest, SparseVector

        if time.monotonic() - self._written_s < _SETTLED_S:
            return False
        if self._alone_at != self._written_s:
            self._alone, self._alone_at = {}, self._written_s
        seen = tenant, view
        if seen not in self._alone:
            word = Query.Nearest(SparseVector([sparse.indices[0]], [1.0]), using=BM25)
            both = [shard.words_query(word, tenant, 1, view, alone=alone) for alone in (False, True)]
            with engine("search"):
                own, shared = self._shard.query_batch(QueryBatchRequest(both))
            if not own or not shared:
                return False  # nobody says the word: the next question may tell
            self._alone[seen] = isclose(own[0].score, shared[0].score, rel_tol=_SAME_SCORE)
        return self._alone[seen]

    async def _write(self, work: Any, *arguments: Any) -> Any:
        if self._closed:
            raise RetrievalError("the store is closed: nothing can be read from it or written to it")
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *arguments)

    def _upsert(self, tenant: str, points: Sequence[Point]) -> None:
        ready = checked_points(points, self._dimension)
        self._index({*indexed(points)})
        for start in range(0, len(ready), _BATCH):
            shard.check_room(self._home)
            part = ready[start : start + _BATCH]
            if self._journal is not None:
                self._journal.points.update(point.id for point, _ in part)
            took_s = self._update(_upserting(tenant, part))
            self._scanned += len(part)
            self._unflushed += len(part)
            time.sleep(took_s)  # a search that waits for the GIL comes first

    def _index(self, fields: set[str]) -> None:
        """Have filters by these fields find points quickly; to ask for an index that is there does nothing."""
        for name in sorted(fields - self._indexed)[: MOST_INDEXED - len(self._indexed)]:
            self._update(shard.index_of(name))
            self._indexed.add(name)

    def _delete(self, tenant: str, ids: set[str]) -> None:
        from qdrant_edge import FieldCondition, Filter, HasIdCondition, MatchValue, UpdateOperation

        if ids:
            if self._journal is not None:
                self._journal.points |= ids
            these = Filter(must=[HasIdCondition({*ids}), FieldCondition(TENANT, match=MatchValue(tenant))])
            self._update(UpdateOperation.delete_points_by_filter(these))
            self._unflushed += 1

    def _drop(self, tenant: str) -> None:
        from qdrant_edge import UpdateOperation

        if self._journal is not None:
            self._journal.dropped.append(tenant)
        self._update(UpdateOperation.delete_points_by_filter(only(tenant)))
        self._unflushed += 1

    def _update(self, operation: "UpdateOperation") -> float:
        """Seconds it took."""
        began = time.monotonic()
        with engine("write"):
            self._shard.update(operation)
        self._written_s = time.monotonic()
        return self._written_s - began

    def _page(self, tenant: str, view: View, offset: Any) -> Any:
        from qdrant_edge import ScrollRequest

        with engine("read"):
            wanted = ScrollRequest(offset=offset, limit=PAGE, filter=only(tenant, view), with_payload=True)
            return self._shard.scroll(wanted)

    def _flush(self) -> None:
        with engine("write"):
            self._shard.flush()
        self._unflushed = 0

    def _close(self) -> None:
        with engine("close"):
            self._shard.close()

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            quiet = time.monotonic() - self._written_s > _QUIET_S
            try:
                if self._unflushed and (quiet or self._unflushed > _MOST_UNFLUSHED):
                    await self._write(self._flush)
                if self._worthwhile(quiet=quiet):
                    await self.optimise()
            except (RetrievalError, OSError) as error:  # a full disk, as a rule: what is there goes on serving
                log.warning("the index stays as it is, searches of new passages take longer: %s", error)
                await asyncio.sleep(60 * _LOOK_S)

    def _worthwhile(self, *, quiet: bool) -> bool:
        least, share = (_LEAST_SCANNED, _LEAST_SHARE) if quiet else (_BUSY_SCANNED, _BUSY_SHARE)
        return self._scanned >= least and self._scanned >= share * shard.size(self._shard)

    async def optimise(self) -> None:
        """Have a copy of the shard optimised by a process of its own and switch to it. Raises RetrievalError.

        Searches go on all the time, writes wait while the copy is made and while the switch takes place.
        """
        target = await self._write(self._begin)
        assert self._child is not None  # just started
        try:
            fault = await asyncio.to_thread(optimise.outcome, self._child)
            if fault:
                raise RetrievalError(f"optimising the index failed: {fault}")
            await self._write(self._switch, target, asyncio.get_running_loop())
        finally:
            self._child.kill()
            with contextlib.suppress(RuntimeError):  # the store was closed: the next start tidies up
                self._writer.submit(self._tidy, target)  # behind a switch that may be under way

    def _begin(self) -> Path:
        """Start the process, and return when it has made its copy: the folder."""
        shard.check_room(self._home, 2 * shard.size_mb(self._used))
        self._flush()
        target = shard.following(self._home, self._used)
        self._child = optimise.start(self._used, target, self._dimension, points=shard.size(self._shard))
        self._journal = _Journal()
        return target

    def _switch(self, target: Path, loop: asyncio.AbstractEventLoop) -> None:
        """Open what was optimised, catch up, and let the event loop take it in a moment when it does not search."""
        journal, self._journal = self._journal, None
        if journal is None or self._closed:
            return
        with engine("switch to the optimised index"):
            better = shard.open_shard(target, self._dimension)
            _catch_up(self._shard, better, journal)
            for name in sorted(self._indexed):
                better.update(shard.index_of(name))
            better.flush()
        shard.complete(target)
        taken: Future[EdgeShard] = Future()
        loop.call_soon_threadsafe(self._take, better, taken)
        old, used = taken.result(), self._used
        self._written_s = time.monotonic()
        self._used, self._scanned, self._unflushed = target, len(journal.points), 0
        with contextlib.suppress(RetrievalError), engine("close"):
            old.close()
        shard.remove(self._home, used)

    def _tidy(self, target: Path) -> None:
        self._journal = None
        if self._used != target:
            shutil.rmtree(target, ignore_errors=True)

    def _take(self, better: "EdgeShard", taken: "Future[EdgeShard]") -> None:
        old, self._shard, self._part = self._shard, better, shard.part(better)
        taken.set_result(old)


def _upserting(tenant: str, points: Sequence[tuple[Point, list[float]]]) -> "UpdateOperation":
    from qdrant_edge import Point as EdgePoint
    from qdrant_edge import SparseVector, UpdateOperation

    made = []
    for point, numbers in points:
        # A point without words has one that nobody asks for: else the engine counts it in one way and not in the other.
        words = SparseVector(list(point.sparse.indices) or [_NO_WORD], list(point.sparse.values) or [1.0])
        made.append(EdgePoint(point.id, {DENSE: numbers, BM25: words}, payload_of(tenant, point)))
    return UpdateOperation.upsert_points(made)


def _catch_up(old: "EdgeShard", new: "EdgeShard", journal: _Journal) -> None:
    """Bring `new` to the state of `old`, from which it differs in the journal's points alone."""
    from qdrant_edge import UpdateOperation

    for tenant in journal.dropped:
        new.update(UpdateOperation.delete_points_by_filter(only(tenant)))
    ids: list[int | UUID | str] = sorted(journal.points)
    for start in range(0, len(ids), _BATCH):
        began, part = time.monotonic(), ids[start : start + _BATCH]
        records = old.retrieve(part, True, True)
        new.update(UpdateOperation.delete_points(part))
        shard.put(new, records)
        time.sleep(time.monotonic() - began)
