"""Point schema for Qdrant Edge and the Qdrant server, filters, and code shared by both stores.

A point has the vectors in its store's table (`Vectors`: today one row, `dense`), the sparse vector `bm25` and, as
payload, the passage's fields, `tenant`, and `groups` if only some readers may read it.

A filter says what a query may find: a tenant, and how much of it is in the caller's view. Both engines have filter
classes with nearly the same names. Conditions on rights come last, beside all others, so that no client input can
change them. A client's attribute filter applies to fields made by `filter_fields`.

Both engines cut a list anywhere between equal scores. To break ties by id, stores request extra hits. The lexical arm,
in which texts with the same words tie, requests `TIES` more. The dense arm, in which ties are rare, requests one more,
and `TIES` more in a second request if the cut falls between equal scores.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import Any

import numpy as np

from retrieval.records import filters
from retrieval.records.documents import Passage
from retrieval.records.filters import (
    MODIFIED,
    AllOf,
    AnyOf,
    Compares,
    Equals,
    Filter,
    Not,
    UnderPath,
    is_number,
    parsed_filter,
    seconds,
)
from retrieval.records.points import Point, PointPage, Sparse, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View

Vectors = Mapping[str, int]  # vector name -> dimension: the vectors of each point in a store
DENSE = "dense"
BM25 = "bm25"
TENANT = "tenant"
ATTRIBUTES = "attributes"
GROUPS = "groups"
SOURCE = "source"
MODIFIED_S = "modified_s"
MARKS, NUMBERS, DATES = "marks", "numbers", "dates"  # of attributes, for filters
# Passage fields that are stored as they are.
_STORED = ("document", "revision", "ordinal", "title", SOURCE, MODIFIED_S, "start", "end", "text", "tokens")
_IF_ANY = ("context", "place", "names")  # also, but not if empty

# points per write: 256 of 384 dimensions take the embedded engine 11-14 ms, in which no other thread runs
BATCH = 256
PAGE = 1000  # points per page of `passages`
SENTINEL_TERM = 0  # term id: in place of no terms, in the embedded engine
MAX_INDEXED_FIELDS = 200  # numeric and date fields; filters by further ones are slower
TIES = 100  # at most this many equal scores at the cut are ordered by id; the engine orders further ones


def payload_of(tenant: str, point: Point) -> dict[str, Any]:
    passage = point.passage
    return {
        TENANT: tenant,
        **{name: getattr(passage, name) for name in _STORED},
        "headings": list(passage.headings),
        **{name: value for name in _IF_ANY if (value := getattr(passage, name))},
        **({ATTRIBUTES: dict(passage.attributes)} if passage.attributes else {}),
        **filter_fields(passage.attributes),
        **({GROUPS: list(passage.groups)} if passage.groups else {}),
    }


def filter_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields for filters: texts and booleans as marks, numbers and dates by name.

    Each field has an index of its kind: without one, a query reads every point's payload.
    """
    marks: list[str] = []
    numbers: dict[str, float] = {}
    dates: dict[str, list[float]] = {}
    for name, value in attributes.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if is_number(item):
                numbers[name] = float(item)
                continue
            marks.append(mark(name, item))
            if isinstance(item, str) and (at := seconds(item)) is not None:
                dates.setdefault(name, []).append(at)
    lists = {MARKS: marks, NUMBERS: numbers, DATES: dates}
    return {field: values for field, values in lists.items() if values}


def mark(name: str, value: str | bool) -> str:
    """Return an attribute with one value as a text; names contain neither : nor !."""
    return f"{name}:{value}" if isinstance(value, str) else f"{name}!{str(value).lower()}"


def indexed_fields(points: Iterable[Point]) -> Iterator[str]:
    """Yield numeric and date fields of these points, with repetitions; each needs an index."""
    for point in points:
        if point.passage.attributes:
            fields = filter_fields(point.passage.attributes)
            yield from (f"{kind}.{name}" for kind in (NUMBERS, DATES) for name in fields.get(kind, ()))


def build_filter(classes: Any, tenant: str, view: View = ALL) -> Any:
    """Return a filter for a tenant's points in the view. classes: the engine's module with filter classes."""
    of_tenant = classes.FieldCondition(key=TENANT, match=classes.MatchValue(value=tenant))
    condition = [_condition(classes, parsed_filter(view.filter))] if view.filter else []
    return classes.Filter(must=[of_tenant, *condition, *_rights(classes, view)])


