"""What every store promises: points in, the best points of each arm out, tenants strictly separate.

A tenant is `name@generation` of a collection. `tests/contracts/test_store.py` checks these promises on every
implementation:

- when `upsert` returns, the points survive the death of the process (if the store is on disk), and the next search
  finds the points. An upsert of a known id replaces the point. A batch with a bad vector is refused before any write;
- `search` returns for each arm at most `k` points, best first, ties by point id. A point's score is cosine similarity
  (dense) or BM25 (lexical). No arm returns a point of a tenant outside `tenants`;
- `search` returns ids and scores alone; `read` returns passages. Of 100 points found about 12 are used, and reading
  all 100 took longer than the search;
- one tenant's BM25 statistics never depend on another tenant. A search of several tenants scores each tenant by the
  tenant's own statistics and merges the hits by score;
- a search never finds points outside the caller's view (`records.View`), and returns the k best points in the view;
- a point that the lexical arm finds holds at least one of the query's words; without words the lexical arm is empty;
- an unknown tenant is an empty tenant; `delete` and `drop` of unknown points do nothing, and neither touches another
  tenant's points.

A point id belongs to one tenant for good (ids are made from the document). The same id under two tenants is a bug of
the caller; the later point replaces the earlier point.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from retrieval.records.documents import Passage
from retrieval.records.points import Point, PointPage, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View
from retrieval.stores.schema import DENSE


class Store(Protocol):
    """Points of many tenants, searched by a vector and by weighted words at the same time.

    A store is made for a table of vectors (`stores.schema.Vectors`); each point has a vector for each row.
    """

    @property
    def verified(self) -> set[str]:
        """Tenants whose points were found complete; a store that learns of a loss empties the set."""
        ...

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        """Write the points. Raises ValueError if a vector has the wrong dimension, is not finite or is zero."""
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
        name: str = DENSE,
    ) -> Mapping[str, list[ScoredId]]:
        """Return the best `k` points of each arm: {"dense": [...], "bm25": [...]}.

        vector: (d,) float32, unit length; None leaves the dense arm empty.
        name: which of the points' vectors to compare, and the name of the arm in place of "dense".
        terms: (text, weight) pieces; the lexical arm searches the words of the texts.
        k: 1 or more.

        Raises ValueError if the vector has another dimension than the store, is not finite or is zero.
        """
        ...

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return id -> passage of points that a search found, without points deleted since."""
        ...

    async def vectors(self, ids: Sequence[str], name: str = DENSE) -> dict[str, Vector]:
        """Return id -> vector of this name, (d,) float32, unit length, of points that a search found.

        Deleted points and points with a lost vector are left out.
        """
        ...

    async def count(self, tenant: str) -> int: ...

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        """Return every (point id, passage) of the tenant, by id."""
        ...

    async def points(self, tenant: str, after: str, limit: int) -> PointPage:
        """Return at most `limit` whole points of the tenant, by id, after the id `after` ("": from the first).

        Points with a lost vector are left out.
        """
        ...

    async def close(self) -> None: ...
