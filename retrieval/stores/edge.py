"""The default store: Qdrant Edge, Qdrant's engine inside this process, one shard on disk for all tenants.

What shapes this module about the engine (qdrant-edge-py 0.9):

- Only one process may open a shard. The engine holds the GIL while it works. A query takes about 1 ms and runs on the
  event loop. One thread does all writes, in batches with a pause after each, so that the event loop runs in between.
  It keeps writes in order, and finishes a write even if its caller was cancelled.
- When the engine returns from a write, it is in the write-ahead log and survives `kill -9`. `flush` moves writes into
  segments, so that the next start has no log to replay. It waits for the disk (10-240 ms), so the store flushes only
  when no writes arrive.
- `optimize()` builds graphs, quantises vectors and frees the space of deleted points, and blocks all other threads
  (28 s for 100,000 points). So another process optimises a copy (`retrieval.stores.edge_optimise`). This store applies
  the writes made since, then switches to it. Until then searches scan new points.
- Errors are bare `Exception`s; only `edge_shard.engine` turns them into our classes.
"""

import asyncio
import contextlib
import logging
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from retrieval.errors import RetrievalError
from retrieval.records.points import Point, Sparse
from retrieval.records.search import ALL, View
from retrieval.stores import edge_optimise, edge_shard
from retrieval.stores.edge_shard import engine, tenant_filter
from retrieval.stores.schema import (
    BM25,
    SENTINEL_TERM,
    TENANT,
    EngineSearch,
    EngineStore,
    Vectors,
    checked_points,
    payload_of,
)

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, UpdateOperation

log = logging.getLogger("ragway")

_BATCH_POINTS = 64  # points per write: 2-4 ms in which no other thread runs, then an equal pause
# seconds without a write before the store checks whether a shard's statistics are exact for a tenant
_SETTLED_S = 1.0
# 32-bit scores of one word in equal statistics; one more point among 100,000 changes them by 1e-6
_SAME_SCORE = 2e-7
_MAX_COSINE = 1.01  # of unit vectors, with room for rounding; a larger value or NaN means a damaged file
_CHECK_S = 1.0  # between two checks for maintenance work
_QUIET_S = 5.0  # without a write: time to flush and to optimise
# points; more are flushed during an ingest, because a start would replay 50,000 points: 5 s
_MAX_UNFLUSHED = 50_000
# Optimise once this many points have no graph (some .5 ms per question), if they are a tenth of all points.
_MIN_WITHOUT_GRAPH = 5_000
_MIN_SHARE = 0.1
_BUSY_WITHOUT_GRAPH = 20_000  # during an ingest: from this many points, if they are a quarter of all points
_BUSY_SHARE = 0.25


@dataclass(slots=True)
class _Journal:
    """Writes made since the copy that is being optimised."""

    points: set[str] = field(default_factory=set)  # ids written or deleted
    dropped: list[str] = field(default_factory=list)  # deleted tenants