def _rights(classes: Any, view: View) -> Iterator[Any]:
    if view.groups is None:
        return
    unrestricted = classes.FieldCondition(key=GROUPS, is_empty=True)
    if not view.groups:
        yield unrestricted
        return
    own = classes.FieldCondition(key=GROUPS, match=classes.MatchAny(any=[*view.groups]))
    yield classes.Filter(should=[unrestricted, own])


def _condition(classes: Any, condition: Filter) -> Any:
    match condition:
        case AllOf(parts):
            return classes.Filter(must=[_condition(classes, part) for part in parts])
        case AnyOf(parts):
            return classes.Filter(should=[_condition(classes, part) for part in _joined(parts)])
        case Not(part):
            return classes.Filter(must_not=[_condition(classes, part)])
        case UnderPath(path):
            here = classes.FieldCondition(key=SOURCE, match=classes.MatchValue(value=path))
            below = classes.FieldCondition(key=SOURCE, match=classes.MatchPrefix(prefix=path + "/"))
            return classes.Filter(should=[here, below])
        case Compares(key, how, bound, dated):
            field = MODIFIED_S if key == MODIFIED else f"{DATES if dated else NUMBERS}.{key}"
            return classes.FieldCondition(key=field, range=_range(classes, **{how: bound}))
        case Equals(key, values):
            return classes.Filter(should=[*_equal(classes, key, values)])


def _joined(parts: Iterable[Filter]) -> Iterator[Filter]:
    """The parts of an "or", with one condition for all of a key's values: the engine then looks at a point's key
    once.
    """
    values: dict[str, list[Any]] = {}
    for part in parts:
        if isinstance(part, Equals):
            values.setdefault(part.key, []).extend(part.values)
        else:
            yield part
    yield from (Equals(key, tuple(some)) for key, some in values.items())


def _equal(classes: Any, key: str, values: Sequence[Any]) -> Iterator[Any]:
    texts = [value if key == filters.SOURCE else mark(key, value) for value in values if not is_number(value)]
    if texts:
        yield classes.FieldCondition(key=SOURCE if key == filters.SOURCE else MARKS, match=classes.MatchAny(any=texts))
    for value in values:
        if is_number(value):
            field = MODIFIED_S if key == MODIFIED else f"{NUMBERS}.{key}"
            yield classes.FieldCondition(key=field, range=_range(classes, gte=value, lte=value))


def _range(classes: Any, **bounds: float) -> Any:
    return (classes.RangeFloat if hasattr(classes, "RangeFloat") else classes.Range)(**bounds)


def passage_of(payload: Mapping[str, Any]) -> Passage:
    fields = {name: payload[name] for name in _STORED}
    fields[MODIFIED_S] = float(fields[MODIFIED_S])  # another client's JSON may have turned 3.0 into 3
    return Passage(
        **fields,
        headings=tuple(payload["headings"]),
        attributes=payload.get(ATTRIBUTES, {}),
        groups=tuple(payload.get(GROUPS, ())),
        **{name: payload.get(name, "") for name in _IF_ANY},
    )


def _point(record: Any, names: Iterable[str]) -> Point:
    vectors = {name: np.asarray(record.vector[name], np.float32) for name in names}
    return Point(str(record.id), passage_of(record.payload or {}), vectors, _sparse(record.vector[BM25]))


def _sparse(vector: Any) -> Sparse:
    indices = tuple(vector.indices)
    return Sparse((), ()) if indices == (SENTINEL_TERM,) else Sparse(indices, tuple(vector.values))


def checked(vector: Any, dimension: int) -> list[float]:
    """Return a vector in the form that both engines accept.

    Raises ValueError: the engines silently accept NaN and find no points.
    """
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dimension,):
        raise ValueError(f"vector of shape {array.shape}, expected {dimension} dimensions: use the store's embedder")
    if not np.isfinite(array).all():
        raise ValueError("vector with NaN or infinity: expected finite numbers; the embedder returned a bad vector")
    if not array.any():
        raise ValueError("vector of length zero: expected unit length")
    numbers: list[float] = array.tolist()
    return numbers


def checked_points(points: Sequence[Point], vectors: Vectors) -> list[tuple[Point, dict[str, list[float]]]]:
    return [(point, {name: checked(point.vectors[name], d) for name, d in vectors.items()}) for point in points]


@dataclass(frozen=True, slots=True)
class EngineSearch:
    """A search, as lists to request from the engine: (arm, tenant) -> length."""

    numbers: Mapping[str, list[float]]  # arm -> vector
    sparse: Mapping[str, Sparse]  # tenant -> words
    view: View
    k: int
    lengths: Mapping[tuple[str, str], int]


