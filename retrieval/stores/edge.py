"""The default store: Qdrant Edge, the Qdrant engine inside this process, one shard on disk for all tenants.

What a reader must know of the engine (qdrant-edge-py 0.9):

- One process may have a shard open. It holds the GIL for as long as it works: a query takes 1 to 6 ms and runs on the
  event loop; writes go to one thread of their own, in batches, so that the loop gets a turn between two of them.
  That thread also puts writes in order, and goes on with a write whose caller was cancelled.
- A write is in the write-ahead log when the engine returns and survives `kill -9`; `flush` afterwards (2-17 ms) puts
  it into the segments, so that the next start has no log to replay.
- `optimize()` is not offered. It builds the HNSW graph and frees the space of deleted points, and no other thread
  runs meanwhile (34 s for 40,000 points). Without it every search is an exact scan of the tenant's points
  (6 ms at 100,000) and deleted points cost disk alone.
- Errors are bare `Exception`s: `_engine` gives them our classes, in one place.
"""

import asyncio
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from retrieval.errors import DataInUse, DiskFull, RetrievalError
from retrieval.records import Passage, Point, Scored, Sparse, Vector
from retrieval.stores.schema import (
    BATCH,
    BM25,
    DENSE,
    PAGE,
    TENANT,
    TIES,
    best,
    checked,
    checked_k,
    checked_points,
    cut_between_equals,
    passage_of,
    payload_of,
)
from retrieval.terms import query_vector

if TYPE_CHECKING:
    from qdrant_edge import EdgeConfig, EdgeShard, Filter, QueryRequest, UpdateOperation

_ROOM_MB = 128  # a segment of the write-ahead log takes 32 MB, and a new segment of vectors as much


