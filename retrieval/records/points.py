"""A passage with vectors, as a store keeps both."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrieval.records.documents import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
else:
    Vector = object  # importing numpy takes 0.1 s and 24 MB; a hint does not need numpy


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: `values[i]` stands at dimension `indices[i]`; indices are distinct."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One passage with both vectors."""

    id: str  # UUID
    passage: Passage
    dense: Vector  # (d,) float32, unit length
    sparse: Sparse  # BM25 term weights of `lexical_text`
