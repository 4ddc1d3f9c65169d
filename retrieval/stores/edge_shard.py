"""One shard of Qdrant Edge on disk: location, configuration, and what the engine's errors mean.

A store has a home folder. Its shard lies directly there (generation 0) until the first optimisation, then in
`generation-1`, `generation-2` … below. A new generation is built beside the current one and becomes valid with its
file `complete`, which is written last. A restart opens the highest complete generation and removes all others.

Each tenant with more than some 6,700 chunks (`full_scan_threshold`) has an HNSW graph of its own, because no query
spans tenants; smaller ones are scanned. Vectors are searched as 8-bit integers, and the best are compared again
exactly.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieval.embedding.embed import cores
from retrieval.errors import DataInUse, DiskFull, RetrievalError
from retrieval.records.search import ALL, View
from retrieval.stores.schema import (
    BM25,
    GROUPS,
    MARKS,
    MODIFIED_S,
    PAGE,
    SOURCE,
    TENANT,
    Vectors,
    build_filter,
)

if TYPE_CHECKING:
    from qdrant_edge import EdgeConfig, EdgeShard, Filter, QueryRequest, Record, UpdateOperation

_GENERATION = "generation-"
_COMPLETE = "complete"
_PARTS = ("segments", "wal", "edge_config.json")  # a shard's files in the home folder itself

ROOM_MB = 128  # a write-ahead log segment takes 32 MB, and so does a new segment of vectors
LINKS = 16  # edges per point in a tenant's HNSW graph: Qdrant's default `m`
_BUILD_EF = 100  # Qdrant's default
# From this many points on, a graph gets more edges: with the defaults, recall@10 of 1,000,000 grown vectors stays at
# .977, however large `hnsw_ef` is.
LARGE = 250_000
_LARGE_LINKS = 32
_LARGE_BUILD_EF = 200
# Points per segment. Each core searches one, so that a question over 1,000,000 points takes half as long on two cores.
# There are at most as many segments as cores: further ones would be searched one after another.
SEGMENT = 500_000
_FLOAT_BYTES = 4
_FULL_SCAN_KB = 10_000  # a smaller tenant is scanned: 6,700 vectors of 384 dimensions
# A search's `hnsw_ef`, and the factor of points compared again exactly. Recall@10 of 20,000 vectors grown from real
# vectors, against exact search: .972 at 100, .980 at 128, .992 at 256 for twice the time. For 1,000,000 vectors in one
# segment with more edges: .961 at 512, .973 at 768, .984 at 1024. In two segments: .982 at 640, .986 at 704, .987 at
# 768.
_SEARCH_EF = 256
_LARGE_SEARCH_EF = 704
_LARGEST_SEARCH_EF = 1024
_OVERSAMPLING = 2.0


def config(vectors: Vectors, *, points: int = 0, searchers: int = 1) -> "EdgeConfig":
    """Return a configuration; graph and segments suit `points` points, and take effect at the next optimisation.

    searchers: threads; each searches one segment.
    """
    from qdrant_edge import (
        Distance,
        EdgeConfig,
        EdgeOptimizersConfig,
        EdgeSparseVectorParams,
        EdgeVectorParams,
        HnswIndexConfig,
        Memory,
        Modifier,
        ScalarQuantizationConfig,
        ScalarType,
    )

    # No graph over all points (m=0), but one graph per tenant (payload_m). One building thread, because queries
    # continue meanwhile, unless a single thread would take an hour.
    links, build_ef, builders = (LINKS, _BUILD_EF, 1) if points < LARGE else (_LARGE_LINKS, _LARGE_BUILD_EF, cores())
    graph = HnswIndexConfig(
        m=0, payload_m=links, ef_construct=build_ef, full_scan_threshold=_FULL_SCAN_KB, max_indexing_threads=builders
    )
    quantization = ScalarQuantizationConfig(ScalarType.Int8, memory=Memory.Cached)
    return EdgeConfig(
        vectors={
            name: EdgeVectorParams(
                size=dimension, distance=Distance.Cosine, quantization_config=quantization, hnsw_config=graph
            )
            for name, dimension in vectors.items()
        },
        sparse_vectors={BM25: EdgeSparseVectorParams(modifier=Modifier.Idf)},
        hnsw_config=graph,
        optimizers=EdgeOptimizersConfig(
            indexing_threshold=1,
            default_segment_number=segment_count(points),
            max_segment_size=max(SEGMENT, segment_size(points)) * sum(vectors.values()) * _FLOAT_BYTES // 1024,
        ),
        max_search_threads=searchers,
    )


def segment_count(points: int) -> int:
    return max(1, min(cores(), ceil(points / SEGMENT)))


def segment_size(points: int) -> int:
    return ceil(points / segment_count(points))


def open_shard(folder: Path, vectors: Vectors, *, points: int = 0) -> "EdgeShard":
    """Open the shard in a folder, or create one. points: see `config`.

    Raises DataInUse, DiskFull, RetrievalError.
    """
    from qdrant_edge import EdgeShard

    folder.mkdir(parents=True, exist_ok=True)
    check_room(folder)
    with engine(f"open {folder}"):
        exists = (folder / "edge_config.json").exists() or any(folder.glob("segments/*"))
        settings = config(vectors, points=points, searchers=_searchers(folder))
        shard = EdgeShard.load(str(folder), settings) if exists else EdgeShard.create(str(folder), settings)
        # On every start, not only the first: that one may have been killed before this line.
        shard.update(_tenant_index())
        for field in (GROUPS, MARKS, SOURCE, MODIFIED_S):
            shard.update(field_index(field))
    return shard


def _searchers(folder: Path) -> int:
    """Return how many threads to search with: one per segment, except the last, which has the latest points.

    Waking a thread for the latest points costs more than it saves: a search of 10,000 chunks takes 2.45 ms instead of
    2.15.
    """
    segments = sum(1 for segment in folder.glob("segments/*") if segment.is_dir())
    return max(1, min(cores(), segments - 1))


def copy_records(opened: "EdgeShard", records: "Sequence[Record]") -> int:
    """Write records read from another shard; skip records without vectors (a damaged shard).

    Return how many were written.
    """
    from qdrant_edge import Point, UpdateOperation

    points = [Point(record.id, record.vector, record.payload) for record in records if record.vector is not None]
    if points:
        opened.update(UpdateOperation.upsert_points(points))
    return len(points)


def recreate_tenant_index(opened: "EdgeShard") -> None:
    """Recreate the tenant index: an earlier version's index has no graphs, and creating it again has no effect."""
    from qdrant_edge import UpdateOperation

    opened.update(UpdateOperation.delete_field_index(TENANT))
    opened.update(_tenant_index())