class EdgeStore(EngineStore):
    """Points in one Qdrant Edge shard; see `retrieval.stores.base.Store` for the promises."""

    def __init__(self, opened: "EdgeShard", home: Path, folder: Path, *, vectors: Vectors) -> None:
        self.verified: set[str] = set()
        self._shard = opened
        self._home = home
        self._folder = folder  # the shard's folder: `home` or a generation in it
        self._vectors = vectors
        self._closed = False
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="edge-writer")
        self._without_graph = edge_shard.without_graph(opened)  # points without a graph
        self._segment_points = edge_shard.segment_points(opened)  # graphs grow only at a start or a switch
        self._indexed_fields = set()
        self._unflushed = 0
        self._written_s = time.monotonic()
        # whether the shard's word statistics are exact for (tenant, view) …
        self._exact_idf: dict[tuple[str, View], bool] = {}
        self._exact_idf_at_s = 0.0  # … as of the write at this time
        self._journal: _Journal | None = None  # present while a copy is being optimised
        self._optimiser: subprocess.Popen[bytes] | None = None
        self._maintenance: asyncio.Task[None] | None = None

    @classmethod
    def open(cls, path: Path, *, vectors: Vectors) -> Self:
        """Open or create a store in the folder `path`; blocks for 20-430 ms, depending on its size.

        Raises DataInUse if another process uses it, DiskFull, and RetrievalError if it cannot be read or holds vectors
        of another dimension.
        """
        folder = edge_shard.current_generation(path)
        return cls(edge_shard.open_shard(folder, vectors), path, folder, vectors=vectors)

    def start_maintenance(self) -> None:
        """Start flushing and optimising in the background. Needs a running event loop."""
        self._maintenance = asyncio.create_task(self._maintain())

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        await self._write(self._upsert, tenant, points)

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        await self._write(self._delete, tenant, set(ids))

    async def drop(self, tenant: str) -> None:
        await self._write(self._drop, tenant)

    async def _records(self, ids: Sequence[str], *, vectors: Sequence[str] = ()) -> list[Any]:
        with engine("read"):
            return list(self._shard.retrieve(list(ids), not vectors, list(vectors) or False))

    async def count(self, tenant: str) -> int:
        from qdrant_edge import CountRequest

        with engine("count points"):
            return self._shard.count(CountRequest(exact=True, filter=tenant_filter(tenant)))

    async def close(self) -> None:
        """Finish running writes, flush, and close the shard; a second call does nothing."""
        if self._closed:
            return
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.wait({self._maintenance})
        self._closed = True
        if self._optimiser is not None:
            self._optimiser.kill()
        await asyncio.get_running_loop().run_in_executor(self._writer, self._close)
        self._writer.shutdown()

    async def _query_lists(self, question: EngineSearch) -> dict[tuple[str, str], Sequence[Any]]:
        """All lists in one engine call."""
        from qdrant_edge import Query, QueryBatchRequest, SparseVector

        queries = []
        view, lengths = question.view, question.lengths
        readable = replace(view, filter="")
        exact = {of: self._shard_idf_is_exact(of, readable, question.sparse[of]) for arm, of in lengths if arm == BM25}
        for (arm, tenant), limit in lengths.items():
            if arm != BM25:
                query = Query.Nearest(question.numbers[arm], using=arm)
                queries.append(edge_shard.dense_query(query, tenant, limit, view, segment_points=self._segment_points))
            else:
                sparse = question.sparse[tenant]
                words = SparseVector(list(sparse.indices), list(sparse.values))
                query = Query.Nearest(words, using=BM25)
                queries.append(edge_shard.lexical_query(query, tenant, limit, view, shard_idf=exact[tenant]))
        with engine("search"):
            answers = self._shard.query_batch(QueryBatchRequest(queries))
        lists: dict[tuple[str, str], Sequence[Any]] = dict(zip(lengths, answers, strict=True))
        for (arm, _), points in lists.items():
            for point in points:
                if arm != BM25 and not -_MAX_COSINE <= point.score <= _MAX_COSINE:
                    raise RetrievalError("a vector in the index is damaged: run `ragway rebuild` for this collection")
        return lists

    def _shard_idf_is_exact(self, tenant: str, view: View, sparse: Sparse) -> bool:
        """Whether the shard's word statistics equal those of what the view shows of a tenant.

        They do if no other tenant has points here, the view shows all points, and no deleted point still counts.

        Counting within a tenant takes 1.5 ms for 100,000 points, 15 ms for a million. So after the last write one word
        is searched both ways, once: a single point more or less changes every word's rarity.
        """
        from qdrant_edge import Query, QueryBatchRequest, SparseVector

        if time.monotonic() - self._written_s < _SETTLED_S:
            return False
        if self._exact_idf_at_s != self._written_s:
            self._exact_idf, self._exact_idf_at_s = {}, self._written_s
        seen = tenant, view
        if seen not in self._exact_idf:
            word = Query.Nearest(SparseVector([sparse.indices[0]], [1.0]), using=BM25)
            both = [edge_shard.lexical_query(word, tenant, 1, view, shard_idf=shard_idf) for shard_idf in (False, True)]
            with engine("search"):
                own, shared = self._shard.query_batch(QueryBatchRequest(both))
            if not own or not shared:
                return False  # no point has the word: the next question may decide
            self._exact_idf[seen] = isclose(own[0].score, shared[0].score, rel_tol=_SAME_SCORE)
        return self._exact_idf[seen]

    async def _write(self, work: Any, *arguments: Any) -> Any:
        if self._closed:
            raise RetrievalError("the store is closed: reads and writes are no longer possible")
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *arguments)

    def _upsert(self, tenant: str, points: Sequence[Point]) -> None:
        ready = checked_points(points, self._vectors)
        for name in self._fields_to_index(points):  # an existing index stays as it is
            self._update(edge_shard.field_index(name))
            self._indexed_fields.add(name)
        for start in range(0, len(ready), _BATCH_POINTS):
            edge_shard.check_room(self._home)
            batch = ready[start : start + _BATCH_POINTS]
            if self._journal is not None:
                self._journal.points.update(point.id for point, _ in batch)
            took_s = self._update(_upsert_operation(tenant, batch))
            self._without_graph += len(batch)
            self._unflushed += len(batch)
            time.sleep(took_s)  # give a turn to searches that wait for the GIL

    def _delete(self, tenant: str, ids: set[str]) -> None:
        from qdrant_edge import FieldCondition, Filter, HasIdCondition, MatchValue, UpdateOperation

        if ids:
            if self._journal is not None:
                self._journal.points |= ids
            condition = Filter(must=[HasIdCondition({*ids}), FieldCondition(TENANT, match=MatchValue(tenant))])
            self._update(UpdateOperation.delete_points_by_filter(condition))
            self._unflushed += 1

    def _drop(self, tenant: str) -> None:
        from qdrant_edge import UpdateOperation

        if self._journal is not None:
            self._journal.dropped.append(tenant)
        self._update(UpdateOperation.delete_points_by_filter(tenant_filter(tenant)))
        self._unflushed += 1

    def _update(self, operation: "UpdateOperation") -> float:
        """Return how many seconds the update took."""
        began = time.monotonic()
        with engine("write"):
            self._shard.update(operation)
        self._written_s = time.monotonic()
        return self._written_s - began

    async def _page(self, tenant: str, offset: Any, limit: int, view: View = ALL, *, vectors: bool = False) -> Any:
        # on the writing thread, so that no page is read during a switch of shards
        return await self._write(self._scroll, tenant, offset, limit, view, vectors)

    def _scroll(self, tenant: str, offset: Any, limit: int, view: View, vectors: bool) -> Any:
        from qdrant_edge import ScrollRequest

        with engine("read"):
            of_view = tenant_filter(tenant, view)
            request = ScrollRequest(offset=offset, limit=limit, filter=of_view, with_payload=True, with_vector=vectors)
            return self._shard.scroll(request)

    def _flush(self) -> None:
        with engine("write"):
            self._shard.flush()
        self._unflushed = 0

    def _close(self) -> None:
        with engine("close"):
            self._shard.close()

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            quiet = time.monotonic() - self._written_s > _QUIET_S
            try:
                if self._unflushed and (quiet or self._unflushed > _MAX_UNFLUSHED):
                    await self._write(self._flush)
                if self._should_optimise(quiet=quiet):
                    await self.optimise()
            except (RetrievalError, OSError) as error:  # usually a full disk: the current index goes on serving
                log.warning("the index was not optimised, and searches of new passages take longer: %s", error)
                await asyncio.sleep(60 * _CHECK_S)

    def _should_optimise(self, *, quiet: bool) -> bool:
        least, share = (_MIN_WITHOUT_GRAPH, _MIN_SHARE) if quiet else (_BUSY_WITHOUT_GRAPH, _BUSY_SHARE)
        return self._without_graph >= least and self._without_graph >= share * edge_shard.point_count(self._shard)

    async def optimise(self) -> None:
        """Let another process optimise a copy of the shard, and switch to it. Raises RetrievalError.

        Searches continue throughout. Writes wait while the copy is made and during the switch.
        """
        target = await self._write(self._start_optimising)
        assert self._optimiser is not None  # started by `_start_optimising`
        try:
            error = await asyncio.to_thread(edge_optimise.wait_for_end, self._optimiser)
            if error:
                raise RetrievalError(f"optimising the index failed: {error}")
            await self._write(self._switch_to, target, asyncio.get_running_loop())
        finally:
            self._optimiser.kill()
            with contextlib.suppress(RuntimeError):  # the store was closed: the next start cleans up
                self._writer.submit(self._clean_up, target)  # after a switch that may still run

    def _start_optimising(self) -> Path:
        """Start the process, wait until it has made the copy, and return the copy's folder."""
        edge_shard.check_room(self._home, 2 * edge_shard.size_mb(self._folder))
        self._flush()
        target = edge_shard.next_generation(self._home, self._folder)
        self._optimiser = edge_optimise.start(
            self._folder, target, self._vectors, points=edge_shard.point_count(self._shard)
        )
        self._journal = _Journal()
        return target

    def _switch_to(self, target: Path, loop: asyncio.AbstractEventLoop) -> None:
        """Open the optimised copy, apply the journal, and let the event loop swap shards between two searches."""
        journal, self._journal = self._journal, None
        if journal is None or self._closed:
            return
        with engine("switch to the optimised index"):
            optimised = edge_shard.open_shard(target, self._vectors)
            _catch_up(self._shard, optimised, journal)
            for name in sorted(self._indexed_fields):
                optimised.update(edge_shard.field_index(name))
            optimised.flush()
        edge_shard.mark_complete(target)
        swapped: Future[EdgeShard] = Future()
        loop.call_soon_threadsafe(self._swap, optimised, swapped)
        old, folder = swapped.result(), self._folder
        self._written_s = time.monotonic()
        self._folder, self._without_graph, self._unflushed = target, len(journal.points), 0
        with contextlib.suppress(RetrievalError), engine("close"):
            old.close()
        edge_shard.remove_generation(self._home, folder)

    def _clean_up(self, target: Path) -> None:
        self._journal = None
        if self._folder != target:
            shutil.rmtree(target, ignore_errors=True)

    def _swap(self, optimised: "EdgeShard", swapped: "Future[EdgeShard]") -> None:
        old, self._shard, self._segment_points = self._shard, optimised, edge_shard.segment_points(optimised)
        swapped.set_result(old)


