"""What every store promises: points in, the best of each arm out, one tenant never seen from another.

A tenant is `name@generation` of a collection. Promises, checked by `tests/contracts/test_store.py` on every
implementation:

- when `upsert` returns, the points survive the death of the process (where the store is on disk) and the next search
  finds them; an upsert of a known id replaces it; a batch with a bad vector is refused before anything is written;
- `search` returns for each arm at most `k` points, best first, ties by point id; a point's score is cosine similarity
  (dense) or BM25 (lexical), and no arm returns a point of a tenant that was not asked for;
- it returns ids and scores alone, and `read` the passages of those worth reading: of 100 points found some 12 are
  used, and reading all of them cost more than finding them;
- one tenant's BM25 statistics never depend on another's; asked for several, each is scored by its own and the hits
  are merged by score;
- what is not in the caller's view (`records.View`) is not found: the k best are the k best of what is;
- a point the lexical arm finds holds at least one of the words searched; without words that arm is empty;
- an unknown tenant is an empty one; `delete` and `drop` of what is not there do nothing, and neither touches another
  tenant's points.

A point id belongs to one tenant for good (ids are made from the document): the same id under two tenants is a bug of
the caller, and the later point replaces the earlier.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from retrieval.records.documents import Passage
from retrieval.records.points import Point, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View


class Store(Protocol):
    """Points of many tenants, searched by a dense vector and by weighted words at once."""

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        """Write the points; raises ValueError if a vector has another dimension, is not finite or is zero."""
        ...

    async def delete(self, tenant: str, ids: Sequence[str]) -> None: ...

    async def drop(self, tenant: str) -> None:
        """Delete every point of the tenant."""
        ...

    async def search(
        self,
        tenants: Sequence[str],
        vector: Vector | None,
        terms: Sequence[tuple[str, float]],
        *,
        k: int,
        view: View = PUBLIC,
    ) -> Mapping[str, list[ScoredId]]:
        """The best `k` of each arm: {"dense": [...], "bm25": [...]}.

        vector: (d,) float32, unit length; None leaves the dense arm empty. terms: (text, weight) pieces whose words
        are searched. k: 1 or more.
        Raises ValueError if the vector has another dimension than the store, is not finite or is zero.
        """
        ...

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage of points that a search found; those deleted since then are left out."""
        ...

    async def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Id -> dense vector, (d,) float32, unit length, of points that a search found.

        Those deleted are left out, and those whose vector is lost.
        """
        ...

    async def count(self, tenant: str) -> int: ...

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        """Every (point id, passage) of the tenant, by id."""
        ...

    async def close(self) -> None: ...
