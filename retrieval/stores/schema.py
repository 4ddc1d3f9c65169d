"""The point schema for Qdrant Edge and the Qdrant server, filters, and code shared by both stores.

A point has the dense vector `dense`, the sparse vector `bm25` and, as payload, the passage's fields, `tenant`, and
`groups` if only some readers may read the passage.

A filter says what a query may find: the tenant, and the part of the tenant in the caller's view. Both engines have
filter classes with nearly the same names. The conditions on rights come last, beside all other conditions, so that no
client input can change the rights. A client's attribute filter applies to the fields made by `filter_fields`.

Both engines cut a list between equal scores at any place. To break ties by id the stores request extra hits. The
lexical arm, where texts with the same words tie, requests `TIES` more. The dense arm, where ties are rare, requests
one more, and `TIES` more in a second request if the cut falls between two equal scores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Any

import numpy as np

from retrieval import filters
from retrieval.filters import (
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
from retrieval.records.documents import Passage
from retrieval.records.points import Point, Sparse, Vector
from retrieval.records.search import ALL, ScoredId, View

DENSE = "dense"
BM25 = "bm25"
TENANT = "tenant"
ATTRIBUTES = "attributes"
GROUPS = "groups"
SOURCE = "source"
MODIFIED_S = "modified_s"
MARKS, NUMBERS, DATES = "marks", "numbers", "dates"  # of attributes, for filters

# points per write: 256 points of 384 dimensions take the embedded engine 11-14 ms, in which no other thread runs
BATCH = 256
PAGE = 1000  # points per page of `passages`
MAX_INDEXED_FIELDS = 200  # numeric and date fields; filters by further fields are slower
TIES = 100  # at most this many equal scores at the cut are ordered by id; the engine orders further ones


def payload_of(tenant: str, point: Point) -> dict[str, Any]:
    passage = point.passage
    return {
        TENANT: tenant,
        "document": passage.document,
        "revision": passage.revision,
        "ordinal": passage.ordinal,
        "title": passage.title,
        SOURCE: passage.source,
        MODIFIED_S: passage.modified_s,
        "headings": list(passage.headings),
        "start": passage.start,
        "end": passage.end,
        "text": passage.text,
        "tokens": passage.tokens,
        **({"context": passage.context} if passage.context else {}),
        **({ATTRIBUTES: dict(passage.attributes)} if passage.attributes else {}),
        **filter_fields(passage.attributes),
        **({GROUPS: list(passage.groups)} if passage.groups else {}),
    }


def filter_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields for filters: texts and booleans as marks, numbers and dates by name.

    Each field has an index of its kind: without an index a query reads the payload of every point.
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
    """Yield the numeric and date fields of these points, with repetitions; each field needs an index."""
    for point in points:
        if point.passage.attributes:
            fields = filter_fields(point.passage.attributes)
            yield from (f"{kind}.{name}" for kind in (NUMBERS, DATES) for name in fields.get(kind, ()))


@dataclass(frozen=True, slots=True)
class FilterClasses:
    """An engine's classes for filters."""

    Filter: Any
    FieldCondition: Any
    MatchValue: Any
    MatchAny: Any
    MatchPrefix: Any
    Range: Any


def build_filter(classes: FilterClasses, tenant: str, view: View = ALL) -> Any:
    """Return the filter for a tenant's points in the view."""
    of_tenant = classes.FieldCondition(key=TENANT, match=classes.MatchValue(value=tenant))
    condition = [_condition(classes, parsed_filter(view.filter))] if view.filter else []
    return classes.Filter(must=[of_tenant, *condition, *_rights(classes, view)])


def _rights(classes: FilterClasses, view: View) -> Iterator[Any]:
    if view.groups is None:
        return
    unrestricted = classes.FieldCondition(key=GROUPS, is_empty=True)
    if not view.groups:
        yield unrestricted
        return
    own = classes.FieldCondition(key=GROUPS, match=classes.MatchAny(any=[*view.groups]))
    yield classes.Filter(should=[unrestricted, own])


def _condition(classes: FilterClasses, condition: Filter) -> Any:
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
            return classes.FieldCondition(key=field, range=classes.Range(**{how: bound}))
        case Equals(key, values):
            return classes.Filter(should=[*_equal(classes, key, values)])