def _upsert_operation(tenant: str, points: Sequence[tuple[Point, dict[str, list[float]]]]) -> "UpdateOperation":
    from qdrant_edge import Point as EdgePoint
    from qdrant_edge import SparseVector, UpdateOperation

    edge_points = []
    for point, numbers in points:
        # A chunk without index terms gets one sentinel term (id 0): Qdrant Edge counts points without a sparse vector
        # inconsistently.
        words = SparseVector(list(point.sparse.indices) or [SENTINEL_TERM], list(point.sparse.values) or [1.0])
        edge_points.append(EdgePoint(point.id, {**numbers, BM25: words}, payload_of(tenant, point)))
    return UpdateOperation.upsert_points(edge_points)


def _catch_up(old: "EdgeShard", new: "EdgeShard", journal: _Journal) -> None:
    """Bring `new` to the state of `old`: they differ only in the journal's points."""
    from qdrant_edge import UpdateOperation

    for tenant in journal.dropped:
        new.update(UpdateOperation.delete_points_by_filter(tenant_filter(tenant)))
    ids: list[int | UUID | str] = sorted(journal.points)
    for start in range(0, len(ids), _BATCH_POINTS):
        began, batch = time.monotonic(), ids[start : start + _BATCH_POINTS]
        records = old.retrieve(batch, True, True)
        new.update(UpdateOperation.delete_points(batch))
        edge_shard.copy_records(new, records)
        time.sleep(time.monotonic() - began)