class EdgeStore:
    """Points in one Qdrant Edge shard; see `retrieval.stores.base.Store` for the promises."""

    def __init__(self, shard: "EdgeShard", path: Path, *, dimension: int) -> None:
        self._shard = shard
        self._path = path
        self._dimension = dimension
        self._closed = False
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="edge-writer")

    @classmethod
    def open(cls, path: Path, *, dimension: int) -> Self:
        """The store in the folder `path`, made if there is none; blocks 20-430 ms, by size.

        Raises DataInUse if another process has it open, DiskFull, RetrievalError if it cannot be read or was made for
        vectors of another dimension.
        """
        from qdrant_edge import EdgeShard, KeywordIndexParams, UpdateOperation

        path.mkdir(parents=True, exist_ok=True)
        _check_room(path)
        with _engine(f"open {path}"):
            exists = (path / "edge_config.json").exists() or any(path.glob("segments/*"))
            config = _config(dimension)
            shard = EdgeShard.load(str(path), config) if exists else EdgeShard.create(str(path), config)
            # On every start, not on the first alone: a first start may have been killed before this line.
            tenants = KeywordIndexParams(is_tenant=True, enable_hnsw=False)
            shard.update(UpdateOperation.create_field_index(TENANT, tenants))
        return cls(shard, path, dimension=dimension)

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        await self._write(self._upsert, tenant, checked_points(points, self._dimension))

    async def delete(self, tenant: str, ids: Sequence[str]) -> None:
        await self._write(self._delete, tenant, set(ids))

    async def drop(self, tenant: str) -> None:
        await self._write(self._drop, tenant)

    async def search(
        self, tenants: Sequence[str], vector: Vector, terms: Sequence[tuple[str, float]], *, k: int
    ) -> Mapping[str, list[Scored]]:
        numbers, sparse, asked = checked(vector, self._dimension), query_vector(terms), list(dict.fromkeys(tenants))
        checked_k(k)
        found = self._ask(asked, numbers, sparse, limit=k + 1)
        if any(cut_between_equals(points, k) for lists in found.values() for points in lists):
            found = self._ask(asked, numbers, sparse, limit=k + TIES)
        return {arm: best(lists, k) for arm, lists in found.items()}

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        with _engine("read"):
            records = self._shard.retrieve(list(ids), True, False)
        return {str(record.id): passage_of(record.payload or {}) for record in records}

    async def count(self, tenant: str) -> int:
        from qdrant_edge import CountRequest

        with _engine("count points"):
            return self._shard.count(CountRequest(exact=True, filter=_only(tenant)))

    async def passages(self, tenant: str) -> list[tuple[str, Passage]]:
        return await asyncio.to_thread(self._passages, tenant)

    async def close(self) -> None:
        """Finish the writes under way, flush, and let go of the shard; a second call does nothing."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._writer, self._close)
            self._writer.shutdown()

    def _ask(
        self, tenants: Sequence[str], numbers: list[float], sparse: Sparse, *, limit: int
    ) -> dict[str, list[list[Scored]]]:
        """Arm -> the points of each tenant, best first. Both arms of all tenants in one call."""
        from qdrant_edge import Query, QueryBatchRequest, SparseVector

        queries, arms = [], []
        for tenant in tenants:
            queries.append(_query(Query.Nearest(numbers, using=DENSE), tenant, limit, own_idf=False))
            arms.append(DENSE)
            if sparse.indices:
                words = SparseVector(list(sparse.indices), list(sparse.values))
                queries.append(_query(Query.Nearest(words, using=BM25), tenant, limit, own_idf=True))
                arms.append(BM25)
        found: dict[str, list[list[Scored]]] = {DENSE: [], BM25: []}
        with _engine("search"):
            answers = self._shard.query_batch(QueryBatchRequest(queries))
        for arm, answer in zip(arms, answers, strict=True):
            found[arm].append([Scored(str(point.id), point.score) for point in answer])
        return found

    async def _write(self, work: Any, *arguments: Any) -> None:
        if self._closed:
            raise RetrievalError("the store is closed: nothing can be written to it")
        await asyncio.get_running_loop().run_in_executor(self._writer, work, *arguments)

    def _upsert(self, tenant: str, points: Sequence[tuple[Point, list[float]]]) -> None:
        from qdrant_edge import Point as EdgePoint
        from qdrant_edge import SparseVector, UpdateOperation

        for start in range(0, len(points), BATCH):
            _check_room(self._path)
            batch = []
            for point, numbers in points[start : start + BATCH]:
                words = SparseVector(list(point.sparse.indices), list(point.sparse.values))
                batch.append(EdgePoint(point.id, {DENSE: numbers, BM25: words}, payload_of(tenant, point.passage)))
            self._update(UpdateOperation.upsert_points(batch), flush=start + BATCH >= len(points))

    def _delete(self, tenant: str, ids: set[str]) -> None:
        from qdrant_edge import FieldCondition, Filter, HasIdCondition, MatchValue, UpdateOperation

        if ids:
            these = Filter(must=[HasIdCondition({*ids}), FieldCondition(TENANT, match=MatchValue(tenant))])
            self._update(UpdateOperation.delete_points_by_filter(these), flush=True)

    def _drop(self, tenant: str) -> None:
        from qdrant_edge import UpdateOperation

        self._update(UpdateOperation.delete_points_by_filter(_only(tenant)), flush=True)

    def _update(self, operation: "UpdateOperation", *, flush: bool) -> None:
        with _engine("write"):
            self._shard.update(operation)
            if flush:
                self._shard.flush()

    def _passages(self, tenant: str) -> list[tuple[str, Passage]]:
        from qdrant_edge import ScrollRequest

        found: list[tuple[str, Passage]] = []
        offset = None
        while True:
            with _engine("read"):
                request = ScrollRequest(offset=offset, limit=PAGE, filter=_only(tenant), with_payload=True)
                records, offset = self._shard.scroll(request)
            found += [(str(record.id), passage_of(record.payload or {})) for record in records]
            if offset is None:
                return sorted(found, key=lambda pair: pair[0])

    def _close(self) -> None:
        with _engine("close"):
            self._shard.close()


def _config(dimension: int) -> "EdgeConfig":
    from qdrant_edge import Distance, EdgeConfig, EdgeSparseVectorParams, EdgeVectorParams, Modifier

    return EdgeConfig(
        vectors={DENSE: EdgeVectorParams(size=dimension, distance=Distance.Cosine)},
        sparse_vectors={BM25: EdgeSparseVectorParams(modifier=Modifier.Idf)},
    )


def _only(tenant: str) -> "Filter":
    from qdrant_edge import FieldCondition, Filter, MatchValue

    return Filter(must=[FieldCondition(TENANT, match=MatchValue(tenant))])


def _query(query: Any, tenant: str, limit: int, *, own_idf: bool) -> "QueryRequest":
    """One arm's query within one tenant; own_idf: score rarity by that tenant's points alone."""
    from qdrant_edge import IdfParams, QueryRequest, SearchParams

    params = SearchParams(idf=IdfParams(corpus=_only(tenant))) if own_idf else None
    return QueryRequest(limit=limit, query=query, filter=_only(tenant), params=params)


def _check_room(path: Path) -> None:
    """Raise DiskFull before the engine meets a full disk: it dies there by SIGBUS, and the process with it."""
    free_mb = shutil.disk_usage(path).free // 2**20
    if free_mb < _ROOM_MB:
        raise DiskFull(
            f"the disk of {path} has {free_mb} MB free and the index needs {_ROOM_MB} MB to work: free some, then try "
            "again; nothing that was finished is lost"
        )


@contextmanager
def _engine(doing: str) -> Iterator[None]:
    """Name the engine's errors. It raises `Exception` itself for everything, so the message has to tell them apart."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        if "WouldBlock" in str(error):
            message = "another process has it open (a running `ragway serve`?). Stop that, or use another --data folder"
            raise DataInUse(f"cannot {doing}: {message}") from error
        if "ncompatible config" in str(error):
            message = "it was made for another embedder. Configure that one, or run `ragway rebuild`"
            raise RetrievalError(f"cannot {doing}: {message} ({error})") from error
        raise RetrievalError(f"cannot {doing}: {error}. If this stays, run `ragway rebuild`") from error