def _tenant_index() -> "UpdateOperation":
    from qdrant_edge import KeywordIndexParams, UpdateOperation

    return UpdateOperation.create_field_index(TENANT, KeywordIndexParams(is_tenant=True, enable_hnsw=True))


def field_index(field: str) -> "UpdateOperation":
    """Index a field.

    Without an index a query by this field reads every payload: 60 ms for 10,000 points, .3 ms with an index.
    """
    from qdrant_edge import FloatIndexParams, KeywordIndexParams, UpdateOperation

    if field in (GROUPS, MARKS, SOURCE):
        keywords = KeywordIndexParams(enable_hnsw=False, prefix=field == SOURCE)
        return UpdateOperation.create_field_index(field, keywords)
    return UpdateOperation.create_field_index(field, FloatIndexParams(enable_hnsw=False))


def rewrite_in_segments(folder: Path, vectors: Vectors, *, points: int) -> "EdgeShard":
    """Rewrite a shard in several segments, optimising each: the engine itself never divides one."""
    from qdrant_edge import ScrollRequest

    whole = folder / "whole"
    whole.mkdir()
    for name in _PARTS:
        if (folder / name).exists():
            (folder / name).rename(whole / name)
    old, new = open_shard(whole, vectors), open_shard(folder, vectors, points=points)
    for field in old.info().payload_schema.keys() - new.info().payload_schema.keys():
        new.update(field_index(field))
    offset, written = None, 0
    while True:
        records, offset = old.scroll(ScrollRequest(offset=offset, limit=PAGE, with_payload=True, with_vector=True))
        written += copy_records(new, records)
        if offset is None:
            break
        if written >= segment_size(points):
            new.optimize()
            written = 0
    old.close()
    shutil.rmtree(whole)
    return new


def current_generation(home: Path) -> Path:
    """Return the current generation's folder; remove what an interrupted switch left. Raises RetrievalError."""
    try:
        complete = [folder for folder in _generations(home) if (folder / _COMPLETE).exists()]
    except OSError as error:  # in the words of the engine
        raise RetrievalError(f"cannot open {home}: {error.strerror} (os error {error.errno})") from error
    used = max(complete, key=_number, default=home)
    for folder in _generations(home):
        if folder != used:
            shutil.rmtree(folder, ignore_errors=True)
    if used != home:
        remove_generation(home, home)
    return used