def with_ties(points: Sequence[Any], k: int) -> list[ScoredId]:
    """Return an engine's points, best first: the first k, and further ones with the k-th score."""
    lowest_score = points[k - 1].score if len(points) > k else -inf
    # `str` of a UUID takes 2 us
    return [ScoredId(str(point.id), point.score) for point in points if point.score >= lowest_score]


def extended(question: EngineSearch, lists: Mapping[tuple[str, str], Sequence[ScoredId]]) -> EngineSearch | None:
    """Return a question for vector lists that are cut between equal scores. lists: from `with_ties`."""
    k = question.k
    longer = {of: k + TIES for of, points in lists.items() if of[0] != BM25 and len(points) > k}
    return replace(question, lengths=longer) if longer else None


def best(lists: Iterable[Sequence[ScoredId]], k: int) -> list[ScoredId]:
    """Return the k best points from all lists, best first, ties by id."""
    return sorted(chain.from_iterable(lists), key=lambda point: (-point.score, point.id))[:k]


class EngineStore(ABC):
    """What is the same in a store over both engines; see `retrieval.stores.base.Store` for the promises."""

    _vectors: Vectors
    _indexed_fields: set[str]  # numeric and date fields that this process has indexed

    @abstractmethod
    async def _records(self, ids: Sequence[str], *, vectors: Sequence[str] = ()) -> list[Any]:
        """Return existing records, with payloads, or with only the named vectors."""

    @abstractmethod
    async def _query_lists(self, question: EngineSearch) -> dict[tuple[str, str], Sequence[Any]]:
        """Return (arm, tenant) -> the engine's points, best first."""

    @abstractmethod
    async def _page(
        self, tenant: str, offset: Any, limit: int, view: View = ALL, *, vectors: bool = False
    ) -> tuple[list[Any], Any]:
        """Return at most `limit` records by id from an offset, and the next offset (None: no further records)."""

    async def search(
        self,
        tenants: Sequence[str],
        vector: Vector | None,
        words: Mapping[str, Sparse],
        *,
        k: int,
        view: View = PUBLIC,
        name: str = DENSE,
    ) -> Mapping[str, list[ScoredId]]:
        if k < 1:
            raise ValueError(f"k is {k}, expected 1 or more")
        numbers = {} if vector is None else {name: checked(vector, self._vectors[name])}
        lengths = {(arm, tenant): k + 1 for arm in numbers for tenant in tenants}
        lengths |= {(BM25, tenant): k + TIES for tenant in tenants if tenant in words and words[tenant].indices}
        question = EngineSearch(numbers, words, view, k, lengths)
        lists = {of: with_ties(points, k) for of, points in (await self._query_lists(question)).items()}
        if longer := extended(question, lists):
            lists |= {of: with_ties(points, k) for of, points in (await self._query_lists(longer)).items()}
        return {arm: best((points for (of, _), points in lists.items() if of == arm), k) for arm in (name, BM25)}

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        return {str(record.id): passage_of(record.payload or {}) for record in await self._records(ids)}

    async def vectors(self, ids: Sequence[str], name: str = DENSE) -> dict[str, Vector]:
        lists = [(record.id, (record.vector or {}).get(name)) for record in await self._records(ids, vectors=[name])]
        return {str(id): np.asarray(vector, np.float32) for id, vector in lists if vector is not None}

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        passages: list[tuple[str, Passage]] = []
        offset: Any = None
        while True:
            records, offset = await self._page(tenant, offset, PAGE, view)
            passages += [(str(record.id), passage_of(record.payload or {})) for record in records]
            if offset is None:
                return sorted(passages, key=lambda pair: pair[0])

    async def points(self, tenant: str, after: str, limit: int) -> PointPage:
        records, _ = await self._page(tenant, after or None, limit + 2, vectors=True)  # the first may be `after`
        further = [record for record in records if str(record.id) > after]
        page = further[:limit]
        whole = [record for record in page if self._vectors.keys() <= (record.vector or {}).keys()]
        points = [_point(record, self._vectors) for record in whole]
        return PointPage(points, str(page[-1].id) if len(further) > limit else "")

    def _fields_to_index(self, points: Sequence[Point]) -> list[str]:
        """Return these points' numeric and date fields that no index finds yet, within the limit."""
        known = self._indexed_fields
        return sorted({*indexed_fields(points)} - known)[: MAX_INDEXED_FIELDS - len(known)]
