"""What every store promises: points in, each arm's best points out, tenants strictly separate.

A tenant is a collection's `name@generation`. `tests/contracts/test_store.py` checks these promises on every
implementation:

- when `upsert` returns, its points survive the death of the process (if the store is on disk), and the next search
  finds them. An upsert of a known id replaces that point. A batch with a bad vector is refused before any write;
- `search` returns at most `k` points for each arm, best first, ties by point id. A point's score is cosine similarity
  (dense) or BM25 (lexical). No arm returns points of a tenant outside `tenants`;
- `search` returns only ids and scores; `read` returns passages. Of 100 points found about 12 are used, and reading all
  100 took longer than the search;
- one tenant's BM25 statistics never depend on another. A search of several tenants scores each by its own statistics
  and merges their hits by score;
- a search never finds points outside the caller's view (`records.View`), and returns the k best points in it;
- a point that the lexical arm finds holds at least one query word; without words the lexical arm is empty;
- an unknown tenant is an empty tenant; `delete` and `drop` of unknown points do nothing, and neither touches another
  tenant's points.

A point id belongs to one tenant for good (ids are made from the document). The same id under two tenants is the
caller's bug; the later point replaces the earlier.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from retrieval.records.documents import Passage
from retrieval.records.points import Point, PointPage, Sparse, Vector
from retrieval.records.search import ALL, PUBLIC, ScoredId, View
from retrieval.stores.schema import DENSE


class Store(Protocol):
    """Points of many tenants, searched by a vector and by weighted words at once.

    A store is made for a table of vectors (`stores.schema.Vectors`); each point has one for each row.
    """

    @property
    def verified(self) -> set[str]:
        """Tenants whose points were found complete; a store that learns of a loss empties this set."""
        ...

    async def upsert(self, tenant: str, points: Sequence[Point]) -> None:
        """Write points. Raises ValueError if a vector has the wrong dimension, is not finite or is zero."""
        ...

    async def delete(self, tenant: str, ids: Sequence[str]) -> None: ...

    async def drop(self, tenant: str) -> None:
        """Delete all of a tenant's points."""
        ...

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
        """Return each arm's best `k` points: {"dense": [...], "bm25": [...]}.

        vector: (d,) float32, unit length; None leaves the dense arm empty.
        name: which of a point's vectors to compare; also names this arm in place of "dense".
        words: tenant -> the question's words in its language (`terms.query_vectors`); the lexical arm searches the
            tenants that have any.
        k: 1 or more.

        Raises ValueError if `vector` has another dimension than the store, is not finite or is zero.
        """
        ...

    async def read(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return id -> passage of points that a search found, except those deleted since."""
        ...

    async def vectors(self, ids: Sequence[str], name: str = DENSE) -> dict[str, Vector]:
        """Return id -> vector of this name, (d,) float32, unit length, for points that a search found.

        Deleted points and points with a lost vector are left out.
        """
        ...

    async def count(self, tenant: str) -> int: ...

    async def passages(self, tenant: str, view: View = ALL) -> list[tuple[str, Passage]]:
        """Return every (point id, passage) of a tenant, by id."""
        ...

    async def points(self, tenant: str, after: str, limit: int) -> PointPage:
        """Return at most `limit` of a tenant's whole points, by id, after the id `after` ("": from the first).

        Points with a lost vector are left out.
        """
        ...

    async def close(self) -> None: ...
