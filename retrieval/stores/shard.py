"""One shard of Qdrant Edge on disk: where it lies, how it is configured, and what its errors mean.

A store has a home folder. The shard lies in it directly (generation 0) until it is optimised for the first time, then
in `generation-1`, `generation-2` … below it: each is built beside the one in use and counts once its file `complete`
is there, which is written last. A restart takes the highest complete one and removes the others.

Each tenant beyond some 6,700 chunks (`full_scan_threshold`) has an HNSW graph of its own, as no query looks across
tenants; smaller ones are scanned. Vectors are searched as 8-bit integers and the best of them compared again exactly.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieval.embedding.embed import cores
from retrieval.errors import DataInUse, DiskFull, RetrievalError
from retrieval.records.search import ALL, View
from retrieval.stores.conditions import Words, within
from retrieval.stores.schema import BM25, DENSE, GROUPS, MARKS, MODIFIED_S, PAGE, SOURCE, TENANT

if TYPE_CHECKING:
    from qdrant_edge import EdgeConfig, EdgeShard, Filter, QueryRequest, Record, UpdateOperation

_GENERATION = "generation-"
_COMPLETE = "complete"
_PARTS = ("segments", "wal", "edge_config.json")  # of a shard that lies in the home folder itself

ROOM_MB = 128  # a segment of the write-ahead log takes 32 MB, and a new segment of vectors as much
LINKS = 16  # edges of a point within its tenant's HNSW graph: Qdrant's default `m`
_BUILD_EF = 100  # Qdrant's default
# Of a shard of so many points and more: with the defaults recall@10 of 1,000,000 grown vectors stops at .977, however
# many points a search keeps in view.
LARGE = 250_000
_LARGE_LINKS = 32
_LARGE_BUILD_EF = 200
# Points of one segment: a core searches each, so that a question of 1,000,000 on two cores takes half as long. There
# are as many as cores at most, since more of them would be searched one behind the other.
SEGMENT = 500_000
_FLOAT_BYTES = 4
_SCANNED_KB = 10_000  # a tenant with less is scanned: 6,700 vectors of 384 dimensions
# Points the search keeps in view in the graph, and how many more than asked for are compared again exactly. Recall@10
# of 20,000 vectors grown from real ones, against exact: .972 at 100, .980 at 128, .992 at 256, at twice the cost. Of
# 1,000,000 with the links of so many in one segment: .961 at 512, .973 at 768, .984 at 1024; in two segments of half as
# many, each searched so widely: .982 at 640, .986 at 704, .987 at 768.
_SEARCH_EF = 256
_LARGE_SEARCH_EF = 704
_LARGEST_SEARCH_EF = 1024
_OVERSAMPLING = 2.0


def config(dimension: int, *, points: int = 0, searchers: int = 1) -> "EdgeConfig":
    """The configuration; its graph and segments are for so many points, and count when they are optimised.

    searchers: threads, each of which searches a segment.
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

    # No graph over everything (m=0) but one within each tenant (payload_m); one thread, since queries go on meanwhile,
    # but where that would take an hour.
    links, build_ef, builders = (LINKS, _BUILD_EF, 1) if points < LARGE else (_LARGE_LINKS, _LARGE_BUILD_EF, cores())
    graph = HnswIndexConfig(
        m=0, payload_m=links, ef_construct=build_ef, full_scan_threshold=_SCANNED_KB, max_indexing_threads=builders
    )
    eight_bits = ScalarQuantizationConfig(ScalarType.Int8, memory=Memory.Cached)
    dense = EdgeVectorParams(
        size=dimension, distance=Distance.Cosine, quantization_config=eight_bits, hnsw_config=graph
    )
    return EdgeConfig(
        vectors={DENSE: dense},
        sparse_vectors={BM25: EdgeSparseVectorParams(modifier=Modifier.Idf)},
        hnsw_config=graph,
        optimizers=EdgeOptimizersConfig(
            indexing_threshold=1,
            default_segment_number=parts(points),
            max_segment_size=max(SEGMENT, part_size(points)) * dimension * _FLOAT_BYTES // 1024,
        ),
        max_search_threads=searchers,
    )


def parts(points: int) -> int:
    """Into how many segments so many points are divided."""
    return max(1, min(cores(), ceil(points / SEGMENT)))


def part_size(points: int) -> int:
    """Points of each of them."""
    return ceil(points / parts(points))


