"""One point schema for Qdrant Edge and the Qdrant server, and what both stores do alike around it.

A point has the dense vector `dense`, the sparse vector `bm25` and, as payload, the passage's fields, `tenant`, and
`groups` where not everybody may read it.
Both engines cut a list of equal scores where they like. To break ties by id the stores ask for more hits than wanted:
of the lexical arm, where texts of the same words tie, for `TIES` more; of the dense one, where ties are rare, for one,
and where the cut falls between two equal scores again for `TIES` more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any

import numpy as np

from retrieval.filters import is_number, seconds
from retrieval.records.documents import Passage
from retrieval.records.points import Point, Sparse, Vector
from retrieval.records.search import ScoredId

DENSE = "dense"
BM25 = "bm25"
TENANT = "tenant"
ATTRIBUTES = "attributes"
GROUPS = "groups"
SOURCE = "source"
MODIFIED_S = "modified_s"
MARKS, NUMBERS, DATES = "marks", "numbers", "dates"  # of the attributes, for filters: see `conditions`

BATCH = 256  # points a write: 256 of 384 dimensions take the embedded engine 11-14 ms, in which no other thread runs
PAGE = 1000  # points read at a time by `passages`
MOST_INDEXED = 200  # fields of numbers and dates; filters by others are slower
TIES = 100  # equal scores at the cut are ordered by id as far as this; beyond, the engine's choice stands


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
        **described(passage.attributes),
        **({GROUPS: list(passage.groups)} if passage.groups else {}),
    }


def described(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that filters ask: texts and truth values as marks, numbers and dates by name.

    Each has an index of its kind: without one a query reads the payload of every point.
    """
    marks: list[str] = []
    numbers: dict[str, float] = {}
    dates: dict[str, list[float]] = {}
    for name, value in attributes.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if is_number(one):
                numbers[name] = float(one)
                continue
            marks.append(mark(name, one))
            if isinstance(one, str) and (at := seconds(one)) is not None:
                dates.setdefault(name, []).append(at)
    found = {MARKS: marks, NUMBERS: numbers, DATES: dates}
    return {field: values for field, values in found.items() if values}


def mark(name: str, value: str | bool) -> str:
    """An attribute and a value of it as one text; no name has a : or ! in it."""
    return f"{name}:{value}" if isinstance(value, str) else f"{name}!{str(value).lower()}"


def indexed(points: Iterable[Point]) -> Iterator[str]:
    """The fields of numbers and dates that these points have, each to be indexed by itself; the same ones repeat."""
    for point in points:
        if point.passage.attributes:
            made = described(point.passage.attributes)
            yield from (f"{kind}.{name}" for kind in (NUMBERS, DATES) for name in made.get(kind, ()))


def passage_of(payload: Mapping[str, Any]) -> Passage:
    return Passage(
        document=payload["document"],
        revision=payload["revision"],
        ordinal=payload["ordinal"],
        title=payload["title"],
        source=payload["source"],
        modified_s=float(payload["modified_s"]),  # JSON of another client may have made 3.0 a 3
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
    """Id -> dense vector of each of an engine's records that has one: a damaged shard has records without."""
    found = ((str(record.id), (record.vector or {}).get(DENSE)) for record in records)
    return {id: np.asarray(vector, np.float32) for id, vector in found if vector is not None}


def checked(vector: Any, dimension: int) -> list[float]:
    """The vector as the engines take it. Raises ValueError: the engines take NaN in silence and find nothing by it."""
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dimension,):
        raise ValueError(f"vector of shape {array.shape} in a store of {dimension} dimensions: another embedder's?")
    if not np.isfinite(array).all():
        raise ValueError("vector with NaN or infinity: expected finite numbers; the embedder returned a bad vector")
    if not array.any():
        raise ValueError("vector of length zero: expected unit length; nothing is near or far from it")
    numbers: list[float] = array.tolist()
    return numbers


def checked_points(points: Sequence[Point], dimension: int) -> list[tuple[Point, list[float]]]:
    return [(point, checked(point.dense, dimension)) for point in points]


def checked_k(k: int) -> int:
    if k < 1:
        raise ValueError(f"k is {k}, expected 1 or more")
    return k


def limits(tenants: Sequence[str], k: int, *, dense: bool, sparse: Mapping[str, Sparse]) -> dict[tuple[str, str], int]:
    """(arm, tenant) of each list that a search asks for, with its length; no word, no lexical list."""
    asked = {(DENSE, tenant): k + 1 for tenant in tenants if dense}
    return asked | {(BM25, tenant): k + TIES for tenant in tenants if sparse[tenant].indices}


def tied(points: Sequence[Any], k: int) -> list[ScoredId]:
    """An engine's points, best first: the first k, and behind them those of the k-th's score."""
    least = points[k - 1].score if len(points) > k else -inf
    return [ScoredId(str(point.id), point.score) for point in points if point.score >= least]  # a UUID takes 2 us


def longer(found: Mapping[tuple[str, str], Sequence[ScoredId]], k: int) -> dict[tuple[str, str], int]:
    """The dense lists that were cut between equal scores, with the length to ask for again. found: as by `tied`."""
    return {of: k + TIES for of, points in found.items() if of[0] == DENSE and len(points) > k}


def by_arm(found: Mapping[tuple[str, str], Sequence[ScoredId]], k: int) -> dict[str, list[ScoredId]]:
    """Of each arm the k best points of all tenants."""
    return {arm: best((points for (of, _), points in found.items() if of == arm), k) for arm in (DENSE, BM25)}


def best(lists: Iterable[Sequence[ScoredId]], k: int) -> list[ScoredId]:
    """The k best points of all lists, best first, ties by id."""
    return sorted(chain.from_iterable(lists), key=lambda point: (-point.score, point.id))[:k]
