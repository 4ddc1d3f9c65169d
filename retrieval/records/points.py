"""A passage with its vectors, as a store keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrieval.records.documents import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
else:
    Vector = object  # importing numpy takes 0.1 s and 24 MB; a hint does not need it


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: `values[i]` stands at dimension `indices[i]`; indices are distinct."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One passage with its vectors."""

    id: str  # UUID
    passage: Passage
    vectors: Mapping[str, Vector]  # by name in the store's table of vectors: (d,) float32, unit length
    sparse: Sparse  # BM25 term weights of `lexical_text`


@dataclass(frozen=True, slots=True)
class PointPage:
    """A tenant's points, by id."""

    points: list[Point]
    after: str  # id after which the next page begins; "": this page is the last


@dataclass(frozen=True, slots=True)
class PointFaults:
    """Faults in a collection's points in a store."""

    missing: int  # points that the catalog has and the store lacks
    orphaned: tuple[str, ...]  # ids of points that belong to no current document
    damaged: int  # points whose text is not the document's, or whose vector is invalid
    tenants: tuple[str, ...]  # unused generations that still have points
    unfinished: bool  # whether a build of the next generation was begun and not finished

    @property
    def searchable(self) -> bool:
        """Whether the collection can stay as it is, orphans aside."""
        return not self.missing and not self.damaged