def open_shard(folder: Path, dimension: int, *, points: int = 0) -> "EdgeShard":
    """The shard in the folder, made if there is none. points: see `config`.

    Raises DataInUse, DiskFull, RetrievalError.
    """
    from qdrant_edge import EdgeShard

    folder.mkdir(parents=True, exist_ok=True)
    check_room(folder)
    with engine(f"open {folder}"):
        exists = (folder / "edge_config.json").exists() or any(folder.glob("segments/*"))
        settings = config(dimension, points=points, searchers=_searchers(folder))
        shard = EdgeShard.load(str(folder), settings) if exists else EdgeShard.create(str(folder), settings)
        # On every start, not on the first alone: a first start may have been killed before this line.
        shard.update(_tenant_index())
        for field in (GROUPS, MARKS, SOURCE, MODIFIED_S):
            shard.update(index_of(field))
    return shard


def _searchers(folder: Path) -> int:
    """How many threads search the shard: one for each of its segments but the last, which has the latest points.

    To wake a thread for these alone costs more than it saves: a search at 10,000 chunks takes 2.45 ms, not 2.15.
    """
    segments = sum(1 for segment in folder.glob("segments/*") if segment.is_dir())
    return max(1, min(cores(), segments - 1))


def put(opened: "EdgeShard", records: "Sequence[Record]") -> int:
    """Write what was read from another shard; a damaged one has records without vectors. How many were written."""
    from qdrant_edge import Point, UpdateOperation

    kept = [Point(one.id, one.vector, one.payload) for one in records if one.vector is not None]
    if kept:
        opened.update(UpdateOperation.upsert_points(kept))
    return len(kept)


def index_tenants_anew(opened: "EdgeShard") -> None:
    """An index made by an earlier version asks for no graphs, and stays so when it is asked for again."""
    from qdrant_edge import UpdateOperation

    opened.update(UpdateOperation.delete_field_index(TENANT))
    opened.update(_tenant_index())


def _tenant_index() -> "UpdateOperation":
    from qdrant_edge import KeywordIndexParams, UpdateOperation

    return UpdateOperation.create_field_index(TENANT, KeywordIndexParams(is_tenant=True, enable_hnsw=True))


def index_of(field: str) -> "UpdateOperation":
    """Without it a query by the field reads the payload of every point: 60 ms of 10,000, with it .3."""
    from qdrant_edge import FloatIndexParams, KeywordIndexParams, UpdateOperation

    if field in (GROUPS, MARKS, SOURCE):
        keywords = KeywordIndexParams(enable_hnsw=False, prefix=field == SOURCE)
        return UpdateOperation.create_field_index(field, keywords)
    return UpdateOperation.create_field_index(field, FloatIndexParams(enable_hnsw=False))


def divided(folder: Path, dimension: int, *, points: int) -> "EdgeShard":
    """The shard written anew, optimised after each part: the engine itself never divides a segment."""
    from qdrant_edge import ScrollRequest

    whole = folder / "whole"
    _move(folder, whole)
    old, new = open_shard(whole, dimension), open_shard(folder, dimension, points=points)
    for field in old.info().payload_schema.keys() - new.info().payload_schema.keys():
        new.update(index_of(field))
    offset, written = None, 0
    while True:
        records, offset = old.scroll(ScrollRequest(offset=offset, limit=PAGE, with_payload=True, with_vector=True))
        written += put(new, records)
        if offset is None:
            break
        if written >= part_size(points):
            new.optimize()
            written = 0
    old.close()
    shutil.rmtree(whole)
    return new


def current(home: Path) -> Path:
    """Where the store's shard lies; what an interrupted switch left beside it is removed. Raises RetrievalError."""
    try:
        complete = [folder for folder in _generations(home) if (folder / _COMPLETE).exists()]
    except OSError as error:  # as the engine would say it
        raise RetrievalError(f"cannot open {home}: {error.strerror} (os error {error.errno})") from error
    used = max(complete, key=_number, default=home)
    for folder in _generations(home):
        if folder != used:
            shutil.rmtree(folder, ignore_errors=True)
    if used != home:
        remove(home, home)
    return used


def following(home: Path, used: Path) -> Path:
    """Where the next generation is built."""
    return home / f"{_GENERATION}{_number(used) + 1 if used != home else 1}"