def next_generation(home: Path, used: Path) -> Path:
    return home / f"{_GENERATION}{_number(used) + 1 if used != home else 1}"


def mark_complete(folder: Path) -> None:
    """Mark a generation as valid: the next restart opens it."""
    (folder / _COMPLETE).touch()


def remove_generation(home: Path, used: Path) -> None:
    for path in [used] if used != home else [home / part for part in _PARTS]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _generations(home: Path) -> list[Path]:
    return [folder for folder in home.glob(f"{_GENERATION}*") if folder.name.removeprefix(_GENERATION).isdigit()]


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix(_GENERATION))


def point_count(opened: "EdgeShard") -> int:
    return opened.info().points_count


def segment_points(opened: "EdgeShard") -> int:
    """Return about how many points a segment has, without the last, which holds the latest points."""
    return point_count(opened) // max(1, opened.info().segments_count - 1)


def without_graph(opened: "EdgeShard") -> int:
    """Return how many points have no graph. The engine counts word index and graphs together."""
    info = opened.info()
    return max(0, 2 * info.points_count - info.indexed_vectors_count)


def size_mb(folder: Path) -> int:
    """Return a shard's disk space; holes in files do not count."""
    return sum(file.stat().st_blocks * 512 for file in files(folder)) // 2**20


def files(folder: Path) -> Iterator[Path]:
    """Yield a shard's files, without those of generations in the same folder."""
    for part in _PARTS:
        yield from (path for path in [folder / part, *(folder / part).rglob("*")] if path.is_file())


@lru_cache(maxsize=64)  # each arm of a search needs one; 2,000 values take 2 ms
def tenant_filter(tenant: str, view: View = ALL) -> "Filter":
    """Return an engine filter for the tenant's points in the view."""
    import qdrant_edge

    condition: Filter = build_filter(qdrant_edge, tenant, view)
    return condition


def lexical_query(query: Any, tenant: str, limit: int, view: View = ALL, *, shard_idf: bool) -> "QueryRequest":
    """Return the lexical arm's query in one tenant.

    Word rarity is measured among points that the caller may read.

    shard_idf: the shard's own statistics are exact, so the engine need not count a tenant's.
    """
    from qdrant_edge import IdfParams, QueryRequest, SearchParams

    params = None if shard_idf else SearchParams(idf=IdfParams(corpus=tenant_filter(tenant, replace(view, filter=""))))
    return QueryRequest(limit=limit, query=query, filter=tenant_filter(tenant, view), params=params)


def dense_query(query: Any, tenant: str, limit: int, view: View = ALL, *, segment_points: int) -> "QueryRequest":
    """Return the dense arm's query in one tenant. segment_points: see `segment_points`."""
    from qdrant_edge import QuantizationSearchParams, QueryRequest, SearchParams

    rescoring = QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
    ef = _LARGEST_SEARCH_EF if segment_points > SEGMENT else _LARGE_SEARCH_EF if segment_points >= LARGE else _SEARCH_EF
    params = SearchParams(hnsw_ef=max(ef, limit), quantization=rescoring)
    return QueryRequest(limit=limit, query=query, filter=tenant_filter(tenant, view), params=params)


def check_room(path: Path, more_mb: int = 0) -> None:
    """Raise DiskFull before the engine meets a full disk: it would die by SIGBUS, and the process with it."""
    free_mb = shutil.disk_usage(path).free // 2**20
    if free_mb < ROOM_MB + more_mb:
        raise DiskFull(
            f"the disk of {path} has {free_mb} MB free and the index needs {ROOM_MB + more_mb} MB to work: free some "
            "space, then try again; finished work is not lost"
        )


@contextmanager
def engine(doing: str) -> Iterator[None]:
    """Turn the engine's errors into our classes.

    It raises bare `Exception`s, so only their message identifies them.

    A damaged file may cause a panic, which reaches Python as a BaseException and would end this process.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        if "WouldBlock" in str(error):
            message = (
                "another process uses the index (a running `ragway serve`?). "
                "Stop the process, or use another --data folder"
            )
            raise DataInUse(f"cannot {doing}: {message}") from error
        if "ncompatible config" in str(error):
            message = "the index was made for another embedder. Configure the earlier embedder, or run `ragway rebuild`"
            raise RetrievalError(f"cannot {doing}: {message} ({error})") from error
        raise RetrievalError(f"cannot {doing}: {error}. If the error stays, run `ragway rebuild`") from error