def _joined(parts: Iterable[Filter]) -> Iterator[Filter]:
    """The parts of an "or", with one condition for all values of a key: the engine then looks at a point's key once."""
    values: dict[str, list[Any]] = {}
    for part in parts:
        if isinstance(part, Equals):
            values.setdefault(part.key, []).extend(part.values)
        else:
            yield part
    yield from (Equals(key, tuple(some)) for key, some in values.items())


def _equal(classes: FilterClasses, key: str, values: Sequence[Any]) -> Iterator[Any]:
    texts = [value if key == filters.SOURCE else mark(key, value) for value in values if not is_number(value)]
    if texts:
        yield classes.FieldCondition(key=SOURCE if key == filters.SOURCE else MARKS, match=classes.MatchAny(any=texts))
    for value in values:
        if is_number(value):
            field = MODIFIED_S if key == MODIFIED else f"{NUMBERS}.{key}"
            yield classes.FieldCondition(key=field, range=classes.Range(gte=value, lte=value))


def passage_of(payload: Mapping[str, Any]) -> Passage:
    return Passage(
        document=payload["document"],
        revision=payload["revision"],
        ordinal=payload["ordinal"],
        title=payload["title"],
        source=payload["source"],
        modified_s=float(payload["modified_s"]),  # JSON of another client may have turned 3.0 into 3
        headings=tuple(payload["headings"]),
        start=payload["start"],
        end=payload["end"],
        text=payload["text"],
        tokens=payload["tokens"],
        attributes=payload.get(ATTRIBUTES, {}),
        groups=tuple(payload.get(GROUPS, ())),
        context=payload.get("context", ""),
    )


def vectors_of(records: Iterable[Any]) -> dict[str, Vector]:
    """Return id -> dense vector of the records with a vector: a damaged shard has records without vectors."""
    lists = ((str(record.id), (record.vector or {}).get(DENSE)) for record in records)
    return {id: np.asarray(vector, np.float32) for id, vector in lists if vector is not None}


def checked(vector: Any, dimension: int) -> list[float]:
    """Return the vector as the engines accept vectors.

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


def checked_points(points: Sequence[Point], dimension: int) -> list[tuple[Point, list[float]]]:
    return [(point, checked(point.dense, dimension)) for point in points]


def checked_k(k: int) -> int:
    if k < 1:
        raise ValueError(f"k is {k}, expected 1 or more")
    return k


def list_lengths(
    tenants: Sequence[str], k: int, *, dense: bool, sparse: Mapping[str, Sparse]
) -> dict[tuple[str, str], int]:
    """Return (arm, tenant) -> length of each list that a search requests; a query without words has no lexical list."""
    lengths = {(DENSE, tenant): k + 1 for tenant in tenants if dense}
    return lengths | {(BM25, tenant): k + TIES for tenant in tenants if sparse[tenant].indices}


def with_ties(points: Sequence[Any], k: int) -> list[ScoredId]:
    """Return an engine's points, best first: the first k, and further points with the score of the k-th point."""
    lowest_score = points[k - 1].score if len(points) > k else -inf
    # `str` of a UUID takes 2 us
    return [ScoredId(str(point.id), point.score) for point in points if point.score >= lowest_score]


def lists_to_extend(lists: Mapping[tuple[str, str], Sequence[ScoredId]], k: int) -> dict[tuple[str, str], int]:
    """Return the dense lists cut between equal scores, with the length of the next request. lists: from `with_ties`."""
    return {of: k + TIES for of, points in lists.items() if of[0] == DENSE and len(points) > k}


def by_arm(lists: Mapping[tuple[str, str], Sequence[ScoredId]], k: int) -> dict[str, list[ScoredId]]:
    """Return the k best points of all tenants for each arm."""
    return {arm: best((points for (of, _), points in lists.items() if of == arm), k) for arm in (DENSE, BM25)}


def best(lists: Iterable[Sequence[ScoredId]], k: int) -> list[ScoredId]:
    """Return the k best points of all lists, best first, ties by id."""
    return sorted(chain.from_iterable(lists), key=lambda point: (-point.score, point.id))[:k]