def complete(folder: Path) -> None:
    """From now on a restart takes this generation."""
    (folder / _COMPLETE).touch()


def remove(home: Path, used: Path) -> None:
    """Remove a generation that is no longer used."""
    for path in [used] if used != home else [home / part for part in _PARTS]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _generations(home: Path) -> list[Path]:
    return [folder for folder in home.glob(f"{_GENERATION}*") if folder.name.removeprefix(_GENERATION).isdigit()]


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix(_GENERATION))


def size(opened: "EdgeShard") -> int:
    """Points in the shard."""
    return opened.info().points_count


def part(opened: "EdgeShard") -> int:
    """Points in a segment, roughly: in each of them but the last, which has the latest points."""
    return size(opened) // max(1, opened.info().segments_count - 1)


def scanned(opened: "EdgeShard") -> int:
    """How many of its points no graph holds: the engine counts those in the words' index and those in a graph."""
    info = opened.info()
    return max(0, 2 * info.points_count - info.indexed_vectors_count)


def _move(folder: Path, target: Path) -> None:
    """The shard's files to another folder of the same disk."""
    target.mkdir()
    for name in _PARTS:
        if (folder / name).exists():
            (folder / name).rename(target / name)


def size_mb(folder: Path) -> int:
    """What the shard takes of the disk; holes in its files do not count."""
    return sum(file.stat().st_blocks * 512 for file in files(folder)) // 2**20


def files(folder: Path) -> Iterator[Path]:
    """The shard's files, without those of a generation in the same folder."""
    for part in _PARTS:
        yield from (path for path in [folder / part, *(folder / part).rglob("*")] if path.is_file())


def only(tenant: str, view: View = ALL) -> "Filter":
    """What there is of the tenant in this view."""
    from qdrant_edge import FieldCondition, Filter, MatchAny, MatchPrefix, MatchValue, RangeFloat

    words = Words(Filter, FieldCondition, MatchValue, MatchAny, MatchPrefix, RangeFloat)
    found: Filter = within(words, tenant, view)
    return found


def words_query(query: Any, tenant: str, limit: int, view: View = ALL, *, alone: bool) -> "QueryRequest":
    """The lexical arm's query within one tenant; the rarity of a word is that among the points the caller may read.

    alone: these are all the points there are, so that the engine need not count among them.
    """
    from qdrant_edge import IdfParams, QueryRequest, SearchParams

    params = None if alone else SearchParams(idf=IdfParams(corpus=only(tenant, replace(view, filter=""))))
    return QueryRequest(limit=limit, query=query, filter=only(tenant, view), params=params)


def vector_query(query: Any, tenant: str, limit: int, view: View = ALL, *, part: int) -> "QueryRequest":
    """The dense arm's query within one tenant. part: see `part`."""
    from qdrant_edge import QuantizationSearchParams, QueryRequest, SearchParams

    again = QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
    ef = _SEARCH_EF if part < LARGE else _LARGE_SEARCH_EF if part <= SEGMENT else _LARGEST_SEARCH_EF
    params = SearchParams(hnsw_ef=max(ef, limit), quantization=again)
    return QueryRequest(limit=limit, query=query, filter=only(tenant, view), params=params)


def check_room(path: Path, more_mb: int = 0) -> None:
    """Raise DiskFull before the engine meets a full disk: it dies there by SIGBUS, and the process with it."""
    free_mb = shutil.disk_usage(path).free // 2**20
    if free_mb < ROOM_MB + more_mb:
        raise DiskFull(
            f"the disk of {path} has {free_mb} MB free and the index needs {ROOM_MB + more_mb} MB to work: free some, "
            "then try again; nothing that was finished is lost"
        )


@contextmanager
def engine(doing: str) -> Iterator[None]:
    """Name the engine's errors. It raises `Exception` itself for everything, so the message has to tell them apart.

    A damaged file may make it panic, which reaches Python as a BaseException and would end the process.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        if "WouldBlock" in str(error):
            message = "another process has it open (a running `ragway serve`?). Stop that, or use another --data folder"
            raise DataInUse(f"cannot {doing}: {message}") from error
        if "ncompatible config" in str(error):
            message = "it was made for another embedder. Configure that one, or run `ragway rebuild`"
            raise RetrievalError(f"cannot {doing}: {message} ({error})") from error
        raise RetrievalError(f"cannot {doing}: {error}. If this stays, run `ragway rebuild`") from error
